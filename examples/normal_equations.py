"""A solver that gathers, and the same without gathering: a step of a least-squares fit, from rows of J^T J on each rank.

    mpiexec -n 4 python -m mpi4py examples/normal_equations.py --unknowns 3000

A fit by Gauss and Newton, or by Levenberg and Marquardt, solves (J^T J + mu I) x = J^T r in each step. Each rank has the rows
that belong to its parameters. `by_gathering` sends all rows to rank 0, where SciPy solves, and hands the step out, as fits in
many programs do (pyGSTi's `custom_solve` for less than 10,000 parameters on less than 100 ranks). `by_all_ranks` has all
ranks solve: no rank holds the whole matrix, and if it is not positive definite, all ranks raise.

Here the parameters are the amplitudes of Lorentzian lines, whose products J^T J are known, and r is a sum of the same lines.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg
from mpi4py import MPI
from numpy.typing import NDArray
from phases import Refusal, on_all_ranks, options_parser, positive, read_words, say, start, timed

import pyscalapack_redist as psr

ROUNDS = 3  # of both ways, in turn; the fastest counts

Array = NDArray[np.float64]


# -- the step


def by_all_ranks(comm: MPI.Intracomm, rows: Array, right: Array) -> Any:
    """This rank's elements of the step, by Cholesky factors on all ranks. Collective."""
    a, b = psr.from_local(rows, comm), psr.from_local(right, comm)  # no copies
    return psr.linalg.solve(a, b, assume_a="pos").local


def by_gathering(comm: MPI.Intracomm, rows: Array, right: Array) -> Any:
    """The same by way of rank 0. Collective."""
    n, heights = rows.shape[1], comm.allgather(len(rows))
    whole, sides = (np.empty((n, n)), np.empty(n)) if comm.rank == 0 else (None, None)
    comm.Gatherv(rows, (whole, [height * n for height in heights]))
    comm.Gatherv(right, (sides, heights))
    solution = on_all_ranks(comm, lambda: scipy.linalg.solve(whole, sides, assume_a="pos") if comm.rank == 0 else None)
    step = np.empty(len(rows))
    comm.Scatterv((solution, heights), step)
    return step


# -- the program


@dataclass(frozen=True)
class Options:
    """What the command line asks for."""

    unknowns: int
    damping: float


def read_options(comm: MPI.Intracomm, words: list[str]) -> Options | None:
    """The command line, None where only help was wanted; raises a Refusal where it is wrong. Not collective."""
    parser = options_parser("normal_equations.py", __doc__)
    parser.add_argument("--unknowns", type=positive, default=2000, metavar="N", help="parameters; default: 2000")
    parser.add_argument("--damping", type=float, default=1e-3, metavar="MU", help="mu; default: 0.001")
    given = read_words(parser, comm, words, "there are --unknowns and --damping")
    if given is not None and not math.isfinite(given.damping):
        raise Refusal(f"--damping {given.damping}: it must be a finite number")
    return None if given is None else Options(given.unknowns, given.damping)


def rows_of(n: int, damping: float, own: NDArray[np.int64]) -> Array:
    """Rows of J^T J + mu I for lines of width 1 at 0, 1, ..., n - 1. Not collective."""
    distances = own[:, None] - np.arange(n)
    rows: Array = 4 / (4.0 + distances**2) + damping * (distances == 0)
    return rows


def run(comm: MPI.Intracomm, options: Options) -> bool:
    """Solve both ways and verify; whether all is right. Collective."""
    n = options.unknowns
    rows = rows_of(n, options.damping, np.array_split(np.arange(n), comm.size)[comm.rank])
    right = rows @ np.cos(np.arange(n))
    ways = {"all ranks": by_all_ranks, "gathered": by_gathering}
    seconds, residuals = dict.fromkeys(ways, math.inf), dict.fromkeys(ways, 0.0)
    for _ in range(ROUNDS):
        for name, way in ways.items():
            took, step = timed(comm, partial(on_all_ranks, comm, partial(way, comm, rows, right)))
            seconds[name] = min(took, seconds[name])
            error = np.abs(rows @ np.concatenate(comm.allgather(step)) - right).max(initial=0)
            residuals[name] = max(comm.allreduce(float(error), MPI.MAX), residuals[name])
    say(
        comm,
        f"{n} unknowns on {comm.size} ranks: {rows.nbytes / 2**20:.1f} MiB on rank 0, gathered {n * n / 2**17:.1f}\n",
    )
    for name in ways:
        say(comm, f"{name:10}{seconds[name] * 1e3:9.1f} ms, residual {residuals[name]:.1e}")
    is_right = max(residuals.values()) < 100 * n * float(np.finfo(np.float64).eps)
    if not is_right:
        say(comm, "WRONG: a residual is too large")
    return is_right


if __name__ == "__main__":
    start(read_options, run)
