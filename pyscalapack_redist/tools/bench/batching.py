"""What a batch gains: 16 matrices of one layout redistributed one by one, by as many calls of a plan, and as a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...engine.batch import batch
from ...engine.redistribute import Redistribution, redistribute
from .case import Case
from .figures import ratio_text, time_text
from .layout import Layout
from .methods import Method, Prepared
from .results import MethodResult, Results
from .stage import Stage, poison
from .suite import Suite
from .terminal import new_table

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["BATCH", "Apart", "Together"]

MATRICES = 16
GRIDS = {2: ("1x2", "2x1"), 4: ("2x2", "1x4"), 8: ("2x4", "4x2"), 16: ("4x4", "2x8")}
ORDERS_AND_BLOCKS = ((64, 16), (128, 32), (256, 64), (512, 64), (1024, 64))
QUICK = ((64, 16), (160, 32))
EXCHANGES = ("auto", "nonblocking")
CALLS = 8  # that each time is the mean of


class _Many(Prepared):
    """As many copies of A as there are matrices, each with an output of its own."""

    def __init__(self, stage: Stage, exchange: str) -> None:
        super().__init__(stage)
        self.plan: Redistribution = redistribute(stage.desc_a, stage.desc_b, dtype=stage.case.dtype, exchange=exchange)
        self.arrays, self.outs = _copies(stage.a), _copies(stage.out)

    def poison(self) -> None:
        for one in self.outs:
            poison(one)

    def correct(self) -> bool:
        return all(self.stage.matches(one) for one in self.outs)


class _Apart(_Many):
    @property
    def extra_bytes(self) -> int | None:
        size: int = self.plan.report(self.stage.case.dtype).extra_bytes
        return size

    def __call__(self) -> None:
        for a, out in zip(self.arrays, self.outs, strict=True):
            self.plan(a, out)


class _Together(_Many):
    def __init__(self, stage: Stage, exchange: str) -> None:
        super().__init__(stage, exchange)
        self.batch = batch(*[self.plan] * MATRICES, exchange=exchange)

    @property
    def extra_bytes(self) -> int | None:
        size: int = self.batch.report(self.stage.case.dtype).extra_bytes
        return size

    def __call__(self) -> None:
        self.batch(self.arrays, self.outs)


def _copies(array: NDArray[Any] | None) -> list[NDArray[Any] | None]:
    return [None if array is None else np.copy(array, order="K") for _ in range(MATRICES)]


class _Method(Method):
    words: ClassVar[str]
    made: ClassVar[type[_Many]]

    def __init__(self, exchange: str = "auto") -> None:
        self.name = self.words if exchange == "auto" else f"{self.words}, {exchange}"
        self._exchange = exchange

    def prepare(self, stage: Stage) -> Prepared:
        """Make the plan and the arrays. Collective."""
        return self.made(stage, self._exchange)


class Apart(_Method):
    """One call after another."""

    words = "one by one"
    made = _Apart


class Together(_Method):
    """One batch."""

    words = "batch"
    made = _Together


def tables(results: Results) -> Sequence[tuple[str, Table]]:
    """Both times in each case, and how many times as fast the batch is. Not collective."""
    table = new_table(("each matrix", "exchange"), ("one by one", "batch", "times as fast"))
    for result in results.cases:
        for exchange in EXCHANGES:
            apart, together = (result.method(one(exchange).name) for one in (Apart, Together))
            if apart is not None and together is not None:
                gained = (apart.least / together.least, apart.median / together.median)
                table.add_row(
                    str(result.case), exchange, *map(_times, (apart, together)), " / ".join(map(ratio_text, gained))
                )
    return [(f"{MATRICES} matrices, minimum / median times:", table)]


def _times(one: MethodResult) -> str:
    return f"{time_text(one.least)} / {time_text(one.median)}"


def _cases(sizes: Sequence[tuple[int, int]]) -> tuple[Case, ...]:
    return tuple(
        Case((n, n), Layout.parse(f"{a}:{block}x{block}"), Layout.parse(f"{b}:{block}x{block}"))
        for a, b in GRIDS.values()
        for n, block in sizes
    )


BATCH = Suite(
    cases=_cases(ORDERS_AND_BLOCKS),
    quick=_cases(QUICK),
    methods=tuple(method(exchange) for exchange in EXCHANGES for method in (Apart, Together)),
    calls=CALLS,
    tables=tables,
)
