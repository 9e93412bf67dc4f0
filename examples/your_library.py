"""Somebody else's ScaLAPACK arrays: rows go into arrays of PyScalapack or scalapack4py, which multiply, and come back.

    mpiexec -n 4 python -m mpi4py examples/your_library.py --client PyScalapack
    mpiexec -n 4 python -m mpi4py examples/your_library.py --client scalapack4py --order 500

Both packages load a ScaLAPACK, make BLACS contexts and fill nine integers by themselves. `redistribute` takes these in
place of a Descriptor, and their local arrays as they are. It must only be the same library file on both sides.
"""

from __future__ import annotations

import argparse
import ctypes
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray
from phases import Phases, Refusal, on_all_ranks, options_parser, read_words, say, start

import pyscalapack_redist as psr
from pyscalapack_redist import blacs

BLOCK = 32  # but smaller in a small matrix: PyScalapack's descriptors are of no use to pdgemm on a rank without rows

Array = NDArray[np.float64]


class Theirs(NamedTuple):
    """Three matrices A, B and C of another package: their nine integers, and this rank's local arrays."""

    nine: list[Any]
    local: list[Array]
    multiply: Callable[[], None]


def library() -> ctypes.CDLL:
    """The file of ScaLAPACK that this package uses; MKL is several files, visible in the whole process once loaded."""
    loaded = blacs.load()
    return ctypes.CDLL(None if loaded.vendor == "MKL" else loaded.path, mode=ctypes.RTLD_GLOBAL)


def with_pyscalapack(n: int, block: int, rows: int, columns: int) -> Theirs:
    """Collective over all ranks."""
    package: Any = import_module("PyScalapack")
    sca = package(blacs.load().path, loader=lambda _: library())
    context = sca(b"C", rows, columns).__enter__()
    a, b, c = (context.array(n, n, block, block, dtype=np.float64) for _ in range(3))

    def multiply() -> None:
        order, one, zero = ctypes.c_int(n), sca.f_one["D"], sca.f_zero["D"]
        factors = *a.scalapack_params(), *b.scalapack_params()
        sca.pdgemm(b"N", b"N", order, order, order, one, *factors, zero, *c.scalapack_params())

    return Theirs([a, b, c], [a.data, b.data, c.data], multiply)


def with_scalapack4py(n: int, block: int, rows: int, columns: int) -> Theirs:
    """Collective over all ranks."""
    sl = import_module("scalapack4py").ScaLAPACK4py(library())
    context = sl.make_blacs_context(sl.get_default_system_context(), rows, columns)
    nine = [sl.make_blacs_desc(context, n, n, block, block) for _ in range(3)]
    a, b, c = (desc.alloc_zeros(np.float64) for desc in nine)

    def multiply() -> None:
        sl.pdgemm("N", "N", n, n, n, 1.0, a, 1, 1, nine[0], b, 1, 1, nine[1], 0.0, c, 1, 1, nine[2])

    return Theirs(nine, [a, b, c], multiply)


CLIENTS = {"PyScalapack": with_pyscalapack, "scalapack4py": with_scalapack4py}


def run(comm: MPI.Intracomm, client: str, n: int) -> bool:
    """Multiply, and compare with NumPy; whether it is right. Collective."""
    grid_rows = next(p for p in range(int(comm.size**0.5), 0, -1) if comm.size % p == 0)
    theirs = on_all_ranks(
        comm, lambda: CLIENTS[client](n, min(BLOCK, n // comm.size), grid_rows, comm.size // grid_rows)
    )
    slab = psr.Descriptor((n, n), (None, None), psr.ProcessGrid((comm.size, 1), comm))
    factors = [
        slab.from_function(lambda i, j: np.cos(i + 2.0 * j)),
        slab.from_function(lambda i, j: np.sin(3.0 * i - j)),
    ]
    phases = Phases(comm)
    say(comm, f"order {n} on {comm.size} ranks, {client}")
    for name, rows, nine, local in zip("AB", factors, theirs.nine, theirs.local, strict=False):
        into = psr.redistribute(slab, nine, comm=comm)
        phases.run(f"{name} into its array", client, lambda into=into, rows=rows, local=local: into(rows, local))  # type: ignore[misc]
    phases.run("multiply (its pdgemm)", client, theirs.multiply)
    back = psr.redistribute(theirs.nine[2], slab, comm=comm)
    product: Any = phases.run("C back to rows", "", lambda: back(theirs.local[2]))
    right_factor = np.concatenate(comm.allgather(factors[1]))
    wrong = comm.allreduce(float(np.abs(product - factors[0] @ right_factor).max(initial=0)), MPI.MAX)
    right = bool(wrong < 10 * n * np.finfo(np.float64).eps)
    say(comm, f"largest difference from NumPy {wrong:.1e}{'' if right else ': WRONG'}")
    return right


def read_options(comm: MPI.Intracomm, words: list[str]) -> argparse.Namespace | None:
    """The command line, None where only help was wanted; raises a Refusal where it is wrong. Not collective."""
    parser = options_parser("your_library.py", __doc__)
    parser.add_argument("--client", choices=sorted(CLIENTS), default="PyScalapack", help="default: PyScalapack")
    parser.add_argument("--order", type=int, default=400, metavar="N", help="of the matrices; default: 400")
    given = read_words(parser, comm, words, "there are --client and --order")
    if given is None:
        return None
    if given.order < comm.size:
        raise Refusal(f"--order {given.order}: it must be at least {comm.size}, the number of ranks")
    if find_spec(given.client) is None:
        raise Refusal(f"--client {given.client} needs it: pip install {given.client}")
    return given


if __name__ == "__main__":
    start(read_options, lambda comm, options: run(comm, options.client, options.order))
