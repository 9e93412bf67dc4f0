"""Simulated times on large machines, for docs/simulation.md: vectors P:3 -> P:5 and matrices in blocks of 64 -> 96.

Links of 10 Gbit/s, start-up 5 us, 1 us of processor for each message, one process on each host. Run: python
benchmarks/simulated_machines.py (some minutes; --most 1000 for the small ones alone). Prints a table in Markdown.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from simulate import Machine, simulated

from pyscalapack_redist.tools.cases import Case
from pyscalapack_redist.tools.layouts import Layout

METHODS = (
    "caterpillar/sendrecv",
    "ring/sendrecv",
    "optimal/sendrecv",
    "caterpillar/windowed",
    "stepwise/windowed",
    "optimal/windowed",
    "caterpillar/nonblocking",
    "auto/alltoallv",
)
FEWER = ("caterpillar/sendrecv", "ring/sendrecv", "caterpillar/windowed", "ring/windowed", "auto/alltoallv")
VECTORS = {"154 kB": 19_200, "1.9 kB": 240}  # a process, in doubles
PROCESSES = (16, 1_000, 10_000, 100_000)
GRIDS = {16: ("4x4", "2x8", 3_200), 1_024: ("32x32", "16x64", 25_600), 10_000: ("100x100", "50x200", 80_000)}
SEARCHED = 10_000  # processes along one dimension up to which a schedule is searched for


def cases(most: int) -> Iterator[tuple[str, int, Case]]:
    """What it is, the number of hosts, and the case."""
    for amount, doubles in VECTORS.items():
        for hosts in PROCESSES:
            layouts = (Layout.parse(f"{hosts}:3"), Layout.parse(f"{hosts}:5"))
            yield f"1-D, 3 -> 5, {amount} a process", hosts, Case((hosts * doubles,), *layouts)
    for hosts, (before, after, order) in GRIDS.items():
        layouts = (Layout.parse(f"{before}:64x64"), Layout.parse(f"{after}:96x96"))
        yield "2-D, 64² -> 96², 5 MB a process", hosts, Case((order, order), *layouts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--most", type=int, default=max(PROCESSES), help="hosts, of the largest machine")
    most = parser.parse_args().most
    names = tuple(dict.fromkeys((*METHODS, *FEWER)))
    print("| case | hosts | links' limit | " + " | ".join(f"`{name}`" for name in names) + " |")
    print("|---" * (3 + len(names)) + "|")
    for what, hosts, case in cases(most):
        if hosts > most:
            continue
        machine = Machine(hosts, rate=1.25e9, latency=5e-6, overhead=1e-6)
        found = simulated(case, machine, METHODS if hosts <= SEARCHED else FEWER)
        seconds = {prediction.name: prediction.seconds for prediction in found.predictions}
        times = [seconds.get(name) for name in names]
        row = [
            what,
            f"{hosts:,}",
            f"{1e3 * found.limit:.3g}",
            *("-" if seconds is None else f"{1e3 * seconds:.3g}" for seconds in times),
        ]
        print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
