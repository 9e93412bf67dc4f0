"""The cores of the process that computes while the other ranks wait: threads of its BLAS run on them."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..comm.node import usable_cores


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
def blas_on_all_cores() -> Iterator[None]:
    """A context in which BLAS has a thread for each core that this process may use; their number is restored at its end.

    Which cores these are, and how the system treats the threads, is left as it is: a process that is bound to one core has one
    thread.
    """
    libraries = _blas_libraries()
    before = [library.get_num_threads() for library in libraries]
    try:
        for library in libraries:
            library.set_num_threads(len(usable_cores()))
        yield
    finally:
        for library, threads in zip(libraries, before, strict=True):
            library.set_num_threads(threads)
