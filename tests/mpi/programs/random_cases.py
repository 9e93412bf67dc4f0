"""Random cases on real ranks, each call compared with the oracle. Arguments: number of cases, seed, and what is forced.

`ring AREA SLOTS STREAM_FROM`: arrays of any size go the way of large ones, through a ring of so many bytes and slots.
`pieces BYTES`: messages of any size go in pieces of so many bytes between nodes, as otherwise only long ones do.
At the end rank 0 prints how often there was what `cases.TABLE` lists, as JSON.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np
from cases import BATCH_WAYS, FEATURES, LISTED, WAYS, Call, Case, draw_case
from layouts import Local, descriptor, fill, local_array, made_for, views_of
from mpi4py import MPI
from numpy.typing import NDArray
from oracle import TileLayout, holds, same_bytes, same_numbers

import pyscalapack_redist as psr
from pyscalapack_redist.comm import node
from pyscalapack_redist.engine import choose as model
from pyscalapack_redist.exchanges import exchange as stores
from pyscalapack_redist.exchanges import pipeline as nonblocking
from pyscalapack_redist.exchanges import shared

WORLD = MPI.COMM_WORLD
ATTEMPTS = 5  # at a case to which the way applies
OTHER_FACTORS = {"alpha": 5, "beta": 7}


class Place:
    """A communicator and its processes: of both sides, where it is an inter-communicator."""

    def __init__(self, comm: Any, own: Any = None) -> None:
        self.comm, self.own = comm, comm if own is None else own
        self.joins_two = own is not None
        self.first = not self.joins_two or WORLD.rank < WORLD.size // 2
        self.without = {"unknown", "in place"} if self.joins_two else set()

    def sides(self, backwards: bool) -> int | tuple[int, int]:
        """Processes that hold A and B."""
        if not self.joins_two:
            return self.comm.Get_size()
        sizes = WORLD.size // 2, WORLD.size - WORLD.size // 2
        return sizes[::-1] if backwards else sizes


class Member:
    """A case on this rank: its plan, and arrays that are kept from call to call, so that their kind is known."""

    def __init__(self, case: Case, place: Place, backwards: bool = False) -> None:
        self.case, self.place = case, place
        me, here = place.own.Get_rank(), place.first != backwards
        self.rank_a = me if here or not place.joins_two else None
        self.rank_b = me if not here or not place.joins_two else None
        self.idle = self.rank_a not in case.a.ranks and self.rank_b not in case.b.ranks
        self.own = np.random.default_rng([case.seed, WORLD.rank])
        self.desc_a, self.desc_b = (
            None if rank is None else made_for(layout, place.own, rank)
            for layout, rank in ((case.a, self.rank_a), (case.b, self.rank_b))
        )
        self.knows = [self.desc_a is not None, self.desc_b is not None]
        self.arrays: tuple[Local, Local] | None = None

    def redistribute(self) -> psr.Redistribution:
        case, given = self.case, [self.desc_a, self.desc_b]
        keywords: dict[str, Any] = case.options
        if case.via is not None:
            keywords["via"] = [descriptor(layout, self.place.comm) for layout in case.via]
        if case.unknown or self.place.joins_two:
            keywords["comm"] = self.place.comm
        if case.unknown and not self.place.joins_two:
            for k, (layout, rank) in enumerate(((case.a, self.rank_a), (case.b, self.rank_b))):
                if rank not in layout.ranks and self.own.random() < 0.7:
                    given[k], self.knows[k] = None, False
        return psr.redistribute(*given, **keywords)  # type: ignore[arg-type]

    def prepare(self, call: Call) -> tuple[Any, Any, dict[str, Any]]:
        """What this rank passes to a call: A, out, and factors."""
        case = self.case
        if self.arrays is None or self.own.random() < 0.2:
            strides = self.own if case.strided else None
            a = local_array(case.a, self.rank_a, case.dtype, strides)
            b = a if case.in_place else local_array(case.b, self.rank_b, case.dtype, strides)
            self.arrays = a, b
        for local, layout, rank, values in zip(
            self.arrays, (case.a, case.b), (self.rank_a, self.rank_b), case.before(call), strict=True
        ):
            fill(local, layout, rank, values)
        a, b = self.arrays
        only_in_b = self.rank_b in case.b.ranks and not holds(case.a, self.rank_a)
        given, out = a.given, b.given if not call.new or (only_in_b and not case.tells_dtype) else None
        given, out = given if self.knows[0] else None, out if self.knows[1] else None
        factors: dict[str, Any] = {}
        if (call.alpha, call.beta) != (1, 0) or self.own.random() < 0.2:
            factors = {"alpha": call.alpha, "beta": call.beta}
        if self.fails(call) and self.rank_a == call.culprit and call.fault != "factor":
            given = wrong(call.fault, given, isinstance(case.a, TileLayout))
            out = b.given
        if self.fails(call) and call.fault == "factor" and call.culprit in (self.rank_a, self.rank_b):
            factors = OTHER_FACTORS
        return given, out, factors

    def fails(self, call: Call) -> bool:
        """Whether the fault of a call is one: what a rank passes that holds nothing is not looked at."""
        return call.fault is not None and (call.fault == "factor" or holds(self.case.a, call.culprit))

    def check(self, call: Call, result: Any, out: Any) -> None:
        """B is what the oracle says, and A as it was."""
        case = self.case
        assert self.arrays is not None
        assert out is None or result is out or self.rank_b not in case.b.ranks, self
        if isinstance(result, psr.DistributedArray):
            result = None if self.rank_b not in case.b.ranks else result.local
        if self.rank_b not in case.b.ranks and not isinstance(case.b, TileLayout):
            assert result is None, self
        else:
            views = views_of(case.b, self.rank_b, result) if out is None else self.arrays[1].views
            self._compare(views, case.after(call))
            if out is None:
                self._check_order(views)
        if not case.in_place:
            self._compare_a(call)

    def _check_order(self, views: Sequence[NDArray[Any]]) -> None:
        """New arrays are in the order that the plan has for them; one that follows A may be in either."""
        wanted = self.case.order or ("F" if len(self.case.b.shape) == 2 else "K")
        for view in views:
            strides = [stride for n, stride in zip(view.shape, view.strides, strict=True) if n > 1]
            assert not view.size or wanted == "K" or strides == sorted(strides, reverse=wanted == "C"), self

    def check_untouched(self, call: Call) -> None:
        """After a call that failed."""
        assert self.arrays is not None
        if not call.new:
            self._compare(self.arrays[1].views, self.case.before(call)[1])
        self._compare_a(call)

    def _compare(self, views: Sequence[NDArray[Any]], whole: NDArray[Any]) -> None:
        for view, piece in zip(views, self.case.b.pieces(self.rank_b), strict=True):
            wanted = whole[np.ix_(*piece)]
            if wanted.size:
                assert view.dtype == self.case.dtype, self
                equal = same_bytes if self.case.exact else same_numbers
                assert equal(view, wanted), self

    def _compare_a(self, call: Call) -> None:
        assert self.arrays is not None
        before = self.case.before(call)[0]
        for view, piece in zip(self.arrays[0].views, self.case.a.pieces(self.rank_a), strict=True):
            assert same_bytes(view, before[np.ix_(*piece)]), f"A was written: {self}"

    def __str__(self) -> str:
        return f"rank {WORLD.rank}: {self.case}"


def wrong(fault: str | None, given: Any, tiles: bool) -> Any:
    """Something that does not fit in place of a local array."""
    if fault == "missing":
        return None
    arrays = given if isinstance(given, list) else [given]
    if fault == "kind":
        made = [np.ma.masked_array(array) for array in arrays]
    elif tiles and not isinstance(given, list):
        return given[:0]
    else:
        made = [np.zeros(tuple(n + 3 for n in array.shape), array.dtype) for array in arrays]
    return made if isinstance(given, list) else made[0]


def run_case(rng: np.random.Generator, place: Place, way: dict[str, Any]) -> Counter[str] | None:
    """Make a plan, and use it; None where its way does not apply to these layouts."""
    if place.joins_two and way.get("via") == LISTED:
        return Counter()  # both sides cannot know these layouts
    backwards = place.joins_two and bool(rng.random() < 0.5)
    case = draw_case(rng, place.sides(backwards), way, FEATURES - place.without)
    member = Member(case, place, backwards)
    applies = True
    try:
        plan = member.redistribute()
    except psr.ScheduleError:
        if not case.conditional:
            raise
        applies = False
    if not all(gathered(applies)):
        return None
    for call in case.calls:
        given, out, factors = member.prepare(call)
        if call.how == "array":
            given = None if member.desc_a is None else psr.DistributedArray(member.desc_a, given)
            out = None if out is None or member.desc_b is None else psr.DistributedArray(member.desc_b, out)
            out = given if case.in_place else out
        try:
            if call.how == "start":
                transfer = plan.start(given, out, **factors)
                while member.own.random() < 0.5 and not transfer.test():
                    pass
                result = transfer.wait()
            else:
                result = plan(given, out, **factors)
        except psr.RedistributionError:
            assert member.fails(call), f"right arrays were refused: {member}"
            member.check_untouched(call)
        else:
            assert member.idle or not member.fails(call), f"a call with a fault has not failed: {call}, {member}"
            if not member.fails(call):
                member.check(call, result, out)
    found = case.features()
    found["intercommunicator"] += place.joins_two
    found["compiled"] += any(each.call or each.idle for some in plan.bounds.by_factors.values() for each in some)
    return found


def gathered(value: Any) -> list[Any]:
    return WORLD.allgather(value)


def run_batch(rng: np.random.Generator, place: Place, way: dict[str, Any]) -> Counter[str]:
    """Some plans as one, in both directions where there are two sides."""
    members = []
    features = FEATURES - {"tiles"} - place.without
    for _ in range(int(rng.integers(1, 6))):
        backwards = place.joins_two and bool(rng.random() < 0.5)
        members.append(Member(draw_case(rng, place.sides(backwards), features=features, most=2000), place, backwards))
    batch = psr.batch(*(member.redistribute() for member in members), **way)
    for turn in range(int(rng.integers(1, 8))):
        calls = [member.case.calls[turn % len(member.case.calls)] for member in members]
        given, outs, factors = (list(some) for some in zip(*map(Member.prepare, members, calls), strict=True))
        either: dict[str, Any] = {}
        if any(factors):
            for name, usual in (("alpha", 1), ("beta", 0)):
                either[name] = [some.get(name, usual) for some in factors]
        fails = any(map(Member.fails, members, calls))
        try:
            if members[0].own.random() < 0.3:
                results = batch.start(given, outs, **either).wait()
            else:
                results = batch(given, outs, **either)
        except psr.RedistributionError:
            assert fails, f"right arrays were refused: {members}"
            for member, call in zip(members, calls, strict=True):
                member.check_untouched(call)
            continue
        assert not fails or batch.plan.group is None or place.joins_two, (
            f"a call with a fault has not failed: {calls}"
        )
        if not fails:
            for member, call, result, out in zip(members, calls, results, outs, strict=True):
                member.check(call, result, out)
    found: Counter[str] = Counter({"use batch": 1})
    for member in members:
        found += member.case.features()
    return found


def force(area: int, slots: int, stream_from: int) -> None:
    """Let arrays of any size go the way of large ones."""
    set_all([(node, "AREA", area), (stores, "STREAM_FROM", stream_from)])
    set_all([(shared, "SLOTS", slots), (shared, "INTERLEAVED_FROM", 0), (shared, "SHORTEST", 0)])


def force_pieces(nbytes: int) -> None:
    """Let messages of any size go in pieces of so many bytes between nodes."""
    set_all([(model, "SHORTEST_PIECE", nbytes), (nonblocking, "SMALL", 0)])


def set_all(settings: list[tuple[ModuleType, str, int]]) -> None:
    """Change what the engine works with."""
    for module, name, value in settings:
        assert hasattr(module, name), f"{module.__name__} has no {name} any more: this test forces nothing"
        setattr(module, name, value)


def places() -> list[Place]:
    """Communicators of all ranks, of half of them, in another order, and of two sides."""
    half, reordered = WORLD.Split(WORLD.rank % 2, WORLD.rank), WORLD.Split(0, -WORLD.rank)
    made = [Place(WORLD), Place(WORLD), Place(WORLD), Place(half), Place(reordered)]
    if WORLD.size > 1:
        first = WORLD.rank < WORLD.size // 2
        own = WORLD.Split(int(first), WORLD.rank)
        made.append(Place(own.Create_intercomm(0, WORLD, WORLD.size // 2 if first else 0, 7), own))
    return made


def main() -> None:
    cases, seed = int(sys.argv[1]), int(sys.argv[2])
    kind, *numbers = sys.argv[3:] or ["any"]
    ways, batch_ways = list(WAYS), list(BATCH_WAYS)
    if kind == "ring":
        force(*map(int, numbers))
        ways = [way for way in WAYS if way.get("exchange", "shared") == "shared"]
    elif kind == "pieces":
        force_pieces(*map(int, numbers))
        ways = [way for way in WAYS if way.get("exchange", "windowed") in ("windowed", "shared")]
    elif kind == "exchange":
        ways, batch_ways = ([way for way in each if way.get("exchange") == sys.argv[4]] for each in (WAYS, BATCH_WAYS))
    where, found = places(), Counter[str]()
    for k in range(cases):
        for attempt in range(ATTEMPTS):
            rng = np.random.default_rng([seed, k, attempt])
            place = where[rng.integers(len(where))]
            done: Counter[str] | None = None
            try:
                if rng.random() < 0.12:
                    done = run_batch(rng, place, batch_ways[k % len(batch_ways)])
                else:
                    done = run_case(rng, place, ways[k % len(ways)])
            except BaseException as error:
                error.add_note(f"case {k}, attempt {attempt} of seed {seed}")
                raise
            if done is not None:
                found += done
                break
    for place in where[3:]:
        place.comm.Free()
    if WORLD.rank == 0:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
