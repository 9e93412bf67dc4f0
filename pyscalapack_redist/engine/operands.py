"""The arrays of one use of a plan, checked, and what moves arrays of their kind."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._kernels.bundle import Origins
from ..errors import ArrayError, RedistributionError, ScheduleError
from ..exchanges import Exchange
from ..layout.letters import conjugates, transposes
from .arrays import BY_COLUMNS, BY_ROWS, NOTHING, Arrays, Span, checked_arrays, overlapping, share_elements, window
from .operation import Factors, scalar
from .stages import Forms, Move, Pair, Stage

__all__ = [
    "BINDINGS_KEPT",
    "Binding",
    "Operands",
    "bound",
    "check_apart",
    "each",
    "factors_of",
    "listed",
    "operands",
]

BINDINGS_KEPT = 8  # of a plan, one for each kind of arrays or pair of factors


def check_apart(pairs: Sequence[Pair], arrays: Sequence[object], outs: Sequence[object]) -> None:
    """Refuse arrays of different plans that share elements, if one is written. Not collective.

    The moves of a batch go in any order, so what one writes no other may read or write. Each pair of a plan's own arrays fits
    already. Windows of one array that do not overlap are fine, and so are two parts of one window on different sides of the
    diagonal.

    Raises
    ------
    ArrayError
        Names both arrays.
    """
    spans = [
        Span.of((k, name), array, name == "out")
        for k in range(len(pairs))
        for name, array in (("a", arrays[k]), ("out", outs[k]))
        if isinstance(array, np.ndarray) and array.size
    ]
    for x, y in overlapping(spans):
        if x.key[0] != y.key[0] and _share(pairs, x, y):
            (plan, name), (other, other_name) = sorted((x.key, y.key))
            raise ArrayError(
                f"{name} of plan {plan} and {other_name} of plan {other} share elements, but the moves of a batch go in any "
                "order: give each an array of its own, or call the plans one after another"
            )


def _share(pairs: Sequence[Pair], x: Span, y: Span) -> bool:
    """Whether an element of both arrays is read or written."""
    pair, other = pairs[x.key[0]], pairs[y.key[0]]
    first = window(x.array, pair.desc_b if x.written else pair.desc_a)
    second = window(y.array, other.desc_b if y.written else other.desc_a)
    if not share_elements(first, second):
        return False
    return not (x.written and y.written and _on_two_sides(pair, other, first, second))


def _on_two_sides(pair: Pair, other: Pair, first: NDArray[Any], second: NDArray[Any]) -> bool:
    """Whether two plans write parts of one window that have no diagonal in common."""
    same = first.__array_interface__["data"] == second.__array_interface__["data"] and first.strides == second.strides
    if not same or pair.desc_b != other.desc_b or pair.part is None or other.part is None or pair.fill or other.fill:
        return False
    (upper, low), (lower, high) = sorted(
        (each.part.moved(each.op).edge(each.desc_b.shape) for each in (pair, other) if each.part is not None),
        reverse=True,
    )
    return upper and not lower and high < low


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


class Binding(NamedTuple):
    """What moves arrays of one kind: the exchange of each stage, and the staging memory that a run takes for itself."""

    exchanges: tuple[Exchange, ...]
    order: int
    item: int
    private_bytes: int


def operands(
    pairs: Sequence[Pair],
    moves: Sequence[Move],
    arrays: list[Any],
    outs: list[Any],
    alpha: object,
    beta: object,
    apart: Arrays | None = None,
) -> tuple[Operands, Arrays]:
    """Check all arrays of this rank, and make those left out. Not collective.

    Returns
    -------
    Operands
        The arrays.
    Arrays
        Those of the last pair, for `apart` of the next call.

    Raises
    ------
    ArrayError, ScheduleError
        Names the array, and the plan where there are several.
    """
    n = len(pairs)
    alphas, betas = each("alpha", alpha, n), each("beta", beta, n)
    numbered = moves[0].arrays  # of several local arrays, those that boxes are between
    origins, factors, dtypes, targets = Origins(max(n, len(numbered))), [], [], []
    strides: list[tuple[int, ...]] = []
    blends, stays, orders = [], [], []
    for k, pair in enumerate(pairs):
        try:
            own = [move for move in moves if move.pair == k] if n > 1 else moves
            transposed = True in [transposes(move.op) for move in own]
            both = Factors.of(alphas[k], betas[k], pair.op)
            adds, zeroed = both.beta != 0, pair.part is not None
            checked = checked_arrays(arrays[k], outs[k], *pair[:3], transposed, adds, zeroed, apart)
            blend = {}
            if checked.dtype is not None:
                for move in own:
                    blend[move.op, move.last] = factors_of(both, move).blend(checked.dtype)
        except RedistributionError as caught:
            if n == 1:
                raise
            raise type(caught)(f"plan {k}: {caught}") from caught
        places = [*checked.sources, *checked.targets]
        single = pair.desc_a.is_product and pair.desc_b.is_product
        for number, (x, y) in [(k, (0, 1))] if single else enumerate(numbered):
            ends = [places[i] if i >= 0 else NOTHING for i in (x, y)]
            origins.put(number, ends[0].address, ends[1].address)
        strides += [place.strides for place in places]
        targets.append(checked.out)
        factors.append(both)
        dtypes.append(checked.dtype)
        blends.append(blend)
        stays.append(checked.in_place and not any(blend.values()))
        orders.append(checked.order)
    if n > 1:
        check_apart(pairs, arrays, outs)
    items = tuple([0 if dtype is None else dtype.itemsize for dtype in dtypes])
    forms = Forms(tuple(strides), items, tuple(blends), tuple(stays))
    order = next((some for some in (BY_COLUMNS, BY_ROWS) if some in orders), None)
    return Operands(arrays, outs, targets, origins, forms, tuple(dtypes), order, tuple(factors)), checked


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
