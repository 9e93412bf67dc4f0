"""The table of the ScaLAPACK routines on NumPy local arrays: a row for each, which decorates its signature.

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
from numpy.linalg import LinAlgError
from numpy.typing import NDArray

from .. import blacs
from ..blacs.library import without_avx2
from ..comm.agreement import agreement, meet
from ..comm.groups import group_of
from ..comm.guard import Guard
from ..comm.mpi import MPI
from ..comm.vote import digest
from ..layout.array_arithmetic import Distributed, takes_distributed
from ..layout.descriptor import Descriptor
from ..layout.grid import ProcessGrid
from ..layout.tiles import LayoutArgument, layout_on
from ..tracebacks import brief
from . import calls
from . import matrix_operands as checks
from .calls import (
    ConvergenceError,
    Entry,
    NotFiniteError,
    SingularError,
    extreme_over_grid,
    group_of_context,
    inside_run_together,
    require_finite,
    run_together,
)
from .docstrings import complete
from .matrix_operands import KIND_OF_DTYPE, diagonal_places, operand
from .scaling import Scale
from .table import (
    NOT_POSITIVE,
    SINGULAR,
    Bidiagonal,
    Eigenpairs,
    LibraryCall,
    PivotedQR,
    Routine,
    SingularTriplets,
    Tridiagonal,
)

R = TypeVar("R")
Local = NDArray[Any] | None
Comm: TypeAlias = "MPI.Intracomm | None"


def row(
    name: str, arguments: str, checks: tuple[Callable[..., None], ...], written: str = "a", **facts: Any
) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Decorate a signature with the call of its routine, as `Routine` describes it, and complete its docstring."""
    routine = Routine(name, arguments, checks, written, **facts)
    return lambda function: _calling(routine, function)


def _calling(routine: Routine, function: Callable[..., R]) -> Callable[..., R]:
    """The call of a routine with a signature, whose docstring is completed.

    The function takes distributed arrays in place of local arrays and layouts. With `comm` it takes nine integers as layouts,
    all ranks of `comm` agree on the layouts, and BLACS contexts are made where there are none. An error of one rank is raised
    on all.
    """
    parameters = inspect.signature(function).parameters
    names, defaults = list(parameters), {name: parameter.default for name, parameter in parameters.items()}
    layouts = {names[k - 1]: name for k, name in enumerate(names) if name.startswith("desc")}
    function.__doc__ = complete(function.__doc__ or "", names, routine.written, routine.iterates)

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
        run = LibraryCall(routine, arguments, layouts).run
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


# -- bodies of routines that need more than a call


def _getrf(call: LibraryCall) -> Any:
    n, desc, local = call.desc.shape[0], call.desc, call.arguments["a"].array
    first = np.full(2, n + 1, np.intc)
    diagonal, least = diagonal_places(desc), extreme_over_grid("igamn2d", first, desc)
    scale = Scale(local, desc) if call.kind == "c" and blacs.load().vendor == "MKL" else None

    def find_small_pivots() -> None:
        """Find zero pivots here: MKL does not report all of them, and netlib ignores a matrix of one row."""
        if scale is not None:
            scale.multiply_upper_triangle()
        first[:] = _first_small(local, *diagonal, n)
        least()

    pivots = call.enter(find_small_pivots, before=scale.divide if scale is not None else lambda: None)
    zero, subnormal = first.tolist()
    if subnormal < min(zero, n):
        raise NotFiniteError(
            f"{call.name}: pivot {subnormal} (counted from 1) is so small that ScaLAPACK cannot divide by it: multiply the "
            "matrix by a power of 2, or call qr or lstsq"
        )
    if call.info > 0 and zero > n:
        raise LinAlgError(
            f"{call.name}: pivot {call.info} (counted from 1) was not found: the matrix has infs, NaNs or subnormal numbers"
        )
    if zero <= n:
        raise SingularError(f"{call.name}: {SINGULAR.format(info=call.info or zero)}")
    return pivots


def _first_small(
    local: NDArray[Any], indices: NDArray[np.int64], rows: NDArray[np.int64], columns: NDArray[np.int64], n: int
) -> list[int]:
    """Return the first zero on this rank's part of the diagonal, and the first number with an overflowing reciprocal.

    Both are counted from 1; n + 1 means none.
    """
    sizes = np.abs(local[rows, columns])
    least = 1 / np.finfo(sizes.dtype).max
    zeros, subnormal = indices[sizes == 0], indices[(sizes > 0) & (sizes < least)]
    return [int(positions[0]) + 1 if positions.size else n + 1 for positions in (zeros, subnormal)]


def _lange(call: LibraryCall) -> float:
    """Look for NaNs here: p?lange loses them in its comparisons."""
    desc, local, regular = call.desc, call.arguments["a"].array, np.ones(1, np.intc)
    everywhere = extreme_over_grid("igamn2d", regular, desc)
    regular[0] = not np.isnan(local[: desc.local_shape[0]]).any()
    call.enter(everywhere)
    return float(call.return_value) if regular[0] else float("nan")


def _gesvd(call: LibraryCall) -> Any:
    """Accept singular values that differ between processes by rounding only; p?gesvd reports them as an error."""
    desc, few, values = call.desc, min(call.desc.shape), call.arguments["values"]
    low, high = np.zeros((2, few), call.real)
    letter = KIND_OF_DTYPE[call.real]
    extremes = extreme_over_grid(f"{letter}gamn2d", low, desc), extreme_over_grid(f"{letter}gamx2d", high, desc)
    triplets = call.enter()
    if 0 < call.info <= few:
        raise ConvergenceError(f"{call.name}: {call.info} singular values did not converge")
    if call.info > few:
        low[:] = high[:] = values
        for extreme in extremes:
            extreme()
        values[:] = high
    if call.info > few and (high - low).max() > 10 * max(desc.shape) * np.finfo(high.dtype).eps * high.max():
        raise ConvergenceError(f"{call.name}: the ranks found different singular values (INFO = {call.info})")
    return triplets if call.arguments["vectors"] else triplets._replace(left=None, right=None)


def _symmetric(call: LibraryCall) -> Any:
    """Use the upper triangle of the transpose if the lower triangle is not safe. Collective over the grid.

    OpenBLAS's ssymv of the lower triangle, in kernels for processors without AVX2, multiplies uninitialised elements of its
    buffer by zero. If these are NaNs from earlier calls, the result has NaNs, or ranks wait for ever.
    """
    desc, n = call.desc, call.desc.shape[0]
    if (call.kind, call.arguments["uplo"]) != ("s", "L") or n == 0:
        return call.enter()
    is_safe = np.array([not without_avx2(blacs.load())], np.intc)
    call.enter_with("igamn2d", lambda: Entry("igamn2d", (), None), extreme_over_grid("igamn2d", is_safe, desc))
    if not is_safe[0]:
        transpose, (one, zero) = (
            operand("a", desc.zeros(call.dtype), desc, written=True),
            np.eye(2, 1, dtype=call.dtype),
        )
        transposition = calls.FortranCall("pstran", (n, n, one, call.arguments["a"], zero, transpose))
        call.enter_with("pstran", lambda: Entry("pstran", (n, n), None), transposition)
        call.arguments |= {"a": transpose, "uplo": "U"}
    return call.enter()


def _stedc(call: LibraryCall) -> Any:
    """Copy the diagonals, which are overwritten."""
    n = call.desc.shape[0]
    for name, needed in (("diagonal", n), ("off_diagonal", n - 1)):
        vector = checks.check_vector(
            name, call.arguments[name], needed, call.dtype, "pxsytrd, gathered from all process columns,"
        )
        require_finite(call.name, bool(np.isfinite(vector[:needed]).all()))
        call.arguments[name] = np.append(vector[:needed], np.zeros(1, call.dtype))
        call.alike.append(f"{name} {digest(vector[:needed].tobytes()):x}")
    call.enter()
    return call.arguments["diagonal"][:n]


def _sygst(call: LibraryCall) -> float:
    return float(call.enter()[0])


ALIGNED = (checks.check_square, checks.check_aligned)
SYSTEM = (checks.check_square, checks.check_aligned, checks.check_sides)
PAIR = (checks.check_problem, checks.check_square, checks.check_aligned, checks.check_same_shape)
REFLECTORS = (checks.check_aligned, checks.check_adjoint, checks.check_reflected)
TRIANGULAR = "L uplo trans N n sides one a b"


# -- in any layouts that ScaLAPACK takes


@overload
def pxgemr2d(a: Distributed, b: Distributed, /, context: int | None = None, *, comm: Comm = None) -> None: ...


@overload
def pxgemr2d(
    a: Local, desc_a: LayoutArgument, b: Local, desc_b: LayoutArgument, context: int | None = None, *, comm: Comm = None
) -> None: ...


@row("gemr2d", "m n a b context", (checks.check_same_shape,), "b")
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


@row("trmr2d", "uplo diag m n a b context", (checks.check_same_shape,), "b")
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


@row("getrf", "m n a new_pivots info", (checks.check_square,), results="new_pivots", body=_getrf)
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


@row("getrs", "trans n sides a pivots b info", (checks.check_square, checks.check_sides), "b", failure=(LinAlgError, SINGULAR))
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


# -- LU and Cholesky factorisations of whole matrices in aligned layouts


@row("getri", "n a pivots work iwork info", ALIGNED, failure=(LinAlgError, SINGULAR))
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


@row("potrf", "uplo n a info", ALIGNED, failure=(LinAlgError, NOT_POSITIVE))
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


@row("potrs", "uplo n sides a b info", SYSTEM, "b")
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


@row("potri", "uplo n a info", ALIGNED, failure=(LinAlgError, SINGULAR))
def pxpotri(a: Local, desc: Descriptor, uplo: str = "L", *, comm: Comm = None) -> None:
    """Inverse from the factor of `pxpotrf`, in place, by ScaLAPACK's p?potri. Collective over the grid.

    Parameters
    ----------
    a, desc, uplo
        As left by, and given to, `pxpotrf`; that triangle is overwritten by the one of the inverse.
    comm : MPI.Intracomm, optional
        As for `pxgemr2d`.

    Raises
    ------
    numpy.linalg.LinAlgError
        A diagonal element of the factor is zero; says which.
    ValueError, DescriptorError, ArrayError
        As for `pxgetrs`.
    """


# -- with docstrings that are completed


@row("trsm", TRIANGULAR, SYSTEM, "b")
def pxtrsm(
    a: Local, desc: Descriptor, b: Local, desc_b: Descriptor, uplo: str = "L", trans: str = "N", *, comm: Comm = None
) -> None:
    """Solve op(A) X = B with a triangle of A, in place of B, by PBLAS's p?trsm."""


@row("trmm", TRIANGULAR, SYSTEM, "b")
def pxtrmm(
    a: Local, desc: Descriptor, b: Local, desc_b: Descriptor, uplo: str = "L", trans: str = "N", *, comm: Comm = None
) -> None:
    """Multiply op(A) B with a triangle of A, in place of B, by PBLAS's p?trmm."""


@row("gemm", "trans_a trans_b rows_c columns_c inner alpha a b beta c", (checks.check_aligned, checks.check_product), "c")
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
    """C = alpha op(A) op(B) + beta C, by ScaLAPACK's p?gemm."""


@row("lange", "norm m n a sums", (checks.check_aligned,), "", body=_lange)
def pxlange(a: Local, desc: Descriptor, norm: str = "F", *, comm: Comm = None) -> float | None:
    """A norm of a matrix, by ScaLAPACK's p?lange.

    Returns
    -------
    float or None
        The norm on all ranks of the grid; None outside.
    """


@row(
    "geqpf",
    "m n a new_columns new_tau work rwork info",
    (checks.check_aligned,),
    results="new_columns new_tau",
    result_outside=PivotedQR(None, None),
)
def pxgeqpf(a: Local, desc: Descriptor, *, comm: Comm = None) -> PivotedQR:
    """QR factorisation with column exchanges in place, by ScaLAPACK's p?geqpf: A P = Q R.

    Parameters
    ----------
    a : ndarray or None
        Local array, Fortran-ordered, overwritten: R in its upper trapezoid, the reflectors of Q below.

    Returns
    -------
    PivotedQR
        `columns`, which A P has, and `tau`.
    """


@row("geqrf", "m n a new_tau work info", (checks.check_aligned,), results="new_tau")
def pxgeqrf(a: Local, desc: Descriptor, *, comm: Comm = None) -> Local:
    """QR factorisation in place, by ScaLAPACK's p?geqrf.

    Parameters
    ----------
    a : ndarray or None
        Local array, Fortran-ordered, overwritten: R in its upper trapezoid, the reflectors of Q below.

    Returns
    -------
    tau : ndarray or None
        Factors of the reflectors, as `pxorgqr` takes them; None outside the grid.
    """


@row("orgqr", "m columns reflectors a tau work info", (checks.check_aligned, checks.check_reflectors))
def pxorgqr(a: Local, desc: Descriptor, tau: Local, columns: int, reflectors: int, *, comm: Comm = None) -> None:
    """The first columns of Q from the reflectors of `pxgeqrf`, in place, by p?orgqr or p?ungqr.

    Parameters
    ----------
    a, desc
        Local array and layout as for `pxgeqrf`, with the reflectors in the first columns.
    columns : int
        Number of columns of Q, at least `reflectors` and at most the number of rows and of columns.
    reflectors : int
        Number of reflectors that make Q.
    """


@row("ormqr", "side adjoint rows_c columns_c reflected a factors c work info", REFLECTORS, "c")
def pxormqr(
    a: Local,
    desc: Descriptor,
    tau: Local,
    c: Local,
    desc_c: Descriptor,
    *,
    side: str = "L",
    trans: str = "N",
    comm: Comm = None,
) -> None:
    """Multiply a matrix by Q of `pxgeqrf`, op(Q) C or C op(Q), in place of C, by ScaLAPACK's p?ormqr or p?unmqr.

    Parameters
    ----------
    a, desc
        As left by, and given to, `pxgeqrf`: min(m, n) reflectors of a square Q of order m.
    """


@row(
    "gebrd",
    "m n a d e tau_q tau_p work info",
    (checks.check_aligned,),
    results="d e tau_q tau_p",
    result_outside=Bidiagonal(None, None, None, None),
)
def pxgebrd(a: Local, desc: Descriptor, *, comm: Comm = None) -> Bidiagonal:
    """Reduce a matrix to bidiagonal form, A = Q B P^H, in place, by ScaLAPACK's p?gebrd.

    Parameters
    ----------
    a : ndarray or None
        Local array, Fortran-ordered, overwritten: B on the diagonal and above it, or below it where there are more columns
        than rows; the reflectors of Q below B, and those of P above.

    Returns
    -------
    Bidiagonal
        This rank's part of B and the factors of the reflectors.
    """


@row(
    "ormbr",
    "vect side adjoint rows_c columns_c reduced a factors c work info",
    (*REFLECTORS, checks.check_bidiagonal_side),
    "c",
)
def pxormbr(
    a: Local,
    desc: Descriptor,
    tau: Local,
    c: Local,
    desc_c: Descriptor,
    *,
    vect: str = "Q",
    side: str = "L",
    trans: str = "N",
    comm: Comm = None,
) -> None:
    """Multiply a matrix by Q or P of `pxgebrd`, in place of C, by ScaLAPACK's p?ormbr or p?unmbr.

    Parameters
    ----------
    a, desc
        As left by, and given to, `pxgebrd`.
    tau : ndarray or None
        `tau_q` or `tau_p` of the result of `pxgebrd` on this rank.
    vect : {"Q", "P"}
        Which matrix. Q is of order m and P of order n. Netlib's routine refuses P from the left where m >= n, and Q from
        the right where m < n.
    """


@row(
    "gesvd",
    "job job m n a values left right work reals info",
    (checks.check_aligned,),
    obstacle=checks.gesvd_obstacle,
    iterates=True,
    results="left values right",
    result_outside=SingularTriplets(None, None, None),
    body=_gesvd,
)
def pxgesvd(a: Local, desc: Descriptor, vectors: bool = True, *, comm: Comm = None) -> SingularTriplets:
    """Singular value decomposition of an m x n matrix, by ScaLAPACK's p?gesvd.

    Parameters
    ----------
    vectors : bool
        Whether the vectors are computed too.

    Returns
    -------
    SingularTriplets
        U of m x min(m, n) and V^H of min(m, n) x n, in the same blocks on the same grid, and the values.
    """


@row("gels", "N m n sides a b work info", (checks.check_aligned, checks.check_longer_sides), "a b")
def pxgels(a: Local, desc: Descriptor, b: Local, desc_b: Descriptor, *, comm: Comm = None) -> None:
    """Least squares, or the solution of least norm, of A X = B with an m x n matrix by ScaLAPACK's p?gels.

    Parameters
    ----------
    a : ndarray or None
        Local array, Fortran-ordered, of full rank; overwritten by its QR factors, or LQ factors where it is wide.
    b : ndarray or None
        Local array of max(m, n) rows, the first m of them the right-hand sides; overwritten by the solutions in the first
        n rows.
    """


@row(
    "syev",
    "N uplo n a values a work rwork info",
    ALIGNED,
    obstacle=checks.syevd_obstacle,
    iterates=True,
    failure=(ConvergenceError, "not all eigenvalues were found (INFO = {info})"),
    results="values",
    body=_symmetric,
)
def pxsyev(a: Local, desc: Descriptor, uplo: str = "L", *, comm: Comm = None) -> Local:
    """Eigenvalues alone of a symmetric or Hermitian matrix, by ScaLAPACK's p?syev or p?heev (QR iteration).

    Parameters
    ----------
    desc, uplo
        As for `pxsyevd`.

    Returns
    -------
    ndarray of a real dtype, or None
        All eigenvalues, ascending, on every rank of the grid; None outside.
    """


@row(
    "syevd",
    "V uplo n a values eigenvectors work rwork iwork info",
    ALIGNED,
    obstacle=checks.syevd_obstacle,
    iterates=True,
    failure=(ConvergenceError, "eigenvalue {value} (counted from 1) did not converge"),
    results="values eigenvectors",
    result_outside=Eigenpairs(None, None),
    body=_symmetric,
)
def pxsyevd(a: Local, desc: Descriptor, uplo: str = "L", *, comm: Comm = None) -> Eigenpairs:
    """Eigenvalues and eigenvectors of a symmetric or Hermitian matrix, by ScaLAPACK's p?syevd or p?heevd (divide and
    conquer).

    Parameters
    ----------
    desc : Descriptor, or nine integers
        Its layout: square, with square blocks, smaller than the matrix unless the grid is of one process, and source 0;
        with MKL, on a grid whose ranks ascend by rows or by columns.
        No sub-array: redistribute it to a layout of its own.
    uplo : {"L", "U"}
        Triangle that is read; the other is assumed to mirror it.

    Returns
    -------
    Eigenpairs
        `values` and `vectors`.
    """


@row("sygst", "problem uplo n a b scale info", PAIR, results="scale", result_outside=1.0, body=_sygst)
def pxsygst(
    a: Local, desc: Descriptor, b: Local, desc_b: Descriptor, uplo: str = "L", *, problem: int = 1, comm: Comm = None
) -> float:
    """Reduce a generalized eigenproblem to a standard one, in place, by ScaLAPACK's p?sygst or p?hegst.

    Parameters
    ----------
    a : ndarray or None
        Local array, Fortran-ordered; its triangle is overwritten by that of inv(L) A inv(L^H) or inv(U^H) A inv(U); for
        problems 2 and 3 by that of L^H A L or U A U^H.
    b, desc_b
        The factor that `pxpotrf` made of B, in the same triangle, and its layout, aligned with `desc`.
    uplo : {"L", "U"}
        Triangle of both.
    problem : {1, 2, 3}
        A x = w B x, A B x = w x, or B A x = w x.

    Returns
    -------
    float
        Factor for the eigenvalues of the standard problem; 1 outside the grid.

    Raises
    ------
    ValueError
        `uplo` or `problem` is none of these.
    """


@row(
    "sytrd",
    "uplo n a new_diagonal new_off_diagonal new_tau work info",
    ALIGNED,
    results="new_diagonal new_off_diagonal new_tau a uplo",
    result_outside=Tridiagonal(None, None, None, None, None),
    body=_symmetric,
)
def pxsytrd(a: Local, desc: Descriptor, uplo: str = "L", *, comm: Comm = None) -> Tridiagonal:
    """Reduce a symmetric or Hermitian matrix to a real tridiagonal one, A = Q T Q^H, by ScaLAPACK's p?sytrd or p?hetrd.

    Returns
    -------
    Tridiagonal
        T, by columns; each process row has all of them. And the reflectors of Q, with the letter that `pxormtr` takes.
    """


@row("ormtr", "L uplo adjoint n sides a factors b work info", (*SYSTEM, checks.check_adjoint), "b")
def pxormtr(
    a: Local,
    desc: Descriptor,
    tau: Local,
    b: Local,
    desc_b: Descriptor,
    uplo: str = "L",
    trans: str = "N",
    *,
    comm: Comm = None,
) -> None:
    """Multiply op(Q) B with Q of `pxsytrd`, in place of B, by ScaLAPACK's p?ormtr or p?unmtr.

    Parameters
    ----------
    a, desc, tau, uplo
        `reflectors` that `pxsytrd` returned, in the layout of its matrix, and `tau` and `uplo`.
    """


@row(
    "stedc",
    "I n diagonal off_diagonal a work iwork info",
    ALIGNED,
    kinds="sd",
    obstacle=checks.syevd_obstacle,
    failure=(ConvergenceError, "eigenvalue {value} (counted from 1) did not converge"),
    body=_stedc,
)
def pxstedc(a: Local, desc: Descriptor, diagonal: Local, off_diagonal: Local, *, comm: Comm = None) -> Local:
    """Eigenvalues and eigenvectors of a real tridiagonal matrix, by ScaLAPACK's p?stedc (divide and conquer).

    Parameters
    ----------
    a : ndarray or None
        Local array of float32 or float64, Fortran-ordered, overwritten by the vectors: column k belongs to value k.
    desc : Descriptor, or nine integers
        Its layout, as for `pxsyevd`.
    diagonal, off_diagonal : ndarray or None
        The whole tridiagonal matrix on each rank of the grid, of n and n - 1 elements; ranks outside may pass None.

    Returns
    -------
    ndarray of a real dtype, or None
        All eigenvalues, ascending, on every rank of the grid; None outside.

    Raises
    ------
    numpy.linalg.LinAlgError
        As for `pxsyevd`.
    """
