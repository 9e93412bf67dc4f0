"""Does a slow host slow only what it must?

Eight hosts on one machine (see tests/hosts.py), all alike at first, then the last one with a tenth of the rate. A rank's time
ends when its own transfers are complete. In both cases some ranks exchange nothing with that host, so nothing but waiting for
others can slow them; for the rest the limit is what they exchange with it, over its rate. Run, as root or where
unprivileged users may make network namespaces: python benchmarks/slow_host.py
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pyscalapack_redist.tools.bench.methods import read_method
from pyscalapack_redist.tools.bench.stage import Stage
from pyscalapack_redist.tools.bench.timing import between_hosts
from pyscalapack_redist.tools.cases import Case
from pyscalapack_redist.tools.layouts import Layout
from pyscalapack_redist.tools.text import time_text
from pyscalapack_redist.tools.units import bytes_per_second

HOSTS, SLOW = 8, 7
METHODS = (
    "auto",
    "stepwise/windowed",
    "stepwise/sendrecv",
    "caterpillar/sendrecv",
    "auto/nonblocking",
    "mpi-waitall",
    "auto/alltoallv",
    "mpi-alltoallv",
    "pxgemr2d",
)


def cases(order: int) -> dict[str, Case]:
    """By their description: in each, the last host exchanges with a few others only."""
    elements = order**2 // 64 * 64
    return {
        "2x4 -> 2x4, along the rows of the grid": Case(
            (order, order), Layout.parse("2x4:32x32"), Layout.parse("2x4:32x48")
        ),
        "blocks of 4 -> 8 on 8": Case((elements, 1), Layout.parse("8x1:4x1"), Layout.parse("8x1:8x1")),
    }


def measure(order: int, repeat: int, names: Sequence[str]) -> None:
    """Print, as JSON, every rank's times of each case and method. Collective."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    found: dict[str, dict[str, Any]] = {}
    for description, case in cases(order).items():
        stage = Stage(case, comm)
        found[description] = {}
        for name in names:
            if any(comm.allgather(read_method(name).obstacle(case) is not None)):
                continue
            run = read_method(name).prepare(stage)
            run()
            rounds = []
            for _ in range(repeat):
                comm.Barrier()
                start = time.perf_counter()
                run()
                rounds.append(comm.allgather(time.perf_counter() - start))
            run.poison()
            run()
            if not all(comm.allgather(run.correct())):
                raise SystemExit(f"{name}: the result is wrong")
            run.close()
            found[description][name] = rounds
    if comm.Get_rank() == 0:
        print(json.dumps(found), flush=True)


def limits(case: Case, rate: float, slow: float) -> list[float]:
    """The least time of each rank: its bytes over its rate, and those to or from the slow host over that one's."""
    owed = between_hosts(case, range(HOSTS))
    own = np.maximum(owed.sum(axis=0), owed.sum(axis=1)) / rate
    beside = np.maximum(owed[SLOW], owed[:, SLOW]) / slow
    least: list[float] = np.maximum(own, beside).tolist()
    least[SLOW] *= rate / slow
    return least


def report(order: int, rate: float, slow: float, before: dict[str, Any], after: dict[str, Any]) -> None:
    """A table for each case: those that must not be slowed, and the others."""
    for description, case in cases(order).items():
        owed = between_hosts(case, range(HOSTS))
        touched = [rank == SLOW or bool(owed[SLOW, rank] or owed[rank, SLOW]) for rank in range(HOSTS)]
        apart, others = ([rank for rank in range(HOSTS) if touched[rank] is which] for which in (False, True))
        rows = {"the links' limit": ([limits(case, rate, rate)], [limits(case, rate, slow)])}
        rows |= {name: (rounds, after[description][name]) for name, rounds in before[description].items()}
        first, second = (", ".join(map(str, ranks)) for ranks in (apart, others))
        print(f"\n{description}: {case}\n")
        print(f"| method | ranks {first}: before | after | times as long | ranks {second}: before | after |")
        print("|---|---|---|---|---|---|")
        for name, both in rows.items():
            a, b, c, d = (last(rounds, ranks) for ranks in (apart, others) for rounds in both)
            print(f"| {name} | {time_text(a)} | {time_text(b)} | {b / a:.2f} | {time_text(c)} | {time_text(d)} |")


def last(rounds: list[list[float]], ranks: list[int]) -> float:
    """When the last of some ranks is through: the median of the rounds."""
    return statistics.median(max(times[rank] for rank in ranks) for times in rounds)


def main() -> None:
    """Measure twice, with all hosts alike and with one slow, and print what changed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--order", type=int, default=768, help="of the matrix of doubles (default: %(default)s)")
    parser.add_argument("--rate", default="50mbit", help="of the links (default: %(default)s)")
    parser.add_argument("--slow", default="5mbit", help="of the slow host's (default: %(default)s)")
    parser.add_argument("--repeat", type=int, default=3, help="take medians of so many (default: %(default)s)")
    parser.add_argument("--methods", default=",".join(METHODS), help="joined by commas")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options.order, options.repeat, options.methods.split(","))
        return
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
    import hosts

    why = hosts.available()
    if why is not None:
        parser.error(why)
    try:
        rate, slow = bytes_per_second(options.rate), bytes_per_second(options.slow)
    except ValueError as error:
        parser.error(str(error))
    words = ["--measure", "--order", options.order, "--repeat", options.repeat, "--methods", options.methods]
    found = [
        json.loads(hosts.run(__file__, HOSTS, *words, rate=options.rate, slow=some, timeout=1200).stdout)
        for some in ({}, {SLOW: options.slow})
    ]
    what = f"until the last of some ranks is through, medians of {options.repeat} rounds"
    print(f"{HOSTS} hosts at {options.rate}, then host {SLOW} at {options.slow}: {what}")
    report(options.order, rate, slow, *found)


if __name__ == "__main__":
    main()
