"""Transfer: one use of a plan in flight, as the states that it goes through.

    VOTING -> READY -> MOVING -> COMPLETE
       |  \\-> ASKING -> CONFIRMING -> READY
       \\-> REFUSING -> REFUSED

A call of a series (comm/series.py) has no vote: it begins READY, and ends REFUSED where a rank has failed.

From any of them to BROKEN, where a step raises. docs/protocol.md says what each rank may assume in each. A transfer knows
neither layouts nor arrays: what it moves is a `Use`.

It is advanced by whoever waits for anything, and never blocks. One that is complete can be used again, for arrays of the same
kind: that is the fast path of exchanges by MPI. The one through the ring (`_kernels.call.Call`) is compiled, and goes through
the same states in one piece; where it cannot go on, a transfer does so from the state that it has reached.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ..errors import CollectiveError
from . import progress
from .group import TALK, Conversation, Group, Refusal
from .progress import advance_others, hold_interrupts, tasks_in_flight, wait_until
from .series import Series
from .vote import Outcome, Rows, Statement, Verdict, Vote


class State(enum.IntEnum):
    """Where a transfer is on this rank."""

    VOTING = 0  # this rank has voted, or waits for votes before its own to be counted
    ASKING = 1  # ranks tell one another what not all know of the arrays
    CONFIRMING = 2  # ranks tell one another whether all could take what these need
    REFUSING = 3  # the vote was not good: ranks tell one another why, and receive what was sent to them
    READY = 4  # nothing can fail any more; transfers started before this one come first
    MOVING = 5
    COMPLETE = 6
    REFUSED = 7  # nothing has moved, and the plan can be used again
    BROKEN = 8  # something failed while elements moved: these ranks cannot redistribute any more


COMPLETE = State.COMPLETE
# MPI makes progress only while it is called, and a connection between nodes needs several looks for one message: a test
# goes on looking for this share of the time since the last one, but for no more than so many seconds.
TEST_SHARE, LONGEST_TEST = 0.02, 1e-3


class Use(Protocol):
    """What a transfer moves: arrays of one kind, their exchanges, and the memory for them.

    Attributes
    ----------
    plan : object
        The plan, for reports of missing ranks.
    error : BaseException or None
        This rank's error; with one it votes "failed".
    may_ask_dtypes : bool
        Whether ranks may have to exchange the dtypes of their arrays.
    moves : bool
        Whether any rank has elements to move; known after agreement.
    in_turn : bool
        Whether the current exchange runs alone.
    series : Series or None
        The series of calls without votes that this use belongs to.
    """

    error: BaseException | None
    moves: bool
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
        """List the values behind the vote's digests, for the error text where they differ."""

    def send_ahead(self) -> None:
        """Send what may go before the vote is counted."""

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

    def take_back(self) -> Sequence[int]:
        """Cancel after a failed vote; return the ranks to which something was sent."""

    def is_sent(self) -> bool:
        """Whether MPI has completed all sends."""

    def start(self, mark: int) -> None:
        """Start moving."""

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
        """Prepare the next use, of these arrays; False if they are of another kind."""

    def become_ordinary(self) -> None:
        """Continue a reset use as any other use."""

    def release_target(self) -> Any:
        """Return the local array of B after a reset use, and forget it."""


class CountedVoting:
    """A vote that a compiled call has counted."""

    def __init__(self, outcome: Outcome, number: int) -> None:
        self.outcome, self.number = outcome, number

    def test(self, block: bool = False) -> bool:
        """It is counted."""
        return True


class Transfer:
    """A redistribution in flight, a nonblocking operation. Made by `start` of a plan.

    `with plan.start(a, out) as transfer:` waits for it at the end of the block; where the block is left by an error it is not
    waited for, since other ranks may not come, and goes on as after an interrupt of `wait`.
    """

    _group: Group
    _vote: Vote  # of one to be used again
    expected: Outcome | None
    _talk: Conversation
    _refusal: Refusal

    def __init__(self, group: Group | None, use: Use, ticket: int = 0, voting: Any = None) -> None:
        self._use, self._ticket, self._voting = use, ticket, voting
        self._tested = time.perf_counter()
        self._result: Any = None
        self._error: BaseException | None = None
        self._mark = 0
        if group is None:
            self.state, self._result = COMPLETE, use.finish()
            return
        self._group, self.state = group, State.VOTING if use.series is None else State.READY
        try:
            if use.series is not None and use.error is not None:
                self._end_series(use.error)
                return
            if voting is None and use.series is None:
                self._voting = group.cast_vote(use.make_vote(group.failure_code(use.error)), use.vote_rows)
            if voting is None:
                use.send_ahead()
        except BaseException as caught:  # the others count on what has begun
            self._give_up(caught)
            raise
        self._join()

    @classmethod
    def ready(cls, group: Group, use: Use, vote: Vote, expected: Outcome | None) -> Transfer:
        """One to be used `repeat`, by a vote that all ranks agreed to, of which this came. Not collective."""
        self = object.__new__(cls)
        self._group, self._use, self.state = group, use, COMPLETE
        self._result = self._error = None
        self._vote, self.expected, self._mark, self._tested = vote, expected, 0, 0.0
        return self

    # -- states

    def advance(self, block: bool = False) -> bool:
        """Make as much progress as possible; True when it has ended. It never raises. Not collective."""
        if self.state >= COMPLETE:
            return True
        group = self._group
        if not group.lock.acquire(False):
            return False
        try:
            if group.abort_reason is not None:
                self._break(CollectiveError(f"{group.abort_reason}: what it owed will not come"))
            while self.state < COMPLETE and _STEPS[self.state](self, block):
                pass
            if self.state >= COMPLETE:
                self._leave()
        except BaseException as caught:
            self._break(caught)
        finally:
            group.lock.release()
        return self.state >= COMPLETE

    def _advance_voting(self, block: bool) -> bool:
        """Until all have voted."""
        use = self._use
        outcome = self._group.count(self._voting, block)
        if outcome is None:
            return False
        use.record_vote_time()
        disputed = outcome.disputed
        if (
            use.error is not None
            or outcome.failed
            or "call" in disputed
            or ("dtype" in disputed and not use.may_ask_dtypes)
        ):
            self._refuse(use.make_statements)
            self.state = State.REFUSING
        elif use.may_ask_dtypes and (outcome.pending or "dtype" in disputed):
            self._talk = Conversation(self._group.channel, self._ticket + TALK, use.own_dtypes, use.combine_dtypes)
            self.state = State.ASKING
        else:
            self._agree(outcome)
        return True

    def _advance_asking(self, block: bool) -> bool:
        """Until this rank knows what the others told, and has what that needs, or has failed to get it."""
        talk, use = self._talk, self._use
        if not talk.advance():
            return False
        verdict: Verdict | None
        verdict, known = talk.answer if talk.failure is None else (talk.failure, None)
        try:
            if verdict is not None:
                raise talk.error or CollectiveError(self._group.in_words(verdict))
            use.take_memory(known, self._voting.outcome)
        except BaseException as caught:
            use.error = caught
        self._refuse(list)
        self.state = State.CONFIRMING
        return True

    def _advance_confirming(self, block: bool) -> bool:
        """Until all have told whether they have what they need."""
        if not self._refusal.advance():
            return False
        if self._refusal.answer is not None:
            self.state = State.REFUSING
            return True
        self._use.remember_dtypes(self._voting.outcome)
        self._agree(self._voting.outcome)
        return True

    def _refuse(self, statements: Callable[[], Sequence[Statement]]) -> None:
        """Tell the others why this rank has failed, or what it means."""
        use = self._use
        self._refusal = self._group.refusal(self._ticket, use.error, statements, tuple(use.take_back()))

    def _advance_refusing(self, block: bool) -> bool:
        """Until this rank knows why nothing may move, and MPI reads nothing from staging memory any more."""
        if not self._refusal.advance() or not self._use.is_sent():
            return False
        self._use.close()
        self._error = self._use.error or CollectiveError(self._refusal.answer)
        self._use.record_failure(self._error)
        self.state = State.REFUSED
        return True

    def _agree(self, outcome: Outcome) -> None:
        """All is well on all ranks, and they know in which order elements go."""
        self._mark = self._voting.number if self._use.adopt_outcome(outcome) else 0
        self.state = State.READY

    def _advance_ready(self, block: bool) -> bool:
        """Until it may begin: after all that this group started before, for ranks wait in any order; and an exchange whose
        runs come one after another also lets those before it end.
        """
        use = self._use
        if use.series is not None:
            return self._ready_in_series()
        for other in self._group.transfers:
            if other is self:
                break
            if other.state < State.MOVING or (use.in_turn and other.state == State.MOVING and other._use.in_turn):
                return False
        if use.moves:
            use.start(self._mark)
            self.state = State.MOVING
        else:
            self._complete()
        return True

    def _ready_in_series(self) -> bool:
        """Until the calls before have received all that is for them."""
        if not self._use.may_receive():
            return False
        error = self._use.find_failure()
        if error is None:
            self._use.start(0)
            self.state = State.MOVING
        elif not self._use.is_sent():
            return False
        else:
            self._end_series(error)
        return True

    def _advance_moving(self, block: bool) -> bool:
        """Until all have moved."""
        if not self._use.advance(block):
            return False
        self._complete()
        return True

    def _end_series(self, error: BaseException) -> None:
        """A rank has failed: there are no more calls."""
        self._use.close()
        self._use.record_failure(error)
        self.state, self._error = State.REFUSED, error

    def _complete(self) -> None:
        error = None if self._use.series is None else self._use.find_failure()
        if error is not None:
            self._end_series(error)
            return
        self._result = self._use.finish()
        self._use.close()
        self.state = COMPLETE

    # -- among what is under way

    def _join(self) -> None:
        self._group.transfers[self] = None
        tasks_in_flight()[self] = None

    def _leave(self) -> None:
        self._group.transfers.pop(self, None)
        tasks_in_flight().pop(self, None)

    def _give_up(self, error: BaseException) -> None:
        """These ranks cannot go on. What the transfer had stays in memory: MPI may still read and write there."""
        self._group.abort(f"{type(error).__name__}: {error}")
        self._group.aborted_uses.append(self._use)
        self.state, self._error = State.BROKEN, error

    def _break(self, error: BaseException) -> None:
        self._give_up(error)
        self._leave()

    def _check_peers(self) -> None:
        try:
            self._group.check_peers(self._use.plan)
        except CollectiveError as gone:
            with self._group.lock:
                if self.state < COMPLETE:
                    self._break(gone)

    # -- the next use

    def repeat(self, a: Any, out: Any) -> Any:
        """The local array of B; NotImplemented where this cannot be used for these arrays now. Collective, as a call.

        It casts the same vote as any transfer of such arrays, and sends the same messages. Where the vote is another, or an
        interrupt comes before it is counted, it goes on as any other transfer does.
        """
        group, use = self._group, self._use
        if self.state < COMPLETE or not group.is_ready or group.transfers:
            return NotImplemented
        if not use.reset(a, out, group.coming_ticket):
            return NotImplemented
        if use.series is not None:
            return self._repeat_in_series()
        with hold_interrupts() as held:
            self._voting = voting = group.new_vote(self._vote, use.vote_rows)
            self._ticket = group.draw_ticket()
            self.state = State.VOTING
            looks = 0
            try:
                use.send_ahead()
                while not voting.test():
                    looks = self._idle(looks)
                    held.deliver_interrupts()
            except BaseException:
                self._go_on()
                raise
            expected = (
                self.expected is not None and voting.outcome is not None and voting.outcome.is_same(self.expected)
            )
            if expected:
                self._move_all()
                return use.release_target()
            self._go_on()
        return self.wait()

    __call__ = repeat

    def _repeat_in_series(self) -> Any:
        """Without a vote; an interrupt may come while others are waited for, and it then goes on as any other transfer."""
        use, looks, looks_around = self._use, 0, False
        with hold_interrupts() as held:
            self._voting, self.state = None, State.MOVING
            try:
                use.send_ahead()
                use.start(0)
                while not use.advance(False):
                    looks += 1
                    if looks > progress.LOOKS:
                        progress.pause()
                    if held.came or looks % progress.LOOKS_AROUND == 0:
                        looks_around = True
                        self._group.check_peers(use.plan)
                        held.deliver_interrupts()
                        looks_around = False
            except BaseException as caught:
                if looks_around:
                    self._go_on()
                else:
                    self._give_up(caught)
                raise
            self._error = use.find_failure()
            if self._error is None:
                self.state = COMPLETE
                return use.release_target()
            self._end_series(self._error)
        return self.wait()

    def _move_all(self) -> None:
        """All are well; nothing interrupts this."""
        use, looks = self._use, 0
        self.state = State.MOVING
        try:
            use.start(0)
            while not use.advance(False):
                looks = self._idle(looks)
        except BaseException as caught:
            self._give_up(caught)
            raise
        self.state = COMPLETE

    def _go_on(self) -> None:
        """As any other transfer, from the vote that was cast."""
        self._result = self._error = None
        self._use.become_ordinary()
        if self._voting is not None:
            self._group.adopt(self._voting)
        self._join()

    def _idle(self, looks: int) -> int:
        """Wait a little; how often that has been."""
        if looks > progress.LOOKS:
            progress.pause()
            if looks % progress.LOOKS_AROUND == 0:
                self._group.check_peers(self._use.plan)
        return looks + 1

    # -- for whoever has started it

    def test(self) -> bool:
        """Make progress without waiting; True when the redistribution is completed. Not collective.

        Between nodes nothing moves but in `test` and `wait`: call it every few milliseconds while computing. It packs,
        unpacks and copies what it can, and looks at the messages for at most 2 % of the time since the last call.

        Raises
        ------
        ArrayError, CollectiveError
            As a call of the plan does.
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

    def wait(self) -> Any:
        """Complete the redistribution and return what a call of the plan does.

        An interrupt (SIGINT) ends the waiting, not the transfer: it makes progress in the next call of anything here, and may
        be waited for again.

        Raises
        ------
        ArrayError, CollectiveError
            As a call of the plan does.
        """
        if self.state < COMPLETE:
            node = self._group.node
            block = len(tasks_in_flight()) == 1 and node is not None and node.ring is not None
            wait_until(lambda: self.advance(block), self._check_peers, self, block)
        self._end()
        return self._use.wrap_result(self._result)

    def _end(self) -> None:
        """Whoever waits hears of the end, and of an error."""
        self._use.record_end(self._error)
        if self._error is not None:
            if self._use.series is not None:
                self._group.wait_for_failures()
            raise self._error

    def __enter__(self) -> Transfer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Wait; after an error not, for the others may not come: the transfer then goes on as after an interrupt."""
        if kind is None:
            self.wait()

    def __repr__(self) -> str:
        return f"Transfer({self._use.plan!r}, {self.state.name.lower()})"


_STEPS: dict[State, Callable[[Transfer, bool], bool]] = {
    State.VOTING: Transfer._advance_voting,
    State.ASKING: Transfer._advance_asking,
    State.CONFIRMING: Transfer._advance_confirming,
    State.REFUSING: Transfer._advance_refusing,
    State.READY: Transfer._advance_ready,
    State.MOVING: Transfer._advance_moving,
}
