"""Uses: the arrays, exchanges and memory of a transfer on this rank. A `Transfer` runs a `Use`.

Each use makes its own arrays of layouts in between (`via=`).
"""

from __future__ import annotations

import functools
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._kernels.bundle import Origins, address_of
from .._kernels.call import Call, Kinds
from .._kernels.transport import Traffic
from ..comm import progress
from ..comm.group import DATA, Group
from ..comm.guard import Guard
from ..comm.progress import hold_interrupts, wait_until
from ..comm.transfer import CountedVoting, Transfer
from ..comm.vote import Outcome, RingVoting, Rows, Statement, Vote, describe_dispute, describe_error
from ..errors import CollectiveError
from ..exchanges import Exchange, Progress, Run
from ..exchanges.exchange import prepare
from ..exchanges.pipeline import Nonblocking, SeriesMessages
from ..exchanges.shared import RingAndMPI, Shared
from ..layout.dtypes import dtype_digest
from .local_arrays import BY_COLUMNS, BY_ROWS
from .operands import find_wrapped, finish_result, list_arrays, prepare_operands
from .plan import Binding, CacheEntry, Operands, Plan, cached_entry, factors_key, factors_of, key_of
from .stages import ArrayKind
from .terms import Terms

Dtypes = Sequence[np.dtype[Any] | None]
LARGEST_CACHED = 2**20  # bytes of staging memory that a plan keeps between calls


class Use:
    """The arrays, exchanges and memory of one transfer on this rank: the `Payload` of a `Transfer`.

    Parameters
    ----------
    plan : Plan
        The plan.
    ticket : int
        The transfer's ticket.
    spent : dict, optional
        Receives the seconds of each part of the work.
    measured : object, optional
        The record of a trace.

    Attributes
    ----------
    operands : Operands or None
        This rank's arrays; None if a check failed.
    series : Series or None
        The series of calls without votes that this use belongs to.
    binding : Binding or None
        The exchanges of all stages; None if they depend on the vote.
    exchange, progress
        The current stage's exchange and its run.
    """

    def __init__(
        self, plan: Plan, ticket: int = 0, spent: dict[str, float] | None = None, measured: Any = None
    ) -> None:
        self._plan: Callable[[], Plan | None] = lambda: plan
        self._ticket, self._spent, self._measured = ticket, spent, measured
        self._started_at = time.perf_counter()
        self._convert_result: Callable[[Any], Any] | None = None
        self._rows: Rows | None = None
        self._arrays_between: list[NDArray[Any] | None] = []
        self._stage = 0
        self.series = plan.series
        self._exchange_type = None if self.series is None else Nonblocking
        self.error: BaseException | None = None
        self.has_elements = self.series is not None
        self.operands: Operands | None = None
        self.binding: Binding | None = None
        self.exchange: Exchange
        self.progress: Progress

    @property
    def plan(self) -> Plan:
        """The plan that is used."""
        plan = self._plan()
        assert plan is not None
        return plan

    @property
    def may_ask_dtypes(self) -> bool:
        """Whether ranks may have to exchange the dtypes of their arrays."""
        return self.plan.may_ask_dtypes

    @property
    def in_turn(self) -> bool:
        """Whether the current exchange lets no other transfer move."""
        return self.exchange.in_turn

    def _checked_operands(self) -> Operands:
        assert self.operands is not None
        return self.operands

    # -- before the vote

    def check(self, guard: Guard, a: Any, out: Any, alpha: object, beta: object) -> None:
        """Check this rank's arrays and take the memory for them; an error is kept for the vote."""
        self.operands = operands = guard.attempt(lambda: self._prepare(a, out, alpha, beta))  # runs code of the arrays
        if operands is not None:
            guard.attempt(lambda: self._take_known_memory(operands), is_open=False)
        self.error = guard.take_interrupts()
        if self.error is None and self.binding is not None and operands is not None and operands.item_bytes:
            self._rows = guard.attempt(self.progress.pack_for_vote, is_open=False)
            self.error = guard.error

    def _prepare(self, a: Any, out: Any, alpha: object, beta: object) -> Operands:
        prepare()  # on every rank, also one without arrays: the vote reports an error
        return prepare_operands(self.plan, a, out, alpha, beta)

    def _take_known_memory(self, operands: Operands) -> None:
        """Take memory for operands whose dtypes this rank knows, in a plan whose terms they fit."""
        plan, self._kind = self.plan, operands.kind
        terms, item_bytes = plan.terms, 0
        if terms is not None and terms.is_bound:
            terms.check_usable()
            terms.check(operands.factors[0])
            self.operands, item_bytes = operands._replace(element_order=terms.element_order), terms.item_bytes
        if not plan.may_ask_dtypes or None not in operands.dtypes:
            self._take_memory(plan.known_dtypes(operands), item_bytes)
            return
        trial = Guard()
        trial.attempt(lambda: self._take_memory(plan.known_dtypes(operands), item_bytes), is_open=False)
        if trial.error is not None:
            plan.forget_dtypes(operands)  # other ranks' arrays may have changed: ask again

    def _take_memory(self, dtypes: Dtypes | None, item_bytes: int = 0) -> None:
        """Bind exchanges, and take staging memory and arrays in between, unless a dtype or the order of elements is unknown."""
        plan, operands = self.plan, self._checked_operands()
        if dtypes is None or (operands.element_order is None and not plan.may_ask_dtypes):
            return
        entry = cached_entry(plan, operands)
        if entry is not None and entry.operands.kind is operands.kind:
            self.bind(entry.binding(plan))
            return
        self._kind, self._arrays_between = allocate(plan, operands, dtypes)
        element_order, item_bytes = plan.element_order_of(operands), max(item_bytes, *self._kind.items)
        self.bind(plan.binding(operands, self._kind, element_order, item_bytes, self._exchange_type))

    def bind(
        self,
        binding: Binding,
        staging: NDArray[np.uint8] | None = None,
        begin: Callable[[Any, Run], Progress] | None = None,
    ) -> None:
        """Use these exchanges and that memory; `begin` continues the run of a compiled call."""
        exchange = binding.exchanges[0]
        self._staging = self._group.staging.take(binding.private_bytes) if staging is None else staging
        run = self._run(binding)
        if begin is None and self.series is not None:
            begin = functools.partial(SeriesMessages, self.series)
        progress = exchange.begin(run) if begin is None else begin(exchange, run)
        self.binding, self.exchange, self.progress = binding, exchange, progress  # all, or after an error none

    @property
    def _group(self) -> Group:
        group = self.plan.group
        assert group is not None
        return group

    def _run(self, binding: Binding) -> Run:
        # The closure below does not refer to `self`: such a cycle would keep the arrays until garbage collection.
        plan_of, operands = self._plan, self._checked_operands()
        stage, group = self._stage, self._group
        kind, exchange_type = self._kind, self._exchange_type
        origins, addresses = locate_arrays(self.plan, stage, operands, self._arrays_between)

        def exchange_in_other_order() -> Exchange:
            plan = plan_of()
            assert plan is not None
            other_order = BY_ROWS + BY_COLUMNS - binding.element_order
            return plan.binding(operands, kind, other_order, binding.item_bytes, exchange_type).exchanges[stage]

        channel, collectives = group.channel, group.collectives
        tag = self._ticket + DATA if self.series is None else self.series.tag
        return Run(channel, collectives, tag, origins, addresses, self._staging, self._spent, exchange_in_other_order)

    # -- the vote

    def make_vote(self, failed: int) -> Vote:
        """Make this rank's vote."""
        plan, operands = self.plan, self.operands
        if operands is None:
            return Vote(failed=failed, call=plan.identity)
        return Vote(failed=failed, **plan.vote_fields(operands))

    def make_statements(self) -> list[Statement]:
        """List the values behind the vote's digests."""
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

    @property
    def vote_rows(self) -> Rows | None:
        """Data that travel with the vote."""
        return None if self.error is not None else self._rows

    def send_early(self) -> None:
        """Send what may go before the vote is counted."""
        if self.binding is not None and self.error is None:
            self.progress.send_early()

    def may_receive(self) -> bool:
        """Whether this call of a series can receive: the earlier ones have received all, or one has failed."""
        assert isinstance(self.progress, SeriesMessages)
        return self.progress.has_turn or self.find_failure() is not None

    def find_failure(self) -> BaseException | None:
        """Return this rank's error, or the one that ended the series."""
        terms = self.plan.terms
        if self.error is None and terms is not None and terms.failure is not None:
            self.error = CollectiveError(terms.failure)
        return self.error

    def record_failure(self, error: BaseException) -> None:
        """Record an error in the plan."""
        self.plan.record_failure(describe_error(error))

    def record_vote_time(self) -> None:
        """Record the time at which the vote was counted."""
        if self._spent is not None:
            self._spent["agreed"] = time.perf_counter() - self._started_at

    # -- dtypes that not all ranks know

    @property
    def own_dtypes(self) -> Dtypes:
        """Dtypes of this rank's arrays."""
        return self._checked_operands().dtypes

    def combine_dtypes(self, dtypes_by_rank: list[Any]) -> list[Any]:
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

    def take_memory(self, dtypes: Any, outcome: Outcome) -> None:
        """Take the memory for arrays whose dtypes all ranks now know."""
        self._dtypes = dtypes
        if self.binding is None:
            self._take_memory(dtypes, int(outcome.item))

    def remember_dtypes(self, outcome: Outcome) -> None:
        """Remember the dtypes, so that ranks do not exchange them again for such arrays."""
        self.plan.remember_dtypes(self._checked_operands(), self._dtypes, int(outcome.order))

    def adopt_outcome(self, outcome: Outcome) -> bool:
        """Adopt the order of elements and the largest element size; True if messages must be packed again."""
        plan, operands, item_bytes = self.plan, self._checked_operands(), int(outcome.item)
        element_order = BY_COLUMNS if len(plan.stages) > 1 else int(outcome.order) or BY_COLUMNS
        if self.binding is None:
            self.bind(plan.binding(operands, self._kind, element_order, item_bytes, self._exchange_type))
        elif (self.binding.element_order, self.binding.item_bytes) != (element_order, item_bytes):
            self.binding = plan.binding(operands, self._kind, element_order, item_bytes, self._exchange_type)
            self.exchange = self.binding.exchanges[self._stage]
        assert self.binding is not None
        self.has_elements = bool(item_bytes) and not (len(plan.stages) == 1 and all(operands.kind.unchanged))
        plan.bind_terms(operands, element_order, item_bytes)
        cache_call(plan, operands, self.binding, outcome)
        return outcome.packed is not None and (outcome.packed != element_order or "packed" in outcome.disputed)

    def withdraw(self) -> Sequence[int]:
        """Cancel after a failed vote; return the ranks to which something was sent."""
        return () if self.binding is None else self.progress.withdraw()

    def is_sent(self) -> bool:
        """Whether MPI has completed all sends."""
        return self.binding is None or self.progress.is_sent()

    # -- moving

    def start(self, repacking_vote: int) -> None:
        """Start moving. `repacking_vote` is the number of a vote after which messages are packed again, or 0."""
        self.progress.start(self.exchange, repacking_vote)

    def advance(self, block: bool) -> bool:
        """Move stage after stage; True when all has moved."""
        binding = self.binding
        assert binding is not None
        while self.progress.advance(block):
            self._stage += 1
            if self._stage == len(binding.exchanges):
                return True
            self.exchange = binding.exchanges[self._stage]
            self.progress = self.exchange.begin(self._run(binding))
            self.progress.start(self.exchange)
        return False

    def close(self) -> None:
        """Return the staging memory: nothing reads or writes it any more."""
        if self.binding is not None:
            self._group.staging.put_back(self._staging)

    def finish(self) -> Any:
        """Return the result, once all has moved."""
        plan, operands = self.plan, self._checked_operands()
        result = finish_result(plan, operands.outs, operands.targets, operands.factors)
        if self.series is not None and self.binding is not None:
            cache_call(plan, operands, self.binding)
        plan.seconds = time.perf_counter() - self._started_at
        return result

    def wrap_result(self, result: Any) -> Any:
        """Convert the result to the class of the user's arrays."""
        return result if self._convert_result is None else self._convert_result(result)

    def record_end(self, error: BaseException | None) -> None:
        """Record the end of the transfer in the trace."""
        if self._measured is not None:
            self._measured.end(error)

    # -- the next use

    def reset(self, a: Any, out: Any, ticket: int) -> bool:
        """Return False: only a `CachedUse` can be reset."""
        return False

    def become_ordinary(self) -> None:
        """Do nothing: this use was never reset."""

    def release_target(self) -> Any:
        """Return None: this use was never reset."""


class CachedUse(Use):
    """A use that a plan keeps for arrays of one kind with one pair of factors.

    The reference to the plan is weak, so both are freed with the plan's last reference. It is strong only while this use
    continues as an ordinary one.
    """

    def __init__(self, plan: Plan, kinds: Kinds, template: Operands, binding: Binding) -> None:
        super().__init__(plan)
        self._plan = self._weak_plan = weakref.ref(plan)
        self._kinds, self._template, self._cached_binding = kinds, template, binding
        self.has_elements = True
        self._begin()

    @staticmethod
    def suits(exchange: Exchange) -> bool:
        """Whether a use may keep its memory for the next one. The shared ring's fast path is compiled instead."""
        return not isinstance(exchange, Shared) and exchange.private_bytes <= LARGEST_CACHED

    def _begin(self) -> None:
        """Take memory of its own."""
        self.operands, self._kind = self._template._replace(origins=Origins(1)), self._template.kind
        self.bind(self._cached_binding, np.empty(self._cached_binding.private_bytes, np.uint8))
        self._is_ordinary = False

    def reset(self, a: Any, out: Any, ticket: int) -> bool:
        """Prepare the next use, of these arrays; False if they are of another kind."""
        if self.series is not None and self.series.culprit is not None:
            return False
        try:
            match = self._kinds.match([a], [out])
        except Exception:
            return False  # the slow path raises it again, collectively
        if match is None:
            return False
        self._ticket, self._stage = ticket, 0
        if self._is_ordinary:
            self.error = None
            self._begin()
        run = self.progress.run
        self._arrays, (self._targets, run.origins) = (a, out), match
        run.addresses = run.origins.pair(0)
        if self.series is None:
            run.tag = ticket + DATA
        self.progress.renew()
        self._rows = None if self.series is not None else self.progress.pack_for_vote()
        return True

    def become_ordinary(self) -> None:
        """Continue as any other use, of the same arrays."""
        plan, (a, out) = self.plan, self._arrays
        self._plan, self._is_ordinary, self._started_at = lambda: plan, True, time.perf_counter()
        arrays, outs = list_arrays(plan, a, out)
        self.operands = self._template._replace(
            arrays=arrays, outs=outs, targets=self._targets, origins=self.progress.run.origins
        )

    def advance(self, block: bool) -> bool:
        """Make progress; True when all has moved, since there is one stage."""
        return self.progress.advance(block)

    def release_target(self) -> Any:
        """Return the local array of B, and forget it."""
        (target,) = self._targets
        self._arrays, self._targets = (None, None), []
        return target

    def close(self) -> None:
        """Forget the arrays; keep the memory."""
        self._plan, self.operands = self._weak_plan, self._template
        self._arrays, self._targets = (None, None), []


def start_use(
    plan: Plan,
    a: Any,
    out: Any,
    alpha: object = 1,
    beta: object = 0,
    spent: dict[str, float] | None = None,
    error: BaseException | None = None,
    measured: Any = None,
    convert_result: Callable[[Any], Any] | None = None,
) -> Transfer[Any]:
    """Start a transfer of these local arrays, and vote. Collective over the plan's ranks, in the same order on all.

    The vote reports an error of this rank; all ranks raise it when they wait for the transfer. `convert_result` gives the
    result the class of the user's arrays.
    """
    group = plan.group
    if group is None:
        use = Use(plan, measured=measured)
        use._convert_result = convert_result
        use.operands = use._prepare(a, out, alpha, beta)
        return Transfer(None, use)
    group.check_usable()
    with Guard(error) as guard:
        terms = plan.terms
        if terms is not None:
            _wait_for_terms(plan, terms, guard)
            if plan.series is not None:
                terms.check_usable()
            terms.draw(group)
        ticket = group.draw_ticket() if plan.series is None else 0
        with group.lock:
            use = Use(plan, ticket, spent, measured)
            use._convert_result = convert_result
            use.error = guard.error
            if guard.error is None:
                use.check(guard, a, out, alpha, beta)
            transfer: Transfer[Any] = Transfer(group, use, ticket)
        if terms is not None:
            terms.note_start(transfer)
        return transfer


def _wait_for_terms(plan: Plan, terms: Terms, guard: Guard) -> None:
    """Wait until the plan's first call is settled, so that all ranks vote or none; the guard keeps an error or an interrupt.

    After a second interrupt this rank takes no part in what the other ranks call, so it aborts the group.
    """
    group, is_interrupted = plan.group, False
    assert group is not None

    def check_peers() -> None:
        group.check_peers(plan)
        guard.deliver_interrupts()

    while not terms.is_settled():
        wait = Guard()
        with group.aborting_if_forced():
            wait.attempt(lambda: wait_until(terms.is_settled, check_peers), is_open=False)
        guard.error = guard.error or wait.error
        if wait.error is None or isinstance(wait.error, CollectiveError):  # the group has been aborted: that settles it
            continue
        if is_interrupted:
            group.abort(describe_error(wait.error))
            raise wait.error
        is_interrupted = True


def _continue_call(weak_plan: weakref.ref[Plan], call: Call, a: Any, out: Any) -> Transfer[Any]:
    """Return a transfer that continues a compiled call after its vote."""
    plan = weak_plan()
    group = None if plan is None else plan.group
    entries = () if plan is None else plan.cache.values()
    entry, origins = next((entry for entry in entries if entry.call is call), None), call.origins
    if plan is None or group is None or entry is None or origins is None:
        raise RuntimeError("internal error: a transfer continues a call that has not begun; please report it")
    with hold_interrupts():
        use = Use(plan, group.ticket)
        try:
            arrays, outs = list_arrays(plan, a, out)
            targets = call.targets if plan.is_batch else [call.targets]
            use.operands = entry.operands._replace(arrays=arrays, outs=outs, targets=targets, origins=origins)
            use._kind = use.operands.kind
            traffic = None if call.voted and not call.as_expected else call.traffic
            if call.voted:
                voting: Any = CountedVoting(call.outcome(), call.number)
            else:
                voting = group.adopt(RingVoting(call.traffic.ring, call.vote, posted=True))
            call.hand_over()
            use.bind(entry.binding(plan), begin=functools.partial(RingAndMPI, begun=traffic))
        except BaseException as caught:  # other ranks rely on the call that has begun
            group.abort(f"{type(caught).__name__}: {caught}")
            group.aborted_uses.append(call)
            raise
        return Transfer(group, use, group.ticket, voting)


def allocate(plan: Plan, operands: Operands, dtypes: Dtypes) -> tuple[ArrayKind, list[NDArray[Any] | None]]:
    """Make the arrays of layouts in between; return the kind of all arrays, and the new ones."""
    kind = operands.kind._replace(items=tuple(0 if dtype is None else dtype.itemsize for dtype in dtypes))
    arrays: list[NDArray[Any] | None] = []
    strides, items, blends = [*kind.strides], [*kind.items], [*kind.blends]
    for array_number in sorted(plan.layouts_between):
        desc, pair = plan.layouts_between[array_number], plan.pair_of[array_number]
        dtype = dtypes[pair]
        array = desc.empty(dtype) if desc._has_local and dtype is not None else None
        arrays.append(array)
        strides.append(() if array is None else array.strides)
        if array is None:
            continue
        items[pair] = array.itemsize
        for move in plan.moves:
            if move.pair == pair and (move.op, move.last) not in blends[pair]:
                blend = factors_of(operands.factors[pair], move).blend(array.dtype)
                blends[pair] = {**blends[pair], (move.op, move.last): blend}
    return kind._replace(strides=tuple(strides), items=tuple(items), blends=tuple(blends)), arrays


def locate_arrays(
    plan: Plan, stage: int, operands: Operands, arrays_between: Sequence[NDArray[Any] | None]
) -> tuple[Origins, tuple[int, int]]:
    """Return the addresses of a stage's arrays, and those of its first move for derived datatypes."""
    if not plan.layouts_between:
        return operands.origins, operands.origins.pair(0)
    array_numbers = sorted(plan.layouts_between)

    def address(array_number: int) -> int:
        if array_number < 2 * len(plan.pairs):
            return operands.origins.pair(array_number // 2)[array_number % 2]
        array = arrays_between[array_numbers.index(array_number)]
        return 0 if array is None else address_of(array)

    moves = plan.stages[stage].moves
    origins = Origins(len(moves))
    for k, move in enumerate(moves):
        origins.put(k, address(move.source), address(move.target))
    return origins, origins.pair(0)


def find_fast_path(plan: Plan, a: Any, out: Any, alpha: Any, beta: Any) -> Call | Transfer[Any] | None:
    """Return the call cached for these factors, or a new one; the call itself checks the arrays' kind."""
    key = factors_key(alpha, beta)
    if key is None:
        return None
    entry = plan.cache.get(key)
    return _make_first_call(plan, a, out, alpha, beta) if entry is None else entry.call


def _make_first_call(plan: Plan, a: Any, out: Any, alpha: Any, beta: Any) -> Call | Transfer[Any] | None:
    """Make the compiled call for arrays of this kind before their first use. Errors are ignored: a transfer reports them."""
    group = plan.group
    if (
        group is None
        or group.abort_reason is not None
        or plan.terms is not None
        or plan.may_ask_dtypes
        or plan.has_tiles
        or find_wrapped(plan, a, out) is not None
    ):
        return None
    if plan.stages[0].exchange is not Shared:
        return None
    try:
        operands = prepare_operands(plan, a, out, alpha, beta)
        if operands.element_order is None:
            return None
        element_order, item_bytes = operands.element_order, operands.item_bytes
        traffic = plan.stages[0].bind_traffic(operands.kind, element_order, item_bytes) if item_bytes else None
        binding = None if traffic is not None else plan.binding(operands, operands.kind, element_order, item_bytes)
        return _store_call(plan, operands, binding, item_bytes, traffic=traffic)
    except Exception:
        return None


def cache_call(plan: Plan, operands: Operands, binding: Binding, outcome: Outcome | None = None) -> None:
    """Cache the fast path for the next arrays of this kind; on one node it is a compiled call.

    Parameters
    ----------
    outcome : Outcome, optional
        Outcome of the vote on these arrays; a call of a series has none.
    """
    if plan.layouts_between or plan.has_tiles:
        return
    if plan.series is not None:
        binding = plan.binding(operands, operands.kind, binding.element_order, binding.item_bytes, Nonblocking)
    entry = cached_entry(plan, operands)
    if outcome is not None and entry is not None and isinstance(entry.call, Transfer):
        entry.call.expected = outcome
    if entry is not None and entry.operands.kind is operands.kind and entry.binding(plan) is binding:
        return
    _store_call(plan, operands, binding, binding.item_bytes, outcome)


def _store_call(
    plan: Plan,
    operands: Operands,
    binding: Binding | None,
    item_bytes: int,
    outcome: Outcome | None = None,
    traffic: Traffic | None = None,
) -> Call | Transfer[Any] | None:
    """Store a cache entry for arrays of this kind, with `traffic` alone or with `binding`."""
    key, group = key_of(operands), plan.group
    plan.discard(key)
    if key is None or group is None or True in operands.kind.unchanged:
        return None
    makers = [
        None if target is None or target is out else (pair.desc_b.empty if pair.part is None else pair.desc_b.zeros)
        for pair, out, target in zip(plan.pairs, operands.outs, operands.targets, strict=True)
    ]
    arrays = [array if isinstance(array, np.ndarray) else None for array in operands.arrays]
    try:
        kinds = Kinds(arrays, operands.targets, makers)
    except (BufferError, ValueError):  # a dtype that the buffer protocol cannot describe: checked in each call
        return None
    call: Call | Transfer[Any] | None = None
    vote = Vote(**plan.vote_fields(operands))
    element_order = operands.element_order or 0 if binding is None else binding.element_order
    exchange = None if binding is None else binding.exchanges[0]
    template = Operands([], [], [], *operands[3:])
    if exchange is not None and item_bytes:
        traffic = exchange.compiled()
    if traffic is not None:
        # The plan refers to its call, the call only weakly to the plan: both are freed with the plan's last reference.
        weak_plan = weakref.ref(plan)
        call = Call(
            traffic,
            kinds,
            Vote(**plan.vote_fields(operands), packed=element_order),
            item_bytes,
            functools.partial(_check_peers, group, weak_plan),
            group.tickets,
            plan.is_batch,
            functools.partial(_continue_call, weak_plan),
            hold_interrupts,
        )
    elif exchange is not None and _is_cacheable(plan, exchange, item_bytes, outcome):
        assert binding is not None
        call = Transfer.ready(group, CachedUse(plan, kinds, template, binding), vote, outcome)
    plan.store(key, CacheEntry(kinds, template, element_order, call, binding))
    return call


def _is_cacheable(plan: Plan, exchange: Exchange, item_bytes: int, outcome: Outcome | None) -> bool:
    """Whether a use of this kind can be repeated: all ranks have agreed on it, and it has one pair of arrays."""
    agreed = outcome is not None or plan.series is not None
    return agreed and item_bytes > 0 and not plan.may_ask_dtypes and CachedUse.suits(exchange)


def _check_peers(group: Group, plan: weakref.ref[Plan]) -> None:
    group.check_peers(plan())
    progress.force_interrupts()
