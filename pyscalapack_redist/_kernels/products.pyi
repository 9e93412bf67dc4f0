from collections.abc import Sequence

from .by_process import Shared
from .runs import Runs

Coords = tuple[int, ...]

def products(dims: list[list[Shared]]) -> list[tuple[Coords, Coords, tuple[Shared, ...]]]: ...
def runs_of_all(dims: Sequence[Shared], kind: str) -> list[Runs]: ...
def number_of(coords: Coords, shape: Coords) -> int: ...
