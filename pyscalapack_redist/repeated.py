"""Calls of a plan with arrays of one kind whose messages are kept ready (`exchanges.repeat`): as little as can be between the
call and the vote, and between the vote and the messages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._call import DISSENT
from .agreement import Participants
from .exchanges import Repeat

if TYPE_CHECKING:
    from .agreement import Ballot

__all__ = ["RepeatedCall"]


class Kind(NamedTuple):
    """What a kind of array has in common, and the bytes around its first element in which it lies."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]
    below: int
    above: int

    @classmethod
    def of(cls, array: NDArray[Any] | None) -> Kind | None:
        """The kind of an array; None without one. Not collective."""
        if array is None:
            return None
        reaches = [(n - 1) * stride for n, stride in zip(array.shape, array.strides, strict=True)]
        below, above = -sum(min(0, one) for one in reaches), sum(max(0, one) for one in reaches)
        return cls(array.shape, array.strides, array.dtype, below, above + array.itemsize)

    def has(self, array: object) -> bool:
        """Whether an array is of this kind. Not collective."""
        return (
            type(array) is np.ndarray
            and array.dtype is self.dtype
            and array.shape == self.shape
            and array.strides == self.strides
        )


class RepeatedCall:
    """Runs of one plan with arrays of one kind. It does what `_call.Call` does where all goes through shared memory.

    Parameters
    ----------
    repeat : Repeat
        What is moved.
    everyone : Participants
        The processes that vote.
    a, out : ndarray or None
        Arrays of that kind; None where this rank has none, or where `out` is to be made.
    make : callable or None
        Makes `out` where it is left out.
    ballot : Ballot
        The vote of a run with such arrays, concluded.
    failures : list of str
        The plan's: after the first it cannot be used any more.
    """

    def __init__(
        self,
        repeat: Repeat,
        everyone: Participants,
        a: NDArray[Any] | None,
        out: NDArray[Any] | None,
        make: Callable[[np.dtype[Any]], NDArray[Any]] | None,
        ballot: Ballot,
        failures: list[str],
    ) -> None:
        self._repeat, self._everyone, self._make, self._failures = repeat, everyone, make, failures
        self._a, self._out = Kind.of(a), Kind.of(out)
        self._mine, self._counted, expected = ballot.mine.copy(), ballot.all.copy(), ballot.all.copy()
        self._mine[-1] = expected[-1] = 0
        self._expected = expected.tobytes()
        self.outcome: list[int] = []

    def __call__(self, a: Any, out: Any) -> Any:
        """The local array of B; NotImplemented where the arrays are of another kind, DISSENT where the vote is another.

        In the last case nothing has moved, and `outcome` has what came of the vote.
        """
        if not _fits(self._a, a) or self._failures:
            return NotImplemented
        if out is None and self._out is not None and self._make is not None:
            out = self._make(self._out.dtype)
        if not _fits(self._out, out):
            return NotImplemented
        source = target = 0
        if self._a is not None:
            source = a.__array_interface__["data"][0]
        if self._out is not None:
            target = out.__array_interface__["data"][0]
            if not out.flags.writeable or (
                self._a is not None
                and source - self._a.below < target + self._out.above
                and target - self._out.below < source + self._a.above
            ):
                return NotImplemented
        everyone = self._everyone
        try:
            everyone.conclude(everyone.vote(self._mine, self._counted))
            if self._counted.tobytes() != self._expected:
                self.outcome = [*self._counted.tolist(), 0]
                return DISSENT
            self._repeat(source, target, everyone.look_around if everyone.watch is not None else None)
        except BaseException as caught:
            self._failures.append(f"{type(caught).__name__}: {caught}")
            raise
        return out


def _fits(kind: Kind | None, array: object) -> bool:
    return array is None if kind is None else kind.has(array)
