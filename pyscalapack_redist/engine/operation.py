"""The operation of a redistribution: out = alpha * op(A) + beta * out, for a whole matrix or a trapezoid."""

from __future__ import annotations

import functools
import numbers
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._kernels.boxes import Blend
from ..errors import ArrayError, DescriptorError
from ..layout.descriptor import Descriptor
from ..layout.dimensions import local_part
from ..layout.dtypes import foreign_dtypes, is_complex
from ..layout.letters import DIAGONALS, TRIANGLES, conjugates, letter_of, transposes
from ..layout.tiles import Layout

FILLS = {"zero": "0", "symmetric": "the transpose of the part", "hermitian": "its conjugate transpose"}
BLENDED = "fdFD"

Edge = tuple[bool, int]


class Factors(NamedTuple):
    """alpha and beta of a call, and whether A is conjugated."""

    alpha: complex = 1
    beta: complex = 0
    conjugate: bool = False

    @classmethod
    def of(cls, alpha: object, beta: object, op: str) -> Factors:
        """Check alpha and beta.

        Raises
        ------
        ArrayError
            A factor is not a number.
        """
        if type(alpha) is int and type(beta) is int:
            return _of_integers(alpha, beta, conjugates(op))
        factors = []
        for name, value in (("alpha", alpha), ("beta", beta)):
            number = scalar(value)
            if not isinstance(number, numbers.Number):
                raise ArrayError(f"{name} = {value!r} must be a number")
            factors.append(_complex(name, number))
        return cls(factors[0], factors[1], conjugates(op))

    @property
    def adding(self) -> Factors:
        """The factors of a summand after the first one: what is in B is added to as it is."""
        return self._replace(beta=complex(1))

    @property
    def trivial(self) -> bool:
        """Whether alpha is 1 and beta is 0."""
        return self.alpha == 1 and self.beta == 0

    def blend(self, dtype: np.dtype[Any]) -> Blend | None:
        """Return the kernels' operation on elements of a dtype; None if elements only move.

        Raises
        ------
        ArrayError
            The factors do not apply to the dtype.
        """
        conjugate = self.conjugate and is_complex(dtype)
        if self.trivial and not conjugate:
            return None
        if dtype.char not in BLENDED or not dtype.isnative or foreign_dtypes(dtype):  # whose char may be of NumPy's
            raise ArrayError(
                f"{self}{', conjugated' if conjugate else ''}, with dtype {dtype}: "
                "only float32, float64, complex64 and complex128 can be multiplied or conjugated; convert the array"
            )
        if dtype.kind != "c" and (self.alpha.imag or self.beta.imag):
            raise ArrayError(
                f"alpha = {self.alpha}, beta = {self.beta} with dtype {dtype}: a complex factor needs a complex array"
            )
        return _blend(dtype.char, self.alpha, self.beta, conjugate)

    def __str__(self) -> str:
        return f"alpha = {_plain(self.alpha)}, beta = {_plain(self.beta)}"


SUMS = "float32, float64, complex64, complex128 and integers"


def check_summed(dtype: np.dtype[Any]) -> None:
    """Raise an ArrayError for elements that reduce="sum" does not add."""
    is_own = dtype.isnative and not foreign_dtypes(dtype)
    if is_own and (dtype.char in BLENDED or dtype.kind in "iu"):
        return
    if dtype.kind == "b":
        remedy = "count them as a.astype(np.int64)"
    elif is_own or dtype.newbyteorder("=").char not in BLENDED:
        remedy = "convert the array, as a.astype(np.float32) does it"
    else:
        remedy = f"convert the array to the machine's byte order, a.astype({dtype.newbyteorder('=').name!r})"
    raise ArrayError(f"reduce = 'sum' with dtype {dtype}: sums are made of {SUMS}; {remedy}")


def integer_sum(dtype: np.dtype[Any]) -> Blend:
    """The kernels' operation that adds an integer to another."""
    return _blend({1: "B", 2: "H", 4: "I", 8: "Q"}[dtype.itemsize], 1, 1, False)


@functools.lru_cache(maxsize=64)
def _of_integers(alpha: int, beta: int, conjugate: bool) -> Factors:
    return Factors(_complex("alpha", alpha), _complex("beta", beta), conjugate)


def _complex(name: str, number: Any) -> complex:
    """Convert a factor to complex, without negative zeros: ranks and plans compare factors as text."""
    try:
        value = complex(number)
    except OverflowError:
        raise ArrayError(f"{name} is beyond the numbers of float64") from None
    return complex(value.real + 0.0, value.imag + 0.0)


def scalar(value: object) -> object:
    """Return the scalar of an array without dimensions, and any other value unchanged; a NumPy bool is Python's, a number."""
    number = np.asarray(value)[()] if getattr(value, "shape", None) == () else value
    return bool(number) if isinstance(number, np.bool_) else number


def _plain(value: complex) -> complex:
    return value.real if not value.imag else value


@functools.lru_cache(maxsize=64)
def _blend(char: str, alpha: complex, beta: complex, conjugate: bool) -> Blend:
    return Blend(char, alpha, beta, conjugate)


class MatrixPart(NamedTuple):
    """The trapezoid of a matrix that a plan moves, as in pxtrmr2d: the triangle, and whether it has the diagonal."""

    uplo: str
    diag: str

    def after_op(self, op: str) -> MatrixPart:
        """Return the part of op(A) that has the elements of this part of A."""
        return MatrixPart("L" if self.uplo == "U" else "U", self.diag) if transposes(op) else self

    def edge(self, shape: tuple[int, ...]) -> Edge:
        """Return (True, k) if the part has the elements (i, j) with j - i >= k, (False, k) if it has those with j - i <= k.

        The part's diagonal ends in the lower right corner. In a tall matrix the diagonal of "U" begins below element (0, 0);
        in a wide one that of "L" begins to the right of it (pdtrmr2d of ScaLAPACK 2).
        """
        m, n = shape
        without = self.diag == "U"
        return (True, without - max(m - n, 0)) if self.uplo == "U" else (False, max(n - m, 0) - without)


def op_layout(layout: Layout, op: str) -> Layout:
    """The layout of op(A), with the local arrays in A's order."""
    return layout._of_transpose() if transposes(op) else layout


def edge_of(part: MatrixPart | None, op: str, shape: tuple[int, ...]) -> Edge | None:
    """Edge of the elements of B that a part of A moves to, for the shape of B; None for all elements."""
    return None if part is None else part.after_op(op).edge(shape)


def parse_part(uplo: object, diag: object) -> MatrixPart | None:
    """Return the part of a matrix for these letters; None for the whole matrix.

    Raises
    ------
    DescriptorError
        A letter is unknown, or `diag` comes without `uplo`.
    """
    triangle = None if uplo is None else letter_of("uplo", uplo, TRIANGLES)
    diagonal = letter_of("diag", diag, DIAGONALS)
    if triangle is None and diagonal != "N":
        raise DescriptorError(f"diag = {diag!r} without uplo: the whole matrix has a diagonal; give uplo = 'U' or 'L'")
    return None if triangle is None else MatrixPart(triangle, diagonal)


def parse_fill(fill: object, part: MatrixPart | None) -> str | None:
    """Check that `fill` is None, or one of FILLS with a part to fill around.

    Raises
    ------
    DescriptorError
        The value is unknown, or comes without `uplo`.
    """
    if fill is None:
        return None
    if not isinstance(fill, str) or fill not in FILLS:
        names = ", ".join(f"{name!r} ({meaning})" for name, meaning in FILLS.items())
        raise DescriptorError(f"fill = {fill!r}: must be one of {names}, or None")
    if part is None:
        raise DescriptorError(
            f"fill = {fill!r} without uplo: fill applies to the elements outside the trapezoid; give uplo = 'U' or 'L'"
        )
    return fill


def check_square(fill: str, shape: tuple[int, ...]) -> None:
    """Raise a DescriptorError if `fill` needs a mirror image and the matrix is not square."""
    if fill != "zero" and shape[0] != shape[1]:
        raise DescriptorError(f"fill = {fill!r} is for square matrices, but desc_a has shape {shape}")


def scale_rest(out: NDArray[Any], desc: Descriptor, edge: Edge, beta: complex) -> None:
    """Multiply this rank's elements of B outside the trapezoid by beta; with beta = 0 they are not read."""
    if desc.coords is None:
        return
    rows, columns = (desc.global_indices(k) for k in range(2))
    window = out[local_part(desc.distributions, desc.coords)]
    upper, diagonal = edge
    if window.size and abs(window.strides[0]) > abs(window.strides[1]):  # along the lines of memory
        window, rows, columns, upper, diagonal = window.T, columns, rows, not upper, -diagonal
    factor = beta if out.dtype.kind == "c" else complex(beta).real
    for j, cut in enumerate(np.searchsorted(rows, columns - diagonal, "right" if upper else "left").tolist()):
        rest = window[cut:, j] if upper else window[:cut, j]
        if beta == 0:
            rest[...] = np.zeros((), out.dtype)
        else:
            with np.errstate(all="ignore"):  # as in the kernels
                rest *= factor
