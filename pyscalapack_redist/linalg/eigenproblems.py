"""Eigenvalues and eigenvectors of symmetric and Hermitian matrices, and of pairs of them."""

from __future__ import annotations

import functools
from typing import Any, Literal, NamedTuple, Unpack, overload

import numpy as np
from numpy.typing import NDArray

from ..distributed_array import DistributedArray
from ..errors import ArrayError, LibraryError, shown
from ..layout.letters import TRIANGLES, letter_of
from . import eigenpairs, elpa
from .attempt import Problem
from .call import MatrixOptions, PairOptions, RoutineCall, routine
from .eigenpairs import ALL_PAIRS, SOME_PAIRS, VALUES_ALONE, Pairs, Request, Way
from .matrix_parts import hermitian_part
from .operands import ShapeAndLayout, check_square_matrix, shaped_like
from .place import Place
from .solver_rules import check_layout, find_broken_rule
from .systems import unpack_pair
from .tridiagonal import FEW

PART_ON_ONE = 192  # order from which one process takes less time for some vectors than for all


class EighResult(NamedTuple):
    """Result of `eigh`.

    Attributes
    ----------
    eigenvalues : ndarray
        Ascending, on every rank.
    eigenvectors : DistributedArray
        Column k belongs to value k.
    """

    eigenvalues: NDArray[np.floating[Any]]
    eigenvectors: DistributedArray


class EighOptions(PairOptions, total=False):
    """Keyword arguments of `eigh`, for its overloads."""

    lower: bool
    subset_by_index: tuple[int, int] | None
    subset_by_value: tuple[float, float] | None
    type: int
    driver: str


@overload
def eigh(
    a: DistributedArray,
    b: DistributedArray | tuple[DistributedArray, bool] | None = ...,
    *,
    eigvals_only: Literal[False] = ...,
    **options: Unpack[EighOptions],
) -> EighResult: ...


@overload
def eigh(
    a: DistributedArray,
    b: DistributedArray | tuple[DistributedArray, bool] | None = ...,
    *,
    eigvals_only: Literal[True],
    **options: Unpack[EighOptions],
) -> NDArray[np.floating[Any]]: ...


@routine
def eigh(
    call: RoutineCall,
    a: DistributedArray,
    b: DistributedArray | tuple[DistributedArray, bool] | None = None,
    *,
    lower: bool = True,
    eigvals_only: bool = False,
    subset_by_index: tuple[int, int] | None = None,
    subset_by_value: tuple[float, float] | None = None,
    type: int = 1,
    driver: str = "auto",
    **options: Unpack[PairOptions],
) -> Any:
    """Eigenvalues and eigenvectors of a symmetric or Hermitian matrix, as `scipy.linalg.eigh`. Collective, as `solve`.

    All vectors are computed by p?syevd or p?heevd. Of a part of them, p?sytrd or p?hetrd makes the problem a tridiagonal one;
    LAPACK's dstemr on the first rank computes the asked vectors of that, or p?stedc all if they are many or one rank has no
    room for them; and p?ormtr or p?unmtr brings the asked ones back. With `b` the problem is a generalized one: B is factored
    by p?potrf, p?sygst or p?hegst makes the problem a standard one, and p?trsm or p?trmm brings the vectors back.

    Parameters
    ----------
    a : DistributedArray
        A matrix, in any layout, or a stack of them, without `b` and subsets.
    b : DistributedArray, or (DistributedArray, bool), optional
        A symmetric or Hermitian, positive definite matrix of the shape of `a`; or what `cho_factor` made of it, as where many
        problems have one `b`.
    lower : bool
        Which triangle of both is read.
    eigvals_only : bool
        Whether only the eigenvalues are returned, which p?syev or p?heev computes, all of them.
    subset_by_index : (int, int), optional
        First and last of the eigenvalues that are returned, ascending and counted from 0.
    subset_by_value : (float, float), optional
        Eigenvalues above the first number, and up to the second one, are returned; there may be none. Infinities are
        possible.
    type : {1, 2, 3}
        With `b`: A x = w B x, A B x = w x, or B A x = w x.
    driver : {"auto", "scalapack", "elpa"}
        The library that computes the vectors of the standard problem. "auto" takes ELPA where all ranks find one, for float64
        and complex128 from order 1024 on, unless few vectors are asked for that are not the lowest, or a range of values.
        ELPA computes the lowest vectors, up to the last one that is asked for; with `subset_by_value` all. If its result
        is refused, ScaLAPACK computes another. Eigenvalues alone are always ScaLAPACK's.
    **options
        `overwrite_a`, `overwrite_b`, `check_finite`, `check`, `layout`, `like`: as for all routines of `linalg`;
        `like` is of the eigenvectors, by default the grid of `a`, and its blocks if each process then has a part.
        With `subset_by_value` it is a layout of the shape of `a`, whose grid is taken, and its blocks as far as each
        process then has a part. Values without vectors are checked by their sum, the sum of their squares, their
        order and their being finite, which is weaker.

    Returns
    -------
    EighResult, or ndarray with `eigvals_only`
        `eigenvalues` on every rank, and `eigenvectors`: orthonormal; with `b`, X^H B X is the identity for the types 1
        and 2, and X^H inv(B) X for 3.

    Raises
    ------
    numpy.linalg.LinAlgError
        An eigenvalue did not converge, or `b` is not positive definite.
    ValueError
        `type`, `driver`, `subset_by_index` or `subset_by_value` is not as above, or both subsets are asked for.
    LibraryError
        With `driver="elpa"`: a rank finds no ELPA for the MPI in use, or another one than other ranks.
    ArrayError, DescriptorError
        With `driver="elpa"`: the dtype is of single precision, or `layout` breaks a rule of ELPA.
    """

    matrix, factor_lower = unpack_pair("b", b) if isinstance(b, tuple) else (b, None)
    is_factor, is_lower = isinstance(b, tuple), None
    if is_factor:
        is_lower = isinstance(factor_lower, bool | np.bool_) and bool(factor_lower)
    request = Request(lower, eigvals_only, subset_by_index, subset_by_value, type, driver, is_lower)
    operands: dict[str, Any] = {"a": a}
    parts = {"a": hermitian_part(lower)}
    if b is not None:
        operands["b"] = matrix
        parts["b"] = hermitian_part(lower) if is_lower is None else "L" if is_lower else "U"

    def check_arguments(a: DistributedArray, b: DistributedArray | None = None) -> ShapeAndLayout:
        if is_factor and not isinstance(factor_lower, bool | np.bool_):
            raise ArrayError(
                f"b is a pair of an array and {shown(factor_lower)}: it must be a matrix, or what cho_factor returned, a "
                "factor and whether that is lower"
            )
        return request.check(a, b)

    problem = Problem(call, operands, check_arguments, parts=lambda: parts, factor_lower=request.factor_lower)
    values, vectors = find_pairs(problem, request)
    if vectors is None:
        return values
    return EighResult(values, problem.to_result(vectors, shaped_like(problem.target, vectors.shape)))


@routine
def eigvalsh(
    call: RoutineCall, a: DistributedArray, UPLO: str = "L", **options: Unpack[MatrixOptions]
) -> NDArray[np.floating[Any]]:
    """Eigenvalues of a symmetric or Hermitian matrix, as `numpy.linalg.eigvalsh`. Collective, as `solve`.

    Computed and checked as by `eigh` with `eigvals_only`.

    Parameters
    ----------
    a : DistributedArray
        A matrix, in any layout, or a stack of them.
    UPLO : {"L", "U"}
        Which triangle is read.
    **options
        `overwrite_a`, `check_finite`, `check`, `layout`: as for all routines of `linalg`.

    Returns
    -------
    ndarray
        Ascending, on every rank.

    Raises
    ------
    numpy.linalg.LinAlgError
        An eigenvalue did not converge.
    ValueError
        `UPLO` is no such letter.
    """

    def check_arguments(a: DistributedArray) -> ShapeAndLayout:
        letter_of("UPLO", UPLO, TRIANGLES)
        return check_square_matrix(a)

    problem = Problem(call, {"a": a}, check_arguments, parts=lambda: {"a": hermitian_part(UPLO.upper() == "L")})
    return find_pairs(problem, Request(lower=UPLO.upper() == "L", eigvals_only=True))[0]


def find_pairs(problem: Problem, request: Request) -> Pairs:
    """The asked pairs. If the result of the chosen way is refused, all pairs are computed by p?syevd. Collective."""
    solve = eigenpairs.pairs_of_two if "b" in problem.operands.arrays else eigenpairs.pairs_of_one
    first, routine_names, library = _choose(problem, request)
    second = VALUES_ALONE if request.eigvals_only else ALL_PAIRS

    def work(place: Place) -> Pairs:
        return solve(place, request, second if place.is_refused else first)

    return problem.attempt(work, routine_names, library=library)


def _choose(problem: Problem, request: Request) -> tuple[Way, str, str]:
    """The way to solve the standard problem; its routines and another library, as for `Problem.attempt`. Collective."""
    n, is_complex = problem.place.work_layout.shape[0], problem.dtype.kind == "c"
    if request.eigvals_only:
        return VALUES_ALONE, "heev" if is_complex else "syev", ""
    way = ALL_PAIRS if request.subset_by_value is None and request.indices(n) == (0, n) else SOME_PAIRS
    lowest = _lowest_by_elpa(problem, request)
    if lowest:
        kernel = functools.partial(eigenpairs.pairs_by_elpa, count=lowest)
        return way._replace(kernel=kernel), f"elpa_eigenvectors_{elpa.NAMES[problem.dtype]}", str(elpa.load())
    if way is ALL_PAIRS or (problem.place.is_alone and n < PART_ON_ONE):
        return ALL_PAIRS, "heevd" if is_complex else "syevd", ""
    return SOME_PAIRS, "hetrd and p?unmtr" if is_complex else "sytrd and p?ormtr", ""


def _lowest_by_elpa(problem: Problem, request: Request) -> int:
    """How many of the lowest eigenvectors ELPA is to compute, 0 if ScaLAPACK is to compute the asked ones. Collective."""
    desc = problem.place.work_layout
    n = desc.shape[0]
    if problem.place.is_alone or request.driver == "scalapack" or n == 0:
        return 0
    first, last = request.indices(n)
    if request.driver == "auto":
        few_above = last - first <= FEW * n and last > 2 * (last - first)
        is_slower = n < elpa.LEAST_ORDER or few_above or request.subset_by_value is not None
        if is_slower or problem.dtype not in elpa.NAMES or find_broken_rule("elpa", desc, "eigh") is not None:
            return 0
        return 0 if not problem.operands.are_finite or elpa.find_obstacle(problem.call) else last
    if problem.dtype not in elpa.NAMES:
        raise ArrayError(
            f"a has dtype {problem.dtype}, and ELPA is used in double precision only: take driver='scalapack', or "
            "a.astype(numpy.float64)"
        )
    check_layout(desc, "elpa", "eigh")
    obstacle = elpa.find_obstacle(problem.call)
    if obstacle:
        raise LibraryError(f"driver = 'elpa': {obstacle}")
    return last
