"""Checks of the library's results by products with a few random vectors, in O(n²) and without a copy of a matrix.

Let R be the residual of a factorisation, such as A - L U, and y a vector of independent Gaussian numbers. R y is small only
if the components of y along the singular directions of R are. For real data a residual of k bounds is below the bound for all
of three vectors with a probability of about (0.8 / k)³ (Freivalds 1977, for finite fields). The products are NumPy's, in
float64 and by panels of columns, since the library itself is under test.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from .. import tracing
from ..comm.group import first_known
from ..distributed_array import DistributedArray
from ..layout.descriptor import Descriptor
from ..scalapack.calls import NotFiniteError
from ..scalapack.scaling import LARGE, SMALL
from .call import WrongResultError
from .matrix_parts import (
    along_memory,
    as_column,
    diagonal_elements,
    holds_elements,
    indices_at,
    local_elements,
    part_panels,
    squares_of,
    times_powers,
)
from .place import Place
from .random_vectors import gaussian

R = TypeVar("R")
SMALL_PANEL = 2**13  # elements
NOT_SCALED: NDArray[np.int64] = np.zeros(0, np.int64)


class Claim(NamedTuple):
    """An equation that a right result satisfies: its error, and the bound of an error by rounding.

    Both are numbers, or arrays with a number for each right-hand side.
    """

    text: str
    error: Any
    bound: Any

    @classmethod
    def equal(cls, text: str, product: Any, expected: Any, bound: Any) -> Claim:
        """Equal columns of two arrays; the error is the largest length of a difference."""
        return cls(text, length(product - expected), bound)

    @classmethod
    def equal_sides(cls, text: str, product: Any, expected: Any, bound: Any) -> Claim:
        """Equal rows, each of a right-hand side."""
        return cls(text, lengths(product - expected), bound)

    @property
    def is_finite(self) -> bool:
        """Whether there are no infs and NaNs, which nothing is known of."""
        return bool(np.isfinite(self.error).all() and np.isfinite(self.bound).all())

    @property
    def excess(self) -> float:
        """The largest error divided by its bound; inf where one of them is inf or NaN."""
        if not self.is_finite:
            return math.inf
        error, bound = np.broadcast_arrays(self.error, self.bound)
        return float(np.where(error <= bound, 0, error / bound).max(initial=0))


class Sums(NamedTuple):
    """Products with a matrix, summed over the ranks; None for those that were not asked for."""

    right: Any = None  # M X
    left: Any = None  # M^H X
    norm: float = 0.0  # Frobenius norm
    norms: Any = None  # of each column
    trace: float = 0.0  # of a Hermitian matrix

    @property
    def product(self) -> Any:
        """The only product that was asked for."""
        return self.left if self.right is None else self.right


class Check:
    """The check of one attempt, on operands as the user gave them and on results in the layout of the place.

    `scaled`: operands are divided by 2**exponent, as `Operands.exponent` has it. Without it the squares of an operand may
    overflow or vanish in float64; its norms then have extended precision. `is_complex`: results are complex, also of
    real operands.
    """

    def __init__(self, place: Place, *, scaled: bool = False, is_complex: bool = False) -> None:
        self.active = place.facts.is_checked  # otherwise nothing is computed and nothing is sent
        wide = not scaled and any(size and not SMALL < size < LARGE for size in place.facts.magnitudes.values())
        numbers = np.finfo(place.dtype)
        self.eps, self.largest, self._tiny = float(numbers.eps), float(numbers.max), float(numbers.tiny)
        self._place, self._scaled = place, scaled
        self._complex = is_complex or place.dtype.kind == "c"
        self.real = np.dtype(np.longdouble if wide else np.float64)
        self._dtype = np.result_type(self.real, np.complex64) if self._complex else self.real
        self._parts: dict[str, _PartialSums | None] = {}
        self._layouts: dict[str, Descriptor] = {}
        self._magnitudes: dict[str, float] = {}  # of scaled operands among the products
        self._claims: list[Claim] = []  # of the first rank, on the scales of operands

    def vectors(self, size: int, stream: int = 0) -> NDArray[Any]:
        """Random vectors."""
        return gaussian(size, self._complex, stream)

    def bound(self, size: int, factor: float) -> float:
        """Bound of the error by rounding in a matrix of this size, relative to the norms in the routine's analysis."""
        bound: float = factor * self.eps * (size + 10.0) ** 0.5
        return bound

    def scale(self, norm: Any, size: int) -> Any:
        """A norm, plus what is lost of elements that are too small for the dtype."""
        return norm + size * self._tiny

    def add(
        self,
        name: str,
        matrix: DistributedArray,
        right: NDArray[Any] | None = None,
        left: NDArray[Any] | None = None,
        *,
        part: str = "",
        columns: bool = False,
        norm: bool = True,
        exponent: int | NDArray[np.int64] = 0,
    ) -> None:
        """Compute this rank's part of products. `sums` adds the parts, and raises errors on all ranks.

        `right` is X for M X, and `left` for M^H X. `part` is one of `matrix_parts`, "l" with ones in place of its diagonal.
        `columns` and `norm` say whether to compute the norm of each column, and of the matrix. Elements are divided by
        2**exponent, or each column by its own power.
        """
        if not self.active:
            return
        self._layouts[name] = as_column(matrix.desc)
        with self._place.collect_errors(), tracing.phase("check"):
            self._parts[name] = _part(matrix, right, left, part, columns, norm, self._dtype, exponent)

    def add_operand(
        self,
        operand: str,
        right: NDArray[Any] | None = None,
        left: NDArray[Any] | None = None,
        *,
        name: str | None = None,
        columns: bool = False,
        exponent: int | NDArray[np.int64] = 0,
    ) -> None:
        """As `add`, for an operand as the user gave it: the elements of it that the routine reads.

        To be called before the operand is overwritten. If operands are scaled, `require` also claims that the scale is that
        of these elements.
        """
        array, name = self._place.operands[operand], name or operand
        self.add(name, array, right, left, part=self._place.parts[operand], columns=columns, exponent=exponent)
        if self.active and self._scaled and isinstance(exponent, int):
            self._magnitudes[name] = math.ldexp(self._place.facts.magnitudes[operand], -exponent)

    def add_unread(self, name: str, operand: str, left: NDArray[Any], part: str, exponent: int) -> None:
        """As `add`, without norm, for another part of an operand than that which its routine reads."""
        self.add(name, self._place.operands[operand], left=left, part=part, norm=False, exponent=exponent)

    def add_factor(
        self,
        name: str,
        factor: DistributedArray,
        lower: bool,
        x: NDArray[Any],
        *,
        adjoint: bool = False,
        norm: bool = False,
    ) -> None:
        """As `add`, for F or F^H of the Cholesky factorisation F F^H: F is L or U^H."""
        side = "right" if lower != adjoint else "left"
        self.add(name, factor, **{side: x}, part="L" if lower else "U", norm=norm)  # type: ignore[arg-type]

    def sums(self) -> dict[str, Sums]:
        """Sums of all products added since the last call. Collective."""
        return self._summed(lambda sums: sums) if self.active else {}

    def require(
        self,
        make_claims: Callable[[dict[str, Sums]], Iterable[Claim | str]],
        factors: DistributedArray | None = None,
        norm: float = 0.0,
    ) -> None:
        """Refuse the attempt on all ranks unless all claims hold. Collective.

        `make_claims` makes them from the sums of all added products; a text among them is a warning. The first rank alone
        compares, so that all ranks get one verdict. An error up to the growth of elements, from a matrix of norm `norm` to its
        LU factors `factors`, is a warning.
        """
        if not self.active:
            return

        def verdict(sums: dict[str, Sums]) -> tuple[tuple[str, float, bool] | None, list[str]]:
            made = [*make_claims(sums), *self._claims]
            claims = [each for each in made if isinstance(each, Claim)]
            return _worst(claims), [each for each in made if isinstance(each, str)]

        worst, texts = self._summed(verdict)
        for text in texts:
            self._place.call.warn(text)
        if worst is None:
            return
        text, excess, is_finite = worst
        if not is_finite:
            raise NotFiniteError(f"{text} has infs or NaNs, as where numbers overflow {self._place.dtype}")
        growth = 1.0 if factors is None else self._bound_growth(factors, norm)
        if not excess <= growth < math.inf:
            raise WrongResultError(f"{text} is off by {excess:.2g} times what rounding comes to")
        self._place.call.warn(
            f"{text} is off by {excess:.2g} times what rounding usually comes to: elements grow by a factor of {growth:.2g} "
            "in the elimination, as in any LU factorisation with row exchanges; qr or lstsq are more exact"
        )

    def _bound_growth(self, factors: DistributedArray, norm: float) -> float:
        """Upper bound of the largest element of U divided by that of the matrix, whose Frobenius norm is given. Collective."""

        def largest() -> float:
            rows, columns, local = local_elements(factors)
            return float(np.max(np.abs(local), where=rows[:, None] <= columns, initial=0))

        pivot: float = self._place.run(largest, max)
        return max(1.0, pivot * factors.shape[0] / norm) if norm else 1.0

    def run(
        self, work: Callable[[], Any], combined: Callable[[list[Any]], Any] | None = None
    ) -> tuple[Any, dict[str, Sums]]:
        """As `Place.run`, with the sums of all products added before. Collective."""
        choose = combined or first_known
        return self._run(work, lambda values, sums: (choose(values), sums))

    def _summed(self, then: Callable[[dict[str, Sums]], R]) -> R:
        with tracing.phase("check"):
            return self._run(lambda: None, lambda _, sums: then(sums))

    def _run(self, work: Callable[[], Any], combined: Callable[[list[Any], dict[str, Sums]], R]) -> R:
        """Combine the results of all ranks' work and the sums, on the first rank."""
        parts, layouts, magnitudes = self._parts, self._layouts, self._magnitudes
        ranks = self._place.ranks
        self._parts, self._layouts, self._magnitudes = {}, {}, {}

        def of_all(replies: list[tuple[Any, dict[str, _PartialSums | None]]]) -> R:
            sums = {
                name: _sums(desc, ranks, [rank_parts[name] for _, rank_parts in replies])
                for name, desc in layouts.items()
            }
            self._claims += [
                _scale_claim(name, size, sums[name].norm, layouts[name].shape) for name, size in magnitudes.items()
            ]
            return combined([value for value, _ in replies], sums)

        result: R = self._place.run(lambda: (work(), parts), of_all)
        return result


def _scale_claim(name: str, magnitude: float, norm: Any, shape: tuple[int, ...]) -> Claim:
    """The claim that a magnitude lies between the largest element, or half of it, and the norm."""
    most = 2 * magnitude * math.prod(shape) ** 0.5
    return Claim(f"the scale of {name} is that of its norm", max(magnitude / 2 - norm, norm - most), 0.0)


def _worst(claims: Iterable[Claim]) -> tuple[str, float, bool] | None:
    """The text of the claim with the largest excess, that excess, and whether it is of finite numbers; None if all hold."""
    excesses = [(claim.excess, claim) for claim in claims]
    keys = [(excess, excess == math.inf and not claim.is_finite, claim.text) for excess, claim in excesses]
    excess, is_open, text = max(keys, default=(0.0, False, ""))
    return (text, excess, not is_open) if excess else None


class _PartialSums(NamedTuple):
    """A rank's part of the sums: rows of M X, columns of M^H X, squares of elements, also by columns.

    For a Hermitian matrix, which is stored as a triangle, `across` is a part of M X as well.
    """

    rows: NDArray[Any] | None
    across: NDArray[Any] | None
    square: Any
    squares: NDArray[Any] | None
    trace: Any
    hermitian: bool


def _sums(desc: Descriptor, ranks: Sequence[int], parts: Sequence[_PartialSums | None]) -> Sums:
    """Add the parts of ranks of a communicator."""
    right: NDArray[Any] | None = None
    left: NDArray[Any] | None = None
    squares: NDArray[Any] | None = None
    square, trace = 0.0, 0.0
    for rank, part in zip(ranks, parts, strict=True):
        if part is None:
            continue
        trace += part.trace
        coords = desc.grid.coords_of(rank)
        assert coords is not None
        down, over = indices_at(desc, coords)
        square += part.square
        right = _added(right, desc.shape[0], down, part.rows)
        squares = _added(squares, desc.shape[1], over, part.squares)
        if part.hermitian:
            right = _added(right, desc.shape[1], over, part.across)
        else:
            left = _added(left, desc.shape[1], over, part.across)
    return Sums(right, left, np.sqrt(square), None if squares is None else np.sqrt(squares[:, 0]), trace)


def _added(
    total: NDArray[Any] | None, size: int, indices: NDArray[np.int64], part: NDArray[Any] | None
) -> NDArray[Any] | None:
    if part is None:
        return total
    if total is None:
        if indices.size == size:  # all, in their order
            return part
        total = np.zeros((size, part.shape[1]), part.dtype)
    total[indices] += part
    return total


def _part(
    matrix: DistributedArray,
    right: NDArray[Any] | None,
    left: NDArray[Any] | None,
    part: str,
    columns: bool,
    norm: bool,
    dtype: np.dtype[Any],
    exponent: Any,
) -> _PartialSums | None:
    if not holds_elements(as_column(matrix.desc)) or matrix.local is None:
        return None
    elements = local_elements(matrix)
    rows, across, local = elements
    hermitian = part in ("HL", "HU")
    left = right if hermitian else left
    x = None if right is None else right[across].astype(dtype, order="F")
    z = None if left is None else left[rows].astype(dtype, order="F").conj()
    real = np.zeros(0, dtype).real.dtype
    trace = real.type(0)
    square, squares = real.type(0), np.zeros((across.size, 1), real) if columns else None
    elements, its_part, turned = along_memory(elements, part)
    first, second = (z, x) if turned else (x, z)  # for products with the elements, and with their transpose
    down_sum, over_sum = (
        None if vectors is None else np.zeros((indices.size, vectors.shape[1]), dtype, order="F")
        for indices, vectors in zip(elements[:2], (first, second), strict=True)
    )
    is_scaled = np.any(exponent)
    exponents = np.broadcast_to(exponent, matrix.desc.shape[1:] or (1,))[across] if is_scaled else NOT_SCALED
    for down, over, panel in part_panels(elements, its_part, dtype):
        if is_scaled:
            panel = times_powers(panel, -exponents[down, None] if turned else -exponents[over])
        if first is not None and down_sum is not None:
            _add_product(down_sum[down], panel, first[over])
        if second is not None and over_sum is not None:
            _add_product(over_sum[over], panel.T, second[down])
        if norm:
            square += squares_of(panel).sum()
        if squares is not None:
            squares[down if turned else over, 0] += (np.abs(panel) ** 2).sum(axis=1 if turned else 0)
    if turned:
        down_sum, over_sum = over_sum, down_sum
    if over_sum is not None:
        np.conj(over_sum, out=over_sum)
    if hermitian or part == "l":  # the panels are without the diagonal
        indices, on_rows, on_columns = diagonal_elements(rows, across)
        diagonal = np.ones(indices.size, real)
        if hermitian:
            diagonal = local[on_rows, on_columns].real.astype(real)
            if is_scaled:
                diagonal = np.ldexp(diagonal, -exponents[on_columns])
        trace = diagonal.sum()
        if right is not None and down_sum is not None:
            down_sum[on_rows] += diagonal[:, None] * right[indices]
        if left is not None and over_sum is not None and not hermitian:
            over_sum[on_columns] += diagonal[:, None] * left[indices]
        square += np.dot(diagonal, diagonal) + (square if hermitian else 0)
    extended = np.result_type(dtype, np.longdouble)
    if dtype != extended and not (np.isfinite(square) and (squares is None or np.isfinite(squares).all())):
        return _part(matrix, right, left, part, columns, norm, extended, exponent)
    return _PartialSums(down_sum, over_sum, square, squares, trace, hermitian)


def _add_product(total: NDArray[Any], panel: NDArray[Any], vectors: NDArray[Any]) -> None:
    """Add a product with a few vectors, one at a time: libraries are slow for matrices of few columns."""
    if panel.size < SMALL_PANEL:
        total += panel @ vectors
        return
    for k in range(vectors.shape[1]):
        total[:, k] += panel @ vectors[:, k]


def length(difference: NDArray[Any]) -> Any:
    """The largest length of a column."""
    return np.sqrt((np.abs(difference) ** 2).sum(axis=0)).max(initial=0)


def lengths(difference: NDArray[Any]) -> NDArray[Any]:
    """The largest absolute value in each row, which belongs to a right-hand side."""
    return np.abs(difference).max(axis=1, initial=0)  # type: ignore[no-any-return]
