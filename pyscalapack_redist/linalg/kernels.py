"""The routines that `linalg` calls: one name for two libraries, ScaLAPACK's p?potrf and LAPACK's ?potrf.

On larger grids a name is the routine of `psr.scalapack`; on a grid of one process its row below, which calls LAPACK's, or
BLAS's, with the same result and the same errors. That needs no BLACS context and no library beside SciPy, and takes whole,
Fortran-ordered local arrays on the process of the grid, which alone calls it.

SciPy exports the functions to Cython as capsules (`scipy.linalg.cython_lapack`): the address, named by the signature in C. All
arguments are pointers, as in Fortran. The signature is compared with the arguments of a call, since another SciPy might have
integers of 64 bits.
"""

from __future__ import annotations

import ctypes
import functools
import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.linalg import LinAlgError
from numpy.typing import NDArray

from .. import scalapack
from ..errors import LibraryError
from ..layout.array_arithmetic import Distributed
from ..scalapack.calls import ConvergenceError, SingularError, require_finite, workspace_size
from ..scalapack.matrix_operands import KIND_OF_DTYPE, LIMIT, are_finite, full_name
from ..scalapack.table import NOT_POSITIVE, SINGULAR, Eigenpairs, PivotedQR, SingularTriplets, Tridiagonal
from ..scalapack.workspace import checked_lapack_sizes, lapack_sizes
from .solver_rules import FAMILY

R = TypeVar("R")
Matrix = NDArray[Any]
Failure = tuple[type[LinAlgError], str]  # the error for a positive INFO, and its text
SINGULAR_MATRIX: Failure = SingularError, SINGULAR
NOT_DEFINITE: Failure = LinAlgError, NOT_POSITIVE
NO_SINGULAR_VALUES: Failure = ConvergenceError, "singular values did not converge (INFO = {info})"
NO_EIGENVALUES: Failure = ConvergenceError, "an eigenvalue did not converge (INFO = {info})"


def fits_one_process(routine: str, shapes: Sequence[tuple[int, ...]], options: Mapping[str, Any]) -> bool:
    """Whether LAPACK, which counts in 32 bits, can count the elements of matrices, and its workspaces for the first of them."""
    elements = max(map(math.prod, shapes))
    if elements < LIMIT // 16:
        return True
    by_values = FAMILY[routine] == "svd" or options.get("method") == "svd"
    name = "gesdd" if by_values else "syevd" if FAMILY[routine] == "eigh" else ""
    sizes = [size for kind in "dz" for size in lapack_sizes(name, (*shapes[0], 1)[:2], kind).values()] if name else []
    return max([elements, *sizes]) < LIMIT


# -- functions of LAPACK and BLAS

# The last word of a pointer's type in a signature: __pyx_t_5scipy_6linalg_13cython_lapack_d, __pyx_t_double_complex, ...
DTYPES: dict[str, np.dtype[Any]] = {
    "int": np.dtype(np.intc),
    "s": np.dtype(np.float32),
    "d": np.dtype(np.float64),
    "float_complex": np.dtype(np.complex64),
    "double_complex": np.dtype(np.complex128),
}
POINTER = re.compile(r"(?:__pyx_t_(?:\w*cython_(?:lapack|blas)_)?)?(\w+) \*")
INTEGERS = int, np.integer
TRIANGLE_BLOCK = 64  # reflectors of `own_tpqrt` that are applied at a time
MEMORY = ctypes.c_char * 0  # at an address
Argument = str | int | complex | NDArray[Any]
NOTHING: dict[str, int] = {}
ONE = complex(1)


class EntryPoint(NamedTuple):
    """A function, which takes pointers."""

    name: str
    call: Callable[..., None]
    types: tuple[str, ...]  # the last words of the pointers' types


def lapack_function(name: str) -> Callable[..., None]:
    """A function of LAPACK or BLAS, such as "dbdsdc". Not collective.

    It takes LAPACK's arguments in their order: letters as str, integers as int, everything that is written as an array of one
    element or more, in Fortran order without gaps. It returns nothing, and does not hold Python's interpreter lock.

    Raises
    ------
    LibraryError
        SciPy has no such function, or one with arguments that cannot be passed.
    """
    entry = _entry_point(name)

    def function(*arguments: Argument) -> None:
        if len(arguments) != len(entry.types):
            raise TypeError(f"{name} takes {len(entry.types)} arguments, not {len(arguments)}")
        pointers: list[Any] = []
        _pass(pointers, entry, arguments, written=True)
        entry.call(*pointers)

    return function


@functools.cache
def _entry_point(name: str) -> EntryPoint:
    import scipy
    from scipy.linalg import cython_blas, cython_lapack

    capsule = cython_lapack.__pyx_capi__.get(name) or cython_blas.__pyx_capi__.get(name)
    if capsule is None:
        raise LibraryError(
            f"scipy.linalg.cython_lapack of SciPy {scipy.__version__} has no {name}: install SciPy >= 1.15"
        )
    signature = _capsule_name(capsule)
    text = signature.decode()
    result, _, arguments = text.removesuffix(")").partition(" (")
    pointers = [POINTER.fullmatch(argument) for argument in arguments.split(", ")]
    types = tuple([pointer[1] if pointer else "" for pointer in pointers])
    if result != "void" or not {"char", *DTYPES}.issuperset(types):
        raise LibraryError(
            f"{name} of scipy.linalg.cython_lapack, SciPy {scipy.__version__}, is {text}: pyscalapack_redist calls only "
            "functions without a result, whose integers have 32 bits; please report this, and install another SciPy"
        )
    return EntryPoint(name, ctypes.CFUNCTYPE(None)(_capsule_address(capsule, signature)), types)


@functools.cache
def _entry_of(name: str, dtype: np.dtype[Any]) -> EntryPoint:
    """A function by its name without the letter of the dtype."""
    return _entry_point(full_name(KIND_OF_DTYPE[dtype], name))


def _capsule_name(capsule: Any) -> bytes:
    read = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
    return read(capsule)  # type: ignore[no-any-return]


def _capsule_address(capsule: Any, name: bytes) -> int:
    read = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    return read(capsule, name)  # type: ignore[no-any-return]


def _pass(pointers: list[Any], entry: EntryPoint, arguments: Iterable[Argument], *, written: bool = False) -> None:
    """Append the addresses of a function's next arguments, in objects that keep their memory.

    `written`: no array may be read-only. Otherwise a matrix stands for itself and its leading dimension.
    """
    name, _, types = entry
    for argument in arguments:
        place = len(pointers)
        kind = types[place]
        if kind == "int" and isinstance(argument, INTEGERS):
            if not -LIMIT <= argument < LIMIT:
                raise OverflowError(f"argument {place} of {name} is {argument}, and LAPACK's integers have 32 bits")
            pointers.append(_integer(argument))
        elif kind == "char" and isinstance(argument, str):
            pointers.append(argument.encode())
        elif isinstance(argument, np.ndarray) and argument.dtype == DTYPES.get(kind):
            flags = argument.flags
            if not flags.f_contiguous or (written and not flags.writeable):
                raise TypeError(f"argument {place} of {name} is an array that is not contiguous, or read-only")
            # of what is writeable the faster way to the address
            pointers.append(MEMORY.from_buffer(argument.T) if flags.writeable else argument.ctypes)  # type: ignore[arg-type]
            if argument.ndim == 2 and not written:
                pointers.append(_integer(len(argument) or 1))
        elif isinstance(argument, complex) and not written:
            pointers.append(_factor(argument, kind))
        else:
            raise TypeError(f"argument {place} of {name} is {argument!r}: it must be of C's type {kind}")


@functools.lru_cache(maxsize=1024)
def _integer(value: int) -> Any:
    """The address of a number, which is only read."""
    return ctypes.byref(ctypes.c_int(value))


@functools.lru_cache(maxsize=64)
def _factor(value: complex, kind: str) -> Any:
    array: Any = np.array([value if kind.endswith("complex") else value.real], DTYPES[kind])
    return MEMORY.from_buffer(array)


@functools.lru_cache(maxsize=256)
def _workspaces(
    name: str, dtype: np.dtype[Any], work: str, *arguments: str | int | tuple[int, ...]
) -> list[tuple[str, np.dtype[Any], int]]:
    """Names, dtypes and sizes of workspaces by a query, which reads letters and numbers alone: arrays are known by shapes."""
    entry, pointers, answers = _entry_of(name, dtype), list[Any](), []
    for argument in arguments:
        if isinstance(argument, tuple):
            kind = DTYPES[entry.types[len(pointers)]]
            _pass(pointers, entry, (np.zeros(1, kind), *(rows or 1 for rows in argument[:-1])))
        else:
            _pass(pointers, entry, [argument])
    for space in work.split():
        if space != "rwork" or dtype.kind == "c":
            answers.append((space, np.zeros(1, DTYPES[entry.types[len(pointers)]])))
            _pass(pointers, entry, (answers[-1][1], -1))
    _pass(pointers, entry, [np.zeros(1, DTYPES[kind]) for kind in entry.types[len(pointers) :]])
    entry.call(*pointers)
    return [(space, answer.dtype, workspace_size(answer)) for space, answer in answers]


def _call(
    name: str,
    matrix: Matrix,
    *arguments: Argument,
    work: str = "",
    fixed: Iterable[NDArray[Any]] = (),
    least: Mapping[str, int] = NOTHING,
    failure: Failure | None = None,
) -> int:
    """Call a function, by its name without the letter of a matrix' dtype; its INFO, 0 of BLAS.

    The arguments are LAPACK's but for the last ones, with a matrix for itself and its leading dimension. Then come workspaces
    by the names in `work`, with their sizes by a query, "rwork" for complex numbers only; workspaces of fixed sizes; and INFO.
    `least` are sizes with which the function works, should an answer have wrapped.
    """
    dtype, info, pointers = matrix.dtype, ctypes.c_int(), list[Any]()
    entry = _entry_of(name, dtype)
    _pass(pointers, entry, arguments)
    if work:
        known = [argument.shape if isinstance(argument, np.ndarray) else argument for argument in arguments]
        for space, kind, size in _workspaces(name, dtype, work, *known):
            elements = max(1, size, least.get(space, 1))
            _pass(pointers, entry, (np.empty(elements, kind), elements))
        _pass(pointers, entry, fixed)
    if len(pointers) < len(entry.types):  # not of BLAS
        pointers.append(ctypes.byref(info))
    entry.call(*pointers)
    if info.value < 0:
        raise ValueError(f"{name} of LAPACK refuses its argument {-info.value}: please report it")
    if info.value and failure is not None:
        raise failure[0](f"{entry.name}: {failure[1].format(info=info.value)}")
    return info.value


# -- the rows


def row(function: Callable[..., R]) -> Callable[..., R]:
    """Decorate LAPACK's form of a routine, of local arrays: on larger grids that of `psr.scalapack` of this name is called."""
    of_many = getattr(scalapack, function.__name__)

    @functools.wraps(function)
    def call(a: Distributed, *arguments: Any, **keywords: Any) -> R:
        if a.desc.grid.size > 1:
            result: R = of_many(a, *arguments, **keywords)
            return result
        values = [a.local]
        for argument in arguments:
            values.append(argument.local if isinstance(argument, Distributed) else argument)
        return function(*values, **keywords)

    return call


@row
def pxgetrf(a: Matrix) -> NDArray[np.intc]:
    """?getrf."""
    pivots = np.zeros(min(a.shape), np.intc)
    info = _call("getrf", a, *a.shape, a, pivots)
    if info:
        name = full_name(KIND_OF_DTYPE[a.dtype], "getrf")
        if not np.isfinite(a[info - 1, info - 1]):
            raise LinAlgError(f"{name}: pivot {info} (counted from 1) is not finite")
        raise SingularError(f"{name}: {SINGULAR.format(info=info)}")
    return pivots


@row
def pxgetrs(a: Matrix, pivots: NDArray[np.intc], b: Matrix, trans: str = "N") -> None:
    """?getrs."""
    _call("getrs", a, trans, *b.shape, a, pivots, b)


@row
def pxgetri(a: Matrix, pivots: NDArray[np.intc]) -> None:
    """?getri."""
    _call("getri", a, len(a), a, pivots, work="work", failure=SINGULAR_MATRIX)


@row
def pxpotrf(a: Matrix, uplo: str = "L") -> None:
    """?potrf."""
    _call("potrf", a, uplo, len(a), a, failure=NOT_DEFINITE)


@row
def pxpotrs(a: Matrix, b: Matrix, uplo: str = "L") -> None:
    """?potrs."""
    _call("potrs", a, uplo, *b.shape, a, b)


@row
def pxpotri(a: Matrix, uplo: str = "L") -> None:
    """?potri."""
    _call("potri", a, uplo, len(a), a, failure=SINGULAR_MATRIX)


@row
def pxtrsm(a: Matrix, b: Matrix, uplo: str = "L", trans: str = "N") -> None:
    """?trsm."""
    _call("trsm", a, "L", uplo, trans, "N", *b.shape, ONE, a, b)


@row
def pxtrmm(a: Matrix, b: Matrix, uplo: str = "L", trans: str = "N") -> None:
    """?trmm."""
    _call("trmm", a, "L", uplo, trans, "N", *b.shape, ONE, a, b)


@row
def pxgemm(
    a: Matrix, b: Matrix, c: Matrix, *, trans_a: str = "N", trans_b: str = "N", alpha: complex = 1, beta: complex = 0
) -> None:
    """?gemm."""
    inner = a.shape[1 if trans_a == "N" else 0]
    _call("gemm", c, trans_a, trans_b, *c.shape, inner, complex(alpha), a, b, complex(beta), c)


@row
def pxgeqrf(a: Matrix) -> NDArray[Any]:
    """?geqrf."""
    tau = np.zeros(min(a.shape), a.dtype)
    _call("geqrf", a, *a.shape, a, tau, work="work", least={"work": a.shape[1]})
    return tau


@row
def pxgeqpf(a: Matrix) -> PivotedQR:
    """?geqp3."""
    columns, tau = np.zeros(a.shape[1], np.intc), np.zeros(min(a.shape), a.dtype)
    spare = np.zeros(2 * a.shape[1], a.real.dtype)
    fixed = (spare,) if a.dtype.kind == "c" else ()
    _call("geqp3", a, *a.shape, a, columns, tau, work="work", fixed=fixed, least={"work": 3 * a.shape[1] + 1})
    return PivotedQR(columns, tau)


@row
def pxorgqr(a: Matrix, tau: NDArray[Any], columns: int, reflectors: int) -> None:
    """?orgqr or ?ungqr."""
    _call("orgqr", a, len(a), columns, reflectors, a, tau, work="work", least={"work": columns})


@row
def pxgesvd(a: Matrix, vectors: bool = True, *, complete: bool = False, driver: str = "gesdd") -> SingularTriplets:
    """?gesdd or ?gesvd; with `complete` U and V^H are square."""
    (m, n), few, kind = a.shape, min(a.shape), KIND_OF_DTYPE[a.dtype]
    values, shapes = np.zeros(few, a.real.dtype), [(m, m if complete else few), (n if complete else few, n)]
    left, right = (np.zeros(shape if vectors else (1, 1), a.dtype, "F") for shape in shapes)
    if few:
        require_finite(full_name(kind, driver), _are_finite(a))
        least = checked_lapack_sizes(driver, a.shape, kind, vectors)
        fixed = [np.empty(least[work], dtype) for work, dtype in (("rwork", values.dtype), ("iwork", np.intc)) if work in least]
        jobs = ("A" if complete else "S") if vectors else "N"
        arguments = *[jobs] * (2 if driver == "gesvd" else 1), m, n, a, values, left, right
        _call(driver, a, *arguments, work="work", fixed=fixed, least=least, failure=NO_SINGULAR_VALUES)
    elif vectors:
        for square in (left, right):
            np.fill_diagonal(square, 1)
    return SingularTriplets(left, values, right) if vectors else SingularTriplets(None, values, None)


@row
def pxgels(a: Matrix, b: Matrix) -> None:
    """?gels. A matrix that is not of full rank has a zero on the diagonal of its factor, which the caller finds."""
    few, sides = min(a.shape), b.shape[1]
    if few and sides:
        _call("gels", a, "N", *a.shape, sides, a, b, work="work", least={"work": few + max(few, sides)})
    else:
        b[: a.shape[1]] = 0  # the solution; the rest is the residual


def _are_finite(matrix: Matrix, uplo: str = "") -> bool:
    rows, columns = map(np.arange, matrix.shape)
    return are_finite(matrix, rows, columns, uplo)


def _eigenvalues(a: Matrix, uplo: str, vectors: bool) -> NDArray[Any]:
    values, kind = np.zeros(len(a), a.real.dtype), KIND_OF_DTYPE[a.dtype]
    require_finite(full_name(kind, "syevd"), _are_finite(a, uplo))
    least = checked_lapack_sizes("syevd", a.shape, kind, vectors)
    arguments = "V" if vectors else "N", uplo, len(a), a, values
    _call("syevd", a, *arguments, work="work rwork iwork", least=least, failure=NO_EIGENVALUES)
    return values


@row
def pxsyev(a: Matrix, uplo: str = "L") -> NDArray[Any]:
    """?syevd or ?heevd for values alone."""
    return _eigenvalues(a, uplo, False)


@row
def pxsyevd(a: Matrix, uplo: str = "L") -> Eigenpairs:
    """?syevd or ?heevd."""
    return Eigenpairs(_eigenvalues(a, uplo, True), a)


@row
def pxsytrd(a: Matrix, uplo: str = "L") -> Tridiagonal:
    """?sytrd or ?hetrd."""
    diagonal, off_diagonal = np.zeros((2, len(a)), a.real.dtype)
    beside = off_diagonal[:-1] if uplo == "L" else off_diagonal[1:]
    tau = np.zeros(beside.size, a.dtype)
    _call("sytrd", a, uplo, len(a), a, diagonal, beside, tau, work="work")
    return Tridiagonal(diagonal, off_diagonal, tau, a, uplo)


@row
def pxormtr(a: Matrix, tau: NDArray[Any], b: Matrix, uplo: str = "L", trans: str = "N") -> None:
    """?ormtr or ?unmtr."""
    _call("ormtr", a, "L", uplo, trans, *b.shape, a, tau, b, work="work")


@row
def pxstedc(a: Matrix, diagonal: NDArray[Any], off_diagonal: NDArray[Any]) -> NDArray[Any]:
    """?stedc for the eigenvectors of a tridiagonal matrix, with its values; `a` is overwritten by the vectors."""
    kind = KIND_OF_DTYPE[a.dtype]
    require_finite(full_name(kind, "stedc"), *(bool(np.isfinite(part).all()) for part in (diagonal, off_diagonal)))
    values, beside = diagonal.copy(), np.append(off_diagonal, a.dtype.type(0))
    least = checked_lapack_sizes("stedc", a.shape, kind)
    _call("stedc", a, "I", len(a), values, beside, a, work="work iwork", least=least, failure=NO_EIGENVALUES)
    return values


@row
def pxsygst(a: Matrix, b: Matrix, uplo: str = "L", *, problem: int = 1) -> float:
    """?sygst or ?hegst."""
    _call("sygst", a, problem, uplo, len(a), a, b)
    return 1.0


# -- LAPACK's alone, of a process' own rows


def own_geqrf(a: Matrix) -> NDArray[Any]:
    """?geqrf of a local array."""
    return inspect.unwrap(pxgeqrf)(a)  # type: ignore[no-any-return]


def own_orgqr(a: Matrix, tau: NDArray[Any]) -> None:
    """?orgqr or ?ungqr of a local array: all columns."""
    inspect.unwrap(pxorgqr)(a, tau, a.shape[1], a.shape[1])


def own_ormqr(a: Matrix, tau: NDArray[Any], b: Matrix) -> None:
    """?ormqr or ?unmqr: Q^H B."""
    _call("ormqr", a, "L", _adjoint(a), *b.shape, a.shape[1], a, tau, b, work="work")


def own_trmm(a: Matrix, b: Matrix) -> None:
    """?trmm from the right: B A, with A upper triangular."""
    _call("trmm", a, "R", "U", "N", "N", *b.shape, ONE, a, b)


def own_tpqrt(a: Matrix, b: Matrix) -> Matrix:
    """?tpqrt: QR factors of two upper triangles of one order above each other; R is in `a`, the reflectors are in `b` and T."""
    n, width = len(a), min(TRIANGLE_BLOCK, len(a))
    t = np.zeros((width, n), a.dtype, "F")
    _call("tpqrt", a, n, n, n, width, a, b, t, np.empty(width * n, a.dtype))
    return t


def own_tpmqrt(v: Matrix, t: Matrix, a: Matrix, b: Matrix) -> None:
    """?tpmqrt: Q^H times A above B, by the factors of `own_tpqrt`."""
    n, width = len(v), len(t)
    work = np.empty(width * max(1, a.shape[1]), a.dtype)
    _call("tpmqrt", v, "L", _adjoint(v), *b.shape, n, n, width, v, t, a, b, work)


def own_tpgqrt(v: Matrix, t: Matrix, a: Matrix, *, is_upper: bool) -> Matrix:
    """Q times A above zeros, by the factors of `own_tpqrt`: the upper part in place, and the lower one.

    Reflectors come in blocks from the last one to the first. Block k has as many rows as columns come before its end, and its
    rows of A are as they were; where A is an upper triangle, and so are both parts, it changes columns from its own on.
    """
    n, width = len(v), len(t)
    b = np.zeros(a.shape, a.dtype, "F")
    for first in range((n - 1) // width * width, -1, -width):
        end = min(first + width, n)
        count, left = end - first, first if is_upper else 0
        rows = np.array(a[first:end, left:], order="F")
        block, over, work = v[:, first:end], b[:, left:], np.empty(count * (a.shape[1] - left), a.dtype)
        _call(
            "tpmqrt", v, "L", "N", end, a.shape[1] - left, count, count, count, block, t[:, first:end], rows, over, work
        )
        a[first:end, left:] = rows
    return b


def _adjoint(a: Matrix) -> str:
    return "C" if a.dtype.kind == "c" else "T"
