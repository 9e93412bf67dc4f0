"""What NumPy's functions are on distributed arrays: a table, with a row for each; for others, what to write in their place.

A row that is collective begins with one agreement on its arguments, arrays and dtypes (`call`), so what follows from these
alone is the same on all ranks, errors too. What a rank computes is in agreements of its own. Along a dimension that is
distributed, elements are brought where that dimension is whole; all elements in C order are ranges on the ranks (`_flat`).
"""

from __future__ import annotations

import functools
import inspect
import itertools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from types import TracebackType
from typing import Any, NamedTuple, NoReturn, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from . import linalg
from .arguments import in_rows, in_slabs, line_of, move, slabs_along
from .comm.agreement import agreement, meet
from .comm.group import Group, first_known
from .comm.progress import hold_interrupts
from .creation import zeros
from .distributed_array import DistributedArray
from .engine.local_arrays import order_like
from .engine.spec import communicator_of, group_of_all
from .errors import ArrayError, shown
from .layout.array_arithmetic import Distributed, largest, own_indices, own_values, whole_layout
from .layout.axis import Blocks
from .layout.descriptor import Descriptor
from .layout.dimensions import BALANCED
from .layout.tiles import Layout
from .reductions import Axis, dimensions_of, own_blocks, reduced, state_numbers, truth

Array = DistributedArray
Numbers = NDArray[Any]
T = TypeVar("T")


# -- a call


class Row(NamedTuple):
    """A function of NumPy.

    Attributes
    ----------
    work : callable
        The function on distributed arrays; its parameters are NumPy's, as far as there are any.
    is_agreed : bool
        Whether the ranks agree on the arguments first. Other rows are local, or agree by themselves.
    is_collective : bool
        Of rows without that agreement, whether they agree by themselves.
    """

    work: Callable[..., Any]
    is_agreed: bool = True
    is_collective: bool = False


def call(function: Callable[..., Any], operands: Sequence[Any], options: dict[str, Any]) -> Any:
    """A function of NumPy on distributed arrays. Collective over the communicator of the first one, but for local rows.

    Raises
    ------
    TypeError
        It is not in the table, or does not take these arguments: the text says what to write.
    """
    name = f"{function.__module__}.{function.__name__}"
    arrays = [*_arrays_in([*operands, *options.values()])]
    if not arrays:  # it is in like=, which NumPy keeps
        raise TypeError(f"{name} makes no distributed array by like=: write psr.distribute(array, a), or psr.zeros(a)")
    first = arrays[0]
    row = TABLE.get(function)
    if row is None:
        return first._refuse(name, REMEDIES.get(name.removeprefix("numpy."), ""))
    if not row.is_agreed:
        try:
            bound = _bound(name, row, operands, options)
        except TypeError as wrong:
            if row.is_collective:
                meet(_group(first), name, wrong)
            raise
        return row.work(*bound.args, **bound.kwargs)
    with hold_interrupts() as held:
        with agreement(_group(first), name, combine=_known_dtypes, deliver=True, held=held) as agreed:
            bound = _bound(name, row, operands, options)
            bound.apply_defaults()
            for parameter, value in bound.arguments.items():
                _state(agreed, parameter, value)
            agreed.give([array.dtype for array in arrays])
        error: BaseException | None = None
        try:
            dtypes = iter(agreed.result)
            known = [_with_dtypes(value, dtypes) for value in bound.arguments.values()]
            bound.arguments.update(zip(bound.arguments, known, strict=True))
            return row.work(*bound.args, **bound.kwargs)
        except BaseException as caught:
            error = caught
            raise
        finally:
            _leave(_group(first), name, error)


# Names of parameters that may be distributed arrays
OPERANDS = {"self", "a", "b", "m", "x", "y", "x1", "x2", "a1", "a2", "A", "arrays", "tup", "operands"}
OPERANDS |= {"where", "rtol", "atol"}

error_of_all: ContextVar[BaseException | None] = ContextVar("error_of_all", default=None)


class step(agreement):  # noqa: N801 - used like a function
    """An agreement within a call: what it raises is an error of all ranks."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            super().__exit__(kind, error, traceback)
        except BaseException as raised:
            error_of_all.set(raised)
            raise
        if error is not None:
            error_of_all.set(error)


hold_interrupts.own_code |= {step.__exit__.__code__}


def _together(function: Callable[..., T], *arguments: Any, **options: Any) -> T:
    """What a collective function returns; what it raises is an error of all ranks."""
    try:
        return function(*arguments, **options)
    except BaseException as error:
        error_of_all.set(error)
        raise


def _leave(group: Group, name: str, error: BaseException | None) -> None:
    """Leave a call together with all ranks: an error of one between its agreements is one of all. Collective."""
    is_of_all = error is not None and error is error_of_all.get()
    error_of_all.set(None)
    if not (is_of_all or (error is not None and (error is hold_interrupts.forced or group.abort_reason is not None))):
        meet(group, f"the end of {name}", error)


def _bound(name: str, row: Row, operands: Sequence[Any], options: dict[str, Any]) -> inspect.BoundArguments:
    signature = inspect.signature(row.work)
    try:
        bound = signature.bind(*operands, **options)
    except TypeError as error:
        taken = ", ".join(each for each in signature.parameters if each != "self")
        raise TypeError(f"{name} of a distributed array {error}: it takes {taken}") from None
    for parameter, value in bound.arguments.items():
        if parameter not in OPERANDS and any(True for _ in _arrays_in(value)):
            raise TypeError(
                f"{name} takes no distributed array for {parameter}: it must be equal on all ranks, as a number, or "
                f"{parameter}.gather(None), which is a NumPy array"
            )
    return bound


def _arrays_in(value: Any) -> Iterator[Array]:
    """The distributed arrays among arguments, in their order."""
    if isinstance(value, Distributed):
        yield value  # type: ignore[misc]
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _arrays_in(each)


def _state(agreed: agreement, name: str, value: Any) -> None:
    """Say what all ranks have for an argument."""
    if isinstance(value, Distributed):
        agreed.same_array(value, name)
    elif isinstance(value, np.ndarray):
        state_numbers(agreed, name, value)
    elif isinstance(value, list | tuple):
        agreed.same(f"the number of {name}", len(value))
        for k, each in enumerate(value):
            _state(agreed, f"{name}[{k}]", each)
    elif name == "dtype" and value is not None:
        agreed.same(name, str(np.dtype(value)), value)
    else:
        agreed.same(name, repr(value.item() if isinstance(value, np.generic) else value), value)


def _known_dtypes(of_ranks: list[list[np.dtype[Any] | None]]) -> list[np.dtype[Any]]:
    return [first_known([*dtypes]) or np.dtype(np.float64) for dtypes in zip(*of_ranks, strict=True)]


def _with_dtypes(value: Any, dtypes: Iterator[np.dtype[Any]]) -> Any:
    """An argument, of whose arrays this rank knows the dtypes."""
    if isinstance(value, Distributed):
        dtype = next(dtypes)
        return value if value.dtype is not None else type(value)._from_result(value.desc, None, dtype)
    if isinstance(value, list | tuple):
        return type(value)([_with_dtypes(each, dtypes) for each in value])
    return value


def _group(array: Distributed) -> Group:
    communicator_of(array.desc)
    return group_of_all(array.desc)


# -- layouts and what is computed in them


def _line(desc: Layout, sizes: Sequence[int]) -> Descriptor:
    """A layout of one dimension with so many elements on each process of another one."""
    return Descriptor((sum(sizes),), Blocks(sizes), line_of(desc))


def _brought(array: Array, layout: Layout) -> Array:
    """The array in a layout; itself if it is in that. Collective if it is not."""
    return array if array.desc == layout else _together(move, array, layout)  # type: ignore[return-value]


def _whole_along(array: Array, dims: Sequence[int]) -> Array:
    """An array in a layout in which dimensions are on one process each, others in slabs of the longest. Collective."""
    desc = array.desc
    if isinstance(desc, Descriptor) and all(desc.distributions[k].processes == 1 for k in dims):
        return array
    others = [k for k in range(array.ndim) if k not in dims]
    return _brought(array, slabs_along(desc, array.shape, max(others, key=lambda k: array.shape[k])))


def _computed(array: Array, name: str, work: Callable[[Numbers], Numbers]) -> Array:
    """A function of this rank's elements, whose values have their shape, in an array of the same layout. Collective."""
    with step(_group(array), name, learn=True) as agreed:
        own = array.own
        local = None if own is None or not own.size else work(own)
        agreed.learn(work(np.empty((0,) * array.ndim, array.dtype)).dtype if local is None else local.dtype)
    return type(array)._from_result(whole_layout(array.desc), local, agreed.result)


def _cut(shape: Sequence[int]) -> int:
    """The first dimension of more than one element: slabs of it are ranges in C order."""
    return next((k for k, n in enumerate(shape) if n > 1), 0)


def _sizes(desc: Descriptor, dim: int) -> list[int]:
    """The number of elements on each process, in slabs of a dimension."""
    axis, others = desc.distributions[dim], math.prod(n for k, n in enumerate(desc.shape) if k != dim)
    return [axis.local_size(p) * others for p in range(axis.processes)]


def _flat(array: Array) -> Array:
    """All elements in C order, a range of them on each process. Collective."""
    dim = _cut(array.shape)
    slabs = _brought(array, slabs_along(array.desc, array.shape, dim))
    layout = _line(array.desc, _sizes(slabs.desc, dim))
    with step(_group(array), "elements in C order"):
        local = None if layout.coords is None else np.array(slabs.own, order="C").reshape(-1)
    return type(array)._from_result(layout, local, array.dtype)


def _shaped(line: Array, shape: Sequence[int]) -> Array:
    """Elements in C order in another shape, in slabs. Collective."""
    dim = _cut(shape)
    slabs = slabs_along(line.desc, shape, dim)
    ranges = _brought(line, _line(line.desc, _sizes(slabs, dim)))
    local = None if slabs.coords is None else ranges.own.reshape(slabs.local_shape)
    return type(line)._from_result(slabs, local, line.dtype)


# -- shapes


def permuted(function: Callable[..., Any]) -> Row:
    """A function of the order of dimensions, which NumPy finds: their sizes tell them apart."""

    @functools.wraps(function)
    def work(a: Any, *arguments: Any, **options: Any) -> Any:
        return a.transpose(function(np.empty(range(a.ndim)), *arguments, **options).shape)

    return Row(work, is_agreed=False)


def expand_dims(a: Array, axis: int | Sequence[int]) -> Array:
    """With more dimensions, of one element: a view. Not collective."""
    shape = np.expand_dims(np.empty(tuple(range(2, a.ndim + 2))), axis).shape
    order = [None if n == 1 else n - 2 for n in shape]
    if not isinstance(a.desc, Descriptor):
        raise ArrayError(f"{a.desc!r} has no views of more dimensions: redistribute the array to a Descriptor first")
    local = None if a.local is None else np.expand_dims(a.local, axis)
    return type(a)._from_result(a.desc._permuted(order), local, a.dtype)


def reshape(a: Array, shape: Any, order: str = "C") -> Array:
    if order not in ("C", "F"):
        raise ArrayError(f"order = {order!r} must be 'C' (the last dimension runs fastest) or 'F' (the first)")
    sizes = [operator.index(n) for n in (shape if isinstance(shape, list | tuple | np.ndarray) else (shape,))]
    rest = math.prod(n for n in sizes if n != -1)
    if sizes.count(-1) == 1 and rest:
        sizes[sizes.index(-1)] = a.size // rest
    if not sizes or min(sizes) < 0 or math.prod(sizes) != a.size:
        raise ArrayError(
            f"an array of shape {a.shape} has {a.size} elements, and cannot be of shape {shape!r}: that must have as many, and "
            "at least one dimension; a.sum() is the number in an array of one element"
        )
    if order == "F":
        return reshape(a.T, sizes[::-1]).T
    return _shaped(_flat(a), sizes)


def ravel(a: Array, order: str = "C") -> Array:
    return reshape(a, -1, order)


def full_like(a: Array, fill_value: Any, dtype: DTypeLike | None = None, order: str = "K") -> Array:
    array = zeros_like(a, dtype, order)
    if array.dtype is not None:
        array[...] = fill_value
    return array


def zeros_like(a: Array, dtype: DTypeLike | None = None, order: str = "K") -> Array:
    """A new array in the layout; a rank that has nothing of `a`, and not its dtype, has nothing of this one either."""
    kind: Any = a.dtype if dtype is None else dtype
    of_new = None if order in ("K", "A") else order
    return type(a)._from_result(whole_layout(a.desc), a.local, None) if kind is None else zeros(a, dtype=kind, order=of_new)


def ones_like(a: Array, dtype: DTypeLike | None = None, order: str = "K") -> Array:
    return full_like(a, 1, dtype, order)


def concatenate(arrays: Sequence[Any], axis: int | None = 0, *, dtype: DTypeLike | None = None) -> Array:
    if axis is None:
        return concatenate(
            [ravel(each) if isinstance(each, DistributedArray) else np.ravel(each) for each in arrays], dtype=dtype
        )
    parts = [each if isinstance(each, DistributedArray) else np.asarray(each) for each in arrays]
    first = next(each for each in parts if isinstance(each, DistributedArray))
    (dim,) = dimensions_of(first, axis)
    for k, part in enumerate(parts):
        if part.ndim != first.ndim or any(
            n != m for j, (n, m) in enumerate(zip(part.shape, first.shape, strict=True)) if j != dim
        ):
            raise ArrayError(
                f"arrays[{k}] has shape {part.shape}, and another one {first.shape}: they must be equal but for dimension {dim}"
            )
    kind = np.concatenate([np.empty(0, part.dtype) for part in parts], dtype=dtype).dtype
    edges = [0, *itertools.accumulate(part.shape[dim] for part in parts)]
    shape = [edges[-1] if k == dim else n for k, n in enumerate(first.shape)]
    layout = _lengthened(first.desc, shape, dim)
    with step(_group(first), "numpy.concatenate, its result"):
        result = type(first)._from_result(layout, layout.empty(kind, order_like(first.own, first.ndim)), kind)
    for part, start, end in zip(parts, edges[:-1], edges[1:], strict=True):
        window = result[tuple([slice(start, end) if k == dim else slice(None) for k in range(first.ndim)])]
        if not part.size:
            continue
        if not isinstance(part, DistributedArray):
            with step(_group(first), "numpy.concatenate, a NumPy array"):
                window[...] = part
            continue
        with step(_group(first), "numpy.concatenate, a dtype"):
            part = part if part.dtype == kind else part.astype(kind)
        slabs: Any = _together(in_slabs, part)
        _together(slabs.redistribute, out=window)
    return result


def _lengthened(desc: Layout, shape: Sequence[int], dim: int) -> Descriptor:
    """The layout of an array that is longer along a dimension: balanced there, or in the same blocks if there are many."""
    if not isinstance(desc, Descriptor):
        return slabs_along(desc, shape, int(np.argmax(shape)))
    whole: Descriptor = whole_layout(desc)
    axis = whole.distributions[dim]
    is_cyclic = isinstance(axis.block, int) and 1 < axis.processes < axis.number_of_blocks
    blocks = [BALANCED if k == dim and not is_cyclic else block for k, block in enumerate(whole.block)]
    source = [0 if k == dim and not is_cyclic else p for k, p in enumerate(whole.source)]
    return Descriptor(shape, blocks, whole.grid, source=source, axes=whole.axes)


def _expanded(array: Any, dim: int) -> Any:
    if not isinstance(array, Distributed):
        return np.expand_dims(array, dim)
    slabs: Any = _together(in_slabs, array)
    return expand_dims(slabs, dim)


def stack(arrays: Sequence[Any], axis: int = 0, *, dtype: DTypeLike | None = None) -> Array:
    ndim = np.ndim(arrays[0]) + 1
    if not -ndim <= axis < ndim:
        raise ArrayError(f"axis = {axis} must be a dimension of the result, from {-ndim} to {ndim - 1}")
    return concatenate([_expanded(each, axis % ndim) for each in arrays], axis, dtype=dtype)


def vstack(tup: Sequence[Any], *, dtype: DTypeLike | None = None) -> Array:
    return concatenate([_expanded(each, 0) if np.ndim(each) == 1 else each for each in tup], 0, dtype=dtype)


def hstack(tup: Sequence[Any], *, dtype: DTypeLike | None = None) -> Array:
    return concatenate(tup, 0 if np.ndim(tup[0]) == 1 else 1, dtype=dtype)


def column_stack(tup: Sequence[Any]) -> Array:
    return concatenate([_expanded(each, 1) if np.ndim(each) == 1 else each for each in tup], 1)


# -- products


def matmul(x1: Any, x2: Any) -> Any:
    """A product of distributed arrays, or of one and a NumPy array that all ranks have whole."""
    a, b = (_distributed(name, x, x1, x2) for name, x in (("x1", x1), ("x2", x2)))
    if a.ndim == b.ndim == 1:
        return _scalar_product(a, b, np.dot)
    if a.ndim == 1:
        return matmul(b.swapaxes(-1, -2), a)
    return _matrix_product(a, b, np.matmul) if a.ndim == 2 and b.ndim <= 2 else _together(linalg.matmul, a, b)


def _distributed(name: str, x: Any, *operands: Any) -> Array:
    """An operand; of a NumPy array that all ranks have, rows for each process of the other operand."""
    if isinstance(x, DistributedArray):
        return x
    first = next(each for each in operands if isinstance(each, DistributedArray))
    if not isinstance(x, np.ndarray) or not x.ndim:
        raise TypeError(f"{name} = {shown(x)} must be a distributed array, or a NumPy array that all ranks have")
    with step(_group(first), f"{name}, a NumPy array"):
        own = in_rows(x, first.desc)
    return type(first)._from_result(*own)


def _scalar_product(a: Array, b: Any, function: Callable[..., Any]) -> Any:
    """`numpy.dot` or `numpy.vdot` of all elements of two arrays of one shape, a number on all ranks. Collective."""
    if a.shape != np.shape(b):
        raise ArrayError(f"the shapes {a.shape} and {np.shape(b)} differ: the elements of a product must be as many")
    other = _together(a._aligned, b) if isinstance(b, Distributed) else b

    def together(of_ranks: list[list[Any]]) -> Any:
        kinds = [np.empty(0, each.dtype) for each in (a, b)]
        return functools.reduce(np.add, itertools.chain(*of_ranks)) if any(of_ranks) else function(*kinds)

    with step(_group(a), "a scalar product", combine=together) as agreed:
        places = a.desc.own_places
        blocks = zip(places, _own_arrays(a), own_values(other, a), strict=False)
        agreed.give(
            [
                function(x.reshape(-1), y.reshape(-1))
                for place, x, y in blocks
                if not any(place[a.ndim :]) and x is not None and x.size
            ]
        )
    return agreed.result


def _own_arrays(array: Array) -> list[Any]:
    return own_values(array, array)


def vdot(a: Any, b: Any) -> Any:
    x, y = (_distributed(name, each, a, b) for name, each in (("a", a), ("b", b)))
    if x.size != y.size:
        raise ArrayError(f"a has shape {x.shape} and b {y.shape}: they must have as many elements")
    return _scalar_product(x, y if x.shape == y.shape else reshape(y, x.shape), np.vdot)


def dot(a: Any, b: Any) -> Any:
    if np.ndim(a) == 0 or np.ndim(b) == 0:
        x, y = (each if isinstance(each, Distributed) else np.asarray(each)[()] for each in (a, b))
        return x * y
    x, y = (_distributed(name, each, a, b) for name, each in (("a", a), ("b", b)))
    return tensordot(x, y, ((-1,), (max(-2, -y.ndim),)))


def inner(a: Any, b: Any) -> Any:
    if np.ndim(a) == 0 or np.ndim(b) == 0:
        x, y = (each if isinstance(each, Distributed) else np.asarray(each)[()] for each in (a, b))
        return x * y
    return tensordot(a, b, ((-1,), (-1,)))


def outer(a: Any, b: Any) -> Array:
    x, y = (ravel(_distributed(name, each, a, b)) for name, each in (("a", a), ("b", b)))
    return tensordot(x, y, 0)  # type: ignore[no-any-return]


def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """Sums of products over dimensions of both: one product of matrices, of arrays in other shapes."""
    x, y = (_distributed(name, each, a, b) for name, each in (("a", a), ("b", b)))
    pairs: Any = (range(-axes, 0), range(axes)) if isinstance(axes, int | np.integer) else axes
    over_x, over_y = ([each] if isinstance(each, int | np.integer) else [*each] for each in pairs)
    dims_x, dims_y = dimensions_of(x, [*over_x]), dimensions_of(y, [*over_y])
    if [x.shape[k] for k in dims_x] != [y.shape[k] for k in dims_y]:
        raise ArrayError(f"a has shape {x.shape} and b {y.shape}: along axes = {axes!r} they must have equal sizes")
    left, right = ([k for k in range(z.ndim) if k not in dims] for z, dims in ((x, dims_x), (y, dims_y)))
    x, y = _slabs_permuted(x, [*left, *dims_x]), _slabs_permuted(y, [*dims_y, *right])
    if not left and not right:
        return _scalar_product(x, y, np.dot)
    rows, columns = x.shape[: len(left)], y.shape[len(dims_y) :]
    inner = math.prod(y.shape[: len(dims_y)])
    product = _matrix_product(_in_shape(x, (math.prod(rows), inner)), _in_shape(y, (inner, math.prod(columns))))
    return _in_shape(product, (*rows, *columns))


def _slabs_permuted(array: Array, order: Sequence[int]) -> Array:
    """The array with its dimensions in another order; one of tiles first in slabs. Collective for tiles."""
    slabs: Any = _together(in_slabs, array)
    return slabs.transpose(order)  # type: ignore[no-any-return]


def _in_shape(array: Array, shape: tuple[int, ...]) -> Array:
    return array if array.shape == shape else reshape(array, shape)


def _matrix_product(a: Array, b: Array, function: Callable[..., Any] = np.dot) -> Array:
    """A matrix times one or a vector: of numbers that BLAS has by `linalg`, of others with B whole on each rank."""
    try:
        kind = function(np.zeros((1, 1), a.dtype), np.zeros((1, 1), b.dtype)).dtype
    except (TypeError, ValueError) as error:  # NumPy's text names neither
        raise TypeError(f"elements of dtype {a.dtype} and {b.dtype} have no products and sums: bring numbers") from error
    if kind.char in "fdFD":
        with step(_group(a), "a product, its dtype"):
            a, b = (each if each.dtype == kind else each.astype(kind) for each in (a, b))
        return _together(linalg.matmul, a, b)
    if a.shape[1] != b.shape[0]:
        raise ArrayError(f"a has shape {a.shape} and b {b.shape}: b must have {a.shape[1]} rows, as a has columns")
    whole: Any = _together(b.gather, None)
    rows = _brought(a, slabs_along(a.desc, a.shape, 0))
    layout = slabs_along(a.desc, (a.shape[0], *b.shape[1:]), 0)
    with step(_group(a), "a product"):
        local = None if layout.coords is None else function(rows.own, whole)
    return type(a)._from_result(layout, local, kind)


def einsum(subscripts: str, *operands: Any, optimize: Any = False) -> Any:
    """Sums over letters, of one array, or of two that are one product."""
    *inputs, output = _letters(subscripts, operands)
    if len(inputs) == 1:
        return _einsum_of_one(operands[0], inputs[0], output)
    (first, second), (a, b) = inputs, (_distributed("an operand", each, *operands) for each in operands)
    if len({*first}) < len(first) or len({*second}) < len(second):
        _refuse_subscripts(subscripts)
    both, kept = {*first} & {*second}, {*output}
    if not ({*first} ^ {*second}) <= kept:
        _refuse_subscripts(subscripts)
    if both & kept:  # for each of these another product
        if {*first} == {*second}:
            product = _together(operator.mul, _einsum_of_one(a, first, first), _einsum_of_one(b, second, first))
            return _einsum_of_one(product, first, output)
        batch = [c for c in output if c in both]
        over, left, right = (
            [c for c in text if (c in both) is shared and c not in batch]
            for text, shared in ((first, True), (first, False), (second, False))
        )
        if not len(over) == len(left) == len(right) == 1:
            _refuse_subscripts(subscripts)
        x = _slabs_permuted(a, [first.index(c) for c in (*batch, *left, *over)])
        y = _slabs_permuted(b, [second.index(c) for c in (*batch, *over, *right)])
        return _einsum_of_one(_together(linalg.matmul, x, y), "".join((*batch, *left, *right)), output)
    over = [c for c in first if c in both]
    product = tensordot(a, b, ([first.index(c) for c in over], [second.index(c) for c in over]))
    letters = "".join(c for c in first + second if c not in both)
    return product if not letters else _einsum_of_one(product, letters, output)


def _letters(subscripts: Any, operands: Sequence[Any]) -> list[str]:
    """The letters of each operand, and of the result."""
    text = subscripts.replace(" ", "") if isinstance(subscripts, str) else ""
    inputs, arrow, output = text.partition("->")
    parts = inputs.split(",")
    if not arrow:
        output = "".join(sorted(c for c in {*inputs} - {","} if inputs.count(c) == 1))
    if len(parts) != len(operands) or len(parts) > 2 or not all(c.isalpha() for c in "".join(parts) + output):
        _refuse_subscripts(subscripts)
    for part, operand in zip(parts, operands, strict=True):
        if len(part) != np.ndim(operand):
            raise ArrayError(f"subscripts = {subscripts!r} has {len(part)} letters for {shown(operand)}")
    if len({*output}) < len(output) or not {*output} <= {*inputs}:
        raise ArrayError(f"subscripts = {subscripts!r} must have each letter of the result once, and in an operand")
    sizes: dict[str, int] = {}
    for letter, n in zip("".join(parts), itertools.chain(*(np.shape(each) for each in operands)), strict=True):
        if sizes.setdefault(letter, n) != n:
            raise ArrayError(f"subscripts = {subscripts!r}: {letter} is a dimension of {sizes[letter]} and one of {n}")
    return [*parts, output]


def _refuse_subscripts(subscripts: Any) -> NoReturn:
    raise TypeError(
        f"numpy.einsum({subscripts!r}, ...) is not one product of two distributed arrays: write it as several, as "
        "np.einsum('ij,jk->ik', a, b) or a @ b.T, with a.transpose(...), a.reshape(...) and (a * b).sum(axis) around them"
    )


def _einsum_of_one(a: Array, letters: str, output: str) -> Any:
    if len({*letters}) < len(letters):
        if len(letters) != 2:
            _refuse_subscripts(f"{letters}->{output}")
        return _together(a.diagonal) if output else np.asarray(_together(a.trace)).astype(a.dtype)[()]
    dropped = tuple([k for k, c in enumerate(letters) if c not in output])
    left = [c for c in letters if c in output]
    kept = _together(a.sum, dropped, a.dtype) if dropped else a
    return kept.transpose([left.index(c) for c in output]) if output else kept


# -- comparisons


def isclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    operands = [each if isinstance(each, Distributed) else np.asarray(each)[()] for each in (a, b, rtol, atol)]
    return _first_of(*operands)._compute(functools.partial(np.isclose, equal_nan=equal_nan), *operands)


def _first_of(*operands: Any) -> Array:
    return largest([each for each in operands if isinstance(each, DistributedArray)])  # type: ignore[return-value]


def _compared(name: str, function: Callable[..., Any], *operands: Any) -> bool:
    """Whether a function of elements is true for all, of arrays in any layouts. Collective."""
    first = _first_of(*operands)
    aligned = [
        _together(first._aligned, each) if isinstance(each, Distributed) else np.asarray(each)[()]
        for each in operands
    ]
    with step(_group(first), name):
        elements = first._compute(function, *aligned)
    return bool(_together(elements.all))


def allclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> bool:
    return _compared("numpy.allclose", functools.partial(np.isclose, equal_nan=equal_nan), a, b, rtol, atol)


def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> bool:
    def equal(x: Numbers, y: Numbers) -> Any:
        with_nan = equal_nan and all(each.dtype.kind not in "SUV" for each in (x, y))
        return (x == y) | ((x != x) & (y != y)) if with_nan else x == y

    return np.shape(a1) == np.shape(a2) and _compared("numpy.array_equal", equal, a1, a2)


# -- statistics


def count_nonzero(a: Array, axis: Axis = None, *, keepdims: bool = False) -> Any:
    number = reduced(a, np.add, "count_nonzero", axis, keepdims, np.intp, prepare=truth)
    return number if np.ndim(number) else type(np.count_nonzero(()))(number)


def ptp(a: Array, axis: Axis = None, *, keepdims: bool = False) -> Any:
    high, low = (_together(find, axis, keepdims=keepdims) for find in (a.max, a.min))
    return np.subtract(high, low)


def method(name: str) -> Row:
    """A function that is a method, which has its own agreement."""

    return Row(getattr(DistributedArray, name), is_agreed=False, is_collective=True)


def sort(a: Array, axis: int | None = -1, kind: str | None = None, *, stable: bool | None = None) -> Array:
    more = {} if stable is None else {"stable": stable}
    return _along(a, axis, functools.partial(np.sort, kind=kind, **more), _sorted)


def cumsum(a: Array, axis: int | None = None, dtype: DTypeLike | None = None) -> Array:
    return _along(a, axis, functools.partial(np.cumsum, dtype=dtype), functools.partial(_accumulated, add=np.add))


def cumprod(a: Array, axis: int | None = None, dtype: DTypeLike | None = None) -> Array:
    return _along(a, axis, functools.partial(np.cumprod, dtype=dtype), functools.partial(_accumulated, add=np.multiply))


def _along(a: Array, axis: int | None, function: Callable[..., Numbers], of_line: Callable[..., Array]) -> Array:
    """A function along a dimension, whose values have its shape, in the layout of the array. Collective.

    `of_line` makes the same of the elements of one line, which may be on several processes.
    """
    if axis is None:
        line = of_line(_flat(a), functools.partial(function, axis=0))
        return _brought(line, slabs_along(a.desc, line.shape, 0))
    (dim,) = dimensions_of(a, axis)
    if a.size == a.shape[dim]:  # there is no other dimension to be cut
        result = _shaped(of_line(_flat(a), functools.partial(function, axis=0)), a.shape)
    else:
        work = functools.partial(function, axis=dim)
        result = _computed(_whole_along(a, (dim,)), "a function along a dimension", work)
    return _brought(result, whole_layout(a.desc))


def _accumulated(line: Array, function: Callable[[Numbers], Numbers], add: np.ufunc) -> Array:
    """Sums or products so far, of ranges on processes: each begins with those of the processes before it. Collective."""
    sums = _computed(line, "sums so far", function)
    with step(_group(line), "sums so far, of ranks", combine=list) as agreed:
        own = sums.own
        if line.desc.coords is not None and own is not None and own.size:
            agreed.give((line.desc.coords[0], own[-1]))
    with step(_group(line), "sums so far, together"):
        lasts = dict(each for each in agreed.result if each is not None)
        before = [lasts[place] for place in sorted(lasts) if line.desc.coords and place < line.desc.coords[0]]
        if before and own is not None and own.size:
            own[...] = add(functools.reduce(add, before), own)
    return sums


def _sorted(line: Array, function: Callable[[Numbers], Numbers]) -> Array:
    """All elements in order, in ranges of about equal lengths on the processes. Collective.

    Regular samples of what each process has sorted give the values at which all are cut (Li, Lu, Schaeffer and others, On the
    versatility of parallel sorting by regular sampling, 1993); of equal values as many go to each side as balance needs. What
    goes from one process to another is a block of an irregular layout. A rank needs some three times its range.
    """
    group, desc = _group(line), line.desc
    processes, ordered = desc.grid.size, _computed(line, "numpy.sort", function)
    if processes == 1 or not line.size:
        return ordered
    own = None if desc.coords is None or not ordered.own.size else ordered.own
    with step(group, "numpy.sort, samples", combine=list) as agreed:
        if own is not None:
            agreed.give(own[np.linspace(0, own.size - 1, 4 * processes).astype(int)])
    with step(group, "numpy.sort, cuts", combine=list) as counted:
        samples = function(np.concatenate([each for each in agreed.result if each is not None]))
        values = samples[[k * len(samples) // processes for k in range(1, processes)]]
        if own is not None:
            counted.give((desc.coords[0], *(np.searchsorted(own, values, side).tolist() for side in ("left", "right"))))
    lengths = [desc.distributions[0].local_size(p) for p in range(processes)]
    cuts = np.zeros((processes, processes + 1), np.int64)
    cuts[:, -1] = lengths
    of_places = {each[0]: each[1:] for each in counted.result if each is not None}
    for k in range(processes - 1):
        missing = (k + 1) * line.size // processes - sum(low[k] for low, _ in of_places.values())
        for p in sorted(of_places):
            low, high = (each[k] for each in of_places[p])
            taken = min(max(0, missing), high - low)
            cuts[p, k + 1], missing = low + taken, missing - taken
    pieces = np.diff(cuts, axis=1)
    before, after = (
        Descriptor(line.shape, Blocks(pieces.ravel(), owners), desc.grid)
        for owners in (np.repeat(np.arange(processes), processes), np.tile(np.arange(processes), processes))
    )
    pieced: Any = _together(move, type(line)._from_result(before, ordered.local, ordered.dtype), after)
    merged = _computed(pieced, "numpy.sort, merging", function)
    return type(line)._from_result(_line(desc, pieces.sum(0).tolist()), merged.local, merged.dtype)


def median(a: Array, axis: Axis = None, *, keepdims: bool = False) -> Any:
    def of_all(line: Array) -> Any:
        last = line.size - 1
        low, high, greatest = _elements_at(line, [last // 2, (last + 1) // 2, last])
        return np.median(np.array([greatest]) if greatest != greatest else np.array([low, high]))

    return _reduced_whole(a, axis, keepdims, np.median, of_all)


BETWEEN_TWO = (
    "linear",
    "lower",
    "higher",
    "midpoint",
)  # quantiles that depend on two neighbours and the place between them


def quantile(a: Array, q: Any, axis: Axis = None, *, method: str = "linear", keepdims: bool = False) -> Any:
    return _quantiles(a, np.quantile, 1, q, axis, method, keepdims)


def percentile(a: Array, q: Any, axis: Axis = None, *, method: str = "linear", keepdims: bool = False) -> Any:
    return _quantiles(a, np.percentile, 100, q, axis, method, keepdims)


def _quantiles(a: Array, function: Any, parts: int, q: Any, axis: Axis, method: str, keepdims: bool) -> Any:
    """Quantiles by NumPy's function, which counts them in so many parts."""
    kind = function(np.zeros(1, a.dtype), q, method=method).dtype  # an error for what NumPy does not take
    is_index = parts == 1 and method == "linear" and np.asarray(q).dtype.kind in "biu"
    if is_index and np.dtype(a.dtype).kind == "f":  # NumPy takes elements, or makes floats of integers, as inf - inf shows
        with np.errstate(invalid="ignore"):
            is_index = not np.isnan(function(np.full(2, np.inf, a.dtype), q)).any()

    def of_all(line: Any) -> Any:
        if method not in BETWEEN_TWO:
            raise ArrayError(
                f"method = {method!r} must be one of {', '.join(map(repr, BETWEEN_TWO))} for a distributed dimension or all "
                "elements; np.sort has them in order"
            )
        last = line.size - 1
        places = np.asarray(np.true_divide(q, parts) * last)
        low = np.floor(places).astype(np.int64)
        pairs = [low.ravel().tolist(), np.minimum(low + 1, last).ravel().tolist()]
        greatest, *values = _elements_at(line, [last, *itertools.chain(*pairs)])
        if greatest != greatest:  # a NaN, which is at the end
            values = [greatest] * len(values)
        both = np.array(values, line.dtype).reshape(2, -1).T
        if is_index:
            return both[:, 0].astype(kind).reshape(low.shape)[()]
        weights = (places - low).ravel() * parts
        results = [function(pair, weight, method=method) for pair, weight in zip(both, weights, strict=True)]
        return np.array(results, kind).reshape(low.shape)[()]

    return _reduced_whole(a, axis, keepdims, functools.partial(function, q=q, method=method), of_all, np.ndim(q))


def _elements_at(line: Array, places: Sequence[int]) -> list[Any]:
    """Elements of an array of one dimension, on all ranks. Collective."""
    with step(_group(line), "elements at places", combine=list) as agreed:
        ((indices,),) = own_indices(line)
        here = [
            (place, line.own[place - indices[0]])
            for place in places
            if indices.size and indices[0] <= place <= indices[-1]
        ]
        agreed.give(here)
    known = dict(itertools.chain(*agreed.result))
    return [known[place] for place in places]


def _reduced_whole(
    a: Array,
    axis: Axis,
    keepdims: bool,
    function: Callable[..., Any],
    of_line: Callable[[Array], Any],
    leading: int = 0,
) -> Any:
    """A function of all elements along dimensions, as a NumPy array on all ranks. Collective.

    `of_line` makes the same of all elements in order; results have `leading` dimensions first.
    """
    dims = dimensions_of(a, axis)
    if not a.size:
        return function(np.empty(a.shape, a.dtype), axis=dims if axis is not None else None, keepdims=keepdims)
    desc = a.desc
    is_whole = isinstance(desc, Descriptor) and all(desc.distributions[k].processes == 1 for k in dims)
    if a.size == math.prod(a.shape[k] for k in dims) and not is_whole:
        rest = tuple([1 if k in dims else n for k, n in enumerate(a.shape) if keepdims or k not in dims])
        value = np.asarray(of_line(_sorted(_flat(a), functools.partial(np.sort, axis=0))))
        return value.reshape(value.shape + rest)[()]
    whole = _whole_along(a, dims)
    rest = tuple([k for k in range(a.ndim) if k not in dims])

    def together(of_ranks: list[list[tuple[Any, Numbers]]]) -> Numbers:
        parts = [*itertools.chain(*of_ranks)]
        extra = parts[0][1].shape[:leading]
        result = np.empty((*extra, *(a.shape[k] for k in rest)), parts[0][1].dtype)
        for indices, values in parts:
            result[(..., *np.ix_(*indices))] = values
        return result

    with step(_group(whole), "a function of whole dimensions", combine=together) as agreed:
        axes = whole.desc.distributions
        agreed.give(
            [
                ([axes[k].global_indices(place[k]) for k in rest], np.asarray(function(own, axis=dims)))
                for place, own in own_blocks(whole)
            ]
        )
    result: Numbers = agreed.result
    return np.expand_dims(result, [leading + k for k in dims]) if keepdims else result[()]


def histogram(a: Array, bins: Any = 10, range: Any = None, density: bool | None = None) -> tuple[Numbers, Numbers]:
    """Counts in bins, and their edges, on all ranks."""
    if isinstance(bins, str):
        raise ArrayError(f"bins = {bins!r} must be the number of bins, or their edges: NumPy's rules need all elements")
    is_number = np.ndim(bins) == 0
    if is_number and range is None and a.size:
        low, high = _together(a.min), _together(a.max)
        range = (low, high) if a.dtype != bool else (np.uint8(low), np.uint8(high))

    def count(elements: Numbers) -> tuple[Numbers, Numbers]:
        return np.histogram(elements, bins, range)

    counts, edges = count(np.empty(0, a.dtype))
    with step(_group(a), "numpy.histogram", combine=lambda of_ranks: functools.reduce(np.add, of_ranks)) as agreed:
        agreed.give(functools.reduce(np.add, [count(own)[0] for _, own in own_blocks(a)], counts))
    counts = agreed.result
    if density:
        return counts / np.asarray(np.diff(edges), float) / counts.sum(), edges
    return counts, edges


def cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    *,
    dtype: DTypeLike | None = None,
) -> Any:
    """The covariance of rows: the product of what is left of them without their means, a distributed array."""
    for name, each in (("m", m), *([] if y is None else [("y", y)])):
        if np.ndim(each) not in (1, 2):
            raise ArrayError(
                f"{name} = {shown(each)} must be an array of one or two dimensions; rowvar= is given by its name"
            )
    if ddof is not None and ddof != int(ddof):
        raise ArrayError(f"ddof = {ddof!r} must be an integer, as NumPy has it here")
    if y is not None:
        return cov(
            vstack([each if rowvar else each.T for each in map(_array, (m, y))]), None, True, bias, ddof, dtype=dtype
        )
    less = (0 if bias else 1) if ddof is None else ddof
    kind = np.result_type(m.dtype, np.float64) if dtype is None else np.dtype(dtype)
    if kind.kind not in "fc":
        raise ArrayError(f"dtype = {dtype!r} must be of real or complex numbers, in which means can be written")
    with step(_group(m), "numpy.cov, its dtype"):
        x = m.astype(kind)
    if m.ndim == 1:
        return np.asarray(_together(x.var, ddof=less), kind)
    if not rowvar:
        x = x.T
    number = max(0, x.shape[1] - less)
    means = _together(x.mean, 1, keepdims=True)
    with step(_group(m), "numpy.cov, without means"):
        x = x - means
    product = _matrix_product(x, x.H)
    with step(_group(m), "numpy.cov, the quotient"):
        result = (product * np.true_divide(1, number)).astype(kind)
    return np.asarray(_together(result.__getitem__, (0, 0))) if result.shape == (1, 1) else result


def _array(value: Any) -> Any:
    return value if isinstance(value, Distributed) else np.asarray(value)


def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: DTypeLike | None = None) -> Any:
    c = cov(x, y, rowvar, dtype=dtype)
    if not isinstance(c, Distributed):
        return c / c
    roots = np.sqrt(_together(c.diagonal).real)
    with step(_group(c), "numpy.corrcoef, the quotients"):
        c = c / roots[:, None] / roots
        clipped = np.clip(c.real, -1, 1)
        return clipped + 1j * np.clip(c.imag, -1, 1) if np.dtype(c.dtype).kind == "c" else clipped


# -- the table


def eigh(a: Array, UPLO: str = "L") -> Any:
    if UPLO not in ("L", "U", "l", "u"):
        raise ArrayError(f"UPLO = {UPLO!r} must be 'L' or 'U', the triangle that is read")
    return _together(linalg.eigh, a, lower=UPLO in "Ll")


LINEAR_ALGEBRA: dict[str, Callable[..., Any]] = {
    "solve": lambda a, b: linalg.solve(a, b),
    "inv": lambda a: linalg.inv(a),
    "det": lambda a: linalg.det(a),
    "slogdet": lambda a: linalg.slogdet(a),
    "cholesky": lambda a, *, upper=False: linalg.cholesky(a, lower=not upper),
    "eigvalsh": lambda a, UPLO="L": linalg.eigvalsh(a, UPLO),
    "eig": lambda a: linalg.eig(a),
    "eigvals": lambda a: linalg.eigvals(a),
    "svd": lambda a, full_matrices=True, compute_uv=True: linalg.svd(a, full_matrices, compute_uv),
    "svdvals": lambda x: linalg.svdvals(x),
    "qr": lambda a, mode="reduced": linalg.qr(a, mode),
    "pinv": lambda a, rcond=1e-15: linalg.pinv(a, rcond),
    "lstsq": lambda a, b, rcond=None: linalg.lstsq(a, b, rcond),
    "cond": lambda x, p=None: linalg.cond(x, p),
    "matrix_rank": lambda A, tol=None, *, rtol=None: linalg.matrix_rank(A, tol, rtol=rtol),
    "norm": lambda x, ord=None, axis=None: linalg.norm(x, ord, axis),
}
AGREED = (
    *(
        reshape,
        ravel,
        concatenate,
        stack,
        vstack,
        hstack,
        column_stack,
        matmul,
        vdot,
        dot,
        inner,
        outer,
        tensordot,
        einsum,
    ),
    *(allclose, array_equal, ptp, sort, cumsum, cumprod, median, quantile, percentile, histogram, cov, corrcoef),
)
METHODS = (
    *("sum", "prod", "mean", "var", "std", "min", "max", "any", "all", "argmin", "argmax", "trace", "diagonal"),
    *("copy", "astype"),
)
ROWS: dict[str, Row] = {
    **{function.__name__: Row(function) for function in AGREED},
    **{name: method(name) for name in METHODS},
    **{name: method(name.removeprefix("a")) for name in ("amin", "amax")},
    **{name: permuted(getattr(np, name)) for name in ("transpose", "moveaxis", "swapaxes", "rollaxis")},
    **{
        function.__name__: Row(function, is_agreed=False)
        for function in (full_like, zeros_like, ones_like, expand_dims, isclose)
    },
    "empty_like": Row(zeros_like, is_agreed=False),
    "count_nonzero": Row(count_nonzero, is_agreed=False, is_collective=True),
    "size": Row(lambda a: a.size, is_agreed=False),
    "shape": Row(lambda a: a.shape, is_agreed=False),
    "ndim": Row(lambda a: a.ndim, is_agreed=False),
}
# NumPy 1 lacks some of the names.
TABLE: dict[Any, Row] = {
    **{function: row for name, row in ROWS.items() if (function := getattr(np, name, None)) is not None},
    **{
        function: Row(work, is_agreed=False, is_collective=True)
        for name, work in LINEAR_ALGEBRA.items()
        if (function := getattr(np.linalg, name, None)) is not None
    },
    **{
        function: Row(work)
        for name, work in (("matmul", matmul), ("tensordot", tensordot), ("eigh", eigh))
        if (function := getattr(np.linalg, name, None)) is not None
    },
    **{
        function: permuted(function)
        for module in (np, np.linalg)
        if (function := getattr(module, "matrix_transpose", None)) is not None
    },
}
BY_SLICES = "write it by slices, as b[k:] = a[:-k], which move elements"
WITHOUT_NAN = "a[a == a] is without NaN: a[a == a].mean(); or np.where(a == a, a, 0)"
REMEDIES: dict[str, str] = {
    "save": "write a.save('a.npy')",
    **dict.fromkeys(("savez", "savez_compressed"), "write psr.save({'a': a, 'b': b}, 'arrays.h5')"),
    "savetxt": "write a.save('a.npy'), or np.savetxt of a.gather() on rank 0",
    "copyto": "write b[...] = a",
    "where": "it takes a mask and two values, as np.where(a > 0, a, 0); a[mask].sum() and a[mask] = 0 take a mask alone",
    **dict.fromkeys(("clip", "round"), "arguments that are given by name must be numbers; in place of out= write b[...] = "),
    "flip": "write a[::-1]",
    **dict.fromkeys(("flipud", "fliplr"), "write a[::-1] or a[:, ::-1]"),
    "take": "write slices, as a[::2], or a row after the other, as a[i]; the rows of each rank are in a.own",
    "take_along_axis": "write np.where of masks; a.gather() is the whole array on one rank",
    **dict.fromkeys(("roll", "pad", "insert", "delete", "append", "repeat"), BY_SLICES),
    "tile": "write np.concatenate([a, a])",
    **dict.fromkeys(("split", "array_split", "vsplit", "hsplit"), "write slices, as a[:k] and a[k:], which are views"),
    "diff": "write a[1:] - a[:-1]",
    **dict.fromkeys(("squeeze", "atleast_2d", "atleast_3d"), "write a.reshape(shape)"),
    "tril": "of a square matrix write a.redistribute(a.desc, uplo='L'); of others a * mask, of 0 and 1 in the layout of a",
    "triu": "of a square matrix write a.redistribute(a.desc, uplo='U'); of others a * mask, of 0 and 1 in the layout of a",
    "diag": "write a.diagonal()",
    "fill_diagonal": "write a[psr.eye(a, dtype=bool)] = value",
    "block": "write np.vstack([np.hstack([a, b]), np.hstack([c, d])])",
    "nan_to_num": "write np.where(np.isnan(a), 0, a), which leaves infs",
    "kron": "write np.einsum('ij,kl->ikjl', a, b), and reshape it",
    **dict.fromkeys(
        ("fft.fft", "fft.ifft", "fft.fft2", "fft.ifft2", "fft.fftn", "fft.ifftn", "fft.rfft", "fft.irfft"),
        "transform one axis after the other, each where it is whole on ranks: docs/fourier.md has the program",
    ),
    "average": "write a.mean(axis), or with weights (a * w).sum(axis) / w.sum(axis)",
    "unique": "write np.sort(a, axis=None), or np.unique of np.concatenate of all ranks' np.unique(a.own)",
    **dict.fromkeys(
        ("argsort", "lexsort"), "np.sort(a) has the values in order; indices are not here: a.gather() is for NumPy"
    ),
    **dict.fromkeys(("partition", "argpartition"), "write np.sort(a, axis)"),
    **dict.fromkeys(
        ("nonzero", "argwhere", "flatnonzero", "extract", "compress"),
        "write a[mask].sum(), a[mask] = 0, or np.where(mask, a, 0); of rows a[a[:, 0] > 0]",
    ),
    **dict.fromkeys(("nansum", "nanmean", "nanmin", "nanmax", "nanstd", "nanvar", "nanmedian"), WITHOUT_NAN),
    "apply_along_axis": "bring the axis whole to each rank, as a.redistribute(desc) with axes=(None, 0), and apply it to a.own",
    "linalg.matrix_power": "write a @ a; of a Hermitian matrix psr.linalg.fractional_matrix_power(a, n, assume_a='her')",
    "linalg.multi_dot": "write a @ b @ c",
}
