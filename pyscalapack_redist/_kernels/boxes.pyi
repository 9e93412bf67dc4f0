from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from .runs import Runs

class Blend:
    key: tuple[str, complex, complex, bool]
    def __init__(self, dtype: str, alpha: complex, beta: complex, conjugate: bool) -> None: ...

class Box:
    runs: tuple[Runs, ...]
    size: int
    def __init__(self, runs: Iterable[Runs]) -> None: ...
    def shape(self) -> tuple[int, ...]: ...
    def move(
        self,
        source: int,
        source_strides: Sequence[int],
        target: int,
        target_strides: Sequence[int],
        item: int,
        order: Sequence[int],
        first: int,
        last: int,
        stream: bool = False,
        blend: Blend | None = None,
    ) -> None: ...

class Trapezoid(Box):
    dense: str
    def __init__(
        self,
        runs: Iterable[Runs],
        rows: NDArray[np.int64],
        columns: NDArray[np.int64],
        upper: bool,
        diagonal: int,
        dense: str,
    ) -> None: ...
