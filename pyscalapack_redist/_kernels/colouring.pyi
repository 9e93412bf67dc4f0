import numpy as np
from numpy.typing import NDArray

def colour_edges(
    left: NDArray[np.int64], right: NDArray[np.int64], lefts: int, rights: int, colours: int
) -> NDArray[np.int64]: ...
def occurrences(key: NDArray[np.int64], keys: int) -> NDArray[np.int64]: ...
