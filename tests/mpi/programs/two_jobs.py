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
from cases import numbered
from layouts import descriptor
from mpi4py import MPI
from oracle import random_layout

import pyscalapack_redist as psr
from pyscalapack_redist.comm import groups
from pyscalapack_redist.comm.groups import merge_intercomm

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


def drawn(seed: int, number: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """A whole array, the same on both sides."""
    return numbered(np.random.default_rng([seed, number]), shape, dtype)


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
        its, plain = np.random.default_rng([seed, number, first]), via is not None
        own = descriptor(random_layout(its, shape, comm.Get_size(), sub_arrays=not plain, irregular=not plain), comm)
        pair, ways = (own, None) if sends else (None, own), {"comm": intercomm, "exchange": exchange, "via": via}
        try:
            plan = psr.redistribute(*pair, dtype=dtype if sends or told else None, **ways)
        except psr.ScheduleError as error:
            if "one-port" not in str(error) and "via" not in str(error):
                raise
            continue
        assert psr.redistribute(*pair, dtype=dtype, **ways).plan.identity == plan.plan.identity
        kept.append((plan, own, sends, shape, dtype))
        for step in range(3):
            move(plan, own, sends, drawn(seed, step, shape, dtype))
    for step in range(steps):  # one frame after another through one plan, and back through another
        for plan, own, sends, shape, dtype in kept[:2]:
            move(plan, own, sends, drawn(seed, step, shape, dtype))
    moving = []  # several at once
    for plan, own, sends, shape, dtype in kept[-3:]:
        mine, out = part(own, drawn(seed, 5, shape, dtype)), None if sends else own.zeros(dtype)
        moving.append((plan.start(mine if sends else None, out), mine, out))
    for transfer, mine, out in moving[::-1]:
        transfer.wait()
        assert out is None or out.tobytes() == mine.tobytes()
    total = merge_intercomm(intercomm).comm.Get_size()
    print(f"{'first' if first else 'second'} {len(kept)} plans, {total} ranks OK\n", end="", flush=True)
    time.sleep(0.02 * WORLD.Get_rank())  # ranks that end the connection at different times have not gone
    intercomm.Disconnect()
    assert not groups._never_freed


def part(own: psr.Descriptor, whole: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return own.from_function(lambda *mesh: whole[mesh], whole.dtype)


def move(plan: psr.Redistribution, own: psr.Descriptor, sends: bool, whole: np.ndarray[Any, Any]) -> None:
    mine = part(own, whole)
    if sends:
        assert plan(mine if own.coords is not None else None) is None
        return
    got = plan(None, None if own.parent is None else own.zeros(whole.dtype))
    assert (got is None) == (own.coords is None), (got, own, plan)
    assert got is None or got.tobytes() == mine.tobytes(), own


if __name__ == "__main__":
    main()
