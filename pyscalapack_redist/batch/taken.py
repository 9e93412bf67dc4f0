"""The arrays that a batch is called with: do they fit, one by one and beside each other."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._bundle import Origins
from ..arrays import Arrays, checked_arrays
from ..direct import Redistribution
from ..errors import ArrayError, RedistributionError
from ..operation import Factors
from .apart import check_apart
from .moves import Pair, moves_of

__all__ = ["Taken", "checked", "listed"]


class Taken(NamedTuple):
    """The arrays of one call on this rank.

    Attributes
    ----------
    arrays, outs : list
        As they were given, one entry for each plan.
    targets : list of ndarray or None
        `outs`, and what was made where it was left out.
    origins : Origins
        Where they begin.
    arrays_checked : sequence of (Arrays, Pair)
        What was found of each pair; empty where all are of the kind of the last ones.
    factors : sequence of (complex, complex)
        alpha and beta of each plan; empty where all are 1 and 0.
    """

    arrays: list[Any]
    outs: list[Any]
    targets: list[NDArray[Any] | None]
    origins: Origins
    arrays_checked: Sequence[tuple[Arrays, Pair]]
    factors: Sequence[tuple[complex, complex]]

    @property
    def plain(self) -> bool:
        """Whether elements only move."""
        return not self.factors


def checked(plans: Sequence[Redistribution], arrays: object, outs: object, alpha: object, beta: object) -> Taken:
    """Check all arrays of this rank, make those left out, and see that they lie apart. Not collective.

    Raises
    ------
    ArrayError
        Names the plan and its array.
    """
    n = len(plans)
    given, into = listed("arrays", arrays, n), listed("outs", outs, n)
    alphas, betas = _each("alpha", alpha, n), _each("beta", beta, n)
    origins, targets, found, factors = Origins(n), [], [], []
    for k, plan in enumerate(plans):
        try:
            both = Factors.of(alphas[k], betas[k], plan.op)
            one, pair = _checked(plan, given[k], into[k], both)
        except RedistributionError as caught:
            raise type(caught)(f"plan {k}: {caught}") from caught
        origins.put(k, one.source.address, one.target.address)
        targets.append(into[k] if isinstance(into[k], np.ndarray) else one.out)
        found.append((one, pair))
        factors.append((both.alpha, both.beta))
    check_apart(plans, given, into)
    return Taken(given, into, targets, origins, found, factors if any(one != (1, 0) for one in factors) else ())


def listed(name: str, arrays: object, n: int) -> list[Any]:
    """One array, or None, for each of `n` plans. Not collective.

    Raises
    ------
    ArrayError
        It is not a list of so many.
    """
    if arrays is None:
        return [None] * n
    if not isinstance(arrays, list | tuple):
        raise ArrayError(
            f"{name} is a {type(arrays).__name__}: it must be a list, with an array or None for each of {n} plans"
        )
    if len(arrays) != n:
        raise ArrayError(
            f"{name} has {len(arrays)} entries: it must have one for each of {n} plans, None where there is none"
        )
    return list(arrays)


def _each(name: str, value: object, n: int) -> list[Any]:
    """A factor for each plan."""
    if isinstance(value, numbers.Number):
        return [value] * n
    if not isinstance(value, list | tuple) or len(value) != n:
        raise ArrayError(f"{name} = {value!r} must be a number, or a list of {n} numbers, one for each plan")
    return list(value)


def _checked(plan: Redistribution, a: object, out: object, factors: Factors) -> tuple[Arrays, Pair]:
    moves = moves_of(plan)
    transposed = any(move.op != "N" for move in moves)
    one = checked_arrays(
        a, out, plan.desc_a, plan.desc_b, plan._dtype, transposed, factors.beta != 0, plan.part is not None
    )
    if one.dtype is None:
        return one, Pair((), (), 0, one.by_columns, (None,) * len(moves), True)
    blends = tuple(Factors.of(factors.alpha, factors.beta, move.op).blend(one.dtype) for move in moves)
    source = one.source.strides[::-1] if transposed else one.source.strides
    stays = one.in_place and not any(blends)
    return one, Pair(source, one.target.strides, one.dtype.itemsize, one.by_columns, blends, stays)
