"""Times of psr.linalg on a jax.Array, beside the same calls on a DistributedArray of its layout, in turn.

    mpiexec -n 2 python -m mpi4py benchmarks/jax_linalg.py [--order 2048] [--repeat 3] [--routines eigh,solve,svd,cholesky]

Prints a row of a table for each routine: median times, their ratio, and the relative residual. On one process also the time of
`jnp.linalg`.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from mpi4py import MPI

import pyscalapack_redist as psr

WORLD = MPI.COMM_WORLD


def eigh(a: Any, b: Any) -> tuple[Any, float]:
    w, v = psr.linalg.eigh(a)
    return (w, v), relative(difference(psr.linalg.matmul(a, v), scaled(v, w)), a)


def solve(a: Any, b: Any) -> tuple[Any, float]:
    x = psr.linalg.solve(a, b)
    return x, relative(difference(psr.linalg.matmul(a, x), b), a) / psr.linalg.norm(x)


def svd(a: Any, b: Any) -> tuple[Any, float]:
    u, s, vh = psr.linalg.svd(a)
    return (u, s, vh), relative(difference(psr.linalg.matmul(scaled(u, s), vh), a), a)


def cholesky(a: Any, b: Any) -> tuple[Any, float]:
    factor = psr.linalg.cholesky(a, lower=True)
    view = psr.as_distributed(factor)
    turned = view.T.redistribute(view)
    return factor, relative(difference(psr.linalg.matmul(view, turned), psr.as_distributed(a)), a)


ROUTINES: dict[str, Callable[[Any, Any], tuple[Any, float]]] = {"eigh": eigh, "solve": solve, "svd": svd, "cholesky": cholesky}


def difference(x: Any, y: Any) -> Any:
    return psr.as_distributed(x) - psr.as_distributed(y).redistribute(psr.layout_of(x))


def scaled(matrix: Any, columns: Any) -> Any:
    view = psr.as_distributed(matrix)
    return psr.DistributedArray(view.desc, view.local * np.asarray(columns)[view.desc.global_indices(1)])


def relative(x: Any, a: Any) -> float:
    return float(psr.linalg.norm(x) / psr.linalg.norm(a))


def seconds(call: Callable[[], Any]) -> float:
    WORLD.Barrier()
    start = time.perf_counter()
    jax.block_until_ready(call())
    WORLD.Barrier()
    return WORLD.bcast(time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--order", type=int, default=2048)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--routines", default=",".join(ROUTINES))
    options = parser.parse_args()
    if WORLD.size > 1:
        jax.distributed.initialize(cluster_detection_method="mpi4py")
    jax.config.update("jax_enable_x64", True)
    n = options.order
    rows = NamedSharding(Mesh(np.array(jax.devices()), ["rows"]), P("rows"))
    whole = np.random.default_rng(1).standard_normal((n, n))
    whole = (whole + whole.T) / 2 + 4 * np.sqrt(n) * np.eye(n)
    a = jax.make_array_from_callback((n, n), rows, lambda part: whole[part])
    b = jax.make_array_from_callback((n, 16), rows, lambda part: whole[part[0], :16])
    view_a, view_b = psr.as_distributed(a), psr.as_distributed(b)
    for name in options.routines.split(","):
        routine = getattr(psr.linalg, name)
        operands, views = ([a, b], [view_a, view_b]) if name == "solve" else ([a], [view_a])
        _, residual = ROUTINES[name](a, b)
        times: dict[str, list[float]] = {"jax": [], "distributed": []}
        for _ in range(options.repeat):
            times["distributed"].append(seconds(lambda: routine(*views)))  # noqa: B023
            times["jax"].append(seconds(lambda: routine(*operands)))  # noqa: B023
        median = {kind: statistics.median(values) for kind, values in times.items()}
        ratio = statistics.median([x / y for x, y in zip(times["jax"], times["distributed"], strict=True)])
        alone = ""
        if WORLD.size == 1 and name in ("eigh", "svd", "cholesky"):
            function = getattr(jax.numpy.linalg, name)
            alone = f"{statistics.median([seconds(lambda: function(a)) for _ in range(options.repeat)]):.2f}"  # noqa: B023
        if WORLD.rank == 0:
            print(f"| {name} | {WORLD.size} | {median['distributed']:.2f} | {median['jax']:.2f} | {ratio:.2f} | "
                  f"{residual:.0e} | {alone} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
