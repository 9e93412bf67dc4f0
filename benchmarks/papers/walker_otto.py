"""The experiments of Walker & Otto (1996, section 3): a block size r of 4 grows to K r on P processes.

Each process has 800 blocks of 4-byte integers, whatever K. Fig 11 is time against K for each method; Table 1 holds the
redistribution against a broadcast and an all-to-all of as many bytes. Theirs are, in their order, `phases/synchronized` and
`phases/nonblocking`, `random-phases/synchronized`, `walker-otto/synchronized` and `walker-otto/sendrecv`; `natural` has one
message for a pair of processes where K > P, and `plain sendrecv` is their Fig 10 without this package. `walker-otto-links` has
blocks enough for the bandwidth of links to count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pyscalapack_redist.comm.mpi import MPI
from pyscalapack_redist.layout.notation import LayoutText
from pyscalapack_redist.schedules import walker_otto
from pyscalapack_redist.tools.bench.methods import Method, Prepared, named_methods
from pyscalapack_redist.tools.bench.rank_case import RankCase, bytes_of
from pyscalapack_redist.tools.bench.results import Results
from pyscalapack_redist.tools.bench.suites import Suite
from pyscalapack_redist.tools.cases import Case
from pyscalapack_redist.tools.text import new_table, time_text

if TYPE_CHECKING:
    from rich.table import Table

BLOCK, BLOCKS, MANY_BLOCKS = 4, 800, 131_040
FACTORS = range(2, 21)
PROCESSES = (3, 4, 8, 10, 16)
COLLECTIVES = ("bcast", "alltoall")
METHODS = (
    "phases/synchronized",
    "natural/synchronized",
    "phases/nonblocking",
    "natural/nonblocking",
    "random-phases/synchronized",
    "walker-otto/synchronized",
    "walker-otto/sendrecv",
    "walker-otto/sendrecv/datatypes",
    "auto/alltoallw",
)
TABLE_1 = ("walker-otto/sendrecv", "plain sendrecv"), (2, 20)


class _Plain(Prepared):
    """Their Fig 10 in plain mpi4py: K calls of Sendrecv, each of the blocks at one place of all superblocks (their Fig 3)."""

    extra_bytes = 0

    def __init__(self, rank_case: RankCase) -> None:
        super().__init__(rank_case)
        before, rank = rank_case.case.before, rank_case.comm.Get_rank()
        P, K, size = before.size, factor(rank_case.case), before.block[0] * rank_case.case.dtype.itemsize
        tables = walker_otto(P, K)
        whole, rest = divmod(rank_case.case.shape[0] // before.block[0], P * K)
        self._types = [MPI.BYTE.Create_vector(whole + more, size, K * size).Commit() for more in (0, 1)]

        def buffer(array: NDArray[Any], block: int, place: int) -> list[Any]:
            return [bytes_of(array)[place * size :], 1, self._types[int(block < rest)]]

        self._calls = [
            (
                buffer(rank_case.a, tables.B[k, rank], tables.b[k, rank]),
                int(tables.q[k, rank]),
                buffer(rank_case.out, tables.C[k, rank], tables.t[k, rank]),
                int(tables.p[k, rank]),
            )
            for k in range(K)
        ]

    def __call__(self) -> None:
        for sent, target, received, source in self._calls:
            self.rank_case.comm.Sendrecv(sent, target, recvbuf=received, source=source)

    def close(self) -> None:
        for datatype in self._types:
            datatype.Free()


PLAIN = Method("plain sendrecv", _Plain)


def _case(processes: int, K: int, blocks: int) -> Case:
    before, after = (LayoutText((processes, 1), (block, 1), (0, 0)) for block in (BLOCK, K * BLOCK))
    return Case((processes * blocks * BLOCK, 1), before, after, np.dtype(np.int32))


def factor(case: Case) -> int:
    """K of a case. Not collective."""
    return int(case.after.block[0] // case.before.block[0])


def tables(results: Results) -> Sequence[tuple[str, Table]]:
    """Median time against K for each method, and Table 1. Not collective."""
    medians = {name: column[:, 1] for name, column in results.times.items()}
    methods = [name for name in medians if name not in COLLECTIVES]
    by_factor = new_table(("K",), tuple(methods))
    for k, result in enumerate(results.cases):
        by_factor.add_row(str(factor(result.case)), *(time_text(medians[name][k]) for name in methods))
    first = new_table(("operation",), (f"{results.cases[0].case.before.size} processes",))
    for name in COLLECTIVES:  # of the same bytes for every K
        times = results.column(name)[:, 1]
        first.add_row(name, time_text(float(np.median(times))))
    redistributions, factors = TABLE_1
    for k, result in enumerate(results.cases):
        if factor(result.case) in factors:
            for name in redistributions:
                first.add_row(f"{name}, K = {factor(result.case)}", time_text(results.column(name)[k, 1]))
    return [
        ("median time against K (Walker & Otto, Fig 11):", by_factor),
        ("median times side by side (Walker & Otto, Table 1):", first),
    ]


WALKER_OTTO = Suite(
    cases=tuple(_case(processes, K, BLOCKS) for processes in PROCESSES for K in FACTORS),
    quick=tuple(_case(processes, K, 40) for processes in PROCESSES for K in (2, 3, 20)),
    methods=(*named_methods(*METHODS), PLAIN, *named_methods(*COLLECTIVES)),
    calls=3,
    tables=tables,
)

WALKER_OTTO_LINKS = Suite(
    cases=tuple(_case(processes, K, MANY_BLOCKS) for processes in PROCESSES for K in (2, 4, 8, 20)),
    quick=tuple(_case(processes, K, 40) for processes in PROCESSES for K in (2, 20)),
    methods=(*named_methods(*METHODS), PLAIN, *named_methods("auto", "mpi-waitall", "pxgemr2d")),
    calls=1,
    tables=lambda results: tables(results)[:1],
)
