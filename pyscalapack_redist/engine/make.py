"""Plans of two layouts, on which ranks agree.

    resolve (spec) -> group -> agree (comm.agreement) -> build -> combine (comm.agreement) -> keep

This module only composes. On one node, where a rank needs nothing from the others, the plan is built before the vote. One vote
then shows that all ranks ask for the same plan and have it. A batch goes the same way (engine/batch.py).
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from .. import diagnostics, tracing
from ..comm.agreement import agreement, on_first
from ..comm.group import Group, first_known
from ..comm.groups import group_of
from ..comm.guard import Guard
from ..comm.links import Links
from ..comm.node import Node
from ..comm.progress import hold_interrupts
from ..comm.vote import Outcome
from ..exchanges import Exchange, Extents
from ..exchanges.collective import Bruck
from ..exchanges.node_packed import NodePacked
from ..exchanges.pipeline import Windowed
from ..exchanges.shared import Shared
from ..layout.tiles import Layout
from ..schedules.layout_orders import Load, is_by_formula, load_between
from .build import build, search
from .choose import Choice, choose, log_steps_pay, packing_pays
from .operation import op_layout
from .options import Options
from .plan import Plan
from .spec import RETURNS_ARRAY, PlanKey, Spec, resolve
from .stages import Stage
from .sums import summands_of

LOGGER = logging.getLogger(__name__)
PLANNING = ("processes", "schedule", "messages")  # the parts of planning
ORDERS = (None, "C", "F")  # by their numbers in votes, of which the largest counts: BY_ROWS and BY_COLUMNS


@dataclass
class PlanEntry:
    """A plan that a group keeps, and what users were given of it for arrays of this rank.

    Attributes
    ----------
    plan : Plan
        The plan, equal on all ranks but for this rank's messages.
    for_users : dict
        By what may differ between ranks and requests: how the local arrays are stored, their dtype, and the order of new ones.
    """

    plan: Plan
    for_users: dict[Hashable, Any] = field(default_factory=dict)


class Agreed(NamedTuple):
    """What all ranks ask for.

    Attributes
    ----------
    entry : PlanEntry
        The plan.
    layouts : pair of Layout or None
        The layouts of the request, with this rank's leading dimensions and offsets; None for one that it does not know.
    dtype : dtype or None
        The dtype of the array, if this rank knows it.
    gives_array : bool
        Whether they ask for the redistributed array.
    order : {None, "C", "F"}
        That of the elements of A in memory, if a rank knows it; "F" where they differ.
    """

    entry: PlanEntry
    layouts: tuple[Layout | None, Layout | None]
    dtype: np.dtype[Any] | None
    gives_array: bool
    order: str | None = None


def agreed_plan(
    desc_a: object,
    desc_b: object,
    options: Options,
    returns: int | None,
    error: BaseException | None = None,
    held: hold_interrupts | None = None,
    order: str | None = None,
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
    order : {None, "C", "F"}
        That of the elements of A on this rank, if it knows them, and they are in one.
    """
    if held is None:
        with hold_interrupts() as own:
            return agreed_plan(desc_a, desc_b, options, returns, error, own, order)
    spec = resolve(desc_a, desc_b, options, returns, error)
    if spec.on_paper or spec.idle:
        alone = build(spec, choose(spec.options, None))
        return Agreed(PlanEntry(alone), spec.descriptors, spec.options.dtype, returns == RETURNS_ARRAY)
    with tracing.phase("plan", desc_a, desc_b):
        group = spec.merged.group if spec.merged else group_of(spec.comm, spec.ranks)
        return _agreed_plan(spec, group, held, order)


# The field `pending` of the vote. If all ranks have planned already, one vote shows that all ask for the same plan and have it.
# LACKS_DATA: this rank lacks a layout, or the dtype of an array that is to be returned.
PLANNED, NOT_PLANNED, LACKS_DATA = range(3)


def _agreed_plan(spec: Spec, group: Group, held: hold_interrupts, order: str | None) -> Agreed:
    """The plan that all ranks ask for, from the cache or new. Collective over the group.

    Interrupts are held back. They come before the vote, which then reports them, and while it is waited for. Afterwards
    all ranks make and keep the same plans.
    """
    own_key = spec.key()
    prepared: PlanEntry | None = group.plans.get(own_key) or Guard().attempt(
        lambda: _plan_ahead(spec, group), is_open=False
    )
    pending = LACKS_DATA if spec.lacks_data else NOT_PLANNED if prepared is None else PLANNED
    entry: PlanEntry | None = None

    def lacks_dtype(outcome: Outcome) -> bool:
        return bool(outcome.returns == RETURNS_ARRAY and outcome.pending == LACKS_DATA)

    def has_more(outcome: Outcome) -> bool:
        """Whether ranks have more to send after the vote. A plan that all have is kept, also after an interrupt."""
        nonlocal entry
        key = PlanKey.of(outcome)
        entry = group.plans.get(key, prepared if outcome.pending == PLANNED else None)
        if entry is None:
            return True
        group.plans.keep(key, entry)
        return lacks_dtype(outcome)

    with agreement(group, "a plan", then=has_more, deliver=True, held=held, open=False) as common:
        common.count(
            spec.statements, pending=pending, returns=spec.returns, order=ORDERS.index(order), **own_key._asdict()
        )
        if spec.error is not None:
            raise spec.error
    outcome = common.outcome
    if entry is None:
        entry = PlanEntry(_plan_together(spec, group, outcome.pending == LACKS_DATA))
        group.plans.keep(PlanKey.of(outcome), entry)
    dtype = spec.options.dtype if spec.merged is None else entry.plan.pairs[0].dtype  # two sides have exchanged it
    if lacks_dtype(outcome):
        with agreement(group, "the dtype of an array", learn=True, open=False) as known:
            known.learn(dtype)
        dtype = known.result
    return Agreed(entry, spec.descriptors, dtype, outcome.returns == RETURNS_ARRAY, ORDERS[outcome.order])


def _plan_ahead(spec: Spec, group: Group) -> PlanEntry | None:
    """A plan built before the vote; None if that needs data from other ranks.

    Nothing is sent. An error counts as None: the slow path raises it again, collectively.
    """
    node = group.node
    if spec.error is not None or not spec.knows_both or node is None or not node.whole:
        return None
    chosen = choose(spec.options, node)
    if chosen.exchange is not Shared or not is_by_formula(chosen.schedule):
        return None
    plan = build(spec, chosen, group)
    log_plan(plan)
    return PlanEntry(plan)


def _plan_together(spec: Spec, group: Group, unknown: bool) -> Plan:
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

    steps, guard = None, Guard()
    choice = guard.attempt(chosen_here, is_open=False)
    moments.append(time.perf_counter())
    if choice is not None and not is_by_formula(choice.schedule):
        # a search under a time limit need not end alike on two ranks; one without a choice fails this vote by the next one
        schedule = choice.schedule
        steps = on_first(group, "the search of a schedule", lambda: search(spec, schedule), open=False)
    moments.append(time.perf_counter())
    with agreement(group, "the parts of a plan", combine=largest, open=False) as agreed:
        if choice is None:
            raise guard.error or RuntimeError("internal error: no choice of a schedule; please report it")
        plan = build(spec, choice, group, steps)
        agreed.give(extents_of(plan))
    plan = with_extents(plan, group, agreed.result)
    asked = spec.options
    if asked.exchange == asked.schedule == "auto" and asked.agree == "always":
        plan = _with_fewer_messages(plan, group.links, node)
    if plan.stages[0].exchange.collective:
        group.make_collectives()
    moments.append(time.perf_counter())
    plan = with_times(plan, moments)
    log_plan(plan)
    return plan


def log_plan(plan: Plan) -> None:
    """Log a new plan, and why it has its exchange and its order."""
    if LOGGER.isEnabledFor(logging.DEBUG):
        seconds = sum(plan.planning.values())
        diagnostics.log(LOGGER, logging.DEBUG, "planned in %.6f s: %r (%s)", seconds, plan, plan.reason)


def first_known_of_each(replies: list[tuple[Any, ...]]) -> list[Any]:
    """For each position, the first value of a rank that is not None."""
    return [first_known(list(values)) for values in zip(*replies, strict=True)]


def _with_fewer_messages(plan: Plan, links: Links | None, node: Node) -> Plan:
    """Let messages that "auto" sends in a window travel in log2 P steps, or with those of the node, where that is faster."""
    stage = plan.stages[0]
    if links is None or plan.may_ask_dtypes or len(plan.stages) > 1 or stage.options.buffers != "packed":
        return plan
    exchange: type[Exchange] = Bruck if stage.exchange is Windowed else NodePacked
    reason = log_steps_pay(stage.options, links) if exchange is Bruck else packing_pays(stage.options, node)
    return plan if reason is None else replace(plan, stages=(stage.with_options(stage.options, exchange),), reason=reason)


def extents_of(plan: Plan) -> list[tuple[int, ...]]:
    """The extents of all stages of this rank's part of a plan, at last that without layouts in between."""
    stages = plan.stages if plan.direct_stage is None else (*plan.stages, plan.direct_stage)
    return [tuple(stage.extents) for stage in stages]


def largest(of_ranks: list[Any]) -> list[tuple[int, ...]]:
    """The largest extents of all ranks."""
    return [tuple(map(max, zip(*extents, strict=True))) for extents in zip(*of_ranks, strict=True)]


def with_extents(plan: Plan, group: Group, extents: Sequence[tuple[int, ...]]) -> Plan:
    """A plan whose stages know the largest extents, and the ranks."""
    with_vote = len(group.voters) == group.size > 1 and not plan.may_ask_dtypes and len(plan.stages) == 1

    def known(stage: Stage, numbers: tuple[int, ...]) -> Stage:
        options = stage.options._replace(
            extents=Extents(*numbers), ranks=group.size, radix=group.radix, with_vote=with_vote
        )
        return stage.with_options(options)

    stages = tuple([known(stage, numbers) for stage, numbers in zip(plan.stages, extents, strict=False)])
    direct = None if plan.direct_stage is None else known(plan.direct_stage, extents[-1])
    return replace(plan, stages=stages, direct_stage=direct)


def with_times(plan: Plan, moments: Sequence[float]) -> Plan:
    """A plan with the seconds of each part of its planning, from their start times and the end of the last."""
    seconds = [end - begin for begin, end in pairwise(moments)]
    return replace(plan, planning=dict(zip(PLANNING, seconds, strict=True)))
