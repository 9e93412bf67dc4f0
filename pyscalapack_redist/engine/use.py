"""Use: one use of a plan on this rank, as its transfer sees it: the arrays, what moves them, and the memory for it.

Arrays of layouts in between (`via=`) are made for each use.
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
from ..comm.group import DATA, Group
from ..comm.progress import interrupts_held, until
from ..comm.transfer import CountedVote, Transfer
from ..comm.vote import Ballot, Outcome, RingVote, Rows, Statement, differ, error_in_words
from ..errors import CollectiveError
from ..exchanges import Exchange, Progress, Run
from ..exchanges.exchange import prepare
from ..exchanges.pipeline import InSeries, Nonblocking
from ..exchanges.shared import Shared, Together
from .local_arrays import BY_COLUMNS, BY_ROWS, dtype_digest
from .operands import finished, lists, operands_of, to_wrap, wrapped
from .plan import Binding, CacheEntry, Operands, Plan, cached_entry, factors_key, factors_of, key_of
from .stages import ArrayKind
from .terms import Terms

Dtypes = Sequence[np.dtype[Any] | None]
LARGEST_CACHED = 2**20  # bytes of staging memory that a plan keeps for its next call


class Use:
    """One use of a plan. Not collective.

    Parameters
    ----------
    plan : Plan
        The plan.
    ticket : int
        That of the transfer.
    spent : dict, optional
        Is to have the seconds of each part of the work.
    measured : object, optional
        The record of a trace.

    Attributes
    ----------
    operands : Operands
        This rank's arrays; not there where they were not good.
    series : Series or None
        The calls without votes of which this is one.
    binding : Binding or None
        What moves them; None where that needs the outcome of the vote.
    exchange, progress
        Of the stage which is moving, and its run.
    """

    def __init__(
        self, plan: Plan, ticket: int = 0, spent: dict[str, float] | None = None, measured: Any = None
    ) -> None:
        self._plan: Callable[[], Plan | None] = lambda: plan
        self._ticket, self._spent, self._measured = ticket, spent, measured
        self._started_at = time.perf_counter()
        self._given: tuple[list[Any], list[Any]] | None = (
            None  # where arrays of other classes than NumPy's are among them
        )
        self._rows: Rows | None = None
        self._between: list[NDArray[Any] | None] = []
        self._stage, self._started = 0, False
        self.series = plan.series
        self._by = None if self.series is None else Nonblocking
        self.error: BaseException | None = None
        self.moves = self.series is not None
        self.operands: Operands | None = None
        self.binding: Binding | None = None
        self.exchange: Exchange
        self.progress: Progress

    @property
    def plan(self) -> Plan:
        """What it is a use of."""
        plan = self._plan()
        assert plan is not None
        return plan

    @property
    def may_ask_dtypes(self) -> bool:
        """Whether ranks may have to tell one another the dtypes of their arrays."""
        return self.plan.may_ask_dtypes

    @property
    def in_turn(self) -> bool:
        """Whether the exchange of the stage which is moving lets no other transfer move."""
        return self.exchange.in_turn

    def _known(self) -> Operands:
        assert self.operands is not None
        return self.operands

    # -- before the vote

    def check(self, a: Any, out: Any, alpha: object, beta: object, let_through: Callable[[], None]) -> None:
        """Check this rank's arrays and take all that the use needs; an error is kept for the vote. Not collective."""
        plan = self.plan
        try:
            prepare()  # where it fails the others hear of it, also from a rank without arrays
            self.operands = operands = operands_of(plan, a, out, alpha, beta)
            self._kind = operands.kind
            terms, item = plan.terms, 0
            if terms is not None and terms.is_bound:
                terms.check_usable()
                terms.check(operands.factors[0])
                self.operands, item = operands._replace(order=terms.order), terms.item
            try:
                self._take(plan.known_dtypes(operands), item)
            except Exception:
                if not plan.may_ask_dtypes or None not in operands.dtypes:
                    raise
                plan.forget_dtypes(operands)  # it does for arrays that others had last time; they tell again
            let_through()
            if self.binding is not None and operands.item:
                self._rows = self.progress.with_vote()
        except BaseException as caught:
            self.error = caught

    def _take(self, known: Dtypes | None, item: int = 0) -> None:
        """What moves the arrays, the memory for it, and the intermediate arrays, unless this rank does not know enough yet."""
        plan, operands = self.plan, self._known()
        if known is None or (operands.order is None and not plan.may_ask_dtypes):
            return
        remembered = cached_entry(plan, operands)
        if remembered is not None and remembered.operands.kind is operands.kind:
            self.bind(remembered.binding(plan))
            return
        self._kind, self._between = allocate(plan, operands, known)
        self.bind(plan.binding(operands, self._kind, plan.order_of(operands), max(item, *self._kind.items), self._by))

    def bind(
        self,
        binding: Binding,
        staging: NDArray[np.uint8] | None = None,
        begin: Callable[[Any, Run], Progress] | None = None,
    ) -> None:
        """Move by these exchanges: with that memory, and from a run that a compiled call has begun, if any."""
        self.binding, self.exchange = binding, binding.exchanges[0]
        self._staging = self._group.staging.take(binding.private_bytes) if staging is None else staging
        run = self._run()
        if begin is None and self.series is not None:
            begin = functools.partial(InSeries, self.series)
        self.progress = self.exchange.begin(run) if begin is None else begin(self.exchange, run)

    @property
    def _group(self) -> Group:
        group = self.plan.group
        assert group is not None
        return group

    def _run(self) -> Run:
        # No `self` in what a run keeps: the arrays would stay until the garbage collector runs.
        its_plan, operands, binding, stage, group = self._plan, self._known(), self.binding, self._stage, self._group
        kind, by = self._kind, self._by
        assert binding is not None
        starts, addresses = locate_arrays(self.plan, stage, operands, self._between)

        def turned() -> Exchange:
            plan = its_plan()
            assert plan is not None
            return plan.binding(operands, kind, BY_ROWS + BY_COLUMNS - binding.order, binding.item, by).exchanges[stage]

        channel, collectives = group.channel, group.collectives
        tag = self._ticket + DATA if self.series is None else self.series.tag
        return Run(channel, collectives, tag, starts, addresses, self._staging, self._spent, turned)

    # -- the vote

    def make_ballot(self, failed: int) -> Ballot:
        """What this rank votes."""
        plan, operands = self.plan, self.operands
        if operands is None:
            return Ballot(failed=failed, call=plan.identity)
        return Ballot(failed=failed, **plan.ballot_fields(operands))

    def make_statements(self) -> list[Statement]:
        """What the ballot's digests are of."""
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
        """What travels with the vote."""
        return None if self.error is not None else self._rows

    def send_ahead(self) -> None:
        """Send what may go before the vote is known."""
        if self.binding is not None and self.error is None:
            self.progress.ahead()

    def may_receive(self) -> bool:
        """Of a series: whether the calls before have received all; or one has failed."""
        assert isinstance(self.progress, InSeries)
        return self.progress.has_turn or self.find_failure() is not None

    def find_failure(self) -> BaseException | None:
        """Why this one has failed of a series, if it has."""
        terms = self.plan.terms
        if self.error is None and terms is not None and terms.failure is not None:
            self.error = CollectiveError(terms.failure)
        return self.error

    def record_failure(self, error: BaseException) -> None:
        """It has failed."""
        self.plan.record_failure(error_in_words(error))

    def record_vote_time(self) -> None:
        """The vote is counted."""
        if self._spent is not None:
            self._spent["agreed"] = time.perf_counter() - self._started_at

    # -- what not all know

    @property
    def own_dtypes(self) -> Dtypes:
        """The dtypes of this rank's arrays."""
        return self._known().dtypes

    def combine_dtypes(self, told: list[Any]) -> list[Any]:
        """The dtypes of all pairs, or an error in words where two ranks have different ones."""
        known: list[Any] = []
        count = len(told[0])
        for k in range(count):
            said = [(rank, dtypes[k]) for rank, dtypes in enumerate(told) if dtypes[k] is not None]
            first = {dtype_digest(dtype): (rank, f"dtype {dtype}") for rank, dtype in reversed(said)}
            if len(first) > 1:
                what = f"the dtype of plan {k}" if count > 1 else "the dtype"
                return [(differ(what, sorted(first.values())), None)] * len(told)
            known.append(said[0][1] if said else None)
        return [(None, known)] * len(told)

    def take_memory(self, known: Any, outcome: Outcome) -> None:
        """Take what the arrays need, whose dtypes all ranks know now."""
        self._dtypes = known
        if self.binding is None:
            self._take(known, int(outcome.item))

    def remember_dtypes(self, outcome: Outcome) -> None:
        """All ranks could: they need not tell again of such arrays."""
        self.plan.remember_dtypes(self._known(), self._dtypes, int(outcome.order))

    def adopt_outcome(self, outcome: Outcome) -> bool:
        """The order of elements, and bytes of the largest; True if what was packed before has to be packed again."""
        plan, operands, item = self.plan, self._known(), int(outcome.item)
        order = BY_COLUMNS if len(plan.stages) > 1 else int(outcome.order) or BY_COLUMNS
        if self.binding is None:
            self.bind(plan.binding(operands, self._kind, order, item, self._by))
        elif (self.binding.order, self.binding.item) != (order, item):
            self.binding = plan.binding(operands, self._kind, order, item, self._by)
            self.exchange = self.binding.exchanges[self._stage]
        assert self.binding is not None
        self.moves = bool(item) and not (len(plan.stages) == 1 and all(operands.kind.stays))
        plan.bind_terms(operands, order, item)
        cache_call(plan, operands, self.binding, outcome)
        return outcome.packed is not None and (outcome.packed != order or "packed" in outcome.disputed)

    def take_back(self) -> Sequence[int]:
        """The vote was not good: the ranks to which something has been sent."""
        return () if self.binding is None else self.progress.take_back()

    def is_sent(self) -> bool:
        """Whether MPI has done with that."""
        return self.binding is None or self.progress.is_sent()

    # -- moving

    def start(self, mark: int) -> None:
        """Start moving; `mark` as for `Progress.start`."""
        self.progress.start(self.exchange, mark)

    def advance(self, block: bool) -> bool:
        """Stage after stage; True when all has moved."""
        binding = self.binding
        assert binding is not None
        while self.progress.advance(block):
            self._stage += 1
            if self._stage == len(binding.exchanges):
                return True
            self.exchange = binding.exchanges[self._stage]
            self.progress = self.exchange.begin(self._run())
            self.progress.start(self.exchange)
        return False

    def close(self) -> None:
        """Give the staging memory back: nothing reads or writes it any more."""
        if self.binding is not None:
            self._group.staging.put_back(self._staging)

    def finish(self) -> Any:
        """The result, once all has moved."""
        plan, operands = self.plan, self._known()
        result = finished(plan, operands.outs, operands.targets, operands.factors)
        if self.series is not None and self.binding is not None:
            cache_call(plan, operands, self.binding)
        plan.seconds = time.perf_counter() - self._started_at
        return result

    def wrap_result(self, result: Any) -> Any:
        """The same as what was given is: a distributed array, or an array of another library."""
        return result if self._given is None else wrapped(self.plan, *self._given, result)

    def record_end(self, error: BaseException | None) -> None:
        """Somebody has heard of the end."""
        if self._measured is not None:
            self._measured.end(error)

    # -- once more

    def reset(self, a: Any, out: Any, ticket: int) -> bool:
        """Only what is kept can be used again."""
        return False

    def become_ordinary(self) -> None:
        """It is not renewed."""

    def release_target(self) -> Any:
        """It is not renewed."""


class CachedUse(Use):
    """A use that a plan keeps, for arrays of one kind with one pair of factors. Not collective.

    It does not keep its plan, so that both end with the plan's last reference, but while it goes on as any other does.
    """

    def __init__(self, plan: Plan, kinds: Kinds, kept: Operands, binding: Binding) -> None:
        super().__init__(plan)
        self._plan = self._its_plan = weakref.ref(plan)
        self._kinds, self._kept, self._kept_binding = kinds, kept, binding
        self.moves = True
        self._begin()

    @staticmethod
    def suits(exchange: Exchange) -> bool:
        """Whether a use may keep the memory for the next: not of the ring, whose own fast path is compiled. Not collective."""
        return not isinstance(exchange, Shared) and exchange.private_bytes <= LARGEST_CACHED

    def _begin(self) -> None:
        """With memory that no other use has."""
        self.operands, self._kind = self._kept._replace(origins=Origins(1)), self._kept.kind
        self.bind(self._kept_binding, np.empty(self._kept_binding.private_bytes, np.uint8))
        self._stays = False

    def reset(self, a: Any, out: Any, ticket: int) -> bool:
        """Be as before the first use, for these arrays; False where they are of another kind."""
        if self.series is not None and self.series.culprit is not None:
            return False
        try:
            found = self._kinds.match([a], [out])
        except Exception:
            return False  # the slow path raises it again, collectively
        if found is None:
            return False
        self._ticket, self._stage = ticket, 0
        if self._stays:
            self.error = None
            self._begin()
        run = self.progress.run
        self._arrays, (self._targets, run.origins) = (a, out), found
        run.addresses = run.origins.pair(0)
        if self.series is None:
            run.tag = ticket + DATA
        self.progress.renew()
        self._rows = None if self.series is not None else self.progress.with_vote()
        return True

    def become_ordinary(self) -> None:
        """It goes on as any other, with what was given."""
        plan, (a, out) = self.plan, self._arrays
        self._plan, self._stays, self._started_at = lambda: plan, True, time.perf_counter()
        arrays, outs = lists(plan, a, out)
        self.operands = self._kept._replace(
            arrays=arrays, outs=outs, targets=self._targets, origins=self.progress.run.origins
        )

    def advance(self, block: bool) -> bool:
        """Go on; True when all has moved, for there is one stage."""
        return self.progress.advance(block)

    def release_target(self) -> Any:
        """The local array of B, once all has moved."""
        (target,) = self._targets
        self._arrays, self._targets = (None, None), []
        return target

    def close(self) -> None:
        """Forget the arrays; the memory stays with it."""
        self._plan, self.operands = self._its_plan, self._kept
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
) -> Transfer:
    """A transfer of these arrays, which has voted. Collective over the plan's ranks, in the same order on all.

    An error of this rank is told to the others, and raised by all when the transfer is waited for.
    """
    group, given = plan.group, to_wrap(plan, a, out)
    if group is None:
        use = Use(plan, measured=measured)
        use.operands, use._given = operands_of(plan, a, out, alpha, beta), given
        return Transfer(None, use)
    group.check_usable()
    with interrupts_held() as held:
        terms = plan.terms
        if terms is not None:
            error = _wait_for_terms(plan, terms, held.let_through, error)
            if plan.series is not None:
                terms.check_usable()
        ticket = group.next_ticket() if plan.series is None else 0
        use = Use(plan, ticket, spent, measured)
        use._given, use.error = given, error
        if error is None:
            use.check(a, out, alpha, beta, held.let_through)
        transfer = Transfer(group, use, ticket)
        if terms is not None:
            terms.started(transfer)
        return transfer


def _wait_for_terms(
    plan: Plan, terms: Terms, let_through: Callable[[], None], error: BaseException | None
) -> BaseException | None:
    """Wait until this rank knows whether it votes, as all do or none; its error, or an interrupt meanwhile."""

    def look_around() -> None:
        if plan.group is not None:
            plan.group.look_around(plan)
        if error is None:
            let_through()

    while not terms.is_settled():
        try:
            until(terms.is_settled, look_around)
        except BaseException as caught:
            error = error or caught
    return error


def continue_call(plan: Plan, call: Call, a: Any, out: Any) -> Transfer:
    """A transfer that goes on with a compiled call, which has voted and come no further. Not collective."""
    group = plan.group
    kept, starts = next((known for known in plan.cache.values() if known.call is call), None), call.origins
    if group is None or kept is None or starts is None:
        raise RuntimeError("a transfer continues a call that has not begun")
    with interrupts_held():
        use = Use(plan, group.ticket)
        try:
            arrays, outs = lists(plan, a, out)
            use._given = to_wrap(plan, a, out)
            targets = call.targets if plan.is_batch else [call.targets]
            use.operands = kept.operands._replace(arrays=arrays, outs=outs, targets=targets, origins=starts)
            use._kind = use.operands.kind
            traffic = None if call.voted and not call.as_expected else call.traffic
            if call.voted:
                vote: Any = CountedVote(call.outcome(), call.number)
            else:
                vote = group.adopt(RingVote(call.traffic.ring, call.ballot, posted=True))
            call.hand_over()
            use.bind(kept.binding(plan), begin=functools.partial(Together, begun=traffic))
        except BaseException as caught:  # the others count on what has begun
            group.break_off(f"{type(caught).__name__}: {caught}")
            group.wreckage.append(call)
            raise
        return Transfer(group, use, group.ticket, vote)


def allocate(plan: Plan, operands: Operands, dtypes: Dtypes) -> tuple[ArrayKind, list[NDArray[Any] | None]]:
    """The kind with all dtypes, and with the arrays of layouts in between, which are made. Not collective."""
    kind = operands.kind._replace(items=tuple(0 if dtype is None else dtype.itemsize for dtype in dtypes))
    made: list[NDArray[Any] | None] = []
    strides, items, blends = [*kind.strides], [*kind.items], [*kind.blends]
    for slot in sorted(plan.between):
        desc, pair = plan.between[slot], plan.pair_of[slot]
        dtype = dtypes[pair]
        array = desc.empty(dtype) if desc._held and dtype is not None else None
        made.append(array)
        strides.append(() if array is None else array.strides)
        if array is None:
            continue
        items[pair] = array.itemsize
        for move in plan.moves:
            if move.pair == pair and (move.op, move.last) not in blends[pair]:
                blend = factors_of(operands.factors[pair], move).blend(array.dtype)
                blends[pair] = {**blends[pair], (move.op, move.last): blend}
    return kind._replace(strides=tuple(strides), items=tuple(items), blends=tuple(blends)), made


def locate_arrays(
    plan: Plan, stage: int, operands: Operands, between: Sequence[NDArray[Any] | None]
) -> tuple[Origins, tuple[int, int]]:
    """Where the arrays of a stage begin; and, for derived datatypes, those of its first move. Not collective."""
    if not plan.between:
        return operands.origins, operands.origins.pair(0)
    slots = sorted(plan.between)

    def address(slot: int) -> int:
        if slot < 2 * len(plan.pairs):
            return operands.origins.pair(slot // 2)[slot % 2]
        array = between[slots.index(slot)]
        return 0 if array is None else address_of(array)

    moves = plan.stages[stage].moves
    made = Origins(len(moves))
    for k, move in enumerate(moves):
        made.put(k, address(move.source), address(move.target))
    return made, made.pair(0)


def find_fast_path(plan: Plan, a: Any, out: Any, alpha: Any, beta: Any) -> Call | Transfer | None:
    """What serves these arrays at once, if they are like those of an earlier use; not yet looked at. Not collective."""
    key = factors_key(alpha, beta)
    if key is None:
        return None
    remembered = plan.cache.get(key)
    return _make_first_call(plan, a, out, alpha, beta) if remembered is None else remembered.call


def _make_first_call(plan: Plan, a: Any, out: Any, alpha: Any, beta: Any) -> Call | Transfer | None:
    """The compiled call for arrays like these, where there was no use of any yet. A transfer finds errors again."""
    group = plan.group
    if group is None or group.broken is not None or plan.terms is not None or plan.may_ask_dtypes or plan.has_tiles:
        return None
    if plan.stages[0].exchange is not Shared:
        return None
    try:
        operands = operands_of(plan, a, out, alpha, beta)
        if operands.order is None:
            return None
        traffic = plan.stages[0].bind_traffic(operands.kind, operands.order, operands.item) if operands.item else None
        binding = None if traffic is not None else plan.binding(operands, operands.kind, operands.order, operands.item)
        return _store_call(plan, operands, binding, operands.item, traffic=traffic)
    except Exception:
        return None


def cache_call(plan: Plan, operands: Operands, binding: Binding, outcome: Outcome | None = None) -> None:
    """Serve the next arrays of this kind without checking each; on one node in a compiled call. Not collective.

    Parameters
    ----------
    outcome : Outcome, optional
        Of the vote on these; a call of a series had none.
    """
    if plan.between or plan.has_tiles:
        return
    if plan.series is not None:
        binding = plan.binding(operands, operands.kind, binding.order, binding.item, Nonblocking)
    remembered = cached_entry(plan, operands)
    if outcome is not None and remembered is not None and isinstance(remembered.call, Transfer):
        remembered.call.expected = outcome
    if remembered is not None and remembered.operands.kind is operands.kind and remembered.binding(plan) is binding:
        return
    _store_call(plan, operands, binding, binding.item, outcome)


def _store_call(
    plan: Plan,
    operands: Operands,
    binding: Binding | None,
    item: int,
    outcome: Outcome | None = None,
    traffic: Traffic | None = None,
) -> Call | Transfer | None:
    """Remember arrays of this kind, by what moves them: `traffic` alone, or `binding`."""
    key, group = key_of(operands), plan.group
    plan.discard(key)
    if key is None or group is None or True in operands.kind.stays:
        return None
    makes = [
        None if target is None or target is out else (pair.desc_b.empty if pair.part is None else pair.desc_b.zeros)
        for pair, out, target in zip(plan.pairs, operands.outs, operands.targets, strict=True)
    ]
    arrays = [array if isinstance(array, np.ndarray) else None for array in operands.arrays]
    try:
        kinds = Kinds(arrays, operands.targets, makes)
    except (BufferError, ValueError):  # dtypes that buffers cannot describe are checked each time
        return None
    call: Call | Transfer | None = None
    ballot = Ballot(**plan.ballot_fields(operands))
    order = operands.order or 0 if binding is None else binding.order
    exchange = None if binding is None else binding.exchanges[0]
    kept = Operands([], [], [], *operands[3:])
    if exchange is not None and item:
        traffic = exchange.compiled()
    if traffic is not None:
        # A plan has its call; the call does not have its plan, so that both end with the plan's last reference.
        look_around = functools.partial(_look_around, group, weakref.ref(plan))
        call = Call(
            traffic,
            kinds,
            Ballot(**plan.ballot_fields(operands), packed=order),
            item,
            look_around,
            group.tickets,
            plan.is_batch,
        )
    elif exchange is not None and _is_cacheable(plan, exchange, item, outcome):
        assert binding is not None
        call = Transfer.ready(group, CachedUse(plan, kinds, kept, binding), ballot, outcome)
    plan.store(key, CacheEntry(kinds, kept, order, call, binding))
    return call


def _is_cacheable(plan: Plan, exchange: Exchange, item: int, outcome: Outcome | None) -> bool:
    """Whether a use of this kind is kept for the next: one that is agreed on, of one array."""
    agreed = outcome is not None or plan.series is not None
    return agreed and item > 0 and not plan.may_ask_dtypes and CachedUse.suits(exchange)


def _look_around(group: Group, plan: weakref.ref[Plan]) -> None:
    group.look_around(plan())
