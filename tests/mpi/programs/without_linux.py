"""Without what only Linux has (/proc, /dev/shm, memfd, the cores that a process may use): everything but shared memory works.

It is all taken away before the package is imported. What takes it away is no other system: what such a one has in its place
is not tested.
"""

from __future__ import annotations

import builtins
import contextlib
import errno
import io
import itertools
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI

# Not in Python on macOS, or not on every other system.
MISSING = (
    *("sched_getaffinity", "sched_yield", "memfd_create", "posix_fallocate", "setxattr", "getxattr"),
    *("RTLD_DEEPBIND", "O_TMPFILE", "fdatasync", "pidfd_open", "copy_file_range"),
)
FOLDERS = ("/proc", "/dev/shm", "/sys")


def hides(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, to which there are none of the folders."""

    def looked(path: Any, *args: Any, **keywords: Any) -> Any:
        if isinstance(path, str | Path) and str(path).startswith(FOLDERS):
            seen.append(str(path))
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return function(path, *args, **keywords)

    return looked


seen: list[str] = []
for name in MISSING:
    delattr(os, name)
for module, names in ((os, ("open", "readlink", "stat", "lstat", "statvfs", "listdir", "scandir")), (io, ("open",))):
    for name in names:
        setattr(module, name, hides(getattr(module, name)))
builtins.open = io.open

import pyscalapack_redist as psr  # noqa: E402
from pyscalapack_redist.exchanges import EXCHANGES  # noqa: E402
from pyscalapack_redist.tools.info import describe  # noqa: E402


def value(i: Any, j: Any) -> Any:
    return 100.0 * i + j


def plans_on_paper() -> None:
    a = psr.Descriptor((90, 70), (4, 4), psr.ProcessGrid((2, 3)))
    b = psr.Descriptor((90, 70), (9, 5), psr.ProcessGrid((3, 1)))
    plan = psr.redistribute(a, b, schedule="stepwise")
    assert str(plan.report())
    assert plan.messages_of(0)["send"]


def redistributes(comm: MPI.Intracomm) -> None:
    n = comm.Get_size()
    a = psr.Descriptor((90, 70), (4, 4), psr.ProcessGrid((n, 1), comm))
    b = psr.Descriptor((90, 70), (9, 5), psr.ProcessGrid((1, n), comm))
    whole = b.from_function(value)
    for exchange, buffers in itertools.product(("auto", *EXCHANGES), ("packed", "datatypes")):
        try:
            plan = psr.redistribute(a, b, exchange=exchange, buffers=buffers)
        except psr.ScheduleError:  # they do not go together
            continue
        for _ in range(2):
            assert np.array_equal(plan(a.from_function(value)), whole), (exchange, buffers)
        if exchange == "shared" and n > 1:
            assert "no shared memory: this system has no memfd_create" in str(plan.report()), plan.report()


def saves_and_loads(comm: MPI.Intracomm) -> None:
    with tempfile.TemporaryDirectory() if comm.Get_rank() == 0 else contextlib.nullcontext() as folder:
        name = os.path.join(comm.bcast(folder), "a.npy")
        a = psr.Descriptor((90, 70), (4, 4), psr.ProcessGrid((comm.Get_size(), 1), comm))
        psr.save(a, a.from_function(value), name)
        assert np.array_equal(psr.load(a, name), a.from_function(value))
        comm.Barrier()


def main() -> None:
    comm = MPI.COMM_WORLD
    assert not [name for name in MISSING if hasattr(os, name)]
    plans_on_paper()
    redistributes(comm)
    saves_and_loads(comm)
    if comm.Get_rank() == 0:
        assert any("memfd: not permitted" in line for _, lines in describe() for line in lines)
    assert any(path.startswith("/proc") for path in seen), "nothing has asked for /proc: the test hides it from nobody"
    if comm.Get_rank() == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
