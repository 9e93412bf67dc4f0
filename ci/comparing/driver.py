"""Time cases with whichever version of the package this interpreter has, and verify each result.

Usage, on as many ranks as the cases need: python driver.py ORDER REPLY. Both are JSON files. It uses nothing but plans, made by
`redistribute`, and what describes layouts, which version 0.1 had too.

A time is from the first rank's start to the last rank's end, after a barrier: where ranks take turns on a core, a rank's own
time means nothing. All ranks must be on one machine.
"""

from __future__ import annotations

import functools
import gc
import importlib
import itertools
import json
import math
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from case_list import Side, TimedCase
from mpi4py import MPI
from numpy.typing import NDArray

import pyscalapack_redist as psr

# Plans are kept with the communicator. With a memory limit of a byte less than the last time a plan is made anew; the limits
# come again after more plans than are kept.
MEMORY_LIMIT, LIMITS = 64 * 2**20, 4096
WARM_UP = 3
LEAST, MOST = 7, 399  # times of a case: those of the least at a time
BYTES_PER_TIME, MOST_IN_ROW = 2**20, 64  # calls too short to time are timed several in a row
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio, made odd
WORDS_AT_ONCE = 2**18


class LocalArray:
    """A rank's part of a case's array in one of its layouts. Each element is a function of its global index."""

    def __init__(self, case: TimedCase, side: Side, comm: MPI.Intracomm) -> None:
        whole, offset = side.whole or case.shape, side.offset or (0,) * len(case.shape)
        desc = psr.Descriptor(whole, side.block, psr.ProcessGrid(side.grid, comm), source=side.source)
        window = [slice(o, o + n) for o, n in zip(offset, case.shape, strict=True)]
        self.desc = desc[tuple(window)] if side.whole else desc
        coords = np.unravel_index(comm.Get_rank(), side.grid)
        indices = list(map(global_indices, whole, side.block, side.grid, side.source, map(int, coords)))
        inside = [slice(*np.searchsorted(i, (w.start, w.stop)).tolist()) for i, w in zip(indices, window, strict=True)]
        step = -1 if side.order == "F" else 1  # dimensions as they lie in memory
        dtype = np.dtype(case.dtype)
        self._bits, count = 8 * min(8, dtype.itemsize), max(1, dtype.itemsize // 8)
        shape = [index.size for index in indices][::step]
        self._words = np.empty((*shape, count), f"u{self._bits // 8}")
        self._inside = self._words[tuple(inside[::step])]
        array = self._words.view(dtype)[..., 0]
        self.array = array.T if side.order == "F" else array
        strides = np.cumprod([1, *case.shape[:0:-1]])[::-1]
        places = zip(indices, inside, offset, strides, strict=True)
        terms = [(i[s] - o).astype(np.uint64) * np.uint64(n) * MULTIPLIER for i, s, o, n in places]
        self._terms = [*terms[::step], np.arange(count, dtype=np.uint64)]

    def fill(self) -> None:
        """Write all elements that move."""
        self.poison()
        for some, expected in self._pieces():
            self._inside[some] = expected

    def poison(self) -> None:
        """Overwrite every byte."""
        self._words.fill(~self._words.dtype.type(0))

    def holds_all(self) -> bool:
        """Whether it has all elements that move, and around them what `poison` wrote; they are poisoned by that."""
        right = all(np.array_equal(self._inside[some], expected) for some, expected in self._pieces())
        self._inside.fill(~self._words.dtype.type(0))
        return right and bool((~self._words == 0).all())

    def _pieces(self) -> Iterator[tuple[slice, NDArray[Any]]]:
        """Some of what moves at a time: its place and what it must be."""
        first, *rest = self._terms
        step = max(1, WORDS_AT_ONCE // max(1, math.prod(term.size for term in rest)))
        for start in range(0, first.size, step):
            words: NDArray[np.uint64] = functools.reduce(np.add, np.ix_(first[start : start + step], *rest))
            yield slice(start, start + step), (words >> np.uint64(64 - self._bits)).astype(self._words.dtype)


def global_indices(n: int, block: int, processes: int, source: int, coordinate: int) -> NDArray[np.int64]:
    """Global indices that a process holds along one dimension, in local order; no code of the package decides them."""
    index = np.arange(n, dtype=np.int64)
    held: NDArray[np.int64] = index[(index // block + source) % processes == coordinate]
    return held


class Use:
    """What is timed: a way to use a plan. Collective.

    `get_ready` makes what is not timed, before each time.
    """

    def __init__(self, case: TimedCase, before: LocalArray, after: LocalArray) -> None:
        self.way, self.arrays = case.way, (before.array, after.array)
        self.other = np.empty_like(after.array)
        self._limits = itertools.cycle(range(MEMORY_LIMIT - 1, MEMORY_LIMIT - 1 - LIMITS, -1))
        self._make = functools.partial(psr.redistribute, before.desc, after.desc, dtype=np.dtype(case.dtype))
        self.plan = self._make(agree="first") if self.way == "agreed first" else self._make()

    def get_ready(self) -> None:
        """Make a plan whose first use is timed."""
        if self.way == "first use":
            self.plan = self._make(memory_limit=next(self._limits))

    def __call__(self) -> None:
        if self.way == "once":
            self._make(memory_limit=next(self._limits))(*self.arrays)
        elif self.way == "start and wait":
            self.plan.start(*self.arrays).wait()
        elif self.way == "two in flight":
            transfers = [self.plan.start(self.arrays[0], out) for out in (self.arrays[1], self.other)]
            for transfer in transfers:
                transfer.wait()
        else:
            self.plan(*self.arrays)


def times_of(run: Use, seconds: float, in_row: int, comm: MPI.Intracomm) -> NDArray[np.float64]:
    """Seconds of one call, the mean of `in_row`, as often as the time allows. Collective."""
    moments_of(run, 1, WARM_UP, comm)
    times, begin = np.empty(0), time.monotonic()
    while times.size < MOST:
        starts, ends = moments_of(run, in_row, LEAST, comm)
        comm.Allreduce(MPI.IN_PLACE, starts, MPI.MIN)
        comm.Allreduce(MPI.IN_PLACE, ends, MPI.MAX)
        times = np.append(times, (ends - starts) / (in_row * 1e9))
        if comm.bcast(time.monotonic() - begin) > seconds:
            break
    return times


def moments_of(
    run: Use, in_row: int, count: int, comm: MPI.Intracomm
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """When this rank started and ended each of `count` rows of calls, in nanoseconds. Collective."""
    starts, ends = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for number in range(count):
        gc.disable()
        run.get_ready()
        comm.Barrier()
        start = time.monotonic_ns()
        for _ in range(in_row):
            run()
        ends[number] = time.monotonic_ns()
        starts[number] = start
        gc.enable()
    return starts, ends


def measure(case: TimedCase, seconds: float, comm: MPI.Intracomm) -> dict[str, Any]:
    """Minimum and median of one case and whether its result is right; why, where the version cannot do it. Collective."""
    before, after = LocalArray(case, case.before, comm), LocalArray(case, case.after, comm)
    before.fill()
    after.poison()
    local_bytes = comm.allreduce(max(before.array.nbytes, after.array.nbytes), MPI.MAX)
    in_row = 1 if case.way in ("once", "first use") else max(1, min(MOST_IN_ROW, BYTES_PER_TIME // max(1, local_bytes)))
    try:
        run = Use(case, before, after)
        times = times_of(run, seconds, in_row, comm)
        after.poison()
        run.get_ready()
        run()
    except TypeError as error:  # a keyword that the version does not have
        return {"key": case.key, "reason": f"{type(error).__name__}: {error}"}
    except psr.RedistributionError as error:
        return {"key": case.key, "reason": f"{type(error).__name__}: {error}"}
    right = comm.allreduce(after.holds_all(), MPI.LAND)
    figures = {"minimum": float(times.min()), "median": statistics.median(times.tolist()), "calls": times.size}
    return {"key": case.key, "right": right, **figures}


def assume_cache(nbytes: int) -> bool:
    """Have the package believe in a last cache of this size, where it has no variable for that; whether it asks at all."""
    for name in ("comm.node", "comm.cores", "exchanges.exchange"):
        with suppress(ImportError):
            importlib.import_module(f"{psr.__name__}.{name}")
    modules = [module for name, module in sys.modules.items() if name.startswith(psr.__name__)]
    asking = [module for module in modules if hasattr(module, "last_cache")]
    for module in asking:
        module.last_cache = functools.cache(functools.partial(module.last_cache()._replace, nbytes=nbytes))  # type: ignore[attr-defined]
    return bool(asking)


def main() -> None:
    order, reply = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    comm = MPI.COMM_WORLD
    patched = bool(order["cache"]) and assume_cache(order["cache"])
    measured = []
    for fields in order["cases"]:
        measured.append(measure(TimedCase.from_json(fields), order["seconds"], comm))
        gc.collect()
    if comm.Get_rank() == 0:
        facts = {"package": psr.__file__, "mpi": MPI.Get_library_version().strip(" \n\0"), "patched": patched}
        reply.write_text(json.dumps({**facts, "cases": measured}))


if __name__ == "__main__":
    main()
