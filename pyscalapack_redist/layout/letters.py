"""The letters of BLAS and ScaLAPACK that say what becomes of a matrix, or what is asked of it. Either case is understood."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import DescriptorError

# "R" as in mkl_?omatcopy, MKL's extension of BLAS.
TRANSPOSES = {"N": "as it is", "T": "transposed", "C": "transposed and conjugated"}
OPERATIONS = {**TRANSPOSES, "R": "conjugated, not transposed"}
TRIANGLES = {"U": "upper", "L": "lower"}
DIAGONALS = {"N": "with the diagonal", "U": "without it"}
NORMS = {"M": "the largest absolute value", "1": "of the columns", "I": "of the rows", "F": "Frobenius's"}


def letter_of(name: str, value: object, known: Mapping[str, str]) -> str:
    """The letter in upper case. Not collective.

    Raises
    ------
    DescriptorError
        It is none of those that are known.
    """
    if not isinstance(value, str) or value.upper() not in known:
        names = ", ".join(f"{letter!r} ({what})" for letter, what in known.items())
        raise DescriptorError(f"{name} = {value!r} must be one of {names}")
    return value.upper()


def transposes(op: str) -> bool:
    """Whether an operation exchanges rows and columns. Not collective."""
    return op in ("T", "C")


def conjugates(op: str) -> bool:
    """Whether an operation conjugates. Not collective."""
    return op in ("C", "R")


def combined(first: str, second: str) -> str:
    """The operation that two are, one after the other. Not collective."""
    turned, conjugated = transposes(first) != transposes(second), conjugates(first) != conjugates(second)
    return "NTRC"[turned + 2 * conjugated]
