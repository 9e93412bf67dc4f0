import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

def ejected(
    left: Ints,
    right: Ints,
    lefts: int,
    rights: int,
    widest: Ints,
    steps: Ints,
    level: Ints,
    moves: int,
    seed: int,
    deadline: float,
) -> int: ...
