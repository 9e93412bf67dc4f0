"""Ranks of the engine in one process: groups over a world's network and real rings, plans, and what ranks do with them.

A `Setting` is made once for a case, and is as new for every schedule: its rings, groups and plans begin anew, which takes
less time than to make them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from one_rank import OneRank

from pyscalapack_redist import Descriptor, ProcessGrid, Tiles, distributed_array, redistribution
from pyscalapack_redist._kernels import packing
from pyscalapack_redist._kernels.call import Call
from pyscalapack_redist._kernels.ring import Ring, bytes_needed
from pyscalapack_redist.comm import agreement, groups, progress, series, waiting
from pyscalapack_redist.comm import guard as guards
from pyscalapack_redist.comm import node as nodes
from pyscalapack_redist.comm.group import Group
from pyscalapack_redist.comm.log_steps import Rows
from pyscalapack_redist.comm.node import Node, Places
from pyscalapack_redist.comm.series import Series, Settling
from pyscalapack_redist.comm.vote import Vote, Voting
from pyscalapack_redist.engine import batch, bounds, make
from pyscalapack_redist.engine import transfer as transfers
from pyscalapack_redist.engine import use as uses
from pyscalapack_redist.engine.bound import Lent
from pyscalapack_redist.engine.terms import Terms
from pyscalapack_redist.errors import CollectiveError

from . import world as worlds
from .world import Choices, Enumerated, World

AREA = 128  # bytes of a rank's area in a ring: messages go in several chunks
PACKED_AREA = 1024  # of those in which ranks pack what goes to other nodes
SHIFT = 100.0  # between the elements of one use and those of the next
UNTOUCHED = -1.0
TICK = 0.01  # seconds that a turn of a rank takes
FAULTS = ("shape", "dtype", "factor", "out", "rest")  # what can be wrong on one rank; the last two are want of memory
MOVING = "moving"  # no memory while elements move: what nobody can take back


class Private:
    """Stands for a group's private communicator, as one rank sees it."""

    def __init__(self, channel: worlds.Channel) -> None:
        self._channel: worlds.Channel | None = channel
        self.Ibarrier = channel.barrier

    def Free(self) -> None:  # noqa: N802 - as MPI's
        """What the rank has started here must have ended."""
        assert self._channel is not None, "a communicator is freed twice"
        self._channel.close()
        self._channel = None


class ExploredGroup(groups.MPIGroup):
    """A group that knows when a rank has voted: what can fail before that does so until then."""

    def make_collectives(self) -> None:
        """There are none."""

    def communication_error(self) -> str | None:
        """MPI goes on, and no communicator of a user's is freed."""
        return None

    def cast_vote(self, vote: Vote, rows: Rows | None = None) -> Voting:
        _here().no_memory = False
        return super().cast_vote(vote, rows)


class Team:
    """The groups of the same ranks, one on each of them."""

    def __init__(self, setting: Setting, context: int, members: Sequence[int]) -> None:
        self.context, self.members = context, tuple(members)
        places = [setting.nodes[rank] for rank in members]
        self.rings: list[tuple[Ring, bytearray, int, int]] = []
        self.controls: list[memoryview] = []
        self.groups: dict[int, ExploredGroup] = {}
        self.nodes: dict[int, Node] = {}
        memory: dict[int, bytearray] = {}
        packed: dict[int, bytearray] = {}
        for number, rank in enumerate(members):
            here = [k for k, place in enumerate(places) if place == places[number]]
            node = self.nodes[rank] = object.__new__(Node)
            node.number = {rank: k for k, rank in enumerate(here)}
            node.size, node.ring, node.description = len(here), None, "as forced"
            if node.size > 1:
                if places[number] not in memory:
                    memory[places[number]] = buffer = bytearray(bytes_needed(node.size, AREA))
                    self.controls.append(memoryview(buffer)[: len(buffer) - AREA * node.size])
                shared = memory[places[number]]
                node.ring = Ring(shared, node.number[number], node.size, AREA, 0)
                self.rings.append((node.ring, shared, node.number[number], node.size))
            node.whole = node.ring is not None and node.size == len(members)
            node.anywhere = len(set(places)) < len(places)
            node.leaders = np.array([places.index(place) for place in places], np.int64)
            node.voters = sorted(set(node.leaders.tolist()))
            node.rank, node.places, node.packing = number, Places.by(node.leaders), None
            if node.anywhere and not node.whole:
                counts = node.size, len(node.voters), len(members)
                if places[number] not in packed:
                    packed[places[number]] = buffer = bytearray(packing.bytes_needed(*counts, PACKED_AREA))
                    self.controls.append(memoryview(buffer)[: packing.control_bytes(*counts)])
                node.packing = node.make_packing(packed[places[number]], PACKED_AREA)
            node._watched = [(f"rank {members[k]}", (members[k], "")) for k in here if k != number]
            node._names = [f"rank {members[k]}" for k in here]
            self.groups[rank] = object.__new__(ExploredGroup)
        self._zeros = [bytes(len(control)) for control in self.controls]
        self._kept: dict[int, list[tuple[Any, Any]]] = {}

    def begin(self, world: EngineWorld) -> None:
        """Be as new."""
        for control, zeros in zip(self.controls, self._zeros, strict=True):
            control[:] = zeros
        for ring, memory, number, size in self.rings:
            ring.__init__(memory, number, size, AREA, 0)  # type: ignore[misc]
            ring.timeout_ns, ring.closed = 0, False
        for rank, group in self.groups.items():
            channel = world.channel(rank).split(self.context, self.members)
            Group.__init__(group, channel, self.members)
            group.node = self.nodes[rank]
            if group.node.packing is not None:
                group.node.packing.runs = 0
            group.comm, group.resources, group.attachments, group._freed = Private(channel), {}, {}, False  # type: ignore[assignment]
            group._waiting._timeout = world.report_after
            group.watch = world.watches[rank]
            for key, entry in self._kept.get(rank, ()):
                group.plans[key] = replace(entry, for_users=dict(entry.for_users))

    def keep(self) -> None:
        """Have the plans that there are now from the beginning."""
        self._kept = {rank: list(group.plans.items()) for rank, group in self.groups.items()}


class Setting:
    """What a case has from schedule to schedule.

    Parameters
    ----------
    places : sequence of int
        The node of each rank.
    wanted : callable
        wanted(rank: Rank) gives plans by name; it makes the same collective calls on all ranks.
    shape : pair of int
        Of the arrays.
    """

    def __init__(self, places: Sequence[int], wanted: Callable[[Rank], dict[str, Any]], shape: tuple[int, int]) -> None:
        self.nodes, self.size, self.shape = tuple(places), len(places), shape
        self._wanted = wanted
        self.comms = [OneRank(self.size, rank) for rank in range(self.size)]
        self.teams: dict[tuple[int, ...], Team] = {}
        self.plans: list[dict[str, Any]] = []
        self._numbers: dict[tuple[int, int, bool], Any] = {}

    def team(self, members: tuple[int, ...], world: EngineWorld) -> Team:
        """The groups of these ranks."""
        if members not in self.teams:
            self.teams[members] = Team(self, 1 + len(self.teams), members)
            self.teams[members].begin(world)
            self._show(world)
        return self.teams[members]

    def begin(self, world: EngineWorld) -> None:
        """Be as new, but for what costs time to make and has no state."""
        if not self.plans:
            self._prepare()
        for team in self.teams.values():
            team.begin(world)
        for by_name in self.plans:
            for plan in by_name.values():
                plan.bounds.by_factors.clear()
                if plan.bounds.terms is not None:
                    plan.bounds.terms = Terms()
                    plan.bounds.plan = plan.plan.for_arrays(plan.desc_a, plan.desc_b, None)
        self._show(world)

    def _show(self, world: EngineWorld) -> None:
        """Have the world see what changes in the rings."""
        controls = [control for team in self.teams.values() for control in team.controls]
        if any(world.watches):
            world.state = lambda: [len(world.gone), *(control.tobytes() for control in controls)]
        elif len(controls) == 1:
            (only,) = controls
            world.state = only.tobytes
        elif controls:
            world.state = lambda: [control.tobytes() for control in controls]

    def _prepare(self) -> None:
        """Make the plans, in a world of its own."""
        self.plans, plans = [{} for _ in range(self.size)], self.plans
        world = EngineWorld(self, Enumerated(0), self._wanted, weak=False, mode=worlds.EAGER)
        try:
            world.run()
            plans = world.returned()
        finally:
            self.plans = plans
            world.close()
        for team in self.teams.values():
            team.keep()

    def numbers(self, plan: Any, k: int, rank: int, after: bool) -> NDArray[Any] | None:
        """What a rank holds before or after, in an array whose elements are numbered; None outside the grid."""
        pair = plan.plan.pairs[k]
        key = id(plan), k, after
        if key not in self._numbers:
            desc = pair.desc_b if after else pair.desc_a
            whole = np.arange(float(np.prod(desc.shape))).reshape(desc.shape)
            if isinstance(desc, Tiles):
                parts = [whole[window].ravel(order="F") for window in desc.windows]
                self._numbers[key] = plan, np.concatenate([np.empty(0), *parts])
                return self._numbers[key][1]
            rows, columns = ([] if desc.coords is None else desc.global_indices(dim) for dim in range(2))
            self._numbers[key] = plan, None if desc.coords is None else whole[np.ix_(rows, columns)]
        return self._numbers[key][1]


class EngineWorld(World):
    """A world whose ranks are ranks of the engine: its parts that know of time, of processes and of signals are replaced.

    Parameters
    ----------
    report_after : float
        Seconds after which a rank that waits asks the others whether they do, and reports it; 0 for never.
    jobs : sequence of int
        The job of each rank, where there are two: a rank sees when one of the other job has let go of the connection.
    """

    def __init__(
        self,
        setting: Setting,
        choices: Choices,
        program: Callable[[Rank], Any],
        *,
        report_after: float = 0.0,
        jobs: Sequence[int] = (),
        **options: Any,
    ) -> None:
        super().__init__(
            setting.size, choices, lambda rank, channel: program(self.ranks[rank]), progress_after_end=True, **options
        )
        self.setting, self.report_after = setting, report_after
        self.gone: list[int] = []  # ranks that have let go of the connection
        self.never_freed: list[ExploredGroup] = []  # whose communicators could not be freed
        self.watches = [self._watch(rank, jobs) if jobs else None for rank in range(setting.size)]
        self.patience = 6
        self.ranks = [Rank(self, rank) for rank in range(setting.size)]
        self.script: Any = None
        self.last: Any = ()  # plans that are used in the end
        self.restless = True  # whether ranks may wait for what they have started before they have started all
        self.enter = self._enter
        self.purpose = lambda rank: self.ranks[rank].purpose
        setting.begin(self)

    def _enter(self, rank: int) -> None:
        progress.thread_state = self.ranks[rank].thread_state  # type: ignore[assignment]

    def _watch(self, rank: int, jobs: Sequence[int]) -> Callable[[], None]:
        """What a rank sees of the other job: one of its ranks has gone, once what that one has sent has come."""
        others = [other for other, job in enumerate(jobs) if job != jobs[rank]]

        def watch() -> None:
            gone = [other for other in others if other in self.gone or other in self.dead]
            if gone and not self.messages_move:
                raise CollectiveError(f"remote rank {gone[0]} exited")

        return watch

    def run(self) -> None:
        """Run one schedule."""
        with _Replaced():
            super().run()

    def close(self) -> None:
        """Unwind the ranks that have not ended."""
        if any(rank is not None for rank in self._ranks):
            with _Replaced():
                super().close()
        else:
            super().close()

    def sharp(self, rank: int) -> bool:
        """Whether an interrupt comes now, between two steps of a rank that does not wait."""
        if not self.interrupts or self._choices.exhaustive or self._closed:
            return False
        if self.victims is not None and rank not in self.victims:
            return False
        if not (self._choices.strike() and self._choices.fault(2)):
            return False
        self.interrupts -= 1
        self.interrupted.append(rank)
        self._note(f"rank {rank} is interrupted between two steps")
        return True


def _here() -> Rank:
    world: Any = worlds._running
    return world.ranks[world.current]


def _group_of(comm: OneRank, ranks: tuple[int, ...]) -> Group:
    world = _here().world
    return world.setting.team(ranks, world).groups[comm.rank]


class _Held:
    """Stands for `hold_interrupts`: what comes to a rank meanwhile comes at the end, or where it is let through."""

    pending = True  # signals may have arrived
    is_open, forced = False, None

    def __enter__(self) -> _Held:
        self._rank = _here()
        self._outer = self._rank.hold
        if not self._rank.held:
            self._rank.hold = self
        return self

    def deliver_interrupts(self) -> None:
        if self._rank.hold is self:
            self._rank.deliver()

    def __exit__(self, *exception: object) -> None:
        if self._rank.hold is self:
            self._rank.hold = self._outer
            self._rank.deliver()


class _Clock:
    """Stands for `time`: turns are what passes."""

    @staticmethod
    def monotonic() -> float:
        return TICK * _here().world.turns


class _Kept:
    """Stands for the list of groups that could not be freed."""

    def append(self, group: ExploredGroup) -> None:
        _here().world.never_freed.append(group)


def _pause() -> None:
    rank = _here()
    while True:
        try:
            return worlds.pause()
        except KeyboardInterrupt:
            if not rank.held:
                raise
            rank.pending = True


def _call(traffic: Any, kinds: Any, vote: Any, item: int, check_peers: Callable[[], None], *others: Any) -> Call:
    """A compiled call: it waits where it looks around."""

    def pausing() -> None:
        check_peers()
        _pause()

    return Call(traffic, kinds, vote, item, pausing, *others)


def _made(real: Callable[..., Any]) -> Callable[..., Any]:
    """What makes arrays, unless there is no memory."""

    def make(*arguments: Any, **options: Any) -> Any:
        if _here().no_memory:
            _here().lacked_memory = True
            raise MemoryError("no memory for an array")
        return real(*arguments, **options)

    return make


_maker = Descriptor._maker


def _making(self: Descriptor, order: str, zeroed: bool) -> Callable[[Any], Any]:
    """What a plan keeps to make new arrays by."""
    return _made(_maker(self, order, zeroed))


_allocate = transfers.allocate


def _allocate_or_fail(plan: Any, operands: Any, dtypes: Any) -> Any:
    """What a transfer takes besides `out`; it fails with arrays for which that was chosen."""
    doomed = _here().doomed
    if doomed and not doomed.isdisjoint(map(id, (*operands.arrays, *operands.outs))):
        raise MemoryError("no memory for the rest")
    return _allocate(plan, operands, dtypes)


_moving = transfers.Transfer._has_moved


def _moving_or_failing(self: Any, lent: Any, block: bool) -> Any:
    """The step of a transfer while elements move; it fails with arrays for which that was chosen."""
    doomed = _here().doomed_later
    operands = self.operands
    if doomed and not doomed.isdisjoint(map(id, (*operands.arrays, *operands.outs, *operands.targets))):
        raise MemoryError("no memory while elements move")
    return _moving(self, lent, block)


def _begun(begin: Callable[..., Any]) -> Callable[..., Any]:
    """A step that begins a transfer: it is that of a use of the script."""

    def step(self: Any, *arguments: Any, **options: Any) -> Any:
        self.purpose = _here().begins
        return begin(self, *arguments, **options)

    return step


def _again(bounds: Any, bound: Any, a: Any, out: Any) -> Any:
    """A call of arrays like the last ones: it is a use of the script, and not for arrays with which it would fail."""
    rank = _here()
    if not rank.doomed_later.isdisjoint((id(a), id(out))):
        return NotImplemented
    bound.idle.purpose = rank.begins
    return _call_again(bounds, bound, a, out)


_call_again = uses.call_again
_lend = transfers.Transfer._lend


def _lending(self: Any, *arguments: Any) -> Any:
    """What is lent is for the use of the script."""
    lent = _lend(self, *arguments)
    lent.purpose = self.purpose
    return lent


def _with_purpose(act: Callable[..., Any], purpose: Callable[[Any], object]) -> Callable[..., Any]:
    """A step whose messages are for one purpose and no other."""

    def step(self: Any, *arguments: Any) -> Any:
        rank = _here()
        before, rank.purpose = rank.purpose, purpose(self)
        try:
            return act(self, *arguments)
        finally:
            rank.purpose = before

    return step


def _for_its_use(act: Callable[..., Any]) -> Callable[..., Any]:
    return _with_purpose(act, lambda lent: lent.purpose)


_REPLACED: list[tuple[Any, str, Any]] = [
    (progress, "pause", _pause),
    (progress, "hold_interrupts", _Held),
    *((module, "hold_interrupts", _Held) for module in (transfers, uses, guards, agreement, make)),
    *((module, "hold_interrupts", _Held) for module in (distributed_array, redistribution)),
    (guards, "current_hold", lambda: _here().hold),
    (progress, "force_interrupts", lambda *patience: None),
    (progress, "thread_state", None),
    (progress, "POLLS", 0),
    (progress, "POLLS_PER_CHECK", 1),
    (transfers, "TEST_SHARE", 0.0),
    (waiting, "CHECK_SECONDS", -1.0),
    (waiting, "ANSWER_SECONDS", TICK),
    (waiting, "FAILURE_SECONDS", 4 * TICK),
    *((module, "time", _Clock) for module in (waiting, series)),
    (groups, "_never_freed", _Kept()),
    (groups, "_forked", None),  # the explorer forks, and its ranks use no MPI
    (waiting, "_report", lambda *what: None),
    (bounds, "Call", _call),
    (redistribution, "call_again", _again),
    (transfers, "allocate", _allocate_or_fail),
    (transfers.Transfer, "__init__", _begun(transfers.Transfer.__init__)),
    (transfers.Transfer, "_lend", _lending),
    (transfers.Transfer, "_has_moved", _moving_or_failing),
    *((Lent, name, _for_its_use(getattr(Lent, name))) for name in ("send_early", "start", "start_next", "advance")),
    (series, "PERIOD", 2),
    (
        Settling,
        "__init__",
        _with_purpose(Settling.__init__, lambda settling: None),
    ),  # any call may receive its messages
    (Settling, "advance", _with_purpose(Settling.advance, lambda settling: None)),
    (Series, "cast_vote", _with_purpose(Series.cast_vote, lambda series: f"vote {series.votes + 1} of {series.tag}")),
    (Series, "count_vote", _with_purpose(Series.count_vote, lambda series: f"vote {series.votes} of {series.tag}")),
    (nodes, "_is_dead", lambda process: process[0] in _here().world.dead),
    *((module, "group_of", _group_of) for module in (make, batch)),
    *((layout, name, _made(getattr(layout, name))) for layout in (Descriptor, Tiles) for name in ("empty", "zeros")),
    (Descriptor, "_maker", _making),
]


class _Replaced:
    def __enter__(self) -> None:
        self._kept = [(where, name, getattr(where, name)) for where, name, _ in _REPLACED]
        for where, name, value in _REPLACED:
            setattr(where, name, value)

    def __exit__(self, *exception: object) -> None:
        for where, name, value in self._kept:
            setattr(where, name, value)


class Rank:
    """One rank in one schedule, for programs.

    Attributes
    ----------
    did : dict
        What it has done: by number, a `Use`, or what became of an agreement.
    """

    def __init__(self, world: EngineWorld, rank: int) -> None:
        self.world, self.rank, self.size = world, rank, world.setting.size
        self.thread_state = SimpleNamespace(tasks={})
        self.hold: _Held | None = None
        self.pending = False
        self.did: dict[int, Use | str] = {}
        self.no_memory = False  # for an `out` that is left away
        self.lacked_memory = False  # whether one could not be made
        self.doomed: set[int] = set()  # arrays with which all other memory fails
        self.doomed_later: set[int] = set()  # those with which it fails while elements move
        self.begins: object = None  # the use that this rank calls or starts
        self.purpose: object = None  # the use that it moves elements of, for the check of messages

    @property
    def comm(self) -> OneRank:
        return self.world.setting.comms[self.rank]

    @property
    def plans(self) -> dict[str, Any]:
        return self.world.setting.plans[self.rank]

    @property
    def held(self) -> bool:
        """Whether interrupts are held back."""
        return self.hold is not None and not self.hold.is_open

    def deliver(self) -> None:
        """Raise the interrupt that was held back, or one that comes now."""
        if self.pending or self.world.sharp(self.rank):
            self.pending = False
            raise KeyboardInterrupt("injected")

    def layout(self, name: str) -> Descriptor | Tiles:
        """By rows or by columns over all ranks; all of it on one rank: "0", "1", ..., or on each; or tiles, three on the last
        rank, none on the first of three, in one array each.
        """
        size, shape = self.size, self.world.setting.shape
        if name == "rows":
            return Descriptor(shape, (-(-shape[0] // size), shape[1]), ProcessGrid((size, 1), self.comm))
        if name == "columns":
            return Descriptor(shape, (shape[0], -(-shape[1] // size)), ProcessGrid((1, size), self.comm))
        if name == "copies":
            return Descriptor(shape, shape, ProcessGrid((size, 1), self.comm), axes=(None, None))
        if name == "tiles":
            owners, edges = [[size - 1, size - 2], [size - 1, size - 1]], ([0, 1, shape[0]], [0, 3, shape[1]])
            own = Tiles(*edges, owners, self.comm).local_shapes
            offsets = np.cumsum([0, *(m * n for m, n in own)])[: len(own)]
            return Tiles(*edges, owners, self.comm, offsets=offsets)
        return Descriptor(shape, shape, ProcessGrid((1, 1), self.comm, ranks=[[int(name)]]))

    def drain(self) -> None:
        """Wait until nothing is under way."""
        while progress.tasks_in_flight():
            with progress.hold_interrupts():
                progress.advance_others()
            for group in {transfer._group for transfer in progress.tasks_in_flight() if hasattr(transfer, "_group")}:
                group.check_peers()
            progress.pause()

    def free(self, members: tuple[int, ...]) -> None:
        """Free the communicator of these ranks: the group's own goes with it, and the connection, where there are two jobs."""
        group = self.world.setting.teams[members].groups[self.rank]
        with suppress(KeyboardInterrupt), progress.hold_interrupts():  # it comes when all is freed
            groups.end(group, lambda: self.world.gone.append(self.rank))

    def persistently(self, act: Callable[[], Any]) -> Any:
        """Do it again after each interrupt."""
        while True:
            try:
                return act()
            except KeyboardInterrupt:
                continue


def _same(array: NDArray[Any], other: NDArray[Any]) -> bool:
    return array.shape == other.shape and bool((array == other).all())


class Use:
    """One use of a plan: its arrays, what came of it, and whether that is right.

    Parameters
    ----------
    rank : Rank
    plan : Redistribution
    number : int
        Tells the elements of this use from those of others.
    orders : str
        Of the array and of `out`, each "C" or "F"; one letter for an `out` that is left away, where it may be.
    fault : str or None
        What is wrong on this rank: one of FAULTS.
    """

    def __init__(self, rank: Rank, plan: Any, number: int, orders: str = "FF", fault: str | None = None) -> None:
        self.rank, self.plan, self.number, self.fault = rank, plan, number, fault
        self.transfer: Any = None
        self.outcome = "not begun"
        self.is_too_late = False  # the plan could be used no more when it was to begin
        self.results: list[Any] = []
        self.before: list[Any] = []
        self.arrays: list[Any] = []
        self.outs: list[Any] = []
        self.expected: list[Any] = []
        numbers = rank.world.setting.numbers
        for k, pair in enumerate(plan.plan.pairs):
            a, b = numbers(plan, k, rank.rank, False), numbers(plan, k, rank.rank, True)
            shift = SHIFT * number + 10_000 * k
            self.before.append(None if a is None else a + shift)
            self.arrays.append(None if a is None else np.array(a + shift, order=orders[0]))  # type: ignore[call-overload]
            self.expected.append(None if b is None else b + shift)
            known = (a is not None and a.size) or pair.dtype is not None
            if b is None or (len(orders) == 1 and known):
                self.outs.append(None)
            else:
                self.outs.append(np.full(b.shape, UNTOUCHED, order=orders[-1]))  # type: ignore[call-overload]
        self.options: dict[str, Any] = {}
        self.sources, self.targets = list(self.arrays), list(self.outs)
        if fault == "shape":
            self.sources[-1] = np.zeros((9, 9))
        elif fault == "dtype" and self.before[-1] is not None and self.before[-1].shape == (0,):
            self.fault = None  # without tiles there is no element of any dtype
        elif fault == "dtype":
            self.sources[-1] = np.zeros(1, "O")
        elif fault == "factor":
            self.options["alpha"] = 10**400
        elif fault == "out" and self.expected[-1] is None:
            self.fault = None
        elif fault == "out":
            self.targets[-1] = None
        elif fault == "rest":
            rank.doomed |= {id(array) for array in (*self.sources, *self.targets) if array is not None}
        elif fault == MOVING:
            rank.doomed_later |= {id(array) for array in (*self.sources, *self.targets) if array is not None}
        rank.did[number] = self

    def _arguments(self) -> tuple[Any, Any]:
        if self.fault == "out" and self.plan.plan.group.queued:
            self.fault = None  # those that are queued would meet it
        self.rank.no_memory, self.rank.lacked_memory = self.fault == "out", False
        self.rank.begins = f"use {self.number}"
        if self.plan.plan.is_batch:
            return self.sources, self.targets
        return self.sources[0], self.targets[0]

    def start(self) -> None:
        """Start it; an interrupt meanwhile counts as an error of this rank's."""
        try:
            self.transfer = self.plan.start(*self._arguments(), **self.options)
            self.outcome = "started"
        except KeyboardInterrupt:
            self.outcome = "interrupted"
        except Exception as error:
            self._refused(error)
        finally:
            self._memory_again()

    def call(self, profiled: bool = False) -> None:
        """Call the plan."""
        arguments = self._arguments()
        way = self.plan.profile if profiled and not self.options else self.plan
        self._end(lambda: way(*arguments, **self.options), called=not profiled)
        self._memory_again()

    def _memory_again(self) -> None:
        """From now on there is memory; a use that is queued makes its `out` later."""
        self.rank.no_memory = False
        if self.fault == "out" and self.outcome in ("started", "interrupted") and not self.rank.lacked_memory:
            self.fault = None

    def wait(self) -> None:
        """Wait for it, again after each interrupt."""
        while self.outcome in ("started", "waited"):
            self.outcome = "waited"
            self._end(self.transfer.wait)
            if self.outcome == "interrupted" and self.transfer.state < transfers.State.COMPLETE:
                self.outcome = "waited"

    def test(self) -> bool:
        """Look whether it is complete."""
        if self.outcome != "started":
            return True
        try:
            if self.transfer.test():
                self._end(self.transfer.wait)
                return True
        except KeyboardInterrupt:
            if self.transfer.state > transfers.State.COMPLETE:
                self.outcome = "KeyboardInterrupt"
        except Exception as error:
            self._refused(error)
        return self.outcome != "started"

    def _end(self, act: Callable[[], Any], called: bool = True) -> None:
        try:
            result = act()
        except KeyboardInterrupt:
            self.outcome = "interrupted"
        except Exception as error:
            self._refused(error)
        else:
            self.outcome = "done"
            if called:
                self.results = result if self.plan.plan.is_batch else [result]
            self._right()

    def _refused(self, error: Exception) -> None:
        if isinstance(error, AssertionError):
            raise error
        self.outcome, self.is_too_late = type(error).__name__, "cannot be used any more" in str(error)
        self.untouched()

    def untouched(self) -> None:
        """The array is what it was; and `out`, unless elements may have moved before something failed."""
        for before, array in zip(self.before, self.arrays, strict=True):
            assert before is None or _same(before, array), "the array has been changed"
        if self.plan.plan.group.abort_reason is None and self.plan.bounds.series is None:
            for out in self.outs:
                assert out is None or (out == UNTOUCHED).all(), f"out has been touched:\n{out}"

    def _right(self) -> None:
        for before, array in zip(self.before, self.arrays, strict=True):
            assert before is None or _same(before, array), "the array has been changed"
        assert self.fault in (None, "rest", MOVING), (
            f"{self.fault} has not been noticed"
        )  # a compiled call takes no more
        if self.results:
            for k, (result, expected) in enumerate(zip(self.results, self.expected, strict=True)):
                assert (result is None) == (expected is None), f"use {self.number}: {result}"
                if expected is not None:
                    assert _same(result, expected), (
                        f"use {self.number}, array {k}, of {self.plan!r}: wrong elements\n{result}\nnot\n{expected}"
                    )
                if self.targets[k] is not None:
                    assert result is self.targets[k]

    def settle(self) -> str:
        """What became of it in the end: "done", "refused", or "unknown" where an interrupt has ended it and no array tells."""
        if self.outcome == "done":
            return "done"
        if self.outcome not in ("interrupted", "waited", "started"):
            return "refused"
        if self.transfer is not None:
            if self.transfer.state != transfers.State.COMPLETE:
                return "refused"
            self._end(self.transfer.wait)
            return "done"
        outs = [
            (out, expected)
            for out, expected in zip(self.targets, self.expected, strict=True)
            if out is not None and out.size
        ]
        if not outs:
            return "unknown"
        if self.plan.bounds.series is not None:
            return "unknown"
        if all((out == UNTOUCHED).all() for out, _ in outs):
            return "refused"
        assert all(_same(out, expected) for out, expected in outs), f"an interrupt has left {outs} in between"
        return "done"
