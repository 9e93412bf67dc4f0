"""Walker & Otto's Fig 12 and Table 1 on 3 to 64 simulated processes, for docs/simulation.md.

Of their machines only Table 1 is known. Three numbers are fitted to its columns of up to 16 processes, and 32 and 64 are
predicted: a start-up of each message, which takes its sender's and its receiver's processor; the rate of a link, as the
all-to-all sees it; and the lower rate of a redistribution, whose blocks of 16 bytes go through a derived datatype on both
sides. Calls begin without a vote. With --rate it is another machine, one rate for both. Run:
python benchmarks/walker_otto_simulated.py [--machine SP-1]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from papers.birkeland_model import nearest
from simulate import Machine, simulated

from pyscalapack_redist.layout.notation import LayoutText
from pyscalapack_redist.tools.arguments import bytes_per_second, read_duration
from pyscalapack_redist.tools.cases import Case

PROCESSES = (3, 10, 16, 32, 64)
FACTORS = (2, 4, 8, 20)
BLOCK, BLOCKS = 4, 800
ELEMENTS = BLOCK * BLOCKS  # of a process, 4 bytes each
FITTED = 16  # processes up to which the printed times are taken to fit
PRINTED = {  # Table 1, in milliseconds, for PROCESSES
    "Paragon": {"alltoall": (2.9, 5.9, 7.9, 12.2, 22.9), 2: (14.0, 14.6, 14.9, 15.3, 15.7), 20: (20.9, 21.8, 22.5, 23.4, 24.3)},
    "SP-1": {"alltoall": (2.4, 4.4, 5.0, 8.1, 15.2), 2: (7.1, 7.6, 8.0, 8.5, 9.0), 20: (10.8, 12.1, 12.3, 15.0, 15.8)},
}  # fmt: skip
METHODS = (
    "phases/synchronized",
    "phases/nonblocking",
    "natural/synchronized",
    "random/synchronized",
    "random/nonblocking",
    "walker-otto/synchronized",
    "walker-otto/nonblocking",
    "walker-otto/sendrecv",
)
ALL_TO_ALL = {"in steps": "ring/sendrecv", "all at once": "auto/alltoallv"}


@dataclass(frozen=True)
class Fit:
    """What a machine takes: seconds for a start-up, and bytes per second of an all-to-all and of a redistribution."""

    startup: float
    all_to_all: float
    blocks: float
    latency: float = 0.0

    def machine(self, processes: int, rate: float) -> Machine:
        """So many processes with a host and a link each."""
        return Machine(processes, rate=rate, overhead=self.startup, latency=self.latency)


def fitted(name: str) -> Fit:
    """Start-ups and bytes nearest to the printed times of few processes, all weighing alike."""
    nbytes, rows, times = 4 * ELEMENTS, [], []
    for column, P in enumerate(PROCESSES):
        if P > FITTED:
            continue
        rows.append((P - 1, nbytes * (P - 1) / P, 0.0))
        times.append(PRINTED[name]["alltoall"][column] / 1e3)
        for K in (2, 20):
            rows.append((K, 0.0, nbytes))
            times.append(PRINTED[name][K][column] / 1e3)
    startup, link, blocks = nearest(rows, times)
    return Fit(startup, 1 / max(link, 1e-12), 1 / blocks)


def redistribution(P: int, K: int) -> Case:
    """From blocks of r to blocks of K r."""
    before, after = (LayoutText.parse(f"{P}:{block}") for block in (BLOCK, K * BLOCK))
    return Case((P * ELEMENTS,), before, after, np.dtype(np.int32))


def all_to_all(P: int) -> Case:
    """Each process owes each an equal part of as many bytes."""
    return Case((P * ELEMENTS,), LayoutText.parse(f"{P}:{ELEMENTS}"), LayoutText.parse(f"{P}:1"), np.dtype(np.int32))


def milliseconds(case: Case, machine: Machine, methods: Sequence[str]) -> list[float]:
    """Simulated times without a vote."""
    found = simulated(case, machine, tuple(methods))
    times = [prediction.seconds for prediction in found.predictions]
    return [1e3 * (seconds - machine.vote) if seconds is not None else float("nan") for seconds in times]


def print_table_1(fit: Fit, name: str | None, processes: Sequence[int]) -> None:
    """Printed / simulated times of an all-to-all and of the redistribution with SENDRECV."""
    print("\n| processes | all-to-all in steps | all at once | K = 2 | K = 20 | K = 2 / all-to-all |")
    print("|---|---|---|---|---|---|")
    for P in processes:
        there = milliseconds(all_to_all(P), fit.machine(P, fit.all_to_all), list(ALL_TO_ALL.values()))
        redistributed = [
            milliseconds(redistribution(P, K), fit.machine(P, fit.blocks), METHODS[-1:])[0] for K in (2, 20)
        ]
        ratio = f"{redistributed[0] / there[0]:.2f}"
        cells = [f"{time:.3g}" for time in (*there, *redistributed)]
        if name is not None:
            at = PROCESSES.index(P)
            printed = PRINTED[name]
            cells[0] = f"{printed['alltoall'][at]:g} / {cells[0]}"
            cells[2:] = [f"{printed[K][at]:g} / {cell}" for K, cell in zip((2, 20), cells[2:], strict=True)]
            ratio = f"{printed[2][at] / printed['alltoall'][at]:.2f} / {ratio}"
        print(f"| {P} | {' | '.join(cells)} | {ratio} |", flush=True)


def print_figure(fit: Fit, processes: Sequence[int], factors: Sequence[int]) -> None:
    """Times of each method."""
    print(f"\n| processes | K | {' | '.join(f'`{name}`' for name in METHODS)} |")
    print("|---" * (2 + len(METHODS)) + "|")
    for P in processes:
        for K in factors:
            times = milliseconds(redistribution(P, K), fit.machine(P, fit.blocks), METHODS)
            print(f"| {P} | {K} | {' | '.join(f'{time:.3g}' for time in times)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--machine", choices=PRINTED, default="Paragon", help="whose Table 1 is fitted (default: Paragon)"
    )
    parser.add_argument(
        "--rate", type=bytes_per_second, help="of another machine's links, as 10gbit; without it, as fitted"
    )
    parser.add_argument("--latency", type=read_duration, default=5e-6, help="of that machine (default: 5us)")
    parser.add_argument(
        "--overhead", type=read_duration, default=1e-6, help="of that machine, of each message (default: 1us)"
    )
    parser.add_argument("--most", type=int, default=64, help="processes (default: 64)")
    parser.add_argument("--all-factors", action="store_true", help="K = 2 to 20, every one")
    options = parser.parse_args()
    processes = [P for P in PROCESSES if options.most >= P]
    factors = range(2, 21) if options.all_factors else FACTORS
    if options.rate is None:
        fit, name = fitted(options.machine), options.machine
    else:
        fit, name = Fit(options.overhead, options.rate, options.rate, options.latency), None
    print(
        f"{name or 'links as given'}: start-up {1e6 * (fit.startup + fit.latency):.3g} us, "
        f"all-to-all {fit.all_to_all / 1e6:.3g} MB/s, redistribution {fit.blocks / 1e6:.3g} MB/s; milliseconds"
        + (", printed / simulated" if name else ", simulated")
    )
    print_table_1(fit, name, processes)
    print_figure(fit, processes, factors)


if __name__ == "__main__":
    main()
