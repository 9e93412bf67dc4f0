"""Eigenvalues and eigenvectors of symmetric and Hermitian matrices, and of pairs of them."""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple, Unpack, overload

import numpy as np
from numpy.typing import NDArray

from ..distributed_array import DistributedArray
from ..errors import ArrayError, LibraryError
from ..layout.axis import whole_number
from ..layout.letters import TRIANGLES, letter_of
from ..scalapack.calls import NotFiniteError
from ..scalapack.matrix_operands import is_finite
from . import elpa
from .attempt import Problem
from .call import MatrixOptions, PairOptions, RoutineCall, routine
from .check import Check, Claim, Sums
from .decompositions import ORTHOGONAL, PRODUCT, SQUARES, order_claim, orthogonal_claim, product_claim, scale_by_power
from .kernels import pxpotrf, pxsyev, pxsyevd, pxsygst, pxtrmm, pxtrsm
from .matrix_parts import hermitian_part
from .operands import ShapeAndLayout, check_square_matrix, shaped_like
from .place import Place
from .solver_rules import check_layout, find_broken_rule
from .systems import require_cholesky
from .tridiagonal import FEW, Select, Spectrum, TridiagonalForm

DRIVERS = ("auto", "scalapack", "elpa")
PART_ON_ONE = 192  # order from which one process takes less time for some vectors than for all
TRACE, PAIR = 8.0, 16.0  # as in `systems`; the last is for pairs of matrices


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
    b: DistributedArray | None = ...,
    *,
    eigvals_only: Literal[False] = ...,
    **options: Unpack[EighOptions],
) -> EighResult: ...


@overload
def eigh(
    a: DistributedArray,
    b: DistributedArray | None = ...,
    *,
    eigvals_only: Literal[True],
    **options: Unpack[EighOptions],
) -> NDArray[np.floating[Any]]: ...


@routine
def eigh(
    call: RoutineCall,
    a: DistributedArray,
    b: DistributedArray | None = None,
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
        A matrix, in any layout.
    b : DistributedArray, optional
        A symmetric or Hermitian, positive definite matrix of the shape of `a`.
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

    def check_arguments(a: DistributedArray, b: DistributedArray | None = None) -> ShapeAndLayout:
        check_square_matrix(a)
        if b is not None and b.shape != a.shape:
            raise ArrayError(f"b has shape {b.shape}: it must have {a.shape}, that of a")
        if type not in (1, 2, 3):
            raise ValueError(f"type = {type!r} must be 1, 2 or 3")
        if driver not in DRIVERS:
            raise ValueError(f"driver = {driver!r} must be one of {', '.join(DRIVERS)}")
        if subset_by_value is not None:
            if subset_by_index is not None:
                raise ValueError(
                    f"subset_by_index = {subset_by_index!r} and subset_by_value = {subset_by_value!r}: give one of them"
                )
            _read_interval(subset_by_value)
            return a.shape, shaped_like(a.desc, a.shape)
        first, last = _read_subset(subset_by_index, a.shape[0])
        return a.shape, shaped_like(a.desc, (a.shape[0], last - first))

    operands = {"a": a} if b is None else {"a": a, "b": b}
    problem = Problem(call, operands, check_arguments, parts=lambda: dict.fromkeys(operands, hermitian_part(lower)))
    type = int(type)
    triangle = "L" if lower else "U"
    exponent = problem.operands.exponent("a") if b is None else 0
    scale = 1.0  # of the eigenvalues of a generalized problem

    def scaled(values: NDArray[Any]) -> NDArray[Any]:
        """Eigenvalues of the operands, from those of the matrix that is decomposed."""
        return scale_by_power(scale * values.astype(np.zeros(0, problem.dtype).real.dtype), exponent)

    def select(values: NDArray[Any]) -> tuple[int, int]:
        if subset_by_value is None:
            return _read_subset(subset_by_index, values.size)
        first, last = np.searchsorted(scaled(values), _read_interval(subset_by_value), "right").tolist()
        return first, last

    if b is None and eigvals_only:
        values = eigenvalues(problem, triangle)
        exponent = 0  # they are those of the operand
        return values[slice(*select(values))]
    some = subset_by_value is not None or _read_subset(subset_by_index, a.shape[0]) != (0, a.shape[0])
    lowest = 0  # vectors that ELPA is to compute
    if not eigvals_only and not problem.place.is_alone:
        lowest = _elpa_vectors(problem, driver, subset_by_index if subset_by_value is None else "any")
    in_part = some and not eigvals_only and not lowest and not (problem.place.is_alone and a.shape[0] < PART_ON_ONE)
    by_elpa = lowest > 0

    def work(place: Place) -> tuple[NDArray[Any], DistributedArray, tuple[int, int]]:
        nonlocal scale
        by_part, count = (False, 0) if place.is_refused else (in_part, lowest)  # a second attempt is by another way
        verify = Check(place, scaled=b is None)
        y = verify.vectors(a.shape[0])
        verify.add_operand("a", right=y, exponent=exponent)
        if b is not None:
            verify.add_operand("b", right=y)
        before = {} if b is None else verify.sums()
        matrix = place.move("a", exponent=exponent)
        factor = None if b is None else place.move("b")
        if factor is not None:
            by_factor = by_part or eigvals_only or (some and count > 0)
            scale = _reduce(place, verify, matrix, factor, triangle, type, by_factor, before, y)
        if eigvals_only:
            values = _solve_for_values(verify, matrix, triangle, before)
            return values, matrix, select(values)
        if by_part:
            spectrum, vectors = _solve_for_part(place, verify, matrix, triangle, select, before, y)
        elif count and some:
            spectrum, vectors = _lowest_by_elpa(place, verify, matrix, triangle, select, before, y, count)
        if by_part or (count and some):
            if factor is not None:
                _transform_part(place, verify, vectors, factor, triangle, type)
            return spectrum.values, vectors, (spectrum.first, spectrum.last)
        vectors = matrix
        if count:
            elpa.fill(place, matrix, triangle)

        def solved() -> NDArray[Any] | None:
            nonlocal vectors
            pairs = elpa.eigenpairs(matrix, count) if count else pxsyevd(matrix, triangle)
            vectors = DistributedArray._from_result(matrix.desc, pairs.vectors, place.dtype)
            if factor is not None:
                _transform_back(vectors, factor, triangle, type)
            return pairs.values

        values, sums = verify.run(solved)
        before |= sums
        if factor is None:
            _require_pairs(verify, values, vectors, before.get("a"), y)
        else:
            _require_generalized(verify, scale * values, vectors, before, y, type)
        first, last = select(values)
        return values, vectors[:, first:last] if some else vectors, (first, last)

    library = ""
    if by_elpa:
        routine_names, library = f"elpa_eigenvectors_{elpa.NAMES[problem.dtype]}", str(elpa.load())
    elif in_part:
        routine_names = "hetrd and p?unmtr" if problem.dtype.kind == "c" else "sytrd and p?ormtr"
    else:
        routine_names = f"{'he' if problem.dtype.kind == 'c' else 'sy'}{'ev' if eigvals_only else 'evd'}"
    values, vectors, (first, last) = problem.attempt(work, routine_names, library=library)
    values = scaled(values)[first:last]
    if eigvals_only:
        return values
    target = problem.target if subset_by_value is None else shaped_like(problem.target, (a.shape[0], last - first))
    return EighResult(values, problem.to_result(vectors, target))


@routine
def eigvalsh(
    call: RoutineCall, a: DistributedArray, UPLO: str = "L", **options: Unpack[MatrixOptions]
) -> NDArray[np.floating[Any]]:
    """Eigenvalues of a symmetric or Hermitian matrix, as `numpy.linalg.eigvalsh`. Collective, as `solve`.

    Computed and checked as by `eigh` with `eigvals_only`.

    Parameters
    ----------
    a : DistributedArray
        A matrix, in any layout.
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
    return eigenvalues(problem, UPLO.upper())


def eigenvalues(problem: Problem, triangle: str) -> NDArray[Any]:
    """Eigenvalues of the operand a, without vectors. Collective."""
    exponent = problem.operands.exponent("a")

    def work(place: Place) -> NDArray[Any]:
        verify = Check(place, scaled=True)
        verify.add_operand("a", exponent=exponent)
        matrix = place.move("a", exponent=exponent)
        return _solve_for_values(verify, matrix, triangle, {})

    routine_name = "heev" if problem.dtype.kind == "c" else "syev"
    return scale_by_power(problem.attempt(work, routine_name), exponent)


def _solve_for_values(check: Check, matrix: DistributedArray, triangle: str, before: dict[str, Sums]) -> NDArray[Any]:
    """All eigenvalues; the matrix is overwritten. Its sums are in `before` or have been added, as "a". Collective."""
    values: NDArray[Any]
    values, sums = check.run(lambda: pxsyev(matrix, triangle))
    _require_values(check, values, (before | sums).get("a"))
    return values


def _require_pairs(
    check: Check, values: NDArray[Any], vectors: DistributedArray, a: Sums | None, y: NDArray[Any]
) -> None:
    """Require V (w * (V^H y)) = A y, and that V is orthogonal. Collective."""
    if a is None:
        return
    check.add("v", vectors, left=y, right=y)
    first = check.sums()["v"]
    check.add("v", vectors, right=values[:, None] * first.left, left=first.right)
    check.require(
        lambda sums: [
            product_claim(check, "V (w * (V^H y)) = A y", sums["v"].right, a, vectors.shape),
            orthogonal_claim(check, "V^H (V y) = y", sums["v"].left, y),
            order_claim("the eigenvalues ascend", values),
        ]
    )


def _require_values(check: Check, values: NDArray[Any], a: Sums | None) -> None:
    """Require that the sum of w is the trace of A, and that of w² the square of its Frobenius norm. Collective."""
    if a is not None:
        check.require(lambda _: _value_claims(check, values, a))


def _value_claims(check: Check, values: NDArray[Any], a: Sums) -> list[Claim]:
    """Claims on all eigenvalues of a matrix."""
    w, size = values.astype(check.real), values.size
    total, square = w.sum(), (w**2).sum()
    return [
        Claim("the sum of w is trace A", np.abs(total - a.trace), check.bound(size, TRACE) * size**0.5 * a.norm),
        Claim("the sum of w² is norm(A)²", np.abs(square - a.norm**2), check.bound(size, SQUARES) * a.norm**2),
        order_claim("the eigenvalues ascend", values),
    ]


def _solve_for_part(
    place: Place,
    check: Check,
    matrix: DistributedArray,
    triangle: str,
    select: Select,
    before: dict[str, Sums],
    y: NDArray[Any],
) -> tuple[Spectrum, DistributedArray]:
    """All eigenvalues, and the asked vectors; the matrix is overwritten. Its sums are as for `_solve_for_values`. Collective.

    The check requires V^H (A y) = w * (V^H y) and V^H (V z) = z, and of all w the trace and the norm of A: so these are the
    vectors of the asked w, and w has no other values between them.
    """
    form = TridiagonalForm(place, matrix)
    reduced, sums = check.run(lambda: form.reduce(triangle), form.gathered)
    spectrum = form.solve(reduced, select)
    vectors = form.vectors(spectrum)
    _require_part(check, spectrum, vectors, (before | sums).get("a"), y)
    return spectrum, vectors


def _lowest_by_elpa(
    place: Place,
    check: Check,
    matrix: DistributedArray,
    triangle: str,
    select: Select,
    before: dict[str, Sums],
    y: NDArray[Any],
    count: int,
) -> tuple[Spectrum, DistributedArray]:
    """As `_solve_for_part`, from the lowest `count` vectors, which ELPA computes. Collective."""
    elpa.fill(place, matrix, triangle)
    whole = matrix

    def solved() -> NDArray[Any] | None:
        nonlocal whole
        pairs = elpa.eigenpairs(matrix, count)
        whole = DistributedArray._from_result(matrix.desc, pairs.vectors, place.dtype)
        return pairs.values

    values, sums = check.run(solved)
    spectrum = Spectrum(values, *select(values))
    if spectrum.first == spectrum.last:
        vectors = place.zeros((values.size, 0))
    else:
        vectors = place.columns_of("vectors", whole, spectrum.first, spectrum.last)
    _require_part(check, spectrum, vectors, (before | sums).get("a"), y)
    return spectrum, vectors


def _require_part(check: Check, spectrum: Spectrum, vectors: DistributedArray, a: Sums | None, y: NDArray[Any]) -> None:
    """Require V^H (A y) = w * (V^H y) and V^H (V z) = z, and the trace and the norm of A of all w. Collective."""
    if a is None:
        return
    w, z, count = spectrum.values[spectrum.first : spectrum.last, None], check.vectors(vectors.shape[1], 1), y.shape[1]
    check.add("v", vectors, right=z, left=np.hstack([a.right, y]))
    first = check.sums()["v"]
    check.add("v", vectors, left=first.right)
    n = vectors.shape[0]
    belong = check.bound(n, PRODUCT) * check.scale(a.norm, n)
    orthonormal = check.bound(n, ORTHOGONAL) * float(z.shape[0]) ** 0.5
    check.require(
        lambda sums: [
            Claim.equal("V^H (A y) = w * (V^H y)", first.left[:, :count], w * first.left[:, count:], belong),
            Claim.equal("V^H (V z) = z", sums["v"].left, z, orthonormal),
            *_value_claims(check, spectrum.values, a),
        ]
    )


def _transform_part(
    place: Place, check: Check, vectors: DistributedArray, factor: DistributedArray, uplo: str, type: int
) -> None:
    """Transform vectors Y of the standard problem back to X, in place. Collective.

    The check requires F^H (X z) = Y z, or X z = F (Y z) for type 3, with the factor F of B; Y and F have been checked.
    """
    z, lower = check.vectors(vectors.shape[1], 1), uplo == "L"
    check.add("y", vectors, right=z, norm=False)
    _, sums = check.run(lambda: _transform_back(vectors, factor, uplo, type))
    if not check.active:
        return
    y = sums["y"].right
    check.add("x", vectors, right=z)
    if type == 3:
        check.add_factor("f", factor, lower, y, norm=True)
    x = check.sums()
    if type != 3:
        check.add_factor("f", factor, lower, x["x"].right, adjoint=True, norm=True)
        x |= check.sums()
    text, product, expected = (
        ("X z = F (Y z)", x["x"].right, x["f"].product) if type == 3 else ("F^H (X z) = Y z", x["f"].product, y)
    )
    size, f = factor.shape[0], x["f"].norm
    bound = check.bound(size, PAIR) * f * (float(z.shape[0]) ** 0.5 if type == 3 else x["x"].norm)
    check.require(lambda _: [Claim.equal(text, product, expected, bound)])


def _require_generalized(
    check: Check,
    values: NDArray[Any],
    vectors: DistributedArray,
    before: dict[str, Sums],
    y: NDArray[Any],
    type: int,
) -> None:
    """Require V^H (A y) = w * (V^H (B y)) and V (V^H (B y)) = y, or the equations of the other types. Collective."""
    if not check.active:
        return
    z_a, z_b, w, count = before["a"].product, before["b"].product, values[:, None], y.shape[1]
    check.add("v", vectors, left=y if type == 3 else np.hstack([z_a if type == 1 else y, z_b]))
    first = check.sums()["v"].product
    products, other = first[:, :count], first[:, count:]
    if type == 1:
        check.add("v", vectors, right=other)
    else:
        check.add("v", vectors, right=np.hstack([w * products, other] if type == 2 else [products, w * products]))

    def make_claims(sums: dict[str, Sums]) -> list[Claim]:
        v, a, b = sums["v"], before["a"].norm, before["b"].norm
        product, bound = v.product, check.bound(y.shape[0], PAIR)
        inverse = bound * v.norm**2 * b * float(y.shape[0]) ** 0.5
        if type == 1:
            pairs = bound * v.norm * (a + np.abs(values).max(initial=0) * b) * v.norm * b**0.5
            equations = [
                Claim.equal("V^H (A y) = w * (V^H (B y))", products, w * other, pairs),
                Claim.equal("V (V^H (B y)) = y", product, y, inverse),
            ]
        elif type == 2:
            equations = [
                Claim.equal("V (w * (V^H y)) = A y", product[:, :count], z_a, bound * v.norm**2 * b * a),
                Claim.equal("V (V^H (B y)) = y", product[:, count:], y, inverse),
            ]
        else:
            bab, scale = before["bab"].product, bound * v.norm**2
            equations = [
                Claim.equal("V (V^H y) = B y", product[:, :count], z_b, scale),
                Claim.equal("V (w * (V^H y)) = B (A (B y))", product[:, count:], bab, scale * a * b),
            ]
        return [*equations, order_claim("the eigenvalues ascend", values)]

    check.require(make_claims)


def _read_subset(subset: Any, n: int) -> tuple[int, int]:
    """The range of eigenvalues to return: the first, and the end."""
    if subset is None:
        return 0, n
    try:
        first, last = (whole_number("subset_by_index", index, 0) for index in subset)
    except (TypeError, ValueError) as caught:
        raise ValueError(f"subset_by_index = {subset!r} must be two integers, the first and the last index") from caught
    if not first <= last < n:
        raise ValueError(f"subset_by_index = {subset!r} must be (first, last) with 0 <= first <= last < {n}")
    return first, last + 1


def _elpa_vectors(problem: Problem, driver: str, subset: Any) -> int:
    """How many of the lowest eigenvectors ELPA is to compute, 0 if ScaLAPACK is to; "any" for a range of values. Collective."""
    desc = problem.place.work_layout
    n = desc.shape[0]
    first, last = (0, n) if isinstance(subset, str) else _read_subset(subset, n)
    if driver == "scalapack" or n == 0:
        return 0
    if driver == "auto":
        few_above = last - first <= FEW * n and last > 2 * (last - first)
        if n < elpa.LEAST_ORDER or problem.dtype not in elpa.NAMES or few_above or isinstance(subset, str):
            return 0
        if find_broken_rule("elpa", desc, "eigh") is not None or not all(
            map(math.isfinite, problem.operands.magnitudes.values())
        ):
            return 0
        return 0 if elpa.find_obstacle(problem.call) else last
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


def _read_interval(interval: Any) -> tuple[float, float]:
    """The values between which eigenvalues are to be returned."""
    try:
        low, high = map(float, interval)
    except (TypeError, ValueError) as caught:
        raise ValueError(
            f"subset_by_value = {interval!r} must be two numbers, of which the first is excluded"
        ) from caught
    if not low < high:
        raise ValueError(f"subset_by_value = {interval!r} must be (low, high) with low < high, for low < w <= high")
    return low, high


def _reduce(
    place: Place,
    check: Check,
    matrix: DistributedArray,
    factor: DistributedArray,
    uplo: str,
    type: int,
    by_factor: bool,
    before: dict[str, Sums],
    y: NDArray[Any],
) -> float:
    """Reduce a generalized problem to a standard one; returns the factor of its eigenvalues. Collective.

    Sums for later checks go into `before`. Without all vectors to check (`by_factor`), the factor F of B and the matrix C of
    the standard problem are checked here: F (C (F^H y)) = A y for type 1, C y = F^H (A (F y)) for the others; the sums "a" are
    then those of C.
    """
    lower = uplo == "L"
    if check.active and type == 3 and not by_factor:
        check.add_operand("a", right=before["b"].product, name="ab")
        check.add_operand("b", right=check.sums()["ab"].product, name="bab")
        before |= check.sums()

    def factored() -> None:
        try:
            pxpotrf(factor, uplo)
        except np.linalg.LinAlgError as caught:
            raise np.linalg.LinAlgError(f"b: {caught}") from caught

    def reduced() -> float:
        factor_of_values = pxsygst(matrix, factor, uplo, problem=type)
        if not is_finite(matrix.desc, matrix.local, uplo):
            raise NotFiniteError(
                "the matrix of the standard problem has infs or NaNs, as where numbers overflow or where a or b has some"
            )
        return factor_of_values

    place.run(factored)
    if not by_factor or not check.active:
        scale: float = place.run(reduced, max)
        return scale
    require_cholesky(check, factor, lower, before["b"], y)
    check.add_factor("x", factor, lower, y, adjoint=type == 1, norm=True)
    x = check.sums()["x"]
    if type != 1:
        check.add_operand("a", right=x.product)
        check.add_factor("last", factor, lower, check.sums()["a"].product, adjoint=True)
        expected, x = check.sums()["last"].product, Sums(y, norm=x.norm)
    scale = place.run(reduced, max)
    check.add("a", matrix, right=np.hstack([x.product, y]), part=f"H{uplo}")
    standard, count = check.sums()["a"], y.shape[1]
    product = standard.right[:, :count]
    bound = check.bound(y.shape[0], PAIR) * x.norm**2
    if type == 1:
        check.add_factor("last", factor, lower, product)
        right, scale_of_c = before["a"].product, bound * standard.norm
        check.require(lambda sums: [Claim.equal("F (C (F^H y)) = A y", sums["last"].product, right, scale_of_c)])
    else:
        claim = Claim.equal("C y = F^H (A (F y))", product, expected, bound * before["a"].norm)
        check.require(lambda _: [claim])
    before["a"] = standard._replace(right=standard.right[:, count:])
    return scale


def _transform_back(vectors: DistributedArray, factor: DistributedArray, uplo: str, type: int) -> None:
    """X = inv(L^H) Y or inv(U) Y for types 1 and 2, and L Y or U^H Y for type 3, as in p?sygvx."""
    back, trans = (pxtrmm, "NC") if type == 3 else (pxtrsm, "CN")
    back(factor, vectors, uplo, trans["LU".index(uplo)])
