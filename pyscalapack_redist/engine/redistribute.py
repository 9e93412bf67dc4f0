"""redistribute(): a plan that moves an array from one layout to another, made once and run often.

    descriptors -> messages (planning) -> order (scheduling) -> stages of moves (engine) -> the user's arrays

This module only composes: what is owed to whom is worked out in `planner`, the order in `scheduling`, the moving in
`exchanges` and `engine`, and what all ranks must agree on in `comm.group`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .. import tracing
from ..comm.group import Group
from ..comm.groups import group_of
from ..comm.links import Links
from ..comm.mpi import MPI
from ..comm.progress import interrupts_held
from ..comm.vote import Outcome, error_in_words
from ..errors import CollectiveError
from ..exchanges import Extents, Options, exchange_class
from ..exchanges.collective import Bruck
from ..exchanges.exchange import MEMORY_LIMIT
from ..exchanges.pipeline import Windowed
from ..exchanges.shared import Shared
from ..layout.descriptor import Descriptor
from ..layout.distributed import Distributed, descriptor_of
from ..layout.tiles import Tiles
from ..schedules.orders import ORDERS, Natural, Order
from .arguments import Asked, Request, Via, request_for
from .layouts import Layout, process_shapes, spread
from .legs import PendingMove, identity, pending_moves
from .model import Choice, choose, log_steps_pay
from .paper import plan_on_paper
from .plan import Plan
from .planner import Messages, messages_of
from .redistribution import Redistribution
from .scheduling import Load, Steps, by_formula, load_between, order_for, searched
from .stages import Move, Pair, Stage
from .tile_messages import messages_of_tiles

__all__ = ["Redistribution", "redistribute"]


def redistribute(
    desc_a: Descriptor | Tiles | Distributed | Sequence[int] | NDArray[np.integer] | None,
    desc_b: Descriptor | Tiles | Distributed | Sequence[int] | NDArray[np.integer] | None,
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
    memory_limit: int | str = MEMORY_LIMIT,
) -> Redistribution:
    """Plan the redistribution of an array from layout A to layout B.

    Collective over the processes of the two grids, and of those of a list `via`; with `comm`, over all of `comm`, which
    is the only way that ranks which name different processes by mistake hear of it. Other ranks may call it too. On two
    grids without a communicator the plan is one to study, for any number of processes: see `PaperPlan`. Plans
    are kept with the communicator: asking again for the same one costs one small reduction, holding it costs nothing.
    The first plan of a set of processes on several nodes measures the links between them, once: one rank of each sends
    some 640 kB to the next, unless PYSCALAPACK_REDIST_LINKS names a file with latency and bandwidth.

    Parameters
    ----------
    desc_a, desc_b : Descriptor, Tiles, DistributedArray or nine integers
        Layouts before and after, of the same global shape: a `Descriptor` or `Tiles`, that of a `DistributedArray`, or a
        ScaLAPACK descriptor with a live BLACS context. On a rank outside its grid CTXT may be -1, and a rank that does not
        know a layout passes None; `comm` must then be given.
    dtype : dtype, optional
        Of the arrays. Needed only on ranks that are in B but not in A and will pass no `out`; on an inter-communicator
        it is enough that one rank of either side gives it.
    comm : MPI.Intracomm or MPI.Intercomm, optional
        Communicator that holds both grids. By default the one that both grids are on. On an inter-communicator all ranks
        of the side that has the array give `desc_a` alone, all ranks of the other side `desc_b` alone, and the options
        are the same on both; the layouts and the dtype are sent to the other side.
    op : {"N", "T", "C", "R"}
        What B gets: A, its transpose, its conjugate transpose (of matrices; B then has A's columns as rows), or its
        conjugate. Like `uplo` and `diag`, in either case.
    uplo : {None, "U", "L"}
        Move only the upper or the lower trapezoid of A (of the sub-array, where it is one), as pxtrmr2d does: i <= j for
        "U", but i <= j + m - n in a tall matrix of m x n; i >= j for "L", but i >= j - (n - m) in a wide one. With "T"
        and "C" it is the other triangle of B that is written. The rest of `out` is not touched; that of a new array is 0.
    diag : {"N", "U"}
        "U": the last diagonal of the trapezoid stays out too. Only with `uplo`.
    fill : {None, "zero", "symmetric", "hermitian"}
        Write the rest of B too: B = alpha * op(S) + beta * B, where S is A's trapezoid and 0 elsewhere, or, of a square
        matrix, its transpose or conjugate transpose elsewhere (then with `diag="U"` the diagonal of B is left as it is).
        The mirror image is a second move of the same elements. The diagonal is copied unchanged.
    schedule : str
        Order of the messages: "auto" or a name in `schedules.NAMES`. "walker-otto", "phases", "random-phases" and "classes"
        have conditions; "stepwise", "greedy", "optimal", "open-shop" (for "windowed") and "preemptive", which cuts messages,
        are searched for by one rank when the plan is made.
    exchange : str
        How they move: "auto", "shared" (through memory shared by the ranks of a node, by MPI between nodes),
        "nonblocking", "windowed", "synchronized", "ready", "sendrecv", "bruck" (through other ranks, in log2 P messages of
        each rank), or "alltoallv" and "alltoallw", which leave the order to MPI.
    buffers : {"packed", "datatypes"}
        What MPI is given: bytes that are packed and unpacked here, or the arrays themselves, described by derived
        datatypes, with no staging memory of ours (all exchanges but alltoallv).
    via : {None, "dimensions", "lcm", "gcd"} or list of Descriptor
        None: every element moves once. "dimensions": one dimension after another. "lcm": blocks grow to the least common
        multiple of both sizes, then shrink; each leg has its own schedule. "gcd": they shrink to the greatest common
        divisor, then grow. Descriptors: through these layouts. The local arrays of layouts in between
        are made in each call, beside what `memory_limit` counts.
    memory_limit : int or str
        Most bytes of extra memory per rank, as a number or as "64MiB" (kB, MB and GB are powers of 1000, KiB, MiB and GiB
        of 1024).

    Returns
    -------
    Redistribution
        Call it with the local array of A to get that of B. On paper a `PaperPlan`, which says what is missing.

    Raises
    ------
    DescriptorError, ArrayError, ScheduleError
        An argument is wrong on this rank.
    CollectiveError
        An argument is wrong on another rank, or ranks ask for different things. Every rank raises.
    """
    desc_a, desc_b = descriptor_of(desc_a), descriptor_of(desc_b)
    with interrupts_held() as held:
        request = request_for(
            desc_a, desc_b, dtype, comm, schedule, exchange, buffers, via, memory_limit, op, uplo, diag, fill
        )
        if request.idle:
            return _idle_plan(request)
        if not request.on_paper:
            with tracing.phase("plan", desc_a, desc_b):
                group = request.joint.group if request.joint else group_of(request.comm, request.ranks)
                return _agreed_plan(request, group, held.let_through)
    return plan_on_paper(request)


# What a rank notes on its ballot. Where all have planned by themselves, one vote tells both that all ask for the same plan
# and that all have it.
PLANNED, NOT_PLANNED, LAYOUT_UNKNOWN = range(3)


def _agreed_plan(request: Request, group: Group, let_through: Callable[[], None]) -> Redistribution:
    """The plan that all ask for, an old one or a new one. Collective over the group.

    Interrupts are held back: they come before the vote, which then tells the others, and while it is waited for. From then on
    all ranks make and keep the same plans.
    """
    asked, error = request.asked(), request.error
    plan = _plan_ahead(request, group, asked)
    try:
        let_through()
    except BaseException as caught:
        error = error or caught
    note = LAYOUT_UNKNOWN if not request.knows_both else NOT_PLANNED if plan is None else PLANNED

    def is_new(outcome: Outcome) -> bool:
        """Whether ranks have more to tell. Else they keep the plan, as must one on which an interrupt has ended the call."""
        key = Asked.of(outcome)
        if request.joint is not None or (outcome.note != PLANNED and key not in group.plans):
            return True
        group.plans.keep(key, group.plans.get(key, plan))
        return False

    outcome = group.agree(request.ballot(group, asked, note, error), error, request.statements, is_new, let_through)
    key = Asked.of(outcome)
    plan = group.plans[key] if key in group.plans else _new_plan(request, group, outcome.note)
    inside = plan.inside.with_layouts(*request.descriptors, request.agreed_dtype(group))
    if inside is not plan.inside:
        plan = Redistribution(inside)
    group.plans.keep(key, plan)
    return plan


def _plan_ahead(request: Request, group: Group, asked: Asked) -> Redistribution | None:
    """A plan made before all are known to ask for it; None where ranks need to hear of each other. Not collective.

    Nothing is sent, and what is wrong is left to be found again when all have voted.
    """
    a, b = request.descriptors
    node = group.node
    if request.error is not None or a is None or b is None or request.joint is not None:
        return None
    kept: Redistribution | None = group.plans.get(asked)
    if kept is not None or node is None or not node.whole:
        return kept
    start = time.perf_counter()
    try:
        chosen = choose(request.schedule, request.exchange, request.buffers, node)
        if chosen.exchange != Shared.name or not by_formula(chosen.schedule):
            return None
        plan = _plan_of(request, a, b, group, chosen, pending_moves(request, a, b))
    except Exception:
        return None
    plan.planning = {"messages": time.perf_counter() - start}
    return Redistribution(plan)


def _idle_plan(request: Request) -> Redistribution:
    """The plan of a rank outside both grids."""
    a, b = request.layouts
    chosen = choose(request.schedule, request.exchange, request.buffers, None)
    order = ORDERS.get(chosen.schedule, Natural)((), ())
    op, part = request.op, request.part
    move = Move(0, 0, 1, a, b, op, True, part, order, Messages([], [], []))
    stage = Stage([move], exchange_class(chosen.exchange), Options(request.memory_limit, request.buffers), None)
    pair = Pair(a, b, request.dtype, op, part, request.fill)
    return Redistribution(Plan(None, [pair], [stage], {}, chosen.why, identity(request, a, b, chosen)))


def _new_plan(request: Request, group: Group, note: int) -> Redistribution:
    """Work out this rank's messages. Collective over the group: all make the plan, or none."""
    moments = [time.perf_counter()]
    if note == LAYOUT_UNKNOWN:
        a, b = (spread(mine, group, request.comm) for mine in request.descriptors)
    else:
        a, b = request.layouts
    node = group.make_node()
    before = request.moved(a)
    load = Load() if group.links is None else load_between(before, b)
    moved = math.prod(b.shape) * b.copies
    chosen = choose(request.schedule, request.exchange, request.buffers, node, group.links, moved, load)
    moments.append(time.perf_counter())
    steps: Any = None
    if not by_formula(chosen.schedule):  # a search under a time limit need not end alike on two machines
        found = _searched(chosen.schedule, request, a, b) if group.rank == 0 else None
        steps = group.combine(found, lambda told: told[0])
    moments.append(time.perf_counter())

    def make() -> Plan:
        legs = pending_moves(request, a, b)
        if isinstance(steps, Exception):
            raise steps
        return _plan_of(request, a, b, group, chosen, legs, steps)

    plan = made_by_all(group, make)
    if request.exchange == request.schedule == "auto":
        _take_log_steps(plan, group.links)
    if plan.stages[0].exchange.collective:
        group.make_collectives()
    moments.append(time.perf_counter())
    plan.planned_at(moments)
    return Redistribution(plan)


def _take_log_steps(plan: Plan, links: Links | None) -> None:
    """Let messages that "auto" sends in a window travel in log2 P steps where that is faster. Not collective."""
    stage = plan.stages[0]
    if links is None or plan.asks or stage.exchange is not Windowed or stage.options.buffers != "packed":
        return
    why = log_steps_pay(stage.options, links)
    if why is not None:
        stage.exchange, plan.why = Bruck, why


def made_by_all(group: Group, make: Callable[[], Plan]) -> Plan:
    """A plan whose part all ranks could make, and whose stages know the largest extents. Collective over the group.

    Parameters
    ----------
    group : Group
        The ranks.
    make : callable
        Makes this rank's part. Not collective.

    Raises
    ------
    BaseException
        What `make` raised, on that rank; CollectiveError on the others.
    ScheduleError
        The exchange cannot move such messages.
    """

    def largest(told: list[Any]) -> Any:
        for rank, (text, _) in enumerate(told):
            if text is not None:
                return (rank, text), None
        return None, [
            tuple(map(max, zip(*extents, strict=True))) for extents in zip(*(every for _, every in told), strict=True)
        ]

    try:
        plan = make()
    except Exception as caught:
        group.combine((error_in_words(caught), []), largest)
        raise
    stages = plan.stages if plan.direct is None else (*plan.stages, plan.direct)
    failed, extents = group.combine((None, [tuple(stage.extents) for stage in stages]), largest)
    if failed is not None:
        raise CollectiveError(f"{group.names[failed[0]]} could not take part: {failed[1]}")
    travels = group.voting_ring is None and not plan.asks
    for stage, numbers in zip(stages, extents, strict=True):
        agreed = Extents(*numbers)
        stage.exchange.check(agreed, stage.options.buffers)
        stage.options = stage.options._replace(extents=agreed, ranks=group.size, radix=group.radix, travels=travels)
    return plan


def _searched(name: str, request: Request, a: Layout, b: Layout) -> list[Steps] | Exception:
    """The steps of each move, or the error for all ranks."""
    try:
        return [searched(name, leg.moved, leg.b) for leg in pending_moves(request, a, b)]
    except Exception as caught:
        return caught


def _plan_of(
    request: Request,
    a: Layout,
    b: Layout,
    group: Group,
    chosen: Choice,
    legs: Sequence[PendingMove],
    steps: Sequence[Steps] | None = None,
) -> Plan:
    """This rank's part of a plan. Not collective."""
    me = request.comm.Get_rank()
    exchange = exchange_class(chosen.exchange)
    options = Options(request.memory_limit, request.buffers, cutting=chosen.cutting)

    by_slot = options.buffers == "datatypes"

    def move_of(leg: PendingMove, order: Order) -> Move:
        before, after = leg.moved, leg.b
        if isinstance(before, Tiles) or isinstance(after, Tiles):
            messages, arrays = messages_of_tiles(before, after, me, group.number, order, leg.edge)
        else:
            messages, arrays = messages_of(before, after, me, group.number, order, leg.edge, by_slot), ()
        return Move(0, leg.source, leg.target, leg.a, leg.b, leg.op, leg.last, leg.part, order, messages, arrays)

    by_stage: dict[int, list[Move]] = {}
    between: dict[int, Layout] = {}
    for k, leg in enumerate(legs):
        order = order_for(chosen.schedule, leg.moved, leg.b, None if steps is None else steps[k])
        by_stage.setdefault(leg.stage, []).append(move_of(leg, order))
        if leg.target > 1:
            between[leg.target] = leg.b
    stages = [Stage(by_stage[k], exchange, options, group) for k in sorted(by_stage)]
    pair = Pair(a, b, request.dtype, request.op, request.part, request.fill)
    plan = Plan(group, [pair], stages, between, chosen.why, identity(request, a, b, chosen))
    if request.via is not None:
        whole = PendingMove(0, 0, 1, a, b, request.op, request.part, True)
        order = ORDERS["caterpillar"](*process_shapes(whole.moved, b))
        plan.direct = Stage([move_of(whole, order)], exchange, options, group)
    return plan
