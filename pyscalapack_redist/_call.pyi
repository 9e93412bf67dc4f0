from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._bundle import Origins
from ._traffic import Traffic

DISSENT: object

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
