"""Which cases are timed: those of today's suites, as data that any version of the package can be given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:  # older versions, with which the driver imports this file, do not have these
    from pyscalapack_redist.layout.notation import LayoutText
    from pyscalapack_redist.tools.cases import Case

BROAD = {2: 12, 4: 6, 8: 6, 16: 6}  # cases of the suite, for each number of ranks
WAYS = "call", "agreed first", "first use", "start and wait", "two in flight"
SMALL = 64, 512  # rows of the squares that are timed on all numbers of ranks


class Side(NamedTuple):
    """A block-cyclic layout on a grid of all ranks, row by row; of a sub-array where `whole` is not empty."""

    grid: tuple[int, ...]
    block: tuple[int, ...]
    source: tuple[int, ...]
    whole: tuple[int, ...]
    offset: tuple[int, ...]
    order: str


class TimedCase(NamedTuple):
    """A redistribution that is timed.

    Attributes
    ----------
    way : str
        What is timed: a "call" of a plan, a plan that is made and used "once", its "first use" alone, a call of a plan that is
        "agreed first", "start and wait", or "two in flight".
    nodes : bool
        Whether the ranks are taken for those of two nodes.
    """

    suite: str
    text: str
    ranks: int
    shape: tuple[int, ...]
    dtype: str
    before: Side
    after: Side
    way: str
    nodes: bool = False

    @property
    def key(self) -> str:
        """What tells it from all others."""
        return f"{self.suite}, {self.ranks} ranks: {self.text}"

    def as_json(self) -> dict[str, Any]:
        """Numbers, texts and lists only."""
        return {**self._asdict(), "before": self.before._asdict(), "after": self.after._asdict()}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> TimedCase:
        """The case that `as_json` wrote."""
        sides = {name: Side(**_with_tuples(fields[name])) for name in ("before", "after")}
        return cls(**{**_with_tuples(fields), **sides})


def _with_tuples(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}


def all_cases() -> list[TimedCase]:
    """`facts`, small squares on all numbers of ranks, plans used once, thirty of `broad`, and ways to use a plan."""
    from pyscalapack_redist.tools.bench.suites import SUITES

    facts, once, broad = (SUITES[name].cases for name in ("facts", "once", "broad"))
    blocks = [case for case in once if case.before.block != (1, 1)]
    small = [case for case in blocks if case.shape[0] in SMALL and case not in facts]
    lists = {"facts": facts, "small": small, "once": blocks, "broad": list(_spread(broad))}
    timed = [_timed(suite, case) for suite, cases in lists.items() for case in cases]
    return timed + list(_uses(blocks))


def _spread(cases: Sequence[Case]) -> Iterator[Case]:
    """So many cases for each number of ranks as `BROAD` says, evenly out of all."""
    for ranks, count in BROAD.items():
        some = [case for case in cases if case.ranks == ranks]
        yield from some[:: max(1, len(some) // count)][:count]


def _uses(cases: Sequence[Case]) -> Iterator[TimedCase]:
    """Ways to use a plan, of squares on two ranks: the small ones on one node, all of them between two."""
    for case in cases:
        if case.ranks == 2:
            ways = WAYS[2:] if case.shape[0] in SMALL else ()
            yield from (_timed("uses", case, way) for way in ways)
            yield from (_timed("uses", case, way, nodes=True) for way in WAYS)


def _timed(suite: str, case: Case, way: str = "call", nodes: bool = False) -> TimedCase:
    before, after = _side(case.before, case.ranks), _side(case.after, case.ranks)
    text = f"{case.array}, {case.before} -> {case.after}"
    if suite == "uses":
        text += f", {way}{' between nodes' if nodes else ''}"
    elif suite == "once":
        way = "once"
    return TimedCase(suite, text, case.ranks, case.shape, case.dtype.str, before, after, way, nodes)


def _side(layout: LayoutText, ranks: int) -> Side:
    """The layout as numbers. All ranks must be in it, and its blocks of one size, so that every version has it."""
    if layout.size != ranks or layout.copied or not all(isinstance(size, int) for size in layout.block):
        raise ValueError(f"{layout} is not block-cyclic on all of {ranks} ranks: the driver cannot time it")
    return Side(layout.grid, layout.block, layout.source, layout.whole, layout.offset, layout.order)


def selection(cases: Sequence[TimedCase], only: Sequence[str], ranks: Sequence[int]) -> list[TimedCase]:
    """The cases of any of these suites, or with any of these texts in their description, on these numbers of ranks."""
    return [
        case
        for case in cases
        if (not ranks or case.ranks in ranks) and (not only or any(o == case.suite or o in case.text for o in only))
    ]
