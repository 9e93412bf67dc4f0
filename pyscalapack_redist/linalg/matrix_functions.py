"""What LAPACK has and ScaLAPACK has not: eigenvalues and Schur forms of general matrices, and functions of matrices.

General matrices are brought to one process, where SciPy computes. A function of a Hermitian matrix A = V W V^H is V f(W) V^H,
by the ways of `eigh`, on a grid or on one process.
"""

from __future__ import annotations

import contextlib
import io
import math
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Unpack

import numpy as np
from numpy.typing import NDArray

from ..comm.vote import digest
from ..distributed_array import DistributedArray
from ..errors import DescriptorError, RedistributionError, shown
from ..layout.array_arithmetic import descriptor_of
from ..layout.descriptor import Descriptor
from ..scalapack.calls import NotFiniteError
from ..scalapack.scaling import exponent_of, times_power
from .attempt import Problem
from .call import MatrixOptions, ResultOptions, RoutineCall, routine
from .check import Check, Claim, Sums
from .decompositions import ORTHOGONAL, PRODUCT, SQUARES, orthogonal_claim, product_claim
from .eigenpairs import TRACE, Request
from .eigenproblems import find_pairs
from .kernels import pxgemm
from .matrix_parts import hermitian_part, local_elements, panels, times_powers
from .operands import ShapeAndLayout, check_square_matrix
from .place import Place

# Complex matrices of the operand's shape that a routine takes on one process, with the operand and the result.
COPIES = {
    "eig": 6, "eigvals": 4, "schur": 8, "expm": 11, "sqrtm": 10, "logm": 11, "fractional_matrix_power": 11, "funm": 9,
}  # fmt: skip
ASSUMPTIONS = {"gen": "gen", "general": "gen", "her": "her", "hermitian": "her"}
SCHUR_FORMS = {"real": "real", "r": "real", "complex": "complex", "c": "complex"}
ORDERS = ("lhp", "rhp", "iuc", "ouc")
ROOTS = 4  # the largest k for which the power 1 / k is checked
INACCURATE = 1000.0  # multiples of eps, an estimated error of which SciPy warns
Matrix = NDArray[Any]
Function = Callable[[Matrix], Any]


class EigResult(NamedTuple):
    """Result of `eig`.

    Attributes
    ----------
    eigenvalues : ndarray
        In no order, on every rank.
    eigenvectors : DistributedArray
        Column k, of length 1, belongs to value k.
    """

    eigenvalues: NDArray[Any]
    eigenvectors: DistributedArray


# -- on one process, of general matrices


@routine
def eig(call: RoutineCall, a: DistributedArray, **options: Unpack[ResultOptions]) -> EigResult:
    """Eigenvalues and eigenvectors of a square matrix, as `numpy.linalg.eig`. Collective, as `solve`.

    ScaLAPACK has no such routine: the matrix is brought to one process, where SciPy calls ?geev. That is the first process of
    the grid of `a`, or of `layout`; or another one, if only that has room.

    Parameters
    ----------
    a : DistributedArray
        A matrix, in any layout.
    **options
        `overwrite_a`, `check_finite`, `check`, `layout`, `like`: as for all routines of `linalg`; `layout` is of one
        process, and `like` of the eigenvectors, by default that of `a`.

    Returns
    -------
    EigResult
        `eigenvalues` on every rank, and `eigenvectors`. Both are real if all eigenvalues of a real matrix are, else complex.

    Raises
    ------
    numpy.linalg.LinAlgError
        An eigenvalue did not converge.
    ArrayError
        No process has room for the matrix; says how much it takes and how much is free.
    DescriptorError
        `layout` is of several processes.
    """
    problem = _problem_on_one(call, a, options)

    def work(place: Place) -> tuple[Matrix, DistributedArray]:
        from scipy.linalg import eig as eig_of_scipy

        verify, exponent = Check(place, scaled=True, is_complex=True), place.facts.exponent("a")
        scales, y = _balance(place, verify, exponent), verify.vectors(a.shape[0])
        y = np.hstack([y, y / scales[:, None]])
        verify.add_operand("a", left=y, exponent=exponent)
        matrix, before = _whole(place, exponent=exponent), verify.sums()
        traces = _traces(verify, matrix)
        values, vectors = eig_of_scipy(matrix, overwrite_a=True, check_finite=False)
        values = _real_if_all_are(values, place.dtype)
        v = _placed(place, vectors.astype(values.dtype, copy=False))
        if verify.active:
            verify.add("v", v, left=np.hstack([before["a"].left, y]), columns=True)
            balanced = before["balanced"].norm * _column_norms(v, scales)
            verify.require(lambda after: _pair_claims(verify, before["a"], after["v"], values, balanced, traces))
        return times_powers(values, exponent), v

    values, vectors = problem.attempt(work, "SciPy's eig")
    return EigResult(values, problem.to_result(vectors))


@routine
def eigvals(call: RoutineCall, a: DistributedArray, **options: Unpack[MatrixOptions]) -> NDArray[Any]:
    """Eigenvalues of a square matrix, as `numpy.linalg.eigvals`. Collective, as `solve`.

    Computed on one process, as by `eig`, and checked by their sum and the sum of their squares, which is weaker.

    Parameters
    ----------
    a : DistributedArray
        A matrix, in any layout.
    **options
        `overwrite_a`, `check_finite`, `check`, `layout`: as for all routines of `linalg`; `layout` is of one process.

    Returns
    -------
    ndarray
        In no order, on every rank; real if all eigenvalues of a real matrix are, else complex.

    Raises
    ------
    numpy.linalg.LinAlgError
        An eigenvalue did not converge.
    ArrayError, DescriptorError
        As for `eig`.
    """
    problem = _problem_on_one(call, a, options)

    def work(place: Place) -> Matrix:
        from scipy.linalg import eigvals as eigvals_of_scipy

        verify, exponent = Check(place, scaled=True, is_complex=True), place.facts.exponent("a")
        verify.add_operand("a", exponent=exponent)
        matrix = _whole(place, exponent=exponent)
        traces, before = _traces(verify, matrix), verify.sums()
        values = eigvals_of_scipy(matrix, overwrite_a=True, check_finite=False)
        values = _real_if_all_are(values, place.dtype)
        verify.require(lambda _: _value_claims(verify, before["a"], values, traces))
        return times_powers(values, exponent)

    values: Matrix = problem.attempt(work, "SciPy's eigvals")
    return values


class SchurResult(NamedTuple):
    """Result of `schur`.

    Attributes
    ----------
    T, Z : DistributedArray
        A = Z T Z^H.
    """

    T: DistributedArray
    Z: DistributedArray


@routine
def schur(
    call: RoutineCall,
    a: DistributedArray,
    output: str = "real",
    *,
    sort: str | None = None,
    **options: Unpack[ResultOptions],
) -> Any:
    """Schur decomposition A = Z T Z^H, as `scipy.linalg.schur`. Collective, as `solve`.

    Computed on one process, as by `eig`; SciPy calls ?gees.

    Parameters
    ----------
    a : DistributedArray
        A matrix, in any layout.
    output : {"real", "complex"}
        Of a real matrix: whether T is real, with blocks of 2 x 2 for pairs of complex eigenvalues, or triangular. "r" and "c"
        are accepted as well.
    sort : {"lhp", "rhp", "iuc", "ouc"}, optional
        Which eigenvalues come first: those of the left or the right half of the plane, or those inside or outside the unit
        circle.
    **options
        `overwrite_a`, `check_finite`, `check`, `layout`, `like`: as for all routines of `linalg`; `layout` is of one
        process, and `like` of both factors, by default that of `a`.

    Returns
    -------
    SchurResult, or (T, Z, sdim) with `sort`
        `T` and `Z`; `sdim` is how many eigenvalues come first, on every rank.

    Raises
    ------
    numpy.linalg.LinAlgError
        An eigenvalue did not converge, or eigenvalues could not be sorted.
    ValueError
        `output` or `sort` is not one of these.
    ArrayError, DescriptorError
        As for `eig`.
    """

    def check_options() -> None:
        if not isinstance(output, str) or output not in SCHUR_FORMS:
            raise ValueError(f"output = {output!r} must be one of {', '.join(SCHUR_FORMS)}")
        if sort is not None and (not isinstance(sort, str) or sort not in ORDERS):
            raise ValueError(f"sort = {sort!r} must be None, or one of {', '.join(ORDERS)}")

    problem = _problem_on_one(call, a, options, check_options)

    def work(place: Place) -> tuple[DistributedArray, DistributedArray, int]:
        from scipy.linalg import schur as schur_of_scipy

        n, is_complex = a.shape[0], SCHUR_FORMS[output] == "complex"
        verify, exponent = Check(place, scaled=True, is_complex=is_complex), place.facts.exponent("a")
        y = verify.vectors(n)
        verify.add_operand("a", right=y, exponent=exponent)
        matrix, before = _whole(place, exponent=exponent), verify.sums()
        form, basis, *first = schur_of_scipy(matrix, output, overwrite_a=True, sort=sort, check_finite=False)
        t, z = _placed(place, form), _placed(place, basis)
        if verify.active:
            verify.add("z", z, left=y, right=y)
            middle = verify.sums()["z"]
            verify.add("t", t, right=middle.left)
            verify.add("z", z, right=verify.sums()["t"].right, left=middle.right)
            verify.require(
                lambda after: [
                    product_claim(verify, "Z (T (Z^H y)) = A y", after["z"].right, before["a"], (n, n)),
                    orthogonal_claim(verify, "Z^H (Z y) = y", after["z"].left, y),
                    Claim("T is of Schur's form", _outside_schur_form(form), 0.0),
                ]
            )
        assert t.local is not None
        times_power(t.local, exponent)
        return t, z, int(first[0]) if first else 0

    t, z, first = problem.attempt(work, "SciPy's schur")
    form, basis = problem.to_result(t), problem.to_result(z)
    return SchurResult(form, basis) if sort is None else (form, basis, first)


# -- functions of a matrix


@routine
def expm(
    call: RoutineCall,
    a: DistributedArray,
    *,
    assume_a: str = "gen",
    lower: bool = True,
    **options: Unpack[ResultOptions],
) -> DistributedArray:
    """The exponential of a square matrix, as `scipy.linalg.expm`. Collective, as `solve`.

    Of a general matrix SciPy computes it on one process: the first one of the grid of `a`, or of `layout`; or another one, if
    only that has room. There is no cheap check of the result: what is checked is that the matrix has come there as it was. Of a
    Hermitian matrix it is V exp(W) V^H, with the eigenvalues and eigenvectors of `eigh`, on a grid or on one process; these
    are checked, and so is the product.

    Parameters
    ----------
    a : DistributedArray
        A matrix, in any layout.
    assume_a : {"gen", "her"}
        Whether the matrix is a general one, or symmetric or Hermitian; "general" and "hermitian" are accepted as well.
    lower : bool
        With "her": which triangle is read.
    **options
        `overwrite_a`, `check_finite`, `check`, `layout`, `like`: as for all routines of `linalg`; for a general matrix
        `layout` is of one process. By default the result is in the layout of `a`.

    Returns
    -------
    DistributedArray
        Of the dtype that SciPy's result has; with "her" of the precision of `a`. Elements that overflow are infs, with a
        warning; with "her" there is a LinAlgError.

    Raises
    ------
    ValueError
        `assume_a` is not one of these.
    numpy.linalg.LinAlgError
        With "her": an eigenvalue did not converge, or the function of one is not finite.
    ArrayError
        No process has room for a general matrix; says how much it takes and how much is free.
    DescriptorError
        `layout` is of several processes, and the matrix a general one.
    """
    if _is_hermitian(assume_a):
        return _of_hermitian(call, a, lower, np.exp)

    def compute(matrix: Matrix) -> Matrix:
        from scipy.linalg import expm as expm_of_scipy

        return expm_of_scipy(matrix)  # type: ignore[no-any-return]

    return _of_general(call, a, assume_a, options, compute)


@routine
def sqrtm(
    call: RoutineCall,
    a: DistributedArray,
    *,
    assume_a: str = "gen",
    lower: bool = True,
    **options: Unpack[ResultOptions],
) -> DistributedArray:
    """The principal square root of a square matrix, as `scipy.linalg.sqrtm`. Collective, as `solve`.

    Computed as `expm`. The root X of a general matrix is checked by X X = A, unless SciPy warns that it may not be one.

    Parameters
    ----------
    a, assume_a, lower, **options
        As for `expm`.

    Returns
    -------
    DistributedArray
        Complex for a real matrix where SciPy's is: with "her" if any eigenvalue is negative, be it by rounding.

    Raises
    ------
    ValueError, numpy.linalg.LinAlgError, ArrayError, DescriptorError
        As for `expm`.

    Warns
    -----
    scipy.linalg.LinAlgWarning
        As SciPy does, on all ranks: the matrix is singular, and may not have a square root.
    """
    if _is_hermitian(assume_a):
        return _of_hermitian(call, a, lower, np.emath.sqrt)

    def compute(matrix: Matrix) -> Matrix:
        from scipy.linalg import sqrtm as sqrtm_of_scipy

        return _printing_no_warnings(lambda: sqrtm_of_scipy(matrix))

    return _of_general(call, a, assume_a, options, compute, root=2)


@routine
def logm(
    call: RoutineCall,
    a: DistributedArray,
    *,
    assume_a: str = "gen",
    lower: bool = True,
    **options: Unpack[ResultOptions],
) -> DistributedArray:
    """The principal logarithm of a square matrix, as `scipy.linalg.logm`. Collective, as `solve`.

    Computed as `expm`. There is no cheap check of that of a general matrix.

    Parameters
    ----------
    a, assume_a, lower, **options
        As for `expm`.

    Returns
    -------
    DistributedArray
        Complex for a real matrix where SciPy's is: with "her" if any eigenvalue is negative. Of a general matrix in single
        precision SciPy's may be of double precision.

    Raises
    ------
    ValueError, numpy.linalg.LinAlgError, ArrayError, DescriptorError
        As for `expm`; with "her" a matrix with the eigenvalue 0 has no logarithm.

    Warns
    -----
    scipy.linalg.LinAlgWarning
        As SciPy does, on all ranks: the matrix is singular or nearly so, or the result may be inaccurate.
    """
    if _is_hermitian(assume_a):
        return _of_hermitian(call, a, lower, np.emath.log)

    def compute(matrix: Matrix) -> Matrix:
        from scipy.linalg import logm as logm_of_scipy

        moderate, exponent = _moderate(matrix)
        result = _printing_no_warnings(lambda: logm_of_scipy(moderate))
        if exponent:
            result = np.array(result)
            result[np.diag_indices(len(result))] += result.dtype.type(exponent * math.log(2))
        return result

    return _of_general(call, a, assume_a, options, compute)


@routine
def fractional_matrix_power(
    call: RoutineCall,
    a: DistributedArray,
    t: float,
    *,
    assume_a: str = "gen",
    lower: bool = True,
    **options: Unpack[ResultOptions],
) -> DistributedArray:
    """A power of a square matrix, as `scipy.linalg.fractional_matrix_power`. Collective, as `solve`.

    Computed as `expm`. That of a general matrix is checked if t is 1/2, 1/3 or 1/4, and not otherwise.

    Parameters
    ----------
    t : float
        The power.
    a, assume_a, lower, **options
        As for `expm`.

    Returns
    -------
    DistributedArray
        Complex for a real matrix where SciPy's is; with "her" if any eigenvalue is negative and `t` no integer. Of a general
        matrix in single precision SciPy's may be of double precision.

    Raises
    ------
    ValueError
        `assume_a` is not as for `expm`, or `t` no finite real number.
    numpy.linalg.LinAlgError, ArrayError, DescriptorError
        As for `expm`; a singular matrix has no negative powers, of which SciPy's are NaNs if `t` is no integer, and may have no
        root, of which SciPy's is refused.
    """

    def check_options() -> None:
        if not isinstance(t, float | int | np.floating | np.integer) or not abs(t) <= sys.float_info.max:
            raise ValueError(f"t = {shown(t)} must be a finite real number")

    def of_values(values: Matrix) -> Matrix:
        power = float(t)
        return np.asarray(values**power if power.is_integer() else np.emath.power(values, power))

    if _is_hermitian(assume_a):
        return _of_hermitian(call, a, lower, of_values, check_options)

    def compute(matrix: Matrix) -> Matrix:
        from scipy.linalg import fractional_matrix_power as power_of_scipy

        moderate, exponent = _moderate(matrix)
        result: Matrix = power_of_scipy(moderate, t)
        return result * result.dtype.type(np.exp2(exponent * float(t))) if exponent else result

    root = next((k for k in range(2, ROOTS + 1) if np.ndim(t) == 0 and t == 1 / k), 0)
    return _of_general(call, a, assume_a, options, compute, check_options, root=root)


@routine
def funm(
    call: RoutineCall,
    a: DistributedArray,
    func: Function,
    *,
    assume_a: str = "gen",
    lower: bool = True,
    **options: Unpack[ResultOptions],
) -> DistributedArray:
    """A function of a square matrix, as `scipy.linalg.funm`. Collective, as `solve`.

    Computed as `expm`. There is no cheap check of that of a general matrix, for which SciPy's method is inaccurate where
    eigenvalues are close.

    Parameters
    ----------
    func : callable
        The function of numbers: called with an array of eigenvalues, it returns an array of this shape. For a general matrix
        the process that computes calls it. With "her" all ranks call it with all eigenvalues, ascending, and must get equal
        values.
    a, assume_a, lower, **options
        As for `expm`.

    Returns
    -------
    DistributedArray
        With "her" complex for a real matrix if the values of `func` are.

    Raises
    ------
    ValueError
        `assume_a` is not as for `expm`, or `func` no such function.
    RedistributionError
        With "her": `func` returns other values on other ranks.
    numpy.linalg.LinAlgError, ArrayError, DescriptorError
        As for `expm`.

    Warns
    -----
    scipy.linalg.LinAlgWarning
        SciPy estimates that the result may be inaccurate.
    """

    def check_options() -> None:
        if not callable(func):
            raise ValueError(f"func = {shown(func)} must be a function")

    if _is_hermitian(assume_a):
        return _of_hermitian(call, a, lower, func, check_options, is_users=True)

    def compute(matrix: Matrix) -> Matrix:
        from scipy.linalg import funm as funm_of_scipy

        result, error = funm_of_scipy(matrix, func, disp=False)
        if not error < INACCURATE * np.finfo(matrix.dtype).eps:
            warnings.warn(f"funm result may be inaccurate, approximate err = {error}", stacklevel=1)
        return result  # type: ignore[no-any-return]

    return _of_general(call, a, assume_a, options, compute, check_options)


# -- the steps of general matrices


def _problem_on_one(
    call: RoutineCall, a: DistributedArray, options: Any, check_options: Callable[[], None] | None = None
) -> Problem:
    """The problem of a routine that one process does. Collective."""

    def check_arguments(a: DistributedArray) -> ShapeAndLayout:
        if check_options is not None:
            check_options()
        layout = descriptor_of(options.get("layout"))
        if isinstance(layout, Descriptor) and layout.grid.size > 1:
            raise DescriptorError(
                f"layout = {layout!r} is on {layout.grid.size} processes, and {call.name} works on one, as ScaLAPACK has no "
                "such routine: leave it out, or pass a layout of one process"
            )
        return check_square_matrix(a)

    return Problem(call, {"a": a}, check_arguments, uses_library=False, copies_on_one=COPIES[call.name])


def _is_hermitian(assume_a: Any) -> bool:
    """Whether the keyword says so; `_of_general` refuses what it may not be."""
    return isinstance(assume_a, str) and ASSUMPTIONS.get(assume_a) == "her"


def _of_general(
    call: RoutineCall,
    a: DistributedArray,
    assume_a: Any,
    options: Any,
    compute: Function,
    check_options: Callable[[], None] | None = None,
    root: int = 0,
) -> DistributedArray:
    """A function of a general matrix. `root`: the result to this power is the matrix; 0 if it is not checked. Collective."""

    def check_all() -> None:
        if not isinstance(assume_a, str) or assume_a not in ASSUMPTIONS:
            raise ValueError(f"assume_a = {assume_a!r} must be one of {', '.join(ASSUMPTIONS)}")
        if check_options is not None:
            check_options()

    problem = _problem_on_one(call, a, options, check_all)

    def work(place: Place) -> DistributedArray:
        exponent = place.facts.exponent("a") // root * root if root else 0
        verify = Check(place, scaled=bool(root), is_complex=True)
        y = verify.vectors(a.shape[0])
        if root:
            verify.add_operand("a", right=y, exponent=exponent)
        before, matrix = verify.sums(), _whole(place, read_only=True, exponent=exponent)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                result = compute(matrix) if matrix.size else matrix.copy()  # some functions of SciPy take no empty matrices
            except Exception as error:
                if call.name == "funm" or isinstance(error, MemoryError | np.linalg.LinAlgError):
                    raise
                raise np.linalg.LinAlgError(f"{call.name}: SciPy has no result: {error}") from error
        texts = [str(each.message) for each in caught if not issubclass(each.category, DeprecationWarning)]
        if not texts and not np.isfinite(result).all():
            texts = [f"the result of SciPy's {call.name} has infs or NaNs"]
        for text in texts:
            place.call.warn(text)
        x = _placed(place, result)
        if root and verify.active and not texts:
            _require_root(verify, before["a"], x, y, root)
        if exponent:
            assert x.local is not None
            times_power(x.local, exponent // root)
        return x

    return problem.to_result(problem.attempt(work, f"SciPy's {call.name}"))


def _moderate(matrix: Matrix) -> tuple[Matrix, int]:
    """A matrix divided by a power of 2, and its exponent, where SciPy's sums would overflow or vanish."""
    exponent = exponent_of(float(np.abs(matrix).max(initial=0)), matrix.dtype)
    if not exponent:
        return matrix, 0
    moderate = np.array(matrix)
    times_power(moderate, -exponent)
    return moderate, exponent


def _whole(place: Place, read_only: bool = False, exponent: int = 0) -> Matrix:
    """The matrix on this process, divided by 2**exponent, for SciPy, whose loops may not end with NaNs."""
    matrix = place.move("a", read_only=read_only, exponent=exponent)
    place.run(lambda: None)
    assert matrix.local is not None
    if not place.facts.are_finite:
        raise NotFiniteError("the matrix has infs or NaNs")
    local: Matrix = matrix.local
    return local


def _placed(place: Place, matrix: Matrix) -> DistributedArray:
    m, n = matrix.shape
    return place.array(place.layout((m, n)), np.asfortranarray(matrix), matrix.dtype)


def _printing_no_warnings(compute: Callable[[], Matrix]) -> Matrix:
    """The result of a function that warns; SciPy before 1.16 prints it."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        result = compute()
    for line in printed.getvalue().splitlines():
        warnings.warn(line, stacklevel=1)
    return result


def _real_if_all_are(values: Matrix, dtype: np.dtype[Any]) -> Matrix:
    """Eigenvalues, as NumPy has them: real if those of a real matrix are."""
    return np.array(values.real) if dtype.kind != "c" and not values.imag.any() else values


def _traces(check: Check, matrix: Matrix) -> Sequence[Any]:
    """The traces of A and of A A."""
    dtype = np.result_type(check.real, matrix.dtype)
    trace = square = dtype.type(0)
    if not check.active:
        return trace, square
    trace = np.trace(matrix, dtype=dtype)
    for over in panels(*matrix.shape):
        square += (matrix[:, over].astype(dtype) * matrix[over].T).sum()
    return trace, square


def _value_claims(check: Check, a: Sums, values: Matrix, traces: Sequence[Any]) -> list[Claim]:
    n, w = values.size, values.astype(np.result_type(check.real, values.dtype))
    norm = check.scale(a.norm, n)
    return [
        Claim("the sum of w is trace A", abs(w.sum() - traces[0]), check.bound(n, TRACE) * n**0.5 * norm),
        Claim("the sum of w² is trace A A", abs((w * w).sum() - traces[1]), check.bound(n, SQUARES) * norm * norm),
    ]


def _balance(place: Place, check: Check, exponent: int) -> Matrix:
    """The diagonal D with which ?geev balances A, as "balanced" among the sums: rounding is small beside D^-1 A D."""
    scales, matrix = np.ones(place.operands["a"].shape[0], check.real), place.operands["a"].local
    if check.active and matrix is not None:
        from scipy.linalg import matrix_balance

        balanced, (by_rank, order) = (
            matrix_balance(times_powers(matrix, -exponent), separate=True) if matrix.size else (matrix, ((), ()))
        )
        scales[np.asarray(order, int)] = by_rank
        check.add("balanced", _placed(place, balanced))
    return scales


def _column_norms(v: DistributedArray, scales: Matrix) -> Matrix:
    """The length of each column of D^-1 V."""
    assert v.local is not None
    parts = [((np.abs(v.local[:, over]) / scales[:, None]) ** 2).sum(axis=0) for over in panels(*v.local.shape)]
    return np.sqrt(np.concatenate(parts)) if parts else np.zeros(0)


def _pair_claims(
    check: Check, a: Sums, v: Sums, values: Matrix, balanced: Matrix, traces: Sequence[Any]
) -> list[Claim]:
    """The sums "v" are V^H (A^H y) and V^H y, with a row for each pair; half of y are multiplied by D^-1.

    The error of each pair is small beside |A|, or that of the balanced problem beside `balanced`, |D^-1 A D| |D^-1 v|.
    """
    n, count = values.size, a.left.shape[1]
    products, others = v.left[:, :count], values[:, None].conj() * v.left[:, count:]
    plain, scaled = (
        Claim.equal_sides("", products[:, part], others[:, part], 0.0).error / (check.bound(n, PRODUCT) * check.scale(norm, n))
        for part, norm in ((slice(count // 2), a.norm), (slice(count // 2, count), balanced))
    )
    return [
        Claim("V^H (A^H y) = conj(w) * (V^H y)", np.minimum(plain, scaled), 1.0),
        Claim("columns of V have length 1", np.abs(v.norms - 1), check.bound(n, ORTHOGONAL)),
        *_value_claims(check, a, values, traces),
    ]


def _outside_schur_form(form: Matrix) -> int:
    """The number of elements, not zero, where Schur's form has zeros."""
    low = 0 if form.dtype.kind == "c" else 1
    beside = form.diagonal(-1) != 0
    pairs = np.count_nonzero(beside[:-1] & beside[1:]) if low else 0
    below = sum(np.count_nonzero(form[k + low + 1 :, k]) for k in range(len(form)))
    return int(pairs + below)


def _require_root(check: Check, a: Sums, x: DistributedArray, y: Matrix, root: int) -> None:
    """Require X (X y) = A y, or the same of a higher power."""
    product, n, norm = y, x.shape[0], 0.0
    for _ in range(root):
        check.add("x", x, right=product)
        sums = check.sums()["x"]
        product, norm = sums.right, sums.norm
    bound = check.bound(n, PRODUCT) * root * check.scale(norm, n) ** root
    check.require(lambda _: [Claim.equal(f"{'X (' * (root - 1)}X y{')' * (root - 1)} = A y", product, a.right, bound)])


# -- the steps of Hermitian matrices


def _of_hermitian(
    call: RoutineCall,
    a: DistributedArray,
    lower: bool,
    func: Function,
    check_options: Callable[[], None] | None = None,
    is_users: bool = False,
) -> DistributedArray:
    """V f(W) V^H, whose factors are checked, and their product. Collective."""
    request = Request(lower, eigvals_only=False)

    def check_arguments(a: DistributedArray) -> ShapeAndLayout:
        if check_options is not None:
            check_options()
        return request.check(a)

    pairs = Problem(call, {"a": a}, check_arguments, parts=lambda: {"a": hermitian_part(lower)})
    values, vectors = find_pairs(pairs, request)
    numbers = _numbers_of(call, func, values, pairs.dtype, is_users)
    target = pairs.target
    product = Problem(call, {"vectors": vectors}, lambda v: (v.shape, target), has_layout=False)
    product.work_in(pairs.place.work_layout, True)
    is_split = numbers.dtype.kind == "c" != product.dtype.kind  # of a real matrix: two products of real ones

    def work(place: Place) -> DistributedArray:
        if not is_split:
            return _product(place, numbers)
        real, imaginary = _product(place, numbers.real), _product(place, numbers.imag)
        local = None
        with place.collect_errors():
            if real.local is not None and imaginary.local is not None:
                local = np.array(real.local + numbers.dtype.type(1j) * imaginary.local, order="F")
        place.run(lambda: None)
        return place.array(real.desc, local, numbers.dtype)

    return product.to_result(product.attempt(work, "gemm"), target)


def _numbers_of(call: RoutineCall, func: Function, values: Matrix, dtype: np.dtype[Any], is_users: bool) -> Matrix:
    """The function of eigenvalues, in the precision of a dtype. Collective."""
    numbers = np.zeros(0, values.dtype)

    def compute() -> int:
        nonlocal numbers
        if values.size:
            numbers = np.asarray(func(values.copy()))
        if numbers.shape != values.shape or numbers.dtype.kind not in "biufc":
            raise ValueError(
                f"func returns {shown(numbers)} for eigenvalues of shape {values.shape}: it must return an array of as many "
                "numbers"
            )
        kind = np.result_type(dtype, np.complex64) if numbers.dtype.kind == "c" else values.dtype
        numbers = numbers.astype(kind)
        return digest((numbers.dtype.char, numbers.tobytes()))

    def equal_on_all(digests: list[int]) -> Matrix | None:
        other = next((rank for rank, each in enumerate(digests) if each != digests[0]), None)
        if other is None:
            return None
        raise RedistributionError(
            f"func returns other values on rank {other} than on rank 0, for the same eigenvalues: it must depend on these alone"
        )

    if is_users:
        own = 0
        with call.collect_errors(), call.group.at_work(announces=True):  # it may take long
            own = compute()
        call.run(lambda: own, equal_on_all)
    else:
        numbers = call.run(lambda: (compute(), numbers)[1])  # of the first rank, for all
    is_finite = np.isfinite(numbers)
    if not is_finite.all():
        first = int(np.argmin(is_finite))
        raise np.linalg.LinAlgError(
            f"{call.name}: the function of the eigenvalue {values[first]:.6g} is {numbers[first]}, which no result can "
            "have"
        )
    return numbers


def _product(place: Place, numbers: Matrix) -> DistributedArray:
    """V F V^H with the numbers F. Require X y = V (F (V^H y)). Collective."""
    verify, (n, _) = Check(place), place.operands["vectors"].shape
    y, result = verify.vectors(n), place.zeros((n, n))
    verify.add_operand("vectors", left=y)
    vectors, scaled = place.move("vectors", read_only=True), place.move("vectors")

    def multiply() -> None:
        _, columns, local = local_elements(scaled)
        local *= numbers[columns]
        pxgemm(scaled, vectors, result, trans_b="C")

    _, before = verify.run(multiply)
    if verify.active:
        v, exponent = before["vectors"], int(np.frexp(np.abs(numbers).max(initial=0))[1])
        moderate = times_powers(numbers.astype(np.result_type(numbers, np.float64)), -exponent)
        verify.add_operand("vectors", right=moderate[:, None] * v.left)
        verify.add("x", result, right=y, exponent=exponent)

        def make_claims(sums: dict[str, Sums]) -> list[Claim]:
            size = np.linalg.norm(moderate) + np.ldexp(verify.scale(0, n), -exponent)
            bound = verify.bound(n, PRODUCT) * size * max(1, v.norm)
            return [Claim.equal("X y = V (f(w) * (V^H y))", sums["x"].right, sums["vectors"].right, bound)]

        verify.require(make_claims)
    return result
