"""Indexing of distributed arrays beyond views: elements, rows, columns and steps, and assignment.

What an index chooses is in a layout of its own, with each element on the processes that have it; from there a plan brings it
into the layout of the result, or the other way round.
"""

from __future__ import annotations

import inspect
import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from numbers import Number
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from .arguments import in_slabs, move, slabs_along
from .comm.agreement import agreement
from .comm.group import Group, first_known
from .comm.guard import Guard
from .comm.progress import hold_interrupts
from .engine.local_arrays import order_like
from .engine.spec import communicator_of, group_of_all
from .errors import ArrayError, shown
from .layout.array_arithmetic import Distributed, own_arrays, own_indices, whole_layout
from .layout.axis import Blocks
from .layout.descriptor import Descriptor
from .layout.dimensions import BALANCED
from .layout.dtypes import is_complex
from .layout.grid import ProcessGrid, same_ranks
from .reductions import state_numbers
from .whole_arrays import gather

Ints = NDArray[np.int64]


class Pick(NamedTuple):
    """What an index chooses of a dimension: elements start, start + step, ...; or one, and the dimension goes."""

    start: int
    number: int
    step: int
    is_dropped: bool = False

    @property
    def indices(self) -> Ints:
        """The elements that are chosen, in their order."""
        return self.start + self.step * np.arange(self.number, dtype=np.int64)


class OwnPart(NamedTuple):
    """What an index chooses of a local array of this rank, or of one of its tiles."""

    elements: NDArray[Any]
    inside: tuple[Ints, ...]  # along each dimension: indices into `elements`
    chosen: tuple[Ints, ...]  # and which of the elements that are chosen these are


class Selection:
    """The elements of an array where a mask is true, for reductions alone; no array. Not collective.

    Parameters
    ----------
    array : DistributedArray
        The array.
    mask : DistributedArray
        Of bool and of the array's shape, in any layout.
    """

    __hash__ = None  # type: ignore[assignment]
    __iter__ = None
    __array_ufunc__ = None

    def __init__(self, array: Distributed, mask: Distributed) -> None:
        self._array, self._mask = array, mask

    def _reduced(self, name: str, *arguments: Any, **options: Any) -> Any:
        """A method of the elements, an array of one dimension in which each is where it was. Collective."""
        array = self._array
        with hold_interrupts() as held:
            mask = array._aligned(self._mask)
            with agreement(_group_of(array), f"a[mask].{name}", combine=list, deliver=True, held=held) as agreed:
                agreed.same_array(array)
                if name != "size":
                    inspect.signature(getattr(type(array), name)).bind(array, *arguments, **options)
                if self._mask.shape != array.shape or (mask.dtype is not None and mask.dtype != bool):
                    raise ArrayError(
                        f"a mask of shape {self._mask.shape} and dtype {mask.dtype} for an array of shape {array.shape}: it "
                        "must be of bool and of the array's shape, as a > 0 is"
                    )
                places, masks = array.desc.own_places, own_arrays(mask)
                parts = [
                    own[chosen]
                    for place, own, chosen in zip(places, own_arrays(array), masks, strict=False)
                    if own is not None and chosen is not None and not any(place[array.ndim :])
                ]
                local = np.concatenate(parts, dtype=array.dtype) if parts else None
                agreed.give((0 if local is None else local.size, array.dtype))
            sizes = [size for size, _ in agreed.result]
            if name == "size":
                return sum(sizes)
            dtype = first_known([kind for _, kind in agreed.result])
            with agreement(_group_of(array), "the elements of a mask", held=held):
                comm = communicator_of(array.desc)
                desc = Descriptor((sum(sizes),), Blocks(sizes), ProcessGrid((comm.Get_size(),), comm))
                elements: Any = type(array)._from_result(desc, local, dtype)
            return getattr(elements, name)(*arguments, **options)

    def sum(self, *arguments: Any, **options: Any) -> Any:
        """The sum, as `DistributedArray.sum` of an array of these elements. Collective, as are the others."""
        return self._reduced("sum", *arguments, **options)

    def prod(self, *arguments: Any, **options: Any) -> Any:
        """The product. Collective."""
        return self._reduced("prod", *arguments, **options)

    def mean(self, *arguments: Any, **options: Any) -> Any:
        """The mean. Collective."""
        return self._reduced("mean", *arguments, **options)

    def var(self, *arguments: Any, **options: Any) -> Any:
        """The variance. Collective."""
        return self._reduced("var", *arguments, **options)

    def std(self, *arguments: Any, **options: Any) -> Any:
        """The standard deviation. Collective."""
        return self._reduced("std", *arguments, **options)

    def min(self, *arguments: Any, **options: Any) -> Any:
        """The least element. Collective."""
        return self._reduced("min", *arguments, **options)

    def max(self, *arguments: Any, **options: Any) -> Any:
        """The largest element. Collective."""
        return self._reduced("max", *arguments, **options)

    def any(self, *arguments: Any, **options: Any) -> Any:
        """Whether any element is true. Collective."""
        return self._reduced("any", *arguments, **options)

    def all(self, *arguments: Any, **options: Any) -> Any:
        """Whether all elements are true. Collective."""
        return self._reduced("all", *arguments, **options)

    @property
    def size(self) -> int:
        """The number of elements. Collective."""
        return len(self)

    def __len__(self) -> int:
        """The number of elements. Collective."""
        return int(self._reduced("size"))

    def __bool__(self) -> NoReturn:
        raise ValueError(f"{self!r} has no truth value: take .any() or .all(), on all ranks")

    def __array__(self, *_: object, **__: object) -> NoReturn:
        self._refuse("numpy.asarray")

    def __array_function__(self, function: Any, types: Any, operands: Sequence[Any], options: dict[str, Any]) -> Any:
        if operands and operands[0] is self and function.__name__ in OF_SELECTIONS:
            return getattr(self, function.__name__)(*operands[1:], **options)
        return self._refuse(f"numpy.{function.__name__}")

    def _refuse(self, operation: str) -> NoReturn:
        raise TypeError(
            f"{operation} does not take a[mask], which is no array: it has {', '.join(sorted(OF_SELECTIONS))} and len(); "
            "np.where(mask, a, 0) is an array, and a[mask] = 0 writes numbers"
        )

    def _refuse_operator(self, *_: object) -> NoReturn:
        self._refuse("an operator")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refuse_operator
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __matmul__ = __rmatmul__ = _refuse_operator
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __neg__ = __abs__ = __invert__ = _refuse_operator
    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _refuse_operator

    def __repr__(self) -> str:
        return f"a[mask] of a = {shown(self._array)}, for sum, mean, min and other reductions, not an array"


OF_SELECTIONS = {"sum", "prod", "mean", "var", "std", "min", "max", "any", "all"}


def rows_of(array: Distributed, mask: Any) -> Distributed:
    """The rows where a mask of one dimension is true, in their order, in slabs of as many as each process has. Collective.

    Parameters
    ----------
    array : DistributedArray
        Of two or more dimensions.
    mask : DistributedArray or ndarray
        Of bool, with an element for each row, in any layout; or a NumPy array that all ranks have whole.
    """
    with hold_interrupts() as held:
        group = _group_of(array)
        with agreement(group, "a[mask], of rows", deliver=True, held=held) as agreed:
            agreed.same_array(array)
            if isinstance(mask, Distributed):
                agreed.same_array(mask, "the mask")
            else:
                state_numbers(agreed, "the mask", mask)
            _check_row_mask(array, mask)
            slabs = slabs_along(array.desc, array.shape, 0)
        rows = array if array.desc == slabs else move(array, slabs)
        whole: Any = gather(mask, None) if isinstance(mask, Distributed) else mask
        with agreement(group, "the rows of a mask", combine=list, held=held) as agreed:
            local = None
            if slabs.coords is not None:
                kept = rows.own[whole[slabs.global_indices(0)]]
                local = np.asarray(kept, order=order_like(rows.own, array.ndim))  # type: ignore[call-overload]
                agreed.give((slabs.coords[0], len(local), local.dtype))
        known = {place: each for place, *each in filter(None, agreed.result)}
        sizes = [known[place][0] for place in range(slabs.grid.size)]
        blocks: list[Blocks | str] = [Blocks(sizes), *[BALANCED] * (array.ndim - 1)]
        desc = Descriptor((sum(sizes), *array.shape[1:]), blocks, slabs.grid, axes=slabs.axes)
    return type(array)._from_result(desc, local, known[0][1])


def is_of_rows(array: Distributed, key: object) -> bool:
    """Whether an index is a mask of rows."""
    is_mask = isinstance(key, Distributed) or (isinstance(key, np.ndarray) and key.dtype == bool)
    return is_mask and key.ndim == 1 < array.ndim  # type: ignore[attr-defined]


def _check_row_mask(array: Distributed, mask: Any) -> None:
    if isinstance(mask, Distributed) and not same_ranks(communicator_of(mask.desc), communicator_of(array.desc)):
        raise ArrayError("the mask is on another communicator than the array: distribute it on that of the array")
    if mask.shape != array.shape[:1] or (mask.dtype is not None and mask.dtype != bool):
        raise ArrayError(
            f"a mask of shape {mask.shape} and dtype {mask.dtype} for an array of shape {array.shape}: it must be of bool and "
            "of the array's shape, as a > 0 is, or with an element for each row, as a[:, 0] > 0"
        )


def is_of_view(key: object) -> bool:
    """Whether an index consists of slices without steps, so that the result is a view."""
    parts = key if isinstance(key, tuple) else (key,)
    return all(part is Ellipsis or (isinstance(part, slice) and _step(part) == 1) for part in parts)


def picked(array: Distributed, key: object) -> Any:
    """The element that an index chooses, on all ranks, or the elements, in balanced blocks on the array's grid. Collective."""
    with hold_interrupts() as held:
        group = _group_of(array)
        with agreement(group, "an index", combine=first_known, deliver=True, held=held) as agreed:
            agreed.same_array(array)
            picks = read_index(array.shape, key)
            agreed.call += f" {_in_words(picks)}"
            if is_element := all(pick.is_dropped for pick in picks):
                agreed.give(_own_element(array, picks))
            elif isinstance(array.desc, Descriptor):
                chosen = _chosen(array, picks)
        if is_element:
            return agreed.result
        if not isinstance(array.desc, Descriptor):
            in_blocks = in_slabs(array)
            with agreement(group, "an index of tiles", confirm=True, deliver=True, held=held):
                chosen = _chosen(in_blocks, picks)
        return move(*chosen)


def assign(array: Distributed, key: object, value: Any) -> None:
    """Write elements: a number or NumPy array, equal on all ranks, not collective; or an array of ranks, collective."""
    if is_of_rows(array, key):
        _assign_rows(array, key, value)
        return
    if isinstance(key, Distributed):
        _assign_where(array, key, value)
        return
    if not isinstance(value, Distributed):
        picks = read_index(array.shape, key)
        shape = tuple([pick.number for pick in picks if not pick.is_dropped])
        values = _converted(array, value)
        try:
            values = np.broadcast_to(values, shape)
        except ValueError:
            raise ArrayError(
                f"a value of shape {values.shape} cannot be assigned to {shape} elements: the shapes must be equal, or "
                "broadcast to that"
            ) from None
        _write(array, picks, lambda chosen: values[np.ix_(*chosen)] if chosen else values)
        return

    def check() -> list[Pick]:
        picks = read_index(array.shape, key)
        shape = tuple([pick.number for pick in picks if not pick.is_dropped])
        if value.shape != shape:
            raise ArrayError(
                f"an array of shape {value.shape} cannot be assigned to {shape} elements: they must be equal; of one "
                "that is to broadcast give b.gather(None)"
            )
        if not shape:
            raise ArrayError("an array cannot be assigned to one element: take a number")
        _check_real(array, value.dtype)
        if not isinstance(array.desc, Descriptor):
            raise ArrayError(
                f"{array.desc!r} takes numbers and NumPy arrays only: redistribute the array to a Descriptor first"
            )
        for part in own_parts(array, picks):
            if not part.elements.flags.writeable and all(each.size for each in part.inside):
                raise _read_only(array)
        return picks

    def source_of(dtype: np.dtype[Any] | None) -> Distributed:
        """The value in slabs, of the dtype of the array; a copy where elements may be written that are still read."""
        is_kept = source.desc.parent is None and not _share_memory(array, source)
        if dtype is None or (is_kept and (source.dtype is None or source.dtype == dtype)):
            return source
        return source.astype(dtype)

    with Guard() as guard:
        with agreement(_group_of(array), "an assignment", learn=True) as agreed:
            agreed.same_array(array)
            agreed.learn(array.dtype)
            picks = check()
            agreed.call += f" to {_in_words(picks)}"
        source = in_slabs(value)
        made = guard.attempt(lambda: (source_of(agreed.result), _layout_of(array.desc, picks)))
        converted, layout = made or (source, source.desc)
        local = move(converted, layout, guard.take_interrupts()).local
        if local is not None and local.size:
            _write(array, picks, lambda chosen: local)


def _assign_rows(array: Distributed, mask: Any, value: Any) -> None:
    """Write a number into the rows where a mask is true. Collective for a distributed one, which all ranks get whole."""
    whole = mask
    if isinstance(mask, Distributed):
        with hold_interrupts() as held:
            with agreement(_group_of(array), "a[mask] = value, of rows", deliver=True, held=held) as agreed:
                agreed.same_array(array)
                agreed.same_array(mask, "the mask")
                agreed.same("value", repr(value), value)
                _check_row_mask(array, mask)
                number = _number(array, value)
                _check_writable(array)
            whole = gather(mask, None)
    else:
        _check_row_mask(array, mask)
        number = _number(array, value)
        _check_writable(array)
    for own, indices in zip(own_arrays(array), own_indices(array), strict=True):
        if own is not None and own.size:
            own[whole[indices[0]]] = number


def _assign_where(array: Distributed, mask: Distributed, value: Any) -> None:
    """Write a number where a mask is true, in one layout. Not collective."""
    if mask.shape != array.shape or whole_layout(mask.desc) != whole_layout(array.desc):
        raise ArrayError(
            f"a mask in the layout {mask.desc!r} is for an array in {array.desc!r}: it must be in the layout of the array, as "
            "a > 0 is; mask.redistribute(a) brings it there"
        )
    if mask.dtype is not None and mask.dtype != bool:
        raise ArrayError(f"a mask of dtype {mask.dtype} must be of bool, as a > 0 is")
    number = _number(array, value)
    for elements, chosen in zip(own_arrays(array), own_arrays(mask), strict=True):
        if elements is not None and chosen is not None:
            elements[chosen] = number


def _check_writable(array: Distributed) -> None:
    if not all(own is None or own.flags.writeable or not own.size for own in own_arrays(array)):
        raise _read_only(array)


def _read_only(array: Distributed) -> ArrayError:
    return ArrayError(f"{array!r} is read-only on this rank: assign to a copy(), or make its memory writable")


def _number(array: Distributed, value: Any) -> NDArray[Any]:
    """A number to write where a mask is true, as `_converted`."""
    if np.ndim(value) or isinstance(value, Distributed):
        raise ArrayError(f"value = {shown(value)} must be a number; np.where(mask, values, a) takes arrays")
    return _converted(array, value)


def _converted(array: Distributed, value: Any) -> NDArray[Any]:
    """A number or NumPy array that all ranks have, in the dtype of a distributed array, if this rank knows that.

    So what NumPy does not convert is an error before anything is written, on all ranks alike.
    """
    values = np.asarray(value)
    if values.dtype.hasobject and not isinstance(value, Number):
        raise ArrayError(
            f"value = {shown(value)}: each rank writes its own elements, so all give the same number or NumPy array; "
            "psr.distribute(array, desc) makes a distributed array of one that a single rank has"
        )
    _check_real(array, values.dtype)
    if array.dtype is None or values.dtype == array.dtype:
        return values
    converted = np.empty(values.shape, array.dtype)
    converted[...] = value
    return converted


def _check_real(array: Distributed, dtype: np.dtype[Any] | None) -> None:
    """Refuse complex values for an array of real numbers: the imaginary parts would be lost."""
    if dtype is not None and array.dtype is not None and is_complex(dtype) and not is_complex(array.dtype):
        raise ArrayError(
            f"a value of dtype {dtype} cannot be assigned to an array of {array.dtype}: take its real part"
        )


def read_index(shape: Sequence[int], key: object) -> list[Pick]:
    """What an index chooses along each dimension.

    Raises
    ------
    ArrayError
        A part of the index is neither an integer nor a slice, or there are too many; an integer is outside the array.
    """
    parts = list(key) if isinstance(key, tuple) else [key]
    gaps = [k for k, part in enumerate(parts) if part is Ellipsis]
    if any(part is None for part in parts):
        raise ArrayError(f"index {shown(key)}: None adds a dimension, which np.expand_dims(a, axis) does, as a view")
    if len(gaps) > 1 or len(parts) - len(gaps) > len(shape):
        raise ArrayError(
            f"index {shown(key)} is for more dimensions than {len(shape)}, or has more than one ellipsis (...)"
        )
    at = gaps[0] if gaps else len(parts)
    missing = [slice(None)] * (len(shape) - len(parts) + len(gaps))
    parts = [*parts[:at], *missing, *parts[at + len(gaps) :]]
    return [_pick(k, n, part) for k, (n, part) in enumerate(zip(shape, parts, strict=True))]


def _pick(dim: int, n: int, part: Any) -> Pick:
    if isinstance(part, slice):
        try:
            chosen = range(*part.indices(n))
        except (TypeError, ValueError):
            raise ArrayError(
                f"dimension {dim}: {part!r} must have integers, or nothing, for its bounds and its step, which is not 0"
            ) from None
        return Pick(chosen.start if chosen else 0, len(chosen), chosen.step)
    try:
        if isinstance(part, bool | np.bool_):
            raise TypeError
        index = operator.index(part)
    except TypeError:
        raise ArrayError(
            f"dimension {dim}: {shown(part)} must be an integer or a slice; a[mask] has the rows, a.T[mask].T the columns, "
            "where a mask of one dimension is true, in their order, as np.isin(np.arange(len(a)), rows) is; a[mask] = 0 and "
            "np.where take masks of the array's shape"
        ) from None
    if not -n <= index < n:
        raise ArrayError(
            f"dimension {dim}: index {index} is outside the array of {n} there: it must be {-n} to {n - 1}"
        )
    return Pick(index % n, 1, 1, True)


def _step(part: slice) -> Any:
    """The step of a slice; None for one that is no number."""
    return 1 if part.step is None else part.step if isinstance(part.step, int | np.integer) else None


def _group_of(array: Distributed) -> Group:
    communicator_of(array.desc)
    return group_of_all(array.desc)


def _in_words(picks: Sequence[Pick] | None) -> str:
    """What is chosen, equal for equal picks; [] if that is not known."""
    parts = [str(p.start) if p.is_dropped else f"{p.start}:{p.start + p.step * p.number}:{p.step}" for p in picks or ()]
    return f"[{', '.join(parts)}]"


def own_parts(array: Distributed, picks: Sequence[Pick]) -> Iterator[OwnPart]:
    """What is chosen of this rank's elements, and of each of its tiles. Not collective."""
    desc: Any = array.desc
    for place, elements in zip(desc.own_places, own_arrays(array), strict=False):
        if elements is None:
            continue
        inside, chosen = [], []
        for axis, p, pick in zip(desc.distributions, place, picks, strict=False):
            indices = pick.indices
            own = np.flatnonzero(axis.owner(indices) == p)
            inside.append(axis.local_index(indices[own]) - axis.local_start(p))
            chosen.append(own)
        yield OwnPart(elements, tuple(inside), tuple(chosen))


def _own_element(array: Distributed, picks: Sequence[Pick]) -> Any:
    """The element that is chosen; None if this rank does not have it."""
    for part in own_parts(array, picks):
        if all(each.size for each in part.inside):
            return part.elements[tuple([int(each[0]) for each in part.inside])]
    return None


def _write(array: Distributed, picks: Sequence[Pick], values: Callable[[tuple[Ints, ...]], NDArray[Any]]) -> None:
    """Write what `values` returns for those of the chosen elements that this rank has."""
    kept = [k for k, pick in enumerate(picks) if not pick.is_dropped]
    for part in own_parts(array, picks):
        if all(each.size for each in part.inside):
            some = values(tuple([part.chosen[k] for k in kept]))
            part.elements[np.ix_(*part.inside)] = np.asarray(some).reshape([each.size for each in part.inside])


def _layout_of(desc: Descriptor, picks: Sequence[Pick]) -> Descriptor:
    """The layout of what is chosen, each element on the processes that have it."""
    kept = [k for k, pick in enumerate(picks) if not pick.is_dropped]
    owners = [axis.owner(pick.indices) for axis, pick in zip(desc.distributions, picks, strict=True)]
    at: list[Any] = [slice(None)] * desc.grid.ndim
    for axis, owner, pick in zip(desc.axes, owners, picks, strict=True):
        if axis is not None and pick.is_dropped:
            at[axis] = int(owner[0])
    ranks = desc.grid.ranks[tuple(at)]
    left = [axis for axis, place in enumerate(at) if isinstance(place, slice)]
    axes = [None if (axis := desc.axes[k]) is None else left.index(axis) for k in kept]
    grid = ProcessGrid(ranks.shape or (1,), desc.grid.comm, ranks=np.reshape(ranks, ranks.shape or (1,)))
    blocks = [Blocks(np.ones(len(owners[k]), np.int64), owners[k]) for k in kept]
    return Descriptor([picks[k].number for k in kept], blocks, grid, axes=axes)


def _chosen(array: Distributed, picks: Sequence[Pick]) -> tuple[Distributed, Descriptor]:
    """A copy of what is chosen, each element on the processes that have it, and the layout to reach. Not collective."""
    desc, piece = _layout_of(array.desc, picks), None
    if desc.coords is not None and array.own is not None:
        (part,) = own_parts(array, picks)
        piece = part.elements[np.ix_(*part.inside)].reshape(desc.local_shape)
    chosen = type(array)._from_result(desc, piece, array.dtype)
    return chosen, _balanced(array.desc, chosen.shape, picks)


def _balanced(desc: Descriptor, shape: Sequence[int], picks: Sequence[Pick]) -> Descriptor:
    """Balanced blocks on the array's grid, over its dimensions in order; with fewer dimensions along the longest one."""
    if not any(pick.is_dropped for pick in picks):
        used = iter(sorted(axis for axis in desc.axes if axis is not None))
        axes = [None if axis is None else next(used) for axis in desc.axes]
        return Descriptor(shape, "balanced", desc.grid, axes=axes)
    longest = int(np.argmax(shape))
    grid = ProcessGrid((desc.grid.size,), desc.grid.comm, ranks=desc.grid.ranks.ravel())
    return Descriptor(shape, "balanced", grid, axes=[0 if k == longest else None for k in range(len(shape))])


def _share_memory(first: Distributed, second: Distributed) -> bool:
    """Whether two arrays may have memory in common on this rank."""
    pairs = itertools.product(own_arrays(first), own_arrays(second))
    return any(np.may_share_memory(a, b) for a, b in pairs if a is not None and b is not None)
