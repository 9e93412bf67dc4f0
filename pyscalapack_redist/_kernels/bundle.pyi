from collections.abc import Sequence

import numpy as np

from .boxes import Blend, Box
from .stores import Stores

Part = tuple[int, Box, Sequence[int] | None, Sequence[int] | None, Sequence[int], int, Blend | None]

class Origins:
    count: int
    def __init__(self, count: int) -> None: ...
    def put(self, number: int, source: int, target: int) -> None: ...
    def pair(self, number: int) -> tuple[int, int]: ...

def dense_strides(shape: Sequence[int], order: Sequence[int], item: int) -> tuple[int, ...]: ...
def address_of(array: np.ndarray) -> int: ...

class Bundle:
    size: int
    largest_element: int
    stores: Stores | None
    copy_piece: int
    pattern: tuple[bool, bool, int]
    def __init__(self, parts: list[Part], dense: str) -> None: ...
    def end_of_piece(self, first: int, most: int) -> int: ...
    def move(self, origins: Origins, dense: int, first: int, last: int) -> None: ...
