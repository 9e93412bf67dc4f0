"""redistribute(): a plan that moves an array from one layout to another, made once and run often.

    descriptors -> messages (planning) -> order (scheduling) -> exchange -> the user's arrays

This module only composes: what is owed to whom is worked out in `planning`, the order in `scheduling`, the moving in
`exchanges`, and what all ranks must agree on in `agreement`.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .agreement import Ballot, Participants, participants
from .chain import Chain
from .descriptor import Descriptor
from .direct import Redistribution
from .errors import DescriptorError
from .exchanges import Extents, exchange_class
from .exchanges.shared import Shared
from .filled import Filled, second_move
from .model import Choice, choose
from .orders import ORDERS, Natural
from .patience import while_watching
from .planning import messages_of
from .request import Request, Via
from .scheduling import by_formula, order_for
from .waypoints import waypoints

if TYPE_CHECKING:
    from mpi4py import MPI

__all__ = ["Redistribution", "redistribute"]

MEMORY_LIMIT = 64 * 2**20


def redistribute(
    desc_a: Descriptor | Sequence[int] | NDArray[np.integer] | None,
    desc_b: Descriptor | Sequence[int] | NDArray[np.integer] | None,
    *,
    dtype: DTypeLike | None = None,
    comm: MPI.Intracomm | MPI.Intercomm | None = None,
    op: str = "N",
    uplo: str | None = None,
    diag: str = "N",
    fill: str | None = None,
    schedule: str = "auto",
    exchange: str = "auto",
    buffers: str = "packed",
    via: Via = None,
    memory_limit: int = MEMORY_LIMIT,
) -> Redistribution:
    """Plan the redistribution of an array from layout A to layout B.

    Collective over the processes of the two grids; with `comm`, over all of `comm`. Other ranks may call it too. Plans
    are kept with the communicator: asking again for the same one costs one small reduction, holding it costs nothing.
    The first plan of a set of processes on several nodes measures the links between them, once: one rank of each sends
    some 640 kB to the next, unless PYSCALAPACK_REDIST_LINKS names a file that tells latency and rate.

    Parameters
    ----------
    desc_a, desc_b : Descriptor or nine integers
        Layouts before and after, of the same global shape: a `Descriptor`, or a ScaLAPACK descriptor with a live BLACS
        context. On a rank outside its grid CTXT may be -1, and a rank that does not know a layout passes None; `comm`
        must then be given.
    dtype : dtype, optional
        Of the arrays. Needed only on ranks that are in B but not in A and will leave `out` away; on an inter-communicator
        it is enough that one rank of either side gives it.
    comm : MPI.Intracomm or MPI.Intercomm, optional
        Communicator that holds both grids. By default the one that both grids are on. On an inter-communicator all ranks
        of the side that has the array give `desc_a` alone, all ranks of the other side `desc_b` alone, and the options
        are the same on both; the layouts and the dtype are told to the other side.
    op : {"N", "T", "C"}
        What B gets: A, its transpose, or its conjugate transpose (matrices; B then has A's columns as rows).
    uplo : {None, "U", "L"}
        Move only the upper or the lower trapezoid of A (of the sub-array, where it is one), as pxtrmr2d does: i <= j for
        "U", but i <= j + m - n in a tall matrix of m x n; i >= j for "L", but i >= j - (n - m) in a wide one. With "T"
        and "C" it is the other triangle of B that is written. The rest of `out` is not touched; that of a new array is 0.
    diag : {"N", "U"}
        "U": the last diagonal of the trapezoid stays out too. Only with `uplo`.
    fill : {None, "zero", "symmetric", "hermitian"}
        Write the rest of B too: B = alpha * op(S) + beta * B, where S is A's trapezoid and 0 elsewhere, or, of a square
        matrix, its transpose or conjugate transpose elsewhere (then with `diag="U"` the diagonal of B is left as it is).
        The mirror image is a second move of the same elements. The diagonal is taken as it is.
    schedule : str
        Order of the messages: "auto" or a name in `schedules.NAMES`. "walker-otto" and "classes" have conditions;
        "stepwise", "greedy" and "optimal" are searched for by one rank when the plan is made.
    exchange : str
        How they move: "auto", "shared" (through memory shared by the ranks of a node, by MPI between nodes),
        "nonblocking", "windowed", "synchronized", "ready", "sendrecv", or "alltoallv" and "alltoallw", which leave the
        order to MPI.
    buffers : {"packed", "datatypes"}
        What MPI is given: bytes that are packed and unpacked here, or the arrays themselves, described by derived
        datatypes, with no staging memory of ours (all exchanges but alltoallv).
    via : {None, "dimensions", "lcm"} or list of Descriptor
        None: every element moves once. "dimensions": one dimension after another. "lcm": blocks grow to the least common
        multiple of both sizes, then shrink. Descriptors: through these layouts. The local arrays of layouts in between
        are made in each call, beside what `memory_limit` counts.
    memory_limit : int
        Most bytes of extra memory per rank.

    Returns
    -------
    Redistribution
        Call it with the local array of A to get that of B.

    Raises
    ------
    DescriptorError, ArrayError, ScheduleError
        An argument is wrong on this rank.
    CollectiveError
        An argument is wrong on another rank, or ranks ask for different things. Every rank raises.
    """
    request = Request(desc_a, desc_b, dtype, comm, schedule, exchange, buffers, via, memory_limit, op, uplo, diag, fill)
    if request.idle:
        return _idle_plan(request)
    everyone = participants(request.comm, request.ranks)
    return while_watching(everyone.watch, lambda: _agreed_plan(request, everyone))


def _agreed_plan(request: Request, everyone: Participants) -> Redistribution:
    """The plan that all ask for, an old one or a new one. Collective over the participants."""
    ahead = _plan_ahead(request, everyone)
    note = LAYOUT_UNKNOWN if None in request.descriptors else NOT_PLANNED if ahead is None else PLANNED
    everyone.agree(request.ballot, request.error, request.opinions, lambda: request.words, note)
    key = request.ballot.answers
    plan: Redistribution | None = everyone.plans.get(key)
    if plan is None and request.ballot.note == PLANNED:
        plan = ahead
    elif plan is None:
        start = time.perf_counter()
        a, b = request.descriptors
        if request.ballot.note == LAYOUT_UNKNOWN:
            a, b = (Descriptor._spread(mine, everyone, request.comm) for mine in request.descriptors)
        assert a is not None
        assert b is not None
        plan = _new_plan(a, b, request, everyone)
        if request.via is not None:
            plan = _chain(plan, a, b, request, everyone)
        if request.fill is not None:
            plan = _fill(plan, a, b, request, everyone)
        plan._planned = time.perf_counter() - start
    assert plan is not None
    plan = plan._with(*request.descriptors, request.agreed_dtype(everyone))
    everyone.remember(key, plan)
    return plan


# What a rank notes on its ballot. Where all have planned by themselves, one vote tells both that all ask for the same plan
# and that all have it.
PLANNED, NOT_PLANNED, LAYOUT_UNKNOWN = range(3)


def _plan_ahead(request: Request, everyone: Participants) -> Redistribution | None:
    """A plan made before all are known to ask for it; None where ranks need to hear of each other. Not collective.

    Nothing is sent, and what is wrong is left to be found again when all have voted.
    """
    a, b = request.descriptors
    node = everyone.node
    if request.error is not None or a is None or b is None or request.joint is not None:
        return None
    kept: Redistribution | None = everyone.plans.get(tuple(request.opinions))
    if kept is not None or request.via is not None or request.fill is not None or node is None or not node.whole:
        return kept
    start = time.perf_counter()
    with contextlib.suppress(Exception):
        chosen = choose(request.schedule, request.exchange, request.buffers, node)
        if chosen.exchange == Shared.name and by_formula(chosen.schedule):
            plan = _planned(a, b, request, everyone, chosen)
            plan._planned = time.perf_counter() - start
            return plan
    return None


def _idle_plan(request: Request) -> Redistribution:
    """The plan of a rank outside both grids."""
    if request.error is not None:
        raise request.error
    a, b = request.descriptors
    assert a is not None
    assert b is not None
    chosen = choose(request.schedule, request.exchange, request.buffers, None)
    nothing = exchange_class(chosen.exchange)([], [], [], request.memory_limit, request.buffers)
    order = ORDERS.get(chosen.schedule, Natural)((), ())
    return Redistribution(a, b, request.dtype, None, order, nothing, chosen.why, request.op, request.part)


def _new_plan(a: Descriptor, b: Descriptor, request: Request, everyone: Participants) -> Redistribution:
    """Work out this rank's messages. Collective over the participants: all make the plan, or none."""
    plan, error = None, None
    everyone.make_node()
    ballot = Ballot([], extras=len(Extents._fields))
    try:
        chosen = choose(
            request.schedule,
            request.exchange,
            request.buffers,
            everyone.node,
            everyone.links,
            math.prod(b.shape),
            request.moved(a).placement.shape,
            b.placement.shape,
        )
        plan = _planned(a, b, request, everyone, chosen)
        ballot.mine[-len(Extents._fields) :] = plan._exchange.extents
    except Exception as caught:
        error = caught
    everyone.agree(ballot, error, [], list)
    assert plan is not None
    plan._exchange.settle(Extents(*ballot.all[-len(Extents._fields) :].tolist()))
    if plan._exchange.collective:
        everyone.make_collectives()
    return plan


def _planned(a: Descriptor, b: Descriptor, request: Request, everyone: Participants, chosen: Choice) -> Redistribution:
    """This rank's part of a plan. Collective over the participants where the schedule is searched for."""
    moved = request.moved(a)
    if moved.shape != b.shape:
        raise DescriptorError(
            f"desc_a has shape {a.shape} and desc_b {b.shape}: a redistribution keeps the global shape"
            + ("" if request.op == "N" else f"; op = {request.op!r} exchanges rows and columns")
        )
    steps = order_for(chosen.schedule, moved, b, everyone)
    me = request.comm.Get_rank()
    part = None if request.part is None else request.part.moved(request.op).edge(b.shape)
    messages = messages_of(moved, b, me, everyone.number, steps, part)
    moving = exchange_class(chosen.exchange)(*messages, request.memory_limit, request.buffers, everyone.node)
    moving.tune(chosen.piece, chosen.window)
    return Redistribution(a, b, request.dtype, everyone, steps, moving, chosen.why, request.op, request.part)


def _chain(
    direct: Redistribution, a: Descriptor, b: Descriptor, request: Request, everyone: Participants
) -> Redistribution:
    """The plans of the legs. Collective over the participants: all make the chain, or none."""
    legs: list[Redistribution] = []
    error = None
    part = request.part
    try:
        assert request.via is not None
        stops = [a, *waypoints(request.moved(a), b, request.via), b]
        for start, end in itertools.pairwise(stops):
            legs.append(
                redistribute(
                    start,
                    end,
                    schedule=request.schedule,
                    exchange=request.exchange,
                    buffers=request.buffers,
                    memory_limit=request.memory_limit,
                    op=request.op if not legs else "N",
                    uplo=part.uplo if part is not None else None,
                    diag=part.diag if part is not None else "N",
                )
            )
            if part is not None and len(legs) == 1:
                part = part.moved(request.op)
    except Exception as caught:
        error = caught
    everyone.agree(Ballot([]), error, [], list)
    return Chain(direct, legs, everyone)


def _fill(
    first: Redistribution, a: Descriptor, b: Descriptor, request: Request, everyone: Participants
) -> Redistribution:
    """The plan of a trapezoid and of the rest of B. Collective over the participants: all make it, or none."""
    assert request.fill is not None
    assert request.part is not None
    second = second_move(request.fill, request.op, request.part)
    if second is None:
        return Filled([first], everyone)
    op, part = second
    mirrored = redistribute(
        a,
        b,
        op=op,
        uplo=part.uplo,
        diag=part.diag,
        schedule=request.schedule,
        exchange=request.exchange,
        buffers=request.buffers,
        via=request.via,
        memory_limit=request.memory_limit,
    )
    return Filled([first, mirrored], everyone)
