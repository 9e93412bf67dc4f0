"""batch(): one plan of several, once all ranks have said that they mean the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..agreement import Ballot, Participants, digest, participants
from ..blockcyclic import whole_number
from ..chain import Chain
from ..direct import Redistribution
from ..errors import DescriptorError, RedistributionError, ScheduleError
from ..filled import Filled
from ..grid import same_ranks
from ..model import choose
from ..patience import while_watching
from ..redistribution import MEMORY_LIMIT
from ..schedules.checks import unknown
from .several import Batch

if TYPE_CHECKING:
    from mpi4py import MPI

__all__ = ["batch"]

EXCHANGES = ("auto", "shared", "nonblocking")


def batch(*plans: Redistribution, exchange: str = "auto", memory_limit: int = MEMORY_LIMIT) -> Batch:
    """Make one plan of several: one vote for all, and all that two processes owe each other in one message.

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
    memory_limit : int
        Most bytes of extra memory per rank, for all plans together.

    Returns
    -------
    Batch
        Call it with a list of arrays, one for each plan.

    Raises
    ------
    DescriptorError, ScheduleError
        An argument is wrong on this rank.
    CollectiveError
        An argument is wrong on another rank, or ranks ask for different things. Every rank raises.
    """
    known = [one for one in plans if isinstance(one, Redistribution)]
    error: RedistributionError | None = None
    try:
        _check(plans, exchange)
        memory_limit = whole_number("memory_limit", memory_limit, 1, ": bytes of extra memory per rank")
    except RedistributionError as caught:
        error = caught
    if not known:
        assert error is not None
        raise error
    comm = known[0].desc_a.grid.comm
    assert comm is not None
    ranks = tuple(sorted({rank for one in known if _is_on(one, comm) for rank in _ranks(one)}))
    if comm.Get_rank() not in ranks:
        if error is not None:
            raise error
        return Batch(plans, None, "nonblocking", "no part in any plan", memory_limit, 0)
    everyone = participants(comm, ranks)
    return while_watching(everyone.watch, lambda: _agreed(plans, everyone, exchange, memory_limit, error))


def _check(plans: tuple[object, ...], exchange: str) -> None:
    """What this rank can say alone."""
    if not plans:
        raise ScheduleError("batch() needs at least one plan, made by redistribute")
    for k, one in enumerate(plans):
        if isinstance(one, Batch):
            raise ScheduleError(f"plan {k} is a batch itself: give its plans, batch(*one.plans, ...)")
        if not isinstance(one, Redistribution):
            raise ScheduleError(f"plan {k} is {_named(one)}: it must be a plan made by redistribute")
        legs = one.legs if isinstance(one, Filled) else (one,)
        if any(isinstance(leg, Chain) for leg in legs):
            raise ScheduleError(
                f"plan {k} goes through layouts on the way (via=), but in a batch every element moves once: plan it without "
                "via, or call it by itself"
            )
        first = plans[0]
        if isinstance(first, Redistribution) and not _is_on(one, first.desc_a.grid.comm):
            raise DescriptorError(
                f"plan {k} is on another communicator than plan 0: make the descriptors of all plans on one communicator that "
                "holds all their processes"
            )
    if exchange not in EXCHANGES:
        raise unknown("exchange of a batch", exchange, EXCHANGES)


def _named(one: object) -> str:
    return f"a {type(one).__name__}" if one is not None else "None"


def _is_on(plan: Redistribution, comm: MPI.Intracomm | None) -> bool:
    return same_ranks(plan.desc_a.grid.comm, comm)


def _ranks(plan: Redistribution) -> tuple[int, ...]:
    """The processes of a plan, which a process outside it knows from its layouts."""
    if plan._everyone is not None:
        return plan._everyone.ranks
    return tuple(int(rank) for desc in (plan.desc_a, plan.desc_b) for rank in desc.grid.ranks.flat)


def _agreed(
    plans: tuple[Redistribution, ...],
    everyone: Participants,
    exchange: str,
    memory_limit: int,
    error: RedistributionError | None,
) -> Batch:
    """The batch, once all ranks mean the same. Collective over the participants."""
    options = f"exchange={exchange!r}, memory_limit={memory_limit!r}"
    asked = Ballot(["the number of plans", "the options"])
    everyone.agree(
        asked,
        error,
        [len(plans), digest(options)],
        lambda: [str(len(plans)), options],
    )
    # An outsider of a plan knows its layouts, but not how the rest is filled.
    opinions = [digest((one.desc_a.layout_digest, one.desc_b.layout_digest, one.op, one.part)) for one in plans]
    fills = [None if one._everyone is None else digest(_fill(one)) for one in plans]
    names = [f"plan {k}" for k in range(len(plans))]
    meant = Ballot([*names, *(f"the fill of {name}" for name in names)])
    everyone.agree(
        meant,
        None,
        [*opinions, *fills],
        lambda: [*map(repr, plans), *(f"moves of op {_fill(one)}" for one in plans)],
    )
    node = everyone.make_node()
    everyone.make_collectives()
    chosen = choose("natural", exchange, "packed", node, everyone.links)
    return Batch(plans, everyone, chosen.exchange, chosen.why, memory_limit, digest((asked.answers, meant.answers)))


def _fill(plan: Redistribution) -> tuple[str, ...]:
    """The operations of its moves: none, one or two where it fills the rest of B."""
    return tuple(one.op for one in plan.legs) if isinstance(plan, Filled) else ()
