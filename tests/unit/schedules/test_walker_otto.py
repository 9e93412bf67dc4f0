"""Walker and Otto's tables, theorems and conditions."""

from __future__ import annotations

import itertools
import math
import re
from pathlib import Path

import numpy as np
import pytest

from pyscalapack_redist import ScheduleError
from pyscalapack_redist.intersections.runs import by_process, in_slot
from pyscalapack_redist.layout.axis import BlockCyclic
from pyscalapack_redist.schedules import CommunicationGrid, between, build, walker_otto

# The figures as printed, by their names, from the file beside this one.
_, *FIGURES = re.split(r"^# .*$", Path(__file__).with_name("figures_walker_otto.txt").read_text(), flags=re.MULTILINE)
FIG_6, FIGS_8_9 = (dict(re.findall(r"^(\w)\n((?:[ \d].*\n)+)", figure, re.MULTILINE)) for figure in FIGURES)
UP_TO = [20, pytest.param(64, marks=pytest.mark.long)]


def printed(text: str) -> list[list[int]]:
    return [[int(text) for text in row.split()] for row in text.strip().splitlines()]


@pytest.mark.parametrize(("P", "K", "figure"), [(4, 3, FIG_6), (16, 12, FIGS_8_9)])
def test_every_entry_of_the_figures(P: int, K: int, figure: dict[str, str]) -> None:
    tables = walker_otto(P, K)
    for name, text in figure.items():
        assert getattr(tables, name).tolist() == printed(text), name


@pytest.mark.parametrize("most", UP_TO)
def test_compatibility_theorems_and_permutation_conditions(most: int) -> None:
    for P, K in itertools.product(range(1, most + 1), repeat=2):
        w = walker_otto(P, K)
        k, process = np.arange(K)[:, None], np.arange(P)[None]
        assert (w.B[k, w.C % P] == w.C).all(), (P, K, "theorem I")
        assert (w.C[k, w.B // K] == w.B).all(), (P, K, "theorem II")
        assert (np.sort(w.B, axis=None) == np.arange(P * K)).all()
        assert (np.sort(w.q, axis=1) == process).all(), (P, K, "first condition")
        assert (process == w.B % P).all()
        owed = np.arange(K)[:, None] * P + process  # blocks that a process holds
        assert (np.sort(w.B, axis=0) == owed).all()
        if K <= P:
            ordered = np.sort(w.q, axis=0)
            assert (np.diff(ordered, axis=0) > 0).all(), (P, K, "second condition")
        assert (w.p == w.C % P).all()
        assert (w.t == w.C - K * process).all()
        assert (w.b * P + process == w.B).all()


@pytest.mark.parametrize("most", UP_TO)
def test_every_schedule_is_valid_and_of_least_cost(most: int) -> None:
    for P, K in itertools.islice(itertools.product(range(1, most + 1), repeat=2), 0, None, 7):
        for r, s in ((3, 3 * K), (2 * K, 2)):
            schedule = build("walker-otto", CommunicationGrid(P, P, r, s))
            schedule.validate()
            assert schedule.number_of_steps == K
            assert schedule.total_cost == max(r, s)
            assert schedule.certificate == "equals the lower bound"
            if math.gcd(P, K) == 1 and K <= P:  # Remark 1 of Desprez et al.
                by_class = build("classes", CommunicationGrid(P, P, r, s))
                assert (by_class.number_of_steps, by_class.total_cost) == (K, max(r, s))


@pytest.mark.parametrize("most", UP_TO)
def test_phases_are_equation_2(most: int) -> None:
    for P, K in itertools.islice(itertools.product(range(1, most + 1), repeat=2), 0, None, 13):
        for r, s in ((3, 3 * K), (2 * K, 2)):
            grid = CommunicationGrid(P, P, r, s)
            schedule = build("phases", grid)
            schedule.validate()
            assert schedule.number_of_steps == K
            if r < s:
                sent = [[int(q) for _, q, _ in schedule.of_sender(p)] for p in range(P)]
                assert sent == [[(k * P + p) // K for k in range(K)] for p in range(P)]
                if K <= P:
                    assert (schedule.table() == build("natural", grid).table()).all()
    hot = build("phases", CommunicationGrid(4, 4, 1, 20))
    assert not hot.one_port
    assert hot.steps[0][:, 1].tolist() == [0] * 4, "all begin with process 0"
    assert hot.lower_bound is None


def test_random_phases_are_those_of_section_2_2_2() -> None:
    """K phases, in which each process sends each of its K local blocks once, in an order of its own."""
    for P, K in ((4, 3), (3, 20), (5, 5)):
        for r, s in ((2, 2 * K), (2 * K, 2)):
            schedule, again = (build("random-phases", CommunicationGrid(P, P, r, s), seed=7) for _ in range(2))
            assert schedule.number_of_steps == K
            assert sum(map(len, schedule.steps)) == P * K
            assert [step.tolist() for step in schedule.steps] == [step.tolist() for step in again.steps]
            for p in range(P):
                rows = (schedule.of_sender if r < s else schedule.of_receiver)(p).tolist()
                assert [step for step, *_ in rows] == list(range(K))
                assert sorted(q for _, q, _ in rows) == sorted((k * P + p) // K for k in range(K))
    tables = [build("random-phases", CommunicationGrid(8, 8, 1, 8), seed=seed).table() for seed in (0, 1)]
    assert (tables[0] != tables[1]).any()


@pytest.mark.parametrize("name", ["walker-otto", "phases", "random-phases"])
@pytest.mark.parametrize(("r", "s", "start"), [(2, 14, 0), (14, 2, 0), (3, 3, 5), (2, 10, 6)])
def test_slots_divide_what_a_pair_shares(name: str, r: int, s: int, start: int) -> None:
    """Each element of a pair is in the slot of one step, which is as long as the step says."""
    for P, n in itertools.product((2, 3, 4), (0, 1, 7, 95, 200)):
        a, b = (BlockCyclic(n, block, P, offset=start) for block in (r, s))
        schedule = build(name, between(a, b))
        i = np.arange(n)
        for p in range(P):
            whole = {shared.remote: shared for shared in by_process(a, b, p)}
            left = i[a.owner(i) == p] if n else i
            for step, q, length in schedule.of_sender(p).tolist():
                slot = schedule.slot(p, q, step)
                assert slot is not None
                inside = i[(i - slot.first) % slot.period < slot.length]
                part = in_slot(a, b, whole[q], p, slot)
                assert (part.total, part.first) == (length, inside[0])
                assert part.copied.expand().tolist() == [[a.local_index(k), b.local_index(k)] for k in inside.tolist()]
                left = np.setdiff1d(left, inside)
            assert not left.size


@pytest.mark.parametrize(
    ("grid", "words"),
    [
        ((4, 5, 1, 3), ["needs P = Q", "P = 4 and Q = 5", "use classes, stepwise or optimal"]),
        ((4, 4, 2, 6, None, 3), ["boundaries", "offset = 3 is no multiple of 2"]),
    ],
)
def test_conditions_that_fail_are_named(grid: tuple[int, ...], words: list[str]) -> None:
    with pytest.raises(ScheduleError) as error:
        build("walker-otto", CommunicationGrid(*grid))
    assert all(word in str(error.value) for word in words)


@pytest.mark.parametrize(
    ("P", "K", "word"), [(0, 3, "P = 0"), (4, -1, "K = -1"), (4, 1.5, "K = 1.5"), (2**20, 2**20, "of_sender")]
)
def test_bad_sizes_are_named(P: int, K: int, word: str) -> None:
    with pytest.raises(ScheduleError, match=word):
        walker_otto(P, K).B  # noqa: B018
