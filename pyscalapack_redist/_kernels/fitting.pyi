import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

FITS: int
TOO_MANY: int
UNKNOWN: int

def fits(left: Ints, right: Ints, widest: Ints, room: Ints, nodes: int, level: Ints) -> int: ...
def minimal(left: Ints, right: Ints, widest: Ints, room: Ints, nodes: int) -> NDArray[np.uint8]: ...
