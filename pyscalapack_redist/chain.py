"""Chain: a redistribution in several legs, through layouts in between (`via=` of `redistribute`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .agreement import Ballot, Participants, digest
from .arrays import Arrays, checked_arrays, dtype_digest
from .direct import QUESTIONS, Redistribution
from .operation import Factors
from .report import Report

if TYPE_CHECKING:
    from .direct import Transfer

__all__ = ["Chain", "ChainReport"]


@dataclass(frozen=True)
class ChainReport:
    """The legs of one rank in figures, beside the direct way.

    Attributes
    ----------
    legs : tuple of Report
        One for each leg in which this rank takes part.
    direct : Report
        Moving every element once.
    between_bytes : int
        Local arrays of the layouts in between, beside the legs' own extra memory.
    """

    legs: tuple[Report, ...]
    direct: Report
    between_bytes: int

    @property
    def bytes_sent(self) -> int:
        """What goes to other ranks, in all legs."""
        return sum(leg.bytes_sent for leg in self.legs)

    @property
    def steps(self) -> int:
        """Steps in which this rank has a message, in all legs."""
        return sum(leg.steps for leg in self.legs)

    def __str__(self) -> str:
        lines = [f"{'':20}{'bytes sent':>16}{'messages sent':>16}{'steps':>8}"]
        for name, one in [*((f"leg {k}", leg) for k, leg in enumerate(self.legs)), ("direct", self.direct)]:
            lines.append(f"{name:20}{one.bytes_sent:16,}{one.sends:16,}{one.steps:8,}")
        lines.append(f"{'layouts in between':20}{self.between_bytes:16,} bytes")
        return "\n".join(lines)


class Chain(Redistribution):
    """A plan of several legs: `plan(a)` gives the local array of B, as any plan does.

    The local arrays of the layouts in between are made in each call, beside what `memory_limit` counts.
    """

    def __init__(self, direct: Redistribution, legs: Sequence[Redistribution], everyone: Participants) -> None:
        self.__dict__.update(direct.__dict__)
        self._direct = direct
        self._legs = tuple(legs)
        self._all: Participants = everyone
        self._ops: tuple[str, ...] = (direct.op,)
        self._identity = digest((direct._identity, *(leg.desc_a.layout_digest for leg in legs)))

    @property
    def legs(self) -> tuple[Redistribution, ...]:
        """The plans of the legs, in order."""
        return self._legs

    def report(self, dtype: DTypeLike | None = None) -> ChainReport:  # type: ignore[override]
        """Bytes and steps of each leg beside those of the direct way. Not collective."""
        item = np.dtype(dtype or self._dtype or np.float64).itemsize
        legs = tuple(leg.report(dtype or self._dtype) for leg in self._legs)
        held = sum(int(np.prod(one.desc_b.local_shape)) for one in self._legs[:-1]) * item
        return ChainReport(legs, self._direct.report(dtype), held)

    def __call__(
        self, a: NDArray[Any] | None = None, out: NDArray[Any] | None = None, *, alpha: complex = 1, beta: complex = 0
    ) -> NDArray[Any] | None:
        """Redistribute, leg by leg. Collective over the processes of all grids; arguments and errors as for a direct plan."""
        arrays = self._agreed(a, out, alpha, beta)
        dtype = self._all.share(arrays.dtype)
        target = out if isinstance(out, np.ndarray) else arrays.out
        if dtype is None or (arrays.in_place and alpha == 1 and beta == 0):
            return target if self.desc_b.coords is not None else None
        local = a
        *legs, last = self._with_leading_dimensions(dtype)
        for leg in legs:
            local = leg(local)
        return last(local, target, alpha=alpha, beta=beta)

    def start(
        self, a: NDArray[Any] | None = None, out: NDArray[Any] | None = None, *, alpha: complex = 1, beta: complex = 0
    ) -> Transfer:
        """Go all legs but the last, then start that. Collective, in the same order on all ranks."""
        arrays = self._agreed(a, out, alpha, beta)
        dtype = self._all.share(arrays.dtype)
        local, target = a, out if isinstance(out, np.ndarray) else arrays.out
        *legs, last = self._legs if dtype is None else self._with_leading_dimensions(dtype)
        for leg in legs:
            local = leg(local) if dtype is not None else None
        return last.start(local, target, alpha=alpha, beta=beta)

    def _with_leading_dimensions(self, dtype: np.dtype[Any]) -> list[Redistribution]:
        """The legs, for the arrays of A and B that the user has now: plans are kept, and those may differ in LLD."""
        legs = [leg._with(None, None, dtype) for leg in self._legs]
        legs[0] = legs[0]._with(self.desc_a, None, dtype)
        legs[-1] = legs[-1]._with(None, self.desc_b, dtype)
        return legs

    def _agreed(self, a: object, out: object, alpha: object, beta: object) -> Arrays:
        """The arrays, once all ranks have found theirs to fit: afterwards no leg fails on one rank alone."""
        arrays, error, factors = None, None, Factors()
        try:
            transposed = any(op != "N" for op in self._ops)
            factors = Factors.of(alpha, beta, self.op)
            arrays = checked_arrays(
                a, out, self.desc_a, self.desc_b, self._dtype, transposed, factors.beta != 0, self.part is not None
            )
            if arrays.dtype is not None:
                for op in self._ops:
                    Factors.of(alpha, beta, op).blend(arrays.dtype)
        except Exception as caught:
            error = caught
        dtype = arrays.dtype if arrays is not None else None
        opinions = [digest((self._identity, factors)), None if dtype is None else dtype_digest(dtype)]
        self._all.agree(Ballot(QUESTIONS), error, opinions, lambda: [f"{self!r} with {factors}", f"dtype {dtype}"])
        assert arrays is not None
        return arrays
