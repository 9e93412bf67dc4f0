"""Plans that consume A: a stage for each panel, after which the panel's pages of the local A are given back to the system."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from .._kernels.bundle import address_of
from .._kernels.pages import give_back, keep_small
from ..comm.group import Group
from ..diagnostics import log
from ..exchanges import Exchange, ExchangeOptions, Extents
from ..layout.descriptor import Descriptor
from ..layout.letters import transposes
from .local_arrays import BY_COLUMNS, window
from .messages import Arrays, RankMessages
from .ownership import why_not_given_back
from .panels import PANELS, Panel, excess
from .stages import ArrayKind, Move, Stage

LOGGER = logging.getLogger(__name__)
LARGE = 2**20  # bytes of an array from which its pages matter
LONGEST = 2**20  # elements along a dimension whose panels are compared with others


class PanelStage(Stage):
    """The stage of one panel. Its moves are those of the whole; what is bound are the messages of the panel.

    Parameters
    ----------
    whole : Move
        The move of all elements.
    number : int
        That of the panel.
    make : callable
        The messages of a panel.
    order : {"C", "F"} or None
        Of the elements of a new B; None is that of A.
    dimensions : dict
        Those of op(A) along which panels are, by order of elements and bytes of one: the same for all panels of a plan.
    exchange, options, group
        As for `Stage`.
    """

    def __init__(
        self,
        whole: Move,
        number: int,
        make: Callable[[Panel], tuple[RankMessages, Arrays]],
        order: str | None,
        dimensions: dict[tuple[int, int], int],
        exchange: type[Exchange],
        options: ExchangeOptions,
        group: Group | None,
    ) -> None:
        super().__init__([whole], exchange, options, group)
        self._number, self._make, self._order = number, make, order
        self._parts: dict[int, Stage] = {}  # by dimension
        self._dimensions = dimensions

    def with_options(self, options: ExchangeOptions, exchange: type[Exchange] | None = None) -> Self:
        """As for `Stage`."""
        stage = super().with_options(options, exchange)
        stage._parts = {}
        return stage

    @property
    def extents(self) -> Extents:
        """Those of all panels: a process may send into one, and receive from another."""
        return super().extents._replace(unbalanced=1)

    def panel(self, element_order: int, item_bytes: int) -> Panel:
        """The panel, for arrays whose columns (BY_COLUMNS) or rows are contiguous in op(A)."""
        key = element_order, item_bytes
        if key not in self._dimensions:
            self._dimensions[key] = self._dimension(*key)
        return Panel(self._dimensions[key], self._number, PANELS)

    def _dimension(self, element_order: int, item_bytes: int) -> int:
        """A's slowest, whose pages go whole; where orders cross B's slowest, if that needs less."""
        move = self.moves[0]
        a, b, slowest = move.op_layout, move.desc_b, slowest_dimension(move, element_order)
        slowest_of_b = {"C": 0, "F": b.ndim - 1, None: slowest}[self._order]
        if slowest == slowest_of_b or not isinstance(a, Descriptor) or not isinstance(b, Descriptor):
            return slowest
        if max(b.shape[slowest], b.shape[slowest_of_b]) > LONGEST:
            return slowest
        more = excess(a, b, slowest, False, item_bytes), excess(a, b, slowest_of_b, True, item_bytes)
        return slowest if more[0] <= more[1] + 0.5 / PANELS else slowest_of_b

    def make_exchange(
        self, kind: ArrayKind, element_order: int, item_bytes: int, exchange_type: type[Exchange] | None = None
    ) -> Exchange:
        """As for `Stage`; the messages of the panel are made here."""
        panel = self.panel(element_order, item_bytes)
        part = self._parts.get(panel.dimension)
        if part is None:
            move = self.moves[0]._replace(messages=self._make(panel)[0])
            part = self._parts[panel.dimension] = Stage([move], self.exchange, self.options, self._group)
        return part.make_exchange(kind, element_order, item_bytes, exchange_type)


class ConsumedArray:
    """This rank's local array of A, whose pages go back to the system panel by panel.

    Parameters
    ----------
    move : Move
        The move of all elements.
    array, target : ndarray or None
        The local arrays of A and B.
    dimension, slowest : int
        Those of op(A) along which the panels are, and whose elements are farthest from one another.
    """

    def __init__(self, move: Move, array: Any, target: Any, dimension: int, slowest: int) -> None:
        desc, layout = move.desc_a, move.op_layout
        self._nbytes = 0  # of pages that go back
        if not isinstance(desc, Descriptor) or not isinstance(layout, Descriptor) or layout.coords is None:
            return
        (own,) = desc.own_arrays(array)
        if own is None or not own.size:
            return
        part = window(own, desc)
        part = part.T if transposes(move.op) else part
        self._nbytes = part.nbytes
        if desc.parent is not None:
            self._keep("it is a part of an array")
            return
        if reason := why_not_given_back(part, slowest, [target]):
            self._keep(reason)
            return
        self._axis, self._place = layout.distributions[dimension], layout.coords[dimension]
        self._stride = part.strides[dimension]
        self._origin = address_of(part) - self._axis.local_start(self._place) * self._stride
        self._lines = 1 if dimension == slowest else part.size // part.shape[dimension]

    def give_back(self, panel: Panel) -> None:
        """Give the pages of a panel back, or say once why not."""
        if not self._nbytes:
            return
        first, last = panel.bounds(self._axis, self._place)
        start = self._axis.local_start(self._place)
        nbytes, before = (last - first) * self._stride, (first - start) * self._stride
        piece: tuple[int, ...] = self._origin + first * self._stride, nbytes, before, self._nbytes // self._lines, self._lines
        if panel.number == panel.panels - 1:  # of lines what shares a page with the next one, too
            piece = self._origin + start * self._stride, self._nbytes
        if not give_back(*piece) and nbytes >= LARGE // PANELS:
            self._keep("the system takes no pages back")

    def _keep(self, reason: str) -> None:
        """Give nothing back from now on, and say why if it matters."""
        if self._nbytes >= LARGE:
            log(LOGGER, logging.WARNING, "overwrite=True: this rank's array keeps its memory, since %s", reason)
        self._nbytes = 0


def slowest_dimension(move: Move, element_order: int) -> int:
    """That of op(A) whose elements are farthest from one another, where columns (BY_COLUMNS) or rows are contiguous."""
    return move.desc_a.ndim - 1 if element_order == BY_COLUMNS else 0


def take_single_pages(array: Any) -> None:
    """Let a new array take memory page by page as it is written."""
    if isinstance(array, np.ndarray) and array.nbytes >= LARGE:
        keep_small(address_of(array), array.nbytes)
