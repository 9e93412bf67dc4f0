"""Checks of local arrays and layouts before a call of ScaLAPACK, on this rank only, without communication."""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import blacs
from ..errors import ArrayError, DescriptorError, LibraryError, shown
from ..layout.arrays import host_array
from ..layout.descriptor import Descriptor
from ..layout.dimensions import check_one_size
from ..layout.grid import ProcessGrid, same_ranks
from ..layout.letters import ADJOINTS, letter_of

KIND_OF_DTYPE: dict[np.dtype[Any], str] = {
    np.dtype(np.float32): "s",
    np.dtype(np.float64): "d",
    np.dtype(np.complex64): "c",
    np.dtype(np.complex128): "z",
    np.dtype(np.int32): "i",
}
DTYPE_OF_KIND = {kind: dtype for dtype, kind in KIND_OF_DTYPE.items()}
FACTORED_KINDS = "sdcz"
LIMIT = 2**31
COLUMNS = 64  # that are looked through at a time


def full_name(kind: str, name: str) -> str:
    """A routine's name with the letter of the dtype; for complex numbers "sy" becomes "he", and "or" becomes "un"."""
    return kind + ({"sy": "he", "or": "un"}.get(name[:2], name[:2]) + name[2:] if kind in "cz" else name)


# -- local arrays


class Operand(NamedTuple):
    """A local array with the integers that ScaLAPACK takes beside its address: IA, JA and the nine of its descriptor."""

    name: str
    array: NDArray[Any] | None
    address: int
    desc: Descriptor
    integers: list[int]


def operand(name: str, array: NDArray[Any] | None, desc: Descriptor, *, written: bool = False) -> Operand:
    """Check a local array, and put its leading dimension into the nine integers."""
    row, column = desc.offset
    integers = [row + 1, column + 1, *desc.to_array().tolist()]
    rows, columns = desc.local_shape
    array = host_array(name, array)
    if desc.grid.coords is None:
        integers[-1] = max(1, integers[-1])
        return Operand(name, None, 0, desc, integers)
    if array is None:
        raise ArrayError(
            f"{name} is None, but this rank is in the grid of its layout: pass the local array, of shape {rows, columns}"
        )
    if not isinstance(array, np.ndarray):
        raise ArrayError(f"{name} is a {type(array).__name__}: it must be a NumPy array of shape {rows, columns}")
    if rows * columns == 0 == array.size:
        integers[-1] = max(1, rows)
    elif array.shape not in ((rows, columns), (desc.lld, columns)):
        raise ArrayError(
            f"{name} has shape {array.shape}, but this rank holds {rows} x {columns}: make it by the Descriptor's empty()"
        )
    elif written and not array.flags.writeable:
        raise ArrayError(f"{name} is read-only and would be written: pass a writeable array")
    else:
        integers[-1] = _leading_dimension(name, array)
    return Operand(name, array, array.ctypes.data, desc, integers)


def _leading_dimension(name: str, array: NDArray[Any]) -> int:
    rows, columns = array.shape
    down, across = array.strides
    leading = rows if columns == 1 else across // array.itemsize
    if (
        (rows > 1 and down != array.itemsize)
        or leading < rows
        or (columns > 1 and across % array.itemsize)
        or not array.flags.aligned
    ):
        raise ArrayError(
            f"{name} has shape {array.shape} and strides {array.strides} bytes, which ScaLAPACK cannot take: it needs whole "
            "columns, one after the other; pass numpy.asfortranarray of it"
        )
    if leading * columns >= LIMIT:
        raise ArrayError(
            f"{name} has {leading} x {columns} local elements, and ScaLAPACK counts in 32 bits: fewer than 2^31 are possible; "
            "use more processes, or pyscalapack_redist.redistribute, which has no such limit"
        )
    return leading


def kind_of(*operands: Operand, allowed: str = "sdczi") -> str:
    """Return the letter of the arrays' dtype. Empty arrays count only if all are empty."""
    arrays = [(operand.name, operand.array) for operand in operands if operand.array is not None]
    dtypes = [(name, array.dtype) for name, array in arrays if array.size] or [(n, array.dtype) for n, array in arrays]
    if not dtypes:
        return "d"  # a rank without arrays moves no data: any letter will do
    name, first = dtypes[0]
    if any(dtype != first for _, dtype in dtypes):
        differences = " and ".join(f"{name} has dtype {dtype}" for name, dtype in dtypes)
        raise ArrayError(f"{differences}: ScaLAPACK converts nothing, so make them equal")
    kind = KIND_OF_DTYPE.get(first, "none")
    if kind not in allowed:
        possible = ", ".join(str(dtype) for dtype, letter in KIND_OF_DTYPE.items() if letter in allowed)
        raise ArrayError(f"{name} has dtype {first}; this routine is for {possible}")
    return kind


def check_separate(first: Operand, second: Operand) -> None:
    if first.array is not None and second.array is not None and np.shares_memory(first.array, second.array):
        raise ArrayError(f"{first.name} and {second.name} overlap in memory: pass two separate arrays")


def check_vector(name: str, vector: Any, needed: int, dtype: np.dtype[Any], routine: str) -> NDArray[Any]:
    """Check a vector that an earlier call returned on this rank, and make it contiguous."""
    if vector is None or vector.dtype != dtype or vector.ndim != 1 or vector.size < needed:
        actual = None if vector is None else f"{vector.dtype} of shape {vector.shape}"
        raise ArrayError(f"{name} is {actual}: pass what {routine} returned on this rank, at least {needed} of {dtype}")
    return np.ascontiguousarray(vector)


# -- layouts, on ranks outside the grid too; each check picks its parameters from a routine's arguments


def check_matrix(name: str, desc: Any) -> None:
    """Refuse anything but a Descriptor of a matrix."""
    if not isinstance(desc, Descriptor):
        raise DescriptorError(
            f"{name} = {shown(desc)} must be a Descriptor; nine integers, or None on a rank that does not know them, need "
            "comm=, the communicator of their grid"
        )
    if desc.ndim != 2:
        raise DescriptorError(f"{name} is of {desc.ndim} dimensions, {desc!r}: ScaLAPACK's arrays are matrices")


def check_same_shape(desc_b: Descriptor, **arguments: Any) -> None:
    first: Descriptor = arguments["desc_a"] if "desc_a" in arguments else arguments["desc"]
    if first.shape != desc_b.shape:
        raise DescriptorError(f"desc_a has shape {first.shape} and desc_b has {desc_b.shape}: they must be equal")


def find_enclosing_context(desc_a: Descriptor, desc_b: Descriptor, context: int | None) -> int:
    """Return the context that holds both grids; -1 on a rank outside it."""
    grid_a, grid_b = desc_a.grid, desc_b.grid
    if context is not None:
        return _check_context(operator.index(context), grid_a, grid_b)
    if grid_a is grid_b or _holds(grid_a, grid_b):
        return grid_a.context
    if _holds(grid_b, grid_a):
        return grid_b.context
    raise DescriptorError(
        f"neither of {grid_a} and {grid_b} has all the ranks of the other, and p?gemr2d needs a context that holds both: "
        "pass context=, made by make_context() of a ProcessGrid over the ranks of both"
    )


def _holds(outer: ProcessGrid, inner: ProcessGrid) -> bool:
    if outer.size < inner.size:
        return False
    if outer.comm is not None and inner.comm is not None and not same_ranks(outer.comm, inner.comm):
        try:
            inner = inner.on(outer.comm)
        except DescriptorError:
            return False
    return set(outer.ranks.ravel().tolist()).issuperset(inner.ranks.ravel().tolist())


def _check_context(context: int, *grids: ProcessGrid) -> int:
    for grid in grids:
        if context < 0 and grid.coords is not None:
            raise DescriptorError(
                f"context = {context} says that this rank is outside, but it is in {grid}: pass a context of both grids"
            )
        if context >= 0 and grid.comm is not None:
            missing = blacs.missing_from_context(context, grid.comm, grid.ranks.ravel().tolist())
            if missing:
                raise DescriptorError(
                    f"context = {context} does not hold rank {missing[0]} of {grid}: make one over the ranks of both grids"
                )
    return context


def check_square(desc: Descriptor, **_: object) -> None:
    """Refuse a matrix that p?getrf cannot factor."""
    rows, columns = desc.shape
    if rows != columns:
        raise DescriptorError(f"desc is of a matrix of {rows} x {columns}: a square one is needed")
    check_one_size(desc.distributions)
    mb, nb = desc.block
    if mb != nb:
        raise DescriptorError(
            f"desc has blocks of {mb} x {nb}, and ScaLAPACK factors only with square ones: redistribute to such a layout first"
        )
    if any(start % mb for start in desc.offset):
        raise DescriptorError(
            f"desc is of a sub-array at {desc.offset}, and ScaLAPACK factors only from the edge of a block: start it at "
            f"multiples of {mb}"
        )


def syevd_obstacle(desc: Descriptor) -> str:
    """Return why p?syevd gives wrong results, or does not return, in a layout that other routines take; "" if it works."""
    n, block, grid = desc.shape[0], desc.block[0], desc.grid
    if 1 < n <= block and grid.size > 1:
        return (
            f"of one block of {block} x {block} on {grid.size} processes, and ScaLAPACK's p?syevd is right only for a matrix "
            "of several blocks, or on one process"
        )
    if blacs.load().vendor == "MKL" and not any(
        np.all(np.diff(order.ravel()) > 0) for order in (grid.ranks, grid.ranks.T)
    ):
        return (
            f"on the ranks {grid.ranks.tolist()}, and MKL's p?syevd does not return from every such order: the ranks must "
            "ascend by rows or by columns, as ProcessGrid has them without ranks="
        )
    return ""


def gesvd_obstacle(desc: Descriptor) -> str:
    """Return why p?gesvd cannot take a matrix in a layout that other routines take; "" if it can."""
    if desc.shape == (1, 2) and desc.grid.shape[1] > 1:
        return (
            "of 1 x 2 elements on several columns of processes, for which ScaLAPACK's p?gesvd finds wrong singular values, or "
            "does not return"
        )
    return ""


def diagonal_places(desc: Descriptor) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the global indices of this rank's diagonal elements, ascending, and their local rows and columns."""
    indices = np.intersect1d(desc.global_indices(0), desc.global_indices(1), assume_unique=True)
    rows, columns = (axis.local_index(indices) for axis in desc.distributions)
    return indices, rows, columns


def is_finite(desc: Descriptor, local: NDArray[Any] | None, uplo: str = "") -> bool:
    """Whether this rank's part of a whole matrix, or of the Hermitian one in a triangle of it, has no infs and NaNs."""
    if local is None or desc.grid.coords is None:
        return True
    return are_finite(local, desc.global_indices(0), desc.global_indices(1), uplo)


def are_finite(local: NDArray[Any], rows: NDArray[np.int64], columns: NDArray[np.int64], uplo: str = "") -> bool:
    """As `is_finite`, of the elements in these global rows and columns."""
    for first in range(0, columns.size, COLUMNS):
        panel = local[: rows.size, first : first + COLUMNS]
        if np.isfinite(panel).all():
            continue
        below = rows[:, None] - columns[first : first + COLUMNS]
        read = panel[below > 0 if uplo == "L" else below < 0], panel[below == 0].real
        if not (uplo and all(np.isfinite(numbers).all() for numbers in read)):
            return False
    return True


def sub_array_obstacle(desc: Descriptor) -> str:
    return "of a sub-array" if desc.parent is not None else ""


def irregular_obstacle(desc: Descriptor) -> str:
    return "" if all(isinstance(size, int) for size in desc.block) else "of irregular blocks"


def block_obstacle(desc: Descriptor) -> str:
    rows, columns = desc.block
    return f"of blocks of {rows} x {columns}, which are not square" if rows != columns else ""


def source_obstacle(desc: Descriptor) -> str:
    return f"one with source = {desc.source}, which is not 0" if any(desc.source) else ""


ALIGNMENT = (sub_array_obstacle, irregular_obstacle, block_obstacle, source_obstacle)


def find_misalignment(desc: Descriptor) -> str:
    """Return why a matrix is not a whole array in square blocks with source 0; "" if it is."""
    return next(filter(None, (find_obstacle(desc) for find_obstacle in ALIGNMENT)), "")


def check_aligned(**arguments: Any) -> None:
    """Refuse operands that are not whole arrays in square blocks of one size, with source 0, on one grid."""
    layouts: dict[str, Descriptor] = {name: desc for name, desc in arguments.items() if name.startswith("desc")}
    first = next(iter(layouts.values()))
    for name, desc in layouts.items():
        obstacle = find_misalignment(desc)
        if not obstacle and desc.block != first.block:
            obstacle = f"of blocks of {desc.block[0]} x {desc.block[1]}"
        if obstacle:
            raise DescriptorError(
                f"{name} is {obstacle}: this routine is for whole arrays in square blocks, of one size for all of them, with "
                "source 0; redistribute to such a layout first"
            )
        if desc.grid is not first.grid and desc.grid.context != first.grid.context:
            raise DescriptorError(
                f"{name} is on {desc.grid}, and another operand on {first.grid}: use one grid for all"
            )


def _check_shape(name: str, desc: Descriptor, shape: tuple[int, int], why: str) -> None:
    if desc.shape != shape:
        raise DescriptorError(f"{name} has shape {desc.shape}: it must have {shape}, {why}")


def check_longer_sides(desc: Descriptor, desc_b: Descriptor, **_: object) -> None:
    _check_shape("desc_b", desc_b, (max(desc.shape), desc_b.shape[1]), "as many rows as the larger side of A")


def check_product(
    desc_a: Descriptor, desc_b: Descriptor, desc_c: Descriptor, trans_a: str, trans_b: str, **_: object
) -> None:
    m, k = desc_a.shape if trans_a == "N" else desc_a.shape[::-1]
    rows, n = desc_b.shape if trans_b == "N" else desc_b.shape[::-1]
    if rows != k:
        raise DescriptorError(f"op(A) has {k} columns and op(B) {rows} rows: they must be equal")
    _check_shape("desc_c", desc_c, (m, n), "that of op(A) op(B)")


def check_reflectors(desc: Descriptor, columns: int, reflectors: int, **_: object) -> None:
    if not 0 <= reflectors <= columns <= min(desc.shape):
        raise DescriptorError(
            f"columns = {columns} and reflectors = {reflectors}: they must be at most {min(desc.shape)}, and no fewer columns "
            "than reflectors"
        )


def check_adjoint(trans: str, **_: object) -> None:
    letter_of("trans", trans, ADJOINTS)


def check_reflected(desc: Descriptor, desc_c: Descriptor, side: str, vect: str = "Q", **_: object) -> None:
    """Refuse a matrix that the product of a matrix's reflectors does not fit."""
    order, size = desc.shape["QP".index(vect)], desc_c.shape["LR".index(side)]
    if order != size:
        of_c = "rows" if side == "L" else "columns"
        raise DescriptorError(f"{vect} is of order {order} and desc_c has {size} {of_c}: they must be equal")


def check_bidiagonal_side(desc: Descriptor, vect: str, side: str, **_: object) -> None:
    """Refuse the products that netlib's p?ormbr refuses: it compares the offsets of other parts of the operands."""
    m, n = desc.shape
    wrong = n <= m if (vect, side) == ("P", "L") else m < n if (vect, side) == ("Q", "R") else False
    if wrong:
        raise DescriptorError(
            f"vect = {vect!r} with side = {side!r}: netlib's p?ormbr cannot multiply so for a matrix of {m} x {n}; multiply "
            "the conjugate transpose of C from the other side"
        )


def check_problem(problem: int, **_: object) -> None:
    if problem not in (1, 2, 3):
        raise ValueError(f"problem = {problem!r} must be 1, 2 or 3")


def check_sides(desc: Descriptor, desc_b: Descriptor, **_: object) -> None:
    """Refuse right-hand sides whose layout does not fit the matrix's."""
    rows = desc_b.shape[0]
    if rows != desc.shape[0]:
        raise DescriptorError(f"desc_b has {rows} rows and the matrix has {desc.shape[0]}: they must be equal")
    if desc_b.grid is not desc.grid and desc_b.grid.context != desc.grid.context:
        raise DescriptorError(f"desc_b is on {desc_b.grid} and the matrix on {desc.grid}: use one grid for both")
    check_one_size(desc_b.distributions)
    block = desc.block[0]
    if desc_b.block[0] != block or desc_b.offset[0] % block:
        raise DescriptorError(
            f"desc_b has blocks of {desc_b.block[0]} rows, from row {desc_b.offset[0]} on: they must be of {block} rows, like "
            "the matrix's, from the edge of a block on; redistribute to such a layout first"
        )
    first, matrix_first = (
        (layout.source[0] + layout.offset[0] // block) % layout.grid.shape[0] for layout in (desc_b, desc)
    )
    if first != matrix_first:
        raise DescriptorError(
            f"desc_b has its first row on process row {first}, and the matrix on {matrix_first}: give both the same source"
        )


def check_info(routine: str, info: int, *operands: Operand) -> None:
    """Raise an error if a routine refused an argument: the checks before the call should have found it."""
    if info < 0:
        argument, entry = divmod(-info, 100) if info <= -100 else (-info, 0)
        place = f"argument {argument}" + (f", entry {entry} of the descriptor," if entry else "")
        layouts = " and ".join(f"{operand.name} in {operand.desc!r}" for operand in operands)
        raise LibraryError(
            f"{routine} of {blacs.load().path} refused {place} (INFO = {info}), with {layouts}: this is an error of "
            "pyscalapack_redist, please report it with this message; meanwhile redistribute to another layout"
        )
