"""Plans on paper: figures and messages of all ranks, counted element by element, and by the command line as well."""

from __future__ import annotations

import itertools
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyscalapack_redist as psr
from pyscalapack_redist import Blocks, Descriptor, DescriptorError, PaperPlan, ProcessGrid, ScheduleError
from pyscalapack_redist.engine.pictures import traffic_table
from pyscalapack_redist.engine.report import ChainReport, FilledReport
from pyscalapack_redist.engine.totals import Totals
from pyscalapack_redist.tools import cli

SQUARE = ProcessGrid((2, 2), ranks=[[5, 0], [7, 2]])
PAIRS = {
    "plain": (Descriptor((20, 31), (3, 4), ProcessGrid((2, 3))), Descriptor((20, 31), (5, 2), ProcessGrid((3, 2)))),
    "partly the same ranks": (
        Descriptor((13, 9), 2, SQUARE, source=(1, 0)),
        Descriptor((13, 9), 4, ProcessGrid((1, 4))),
    ),
    "disjoint": (Descriptor((8, 8), 3, SQUARE), Descriptor((8, 8), 3, ProcessGrid((1, 2), ranks=[[1, 3]]))),
    "one row, one process": (Descriptor((1, 50), 7, ProcessGrid((4, 1))), Descriptor((1, 50), 7, ProcessGrid((1, 1)))),
    "sub-arrays": (Descriptor((30, 30), 4, SQUARE)[3:20, 5:21], Descriptor((40, 16), 3, ProcessGrid((2, 3)))[7:24, :]),
    "irregular": (
        Descriptor((20, 11), (Blocks([3, 10, 7], [1, 0, 1]), "balanced"), ProcessGrid((2, 3))),
        Descriptor((20, 11), (2, 5), SQUARE),
    ),
    "three dimensions": (
        Descriptor((4, 6, 5), None, ProcessGrid((2, 2, 1))),
        Descriptor((4, 6, 5), (1, 2, 2), ProcessGrid((2, 2)), axes=(None, 0, 1)),
    ),
    "one dimension": (
        Descriptor((40,), 3, ProcessGrid((5,))),
        Descriptor((40,), 7, ProcessGrid((3,), ranks=[4, 9, 0])),
    ),
    "empty": (Descriptor((0, 4), 2, SQUARE), Descriptor((0, 4), 3, ProcessGrid((2, 2)))),
    "the same": (Descriptor((9, 9), 2, SQUARE), Descriptor((9, 9), 2, SQUARE)),
}


def counted(a: Descriptor, b: Descriptor, mask: Any = True) -> Counter[tuple[int, int]]:
    """Elements from each rank to each, by the owner of every element."""
    before, after = a.owner_map(), b.owner_map()
    mask = np.broadcast_to(mask, before.shape)
    return Counter(zip(before[mask].tolist(), after[mask].tolist(), strict=True))


def check(plan: psr.Redistribution, totals: Totals, pairs: Counter[tuple[int, int]], item: int = 8) -> None:
    """Totals, messages of each rank and the table of the heat map, against the pairs."""
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
    rows, table = traffic_table(plan)
    assert rows.tolist() == ranks
    assert {(ranks[p], ranks[q]): int(table[p, q]) for p, q in zip(*np.nonzero(table), strict=True)} == dict(pairs)


@pytest.mark.parametrize("name", PAIRS)
def test_figures_are_those_of_every_element(name: str) -> None:
    a, b = PAIRS[name]
    plan = psr.redistribute(a, b)
    assert isinstance(plan, PaperPlan)
    check(plan, plan.report(), counted(a, b))
    assert plan.report("c8").bytes_sent == plan.report().bytes_sent


@pytest.mark.parametrize("schedule", ["natural", "ring", "stepwise", "optimal", "preemptive"])
def test_every_schedule_has_the_same_messages(schedule: str) -> None:
    a, b = PAIRS["plain"]
    plan = psr.redistribute(a, b, schedule=schedule, dtype="f4")
    totals = plan.report()
    check(plan, totals, counted(a, b), 4)
    assert totals.schedule == plan.schedule.name == schedule
    if schedule == "natural":
        assert totals.steps is None
        return
    assert totals.steps is not None
    assert totals.steps >= totals.most_messages
    for rank in range(6):  # both sides name one step, and a rank sends once in each
        keys = {m.peer: m.key for m in plan.messages_of(rank)["send"]}
        assert len({*keys.values()}) == len(keys)
        for peer, key in keys.items():
            assert key in [m.key for m in plan.messages_of(peer)["receive"] if m.peer == rank]


def test_transposed() -> None:
    a, b = Descriptor((20, 31), (3, 4), ProcessGrid((2, 3))), Descriptor((31, 20), (5, 2), SQUARE)
    plan = psr.redistribute(a, b, op="T")
    check(plan, plan.report(), counted(a.T, b))


@pytest.mark.parametrize(("uplo", "diag", "op"), [("U", "N", "N"), ("L", "U", "N"), ("U", "N", "T")])
def test_a_triangle(uplo: str, diag: str, op: str) -> None:
    a, b = Descriptor((17, 17), (3, 4), ProcessGrid((2, 3))), Descriptor((17, 17), (5, 2), SQUARE)
    plan = psr.redistribute(a, b, uplo=uplo, diag=diag, op=op)
    mask = {"U": np.triu, "L": np.tril}[uplo](np.ones((17, 17), bool), {"U": 1, "L": -1}[uplo] * (diag == "U"))
    moved, mask = (a, mask) if op == "N" else (a.T, mask.T)
    check(plan, plan.report(), counted(moved, b, mask))


def test_layouts_with_copies() -> None:
    a = Descriptor((12, 9), (3, 2), ProcessGrid((2, 2)), axes=(0, None))  # two copies of each half of the rows
    b = Descriptor((12, 9), (2, 4), ProcessGrid((2, 3), ranks=[[4, 0, 2], [1, 5, 9]]))
    for start, end in ((a, b), (b, a), (a, a)):
        plan = psr.redistribute(start, end)
        totals, pairs = plan.report(), Counter[tuple[int, int]]()
        for rank in range(10):
            messages = plan.messages_of(rank)
            pairs.update({(rank, m.peer): m.size for some in ("send", "copy") for m in messages[some]})
            assert sum(m.size for some in ("receive", "copy") for m in messages[some]) == np.prod(
                end._seen_by(rank).local_shape
            )
        check(plan, totals, pairs)
        assert totals.bytes_sent + totals.bytes_copied == 8 * 12 * 9 * end.copies


def test_a_mirror_image_and_layouts_on_the_way() -> None:
    a, b = Descriptor((17, 17), (3, 4), ProcessGrid((2, 3))), Descriptor((17, 17), (5, 2), ProcessGrid((3, 2)))
    filled = psr.redistribute(a, b, uplo="U", fill="symmetric").report()
    assert isinstance(filled, FilledReport)
    upper = np.triu(np.ones((17, 17), bool))
    for move, pairs in zip(filled.moves, (counted(a, b, upper), counted(a.T, b, ~upper)), strict=True):
        assert isinstance(move, Totals)
        assert move.bytes_sent == 8 * sum(size for (p, q), size in pairs.items() if p != q)
    plan = psr.redistribute(a, b, via="dimensions")
    report = plan.report()
    assert isinstance(report, ChainReport)
    stops = [a, *(leg.desc_b for leg in plan.legs)]
    assert len(report.legs) == len(stops) - 1 == 2
    for leg, (start, end) in zip(report.legs, itertools.pairwise(stops), strict=True):
        assert leg.bytes_sent == 8 * sum(size for (p, q), size in counted(start, end).items() if p != q)
    assert report.direct.bytes_sent == 8 * sum(size for (p, q), size in counted(a, b).items() if p != q)
    held = Counter(stops[1].owner_map().ravel().tolist())
    assert report.between_bytes == 8 * max(held.values())


def test_a_million_processes_on_each_side_take_less_than_a_second() -> None:
    grid = ProcessGrid((1024, 1024))
    seconds = []
    for _ in range(3):
        start = time.process_time()
        a, b = (Descriptor((10**6, 10**6), block, grid) for block in (64, 100))
        plan = psr.redistribute(a, b)
        totals = plan.report()
        seconds.append(time.process_time() - start)
    assert min(seconds) < 1
    assert totals.ranks == 2**20
    assert totals.bytes_sent + totals.bytes_copied == 8 * 10**12
    messages = plan.messages_of(123_456)
    assert sum(m.size for some in ("send", "copy") for m in messages[some]) == np.prod(
        a.local_shape_of(grid.coords_of(123_456) or ())
    )
    assert len(plan._repr_html_()) < 300_000


def test_figures_of_more_elements_than_64_bits_count_are_refused() -> None:
    """They were wrong, or negative; an array of as many as that is fine."""
    for n, fits in ((2**31, True), (5 * 10**9, False)):
        a, b = (Descriptor((n, n), 8, ProcessGrid(shape)) for shape in ((4, 4), (2, 8)))
        plan = psr.redistribute(a, b)
        if fits:
            assert plan.report().bytes_sent + plan.report().bytes_copied == 8 * n**2
        else:
            with pytest.raises(ScheduleError, match=r"more than 2\^63 elements, which 64 bits cannot count"):
                plan.report()


def test_what_cannot_be_done_on_paper_says_what_is_missing() -> None:
    plan = psr.redistribute(*PAIRS["plain"])
    for ask in (lambda: plan(np.zeros((4, 4))), lambda: plan.start(None), lambda: plan.profile()):
        with pytest.raises(
            DescriptorError, match=r"on paper and cannot be run: .* ProcessGrid\(\(2, 3\), comm\) and Proc"
        ):
            ask()
    with pytest.raises(DescriptorError, match=r"messages_of\(rank\) has those of any rank"):
        plan.messages  # noqa: B018
    with pytest.raises(DescriptorError, match="on paper: make its descriptors on a communicator"):
        psr.batch(plan, plan)
    with pytest.raises(DescriptorError, match="a redistribution keeps the global shape"):
        psr.redistribute(PAIRS["plain"][0], PAIRS["disjoint"][1])
    with pytest.raises(ScheduleError, match="'nonsense'"):
        psr.redistribute(*PAIRS["plain"], schedule="nonsense")
    large = psr.redistribute(*(Descriptor((99, 99), k, ProcessGrid((20, 20))) for k in (2, 3)), uplo="U")
    with pytest.raises(ScheduleError, match="too many for a table of all pairs of a triangle"):
        large.report()
    large = psr.redistribute(*(Descriptor((10**6,), k, ProcessGrid((5000,))) for k in (2, 3)))
    with pytest.raises(ScheduleError, match="5,000 x 5,000 pairs along a dimension"):
        large.report()
    assert "PaperPlan(Descriptor(20 x 31, " in repr(plan)


def test_the_command_line_has_the_same_figures(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    words = ["plan", "--shape", "480", "600", "--from", "4x2:3x4", "--to", "2x4:5x3+3", "--json", str(file)]
    assert cli.run(words) == 0
    written = json.loads(file.read_text())
    b = Descriptor((480, 600), (5, 3), ProcessGrid((2, 4), ranks=3 + np.arange(8).reshape(2, 4)))
    a = Descriptor((480, 600), (3, 4), ProcessGrid((4, 2)))
    totals = psr.redistribute(a, b).report()
    assert (written["bytes_between_ranks"], written["messages_between_ranks"]) == (totals.bytes_sent, totals.sends)
    direct = written["ways"][0]
    assert (direct["bytes"], direct["fewest_steps"]) == (totals.bytes_sent, totals.most_messages)
    assert direct["busiest_bytes"] == max(totals.most_sent, totals.most_received)
