"""What a batch gains: 16 matrices of one layout redistributed one by one, by as many calls of a plan, and as a batch."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pyscalapack_redist import batch
from pyscalapack_redist.tools.bench.methods import Method, Planned
from pyscalapack_redist.tools.bench.results import Results, count, means
from pyscalapack_redist.tools.bench.stage import Stage, poison
from pyscalapack_redist.tools.bench.suites import Suite, squares
from pyscalapack_redist.tools.text import new_table, time_text

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["BATCH"]

MATRICES = 16
ORDERS_AND_BLOCKS = ((64, 16, 16), (128, 32, 32), (256, 64, 64), (512, 64, 64), (1024, 64, 64))
QUICK = ((64, 16, 16), (160, 32, 32))
EXCHANGES = {"auto": "", "nonblocking": ", nonblocking"}  # and how the methods' names end
CALLS = 8  # that each time is the mean of


class _Separate(Planned):
    """One call after another, on as many copies of A as there are matrices, each with an output of its own."""

    def __init__(self, stage: Stage, exchange: str) -> None:
        super().__init__(stage, ("auto", exchange))
        self.arrays, self.outs = _copies(stage.a), _copies(stage.out)

    def __call__(self) -> None:
        for a, out in zip(self.arrays, self.outs, strict=True):
            self.plan(a, out)

    def poison(self) -> None:
        for out in self.outs:
            poison(out)

    def correct(self) -> bool:
        return all(map(self.stage.matches, self.outs))


class _Together(_Separate):
    """One batch."""

    def __init__(self, stage: Stage, exchange: str) -> None:
        super().__init__(stage, exchange)
        self.batch = batch(*[self.plan] * MATRICES, exchange=exchange)
        self.extra_bytes = self.batch.report(stage.case.dtype).extra_bytes

    def __call__(self) -> None:
        self.batch(self.arrays, self.outs)


def _copies(array: NDArray[Any] | None) -> list[NDArray[Any] | None]:
    return [None if array is None else np.copy(array, order="K") for _ in range(MATRICES)]


def tables(results: Results) -> Sequence[tuple[str, Table]]:
    """Both times in each case, and how many times as fast the batch is. Not collective."""
    table = new_table(("each matrix", "exchange"), ("one by one", "batch", "times as fast"))
    for k, result in enumerate(results.cases):
        for exchange, ending in EXCHANGES.items():
            separate, together = (results.column(name + ending)[[k]] for name in ("one by one", "batch"))
            if count(separate / together):
                figures = (" / ".join(map(time_text, column[0])) for column in (separate, together))
                table.add_row(str(result.case), exchange, *figures, means(separate / together))
    return [(f"{MATRICES} matrices, minimum / median times:", table)]


BATCH = Suite(
    cases=squares(ORDERS_AND_BLOCKS),
    quick=squares(QUICK),
    methods=tuple(
        Method(name + ending, functools.partial(made, exchange=exchange))
        for exchange, ending in EXCHANGES.items()
        for name, made in (("one by one", _Separate), ("batch", _Together))
    ),
    calls=CALLS,
    tables=tables,
)
