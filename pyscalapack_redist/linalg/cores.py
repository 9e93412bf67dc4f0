"""Cores of a node lent to the process that computes while the other ranks wait: its affinity, and the threads of its BLAS."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator
from typing import Any

from ..comm.node import usable_cores


@functools.cache
def _blas_libraries() -> list[Any]:
    """Controllers of the BLAS libraries in this process, those of NumPy and SciPy among them."""
    import scipy.linalg.lapack  # noqa: F401 - loads SciPy's library
    from threadpoolctl import ThreadpoolController

    controllers: list[Any] = ThreadpoolController().lib_controllers
    return [library for library in controllers if library.user_api == "blas"]


@contextlib.contextmanager
def lent(cores: frozenset[int]) -> Iterator[None]:
    """A context in which this thread may run on these cores, with as many threads of BLAS; both are restored at its end.

    Where the system does not allow that, it is the cores that this process has anyway.

    Parameters
    ----------
    cores : frozenset of int
        Those of all ranks of the node.
    """
    own = usable_cores()
    granted = _move_to(cores) if cores - own else own
    libraries = _blas_libraries()
    before = [library.get_num_threads() for library in libraries]
    try:
        for library in libraries:
            library.set_num_threads(len(granted))
        yield
    finally:
        for library, threads in zip(libraries, before, strict=True):
            library.set_num_threads(threads)
        if granted != own:
            _move_to(own)


def _move_to(cores: frozenset[int]) -> frozenset[int]:
    """Let this thread, and those that it starts, run on these cores; return those on which it may run."""
    with contextlib.suppress(OSError, AttributeError):  # other systems, and cores outside of the cpuset
        os.sched_setaffinity(0, cores)
    return usable_cores()
