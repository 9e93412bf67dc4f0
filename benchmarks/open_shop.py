"""What is an order worth where nobody waits for a step to end?

Times of orders without barriers, in lengths, against the bound of the busiest process and the least that is found: Desprez's
examples, slices, arrays and random graphs; then with hosts whose processes share a link; with --simulate, times of `windowed`
on links of 10 Gbit/s. Run: python benchmarks/open_shop.py
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Iterator

import numpy as np
from simulate import Machine, Sizes, simulated

from pyscalapack_redist.schedules import (
    CommunicationGrid,
    LengthMatrix,
    MessageGraph,
    OpenShopSchedule,
    build,
    completion_time,
    port_bound,
    whole,
)
from pyscalapack_redist.tools.cases import Case
from pyscalapack_redist.tools.layouts import Layout

ORDERS = ("caterpillar", "stepwise", "greedy", "optimal")
EXAMPLES = ((16, 16, 3, 5), (16, 16, 7, 11), (15, 15, 3, 5), (12, 8, 4, 3), (15, 6, 2, 3))
SLICES = ((4, 9, 3, 2), (24, 36, 5, 7), (60, 64, 32, 29), (512, 768, 16, 25))
ARRAYS = ((24, 36, 5, 7, 100_003),)
RANDOM = ((8, 20, 1.0), (16, 100, 1.0), (30, 100, 0.3), (64, 100, 0.1))  # processes, longest, part of the pairs
SHARED = (((8, 8), (4, 16), 2), ((8, 8), (4, 16), 4), ((8, 8), (4, 16), 8), ((16, 16), (8, 32), 8))
SIMULATED = {64: ("8x8", "4x16", 6_400), 256: ("16x16", "8x32", 12_800), 1_024: ("32x32", "16x64", 25_600)}
SIZES = (Sizes(1, 2**30, 1), Sizes(2, 2**18, 2), Sizes(8, 2**18, 8), Sizes())
STEPS = ("caterpillar", "stepwise", "optimal", "open-shop")


def graphs() -> Iterator[tuple[str, MessageGraph]]:
    """Names and graphs of the first table."""
    for number, case in enumerate(EXAMPLES, 1):
        yield f"Example {number}: {_named(case)}", CommunicationGrid(*case)
    for case in SLICES:
        yield _named(case), CommunicationGrid(*case)
    for array in ARRAYS:
        yield f"{_named(array[:4])}, n = {array[4]}", CommunicationGrid(*array)
    for processes, longest, part in RANDOM:
        rng = np.random.default_rng(processes)
        lengths = rng.integers(1, longest + 1, (processes, processes)) * (rng.random((processes, processes)) < part)
        yield f"{processes} x {processes}, random, {part:.0%} of the pairs", LengthMatrix(lengths)


def _named(case: tuple[int, ...]) -> str:
    P, Q, r, s = case
    return f"{P} -> {Q}, {r} -> {s}"


def _found(grid: MessageGraph, seconds: float, **options: object) -> OpenShopSchedule:
    schedule = build("open-shop", grid, time_limit=seconds, **options)
    assert isinstance(schedule, OpenShopSchedule)
    return schedule


def _row(*cells: object) -> None:
    print("| " + " | ".join(f"{cell:g}" if isinstance(cell, float) else str(cell) for cell in cells) + " |", flush=True)


def _heading(*names: str) -> None:
    _row(*names)
    print("|---" * len(names) + "|")


def alone(seconds: float) -> None:
    """Print times of processes with a link each."""
    _heading("case", "bound", "open-shop", "what is known", "s", *ORDERS, "optimal, with barriers")
    for name, grid in graphs():
        begin = time.perf_counter()
        found = _found(grid, seconds)
        took = time.perf_counter() - begin
        others = [build(order, grid) for order in ORDERS]
        known = found.certificate.partition(": ")[2]
        times = [completion_time(other) for other in others]
        _row(name, port_bound(grid), found.time, known, f"{took:.2f}", *times, others[-1].total_cost)


def together(seconds: float) -> None:
    """Print times of processes that share the links of hosts, for matrices in blocks of 64 -> 96."""
    _heading("process grids", "ranks a host", "bound", "open-shop for hosts", "open-shop for ranks", *ORDERS[:3])
    for before, after, slots in SHARED:
        axes = [
            CommunicationGrid(p, q, 64, 96, 800 * max(*before, *after) // 8) for p, q in zip(before, after, strict=True)
        ]
        ranks = np.arange(before[0] * before[1])
        grid = whole(axes, same=ranks)
        hosts = ranks // slots, ranks // slots
        ignorant = [build("open-shop", grid, time_limit=seconds), *(build(order, grid) for order in ORDERS[:3])]
        times = [completion_time(order, 0.0, hosts) for order in ignorant]
        found = _found(grid, seconds, hosts=hosts)
        grids = " -> ".join("x".join(map(str, shape)) for shape in (before, after))
        _row(grids, slots, port_bound(grid, 0.0, hosts), found.time, *times)


def on_links() -> None:
    """Print simulated times in milliseconds."""
    _heading("hosts", "sends, receives, KiB of a piece", "links' limit", *(f"`{order}/windowed`" for order in STEPS))
    for hosts, (before, after, order) in SIMULATED.items():
        case = Case((order, order), Layout.parse(f"{before}:64x64"), Layout.parse(f"{after}:96x96"))
        machine = Machine(hosts, rate=1.25e9, latency=5e-6, overhead=1e-6)
        for sizes in SIZES:
            found = simulated(case, machine, tuple(f"{step}/windowed" for step in STEPS), sizes)
            times = [f"{1e3 * (prediction.seconds or 0):.2f}" for prediction in found.predictions]
            piece = "all" if sizes.piece == 2**30 else f"{(sizes.piece or 2**18) // 2**10}"
            _row(hosts, f"{sizes.window or 8}, {sizes.receives or 32}, {piece}", f"{1e3 * found.limit:.2f}", *times)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--time-limit", type=float, default=10.0, help="seconds for each order")
    parser.add_argument("--simulate", action="store_true", help="times on links instead: some minutes")
    options = parser.parse_args()
    if options.simulate:
        on_links()
        return
    print(
        f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}\n"
    )
    alone(options.time_limit)
    print()
    together(options.time_limit)


if __name__ == "__main__":
    main()
