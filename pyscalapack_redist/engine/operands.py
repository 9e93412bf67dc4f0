"""The arrays of one use of a plan, checked, and what moves arrays of their kind.

Whether the arrays of a batch overlap: its moves go in any order, so what one writes no other may read or write.

A plan bound to arrays: do they fit, what all arrays of their kind have in common, and what moves them.

The local arrays of one use of a plan with tiles: do they fit, and what the kernels need to know of them.
"""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._kernels.bundle import Origins, address_of
from ..comm.vote import digest
from ..errors import ArrayError, RedistributionError, ScheduleError
from ..exchanges import Exchange
from ..layout.descriptor import Descriptor
from ..layout.dimensions import local_part
from ..layout.distributed import fitted
from ..layout.letters import conjugates, transposes
from ..layout.tiles import Tiles
from .arrays import (
    LocalArray,
    by_columns,
    check_dtype,
    check_target,
    checked_arrays,
    dtype_digest,
    local_array,
    made_for,
)
from .layouts import Layout
from .operation import Factors, scalar
from .stages import Forms, Move, Pair, Stage

__all__ = [
    "BINDINGS_KEPT",
    "BY_COLUMNS",
    "BY_ROWS",
    "Binding",
    "Kept",
    "Operands",
    "bound",
    "check_apart",
    "check_tiles_apart",
    "each",
    "factors_of",
    "listed",
    "operands",
    "operands_of_tiles",
]

WORK = 100_000  # steps of NumPy's search for an element that two arrays share


class _Array(NamedTuple):
    plan: int
    name: str
    array: NDArray[Any]
    first: int
    last: int


def check_apart(pairs: Sequence[Pair], arrays: Sequence[object], outs: Sequence[object]) -> None:
    """Refuse arrays of different plans that share elements, if one is written. Not collective.

    Each pair of a plan's own arrays fits already. Windows of one array that do not overlap are fine, and so are two
    parts of one window on different sides of the diagonal.

    Raises
    ------
    ArrayError
        Names both arrays.
    """
    found = sorted(
        (
            _array(k, name, array)
            for k in range(len(pairs))
            for name, array in (("a", arrays[k]), ("out", outs[k]))
            if isinstance(array, np.ndarray) and array.size
        ),
        key=lambda array: array.first,
    )
    open_: list[_Array] = []
    for array in found:
        open_ = [other for other in open_ if other.last > array.first]
        for other in open_:
            if "out" in (array.name, other.name) and array.plan != other.plan and _share(pairs, array, other):
                first, second = sorted((array, other), key=lambda each: (each.plan, each.name))
                raise ArrayError(
                    f"{first.name} of plan {first.plan} and {second.name} of plan {second.plan} share elements, but the moves "
                    "of a batch go in any order: give each an array of its own, or call the plans one after another"
                )
        open_.append(array)


def check_tiles_apart(
    pair: Pair, sources: Sequence[tuple[str, NDArray[Any]]], targets: Sequence[tuple[str, NDArray[Any]]]
) -> None:
    """Refuse local arrays of a rank that share elements, if one is written. Not collective.

    Their lines are sorted by address; only where these overlap, which those of a strided array may without sharing an
    element, pairs of arrays are looked at.

    Raises
    ------
    ArrayError
        Names both arrays.
    """
    windows = [(name, _window(array, pair.desc_a), False) for name, array in sources]
    windows += [(name, _window(array, pair.desc_b), True) for name, array in targets]
    windows = [window for window in windows if window[1].size]
    if not windows or _lines_apart([_lines(array) for _, array, _ in windows], [written for *_, written in windows]):
        return
    open_: list[_Array] = []
    for array in sorted(
        (_array(k, name, array) for k, (name, array, _) in enumerate(windows)), key=lambda array: array.first
    ):
        open_ = [other for other in open_ if other.last > array.first]
        for other in open_:
            if (windows[array.plan][2] or windows[other.plan][2]) and _meet(array.array, other.array):
                first, second = sorted((array, other), key=lambda each: each.plan)
                names = first.name if first.name == second.name else f"{first.name} and {second.name}"
                raise ArrayError(f"{names} share elements: give each tile memory of its own")
        open_.append(array)


def _meet(x: NDArray[Any], y: NDArray[Any]) -> bool:
    """Whether two arrays share an element; True also where that would take too long to find out."""
    try:
        return np.shares_memory(x, y, max_work=WORK)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def _lines(array: NDArray[Any]) -> NDArray[np.int64]:
    """First byte, and that behind the last, of each line along the smaller stride; of a contiguous array, of all of it."""
    start: int = address_of(array)
    if array.flags.forc:
        return np.array([[start], [start + array.nbytes]])
    (short, inner), (_, outer) = sorted(zip(map(abs, array.strides), range(2), strict=True))
    reach = (array.shape[inner] - 1) * array.strides[inner]
    first = start + min(0, reach) + array.strides[outer] * np.arange(array.shape[outer])
    return np.array([first, first + short * (array.shape[inner] - 1) + array.itemsize])


def _lines_apart(lines: Sequence[NDArray[np.int64]], written: Sequence[bool]) -> bool:
    """Whether no line that is written overlaps any other."""
    first, last = np.concatenate(lines, axis=1)
    writes = np.repeat(written, [some.shape[1] for some in lines])
    order = np.argsort(first, kind="stable")
    first, last, writes = first[order], last[order], writes[order]
    reached = np.maximum.accumulate(last)[:-1]
    reached_written = np.maximum.accumulate(np.where(writes, last, 0))[:-1]
    return not (first[1:] < np.where(writes[1:], reached, reached_written)).any()


def _array(plan: int, name: str, array: NDArray[Any]) -> _Array:
    start: int = address_of(array)
    reach = [(n - 1) * stride for n, stride in zip(array.shape, array.strides, strict=True)]
    return _Array(
        plan,
        name,
        array,
        start + sum(extent for extent in reach if extent < 0),
        start + sum(extent for extent in reach if extent > 0) + array.itemsize,
    )


def _share(pairs: Sequence[Pair], array: _Array, other: _Array) -> bool:
    """Whether an element of both arrays is read or written."""
    windows = [_window(each.array, _layout(pairs[each.plan], each.name)) for each in (array, other)]
    if not _meet(*windows):
        return False
    return not (array.name == other.name and _on_two_sides(pairs[array.plan], pairs[other.plan], windows))


def _layout(pair: Pair, name: str) -> Layout:
    return pair.desc_a if name == "a" else pair.desc_b


def _window(array: NDArray[Any], desc: Layout) -> NDArray[Any]:
    """What a descriptor moves of a local array; a tile moves whole."""
    if isinstance(desc, Tiles):
        return array
    if desc.coords is None:
        return array[:0]
    return array[local_part(desc.distributions, desc.coords)]


def _on_two_sides(pair: Pair, other: Pair, windows: Sequence[NDArray[Any]]) -> bool:
    """Whether two plans write parts of one window that have no diagonal in common."""
    first, second = windows
    same = first.__array_interface__["data"] == second.__array_interface__["data"] and first.strides == second.strides
    if not same or pair.desc_b != other.desc_b or pair.part is None or other.part is None or pair.fill or other.fill:
        return False
    (upper, low), (lower, high) = sorted(
        (each.part.moved(each.op).edge(each.desc_b.shape) for each in (pair, other) if each.part is not None),
        reverse=True,
    )
    return upper and not lower and high < low


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


Array = NDArray[Any]
NOWHERE = LocalArray(0, ())


class Kept(NamedTuple):
    """Where the arrays of the last use were, which did not overlap."""

    addresses: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]
    item: int
    in_place: bool


def operands_of_tiles(
    pair: Pair, move: Move, a: Any, out: Any, alpha: object, beta: object, kept: Kept | None
) -> tuple[Operands, Kept | None]:
    """Check all local arrays of this rank, and make B's where they are left out. Not collective.

    Returns
    -------
    Operands
        The arrays.
    Kept or None
        To pass again: arrays in the same places are not looked at for overlaps again.

    Raises
    ------
    ArrayError
        Names the array, what it is and what it should be.
    """
    both = Factors.of(each("alpha", alpha, 1)[0], each("beta", beta, 1)[0], pair.op)
    sources = _arrays("a", a, pair.desc_a)
    dtype = _agreed(_named("a", sources, pair.desc_a), pair.dtype)
    given, made = out is not None, out
    if not given:
        made = _made(pair, dtype, both.beta != 0)
    targets = _arrays("out", made, pair.desc_b)
    for name, array in _named("out", targets, pair.desc_b):
        check_target(array, dtype, name)
        dtype = array.dtype
    if dtype is not None:
        check_dtype(dtype)
    in_place = given and out is a and any(array is not None for array in sources)
    if in_place:
        _check_in_place(pair)
    locations = [local_array(array) if array is not None else NOWHERE for array in (*sources, *targets)]
    now = Kept(
        tuple(location.address for location in locations),
        tuple(location.strides for location in locations),
        0 if dtype is None else dtype.itemsize,
        in_place,
    )
    if given and now != kept:
        names = (_named("a", sources, pair.desc_a), _named("out", targets, pair.desc_b))
        check_tiles_apart(pair, [] if in_place else names[0], names[1])
    forms = _forms(pair, move, both, dtype, now, in_place)
    order = _order(sources, targets, pair.op)
    origins = _origins(move, locations)
    factors, dtypes = (both,), (dtype,)
    return Operands([a], [out], [made], origins, forms, dtypes, order, factors), now if given else kept


def _origins(move: Move, locations: Sequence[LocalArray]) -> Origins:
    """The addresses of the pairs of arrays that boxes are of."""
    origins = Origins(max(1, len(move.arrays)))
    for number, (x, y) in enumerate(move.arrays):
        origins.put(number, locations[x].address if x >= 0 else 0, locations[y].address if y >= 0 else 0)
    return origins


def _forms(pair: Pair, move: Move, both: Factors, dtype: np.dtype[Any] | None, now: Kept, in_place: bool) -> Forms:
    blend = {} if dtype is None else {(move.op, move.last): factors_of(both, move).blend(dtype)}
    return Forms(now.strides, (now.item,), (blend,), (in_place and not any(blend.values()),))


def _order(sources: Sequence[Array | None], targets: Sequence[Array | None], op: str) -> int | None:
    """The order of elements in messages that suits the arrays of A; None where there are none of either."""
    arrays = [array.T if transposes(op) else array for array in sources if array is not None]
    if not arrays and all(array is None for array in targets):
        return None
    return BY_COLUMNS if any(map(by_columns, arrays)) else BY_ROWS


def _arrays(name: str, given: Any, layout: Layout) -> list[Array | None]:
    """The local arrays in the order of the places; None where there is nothing in one."""
    if isinstance(layout, Descriptor):
        return [fitted(name, given, layout)]
    found = layout.views(given, name)
    for k, (array, shape) in enumerate(zip(found, layout.local_shapes, strict=True)):
        if array is None and 0 in shape:
            continue
        if not isinstance(array, np.ndarray) or isinstance(array, np.ma.MaskedArray):
            kind = "None" if array is None else f"a {type(array).__name__}"
            raise ArrayError(
                f"{name}[{k}] is {kind}: it must be a NumPy array of shape {shape}, that of {_tile(layout, k)}"
            )
        if array.shape != shape:
            raise ArrayError(f"{name}[{k}] has shape {array.shape}, but {_tile(layout, k)} has shape {shape}")
    return [array if array is not None and array.size else None for array in found]


def _tile(layout: Tiles, k: int) -> str:
    return f"tile {tuple(layout.own[k].tolist())} of {layout!r}"


def _named(name: str, arrays: Sequence[Array | None], layout: Layout) -> list[tuple[str, Array]]:
    """The arrays with elements, and what the user calls them."""
    several = isinstance(layout, Tiles) and layout.offsets is None
    return [(f"{name}[{k}]" if several else name, array) for k, array in enumerate(arrays) if array is not None]


def _agreed(arrays: Sequence[tuple[str, Array]], told: np.dtype[Any] | None) -> np.dtype[Any] | None:
    """The dtype of all of them, and that which was told."""
    dtype, whose = told, f"redistribute was told dtype = {told}"
    for name, array in arrays:
        if dtype is not None and array.dtype != dtype:
            raise ArrayError(f"{name} has dtype {array.dtype}, but {whose}: all must be of one dtype; convert it")
        if dtype is None:
            dtype, whose = array.dtype, f"{name} has dtype {array.dtype}"
    return dtype


def _made(pair: Pair, dtype: np.dtype[Any] | None, adds: bool) -> Any:
    """A new local array of B, or a list of them; 0 where not all of it is written."""
    layout = pair.desc_b
    if isinstance(layout, Descriptor):
        if layout.coords is None:
            return None
    elif not any(0 not in shape for shape in layout.local_shapes):
        return layout.empty(dtype or np.float64) if layout.offsets is None or dtype is not None else None
    if adds:
        raise ArrayError("out is missing: with beta it is added to, so it must be given; or leave beta out")
    return made_for(layout, dtype, pair.part is not None)


def _check_in_place(pair: Pair) -> None:
    a, b = pair.desc_a, pair.desc_b
    stored_alike = all(getattr(a, name, None) == getattr(b, name, None) for name in ("offsets", "leading_dimensions"))
    if pair.op != "N" or a != b or not stored_alike:
        raise ArrayError(
            "out is a: a redistribution in place is possible for identical layouts only, not transposed; omit out, "
            "or give other arrays"
        )
