"""Plans of random cases, of all their ranks in one process: nothing is sent by MPI, so thousands take seconds.

Every rank plans by itself. What it packs for another is put where that one looks for it, in the same step, and is unpacked
there: the messages fit together, and each element is written once, with what the oracle says.
"""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cases import WAYS, Case, draw_case
from launch import SEED
from layouts import Local, fill, local_array, made_for, views_of
from numpy.typing import NDArray
from one_rank import OneRank
from oracle import Layout, same_bytes, same_numbers

import pyscalapack_redist as psr
from pyscalapack_redist._kernels.bundle import address_of
from pyscalapack_redist.engine.bounds import Bounds
from pyscalapack_redist.engine.build import build, search
from pyscalapack_redist.engine.choose import choose
from pyscalapack_redist.engine.operands import finish_result, prepare_operands
from pyscalapack_redist.engine.options import read_options
from pyscalapack_redist.engine.spec import Spec
from pyscalapack_redist.exchanges import Exchange, Extents
from pyscalapack_redist.redistribution import Redistribution
from pyscalapack_redist.schedules import NAMES
from pyscalapack_redist.schedules.layout_orders import is_by_formula

ONE_LEG = [way for way in WAYS if "via" not in way]


def plans_of(case: Case, size: int) -> list[Any]:
    """The plan of each rank. Stages are told the largest extents of all ranks, as a redistribution agrees on them."""
    plans: list[Any] = []
    steps: Any = None
    for rank in range(size):
        comm: Any = OneRank(size, rank)
        layouts = [made_for(layout, comm, rank) for layout in (case.a, case.b)]
        keywords = {"dtype": case.dtype, "comm": comm, "memory_limit": 2**26, **case.way}
        part = {"op": case.op, "uplo": case.uplo, "diag": case.diag, "fill": case.fill}
        spec = Spec(*layouts, read_options("plan", keywords | part))
        group: Any = SimpleNamespace(rank=rank, size=size, number=range(size), node=None, names=range(size))
        chosen = choose(spec.options, None)
        if rank == 0 and not is_by_formula(chosen.schedule):  # one rank searches for all
            steps = search(spec, chosen.schedule)
        plans.append(Redistribution(Bounds(build(spec, chosen, group, steps))))
    (stages,) = zip(*(plan.plan.stages for plan in plans), strict=True)
    largest = Extents(*(max(extents) for extents in zip(*(stage.extents for stage in stages), strict=True)))
    for stage in stages:
        assert not (largest.partial and stage.options.buffers == "datatypes")  # a datatype is of a whole message
        stage.options = stage.options._replace(extents=largest, ranks=size)
    return plans


def arrays_of(case: Case, rank: int, own: np.random.Generator | None) -> tuple[Local, Local]:
    """This rank's local arrays, with the values before the first call."""
    pair = []
    for layout, values in zip((case.a, case.b), case.before(case.calls[0]), strict=True):
        local = local_array(layout, rank, case.dtype, own)
        fill(local, layout, rank, values)
        pair.append(local)
    return (pair[1], pair[1]) if case.in_place else (pair[0], pair[1])


class Side:
    """What one rank has of a case: its arrays, and the messages bound to them."""

    def __init__(self, case: Case, plan: Any, rank: int) -> None:
        call = case.calls[0]
        self.case, self.plan, self.bounds, self.rank = case, plan.plan, plan.bounds, rank
        self.a, self.b = arrays_of(case, rank, np.random.default_rng([case.seed, rank]) if case.strided else None)
        self.operands = prepare_operands(
            self.bounds, self.a.given, None if call.new else self.b.given, call.alpha, call.beta
        )

    def bind(self, order: int) -> None:
        operands = self.operands
        exchanges = self.bounds.bound_for(operands).exchanges
        (exchange,) = exchanges.of(operands.kind, operands.dtypes, order, self.case.dtype.itemsize).exchanges
        self.exchange: Exchange = exchange
        limit = self.plan.memory_limit
        assert exchange.staging_bytes <= limit, f"{exchange.staging_bytes} bytes are staged, of {limit}"

    def packed(self) -> list[tuple[int, tuple[int, ...], NDArray[np.uint8]]]:
        """For each message to another rank: who gets it, when, and its bytes."""
        made = []
        for peer, key, bundle, first, last, _ in self.exchange.sends:
            data = np.empty(last - first, np.uint8)
            bundle.move(self.operands.origins, address_of(data), first, last)
            made.append((peer, key, data))
        return made

    def unpack(self, arrived: dict[tuple[int, tuple[int, ...]], NDArray[np.uint8]]) -> None:
        """Take what others have packed for this rank, and copy what stays here."""
        for peer, key, bundle, first, last, _ in self.exchange.receives:
            data = arrived.pop((peer, key))
            assert data.size == last - first
            bundle.move(self.operands.origins, address_of(data), first, last)
        assert not arrived, f"rank {self.rank} does not look for what {list(arrived)} send"
        copies = self.exchange.copies
        copies.move(self.operands.origins, 0, 0, copies.size)

    def check(self) -> None:
        """B is what the oracle says, and A as it was."""
        case, call, operands = self.case, self.case.calls[0], self.operands
        result = finish_result(self.plan, operands.outs, operands.targets, operands.factors)
        if not call.new and self.plan.has_tiles:
            result = self.b.given
        wanted, equal = case.after(call), same_bytes if case.exact else same_numbers
        for view, piece in zip(views_of(case.b, self.rank, result), case.b.pieces(self.rank), strict=True):
            assert not view.size or equal(view, wanted[np.ix_(*piece)]), (self.rank, case)
        if not case.in_place:
            before, _ = case.before(call)
            for view, piece in zip(self.a.views, case.a.pieces(self.rank), strict=True):
                assert same_bytes(view, before[np.ix_(*piece)])


def check_case(case: Case, size: int) -> bool:
    """Plan on all ranks, move, and compare; False where the schedule does not apply."""
    try:
        plans = plans_of(case, size)
    except psr.ScheduleError:
        assert case.conditional, case
        return False
    sides = [Side(case, plan, rank) for rank, plan in enumerate(plans)]
    orders = [side.operands.element_order for side in sides if side.operands.element_order is not None]
    for side in sides:
        side.bind(max(orders, default=1))
    mail: list[dict[Any, NDArray[np.uint8]]] = [{} for _ in sides]
    for side in sides:
        for peer, key, data in side.packed():
            assert (side.rank, key) not in mail[peer], "two messages of one step"
            mail[peer][side.rank, key] = data
    for side in sides:
        side.unpack(mail[side.rank])
        side.check()
    if case.fill is None:
        moved = sum(m.size for plan in plans for k in ("receive", "copy") for m in plan.messages[k])
        assert moved == case.moving, (moved, case)
    check_schedule(case, plans)
    if isinstance(case.a, Layout) and isinstance(case.b, Layout) and max(case.a.copies, case.b.copies) > 1:
        check_copies(case, plans)
    return True


def check_schedule(case: Case, plans: list[Any]) -> None:
    """In a one-port schedule no rank sends twice, or receives twice, in a step."""
    name = case.way.get("schedule", "auto")
    if (
        name in ("natural", "random", "phases", "random-phases", "auto")
        or case.fill
        or case.way.get("exchange") == "bruck"
    ):
        return
    for plan in plans:
        for side in ("send", "receive"):
            steps = Counter(message.key for message in plan.messages[side])
            assert not steps or max(steps.values()) == 1, (side, case)


def check_copies(case: Case, plans: list[Any]) -> None:
    """What a rank holds it copies, the rest it receives once; copies of a part serve equally many, or one more."""
    if case.op != "N" or case.uplo is not None:
        return
    for rank, plan in enumerate(plans):
        masks = []
        for layout in (case.a, case.b):
            mask = np.zeros(layout.shape, bool)
            for piece in layout.pieces(rank):
                mask[np.ix_(*piece)] = True
            masks.append(mask[layout.window()])
        kept, needed = np.count_nonzero(masks[0] & masks[1]), np.count_nonzero(masks[1])
        assert sum(message.size for message in plan.messages["copy"]) == kept, (rank, case)
        assert sum(message.size for message in plan.messages["receive"]) == needed - kept, (rank, case)
    if plans[0].desc_a.copies > 1:
        served = np.array([len({message.peer for message in plan.messages["send"]}) for plan in plans])
        assert (np.ptp(served[plans[0].desc_a.places], axis=-1) <= 1).all(), (case, served)


def run(number: int, seed: int) -> None:
    """Check so many cases on 1 to 8 ranks; each way comes in turn."""
    done: Counter[str] = Counter()
    for k in range(number):
        way = ONE_LEG[k % len(ONE_LEG)]
        for attempt in range(5):
            rng = np.random.default_rng([seed, k, attempt])
            size = int(rng.choice((1, 2, 3, 4, 6, 8)))
            case = draw_case(rng, size, way, most=1500)
            try:
                applies = check_case(case, size)
            except BaseException as error:
                error.add_note(f"case {k}, attempt {attempt} of seed {seed} on {size} ranks: {case}")
                raise
            if applies:
                done.update(case.features())
                break
    assert number < len(ONE_LEG) or all(done[f"schedule {name}"] for name in NAMES), done


@pytest.mark.parametrize("part", range(2))
def test_plans_of_all_ranks(part: int) -> None:
    run(240, SEED + part)


@pytest.mark.long
@pytest.mark.parametrize("part", range(4))
def test_plans_of_all_ranks_of_thousands_of_cases(part: int) -> None:
    run(1000, SEED + 10 + part)
