"""How near are simulated times to measured ones? Reads what `bench --json` wrote and simulates the same methods.

python benchmarks/simulated_and_measured.py --rate 50mbit --latency 300us RESULTS.json ...
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import numpy as np

from pyscalapack_redist.bench.case import Case
from pyscalapack_redist.bench.layout import Layout
from pyscalapack_redist.simulate.exchange_rules import Sizes
from pyscalapack_redist.simulate.machine import Machine, read_duration, read_rate, read_size
from pyscalapack_redist.simulate.study import simulated


def compared(file: str, options: argparse.Namespace) -> list[float]:
    """Print a table for each case of a file; the relative errors."""
    errors = []
    for one in json.loads(Path(file).read_text())["cases"]:
        case = Case(tuple(one["shape"]), Layout.parse(one["from"]), Layout.parse(one["to"]), np.dtype(one["dtype"]))
        machine = Machine(
            -(-case.ranks // options.slots),
            options.slots,
            options.rate,
            options.latency,
            options.overhead,
            options.efficiency,
            options.turns_after,
            options.burst,
        )
        measured = {method["name"]: method["min"] for method in one["methods"] if "/" in method["name"]}
        found = simulated(case, machine, tuple(measured), Sizes())
        print(f"\n{case}; links' limit {1e3 * found.limit:.0f} ms\n")
        print("| method | measured, ms | simulated, ms | error, % |\n|---|---|---|---|")
        for prediction in found.predictions:
            real = measured[prediction.name]
            if prediction.seconds is None:
                print(f"| {prediction.name} | {1e3 * real:.0f} | - | {prediction.reason} |")
                continue
            errors.append(prediction.seconds / real - 1)
            print(
                f"| {prediction.name} | {1e3 * real:.0f} | {1e3 * prediction.seconds:.0f} | {100 * errors[-1]:+.0f} |",
                flush=True,
            )
    return errors


def main() -> None:
    """Compare file by file, and sum up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", help="what bench --json wrote, all on hosts of this kind")
    parser.add_argument("--slots", type=int, default=1, help="ranks on each host")
    parser.add_argument("--rate", type=read_rate, required=True, help="of each host's link, as 50mbit")
    parser.add_argument("--latency", type=read_duration, default=0.0, help="start-up of a message, as 300us")
    parser.add_argument("--overhead", type=read_duration, default=0.0, help="of it on the processors")
    parser.add_argument(
        "--efficiency", type=float, default=0.88, help="what long messages get of a link that is busy both ways"
    )
    parser.add_argument("--turns-after", type=read_size, default=65536, help="Open MPI's eager limit over TCP")
    parser.add_argument("--burst", type=read_size, default=65536, help="of the links' token buckets")
    options = parser.parse_args()
    errors = [error for file in options.files for error in compared(file, options)]
    sizes = sorted(abs(error) for error in errors)
    print(
        f"\n{len(errors)} times: mean error {100 * sum(errors) / len(errors):+.0f} %, half within "
        f"{100 * sizes[len(sizes) // 2]:.0f} %, all within {math.ceil(100 * sizes[-1])} %; beyond 25 %: "
        f"{sum(size > 0.25 for size in sizes)}"
    )


if __name__ == "__main__":
    main()
