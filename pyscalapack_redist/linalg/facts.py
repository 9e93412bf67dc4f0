"""What ranks know of the operands of a call, and what all know together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..comm.vote import digest
from ..errors import shown
from ..layout.array_arithmetic import Distributed, descriptor_of
from ..layout.descriptor import Descriptor
from .matrix_parts import bilinear_forms
from .random_vectors import VECTORS, gaussian
from .working_layouts import as_column

FORM_STREAMS = 11, 12  # of random vectors
LEAST_EXPONENT = -2000


class OperandFacts(NamedTuple):
    """What a rank knows of an operand: the letter of its dtype, and of its own elements the magnitude and `bilinear_forms`."""

    letter: str | None
    magnitude: float
    forms: Forms | None


class Forms(NamedTuple):
    """Bilinear forms with random vectors, divided by 2**exponent: by these an operand is known again where it has moved to."""

    values: NDArray[Any]
    exponent: int

    @classmethod
    def of(cls, operand: Distributed, part: str, exponent: int) -> Forms:
        """Those of the elements that this rank holds first."""
        if operand.local is None:
            return cls(np.zeros(VECTORS), LEAST_EXPONENT)
        shape = as_column(operand.desc).shape
        left, right = (gaussian(size, False, stream) for stream, size in zip(FORM_STREAMS, shape, strict=True))
        return cls(bilinear_forms(operand, part, left, right, exponent), exponent)

    @classmethod
    def sum(cls, forms: Sequence[Forms | None]) -> Forms | None:
        """The forms of all elements; None if a rank has none."""
        known = [each for each in forms if each is not None]
        if len(known) < len(forms):
            return None
        exponent = max(each.exponent for each in known)
        return cls(np.sum([each.values * 2.0 ** (each.exponent - exponent) for each in known], axis=0), exponent)


class Facts(NamedTuple):
    """What a rank knows of the operands of a call."""

    operands: list[OperandFacts]
    room: float  # bytes left on this rank beside all operands and results
    caches: int  # the version of the cache
    consumable: frozenset[str]  # operands whose memory may be given back as they move


class CombinedFacts(NamedTuple):
    """What all ranks know together: of each operand the letters, the largest magnitude and the forms; the least room.

    Each letter is with the first rank that has it.
    """

    letters: list[dict[str, int]]
    magnitudes: list[float]
    forms: list[Forms | None]
    room: float
    have_same_caches: bool
    consumable: frozenset[str]

    @classmethod
    def of(cls, replies: list[Facts]) -> CombinedFacts:
        """Combine what each rank knows."""
        by_operand = list(zip(*(facts.operands for facts in replies), strict=True))
        return cls(
            [
                {each.letter: rank for rank, each in reversed([*enumerate(ranks)]) if each.letter is not None}
                for ranks in by_operand
            ],
            [float(np.max([each.magnitude for each in ranks])) for ranks in by_operand],
            [Forms.sum([each.forms for each in ranks]) for ranks in by_operand],
            min(facts.room for facts in replies),
            len({facts.caches for facts in replies}) == 1,
            frozenset.intersection(*(facts.consumable for facts in replies)),
        )


def canonical_form(argument: Any) -> Any:
    """The part of an argument that must be equal on all ranks.

    Of a distributed array that is the layout. Equal numbers have one form, and so have sequences and arrays of equal numbers.
    """
    desc = descriptor_of(argument)
    if isinstance(desc, Descriptor):
        return desc.layout_digest
    array = np.asarray(argument)
    return (
        (array.shape, digest(array.astype(np.complex128).tobytes())) if array.dtype.kind in "biufc" else repr(argument)
    )


def describe(argument: Any) -> str:
    """An argument in the words of an error message."""
    desc = descriptor_of(argument)
    return repr(desc) if isinstance(desc, Descriptor) else shown(argument)
