"""Transfers: one use of a plan on this rank, with its arrays.

What happens is one generator, from top to bottom: `Transfer._moves`, its turn and the work before the vote; `_voted`, what
follows from the vote; `_moved`. Each `yield` is a place where it waits, and names it:

    QUEUED -> VOTING -> READY -> MOVING -> COMPLETE
                 |  \\-> [ASKING ->] CONFIRMING -> READY
                 \\-> REFUSING -> REFUSED

It is QUEUED only until it is known whether it votes, which the first call of a plan with agree="first" decides. A call of a
series has no vote, but a generator of its own (engine/terms.py), and ends REFUSED if a rank has failed. An exception after the
vote is cast leads to ABORTED. docs/protocol.md states what a rank may assume in each state.

engine/use.py has the ways to begin one, also after the vote, which a compiled call has cast, or one like the last use.
From then on there is one driver, `Transfer.advance`, whoever waits; it alone catches what a generator raises. What MPI or
another rank may touch belongs to the transfer, not to a frame, and no frame has a context or an `except` around a wait.
"""

from __future__ import annotations

import copy
import enum
import functools
import time
import weakref
from collections.abc import Callable, Generator, Sequence
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np

from .._kernels.call import Call
from ..comm import progress
from ..comm.gather_scatter import GatherScatter
from ..comm.group import CONTROL, DATA, Group, Refusal
from ..comm.guard import Guard
from ..comm.log_steps import Rows
from ..comm.progress import advance_others, hold_interrupts, tasks_in_flight
from ..comm.series import Series
from ..comm.vote import Outcome, Statement, Verdict, Vote, Voting, describe_dispute, describe_error
from ..errors import ArrayError, CollectiveError, RedistributionError
from ..exchanges import Progress, Run
from ..exchanges.exchange import prepare
from ..exchanges.pipeline import SeriesMessages
from ..exchanges.shared import RingAndMPI
from ..layout.dtypes import dtype_digest
from ..tracebacks import brief, shorten
from .arrays_between import AllArrays, allocate, locate_arrays
from .bound import Bound, Dtypes, Lent, Operands, StageExchanges
from .bounds import Bounds
from .local_arrays import BY_COLUMNS, BY_ROWS
from .operands import finish_result, list_arrays, prepare_operands
from .overwriting import ConsumedArray, PanelStage, slowest_dimension, take_single_pages

Result = TypeVar("Result")  # of a call of the plan


class State(enum.IntEnum):
    """The state of a transfer on this rank."""

    QUEUED = 0  # not begun: an earlier start of the group is not, or whether this one votes is not known
    VOTING = 1  # the vote is cast and not counted
    ASKING = 2  # ranks exchange the dtypes that not all know
    CONFIRMING = 3  # ranks learn whether all have the memory for these dtypes, or for panels of the order that all vote for
    REFUSING = 4  # the vote failed: ranks learn the reason, and discard messages sent before the vote
    READY = 5  # all ranks have agreed; earlier transfers begin first
    MOVING = 6
    COMPLETE = 7
    REFUSED = 8  # no data moved, or the call of a series has failed; the group can be used again
    ABORTED = 9  # an error after the vote: the group cannot be used any more


# found sooner than in the class
QUEUED, VOTING, READY, MOVING, COMPLETE = State.QUEUED, State.VOTING, State.READY, State.MOVING, State.COMPLETE
# MPI makes progress only while it is called, and a message between nodes needs several calls. So `test` polls for this share
# of the time since the last `test`, but at most for so many seconds.
TEST_SHARE, LONGEST_TEST = 0.02, 1e-3


class Marking(Protocol):
    """What marks a user's array as consumed."""

    def mark(self) -> None:
        """It is given away from now on."""

    def undo(self) -> None:
        """Nothing of it has moved."""


Given = tuple[Any, Any, object, object]  # a, out, alpha and beta of a call
Story = Generator[State, bool, None]  # yields the place where it waits, and gets whether it may wait a little there


class Transfer(Generic[Result]):
    """A redistribution in flight, a nonblocking operation. Made by `start` of a plan.

    `with plan.start(a, out) as transfer:` waits at the end of the block. If an exception leaves the block there is no wait,
    since other ranks may not take part; the transfer then continues as after an interrupt of `wait`.
    """

    # While it is in flight it is a `Task` of its thread.

    state = State.QUEUED
    error: BaseException | None = None  # of this rank; with one it votes "failed"
    series: Series | None = None  # known when it begins
    # the user's arrays and their kind; what is kept for such arrays; the memory that is lent for them
    operands: Operands | None = None
    bound: Bound | None = None
    lent: Lent | None = None
    _all_arrays: AllArrays
    _group: Group
    _story: Story
    _given: Given | None = None  # what `start` was called with, while it is queued
    _ticket = 0
    _consumed: ConsumedArray | None = None  # in a plan with panels
    _result: Any = None
    _failure: BaseException | None = None  # what `wait` raises

    def __init__(
        self,
        bounds: Bounds,
        spent: dict[str, float] | None = None,
        measured: Any = None,
        convert_result: Callable[[Any], Any] | None = None,
        consume: Marking | None = None,
    ) -> None:
        self.plan, self.bounds = bounds.plan, bounds
        if bounds.group is not None:
            self._group = bounds.group
        self._spent, self._measured, self._convert_result, self._consume = spent, measured, convert_result, consume
        self._started = self._tested = time.perf_counter()

    # -- the ways to begin

    def start(self, guard: Guard, a: Any, out: Any, alpha: object, beta: object) -> None:
        """Check this rank's arrays, unless it has an error, and begin; or be queued, and do that later. Never waits."""
        given: Given | None = (a, out, alpha, beta)
        if not self._has_turn():  # what the plan takes may depend on the calls before
            self._given = given
        elif guard.error is None:
            guard.attempt(lambda: self._take_arrays(a, out, alpha, beta))  # runs code of the arrays
        self.error, guard.error = guard.take_interrupts(), None  # its frames refer to the guard
        if self.error is not None:
            self._consume = None
        elif self._consume is not None:
            self._consume.mark()
        self._group.starts += 1
        if self._given is not None:
            self._group.queued[self] = None
        self._begin(self._moves())
        if self.state is State.ABORTED:
            self._raise_failure()

    def take_over(self, bound: Bound, operands: Operands, lent: Lent, ticket: int, voting: Voting | None) -> None:
        """Go on with a use that `call_again` has begun: its vote is cast, perhaps counted, or elements move already."""
        self.bound, self.operands, self.lent, self._ticket = bound, operands, lent, ticket
        self.series, self._all_arrays = self.bounds.series, AllArrays(operands.kind, bound.dtypes or (), ())
        if voting is None:
            self.state, story = MOVING, self._moved(lent, mark=None)
        else:
            self.state, story = VOTING, self._voted(self._group.adopt(voting))
        self._begin(story)

    def continue_call(self, call: Call, bound: Bound, arrays: list[Any], outs: list[Any]) -> None:
        """Go on after the vote that a compiled call has cast, with the chunks that it has packed."""
        group, stages = self._group, bound.latest_exchanges()
        voting, begun, targets, origins = call.hand_over()
        self.bound, self._ticket = bound, group.ticket
        self.operands = bound.operands._replace(arrays=arrays, outs=outs, targets=targets, origins=origins)
        assert stages is not None
        assert bound.dtypes is not None
        self._all_arrays = AllArrays(self.operands.kind, bound.dtypes, ())
        group.adopt(voting)
        self._lend(stages, functools.partial(RingAndMPI, begun=begun))
        self.state = VOTING
        self._begin(self._voted(voting))

    def move_alone(self, a: Any, out: Any, alpha: object, beta: object) -> None:
        """Complete, on a rank that takes no part in the plan."""
        operands = self._take_arrays(a, out, alpha, beta)
        self._result = finish_result(self.plan, operands.outs, operands.targets, operands.factors)
        self.state = COMPLETE

    def _begin(self, story: Story) -> None:
        """Go on to the first wait, and be in flight. What has failed is raised by `wait`."""
        self._story = story
        with self._group.lock:
            self._go_on()
            if self.state < COMPLETE:
                self._join()

    # -- what happens, from top to bottom

    def _moves(self) -> Story:
        """Wait for its turn, take memory, vote, and move. Whatever fails before the vote is this rank's vote."""
        group, terms, given = self._group, self.bounds.terms, self._given
        if given is not None:
            while not self._has_turn():
                yield QUEUED
            del group.queued[self]
        if terms is not None:
            terms.draw(group)
            self.series = terms.series
        if self.series is None:
            self._ticket = group.take_ticket()
        self.state, guard = VOTING, Guard(self.error)
        self._given = None
        if given is not None and guard.error is None:
            guard.attempt(lambda: self._take_arrays(*given), is_open=False)
        rows = guard.attempt(self._take_known_memory, is_open=False) if guard.error is None else None
        lent, self.error = self.lent, guard.error
        if terms is not None:
            terms.note_start(self.is_agreed)
        if self.series is None:
            voting = group.cast_vote(self._make_vote(), None if self.error else rows)
            if self.error is None and lent is not None and not self._guesses_dtypes:
                lent.send_early()
            yield from self._voted(voting)
        elif self.error is not None:
            self._end_refused(self.error)
        else:
            assert lent is not None
            assert terms is not None
            if not (yield from terms.moves_in_series(lent, self._moved(lent), READY)):
                self._end_with_series()

    def _voted(self, voting: Voting) -> Story:
        """Count the vote, which is cast: then give up, or agree, and move when it is this transfer's turn."""
        group, plan, bound, mark = self._group, self.plan, self.bound, 0
        block = yield VOTING  # a start returns at once
        while (outcome := group.count(voting, block)) is None:
            block = yield VOTING
        if self._spent is not None:
            self._spent["agreed"] = time.perf_counter() - self._started
        lent = self.lent
        if lent is None or bound is None or not bound.expects(outcome, lent):
            if not self._is_good(outcome):
                yield from self._refused(group.start_refusal(*self._reported(self._make_statements)))
                return
            if plan.may_ask_dtypes and (outcome.pending or "dtype" in outcome.disputed):
                exchange = GatherScatter(group.channel, self._ticket + CONTROL, self._operands.dtypes, combine_dtypes)
                while not exchange.advance():
                    yield State.ASKING
                guard, known = self._known_dtypes(exchange)
                refusal = self._confirm(guard, lambda: self._learn_dtypes(known, int(outcome.item)))
            elif plan.has_panels:
                refusal = self._confirm(Guard(), lambda: self._lend(self._agreed_exchanges(outcome)))
            else:
                refusal = None
            if refusal is not None:
                while not refusal.advance():
                    yield State.CONFIRMING
                if refusal.reason is not None:
                    yield from self._refused(refusal)
                    return
            lent = self._agree(outcome)
            if outcome.packed is not None and (
                outcome.packed != lent.stages.element_order or "packed" in outcome.disputed
            ):
                mark = voting.number  # messages are packed again
        while not self._is_next(lent):
            block = yield READY
        if self._has_elements(lent):
            yield from self._moved(lent, block, mark)
        else:
            self._complete(lent)

    def _moved(self, lent: Lent, block: bool = False, mark: int | None = 0) -> Story:
        """Move all elements, or with no mark what is left of them, to the end."""
        self._consume = None  # from now on elements of A go
        if mark is not None:
            lent.start(mark)
        while True:
            while not self._has_moved(lent, block):
                block = yield MOVING
            if lent.is_last_stage:
                break
            lent.stage += 1
            lent.start_next(self._new_run(lent))
        if self.series is None or not self.series.ended:
            self._complete(lent)
        else:
            self._end_with_series()

    def _refused(self, refusal: Refusal) -> Story:
        """Learn the reason, and wait until MPI no longer reads staging buffers."""
        while not refusal.advance() or not (self.lent is None or self.lent.progress.is_sent()):
            yield State.REFUSING
        self._end_refused(refusal.raised())

    # -- arrays and memory, before the vote

    def _has_turn(self) -> bool:
        """Whether it can begin: all earlier ones of the group have, and this rank knows whether it votes."""
        group, terms = self._group, self.bounds.terms
        if group.queued and next(iter(group.queued)) is not self:
            return False
        if terms is not None:
            if not terms.is_settled():
                return False
            if terms.series is not None:
                return True
        return group.has_free_tags()

    @property
    def _operands(self) -> Operands:
        assert self.operands is not None
        return self.operands

    def _take_arrays(self, a: Any, out: Any, alpha: object, beta: object) -> Operands:
        """Check the user's arrays and hold them.

        Raises
        ------
        Exception
            They do not fit.
        """
        prepare()  # on every rank, also one without arrays: the vote reports an error
        if self.plan.has_panels and self.plan.group is not None:
            self._check_unread(a)
        self.operands = operands = prepare_operands(self.bounds, a, out, alpha, beta)
        if self.plan.has_panels and operands.outs[0] is None:
            take_single_pages(operands.targets[0])
        return operands

    def _check_unread(self, a: Any) -> None:
        """Refuse an array to consume that a transfer in flight still reads or writes."""
        for other in (*self._group.transfers, *self._group.queued):
            held = () if other.operands is None else (*other.operands.arrays, *other.operands.outs)
            held += (other._given or ())[:2]
            if any(isinstance(x, np.ndarray) and isinstance(a, np.ndarray) and np.may_share_memory(x, a) for x in held):
                raise ArrayError(
                    f"A is still read or written by a transfer in flight, {other.plan!r}: wait for it first"
                )

    def _take_known_memory(self) -> Rows | None:
        """Take memory for arrays whose dtypes this rank knows, in a plan whose terms they fit; pack what goes with the vote."""
        plan, terms, operands, item_bytes = self.plan, self.bounds.terms, self._operands, 0
        if terms is not None and terms.is_bound:
            terms.check_usable()
            terms.check(operands.factors[0])
            item_bytes = terms.item_bytes
            self.operands = operands = operands._replace(element_order=terms.element_order)
        self.bound = bound = self.bounds.bound_for(operands)
        known = bound.dtypes
        self._all_arrays = AllArrays(operands.kind, known or (), ())
        if known is None:
            return None
        if not plan.may_ask_dtypes or None not in operands.dtypes:
            self._take_memory(known, item_bytes)
        else:
            trial = Guard()
            trial.attempt(lambda: self._take_memory(known, item_bytes), is_open=False)
            if trial.error is not None:
                bound.forget_dtypes()  # other ranks' arrays may have changed: ask again
        lent = self.lent
        return None if lent is None or not operands.item_bytes else lent.progress.pack_for_vote()

    @property
    def _guesses_dtypes(self) -> bool:
        """Whether this rank takes some arrays, of which it has nothing, for such as they were: the vote may say otherwise."""
        return self.plan.may_ask_dtypes and None in self._operands.dtypes

    def _take_memory(self, dtypes: Dtypes, item_bytes: int) -> None:
        """Take staging memory and arrays in between, unless the order of elements is unknown."""
        plan, operands, bound = self.plan, self._operands, self.bound
        assert bound is not None
        self._all_arrays = self._all_arrays._replace(dtypes=dtypes)
        if operands.element_order is None and not plan.may_ask_dtypes:
            return
        stages = bound.latest_exchanges()
        if stages is None or plan.may_ask_dtypes:
            self._all_arrays = allocate(plan, operands, dtypes)
        if plan.has_panels:  # along a dimension that the order of all ranks' A tells, which the vote says
            return
        if stages is None or dtypes != bound.dtypes:
            element_order = BY_COLUMNS if plan.layouts_between else operands.element_order or BY_COLUMNS
            stages = self._exchanges_for(element_order, max(item_bytes, *self._all_arrays.kind.items))
        self._lend(stages)

    def _exchanges_for(self, element_order: int, item_bytes: int) -> StageExchanges:
        """Return the exchanges for an order of elements in messages and the bytes of the largest element."""
        assert self.bound is not None
        kind, dtypes, _ = self._all_arrays
        return self.bound.exchanges.of(kind, dtypes, element_order, item_bytes)

    def _lend(self, stages: StageExchanges, begin: Callable[[Any, Run], Progress] | None = None) -> Lent:
        """Take the memory of these exchanges, that of the last use if it is kept; `begin` continues a compiled call's run."""
        bound, origins = self.bound, self._operands.origins
        assert bound is not None
        if begin is None and bound.idle is not None and stages is bound.latest:
            lent, bound.idle = bound.idle, None
            lent.renew(origins, self._ticket + DATA if self.series is None else None, self._spent)
        else:
            is_kept = begin is None and not self.plan.may_ask_dtypes and stages.is_reusable
            lent = Lent(stages, self._group.staging.take(stages.private_bytes, is_kept), is_kept)
            run, exchange = self._new_run(lent), stages.exchanges[0]
            if begin is not None:
                lent.progress = begin(exchange, run)
            elif self.series is not None:
                lent.progress = SeriesMessages(self.series, exchange, run)
            else:
                lent.progress = exchange.begin(run)
        self.lent = lent
        return lent

    def _new_run(self, lent: Lent) -> Run:
        bound, group, stages, stage = self.bound, self._group, lent.stages, lent.stage
        assert bound is not None
        kind, dtypes, between = self._all_arrays
        origins, addresses = locate_arrays(self.plan, stage, self._operands.origins, between)
        # Neither `self` nor the bound, which may keep the run: such a cycle would live until garbage collection.
        other_order = functools.partial(
            bound.exchanges.of, kind, dtypes, BY_ROWS + BY_COLUMNS - stages.element_order, stages.item_bytes
        )
        return Run(
            group.channel,
            group.collectives,
            self._ticket + DATA if self.series is None else self.series.tag,
            origins,
            addresses,
            lent.staging,
            self._spent,
            lambda: other_order().exchanges[stage],
        )

    # -- the vote, and what follows from it

    def _make_vote(self) -> Vote:
        failed = self._group.failure_code(self.error)
        if self.operands is None:
            return Vote(failed=failed, call=self.plan.identity)
        return Vote(failed=failed, **self.bounds.vote_fields(self.operands, self.bound))

    def _make_statements(self) -> list[Statement]:
        """List the values behind the vote's digests, for the error text if they differ."""
        plan, operands = self.plan, self.operands
        if operands is None:
            return []
        dtype = operands.dtypes[0] if len(operands.dtypes) == 1 else None
        return [
            Statement("the batch" if plan.is_batch else "the plan", plan.identity, repr(plan)),
            Statement(
                "alpha and beta", operands.factors, ", ".join(sorted({str(factors) for factors in operands.factors}))
            ),
            Statement("the dtype", None if dtype is None else dtype_digest(dtype), f"dtype {dtype}"),
        ]

    def _is_good(self, outcome: Outcome) -> bool:
        """Whether no rank has failed, and all use the plan alike; dtypes may be asked for."""
        disputed = outcome.disputed
        if self.error is not None or outcome.failed or "call" in disputed:
            return False
        return "dtype" not in disputed or self.plan.may_ask_dtypes

    def _reported(self, statements: Callable[[], Sequence[Statement]]) -> tuple[Any, ...]:
        """What this rank reports in a refusal: its error or statements, and to whom it has sent already."""
        sent = () if self.lent is None else self.lent.progress.withdraw()
        return self._ticket, self.error, statements, tuple(sent)

    def _known_dtypes(self, exchange: GatherScatter) -> tuple[Guard, Dtypes]:
        """What ranks have told one another: the dtypes, or an error."""
        reply: tuple[Verdict, Any] = exchange.reply if exchange.failure is None else (exchange.failure, ())
        verdict, known = reply
        guard = Guard()
        if verdict is not None:
            guard.error = self._group.error_of(verdict, exchange.error)
        return guard, tuple(known or ())

    def _confirm(self, guard: Guard, take: Callable[[], object]) -> Refusal:
        """Take memory, unless this rank has an error, and report whether that failed."""
        if guard.error is None:
            guard.attempt(take, is_open=False)
        self.error = guard.error
        return self._group.start_refusal(*self._reported(list))

    def _learn_dtypes(self, dtypes: Dtypes, item_bytes: int) -> None:
        """Take the memory for these dtypes, unless it has been taken for them before the vote."""
        if self.lent is not None and dtypes != self._all_arrays.dtypes:  # which it has guessed
            self._drop(self.lent)
        if self.lent is None:
            self._take_memory(dtypes, item_bytes)

    def _drop(self, lent: Lent) -> None:
        """Put back memory for elements of another size, which are cut otherwise. So far it has sent nothing."""
        assert not lent.progress.withdraw()
        self._group.staging.put_back(lent.staging)
        self.lent = None

    def _agreed_exchanges(self, outcome: Outcome) -> StageExchanges:
        """Return the exchanges for what all ranks have voted for."""
        element_order = BY_COLUMNS if self.plan.layouts_between else int(outcome.order) or BY_COLUMNS
        return self._exchanges_for(element_order, int(outcome.item))

    def _agree(self, outcome: Outcome) -> Lent:
        """Adopt the order of elements and the largest element size that all ranks have agreed on."""
        operands, bound = self._operands, self.bound
        assert bound is not None
        if self.plan.may_ask_dtypes and (outcome.pending or "dtype" in outcome.disputed):
            bound.remember_dtypes(self._all_arrays.dtypes, int(outcome.order))
        stages = self._agreed_exchanges(outcome)
        if self.lent is not None and self.lent.stages.item_bytes != stages.item_bytes:  # of a rank without arrays
            self._drop(self.lent)
        lent = self.lent or self._lend(stages)
        if lent.stages is not stages:
            lent.stages, lent.is_kept = stages, False
        self.bounds.agree_on_terms(operands, stages.element_order, stages.item_bytes)
        self.bounds.keep(bound, operands, stages, continue_call, outcome)
        return lent

    # -- moving

    @property
    def in_turn(self) -> bool:
        """Whether its exchange goes on only when those of earlier transfers are complete."""
        return self.lent is not None and self.lent.in_turn

    def _is_next(self, lent: Lent) -> bool:
        """Whether earlier transfers of the group have begun, or have completed if exchanges run one at a time."""
        for other in self._group.transfers:
            if other is self:
                break
            if other.state < MOVING or (lent.in_turn and other.state < COMPLETE and other.in_turn):
                return False
        return True

    def _has_elements(self, lent: Lent) -> bool:
        """Whether any rank has elements to move."""
        unchanged = len(self.plan.stages) == 1 and all(self._operands.kind.unchanged)
        return bool(lent.stages.item_bytes) and not unchanged

    def _has_moved(self, lent: Lent, block: bool) -> bool:
        """Move the elements of a stage; True when all have moved."""
        if not lent.advance(block):
            return False
        if self.plan.has_panels:
            self._give_back(lent)
        return True

    def _give_back(self, lent: Lent) -> None:
        """Give the memory of a panel that has gone back."""
        panel_stage = self.plan.stages[lent.stage]
        assert isinstance(panel_stage, PanelStage)
        stages, operands = lent.stages, self._operands
        panel = panel_stage.panel(stages.element_order, stages.item_bytes)
        if self._consumed is None:
            (move,) = panel_stage.moves
            slowest = slowest_dimension(move, stages.element_order)
            self._consumed = ConsumedArray(move, operands.arrays[0], operands.targets[0], panel.dimension, slowest)
        self._consumed.give_back(panel)

    # -- the end

    def _complete(self, lent: Lent) -> None:
        plan, operands, bounds = self.plan, self._operands, self.bounds
        if plan.needs_finishing or plan.is_batch:
            self._result = finish_result(plan, operands.outs, operands.targets, operands.factors)
        else:
            (self._result,) = operands.targets
        if self.series is None or not lent.is_again:
            bounds.last_run.seconds = time.perf_counter() - self._started
        if self.series is not None and self.bound is not None and not lent.is_again:
            bounds.keep(self.bound, operands, lent.stages, continue_call)
        self._put_back_memory()
        self.state = COMPLETE

    def _put_back_memory(self) -> None:
        """Give back what was lent, for the next use: nothing reads or writes it any more. Let the user's arrays go."""
        if self.lent is not None and self.bound is not None:
            self.bound.take_back(self.lent, self._group.staging)
        self.lent = self.operands = self.bound = self.error = None

    def _end_refused(self, error: BaseException) -> None:
        """End as refused: all ranks know or will know of the error."""
        if self.lent is not None:
            self.lent.is_kept = False
        self._put_back_memory()
        self._leave_array()
        self.bounds.record_failure(describe_error(error))
        self.state, self._failure = State.REFUSED, error

    def _end_with_series(self) -> None:
        """End as refused, because a rank has failed in a call of the series."""
        terms = self.bounds.terms
        assert terms is not None
        self._end_refused(CollectiveError(terms.failure))

    def _leave_array(self) -> None:
        """Leave the user's array as it was, if nothing of it has moved."""
        if self._consume is not None:
            self._consume.undo()
            self._consume = None

    def abort(self, error: BaseException) -> None:
        """Abort the group. This transfer stays in memory, because MPI may still access its buffers."""
        self._group.abort_use(error, self)
        self._leave_array()
        self.state, self._failure = State.ABORTED, error

    # -- the driver

    def advance(self, block: bool = False) -> bool:
        """Make progress; True when it has ended. Never raises. Not collective."""
        if self.state >= COMPLETE:
            return True
        group = self._group
        if not group.lock.acquire(False):
            return False
        try:
            if self._story.gi_running:  # type: ignore[attr-defined] # what it calls has come back here
                return False
            self._go_on(block)
            if self.state < COMPLETE:
                return False
            self._leave()
        finally:
            group.lock.release()
        return True

    def _go_on(self, block: bool | None = None) -> None:
        """Go on to the next wait, or to the end. No other thread does so meanwhile."""
        if self._group.abort_reason is not None:
            self.abort(CollectiveError(f"{self._group.abort_reason}: its pending data are lost"))
            return
        try:
            self.state = self._story.send(block)  # type: ignore[arg-type]
        except StopIteration:
            pass
        except BaseException as caught:  # other ranks depend on it
            self.abort(caught)

    def _check_peers(self) -> None:
        """Check that the other ranks are alive; abort if one is not."""
        try:
            self._group.check_peers(self.plan)
        except CollectiveError as error:
            with self._group.lock:
                if self.state < COMPLETE:
                    self.abort(error)
                    self._leave()

    def _join(self) -> None:
        """Be in flight."""
        self._group.transfers[self] = tasks_in_flight()[self] = None

    def _leave(self) -> None:
        self._group.queued.pop(self, None)
        self._group.transfers.pop(self, None)
        tasks_in_flight().pop(self, None)

    def has_ticket(self, ticket: int) -> bool:
        """Whether it has drawn this ticket. Not collective."""
        return self.series is None and self.state is not QUEUED and self._ticket == ticket

    def is_agreed(self) -> bool:
        """Make progress; True when its vote is counted, or it has ended. Not collective."""
        return self.advance() or self.state >= READY

    # -- for the user

    @brief
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
        try:
            if self.state < COMPLETE:
                with hold_interrupts() as held:
                    self.poll(held)
            return self._end()
        except RedistributionError as error:
            shorten(error, error.__traceback__)
            raise

    def finish(self, held: hold_interrupts) -> Result:
        """As `wait`, with interrupts held back by the caller."""
        if self.state < COMPLETE:
            self.poll(held)
        return self._end()

    def poll(self, held: hold_interrupts) -> None:
        """Make progress on it, and on all else that the thread has in flight, until it has ended; interrupts end that."""
        state, polls, tasks = self.state, 0, progress.thread_state.tasks
        node = self._group.node
        block = len(tasks) == 1 and node is not None and node.ring is not None and node.size > 1
        while not self.advance(block):
            polls += 1
            if self.state is not state:  # what it waits for now may come soon
                state, polls = self.state, 0
            if len(tasks) > 1:
                advance_others(self)
            if polls > progress.POLLS:
                progress.pause()
            if block or polls % progress.POLLS_PER_CHECK == 0:
                self._check_peers()
                if self.state >= COMPLETE:
                    return
                held.deliver_interrupts()
                progress.force_interrupts()

    def _end(self) -> Result:
        """Return the result, or raise the error."""
        if self._measured is not None:
            self._measured.end(self._failure)
        if self._failure is not None:
            if self.series is not None:
                self._group.wait_for_failures()
            self._raise_failure()
        result: Result = self._result
        return result if self._convert_result is None else self._convert_result(result)

    def _raise_failure(self) -> None:
        """Raise the error; keep one without frames, which would keep the user's arrays as long as this transfer."""
        failure = self._failure
        assert failure is not None
        self._failure = without_frames(failure)
        try:
            raise failure
        finally:
            del failure

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Wait, unless an exception leaves the block."""
        if kind is None:
            self.wait()

    def __repr__(self) -> str:
        return f"Transfer({self.plan!r}, {self.state.name.lower()})"


def without_frames(error: BaseException) -> BaseException:
    """A copy of an error without its traceback."""
    try:
        copied: BaseException = copy.copy(error)
    except Exception:  # of a class that cannot be copied
        copied = CollectiveError(describe_error(error))
    return copied.with_traceback(None)


def combine_dtypes(dtypes_by_rank: list[Any]) -> list[Any]:
    """Return for each rank the dtypes of all pairs, or an error text if two ranks differ."""
    combined: list[Any] = []
    count = len(dtypes_by_rank[0])
    for k in range(count):
        replies = [(rank, dtypes[k]) for rank, dtypes in enumerate(dtypes_by_rank) if dtypes[k] is not None]
        first = {dtype_digest(dtype): (rank, f"dtype {dtype}") for rank, dtype in reversed(replies)}
        if len(first) > 1:
            subject = f"the dtype of plan {k}" if count > 1 else "the dtype"
            return [(describe_dispute(subject, sorted(first.values())), None)] * len(dtypes_by_rank)
        combined.append(replies[0][1] if replies else None)
    return [(None, combined)] * len(dtypes_by_rank)


def continue_call(
    weak_bounds: weakref.ref[Bounds], weak_bound: weakref.ref[Bound], call: Call, a: Any, out: Any
) -> Transfer[Any]:
    """Return a transfer that continues a compiled call after its vote."""
    bounds, bound = weak_bounds(), weak_bound()
    group = None if bounds is None else bounds.group
    if bounds is None or group is None or bound is None or not call.begun:
        raise RuntimeError("internal error: a transfer continues a call that has not begun; please report it")
    with hold_interrupts():
        transfer: Transfer[Any] = Transfer(bounds)
        try:
            transfer.continue_call(call, bound, *list_arrays(bounds.plan, a, out))
        except BaseException as caught:  # other ranks rely on the call that has begun
            group.abort_use(caught, transfer, call)
            raise
        return transfer
