"""What ends the work of one rank before a vote, whatever it is and wherever: the others raise, and all can go on.

Arguments: the places to try, all by default.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from launch import limit
from mpi4py import MPI

import pyscalapack_redist as psr
from pyscalapack_redist.adapters import adapter as adapters
from pyscalapack_redist.adapters.adapter import Adapter, Blueprint, View
from pyscalapack_redist.comm import gather_scatter
from pyscalapack_redist.comm import group as groups
from pyscalapack_redist.comm import node as nodes
from pyscalapack_redist.comm.groups import group_of
from pyscalapack_redist.comm.guard import Guard
from pyscalapack_redist.engine import make, transfer
from pyscalapack_redist.files.binary_file import BinaryFile
from pyscalapack_redist.linalg import operands, place, systems
from pyscalapack_redist.redistribution import Redistribution

WORLD = MPI.COMM_WORLD
RANK, SIZE, BAD = WORLD.rank, WORLD.size, 1
SHAPE = (12, 12)
A = psr.Descriptor(SHAPE, 2, psr.ProcessGrid((SIZE, 1), WORLD))
B = psr.Descriptor(SHAPE, 3, psr.ProcessGrid((1, SIZE), WORLD))


class Stop(BaseException):
    """An error of the user's own that is no Exception."""


KINDS: list[type[BaseException]] = [KeyboardInterrupt, SystemExit, MemoryError, Stop]


class Fault:
    """What happens at a place on one rank."""

    place = ""
    action: Callable[[], object] = staticmethod(lambda: None)

    @classmethod
    def at(cls, place: str) -> None:
        if place == cls.place and RANK == BAD:
            cls.action()

    @classmethod
    @contextlib.contextmanager
    def raising(cls, place: str, kind: type[BaseException]) -> Iterator[None]:
        def raise_it() -> None:
            raise kind("planted")

        with cls.doing(place, raise_it):
            yield

    @classmethod
    @contextlib.contextmanager
    def doing(cls, place: str, action: Callable[[], object]) -> Iterator[None]:
        before = cls.place, cls.action
        cls.place, cls.action = place, staticmethod(action)
        try:
            yield
        finally:
            cls.place, cls.action = before[0], staticmethod(before[1])


# -- arrays of a library, with an adapter of which each hook may fail


class Toy:
    def __init__(self, local: Any, is_known: bool = True) -> None:
        self.local, self.is_known = local, is_known


Toy.__module__ = "toy_library"


class Toys(Adapter):
    def takes(self, x: Any) -> bool:
        Fault.at("takes")
        return isinstance(x, Toy)

    def view(self, x: Any, comm: MPI.Intracomm) -> View:
        Fault.at("view")
        return View(A, x.local)

    def layout(self, x: Any, comm: MPI.Intracomm) -> Any:
        Fault.at("layout")
        return A if x.is_known else None

    def communicator(self, x: Any) -> MPI.Intracomm | None:
        Fault.at("communicator")
        return WORLD

    def make(self, like: Any, shape: tuple[int, ...], comm: MPI.Intracomm) -> Blueprint:
        Fault.at("make")

        def build(local: Any, dtype: Any) -> Toy:
            Fault.at("build")
            return Toy(local)

        return Blueprint([A], "F", build)

    def written(self, x: Any) -> None:
        Fault.at("written")


def numbers(desc: psr.Descriptor) -> Any:
    return desc.from_function(lambda i, j: 1000.0 * i + j)


def toy() -> Toy:
    return Toy(numbers(A))


def array() -> psr.DistributedArray:
    return psr.DistributedArray(B, numbers(B))


def works() -> None:
    assert np.array_equal(psr.redistribute(A, B)(numbers(A)), numbers(B))


def fails(kind: type[BaseException], call: Callable[[], object]) -> None:
    """One rank raises its own error, the others say that it has one; then the communicator is as good as before."""
    start = time.monotonic()
    if RANK == BAD:
        with pytest.raises(kind, match="planted") as caught:
            call()
        assert caught.type is kind
    else:
        with pytest.raises(psr.CollectiveError, match=f"rank {BAD} could not take part: (.*: )?{kind.__name__}"):
            call()
    assert time.monotonic() - start < limit(10)
    with Fault.doing("", lambda: None):
        works()


class Own:
    """An object of the user's, all of whose methods fail."""

    def _fail(self, *_: object) -> Any:
        Fault.at("own")
        raise AssertionError("not reached")

    __array__ = __index__ = __iter__ = __len__ = __fspath__ = _fail


class Name(str):
    """A text with a repr of its own."""

    def __repr__(self) -> str:
        Fault.at("repr")
        return str.__repr__(self)


class Mine(psr.Descriptor):
    """A layout with a repr of its own."""

    def __repr__(self) -> str:
        Fault.at("repr")
        return "mine"


class WordlessError(Exception):
    def __str__(self) -> str:
        raise Stop("no words")


@contextlib.contextmanager
def patched(owner: Any, name: str, place: str = "patched") -> Iterator[None]:
    """A function that may fail."""
    before = getattr(owner, name)

    def call(*arguments: Any, **keywords: Any) -> Any:
        Fault.at(place)
        return before(*arguments, **keywords)

    with mock.patch.object(owner, name, call):
        yield


def of_bad(wrong: Any, right: Any) -> Any:
    return wrong if RANK == BAD else right


# -- where it fails


def hooks() -> None:
    plan: Any = psr.redistribute(A, B)
    calls: list[tuple[str, Callable[[], object]]] = [
        ("takes", lambda: psr.redistribute(toy(), B)),
        ("takes", lambda: psr.redistribute(array(), like=toy())),
        ("takes", lambda: plan(toy())),
        ("view", lambda: psr.redistribute(toy(), B)),
        ("view", lambda: psr.as_distributed(toy())),
        ("view", lambda: psr.gather(toy())),
        ("view", lambda: plan(toy())),
        ("view", lambda: plan.start(toy()).wait()),
        ("view", lambda: psr.linalg.norm(toy())),
        ("layout", lambda: psr.layout_of(toy())),
        ("layout", lambda: psr.redistribute(B, toy())),
        ("make", lambda: psr.redistribute(array(), like=toy())),
        ("build", lambda: psr.redistribute(array(), like=toy())),
        ("written", lambda: psr.copy_to(array(), toy())),
        ("communicator", lambda: psr.layout_of(toy(), comm=WORLD)),
        ("communicator", lambda: psr.redistribute(toy(), B)),
    ]
    for where, call in calls:
        for kind in KINDS:
            with Fault.raising(where, kind):
                fails(kind, call)
    assert np.array_equal(psr.redistribute(toy(), B).local, numbers(B))


def wrong_views() -> None:
    """An adapter whose layout is none is an error on all ranks too."""
    with (
        mock.patch.object(Toys, "layout", return_value=of_bad(5, A)),
        pytest.raises(psr.ArrayError if RANK == BAD else psr.CollectiveError, match="layout of x is 5: it must be"),
    ):
        psr.layout_of(toy())
    works()


def objects() -> None:
    """What the user gives, and runs code of the user's."""
    own, plan = Own(), psr.redistribute(A, B)
    calls: list[Callable[[], object]] = [
        lambda: psr.distribute(own, A, root=BAD),
        lambda: psr.scatter(A, numbers(A), root=of_bad(own, 0)),
        lambda: array().redistribute(block=of_bad(own, 2)),
        lambda: psr.redistribute(A, B, memory_limit=of_bad(own, 1000)),
        lambda: psr.redistribute(A, B, via=of_bad(own, None)),
        lambda: psr.batch(plan, plan, memory_limit=of_bad(own, 1000)),
        lambda: psr.Descriptor.from_array(of_bad(own, [1, -1, *[0] * 7]), WORLD),
        lambda: psr.save(A, numbers(A), of_bad(own, "nothing.npy")),
        lambda: psr.load(A, of_bad(own, "nothing.npy")),
    ]
    for call in calls:
        for kind in KINDS:
            with Fault.raising("own", kind):
                fails(kind, call)


def texts() -> None:
    """A repr fails as the ranks state what they want, or as they say how that differs."""
    mine = Mine(SHAPE, 4, A.grid)
    for kind in KINDS:
        with Fault.raising("repr", kind):
            fails(kind, lambda: psr.redistribute(A, B, schedule=of_bad(Name("caterpillar"), "caterpillar")))
            fails(kind, lambda: psr.redistribute(of_bad(mine, A), B))
    words = f"rank {BAD} could not take part: WordlessError, whose text cannot be made"
    with Fault.raising("view", WordlessError):
        with pytest.raises(WordlessError if RANK == BAD else psr.CollectiveError) as caught:
            psr.as_distributed(toy())
        assert RANK == BAD or words in str(caught.value)
    works()


def inside() -> None:
    """The package's own work, in which memory may be short or an interrupt may come."""
    folder = WORLD.bcast(tempfile.mkdtemp() if RANK == 0 else None)
    path = str(Path(folder, "x.npy"))
    psr.save(A, numbers(A), path)
    diagonal = psr.DistributedArray(A, A.from_function(lambda i, j: 1.0 * (i == j)))
    count, work = iter(range(1000)), psr.Descriptor(SHAPE, 4, A.grid)

    def new_plan() -> object:
        k = next(count)
        a, b = (psr.Descriptor((40 + k, 12), desc.block, desc.grid) for desc in (A, B))
        return psr.redistribute(a, b, schedule="greedy")

    def new_plan_of_one_known_layout() -> object:
        a, b = (psr.Descriptor((39, 12), desc.block, desc.grid) for desc in (A, B))
        return psr.redistribute(of_bad(a, None), b, comm=WORLD)

    def new_group() -> object:
        comm = WORLD.Dup()
        a, b = (psr.Descriptor(SHAPE, 2, psr.ProcessGrid(sides, comm)) for sides in ((SIZE, 1), (1, SIZE)))
        try:
            return psr.redistribute(a, b)
        finally:
            comm.Free()

    forced = os.environ.get("PYSCALAPACK_REDIST_NODES", "").split(",")
    shares_a_node = len(set(forced[: BAD + 1])) == 1
    places: list[tuple[Any, str, Callable[[], object]]] = [
        (BinaryFile, "read_part", lambda: psr.load(A, path)),
        (BinaryFile, "write_part", lambda: psr.save(A, numbers(A), path)),
        (operands, "magnitude", lambda: psr.linalg.solve(diagonal, array(), layout=work)),
        (place, "times_power", lambda: psr.linalg.solve(diagonal, array(), layout=work)),
        (systems, "pxgetrf", lambda: psr.linalg.solve(diagonal, array(), layout=work)),
        (systems, "pxgetrs", lambda: psr.linalg.solve(diagonal, array(), layout=work)),
        (make, "build", new_plan),
        (nodes, "_identify", new_group),
        (nodes, "_marked_file" if BAD == 0 else "_map_file", new_group),
        (nodes, "Ring", new_group),
        (psr.Descriptor, "_pack", new_plan_of_one_known_layout),
        (psr.Descriptor, "_pack", lambda: psr.gather(of_bad(A, None), numbers(A), comm=WORLD)),
        (psr.Descriptor, "_pack", lambda: psr.layout_of(Toy(numbers(A), RANK == BAD))),
        (transfer, "prepare_operands", lambda: psr.redistribute(A, B).start(numbers(A)).wait()),
    ]
    for owner, name, call in places:
        if name in ("_map_file", "Ring") and not shares_a_node:
            continue
        for kind in KINDS:
            if name == "_map_file" and issubclass(kind, Exception):
                continue  # the ranks go on without shared memory
            with patched(owner, name), Fault.raising("patched", kind):
                fails(kind, call)
    psr.save(A, numbers(A), path)
    assert np.array_equal(psr.load(A, path), numbers(A))


# -- real interrupts


def interrupt(*after: float) -> None:
    """Send interrupts to this process, so many seconds from now."""
    for seconds in after:
        timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
        timer.daemon = True
        timer.start()


def slow() -> None:
    for _ in range(3000):
        time.sleep(0.01)


def stubborn() -> None:
    """Work that goes on after the first interrupt."""
    with contextlib.suppress(KeyboardInterrupt):
        slow()
    slow()


def in_a_slow_view() -> None:
    for work, moments in ((slow, (0.1,)), (stubborn, (0.1, 0.4))):
        start = time.monotonic()
        with (
            Fault.doing("view", lambda work=work, moments=moments: (interrupt(*moments), work())),
            pytest.raises(KeyboardInterrupt if RANK == BAD else psr.CollectiveError) as caught,
        ):
            psr.as_distributed(toy())
        assert RANK == BAD or f"rank {BAD} could not take part: KeyboardInterrupt" in str(caught.value)
        assert time.monotonic() - start < limit(5)
        works()


def before_the_vote() -> None:
    """As the work has ended: the vote reports it."""
    take = Guard.take_interrupts

    def interrupted(guard: Guard) -> BaseException | None:
        Fault.at("vote")
        return take(guard)

    for call in (lambda: psr.as_distributed(toy()), lambda: psr.gather(array()), lambda: psr.linalg.norm(array())):
        with (
            mock.patch.object(Guard, "take_interrupts", interrupted),
            Fault.doing("vote", lambda: os.kill(os.getpid(), signal.SIGINT)),
            pytest.raises(KeyboardInterrupt if RANK == BAD else psr.CollectiveError),
        ):
            call()
        works()


def in_calls_of_several_votes() -> None:
    """As a vote of such a call is cast, which is too late for it: the next one reports it, so no rank is left in the middle."""
    before = groups.Group.failure_code

    def interrupted(group: groups.Group, error: BaseException | None) -> int:
        Fault.at("cast")
        return before(group, error)

    diagonal = psr.DistributedArray(A, A.from_function(lambda i, j: 1.0 * (i == j)))
    calls: list[Callable[[], object]] = [
        lambda: psr.gather(array()),
        lambda: psr.redistribute(array(), like=toy()),
        lambda: psr.linalg.solve(diagonal, array()),
    ]
    for call in calls:
        with (
            mock.patch.object(groups.Group, "failure_code", interrupted),
            Fault.doing("cast", lambda: os.kill(os.getpid(), signal.SIGINT)),
            pytest.raises(KeyboardInterrupt if RANK == BAD else psr.CollectiveError),
        ):
            call()
        works()


def while_others_are_late() -> None:
    """The wait for a vote ends at an interrupt, in a call of several votes soon after it or at a second one."""
    for call, moments, most in (
        (lambda: psr.redistribute(A, B), (0.1,), 0.45),
        (lambda: psr.gather(array()), (0.1, 0.2), 0.45),
        (lambda: psr.gather(array()), (0.1,), 2.0),
    ):
        WORLD.Barrier()
        if RANK == BAD:
            start = time.monotonic()
            interrupt(*moments)
            with pytest.raises(KeyboardInterrupt):
                call()
            assert time.monotonic() - start < limit(most)
            WORLD.Barrier()
        else:
            WORLD.Barrier()
            with contextlib.suppress(psr.CollectiveError):
                call()
        works()


def in_the_middle() -> None:
    """In a call of several votes the wait for the elements ends too."""
    before = Redistribution.__call__

    def late(plan: Any, *arguments: Any, **options: Any) -> Any:
        WORLD.Barrier()
        return before(plan, *arguments, **options)

    for moments, most in (((0.1, 0.2), 0.45), ((0.1,), 2.0)):
        array().redistribute(A)  # from now on by a compiled call
        if RANK == BAD:
            start = time.monotonic()
            interrupt(*moments)
            with pytest.raises(KeyboardInterrupt):
                array().redistribute(A)
            assert time.monotonic() - start < limit(most)
            WORLD.Barrier()
        else:
            with mock.patch.object(Redistribution, "__call__", late):
                assert np.array_equal(array().redistribute(A).local, numbers(A))
        works()


def while_another_computes() -> None:
    """A wait inside a gather-scatter ends at a second interrupt; then the group is of no use."""
    comm = WORLD.Dup()
    a, b = (psr.Descriptor(SHAPE, 2, psr.ProcessGrid(sides, comm)) for sides in ((SIZE, 1), (1, SIZE)))
    psr.redistribute(a, b)
    group = group_of(comm)
    WORLD.Barrier()
    if RANK == BAD:
        start = time.monotonic()
        interrupt(0.1, 0.2)
        with pytest.raises(KeyboardInterrupt):
            group.call_on_all(lambda: None)
        assert time.monotonic() - start < limit(2)
        WORLD.Barrier()
    else:
        WORLD.Barrier()
        with contextlib.suppress(psr.CollectiveError):  # if it lacks what the other one would have sent
            group.call_on_all(lambda: None)
    with pytest.raises(psr.CollectiveError):
        psr.redistribute(a, b)
    works()


def without_room_for_a_message() -> None:
    """On the first rank, after the vote: the group is of no use any more, and the other ranks hear of it at once."""
    comm, reported = WORLD.Dup(), np.empty
    a, b = (psr.Descriptor(SHAPE, 2, psr.ProcessGrid(sides, comm)) for sides in ((SIZE, 1), (1, SIZE)))
    psr.redistribute(a, b)

    def empty(*arguments: Any, **keywords: Any) -> Any:
        if RANK == 0:
            raise MemoryError("planted")
        return reported(*arguments, **keywords)

    start = time.monotonic()
    with (
        mock.patch.object(gather_scatter.np, "empty", empty),
        pytest.raises(MemoryError if RANK == 0 else psr.CollectiveError, match=r"planted|rank 0 has aborted"),
    ):
        group_of(comm).combine(RANK)
    assert time.monotonic() - start < limit(5)
    with pytest.raises(psr.CollectiveError):
        psr.redistribute(a, b)
    works()


ALL = {
    function.__name__: function
    for function in (
        hooks,
        wrong_views,
        objects,
        texts,
        inside,
        in_a_slow_view,
        before_the_vote,
        in_calls_of_several_votes,
        while_others_are_late,
        in_the_middle,
        while_another_computes,
        without_room_for_a_message,
    )
}


def main() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    entry = SimpleNamespace(load=lambda: Toys)
    with mock.patch.object(adapters, "_entry_points", return_value={"toy_library": entry}):
        works()
        for name in sys.argv[1:] or ALL:
            ALL[name]()
            WORLD.Barrier()
    if RANK == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
