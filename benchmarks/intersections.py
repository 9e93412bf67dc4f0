"""What does one rank's plan cost on a machine that is not there: time, memory, runs and peers, on paper.

The intersections along each dimension are found, and the messages of one rank made of them; nothing is communicated. Run:
python benchmarks/intersections.py
"""

from __future__ import annotations

import argparse
import functools
import math
import os
import platform
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

from pyscalapack_redist import BlockCyclic, Blocks, Descriptor, ProcessGrid, intersections
from pyscalapack_redist.engine.planner import messages_of
from pyscalapack_redist.intersections.runs import families_of
from pyscalapack_redist.schedules.orders import ORDERS
from pyscalapack_redist.tools.text import size_text, time_text

# size, processes and block along each of two dimensions, before and after
PLANS = (
    (10**6, (1024, 64), (1024, 100)),
    (10**7, (1024, 64), (1024, 100)),
    (10**6, (32, 1), (31, 64)),
    (10**6, (32, 64), (31, 1)),
)
# n, processes and block before and after: periods with many runs
PERIODS = (
    (10**9, (32, 1), (31, 64)),
    (10**9, (31, 64), (32, 1)),
    (10**9, (1024, 1), (1023, 64)),
    (10**9, (1024, 7), (1021, 11)),
    (10**11, (1024, 1), (1021, 1009)),
)
MANY_BLOCKS = 10**6


class Seat:
    """Stands in for a communicator: how many ranks there are, and which one this is."""

    def __init__(self, ranks: int, rank: int) -> None:
        self.ranks, self.rank = ranks, rank

    def Get_size(self) -> int:  # noqa: N802
        """Number of ranks."""
        return self.ranks

    def Get_rank(self) -> int:  # noqa: N802
        """This rank."""
        return self.rank

    def Create_group(self, *_: object) -> None:  # noqa: N802
        """Never called."""
        raise NotImplementedError


class Itself(dict[int, int]):
    """Ranks are numbered as they are."""

    def __missing__(self, rank: int) -> int:
        return rank


def least(run: Callable[[], object], repeat: int) -> float:
    """Least time of several calls, seconds."""
    best = math.inf
    for _ in range(repeat):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best


def layouts(n: int, before: tuple[int, int], after: tuple[int, int]) -> tuple[Descriptor, Descriptor, int]:
    """Square layouts, and a rank in the middle of both grids."""
    sizes = [processes**2 for processes, _ in (before, after)]
    rank = min(sizes) // 2 + min(sizes) // 5
    seat: Any = Seat(max(sizes), rank)
    a, b = (Descriptor((n, n), (block, block), ProcessGrid((p, p), seat)) for p, block in (before, after))
    return a, b, rank


def traced(run: Callable[[], object]) -> int:
    """Most bytes that Python and NumPy held for a call at any time."""
    tracemalloc.start()
    run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def plans(repeat: int) -> None:
    """Print the table of plans."""
    print(
        "| shape | grid: block | order | runs per dimension | sends | receives | time | memory |\n" + "|---" * 8 + "|"
    )
    for n, before, after in PLANS:
        a, b, rank = layouts(n, before, after)
        assert a.coords is not None
        runs = [
            len(intersections.find("aspen", x, y, p).remote)
            for x, y, p in zip(a.distributions, b.distributions, a.coords, strict=True)
        ]
        for name in ORDERS:
            order = ORDERS[name](a.grid.shape, b.grid.shape)
            plan = functools.partial(messages_of, a, b, rank, Itself(), order)
            messages = plan()
            where = " -> ".join(f"{p} x {p}: {block}" for p, block in (before, after))
            print(
                f"| {n} x {n} | {where} | {name} | {', '.join(map(str, runs))} | {len(messages.sends)} | "
                f"{len(messages.receives)} | {time_text(least(plan, repeat))} | {size_text(traced(plan))} |",
                flush=True,
            )


def periods(repeat: int) -> None:
    """Print the table of periods."""
    print("| n | from -> to | runs of a process in a period | periods | bytes | time | runs in the whole array |")
    print("|---" * 7 + "|")
    for n, before, after in PERIODS:
        a, b = (BlockCyclic(n, block, processes) for processes, block in (before, after))
        found = intersections.find("aspen", a, b, a.processes // 2)
        columns = (found.remote, found.start_a, found.start_b, found.length)
        seconds = least(functools.partial(intersections.find, "aspen", a, b, a.processes // 2), repeat)
        print(
            f"| {n:.0e} | {before[0]}:{before[1]} -> {after[0]}:{after[1]} | {len(found.remote)} | {found.repeats} | "
            f"{size_text(sum(column.nbytes for column in columns))} | {time_text(seconds)} | "
            f"{len(found.remote) * found.repeats:.1e} |"
        )


def irregular(repeat: int) -> None:
    """Print the table of a dimension of very many irregular blocks."""
    rng = np.random.default_rng(1)
    sizes = rng.integers(1, 200, MANY_BLOCKS)
    n = int(sizes.sum())
    print(
        "| processes | descriptor | to blocks of 64 | from blocks of 64 | to balanced | to as many others | families |"
    )
    print("|---" * 7 + "|")
    for processes in (8, 64, 1024):
        grid = ProcessGrid((processes,))
        owners = rng.integers(0, processes, MANY_BLOCKS)

        def described(block: Any, grid: ProcessGrid = grid) -> Descriptor:
            return Descriptor((n,), (block,), grid)

        blocks = Blocks(sizes, owners), 64, "balanced", Blocks(sizes[::-1], owners[::-1])
        a, b, c, d = (described(block).distributions[0] for block in blocks)
        pairs = ((a, b), (b, a), (a, c), (a, d))
        seconds = least(lambda: described(Blocks(sizes, owners)), repeat)  # noqa: B023
        times = [least(functools.partial(families_of, x, y, processes // 2), repeat) for x, y in pairs]
        families = [len(families_of(x, y, processes // 2).remote) for x, y in pairs]
        print(
            f"| {processes} | {' | '.join(map(time_text, [seconds, *times]))} | {', '.join(map(str, families))} |",
            flush=True,
        )


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=9, help="take the least time of so many")
    repeat = parser.parse_args().repeat
    print(
        f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}\n"
    )
    print("One rank's whole plan; the grids, 8 bytes for each process, are not in it\n")
    plans(repeat)
    print("\nPeriods with many runs: one process, one dimension\n")
    periods(repeat)
    print(f"\n{MANY_BLOCKS:.0e} irregular blocks of 1 to 199 elements: one process, one dimension\n")
    irregular(repeat)


if __name__ == "__main__":
    main()
