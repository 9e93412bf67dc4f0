"""Projection to a lower dimension (Birkeland & Sorevik, 2007, section 4), and what it costs.

An array of N^4 float64 on P x P processes goes from blocks along its first two dimensions to blocks along the last two, so
both dimensions of the grid move: at once; one after the other (section 3.2), by two plans or by one with via="dimensions";
or as a matrix of N^2 x N^2 on P^2 processes in a row. Merged dimensions have blocks of one size only where the slower of
the two is dealt out in blocks of 1, so an array that is held otherwise has to move first, and back. `projection` is for
arrays that are held as it needs them, `to it and back` for others, `view` what it takes to see four dimensions as two.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pyscalapack_redist import redistribute
from pyscalapack_redist.layout.descriptor import Descriptor
from pyscalapack_redist.layout.grid import ProcessGrid
from pyscalapack_redist.layout.notation import LayoutText
from pyscalapack_redist.tools.bench.methods import Method, Prepared
from pyscalapack_redist.tools.bench.rank_case import RankCase, poison
from pyscalapack_redist.tools.bench.results import Results, means
from pyscalapack_redist.tools.bench.suites import Suite
from pyscalapack_redist.tools.cases import Case
from pyscalapack_redist.tools.text import new_table, time_text

from .birkeland_model import Load

if TYPE_CHECKING:
    from rich.table import Table

SIZES = {2: (12, 24, 36), 3: (6, 12, 24, 36), 4: (8, 12, 24, 36)}  # N by the side of the grid, which divides it
QUICK = 12
AT_ONCE, ONE_BY_ONE, VIA, PROJECTION, AROUND, VIEW = WAYS = (
    "at once",
    "one after the other",
    "via dimensions",
    "projection",
    "to it and back",
    "view",
)
FIRST, BETWEEN, LAST = (0, 1, None, None), (0, None, None, 1), (None, None, 0, 1)
Array = NDArray[Any]


def case_of(n: int, side: int) -> Case:
    """Blocks along the first two dimensions of n^4 elements, then along the last two. Not collective."""
    block = -(-n // side)
    before, after = (block, block, n, n), (n, n, block, block)
    one = (1, 1, side, side)
    return Case((n,) * 4, LayoutText(one[::-1], before, (0,) * 4), LayoutText(one, after, (0,) * 4))


def side_of(case: Case) -> int:
    """Processes along each dimension of a case's grid. Not collective."""
    return case.before.grid[0]


def layouts(n: int, grid: ProcessGrid) -> dict[str, Descriptor]:
    """Of n^4 elements on a square grid: the first and the last, the one between, and both that are matrices as well."""
    shape, dealt = (n,) * 4, (n // grid.shape[0], 1)
    return {
        "first": Descriptor(shape, None, grid, axes=FIRST),
        "between": Descriptor(shape, None, grid, axes=BETWEEN),
        "last": Descriptor(shape, None, grid, axes=LAST),
        "first, dealt out": Descriptor(shape, (*dealt, None, None), grid, axes=FIRST),
        "last, dealt out": Descriptor(shape, (None, None, *dealt), grid, axes=LAST),
    }


def matrix(desc: Descriptor) -> Descriptor:
    """The layout of four dimensions as one of two. Not collective."""
    return desc.merge(2, 3).merge(0, 1)


def loads(n: int, side: int) -> dict[str, Load]:
    """What the process that sends most sends by each way: counted in plans on paper. Not collective."""
    made = layouts(n, ProcessGrid((side, side)))
    dealt = made["first, dealt out"], made["last, dealt out"]
    across = (matrix(dealt[0]), matrix(dealt[1]))
    legs = {
        AT_ONCE: [(made["first"], made["last"])],
        ONE_BY_ONE: [(made["first"], made["between"]), (made["between"], made["last"])],
        PROJECTION: [across],
        AROUND: [(made["first"], dealt[0]), across, (dealt[1], made["last"])],
    }
    reports = {way: [redistribute(a, b, dtype=np.float64).report() for a, b in pairs] for way, pairs in legs.items()}
    return {way: Load.total([Load(one.most_messages, one.most_sent) for one in some]) for way, some in reports.items()}


def _layouts(rank_case: RankCase) -> dict[str, Descriptor]:
    side = side_of(rank_case.case)
    return layouts(rank_case.case.shape[0], ProcessGrid((side, side), rank_case.comm))


def _at_once(rank_case: RankCase, via: str | None = None) -> Prepared:
    """One plan from the first layout to the last."""
    made = _layouts(rank_case)
    plan = redistribute(made["first"], made["last"], dtype=rank_case.case.dtype, via=via)
    return Prepared(rank_case, lambda: plan(rank_case.a, rank_case.out))


def _in_turn(rank_case: RankCase) -> Prepared:
    """A plan for each dimension of the grid, and an array between them."""
    dtype, made = rank_case.case.dtype, _layouts(rank_case)
    between = made["between"].empty(dtype)
    first = redistribute(made["first"], made["between"], dtype=dtype)
    second = redistribute(made["between"], made["last"], dtype=dtype)

    def run() -> None:
        first(rank_case.a, between)
        second(between, rank_case.out)

    return Prepared(rank_case, run, between.nbytes)


class _Projected(Prepared):
    """Through layouts that are matrices too: into the first, from it to the second as matrices, and out of that."""

    def __init__(self, rank_case: RankCase) -> None:
        super().__init__(rank_case)
        case = rank_case.case
        made = _layouts(rank_case)
        self.descs = [made["first, dealt out"], made["last, dealt out"]]
        self._held = [desc.empty(case.dtype) for desc in self.descs]
        self.extra_bytes = sum(array.nbytes for array in self._held)
        flat, self._matrices = self.seen()
        self._into = redistribute(made["first"], self.descs[0], dtype=case.dtype)
        self._across = redistribute(flat[0], flat[1], dtype=case.dtype)
        self._out = redistribute(self.descs[1], made["last"], dtype=case.dtype)
        self._into(rank_case.a, self._held[0])

    def seen(self) -> tuple[list[Descriptor], list[Array]]:
        """Both layouts and their arrays with two dimensions for four. Not collective."""
        flat = [matrix(desc) for desc in self.descs]
        return flat, [array.reshape(desc.local_shape, order="F") for array, desc in zip(self._held, flat, strict=True)]

    def across(self) -> None:
        """From the one matrix to the other. Collective."""
        self._across(*self._matrices)

    def __call__(self) -> None:
        self._into(self.rank_case.a, self._held[0])
        self.across()
        self._out(self._held[1], self.rank_case.out)

    def poison(self) -> None:
        super().poison()
        poison(self._held[1])


class _Across(_Projected):
    """The matrices alone; their elements come from the first layout before, and go to the last to be verified."""

    def __call__(self) -> None:
        self.across()

    def correct(self) -> bool:
        self._out(self._held[1], self.rank_case.out)
        return super().correct()


class _View(_Projected):
    """No element moves: descriptors are merged and arrays reshaped, anew in each call."""

    def __call__(self) -> None:
        self.seen()

    def correct(self) -> bool:
        return all(np.shares_memory(a, b) for a, b in zip(self._held, self.seen()[1], strict=True))


def _obstacle(case: Case) -> str | None:
    """A case whose matrices would not have blocks of one size, or that is not of this suite."""
    n, side = case.shape[0], side_of(case)
    if case.before.size != side**2 or case != case_of(n, side):
        return f"{case}: it must be {case_of(n, side)}, or of another size"
    if n % side:
        return f"{n} elements in each dimension must be a multiple of {side}, or merged dimensions have unequal blocks"
    return None


def tables(results: Results) -> Sequence[tuple[str, Table]]:
    """Times of each way, and the price of the projection. Not collective."""
    ratios = (f"{PROJECTION} / {AT_ONCE}", f"{AROUND} / {AT_ONCE}")
    table = new_table(("processes", "N"), (*WAYS, *ratios))
    told = new_table(("processes", "N"), (f"messages, bytes: {AT_ONCE}", ONE_BY_ONE, AROUND))
    columns = {way: results.column(way) for way in WAYS}
    for k, result in enumerate(results.cases):
        n, side = result.case.shape[0], side_of(result.case)
        times = [column[k] for column in columns.values()]
        over = [means((columns[way] / columns[AT_ONCE])[[k]]) for way in (PROJECTION, AROUND)]
        cells = ("-" if np.isnan(time[0]) else " / ".join(map(time_text, time)) for time in times)
        table.add_row(f"{side} x {side}", str(n), *cells, *over)
        sent = loads(n, side)
        figures = (f"{sent[way].messages:g}, {sent[way].bytes:,.0f}" for way in (AT_ONCE, ONE_BY_ONE, AROUND))
        told.add_row(f"{side} x {side}", str(n), *figures)
    return [("minimum / median times:", table), ("what the process that sends most sends:", told)]


BIRKELAND_PROJECTION = Suite(
    cases=tuple(case_of(n, side) for side, sizes in SIZES.items() for n in sizes),
    quick=tuple(case_of(QUICK, side) for side in SIZES),
    methods=(
        Method(AT_ONCE, _at_once, _obstacle),
        Method(ONE_BY_ONE, _in_turn, _obstacle),
        Method(VIA, functools.partial(_at_once, via="dimensions"), _obstacle),
        Method(PROJECTION, _Across, _obstacle),
        Method(AROUND, _Projected, _obstacle),
        Method(VIEW, _View, _obstacle),
    ),
    tables=tables,
)
