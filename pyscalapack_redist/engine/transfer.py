"""Transfers: one use of a plan on this rank, with its arrays, as a state machine.

    QUEUED -> VOTING -> READY -> MOVING -> COMPLETE
                 |  \\-> [ASKING ->] CONFIRMING -> READY
                 \\-> REFUSING -> REFUSED

It is QUEUED only until it is known whether it votes, which the first call of a plan with agree="first" decides. A call of a
series (comm/series.py) has no vote: it begins READY, and ends REFUSED if a rank has failed. An exception after the vote is
cast leads to ABORTED. docs/protocol.md states what a rank may assume in each state.

engine/use.py has the ways to begin one. From then on there is one loop, `Transfer.advance`, whoever waits; no step waits for
longer than a millisecond. Each transfer makes its own arrays of layouts in between (`via=`).
"""

from __future__ import annotations

import enum
import functools
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from .._kernels.bundle import Origins
from .._kernels.call import Call
from ..comm import progress
from ..comm.gather_scatter import GatherScatter
from ..comm.group import CONTROL, DATA, Group, Refusal
from ..comm.guard import Guard
from ..comm.log_steps import Rows
from ..comm.progress import advance_others, hold_interrupts, tasks_in_flight
from ..comm.series import Series
from ..comm.vote import Outcome, Statement, Verdict, Vote, describe_dispute, describe_error
from ..errors import ArrayError, CollectiveError, RedistributionError
from ..exchanges import Exchange, Progress, Run
from ..exchanges.exchange import prepare
from ..exchanges.pipeline import SeriesMessages
from ..exchanges.shared import RingAndMPI
from ..layout.dtypes import dtype_digest
from ..tracebacks import brief, shorten
from .arrays_between import allocate, locate_arrays
from .binding import Binding, BoundStages, Dtypes, Operands
from .bindings import Bindings
from .local_arrays import BY_COLUMNS, BY_ROWS
from .operands import finish_result, list_arrays, prepare_operands
from .overwriting import ConsumedArray, PanelStage, take_single_pages
from .stages import ArrayKind

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


class Transfer(Generic[Result]):
    """A redistribution in flight, a nonblocking operation. Made by `start` of a plan.

    `with plan.start(a, out) as transfer:` waits at the end of the block. If an exception leaves the block there is no wait,
    since other ranks may not take part; the transfer then continues as after an interrupt of `wait`.
    """

    # While it is in flight it is a `Task` of its thread.

    def __init__(
        self,
        bindings: Bindings,
        spent: dict[str, float] | None = None,
        measured: Any = None,
        convert_result: Callable[[Any], Any] | None = None,
        consume: Marking | None = None,
    ) -> None:
        self.plan, self.bindings = bindings.plan, bindings
        self._spent, self._measured, self._consume = spent, measured, consume
        self._ticket = 0
        self._convert_result = convert_result
        if bindings.group is not None:
            self._group: Group = bindings.group
        self.series: Series | None = None  # known when it begins
        self.state: State
        self.error: BaseException | None = None  # of this rank; with one it votes "failed"
        # the user's arrays, which it keeps alive; their addresses; and what the plan keeps for such arrays
        self.arrays: Sequence[Any] = ()
        self.outs: Sequence[Any] = ()
        self.targets: Sequence[Any] = ()
        self.origins: Origins
        self.operands: Operands
        self.binding: Binding | None = None
        self._given: tuple[Any, Any, object, object] | None = None  # what `start` was called with, while it is queued
        self._kind: ArrayKind  # of all arrays
        self._dtypes: Dtypes  # of all pairs, as far as all ranks know them
        self._arrays_between: Sequence[NDArray[Any] | None] = ()
        # the exchanges of all stages, None if they depend on the vote; the run of the current stage
        self.bound: BoundStages | None = None
        self.exchange: Exchange
        self.progress: Progress
        self._stage = 0
        self._staging: NDArray[np.uint8]
        self._is_again = False  # whether it is kept by the plan and called again
        self._next: Transfer[Any] | None = None  # that is called again with its run
        # the vote, if it is made ahead; data that go with it; and what follows from it
        self.vote: Vote | None = None
        self.rows: Rows | None = None
        self._voting: Any = None
        self._dtype_exchange: GatherScatter
        self._refusal: Refusal
        self._has_elements = True  # whether any rank has elements to move
        self._consumed: ConsumedArray | None = None  # in a plan with panels
        self._mark = 0  # number of a vote after which messages are packed again
        self._result: Any = None
        self._failure: BaseException | None = None  # what `wait` raises
        self._started = self._tested = time.perf_counter()

    # -- arrays and memory, before the vote

    def start(self, guard: Guard, a: Any, out: Any, alpha: object, beta: object) -> None:
        """Check this rank's arrays, unless it has an error, and begin; or be queued, and do that later. Never waits."""
        has_turn = self._has_turn()
        if not has_turn:  # what the plan takes may depend on the calls before
            self._given = a, out, alpha, beta
        elif guard.error is None:
            guard.attempt(lambda: self._take_arrays(a, out, alpha, beta))  # runs code of the arrays
        self.error = guard.take_interrupts()
        if self.error is not None:
            self._consume = None
        elif self._consume is not None:
            self._consume.mark()
        self._group.starts += 1
        if not has_turn:
            self.state = QUEUED
            self._group.queued[self] = None
            self._join()
            return
        try:
            self._begin(guard)
        except BaseException as caught:  # other ranks depend on it
            self._abort(caught)
            raise
        if self.state < COMPLETE:
            self._join()

    def _has_turn(self) -> bool:
        """Whether it can begin: all earlier ones of the group have, and this rank knows whether it votes."""
        group, terms = self._group, self.bindings.terms
        if group.queued and next(iter(group.queued)) is not self:
            return False
        if terms is not None:
            if not terms.is_settled():
                return False
            if terms.series is not None:
                return True
        return group.has_free_tags()

    def _take_turn(self, block: bool) -> bool:
        """QUEUED: begin, if that is possible."""
        if not self._has_turn():
            return False
        del self._group.queued[self]
        self._begin(Guard(self.error))
        return self.state < COMPLETE

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
        self.operands = operands = prepare_operands(self.bindings, a, out, alpha, beta)
        self.arrays, self.outs, self.targets, self.origins = operands[:4]
        if self.plan.has_panels and self.outs[0] is None:
            take_single_pages(self.targets[0])
        return operands

    def _check_unread(self, a: Any) -> None:
        """Refuse an array to consume that a transfer in flight still reads or writes."""
        for other in (*self._group.transfers, *self._group.queued):
            held = (*other.arrays, *other.outs, *(other._given or ())[:2])
            if any(isinstance(x, np.ndarray) and isinstance(a, np.ndarray) and np.may_share_memory(x, a) for x in held):
                raise ArrayError(f"A is still read or written by a transfer in flight, {other.plan!r}: wait for it first")

    def _take_known_memory(self, operands: Operands) -> None:
        """Take memory for arrays whose dtypes this rank knows, in a plan whose terms they fit."""
        plan, terms, item_bytes = self.plan, self.bindings.terms, 0
        if terms is not None and terms.is_bound:
            terms.check_usable()
            terms.check(operands.factors[0])
            item_bytes = terms.item_bytes
            self.operands = operands = operands._replace(element_order=terms.element_order)
        self.binding = binding = self.bindings.binding_of(operands)
        self._kind, known = operands.kind, binding.dtypes
        if known is None:
            return
        if not plan.may_ask_dtypes or None not in operands.dtypes:
            self._take_memory(known, item_bytes)
            return
        trial = Guard()
        trial.attempt(lambda: self._take_memory(known, item_bytes), is_open=False)
        if trial.error is not None:
            binding.forget_dtypes()  # other ranks' arrays may have changed: ask again

    def _take_memory(self, dtypes: Dtypes, item_bytes: int) -> None:
        """Take staging memory and arrays in between, unless the order of elements is unknown."""
        plan, operands, binding = self.plan, self.operands, self.binding
        assert binding is not None
        self._dtypes = dtypes
        if operands.element_order is None and not plan.may_ask_dtypes:
            return
        bound = binding.bind_latest()
        if bound is None or plan.may_ask_dtypes:
            self._kind, self._arrays_between = allocate(plan, operands, dtypes)
        if plan.has_panels:  # along the slowest dimension of all ranks' A, which the vote says
            return
        if bound is None or dtypes != binding.dtypes:
            element_order = BY_COLUMNS if plan.layouts_between else operands.element_order or BY_COLUMNS
            bound = self._bind_stages(element_order, max(item_bytes, *self._kind.items))
        self._bind(bound)

    def _bind_stages(self, element_order: int, item_bytes: int) -> BoundStages:
        """Return the exchanges for an order of elements in messages and the bytes of the largest element."""
        assert self.binding is not None
        return self.binding.exchanges.bind(self._kind, self._dtypes, element_order, item_bytes)

    def _bind(self, bound: BoundStages, begin: Callable[[Any, Run], Progress] | None = None) -> None:
        """Begin a run of these exchanges, with its memory; `begin` continues that of a compiled call."""
        binding, exchange = self.binding, bound.exchanges[0]
        assert binding is not None
        idle: Transfer[Any] | None = binding.idle
        if begin is None and bound is binding.latest and idle is not None:
            binding.idle, self._next, run_in_progress = None, idle, idle.progress
            run, self._staging = run_in_progress.run, idle._staging
            run.origins, run.addresses, run.spent = self.origins, self.origins.pair(0), self._spent
            if self.series is None:
                run.tag = self._ticket + DATA
            run_in_progress.renew()
        else:
            is_reusable = begin is None and not self.plan.may_ask_dtypes and bound.is_reusable
            self._staging = self._group.staging.take(bound.private_bytes, is_reusable)
            run = self._new_run(bound)
            if begin is not None:
                run_in_progress = begin(exchange, run)
            elif self.series is not None:
                run_in_progress = SeriesMessages(self.series, exchange, run)
            else:
                run_in_progress = exchange.begin(run)
            if is_reusable:
                self._next = self._make_next(bound, exchange, run_in_progress)
        self.bound, self.exchange, self.progress = bound, exchange, run_in_progress  # all, or after an error none

    def _make_next(self, bound: BoundStages, exchange: Exchange, run_in_progress: Progress) -> Transfer[Any]:
        """Make the transfer that is called again with this run."""
        following: Transfer[Any] = Transfer(self.bindings)
        following.bound, following.exchange, following.progress = bound, exchange, run_in_progress
        following._kind, following._dtypes, following._staging = self._kind, self._dtypes, self._staging
        following.series, following._is_again = self.series, True
        del following.bindings  # which keep it
        return following

    def _new_run(self, bound: BoundStages) -> Run:
        binding, group, stage = self.binding, self._group, self._stage
        assert binding is not None
        origins, addresses = locate_arrays(self.plan, stage, self.origins, self._arrays_between)
        # Neither `self` nor the binding, which may keep the run: such a cycle would live until garbage collection.
        other_order = functools.partial(
            binding.exchanges.bind,
            self._kind,
            self._dtypes,
            BY_ROWS + BY_COLUMNS - bound.element_order,
            bound.item_bytes,
        )
        return Run(
            group.channel,
            group.collectives,
            self._ticket + DATA if self.series is None else self.series.tag,
            origins,
            addresses,
            self._staging,
            self._spent,
            lambda: other_order().exchanges[stage],
        )

    # -- the vote

    def _begin(self, guard: Guard) -> None:
        """Take memory, unless this rank has an error; then vote, or send as a call of a series."""
        group, terms = self._group, self.bindings.terms
        if terms is not None:
            terms.draw(group)
            self.series = terms.series
        if self.series is None:
            self._ticket = group.take_ticket()
        if self._given is not None and guard.error is None:
            given, self._given = self._given, None
            guard.attempt(lambda: self._take_arrays(*given), is_open=False)
        if guard.error is None:
            guard.attempt(lambda: self._take_known_memory(self.operands), is_open=False)
            if guard.error is None and self.bound is not None and self.operands.item_bytes:
                self.rows = guard.attempt(self.progress.pack_for_vote, is_open=False)
        self.error = guard.error
        if self.series is None:
            self.state = VOTING
            self._voting = group.cast_vote(self._make_vote(), None if self.error else self.rows)
        elif self.error is not None:
            self._end_refused(self.error)
            return
        else:
            self.state = READY
        if self.error is None and self.bound is not None:
            self._send_early()
        if terms is not None:
            terms.note_start(self.is_agreed)

    def call_again(self, bindings: Bindings, binding: Binding, a: Any, out: Any) -> Result | Any:
        """Move arrays like the last ones, with the run of the last use; return the result. Collective.

        Nothing is made anew, and after the expected outcome of the vote there is nothing to agree on. NotImplemented if the
        arrays are of another kind; then nothing has begun. Nothing else may be in flight in the group: nothing goes before it.
        """
        group, kinds, vote, series = self._group, binding.kinds, self.vote, self.series
        try:
            match = None if kinds is None else kinds.match([a], [out])
        except Exception:
            return NotImplemented  # the slow path raises it again, collectively
        if match is None or vote is None or (series is not None and series.culprit is not None):
            return NotImplemented
        self.targets, origins = match
        run_in_progress, self.origins = self.progress, origins
        run = run_in_progress.run
        run.origins, run.addresses = origins, origins.pair(0)
        run_in_progress.renew()
        rows = None
        if series is None:
            self._started = time.perf_counter()
            self._ticket = ticket = group.coming_ticket
            run.tag, rows = ticket + DATA, run_in_progress.pack_for_vote()
        self.arrays, self.outs = (a,), (out,)
        self.bindings, self.binding, binding.idle = bindings, binding, None
        with hold_interrupts() as held:
            try:
                if series is None:
                    self.state = VOTING
                    group.tickets.drawn += 1
                    self._voting = group.start_voting(vote, rows)
                    self._send_early()
                else:
                    self.state = MOVING
                    self._send_early()
                    self._start_moving()
            except BaseException as caught:  # other ranks depend on it
                self._abort(caught)
                raise
            try:
                if not self._step():
                    self._poll(held)
            except BaseException:
                if self._is_again:
                    self._become_ordinary()
                raise
        if self.state is not COMPLETE or not self._is_again:
            return self._end()
        result = self._result
        self.arrays = self.outs = self.targets = ()
        self._result = self.binding = None  # no cycle: the binding keeps it, and the bindings keep that
        del self.bindings
        if binding.idle is None and binding.latest is self.bound:
            binding.idle = self
        return result

    def _become_ordinary(self) -> None:
        """Go on as any other transfer, in flight with the vote that it has cast."""
        self._is_again = False
        if self.series is None:
            self._group.adopt(self._voting)
        self._join()

    def continue_call(self, call: Call, binding: Binding, arrays: Sequence[Any], outs: Sequence[Any]) -> None:
        """Go on after the vote that a compiled call has cast, with the chunks that it has packed."""
        self.binding, self.operands, self._kind = binding, binding.operands, binding.operands.kind
        self._ticket, self.arrays, self.outs = self._group.ticket, arrays, outs
        self._voting, begun, self.targets, self.origins = call.hand_over()
        bound = binding.bind_latest()
        assert bound is not None
        assert binding.dtypes is not None
        self._dtypes, self.state = binding.dtypes, VOTING
        self._group.adopt(self._voting)
        self._bind(bound, functools.partial(RingAndMPI, begun=begun))
        self._join()

    def move_alone(self, a: Any, out: Any, alpha: object, beta: object) -> None:
        """Complete, on a rank that takes no part in the plan."""
        operands = self._take_arrays(a, out, alpha, beta)
        self._result = finish_result(self.plan, self.outs, self.targets, operands.factors)
        self.state = COMPLETE

    def _join(self) -> None:
        """Be in flight."""
        self._group.transfers[self] = tasks_in_flight()[self] = None

    def _make_vote(self) -> Vote:
        plan, failed = self.plan, self._group.failure_code(self.error)
        if not self._has_operands:
            return Vote(failed=failed, call=plan.identity)
        return Vote(failed=failed, **self.bindings.vote_fields(self.operands, self.binding))

    @property
    def _has_operands(self) -> bool:
        return bool(self.arrays)

    def _make_statements(self) -> list[Statement]:
        """List the values behind the vote's digests, for the error text if they differ."""
        if not self._has_operands:
            return []
        plan, operands = self.plan, self.operands
        dtype = operands.dtypes[0] if len(operands.dtypes) == 1 else None
        return [
            Statement("the batch" if plan.is_batch else "the plan", plan.identity, repr(plan)),
            Statement(
                "alpha and beta", operands.factors, ", ".join(sorted({str(factors) for factors in operands.factors}))
            ),
            Statement("the dtype", None if dtype is None else dtype_digest(dtype), f"dtype {dtype}"),
        ]

    def _send_early(self) -> None:
        """Send what may go before the vote is counted."""
        self.progress.send_early()

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
                self._abort(CollectiveError(f"{group.abort_reason}: its pending data are lost"))
            elif not self._step(block):
                return False
            self._leave()
        finally:
            group.lock.release()
        return True

    def _step(self, block: bool = False) -> bool:
        """Go from state to state as far as possible; True when it has ended. No other thread does so meanwhile.

        A step returns whether the next state can be gone on from; not from the last one.
        """
        try:
            while _STEPS[self.state](self, block):
                pass
        except BaseException as caught:
            self._abort(caught)
        return self.state >= COMPLETE

    def _count_vote(self, block: bool) -> bool:
        """VOTING: count the vote; then ask, refuse or get ready."""
        voting, binding = self._voting, self.binding
        if self._is_again:
            if not voting.test():
                return False
            if binding is not None and binding.expected is not None and voting.outcome.is_same(binding.expected):
                self._start_moving()  # all is as in the last use, and nothing goes before it
                self.state = MOVING
                return True
            self._become_ordinary()
            return False
        outcome = self._group.count(voting, block)
        if outcome is None:
            return False
        if self._spent is not None:
            self._spent["agreed"] = time.perf_counter() - self._started
        disputed, may_ask = outcome.disputed, self.plan.may_ask_dtypes
        if self.error is not None or outcome.failed or "call" in disputed or ("dtype" in disputed and not may_ask):
            self._refuse(self._make_statements)
            self.state = State.REFUSING
        elif may_ask and (outcome.pending or "dtype" in disputed):
            self._dtype_exchange = GatherScatter(
                self._group.channel, self._ticket + CONTROL, self.operands.dtypes, combine_dtypes
            )
            self.state = State.ASKING
        elif self.plan.has_panels:
            self._start_confirming(Guard(), lambda: self._bind(self._bind_agreed(outcome)))
        else:
            self._agree(outcome)
        return True

    def _ask(self, block: bool) -> bool:
        """ASKING: learn the dtypes, take the memory for them, and report whether that failed."""
        exchange = self._dtype_exchange
        if not exchange.advance():
            return False
        reply: tuple[Verdict, Any] = exchange.reply if exchange.failure is None else (exchange.failure, ())
        (verdict, known), guard = reply, Guard()
        if verdict is not None:
            guard.error = exchange.error or CollectiveError(self._group.format_verdict(verdict))
        self._start_confirming(guard, lambda: self._learn_dtypes(tuple(known)))
        return True

    def _start_confirming(self, guard: Guard, take: Callable[[], None]) -> None:
        """Take memory, unless this rank has an error, and report whether that failed."""
        if guard.error is None:
            guard.attempt(take, is_open=False)
        self.error = guard.error
        self._refuse(list)
        self.state = State.CONFIRMING

    def _learn_dtypes(self, dtypes: Dtypes) -> None:
        """Take the memory for these dtypes, unless it has been taken for them before the vote."""
        if self.bound is not None and dtypes != self._dtypes and self.plan.layouts_between:
            # Those of an earlier use. This rank has only arrays in between, so it has sent nothing.
            self._group.staging.put_back(self._staging)
            self.bound = self._next = None
        if self.bound is None:
            self._take_memory(dtypes, int(self._voting.outcome.item))
        elif dtypes != self._dtypes:
            self._dtypes = dtypes
            self._kind, self._arrays_between = allocate(self.plan, self.operands, dtypes)

    def _confirm(self, block: bool) -> bool:
        """CONFIRMING: learn whether all ranks have their memory."""
        if not self._refusal.advance():
            return False
        if self._refusal.reason is not None:
            self.state = State.REFUSING
            return True
        outcome = self._voting.outcome
        if self.plan.may_ask_dtypes:
            assert self.binding is not None
            self.binding.remember_dtypes(self._dtypes, int(outcome.order))
        self._agree(outcome)
        return True

    def _refuse(self, statements: Callable[[], Sequence[Statement]]) -> None:
        """Start to report this rank's error or statements."""
        sent = () if self.bound is None else self.progress.withdraw()
        self._refusal = self._group.start_refusal(self._ticket, self.error, statements, tuple(sent))

    def _end_refusal(self, block: bool) -> bool:
        """REFUSING: learn the reason, and wait until MPI no longer reads staging buffers."""
        if not self._refusal.advance() or not self._is_sent():
            return False
        self._end_refused(self._refusal.error or CollectiveError(self._refusal.reason))
        return False

    def _is_sent(self) -> bool:
        """Whether MPI has completed all sends."""
        return self.bound is None or self.progress.is_sent()

    def _bind_agreed(self, outcome: Outcome) -> BoundStages:
        """Return the exchanges for what all ranks have voted for."""
        element_order = BY_COLUMNS if self.plan.layouts_between else int(outcome.order) or BY_COLUMNS
        return self._bind_stages(element_order, int(outcome.item))

    def _agree(self, outcome: Outcome) -> None:
        """Adopt the order of elements and the largest element size that all ranks have agreed on."""
        plan, operands, binding = self.plan, self.operands, self.binding
        assert binding is not None
        bound = self._bind_agreed(outcome)
        if self.bound is None:
            self._bind(bound)
        elif self.bound is not bound:
            self.bound, self.exchange, self._next = bound, bound.exchanges[self._stage], None
        self._has_elements = bool(bound.item_bytes) and not (len(plan.stages) == 1 and all(operands.kind.unchanged))
        self.bindings.bind_terms(operands, bound.element_order, bound.item_bytes)
        self.bindings.keep(binding, self.arrays, self.outs, self.targets, bound, continue_call, outcome)
        if outcome.packed is not None and (outcome.packed != bound.element_order or "packed" in outcome.disputed):
            self._mark = self._voting.number
        self.state = READY

    def _get_ready(self, block: bool) -> bool:
        """READY: begin after earlier transfers of the group have begun, or have completed if exchanges run one at a time.

        A call of a series begins when the earlier ones have received all.
        """
        if self.series is not None:
            return self._get_ready_in_series()
        for other in self._group.transfers:
            if other is self:
                break
            if other.state < MOVING or (
                self.exchange.in_turn and other.state == MOVING and other.exchange.in_turn
            ):
                return False
        if not self._has_elements:
            self._complete()
            return False
        self._start_moving()
        self.state = MOVING
        return True

    def _get_ready_in_series(self) -> bool:
        assert self.series is not None
        if self.series.culprit is not None:
            if self._is_sent():
                self._end_with_series()
            return False
        assert isinstance(self.progress, SeriesMessages)
        if not self.progress.has_turn:
            return False
        self._start_moving()
        self.state = MOVING
        return True

    def _start_moving(self) -> None:
        self._consume = None  # from now on elements of A go
        self.progress.start(self.exchange, self._mark)

    def _move(self, block: bool) -> bool:
        """MOVING: move, stage after stage; then complete."""
        while self.progress.advance(block):
            bound, stage = self.bound, self._stage + 1
            assert bound is not None
            if self.plan.has_panels:
                self._give_back(bound.element_order)
            if stage == len(bound.exchanges):
                self._complete()
                return False
            self._stage, self.exchange = stage, bound.exchanges[stage]
            self.progress = self.exchange.begin(self._new_run(bound))
            self.progress.start(self.exchange)
        return False

    def _give_back(self, element_order: int) -> None:
        """Give the memory of a panel that has gone back."""
        panel_stage = self.plan.stages[self._stage]
        assert isinstance(panel_stage, PanelStage)
        panel = panel_stage.panel(element_order)
        if self._consumed is None:
            (move,), array, target = panel_stage.moves, self.arrays[0], self.targets[0]
            self._consumed = ConsumedArray(move, array, target, panel.dimension)
        self._consumed.give_back(panel)

    def _complete(self) -> None:
        if self.series is not None and self.series.culprit is not None:
            self._end_with_series()
            return
        plan = self.plan
        if plan.needs_finishing or plan.is_batch:
            self._result = finish_result(plan, self.outs, self.targets, self.operands.factors)
        else:
            (self._result,) = self.targets
        if self.series is None or not self._is_again:
            self.bindings.last_run.seconds = time.perf_counter() - self._started
        if not self._is_again:
            if self.series is not None and self.binding is not None and self.bound is not None:
                self.bindings.keep(self.binding, self.arrays, self.outs, self.targets, self.bound, continue_call)
            self._put_back_memory()
        self.state = COMPLETE

    def _put_back_memory(self) -> None:
        """Keep the run for the next use, or return its memory: nothing reads or writes it any more."""
        binding, bound = self.binding, self.bound
        if binding is None or bound is None:
            return
        following = self._next
        if following is None or binding.kinds is None or binding.latest is not bound or binding.idle is not None:
            self._group.staging.put_back(self._staging)
        else:
            following.operands, following.vote, binding.idle = binding.operands, binding.vote, following

    # -- transfers that fail

    def _end_with_series(self) -> None:
        """End as refused, because a rank has failed in a call of the series."""
        terms = self.bindings.terms
        assert terms is not None
        self._end_refused(CollectiveError(terms.failure))

    def _end_refused(self, error: BaseException) -> None:
        """End as refused: all ranks know or will know of the error."""
        self._next = None
        self._put_back_memory()
        self._leave_array()
        self.bindings.record_failure(describe_error(error))
        self.state, self._failure = State.REFUSED, error

    def _leave_array(self) -> None:
        """Leave the user's array as it was, if nothing of it has moved."""
        if self._consume is not None:
            self._consume.undo()
            self._consume = None

    def _abort(self, error: BaseException) -> None:
        """Abort the group. This transfer stays in memory, because MPI may still access its buffers."""
        self._group.abort(f"{type(error).__name__}: {error}")
        self._group.aborted_uses.append(self)
        self._leave_array()
        self.state, self._failure = State.ABORTED, error

    def _check_peers(self) -> None:
        """Check that the other ranks are alive; abort if one is not."""
        try:
            self._group.check_peers(self.plan)
        except CollectiveError as error:
            with self._group.lock:
                if self.state < COMPLETE:
                    self._abort(error)
                    self._leave()

    # -- operations in flight

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
                    self._poll(held)
            return self._end()
        except RedistributionError as error:
            shorten(error, error.__traceback__)
            raise

    def _poll(self, held: hold_interrupts) -> None:
        """Make progress on it, and on all else that the thread has in flight, until it has ended; interrupts end that."""
        state, polls, block, tasks = self.state, 0, False, progress.thread_state.tasks
        own = not self._is_again  # whether it is one of them
        if own and len(tasks) == 1:
            node = self._group.node
            block = node is not None and node.ring is not None
        while not (self._step() if self._is_again else self.advance(block)):
            polls += 1
            if self.state is not state:  # what it waits for now may come soon
                state, polls = self.state, 0
            if len(tasks) > own:
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
            raise self._failure
        result: Result = self._result
        return result if self._convert_result is None else self._convert_result(result)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Wait, unless an exception leaves the block."""
        if kind is None:
            self.wait()

    def __repr__(self) -> str:
        return f"Transfer({self.plan!r}, {self.state.name.lower()})"


_STEPS: dict[State, Callable[[Transfer[Any], bool], bool]] = {
    State.QUEUED: Transfer._take_turn,
    State.VOTING: Transfer._count_vote,
    State.ASKING: Transfer._ask,
    State.CONFIRMING: Transfer._confirm,
    State.REFUSING: Transfer._end_refusal,
    State.READY: Transfer._get_ready,
    State.MOVING: Transfer._move,
}


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


def continue_call(weak_bindings: weakref.ref[Bindings], call: Call, a: Any, out: Any) -> Transfer[Any]:
    """Return a transfer that continues a compiled call after its vote."""
    bindings = weak_bindings()
    group = None if bindings is None else bindings.group
    known = [] if bindings is None else [each for some in bindings.by_factors.values() for each in some]
    binding = next((each for each in known if each.call is call), None)
    if bindings is None or group is None or binding is None or not call.begun:
        raise RuntimeError("internal error: a transfer continues a call that has not begun; please report it")
    with hold_interrupts():
        transfer: Transfer[Any] = Transfer(bindings)
        try:
            transfer.continue_call(call, binding, *list_arrays(bindings.plan, a, out))
        except BaseException as caught:  # other ranks rely on the call that has begun
            group.abort(f"{type(caught).__name__}: {caught}")
            group.aborted_uses.append((transfer, call))
            raise
        return transfer
