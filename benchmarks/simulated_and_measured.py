"""How near are simulated times to measured ones? Reads what `bench --json` wrote and simulates the same methods.

Where several files have the same case, the least time of all counts. Run:
python benchmarks/simulated_and_measured.py --rate 50mbit --latency 1ms RESULTS.json ...
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import numpy as np
from simulate import EXCHANGES, Machine, simulated

from pyscalapack_redist.tools.cases import Case
from pyscalapack_redist.tools.layouts import Layout
from pyscalapack_redist.tools.units import bytes_per_second, read_duration, read_size


def least_times(files: list[str]) -> dict[Case, dict[str, float]]:
    """The least time of each method that can be simulated, by case."""
    found: dict[Case, dict[str, float]] = {}
    for file in files:
        for result in json.loads(Path(file).read_text())["cases"]:
            case = Case(
                tuple(result["shape"]),
                Layout.parse(result["from"]),
                Layout.parse(result["to"]),
                np.dtype(result["dtype"]),
            )
            least = found.setdefault(case, {})
            for method in result["methods"]:
                name, seconds = method["name"], method["min"]
                if name.partition("/")[2] in EXCHANGES:
                    least[name] = min(seconds, least.get(name, seconds))
    return found


def compared(case: Case, measured: dict[str, float], machine: Machine) -> list[float]:
    """Print a table; the relative errors."""
    found = simulated(case, machine, tuple(measured))
    print(f"\n{case}; links' limit {1e3 * found.limit:.0f} ms\n")
    print("| method | measured, ms | simulated, ms | error, % |\n|---|---|---|---|")
    errors = []
    for prediction in found.predictions:
        real = measured[prediction.name]
        if prediction.seconds is None:
            print(f"| {prediction.name} | {1e3 * real:.0f} | - | {prediction.reason} |")
            continue
        errors.append(prediction.seconds / real - 1)
        told = f"{1e3 * real:.0f} | {1e3 * prediction.seconds:.0f} | {100 * errors[-1]:+.0f}"
        print(f"| {prediction.name} | {told} |", flush=True)
    return errors


def main() -> None:
    """Compare case by case, and sum up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", help="what bench --json wrote, all on hosts of this kind")
    parser.add_argument("--slots", type=int, default=1, help="ranks on each host")
    parser.add_argument("--rate", type=bytes_per_second, required=True, help="of each host's link, as 50mbit")
    parser.add_argument("--latency", type=read_duration, default=0.0, help="start-up of a message, as 300us")
    parser.add_argument("--overhead", type=read_duration, default=0.0, help="of it on the processors")
    parser.add_argument(
        "--efficiency", type=float, default=0.88, help="what long messages get of a link that is busy both ways"
    )
    parser.add_argument("--turns-after", type=read_size, default=65536, help="Open MPI's eager limit over TCP")
    parser.add_argument("--burst", type=read_size, default=65536, help="of the links' token buckets")
    options = parser.parse_args()
    errors = []
    for case, measured in least_times(options.files).items():
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
        errors += compared(case, measured, machine)
    sizes = sorted(abs(error) for error in errors)
    print(
        f"\n{len(errors)} times: mean error {100 * sum(errors) / len(errors):+.0f} %, half within "
        f"{100 * sizes[len(sizes) // 2]:.0f} %, all within {math.ceil(100 * sizes[-1])} %; beyond 25 %: "
        f"{sum(size > 0.25 for size in sizes)}"
    )


if __name__ == "__main__":
    main()
