"""Plans on paper: figures and messages of all ranks, counted element by element."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from layouts import descriptor
from numpy.typing import NDArray
from oracle import Layout, random_layout, random_shape, trapezoid

import pyscalapack_redist as psr
from pyscalapack_redist import Descriptor, DescriptorError, PaperPlan, ProcessGrid, ScheduleError
from pyscalapack_redist.reports import Report
from pyscalapack_redist.schedules.layout_orders import fewest_steps, load_between
from pyscalapack_redist.study.traffic import traffic_table

SQUARE = ProcessGrid((2, 2), ranks=[[5, 0], [7, 2]])
A, B = Descriptor((20, 31), (3, 4), ProcessGrid((2, 3))), Descriptor((20, 31), (5, 2), ProcessGrid((3, 2)))
M, N = Descriptor((17, 17), (3, 4), ProcessGrid((2, 3))), Descriptor((17, 17), (5, 2), SQUARE)


def holders(layout: Layout) -> NDArray[np.int64]:
    """The rank of each element of the window."""
    owners = np.full(layout.shape, -1)
    for rank in layout.ranks.ravel().tolist():
        owners[np.ix_(*layout.pieces(rank)[0])] = rank
    return owners[layout.window()]


def counted(before: NDArray[np.int64], after: NDArray[np.int64], mask: Any = True) -> Counter[tuple[int, int]]:
    """Elements from each rank to each, by the owner of every element."""
    mask = np.broadcast_to(mask, before.shape)
    return Counter(zip(before[mask].tolist(), after[mask].tolist(), strict=True))


def check(plan: psr.Redistribution, totals: Report, pairs: Counter[tuple[int, int]], item: int = 8) -> None:
    """The report, messages of each rank and the table of the heat map, against the pairs."""
    moved = {pair: size for pair, size in pairs.items() if pair[0] != pair[1]}
    ranks = sorted({*plan.desc_a.grid.ranks.ravel().tolist(), *plan.desc_b.grid.ranks.ravel().tolist()})
    loads = np.zeros((2, max(ranks) + 1), np.int64)
    degrees = np.zeros_like(loads)
    for pair, size in moved.items():
        for side in range(2):
            loads[side, pair[side]] += size
            degrees[side, pair[side]] += 1
    assert totals.ranks == len(ranks)
    assert (totals.sends, totals.bytes_sent) == (len(moved), item * sum(moved.values()))
    assert totals.bytes_copied == item * (sum(pairs.values()) - sum(moved.values()))
    assert totals.most_messages == degrees.max(initial=0)
    assert (totals.most_sent, totals.most_received) == tuple(item * loads.max(axis=1))
    busiest = loads.max(axis=0)
    assert totals.imbalance == pytest.approx(busiest.max() / busiest[ranks].mean() if busiest.any() else 1.0)
    found: Counter[tuple[int, int]] = Counter()
    for rank in [*ranks, max(ranks) + 1]:
        messages = plan.messages_of(rank)
        for message in (*messages["send"], *messages["copy"]):
            found[rank, message.peer] += message.size
        come = {(m.peer, rank): 0 for m in messages["receive"]}
        for message in messages["receive"]:
            come[message.peer, rank] += message.size
        assert come == {pair: size for pair, size in moved.items() if pair[1] == rank}
    assert found == pairs
    rows, table = traffic_table(plan.plan.moves)
    assert rows.tolist() == ranks
    assert {(ranks[p], ranks[q]): int(table[p, q]) for p, q in zip(*np.nonzero(table), strict=True)} == dict(pairs)


@given(st.integers(0, 2**32))
def test_figures_are_those_of_every_element(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = random_shape(rng, int(rng.integers(1, 4)), 800)
    layouts = [random_layout(rng, size, 8) for _ in range(2)]
    plan = psr.redistribute(*(descriptor(layout, None) for layout in layouts))
    assert isinstance(plan, PaperPlan)
    totals = plan.report()
    check(plan, totals, counted(*map(holders, layouts)))
    cyclic = all(isinstance(size, int) for layout in layouts for size in layout.block)
    messages = load_between(plan.desc_a, plan.desc_b).messages
    assert messages == totals.sends if cyclic else messages >= totals.sends
    assert fewest_steps(plan.desc_a, plan.desc_b) == totals.most_messages
    assert plan.report("c8").bytes_sent == plan.report().bytes_sent


def test_a_plan_says_what_is_chosen_where_ranks_run() -> None:
    later = "order: chosen where ranks run, counted here for caterpillar; exchange: "
    assert f"{later}chosen where ranks run" in str(psr.redistribute(A, B).report())
    assert f"{later}as asked" in str(psr.redistribute(A, B, exchange="windowed").report())
    assert "order:" not in str(psr.redistribute(A, B, schedule="greedy").report())


@pytest.mark.parametrize("schedule", ["natural", "ring", "stepwise", "optimal"])
def test_every_schedule_has_the_same_messages(schedule: str) -> None:
    plan = psr.redistribute(A, B, schedule=schedule, dtype="f4")
    totals = plan.report()
    check(plan, totals, counted(A.owner_map(), B.owner_map()), 4)
    assert totals.schedule == plan.schedule.name == schedule
    assert totals.steps is None if schedule == "natural" else (totals.steps or 0) >= totals.most_messages


@pytest.mark.parametrize(
    ("uplo", "diag", "op"), [(None, "N", "T"), ("U", "N", "N"), ("L", "U", "N"), ("U", "N", "T"), ("U", "U", "C")]
)
def test_a_triangle_and_transposes(uplo: Any, diag: str, op: str) -> None:
    plan = psr.redistribute(M, N, uplo=uplo, diag=diag, op=op)
    mask = np.ones((17, 17), bool) if uplo is None else trapezoid((17, 17), uplo, diag)
    before = M.owner_map()
    check(plan, plan.report(), counted(before if op == "N" else before.T, N.owner_map(), mask if op == "N" else mask.T))


def test_layouts_with_copies() -> None:
    a = Descriptor((12, 9), (3, 2), ProcessGrid((2, 2)), axes=(0, None))  # two copies of each half of the rows
    b = Descriptor((12, 9), (2, 4), ProcessGrid((2, 3), ranks=[[4, 0, 2], [1, 5, 9]]))
    for start, end in ((a, b), (b, a), (a, a)):
        plan = psr.redistribute(start, end)
        totals, pairs = plan.report(), Counter[tuple[int, int]]()
        for rank in range(10):
            messages = plan.messages_of(rank)
            pairs.update({(rank, m.peer): m.size for some in ("send", "copy") for m in messages[some]})
        check(plan, totals, pairs)
        assert totals.bytes_sent + totals.bytes_copied == 8 * 12 * 9 * end.copies


def between(before: NDArray[np.int64], after: NDArray[np.int64], mask: Any = True) -> int:
    """Bytes that other ranks get."""
    return 8 * sum(size for (p, q), size in counted(before, after, mask).items() if p != q)


def test_a_mirror_image_and_layouts_on_the_way() -> None:
    b = Descriptor((17, 17), (5, 2), ProcessGrid((3, 2)))
    before, after = M.owner_map(), b.owner_map()
    filled = psr.redistribute(M, b, uplo="U", fill="symmetric")
    upper = np.triu(np.ones((17, 17), bool))
    pairs = counted(before, after, upper) + counted(before.T, after, ~upper)
    assert [(leg.name, leg.bytes_sent) for leg in filled.report().legs] == [
        ("the trapezoid", between(before, after, upper)),
        ("its mirror image", between(before.T, after, ~upper)),
    ]
    assert filled.report().sends == sum(p != q for p, q in pairs) < filled.report().sends_apart
    assert filled.report().bytes_sent == 8 * sum(size for (p, q), size in pairs.items() if p != q)
    assert filled.report().bytes_copied == 8 * sum(size for (p, q), size in pairs.items() if p == q)
    assert psr.redistribute(M, b, uplo="U", fill="zero").report().legs == ()
    plan = psr.redistribute(M, b, via="dimensions")
    report = plan.report()
    maps = [stop.owner_map() for stop in (M, *(leg.desc_b for leg in plan.legs))]
    assert [leg.bytes_sent for leg in report.legs] == [between(x, y) for x, y in itertools.pairwise(maps)]
    assert len(report.legs) == 2
    assert report.direct.bytes_sent == between(before, after)
    assert report.between_bytes == 8 * max(Counter(maps[1].ravel().tolist()).values())
    assert report.bytes_sent + report.bytes_copied == 2 * 8 * 17 * 17
    sent = Counter[int]()
    for x, y in itertools.pairwise(maps):
        sent.update(dict.fromkeys(range(6), 0))
        for (p, q), size in counted(x, y).items():
            sent[p] += 8 * size * (p != q)
    assert (report.most_sent, report.bytes_sent) == (max(sent.values()), sum(sent.values()))
    assert (report.name, *(leg.name for leg in report.legs), report.direct.name) == ("", "leg 0", "leg 1", "direct")


def test_a_million_processes_on_each_side_need_no_table_of_them() -> None:
    grid = ProcessGrid((1024, 1024))
    start = time.process_time()
    a, b = (Descriptor((10**6, 10**6), block, grid) for block in (64, 100))
    plan = psr.redistribute(a, b)
    totals = plan.report()
    assert time.process_time() - start < 5
    assert totals.ranks == 2**20
    assert totals.bytes_sent + totals.bytes_copied == 8 * 10**12
    messages = plan.messages_of(123_456)
    sent = sum(m.size for some in ("send", "copy") for m in messages[some])
    assert sent == np.prod(a.local_shape_of(grid.coords_of(123_456) or ()))
    assert len(plan._repr_html_()) < 300_000


def pair(shape: tuple[int, ...], blocks: tuple[int, int], *grids: tuple[int, ...]) -> list[Descriptor]:
    return [Descriptor(shape, block, ProcessGrid(grid)) for block, grid in zip(blocks, grids, strict=True)]


PLAN = psr.redistribute(A, B)
TRIANGLE = psr.redistribute(*pair((99, 99), (2, 3), (20, 20), (20, 20)), uplo="U")
LONG = psr.redistribute(*pair((10**6,), (2, 3), (5000,), (5000,)))
HUGE = psr.redistribute(*pair((5 * 10**9, 5 * 10**9), (8, 8), (4, 4), (2, 8)))


@pytest.mark.parametrize(
    ("ask", "error", "words"),
    [
        (
            lambda: PLAN(np.zeros((4, 4))),
            DescriptorError,
            r"on paper and cannot be run: .* ProcessGrid\(\(2, 3\), comm\)",
        ),
        (lambda: PLAN.start(None), DescriptorError, "on paper and cannot be run"),
        (lambda: PLAN.messages, DescriptorError, r"has no own rank: use messages_of\(rank\)"),
        (lambda: psr.batch(PLAN, PLAN), DescriptorError, "on paper: make its descriptors on a communicator"),
        (TRIANGLE.report, ScheduleError, "too many for a table of all pairs of a triangle"),
        (LONG.report, ScheduleError, "5,000 x 5,000 pairs along a dimension"),
        (HUGE.report, ScheduleError, r"more than 2\^63 elements, which 64 bits cannot count"),
    ],
)
def test_what_cannot_be_done_on_paper_says_what_is_missing(ask: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        ask()


def test_what_can_be_counted_and_read() -> None:
    totals = psr.redistribute(*pair((2**31, 2**31), (8, 8), (4, 4), (2, 8))).report()
    assert totals.bytes_sent + totals.bytes_copied == 8 * 2**62
    assert "PaperPlan(Descriptor(20 x 31, " in repr(PLAN)


@pytest.mark.parametrize("op", ["N", "T"])
def test_a_sum_on_paper_has_its_summands(op: str) -> None:
    """Each goes to all of B, but for what its own rank holds; an ordinary move reads one of them."""
    parts = psr.Descriptor((9, 6), None, psr.ProcessGrid((3, 2)), axes=(None, 1))  # three summands
    b = psr.Descriptor((9, 6) if op == "N" else (6, 9), (2, 2), psr.ProcessGrid((6, 1)))
    plan = psr.redistribute(parts, b, op=op, reduce="sum")
    report, ordinary = plan.report(), psr.redistribute(parts, b, op=op).report()
    assert [leg.name for leg in report.legs] == ["summand 0", "summand 1", "summand 2"]
    assert report.bytes_sent + report.bytes_copied == 3 * 9 * 6 * 8
    assert report.direct is not None
    assert (report.direct.bytes_sent, report.direct.sends) == (ordinary.bytes_sent, ordinary.sends)
    for k, leg in enumerate(plan.legs):
        assert leg.desc_a.ranks == (2 * k, 2 * k + 1)
    assert sum(m.size for rank in range(6) for m in plan.messages_of(rank)["send"]) * 8 == report.bytes_sent
