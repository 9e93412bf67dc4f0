"""The algorithms of the ASPEN paper on 2 to 32 processes, in arrays and grids of one to three dimensions and several sizes.

A time is that of all processes of the grid before, all dimensions, in the compiled form; nothing is communicated. Run:
python benchmarks/intersection_shapes.py
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
from collections.abc import Callable, Sequence

from papers.aspen import complete

from pyscalapack_redist import BlockCyclic
from pyscalapack_redist.intersections import ALGORITHMS
from pyscalapack_redist.tools.text import time_text

SHAPES = ((10**4,), (10**6,), (10**8,), (10**3, 10**3), (10**4, 10**4), (10**2,) * 3, (464,) * 3)
GRIDS = {
    1: (((2,), (3,)), ((8,), (7,)), ((32,), (31,)), ((4,), (32,))),
    2: (((1, 2), (2, 1)), ((2, 4), (4, 2)), ((4, 8), (8, 4)), ((1, 32), (32, 1))),
    3: (((1, 1, 2), (2, 1, 1)), ((2, 2, 2), (8, 1, 1)), ((2, 4, 4), (4, 4, 2)), ((1, 4, 8), (32, 1, 1))),
}
BLOCKS = ((2, 3), (30, 50), (64, 48), (16, 1))  # before and after, in all dimensions
CALLS = 20  # in a row, for one time
LONGEST = 2e-3  # seconds of a call, from which on there is one for a time, and one time
MOST_ELEMENTS = 10**4  # of a dimension, up to which `classical`, which compares all blocks, is run


def loops(
    algorithm: str, shape: Sequence[int], grids: Sequence[Sequence[int]], blocks: Sequence[int]
) -> Callable[[], int]:
    """Finds the runs of all processes along each dimension: how many comparisons that takes."""
    (before, after), (r, s) = grids, blocks
    ready = [
        complete(algorithm, BlockCyclic(n, r, p), BlockCyclic(n, s, q), "compiled")
        for n, p, q in zip(shape, before, after, strict=True)
    ]
    return lambda: sum(find()[1] for find in ready)


def least_seconds(shape: Sequence[int], grids: Sequence[Sequence[int]], repeat: int) -> dict[str, float]:
    """Of each algorithm the geometric mean over pairs of blocks of the least time, interleaved."""
    logs = dict.fromkeys(ALGORITHMS, 0.0)
    for blocks in BLOCKS:
        ready = {name: loops(name, shape, grids, blocks) for name in ALGORITHMS}
        least = dict.fromkeys(ALGORITHMS, math.inf)
        for _, (name, run) in itertools.product(range(repeat), ready.items()):
            if LONGEST < least[name] < math.inf or (name == "classical" and max(shape) > MOST_ELEMENTS):
                continue
            calls = CALLS if least[name] < math.inf else 1
            start = time.perf_counter()
            for _ in range(calls):
                run()
            least[name] = min(least[name], (time.perf_counter() - start) / calls)
        for name, seconds in least.items():
            logs[name] += math.log(seconds) / len(BLOCKS)
    return {name: math.exp(log) for name, log in logs.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=9, help="rounds (default: 9)")
    parser.add_argument("--largest", type=int, default=10**8, help="most elements of an array (default: 10^8)")
    options = parser.parse_args()
    print(f"| array | grids | {' | '.join(ALGORITHMS)} | the next best / aspen |")
    print(f"|{'---|' * (len(ALGORITHMS) + 3)}")
    for shape in SHAPES:
        if math.prod(shape) > options.largest:
            continue
        for grids in GRIDS[len(shape)]:
            found = least_seconds(shape, grids, options.repeat)
            told = " -> ".join("x".join(map(str, grid)) for grid in grids)
            next_best = min(seconds for name, seconds in found.items() if name != "aspen")
            times = " | ".join(time_text(seconds) if seconds < math.inf else "-" for seconds in found.values())
            print(f"| {'x'.join(map(str, shape))} | {told} | {times} | {next_best / found['aspen']:.2f} |", flush=True)


if __name__ == "__main__":
    main()
