"""The shared memory of a node with a thread in place of each rank: votes, and messages of every size, byte by byte.

ThreadSanitizer, which knows the memory model of C and not that of a processor, sees threads of one process only. Nothing
here needs MPI. `python tests/ring_in_threads.py RANKS PLANS [SEED]`; `ci/memory-order` runs it.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pyscalapack_redist._kernels.boxes import Box
from pyscalapack_redist._kernels.bundle import Bundle, Origins
from pyscalapack_redist._kernels.call import Call, Kinds, LastRun
from pyscalapack_redist._kernels.ring import Ring, RingVoting, Tickets, Vote, bytes_needed
from pyscalapack_redist._kernels.runs import Runs
from pyscalapack_redist._kernels.stores import Stores
from pyscalapack_redist._kernels.transport import Traffic

AREA, SLOTS, ITEM = 1 << 18, 4, 8
WAYS = "vote", "call", "dissent"
DISSENT = object()  # in place of the transfer that continues a call
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


def elements(use: int, rank: int, rows: int, columns: int) -> NDArray[np.int64]:
    """A matrix of elements that no other rank or use has."""
    numbers = np.arange(rows * columns, dtype=np.int64).reshape((rows, columns), order="F")
    return np.asfortranarray(numbers + (use * 64 + rank) * 2**32)


class Plan:
    """What one rank sends, receives and copies, with its arrays."""

    def __init__(self, ring: Ring, rng: np.random.Generator) -> None:
        self.ring, self.rank = ring, ring.rank
        self.rows, self.columns = drawn(rng, ring.size)
        stream, together = (bool(n) for n in rng.integers(0, 2, 2))
        me, columns = ring.rank, self.columns
        before_a = self.rows.cumsum(axis=1) - self.rows
        before_b = self.rows.cumsum(axis=0) - self.rows
        self.before_a, self.before_b = before_a[:, me], before_b[:, me]
        self.rows_a, self.rows_b = int(self.rows[me].sum()), int(self.rows[:, me].sum())
        sends, receives, copies = [], [], []
        for peer in range(ring.size):
            out, come = int(self.rows[me, peer]), int(self.rows[peer, me])
            from_, to = int(before_a[me, peer]), int(before_b[peer, me])
            if peer == me:
                copies = [bundle(out, columns, from_, self.rows_a, to, self.rows_b, "")] if out else []
                continue
            if out:
                sends.append((peer, bundle(out, columns, from_, self.rows_a, 0, out, "target")))
            if come:
                receives.append((peer, bundle(come, columns, 0, come, to, self.rows_b, "source")))
        self.traffic = Traffic(
            ring,
            sends,
            receives,
            copies,
            limit=AREA,
            most_slots=SLOTS,
            stores=Stores(0, stream),
            shortest=0 if together else -1,
        )
        self.a = np.zeros((self.rows_a, columns), np.int64, order="F")
        self.b = np.zeros((self.rows_b, columns), np.int64, order="F")

    def use(self, use: int, way: str) -> None:
        """One move of new elements."""
        self.a[...], self.b[...] = elements(use, self.rank, self.rows_a, self.columns), -1
        late = time.monotonic() + PATIENCE

        def check_peers() -> None:
            assert time.monotonic() < late, (
                f"rank {self.rank}, use {use}: no votes of {self.ring.missing()}, or no chunks"
            )

        if way == "vote":
            self._by_steps(0, use, check_peers)
        else:  # packed before the vote is known, as a plan does that has been used before
            dissent = way == "dissent" and self.ring.size > 1
            vote = Vote(item=ITEM, order=2, packed=2, call=self.rank == 0 and dissent)
            kinds, proceed = Kinds([self.a], [self.b], [None]), lambda *given: DISSENT
            after = contextlib.nullcontext, LastRun()
            call = Call(self.traffic, kinds, vote, ITEM, check_peers, Tickets(), False, proceed, *after)
            came = call(self.a, self.b)
            assert came is (DISSENT if dissent else self.b), f"rank {self.rank}, use {use}: the call gave {came}"
            if dissent:
                self._by_steps(self.ring.counted + 1, use, check_peers)
        for peer in range(self.ring.size):
            n = int(self.rows[peer, self.rank])
            sent = elements(use, peer, int(self.rows[peer].sum()), self.columns)[self.before_a[peer] :][:n]
            came = self.b[self.before_b[peer] :][:n]
            assert np.array_equal(sent, came), f"rank {self.rank}, use {use}: wrong elements from rank {peer}"

    def _by_steps(self, mark: int, use: int, check_peers: Callable[[], None]) -> None:
        """As a transfer does it: vote, then move; a mark says that what was packed before it was taken back."""
        voting = RingVoting(self.ring, Vote(failed=0, pending=use))
        while not voting.test(block=True):
            check_peers()
        assert voting.outcome is not None
        assert voting.outcome.pending == use, (
            f"rank {self.rank}, use {use}: the vote is one of use {voting.outcome.pending}"
        )
        origins = Origins(1)
        origins.put(0, self.a.ctypes.data, self.b.ctypes.data)
        self.traffic.begin(origins, mark)
        while not self.traffic.advance(True):
            check_peers()


def main(size: int, number: int, seed: int = 0) -> None:
    memory = np.zeros(bytes_needed(size, AREA), np.uint8)
    failed: list[BaseException] = []

    def rank(me: int) -> None:
        try:
            ring, rng = Ring(memory, me, size, AREA, 100), np.random.default_rng(seed)
            use = 0
            for _ in range(number):
                plan = Plan(ring, rng)
                for way in rng.choice(WAYS, 3):
                    use += 1
                    plan.use(use, way)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=rank, args=(me,), daemon=True) for me in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    print(f"{size} ranks in threads, {number} plans with seed {seed}: every element arrived", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
