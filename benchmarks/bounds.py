"""What the cases of the suite `broad` take on two ranks beside what they need at least: memory's streams, and single stores.

    mpiexec -n 2 python -m mpi4py -m pyscalapack_redist bench --suite broad --json broad.json
    python benchmarks/bounds.py broad.json

The time of memcpy is that of the same run. Of an array that fits into the last cache each element that moves to another rank
is written twice. Of a larger one the second time is in the cache; where runs of B are shorter than two cache lines, these
cannot be written past the cache, and are read first. A store writes a run, or 32 bytes of it, or for crossing lines 16;
one takes 0.33 ns, as measured in the first cache on an AMD EPYC. The two times are not added: each is less than can be done.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pyscalapack_redist.layout.axis import Axis
from pyscalapack_redist.tools.bench.suites import SUITES
from pyscalapack_redist.tools.cases import Case

STORE, VOTE = 0.33e-9, 0.75e-6  # seconds
CACHED = 8_000_000  # bytes of an array that stays in the last cache
LARGE = 1e-4  # seconds of memcpy
LONG = 128  # bytes: two cache lines


Row = tuple[float, float, float, Case]  # seconds of ours, the least ones, those of memcpy, and the case


class Common(NamedTuple):
    """What two processes have in common along a dimension: elements, and their runs in A, in B and in both."""

    elements: int
    runs: tuple[int, int, int]


def common_parts(a: Axis, b: Axis, n: int) -> dict[tuple[int, int], Common]:
    """By coordinates of the processes of A and of B."""
    index = np.arange(n)
    owner_a, owner_b, place_a, place_b = a.owner(index), b.owner(index), a.local_index(index), b.local_index(index)
    parts = {}
    for p in range(a.processes):
        for q in range(b.processes):
            both = np.flatnonzero((owner_a == p) & (owner_b == q))
            if both.size:
                ends = np.diff(place_a[both]) != 1, np.diff(place_b[both]) != 1
                counts = (1 + int(ends[0].sum()), 1 + int(ends[1].sum()), 1 + int((ends[0] | ends[1]).sum()))
                parts[p, q] = Common(both.size, counts)
    return parts


def bytes_of_runs(case: Case) -> float | None:
    """Mean bytes of the runs in which elements are adjacent on both sides; None where lines of A cross those of B."""
    if case.before.order != case.after.order:
        return None
    a, b = case.before.descriptor(case.shape, None), case.after.descriptor(case.shape, None)
    along = 0 if case.before.order == "F" else 1
    parts = common_parts(a.distributions[along], b.distributions[along], case.shape[along]).values()
    return case.shape[along] * case.dtype.itemsize / sum(part.runs[2] for part in parts)


def least_seconds(case: Case, memcpy: float) -> float:
    """The least time of a case, from that of memcpy."""
    a, b, item = case.before.descriptor(case.shape, None), case.after.descriptor(case.shape, None), case.dtype.itemsize
    rows, columns = (common_parts(a.distributions[k], b.distributions[k], case.shape[k]) for k in (0, 1))
    along_a, along_b = (0 if side.order == "F" else 1 for side in (case.before, case.after))
    stores: dict[int, float] = {}
    staying = 0
    for (p0, q0), row in rows.items():
        for (p1, q1), column in columns.items():
            source = int(a.grid.ranks[p0, p1])
            target = int(b.grid.ranks[q0, q1])
            both, elements = (row, column), row.elements * column.elements

            def count(kind: int, line: int, both: tuple[Common, Common] = both, elements: int = elements) -> float:
                return max(both[line].runs[kind] * both[1 - line].elements, elements * item / 32)

            crossing = max(elements / max(1, 16 // item), elements * item / 32)
            last = count(1, along_b) if along_a == along_b else crossing
            if source == target:
                staying += elements * item
                last = count(2, along_a) if along_a == along_b else crossing
            else:
                stores[source] = stores.get(source, 0) + count(0, along_a)
            stores[target] = stores.get(target, 0) + last
    total = case.elements * item
    runs_of_b = sum(part.runs[1] for part in (rows, columns)[along_b].values())
    if total < CACHED:
        memory = memcpy * (2 - staying / total)
    else:
        memory = memcpy * (1 if case.shape[along_b] * item >= LONG * runs_of_b else 1.5)
    return max(memory, STORE * max(stores.values())) + VOTE


def mean(values: list[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values))


def by_runs(rows: list[Row]) -> Iterator[tuple[str, list[Row]]]:
    """The results by classes of the length of runs, from short ones to long ones; last those whose lines cross."""
    lengths = [bytes_of_runs(row[3]) for row in rows]
    ends = (0, 8, 32, LONG, 512, 4096, math.inf)
    for low, high in itertools.pairwise(ends):
        chosen = [row for row, length in zip(rows, lengths, strict=True) if length is not None and low <= length < high]
        if chosen:
            yield f"{low} to {high}" if high < math.inf else f"from {low}", chosen
    crossing = [row for row, length in zip(rows, lengths, strict=True) if length is None]
    if crossing:
        yield "lines cross", crossing


def main() -> None:
    """Print the cases, those farthest from the least time first, and means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, metavar="FILE.json")
    cases = {str(case.to_dict()): case for case in SUITES["broad"].cases}
    rows = []
    for result in json.loads(parser.parse_args().results.read_text())["cases"]:
        names: dict[str, Any] = {key: result[key] for key in ("shape", "from", "to", "dtype", "ranks")}
        case, methods = cases[str(names)], {method["name"]: method["min"] for method in result["methods"]}
        rows.append((methods["auto"], least_seconds(case, methods["memcpy"]), methods["memcpy"], case))
    large = [row for row in rows if row[2] >= LARGE]
    for auto, least, memcpy, case in sorted(rows, key=lambda row: row[1] / row[0]):
        print(f"{auto / least:6.2f} times the least, {1e3 * auto:9.4f} ms, {auto / memcpy:5.2f} memcpys: {case}")
    print("\n| large cases, bytes of a run | cases | memcpys | at least |\n|---|---|---|---|")
    for words, chosen in by_runs(large):
        ours, least_of_all = (mean([row[k] / row[2] for row in chosen]) for k in (0, 1))
        print(f"| {words} | {len(chosen)} | {ours:.2f} | {least_of_all:.2f} |")
    print()
    for words, chosen in (("all", rows), (f"large ({1e3 * LARGE} ms)", large)):
        ours, least_of_all = (mean([row[k] / row[2] for row in chosen]) for k in (0, 1))
        print(f"{words}, {len(chosen)} cases: {ours:.2f} memcpys, at least {least_of_all:.2f}, ratio {ours / least_of_all:.2f}")


if __name__ == "__main__":
    main()
