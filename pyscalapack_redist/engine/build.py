"""A plan on one rank, from what all ask for: its moves, their order and this rank's messages. Nothing is sent here."""

from __future__ import annotations

from collections.abc import Sequence

from ..comm.group import Group
from ..comm.vote import digest
from ..exchanges import Options, exchange_class
from ..layout.tiles import Layout
from ..schedules.orders import ORDERS, Natural, Order
from .choose import Choice
from .messages import Arrays, Messages, messages_of
from .order import Steps, order_for, process_shapes, searched
from .plan import Plan
from .spec import Spec
from .stages import Move, Pair, Stage
from .via import PendingMove, pending_moves

__all__ = ["build", "build_batch", "search"]

NOTHING: tuple[Messages, Arrays] = Messages([], [], []), ()
ON_PAPER = "on paper; what moves the bytes is chosen where ranks run"


def search(spec: Spec, layouts: tuple[Layout, Layout], schedule: str) -> list[Steps]:
    """The steps of each move, of a schedule that no formula gives. Not collective: one rank searches for all.

    Raises
    ------
    ScheduleError
        The schedule does not apply to these layouts.
    """
    return [searched(schedule, pending.moved, pending.b) for pending in pending_moves(spec, *layouts)]


def build(
    spec: Spec,
    layouts: tuple[Layout, Layout],
    chosen: Choice,
    group: Group | None = None,
    steps: Sequence[Steps] | None = None,
) -> Plan:
    """This rank's part of a plan. Not collective.

    Parameters
    ----------
    spec : Spec
        What is asked for.
    layouts : tuple of (Descriptor or Tiles)
        Before and after.
    chosen : Choice
        Schedule and exchange.
    group : Group, optional
        The ranks; None on paper, and on a rank that has no part in the plan: then there are no messages.
    steps : sequence of Steps, optional
        Of each move, what one rank has searched for.

    Raises
    ------
    ScheduleError
        The schedule does not apply to these layouts; `via` finds no way.
    """
    rank = None if group is None else spec.comm.Get_rank()
    exchange, options = (
        exchange_class(chosen.exchange),
        Options(spec.memory_limit, spec.buffers, cutting=chosen.cutting),
    )

    def planned(pending: PendingMove, order: Order) -> Move:
        messages, arrays = NOTHING
        if group is not None and rank is not None:
            by_slot = spec.buffers == "datatypes"
            messages, arrays = messages_of(pending.moved, pending.b, rank, group.number, order, pending.edge, by_slot)
        _, source, target, a, b, op, part, last = pending
        return Move(0, source, target, a, b, op, last, part, order, messages, arrays)

    by_stage: dict[int, list[Move]] = {}
    between: dict[int, Layout] = {}
    for k, pending in enumerate(pending_moves(spec, *layouts)):
        if group is None and not spec.on_paper:
            order: Order = Natural((), ())
        else:
            own = None if steps is None else steps[k]
            order = order_for(chosen.schedule, pending.moved, pending.b, own, rank)
        by_stage.setdefault(pending.stage, []).append(planned(pending, order))
        if pending.target > 1:
            between[pending.target] = pending.b
    stages = [Stage(by_stage[k], exchange, options, group) for k in sorted(by_stage)]
    a, b = layouts
    said = f"call {spec.call} {a.layout_digest} {b.layout_digest} {chosen.schedule} {chosen.exchange}"
    why, by = chosen.why, None
    if spec.on_paper:
        why, by = ("on paper; as asked", spec.exchange) if spec.exchange != "auto" else (ON_PAPER, "any exchange")
    pair = Pair(a, b, spec.dtype, spec.op, spec.part, spec.fill)
    plan = Plan(group, [pair], stages, between, why, digest(said.encode()), by=by)
    if spec.via is not None:
        whole = PendingMove(0, 0, 1, a, b, spec.op, spec.part, True)
        order = ORDERS["caterpillar"](*process_shapes(whole.moved, b))
        plan.direct = Stage([planned(whole, order)], exchange, options, group)
    return plan


def build_batch(plans: Sequence[Plan], chosen: Choice, memory_limit: int, identity: int, group: Group | None) -> Plan:
    """The plan of all moves of all plans. Not collective."""
    moves = []
    for k, plan in enumerate(plans):
        for move in plan.moves:
            sends, receives, copies = move.messages
            if group is not None and plan.group is not None:
                there = [group.number[rank] for rank in plan.group.ranks]
                sends, receives = ([m._replace(peer=there[m.peer]) for m in some] for some in (sends, receives))
            messages = Messages(sends, receives, copies)
            moves.append(move._replace(pair=k, source=2 * k, target=2 * k + 1, messages=messages))
    options = Options(memory_limit, cutting=chosen.cutting)
    stage = Stage(moves, exchange_class(chosen.exchange), options, group, by_distance=True)
    return Plan(group, [plan.pairs[0] for plan in plans], [stage], {}, chosen.why, identity, plans)
