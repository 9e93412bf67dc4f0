"""What becomes of a matrix on the way: out = alpha * op(A) + beta * out, of all of it or of a trapezoid."""

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
from ..layout.letters import DIAGONALS, TRIANGLES, conjugates, letter_of, transposes
from ..layout.tiles import Layout

FILLS = {"zero": "0", "symmetric": "the transpose of the part", "hermitian": "its conjugate transpose"}
BLENDED = "fdFD"

Edge = tuple[bool, int]


class Factors(NamedTuple):
    """alpha and beta of one call, and whether A is conjugated."""

    alpha: complex = 1
    beta: complex = 0
    conjugate: bool = False

    @classmethod
    def of(cls, alpha: object, beta: object, op: str) -> Factors:
        """Checked factors. Not collective.

        Raises
        ------
        ArrayError
            One is not a number.
        """
        if type(alpha) is int and type(beta) is int:
            return _of_integers(alpha, beta, conjugates(op))
        found = []
        for name, value in (("alpha", alpha), ("beta", beta)):
            number = scalar(value)
            if not isinstance(number, numbers.Number):
                raise ArrayError(f"{name} = {value!r} must be a number")
            found.append(_complex(name, number))
        return cls(found[0], found[1], conjugates(op))

    @property
    def trivial(self) -> bool:
        """Whether elements only move, or are only conjugated."""
        return self.alpha == 1 and self.beta == 0

    def blend(self, dtype: np.dtype[Any]) -> Blend | None:
        """What the kernels do with elements of a dtype; None where they only move. Not collective.

        Raises
        ------
        ArrayError
            The dtype cannot be multiplied so.
        """
        conjugate = self.conjugate and dtype.kind == "c"
        if self.trivial and not conjugate:
            return None
        if dtype.char not in BLENDED or not dtype.isnative:
            raise ArrayError(
                f"{self}{', conjugated' if conjugate else ''}, with dtype {dtype}: "
                "only float32, float64, complex64 and complex128 are multiplied on the way; convert the array"
            )
        if dtype.kind != "c" and (self.alpha.imag or self.beta.imag):
            raise ArrayError(
                f"alpha = {self.alpha}, beta = {self.beta} with dtype {dtype}: a complex factor needs a complex array"
            )
        return _blend(dtype.char, self.alpha, self.beta, conjugate)

    def __str__(self) -> str:
        return f"alpha = {_plain(self.alpha)}, beta = {_plain(self.beta)}"


@functools.lru_cache(maxsize=64)
def _of_integers(alpha: int, beta: int, conjugate: bool) -> Factors:
    return Factors(_complex("alpha", alpha), _complex("beta", beta), conjugate)


def _complex(name: str, number: Any) -> complex:
    """A factor without signs of zeros: ranks and plans compare factors by what is printed of them."""
    try:
        value = complex(number)
    except OverflowError:
        raise ArrayError(f"{name} is beyond the numbers of float64") from None
    return complex(value.real + 0.0, value.imag + 0.0)


def scalar(value: object) -> object:
    """The scalar in an array of no dimensions; anything else as it is. Not collective."""
    return np.asarray(value)[()] if getattr(value, "shape", None) == () else value


def _plain(value: complex) -> complex:
    return value.real if not value.imag else value


@functools.lru_cache(maxsize=64)
def _blend(char: str, alpha: complex, beta: complex, conjugate: bool) -> Blend:
    return Blend(char, alpha, beta, conjugate)


class MatrixPart(NamedTuple):
    """The trapezoid of a matrix that is moved, as in pxtrmr2d: its triangle, and whether the diagonal goes along."""

    uplo: str
    diag: str

    def after_op(self, op: str) -> MatrixPart:
        """The part of op(A) that this part of A becomes."""
        return MatrixPart("L" if self.uplo == "U" else "U", self.diag) if transposes(op) else self

    def edge(self, shape: tuple[int, ...]) -> Edge:
        """Whether elements (i, j) of j - i >= k belong to it, or those of j - i <= k; and k.

        The diagonal of the part ends in the corner: that of "U" in a tall matrix begins below element (0, 0), that of "L"
        in a wide one to the right of it (pdtrmr2d of ScaLAPACK 2).
        """
        m, n = shape
        without = self.diag == "U"
        return (True, without - max(m - n, 0)) if self.uplo == "U" else (False, max(n - m, 0) - without)


def op_layout(layout: Layout, op: str) -> Layout:
    """The layout of op(A). Not collective."""
    return layout.T if transposes(op) else layout


def edge_of(part: MatrixPart | None, op: str, shape: tuple[int, ...]) -> Edge | None:
    """Which elements of B move, where a part of A does and B has that shape; None for all. Not collective."""
    return None if part is None else part.after_op(op).edge(shape)


def parse_part(uplo: object, diag: object) -> MatrixPart | None:
    """The part of a matrix that these letters mean, None for all of it. Not collective.

    Raises
    ------
    DescriptorError
        One is unknown, or `diag` comes without `uplo`.
    """
    triangle = None if uplo is None else letter_of("uplo", uplo, TRIANGLES)
    diagonal = letter_of("diag", diag, DIAGONALS)
    if triangle is None and diagonal != "N":
        raise DescriptorError(f"diag = {diag!r} without uplo: the whole matrix has a diagonal; give uplo = 'U' or 'L'")
    return None if triangle is None else MatrixPart(triangle, diagonal)


def parse_fill(fill: object, part: MatrixPart | None) -> str | None:
    """One of FILLS or None, where it goes with the part. Not collective.

    Raises
    ------
    DescriptorError
        It does not.
    """
    if fill is None:
        return None
    if not isinstance(fill, str) or fill not in FILLS:
        names = ", ".join(f"{name!r} ({what})" for name, what in FILLS.items())
        raise DescriptorError(f"fill = {fill!r}: what is written outside the part must be one of {names}, or None")
    if part is None:
        raise DescriptorError(f"fill = {fill!r} without uplo: it fills what uplo leaves out; give uplo = 'U' or 'L'")
    return fill


def check_square(fill: str, shape: tuple[int, ...]) -> None:
    """Raise a DescriptorError where a mirror image is asked for of a matrix that has none. Not collective."""
    if fill != "zero" and shape[0] != shape[1]:
        raise DescriptorError(f"fill = {fill!r} is for square matrices, but desc_a has shape {shape}")


def scale_rest(out: NDArray[Any], desc: Descriptor, edge: Edge, beta: complex) -> None:
    """Multiply all of this rank's B outside the trapezoid by beta; what beta = 0 removes is not read. Not collective."""
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
            rest *= factor
