"""Job: ranks that run one program after another, so that each need not be started, and load its modules, anew.

`launch.run` starts a job for each number of ranks that tests ask for. As a program, this file is what the ranks run:
`mpiexec -n RANKS python tests/job.py FOLDER`. Each rank reads from a pipe of its own which program comes next, so it sleeps
meanwhile. Each program gets a duplicate of COMM_WORLD in place of it, which is freed when the program has ended: nothing that
this package keeps with a communicator goes from one program to the next. A program that raises ends the job, as it would end
its own launch.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import runpy
import signal
import sys
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TESTS = str(Path(__file__).parent)
REPLY = "ended"  # the pipe on which all ranks say that a program has ended: a byte each, which is LAST if MPI has ended with it
MORE, LAST = b".", b"!"
# Variables that are the launcher's.
OWN = ("OMPI_", "PMIX_", "PMI_", "PRTE_", "HYDRA_", "HYDI_", "MPIR_", "MPICH_", "PYSCALAPACK_REDIST_LAUNCH")
SIGNALS = (signal.SIGALRM, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def orders_of(folder: Path, rank: int) -> Path:
    """The pipe from which a rank reads what it is to run."""
    return folder / f"rank{rank}"


@contextlib.contextmanager
def as_if_alone(order: dict[str, Any], rank: int) -> Iterator[None]:
    """Output, environment, directory, arguments and modules' path of a program, and afterwards the old ones again."""
    kept = [os.dup(number) for number in (1, 2)]
    # A rank that is told to abort writes in pieces: the ranks have files of their own for that.
    for number, name in ((1, order["out"]), (2, f"{order['err']}{rank}")):
        file = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.dup2(file, number)
        os.close(file)
    environment, arguments, path, folder = dict(os.environ), sys.argv, list(sys.path), os.getcwd()
    launcher = {name: value for name, value in environment.items() if name.startswith(OWN)}
    os.environ.clear()
    os.environ.update({**order["environment"], **launcher})
    os.chdir(order["directory"])
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        sys.argv, sys.path[:] = arguments, path
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number in SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        for number, old in zip((1, 2), kept, strict=True):
            os.dup2(old, number)
            os.close(old)


@contextlib.contextmanager
def modules_unchanged() -> Iterator[None]:
    """What a program has set in modules of this package is undone; its own modules, which may know its communicator, go."""
    modules = [module for name, module in sys.modules.items() if name.startswith("pyscalapack_redist")]
    kept, known = [dict(vars(module)) for module in modules], set(sys.modules)
    try:
        yield
    finally:
        for module, values in zip(modules, kept, strict=True):
            vars(module).update(values)
        for name in set(sys.modules) - known:
            if (getattr(sys.modules[name], "__file__", None) or "").startswith(TESTS):
                del sys.modules[name]


def collect_all_but_modules(loaded: int) -> int:
    """Collect what a program has left, without looking through modules again. Returns how many modules there are."""
    gc.collect()
    if len(sys.modules) > loaded:
        gc.freeze()
    return len(sys.modules)


def run_program(words: list[str]) -> None:
    """What `python PROGRAM ARGUMENT ...` or `python -m MODULE ARGUMENT ...` runs.

    Raises
    ------
    BaseException
        What the program raises.
    """
    try:
        with warnings.catch_warnings():  # a program's filters are its own
            if words[0] == "-m":
                sys.argv, sys.path[0] = words[1:], os.getcwd()
                runpy.run_module(words[1], run_name="__main__", alter_sys=True)
            else:
                sys.argv, sys.path[0] = words, str(Path(words[0]).resolve().parent)
                runpy.run_path(words[0], run_name="__main__")
    except SystemExit as ended:
        if ended.code not in (None, 0):
            raise


def main() -> None:
    """Run programs until there are no more."""
    import numpy as np  # noqa: F401 - loaded once for all programs
    from mpi4py import MPI

    import pyscalapack_redist as psr
    from pyscalapack_redist.comm.mpi import MPI as CACHED

    for name in psr.__all__:  # what is loaded when it is first asked for: a program changes none of it for the next
        getattr(psr, name)
    world, folder = MPI.COMM_WORLD, Path(sys.argv[1])
    for stream in (sys.stdout, sys.stderr):  # a line is written at once, beside those of other ranks
        stream.reconfigure(line_buffering=True, write_through=False)
    ended = os.open(folder / REPLY, os.O_WRONLY)
    loaded = collect_all_but_modules(0)
    with open(orders_of(folder, world.rank)) as orders:
        for line in iter(orders.readline, "\n"):  # an empty line is the end
            order = json.loads(line)
            with as_if_alone(order, world.rank), modules_unchanged():
                MPI.COMM_WORLD = world.Dup()
                vars(CACHED).clear()  # it keeps what has been asked for
                try:
                    run_program(order["words"])
                except BaseException:
                    traceback.print_exc()
                    sys.stderr.flush()
                    if not MPI.Is_finalized():
                        world.Abort(1)
                    os._exit(1)
                loaded = collect_all_but_modules(loaded)
                if MPI.Is_finalized():
                    break
                MPI.COMM_WORLD.Free()
                MPI.COMM_WORLD = world
            os.write(ended, MORE)
    if MPI.Is_finalized():
        os.write(ended, LAST)


if __name__ == "__main__":
    main()
