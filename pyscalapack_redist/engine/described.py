"""What a plan says of itself: its layouts, messages and reports, and pictures of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import DTypeLike

from ..comm.group import Group
from ..drawing.svg import beside, table
from ..exchanges import Message
from ..layout.letters import transposes
from ..schedules.orders import CombinedOrder, Order
from .layouts import descriptors, has_tiles
from .operation import Part
from .pictures import draw_plans, region_of
from .planner import messages_of as planned
from .reporting import Leg, messages_of, report_of, totals_of
from .stages import Move, Pair, Stage

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Described"]

LARGEST_RANK = 2**62


class Described:
    """What a plan says of itself. Not collective, but for a report of all ranks."""

    plans: tuple[Any, ...] = ()
    _group: Group | None
    _pairs: tuple[Pair, ...]
    _stages: tuple[Stage, ...]
    _moves: tuple[Move, ...]
    _why: str
    _listed: bool
    _memory_limit: int
    _seconds: float | None
    _direct: Stage | None = None  # with `via=`: the stage that moves every element once

    @property
    def desc_a(self) -> Any:
        """Layout before; of a batch, that of its first plan."""
        return self._pairs[0].desc_a

    @property
    def desc_b(self) -> Any:
        """Layout after; of a batch, that of its first plan."""
        return self._pairs[0].desc_b

    @property
    def op(self) -> str:
        """Operation on A."""
        return self._pairs[0].op

    @property
    def part(self) -> Part | None:
        """The trapezoid of A that is moved."""
        return self._pairs[0].part

    @property
    def schedule(self) -> Order:
        """Order of the messages; with several moves, those of all of them."""
        orders = [move.order for move in self._moves]
        return orders[0] if len(orders) == 1 else CombinedOrder(orders)

    @property
    def messages(self) -> dict[str, tuple[Message, ...]]:
        """This rank's messages: "send", "receive" and "copy" (from its own A to its own B), stage by stage. Not collective."""
        return messages_of(self._moves)

    @property
    def legs(self) -> tuple[Leg, ...]:
        """The stages of a plan with `via=`, in order."""
        return tuple(Leg(self, stage, stage.moves[0]) for stage in self._stages)

    def messages_of(self, rank: int) -> dict[str, tuple[Message, ...]]:
        """The messages of a rank, as `messages` has this one's; none of one outside both layouts. Not collective.

        Parameters
        ----------
        rank : int
            Of the layouts' communicator; on paper, one of the numbers in `ProcessGrid.ranks`. The `peer` of a message is
            numbered as in `messages`; on paper it is such a rank.

        Raises
        ------
        DescriptorError
            A layout is of tiles.
        """
        number = range(LARGEST_RANK) if self._group is None else self._group.number
        return messages_of([_seen_by(move, rank, number) for move in self._moves])

    def report(self, dtype: DTypeLike | Sequence[DTypeLike] | None = None, *, all_ranks: bool = False) -> Any:
        """What this rank moves and what it costs. Not collective, but with `all_ranks`: then over the plan's ranks.

        Parameters
        ----------
        dtype : dtype or list of dtype, optional
            Of the elements; by default the plan's own, else float64. Of a batch, for all plans or for each. With
            `all_ranks` it is enough that one rank gives it or knows it.
        all_ranks : bool
            The figures of all ranks together, and how far the busiest is from the mean: `Totals` in place of each `Report`
            and of a `BatchReport`. On a rank that has no part in the plan None. On paper always so, and nobody is asked.

        Returns
        -------
        Report, ChainReport, FilledReport, BatchReport or Totals
            Of a plan; of one with `via=`; of one with `fill=`; of a batch; of all ranks, or on paper.

        Raises
        ------
        ArrayError
            The list is not of one dtype for each plan.
        CollectiveError
            With `all_ranks`: another rank found this, or ranks give different dtypes. Every rank raises.
        """
        return totals_of(self, dtype) if all_ranks else report_of(self, dtype)

    def plot(self) -> Figure:
        """Draw the array before and after, blocks in the colours of their ranks, and what goes from rank to rank.

        Both pictures show the same elements; the heat map counts all of them, in all legs. Of a batch, a row for each plan.
        Not collective.

        Returns
        -------
        matplotlib.figure.Figure
            A figure of `matplotlib.pyplot`, which can be saved and shown.

        Raises
        ------
        LibraryError
            Matplotlib is not installed.
        DescriptorError
            A layout is of tiles.
        """
        return draw_plans(self.plans if self._listed else [self])

    def _rows(self) -> list[tuple[str, str]]:
        """What a table says of the plan."""
        pair = self._pairs[0]
        rows = [("from", repr(pair.desc_a)), ("to", repr(pair.desc_b))]
        rows += [("op", pair.op)] if pair.op != "N" else []
        if pair.part is not None:
            rows.append(("part", f"uplo {pair.part.uplo}, diag {pair.part.diag}, fill {pair.fill}"))
        if len(self._stages) > 1:
            rows.append(("legs", str(len(self._stages))))
        return [*rows, ("schedule / exchange", f"{self.schedule.name} / {self._how} ({self._why})")]

    @property
    def _how(self) -> str:
        """How the bytes move."""
        return self._stages[0].exchange.name

    def _repr_html_(self) -> str:
        if self._listed:
            rows = [(f"plan {k}", repr(plan)) for k, plan in enumerate(self.plans)]
            return table("batch", [*rows, ("exchange", f"{self._how} ({self._why})")])
        pair, said = self._pairs[0], table(type(self).__name__, self._rows())
        if has_tiles(pair.desc_a, pair.desc_b):
            return said
        region = region_of(self, html=True)
        a, b = descriptors(pair.desc_a, pair.desc_b, "a picture")
        before = a._svg(region[::-1] if transposes(pair.op) else region, "before")
        return beside(said, beside(before, b._svg(region, "after")))

    def __repr__(self) -> str:
        if self._listed:
            return f"batch({', '.join(map(repr, self.plans))})"
        return f"Redistribution({self.desc_a!r} -> {self.desc_b!r}, {self.schedule.name}/{self._how})"


def _seen_by(move: Move, rank: int, number: Mapping[int, int] | range) -> Move:
    """A move with the messages of that rank."""
    before, after = descriptors(move.moved, move.desc_b, "messages_of(rank)")
    a, b = before._seen_by(rank), after._seen_by(rank)
    order = move.order.of(a.place, b.place)
    return move._replace(messages=planned(a, b, rank, number, order, move.edge))
