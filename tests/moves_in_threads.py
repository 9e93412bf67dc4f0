"""Large moves that threads share, and several callers that want the threads at once; `ci/memory-order` has more of it.

What a call has moved is read again by its caller alone, in compiled code, for ThreadSanitizer to see. Nothing here needs MPI.
`python tests/moves_in_threads.py THREADS CALLERS MOVES [SEED]`
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyscalapack_redist._kernels.boxes import Blend, Box, Trapezoid
from pyscalapack_redist._kernels.bundle import Bundle, Origins
from pyscalapack_redist._kernels.runs import Runs
from pyscalapack_redist._kernels.threads import use

Array = NDArray[Any]
Part = tuple[int, Box, tuple[int, ...], tuple[int, ...], tuple[int, ...], int, Blend | None]
DTYPES = "u1", "f4", "f8", "c8", "c16", "V3", "V24"
FLOOR = 64  # bytes for each thread, so that small moves are shared too
LENGTHS = 1, 1, 2, 3, 4, 5, 9, 31  # of runs
TIMES = 10  # that a move is made at once: threads that are awake are at work when their caller has nothing more to do


def run_lists(
    rng: np.random.Generator, dense: str = "", some: Sequence[int] = LENGTHS
) -> tuple[Array, Array, Array, int, int]:
    """What `Runs` takes but for a total: runs of one length or of several, with gaps and without, none on a dense side."""
    lengths = rng.choice(some, int(rng.integers(1, 7)))
    if rng.random() < 0.4:
        lengths[:] = lengths[0]
    starts, periods = [], []
    for side in ("source", "target"):
        gaps = rng.integers(0, 4, len(lengths))
        if rng.random() < 0.5:
            gaps[:] = gaps[0]
        behind = np.cumsum(lengths + gaps * (side != dense))
        starts.append(behind - lengths)
        periods.append(int(behind[-1]))
    return starts[0], starts[1], lengths, periods[0], periods[1]


def runs_of(rng: np.random.Generator, total: int, dense: str = "") -> Runs:
    return Runs(*run_lists(rng, dense), total)


def memory(rng: np.random.Generator, nbytes: int) -> Array:
    """Bytes that are small numbers in any type."""
    return rng.integers(0, 64, nbytes, np.uint8)


def part_of(rng: np.random.Generator, number: int, dense: str) -> tuple[Part, tuple[Array, Array]]:
    """A box of a matrix, or a part of one on a side of a diagonal, with factors or without; and its arrays."""
    dtype = np.dtype(str(rng.choice(DTYPES)))
    shape = [int(n) for n in rng.integers(1, 2 ** rng.integers(1, 8, 2) + 1)]
    axes = [runs_of(rng, n, dense) for n in shape]
    box = Box(axes)
    if not dense and rng.random() < 0.3:
        rows, columns = (np.arange(n) for n in shape)
        box = Trapezoid(axes, rows, columns, bool(rng.integers(2)), int(rng.integers(-9, 9)), "")
    order = (0, 1) if rng.random() < 0.5 else (1, 0)
    arrays, strides = [], []
    for k, side in enumerate(("source", "target")):
        sizes = [int(axis.expand()[:, k].max()) + 1 for axis in axes]
        first = order[0] if side == dense else int(rng.integers(2))
        strides.append(tuple(dtype.itemsize * (1 if axis == first else sizes[first]) for axis in range(2)))
        arrays.append(memory(rng, dtype.itemsize * sizes[0] * sizes[1]))
    blend = None
    if dtype.kind in "fc" and rng.random() < 0.5:
        alpha, beta = (complex(*rng.random(2)) for _ in range(2))
        blend = Blend(dtype.char, alpha, beta, dtype.kind == "c" and bool(rng.integers(2)))
    return (number, box, strides[0], strides[1], order, dtype.itemsize, blend), (arrays[0], arrays[1])


class Move:
    """Random boxes of random arrays, from one to the other, out of them or into them: all bytes, or from some place on."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.dense = str(rng.choice(["", "source", "target"]))
        drawn = [part_of(rng, k, self.dense) for k in range(int(rng.integers(1, 4)))]
        self.pairs = [pair for _, pair in drawn]
        self.bundle = Bundle([part for part, _ in drawn], self.dense)
        self.buffer = memory(rng, self.bundle.size)
        self.first = (
            self.bundle.end_of_piece(0, int(rng.integers(1, self.bundle.size + 2))) if rng.random() < 0.5 else 0
        )

    def result(self) -> list[Array]:
        """What all memory is after the move, from the same beginning each time."""
        pairs = [(a.copy(), b.copy()) for a, b in self.pairs]
        buffer, origins = self.buffer.copy(), Origins(len(pairs))
        for k, (a, b) in enumerate(pairs):
            origins.put(k, a.ctypes.data, b.ctypes.data)
        dense = buffer.ctypes.data + self.first if self.dense else 0
        for _ in range(TIMES):
            self.bundle.move(origins, dense, self.first, self.bundle.size)
        return [read(array) for array in (*(array for pair in pairs for array in pair), buffer)]


def read(array: Array) -> Array:
    """A copy, by compiled moves of less than is shared."""
    copied, origins = np.empty_like(array), Origins(1)
    n = array.size
    row = Runs(np.zeros(1, np.int64), np.zeros(1, np.int64), np.array([n]), n, n, n)
    bundle = Bundle([(0, Box([row]), (1,), (1,), (0,), 1, None)], "")
    origins.put(0, array.ctypes.data, copied.ctypes.data)
    for first in range(0, n, 2 * FLOOR - 1):
        bundle.move(origins, 0, first, min(n, first + 2 * FLOOR - 1))
    return copied


def main(threads: int, callers: int, moves: int, seed: int = 0) -> None:
    failed: list[BaseException] = []
    cases = [[Move(np.random.default_rng([seed, me, k])) for k in range(moves)] for me in range(callers)]
    use(1)
    expected = [[move.result() for move in some] for some in cases]
    use(threads, FLOOR)

    def caller(me: int) -> None:
        try:
            for k, (move, wanted) in enumerate(zip(cases[me], expected[me], strict=True)):
                for come, array in zip(move.result(), wanted, strict=True):
                    assert np.array_equal(come, array), f"seed {seed}, caller {me}, move {k}: other bytes than alone"
        except BaseException as error:
            failed.append(error)

    running = [threading.Thread(target=caller, args=(me,), daemon=True) for me in range(callers)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    use(1)
    if failed:
        raise failed[0]
    print(f"{threads} threads, {callers} callers, {moves} moves each with seed {seed}: the same bytes", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
