"""The experiments of Desprez et al. (1998, section 5): caterpillar against the optimal schedule over vector sizes.

Examples 1, 2 and 4, each on processes that senders and receivers share and on two disjoint sets, as they did. Unlike
theirs, times here include packing and unpacking. The figures that they print for the caterpillar are those of the
pairing q - p constant, which is `ring` here; `caterpillar` pairs as pxgemr2d does.

`desprez-packing` has the caterpillar against MPI_Alltoallv (section 5.1), with packing inside the timer and outside. Their
timer runs from a barrier, after packing, to the end of the communication, before unpacking. So do the methods whose names
end in `alone`; those in `packed` are the same with packing, unpacking and what a process owes itself. All move the same
packed buffers in plain mpi4py: a Sendrecv in each step of a schedule, or one Alltoallv. Vectors are those of Example 1 on 2
to 16 processes, and of Examples 2 and 4.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pyscalapack_redist import schedules
from pyscalapack_redist.comm.mpi import MPI
from pyscalapack_redist.layout.notation import LayoutText
from pyscalapack_redist.tools.bench.methods import Method, PackedMethod, Prepared, WholeByAlltoallv, named_methods
from pyscalapack_redist.tools.bench.rank_case import RankCase, poison
from pyscalapack_redist.tools.bench.results import Results, means
from pyscalapack_redist.tools.bench.suites import Suite
from pyscalapack_redist.tools.cases import Case
from pyscalapack_redist.tools.text import new_table, ratio_text, time_text

if TYPE_CHECKING:
    from rich.table import Table

PAIRINGS = ("caterpillar/sendrecv", "ring/sendrecv")
OPTIMAL = "optimal/sendrecv"
METHODS = (*PAIRINGS, OPTIMAL, "optimal/windowed", "auto", "pxgemr2d")
SIZES = (1_200, 4_800, 19_200, 76_800, 307_200, 1_228_800)


@dataclass(frozen=True)
class Example:
    """From blocks of r on P processes to blocks of s on Q."""

    number: int
    P: int
    Q: int
    r: int
    s: int

    def case(self, size: int, disjoint: bool) -> Case:
        """A vector of whole slices, of about `size` doubles and at least one slice."""
        length = math.lcm(self.P * self.r, self.Q * self.s)
        before = LayoutText((self.P, 1), (self.r, 1), (0, 0))
        after = LayoutText((self.Q, 1), (self.s, 1), (0, 0), self.P if disjoint else 0)
        return Case((max(1, round(size / length)) * length, 1), before, after)

    def expected(self, name: str) -> tuple[float, float]:
        """Steps and cost of the optimal schedule as fractions of those of another.

        The first is what to expect of short vectors, where each step costs a latency, the second of long ones.
        """
        grid = schedules.CommunicationGrid(self.P, self.Q, self.r, self.s)
        best, other = schedules.build("optimal", grid), schedules.build(name, grid)
        steps = sum(len(step) > 0 for step in other.steps)
        return best.number_of_steps / steps, best.total_cost / other.total_cost

    def __str__(self) -> str:
        return f"Example {self.number}: P = {self.P}, Q = {self.Q}, r = {self.r}, s = {self.s}"


EXAMPLES = (Example(1, 16, 16, 3, 5), Example(2, 16, 16, 7, 11), Example(4, 12, 8, 4, 3))


def tables(results: Results) -> Sequence[tuple[str, Table]]:
    """Median times and ratios over vector sizes, for each example on each kind of process sets. Not collective."""
    medians = {name: column[:, 1] for name, column in results.times.items()}
    ratios = [results.column(OPTIMAL)[:, 1] / results.column(name)[:, 1] for name in PAIRINGS]
    groups: dict[tuple[Example, str], list[int]] = {}
    for k, result in enumerate(results.cases):
        case = result.case
        numbers = (case.before.size, case.after.size, case.before.block[0], case.after.block[0])
        example = next(example for example in EXAMPLES if (example.P, example.Q, example.r, example.s) == numbers)
        groups.setdefault((example, "disjoint sets" if case.after.first else "shared processes"), []).append(k)
    made = []
    for (example, sets), cases in groups.items():
        table = new_table(("doubles",), (*medians, *(f"optimal / {name.split('/')[0]}" for name in PAIRINGS)))
        for k in sorted(cases, key=lambda k: results.cases[k].case.elements):
            times = (time_text(column[k]) for column in medians.values())
            shares = (ratio_text(ratio[k]) for ratio in ratios)
            table.add_row(str(results.cases[k].case.elements), *times, *shares)
        made.append((f"{example}, {sets}: median times; {_expectation(example)}:", table))
    return made


def _expectation(example: Example) -> str:
    words = []
    for name in PAIRINGS:
        pairing = name.split("/")[0]
        steps, cost = example.expected(pairing)
        words.append(f"{ratio_text(steps)} by steps and {ratio_text(cost)} by cost against {pairing}")
    return "in theory " + ", ".join(words)


def _cases(sizes: Sequence[int]) -> tuple[Case, ...]:
    return tuple(example.case(size, disjoint) for example in EXAMPLES for disjoint in (False, True) for size in sizes)


DESPREZ = Suite(
    cases=_cases(SIZES),
    quick=_cases((1_200, 12_000)),
    methods=named_methods(*METHODS),
    calls=2,
    tables=tables,
)


# -- packing inside the timer, and outside

ORDERS = ("caterpillar", "ring", "optimal")
EXCHANGES = (*ORDERS, "alltoallv")
TIMERS = ("alone", "packed")
PACKED = (*(Example(1, P, P, 3, 5) for P in (2, 4, 8, 16)), Example(2, 16, 16, 7, 11), Example(4, 12, 8, 4, 3))
EACH = (75, 1_200, 19_200, 76_800)  # doubles of a process before: 1,200 to 1.2 million on 16


class _InSteps(PackedMethod):
    """Step by step, one message sent and one received in each; a step in which this rank has neither takes no time."""

    def __init__(self, rank_case: RankCase, order: str) -> None:
        super().__init__(rank_case)
        before, after = rank_case.case.before, rank_case.case.after
        grid = schedules.CommunicationGrid(before.size, after.size, before.block[0], after.block[0])
        rank = rank_case.comm.Get_rank()
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
        sendrecv = self.rank_case.comm.Sendrecv
        for sent, target, received, source in self._steps:
            sendrecv(sent, target, recvbuf=received, source=source)


class _Alone(Prepared):
    """What moves packed messages, packed before it is timed and unpacked when it is verified."""

    def __init__(self, rank_case: RankCase, made: Callable[[RankCase], PackedMethod]) -> None:
        super().__init__(rank_case)
        self._inner = made(rank_case)
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


def _not_a_vector(case: Case) -> str | None:
    """Not one of the vectors that the schedules are made for."""
    grid = case.before, case.after
    if any(len(side.grid) != 2 or side.grid[1] != 1 or case.shape[1:] != (1,) for side in grid):
        return f"{case}: it must be a vector of n x 1"
    return None


MADE: dict[str, Callable[[RankCase], PackedMethod]] = {
    **{order: functools.partial(_InSteps, order=order) for order in ORDERS},
    "alltoallv": WholeByAlltoallv,
}


def packing_tables(results: Results) -> Sequence[tuple[str, Table]]:
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
    cases=tuple(example.case(each * example.P, False) for example in PACKED for each in EACH),
    quick=tuple(example.case(each * example.P, False) for example in PACKED for each in (75, 300)),
    methods=(
        *(Method(f"{name} alone", functools.partial(_Alone, made=made), _not_a_vector) for name, made in MADE.items()),
        *(Method(f"{name} packed", made, _not_a_vector) for name, made in MADE.items()),
    ),
    calls=1,
    tables=packing_tables,
)
