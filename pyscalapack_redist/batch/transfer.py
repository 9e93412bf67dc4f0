"""A batch under way.

The ranks vote once: has anybody failed, is it the same batch, and are all arrays of kinds that these ranks have had
together before. If they are, the bundles move. If not, a second reduction tells the ranks dtypes and orders that they
cannot all know, and gives the kind a number for the next time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from ..agreement import Ballot, digest
from ..arrays import dtype_digest
from ..direct import ONE, ZERO
from ..errors import ArrayError, CollectiveError
from ..exchanges import LocalArray, Progress
from ..exchanges.exchange import Run
from ..flight import Flight
from .taken import Taken, checked, listed

if TYPE_CHECKING:
    from mpi4py import MPI

    from .several import Batch, Kind

__all__ = ["BatchTransfer"]

QUESTIONS = ("the batch", "the kind of arrays")  # and as many numbers as in a plan's vote: another rank may call one
UNKNOWN = 0  # the number of a kind on which the ranks have not agreed
NOWHERE = LocalArray(0, ())


class BatchTransfer(Flight[list[NDArray[Any] | None]]):
    """Several redistributions under way as one. `wait` returns a list of the local arrays of B."""

    def __init__(
        self,
        batch: Batch,
        arrays: object,
        outs: object,
        alpha: object = ONE,
        beta: object = ZERO,
        outcome: list[int] | None = None,
    ) -> None:
        super().__init__(batch._everyone, True, batch._failures, Ballot(QUESTIONS, extras=2))
        self._batch = batch
        self._taken: Taken | None = None
        self._kind: Kind | None = None
        if batch._everyone is None:
            taken = checked(batch.plans, arrays, outs, alpha, beta)
            self._result, self.done = batch._finished(taken.outs, taken.targets, taken.factors), True
            return
        identity, known = batch._identity, UNKNOWN
        try:
            if self._failures:
                raise CollectiveError(
                    f"this batch broke off earlier ({self._failures[0]}): messages may be lost; use another communicator"
                )
            self._taken, self._kind = taken, kind = self._take(arrays, outs, alpha, beta)
            known = kind.number
            if not taken.plain:
                identity = digest((identity, taken.factors))
        except Exception as caught:
            self._error = caught
        self._ballot.fill(self._everyone.size - self._everyone.rank if self._error else 0, [identity, known])
        self._cast(outcome)

    def results(self) -> list[NDArray[Any] | None]:
        """Complete it: what `wait` returns."""
        found = self.wait()
        assert found is not None
        return found

    def _take(self, arrays: object, outs: object, alpha: object, beta: object) -> tuple[Taken, Kind]:
        """The arrays and their kind: that of the last ones, or one that takes checking."""
        batch, n = self._batch, len(self._batch)
        taken = None
        if batch._last is not None and alpha is ONE and beta is ZERO:
            kinds, kind = batch._last
            given, into = listed("arrays", arrays, n), listed("outs", outs, n)
            found = kinds.match(given, into)
            if found is not None:
                taken = Taken(given, into, *found, (), ())
        if taken is None:
            taken = checked(batch.plans, arrays, outs, alpha, beta)
            kind = batch._kind_of(taken)
        limit, needed = batch._memory_limit, kind.exchange.staging_bytes()
        if needed > limit:
            raise ArrayError(
                f"memory_limit = {limit} bytes is too small for a batch of {n} plans with such elements: at least {needed} are "
                "needed"
            )
        self._staging = self._everyone.take_staging(kind.exchange.private_bytes(1))
        return taken, kind

    def _begin(self) -> bool:
        """Raise what was agreed to raise, move the bundles, or ask on about the arrays."""
        ballot, everyone = self._ballot, self._everyone
        if ballot.failed_rank(everyone.size) is not None or 0 in ballot.disputed():
            factors = self._taken.factors if self._taken is not None else ()
            everyone.refuse(
                ballot, self._error, lambda: [f"{self._batch!r} with factors {factors or 'of 1 and 0'}", ""]
            )
        if not ballot.disputed() and ballot.answer(1) != UNKNOWN:
            self._progress = self.moving()  # whoever has packed already has done so in this order
        else:  # and here has taken it back before answering
            assert self._kind is not None
            self._progress = _Asking(self, self._kind)
        return True

    def ask(self, ballot: Ballot) -> MPI.Request:
        """Start the second reduction; at this transfer's turn, so in the same order on all ranks. Not collective."""
        from mpi4py import MPI

        assert self._everyone.collectives is not None
        return self._everyone.collectives.Iallreduce(ballot.mine, ballot.all, MPI.MAX)

    def settle(self, answers: Ballot, dtypes: Sequence[str]) -> None:
        """Take what all ranks know of the arrays now. Not collective: equal on all ranks."""
        if not answers.unanimous:
            self._everyone.refuse(answers, None, lambda: dtypes)
        assert self._kind is not None
        self._kind = self._batch._agreed(
            self._kind, answers.all[-len(self._batch) :].tolist(), digest(answers.all.tolist()) or 1
        )

    def moving(self) -> Progress:
        """The bundles on their way. Not collective."""
        kind, taken, everyone = self._kind, self._taken, self._everyone
        assert kind is not None
        assert taken is not None
        assert self._staging is not None
        run = Run(
            everyone.comm,
            everyone.collectives,
            self._tag,
            NOWHERE,
            NOWHERE,
            1,
            (0,),
            self._staging,
            several=taken.origins,
        )
        if taken.arrays_checked and taken.plain:
            self._batch._remember(taken, kind, run)
        return kind.exchange.begin(run)

    def _land(self) -> None:
        assert self._taken is not None
        self._result = self._batch._finished(self._taken.outs, self._taken.targets, self._taken.factors)

    def _finish(self) -> None:
        super()._finish()
        self._taken = self._kind = None


class _Asking(Progress):
    """The second reduction, and what comes after it."""

    def __init__(self, flight: BatchTransfer, kind: Kind) -> None:
        n = len(kind.dtypes)
        self._ballot = Ballot([f"the dtype of plan {k}" for k in range(n)], extras=n)
        self._ballot.fill(0, [None if one is None else dtype_digest(one) for one in kind.dtypes])
        self._ballot.mine[-n:] = kind.own_order
        self._words = [f"dtype {one}" for one in kind.dtypes]
        self._flight, self._request = flight, flight.ask(self._ballot)
        self._next: Progress | None = None

    def advance(self, block: bool) -> bool:
        """Go on. Not collective."""
        if self._next is None:
            if not self._request.Test():
                return False
            self._flight.settle(self._ballot, self._words)
            self._next = self._flight.moving()
        return self._next.advance(block)
