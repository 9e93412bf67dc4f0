"""The states of a transfer. Each has what is known by then, and says which comes next.

    Voting -> Ready -> Moving -> Complete
       |  \\-> Asking -> Confirming -> Ready
       \\-> Refusing -> Refused

From any of them to Broken, where `advance` raises. docs/protocol.md says what each rank may assume in each.
"""

from __future__ import annotations

import enum
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..comm.group import TALK, Conversation, Group, Refusal
from ..comm.vote import Outcome, Statement, Vote, differ
from ..errors import CollectiveError
from .arrays import dtype_digest
from .binding import BY_COLUMNS, Operands
from .intermediate import allocate
from .movement import Movement
from .plan import Plan, remember, remembered_of

__all__ = ["Broken", "Complete", "Context", "Counted", "Ended", "Phase", "State", "Voting", "take"]

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
