"""The letter arguments of BLAS and ScaLAPACK, such as `op` and `uplo`, and of NumPy, in upper or lower case."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import DescriptorError

# "R" as in mkl_?omatcopy, MKL's extension of BLAS.
TRANSPOSES = {"N": "as it is", "T": "transposed", "C": "transposed and conjugated"}
OPERATIONS = {**TRANSPOSES, "R": "conjugated, not transposed"}
TRIANGLES = {"U": "upper", "L": "lower"}
DIAGONALS = {"N": "with the diagonal", "U": "without it"}
SIDES = {"L": "from the left", "R": "from the right"}
FACTORS = {"Q": "Q", "P": "P"}  # of a reduction to bidiagonal form, Q B P^H
ADJOINTS = {"N": "as it is", "C": "transposed and conjugated"}
ORDERS = {"C": "the last dimension runs fastest", "F": "the first", "K": "as in the source"}
NORMS = {"M": "the largest absolute value", "1": "of the columns", "I": "of the rows", "F": "Frobenius's"}


def letter_of(name: str, value: object, letters: Mapping[str, str]) -> str:
    """The letter in upper case.

    Raises
    ------
    DescriptorError
        `value` is not a key of `letters`.
    """
    if not isinstance(value, str) or value.upper() not in letters:
        names = ", ".join(f"{letter!r} ({meaning})" for letter, meaning in letters.items())
        raise DescriptorError(f"{name} = {value!r} must be one of {names}")
    return value.upper()


def transposes(op: str) -> bool:
    """Whether an operation exchanges rows and columns."""
    return op in ("T", "C")


def conjugates(op: str) -> bool:
    """Whether an operation conjugates."""
    return op in ("C", "R")


def combine(first: str, second: str) -> str:
    """The operation that is equal to `first`, then `second`."""
    transposed, conjugated = transposes(first) != transposes(second), conjugates(first) != conjugates(second)
    return "NTRC"[transposed + 2 * conjugated]
