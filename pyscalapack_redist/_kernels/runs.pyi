import numpy as np
from numpy.typing import NDArray

class Runs:
    total: int
    size: int
    period_x: int
    period_y: int
    per_period: int
    def __init__(
        self,
        x: NDArray[np.int64],
        y: NDArray[np.int64],
        length: NDArray[np.int64],
        period_x: int,
        period_y: int,
        total: int,
    ) -> None: ...
    def expand(self) -> NDArray[np.int64]: ...
    def side(self, target: bool) -> NDArray[np.int64]: ...
