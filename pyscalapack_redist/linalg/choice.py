"""The choice of the layout that a routine works in, by predicted times."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..comm.mpi import MPI
from ..layout.descriptor import Descriptor
from .cache import Cache
from .rates import FAMILY, family_name, shape_of_work
from .working_layouts import ROUTINES

COPY_RATE = 1e9  # bytes that a process sends or receives in a second
SURE = 192 * 192  # elements up to which one process is faster everywhere


def fastest_layout(
    routine: str, operands: Sequence[tuple[int, ...]], layouts: Sequence[Descriptor], cache: Cache, comm: MPI.Intracomm
) -> Descriptor:
    """The layout with the least predicted time. Collective over the group where rates are measured.

    Parameters
    ----------
    routine : str
        Its name.
    operands : sequence of tuple of int
        Their shapes.
    layouts : sequence of Descriptor
        The first one costs no move; the last one is on one process.
    cache : Cache
        Of the operands' communicator.
    comm : MPI.Intracomm
        That communicator.
    """
    family = FAMILY[routine]
    elements = max(map(math.prod, operands))
    if elements <= SURE and not cache.has_file_of(family):
        return layouts[-1]
    shape = shape_of_work(routine, operands)
    rates = cache.rates(family, comm, ROUTINES[family_name(family)])

    def seconds(number: int) -> float:
        layout = layouts[number]
        # nothing moves to the first layout, and the rate on one process has its moves in it
        moved = 2 * 8 * elements / (COPY_RATE * layout.grid.size) if 0 < number < len(layouts) - 1 else 0.0
        return rates.seconds(shape, layout.grid.size) + moved

    return layouts[min(range(len(layouts)), key=seconds)]
