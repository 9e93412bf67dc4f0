"""A case of the command line: an array, its dtype, and its layouts before and after."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import DescriptorError
from ..layout.notation import LayoutText
from .layout_text import read_side
from .text import count_text


@dataclass(frozen=True)
class Case:
    """An array of a global shape and dtype that goes from one layout to another.

    Raises DescriptorError where the layouts are not of the array's number of dimensions, or a sub-array does not fit.
    """

    shape: tuple[int, ...]
    before: LayoutText
    after: LayoutText
    dtype: np.dtype[np.generic] = np.dtype(np.float64)  # noqa: RUF009 (a dtype is immutable)

    def __post_init__(self) -> None:
        for layout in (self.before, self.after):
            misfit = layout.misfit(self.shape)
            if misfit is not None:
                raise DescriptorError(misfit)
        if self.elements * self.dtype.itemsize >= 2**63:
            raise DescriptorError(
                f"{self.array} has 2^63 bytes or more, which 64 bits cannot count: take a smaller one"
            )

    @classmethod
    def read(cls, shape: tuple[int, ...], before: str, after: str, dtype: np.dtype[np.generic] | str = "f8") -> Case:
        """The case with its layouts in the notation of the command line."""
        return cls(shape, read_side(before), read_side(after), np.dtype(dtype))

    @property
    def tiled(self) -> str | None:
        """Name of an array whose layout is of tiles, "A" before or "B" after; None where there is none."""
        sides = {"A": self.before, "B": self.after}
        return next((name for name, side in sides.items() if side.tiled), None)

    @property
    def ranks(self) -> int:
        """Number of ranks of the case."""
        return max(self.before.end, self.after.end)

    @property
    def elements(self) -> int:
        """Number of elements that move."""
        return math.prod(self.shape)

    @property
    def local_elements(self) -> int:
        """Elements of a local array, the most of all processes and of both layouts."""
        return max(self.before.largest_part(self.shape), self.after.largest_part(self.shape))

    def to_dict(self) -> dict[str, Any]:
        """The values for JSON, in the files of all commands."""
        layouts = {"from": str(self.before), "to": str(self.after)}
        return {"shape": list(self.shape), **layouts, "dtype": str(self.dtype), "ranks": self.ranks}

    @property
    def array(self) -> str:
        """Shape and dtype in words."""
        return f"{' x '.join(map(str, self.shape))} {str(self.dtype).lstrip('|')}"

    def __str__(self) -> str:
        return f"{self.array}, {self.before} -> {self.after}, {count_text(self.ranks, 'rank')}"


def read_dtype(text: str) -> np.dtype[np.generic]:
    """The dtype of that name, if an array of it can be redistributed and checked byte by byte.

    Raises
    ------
    ValueError
        There is none, or its elements are Python objects or of no size.
    """
    try:
        dtype = np.dtype(text)
    except (TypeError, SyntaxError) as error:
        raise ValueError(f"{text!r} is not a NumPy dtype ({error}): give float64, complex64, int8, V24, ...") from None
    if dtype.hasobject or not dtype.itemsize or dtype.names or dtype.subdtype:
        raise ValueError(
            f"elements of {text!r} are Python objects, of no size, or records: give float64, complex64, int8, ..., or, for "
            "records of 24 bytes, V24"
        )
    return dtype
