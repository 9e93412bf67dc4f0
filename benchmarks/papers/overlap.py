"""How much of a redistribution's time can be hidden behind computing.

In each case four times are taken for each exchange: of the redistribution alone, of computing alone (calibrated to about
the same length), of one after the other, and of both at once: `start`, computing in slices with a `test` after each, and
`wait`. The share hidden is (serial - overlapped) / min(redistribution, computing): 1 where the shorter of the two costs
nothing, 0 where nothing is gained. Computing is additions in the core's cache, so it uses neither memory nor network.
"""

from __future__ import annotations

import functools
import operator
import statistics
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from pyscalapack_redist import Redistribution, redistribute
from pyscalapack_redist.tools.bench.methods import Method, Prepared, named_methods
from pyscalapack_redist.tools.bench.results import CaseResult, MethodResult, Results
from pyscalapack_redist.tools.bench.stage import Stage
from pyscalapack_redist.tools.bench.suites import Suite, squares
from pyscalapack_redist.tools.text import new_table, ratio_text, time_text

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["COMPUTING", "OVERLAP", "during", "hidden", "then"]

ORDERS = (256, 512, 1024)
QUICK = (64, 192)
EXCHANGES = {"auto": "auto", "auto/nonblocking": "nonblocking", "auto/windowed": "windowed"}  # by the method's name
INTERVALS = (16, 128)  # slices between two tests, where tests are rare: "auto" only
ELEMENTS, PASSES = 4096, 100  # of a slice of computing: about 0.2 ms, in 64 KiB of memory
RUNS = tuple((name, 1) for name in EXCHANGES) + tuple(("auto", every) for every in INTERVALS)
TRIALS = 3  # of which the shortest calibrates
LEAST, MEDIAN = operator.attrgetter("least"), operator.attrgetter("median")  # of a method's times


class Work:
    """Computing in slices: numbers are added to a sum again and again, in the core's cache. Not collective.

    Parameters
    ----------
    slices : int
        How many there are.
    """

    def __init__(self, slices: int) -> None:
        self.slices = slices
        self._numbers = np.arange(float(ELEMENTS))
        self._sum = np.zeros(ELEMENTS)

    def slice(self) -> None:
        """One slice."""
        for _ in range(PASSES):
            np.add(self._sum, self._numbers, out=self._sum)

    def all(self) -> None:
        """All slices."""
        for _ in range(self.slices):
            self.slice()

    def reset(self) -> None:
        """Forget what was added."""
        self._sum[:] = 0

    def correct(self) -> bool:
        """Whether all slices, and no more, were computed since `reset`. The sums are exact."""
        return np.array_equal(self._sum, self.slices * PASSES * self._numbers)


_slices: WeakKeyDictionary[Stage, int] = WeakKeyDictionary()


def slices_for(stage: Stage) -> int:
    """Slices that take all ranks together about as long as the redistribution by "auto". Collective; once for a stage."""
    if stage not in _slices:
        plan = _plan(stage, "auto")
        plan(stage.a, stage.out)
        wanted = min(_seconds(stage, lambda: plan(stage.a, stage.out)) for _ in range(TRIALS))
        work, took = Work(1), 0.0
        while took < wanted / 2:
            work = Work(2 * work.slices)
            took = min(_seconds(stage, work.all) for _ in range(TRIALS))
        _slices[stage] = max(1, round(work.slices * wanted / took))
    return _slices[stage]


def _seconds(stage: Stage, run: Callable[[], object]) -> float:
    """The longest of the ranks' own times. Collective."""
    from mpi4py import MPI

    stage.comm.Barrier()
    start = time.perf_counter()
    run()
    return float(stage.comm.allreduce(time.perf_counter() - start, MPI.MAX))


def _plan(stage: Stage, exchange: str) -> Redistribution:
    return redistribute(stage.desc_a, stage.desc_b, dtype=stage.case.dtype, exchange=exchange)


class _Computing(Prepared):
    """The computing alone, on all ranks at once."""

    extra_bytes = 0

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self.work = Work(slices_for(stage))

    def __call__(self) -> None:
        self.work.all()

    def poison(self) -> None:
        self.work.reset()

    def correct(self) -> bool:
        return self.work.correct()


class _Serial(_Computing):
    """One after the other."""

    def __init__(self, stage: Stage, exchange: str, every: int) -> None:
        plan = _plan(stage, exchange)
        super().__init__(stage)
        self.plan, self.every = plan, every
        self.extra_bytes = plan.report(stage.case.dtype).extra_bytes

    def __call__(self) -> None:
        self.plan(self.stage.a, self.stage.out)
        super().__call__()

    def poison(self) -> None:
        super().poison()
        self.stage.poison()

    def correct(self) -> bool:
        return super().correct() and self.stage.correct()


class _Overlapped(_Serial):
    """Both at once."""

    def __call__(self) -> None:
        transfer = self.plan.start(self.stage.a, self.stage.out)
        for number in range(self.work.slices):
            if number % self.every == 0:
                transfer.test()
            self.work.slice()
        transfer.wait()


COMPUTING = Method("computing", _Computing)


def then(method: str) -> Method:
    """The redistribution by a method, then the computing. Not collective."""
    made = functools.partial(_Serial, exchange=EXCHANGES[method], every=1)
    return Method(f"{method} then computing", made)


def during(method: str, every: int = 1) -> Method:
    """The redistribution under way while computing, with so many slices between two calls of `test`. Not collective."""
    name = f"{method} during computing" + (f", test() every {every} slices" if every > 1 else "")
    return Method(name, functools.partial(_Overlapped, exchange=EXCHANGES[method], every=every))


def hidden(result: CaseResult, method: str, time_of: Callable[[MethodResult], float], every: int = 1) -> float | None:
    """The share hidden of a redistribution by a method; None where one of the four times is missing. Not collective.

    Parameters
    ----------
    time_of : callable
        From a method's figures to the time to take: the least, or the median.
    every : int
        Slices between two calls of `test`.
    """
    found = _four(result, method, every)
    if len(found) < 4:
        return None
    redistribution, computing, serial, overlapped = map(time_of, found)
    return (serial - overlapped) / min(redistribution, computing)


def _four(result: CaseResult, method: str, every: int) -> list[MethodResult]:
    """Redistribution, computing, serial and overlapped, as far as they ran."""
    names = method, COMPUTING.name, then(method).name, during(method, every).name
    return [found for name in names if (found := result.method(name)) is not None]


def tables(results: Results) -> Sequence[tuple[str, Table]]:
    """The four times and the share hidden in each case, and the shares in all cases. Not collective."""
    table = new_table(("case", "method"), ("redistribution", "computing", "serial", "overlapped", "hidden"))
    summary = new_table(("method", "test()"), ("hidden in the median case", "in the worst"))
    for name, every in RUNS:
        shares = [share for result in results.cases if (share := hidden(result, name, MEDIAN, every)) is not None]
        if shares:
            figures = (statistics.median(shares), min(shares))
            summary.add_row(name, f"every {every} slices" if every > 1 else "each slice", *map(ratio_text, figures))
    for result in results.cases:
        case = result.case
        for name in EXCHANGES:
            least, median = (hidden(result, name, time_of) for time_of in (LEAST, MEDIAN))
            if least is not None and median is not None:
                times = (f"{time_text(timed.least)} / {time_text(timed.median)}" for timed in _four(result, name, 1))
                shares_text = f"{ratio_text(least)} / {ratio_text(median)}"
                table.add_row(
                    f"{' x '.join(map(str, case.shape))}, {case.before} -> {case.after}", name, *times, shares_text
                )
    return [
        ("minimum / median times, and the share of the shorter time that was hidden:", table),
        ("the share hidden in all cases, by medians:", summary),
    ]


OVERLAP = Suite(
    cases=squares((n, 64, 48) for n in ORDERS),
    quick=squares((n, 64, 48) for n in QUICK),
    methods=(
        COMPUTING,
        *(method for name in EXCHANGES for method in (*named_methods(name), then(name))),
        *(during(name, every) for name, every in RUNS),
    ),
    calls=1,
    tables=tables,
)
