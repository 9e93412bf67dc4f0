"""What a named set of cases consists of: the cases, what is compared on them, and how the whole is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..cases import Case
from .methods import Method
from .plot import plot
from .results import Results

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["GRIDS", "Suite", "squares"]

# Before and after, by their ranks.
GRIDS = {2: ("1x2", "2x1"), 4: ("2x2", "1x4"), 8: ("2x4", "4x2"), 16: ("4x4", "2x8")}


def squares(orders_and_blocks: Iterable[tuple[int, int, int]]) -> tuple[Case, ...]:
    """Square matrices on all GRIDS: of each order, from blocks of one size to blocks of another. Not collective."""
    some = list(orders_and_blocks)
    return tuple(Case.read((n, n), f"{a}:{r}x{r}", f"{b}:{s}x{s}") for a, b in GRIDS.values() for n, r, s in some)


@dataclass(frozen=True)
class Suite:
    """A named set of cases.

    Attributes
    ----------
    cases, quick : tuple of Case
        For one number of ranks or several; a run takes those for its own. Fewer and smaller ones for `--quick`, if any.
    methods : tuple of Method
        What is compared where the command line names nothing; empty for the benchmark's own choice.
    calls : int or None
        Calls in a row that one time is the mean of; None to choose by the size of the arrays.
    tables, plot : callable
        From results to headings and tables that look at all cases together; from results and a path to a picture.
    plans : str
        When plans are made, in words.
    variant : callable
        From a method, named on the command line or not, to what is timed in its place.
    machines : tuple of int
        Numbers of ranks that it is for, ascending: a case for fewer runs on the first of them that has enough. Empty where
        each case runs on just as many as it needs.
    between_hosts : bool
        Whether the links' limit is of interest without being asked for.
    """

    cases: tuple[Case, ...]
    quick: tuple[Case, ...] = ()
    methods: tuple[Method, ...] = ()
    calls: int | None = None
    tables: Callable[[Results], Sequence[tuple[str, Table]]] = lambda results: ()
    plot: Callable[[Results, str], None] = plot
    plans: str = "made before timing and reused"
    variant: Callable[[Method], Method] = lambda method: method
    machines: tuple[int, ...] = ()
    between_hosts: bool = False

    def ranks_for(self, case: Case) -> int:
        """The number of ranks on which a case is run. Not collective."""
        return next((ranks for ranks in self.machines if ranks >= case.ranks), case.ranks)
