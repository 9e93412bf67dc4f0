from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

class Runs:
    total: int
    size: int
    period_x: int
    period_y: int
    per_period: int
    def __init__(
        self,
        x: NDArray[np.int64],
        y: NDArray[np.int64],
        length: NDArray[np.int64],
        period_x: int,
        period_y: int,
        total: int,
    ) -> None: ...
    def expand(self) -> NDArray[np.int64]: ...
    def side(self, target: bool) -> NDArray[np.int64]: ...

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
