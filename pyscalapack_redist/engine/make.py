"""Plans of two layouts, and batch().

    resolve (spec) -> group -> agree (comm.group) -> build -> combine (comm.group) -> keep

This module only composes. On one node, where a rank needs nothing from the others, the plan is built before the vote. One vote
then shows that all ranks ask for the same plan and have it. A batch goes the same way.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from .. import diagnostics, tracing
from .._lazy import load_above
from ..comm.agreement import agreement, on_first
from ..comm.group import Group, first_known
from ..comm.groups import check_alive, group_of
from ..comm.guard import Guard
from ..comm.links import Links
from ..comm.mpi import MPI
from ..comm.progress import hold_interrupts
from ..comm.vote import Outcome, Statement, digest
from ..errors import DescriptorError, ScheduleError, unknown
from ..exchanges import Extents
from ..exchanges.collective import Bruck
from ..exchanges.exchange import MEMORY_LIMIT
from ..exchanges.pipeline import Nonblocking, Windowed
from ..exchanges.shared import Shared
from ..layout.grid import same_ranks
from ..schedules.layout_orders import Load, is_by_formula, load_between
from .build import build, build_batch, search
from .choose import Choice, choose, log_steps_pay
from .operation import op_layout
from .options import Options, checked_memory
from .plan import Plan
from .redistribution import Redistribution
from .spec import RETURNS_ARRAY, PlanKey, Spec, resolve
from .stages import Stage
from .sums import summands_of


class Agreed(NamedTuple):
    """The plan that all ranks ask for, whether they ask for the redistributed array, and the dtype of the array."""

    plan: Redistribution
    gives_array: bool
    dtype: np.dtype[Any] | None


R = TypeVar("R")
LOGGER = logging.getLogger(__name__)


def agreed_plan(
    desc_a: object,
    desc_b: object,
    options: Options,
    returns: int | None,
    error: BaseException | None = None,
    held: hold_interrupts | None = None,
) -> Agreed:
    """The plan for two layouts, on which all ranks agree. Collective over the processes of the layouts, or over `comm`.

    Parameters
    ----------
    desc_a, desc_b : object
        Layouts, nine integers or None.
    options : Options
        The options of the plan.
    returns : {RETURNS_PLAN, RETURNS_ARRAY, None}
        What the user's call returns; None on a rank whose call returns what the other ranks ask for.
    error : BaseException, optional
        An error in this rank's arguments that the caller has found, or None.
    held : hold_interrupts, optional
        Of the caller, if it has begun before.
    """
    if held is None:
        with hold_interrupts() as own:
            return agreed_plan(desc_a, desc_b, options, returns, error, own)
    spec = resolve(desc_a, desc_b, options, returns, error)
    if spec.on_paper or spec.idle:
        inside = build(spec, choose(spec.options, None))
        local_plan = _paper_plan(inside) if spec.on_paper else Redistribution(inside)
        return Agreed(local_plan, returns == RETURNS_ARRAY, spec.options.dtype)
    with tracing.phase("plan", desc_a, desc_b):
        group = spec.merged.group if spec.merged else group_of(spec.comm, spec.ranks)
        return _agreed_plan(spec, group, held)


def _paper_plan(plan: Plan) -> Redistribution:
    paper_plan: Redistribution = load_above("study.paper").PaperPlan(plan)
    return paper_plan


# The field `pending` of the vote. If all ranks have planned already, one vote shows that all ask for the same plan and have it.
# LACKS_DATA: this rank lacks a layout, or the dtype of an array that is to be returned.
PLANNED, NOT_PLANNED, LACKS_DATA = range(3)


def _agreed_plan(spec: Spec, group: Group, held: hold_interrupts) -> Agreed:
    """The plan that all ranks ask for, from the cache or new. Collective over the group.

    Interrupts are held back. They come before the vote, which then reports them, and while it is waited for. Afterwards
    all ranks make and keep the same plans.
    """
    own_key = spec.key()
    prepared = group.plans.get(own_key) or Guard().attempt(lambda: _plan_ahead(spec, group), is_open=False)
    pending = LACKS_DATA if spec.lacks_data else NOT_PLANNED if prepared is None else PLANNED

    def lacks_dtype(outcome: Outcome) -> bool:
        return bool(outcome.returns == RETURNS_ARRAY and outcome.pending == LACKS_DATA)

    def has_more(outcome: Outcome) -> bool:
        """Whether ranks have more to send after the vote. A plan that all have is kept, also after an interrupt."""
        key = PlanKey.of(outcome)
        if outcome.pending != PLANNED and key not in group.plans:
            return True
        group.plans.keep(key, group.plans.get(key, prepared))
        return lacks_dtype(outcome)

    with agreement(group, "a plan", then=has_more, deliver=True, held=held, open=False) as common:
        common.count(spec.statements, pending=pending, returns=spec.returns, **own_key._asdict())
        if spec.error is not None:
            raise spec.error
    outcome = common.outcome
    key = PlanKey.of(outcome)
    cached: Redistribution | None = group.plans.get(key)
    agreed = cached or _plan_together(spec, group, outcome.pending == LACKS_DATA)
    dtype = spec.options.dtype if spec.merged is None else agreed.inside.pairs[0].dtype  # two sides have exchanged it
    if lacks_dtype(outcome):
        with agreement(group, "the dtype of an array", learn=True, open=False) as known:
            known.learn(dtype)
        dtype = known.result
    inside = agreed.inside.with_layouts(*spec.descriptors, dtype)
    if inside is not agreed.inside:
        agreed = Redistribution(inside)
    if agreed is not cached:
        group.plans.keep(key, agreed)
    if spec.options.agree != "always":
        agreed = Redistribution(agreed.inside.with_terms())
    return Agreed(agreed, outcome.returns == RETURNS_ARRAY, dtype)


def _plan_ahead(spec: Spec, group: Group) -> Redistribution | None:
    """A plan built before the vote; None if that needs data from other ranks.

    Nothing is sent. An error counts as None: the slow path raises it again, collectively.
    """
    node = group.node
    if spec.error is not None or not spec.knows_both or node is None or not node.whole:
        return None
    start = time.perf_counter()
    chosen = choose(spec.options, node)
    if chosen.exchange is not Shared or not is_by_formula(chosen.schedule):
        return None
    plan = build(spec, chosen, group)
    plan.planning = {"messages": time.perf_counter() - start}
    _log(plan)
    return Redistribution(plan)


def _plan_together(spec: Spec, group: Group, unknown: bool) -> Redistribution:
    """A plan for which ranks exchange layouts and measurements. Collective over the group: all ranks get one, or none."""
    moments = [time.perf_counter()]
    if unknown:
        with agreement(group, "layouts of a plan", combine=first_known_of_each, open=False) as agreed:
            agreed.give(spec.known())
        spec = spec.completed(*agreed.result)
    a, b = spec.layouts
    node = group.make_node()

    def chosen_here() -> Choice:
        summand = summands_of(a, spec.options)[0]
        load = Load() if group.links is None else load_between(op_layout(summand, spec.options.op), b)
        return choose(spec.options, node, group.links, math.prod(b.shape) * b.copies, load)

    steps = None
    moments.append(time.perf_counter())
    if spec.options.schedule != "auto" and not is_by_formula(spec.options.schedule):
        # a search under a time limit need not end alike on two machines
        steps = on_first(group, "the search of a schedule", lambda: search(spec, chosen_here().schedule), open=False)
    moments.append(time.perf_counter())
    with agreement(group, "the parts of a plan", combine=_largest, open=False) as agreed:
        plan = build(spec, chosen_here(), group, steps)
        agreed.give(_extents(plan))
    _take_extents(plan, group, agreed.result)
    asked = spec.options
    if asked.exchange == asked.schedule == "auto" and asked.agree == "always":
        _take_log_steps(plan, group.links)
    if plan.stages[0].exchange.collective:
        group.make_collectives()
    moments.append(time.perf_counter())
    plan.record_planning_times(moments)
    _log(plan)
    return Redistribution(plan)


def _log(plan: Plan) -> None:
    """Log a new plan, and why it has its exchange and its order."""
    if LOGGER.isEnabledFor(logging.DEBUG):
        seconds = sum(plan.planning.values())
        diagnostics.log(LOGGER, logging.DEBUG, "planned in %.6f s: %r (%s)", seconds, plan, plan.reason)


def first_known_of_each(replies: list[tuple[Any, ...]]) -> list[Any]:
    """For each position, the first value of a rank that is not None."""
    return [first_known(list(values)) for values in zip(*replies, strict=True)]


def _take_log_steps(plan: Plan, links: Links | None) -> None:
    """Let messages that "auto" sends in a window travel in log2 P steps where that is faster."""
    stage = plan.stages[0]
    if links is None or plan.may_ask_dtypes or stage.exchange is not Windowed or stage.options.buffers != "packed":
        return
    if len(plan.stages) > 1:
        return
    reason = log_steps_pay(stage.options, links)
    if reason is not None:
        stage.exchange, plan.reason = Bruck, reason


def _extents(plan: Plan) -> list[tuple[int, ...]]:
    """The extents of all stages of this rank's part of a plan."""
    return [tuple(stage.extents) for stage in _all_stages(plan)]


def _largest(of_ranks: list[Any]) -> list[tuple[int, ...]]:
    """The largest extents of all ranks."""
    return [tuple(map(max, zip(*extents, strict=True))) for extents in zip(*of_ranks, strict=True)]


def _take_extents(plan: Plan, group: Group, largest: list[tuple[int, ...]]) -> None:
    """Let the stages of a plan know the largest extents, and the ranks."""
    with_vote = group.voting_ring is None and not plan.may_ask_dtypes and len(plan.stages) == 1
    for stage, numbers in zip(_all_stages(plan), largest, strict=True):
        agreed = Extents(*numbers)
        stage.options = stage.options._replace(extents=agreed, ranks=group.size, radix=group.radix, with_vote=with_vote)


def _all_stages(plan: Plan) -> Sequence[Stage]:
    """The stages of a plan, and that without layouts in between."""
    return plan.stages if plan.direct_stage is None else (*plan.stages, plan.direct_stage)


EXCHANGES = ("auto", "shared", "nonblocking")


def batch(*plans: Redistribution, exchange: str = "auto", memory_limit: int | str = MEMORY_LIMIT) -> Redistribution:
    """Make one plan of several: one vote for all, and one message for all elements that one process sends to another.

    Collective over all processes of the plans: each gives all plans, in the same order. A process that has no part in one of
    them gets it from `redistribute` as the others do, which is not collective there. Arrays may be of different shapes,
    dtypes, layouts, operations and parts (`op`, `uplo`, `fill`), and the plans' sets of processes may differ, also be disjoint.

    Parameters
    ----------
    *plans : Redistribution
        Made by `redistribute` on one communicator, without `via`. Their own schedule, exchange, buffers and memory limit do
        not matter here. A plan may be given more than once.
    exchange : {"auto", "shared", "nonblocking"}
        How the bytes move: through memory shared by the ranks of a node, and by MPI between nodes; or all by MPI.
    memory_limit : int or str
        Most bytes of extra memory per rank, for all plans together; "64MiB" is understood.

    Returns
    -------
    Redistribution
        Call it with a list of arrays, one for each plan.

    Raises
    ------
    DescriptorError, ScheduleError
        An argument is wrong on this rank.
    CollectiveError
        An argument is wrong on another rank, or ranks ask for different things. Every rank raises.
    """
    # interrupts come before the vote, which reports them; afterwards all ranks make the batch
    with hold_interrupts() as held:
        return _make_batch(held, plans, exchange, memory_limit)


def _make_batch(
    held: hold_interrupts, plans: tuple[Redistribution, ...], exchange: str, memory_limit: int | str
) -> Redistribution:
    """Check this rank's arguments, and make the batch."""
    valid = [plan for plan in plans if isinstance(plan, Redistribution)]
    guard = Guard()

    def check() -> int:
        _check(plans, exchange)
        return checked_memory(memory_limit)

    limit, error = guard.attempt(check) or MEMORY_LIMIT, guard.error
    if not valid:
        raise error or ScheduleError("batch() needs at least one plan, made by redistribute")
    comm = valid[0].desc_a.comm
    if comm is None:
        raise DescriptorError(f"plan 0 is {valid[0]!r}, on paper: make its descriptors on a communicator")
    check_alive(comm)
    ranks = tuple(sorted({rank for plan in valid if _is_on(plan, comm) for rank in _ranks(plan)}))
    if comm.Get_rank() not in ranks:
        if error is not None:
            raise error
        idle = Choice("natural", Nonblocking, "no part in any plan")
        return Redistribution(build_batch([plan.inside for plan in plans], idle, limit, 0, None), plans)
    return _agreed_batch(held, plans, group_of(comm, ranks), exchange, limit, error)


def _check(plans: tuple[object, ...], exchange: str) -> None:
    """Check the arguments of a batch as far as one rank can."""
    if not plans:
        raise ScheduleError("batch() needs at least one plan, made by redistribute")
    for k, plan in enumerate(plans):
        if not isinstance(plan, Redistribution):
            listed = "; of a list of plans, batch(*plans, ...)" if isinstance(plan, list | tuple) else ""
            raise ScheduleError(f"plan {k} is {_named(plan)}: it must be a plan made by redistribute{listed}")
        if plan.inside.is_batch:
            raise ScheduleError(f"plan {k} is a batch itself: give its plans, batch(*that_batch.plans, ...)")
        if plan.inside.has_tiles:
            raise ScheduleError(f"plan {k} is of tiles, {plan!r}, which a batch does not take: call it by itself")
        if plan.inside.is_sum:
            raise ScheduleError(f"plan {k} adds summands (reduce=), which a batch does not: call it by itself")
        if plan.inside.has_panels:
            raise ScheduleError(f"plan {k} consumes A (overwrite=True), which a batch does not: call it by itself")
        if len(plan.inside.stages) > 1 or plan.inside.direct_stage is not None:
            raise ScheduleError(
                f"plan {k} goes through layouts on the way (via=), but in a batch every element moves once: plan it without "
                "via, or call it by itself"
            )
        first = plans[0]
        if isinstance(first, Redistribution) and not _is_on(plan, first.desc_a.comm):
            raise DescriptorError(
                f"plan {k} is on another communicator than plan 0: make the descriptors of all plans on one communicator that "
                "holds all their processes"
            )
    if not isinstance(exchange, str) or exchange not in EXCHANGES:
        raise unknown("exchange of a batch", exchange, EXCHANGES)


def _named(plan: object) -> str:
    return f"a {type(plan).__name__}" if plan is not None else "None"


def _is_on(plan: Redistribution, comm: MPI.Intracomm | None) -> bool:
    return same_ranks(plan.desc_a.comm, comm)


def _ranks(plan: Redistribution) -> tuple[int, ...]:
    """The processes of a plan."""
    if plan.inside.group is not None:
        return plan.inside.group.ranks
    return tuple(rank for desc in (plan.desc_a, plan.desc_b) for rank in desc.ranks)


def _agreed_batch(
    held: hold_interrupts,
    plans: tuple[Redistribution, ...],
    group: Group,
    exchange: str,
    memory_limit: int,
    error: BaseException | None,
) -> Redistribution:
    """Agree on the plans of a batch, and make it. Collective over the group. Interrupts are delivered before the vote."""
    pairs_or_none = [plan.inside.pairs[0] if isinstance(plan, Redistribution) else None for plan in plans]
    requests = [
        None if pair is None else (pair.desc_a.layout_digest, pair.desc_b.layout_digest, pair.op, pair.part, pair.fill)
        for pair in pairs_or_none
    ]

    def statements() -> list[Statement]:
        options = f"exchange={exchange!r}, memory_limit={memory_limit!r}"
        listed = [
            Statement("the number of plans", len(plans), str(len(plans))),
            Statement("the options", options, options),
        ]
        for k, (pair, plan) in enumerate(zip(requests, plans, strict=True)):
            listed += [
                Statement(f"plan {k}", pair and pair[:4], repr(plan)),
                Statement(f"the fill of plan {k}", None if pair is None else str(pair[4]), f"fill {pair and pair[4]}"),
            ]
        return listed

    call = digest(("batch", exchange, memory_limit, requests))
    with agreement(group, "batch", confirm=True, deliver=True, held=held, open=False) as agreed:
        agreed.count(statements, call=call)
        if error is not None:
            raise error
    moments = [time.perf_counter()]
    node = group.make_node()
    moments += [time.perf_counter()] * 2  # no schedule is searched for
    pairs = [plan.inside.pairs[0] for plan in plans]
    with agreement(group, "the parts of a batch", combine=_largest, open=False) as agreed:
        elements = sum(math.prod(pair.desc_b.shape) for pair in pairs)
        load = Load()
        if group.links is not None:
            loads = [load_between(op_layout(pair.desc_a, pair.op), pair.desc_b) for pair in pairs]
            load = Load(sum(each.messages for each in loads), max(each.processes for each in loads))
        chosen = choose(Options(schedule="natural", exchange=exchange), node, group.links, elements, load)
        parts, identity = [plan.inside for plan in plans], digest((call, chosen.exchange.name))
        inside = build_batch(parts, chosen, memory_limit, identity, group)
        agreed.give(_extents(inside))
    _take_extents(inside, group, agreed.result)
    moments.append(time.perf_counter())
    inside.record_planning_times(moments)
    _log(inside)
    return Redistribution(inside, plans)
