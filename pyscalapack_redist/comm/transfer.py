"""Transfers: one use of a plan from start to completion, as a state machine.

    VOTING -> READY -> MOVING -> COMPLETE
       |  \\-> ASKING -> CONFIRMING -> READY
       \\-> REFUSING -> REFUSED

A call of a series (comm/series.py) has no vote: it begins READY, and ends REFUSED if a rank has failed. An exception in any
state leads to ABORTED. docs/protocol.md states what a rank may assume in each state. A transfer knows neither layouts nor
arrays; these belong to its `Payload`.

Every wait makes progress on all transfers of its thread; no step waits for longer than a millisecond. A complete transfer
can be repeated with arrays of the same kind, which is the fast path of exchanges by MPI. The fast path through the ring
(`_kernels.call.Call`) is compiled and goes through the same states; if it cannot continue, a transfer does, from the state
that it has reached.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, Self, TypeVar

from ..errors import CollectiveError
from . import progress
from .gather_scatter import GatherScatter
from .group import CONTROL, Group, Refusal
from .guard import Guard
from .progress import advance_others, hold_interrupts, tasks_in_flight, wait_until
from .series import Series
from .vote import Outcome, Rows, Statement, Verdict, Vote

Result = TypeVar("Result")  # of a call of the plan


class State(enum.IntEnum):
    """The state of a transfer on this rank."""

    VOTING = 0  # the vote is cast and not counted
    ASKING = 1  # ranks exchange the dtypes that not all know
    CONFIRMING = 2  # ranks learn whether all have the memory for these dtypes
    REFUSING = 3  # the vote failed: ranks learn the reason, and discard messages sent before the vote
    READY = 4  # all ranks have agreed; earlier transfers begin first
    MOVING = 5
    COMPLETE = 6
    REFUSED = 7  # no data moved, or the call of a series has failed; the group can be used again
    ABORTED = 8  # an error after the vote: the group cannot be used any more


COMPLETE = State.COMPLETE
# MPI makes progress only while it is called, and a message between nodes needs several calls. So `test` polls for this share
# of the time since the last `test`, but at most for so many seconds.
TEST_SHARE, LONGEST_TEST = 0.02, 1e-3


class Payload(Protocol):
    """Interface of the engine's `Use`: the arrays that a `Transfer` moves, with their exchanges and memory.

    Attributes
    ----------
    plan : object
        The plan, for reports of missing ranks.
    error : BaseException or None
        This rank's error; with one it votes "failed".
    may_ask_dtypes : bool
        Whether ranks may have to exchange the dtypes of their arrays.
    has_elements : bool
        Whether any rank has elements to move; known after agreement.
    in_turn : bool
        Whether the current exchange runs alone.
    series : Series or None
        The series of calls without votes that this use belongs to.
    """

    error: BaseException | None
    has_elements: bool
    series: Series | None

    @property
    def plan(self) -> Any: ...

    @property
    def may_ask_dtypes(self) -> bool: ...

    @property
    def in_turn(self) -> bool: ...

    @property
    def vote_rows(self) -> Rows | None:
        """Data that travel with the vote."""

    @property
    def own_dtypes(self) -> Any:
        """Dtypes of this rank's arrays."""

    def make_vote(self, failed: int) -> Vote:
        """Make this rank's vote."""

    def make_statements(self) -> Sequence[Statement]:
        """List the values behind the vote's digests, for the error text if they differ."""

    def send_early(self) -> None:
        """Send messages that need not wait for the vote."""

    def may_receive(self) -> bool:
        """Whether this call of a series can receive: the earlier ones have received all, or one has failed."""

    def find_failure(self) -> BaseException | None:
        """Return the error that ended the series, if any."""

    def record_failure(self, error: BaseException) -> None:
        """Record an error that all ranks know or will know."""

    def record_vote_time(self) -> None:
        """Record the time at which the vote was counted."""

    def combine_dtypes(self, dtypes_by_rank: list[Any]) -> list[Any]:
        """On the first rank: for each rank an error text or None, and the dtypes of all arrays."""

    def take_memory(self, dtypes: Any, outcome: Outcome) -> None:
        """Take the memory for arrays whose dtypes all ranks now know.

        Raises
        ------
        Exception
            There is not enough memory, or the arrays do not fit.
        """

    def remember_dtypes(self, outcome: Outcome) -> None:
        """Remember the dtypes, now that all ranks have their memory."""

    def adopt_outcome(self, outcome: Outcome) -> bool:
        """Adopt the agreement; True if messages packed before the vote must be packed again."""

    def withdraw(self) -> Sequence[int]:
        """Cancel after a failed vote; return the ranks to which something was sent."""

    def is_sent(self) -> bool:
        """Whether MPI has completed all sends."""

    def start(self, mark: int) -> None:
        """Start moving. `mark` is the number of a vote after which messages are packed again, or 0."""

    def advance(self, block: bool) -> bool:
        """Make progress; True when all has moved."""

    def close(self) -> None:
        """Release the memory: nothing reads or writes it any more."""

    def finish(self) -> Any:
        """Return the result, once all has moved."""

    def wrap_result(self, result: Any) -> Any:
        """Convert the result to the class of the user's arrays."""

    def record_end(self, error: BaseException | None) -> None:
        """Record the end of the transfer in a trace."""

    def reset(self, a: Any, out: Any, ticket: int) -> bool:
        """Prepare the next payload, of these arrays; False if they are of another kind."""

    def become_ordinary(self) -> None:
        """Continue a reset use as any other use."""

    def release_target(self) -> Any:
        """Return the local array of B after a reset payload, and forget it."""


class CountedVoting:
    """A vote that a compiled call has counted."""

    def __init__(self, outcome: Outcome, number: int) -> None:
        self.outcome, self.number = outcome, number

    def test(self, block: bool = False) -> bool:
        """True: the vote is counted."""
        return True


class Transfer(Generic[Result]):
    """A redistribution in flight, a nonblocking operation. Made by `start` of a plan.

    `with plan.start(a, out) as transfer:` waits at the end of the block. If an exception leaves the block there is no wait,
    since other ranks may not take part; the transfer then continues as after an interrupt of `wait`.
    """

    # It takes one `Payload` through its states. While it is in flight it is a `Task` of its thread.

    _group: Group
    _vote: Vote  # of a transfer that is repeated
    expected: Outcome | None
    _dtype_exchange: GatherScatter
    _refusal: Refusal

    def __init__(self, group: Group | None, payload: Payload, ticket: int = 0, voting: Any = None) -> None:
        self._payload, self._ticket, self._voting = payload, ticket, voting
        self._tested = time.perf_counter()
        self._result: Any = None
        self._error: BaseException | None = None
        self._mark = 0  # number of the vote after which messages are packed again
        if group is None:
            self.state, self._result = COMPLETE, payload.finish()
            return
        self._group, self.state = group, State.VOTING if payload.series is None else State.READY
        try:
            if payload.series is not None and payload.error is not None:
                self._end_series(payload.error)
                return
            if voting is None and payload.series is None:
                self._voting = group.cast_vote(payload.make_vote(group.failure_code(payload.error)), payload.vote_rows)
            if voting is None:
                payload.send_early()
        except BaseException as caught:  # other ranks depend on it
            self._abort(caught)
            raise
        self._join()

    @classmethod
    def ready(cls, group: Group, payload: Payload, vote: Vote, expected: Outcome | None) -> Self:
        """Make a transfer for `repeat`, from a vote and the outcome that all ranks agreed on."""
        self = object.__new__(cls)
        self._group, self._payload, self.state = group, payload, COMPLETE
        self._result = self._error = None
        self._vote, self.expected, self._mark, self._tested = vote, expected, 0, 0.0
        return self

    def has_ticket(self, ticket: int) -> bool:
        """Whether it has drawn this ticket. Not collective."""
        return self._payload.series is None and self._ticket == ticket

    # -- states

    def advance(self, block: bool = False) -> bool:
        """Make progress; True when it has ended. Never raises. Not collective."""
        if self.state >= COMPLETE:
            return True
        group = self._group
        if not group.lock.acquire(False):
            return False
        try:
            if group.abort_reason is not None:
                self._end_aborted(CollectiveError(f"{group.abort_reason}: its pending data are lost"))
            while self.state < COMPLETE and _STEPS[self.state](self, block):
                pass
            if self.state >= COMPLETE:
                self._leave()
        except BaseException as caught:
            self._end_aborted(caught)
        finally:
            group.lock.release()
        return self.state >= COMPLETE

    def _advance_voting(self, block: bool) -> bool:
        """Count the vote; then ask, refuse or get ready."""
        payload = self._payload
        outcome = self._group.count(self._voting, block)
        if outcome is None:
            return False
        payload.record_vote_time()
        disputed = outcome.disputed
        if (
            payload.error is not None
            or outcome.failed
            or "call" in disputed
            or ("dtype" in disputed and not payload.may_ask_dtypes)
        ):
            self._refuse(payload.make_statements)
            self.state = State.REFUSING
        elif payload.may_ask_dtypes and (outcome.pending or "dtype" in disputed):
            self._dtype_exchange = GatherScatter(
                self._group.channel, self._ticket + CONTROL, payload.own_dtypes, payload.combine_dtypes
            )
            self.state = State.ASKING
        else:
            self._agree(outcome)
        return True

    def _advance_asking(self, block: bool) -> bool:
        """Learn the dtypes, take the memory for them, and report whether that failed."""
        exchange, payload = self._dtype_exchange, self._payload
        if not exchange.advance():
            return False
        verdict: Verdict | None
        verdict, known = exchange.reply if exchange.failure is None else (exchange.failure, None)
        guard = Guard()
        if verdict is not None:
            guard.error = exchange.error or CollectiveError(self._group.format_verdict(verdict))
        else:
            guard.attempt(lambda: payload.take_memory(known, self._voting.outcome), is_open=False)
        payload.error = guard.error
        self._refuse(list)
        self.state = State.CONFIRMING
        return True

    def _advance_confirming(self, block: bool) -> bool:
        """Learn whether all ranks have their memory."""
        if not self._refusal.advance():
            return False
        if self._refusal.reason is not None:
            self.state = State.REFUSING
            return True
        self._payload.remember_dtypes(self._voting.outcome)
        self._agree(self._voting.outcome)
        return True

    def _refuse(self, statements: Callable[[], Sequence[Statement]]) -> None:
        """Start to report this rank's error or statements."""
        payload = self._payload
        self._refusal = self._group.start_refusal(self._ticket, payload.error, statements, tuple(payload.withdraw()))

    def _advance_refusing(self, block: bool) -> bool:
        """Learn the reason, and wait until MPI no longer reads staging buffers."""
        if not self._refusal.advance() or not self._payload.is_sent():
            return False
        self._payload.close()
        self._error = self._refusal.error or CollectiveError(self._refusal.reason)
        self._payload.record_failure(self._error)
        self.state = State.REFUSED
        return True

    def _agree(self, outcome: Outcome) -> None:
        """Adopt the agreement, with the order of elements in messages."""
        self._mark = self._voting.number if self._payload.adopt_outcome(outcome) else 0
        self.state = State.READY

    def _advance_ready(self, block: bool) -> bool:
        """Begin after all earlier transfers of the group have begun, or have completed if exchanges run one at a time."""
        payload = self._payload
        if payload.series is not None:
            return self._ready_in_series()
        for other in self._group.transfers:
            if other is self:
                break
            if other.state < State.MOVING or (
                payload.in_turn and other.state == State.MOVING and other._payload.in_turn
            ):
                return False
        if payload.has_elements:
            payload.start(self._mark)
            self.state = State.MOVING
        else:
            self._complete()
        return True

    def _ready_in_series(self) -> bool:
        """Begin when the earlier calls of the series have received all."""
        if not self._payload.may_receive():
            return False
        error = self._payload.find_failure()
        if error is None:
            self._payload.start(0)
            self.state = State.MOVING
        elif not self._payload.is_sent():
            return False
        else:
            self._end_series(error)
        return True

    def _advance_moving(self, block: bool) -> bool:
        """Move; then complete."""
        if not self._payload.advance(block):
            return False
        self._complete()
        return True

    def _end_series(self, error: BaseException) -> None:
        """End as refused: a rank has failed and the series has ended."""
        self._payload.close()
        self._payload.record_failure(error)
        self.state, self._error = State.REFUSED, error

    def _complete(self) -> None:
        error = None if self._payload.series is None else self._payload.find_failure()
        if error is not None:
            self._end_series(error)
            return
        self._result = self._payload.finish()
        self._payload.close()
        self.state = COMPLETE

    # -- operations in flight

    def _join(self) -> None:
        self._group.transfers[self] = None
        tasks_in_flight()[self] = None

    def _leave(self) -> None:
        self._group.transfers.pop(self, None)
        tasks_in_flight().pop(self, None)

    def _abort(self, error: BaseException) -> None:
        """Abort the group. The payload stays in memory, because MPI may still access it."""
        self._group.abort(f"{type(error).__name__}: {error}")
        self._group.aborted_uses.append(self._payload)
        self.state, self._error = State.ABORTED, error

    def _end_aborted(self, error: BaseException) -> None:
        self._abort(error)
        self._leave()

    def _check_peers(self) -> None:
        try:
            self._group.check_peers(self._payload.plan)
        except CollectiveError as error:
            with self._group.lock:
                if self.state < COMPLETE:
                    self._end_aborted(error)

    # -- the next use

    def repeat(self, a: Any, out: Any) -> Any:
        """Move arrays of the same kind again and return the local array of B; NotImplemented if not possible now. Collective.

        It casts the same vote as any transfer of such arrays, and sends the same messages. After another outcome of the vote,
        or an interrupt before it is counted, it continues as any other transfer.
        """
        group, payload = self._group, self._payload
        if self.state < COMPLETE or not group.is_ready or group.transfers or group.interrupted:
            return NotImplemented
        if not payload.reset(a, out, group.coming_ticket):
            return NotImplemented
        if payload.series is not None:
            return self._repeat_in_series()
        with hold_interrupts() as held:
            self._voting = voting = group.start_voting(self._vote, payload.vote_rows)
            self._ticket = group.draw_ticket()
            self.state = State.VOTING
            polls = 0
            try:
                payload.send_early()
                while not voting.test():
                    polls = self._idle(polls)
                    held.deliver_interrupts()
                    if polls % progress.POLLS_PER_CHECK == 0:
                        progress.force_interrupts()
            except BaseException:
                self._continue_slowly()
                raise
            expected = (
                self.expected is not None and voting.outcome is not None and voting.outcome.is_same(self.expected)
            )
            if expected:
                self._move_all()
                return payload.release_target()
            self._continue_slowly()
        return self.wait()

    __call__ = repeat

    def _repeat_in_series(self) -> Any:
        """Move without a vote; after an interrupt continue as any other transfer."""
        payload, polls, is_checking = self._payload, 0, False
        with hold_interrupts() as held:
            self._voting, self.state = None, State.MOVING
            try:
                payload.send_early()
                payload.start(0)
                while not payload.advance(False):
                    polls += 1
                    if polls > progress.POLLS:
                        progress.pause()
                    if held.pending or polls % progress.POLLS_PER_CHECK == 0:
                        is_checking = True
                        self._group.check_peers(payload.plan)
                        held.deliver_interrupts()
                        progress.force_interrupts()
                        is_checking = False
            except BaseException as caught:
                if is_checking:
                    self._continue_slowly()
                else:
                    self._abort(caught)
                raise
            self._error = payload.find_failure()
            if self._error is None:
                self.state = COMPLETE
                return payload.release_target()
            self._end_series(self._error)
        return self.wait()

    def _move_all(self) -> None:
        """Move after an agreement, without interrupts."""
        payload, polls = self._payload, 0
        self.state = State.MOVING
        try:
            payload.start(0)
            while not payload.advance(False):
                polls = self._idle(polls)
        except BaseException as caught:
            self._abort(caught)
            raise
        self.state = COMPLETE

    def _continue_slowly(self) -> None:
        """Continue as any other transfer, from the vote that was cast."""
        self._result = self._error = None
        self._payload.become_ordinary()
        if self._voting is not None:
            self._group.adopt(self._voting)
        self._join()

    def _idle(self, polls: int) -> int:
        """Wait a little; return the number of polls so far."""
        if polls > progress.POLLS:
            progress.pause()
            if polls % progress.POLLS_PER_CHECK == 0:
                self._group.check_peers(self._payload.plan)
        return polls + 1

    # -- for the user

    def test(self) -> bool:
        """Make progress without waiting; True when the redistribution is complete. Not collective.

        Between nodes data move only in `test` and `wait`: call it every few milliseconds while computing. It packs, unpacks
        and copies all it can, and polls MPI for at most 2 % of the time since the last call.

        Raises
        ------
        ArrayError, CollectiveError
            As in a call of the plan.
        """
        start = time.perf_counter()
        until_ = start + min(TEST_SHARE * (start - self._tested), LONGEST_TEST)
        while self.state < COMPLETE:
            with hold_interrupts():
                advance_others(self)
                self.advance()
            self._check_peers()
            self._tested = time.perf_counter()
            if self._tested >= until_:
                break
        if self.state < COMPLETE:
            return False
        self._end()
        return True

    def wait(self) -> Result:
        """Complete the redistribution and return the result of a call of the plan. Collective, as a call of the plan.

        An interrupt (SIGINT) ends the wait, not the transfer, which makes progress in later calls of this package; `wait` may
        be called again.

        Raises
        ------
        ArrayError, CollectiveError
            As in a call of the plan.
        """
        if self.state < COMPLETE:
            node = self._group.node
            block = len(tasks_in_flight()) == 1 and node is not None and node.ring is not None
            wait_until(lambda: self.advance(block), self._check_peers, self, block)
        self._end()
        result: Result = self._payload.wrap_result(self._result)
        return result

    def _end(self) -> None:
        """Record the end and raise the error, if any."""
        self._payload.record_end(self._error)
        if self._error is not None:
            if self._payload.series is not None:
                self._group.wait_for_failures()
            raise self._error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Wait, unless an exception leaves the block."""
        if kind is None:
            self.wait()

    def __repr__(self) -> str:
        return f"Transfer({self._payload.plan!r}, {self.state.name.lower()})"


_STEPS: dict[State, Callable[[Transfer[Any], bool], bool]] = {
    State.VOTING: Transfer._advance_voting,
    State.ASKING: Transfer._advance_asking,
    State.CONFIRMING: Transfer._advance_confirming,
    State.REFUSING: Transfer._advance_refusing,
    State.READY: Transfer._advance_ready,
    State.MOVING: Transfer._advance_moving,
}
