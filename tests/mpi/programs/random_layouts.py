"""Random pairs of layouts, each compared byte by byte with the oracle. Arguments: number of cases, seed, and more or none.

Cases take turns at every schedule, exchange and kind of buffers that go together, with much memory and with little.

With bytes and slots as third and fourth argument, the ring in shared memory has so many of them, all that goes through it
is written past the cache, as otherwise only large arrays are, and no other exchange is used. With a third argument alone,
messages go in pieces of so many bytes between nodes, as otherwise only long ones do.
"""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
from layouts import block_sizes
from mpi4py import MPI
from numpy.typing import NDArray
from oracle import Layout, random_layout, random_size

import pyscalapack_redist as psr
from pyscalapack_redist.comm import node
from pyscalapack_redist.engine import model
from pyscalapack_redist.engine.scheduling import is_one_port
from pyscalapack_redist.engine.waypoints import VIAS
from pyscalapack_redist.exchanges import BUFFERS, EXCHANGES, check_combination, nonblocking, shared
from pyscalapack_redist.exchanges import exchange as exchange_module
from pyscalapack_redist.schedules import NAMES

RECORD = np.dtype([("key", "<i4"), ("value", "<f8", (2,)), ("tag", "S3")])
DTYPES = [
    *(np.dtype(t) for t in "?bBhHiIlLqefdgFDG"),
    np.dtype("S5"),
    np.dtype("U3"),
    np.dtype("M8[s]"),
    np.dtype(">f8"),
    np.dtype("V7"),
    RECORD,
]
ATTEMPTS = 5  # at a case to which the schedule applies
LONGER = 6  # times the usual size, for runs that are worth writing past the cache


def numbered(shape: tuple[int, ...], dtype: np.dtype[Any], salt: int) -> NDArray[Any]:
    """An array of the dtype whose bytes tell the elements apart."""
    rng = np.random.default_rng(salt)
    if dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(bool)
    array = np.empty(shape, dtype)
    count = int(np.prod(shape))
    array.reshape(-1).view(np.dtype(f"V{dtype.itemsize}"))[:] = np.frombuffer(
        rng.bytes(count * dtype.itemsize), f"V{dtype.itemsize}"
    )
    return array


def placed(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """An array of the shape in Fortran or C order, with gaps, or reversed."""
    kind = rng.integers(5)
    if kind == 0:
        return np.empty(shape, dtype)
    if kind == 1:
        return np.empty(tuple(2 * n + 1 for n in shape), dtype)[tuple(slice(1, 2 * n + 1, 2) for n in shape)]
    if kind == 2:
        return np.empty(shape, dtype)[tuple(slice(None, None, -1) for _ in shape)]
    return np.empty(shape, dtype, order="F")


def descriptor(layout: Layout, comm: MPI.Intracomm, lld: int) -> psr.Descriptor:
    grid = psr.ProcessGrid(layout.ranks.shape, comm, ranks=layout.ranks)
    whole = psr.Descriptor(layout.shape, block_sizes(layout), grid, source=layout.source, axes=layout.axes)
    whole = psr.Descriptor(
        layout.shape, block_sizes(layout), grid, source=layout.source, axes=layout.axes, lld=whole.lld + lld
    )
    return whole if layout.size == layout.shape else whole[layout.window()]


def grown(rng: np.random.Generator, block: tuple[Any, ...]) -> tuple[int, ...]:
    """Blocks of one size made 1 to 4 times as large."""
    return tuple(int(n * rng.integers(1, 5)) for n in block)


def same(x: NDArray[Any], y: NDArray[Any]) -> bool:
    return np.ascontiguousarray(x).tobytes() == np.ascontiguousarray(y).tobytes()


def check_case(comm: MPI.Intracomm, rng: np.random.Generator, keywords: dict[str, Any], longer: int) -> bool:
    """Draw and check one case; every rank draws the same. False where the schedule does not apply to it."""
    size = random_size(rng)
    if longer > 1:
        size = (size[0] * int(rng.integers(1, longer + 1)), size[1] * int(rng.integers(1, longer + 1)))
    needs_formula = keywords.get("schedule") in ("walker-otto", "phases", "classes")
    needs_one_size = needs_formula or keywords.get("via") in ("lcm", "gcd")
    draw = functools.partial(random_layout, irregular=not needs_one_size, copies=not needs_formula)
    a, b = (draw(rng, size, comm.Get_size()) for _ in range(2))
    if rng.random() < 0.1:
        b = a
    if needs_formula:  # they apply to few others
        b = replace(a, block=grown(rng, a.block))
        a, b = (a, b) if rng.random() < 0.5 else (b, a)
    dtype = DTYPES[rng.integers(len(DTYPES))]
    salt = int(rng.integers(2**31))
    whole_a, whole_b = numbered(a.shape, dtype, salt), numbered(b.shape, dtype, salt + 1)
    expected = whole_b.copy()
    expected[b.window()] = whole_a[a.window()]
    give_out = b.size != b.shape or bool(rng.integers(2))
    lld = int(rng.integers(3))
    desc_a, desc_b = descriptor(a, comm, lld), descriptor(b, comm, 0)
    own = np.random.default_rng([salt, comm.Get_rank()])

    mine, wanted = a.local(whole_a, comm.Get_rank()), b.local(expected, comm.Get_rank())
    local_a = out = None
    if mine is not None:
        if lld and mine.size:
            local_a = np.empty((desc_a.lld, mine.shape[1]), dtype, order="F")
            local_a[: mine.shape[0]] = mine
        else:
            local_a = placed(own, mine.shape, dtype)
            local_a[...] = mine
        local_a.flags.writeable = False
    if wanted is not None and give_out:
        out = placed(own, wanted.shape, dtype)
        out[...] = b.local(whole_b, comm.Get_rank())
    try:
        plan = psr.redistribute(desc_a, desc_b, dtype=dtype, **keywords)
    except psr.ScheduleError:
        return False
    result = plan(local_a, out) if rng.random() < 0.7 else plan.start(local_a, out).wait()
    what = f"{a} -> {b}, {dtype}, {keywords}"
    if wanted is None:
        assert result is None, what
    else:
        assert result is not None
        assert result is out or not give_out, what
        assert result.dtype == dtype, what
        assert same(result, wanted), what
    if mine is not None and local_a is not None:
        assert same(local_a[: mine.shape[0]], mine), what
    return True


LITTLE = {"bruck": 4000}  # bytes, where an exchange needs more than others: a block for each rank


def combinations() -> Iterator[dict[str, Any]]:
    """Everything that `redistribute` does not refuse."""
    yield {}
    for via in VIAS:
        yield {"via": via}
        yield {"via": via, "schedule": "caterpillar", "exchange": "sendrecv", "memory_limit": 400}
    for schedule, exchange, buffers in itertools.product(NAMES, EXCHANGES, BUFFERS):
        try:
            check_combination(schedule, is_one_port(schedule), exchange, buffers)
        except psr.ScheduleError:
            continue
        keywords = {"schedule": schedule, "exchange": exchange, "buffers": buffers}
        yield keywords
        if buffers == "packed":
            yield {**keywords, "memory_limit": LITTLE.get(exchange, 2000 if EXCHANGES[exchange].collective else 300)}


OPTIONS = list(combinations())


def force(area: int, slots: int, stream_from: int = 0) -> None:
    """Let arrays of any size go the way of large ones."""
    forced = {"SLOTS": slots, "WOVEN_FROM": 0, "SHORTEST": 0}
    set_all(
        [
            (node, "AREA", area),
            (exchange_module, "STREAM_FROM", stream_from),
            *((shared, *each) for each in forced.items()),
        ],
        ("shared",),
    )


def force_pieces(nbytes: int) -> None:
    """Let messages of any size go in pieces of so many bytes between nodes."""
    set_all([(model, "SHORTEST_PIECE", nbytes), (nonblocking, "SMALL", 0)], ("windowed", "shared"))


def set_all(settings: list[tuple[ModuleType, str, int]], exchanges: tuple[str, ...]) -> None:
    """Change what the engine works with, and use no other exchanges."""
    for module, name, value in settings:
        assert hasattr(module, name), f"{module.__name__} has no {name} any more: this test forces nothing"
        setattr(module, name, value)
    OPTIONS[:] = [options for options in OPTIONS if options.get("exchange", exchanges[0]) in exchanges]


def main() -> None:
    cases, seed, *forced = map(int, sys.argv[1:])
    if len(forced) == 1:
        force_pieces(*forced)
    elif forced:
        force(*forced)
    world = MPI.COMM_WORLD
    if world.Get_rank() == 0:
        print(f"{cases} cases, seed {seed}", flush=True)
    half = world.Split(world.Get_rank() % 2, world.Get_rank())
    reordered = world.Split(0, -world.Get_rank())
    left = OPTIONS.copy()
    for case in range(cases):
        comm = (world, world, half, reordered)[np.random.default_rng([seed, case]).integers(4)]
        keywords = OPTIONS[case % len(OPTIONS)]
        for attempt in range(ATTEMPTS):
            applies = check_case(comm, np.random.default_rng([seed, case, attempt]), keywords, LONGER if forced else 1)
            if applies and keywords in left:
                left.remove(keywords)
            if comm.allreduce(applies, MPI.MIN):
                break
    assert cases < 3 * len(OPTIONS) or not left, f"never run: {left}"
    half.Free()
    reordered.Free()
    if world.Get_rank() == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
