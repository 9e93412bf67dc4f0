import numpy as np
from numpy.typing import NDArray

def shared_runs(
    window: int,
    block_a: int,
    processes_a: int,
    source_a: int,
    offset_a: int,
    block_b: int,
    processes_b: int,
    source_b: int,
    offset_b: int,
    p: int,
) -> list[NDArray[np.int64]]: ...
