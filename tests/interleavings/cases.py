"""What is explored of the engine: scripts of uses of plans, on nodes of several kinds, with what may go wrong.

A script is drawn for each schedule, from its choices. All ranks start its steps in the same order; when they wait for what
they have started, and how, each decides for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pyscalapack_redist import Descriptor, ProcessGrid, batch, redistribute
from pyscalapack_redist.comm import progress, series
from pyscalapack_redist.comm.group import Group
from pyscalapack_redist.comm.vote import Statement, Vote
from pyscalapack_redist.exchanges import Cutting

from .explore import Case
from .ranks import FAULTS, MOVING, EngineWorld, Rank, Setting, Use
from .world import EAGER, QUIET, Choices

# Nodes of the ranks: all on one, each on its own, two of three on one, and two by two; and how cases there are called.
PLACES = {
    "two": (0, 0),
    "three": (0, 0, 0),
    "apart": (0, 1),
    "three apart": (0, 1, 2),
    "mixed": (0, 0, 1),
    "pairs": (0, 1, 1, 0),
}


class Step(NamedTuple):
    """What all ranks do next, each in its own way.

    Attributes
    ----------
    plan : str
        Name of the plan, or "agree".
    ways : tuple of str
        By rank: "call", "start", "profile", or "agree" on a rank that does something else.
    orders : tuple of str
        By rank: of its arrays, see `Use`.
    knows_dtype : tuple of bool
        Whether each rank's plan has the dtype.
    faults : tuple of str or None
        By rank: one of FAULTS.
    """

    plan: str
    ways: tuple[str, ...]
    orders: tuple[str, ...]
    knows_dtype: tuple[bool, ...]
    faults: tuple[str | None, ...]


class Kind(NamedTuple):
    """What scripts of a case are like.

    Attributes
    ----------
    plans : tuple of str
        To choose from.
    steps : tuple of int
        Fewest and most.
    ways : tuple of str
        To choose from.
    faults : tuple of str
        The same.
    mixed : bool
        Whether ranks may differ in orders, in what they leave away and in whether they know the dtype.
    strange : bool
        Whether a rank may do something else than the others.
    """

    plans: tuple[str, ...] = ("plan",)
    steps: tuple[int, int] = (1, 3)
    ways: tuple[str, ...] = ("call",)
    faults: tuple[str, ...] = ()
    mixed: bool = True
    strange: bool = False


def script_of(kind: Kind, size: int, choose: Callable[[int], int]) -> list[Step]:
    """A script of that kind."""
    ranks = range(size)
    fewest, most = kind.steps
    script = []
    for _ in range(fewest + choose(most - fewest + 1)):
        plan = kind.plans[choose(len(kind.plans))]
        way = kind.ways[choose(len(kind.ways))]
        ways = [way] * size
        orders, knows_dtype, faults = ["FF"] * size, [False] * size, [None] * size
        if kind.mixed:
            orders = [ORDERS[choose(len(ORDERS))] for _ in ranks]
            knows_dtype = [bool(choose(2)) for _ in ranks]
            if way in ("call", "start") and choose(3) == 0:
                ways = [("call", "start", "profile")[choose(3)] for _ in ranks]
        if kind.faults and choose(2) == 0:
            faults[choose(size)] = kind.faults[choose(len(kind.faults))]
        if kind.strange and choose(3) == 0:
            ways[choose(size)] = "agree" if way != "agree" else "call"
        script.append(Step(plan, tuple(ways), tuple(orders), tuple(knows_dtype), tuple(faults)))
    return script


ORDERS = ("FF", "CC", "CF", "FC", "C", "F")
LAST = 90  # numbers of the uses after the script


def program(rank: Rank) -> None:
    """What a rank does: the script, then all once more as it should be."""
    play(rank)
    rank.persistently(rank.drain)
    again(rank)


def play(rank: Rank) -> None:
    """The script."""
    choose = rank.world.choose
    flying: list[Use] = []
    for number, step in enumerate(rank.world.script):
        if step.plan not in rank.plans:
            continue
        me = rank.rank
        if step.ways[me] == "agree":
            rank.did[number] = agree(rank, rank.plans[step.plan].plan.group, step.faults[me])
            continue
        name = step.plan + "+" * (step.knows_dtype[me] and step.plan + "+" in rank.plans)
        use = Use(rank, rank.plans[name], number, step.orders[me], step.faults[me])
        if step.ways[me] == "start":
            use.start()
            flying.append(use)
        else:
            use.call(profiled=step.ways[me] == "profile")
        if rank.world.restless and flying and choose(3) == 2:
            message = flying[choose(len(flying))]
            if choose(2):
                message.test()
            else:
                message.wait()
                flying.remove(message)
    while flying:
        message = flying.pop(choose(len(flying)))
        if choose(2):
            while not message.test():
                rank.persistently(progress.pause)
        message.wait()


def again(rank: Rank) -> None:
    """All plans can be used, and nothing is left over."""
    for k, name in enumerate(rank.world.last):
        if name in rank.plans and rank.plans[name].plan.group.abort_reason is None:
            Use(rank, rank.plans[name], LAST + k, ("FF", "CC")[(k + rank.rank) % 2]).call()
        rank.persistently(rank.drain)
    assert not progress.tasks_in_flight(), progress.tasks_in_flight()


def freeing(rank: Rank) -> None:
    """The same, and then all communicators are freed."""
    program(rank)
    free_all(rank, sorted(rank.world.setting.teams))


def free_all(rank: Rank, teams: Sequence[tuple[int, ...]]) -> None:
    """Free the communicators of these ranks, those that this rank is in."""
    for members in teams:
        if rank.rank in members:
            rank.free(members)


def once_agreed(rank: Rank) -> None:
    """The script with a plan that the first call binds, and then all communicators are freed."""
    play(rank)
    free_all(rank, sorted(rank.world.setting.teams))


def bound_by_the_first(world: EngineWorld) -> None:
    """Until a call of a plan is good they all fail alike. Later a rank with an error fails in that call, and the others at most
    so many calls of the plan later; then none is good any more. A call before it is good, unless a rank hears of the error
    before it begins that call. Nothing is left over.
    """
    world.returned()
    reasons = {plan.plan.group.abort_reason for rank in world.ranks for plan in rank.plans.values()} - {None}
    if reasons:  # a rank that is interrupted twice before its call begins leaves the others alone
        assert len(set(world.interrupted)) < len(world.interrupted), reasons
        assert any("KeyboardInterrupt" in str(reason) for reason in reasons), reasons
        after_abort(world)
        return
    assert not world.unreceived(), world.unreceived()
    assert not world.never_freed, f"never freed by {world.never_freed}"
    for number, step in enumerate(world.script):
        if "agree" in step.ways:
            outcomes = {str(rank.did[number]) for rank in world.ranks} - {"unknown"}
            assert len(outcomes) < 2, f"agreement {number}: {outcomes}"
            assert any(step.faults) or world.interrupted or outcomes == {"done"}, f"agreement {number}: {outcomes}"
    for name in dict.fromkeys(step.plan for step in world.script):
        _bound_by_its_first(world, name)


def _bound_by_its_first(world: EngineWorld, name: str) -> None:
    """The same for one of the plans, of which its own calls count."""
    numbers = [k for k, step in enumerate(world.script) if step.plan == name and "agree" not in step.ways]
    uses = [[rank.did[number] for number in numbers] for rank in world.ranks]
    became = [[_settled(use) for use in uses_of_rank] for uses_of_rank in uses]
    by_call = list(zip(*became, strict=True))
    if any(set(outcomes) == {"unknown"} for outcomes in by_call):
        return  # nobody can tell whether that was the first good call
    first = next((call for call in range(len(numbers)) if "done" in by_call[call]), len(numbers))
    failed = None
    voted = all(rank.plans[name].bounds.series is None for rank in world.ranks)  # in each call
    faulty = [call for call, number in enumerate(numbers) if world.script[number].faults != (None,) * len(became)]
    for call, outcomes in enumerate(by_call):
        wrongs = [rank for rank in range(len(uses)) if uses[rank][call].fault not in (None, "rest")]
        what = f"{name}, call {call}: {became}"
        if call <= first or voted:
            assert len(set(outcomes) - {"unknown"}) < 2, what
            assert not wrongs or "done" not in outcomes, what
        elif failed is None and wrongs:
            failed = call
        if call > first and not world.interrupted:
            assert all(outcomes[rank] == "refused" for rank in wrongs), what
            is_explained = any(voted or first < k <= call for k in faulty) or any(use[call].is_too_late for use in uses)
            assert is_explained or "refused" not in outcomes, what
            assert failed is None or call <= failed + 2 * series.PERIOD or "done" not in outcomes, what
    for outcomes in became:
        later = outcomes[first:]
        if "refused" in later and not voted:
            assert "done" not in later[later.index("refused") :], f"{name}: {became}"


def freeing_meanwhile(rank: Rank) -> None:
    """Communicators are freed while a transfer on another is in flight, which some wait for before they free, others after."""
    everybody = tuple(range(rank.size))
    pairs = [members for members in sorted(rank.world.setting.teams) if members != everybody]
    use = Use(rank, rank.plans["plan"], LAST)
    if rank.world.choose(2):
        use.start()
    else:
        use.call()
    free_all(rank, pairs)
    use.wait()
    free_all(rank, [everybody])


def freeing_in_flight(rank: Rank) -> None:
    """Communicators are freed while transfers are in flight there: these end then, and can be waited for before and after."""
    uses = [Use(rank, rank.plans["plan"], LAST + k) for k in range(2)]
    for use in uses:
        use.start()
    for use in uses[: rank.world.choose(3)]:
        use.wait()
    free_all(rank, list(rank.world.setting.teams))
    for use in uses:
        use.wait()


def starting_across(rank: Rank) -> None:
    """Uses of plans on several communicators are started, in an order of each rank's own, and waited for in any order."""
    coming = {name: [LAST + 10 * k + call for call in range(3)] for k, name in enumerate(OVERLAPPING) if name in rank.plans}
    uses = []
    while coming:
        name = sorted(coming)[rank.world.choose(len(coming))]
        uses.append(Use(rank, rank.plans[name], coming[name].pop(0)))
        uses[-1].start()
        coming = {name: numbers for name, numbers in coming.items() if numbers}
    while uses:
        uses.pop(rank.world.choose(len(uses))).wait()
    free_all(rank, sorted(rank.world.setting.teams))


def ending(rank: Rank) -> None:
    """One of the first two ranks ends before the last use, which the others do not wait for, or in the middle of it."""
    plan = rank.plans["plan"]
    Use(rank, plan, 0).call()
    use, way = Use(rank, plan, LAST), rank.world.choose(2)
    if rank.rank == len(rank.world.script) % 2:
        if rank.world.script[0].ways[0] == "start":
            use.start()
        plan.plan.group.end()
        return
    if way:
        use.call()
    else:
        use.start()
        use.wait()


def after_ending(world: EngineWorld) -> None:
    """Where the rank has not begun, no other has what it wanted; nobody waits."""
    after_abort(world)
    if world.script[0].ways[0] != "start":
        for rank in world.ranks:
            use = rank.did[LAST]
            assert isinstance(use, Use)
            assert use.outcome in ("not begun", "CollectiveError"), f"rank {rank.rank}: {use.outcome}"


def agree(rank: Rank, group: Group, fault: str | None) -> str:
    """An agreement, with a followup among all ranks."""
    error = ValueError("wrong") if fault else None
    try:
        group.agree(
            Vote(failed=group.failure_code(error), call=77),
            error,
            lambda: [Statement("what is called", 77, "an agreement")],
            lambda outcome: True,
        )
    except KeyboardInterrupt:
        return "unknown"
    except Exception:
        return "refused"
    assert error is None
    return "done"


def same_everywhere(world: EngineWorld) -> None:
    """The same became of each step on all ranks, and what it should; nothing is left over."""
    world.returned()
    left = world.unreceived()
    assert not left, left
    for rank in world.ranks:
        for plan in rank.plans.values():
            assert plan.plan.group.abort_reason is None, f"rank {rank.rank}: {plan.plan.group.abort_reason}"
    for number in sorted(set().union(*(rank.did for rank in world.ranks))):
        ranks = [rank.rank for rank in world.ranks if number in rank.did]
        became = [_settled(world.ranks[rank].did[number]) for rank in ranks]
        outcomes = set(became) - {"unknown"}
        assert len(outcomes) < 2, f"step {number}: {became}"
        if number >= LAST:
            assert "refused" not in outcomes or world.interrupted, f"step {number}: {became}"
        elif wrong(world, number, ranks):
            assert "done" not in outcomes, f"step {number}: {became}"
        elif not any(world.script[number].faults):
            assert "refused" not in outcomes or world.interrupted, f"step {number}: {became}"


def freed_everywhere(world: EngineWorld) -> None:
    """Check that, and that every communicator was freed."""
    same_everywhere(world)
    assert not world.never_freed, f"never freed by {world.never_freed}"


def wrong(world: EngineWorld, number: int, ranks: Sequence[int]) -> bool:
    """Whether all these ranks must refuse a step. For arrays whose kind is known a call takes no more than `out`."""
    step = world.script[number]
    if len({step.ways[rank] == "agree" for rank in ranks}) > 1:
        return True
    did = [world.ranks[rank].did[number] for rank in ranks]
    return any(
        step.faults[rank] if isinstance(use, str) else use.fault not in (None, "rest")
        for rank, use in zip(ranks, did, strict=True)
    )


def _settled(use: Use | str) -> str:
    return use if isinstance(use, str) else use.settle()


def after_death(world: EngineWorld) -> None:
    """Elements are right where no error was raised; only those wait for ever that cannot know."""
    for rank, error in enumerate(world.errors):
        if error is not None and rank not in world.dead:
            raise error
    for rank in world.ranks:
        if rank.rank not in world.dead and rank.rank not in world.waiting:
            for use in rank.did.values():
                _settled(use)
            for plan in rank.plans.values():
                assert not world.waiting or plan.plan.group.abort_reason is None, "other ranks do not know of it"


def after_abort(world: EngineWorld) -> None:
    """Elements are right where no error was raised; and nobody waits."""
    for rank in world.ranks:
        if world.errors[rank.rank] is not None:
            raise world.errors[rank.rank]
        for use in rank.did.values():
            _settled(use)


def case(
    *,
    places: Sequence[int],
    kind: Kind,
    wanted: Callable[[Rank], dict[str, Any]],
    checks: Callable[[EngineWorld], None] = same_everywhere,
    shape: tuple[int, int] = (6, 4),
    last: Sequence[str] | None = None,
    bound: int | None = None,
    program: Callable[[Rank], None] = program,
    scripts: Sequence[Sequence[Step]] = (),
    **options: Any,
) -> Case:
    """A case of scripts of a kind, or of one of `scripts`."""
    setting = Setting(places, wanted, shape)

    def make_world(choices: Choices) -> EngineWorld:
        world = EngineWorld(setting, choices, program, **options)
        if scripts:
            world.script = scripts[world.choose(len(scripts))]
        else:
            world.script = script_of(kind, setting.size, world.choose)
        world.restless = not scripts
        world.last = kind.plans[:2] if last is None else last
        return world

    return Case(make_world, checks, bound)


# Plans


def plan_of(rank: Rank, a: str, b: str, **options: Any) -> Any:
    """A plan from one layout to another, in which all ranks are."""
    return redistribute(rank.layout(a), rank.layout(b), comm=rank.comm, **options)


def usual(a: str = "rows", b: str = "columns", **options: Any) -> Callable[[Rank], dict[str, Any]]:
    """A plan, and the same plan with the dtype."""

    def wanted(rank: Rank) -> dict[str, Any]:
        plan = plan_of(rank, a, b, **options)
        return {"plan": plan, "plan+": plan.for_arrays(plan.desc_a, plan.desc_b, np.dtype(np.float64))}

    return wanted


def bound_plan(rank: Rank) -> dict[str, Any]:
    """A plan that its first call binds."""
    return {"plan": plan_of(rank, "rows", "columns", agree="first")}


def bound_plans(*ways: tuple[str, str]) -> Callable[[Rank], dict[str, Any]]:
    """Plans that their first calls bind, each from a layout to another; names of ranks count from the end if negative."""

    def wanted(rank: Rank) -> dict[str, Any]:
        names = [[str(rank.size + int(name)) if name.startswith("-") else name for name in way] for way in ways]
        return {name: plan_of(rank, *way, agree="first") for name, way in zip(BOUND_PLANS, names, strict=False)}

    return wanted


def bound_and_others(rank: Rank) -> dict[str, Any]:
    """Two plans that their first calls bind, and one on whose calls ranks vote."""
    return {**ALIKE(rank), "third": plan_of(rank, "columns", "rows")}


BOUND_PLANS = ("first", "second", "third")
ALIKE = bound_plans(("rows", "columns"), ("rows", "columns"))
CROSSING = bound_plans(("rows", "columns"), ("columns", "rows"), ("0", "-1"))


def bound_one_way(rank: Rank) -> dict[str, Any]:
    """The same, from the first rank to the last: others neither send nor receive."""
    return {"plan": plan_of(rank, "0", str(rank.size - 1), agree="first")}


def short_pieces(rank: Rank) -> dict[str, Any]:
    """A plan whose messages go in short pieces of many at a time, as on slow links."""
    plans = usual(exchange="windowed", memory_limit=100)(rank)
    for plan in plans.values():
        for stage in plan.plan.stages:
            stage.options = stage.options._replace(cutting=Cutting(16, 3, spread=True))
    return plans


def directions(rank: Rank, exchange: str = "auto") -> dict[str, Any]:
    """Plans with other layouts, among them such that some ranks have no part of one array."""
    last = str(rank.size - 1)
    ways = {"rows to columns": ("rows", "columns"), "columns to rows": ("columns", "rows")}
    ways |= {"to the last": ("rows", last), "from the first": ("0", "columns"), "first to last": ("0", last)}
    plans = {name: plan_of(rank, *way, exchange=exchange) for name, way in ways.items()}
    dtype = np.dtype(np.float64)
    return plans | {
        f"{name}+": plan.for_arrays(plan.desc_a, plan.desc_b, dtype) for name, plan in plans.items()
    }


def packed_directions(rank: Rank) -> dict[str, Any]:
    """The same, with what goes between nodes in one message."""
    return directions(rank, "node-packed")


DIRECTIONS = ("rows to columns", "columns to rows", "to the last", "from the first", "first to last")


def stages(rank: Rank, exchange: str = "auto") -> dict[str, Any]:
    """Plans of several stages, and of several pairs of arrays."""
    last = str(rank.size - 1)
    plan, other = plan_of(rank, "rows", "columns", exchange=exchange), plan_of(rank, "0", last, exchange=exchange)
    return {
        "plan": plan,
        "via": plan_of(rank, "rows", "columns", exchange=exchange, via=[rank.layout(last)]),
        "far": plan_of(rank, "0", last, exchange=exchange, via=[rank.layout("rows"), rank.layout("columns")]),
        "batch": batch(plan, other, plan, exchange=exchange),
    }


def packed_stages(rank: Rank) -> dict[str, Any]:
    """The same, with what goes between nodes in one message."""
    return stages(rank, "node-packed")


STAGES = ("via", "batch", "plan", "far")


def all_and_overlapping(rank: Rank) -> dict[str, Any]:
    """A plan of all ranks, and plans of two ranks each."""
    return {"plan": plan_of(rank, "rows", "columns"), **overlapping(rank)}


def overlapping(rank: Rank, **options: Any) -> dict[str, Any]:
    """Plans of two ranks each; the first and the second share one, and so on."""
    plans = {}
    for low, high in ((0, 1), (1, 2), (0, 2)):
        if rank.rank in (low, high):
            grids = [ProcessGrid(shape, rank.comm, ranks=np.reshape([low, high], shape)) for shape in ((2, 1), (1, 2))]
            rows, columns = rank.world.setting.shape
            a = Descriptor((rows, columns), (rows // 2, columns), grids[0])
            b = Descriptor((rows, columns), (rows, columns // 2), grids[1])
            plans[f"{low} and {high}"] = redistribute(a, b, **options)
    return plans


def bound_overlapping(rank: Rank) -> dict[str, Any]:
    """The same, with plans that their first calls bind."""
    return overlapping(rank, agree="first")


def copying(rank: Rank) -> dict[str, Any]:
    """Plans from and to layouts of which every rank has all."""
    plans = {"to copies": plan_of(rank, "rows", "copies"), "from copies": plan_of(rank, "copies", "columns")}
    plans["copies of one"] = plan_of(rank, "0", "copies")
    return plans | {
        f"{name}+": plan.for_arrays(plan.desc_a, plan.desc_b, np.dtype(np.float64))
        for name, plan in plans.items()
    }


COPYING = ("to copies", "from copies", "copies of one")


def tiling(rank: Rank) -> dict[str, Any]:
    """Plans from and to tiles."""
    plans = {"to tiles": plan_of(rank, "rows", "tiles"), "from tiles": plan_of(rank, "tiles", "columns")}
    return plans | {
        f"{name}+": plan.for_arrays(plan.desc_a, plan.desc_b, np.dtype(np.float64))
        for name, plan in plans.items()
    }


TILING = ("to tiles", "from tiles")


OVERLAPPING = ("0 and 1", "1 and 2", "0 and 2")


def step(
    plan: str, ways: str = "call", *orders: str, knows_dtype: str = "", fault: tuple[int, str] | None = None
) -> Step:
    """A step of two ranks: the same ways on both, orders of each, and which of them know the dtype."""
    faults = [None if fault is None or fault[0] != rank else fault[1] for rank in range(2)]
    both = tuple(orders) if orders else ("FF", "FF")
    return Step(
        plan, tuple((ways.split() * 2)[:2]), both, tuple(str(rank) in knows_dtype for rank in range(2)), tuple(faults)
    )


# Scripts that are gone through in all schedules with few delays.
TURNED = [
    [step("plan", "call", "CC", "CC"), step("plan", "call", "C", "F", knows_dtype="1")],
    [
        step("plan", "call", "CC", "CF"),
        step("plan", "call", "CC", "CC", knows_dtype="1"),
        step("plan", "call", "FC", "CC"),
    ],
    [step("plan", "call", "FF", "CC"), step("plan", "start", "CC", "FF")],
]
REFUSED = [
    [step("plan"), step("plan", "call", fault=(rank, fault)), step("plan", "call", "CC", "FF")]
    for rank in range(2)
    for fault in ("shape", "out")
]
STARTED = [[step("plan", "start", "FF", "CC"), step("plan", "start", "CC", "C")]]

STORM = ("call", "start", "start", "profile")

FREED: dict[str, Any] = {"checks": freed_everywhere, "report_after": 0.05, "program": freeing}
ALONE: dict[str, Any] = {"delays": (QUIET,), "weak": False, "mode": EAGER}  # hardly any messages, and no others
ABORTED: dict[str, Any] = {"checks": after_abort}
ENDING: dict[str, Any] = {"program": ending, "checks": after_ending}
DEATH: dict[str, Any] = {"checks": after_death, "deaths": 1}
ACROSS: dict[str, Any] = {**FREED, "program": starting_across}
IN_FLIGHT: dict[str, Any] = {**FREED, "program": freeing_in_flight}
MEANWHILE: dict[str, Any] = {**FREED, "program": freeing_meanwhile}
JOBS: dict[str, Any] = {"program": freeing, "jobs": [0, 1, 1]}

FINE, BAD = Kind(ways=STORM), Kind(ways=STORM, faults=FAULTS)
FLYING, LATER = Kind(ways=("start",)), Kind(ways=("start",), faults=(MOVING,))
TURNS, ENDS = Kind(("plan",), (2, 4), faults=(MOVING,), mixed=False), Kind(ways=("call", "start"))
STAGED, COPIED, TILED = (Kind(plans, ways=STORM, faults=FAULTS) for plans in (STAGES, COPYING, TILING))
GROUPED = Kind(OVERLAPPING, (2, 5), STORM, FAULTS)
OTHER = Kind(ways=(*STORM, "agree"), faults=FAULTS, strange=True)
AGREED = Kind(ways=(*STORM, "agree"))
VOTE = usual(exchange="bruck")
PACKED = usual(exchange="node-packed")
BOUND: dict[str, Any] = {"program": once_agreed, "checks": bound_by_the_first, "report_after": 0.05}
MANY, MANY_BAD = Kind(steps=(5, 9), ways=STORM), Kind(steps=(4, 9), ways=STORM, faults=FAULTS)
MANY_CALLS = Kind(steps=(6, 12), faults=FAULTS)
TWO, THREE = BOUND_PLANS[:2], BOUND_PLANS
TWO_STARTED, THREE_STARTED = Kind(TWO, (2, 7), ("start",), mixed=False), Kind(THREE, (3, 9), ("start",), mixed=False)
TWO_MIXED, THREE_MIXED = Kind(TWO, (4, 10), STORM), Kind(THREE, (5, 12), STORM)
BESIDE = Kind(THREE, (4, 10), (*STORM, "agree"), FAULTS)
TWO_BAD, THREE_BAD = (kind._replace(faults=FAULTS) for kind in (TWO_MIXED, THREE_MIXED))

# What is tried, where, with what kind of scripts of which plans.
ROWS: list[tuple[str, str, Kind, Callable[[Rank], dict[str, Any]], dict[str, Any]]] = [
    # One use after the other, with arrays that differ from rank to rank.
    ("calls", "two, three, apart, mixed", Kind(), usual(), {}),
    ("calls of several plans", "two", Kind(DIRECTIONS, (2, 5)), directions, {}),
    ("calls of several plans", "mixed", Kind(DIRECTIONS), directions, {}),
    ("calls in pieces", "apart", Kind(), usual(memory_limit=64), {}),
    ("calls in pieces", "mixed", Kind(), usual(memory_limit=128), {}),
    ("calls in short pieces", "apart", Kind(), short_pieces, {}),
    ("calls in short pieces", "three apart", BAD, short_pieces, {}),
    ("calls by messages", "two", Kind(), usual(exchange="nonblocking"), {}),
    ("calls with the vote", "apart, three apart", Kind(), VOTE, {}),
    ("calls after the vote", "three apart", Kind(), usual(exchange="bruck", memory_limit=400), {}),
    ("calls step by step", "apart", Kind(), usual(exchange="synchronized"), {}),
    ("calls, two by two", "pairs", Kind(), usual(), {}),
    ("calls, packed", "mixed, pairs", Kind(), PACKED, {}),
    ("all calls", "two", Kind(), usual(), {"scripts": TURNED, "bound": 2, **ALONE}),
    ("all calls", "apart", Kind(), usual(), {"scripts": TURNED[:1], "bound": 1, "delays": (1, QUIET)}),
    # Several in flight.
    ("in flight", "two, apart, mixed", FLYING, usual(), {}),
    ("in flight, packed", "mixed, pairs", FLYING, PACKED, {}),
    ("many in flight", "two", Kind(DIRECTIONS[:3], (9, 12), ("start",)), directions, {}),
    ("many in flight, packed", "mixed, pairs", Kind(DIRECTIONS, (4, 8), ("start",)), packed_directions, {}),
    ("many in flight", "three", Kind(DIRECTIONS[:2], (9, 11), ("start",)), directions, {}),
    ("more in flight than votes fit", "two", Kind(steps=(17, 20), ways=("start",)), usual(), {}),
    ("all in flight", "two", Kind(), usual(), {"scripts": STARTED, "bound": 1, **ALONE}),
    # What is wrong on one rank.
    ("errors", "two, three, apart, mixed", BAD, usual(), {}),
    ("errors with the vote", "apart, three apart", BAD, VOTE, {}),
    ("errors, two by two", "pairs", BAD, usual(), {}),
    ("errors, packed", "mixed, pairs", BAD, PACKED, {}),
    ("errors in stages, packed", "mixed, pairs", STAGED, packed_stages, {}),
    ("errors in stages", "two, apart, mixed", STAGED, stages, {}),
    ("errors in overlapping groups", "three, three apart", GROUPED, overlapping, {"last": OVERLAPPING}),
    ("all errors", "two", Kind(), usual(), {"scripts": REFUSED, "bound": 2, **ALONE}),
    ("all errors", "apart", Kind(), usual(), {"scripts": REFUSED, "bound": 1, "delays": (1, QUIET)}),
    ("errors while elements move", "two, three, apart, mixed", LATER, usual(), ABORTED),
    ("errors while elements move in calls", "two", TURNS, usual(exchange="nonblocking"), ABORTED),
    ("errors while elements move in calls", "apart", TURNS, usual(exchange="sendrecv"), ABORTED),
    ("errors while elements move with the vote", "three apart", LATER, VOTE, ABORTED),
    ("errors while elements move in short pieces", "three apart", LATER, short_pieces, ABORTED),
    ("errors while elements move, packed", "mixed, pairs", LATER, PACKED, ABORTED),
    # agreement in the first call alone.
    ("agreed once", "two, three, apart, three apart, mixed", MANY_BAD, bound_plan, BOUND),
    ("agreed once, calls", "apart, three apart, mixed", MANY_CALLS, bound_plan, BOUND),
    ("agreed once, one way", "two, apart, three apart, mixed", MANY_CALLS, bound_one_way, BOUND),
    ("agreed once, late", "mixed", MANY, bound_plan, {**BOUND, "late": [2]}),
    ("agreed once, interrupts", "apart, three apart, mixed", MANY_BAD, bound_plan, {**BOUND, "interrupts": 2}),
    ("agreed once, one way, interrupts", "three apart", MANY_BAD, bound_one_way, {**BOUND, "interrupts": 2}),
    ("agreed once, while elements move", "apart, three apart", LATER, bound_plan, ABORTED),
    # Several such plans: first calls in flight together, and calls of several series.
    ("two agreed once, in flight", "apart, mixed", TWO_STARTED, ALIKE, BOUND),
    ("two agreed once", "apart, three apart, mixed", TWO_BAD, ALIKE, BOUND),
    ("two agreed once, late", "apart", TWO_MIXED, ALIKE, {**BOUND, "late": [1]}),
    ("two agreed once, late", "three apart", TWO_BAD, ALIKE, {**BOUND, "late": [0]}),
    ("two agreed once, interrupts", "apart, mixed", TWO_BAD, ALIKE, {**BOUND, "interrupts": 2}),
    ("agreed once beside others", "apart, three apart, mixed", BESIDE, bound_and_others, BOUND),
    ("agreed once beside others, late", "three apart", BESIDE, bound_and_others, {**BOUND, "late": [1]}),
    ("agreed once beside others, interrupts", "three apart", BESIDE, bound_and_others, {**BOUND, "interrupts": 2}),
    ("three agreed once, in flight", "apart, three apart", THREE_STARTED, CROSSING, BOUND),
    ("three agreed once", "three apart", THREE_BAD, CROSSING, BOUND),
    ("three agreed once, late", "mixed", THREE_MIXED, CROSSING, {**BOUND, "late": [2]}),
    ("three agreed once, interrupts", "three apart", THREE_BAD, CROSSING, {**BOUND, "interrupts": 2}),
    ("agreed once, started across communicators", "three, three apart, mixed", Kind(), bound_overlapping, ACROSS),
    # Communicators are freed; ranks ask one another whether they wait, and that is received before.
    ("freed", "two, three apart, mixed", BAD, usual(), FREED),
    ("freed, late", "mixed", FINE, usual(), {**FREED, "late": [2]}),
    ("freed with interrupts", "three apart", BAD, usual(), {**FREED, "interrupts": 2}),
    ("freed while others move", "three, three apart", Kind(), all_and_overlapping, MEANWHILE),
    (
        "freed after errors while elements move",
        "mixed",
        Kind(ways=STORM, faults=(MOVING,)),
        usual(),
        {**FREED, **ABORTED, "last": ()},
    ),
    (
        "freed after errors while elements move in short pieces",
        "three apart",
        LATER,
        short_pieces,
        {**FREED, **ABORTED, "last": ()},
    ),
    ("freed in flight", "three, three apart", Kind(), usual(), IN_FLIGHT),
    ("freed in flight with the vote", "three apart", Kind(), VOTE, IN_FLIGHT),
    ("freed, packed", "mixed, pairs", BAD, PACKED, FREED),
    ("freed in flight, packed", "mixed, pairs", Kind(), PACKED, IN_FLIGHT),
    ("freed in flight in short pieces", "three apart", Kind(), short_pieces, IN_FLIGHT),
    ("a rank ends", "two, three, mixed", ENDS, usual(), ENDING),
    ("a rank ends with the vote", "mixed", ENDS, VOTE, ENDING),
    ("a rank ends, packed", "mixed", ENDS, PACKED, ENDING),
    ("connection ends", "three, three apart", BAD, usual(), {**FREED, **JOBS}),
    ("connection ends, late", "mixed", FINE, usual(), {**FREED, **JOBS, "late": [2], "places": (0, 1, 1)}),
    ("connection ends with a death", "mixed", FINE, usual(), {**DEATH, **JOBS, "victims": [0], "places": (0, 1, 1)}),
    # Interrupts.
    ("interrupts", "two", FINE, usual(), {"interrupts": 2}),
    ("interrupts", "three", BAD, usual(), {"interrupts": 3}),
    ("interrupts", "apart, mixed", BAD, usual(), {"interrupts": 2}),
    ("interrupts of calls", "two", Kind(), usual(exchange="windowed", memory_limit=64), {"interrupts": 2}),
    ("interrupts in short pieces", "three apart", BAD, short_pieces, {"interrupts": 2}),
    ("interrupts with the vote", "three apart", BAD, VOTE, {"interrupts": 2}),
    ("interrupts, packed", "mixed, pairs", BAD, PACKED, {"interrupts": 2}),
    ("interrupts of agreements", "pairs", AGREED, usual(), {"interrupts": 2}),
    ("interrupts in stages", "two", STAGED, stages, {"interrupts": 2}),
    ("interrupts of agreements", "two, apart", AGREED, usual(), {"interrupts": 2}),
    # Ranks that are late, or do something else than the others.
    ("late", "two", FINE, usual(), {"late": [1]}),
    ("late", "mixed", FINE, usual(), {"late": [0]}),
    ("late, packed", "pairs", FINE, PACKED, {"late": [1]}),
    ("something else", "two, apart, mixed, pairs", OTHER, usual(), {}),
    ("something else, packed", "pairs", OTHER, PACKED, {}),
    ("something else with the vote", "three apart", OTHER, VOTE, {}),
    # Layouts of which several ranks have an element, and of which ranks have several arrays or none.
    ("copies", "two, mixed", COPIED, copying, {}),
    ("interrupts of copies", "three", COPIED, copying, {"interrupts": 2}),
    ("copies while elements move", "two", Kind(COPYING, ways=("start",), faults=(MOVING,)), copying, ABORTED),
    ("tiles", "two, mixed", TILED, tiling, {}),
    ("interrupts of tiles", "three", TILED, tiling, {"interrupts": 2}),
    ("tiles while elements move", "two", Kind(TILING, ways=("start",), faults=(MOVING,)), tiling, ABORTED),
    # Deaths.
    ("death", "two, three", BAD, usual(), DEATH),
    ("death", "mixed", FINE, usual(), {**DEATH, "victims": [0, 1], "expected_to_wait": [2]}),
    ("death, packed", "mixed", FINE, PACKED, {**DEATH, "victims": [0, 1], "expected_to_wait": [2]}),
    ("death in stages", "three", STAGED, stages, DEATH),
    ("death with copies", "three", COPIED, copying, DEATH),
    ("death with tiles", "three", TILED, tiling, DEATH),
]

CASES = {
    f"{name}, {where}": case(**{"places": PLACES[where], **options}, kind=kind, wanted=wanted)
    for name, places, kind, wanted, options in ROWS
    for where in places.split(", ")
}
