"""What does one rank's plan cost on a machine that is not there: time, memory and messages, on paper.

The intersections along each dimension are found, and the messages of one rank made of them; nothing is communicated. Run:
python benchmarks/planning.py
"""

from __future__ import annotations

import argparse
import functools
import os
import platform
import timeit
import tracemalloc
from collections.abc import Callable

from pyscalapack_redist import redistribute
from pyscalapack_redist.schedules.orders import ORDERS
from pyscalapack_redist.tools.cases import Case
from pyscalapack_redist.tools.text import size_text, time_text

PLANS = (  # shape, before, after
    ((10**6, 10**6), "1024x1024:64x64", "1024x1024:100x100"),
    ((10**7, 10**7), "1024x1024:64x64", "1024x1024:100x100"),
    ((10**6, 10**6), "32x32:1x1", "31x31:64x64"),  # element-cyclic
    ((10**6, 10**6), "32x32:64x64", "31x31:1x1"),
    ((10**6, 10**6), "32x32:balanced", "31x31:1x1"),  # irregular
    ((10**4,) * 3, "16x16x1:balanced", "1x16x16:balanced"),
)


def traced(run: Callable[[], object]) -> int:
    """Most bytes that Python and NumPy held for a call at any time."""
    tracemalloc.start()
    run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=9, help="take the least time of so many")
    repeat = parser.parse_args().repeat
    print(
        f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}\n"
    )
    print("| array, layouts | order | sends | receives | time | memory |\n" + "|---" * 6 + "|")
    for plan_ in PLANS:
        case = Case.read(*plan_)
        a, b = (layout.descriptor(case.shape, None) for layout in (case.before, case.after))
        rank = min(case.before.size, case.after.size) * 7 // 10  # in the middle of both grids
        for name in ORDERS:
            run = functools.partial(redistribute(a, b, schedule=name).messages_of, rank)
            messages = run()
            seconds = min(timeit.repeat(run, number=1, repeat=repeat))
            counts = f"{len(messages['send'])} | {len(messages['receive'])}"
            print(f"| {case} | {name} | {counts} | {time_text(seconds)} | {size_text(traced(run))} |", flush=True)


if __name__ == "__main__":
    main()
