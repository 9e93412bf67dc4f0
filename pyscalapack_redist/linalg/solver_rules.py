"""Rules of solver libraries for the layout of a matrix, each with its source, and the layouts that they run well in.

A rule is a condition: a library that is given another layout refuses it, ends the process, or returns wrong results. Advice on
speed is no rule. `prefer` follows it: blocks of ScaLAPACK's Users' Guide for ScaLAPACK; for ELPA blocks of a power of two (its
elpa2_template.F90 takes its kernels for CPUs otherwise), of a size near the default of its test programs; nearly square grids
(ELPA's PERFORMANCE_TUNING.md).

Versions: ELPA 2022.11.001 and 2026.02.001.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..comm.mpi import MPI
from ..errors import DescriptorError, shown
from ..layout.axis import whole_number
from ..layout.descriptor import Descriptor
from ..layout.grid import ProcessGrid, checked_communicator
from ..scalapack.matrix_operands import (
    block_obstacle,
    gesvd_obstacle,
    irregular_obstacle,
    source_obstacle,
    sub_array_obstacle,
    syevd_obstacle,
)

BY_SINGULAR_VALUES = ("cond", "lstsq", "matrix_rank", "norm", "pinv", "polar", "svd", "svdvals")
FUNCTIONS = ("expm", "sqrtm", "logm", "fractional_matrix_power", "funm")
EIGEN = ("eigh", "eigvalsh", *FUNCTIONS)  # functions of Hermitian matrices, which need eigenvectors
OF_ONE_PROCESS = ("schur", "eig", "eigvals")
CHOLESKY = ("cholesky", "cho_factor", "cho_solve")
LU = ("solve", "lu_factor", "lu_solve")
TRIANGULAR = ("solve_triangular",)
OF_SQUARE_MATRICES = {*EIGEN, *OF_ONE_PROCESS, *CHOLESKY, *LU, *TRIANGULAR, "inv"}
ELEMENTS = 256 * 256
LEAST_BLOCK, MOST_BLOCK = 16, 256
LIMIT = 2**31
FAMILIES = {
    "lu": ("solve", "lu_factor", "lu_solve", "inv", "det", "slogdet"),
    "cholesky": ("cholesky", "cho_factor", "cho_solve", "solve_triangular"),
    "qr": ("qr", "lstsq"),
    "eigh": EIGEN,
    "schur": OF_ONE_PROCESS,
    "svd": ("svd", "svdvals", "pinv", "polar", "cond", "matrix_rank", "norm"),
    "matmul": ("matmul",),
}
FAMILY = {name: family for family, names in FAMILIES.items() for name in names}


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


def layout_for(name: str, shape: Sequence[int], comm: MPI.Intracomm, library: str = "scalapack") -> Descriptor:
    """The layout of a grid that a routine of `linalg` works in, if no operand has one that fits. Not collective.

    Beside it, a routine may work on one process, where that is predicted to take less time (docs/linalg.md).

    `matmul` works on a grid of its own choice, by the layouts of its operands. `schur`, `eig` and `eigvals` work on one process
    alone, and so do functions of a matrix that is not Hermitian.

    The rule is close to that of the ScaLAPACK Users' Guide: square blocks of 64, and a nearly square grid, with the longer
    side along the longer side of the matrix. It takes at most one process for each 256 x 256 elements, rounded up, and of P
    such processes isqrt(P) by P // isqrt(P). If a process had no block, blocks are smaller.

    For ELPA the layout passes `check_layout`, and blocks are a power of two. It wants a communicator of the grid's ranks alone,
    in their order.

    Parameters
    ----------
    name : str
        Of the routine: "solve", "eigh", ...
    shape : (int, int)
        Of its first operand; for "matmul" of the product.
    comm : MPI.Intracomm
        The operands' communicator.
    library : {"scalapack", "elpa"}
        That computes. `linalg` itself calls ScaLAPACK.

    Raises
    ------
    ValueError
        There is no such routine or library, or the library does not have the routine.
    DescriptorError
        The shape is not of a matrix, or of one that the library does not take.
    """
    _check_names(library, name)
    if not hasattr(shape, "__len__") or len(shape) != 2:
        raise DescriptorError(f"shape = {shown(shape)} must be that of a matrix: two numbers")
    m, n = (whole_number(f"shape[{k}]", size, 0) for k, size in enumerate(shape))
    if checked_communicator(comm) is None:
        raise DescriptorError(
            "comm = None: layout_for needs the operands' communicator, whose size decides on the grid"
        )
    block, sides = prefer(library, (m, n), 1 if name in OF_ONE_PROCESS else comm.Get_size())
    desc = Descriptor((m, n), block, ProcessGrid(sides, comm))
    if library != "scalapack":
        check_layout(desc, library, name)
    return desc


def check_layout(desc: Descriptor, library: str, name: str | None = None) -> None:
    """Check that a layout follows the rules of a library. Not collective.

    Parameters
    ----------
    desc : Descriptor
        The layout of the first operand.
    library : {"scalapack", "elpa"}
        That is to compute. It need not be installed, but for "scalapack", whose rules depend on its vendor.
    name : str, optional
        Of the routine: "solve", "eigh", ... None: the rules for all routines that the library has.

    Raises
    ------
    ValueError
        There is no such routine or library, or the library does not have the routine.
    DescriptorError
        The layout breaks a rule, which the message names, with its source.
    """
    _check_names(library, name)
    if not isinstance(desc, Descriptor):
        raise DescriptorError(f"desc = {shown(desc)} must be a Descriptor")
    broken = find_broken_rule(library, desc, name)
    if broken is None:
        return
    (condition, source, routines), obstacle = broken
    title = SOLVERS[library].title
    purpose = f" for {', '.join(routines)}" if routines else ""
    raise DescriptorError(
        f"desc = {desc!r} is {obstacle}, and {title} needs {condition.name}{purpose}: {condition.remedy}, or take "
        f"linalg.layout_for(..., library={library!r}). The rule is from {source}"
    )


def _check_names(library: str, name: str | None) -> None:
    """Refuse unknown libraries and routines."""
    if library not in SOLVERS:
        raise ValueError(f"library = {library!r} must be one of {', '.join(SOLVERS)}")
    title, _, routines, *_ = SOLVERS[library]
    if name is not None and name not in FAMILY:
        raise ValueError(f"name = {name!r} is no routine of linalg: it must be one of {', '.join(sorted(FAMILY))}")
    if name is not None and routines is not None and name not in routines:
        raise ValueError(f"name = {name!r} is no routine of {title}, which has {', '.join(sorted(routines))}")


def _unfit(name: str, desc: Descriptor) -> str | None:
    """Why a layout does not fit a routine; None if it does."""
    if desc.grid.size == 1 and desc.ndim == 2 and desc.parent is None:  # LAPACK takes it
        return None
    broken = find_broken_rule("scalapack", desc, name)
    return broken and broken[1]


def check_work_layout(name: str, desc: Descriptor, shape: tuple[int, ...]) -> None:
    """Raise an error if a layout to work in does not fit."""
    if desc.shape != shape:
        raise DescriptorError(f"layout has shape {desc.shape}: it must have {shape}, that of the matrix")
    wrong = _unfit(name, desc)
    if wrong is not None:
        raise DescriptorError(
            f"layout = {desc!r} is {wrong}: {name} needs square blocks from process (0, 0) on; "
            f"linalg.layout_for({name!r}, {shape}, comm) has one that fits"
        )
    check_counts(desc)


def is_good_layout(name: str, desc: Descriptor, library: str = "scalapack") -> bool:
    """Whether a routine works in an operand's own layout: it fits, and its blocks are not slow.

    On one process there is no use for blocks, which may be irregular there.
    """
    if library != "scalapack" and find_broken_rule(library, desc, name) is not None:
        return False
    if _unfit(name, desc) is not None:
        return False
    return desc.grid.size == 1 or max(desc.shape) <= MOST_BLOCK or LEAST_BLOCK <= desc.block[0] <= MOST_BLOCK


def another_layout(name: str, desc: Descriptor, comm: MPI.Intracomm) -> Descriptor:
    """A layout for a second attempt: on half as many processes, in smaller blocks; after one process on two, if any."""
    few = max(1, desc.grid.size // 2) if desc.grid.size > 1 else min(2, comm.Get_size())
    for processes in (few, 1):
        rows = math.isqrt(processes)
        grid = ProcessGrid((rows, processes // rows), comm)
        for block in (48, 32, 16, 8, 4, 2, 1):
            other = Descriptor(desc.shape, block, grid)
            if block != desc.block[0] and 2 * block <= max(2, *desc.shape) and _unfit(name, other) is None:
                return other
    return Descriptor(desc.shape, 1, grid)


def another_process(desc: Descriptor, comm: MPI.Intracomm) -> Descriptor:
    """The layout of the next process, for a second attempt of a routine that only one process can do."""
    rank = (int(desc.grid.ranks.flat[0]) + 1) % comm.Get_size()
    return Descriptor(desc.shape, desc.block, ProcessGrid((1, 1), comm, ranks=[[rank]]))


def check_counts(desc: Descriptor) -> None:
    """Raise an error if ScaLAPACK cannot count the elements of a process in 32 bits."""
    rows, columns = desc.local_shape_of((0, 0))
    if max(desc.shape) >= LIMIT or max(1, rows) * columns >= LIMIT:
        raise DescriptorError(
            f"an array of {desc.shape[0]} x {desc.shape[1]} would have {rows} x {columns} elements on one process, and "
            "ScaLAPACK counts in 32 bits: fewer than 2^31 are possible; use more processes, or layout= with a larger grid"
        )
