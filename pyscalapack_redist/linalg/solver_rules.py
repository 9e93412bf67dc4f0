"""Rules of solver libraries for the layout of a matrix, each with its source, and the layouts that they run well in.

A rule is a condition: a library that is given another layout refuses it, ends the process, or returns wrong results. Advice on
speed is no rule. `prefer` follows it: blocks of ScaLAPACK's Users' Guide for ScaLAPACK; for ELPA blocks of a power of two (its
elpa2_template.F90 takes its kernels for CPUs otherwise), of a size near the default of its test programs; nearly square grids
(ELPA's PERFORMANCE_TUNING.md).

Versions: ELPA 2022.11.001 and 2026.02.001.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from ..layout.descriptor import Descriptor
from ..scalapack.matrix_operands import (
    block_obstacle,
    gesvd_obstacle,
    irregular_obstacle,
    source_obstacle,
    sub_array_obstacle,
    syevd_obstacle,
)

BY_SINGULAR_VALUES = ("cond", "lstsq", "matrix_rank", "norm", "pinv", "svd", "svdvals")
EIGEN = ("eigh", "eigvalsh")
CHOLESKY = ("cholesky", "cho_factor", "cho_solve")
LU = ("solve", "lu_factor", "lu_solve")
TRIANGULAR = ("solve_triangular",)
OF_SQUARE_MATRICES = {*EIGEN, *CHOLESKY, *LU, *TRIANGULAR, "inv"}
ELEMENTS = 256 * 256


class Condition(NamedTuple):
    """A property of layouts."""

    name: str
    find_obstacle: Callable[[Descriptor], str]  # why a layout does not have it, after "desc is"; "" if it has
    remedy: str


class Rule(NamedTuple):
    """A condition that a library sets."""

    condition: Condition
    source: str
    routines: tuple[str, ...] | None = None  # of `linalg`, that it is for; None: all


class Solver(NamedTuple):
    """A library, with the rules that a layout must follow."""

    title: str
    rules: tuple[Rule, ...]
    routines: tuple[str, ...] | None = None  # of `linalg`, that the library has; None: all
    block: int = 64  # the largest that `prefer` takes
    power_of_two: bool = True


def _column_obstacle(desc: Descriptor) -> str:
    n, block, columns = desc.shape[1], desc.block[1], desc.grid.shape[1]
    if block * (columns - 1) < n:
        return ""
    return f"of {n} columns in blocks of {block} over {columns} process columns, of which the last has no columns"


def _plane_obstacle(desc: Descriptor) -> str:
    plane = desc.ndim == 2 == desc.grid.ndim and desc.axes == (0, 1)
    return "" if plane else "not of two dimensions over a two-dimensional grid, in order"


def _by(sizes: tuple[int, ...]) -> str:
    return " x ".join(map(str, sizes))


def _obstacle_unless(holds: Callable[[Descriptor], bool], text: str) -> Callable[[Descriptor], str]:
    """An obstacle by a predicate; the text may quote the shapes of matrix and grid, and the block size."""
    return lambda desc: (
        "" if holds(desc) else text.format(shape=_by(desc.shape), grid=_by(desc.grid.shape), block=desc.block[0])
    )


PLANE = Condition(
    "two dimensions over a grid of two, in order", _plane_obstacle, "take a ProcessGrid of two dimensions"
)
EVEN = Condition("blocks of one size", irregular_obstacle, "give the block size as a number")
WHOLE = Condition("a whole array", sub_array_obstacle, "redistribute the sub-array to a whole array")
SQUARE_BLOCKS = Condition("square blocks", block_obstacle, "give both dimensions one block size")
SOURCE = Condition("source (0, 0)", source_obstacle, "leave out source=")
SQUARE = Condition(
    "a square matrix",
    _obstacle_unless(lambda desc: desc.shape[0] == desc.shape[1], "of {shape} elements"),
    "take another routine",
)
NOT_EMPTY = Condition(
    "a matrix that is not empty",
    _obstacle_unless(lambda desc: 0 not in desc.shape, "of {shape} elements"),
    "make no call",
)
COLUMNS = Condition(
    "columns on each process column", _column_obstacle, "take smaller blocks, or a grid of fewer columns"
)
SEVERAL_BLOCKS = Condition(
    "several blocks, and ranks in a usual order",
    syevd_obstacle,
    "take smaller blocks, or leave out ranks= of the ProcessGrid",
)
NOT_ONE_BY_TWO = Condition("other than 1 x 2 elements on process columns", gesvd_obstacle, "take a grid of one column")

SOLVERS = {
    "scalapack": Solver(
        "ScaLAPACK",
        (
            Rule(PLANE, "ScaLAPACK Users' Guide, section 4.3"),
            Rule(WHOLE, "alignment requirements in PDSYEV, PDGEBRD, PDORMBR"),
            Rule(EVEN, "ScaLAPACK Users' Guide, section 4.3"),
            Rule(SQUARE_BLOCKS, "PDGETRF, PDPOTRF: MB_A = NB_A; alignment requirements in PDSYEV"),
            Rule(SOURCE, "alignment requirements in PDSYEV, PDORMBR: operands begin on one process"),
            Rule(SEVERAL_BLOCKS, "observed: PDSYEVD of netlib and of MKL", EIGEN),
            Rule(NOT_ONE_BY_TWO, "observed: PDGESVD of netlib and of MKL", BY_SINGULAR_VALUES),
        ),
        power_of_two=False,
    ),
    "elpa": Solver(
        "ELPA",
        (
            Rule(PLANE, "ELPA's USERS_GUIDE.md: process_row, process_col"),
            Rule(EVEN, "ELPA's man page elpa_set: one nblk"),
            Rule(WHOLE, "ELPA's man page elpa_set: na, local_nrows and local_ncols are of a whole matrix"),
            Rule(SQUARE, "ELPA's man page elpa_set: the matrix is na x na"),
            Rule(NOT_EMPTY, "ELPA's elpa_index.c, na_is_valid: na > 0"),
            Rule(SQUARE_BLOCKS, "ELPA's USERS_GUIDE.md: block sizes of both directions are identical"),
            Rule(SOURCE, "ELPA's elpa_impl.F90, elpa_setup: numroc from process 0; local_index of elpa_utilities.F90"),
            Rule(COLUMNS, "ELPA's solve_tridi_template.F90: no processor column with zero width", EIGEN),
        ),
        (*EIGEN, "cholesky", "cho_factor"),
    ),
}


def find_broken_rule(library: str, desc: Descriptor, name: str | None) -> tuple[Rule, str] | None:
    """The first rule that a layout does not follow, and why; None if it follows all."""
    for rule in SOLVERS[library].rules:
        if rule.routines is None or _concerns(rule.routines, desc, name):
            obstacle = rule.condition.find_obstacle(desc)
            if obstacle:
                return rule, obstacle
    return None


def _concerns(routines: tuple[str, ...], desc: Descriptor, name: str | None) -> bool:
    """Whether a rule for some routines is one for this routine; None: for any that takes a matrix of this shape."""
    if name is not None:
        return name in routines
    return desc.shape[0] == desc.shape[1] or not OF_SQUARE_MATRICES.issuperset(routines)


def prefer(library: str, shape: tuple[int, int], available: int) -> tuple[int, tuple[int, int]]:
    """The block size and the shape of the grid that suit a library on so many processes, or on some of them."""
    solver, (m, n) = SOLVERS[library], shape
    processes = min(available, max(1, -(-m * n // ELEMENTS)))
    few = math.isqrt(processes)
    many = processes // few
    sides = (few, many) if m <= n else (many, few)
    block = max(1, min(solver.block, -(-m // sides[0]), -(-n // sides[1])))
    if solver.power_of_two:
        limits = [(size - 1) // (side - 1) for size, side in zip(shape, sides, strict=True) if side > 1]
        block = 1 << max(2, min([block, *limits])).bit_length() - 1
    return block, sides
