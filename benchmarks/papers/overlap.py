"""How much of a redistribution's time can be hidden behind computing.

In each case four times are taken for each exchange: of the redistribution alone, of computing alone (calibrated to about
the same length), of one after the other, and of both at once: `start`, computing in slices with a `test` after each, and
`wait`. The share hidden is (serial - overlapped) / min(redistribution, computing): 1 where the shorter of the two costs
nothing, 0 where nothing is gained. Computing is additions in the core's cache, so it uses neither memory nor network.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from pyscalapack_redist import redistribute
from pyscalapack_redist.comm.mpi import MPI
from pyscalapack_redist.tools.bench.methods import Method, Prepared, named_methods
from pyscalapack_redist.tools.bench.results import Column, Results
from pyscalapack_redist.tools.bench.stage import Stage
from pyscalapack_redist.tools.bench.suites import Suite, squares
from pyscalapack_redist.tools.text import new_table, ratio_text, time_text

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["OVERLAP"]

ORDERS = (256, 512, 1024)
QUICK = (64, 192)
EXCHANGES = {"auto": "auto", "auto/nonblocking": "nonblocking", "auto/windowed": "windowed"}  # by the method's name
INTERVALS = (16, 128)  # slices between two tests, where tests are rare: "auto" only
ELEMENTS, PASSES = 4096, 100  # of a slice of computing: about 0.2 ms, in 64 KiB of memory
RUNS = tuple((name, 1) for name in EXCHANGES) + tuple(("auto", every) for every in INTERVALS)
TRIALS = 3  # of which the shortest calibrates
COMPUTING = "computing"

_numbers = np.arange(float(ELEMENTS))
_slices: WeakKeyDictionary[Stage, int] = WeakKeyDictionary()


def _compute(total: np.ndarray, slices: int = 1) -> None:
    """So many slices: numbers are added to a sum again and again, in the core's cache."""
    for _ in range(slices * PASSES):
        np.add(total, _numbers, out=total)


def _slices_for(stage: Stage) -> int:
    """Slices that take all ranks together about as long as the redistribution by "auto". Collective; once for a stage."""
    if stage not in _slices:
        plan = _plan(stage, "auto")
        plan(stage.a, stage.out)
        wanted = _seconds(stage, lambda: plan(stage.a, stage.out))
        slices, took = 1, 0.0
        while took < wanted / 2:
            slices *= 2
            took = _seconds(stage, functools.partial(_compute, np.zeros(ELEMENTS), slices))
        _slices[stage] = max(1, round(slices * wanted / took))
    return _slices[stage]


def _seconds(stage: Stage, run: Callable[[], object]) -> float:
    """The least of some trials, each the longest of the ranks' own times. Collective."""
    times = []
    for _ in range(TRIALS):
        stage.comm.Barrier()
        start = time.perf_counter()
        run()
        times.append(float(stage.comm.allreduce(time.perf_counter() - start, MPI.MAX)))
    return min(times)


def _plan(stage: Stage, exchange: str) -> Any:
    return redistribute(stage.desc_a, stage.desc_b, dtype=stage.case.dtype, exchange=exchange)


class _Computing(Prepared):
    """Computing: alone, after the redistribution by an exchange, or during it with `every` slices between two tests."""

    def __init__(self, stage: Stage, exchange: str | None = None, every: int = 0) -> None:
        super().__init__(stage, extra_bytes=0)
        self._plan = None if exchange is None else _plan(stage, exchange)
        if self._plan is not None:
            self.extra_bytes = self._plan.report(stage.case.dtype).extra_bytes
        self._every, self._slices, self._sum = every, _slices_for(stage), np.zeros(ELEMENTS)

    def __call__(self) -> None:
        if self._plan is None or not self._every:
            if self._plan is not None:
                self._plan(self.stage.a, self.stage.out)
            _compute(self._sum, self._slices)
            return
        transfer = self._plan.start(self.stage.a, self.stage.out)
        for number in range(self._slices):
            if number % self._every == 0:
                transfer.test()
            _compute(self._sum)
        transfer.wait()

    def poison(self) -> None:
        self._sum[:] = 0
        if self._plan is not None:
            super().poison()

    def correct(self) -> bool:
        computed = np.array_equal(self._sum, self._slices * PASSES * _numbers)  # the sums are exact
        return computed and (self._plan is None or super().correct())


def _then(method: str) -> str:
    return f"{method} then computing"


def _during(method: str, every: int = 1) -> str:
    return f"{method} during computing" + (f", test() every {every} slices" if every > 1 else "")


def _four(results: Results, method: str, every: int) -> list[Column]:
    """Redistribution, computing, serial and overlapped."""
    return [results.column(name) for name in (method, COMPUTING, _then(method), _during(method, every))]


def tables(results: Results) -> Sequence[tuple[str, Table]]:
    """The four times and the share hidden in each case, and the shares in all cases. Not collective."""
    table = new_table(("case", "method"), ("redistribution", "computing", "serial", "overlapped", "hidden"))
    summary = new_table(("method", "test()"), ("hidden in the median case", "in the worst"))
    hidden = {}
    for name, every in RUNS:
        redistribution, computing, serial, overlapped = _four(results, name, every)
        share = hidden[name, every] = (serial - overlapped) / np.minimum(redistribution, computing)
        known = share[~np.isnan(share[:, 1]), 1]
        if known.size:
            figures = (ratio_text(float(choose(known))) for choose in (np.median, np.min))
            summary.add_row(name, f"every {every} slices" if every > 1 else "each slice", *figures)
    for k, result in enumerate(results.cases):
        case = result.case
        for name in EXCHANGES:
            share = hidden[name, 1][k]
            if not np.isnan(share).any():
                times = (" / ".join(map(time_text, column[k])) for column in _four(results, name, 1))
                what = f"{' x '.join(map(str, case.shape))}, {case.before} -> {case.after}"
                table.add_row(what, name, *times, " / ".join(map(ratio_text, share)))
    return [
        ("minimum / median times, and the share of the shorter time that was hidden:", table),
        ("the share hidden in all cases, by medians:", summary),
    ]


OVERLAP = Suite(
    cases=squares((n, 64, 48) for n in ORDERS),
    quick=squares((n, 64, 48) for n in QUICK),
    methods=(
        Method(COMPUTING, _Computing),
        *(method for name in EXCHANGES for method in named_methods(name)),
        *(Method(_then(name), functools.partial(_Computing, exchange=EXCHANGES[name])) for name in EXCHANGES),
        *(
            Method(_during(name, every), functools.partial(_Computing, exchange=EXCHANGES[name], every=every))
            for name, every in RUNS
        ),
    ),
    calls=1,
    tables=tables,
)
