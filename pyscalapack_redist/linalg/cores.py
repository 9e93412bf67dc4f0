"""Cores of a node lent to the process that computes while the other ranks wait: threads of its BLAS run on them."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..comm.node import usable_cores

TASKS = Path("/proc/self/task")


@functools.cache
def _blas_libraries() -> list[Any]:
    """Controllers of the BLAS library of SciPy, or of all in this process where it cannot be told from NumPy's.

    Idle threads of a second library, as they wait for work, would take the cores from those of the first.
    """
    import scipy.linalg.lapack  # noqa: F401 - loads the library
    from threadpoolctl import ThreadpoolController

    libraries = [library for library in ThreadpoolController().lib_controllers if library.user_api == "blas"]
    of_scipy = [library for library in libraries if "scipy.libs" in Path(library.filepath).parts]
    return of_scipy or libraries


@contextlib.contextmanager
def lent(cores: frozenset[int]) -> Iterator[None]:
    """A context in which BLAS has a thread for each of these cores; their number is restored at its end.

    This thread stays where it is. Those that BLAS starts run on the other cores, and only while nobody else wants these:
    they go on polling for some 100 ms after their work, when the ranks to which the cores belong have to do theirs.

    Where the system does not allow that, it is the cores that this process has anyway.

    Parameters
    ----------
    cores : frozenset of int
        Those of all ranks of the node.
    """
    own, others = usable_cores(), _tasks()
    libraries = _blas_libraries()
    before = [library.get_num_threads() for library in libraries]
    try:
        for library in libraries:
            library.set_num_threads(len(cores))
        if not _place(_tasks() - others, cores - own or cores):
            for library in libraries:
                library.set_num_threads(len(own))
        yield
    finally:
        for library, threads in zip(libraries, before, strict=True):
            library.set_num_threads(threads)
        _place(_tasks() - others, cores - own or cores)  # of a library that starts its threads when it needs them


def _tasks() -> set[int]:
    """The system's numbers of the threads of this process, but for Python's own; none where the system does not tell."""
    with contextlib.suppress(OSError):
        return {int(task.name) for task in TASKS.iterdir()} - {thread.native_id for thread in threading.enumerate()}
    return set()


def _place(tasks: set[int], cores: frozenset[int]) -> bool:
    """Let threads run on these cores as long as nothing else wants them; return whether the system allows that."""
    try:
        for task in tasks:
            os.sched_setaffinity(task, cores)
            os.sched_setscheduler(task, os.SCHED_IDLE, os.sched_param(0))
    except ProcessLookupError:  # it has ended since
        return True
    except (OSError, AttributeError):  # cores outside of the cpuset; other systems
        return False
    return True
