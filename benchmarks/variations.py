"""One thing varies: the block size, the number of ranks, or the dtype."""

from __future__ import annotations

import math

import numpy as np

from pyscalapack_redist.tools.bench.methods import DEFAULT_METHODS, named_methods
from pyscalapack_redist.tools.bench.suites import GRIDS, Suite, squares
from pyscalapack_redist.tools.cases import Case

METHODS = named_methods(*DEFAULT_METHODS)
ORDER = 4096  # of the matrix
DTYPES = ("int8", "int16", "float32", "float64", "complex64", "complex128", "longdouble", "V3", "V24")


def _ranks(ranks: int, order: int) -> tuple[Case, ...]:
    """From the squarest grid to a column of processes, and to its transpose with other blocks."""
    rows = max(n for n in range(1, math.isqrt(ranks) + 1) if ranks % n == 0)
    after = f"{ranks}x1:64x64", f"{ranks // rows}x{rows}:100x100"
    return tuple(Case.read((order, order), f"{rows}x{ranks // rows}:64x64", layout) for layout in after)


def _dtypes(size: int) -> tuple[Case, ...]:
    """Arrays of about so many bytes, whatever the dtype."""
    rows = math.isqrt(size) // 2
    columns = {name: size // rows // np.dtype(name).itemsize for name in DTYPES}
    return tuple(
        Case.read((rows, n), f"{a}:30x50", f"{b}:64x64", name) for a, b in GRIDS.values() for name, n in columns.items()
    )


VARIATIONS: dict[str, Suite] = {
    "blocks": Suite(
        cases=squares((ORDER, 2**k, 64) for k in range(11)),
        quick=squares((200, n, 64) for n in (1, 4, 64)),
        methods=METHODS,
    ),
    "ranks": Suite(
        cases=tuple(case for ranks in range(1, 17) for order in (512, ORDER) for case in _ranks(ranks, order)),
        quick=tuple(case for ranks in range(1, 17) for case in _ranks(ranks, 300)),
        methods=METHODS,
    ),
    "dtypes": Suite(cases=_dtypes(64 * 2**20), quick=_dtypes(2**16), methods=METHODS),
}
