"""Orders without barriers: times against an event simulation, least times against all orders, certificates and hosts."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from graphs import seeds, some_grids, some_matrices
from hypothesis import example, given
from hypothesis import strategies as st

from pyscalapack_redist.schedules import (
    CommunicationGrid,
    LengthMatrix,
    MessageGraph,
    OpenShopSchedule,
    build,
    completion_time,
    port_bound,
    timetable,
)
from pyscalapack_redist.schedules.open_shop import PortMessages

startups = st.sampled_from([0.0, 0.5, 1.0, 3.0, 0.1, 100.0])
hosts_of_six = st.lists(st.integers(0, 3), min_size=6, max_size=6)


def first_seven(seed: int) -> np.ndarray:
    """A table of up to 3 x 3 messages, of which only the first seven are any."""
    lengths = np.random.default_rng(seed).integers(0, 6, (1 + seed % 3, 1 + seed // 3 % 3))
    places = np.argwhere(lengths)[7:]
    lengths[tuple(places.T)] = 0
    return lengths


tiny = seeds.map(first_seven)


def made(grid: MessageGraph, **options: object) -> OpenShopSchedule:
    found = build("open-shop", grid, **options)
    assert isinstance(found, OpenShopSchedule)
    return found


def least_time(lengths: np.ndarray, startup: float) -> float:
    """The least of all orders in which messages could be begun, one by one as early as possible."""
    messages = [(int(p), int(q), startup + float(lengths[p, q])) for p, q in np.argwhere(lengths)]
    best = math.inf
    for order in itertools.permutations(messages):
        free: dict[tuple[str, int], float] = {}
        for p, q, duration in order:
            ports = ("out", p), ("in", q)
            end = max(free.get(port, 0.0) for port in ports) + duration
            free.update(dict.fromkeys(ports, end))
        best = min(best, max(free.values(), default=0.0))
    return best


@given(
    some_grids | some_matrices,
    st.sampled_from(["caterpillar", "ring", "stepwise", "greedy", "natural"]),
    startups,
)
def test_nobody_waits_for_more_than_the_two_processes(grid: MessageGraph, name: str, startup: float) -> None:
    schedule = build(name, grid)
    table = timetable(schedule, startup)
    assert table.messages.tolist() == [row for step in schedule.steps for row in step.tolist()]
    assert table.completion == completion_time(schedule, startup) >= port_bound(grid, startup) - 1e-6
    if schedule.one_port:
        assert table.completion <= schedule.total_cost + startup * schedule.number_of_steps + 1e-6
    free: dict[tuple[str, int], float] = {}
    for (p, q, length), start, end in zip(table.messages.tolist(), table.start, table.end, strict=True):
        ports = ("out", p), ("in", q)
        assert start == max(free.get(port, 0.0) for port in ports)
        assert end == pytest.approx(start + startup + length)
        free.update(dict.fromkeys(ports, end))
    apart = np.arange(grid.P), grid.P + np.arange(grid.Q)  # a host for each process changes nothing
    if schedule.one_port:
        assert timetable(schedule, startup, apart).start == pytest.approx(table.start)
    assert port_bound(grid, startup, apart) == pytest.approx(port_bound(grid, startup))


@given(tiny, startups)
@example(np.array([[1, 1, 1], [1, 1, 2], [1, 0, 0]]), 0.0)
def test_least_times_of_all_orders_are_within_the_bounds(lengths: np.ndarray, startup: float) -> None:
    schedule = made(LengthMatrix(lengths), startup=startup, time_limit=0.05)
    schedule.validate()
    least = least_time(lengths, startup)
    assert schedule.time_bound - 1e-6 <= least <= schedule.time + 1e-6
    assert schedule.time <= 1.5 * least + 1e-6


def assert_fits(transfers: PortMessages, start: np.ndarray, within: float) -> None:
    """Every port has one transfer at a time, and all end by then."""
    assert (start + transfers.duration).max() == pytest.approx(within)
    for side in (transfers.source, transfers.target):
        for port in set(side.tolist()):
            mine = np.flatnonzero(side == port)
            mine = mine[np.argsort(start[mine])]
            assert (start[mine][1:] >= (start + transfers.duration)[mine][:-1] - 1e-6).all()


@given(some_grids | some_matrices, startups)
def test_open_shop_is_no_worse_than_other_orders(grid: MessageGraph, startup: float) -> None:
    found = made(grid, startup=startup, time_limit=0.05)
    found.validate()
    assert found.time == completion_time(found, startup)
    assert port_bound(grid, startup) - 1e-6 <= found.time_bound <= found.time + 1e-6
    assert found.time < 2 * port_bound(grid, startup) or not grid.lengths.any()
    assert found.time <= completion_time(build("stepwise", grid), startup) + 1e-6
    assert found.certificate.startswith(f"{found.time:g} without barriers: ")


@pytest.mark.parametrize(
    ("grid", "time", "how"),
    [
        ((15, 6, 2, 3), 15, "equals the lower bound"),
        ((16, 16, 3, 5), 15, "equals the lower bound"),  # folds to one sender and one receiver
        ((12, 8, 4, 3), 6, "equals the lower bound"),
    ],
)
def test_examples_of_the_papers(grid: tuple[int, ...], time: float, how: str) -> None:
    found = made(CommunicationGrid(*grid))
    assert (found.time, found.certificate) == (time, f"{time} without barriers: {how}")


def test_what_is_too_large_to_prove_has_its_gap() -> None:
    grid = LengthMatrix(np.random.default_rng(0).integers(1, 10**6, (12, 12)))
    found = made(grid, time_limit=0.05)
    assert found.time_bound == grid.volume_bound
    gap = math.ceil((found.time / found.time_bound - 1) * 1000 - 1e-9) / 10
    known = f"best found, within {gap:.1f} %" if gap else "equals the lower bound"
    assert found.certificate == f"{found.time:g} without barriers: {known}"


@given(
    seeds,
    hosts_of_six,
    hosts_of_six,
    startups,
    st.sampled_from(["caterpillar", "stepwise", "open-shop"]),
)
def test_hosts_have_one_message_at_a_time(
    seed: int, sources: list[int], targets: list[int], startup: float, name: str
) -> None:
    grid = LengthMatrix(np.random.default_rng(seed).integers(0, 5, (6, 6)))
    hosts = sources, targets
    options = {"hosts": hosts, "startup": startup, "time_limit": 0.1} if name == "open-shop" else {}
    schedule = build(name, grid, **options)
    schedule.validate()
    table = timetable(schedule, startup, hosts)
    assert table.completion >= port_bound(grid, startup, hosts) - 1e-6
    source, target = np.array(sources)[table.messages[:, 0]], np.array(targets)[table.messages[:, 1]]
    away = source != target
    assert (table.end[~away] == table.start[~away]).all()
    if away.any():
        transfers = PortMessages(source[away], target[away], (table.end - table.start)[away])
        assert np.allclose(transfers.duration, startup + table.messages[away, 2])
        assert_fits(transfers, table.start[away], table.end[away].max())
    for column in (0, 1):  # every process keeps its order
        for process in range(6):
            mine = table.messages[:, column] == process
            assert (table.start[mine][1:] >= table.end[mine][:-1] - 1e-6).all()
    if isinstance(schedule, OpenShopSchedule):
        assert schedule.time == table.completion
        assert schedule.time_bound >= port_bound(grid, startup, hosts) - 1e-6


def test_hosts_that_share_a_link_get_an_order_of_their_own() -> None:
    grid = LengthMatrix(np.random.default_rng(5).integers(0, 9, (8, 8)))
    hosts = np.arange(8) // 2, 4 + np.arange(8) // 2
    found = made(grid, hosts=hosts, time_limit=120)
    assert found.time == found.time_bound == port_bound(grid, 0.0, hosts) == 70
    assert completion_time(build("caterpillar", grid), 0.0, hosts) == 82
    together = made(grid, hosts=(np.zeros(8, int), np.zeros(8, int)))
    together.validate()
    assert (together.time, together.time_bound) == (0, 0)
