from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._copy import Blend, Box

NUMBERS_OF_A_VOTE: int
DISSENT: object

def bytes_needed(size: int, area: int) -> int: ...

class Ring:
    rank: int
    size: int
    area: int
    spins: int
    left: bool
    def __init__(self, memory: Any, rank: int, size: int, area: int, spins: int) -> None: ...
    def break_off(self) -> None: ...
    def broken_by(self) -> int | None: ...

class Vote:
    number: int
    def __init__(self, ring: Ring, mine: NDArray[np.int64], all: NDArray[np.int64]) -> None: ...
    def Test(self, block: bool = False) -> bool: ...  # noqa: N802 - as MPI's requests are asked

class Traffic:
    ring: Ring
    bytes_used: int
    def __init__(
        self,
        ring: Ring,
        sends: list[tuple[int, Box]],
        receives: list[tuple[int, Box]],
        copies: list[tuple[int, Box]],
        source_strides: Sequence[int],
        target_strides: Sequence[int],
        order: Sequence[int],
        item: int,
        dense_sends: list[list[int]],
        dense_receives: list[list[int]],
        *,
        limit: int,
        most_slots: int,
        stream: bool,
        blend: Blend | None = None,
    ) -> None: ...
    def begin(self, source: int, target: int, mark: int = 0, timed: bool = False) -> None: ...
    def spent(self) -> tuple[float, float, float]: ...
    def advance(self, block: bool) -> bool: ...

class Call:
    outcome: list[int]
    def __init__(
        self,
        traffic: Traffic,
        a: NDArray[Any] | None,
        out: NDArray[Any] | None,
        make: Callable[[np.dtype[Any]], NDArray[Any]] | None,
        ballot: NDArray[np.int64],
        expected: NDArray[np.int64],
        look_around: Callable[[], None],
    ) -> None: ...
    def __call__(self, a: object, out: object) -> Any: ...
