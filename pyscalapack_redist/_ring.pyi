from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._bundle import Bundle, Origins

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
        sends: list[tuple[int, Bundle]],
        receives: list[tuple[int, Bundle]],
        copies: list[Bundle],
        *,
        limit: int,
        most_slots: int,
        stream: bool,
        shortest: int,
    ) -> None: ...
    def begin(self, origins: Origins, mark: int = 0, timed: bool = False) -> None: ...
    def spent(self) -> tuple[float, float, float]: ...
    def advance(self, block: bool) -> bool: ...

class Kinds:
    count: int
    def __init__(
        self,
        arrays: Sequence[NDArray[Any] | None],
        outs: Sequence[NDArray[Any] | None],
        makes: Sequence[Callable[[np.dtype[Any]], NDArray[Any]] | None],
    ) -> None: ...
    def match(self, arrays: list[Any], outs: list[Any]) -> tuple[list[NDArray[Any] | None], Origins] | None: ...

class Call:
    outcome: list[int]
    def __init__(
        self,
        traffic: Traffic,
        kinds: Kinds,
        ballot: NDArray[np.int64],
        expected: NDArray[np.int64],
        look_around: Callable[[], None],
    ) -> None: ...
    def __call__(self, a: object, out: object) -> Any: ...
    def many(self, arrays: list[Any], outs: list[Any]) -> Any: ...
