"""One of two jobs goes away, or never comes: the other gets a named error on every rank, in time.

Arguments: ROLE:PATH WHAT USE EXCHANGE. ROLE is `accept` or `connect`. WHAT this job does after some steps: `kill` (all its
ranks), `kill-one`, `leave` (end in good order), `raise`; or before that: `joining` (die when MPI is to join the jobs),
`foreign` (run on another MPI), `wrong`, `pickle`, `silent` (come by MPI without the secret of the meeting and say something
else, or nothing, and afterwards pickles that make the file PATH.unpickled); `stay` is the other one's part. USE: `steps`
through one plan, `tests` of what is started through it, or `plans`, a new one for each step. A job that cannot be joined says
why.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from launch import limit
from mpi4py import MPI

import pyscalapack_redist as psr
from pyscalapack_redist.comm import group as conversation
from pyscalapack_redist.connection import connect as connection

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.Get_rank(), WORLD.Get_size()
STEPS = 20


def main() -> None:
    role, path = sys.argv[1].split(":")
    what, use, exchange = sys.argv[2:]
    if what == "joining":
        connection._Side._in_mpi = die  # type: ignore[assignment]
    if what == "foreign":
        assert callable(connection._facts_of_mpi)
        connection._facts_of_mpi = lambda: {"mpi": "Another MPI 1.0", "job": "other", "server": True}
    if what in ("wrong", "pickle", "silent"):
        be_a_stranger(what, f"{path}.unpickled")
    try:
        intercomm = {"accept": psr.accept, "connect": psr.connect}[role](path, WORLD, timeout=limit(20.0))
    except psr.ConnectError as error:
        print(f"rank {RANK}: {error}\n", end="", flush=True)
        WORLD.Barrier()
        os._exit(0)  # MPI may still be at it
    layout = psr.Descriptor((300, 200), (8, 8), psr.ProcessGrid((SIZE, 1), WORLD))
    sends = role == "accept"
    pair = (layout, None) if sends else (None, layout)
    frame = layout.zeros(np.float64)
    arrays = (frame, None) if sends else (None, frame)
    plan = psr.redistribute(*pair, comm=intercomm, exchange=exchange)
    step, moment = 0, 0.0
    try:
        while True:
            if step == STEPS and what != "stay":
                went_away(what)
            moment = time.monotonic()
            if use == "plans":
                plan = psr.redistribute(*pair, comm=intercomm, exchange=exchange, memory_limit=10_000 + step)
            transfer = plan.start(*arrays) if use == "tests" else plan(*arrays)
            while use == "tests" and not transfer.test():
                time.sleep(0.001)
            step += 1
    except psr.RedistributionError as error:
        words = f"{type(error).__name__}: {error}"
    waited = time.monotonic() - moment
    try:
        plan(*arrays)
        again = "no error"
    except psr.RedistributionError as error:
        again = type(error).__name__
    left = [file.name for file in Path(path).parent.glob(Path(path).name + ".*")]
    step_ok = STEPS - 1 <= step <= STEPS  # a sender may be one ahead
    print(
        f"rank {RANK}: {'in time' if waited < limit(15.0) else waited} {step_ok} {again} {left} {words}\n",
        end="",
        flush=True,
    )
    if what == "stay":
        WORLD.Barrier()
    os._exit(0)  # MPI_Finalize would wait for the dead


def die(*_: object) -> None:
    time.sleep(1)  # the other job sees that the port was taken, and asks MPI
    os.kill(os.getpid(), signal.SIGKILL)


class Trap:
    """Its pickle makes a file wherever it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return open, (self.path, "w")


def be_a_stranger(what: str, path: str) -> None:
    trap = pickle.dumps(Trap(path))

    def come(intercomm: MPI.Intercomm, *_: object) -> None:
        if what != "silent":
            intercomm.Isend([trap if what == "pickle" else bytes(connection.BYTES), MPI.BYTE], 0, connection.TAG)

    connection.check_other_side = come
    conversation.pickle = SimpleNamespace(dumps=lambda _: trap, loads=pickle.loads)  # type: ignore[assignment]


def went_away(what: str) -> None:
    time.sleep(0.5)
    if what == "kill" or (what == "kill-one" and RANK == SIZE - 1):
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "leave":
        sys.exit()
    if what == "raise" and RANK == 0:
        raise RuntimeError("this job raises on purpose")


if __name__ == "__main__":
    main()
