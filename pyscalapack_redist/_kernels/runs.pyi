import numpy as np
from numpy.typing import NDArray

from .boxes import Runs

_Numbers = tuple[int, int, int, int]

def runs(name: str, window: int, a: _Numbers, b: _Numbers, p: int) -> tuple[NDArray[np.int64], int]: ...
def families(window: int, a: _Numbers, b: _Numbers, p: int) -> NDArray[np.int64]: ...
def shared(a: object, b: object, p: int, largest: int) -> list[Shared]: ...

class Shared:
    remote: int
    first: int
    start_a: NDArray[np.int64]
    start_b: NDArray[np.int64]
    length: NDArray[np.int64]
    period_a: int
    period_b: int
    total: int
    packed: Runs
    unpacked: Runs
    copied: Runs

class Complete:
    def __init__(self, name: str, window: int, a: _Numbers, b: _Numbers) -> None: ...
    def __call__(self) -> tuple[int, int]: ...
