"""Build one rank's part of a plan from a `Spec`: its moves, their order and this rank's messages. Nothing is sent here.

`via=` splits a redistribution into legs, `reduce=` into turns. `fill=` writes the rest of B outside the trapezoid: zeros, or
the mirror image, which is a second move of the same elements.
"""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Sequence
from typing import NamedTuple

from ..comm.group import Group
from ..comm.vote import digest
from ..exchanges import ExchangeOptions
from ..layout.letters import combine
from ..layout.tiles import Layout
from ..layout.waypoints import waypoints
from ..schedules.layout_orders import SearchedSteps, order_for, process_shapes, search_steps
from ..schedules.orders import ORDERS, Natural, Order
from .choose import Choice
from .messages import Arrays, RankMessages, messages_of
from .operation import MatrixPart, edge_of, op_layout
from .options import Options
from .overwriting import PanelStage
from .panels import PANELS, Panel
from .plan import Plan
from .spec import Spec
from .stages import Move, Pair, Stage
from .sums import first_turns, summands_of, turns_of

NOTHING: tuple[RankMessages, Arrays] = RankMessages([], [], []), ()


class PendingMove(NamedTuple):
    """A move without messages and order yet; `source` and `target` are those of a `Move`."""

    stage: int
    source: int
    target: int
    a: Layout
    b: Layout
    op: str
    part: MatrixPart | None
    last: bool
    adds: bool = False

    @property
    def op_layout(self) -> Layout:
        """The layout of op(A)."""
        return op_layout(self.a, self.op)


def second_move(fill: str, op: str, part: MatrixPart) -> tuple[str, MatrixPart] | None:
    """Operation and part of A for the rest of B; None if the rest is 0.

    The rest of B is op of the mirror image: A's triangle transposed, or transposed and conjugated.
    """
    if fill == "zero":
        return None
    mirrored = {"symmetric": "T", "hermitian": "C"}[fill]
    return combine(mirrored, op), MatrixPart(part.uplo, "U")


def pending_moves(spec: Spec) -> list[PendingMove]:
    """List the moves of a plan: of the trapezoid and of its mirror image, if any, each by way of its layouts in between.

    Those of a sum are of its summands.
    """
    a, b = spec.layouts
    op, part, fill, via = spec.options.op, spec.options.part, spec.options.fill, spec.options.via
    if via is None and fill is None:
        summands = enumerate(summands_of(a, spec.options))
        return [PendingMove(k, 0, 1, summand, b, op, part, True, k > 0) for k, summand in summands]
    operations: list[tuple[str, MatrixPart | None]] = [(op, part)]
    if fill is not None and part is not None:
        second = second_move(fill, op, part)
        operations += [second] if second is not None else []
    routes = []
    for op, part in operations:
        before = op_layout(a, op)
        stops: list[Layout] = [a, b]
        if via is not None:
            stops[1:1] = waypoints(before, b, via)
        routes.append((op, part, stops))
    longest = max(len(stops) for _, _, stops in routes) - 1
    legs: list[PendingMove] = []
    array_number = 2
    for op, part, stops in routes:
        source, first = 0, longest - (len(stops) - 1)
        for k, (start, end) in enumerate(itertools.pairwise(stops)):
            last = end is stops[-1] and k == len(stops) - 2
            target = 1 if last else array_number
            array_number += not last
            legs.append(PendingMove(first + k, source, target, start, end, op if k == 0 else "N", part, last))
            part = part.after_op(op) if part is not None and k == 0 else part
            source = target
    return legs


def search(spec: Spec, schedule: str) -> list[SearchedSteps]:
    """Search for the steps of each move in a schedule without a formula. One rank does it for all.

    Raises
    ------
    ScheduleError
        The schedule does not apply to these layouts.
    """
    return [search_steps(schedule, pending.op_layout, pending.b) for pending in pending_moves(spec)]


def build(
    spec: Spec,
    choice: Choice,
    group: Group | None = None,
    steps: Sequence[SearchedSteps] | None = None,
) -> Plan:
    """Build this rank's part of a plan.

    Parameters
    ----------
    spec : Spec
        The request, with both layouts.
    choice : Choice
        Schedule and exchange.
    group : Group, optional
        The ranks; None on paper, and on a rank that takes no part in the plan: then there are no messages.
    steps : sequence of SearchedSteps, optional
        The searched steps of each move.

    Raises
    ------
    ScheduleError
        The schedule does not apply to these layouts, or there is no route for `via`.
    """
    start = time.perf_counter()
    rank = None if group is None else spec.comm.Get_rank()
    asked = spec.options
    options = ExchangeOptions(asked.memory_limit, asked.buffers, cutting=choice.cutting)

    def messages_in(pending: PendingMove, order: Order, panel: Panel | None = None) -> tuple[RankMessages, Arrays]:
        if group is None or rank is None:
            return NOTHING
        by_slot, edge = asked.buffers == "datatypes", edge_of(pending.part, pending.op, pending.b.shape)
        return messages_of(pending.op_layout, pending.b, rank, group.number, order, edge, by_slot, panel)

    def make_move(pending: PendingMove, order: Order) -> Move:
        messages, arrays = messages_in(pending, order)
        _, source, target, a, b, op, part, last, adds = pending
        return Move(0, source, target, a, b, op, last, part, order, messages, arrays, adds)

    by_stage: dict[int, list[Move]] = {}
    layouts_between: dict[int, Layout] = {}
    for k, pending in enumerate(pending_moves(spec)):
        if group is None and not spec.on_paper:
            order: Order = Natural((), ())
        else:
            move_steps = None if steps is None else steps[k]
            order = order_for(choice.schedule, pending.op_layout, pending.b, move_steps, rank)
        by_stage.setdefault(pending.stage, []).append(make_move(pending, order))
        if pending.target > 1:
            layouts_between[pending.target] = pending.b
    whole_stages: Sequence[Stage] = ()
    stages = [Stage(by_stage[k], choice.exchange, options, group) for k in sorted(by_stage)]
    if asked.overwrite:  # one move, in panels
        (move,), make = by_stage[0], functools.partial(messages_in, pending, order)
        whole_stages = stages
        of_b = {"K": None, None: "F" if spec.layouts[1].ndim == 2 else None}.get(asked.order, asked.order)
        along: dict[tuple[int, int], int] = {}
        stages = [PanelStage(move, k, make, of_b, along, choice.exchange, options, group) for k in range(PANELS)]
    a, b = spec.layouts
    is_sum = len(stages) > 1 and asked.reduce is not None
    if is_sum:
        whole_stages, moves = stages, [stage.moves[0] for stage in stages]
        numbers = [] if group is None else [group.number[each] for each in b.ranks]
        turns = turns_of(moves, first_turns(numbers, len(moves)), -1 if group is None else group.rank)
        stages = [Stage([turn], choice.exchange, options, group) for turn in turns]
    direct_stage = None
    if asked.via is not None or is_sum:
        whole = PendingMove(0, 0, 1, a, b, asked.op, asked.part, True)
        order = ORDERS["caterpillar"](*process_shapes(whole.op_layout, b))
        direct_stage = Stage([make_move(whole, order)], choice.exchange, options, group)
    identity = f"call {spec.call} {a.layout_digest} {b.layout_digest} {choice.schedule} {choice.exchange.name}"
    reason, paper_exchange = choice.why, None
    if spec.on_paper:
        reason = _choices_left(asked, choice.schedule)
        paper_exchange = asked.exchange if asked.exchange != "auto" else "any exchange"
    return Plan(
        group,
        (Pair(a, b, asked.dtype, asked.op, asked.part, asked.fill, asked.reduce, asked.order),),
        tuple(stages),
        reason,
        digest(identity.encode()),
        layouts_between,
        tuple(whole_stages),
        direct_stage,
        asked,
        paper_exchange=paper_exchange,
        planning={"messages": time.perf_counter() - start},
    )


def _choices_left(asked: Options, schedule: str) -> str:
    """Why a plan on paper has this order and exchange, and what ranks choose when they make the plan."""
    later = "chosen where ranks run"
    order = f"; order: {later}, counted here for {schedule}" if asked.schedule == "auto" else ""
    return f"on paper{order}; exchange: {later if asked.exchange == 'auto' else 'as asked'}"


def build_batch(plans: Sequence[Plan], choice: Choice, memory_limit: int, identity: int, group: Group | None) -> Plan:
    """Build the plan of a batch: all moves of all plans."""
    moves = []
    for k, plan in enumerate(plans):
        for move in plan.moves:
            sends, receives, copies = move.messages
            if group is not None and plan.group is not None:
                numbers = [group.number[rank] for rank in plan.group.ranks]
                sends, receives = ([m._replace(peer=numbers[m.peer]) for m in side] for side in (sends, receives))
            messages = RankMessages(sends, receives, copies)
            moves.append(move._replace(pair=k, source=2 * k, target=2 * k + 1, messages=messages))
    options = ExchangeOptions(memory_limit, cutting=choice.cutting)
    stage = Stage(moves, choice.exchange, options, group, by_distance=True)
    return Plan(group, tuple([plan.pairs[0] for plan in plans]), (stage,), choice.why, identity, parts=tuple(plans))
