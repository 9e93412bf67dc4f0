"""Arrays between two groups of processes, both ways, many plans on one connection, each used for many steps.

Arguments: WAY SEED PLANS STEPS. WAY is `split`, an inter-communicator inside this world (`split:M`, M ranks on one side);
`spawn:N`, this job starts one of N ranks; `accept:PATH` or `connect:PATH`, two jobs that meet at PATH.
"""

from __future__ import annotations

import random
import sys
import time
from typing import Any

import numpy as np
from mpi4py import MPI

import pyscalapack_redist as psr
from pyscalapack_redist.comm import groups
from pyscalapack_redist.comm.intercommunicator import joined

WORLD = MPI.COMM_WORLD
DTYPES = ("f8", "i2", "c16", "V3", [("x", "f4"), ("k", "i8")])
EXCHANGES = ("auto", "nonblocking", "windowed", "sendrecv", "alltoallv", "shared", "synchronized", "ready")


def connection(way: str) -> tuple[MPI.Intercomm, bool]:
    """The inter-communicator, and whether this side is the first."""
    kind, _, rest = way.partition(":")
    if MPI.Comm.Get_parent() != MPI.COMM_NULL:
        return MPI.Comm.Get_parent(), False
    if kind == "spawn":
        program = [*sys.argv[:1], way, *sys.argv[2:]]
        return WORLD.Spawn(sys.executable, ["-m", "mpi4py", *program], int(rest)), True
    if kind == "split":
        many = int(rest)
        first = WORLD.Get_rank() < many
        half = WORLD.Split(int(first), WORLD.Get_rank())
        return half.Create_intercomm(0, WORLD, many if first else 0, 7), first
    if kind == "accept":
        return psr.accept(rest, WORLD, timeout=40), True
    return psr.connect(rest, WORLD, timeout=40), False


def random_layout(rng: random.Random, shape: tuple[int, ...], comm: MPI.Intracomm, whole: bool) -> psr.Descriptor:
    """Over some of the processes, at any places."""
    size = comm.Get_size()
    grid = [1] * len(shape)
    for _ in range(3):
        k, p = rng.randrange(len(shape)), rng.randint(1, size)
        if int(np.prod(grid)) // grid[k] * p <= size:
            grid[k] = p
    ranks = np.reshape(rng.sample(range(size), int(np.prod(grid))), grid)
    blocks = [rng.choice([None, 1, 2, 5, 64]) for _ in shape]
    larger = shape if whole else tuple(n + rng.randint(0, 4) for n in shape)
    desc = psr.Descriptor(
        larger, blocks, psr.ProcessGrid(grid, comm, ranks=ranks), source=[rng.randrange(p) for p in grid]
    )
    starts = [rng.randint(0, m - n) for n, m in zip(shape, larger, strict=True)]
    return desc[tuple(slice(s, s + n) for s, n in zip(starts, shape, strict=True))]


def values(dtype: np.dtype[Any], step: int) -> Any:
    """Elements that tell where they belong and which step they are of."""

    def function(*indices: Any) -> Any:
        number = step + sum((7 * k + 1) * 13**k * index for k, index in enumerate(indices))
        number = np.broadcast_to(number, np.broadcast_shapes(*(index.shape for index in indices)))
        if dtype.names:
            made = np.empty(number.shape, dtype)
            made["x"], made["k"] = number % 97, number
            return made
        if dtype.kind == "V":
            return np.ascontiguousarray((number % 251).astype("u1")[..., None].repeat(3, -1)).view(dtype)[..., 0]
        return number % 30_000

    return function


def main() -> None:
    seed, plans, steps = (int(text) for text in sys.argv[2:5])
    intercomm, first = connection(sys.argv[1])
    comm = WORLD.Split(int(first), WORLD.Get_rank())
    rng = random.Random(seed)  # the same numbers on both sides
    kept = []
    for number in range(plans):
        shape = tuple(rng.randint(0, 40) for _ in range(rng.randint(1, 3)))
        dtype, exchange = np.dtype(rng.choice(DTYPES)), rng.choice(EXCHANGES)
        forward, told, via = rng.random() < 0.5, rng.choice((True, False)), rng.choice((None, None, "lcm"))
        sends = first == forward
        # Each side draws its own layout, which the other cannot know.
        own = random_layout(random.Random(f"{seed} {number} {first}"), shape, comm, whole=via is not None)
        pair = (own, None) if sends else (None, own)
        try:
            plan = psr.redistribute(
                *pair, comm=intercomm, dtype=dtype if sends or told else None, exchange=exchange, via=via
            )
        except psr.ScheduleError as error:
            if "one-port" not in str(error) and "via" not in str(error):
                raise
            continue
        assert psr.redistribute(*pair, comm=intercomm, dtype=dtype, exchange=exchange, via=via)._identity == (
            plan._identity
        )
        kept.append((plan, own, dtype, sends))
        for step in range(3):
            move(plan, own, dtype, sends, step)
    for step in range(steps):  # one frame after another through one plan, and back through another
        for arguments in kept[:2]:
            move(*arguments, step)
    # Several at once.
    moving = []
    for plan, own, dtype, sends in kept[-3:]:
        out = None if sends else own.zeros(dtype)
        moving.append((plan.start(own.from_function(values(dtype, 5), dtype) if sends else None, out), own, dtype, out))
    for transfer, own, dtype, out in moving[::-1]:
        transfer.wait()
        assert out is None or np.array_equal(out, own.from_function(values(dtype, 5), dtype))
    joint = joined(intercomm)
    total = joint.comm.Get_size()
    print(f"{'first' if first else 'second'} {len(kept)} plans, {total} ranks OK\n", end="", flush=True)
    time.sleep(0.2 * WORLD.Get_rank())  # ranks that end the connection at different times have not gone
    intercomm.Disconnect()
    assert not groups._never_freed


def move(plan: psr.Redistribution, own: psr.Descriptor, dtype: np.dtype[Any], sends: bool, step: int) -> None:
    mine = own.from_function(values(dtype, step), dtype)
    if sends:
        assert plan(mine if own.coords is not None else None) is None
        return
    out = None if own.parent is None else own.zeros(dtype)
    got = plan(None, out)
    assert (got is None) == (own.coords is None), (got, out, own, step, plan)
    assert got is None or np.array_equal(got, mine), (own, step)


if __name__ == "__main__":
    main()
