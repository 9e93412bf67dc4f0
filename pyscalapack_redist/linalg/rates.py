"""How fast routines are on one process by LAPACK, and on a grid by ScaLAPACK: two numbers each, by a trial at first use.

A routine of order n takes f(n) / `lapack` seconds on one process, with the threads that it has there and the moves to it, and
f(n) / (P `scalapack`) + n `latency` on a grid of P: columns and panels are broadcast one after another. f(n) is the leading
term of the operations in LAPACK's users' guide; other routines of the family have another factor on both sides.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..comm.agreement import agreement
from ..comm.group import first_known
from ..distributed_array import DistributedArray
from ..errors import RedistributionError
from ..layout.descriptor import Descriptor
from ..layout.grid import ProcessGrid
from . import solver_rules
from .call import RoutineCall
from .solver_rules import FAMILIES

VARIABLE = "PYSCALAPACK_REDIST_RATES"  # a file of rates, in place of trials
SMALLER, LARGER = 256, 512  # orders of a trial
TRIANGULAR, GENERAL = 0.375, 0.75  # operations of the product of Q with a square, those of the factors of a square being 1
SLENDER_SHARE = 0.5  # of the rate of LAPACK that ScaLAPACK has on a process of a grid, at most, for few columns
STEP_SECONDS = 1e-4  # of a level of the tree, each way
TIMES = 2  # each is done; the least counts
TRIAL = "a trial of linalg's routines"


class Rates(NamedTuple):
    """The rates of a family of routines on a communicator.

    Attributes
    ----------
    lapack : float
        Operations per second on one process.
    scalapack : float
        Operations per second on each process of a grid; 0 if there is no ScaLAPACK.
    latency : float
        Seconds for each column, on a grid.
    """

    lapack: float
    scalapack: float
    latency: float

    def seconds(self, shape: tuple[int, int], processes: int) -> float:
        """The predicted time."""
        return self.seconds_of_work(operations(shape), min(shape), processes)

    def seconds_of_work(self, work: float, columns: int, processes: int) -> float:
        """The same by the operations and the number of columns."""
        if processes == 1:
            return work / self.lapack
        if not self.scalapack:
            return math.inf
        return work / (processes * self.scalapack) + columns * self.latency

    def of_slender(self) -> Rates:
        """Rates by a trial of squares for a matrix of few columns: a process of a grid is slower than one alone.

        Its products are of narrow panels. What a trial says of a grid beside its latency is not so exact.
        """
        return self._replace(scalapack=min(self.scalapack, SLENDER_SHARE * self.lapack))


class TallRates(NamedTuple):
    """The rates of a matrix of many rows and few columns, whose R is decomposed by singular values or not at all.

    Attributes
    ----------
    qr : Rates
        Of its QR factorisation.
    values : Rates or None
        Of the singular values and vectors of R.
    """

    qr: Rates
    values: Rates | None

    def seconds(self, shape: tuple[int, int], processes: int) -> float:
        """The predicted time on one process or on a grid, with a QR factorisation first."""
        (m, n), product = shape, 0.0 if self.values is None else GENERAL
        return self.qr.seconds_of_work(self._work(m, n, product), n, processes) + self._seconds_of_values(n, processes)

    def seconds_in_slabs(self, rows: Sequence[int], columns: int, fans: Sequence[int]) -> float:
        """The predicted time in slabs (`tall`), of which the first one's rank also decomposes R, on one process.

        Parameters
        ----------
        rows : sequence of int
            Of each slab.
        columns : int
            Of the matrix.
        fans : sequence of int
            For each level of the tree, how many factors one rank factors together.
        """
        first, *others = (self._seconds_of_slab(each, columns) for each in rows)
        joins = sum(fan - 1 for fan in fans) / 2 * columns**3 / self.qr.lapack
        latency = (2 * len(fans) + 1) * STEP_SECONDS
        return max([first + self._seconds_of_values(columns, 1), *others]) + joins + latency

    def rows_for_values(self, columns: int) -> int:
        """The rows of a slab that take as long as the decomposition of R."""
        per_row = self._seconds_of_slab(2 * columns, columns) - self._seconds_of_slab(columns, columns)
        return round(columns * self._seconds_of_values(columns, 1) / per_row)

    def _seconds_of_slab(self, rows: int, columns: int) -> float:
        return self._work(rows, columns, TRIANGULAR if self.values is None else GENERAL) / self.qr.lapack

    def _seconds_of_values(self, order: int, processes: int) -> float:
        return 0.0 if self.values is None else self.values.seconds((order, order), processes)

    def _work(self, m: int, n: int, product: float) -> float:
        """Operations of ?geqrf, ?orgqr, and a product of Q, in units in which they are n^3 for a square without the product."""
        return (1.5 + product) * m * n**2 - 0.5 * n**3


def operations(shape: tuple[int, int]) -> float:
    """The leading term of the operations, without a factor."""
    return float(max(shape)) * min(shape) ** 2


def shape_of_work(name: str, operands: Sequence[tuple[int, ...]]) -> tuple[int, int]:
    """The shape whose `operations` are those of a routine: that of the first operand, or of a square for a product."""
    (m, n), *others = operands
    if name != "matmul":
        return m, n
    order = round((m * n * (*others[0], 1)[1]) ** (1 / 3))
    return order, order


def fitted(one: float, smaller: float, larger: float, processes: int) -> Rates:
    """The rates by which the orders of a trial take these times: on one process the larger one, on the grid both."""
    small, large = operations((SMALLER, SMALLER)), operations((LARGER, LARGER))
    # smaller = small x + SMALLER y, larger = large x + LARGER y
    x = (larger - 2 * smaller) / (large - 2 * small)
    x = max(x, larger / large / 4)  # noise: at least a quarter of the time is work
    y = max(0.0, (larger - large * x) / LARGER)
    return Rates(large / one, 1 / (x * processes), y)


def measured(call: RoutineCall, family: str, routine: Callable[..., Any]) -> Rates:
    """The rates of a family by a trial. Collective over the communicator.

    Parameters
    ----------
    call : RoutineCall
        That needs them.
    family : str
        Key of `FAMILIES`.
    routine : callable
        The routine of that name: called with its operands, `layout` and `check`.
    """

    def seconds(order: int, layout: Descriptor, on: Descriptor) -> float:
        best = math.inf
        for _ in range(TIMES):
            operands = trial_operands(family, on)
            with call.step(), agreement(call.group, TRIAL):
                pass
            start = time.perf_counter()
            routine(*operands, layout=layout, check=False)
            with call.step(), agreement(call.group, TRIAL, combine=max) as agreed:
                agreed.give(time.perf_counter() - start)
            best = min(best, agreed.result)
        return best

    block, sides = solver_rules.prefer("scalapack", (LARGER, LARGER), call.comm.Get_size())
    grid = ProcessGrid(sides, call.comm)
    small, large = (Descriptor((n, n), block, grid) for n in (SMALLER, LARGER))
    alone = Descriptor((LARGER, LARGER), block, ProcessGrid((1, 1), call.comm))
    return fitted(
        seconds(LARGER, alone, large), seconds(SMALLER, small, small), seconds(LARGER, large, large), grid.size
    )


def family_name(family: str) -> str:
    """The routine that is tried."""
    return FAMILIES[family][0]


def trial_operands(family: str, desc: Descriptor) -> list[DistributedArray]:
    """Operands for a trial: a random matrix, whose diagonal is large but for "lu", with one right-hand side."""
    rng = np.random.default_rng(desc.grid.comm.Get_rank() if desc.grid.comm is not None else 0)
    diagonal = 0 if family == "lu" else desc.shape[0]

    def elements(rows: Any, columns: Any) -> Any:
        return rng.standard_normal(np.broadcast(rows, columns).shape) + diagonal * (rows == columns)

    def filled(desc: Descriptor) -> DistributedArray:
        return DistributedArray._from_result(desc, desc.from_function(elements, np.float64), np.dtype(np.float64))

    if family == "lu":
        return [filled(desc), filled(Descriptor((desc.shape[0], 1), desc.block, desc.grid))]
    return [filled(desc)] * (2 if family == "matmul" else 1)


def read(call: RoutineCall) -> dict[str, Rates]:
    """The rates in the file that the environment names on the first rank; none without it. Collective over the group.

    Raises
    ------
    RedistributionError
        The file cannot be read; CollectiveError on the other ranks.
    """
    with call.step(), agreement(call.group, "rates of linalg", combine=first_known) as agreed:
        if call.group.rank == 0:
            agreed.give(_read(os.environ.get(VARIABLE)))
    found: dict[str, Rates] = agreed.result
    return found


def _read(path: str | None) -> dict[str, Rates]:
    if not path:
        return {}
    try:
        table: Mapping[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
        rates = {family: Rates(*map(float, numbers)) for family, numbers in table.items()}
        if not rates.keys() <= FAMILIES.keys():
            raise ValueError(f"families must be some of {', '.join(FAMILIES)}")
        for family, numbers in rates.items():
            if not (numbers.lapack > 0 and numbers.scalapack >= 0 <= numbers.latency):
                raise ValueError(f"{family}: {list(numbers)} must not be negative, and the first one positive")
    except (OSError, ValueError, TypeError, AttributeError) as caught:
        raise RedistributionError(
            f"{VARIABLE}={path!r} must name a JSON file with three numbers for each family of routines, operations per second "
            f'on one process and on each process of a grid and seconds for a column, such as {{"eigh": [5e9, 2e9, 3e-5]}}: '
            f"{type(caught).__name__}: {caught}"
        ) from caught
    return rates
