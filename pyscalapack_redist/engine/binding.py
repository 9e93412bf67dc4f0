"""A plan bound to arrays: do they fit, what all arrays of their kind have in common, and what moves them."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._kernels.bundle import Origins
from ..comm.vote import digest
from ..errors import ArrayError, RedistributionError, ScheduleError
from ..exchanges import Exchange
from ..layout.descriptor import Descriptor
from ..layout.letters import conjugates, transposes
from .arrays import checked_arrays, dtype_digest
from .operation import Factors, scalar
from .overlap import check_apart
from .stages import Forms, Move, Pair, Stage

__all__ = [
    "BINDINGS_KEPT",
    "BY_COLUMNS",
    "BY_ROWS",
    "Binding",
    "Operands",
    "bound",
    "each",
    "factors_of",
    "listed",
    "operands",
]

BY_ROWS, BY_COLUMNS = 1, 2  # order of elements in messages
BINDINGS_KEPT = 8  # of a plan, one for each kind of arrays or pair of factors


class Operands(NamedTuple):
    """The arrays of one call on this rank.

    Attributes
    ----------
    given, outs : list
        As they were given, one entry for each pair.
    targets : list of ndarray or None
        `outs`, and what was made where it was left out.
    origins : Origins
        Where they begin.
    forms : Forms
        What arrays of this kind have in common, as far as this rank knows.
    dtypes : tuple of dtype or None
        Of each pair, None where this rank knows none.
    order : int or None
        The order of elements in messages that suits them; None where this rank has no arrays.
    factors : tuple of Factors
        Of each pair.
    """

    given: list[Any]
    outs: list[Any]
    targets: list[NDArray[Any] | None]
    origins: Origins
    forms: Forms
    dtypes: tuple[np.dtype[Any] | None, ...]
    order: int | None
    factors: tuple[Factors, ...]

    @property
    def plain(self) -> bool:
        """Whether elements are neither multiplied nor added to what is there."""
        return False not in [factor.trivial for factor in self.factors]

    @property
    def item(self) -> int:
        """Bytes of the largest element that this rank knows of."""
        items = self.forms.items
        return items[0] if len(items) == 1 else max(items, default=0)

    @property
    def kind(self) -> int:
        """A number equal on all ranks that know the same dtypes; of one pair, of its dtype. Not collective."""
        known = [None if dtype is None else dtype_digest(dtype) for dtype in self.dtypes]
        return digest(known)


class Binding(NamedTuple):
    """What moves arrays of one kind: the exchange of each stage, and the staging memory that a run takes for itself."""

    exchanges: tuple[Exchange, ...]
    order: int
    item: int
    private_bytes: int


def operands(
    pairs: Sequence[Pair], moves: Sequence[Move], arrays: list[Any], outs: list[Any], alpha: object, beta: object
) -> Operands:
    """Check all arrays of this rank, and make those left out. Not collective.

    Raises
    ------
    ArrayError, ScheduleError
        Names the array, and the plan where there are several.
    """
    n = len(pairs)
    alphas, betas = each("alpha", alpha, n), each("beta", beta, n)
    origins, factors, dtypes, targets = Origins(n), [], [], []
    strides: list[tuple[int, ...]] = []
    blends, stays, by_columns = [], [], []
    for k, pair in enumerate(pairs):
        desc_a, desc_b = pair[:2]
        assert isinstance(desc_a, Descriptor)
        assert isinstance(desc_b, Descriptor)
        try:
            own = [move for move in moves if move.pair == k] if n > 1 else moves
            transposed = True in [transposes(move.op) for move in own]
            both = Factors.of(alphas[k], betas[k], pair.op)
            checked = checked_arrays(
                arrays[k],
                outs[k],
                desc_a,
                desc_b,
                pair.dtype,
                transposed,
                both.beta != 0,
                pair.part is not None,
            )
            blend = {}
            if checked.dtype is not None:
                for move in own:
                    blend[move.op, move.last] = factors_of(both, move).blend(checked.dtype)
        except RedistributionError as caught:
            if n == 1:
                raise
            raise type(caught)(f"plan {k}: {caught}") from caught
        origins.put(k, checked.source.address, checked.target.address)
        (_, before), (_, after) = checked.source, checked.target
        strides += (before[::-1] if transposed else before, after)
        targets.append(outs[k] if isinstance(outs[k], np.ndarray) else checked.out)
        factors.append(both)
        dtypes.append(checked.dtype)
        blends.append(blend)
        stays.append(checked.in_place and not any(blend.values()))
        if before or after:
            by_columns.append(checked.by_columns)
    if n > 1:
        check_apart(pairs, arrays, outs)
    items = tuple([0 if dtype is None else dtype.itemsize for dtype in dtypes])
    forms = Forms(tuple(strides), items, tuple(blends), tuple(stays))
    order = None if not by_columns else BY_COLUMNS if True in by_columns else BY_ROWS
    return Operands(arrays, outs, targets, origins, forms, tuple(dtypes), order, tuple(factors))


def factors_of(both: Factors, move: Move) -> Factors:
    """What becomes of elements in one move of a pair: alpha and beta apply in its last. Not collective."""
    conjugate = conjugates(move.op)
    if not move.last:
        return Factors(1, 0, conjugate)
    return both if both.conjugate == conjugate else both._replace(conjugate=conjugate)


def bound(
    stages: Sequence[Stage], forms: Forms, order: int, item: int, memory_limit: int, factors: Sequence[Factors]
) -> Binding:
    """What moves such arrays. Not collective.

    Raises
    ------
    ArrayError
        The memory limit is too small for their elements.
    ScheduleError
        MPI's datatypes cannot do what is asked on the way.
    """
    exchanges = tuple([stage.bound(forms, order, item) for stage in stages])
    private = 0
    for exchange in exchanges:
        if exchange.buffers.name == "datatypes" and any(any(some.values()) for some in forms.blends):
            ways = [key[0] for some in forms.blends for key, blend in some.items() if blend]
            raise ScheduleError(
                f"{factors[0]}, op = {ways[0]}: with buffers = 'datatypes' MPI moves elements as they are; "
                "use buffers='packed'"
            )
        needed = exchange.staging_bytes
        if needed > memory_limit:
            what = (
                f"elements of {item} bytes"
                if len(forms.items) == 1
                else (f"a batch of {len(forms.items)} plans with such elements")
            )
            raise ArrayError(
                f"memory_limit = {memory_limit} bytes is too small for {what}: at least {needed} are needed"
            )
        private = max(private, exchange.private_bytes)
    return Binding(exchanges, order, item, private)


def each(name: str, value: object, n: int) -> list[Any]:
    """A factor for each pair. Not collective.

    Raises
    ------
    ArrayError
        It is neither a number nor a list of so many.
    """
    if n == 1 and not isinstance(value, list | tuple):
        return [value]
    if isinstance(scalar(value), numbers.Number):
        return [value] * n
    if not isinstance(value, list | tuple) or len(value) != n:
        raise ArrayError(f"{name} = {value!r} must be a number, or a list of {n} numbers, one for each plan")
    return list(value)


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
