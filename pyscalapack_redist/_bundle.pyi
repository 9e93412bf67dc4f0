from collections.abc import Sequence

from ._copy import Blend, Box

Part = tuple[int, Box, Sequence[int], Sequence[int], Sequence[int], int, Blend | None]

class Origins:
    count: int
    def __init__(self, count: int) -> None: ...
    def put(self, number: int, source: int, target: int) -> None: ...

class Bundle:
    size: int
    largest_element: int
    def __init__(self, parts: list[Part], dense: str) -> None: ...
    def end_of_piece(self, first: int, most: int) -> int: ...
    def move(self, origins: Origins, dense: int, first: int, last: int) -> None: ...
