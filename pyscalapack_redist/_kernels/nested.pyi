import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

def nested_levels(
    left: Ints,
    right: Ints,
    length: Ints,
    lefts: int,
    rights: int,
    preferred: Ints,
    cost: Ints,
    steps: Ints,
    tries: int,
    deadline: float,
    raised: NDArray[np.uint8],
    firm: bool,
) -> Ints: ...
