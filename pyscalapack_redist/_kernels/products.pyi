from collections.abc import Sequence

from .by_process import SharedRuns
from .runs import Runs

Coords = tuple[int, ...]

def products(dims: list[list[SharedRuns]]) -> list[tuple[Coords, Coords, tuple[SharedRuns, ...]]]: ...
def runs_of_all(dims: Sequence[SharedRuns], kind: str) -> list[Runs]: ...
def number_of(coords: Coords, shape: Coords) -> int: ...
