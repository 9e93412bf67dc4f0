"""Transfer: one use of a plan, and the states that it goes through.

Each state has what is known by then, and says which comes next:

    Voting -> Ready -> Moving -> Complete
       |  \\-> Asking -> Confirming -> Ready
       \\-> Refusing -> Refused

From any of them to Broken, where `advance` raises. docs/protocol.md says what each rank may assume in each.

A transfer is advanced by whoever waits for anything, and never blocks. A compiled call (`_kernels.call.Call`) goes
through the same states in one piece; where it cannot go on, a transfer does so from the state that it has reached.
"""

from __future__ import annotations

import enum
import functools
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .._kernels.call import Call
from ..comm.group import TALK, Conversation, Group, Refusal
from ..comm.progress import advance_others, interrupts_held, under_way, until
from ..comm.vote import Ballot, Outcome, RingVote, Rows, Statement, Vote, differ
from ..errors import CollectiveError
from ..exchanges.exchange import prepare
from ..exchanges.shared import Together
from .arrays import BY_COLUMNS, dtype_digest
from .direct import DirectCall
from .movement import Movement, allocate
from .operands import Operands
from .plan import Plan, remember, remembered_of

__all__ = [
    "Broken",
    "Complete",
    "Context",
    "Counted",
    "Ended",
    "Phase",
    "State",
    "Transfer",
    "Voting",
    "take",
]

Dtypes = Sequence[np.dtype[Any] | None]


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


class Context(NamedTuple):
    """What all states of one transfer have in common: `started` is a moment of `time.perf_counter`."""

    plan: Plan
    group: Group
    ticket: int
    spent: dict[str, float] | None
    started: float


class Phase(ABC):
    """A transfer in one state, with what it has there."""

    state: ClassVar[State]
    in_turn = False  # whether another transfer of the group has to wait until this state has ended

    @abstractmethod
    def advance(self, block: bool) -> Phase | None:
        """Make progress: the state that comes next, None where that cannot be reached now. Not collective."""


class Voting(Phase):
    """This rank has voted. `mine` is None where its arrays were not good, `movement` where that needs the outcome first."""

    state = State.VOTING

    def __init__(
        self,
        context: Context,
        vote: Vote | Counted,
        mine: Operands | None,
        movement: Movement | None,
        error: BaseException | None = None,
    ) -> None:
        self._context, self._vote = context, vote
        self._mine, self._movement, self._error = mine, movement, error

    def advance(self, block: bool) -> Phase | None:
        """Until all have voted. Not collective."""
        context, mine, plan = self._context, self._mine, self._context.plan
        outcome = context.group.count(self._vote, block)
        if outcome is None:
            return None
        if context.spent is not None:
            context.spent["agreed"] = time.perf_counter() - context.started
        disputed = outcome.disputed
        if mine is None or outcome.failed or "call" in disputed or ("dtype" in disputed and not plan.asks):
            return self._refused()
        if plan.asks and (outcome.note or "dtype" in disputed):
            return Asking(context, self._vote, outcome, mine, self._movement)
        return _agreed(context, self._vote, outcome, mine, self._movement)

    def _refused(self) -> Refusing:
        """Tell the others why this rank has failed, or what it means."""
        context, mine, plan = self._context, self._mine, self._context.plan

        def statements() -> list[Statement]:
            if mine is None:
                return []
            dtype = mine.dtypes[0] if len(mine.dtypes) == 1 else None
            return [
                Statement("the batch" if plan.listed else "the plan", plan.identity, repr(plan)),
                Statement("alpha and beta", mine.factors, plan.factors_in_words(mine.factors)),
                Statement("the dtype", None if dtype is None else dtype_digest(dtype), f"dtype {dtype}"),
            ]

        refusal = context.group.refusal(context.ticket, self._error, statements, _sent(self._movement))
        return Refusing(refusal, self._error, self._movement)


class Asking(Phase):
    """Not all know the dtypes: ranks tell those of their arrays, and learn those of the others'."""

    state = State.ASKING

    def __init__(
        self, context: Context, vote: Vote | Counted, outcome: Outcome, mine: Operands, movement: Movement | None
    ) -> None:
        self._context, self._vote, self._outcome = context, vote, outcome
        self._mine, self._movement = mine, movement

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

        self._talk = Conversation(context.group.channel, context.ticket + TALK, mine.dtypes, answers)

    def advance(self, block: bool) -> Phase | None:
        """Until this rank knows the dtypes, and has what they need, or has failed to get it. Not collective."""
        talk = self._talk
        if not talk.advance():
            return None
        context, movement = self._context, self._movement
        error: BaseException | None = None
        verdict, dtypes = talk.answer if talk.failure is None else (talk.failure, [])
        try:
            if verdict is not None:
                raise talk.error or CollectiveError(context.group.in_words(verdict))
            if movement is None:
                movement = take(context, self._mine, dtypes, int(self._outcome.item))
        except BaseException as caught:
            error = caught
        return Confirming(context, self._vote, self._outcome, self._mine, movement, dtypes, error)


class Confirming(Phase):
    """The dtypes are known: ranks tell one another whether all could take what they need."""

    state = State.ASKING

    def __init__(
        self,
        context: Context,
        vote: Vote | Counted,
        outcome: Outcome,
        mine: Operands,
        movement: Movement | None,
        dtypes: Dtypes,
        error: BaseException | None,
    ) -> None:
        self._context, self._vote, self._outcome, self._error = context, vote, outcome, error
        self._mine, self._movement, self._dtypes = mine, movement, dtypes
        self._refusal = context.group.refusal(context.ticket, error, list, _sent(movement))

    def advance(self, block: bool) -> Phase | None:
        """Until all have told. Not collective."""
        context, outcome, mine = self._context, self._outcome, self._mine
        if not self._refusal.advance():
            return None
        if self._refusal.answer is not None:
            return Refusing(self._refusal, self._error, self._movement)
        context.plan.learn(mine, self._dtypes, int(outcome.order))
        return _agreed(context, self._vote, outcome, mine, self._movement)


class Refusing(Phase):
    """Nothing may move: ranks learn why, and what was sent before the vote is received and forgotten."""

    state = State.REFUSING

    def __init__(self, refusal: Refusal, error: BaseException | None, movement: Movement | None) -> None:
        self._refusal, self._error, self._movement = refusal, error, movement

    def advance(self, block: bool) -> Phase | None:
        """Until this rank knows why, and MPI reads nothing from staging memory any more. Not collective."""
        movement = self._movement
        if not self._refusal.advance() or (movement is not None and not movement.progress.is_sent()):
            return None
        if movement is not None:
            movement.close()
        return Refused(self._error or CollectiveError(self._refusal.answer))


class Ready(Phase):
    """All is well on all ranks."""

    state = State.READY

    def __init__(self, context: Context, outcome: Outcome, mine: Operands, movement: Movement, mark: int) -> None:
        self._context, self._mine, self._movement, self._mark = context, mine, movement, mark
        stays = len(context.plan.stages) == 1 and all(mine.forms.stays)
        self._moves = bool(outcome.item) and not stays  # whether any rank has elements that move

    def advance(self, block: bool) -> Phase | None:
        """Until it may begin: after all that this group started before, for ranks wait in any order; and an exchange whose
        runs come one after another also lets those before it end. Not collective.
        """
        in_turn = self._movement.exchange.in_turn
        for other in self._context.group.transfers:
            if other._phase is self:
                break
            if other._phase.state < State.MOVING or (in_turn and other._phase.in_turn):
                return None
        if not self._moves:
            return _completed(self._context, self._mine, self._movement)
        self._movement.start(self._mark)
        return Moving(self._context, self._mine, self._movement)


class Moving(Phase):
    """Elements move."""

    state = State.MOVING

    def __init__(self, context: Context, mine: Operands, movement: Movement) -> None:
        self._context, self._mine, self._movement = context, mine, movement

    @property
    def in_turn(self) -> bool:  # type: ignore[override]
        """That of the stage which is moving."""
        return self._movement.exchange.in_turn

    def advance(self, block: bool) -> Phase | None:
        """Until all have moved. Not collective."""
        return _completed(self._context, self._mine, self._movement) if self._movement.advance(block) else None


class Ended(Phase):
    """Nothing is left to do: a result, or an error."""

    def __init__(self, result: Any = None, error: BaseException | None = None) -> None:
        self.result, self.error = result, error

    def advance(self, block: bool) -> Phase | None:
        """No state comes next. Not collective."""
        return None


class Complete(Ended):
    """The elements have moved."""

    state = State.COMPLETE


class Refused(Ended):
    """Nothing has moved, on any rank."""

    state = State.REFUSED

    def __init__(self, error: BaseException) -> None:
        super().__init__(None, error)


class Broken(Ended):
    """The group is broken. What the transfer had stays in memory: MPI may still read and write there."""

    state = State.BROKEN

    def __init__(self, error: BaseException) -> None:
        super().__init__(None, error)


class Counted:
    """A vote that a compiled call has counted."""

    def __init__(self, outcome: Outcome, number: int) -> None:
        self.outcome, self.number = outcome, number

    def test(self, block: bool = False) -> bool:
        """It is counted."""
        return True


def take(context: Context, mine: Operands, known: Dtypes | None, item: int = 0) -> Movement | None:
    """What moves the arrays, the memory for it, and the intermediate arrays; None where this rank does not know enough yet.

    Parameters
    ----------
    context : Context
        Of the transfer.
    mine : Operands
        This rank's arrays.
    known : sequence of dtype or None
        The dtypes of all pairs, once they are known.
    item : int
        Bytes of the largest element on any rank, once that is known.
    """
    plan = context.plan
    if known is None or (mine.order is None and not plan.asks):
        return None
    remembered = remembered_of(plan, mine)
    if remembered is not None and remembered.operands.forms is mine.forms:
        return Movement(plan, context.group, context.ticket, mine, remembered.binding(plan), context.spent)
    forms, between = allocate(plan, mine, known)
    binding = plan.binding(mine, forms, plan.order_of(mine), max(item, *forms.items))
    return Movement(plan, context.group, context.ticket, mine, binding, context.spent, forms, between)


def _sent(movement: Movement | None) -> tuple[int, ...]:
    """Ranks to which messages have gone before the vote was known."""
    return () if movement is None else movement.progress.take_back()


def _agreed(
    context: Context, vote: Vote | Counted, outcome: Outcome, mine: Operands, movement: Movement | None
) -> Ready:
    """All is well on all ranks, and they know in which order elements go."""
    plan, item = context.plan, int(outcome.item)
    order = BY_COLUMNS if len(plan.stages) > 1 else int(outcome.order) or BY_COLUMNS
    if movement is None:
        binding = plan.binding(mine, mine.forms, order, item)
        movement = Movement(plan, context.group, context.ticket, mine, binding, context.spent)
    else:
        movement.agree(order, item)
    packed = outcome.packed
    again = packed is not None and (packed != order or "packed" in outcome.disputed)
    remember(plan, context.group, mine, movement.binding, outcome)
    return Ready(context, outcome, mine, movement, vote.number if again else 0)


def _completed(context: Context, mine: Operands, movement: Movement) -> Complete:
    result = context.plan.finished(mine.outs, mine.targets, mine.factors)
    context.plan.seconds = time.perf_counter() - context.started
    movement.close()
    return Complete(result)


# MPI makes progress only while it is called, and a connection between nodes needs several looks for one message: a test
# goes on looking for this share of the time since the last one, but for no more than so many seconds.
TEST_SHARE, LONGEST_TEST = 0.02, 1e-3
COMPLETE = State.COMPLETE


class Transfer:
    """A redistribution in flight, a nonblocking operation. Made by `start` of a plan.

    `with plan.start(a, out) as transfer:` waits for it at the end of the block; where the block is left by an error it is not
    waited for, since other ranks may not come, and goes on as after an interrupt of `wait`.
    """

    def __init__(
        self,
        plan: Plan,
        arrays: Any,
        outs: Any,
        alpha: object = 1,
        beta: object = 0,
        spent: dict[str, float] | None = None,
        call: Call | DirectCall | None = None,
        error: BaseException | None = None,
        measured: Any = None,
    ) -> None:
        self._plan, self._to_wrap, self._measured = plan, plan.to_wrap(arrays, outs), measured
        self._tested = started = time.perf_counter()
        self._phase: Phase
        group = plan.group
        if group is None:
            mine = plan.operands(arrays, outs, alpha, beta)
            self._phase = Complete(plan.finished(mine.outs, mine.targets, mine.factors))
            return
        self._group: Group = group
        if call is None:
            group.check_usable()
        with interrupts_held() as held:
            ticket = group.next_ticket() if call is None else group.ticket
            context = Context(plan, group, ticket, spent, started)
            try:
                if call is not None:
                    self._phase = _continued(context, call, arrays, outs)
                else:
                    self._phase = _cast(context, arrays, outs, (alpha, beta), error, held.let_through)
            except BaseException as caught:  # the others count on what has begun
                group.break_off(f"{type(caught).__name__}: {caught}")
                group.wreckage.append(call)
                raise
            group.transfers[self] = None
            under_way()[self] = None

    @property
    def state(self) -> State:
        """Where it is on this rank."""
        return self._phase.state

    def advance(self, block: bool = False) -> bool:
        """Make as much progress as possible; True when it has ended. It never raises. Not collective."""
        if self._phase.state >= COMPLETE:
            return True
        group = self._group
        if not group.lock.acquire(False):
            return False
        try:
            if group.broken is not None:
                self._break(CollectiveError(f"{group.broken}: what it owed will not come"))
            while (entered := self._phase.advance(block)) is not None:
                self._phase = entered
            if self._phase.state >= COMPLETE:
                self._leave()
        except BaseException as caught:
            self._break(caught)
        finally:
            group.lock.release()
        return self._phase.state >= COMPLETE

    def _leave(self) -> None:
        self._group.transfers.pop(self, None)
        under_way().pop(self, None)

    def _break(self, error: BaseException) -> None:
        self._group.break_off(f"{type(error).__name__}: {error}")
        self._group.wreckage.append(self._phase)
        self._phase = Broken(error)
        self._leave()

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
        while self._phase.state < COMPLETE:
            with interrupts_held():
                advance_others(self)
                self.advance()
            self._look_around()
            self._tested = time.perf_counter()
            if self._tested >= until_:
                break
        if self.state > COMPLETE or (self.state == COMPLETE and self._measured is not None):
            self._result()
        return self.state == COMPLETE

    def wait(self) -> Any:
        """Complete the redistribution and return what a call of the plan does.

        An interrupt (SIGINT) ends the waiting, not the transfer: it makes progress in the next call of anything here, and may
        be waited for again.

        Raises
        ------
        ArrayError, CollectiveError
            As a call of the plan does.
        """
        if self._phase.state < COMPLETE:
            node = self._group.node
            block = len(under_way()) == 1 and node is not None and node.ring is not None
            until(lambda: self.advance(block), self._look_around, self, block)
        return self._result()

    def __enter__(self) -> Transfer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Wait; after an error not, for the others may not come: the transfer then goes on as after an interrupt."""
        if kind is None:
            self.wait()

    def __repr__(self) -> str:
        return f"Transfer({self._plan!r}, {self.state.name.lower()})"

    def _result(self) -> Any:
        ended = self._phase
        if not isinstance(ended, Ended):
            raise CollectiveError("the redistribution has not ended")
        if self._measured is not None:
            self._measured.end(ended.error)
        if ended.error is not None:
            raise ended.error
        if self._to_wrap is not None:
            return self._plan.wrapped(*self._to_wrap, ended.result)
        return ended.result

    def _look_around(self) -> None:
        try:
            self._group.look_around(self._plan)
        except CollectiveError as gone:
            with self._group.lock:
                if self._phase.state < COMPLETE:
                    self._break(gone)


def _cast(
    context: Context,
    arrays: Any,
    outs: Any,
    factors: tuple[object, object],
    error: BaseException | None,
    let_through: Callable[[], None],
) -> Voting:
    """Check this rank's arrays, take all that the transfer needs, and vote; what is wrong is told to all ranks.

    Small messages are sent right away, or go with the vote.
    """
    plan, group = context.plan, context.group
    mine: Operands | None = None
    movement: Movement | None = None
    rows: Rows | None = None
    try:
        if error is None:
            prepare()  # where it fails the others hear of it, also from a rank without arrays
            mine = plan.operands(arrays, outs, *factors)
            try:
                movement = take(context, mine, plan.known(mine))
            except Exception:
                if not plan.asks or None not in mine.dtypes:
                    raise
                plan.forget(mine)  # it does for arrays that others had last time; they tell again
            let_through()
            if movement is not None and mine.item:
                rows = movement.progress.with_vote()
    except BaseException as caught:
        error = caught
    failed = group.failed(error)
    if mine is None:
        ballot = Ballot(failed=failed, call=plan.identity)
    else:
        call = plan.call_number(mine)
        dtype, note = plan.dtype_in_vote(mine)
        ballot = Ballot(failed=failed, call=call, dtype=dtype, note=note, item=mine.item, order=mine.order or 0)
    vote = group.cast(ballot, None if error else rows)
    voting = Voting(context, vote, mine, movement, error)
    if movement is not None and error is None:
        movement.progress.ahead()
    return voting


def _continued(context: Context, call: Call | DirectCall, arrays: Any, outs: Any) -> Voting:
    """A compiled call has voted, and come no further."""
    plan, group = context.plan, context.group
    kept, starts = next((known for known in plan.remembered.values() if known.call is call), None), call.origins
    if kept is None or starts is None:
        raise RuntimeError("a transfer continues a call that has not begun")
    given, into = plan.lists(arrays, outs)
    targets = call.targets if plan.listed else [call.targets]
    mine = kept.operands._replace(given=given, outs=into, targets=targets, origins=starts)
    if isinstance(call, DirectCall):
        cast, moving, started = group.adopt(call.vote), call.progress, call.started
        call.hand_over()
        movement = Movement(
            plan,
            group,
            context.ticket,
            mine,
            kept.binding(plan),
            context.spent,
            begin=lambda exchange, run: moving,
            staging=moving.run.staging,
            started=started,
        )
        return Voting(context, cast, mine, movement)
    traffic = None if call.voted and not call.as_expected else call.traffic
    vote: Counted | RingVote
    if call.voted:
        vote = Counted(call.outcome(), call.number)
    else:
        vote = RingVote(call.traffic.ring, call.ballot, posted=True)
        group.adopt(vote)
    call.hand_over()
    together = functools.partial(Together, begun=traffic)
    movement = Movement(plan, group, context.ticket, mine, kept.binding(plan), context.spent, begin=together)
    return Voting(context, vote, mine, movement)
