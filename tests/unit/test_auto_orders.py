"""Orders between hosts: how many steps they have, and what `auto` takes against every order that it may take, simulated.

Run as a program it prints the table: python tests/unit/test_auto_orders.py.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from simulate import Machine, Study, simulated
from simulate.study import messages_of

import pyscalapack_redist as psr
from pyscalapack_redist.schedules import layout_orders as scheduling
from pyscalapack_redist.schedules.layout_orders import fewest_steps, load_between, order_for, search_steps
from pyscalapack_redist.schedules.orders import Scheduled
from pyscalapack_redist.tools.cases import Case

ORDERS = ("caterpillar", "stepwise", "ring")  # the last only where steps are not searched for
PARTS = 300  # of the time of a process's bytes: events within one are taken together
BEHIND = 1.02  # at most, of the best; of a ring, where `auto` does not take it, once 1.05
LINKS = {  # rate in bytes per second, latency, seconds of a processor for each message
    "50mbit": (6.25e6, 20e-6, 0.0),
    "1gbit": (1.25e8, 20e-6, 1e-6),
    "10gbit": (1.25e9, 5e-6, 1e-6),
    "100gbit": (1.25e10, 2e-6, 0.5e-6),
}


class Simulation(NamedTuple):
    shape: tuple[int, ...]
    before: str
    after: str
    link: str


CASES = (
    # slabs
    Simulation((2560, 2560), "1x32:64x64", "32x1:96x96", "10gbit"),
    Simulation((2560, 2560), "1x32:64x64", "32x1:96x96", "50mbit"),
    Simulation((6144, 6144), "1x32:64x64", "32x1:96x96", "100gbit"),
    Simulation((3000, 1000), "1x40:32x32", "40x1:48x48", "1gbit"),
    Simulation((4096, 4096), "1x48:32x32", "48x1:32x32", "10gbit"),
    Simulation((4096, 4096), "1x48:32x32", "48x1:32x32", "50mbit"),
    Simulation((4096, 4096), "64x1:64x64", "1x64:64x64", "1gbit"),
    Simulation((8192, 4096), "1x64:64x64", "8x8:64x64", "10gbit"),
    Simulation((5000, 5000), "1x96:balanced", "96x1:balanced", "10gbit"),
    Simulation((4000, 4000), "1x36:64x64", "6x6:64x64", "10gbit"),
    # pencils and grids of three dimensions
    Simulation((256, 256, 256), "1x8x8:1x32x32", "8x8x1:32x32x1", "10gbit"),
    Simulation((256, 256, 256), "1x8x8:balanced", "8x1x8:balanced", "1gbit"),
    Simulation((120, 120, 120), "1x5x8:8x8x8", "8x5x1:8x12x8", "10gbit"),
    Simulation((120, 120, 120), "1x5x8:8x8x8", "8x5x1:8x12x8", "50mbit"),
    Simulation((192, 192, 192), "1x16x16:12x12x12", "16x16x1:12x12x12", "10gbit"),
    Simulation((128, 128, 128), "4x4x4:4x4x4", "2x4x8:6x6x6", "10gbit"),
    Simulation((128, 128, 128), "4x4x4:4x4x4", "2x4x8:6x6x6", "50mbit"),
    Simulation((240, 240, 240), "2x4x16:8x8x8", "16x4x2:24x24x24", "100gbit"),
    Simulation((160, 160, 160), "4x4x2:16x16x16", "2x2x8:20x20x20", "1gbit"),
    Simulation((256, 256, 256), "16x16x1:16x16x16", "1x16x16:16x16x16", "1gbit"),
    # matrices
    Simulation((3200, 3200), "8x8:64x64", "4x16:96x96", "10gbit"),
    Simulation((3200, 3200), "8x8:64x64", "4x16:96x96", "50mbit"),
    Simulation((4096, 4096), "4x8:64x64", "8x4:96x80", "10gbit"),
    Simulation((6400, 6400), "8x16:64x64", "16x8:48x80", "10gbit"),
    Simulation((6400, 6400), "8x16:64x64", "16x8:48x80", "50mbit"),
    Simulation((6400, 6400), "16x16:64x64", "8x32:96x96", "10gbit"),
    Simulation((8000, 8000), "16x16:64x64", "16x16:80x80", "100gbit"),
    Simulation((3000, 3000), "5x7:32x32", "6x6:48x40", "1gbit"),
    Simulation((5000, 5000), "9x9:50x50", "8x8:64x64", "10gbit"),
    Simulation((2048, 2048), "8x8:64x64", "1x1:64x64", "10gbit"),
    Simulation((12800, 12800), "16x32:64x64", "32x16:64x64", "10gbit"),
    Simulation((25600, 25600), "32x32:64x64", "16x64:96x96", "10gbit"),
    # vectors
    Simulation((4 * 98304,), "64:64", "64:96", "10gbit"),
    Simulation((4 * 98304,), "64:64", "64:96", "100gbit"),
    Simulation((98304,), "64:balanced", "64:16", "10gbit"),
    Simulation((200_000,), "32:100", "28:balanced", "50mbit"),
    Simulation((200_000,), "32:100", "28:balanced", "10gbit"),
    Simulation((1_000_000,), "60:32", "64:29", "10gbit"),
    Simulation((19_200 * 256,), "256:3", "256:5", "10gbit"),
    Simulation((19_200 * 1000,), "1000:3", "1000:5", "10gbit"),
    Simulation((240 * 1000,), "1000:3", "1000:5", "10gbit"),
    Simulation((4096 * 6000,), "4096:balanced", "4000:balanced", "10gbit"),
    Simulation((4096 * 6000,), "4096:balanced", "2048:2000", "1gbit"),
)
QUICK = (0, 3, 12, 22, 32)  # of the default tier


def simulation(one: Simulation) -> Study:
    """What `auto` takes, and every order that it may take."""
    case = Case.read(one.shape, one.before, one.after)
    rate, latency, overhead = LINKS[one.link]
    machine = Machine(case.ranks, 1, rate, latency, overhead)
    at_once = 8 * case.elements / rate / min(case.before.size, case.after.size) / PARTS
    return simulated(case, machine, tuple(f"{order}/windowed" for order in ("auto", *ORDERS)), None, at_once)


def behind(found: Study) -> float:
    """The time of what `auto` takes, in times of the best that it may take."""
    auto, *others = found.predictions
    seconds = {each.schedule: each.seconds for each in others if each.seconds is not None}
    if auto.schedule != "ring":
        del seconds["ring"]
    return seconds[auto.schedule] / min(seconds.values())


@pytest.mark.parametrize(
    "one", [pytest.param(one, marks=[] if k in QUICK else pytest.mark.long) for k, one in enumerate(CASES)]
)
def test_auto_is_never_far_behind_the_best(one: Simulation) -> None:
    assert behind(simulation(one)) <= BEHIND


@pytest.mark.parametrize(
    ("shape", "before", "after", "messages", "steps"),
    [
        ((2048, 3072), "1x32:64x64", "32x1:96x96", 22 * 32 - 22, 31),
        ((6144, 6144), "1x32:64x64", "32x1:96x96", 32 * 31, 31),
        ((3200, 3200), "8x8:64x64", "4x16:96x96", 64 * 16 - 16, 16),
        ((25600, 25600), "32x32:64x64", "16x64:96x96", 16_368, 16),
        ((16, 24, 20), "1x4x2:2x3x5", "4x1x2:2x2x5", 8 * 4 - 8, 3),
    ],
)
def test_fewest_steps_are_those_of_the_whole(
    shape: tuple[int, ...], before: str, after: str, messages: int, steps: int
) -> None:
    case = Case.read(shape, before, after)
    a, b = (layout.descriptor(shape, None) for layout in (case.before, case.after))
    assert load_between(a, b).messages == messages == len(messages_of(case, "caterpillar").size)
    assert fewest_steps(a, b) == steps
    for name in ("stepwise", "greedy"):
        order = order_for(name, a, b, search_steps(name, a, b))
        assert isinstance(order, Scheduled)
        assert order.one_port
        (part,) = order.parts
        part.validate()
        assert (part.number_of_steps == steps) or name == "greedy"


def test_steps_that_are_told_are_as_many() -> None:
    for processes in (1, 2):
        a, b = (psr.Descriptor((9, 7), block, psr.ProcessGrid((processes, 1))) for block in (2, 3))
        found, told = order_for("optimal", a, b), order_for("optimal", a, b, search_steps("optimal", a, b))
        assert found.number_of_steps == told.number_of_steps == processes - 1


def test_products_and_rings_where_there_is_no_time_for_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduling, "MOST_MESSAGES", 10)
    grown, turned = (Case.read((768, 768), "4x4:16x16", after) for after in ("8x8:16x16", "1x16:16x16"))
    for case, steps, searchable in ((grown, 2 * 2, True), (turned, 16, False)):
        a, b = (layout.descriptor(case.shape, None) for layout in (case.before, case.after))
        assert load_between(a, b)[2:] == (False, searchable)
        order = order_for("stepwise", a, b, search_steps("stepwise", a, b))
        assert (order.name, order.number_of_steps) == ("stepwise" if searchable else "ring", steps)


def main() -> None:
    print("| hosts | case | link | messages | `auto` | ms | `auto` / best | others / best |\n" + "|---" * 8 + "|")
    for one in CASES:
        found = simulation(one)
        auto, *others = found.predictions
        best = min(each.seconds for each in others if each.seconds is not None)
        rest = ", ".join(f"{each.schedule} {(each.seconds or 0) / best:.2f}" for each in others)
        row = [
            f"{found.machine.hosts:,}",
            f"{found.case.array}, {one.before} -> {one.after}",
            one.link,
            f"{auto.messages:,}",
        ]
        row += [auto.schedule, f"{1e3 * (auto.seconds or 0):.3g}", f"{(auto.seconds or 0) / best:.3f}", rest]
        print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
