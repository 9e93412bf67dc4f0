"""The local arrays of one use of a plan with tiles: do they fit, and what the kernels need to know of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._kernels.bundle import Origins
from ..errors import ArrayError
from ..layout.descriptor import Descriptor
from ..layout.distributed import fitted
from ..layout.letters import transposes
from ..layout.tiles import Tiles
from .arrays import LocalArray, by_columns, check_dtype, check_target, local_array, made_for
from .binding import BY_COLUMNS, BY_ROWS, Operands, each, factors_of
from .layouts import Layout
from .operation import Factors
from .overlap import check_tiles_apart
from .stages import Forms, Move, Pair

__all__ = ["Kept", "operands_of_tiles"]

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
