"""Batches: one plan of several, with one vote for all, and one message for all elements that go between two processes."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

from ..comm.agreement import agreement
from ..comm.group import Group
from ..comm.groups import check_alive, group_of
from ..comm.guard import Guard
from ..comm.mpi import MPI
from ..comm.progress import hold_interrupts
from ..comm.vote import Statement, digest
from ..errors import DescriptorError, ScheduleError, unknown
from ..exchanges.exchange import MEMORY_LIMIT
from ..exchanges.pipeline import Nonblocking
from ..layout.grid import same_ranks
from ..schedules.layout_orders import Load, load_between
from .build import build_batch
from .choose import Choice, choose
from .make import extents_of, largest, log_plan, with_extents, with_times
from .operation import op_layout
from .options import Options, checked_memory
from .plan import Plan

EXCHANGES = ("auto", "shared", "node-packed", "nonblocking")


def agreed_batch(plans: Sequence[Any], exchange: str, memory_limit: int | str, held: hold_interrupts) -> Plan:
    """One plan of several, on which all ranks agree. Collective over all processes of the plans.

    Parameters
    ----------
    plans : sequence of Plan
        What the user gave: what is no plan is an error on all ranks.
    exchange, memory_limit : str, int or str
        As for `batch`.
    held : hold_interrupts
        Of the caller.
    """
    valid = [plan for plan in plans if isinstance(plan, Plan)]
    guard = Guard()

    def check() -> int:
        _check(plans, exchange)
        return checked_memory(memory_limit)

    limit, error = guard.attempt(check) or MEMORY_LIMIT, guard.error
    if not valid:
        raise error or ScheduleError("batch() needs at least one plan, made by redistribute")
    comm = _comm_of(valid[0])
    if comm is None:
        raise DescriptorError(f"plan 0 is {valid[0]!r}, on paper: make its descriptors on a communicator")
    check_alive(comm)
    ranks = tuple(sorted({rank for plan in valid if _is_on(plan, comm) for rank in _ranks(plan)}))
    if comm.Get_rank() not in ranks:
        if error is not None:
            raise error
        idle = Choice("natural", Nonblocking, "no part in any plan")
        return build_batch(plans, idle, limit, 0, None)
    return _agreed_batch(held, plans, group_of(comm, ranks), exchange, limit, error)


def _comm_of(plan: Plan) -> MPI.Intracomm | None:
    return plan.pairs[0].desc_a.comm


def _check(plans: Sequence[object], exchange: str) -> None:
    """Check the arguments of a batch as far as one rank can."""
    if not plans:
        raise ScheduleError("batch() needs at least one plan, made by redistribute")
    for k, plan in enumerate(plans):
        if not isinstance(plan, Plan):
            listed = "; of a list of plans, batch(*plans, ...)" if isinstance(plan, list | tuple) else ""
            raise ScheduleError(f"plan {k} is {_named(plan)}: it must be a plan made by redistribute{listed}")
        if plan.is_batch:
            raise ScheduleError(f"plan {k} is a batch itself: give its plans, batch(*that_batch.plans, ...)")
        if plan.has_tiles:
            raise ScheduleError(f"plan {k} is of tiles, {plan!r}, which a batch does not take: call it by itself")
        if plan.is_sum:
            raise ScheduleError(f"plan {k} adds summands (reduce=), which a batch does not: call it by itself")
        if plan.has_panels:
            raise ScheduleError(f"plan {k} consumes A (overwrite=True), which a batch does not: call it by itself")
        if len(plan.stages) > 1 or plan.direct_stage is not None:
            raise ScheduleError(
                f"plan {k} goes through layouts on the way (via=), but in a batch every element moves once: plan it without "
                "via, or call it by itself"
            )
        first = plans[0]
        if isinstance(first, Plan) and not _is_on(plan, _comm_of(first)):
            raise DescriptorError(
                f"plan {k} is on another communicator than plan 0: make the descriptors of all plans on one communicator that "
                "holds all their processes"
            )
    if not isinstance(exchange, str) or exchange not in EXCHANGES:
        raise unknown("exchange of a batch", exchange, EXCHANGES)


def _named(plan: object) -> str:
    return f"a {type(plan).__name__}" if plan is not None else "None"


def _is_on(plan: Plan, comm: MPI.Intracomm | None) -> bool:
    return same_ranks(_comm_of(plan), comm)


def _ranks(plan: Plan) -> tuple[int, ...]:
    """The processes of a plan."""
    if plan.group is not None:
        return plan.group.ranks
    return tuple(rank for desc in plan.pairs[0][:2] for rank in desc.ranks)


def _agreed_batch(
    held: hold_interrupts,
    plans: Sequence[Any],
    group: Group,
    exchange: str,
    memory_limit: int,
    error: BaseException | None,
) -> Plan:
    """Agree on the plans of a batch, and make it. Collective over the group. Interrupts are delivered before the vote."""
    pairs_or_none = [plan.pairs[0] if isinstance(plan, Plan) else None for plan in plans]
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
    pairs = [plan.pairs[0] for plan in plans]
    with agreement(group, "the parts of a batch", combine=largest, open=False) as agreed:
        elements = sum(math.prod(pair.desc_b.shape) for pair in pairs)
        load = Load()
        if group.links is not None:
            loads = [load_between(op_layout(pair.desc_a, pair.op), pair.desc_b) for pair in pairs]
            load = Load(sum(each.messages for each in loads), max(each.processes for each in loads))
        chosen = choose(Options(schedule="natural", exchange=exchange), node, group.links, elements, load)
        batch = build_batch(plans, chosen, memory_limit, digest((call, chosen.exchange.name)), group)
        agreed.give(extents_of(batch))
    batch = with_extents(batch, group, agreed.result)
    moments.append(time.perf_counter())
    batch = with_times(batch, moments)
    log_plan(batch)
    return batch
