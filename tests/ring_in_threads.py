"""The shared memory of a node with a thread in place of each rank: votes, and messages of every size, byte by byte.

ThreadSanitizer, which knows the memory model of C and not that of a processor, sees threads of one process only. Nothing
here needs MPI. `python tests/ring_in_threads.py RANKS RUNS [SEED]`; `ci/memory-order` runs it.
"""

from __future__ import annotations

import sys
import threading
import time

import numpy as np
from numpy.typing import NDArray

from pyscalapack_redist._kernels.boxes import Box
from pyscalapack_redist._kernels.bundle import Bundle, Origins
from pyscalapack_redist._kernels.ring import Ballot, Ring, RingVote, bytes_needed
from pyscalapack_redist._kernels.runs import Runs
from pyscalapack_redist._kernels.transport import Traffic

AREA, SLOTS, ITEM = 1 << 18, 4, 8
PATIENCE = 100  # seconds without an end, after which a rank gives up


def runs(x: int, y: int, length: int) -> Runs:
    return Runs(np.array([x]), np.array([y]), np.array([length]), length, length, length)


def bundle(rows: int, columns: int, first_a: int, rows_a: int, first_b: int, rows_b: int, dense: str) -> Bundle:
    """Some rows of all columns, from A to B; a buffer is a matrix of these rows only."""
    box = Box([runs(first_a, first_b, rows), runs(0, 0, columns)])
    return Bundle([(0, box, (ITEM, ITEM * rows_a), (ITEM, ITEM * rows_b), (0, 1), ITEM, None)], dense)


def drawn(rng: np.random.Generator, size: int) -> tuple[NDArray[np.int64], int]:
    """Rows from each rank to each, some none, and the number of columns: from bytes to more than the area holds."""
    rows = rng.integers(0, 2 ** rng.integers(1, 11), (size, size))
    return rows, int(rng.integers(1, 2 ** rng.integers(1, 9)))


def elements(run: int, rank: int, rows: int, columns: int) -> NDArray[np.int64]:
    """A matrix of elements that no other rank or run has."""
    numbers = np.arange(rows * columns, dtype=np.int64).reshape((rows, columns), order="F")
    return np.asfortranarray(numbers + (run * 64 + rank) * 2**32)


def run_once(ring: Ring, run: int, rng: np.random.Generator) -> None:
    rows, columns = drawn(rng, ring.size)
    stream, together, mark = (bool(n) for n in rng.integers(0, 2, 3))
    me, before_a, before_b = ring.rank, rows.cumsum(axis=1) - rows, rows.cumsum(axis=0) - rows
    rows_a, rows_b = int(rows[me].sum()), int(rows[:, me].sum())
    a, b = elements(run, me, rows_a, columns), np.full((rows_b, columns), -1, np.int64, order="F")
    sends = [
        (peer, bundle(int(n), columns, int(before_a[me, peer]), rows_a, 0, int(n), "target"))
        for peer, n in enumerate(rows[me])
        if n and peer != me
    ]
    receives = [
        (peer, bundle(int(n), columns, 0, int(n), int(before_b[peer, me]), rows_b, "source"))
        for peer, n in enumerate(rows[:, me])
        if n and peer != me
    ]
    own = int(rows[me, me])
    copies = [bundle(own, columns, int(before_a[me, me]), rows_a, int(before_b[me, me]), rows_b, "")] if own else []
    origins = Origins(1)
    origins.put(0, a.ctypes.data, b.ctypes.data)
    traffic = Traffic(
        ring, sends, receives, copies, limit=AREA, most_slots=SLOTS, stream=stream, shortest=0 if together else -1
    )
    vote = RingVote(ring, Ballot(failed=0, note=run))
    until = time.monotonic() + PATIENCE
    while not vote.test(block=True):
        assert time.monotonic() < until, f"rank {me}, run {run}: no votes of {ring.missing()}"
    assert vote.outcome is not None
    assert vote.outcome.note == run, f"rank {me}, run {run}: the vote is one of run {vote.outcome.note}"
    traffic.begin(origins, vote.number if mark else 0)
    while not traffic.advance(True):
        assert time.monotonic() < until, f"rank {me}, run {run}: messages do not arrive"
    for peer, n in enumerate(rows[:, me]):
        sent = elements(run, peer, int(rows[peer].sum()), columns)[before_a[peer, me] :][:n]
        came = b[before_b[peer, me] :][:n]
        assert np.array_equal(sent, came), f"rank {me}, run {run}: wrong elements from rank {peer}"


def main(size: int, number: int, seed: int = 0) -> None:
    memory = np.zeros(bytes_needed(size, AREA), np.uint8)
    failed: list[BaseException] = []

    def rank(me: int) -> None:
        try:
            ring, rng = Ring(memory, me, size, AREA, 100), np.random.default_rng(seed)
            for run in range(number):
                run_once(ring, run, rng)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=rank, args=(me,), daemon=True) for me in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    print(f"{size} ranks in threads, {number} runs with seed {seed}: every element arrived", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
