"""The caterpillar against MPI_Alltoallv (Desprez et al., 1998, section 5.1), with packing inside the timer and outside.

Their timer runs from a barrier, after packing, to the end of the communication, before unpacking. So do the methods whose
names end in `alone`; those in `packed` are the same with packing, unpacking and what a process owes itself. All move the same
packed buffers in plain mpi4py: a Sendrecv in each step of a schedule, or one Alltoallv. Vectors are those of Example 1 on 2
to 16 processes, and of Examples 2 and 4.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from pyscalapack_redist import schedules
from pyscalapack_redist.comm.mpi import MPI
from pyscalapack_redist.tools.bench.methods import Alltoallv, Method, Prepared, Whole
from pyscalapack_redist.tools.bench.results import Results, means
from pyscalapack_redist.tools.bench.stage import Stage, poison
from pyscalapack_redist.tools.bench.suites import Suite
from pyscalapack_redist.tools.cases import Case
from pyscalapack_redist.tools.text import new_table, time_text

from .desprez import Example

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["DESPREZ_PACKING", "EXCHANGES", "TIMERS"]

ORDERS = ("caterpillar", "ring", "optimal")
EXCHANGES = (*ORDERS, "alltoallv")
TIMERS = ("alone", "packed")
EXAMPLES = (*(Example(1, P, P, 3, 5) for P in (2, 4, 8, 16)), Example(2, 16, 16, 7, 11), Example(4, 12, 8, 4, 3))
EACH = (75, 1_200, 19_200, 76_800)  # doubles of a process before: 1,200 to 1.2 million on 16


class _InSteps(Whole):
    """Step by step, one message sent and one received in each; a step in which this rank has neither takes no time."""

    def __init__(self, stage: Stage, order: str) -> None:
        super().__init__(stage)
        before, after = stage.case.before, stage.case.after
        grid = schedules.CommunicationGrid(before.size, after.size, before.block[0], after.block[0])
        rank = stage.comm.Get_rank()
        out, into = (
            {message.peer: memory for message, _, memory in side.parts} for side in (self.outgoing, self.incoming)
        )
        nothing = np.empty(0, np.uint8)
        self._steps = []
        for step in schedules.build(order, grid).steps:
            pairs = [(before.first + p, after.first + q) for p, q, _ in step.tolist()]
            target = next((q for p, q in pairs if p == rank != q), MPI.PROC_NULL)
            source = next((p for p, q in pairs if q == rank != p), MPI.PROC_NULL)
            if (target, source) != (MPI.PROC_NULL, MPI.PROC_NULL):
                self._steps.append((out.get(target, nothing), target, into.get(source, nothing), source))

    def exchange(self) -> None:
        """Move the packed messages. Collective."""
        sendrecv = self.stage.comm.Sendrecv
        for sent, target, received, source in self._steps:
            sendrecv(sent, target, recvbuf=received, source=source)


class _Alone(Prepared):
    """What moves packed messages, packed before it is timed and unpacked when it is verified."""

    def __init__(self, stage: Stage, made: Callable[[Stage], Whole]) -> None:
        super().__init__(stage)
        self._inner = made(stage)
        self._inner.pack()
        self.extra_bytes = self._inner.extra_bytes

    def __call__(self) -> None:
        self._inner.exchange()

    def poison(self) -> None:
        super().poison()
        poison(self._inner.incoming.memory)

    def correct(self) -> bool:
        self._inner.unpack_and_copy()
        return super().correct()


def _obstacle(case: Case) -> str | None:
    """Not one of the vectors that the schedules are made for."""
    grid = case.before, case.after
    if any(len(side.grid) != 2 or side.grid[1] != 1 or case.shape[1:] != (1,) for side in grid):
        return f"{case}: it must be a vector of n x 1"
    return None


MADE: dict[str, Callable[[Stage], Whole]] = {
    **{order: functools.partial(_InSteps, order=order) for order in ORDERS},
    "alltoallv": Alltoallv,
}


def tables(results: Results) -> Sequence[tuple[str, Table]]:
    """For each timer the times, and those of MPI_Alltoallv as multiples of the schedules'. Not collective."""
    found = []
    for timer in TIMERS:
        table = new_table(("from -> to", "doubles"), (*EXCHANGES, *(f"alltoallv / {order}" for order in ORDERS)))
        columns = {name: results.column(f"{name} {timer}") for name in EXCHANGES}
        for k, result in enumerate(results.cases):
            sides = (f"{side.size}:{side.block[0]}" for side in (result.case.before, result.case.after))
            times = (
                "-" if np.isnan(column[k]).any() else " / ".join(map(time_text, column[k]))
                for column in columns.values()
            )
            ratios = (means((columns["alltoallv"] / columns[order])[[k]]) for order in ORDERS)
            table.add_row(" -> ".join(sides), str(result.case.elements), *times, *ratios)
        what = "packing outside the timer, as theirs" if timer == "alone" else "packing inside the timer"
        found.append((f"{what}; minimum / median times, and ratios of both:", table))
    return found


DESPREZ_PACKING = Suite(
    cases=tuple(example.case(each * example.P, False) for example in EXAMPLES for each in EACH),
    quick=tuple(example.case(each * example.P, False) for example in EXAMPLES for each in (75, 300)),
    methods=(
        *(Method(f"{name} alone", functools.partial(_Alone, made=made), _obstacle) for name, made in MADE.items()),
        *(Method(f"{name} packed", made, _obstacle) for name, made in MADE.items()),
    ),
    calls=1,
    tables=tables,
)
