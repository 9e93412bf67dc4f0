"""Eigenpairs of a Hermitian matrix, or of two: four ways to them, each of which computes and checks.

Values alone, all pairs and some pairs are ways to solve a standard problem, C V = V W, with a kernel of ScaLAPACK or ELPA. The
problem of two matrices is reduced to a standard one, which one of those ways solves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..distributed_array import DistributedArray
from ..errors import ArrayError
from ..layout.axis import whole_number
from ..scalapack import Eigenpairs
from ..scalapack.calls import NotFiniteError
from ..scalapack.matrix_operands import is_finite
from . import elpa
from .check import Check, Claim, Sums
from .decompositions import ORTHOGONAL, PRODUCT, SQUARES, order_claim, orthogonal_claim, product_claim, scale_by_power
from .kernels import pxpotrf, pxsyev, pxsyevd, pxsygst, pxtrmm, pxtrsm
from .operands import ShapeAndLayout, check_square_matrix, shaped_like
from .place import Place
from .systems import require_cholesky
from .tridiagonal import TridiagonalForm

DRIVERS = ("auto", "scalapack", "elpa")
TRACE, PAIR = 8.0, 16.0  # as in `systems`; the last is for pairs of matrices
# Eigenvalues, on every rank, and eigenvectors, if any.
Pairs = tuple[NDArray[Any], DistributedArray | None]


@dataclass(frozen=True)
class Request:
    """Which eigenpairs are asked for, and how: the arguments of `eigh`, as the user gave them."""

    lower: Any
    eigvals_only: Any
    subset_by_index: Any = None
    subset_by_value: Any = None
    type: Any = 1
    driver: Any = "auto"
    factor_lower: bool | None = None  # of the Cholesky factor that is given for b; None: b is the matrix

    def check(self, a: DistributedArray, b: DistributedArray | None = None) -> ShapeAndLayout:
        """Check all of it, and the shapes of the matrices; returns that of the vectors."""
        check_square_matrix(a)
        if b is not None and b.shape != a.shape:
            raise ArrayError(f"b has shape {b.shape}: it must have {a.shape}, that of a")
        if self.type not in (1, 2, 3):
            raise ValueError(f"type = {self.type!r} must be 1, 2 or 3")
        if self.driver not in DRIVERS:
            raise ValueError(f"driver = {self.driver!r} must be one of {', '.join(DRIVERS)}")
        index, value = self.subset_by_index, self.subset_by_value
        if index is not None and value is not None:
            raise ValueError(f"subset_by_index = {index!r} and subset_by_value = {value!r}: give one of them")
        if value is not None:
            self.interval()
        first, last = self.indices(a.shape[0])
        return a.shape, shaped_like(a.desc, (a.shape[0], last - first))

    @property
    def triangle(self) -> str:
        """The one that is read."""
        return "L" if self.lower else "U"

    def interval(self) -> tuple[float, float]:
        """The values between which eigenvalues are asked for."""
        interval = self.subset_by_value
        try:
            low, high = map(float, interval)
        except (TypeError, ValueError) as caught:
            raise ValueError(f"subset_by_value = {interval!r} must be two numbers, of which the first is excluded") from caught
        if not low < high:
            raise ValueError(f"subset_by_value = {interval!r} must be (low, high) with low < high, for low < w <= high")
        return low, high

    def indices(self, n: int) -> tuple[int, int]:
        """The first of n eigenvalues that is asked for, and the end; of values in an interval, that all may be."""
        subset = self.subset_by_index
        if subset is None:
            return 0, n
        try:
            first, last = (whole_number("subset_by_index", index, 0) for index in subset)
        except (TypeError, ValueError) as caught:
            raise ValueError(f"subset_by_index = {subset!r} must be two integers, the first and the last index") from caught
        if not first <= last < n:
            raise ValueError(f"subset_by_index = {subset!r} must be (first, last) with 0 <= first <= last < {n}")
        return first, last + 1


@dataclass
class StandardProblem:
    """C V = V W in the layout of the call, and the check of its solution. A kernel overwrites the matrix C."""

    place: Place
    request: Request
    check: Check
    y: NDArray[Any]  # the random vectors of the check
    matrix: DistributedArray  # C
    exponent: int = 0
    scale: float = 1.0  # eigenvalues of the operands are those of C, times this and 2**exponent
    sums: Sums | None = None  # of C, with C y; None if nothing is required of its pairs, and before `run`

    def run(self, work: Callable[[], Any], combined: Callable[[list[Any]], Any] | None = None) -> Any:
        """As `Place.run`. The sums of C come with it, if they have been added. Collective."""
        value, sums = self.check.run(work, combined)
        self.sums = sums.get("a", self.sums)
        return value

    def of_operands(self, values: NDArray[Any]) -> NDArray[Any]:
        """Eigenvalues of the operands."""
        real = np.zeros(0, self.place.dtype).real.dtype
        return scale_by_power(self.scale * values.astype(real), self.exponent)

    def select(self, values: NDArray[Any]) -> tuple[int, int]:
        """The first of the asked eigenvalues and the end, from all of them."""
        if self.request.subset_by_value is None:
            return self.request.indices(values.size)
        first, last = np.searchsorted(self.of_operands(values), self.request.interval(), "right").tolist()
        return first, last

    def asked(self, values: NDArray[Any], vectors: DistributedArray | None) -> Pairs:
        """The asked pairs of the operands, from all values, and from all vectors or the asked ones."""
        first, last = self.select(values)
        if vectors is not None and vectors.shape[1] != last - first:
            vectors = vectors[:, first:last]
        return self.of_operands(values)[first:last], vectors


# -- kernels, which are collective: all eigenvalues, and all vectors, the asked ones or none


def values_by_syev(standard: StandardProblem) -> Pairs:
    return standard.run(lambda: pxsyev(standard.matrix, standard.request.triangle)), None


def pairs_by_syevd(standard: StandardProblem) -> Pairs:
    return _pairs_by(standard, lambda: pxsyevd(standard.matrix, standard.request.triangle))


def pairs_by_elpa(standard: StandardProblem, count: int) -> Pairs:
    """The asked pairs, of which there are none beyond the lowest `count`."""
    place = standard.place
    place.complete(standard.matrix, standard.request.triangle)
    values, lowest = _pairs_by(standard, lambda: elpa.eigenpairs(standard.matrix, count))
    first, last = standard.select(values)
    if (first, last) == (0, values.size):
        return values, lowest
    return values, place.columns_of("vectors", lowest, first, last) if last > first else place.zeros((values.size, 0))


def pairs_by_tridiagonal_form(standard: StandardProblem) -> Pairs:
    form = TridiagonalForm(standard.place, standard.matrix, standard.request.triangle, standard.run)
    return form.eigenpairs(standard.select)


def _pairs_by(standard: StandardProblem, solve: Callable[[], Eigenpairs]) -> tuple[NDArray[Any], DistributedArray]:
    """Values, and vectors in the layout of the matrix, from local arrays."""
    local = []

    def work() -> NDArray[Any] | None:
        pairs = solve()
        local.append(pairs.vectors)
        return pairs.values

    values = standard.run(work)
    return values, DistributedArray._from_result(standard.matrix.desc, local[0], standard.place.dtype)


# -- what is required of all values w and of vectors V, with the sums of C, which is A in the claims. Collective


def _require_values(standard: StandardProblem, a: Sums, values: NDArray[Any], _: None) -> None:
    """Require that the sum of w is the trace of A, and that of w² the square of its Frobenius norm."""
    standard.check.require(lambda _: _value_claims(standard.check, values, a))


def _value_claims(check: Check, values: NDArray[Any], a: Sums) -> list[Claim]:
    w, size = values.astype(check.real), values.size
    total, square = w.sum(), (w**2).sum()
    return [
        Claim("the sum of w is trace A", np.abs(total - a.trace), check.bound(size, TRACE) * size**0.5 * a.norm),
        Claim("the sum of w² is norm(A)²", np.abs(square - a.norm**2), check.bound(size, SQUARES) * a.norm**2),
        order_claim("the eigenvalues ascend", values),
    ]


def _require_all(standard: StandardProblem, a: Sums, values: NDArray[Any], vectors: DistributedArray) -> None:
    """Require V (w * (V^H y)) = A y, and that V is orthogonal."""
    check, y = standard.check, standard.y
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


def _require_some(standard: StandardProblem, a: Sums, values: NDArray[Any], vectors: DistributedArray) -> None:
    """Require V^H (A y) = w * (V^H y) and V^H (V z) = z for the asked w, and of all w the trace and the norm of A.

    So these are the vectors of the asked values, and there are no other values between them.
    """
    check, y, (n, asked) = standard.check, standard.y, vectors.shape
    w, z, count = values[slice(*standard.select(values)), None], check.vectors(asked, 1), y.shape[1]
    check.add("v", vectors, right=z, left=np.hstack([a.right, y]))
    first = check.sums()["v"]
    check.add("v", vectors, left=first.right)
    belong = check.bound(n, PRODUCT) * check.scale(a.norm, n)
    orthonormal = check.bound(n, ORTHOGONAL) * float(asked) ** 0.5
    check.require(
        lambda sums: [
            Claim.equal("V^H (A y) = w * (V^H y)", first.left[:, :count], w * first.left[:, count:], belong),
            Claim.equal("V^H (V z) = z", sums["v"].left, z, orthonormal),
            *_value_claims(check, values, a),
        ]
    )


# -- the ways, which are collective


class Way(NamedTuple):
    """A way to solve a standard problem: the kernel, and what is required of its pairs."""

    kernel: Callable[[StandardProblem], Pairs]
    require: Callable[[StandardProblem, Sums, NDArray[Any], Any], None]

    def solve(self, standard: StandardProblem) -> Pairs:
        """All eigenvalues of C, and the kernel's vectors; they are checked if sums of C are known."""
        values, vectors = self.kernel(standard)
        if standard.sums is not None:
            self.require(standard, standard.sums, values, vectors)
        return values, vectors


VALUES_ALONE = Way(values_by_syev, _require_values)
ALL_PAIRS = Way(pairs_by_syevd, _require_all)
SOME_PAIRS = Way(pairs_by_tridiagonal_form, _require_some)


def pairs_of_one(place: Place, request: Request, way: Way) -> Pairs:
    """The asked pairs of the operand a."""
    check, exponent = Check(place, scaled=True), place.facts.exponent("a")
    y = check.vectors(place.operands["a"].shape[0])
    check.add_operand("a", right=None if way is VALUES_ALONE else y, exponent=exponent)
    standard = StandardProblem(place, request, check, y, place.move("a", exponent=exponent), exponent)
    return standard.asked(*way.solve(standard))


def pairs_of_two(place: Place, request: Request, way: Way) -> Pairs:
    """The asked pairs of a and b: B is factored, C is made of A and the factor F, and its vectors are transformed back.

    All pairs are checked at the end, beside A and B; otherwise each step is, since not all vectors are there.
    """
    check, is_whole = Check(place), way.require is _require_all
    y = check.vectors(place.operands["a"].shape[0])
    check.add_operand("a", right=y)
    sums = _with_product_of_b(place, request, check, y, "b")
    if check.active and is_whole and request.type == 3:
        check.add_operand("a", right=sums["b"].product, name="ab")
        sums |= _with_product_of_b(place, request, check, check.sums()["ab"].product, "bab")
    standard = StandardProblem(place, request, check, y, place.move("a"))
    factor = _factor_of_b(place, request)
    if is_whole or not check.active:
        standard.scale = place.run(lambda: _reduce(standard, factor), max)
    else:
        _reduce_and_check(standard, factor, sums["a"], sums["b"])
    values, vectors = way.solve(standard)
    if vectors is None:
        return standard.asked(values, None)
    z = check.vectors(vectors.shape[1], 1)
    if not is_whole:
        check.add("y", vectors, right=z, norm=False)
    _, y_z = check.run(lambda: _transform_back(vectors, factor, request.triangle, request.type))
    if check.active and is_whole:
        _require_generalized(standard, sums, standard.scale * values, vectors)
    elif check.active:
        _require_transformed(standard, factor, vectors, y_z["y"].right, z)
    return standard.asked(values, vectors)


# -- the steps of the last one


def _with_product_of_b(place: Place, request: Request, check: Check, x: NDArray[Any], name: str) -> dict[str, Sums]:
    """Sums of all that has been added, and of B x by this name, also where b is the factor F of B = F F^H. Collective."""
    lower = request.factor_lower
    if lower is None or not check.active:
        check.add_operand("b", right=x, name=name)
        return check.sums()
    check.add_factor("f", place.operands["b"], lower, x, adjoint=True, norm=True)
    sums = check.sums()
    check.add_factor(name, place.operands["b"], lower, sums["f"].product)
    return sums | {name: Sums(check.sums()[name].product, norm=sums["f"].norm ** 2)}


def _factor_of_b(place: Place, request: Request) -> DistributedArray:
    """The Cholesky factor of B, in the triangle that is read of A. Collective."""
    factor = place.move("b", read_only=request.factor_lower is not None)
    if request.factor_lower is None:
        place.run(lambda: _factor(factor, request.triangle))
    elif request.factor_lower != (request.triangle == "L"):
        return place.transpose(factor)
    return factor


def _factor(matrix: DistributedArray, triangle: str) -> None:
    try:
        pxpotrf(matrix, triangle)
    except np.linalg.LinAlgError as caught:
        raise np.linalg.LinAlgError(f"b: {caught}") from caught


def _reduce(standard: StandardProblem, factor: DistributedArray) -> float:
    """Make C of A; returns the scale of its eigenvalues."""
    matrix, triangle = standard.matrix, standard.request.triangle
    scale = pxsygst(matrix, factor, triangle, problem=int(standard.request.type))
    if not is_finite(matrix.desc, matrix.local, triangle):
        raise NotFiniteError(
            "the matrix of the standard problem has infs or NaNs, as where numbers overflow or where a or b has some"
        )
    return scale


def _reduce_and_check(standard: StandardProblem, factor: DistributedArray, a: Sums, b: Sums) -> None:
    """As `_reduce`, with the sums of C. Collective.

    The check requires F F^H y = B y, and F (C (F^H y)) = A y for type 1, C y = F^H (A (F y)) for the others.
    """
    check, y, triangle, is_first = standard.check, standard.y, standard.request.triangle, standard.request.type == 1
    lower, count = triangle == "L", y.shape[1]
    require_cholesky(check, factor, lower, b, y)
    check.add_factor("f", factor, lower, y, adjoint=is_first, norm=True)
    f = check.sums()["f"]
    if not is_first:
        check.add_operand("a", right=f.product)
        check.add_factor("faf", factor, lower, check.sums()["a"].product, adjoint=True)
    standard.scale, sums = check.run(lambda: _reduce(standard, factor), max)
    check.add("c", standard.matrix, right=np.hstack([f.product if is_first else y, y]), part=f"H{triangle}")
    c = check.sums()["c"]
    product, standard.sums = c.right[:, :count], c._replace(right=c.right[:, count:])
    bound = check.bound(y.shape[0], PAIR) * f.norm**2
    if is_first:
        check.add_factor("fcf", factor, lower, product)
        text, bound = "F (C (F^H y)) = A y", bound * c.norm
        check.require(lambda sums: [Claim.equal(text, sums["fcf"].product, a.product, bound)])
    else:
        claim = Claim.equal("C y = F^H (A (F y))", product, sums["faf"].product, bound * a.norm)
        check.require(lambda _: [claim])


def _transform_back(vectors: DistributedArray, factor: DistributedArray, triangle: str, type: int) -> None:
    """X = inv(L^H) Y or inv(U) Y for types 1 and 2, and L Y or U^H Y for type 3, as in p?sygvx."""
    back, trans = (pxtrmm, "NC") if type == 3 else (pxtrsm, "CN")
    back(factor, vectors, triangle, trans["LU".index(triangle)])


def _require_transformed(
    standard: StandardProblem, factor: DistributedArray, vectors: DistributedArray, y: NDArray[Any], z: NDArray[Any]
) -> None:
    """Require F^H (X z) = Y z, or X z = F (Y z) for type 3; F and Y have been checked, and `y` is Y z. Collective."""
    check, is_third = standard.check, standard.request.type == 3
    check.add("x", vectors, right=z)
    x = check.sums()["x"]
    lower = standard.request.triangle == "L"
    check.add_factor("f", factor, lower, y if is_third else x.right, adjoint=not is_third, norm=True)

    def make_claims(sums: dict[str, Sums]) -> list[Claim]:
        f = sums["f"]
        bound = check.bound(factor.shape[0], PAIR) * f.norm
        if is_third:
            return [Claim.equal("X z = F (Y z)", x.right, f.product, bound * float(z.shape[0]) ** 0.5)]
        return [Claim.equal("F^H (X z) = Y z", f.product, y, bound * x.norm)]

    check.require(make_claims)


def _require_generalized(
    standard: StandardProblem, before: dict[str, Sums], values: NDArray[Any], vectors: DistributedArray
) -> None:
    """Require V^H (A y) = w * (V^H (B y)) and V (V^H (B y)) = y, or the equations of the other types. Collective."""
    check, y, type = standard.check, standard.y, standard.request.type
    z_a, z_b, w, count = before["a"].product, before["b"].product, values[:, None], y.shape[1]
    check.add("v", vectors, left=y if type == 3 else np.hstack([z_a if type == 1 else y, z_b]))
    first = check.sums()["v"].product
    products, other = first[:, :count], first[:, count:]
    right = {1: [other], 2: [w * products, other], 3: [products, w * products]}
    check.add("v", vectors, right=np.hstack(right[type]))

    def make_claims(sums: dict[str, Sums]) -> list[Claim]:
        v, a, b = sums["v"], before["a"].norm, before["b"].norm
        bound, head, tail = check.bound(y.shape[0], PAIR) * v.norm**2, v.product[:, :count], v.product[:, -count:]
        unit = Claim.equal("V (V^H (B y)) = y", tail, y, bound * b * float(y.shape[0]) ** 0.5)
        if type == 1:
            size = (a + np.abs(values).max(initial=0) * b) * b**0.5
            pairs = Claim.equal("V^H (A y) = w * (V^H (B y))", products, w * other, bound * size)
        elif type == 2:
            pairs = Claim.equal("V (w * (V^H y)) = A y", head, z_a, bound * b * a)
        else:
            unit = Claim.equal("V (V^H y) = B y", head, z_b, bound)
            pairs = Claim.equal("V (w * (V^H y)) = B (A (B y))", tail, before["bab"].product, bound * a * b)
        return [pairs, unit, order_claim("the eigenvalues ascend", values)]

    check.require(make_claims)
