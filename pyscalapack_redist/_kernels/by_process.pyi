import numpy as np
from numpy.typing import NDArray

from .runs import Runs

def shared(a: object, b: object, p: int, largest: int) -> list[SharedRuns]: ...
def shared_families(families: NDArray[np.int64], elements: NDArray[np.int64], n: int) -> list[SharedRuns]: ...

class SharedRuns:
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
