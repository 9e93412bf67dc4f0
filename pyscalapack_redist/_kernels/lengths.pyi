import numpy as np
from numpy.typing import NDArray

def add_lengths(
    table: NDArray[np.int64],
    elements: int,
    r: int,
    left_r: int,
    p: int,
    s: int,
    left_s: int,
    q: int,
    sign: int,
) -> None: ...
