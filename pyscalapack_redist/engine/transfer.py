"""Transfer: one use of a plan, as a state machine. docs/protocol.md says what each rank may assume in each state.

    VOTING -> READY -> MOVING -> COMPLETE
       |  \\-> ASKING -/    \\-> BROKEN
       \\-> REFUSING -> REFUSED

It is advanced by whoever waits for anything, and never blocks. A compiled call (`_kernels.call.Call`) goes through the same
states in one piece; where it cannot go on, a transfer does so from the state that it has reached.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .._kernels.call import Call
from .._kernels.ring import Outcome
from ..comm.conversation import DATA, TALK, Conversation
from ..comm.group import Group
from ..comm.progress import advance_others, interrupts_held, under_way, until
from ..comm.vote import Ballot, MPIVote, RingVote, Statement, Vote, differ, digest
from ..errors import CollectiveError
from ..exchanges import Exchange, Progress, Run
from ..exchanges.nonblocking import AtOnce
from ..exchanges.shared import Together
from .arrays import dtype_digest
from .binding import BY_COLUMNS, BY_ROWS, Binding, Operands
from .fast_path import remember
from .intermediate import allocate, forms_with, origins
from .small import SmallCall

if TYPE_CHECKING:
    from .plan import Redistribution

__all__ = ["State", "Transfer"]

# MPI makes progress only while it is called, and a connection between nodes needs several looks for one message: a test
# goes on looking for this share of the time since the last one, but for no more than so many seconds.
TEST_SHARE, LONGEST_TEST = 0.02, 1e-3
ASKS = 1  # the note of a rank that has still to be told of arrays, or to tell


class State(enum.IntEnum):
    """Where a transfer is on this rank."""

    VOTING = 0  # this rank has voted, or waits for votes before its own to be counted
    ASKING = 1  # ranks tell one another what not all know of the arrays
    REFUSING = 2  # the vote was not good: ranks tell one another why, and receive what was sent to them
    READY = 3  # nothing can fail any more; transfers started before this one come first
    MOVING = 4
    COMPLETE = 5
    REFUSED = 6  # nothing has moved, and the plan can be used again
    BROKEN = 7  # something failed while elements moved: these ranks cannot redistribute any more


class Transfer:
    """A redistribution in flight, a nonblocking operation. Made by `start` of a plan."""

    def __init__(
        self,
        plan: Redistribution,
        arrays: Any,
        outs: Any,
        alpha: object = 1,
        beta: object = 0,
        spent: dict[str, float] | None = None,
        call: Call | SmallCall | None = None,
        error: BaseException | None = None,
    ) -> None:
        self._plan, self._spent = plan, spent
        self._tested = self._started = time.perf_counter()
        self.agreed_at = 0.0
        self._error: BaseException | None = error
        self._result: Any = None
        self._operands: Operands | None = None
        self._binding: Binding | None = None
        self._progress: Progress | None = None
        self._staging: NDArray[np.uint8] | None = None
        self._between: list[NDArray[Any] | None] = []
        self._stage = self._mark = self._talks = 0
        self._talk: Any = None  # a Conversation or a Refusal
        self._dtypes: Sequence[np.dtype[Any] | None] = ()
        self._vote: Vote | _Counted
        group = plan._group
        if group is None:
            self._operands = plan._operands(arrays, outs, alpha, beta)
            mine = self._operands
            self._result = plan._finished(mine.outs, mine.targets, mine.factors)
            self.state = State.COMPLETE
            return
        self._group: Group = group
        self._factors = alpha, beta
        if call is None:
            group.check_usable()
        with interrupts_held() as held:
            self.state = State.VOTING
            self._ticket = group.next_ticket()
            if call is not None:
                self._go_on_from(call, arrays, outs)
            else:
                self._bind(arrays, outs, held.let_through)
                ballot = self._ballot()
                self._vote = group.cast(ballot)
                self._go_ahead()
            group.transfers[self] = None
            under_way()[self] = None

    # -- before the vote

    def _go_ahead(self) -> None:
        """Send what may go before the vote is known."""
        if self._progress is not None and self._error is None:
            self._progress.ahead()

    def _bind(self, arrays: Any, outs: Any, let_through: Callable[[], None]) -> None:
        """Check this rank's arrays and take all that the transfer needs; what is wrong is told to all ranks."""
        plan = self._plan
        try:
            if self._error is not None:
                return
            self._operands = mine = plan._operands(arrays, outs, *self._factors)
            try:
                self._take(plan._known(mine))
            except Exception:
                if not plan._asks or None not in mine.dtypes:
                    raise
                plan._forget(mine)  # it does for arrays that others had last time; they tell again
                self._binding = self._progress = None
            let_through()
        except BaseException as caught:
            self._error = caught

    def _take(self, known: Sequence[np.dtype[Any] | None] | None) -> None:
        """What moves the arrays, the memory for it, and the arrays of layouts in between, once their dtypes are known."""
        plan, mine = self._plan, self._operands
        assert mine is not None
        if known is None or (mine.order is None and not plan._asks):
            return
        remembered = plan._remembered
        if remembered is not None and remembered.operands.forms is mine.forms:
            self._binding = remembered.binding
        else:
            forms, self._between = allocate(plan, mine, known)
            self._binding = plan._binding(mine, forms, plan._order_of(mine), max(self._group_item, *forms.items))
        self._staging = self._group.take_staging(self._binding.private_bytes)
        self._progress = self._begin(0)

    @property
    def _group_item(self) -> int:
        """Bytes of the largest element on any rank, as far as that is known."""
        vote = getattr(self, "_vote", None)
        return 0 if vote is None or vote.outcome is None else int(vote.outcome.item)

    def _ballot(self) -> Ballot:
        plan, mine = self._plan, self._operands
        if mine is None:
            return Ballot(failed=self._group.failed(self._error), call=plan._identity)
        call = plan._identity if mine.plain else digest((plan._identity, mine.factors))
        dtype, note = plan._dtype_in_vote(mine)
        return Ballot(
            failed=self._group.failed(self._error),
            call=call,
            dtype=dtype,
            note=note,
            item=mine.item,
            order=mine.order or 0,
        )

    def _go_on_from(self, call: Any, arrays: Any, outs: Any) -> None:
        """A compiled call has voted, and come no further."""
        plan, group = self._plan, self._group
        remembered = plan._remembered
        assert remembered is not None
        given, into = plan._lists(arrays, outs)
        self._operands = remembered.operands._replace(
            given=given,
            outs=into,
            targets=call.targets if plan._listed else [call.targets],
            origins=call.origins,
        )
        self._binding = remembered.binding
        exchange = self._binding.exchanges[0]
        if isinstance(call, SmallCall):
            self._vote = group.adopt(MPIVote.started(call.ballot, call.mine, call.largest, call.request))
            self._staging = call.staging
            self._progress = small = AtOnce(exchange, self._run(0))  # type: ignore[arg-type]
            small.take_over(call.requests, call.left)
            call.hand_over()
            return
        begun = None
        if call.voted and not call.as_expected:
            self._vote = _Counted(call.outcome(), call.number)
        else:
            begun = call.traffic
            ring = begun.ring
            self._vote = (
                _Counted(call.outcome(), call.number)
                if call.voted
                else group.adopt(RingVote(ring, call.ballot, posted=True))
            )
        call.hand_over()
        self._staging = group.take_staging(self._binding.private_bytes)
        self._progress = Together(exchange, self._run(0), begun)  # type: ignore[arg-type]

    # -- states

    def advance(self, block: bool = False) -> bool:
        """Make as much progress as possible; True when it has ended. It never raises. Not collective."""
        if self.state >= State.COMPLETE:
            return True
        if not self._group.lock.acquire(False):
            return False
        try:
            if self._group.broken is not None:
                self._break(CollectiveError(f"{self._group.broken}: what it owed will not come"))
            while self.state < State.COMPLETE and self._STEPS[self.state](self, block):
                pass
        except BaseException as caught:
            self._break(caught)
        finally:
            self._group.lock.release()
        return self.state >= State.COMPLETE

    def _voting(self, block: bool) -> bool:
        """Until all have voted."""
        if not self._group.count(self._vote, block):
            return False
        outcome, plan = self._vote.outcome, self._plan
        assert outcome is not None
        self.agreed_at = time.perf_counter()
        disputed = outcome.disputed
        if outcome.failed or "call" in disputed or ("dtype" in disputed and not plan._asks):
            self._refuse()
        elif plan._asks and (outcome.note or "dtype" in disputed):
            self._ask(outcome)
        else:
            self._agreed(outcome)
        return True

    def _agreed(self, outcome: Outcome) -> None:
        """All is well on all ranks, and they know in which order elements go."""
        plan, mine = self._plan, self._operands
        assert mine is not None
        order = int(outcome.order) or BY_COLUMNS
        if len(plan._stages) > 1:
            order = BY_COLUMNS
        if self._binding is None or (self._binding.order, self._binding.item) != (order, outcome.item):
            forms = mine.forms if not self._between else self._forms
            self._binding = plan._binding(mine, forms, order, int(outcome.item))
            if self._progress is None:
                self._staging = self._group.take_staging(self._binding.private_bytes)
                self._progress = self._begin(0)
        packed = outcome.packed
        if packed is not None and (packed != order or "packed" in outcome.disputed):
            self._mark = self._vote.number
        remember(plan, mine, self._binding, self._vote)
        self.state = State.READY

    def _ask(self, outcome: Outcome) -> None:
        """Tell the dtypes of this rank's arrays, and learn those of the others'."""
        mine = self._operands
        assert mine is not None

        def answers(told: list[Any]) -> list[Any]:
            known: list[Any] = []
            for k in range(len(mine.dtypes)):
                said = [(rank, dtypes[k]) for rank, dtypes in enumerate(told) if dtypes[k] is not None]
                first = {dtype_digest(dtype): (rank, f"dtype {dtype}") for rank, dtype in reversed(said)}
                if len(first) > 1:
                    what = f"the dtype of plan {k}" if len(mine.dtypes) > 1 else "the dtype"
                    return [(differ(what, sorted(first.values())), None)] * len(told)
                known.append(said[0][1] if said else None)
            return [(None, known)] * len(told)

        self._talk = Conversation(self._group.channel, self._ticket + TALK, mine.dtypes, answers)
        self._talks = 1
        self.state = State.ASKING

    def _asking(self, block: bool) -> bool:
        """First what dtypes all have, then whether all could take what they need."""
        talk, plan, mine = self._talk, self._plan, self._operands
        assert talk is not None
        assert mine is not None
        if not talk.advance():
            return False
        if self._talks == 1:
            verdict, dtypes = talk.answer
            outcome = self._vote.outcome
            assert outcome is not None
            try:
                if verdict is not None:
                    raise CollectiveError(self._group.in_words(verdict))
                self._dtypes = dtypes
                if self._progress is None:
                    self._take(dtypes)
            except BaseException as caught:
                self._error = caught
            self._talk, self._talks = self._group.refusal(self._ticket, self._error, list, self._sent), 2
            return True
        if talk.answer is not None:
            self.state = State.REFUSING
            return True
        outcome = self._vote.outcome
        assert outcome is not None
        plan._learn(mine, self._dtypes, int(outcome.order))
        self._agreed(outcome)
        return True

    @property
    def _sent(self) -> tuple[int, ...]:
        """Ranks to which messages have gone before the vote was known."""
        return () if self._progress is None else self._progress.take_back()

    def _refuse(self) -> None:
        """Tell the others why this rank has failed, or what it means."""
        self._talk = self._group.refusal(self._ticket, self._error, self._statements, self._sent)
        self.state = State.REFUSING

    def _statements(self) -> list[Statement]:
        plan, mine = self._plan, self._operands
        if mine is None:
            return []
        call = f"{plan!r} with {plan._factors_in_words(mine.factors)}"
        dtype = mine.dtypes[0] if len(mine.dtypes) == 1 else None
        return [
            Statement("the batch" if plan._listed else "the plan", (plan._identity, mine.factors), call),
            Statement("the dtype", None if dtype is None else dtype_digest(dtype), f"dtype {dtype}"),
        ]

    def _refusing(self, block: bool) -> bool:
        """Until this rank knows why, and what was sent before the vote is out of the way: MPI reads it from staging memory."""
        talk, progress = self._talk, self._progress
        assert talk is not None
        if not talk.advance() or (progress is not None and not progress.is_sent()):
            return False
        if self._error is None:
            self._error = CollectiveError(talk.answer)
        self._end(State.REFUSED)
        return True

    def _ready(self, block: bool) -> bool:
        """Until it may begin: after all that this group started before, for ranks wait in any order; and an exchange whose
        runs come one after another also lets those before it end.
        """
        exchange = self._exchange
        for one in self._group.transfers:
            if one is self:
                break
            if one.state < State.MOVING or (one.state == State.MOVING and exchange.in_turn and one._exchange.in_turn):
                return False
        if not self._has_anything:
            self._end(State.COMPLETE)
            return True
        assert self._progress is not None
        self._progress.start(exchange, self._mark)
        self.state = State.MOVING
        return True

    @property
    def _has_anything(self) -> bool:
        """Whether any rank has elements that move."""
        mine, outcome = self._operands, self._vote.outcome
        assert mine is not None
        assert outcome is not None
        return bool(outcome.item) and not (len(self._plan._stages) == 1 and all(mine.forms.stays))

    def _moving(self, block: bool) -> bool:
        """Stage after stage."""
        assert self._progress is not None
        if not self._progress.advance(block):
            return False
        self._stage += 1
        if self._stage == len(self._plan._stages):
            self._end(State.COMPLETE)
            return True
        self._progress = self._begin(self._stage)
        self._progress.start(self._exchange)
        return True

    _STEPS: ClassVar[dict[State, Callable[[Transfer, bool], bool]]] = {
        State.VOTING: _voting,
        State.ASKING: _asking,
        State.REFUSING: _refusing,
        State.READY: _ready,
        State.MOVING: _moving,
    }

    def _end(self, state: State) -> None:
        if state == State.COMPLETE:
            mine = self._operands
            assert mine is not None
            self._result = self._plan._finished(mine.outs, mine.targets, mine.factors)
            self._plan._seconds = time.perf_counter() - self._started
        if self._staging is not None:
            self._group.return_staging(self._staging)
        self._progress = self._staging = self._operands = self._talk = None
        self._between = []
        self._leave(state)

    def _break(self, error: BaseException) -> None:
        """It stays in memory: MPI may still read and write there."""
        self._error = error
        self._group.break_off(f"{type(error).__name__}: {error}")
        self._group.wreckage.append((self._progress, self._staging, self._operands, self._between, self._talk))
        self._leave(State.BROKEN)

    def _leave(self, state: State) -> None:
        self.state = state
        self._group.transfers.pop(self, None)
        under_way().pop(self, None)

    # -- what moves it

    @property
    def _exchange(self) -> Exchange:
        assert self._binding is not None
        return self._binding.exchanges[self._stage]

    def _begin(self, stage: int) -> Progress:
        assert self._binding is not None
        return self._binding.exchanges[stage].begin(self._run(stage))

    def _run(self, stage: int) -> Run:
        plan, mine, binding = self._plan, self._operands, self._binding
        assert mine is not None
        assert binding is not None
        assert self._staging is not None
        starts, addresses = origins(plan, stage, mine, self._between)
        forms = self._forms if self._between else mine.forms

        def turned() -> Exchange:
            return plan._binding(mine, forms, BY_ROWS + BY_COLUMNS - binding.order, binding.item).exchanges[stage]

        group = self._group
        return Run(
            group.channel,
            group.collectives,
            self._ticket + DATA,
            starts,
            addresses,
            self._staging,
            self._spent,
            turned,
        )

    @property
    def _forms(self) -> Any:
        assert self._operands is not None
        return forms_with(self._plan, self._operands, self._between)

    # -- for the user

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
        while self.state < State.COMPLETE:
            with interrupts_held():
                advance_others(self)
                self.advance()
            self._look_around()
            self._tested = time.perf_counter()
            if self._tested >= until_:
                break
        if self._error is not None and self.state > State.COMPLETE:
            raise self._error
        return self.state == State.COMPLETE

    def wait(self) -> Any:
        """Complete the redistribution and return the local array of B (None on a rank outside B); of a batch, a list of them.

        An interrupt (SIGINT) ends the waiting, not the transfer: it makes progress in the next call of anything here, and may
        be waited for again.

        Raises
        ------
        ArrayError, CollectiveError
            As a call of the plan does.
        """
        if self.state < State.COMPLETE:
            node = self._group.node
            block = len(under_way()) == 1 and node is not None and node.ring is not None
            until(lambda: self.advance(block), self._look_around, self, block)
        if self._error is not None:
            raise self._error
        return self._result

    def _look_around(self) -> None:
        try:
            self._group.look_around(self._plan)
        except CollectiveError as gone:
            with self._group.lock:
                if self.state < State.COMPLETE:
                    self._break(gone)


class _Counted:
    """A vote that a compiled call has counted."""

    def __init__(self, outcome: Outcome, number: int) -> None:
        self.outcome, self.number = outcome, number

    def test(self, block: bool = False) -> bool:
        """It is counted."""
        return True
