"""Signatures of the ScaLAPACK routines on NumPy local arrays. The table of routines (scalapack/table.py) says what each does.

The letter of a routine follows from the dtype: float32 s, float64 d, complex64 c, complex128 z, int32 i. Every routine takes a
`DistributedArray` in place of a local array and its descriptor: `pxgetrs(a, pivots, b)`.
"""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from ..comm.agreement import agreement, meet
from ..comm.groups import group_of
from ..comm.guard import Guard
from ..comm.mpi import MPI
from ..layout.array_arithmetic import Distributed, takes_distributed
from ..layout.descriptor import Descriptor
from ..layout.grid import ProcessGrid
from ..layout.tiles import LayoutArgument, layout_on
from ..tracebacks import brief
from .calls import group_of_context, inside_run_together, run_together
from .table import TABLE, LibraryCall

R = TypeVar("R")
Local = NDArray[Any] | None
Comm: TypeAlias = "MPI.Intracomm | None"


def routine_of_table(function: Callable[..., R]) -> Callable[..., R]:
    """Decorate a signature with the call of its routine in the table.

    The function takes distributed arrays in place of local arrays and layouts. With `comm` it takes nine integers as layouts,
    all ranks of `comm` agree on the layouts, and BLACS contexts are made where there are none. An error of one rank is raised
    on all.
    """
    row, parameters = TABLE[function.__name__], inspect.signature(function).parameters
    names, defaults = list(parameters), {name: parameter.default for name, parameter in parameters.items()}
    layouts = {names[k - 1]: name for k, name in enumerate(names) if name.startswith("desc")}

    @takes_distributed("local", "desc")
    @functools.wraps(function)
    def call(*positional: Any, **keywords: Any) -> R:
        function(*positional, **keywords)  # raises a TypeError for wrong arguments
        arguments = defaults | dict(zip(names, positional, strict=False)) | keywords
        comm = arguments.pop("comm")
        results: list[R] = []
        error: BaseException | None = None
        if comm is None:
            descs = [arguments[name] for name in layouts.values() if isinstance(arguments[name], Descriptor)]
            if "context" not in arguments:  # all arrays are to be on one grid
                descs = descs[:1]
            group = None if inside_run_together() else group_of_context(descs, arguments.get("context"))
            if group is not None:
                meet(group, function.__name__)
        else:
            read = {name: layout_on(arguments[name], comm, name) for name in layouts.values()}
            for name, layout in read.items():
                if not isinstance(arguments[name], Descriptor):  # one may have a context that it loses on another communicator
                    arguments[name] = layout
            group = group_of(comm)
            lacks_context = any(not arguments[name].grid.has_context for name in read)
            with agreement(group, "a routine of scalapack", combine=any) as agreed:
                agreed.give(lacks_context)
            if agreed.result:
                with Guard() as guard:
                    arguments.update(guard.attempt(lambda: _on_new_contexts(read)) or {})
                    error = guard.take_interrupts()
        run = LibraryCall(row, arguments, layouts).run
        if group is None:
            return run()  # type: ignore[no-any-return]
        run_together(group, lambda: results.append(run()), error=error)
        return results[0]

    return brief(call)


def _on_new_contexts(layouts: dict[str, Descriptor]) -> dict[str, Descriptor]:
    """The layouts on grids of new BLACS contexts, equal grids on one. Collective over the grids.

    A context is freed with the communicator, and used by later calls once these grids are dropped.
    """
    grids = {grid: ProcessGrid(grid.shape, grid.comm, ranks=grid.ranks) for grid in (each.grid for each in layouts.values())}
    for grid in grids.values():
        grid.make_context()
    return {name: layout._with_grid(grids[layout.grid]) for name, layout in layouts.items()}


# -- in any layouts that ScaLAPACK takes


@overload
def pxgemr2d(a: Distributed, b: Distributed, /, context: int | None = None, *, comm: Comm = None) -> None: ...


@overload
def pxgemr2d(
    a: Local, desc_a: LayoutArgument, b: Local, desc_b: LayoutArgument, context: int | None = None, *, comm: Comm = None
) -> None: ...


@routine_of_table
def pxgemr2d(
    a: Local, desc_a: Descriptor, b: Local, desc_b: Descriptor, context: int | None = None, *, comm: Comm = None
) -> None:
    """Copy a matrix from one layout to another with ScaLAPACK's p?gemr2d. Collective over the context.

    Parameters
    ----------
    a, b : ndarray or None
        Local arrays, Fortran-ordered; for a sub-array, those of the whole array. None on a rank outside the grid. `b` is
        written.
    desc_a, desc_b : Descriptor, or nine integers
        Layouts, of equal shape; the grids' contexts must have been made.
    context : int, optional
        BLACS context that holds both grids, -1 on ranks outside it. Default: the context of one grid, if its ranks include
        the other's. Ranks outside it do nothing.
    comm : MPI.Intracomm, optional
        Communicator that holds all processes: needed if a layout is nine integers, or None on a rank that does not know it,
        as for `redistribute`. All its ranks take part then, and all raise an error of one of them, or if dtypes, letters or
        sizes differ; a grid without a BLACS context gets one for the call. Without `comm` ranks of the context do so, and
        `make_context()` comes first.

    Raises
    ------
    DescriptorError
        The shapes differ, no context holds both grids, or a number exceeds 32 bits.
    ArrayError
        A local array does not fit its descriptor, or the dtypes differ or are none of the five supported.
    """


@overload
def pxtrmr2d(
    a: Distributed, b: Distributed, /, *, uplo: str, diag: str = "N", context: int | None = None, comm: Comm = None
) -> None: ...


@overload
def pxtrmr2d(
    a: Local,
    desc_a: LayoutArgument,
    b: Local,
    desc_b: LayoutArgument,
    *,
    uplo: str,
    diag: str = "N",
    context: int | None = None,
    comm: Comm = None,
) -> None: ...


@routine_of_table
def pxtrmr2d(
    a: Local,
    desc_a: Descriptor,
    b: Local,
    desc_b: Descriptor,
    *,
    uplo: str,
    diag: str = "N",
    context: int | None = None,
    comm: Comm = None,
) -> None:
    """Copy one triangle, or trapezoid, of a matrix with ScaLAPACK's p?trmr2d. Collective over the context.

    Parameters
    ----------
    a, b, desc_a, desc_b, context
        As for `pxgemr2d`.
    uplo : {"U", "L"}
        Upper or lower triangle; the rest of `b` is unchanged. In an m x n matrix ScaLAPACK's diagonal starts m - n rows below
        the corner for "U" of a tall matrix, and n - m columns right of it for "L" of a wide one.
    diag : {"N", "U"}
        "U": the diagonal is assumed to be ones and is not copied.
    comm : MPI.Intracomm, optional
        As for `pxgemr2d`.

    Raises
    ------
    ValueError
        `uplo` or `diag` is none of these letters.
    DescriptorError, ArrayError
        As for `pxgemr2d`.
    """


@overload
def pxgetrf(a: Distributed, /, *, comm: Comm = None) -> NDArray[np.intc] | None: ...


@overload
def pxgetrf(a: Local, desc: LayoutArgument, *, comm: Comm = None) -> NDArray[np.intc] | None: ...


@routine_of_table
def pxgetrf(a: Local, desc: Descriptor, *, comm: Comm = None) -> NDArray[np.intc] | None:
    """LU factorisation with row exchanges, in place, by ScaLAPACK's p?getrf. Collective over the grid.

    Parameters
    ----------
    a : ndarray or None
        Local array, Fortran-ordered, overwritten by the factors; ranks outside the grid may pass None.
    desc : Descriptor, or nine integers
        Its layout: square, with square blocks; a sub-array must start at a block's edge.
    comm : MPI.Intracomm, optional
        As for `pxgemr2d`.

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


@overload
def pxgetrs(
    a: Distributed, pivots: NDArray[np.intc] | None, b: Distributed, /, trans: str = "N", *, comm: Comm = None
) -> None: ...


@overload
def pxgetrs(
    a: Local,
    desc: LayoutArgument,
    pivots: NDArray[np.intc] | None,
    b: Local,
    desc_b: LayoutArgument,
    trans: str = "N",
    *,
    comm: Comm = None,
) -> None: ...


@routine_of_table
def pxgetrs(
    a: Local,
    desc: Descriptor,
    pivots: NDArray[np.intc] | None,
    b: Local,
    desc_b: Descriptor,
    trans: str = "N",
    *,
    comm: Comm = None,
) -> None:
    """Solve A X = B with the factors of `pxgetrf`, by ScaLAPACK's p?getrs. Collective over the grid.

    Parameters
    ----------
    a, desc, pivots
        As left and returned by `pxgetrf`; ranks outside the grid may pass None for arrays.
    b : ndarray or None
        Local array of the right-hand sides, Fortran-ordered, overwritten by the solutions.
    desc_b : Descriptor, or nine integers
        Its layout, on the same grid: as many rows as A, in the same blocks, on the same process rows.
    trans : {"N", "T", "C"}
        Solve with A, its transpose or its conjugate transpose.
    comm : MPI.Intracomm, optional
        As for `pxgemr2d`.

    Raises
    ------
    ValueError
        `trans` is none of these letters.
    DescriptorError
        The layouts do not fit each other.
    ArrayError
        A local array does not fit its layout.
    """


# -- of whole matrices in aligned layouts


@routine_of_table
def pxgetri(a: Local, desc: Descriptor, pivots: NDArray[np.intc] | None, *, comm: Comm = None) -> None:
    """Inverse from the factors of `pxgetrf`, in place, by ScaLAPACK's p?getri. Collective over the grid.

    Parameters
    ----------
    a, desc, pivots
        As left and returned by `pxgetrf`; source 0 and no sub-array.
    comm : MPI.Intracomm, optional
        As for `pxgemr2d`.

    Raises
    ------
    numpy.linalg.LinAlgError, DescriptorError, ArrayError
        As for `pxgetrf`.
    """


@routine_of_table
def pxpotrf(a: Local, desc: Descriptor, uplo: str = "L", *, comm: Comm = None) -> None:
    """Cholesky factorisation in place, by ScaLAPACK's p?potrf. Collective over the grid.

    Parameters
    ----------
    a : ndarray or None
        Local array, Fortran-ordered; the triangle is overwritten by the factor, the other triangle is unchanged.
    desc : Descriptor, or nine integers
        Its layout: of a square matrix, in square blocks, source 0.
    uplo : {"L", "U"}
        Triangle that is read and written: A = L L^H or U^H U.
    comm : MPI.Intracomm, optional
        As for `pxgemr2d`.

    Raises
    ------
    numpy.linalg.LinAlgError
        The matrix is not positive definite; says which leading minor.
    ValueError, DescriptorError, ArrayError
        As for `pxgetrs`.
    """


@routine_of_table
def pxpotrs(a: Local, desc: Descriptor, b: Local, desc_b: Descriptor, uplo: str = "L", *, comm: Comm = None) -> None:
    """Solve A X = B with the factor of `pxpotrf`, by ScaLAPACK's p?potrs. Collective over the grid.

    Parameters
    ----------
    a, desc, uplo
        As left by, and given to, `pxpotrf`.
    b : ndarray or None
        Local array of the right-hand sides, Fortran-ordered, overwritten by the solutions.
    desc_b : Descriptor, or nine integers
        Its layout, aligned with `desc`.
    comm : MPI.Intracomm, optional
        As for `pxgemr2d`.

    Raises
    ------
    ValueError, DescriptorError, ArrayError
        As for `pxgetrs`.
    """


@routine_of_table
def pxtrsm(
    a: Local, desc: Descriptor, b: Local, desc_b: Descriptor, uplo: str = "L", trans: str = "N", *, comm: Comm = None
) -> None:
    """Solve op(A) X = B with a triangle of A, in place of B, by PBLAS's p?trsm. Collective over the grid.

    Parameters
    ----------
    a : ndarray or None
        Local array, Fortran-ordered; only the triangle is read.
    desc : Descriptor, or nine integers
        Its layout: of a square matrix, in square blocks, source 0.
    b, desc_b, uplo
        As for `pxpotrs`.
    trans : {"N", "T", "C"}
        Solve with the triangle, its transpose or its conjugate transpose.
    comm : MPI.Intracomm, optional
        As for `pxgemr2d`.

    Raises
    ------
    ValueError, DescriptorError, ArrayError
        As for `pxgetrs`.
    """


@routine_of_table
def pxtrmm(
    a: Local, desc: Descriptor, b: Local, desc_b: Descriptor, uplo: str = "L", trans: str = "N", *, comm: Comm = None
) -> None:
    """Multiply op(A) B with a triangle of A, in place of B, by PBLAS's p?trmm. Collective over the grid.

    Parameters and errors are those of `pxtrsm`.
    """


@routine_of_table
def pxgemm(
    a: Local,
    desc_a: Descriptor,
    b: Local,
    desc_b: Descriptor,
    c: Local,
    desc_c: Descriptor,
    *,
    trans_a: str = "N",
    trans_b: str = "N",
    alpha: complex = 1,
    beta: complex = 0,
    comm: Comm = None,
) -> None:
    """C = alpha op(A) op(B) + beta C, by ScaLAPACK's p?gemm. Collective over the grid.

    Parameters
    ----------
    a, b, c : ndarray or None
        Local arrays, Fortran-ordered; `c` is overwritten. Ranks outside the grid may pass None.
    desc_a, desc_b, desc_c : Descriptor, or nine integers
        Their layouts, aligned.
    trans_a, trans_b : {"N", "T", "C"}
        Use the matrix itself, its transpose or its conjugate transpose.
    alpha, beta : number
        Factors.
    comm : MPI.Intracomm, optional
        As for `pxgemr2d`.

    Raises
    ------
    ValueError
        A letter is none of these.
    DescriptorError, ArrayError
        The layouts do not fit each other, or a local array its layout.
    """


@routine_of_table
def pxlange(a: Local, desc: Descriptor, norm: str = "F", *, comm: Comm = None) -> float | None:
    """A norm of a matrix, by ScaLAPACK's p?lange. Collective over the grid.

    Parameters
    ----------
    a : ndarray or None
        Local array, Fortran-ordered; ranks outside the grid may pass None.
    desc : Descriptor, or nine integers
        Its layout: square blocks, source 0, no sub-array.
    norm : {"M", "1", "I", "F"}
        The largest absolute value, the largest column sum, the largest row sum, or the Frobenius norm.
    comm : MPI.Intracomm, optional
        As for `pxgemr2d`.

    Returns
    -------
    float or None
        The norm on all ranks of the grid; None outside.

    Raises
    ------
    ValueError, DescriptorError, ArrayError
        As for `pxgemm`.
    """
