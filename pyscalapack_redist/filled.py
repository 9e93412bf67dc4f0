"""Filled: a redistribution of one trapezoid that writes the rest of B too (`fill=` of `redistribute`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .agreement import Participants, digest
from .chain import Chain, ChainReport
from .direct import Redistribution
from .operation import Edge, Part
from .report import Profile, Report

if TYPE_CHECKING:
    from .descriptor import Descriptor
    from .direct import Transfer

__all__ = ["Filled", "FilledReport"]


@dataclass(frozen=True)
class FilledReport:
    """The moves of one rank in figures.

    Attributes
    ----------
    moves : tuple of Report or ChainReport
        That of the trapezoid; and that of its mirror image, where there is one.
    """

    moves: tuple[Report | ChainReport, ...]

    @property
    def bytes_sent(self) -> int:
        """What goes to other ranks, in all moves."""
        return sum(one.bytes_sent for one in self.moves)

    def __str__(self) -> str:
        return "\n\n".join(
            f"{name}\n{one}" for name, one in zip(("the part", "its mirror image"), self.moves, strict=False)
        )


class Filled(Chain):
    """A plan that gives all of B: out = alpha * op(S) + beta * out, where S is A's trapezoid made whole.

    Parameters
    ----------
    moves : sequence of Redistribution
        That of the trapezoid; and one of the same trapezoid of A into the rest of B. Without the second one the rest of
        S is 0.
    everyone : Participants
        All that take part.
    """

    def __init__(self, moves: Sequence[Redistribution], everyone: Participants) -> None:
        super().__init__(moves[0], moves, everyone)
        self._ops = tuple(one.op for one in moves)
        self._identity = digest(("filled", *(one._identity for one in moves)))

    def report(self, dtype: DTypeLike | None = None) -> FilledReport:  # type: ignore[override]
        """Bytes and messages of each move. Not collective."""
        return FilledReport(tuple(one.report(dtype or self._dtype) for one in self._legs))

    def __call__(
        self, a: NDArray[Any] | None = None, out: NDArray[Any] | None = None, *, alpha: complex = 1, beta: complex = 0
    ) -> NDArray[Any] | None:
        """Redistribute and fill. Collective over the processes of all grids; arguments and errors as for a direct plan."""
        return self.start(a, out, alpha=alpha, beta=beta).wait()

    def start(
        self, a: NDArray[Any] | None = None, out: NDArray[Any] | None = None, *, alpha: complex = 1, beta: complex = 0
    ) -> Transfer:
        """Do all but the last move, then start that. Collective, in the same order on all ranks."""
        arrays = self._agreed(a, out, alpha, beta)
        dtype = self._all.share(arrays.dtype)
        target = out if isinstance(out, np.ndarray) else arrays.out
        moves = self._legs if dtype is None else [one._with(self.desc_a, self.desc_b, dtype) for one in self._legs]
        self._scale_rest(out, beta)
        if dtype is not None:
            for one in moves[:-1]:
                one(a, target, alpha=alpha, beta=beta)
        return moves[-1].start(a, target, alpha=alpha, beta=beta)

    def profile(self, a: NDArray[Any] | None = None, out: NDArray[Any] | None = None) -> Profile:
        """Redistribute, and say where the time of the moves went on this rank. Collective; as for a direct plan."""
        arrays = self._agreed(a, out, 1, 0)
        dtype = self._all.share(arrays.dtype)
        target = out if isinstance(out, np.ndarray) else arrays.out
        self._scale_rest(out, 0)
        found = [one._with(self.desc_a, self.desc_b, dtype).profile(a, target).seconds for one in self._legs]
        return Profile({part: sum(one[part] for one in found) for part in found[0]})

    def _scale_rest(self, out: object, beta: complex) -> None:
        if (
            len(self._legs) == 1
            and isinstance(out, np.ndarray)
            and self.desc_b.coords is not None
            and self.part is not None
        ):
            _scale_rest(out, self.desc_b, self.part.moved(self.op).edge(self.desc_b.shape), beta)


def second_move(fill: str, op: str, part: Part) -> tuple[str, Part] | None:
    """Operation and part of A for the rest of B; None where that is 0. Not collective.

    The other triangle of op(S) is op'(A's triangle): for a symmetric S it is transposed if op is not, and the other way.
    """
    if fill == "zero":
        return None
    mirrored = {"symmetric": "T", "hermitian": "C"}[fill]
    return (mirrored if op == "N" else "N"), Part(part.uplo, "U")


def _scale_rest(out: NDArray[Any], desc: Descriptor, edge: Edge, beta: complex) -> None:
    """Multiply all of B outside the trapezoid by beta; what beta = 0 removes is not read."""
    rows, columns = (desc.global_indices(k) for k in range(2))
    assert desc.coords is not None
    first = [one.local_start(p) for one, p in zip(desc.distributions, desc.coords, strict=True)]
    window = out[first[0] : first[0] + len(rows), first[1] : first[1] + len(columns)]
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
