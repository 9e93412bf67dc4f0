from typing import Any

import numpy as np
from numpy.typing import NDArray

NUMBERS_OF_A_VOTE: int

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
