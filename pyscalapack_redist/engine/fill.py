"""What `fill=` of `redistribute` writes outside the trapezoid that moves: 0, or the mirror image, which is a second move."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..layout.descriptor import Descriptor
from ..layout.dimensions import local_part
from ..layout.letters import combined
from .operation import Edge, Part

__all__ = ["scale_rest", "second_move"]


def second_move(fill: str, op: str, part: Part) -> tuple[str, Part] | None:
    """Operation and part of A for the rest of B; None where that is 0. Not collective.

    The other triangle of op(S) is op of the mirror image, which is A's triangle transposed, or conjugated as well.
    """
    if fill == "zero":
        return None
    mirrored = {"symmetric": "T", "hermitian": "C"}[fill]
    return combined(mirrored, op), Part(part.uplo, "U")


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
