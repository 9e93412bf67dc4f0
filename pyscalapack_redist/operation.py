"""What becomes of a matrix on the way: out = alpha * op(A) + beta * out."""

from __future__ import annotations

import functools
import numbers
from typing import Any, NamedTuple

import numpy as np

from ._copy import Blend
from .errors import ArrayError, DescriptorError

__all__ = ["OPERATIONS", "Factors", "checked_operation"]

OPERATIONS = {"N": "as it is", "T": "transposed", "C": "transposed and conjugated"}
BLENDED = "fdFD"


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
        for name, value in (("alpha", alpha), ("beta", beta)):
            if not isinstance(value, numbers.Number):
                raise ArrayError(f"{name} = {value!r} must be a number")
        return cls(complex(alpha), complex(beta), op == "C")  # type: ignore[call-overload]

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
                f"{self}{', op = C' if conjugate else ''} with dtype {dtype}: "
                "only float32, float64, complex64 and complex128 are multiplied on the way; convert the array"
            )
        if dtype.kind != "c" and (self.alpha.imag or self.beta.imag):
            raise ArrayError(
                f"alpha = {self.alpha}, beta = {self.beta} with dtype {dtype}: a complex factor needs a complex array"
            )
        return _blend(dtype.char, self.alpha, self.beta, conjugate)

    def __str__(self) -> str:
        return f"alpha = {_plain(self.alpha)}, beta = {_plain(self.beta)}"


def _plain(value: complex) -> complex:
    return value.real if not value.imag else value


@functools.lru_cache(maxsize=64)
def _blend(char: str, alpha: complex, beta: complex, conjugate: bool) -> Blend:
    return Blend(char, alpha, beta, conjugate)


def checked_operation(op: object) -> str:
    """One of OPERATIONS. Not collective.

    Raises
    ------
    DescriptorError
        It is not.
    """
    if not isinstance(op, str) or op not in OPERATIONS:
        names = ", ".join(f"{name!r} ({what})" for name, what in OPERATIONS.items())
        raise DescriptorError(f"op = {op!r} must be one of {names}")
    return op
