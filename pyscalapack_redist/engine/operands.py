"""The local arrays of one use of a plan: checked before the use, and returned afterwards."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._kernels.boxes import Blend
from .._kernels.bundle import Origins
from ..errors import ArrayError, RedistributionError
from ..layout.descriptor import Descriptor
from ..layout.letters import transposes
from .bound import ZERO, Operands, blend_of, factors_key
from .bounds import Bounds
from .local_arrays import (
    BY_COLUMNS,
    BY_ROWS,
    NOTHING,
    Arrays,
    ByteRange,
    check_arrays,
    find_overlaps,
    share_elements,
    window,
)
from .operation import Factors, check_summed, scalar, scale_rest
from .plan import Plan
from .room import require_room
from .stages import ArrayKind, Blending, Move, Pair


def check_apart(pairs: Sequence[Pair], arrays: Sequence[object], outs: Sequence[object]) -> None:
    """Raise an error if arrays of different plans share elements, and one of the arrays is written.

    The moves of a batch go in any order. The arrays of one plan have been checked. Disjoint windows of one array are allowed,
    and two triangles of one window on different sides of the diagonal.

    Raises
    ------
    ArrayError
        The message names both arrays.
    """
    ranges = [
        ByteRange.of((k, name), array, name == "out")
        for k in range(len(pairs))
        for name, array in (("a", arrays[k]), ("out", outs[k]))
        if isinstance(array, np.ndarray) and array.size
    ]
    for x, y in find_overlaps(ranges):
        if x.key[0] != y.key[0] and _share(pairs, x, y):
            (plan, name), (other, other_name) = sorted((x.key, y.key))
            raise ArrayError(
                f"{name} of plan {plan} and {other_name} of plan {other} share elements, but the moves of a batch go in any "
                "order: give each an array of its own, or call the plans one after another"
            )


def _share(pairs: Sequence[Pair], x: ByteRange, y: ByteRange) -> bool:
    """Whether the parts of two arrays that move share an element, and are not two triangles."""
    pair, other = pairs[x.key[0]], pairs[y.key[0]]
    first = window(x.array, pair.desc_b if x.written else pair.desc_a)
    second = window(y.array, other.desc_b if y.written else other.desc_a)
    if not share_elements(first, second):
        return False
    return not (x.written and y.written and _on_two_sides(pair, other, first, second))


def _on_two_sides(pair: Pair, other: Pair, first: NDArray[Any], second: NDArray[Any]) -> bool:
    """Whether two plans write triangles of one window that have no diagonal in common."""
    same = first.__array_interface__["data"] == second.__array_interface__["data"] and first.strides == second.strides
    if not same or pair.desc_b != other.desc_b or pair.part is None or other.part is None or pair.fill or other.fill:
        return False
    (upper, low), (lower, high) = sorted(
        (each.part.after_op(each.op).edge(each.desc_b.shape) for each in (pair, other) if each.part is not None),
        reverse=True,
    )
    return upper and not lower and high < low


def list_arrays(plan: Plan, a: Any, out: Any) -> tuple[list[Any], list[Any]]:
    """One array, or None, for each pair.

    Raises
    ------
    ArrayError
        An argument is not a list of that length.
    """
    n = len(plan.pairs)
    return (check_list("arrays", a, n), check_list("outs", out, n)) if plan.is_batch else ([a], [out])


def prepare_operands(bounds: Bounds, a: Any, out: Any, alpha: object, beta: object) -> Operands:
    """Check this rank's arrays for one use of a plan, and make the omitted ones.

    Raises
    ------
    ArrayError, ScheduleError
        The message names the array, and in a batch the plan.
    """
    plan = bounds.plan
    inputs, outs = list_arrays(plan, a, out)
    alike = bounds.by_factors.get(factors_key(alpha, beta), ())
    for bound in alike:
        match = None if bound.kinds is None else bound.kinds.match(inputs, outs)
        if match is not None:
            like = bound.operands
            return Operands(inputs, outs, match[0], match[1], like.kind, like.dtypes, like.element_order, like.factors)
    require_room(plan.new_elements, plan.pairs, inputs, outs)
    disjoint = next((bound.operands.disjoint_arrays for bound in alike), None)
    operands, checked = check_operands(plan.pairs, plan.moves, inputs, outs, alpha, beta, disjoint)
    return operands._replace(disjoint_arrays=checked._replace(out=None)) if plan.has_tiles else operands


def check_operands(
    pairs: Sequence[Pair],
    moves: Sequence[Move],
    arrays: list[Any],
    outs: list[Any],
    alpha: object,
    beta: object,
    disjoint_arrays: Arrays | None = None,
) -> tuple[Operands, Arrays]:
    """Check all arrays of this rank, and make the omitted ones.

    Returns
    -------
    Operands
        The arrays.
    Arrays
        The arrays of the last pair, for `disjoint_arrays` of the next call.

    Raises
    ------
    ArrayError, ScheduleError
        The message names the array, and in a batch the plan.
    """
    n = len(pairs)
    alphas, betas = list_factors("alpha", alpha, n), list_factors("beta", beta, n)
    numbered = moves[0].arrays  # the pairs of local arrays that boxes belong to
    origins, factors, dtypes, targets = Origins(max(n, len(numbered))), [], [], []
    strides: list[tuple[int, ...]] = []
    blends, unchanged, orders = [], [], []
    for k, pair in enumerate(pairs):
        try:
            pair_moves = [move for move in moves if move.pair == k] if n > 1 else moves
            transposed = True in [transposes(move.op) for move in pair_moves]
            pair_factors = Factors.of(alphas[k], betas[k], pair.op)
            adds = pair_factors.beta != 0
            checked = check_arrays(arrays[k], outs[k], pair, transposed, adds, disjoint_arrays)
            blend: dict[Blending, Blend | None] = {}
            if pair.reduce is not None:
                check_sum(checked)
            if checked.dtype is not None:
                for move in pair_moves:
                    blend[move.blending] = blend_of(pair_factors, move, checked.dtype)
        except RedistributionError as caught:
            if n == 1:
                raise
            raise type(caught)(f"plan {k}: {caught}") from caught
        if pair.desc_a.is_product and pair.desc_b.is_product:
            (source,), (target,) = checked[:2]
            origins.put(k, source.address, target.address)
            strides += (source.strides, target.strides)
        else:
            places = [*checked.sources, *checked.targets, NOTHING]  # -1 is the last
            for number, (x, y) in enumerate(numbered):
                origins.put(number, places[x].address, places[y].address)
            strides += [place.strides for place in places[:-1]]
        targets.append(checked.out)
        factors.append(pair_factors)
        dtypes.append(checked.dtype)
        blends.append(blend)
        unchanged.append(checked.in_place and not any(blend.values()))
        orders.append(checked.order)
    if n > 1:
        check_apart(pairs, arrays, outs)
    items = tuple([0 if dtype is None else dtype.itemsize for dtype in dtypes])
    kind = ArrayKind(tuple(strides), items, tuple(blends), tuple(unchanged))
    element_order = BY_COLUMNS if BY_COLUMNS in orders else BY_ROWS if BY_ROWS in orders else None
    return Operands(arrays, outs, targets, origins, kind, tuple(dtypes), element_order, tuple(factors)), checked


def check_sum(checked: Arrays) -> None:
    """Raise an ArrayError for arrays whose elements are not added, or that would lose summands before they have been read."""
    if checked.dtype is not None:
        check_summed(checked.dtype)
    if checked.in_place:
        raise ArrayError(
            "out is a, with reduce = 'sum': a rank's summand is read after elements of the sum have been written; omit out, or "
            "give another array"
        )


def list_factors(name: str, value: object, n: int) -> list[Any]:
    """A factor for each pair.

    Raises
    ------
    ArrayError
        The value is neither a number nor a list of `n` numbers.
    """
    if n == 1 and not isinstance(value, list | tuple):
        return [value]
    if isinstance(scalar(value), numbers.Number):
        return [value] * n
    if not isinstance(value, list | tuple) or len(value) != n:
        raise ArrayError(f"{name} = {value!r} must be a number, or a list of {n} numbers, one for each plan")
    return list(value)


def check_list(name: str, arrays: object, n: int) -> list[Any]:
    """One array, or None, for each of `n` plans.

    Raises
    ------
    ArrayError
        The argument is not a list of `n` arrays.
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


PLAIN_TYPES = frozenset({np.ndarray, type(None)})


def any_wrapped(arrays: Iterable[object]) -> bool:
    """Whether an array is neither None nor of NumPy's own class."""
    return not PLAIN_TYPES.issuperset(map(type, arrays))


def finish_call(plan: Plan, a: Any, out: Any, targets: Any, alpha: Any, beta: Any) -> Any:
    """The result of a compiled call."""
    factors = () if beta is ZERO else [Factors.of(alpha, beta, pair.op) for pair in plan.pairs]
    return finish_result(plan, list_arrays(plan, a, out)[1], targets if plan.is_batch else [targets], factors)


def finish_result(plan: Plan, outs: Sequence[Any], targets: Sequence[Any], factors: Sequence[Factors]) -> Any:
    """The result of a use whose elements have moved; the rest of B is scaled or zeroed."""
    results = []
    for k, (pair, target) in enumerate(zip(plan.pairs, targets, strict=True)):
        desc = pair.desc_b
        if pair.fill == "zero" and pair.part is not None and isinstance(outs[k], np.ndarray):
            assert isinstance(desc, Descriptor)
            edge = pair.part.after_op(pair.op).edge(desc.shape)
            scale_rest(outs[k], desc, edge, factors[k].beta if factors else 0)
        results.append(target if desc._has_local else None)
    return results if plan.is_batch else results[0]


def find_wrapped(plan: Plan, a: Any, out: Any) -> tuple[list[Any], list[Any]] | None:
    """The inputs and outs if any is no NumPy array, else None. Errors are ignored here; `prepare_operands` reports them."""
    if not plan.is_batch:
        return None if type(a) in PLAIN_TYPES and type(out) in PLAIN_TYPES else ([a], [out])
    try:
        inputs, outs = list_arrays(plan, a, out)
    except ArrayError:
        return None
    return (inputs, outs) if any_wrapped((*inputs, *outs)) else None
