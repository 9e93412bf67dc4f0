"""The few ScaLAPACK routines that the package calls: pxgemr2d, pxtrmr2d, pxgetrf, pxgetrs, pxsyevd, on NumPy local arrays.

ScaLAPACK ends the process on bad input, so everything is checked here first; on this rank only, without communication.
The letter of a routine comes from the dtype: float32 s, float64 d, complex64 c, complex128 z, int32 i.
"""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import blacs
from .descriptor import Descriptor
from .errors import ArrayError, DescriptorError
from .grid import ProcessGrid, same_ranks

__all__ = ["Eigenpairs", "pxgemr2d", "pxgetrf", "pxgetrs", "pxsyevd", "pxtrmr2d"]

KIND_OF_DTYPE = {
    np.dtype(np.float32): "s",
    np.dtype(np.float64): "d",
    np.dtype(np.complex64): "c",
    np.dtype(np.complex128): "z",
    np.dtype(np.int32): "i",
}
FACTORED_KINDS = "sdcz"
LIMIT = 2**31


def pxgemr2d(
    a: NDArray[Any] | None,
    desc_a: Descriptor,
    b: NDArray[Any] | None,
    desc_b: Descriptor,
    context: int | None = None,
) -> None:
    """Copy a matrix from one layout to another with ScaLAPACK's p?gemr2d. Collective over the context.

    Parameters
    ----------
    a, b : ndarray or None
        Local arrays, Fortran-ordered, the whole array's where a descriptor is of a sub-array; None on a rank outside
        that grid. `b` is written.
    desc_a, desc_b : Descriptor
        Layouts, of equal shape; the grids' contexts must have been made.
    context : int, optional
        BLACS context that holds both grids, -1 on ranks outside it. Default: that of one of the two grids where its
        ranks include the other's. Ranks outside it have nothing to do.

    Raises
    ------
    DescriptorError
        The shapes differ, no context holds both grids, or a number exceeds 32 bits.
    ArrayError
        A local array does not fit its descriptor, or the dtypes differ or are none of the five.
    """
    _check_same_shape(desc_a, desc_b)
    ctxt = _enclosing(desc_a, desc_b, context)
    if ctxt < 0:
        return
    source, target = _operand("a", a, desc_a), _operand("b", b, desc_b, written=True)
    kind = _kind(source, target)
    _check_apart(source, target)
    if 0 not in desc_a.shape:
        m, n = desc_a.shape
        blacs.load().entries.gemr2d(kind, m, n, *source.where, *target.where, ctxt)


def pxtrmr2d(
    a: NDArray[Any] | None,
    desc_a: Descriptor,
    b: NDArray[Any] | None,
    desc_b: Descriptor,
    *,
    uplo: str,
    diag: str = "N",
    context: int | None = None,
) -> None:
    """Copy one triangle, or trapezoid, of a matrix with ScaLAPACK's p?trmr2d. Collective over the context.

    Parameters
    ----------
    a, b, desc_a, desc_b, context
        As for `pxgemr2d`.
    uplo : {"U", "L"}
        Upper or lower triangle; the rest of `b` stays. Of m x n, what ScaLAPACK calls the diagonal starts below the
        corner by m - n for "U" of a tall matrix, and right of it by n - m for "L" of a wide one.
    diag : {"N", "U"}
        "U": the diagonal is taken to be of ones and is not copied.

    Raises
    ------
    ValueError
        `uplo` or `diag` is none of these letters.
    DescriptorError, ArrayError
        As for `pxgemr2d`.
    """
    triangle, diagonal = _letter("uplo", uplo, "UL"), _letter("diag", diag, "NU")
    _check_same_shape(desc_a, desc_b)
    ctxt = _enclosing(desc_a, desc_b, context)
    if ctxt < 0:
        return
    source, target = _operand("a", a, desc_a), _operand("b", b, desc_b, written=True)
    kind = _kind(source, target)
    _check_apart(source, target)
    if 0 not in desc_a.shape:
        m, n = desc_a.shape
        blacs.load().entries.trmr2d(kind, triangle, diagonal, m, n, *source.where, *target.where, ctxt)


def pxgetrf(a: NDArray[Any] | None, desc: Descriptor) -> NDArray[np.intc] | None:
    """LU factorisation with row exchanges, in place, by ScaLAPACK's p?getrf. Collective over the grid.

    Parameters
    ----------
    a : ndarray or None
        Local array, Fortran-ordered, overwritten by the factors; ranks outside the grid may pass None.
    desc : Descriptor
        Its layout: square, with square blocks; a sub-array must start at a block's edge.

    Returns
    -------
    pivots : ndarray of int32, or None outside the grid
        Global row exchanged with each local row, counted from 1 in the whole array, as `pxgetrs` takes them.

    Raises
    ------
    numpy.linalg.LinAlgError
        A pivot is exactly zero: the matrix is singular.
    DescriptorError
        The layout cannot be factored.
    ArrayError
        The local array does not fit it.
    """
    n = _factorable_size(desc)
    if desc.grid.coords is None:
        return None
    matrix = _operand("a", a, desc, written=True)
    kind = _kind(matrix, allowed=FACTORED_KINDS)
    pivots = np.zeros(desc.local_shape[0] + desc.block[0], dtype=np.intc)
    if n == 0:
        return pivots
    info = blacs.load().entries.getrf(kind, n, n, *matrix.where, pivots)
    _check_info(f"p{kind}getrf", info)
    if info > 0:
        raise np.linalg.LinAlgError(
            f"p{kind}getrf: the matrix is singular: pivot {info} (counted from 1) is exactly zero"
        )
    return pivots


def pxgetrs(
    a: NDArray[Any] | None,
    desc: Descriptor,
    pivots: NDArray[np.intc] | None,
    b: NDArray[Any] | None,
    desc_b: Descriptor,
    trans: str = "N",
) -> None:
    """Solve A X = B with the factors of `pxgetrf`, by ScaLAPACK's p?getrs. Collective over the grid.

    Parameters
    ----------
    a, desc, pivots
        As left and returned by `pxgetrf`; ranks outside the grid may pass None for arrays.
    b : ndarray or None
        Local array of the right-hand sides, Fortran-ordered, overwritten by the solutions.
    desc_b : Descriptor
        Its layout, on the same grid: as many rows as A, in the same blocks, on the same process rows.
    trans : {"N", "T", "C"}
        Solve with A, its transpose or its conjugate transpose.

    Raises
    ------
    ValueError
        `trans` is none of these letters.
    DescriptorError
        The layouts do not fit each other.
    ArrayError
        A local array does not fit its layout.
    """
    form = _letter("trans", trans, "NTC")
    n = _factorable_size(desc)
    sides_count = _sides(desc, desc_b)
    if desc.grid.coords is None:
        return
    matrix, sides = _operand("a", a, desc), _operand("b", b, desc_b, written=True)
    kind = _kind(matrix, sides, allowed=FACTORED_KINDS)
    _check_apart(matrix, sides)
    exchanged = _checked_pivots(pivots, desc.local_shape[0] + desc.block[0])
    if 0 in desc_b.shape:
        return
    info = blacs.load().entries.getrs(kind, form, n, sides_count, *matrix.where, exchanged, *sides.where)
    _check_info(f"p{kind}getrs", info)


class Eigenpairs(NamedTuple):
    """What `pxsyevd` returns; None twice on a rank outside the grid.

    Attributes
    ----------
    values : ndarray of a real dtype, or None
        All eigenvalues, ascending, on every rank of the grid.
    vectors : ndarray or None
        Local array of the eigenvectors, in the layout of the matrix: column k belongs to value k.
    """

    values: NDArray[Any] | None
    vectors: NDArray[Any] | None


def pxsyevd(a: NDArray[Any] | None, desc: Descriptor, uplo: str = "L") -> Eigenpairs:
    """Eigenvalues and eigenvectors of a symmetric or Hermitian matrix, by ScaLAPACK's p?syevd or p?heevd (divide and
    conquer). Collective over the grid.

    Parameters
    ----------
    a : ndarray or None
        Local array, Fortran-ordered, overwritten; ranks outside the grid may pass None.
    desc : Descriptor
        Its layout: square, with square blocks, smaller than the matrix unless the grid is of one process, and source 0.
        A sub-array is not taken: redistribute it to a layout of its own.
    uplo : {"L", "U"}
        Triangle that is read; the other one is taken to mirror it.

    Returns
    -------
    Eigenpairs
        `values` and `vectors`.

    Raises
    ------
    numpy.linalg.LinAlgError
        An eigenvalue did not converge.
    ValueError
        `uplo` is none of these letters.
    DescriptorError
        The layout cannot be taken.
    ArrayError
        The local array does not fit it.
    """
    triangle = _letter("uplo", uplo, "LU")
    n = _eigenproblem_size(desc)
    if desc.grid.coords is None:
        return Eigenpairs(None, None)
    matrix = _operand("a", a, desc, written=True)
    kind = _kind(matrix, allowed=FACTORED_KINDS)
    dtype = next(one for one, letter in KIND_OF_DTYPE.items() if letter == kind)
    values = np.zeros(n, np.zeros(0, dtype).real.dtype)
    vectors = desc.zeros(dtype)
    if n == 0:
        return Eigenpairs(values, vectors)
    target = _operand("vectors", vectors, desc, written=True)
    # p?syevd asks for less than p?ormtr and p?lasrt need, which it calls, where a block is not small beside the matrix
    rows, columns = desc.local_shape_of((0, 0))
    missing = (2 * rows + columns + desc.block[0]) * desc.block[0]
    info = _solve_eigenproblem(kind, triangle, n, matrix, values, target, missing)
    routine = f"p{kind}{'he' if kind in 'cz' else 'sy'}evd"
    _check_info(routine, info)
    if info > 0:
        raise np.linalg.LinAlgError(f"{routine}: eigenvalue {info // (n + 1)} (counted from 1) did not converge")
    return Eigenpairs(values, vectors)


def _solve_eigenproblem(
    kind: str, triangle: str, n: int, matrix: _Operand, values: NDArray[Any], vectors: _Operand, missing: int
) -> int:
    """Ask p?syevd what workspace it needs, and call it with that and the `missing` elements; INFO."""
    entries = blacs.load().entries
    assert vectors.array is not None
    work, real_work = np.zeros(1, vectors.array.dtype), np.zeros(1, values.dtype)
    integers = np.zeros(1, np.intc)
    sizes = [-1, -1, -1]
    for _ in range(2):
        info = entries.syevd(
            kind,
            triangle,
            n,
            *matrix.where,
            values.ctypes.data,
            *vectors.where,
            work.ctypes.data,
            sizes[0],
            real_work.ctypes.data,
            sizes[1],
            integers,
            sizes[2],
        )
        if info or sizes[0] > 0:
            return info
        # a size is told as a floating-point number, which in single precision may be rounded down
        asked = [int(np.nextafter(one[0].real, np.inf)) + 1 for one in (work, real_work)]
        sizes = [*(size + missing for size in asked), int(integers[0])]
        work, real_work = np.zeros(sizes[0], work.dtype), np.zeros(sizes[1], real_work.dtype)
        integers = np.zeros(sizes[2], np.intc)
    return info


# -- local arrays


class _Operand(NamedTuple):
    """A local array as ScaLAPACK takes it."""

    name: str
    array: NDArray[Any] | None
    address: int
    offset: tuple[int, ...]
    nine: NDArray[np.intc]

    @property
    def where(self) -> tuple[int, int, int, NDArray[np.intc]]:
        """Address, IA, JA and the nine integers."""
        return self.address, self.offset[0] + 1, self.offset[1] + 1, self.nine


def _operand(name: str, array: NDArray[Any] | None, desc: Descriptor, *, written: bool = False) -> _Operand:
    """Check a local array, and put its leading dimension into the nine integers."""
    nine = desc.to_array()
    rows, columns = desc.local_shape
    if desc.grid.coords is None:
        nine[8] = max(1, nine[8])
        return _Operand(name, None, 0, desc.offset, nine)
    if array is None:
        raise ArrayError(
            f"{name} is None, but this rank is in the grid of its layout: pass the local array, of shape {rows, columns}"
        )
    if rows * columns == 0 == array.size:
        nine[8] = max(1, rows)
        return _Operand(name, array, array.ctypes.data, desc.offset, nine)
    if array.shape not in ((rows, columns), (desc.lld, columns)):
        raise ArrayError(
            f"{name} has shape {array.shape}, but this rank holds {rows} x {columns}: make it by the Descriptor's empty()"
        )
    if written and not array.flags.writeable:
        raise ArrayError(f"{name} is read-only and would be written: pass a writeable array")
    nine[8] = _leading_dimension(name, array)
    return _Operand(name, array, array.ctypes.data, desc.offset, nine)


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


def _kind(*operands: _Operand, allowed: str = "sdczi") -> str:
    """The letter of the arrays' dtype. An empty array's counts only where there is no other."""
    arrays = {operand.name: operand.array for operand in operands if operand.array is not None}
    telling = {name: array.dtype for name, array in arrays.items() if array.size}
    dtypes = telling or {name: array.dtype for name, array in arrays.items()}
    if len(set(dtypes.values())) > 1:
        each = " and ".join(f"{name} has dtype {dtype}" for name, dtype in dtypes.items())
        raise ArrayError(f"{each}: ScaLAPACK converts nothing, so make them equal")
    for name, dtype in dtypes.items():
        kind = KIND_OF_DTYPE.get(dtype, "none")
        if kind not in allowed:
            possible = ", ".join(str(dtype) for dtype, letter in KIND_OF_DTYPE.items() if letter in allowed)
            raise ArrayError(f"{name} has dtype {dtype}; this routine is for {possible}")
        return kind
    return "d"  # a rank without arrays has no part in the data, and any letter serves


def _check_apart(one: _Operand, other: _Operand) -> None:
    if one.array is not None and other.array is not None and np.shares_memory(one.array, other.array):
        raise ArrayError(f"{one.name} and {other.name} overlap in memory: pass two separate arrays")


def _checked_pivots(pivots: NDArray[np.intc] | None, needed: int) -> NDArray[np.intc]:
    if pivots is None or pivots.dtype != np.intc or pivots.ndim != 1 or pivots.size < needed:
        got = None if pivots is None else f"{pivots.dtype} of shape {pivots.shape}"
        raise ArrayError(
            f"pivots is {got}: pass what pxgetrf returned on this rank, at least {needed} of {np.dtype(np.intc)}"
        )
    return np.ascontiguousarray(pivots)


# -- layouts


def _letter(name: str, value: str, choices: str) -> str:
    if not isinstance(value, str) or len(value) != 1 or value.upper() not in choices:
        raise ValueError(f"{name} = {value!r} must be one of {', '.join(choices)}")
    return value.upper()


def _check_same_shape(desc_a: Descriptor, desc_b: Descriptor) -> None:
    if desc_a.shape != desc_b.shape:
        raise DescriptorError(f"desc_a has shape {desc_a.shape} and desc_b has {desc_b.shape}: they must be equal")


def _enclosing(desc_a: Descriptor, desc_b: Descriptor, context: int | None) -> int:
    """The context that holds both grids; -1 on a rank outside it."""
    grid_a, grid_b = desc_a.grid, desc_b.grid
    if context is not None:
        return _checked_context(operator.index(context), grid_a, grid_b)
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


def _checked_context(context: int, *grids: ProcessGrid) -> int:
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


def _factorable_size(desc: Descriptor) -> int:
    """Rows of a matrix that p?getrf can factor."""
    rows, columns = desc.shape
    if rows != columns:
        raise DescriptorError(f"desc is of a matrix of {rows} x {columns}: a square one is needed")
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
    return rows


def _eigenproblem_size(desc: Descriptor) -> int:
    """Rows of a matrix that p?syevd can take. For the last two refused here it returns wrong numbers, or does not return."""
    n = _factorable_size(desc)
    if desc.parent is not None:
        raise DescriptorError(
            f"desc is of a sub-array at {desc.offset}: the eigenvectors would need a whole array around them; redistribute "
            "it to a layout of its own first"
        )
    if desc.source != (0, 0):
        raise DescriptorError(
            f"desc has source = {desc.source}, and ScaLAPACK's p?syevd is right only for 0: redistribute to such a layout first"
        )
    if 1 < n <= desc.block[0] and desc.grid.size > 1:
        raise DescriptorError(
            f"desc has blocks of {desc.block[0]} x {desc.block[1]}, of which one holds the whole matrix of {n} x {n}, and "
            f"ScaLAPACK's p?syevd is right only with more than one on {desc.grid.size} processes: redistribute to smaller blocks, "
            "or to one process"
        )
    return n


def _sides(desc: Descriptor, desc_b: Descriptor) -> int:
    """Number of right-hand sides, whose layout must fit the matrix's."""
    rows, sides = desc_b.shape
    if rows != desc.shape[0]:
        raise DescriptorError(f"desc_b has {rows} rows and the matrix has {desc.shape[0]}: they must be equal")
    if desc_b.grid is not desc.grid and desc_b.grid.context != desc.grid.context:
        raise DescriptorError(f"desc_b is on {desc_b.grid} and the matrix on {desc.grid}: use one grid for both")
    block = desc.block[0]
    if desc_b.block[0] != block or desc_b.offset[0] % block:
        raise DescriptorError(
            f"desc_b has blocks of {desc_b.block[0]} rows, from row {desc_b.offset[0]} on: they must be of {block} rows, like "
            "the matrix's, from the edge of a block on; redistribute to such a layout first"
        )
    first, matrix_first = ((one.source[0] + one.offset[0] // block) % one.grid.shape[0] for one in (desc_b, desc))
    if first != matrix_first:
        raise DescriptorError(
            f"desc_b has its first row on process row {first}, and the matrix on {matrix_first}: give both the same source"
        )
    return sides


def _check_info(routine: str, info: int) -> None:
    if info < 0:
        argument, entry = divmod(-info, 100) if info <= -100 else (-info, 0)
        place = f"argument {argument}" + (f", entry {entry} of the descriptor" if entry else "")
        raise DescriptorError(
            f"{routine} refused {place} (INFO = {info}): ScaLAPACK cannot take this layout; redistribute to another first"
        )
