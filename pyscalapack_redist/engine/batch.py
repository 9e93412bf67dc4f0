"""batch(): one plan of several, once all ranks have said that they mean the same."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from ..comm.group import Group
from ..comm.groups import check_alive, group_of
from ..comm.mpi import MPI
from ..comm.progress import interrupts_held
from ..comm.vote import Ballot, Statement, digest
from ..errors import DescriptorError, RedistributionError, ScheduleError, unknown
from ..exchanges import Options, exchange_class
from ..exchanges.exchange import MEMORY_LIMIT
from ..layout.grid import same_ranks
from .layouts import moved
from .memory import checked_memory
from .model import Choice, choose
from .plan import Plan
from .planner import Messages
from .redistribute import made_by_all
from .redistribution import Redistribution
from .scheduling import Load, load_between
from .stages import Stage

__all__ = ["batch"]

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
    # interrupts come before the vote, which tells the others; from it on all ranks make the batch
    with interrupts_held() as held:
        return _checked(plans, exchange, memory_limit, held.let_through)


def _checked(
    plans: tuple[Redistribution, ...], exchange: str, memory_limit: int | str, let_through: Callable[[], None]
) -> Redistribution:
    """The batch, once this rank has seen what it can alone."""
    known = [plan for plan in plans if isinstance(plan, Redistribution)]
    error: RedistributionError | None = None
    limit = MEMORY_LIMIT
    try:
        _check(plans, exchange)
        limit = checked_memory(memory_limit)
    except RedistributionError as caught:
        error = caught
    if not known:
        raise error or ScheduleError("batch() needs at least one plan, made by redistribute")
    comm = known[0].desc_a.comm
    if comm is None:
        raise DescriptorError(f"plan 0 is {known[0]!r}, on paper: make its descriptors on a communicator")
    check_alive(comm)
    ranks = tuple(sorted({rank for plan in known if _is_on(plan, comm) for rank in _ranks(plan)}))
    if comm.Get_rank() not in ranks:
        if error is not None:
            raise error
        return Redistribution(
            _batch(plans, None, Choice("natural", "nonblocking", "no part in any plan"), limit), plans
        )
    return _agreed(plans, group_of(comm, ranks), exchange, limit, error, let_through)


def _check(plans: tuple[object, ...], exchange: str) -> None:
    """What this rank can say alone."""
    if not plans:
        raise ScheduleError("batch() needs at least one plan, made by redistribute")
    for k, plan in enumerate(plans):
        if not isinstance(plan, Redistribution):
            listed = "; of a list of plans, batch(*plans, ...)" if isinstance(plan, list | tuple) else ""
            raise ScheduleError(f"plan {k} is {_named(plan)}: it must be a plan made by redistribute{listed}")
        if plan.inside.listed:
            raise ScheduleError(f"plan {k} is a batch itself: give its plans, batch(*that_batch.plans, ...)")
        if plan.inside.tiled:
            raise ScheduleError(f"plan {k} is of tiles, {plan!r}, which a batch does not take: call it by itself")
        if len(plan.inside.stages) > 1 or plan.inside.direct is not None:
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
    """The processes of a plan, which a process outside it knows from its layouts."""
    if plan.inside.group is not None:
        return plan.inside.group.ranks
    return tuple(rank for desc in (plan.desc_a, plan.desc_b) for rank in desc.ranks)


def _agreed(
    plans: tuple[Redistribution, ...],
    group: Group,
    exchange: str,
    memory_limit: int,
    error: BaseException | None,
    let_through: Callable[[], None],
) -> Redistribution:
    """The batch, once all ranks mean the same. Collective over the group; interrupts are let through before that."""
    meant = [plan.inside.pairs[0] if isinstance(plan, Redistribution) else None for plan in plans]
    known = [
        None if pair is None else (pair.desc_a.layout_digest, pair.desc_b.layout_digest, pair.op, pair.part, pair.fill)
        for pair in meant
    ]

    def statements() -> list[Statement]:
        options = f"exchange={exchange!r}, memory_limit={memory_limit!r}"
        said = [
            Statement("the number of plans", len(plans), str(len(plans))),
            Statement("the options", options, options),
        ]
        for k, (pair, plan) in enumerate(zip(known, plans, strict=True)):
            said += [
                Statement(f"plan {k}", pair and pair[:4], repr(plan)),
                Statement(f"the fill of plan {k}", None if pair is None else str(pair[4]), f"fill {pair and pair[4]}"),
            ]
        return said

    call = digest(("batch", exchange, memory_limit, known))
    try:
        let_through()
    except BaseException as caught:
        error = error or caught
    ballot = Ballot(failed=group.failed(error), call=call)
    group.agree(ballot, error, statements, lambda outcome: True, let_through)
    moments = [time.perf_counter()]
    node = group.make_node()
    moments += [time.perf_counter()] * 2  # no schedule is searched for
    pairs = [plan.inside.pairs[0] for plan in plans]
    elements = sum(math.prod(pair.desc_b.shape) for pair in pairs)
    load = Load()
    if group.links is not None:
        loads = [load_between(moved(pair.desc_a, pair.op), pair.desc_b) for pair in pairs]
        load = Load(sum(each.messages for each in loads), max(each.processes for each in loads))
    chosen = choose("natural", exchange, "packed", node, group.links, elements, load)
    made = made_by_all(group, lambda: _batch(plans, group, chosen, memory_limit))
    moments.append(time.perf_counter())
    made.planned_at(moments)
    made.identity = digest((call, chosen.exchange))
    return Redistribution(made, plans)


def _batch(plans: tuple[Redistribution, ...], group: Group | None, chosen: Choice, memory_limit: int) -> Plan:
    """The plan of all moves of all plans. Not collective."""
    moves = []
    for k, plan in enumerate(plans):
        for move in plan.inside.moves:
            sends, receives, copies = move.messages
            if group is not None and plan.inside.group is not None:
                there = [group.number[rank] for rank in plan.inside.group.ranks]
                sends, receives = ([m._replace(peer=there[m.peer]) for m in some] for some in (sends, receives))
            messages = Messages(sends, receives, copies)
            moves.append(move._replace(pair=k, source=2 * k, target=2 * k + 1, messages=messages))
    options = Options(memory_limit, cutting=chosen.cutting)
    stage = Stage(moves, exchange_class(chosen.exchange), options, group, by_distance=True)
    pairs, identity = [plan.inside.pairs[0] for plan in plans], digest(("batch", memory_limit))
    return Plan(group, pairs, [stage], {}, chosen.why, identity, [plan.inside for plan in plans])
