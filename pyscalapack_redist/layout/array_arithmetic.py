"""Distributed: a descriptor with this rank's local array, and the operations without communication.

`DistributedArray`, its subclass in `distributed_array`, adds the operations with communication. Modules below that one use
this class.
"""

from __future__ import annotations

import contextlib
import functools
import math
import operator
import warnings
from collections.abc import Callable, Sequence
from numbers import Number
from typing import Any, NoReturn, Self, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..errors import ArrayError, DescriptorError, kind_of, shown
from ..tracebacks import brief_methods
from .arrays import host_array
from .axis import BlockCyclic
from .descriptor import Descriptor, fit_local_array
from .dimensions import local_part
from .dtypes import dtype_digest, is_complex
from .grid import ProcessGrid
from .tiles import LAYOUTS, Layout

R = TypeVar("R")
# The reflected operator that NumPy's function stands for.
OPERATORS = {
    np.add: "__radd__",
    np.subtract: "__rsub__",
    np.multiply: "__rmul__",
    np.true_divide: "__rtruediv__",
    np.matmul: "__rmatmul__",
}
DTYPES = [code for code in np.typecodes["All"] if code not in "OVc"]  # that an array may have
# Methods of NumPy's arrays that are functions too
OF_NUMPY = {name for name in dir(np.ndarray) if hasattr(np, name) and not name.startswith("_")}
# What to write in place of methods of NumPy's arrays
IN_PLACE_OF_METHODS = {
    "fill": "write a[...] = value",
    "item": "a[i, j] is an element, on all ranks",
    "itemset": "write a[i, j] = value",
    "tolist": "write a.gather(None).tolist(), of the whole array on all ranks",
    "tobytes": "a.own.tobytes() is this rank's part, and a.gather().tobytes() the whole array on one rank",
    "tofile": "write a.save('a.npy')",
    "view": "a.own.view(dtype) is this rank's part",
    "flat": "a.ravel() has the elements in one dimension",
    "nbytes": "a.own.nbytes is that of this rank's part, and a.size * a.own.itemsize that of the array",
    "strides": "those of this rank's part are a.own.strides",
    "flags": "those of this rank's part are a.own.flags",
    "sort": "write b = np.sort(a, axis)",
    "resize": "write b = a.reshape(shape)",
}
# Functions of elements that are no ufuncs
OF_ELEMENTS = (np.clip, np.imag, np.real, np.round, np.where)


@brief_methods
class Distributed:
    """This rank's part of a distributed array: its layout and its local array. Not collective.

    The operators combine this rank's elements of two arrays of one layout, or of an array and a number.

    Parameters
    ----------
    desc : Descriptor or Tiles
        Layout of the array; of a sub-array, `local` is the whole array's.
    local : ndarray, list of ndarray, or None
        This rank's local array, of any fixed-size dtype and any strides; it is not copied. Of an array of shape (LLD, columns),
        only the rows of the local array are used. On a rank outside the grid None, or an empty array for the dtype. Of tiles a
        list, with an array for each own tile.

    Raises
    ------
    DescriptorError, ArrayError
        `desc` is no layout, or `local` does not fit it; on this rank only.
    """

    _desc: Layout
    _dtype: np.dtype[Any] | None = None  # of a rank without a tile
    _consumed_by = ""  # the call that has moved its elements away

    def __init__(self, desc: Layout, local: Any) -> None:
        if not isinstance(desc, LAYOUTS):
            raise DescriptorError(f"desc = {shown(desc)} must be a Descriptor or Tiles")
        self._desc = desc
        if not isinstance(desc, Descriptor):
            if isinstance(local, list | tuple):
                local = [host_array(f"local[{k}]", tile) for k, tile in enumerate(local)]
            self._local = local = host_array("local", local)
            dtypes = {array.dtype for array in desc.own_arrays(local) if array is not None}
            if len(dtypes) > 1:
                raise ArrayError(
                    f"local has tiles of dtypes {', '.join(sorted(map(str, dtypes)))}: they must be of one"
                )
            return
        local = host_array("local", local)
        checked = fit_local_array("local", local, desc)
        if local is not None and local.shape == desc.local_shape:
            checked = local
        elif local is not None and checked is None:
            checked = desc.empty(local.dtype)
        self._local = checked

    @classmethod
    def from_function(
        cls, desc: Descriptor, f: Callable[..., Any], dtype: DTypeLike | None = None, order: str = "F"
    ) -> Self:
        """An array with elements f(i, j, ...) of the global indices, as by `Descriptor.from_function`. Not collective."""
        if not isinstance(desc, Descriptor):
            raise DescriptorError(f"desc = {shown(desc)} must be a Descriptor, and f the next argument")
        return cls(desc, Descriptor.from_function(desc, f, dtype, order))

    @classmethod
    def _from_result(cls, desc: Layout, local: Any, dtype: np.dtype[Any] | None) -> Self:
        """The result of a call. Without a local array, as outside the grid, an empty array has the dtype."""
        array = cls(desc, desc.empty(dtype) if local is None and dtype is not None else local)
        array._dtype = dtype
        return array

    def _consume(self, call: str) -> None:
        """Let go of the memory, whose elements the call is about to move away."""
        self._dtype, self._consumed_by = self.dtype, call
        del self._desc, self._local

    def _take_back(self, desc: Layout, local: Any) -> None:
        """Have memory again of which nothing has been moved away."""
        self._desc, self._local, self._consumed_by = desc, local, ""

    def __getstate__(self) -> dict[str, Any]:
        """Of tiles a list of local arrays: pickled layouts lose their offsets."""
        is_list = not self._consumed_by and not isinstance(self._desc, Descriptor)
        return self.__dict__ | {"_local": own_arrays(self), "_dtype": self.dtype} if is_list else self.__dict__

    def __getattr__(self, name: str) -> Any:
        if name in ("_desc", "_local") and self._consumed_by:
            raise ArrayError(
                f"this array has been consumed by {self._consumed_by}, which has moved its elements: use the result of that "
                "call, or leave overwrite=True out there"
            )
        remedy = IN_PLACE_OF_METHODS.get(name, f"numpy.{name}(a) works, or says what to write" if name in OF_NUMPY else "")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{remedy and ': '}{remedy}")

    @property
    def desc(self) -> Any:
        """Layout of the array: a `Descriptor`, or `Tiles`."""
        return self._desc

    @property
    def local(self) -> Any:
        """This rank's local array, not a copy. Of a part, as `a[5:7, 3:9]`, it is that of the whole array: take `own` there.

        Outside the grid it is an array without elements, or None; of tiles a list of arrays.

        Raises
        ------
        ArrayError
            A call with overwrite=True has consumed the array.
        """
        return self._local

    @local.setter
    def local(self, local: Any) -> None:
        if local is not self._local:  # what `a.local *= 2` assigns
            raise AttributeError(
                "local stays the same array: write into it, as a.local[...] = values, or make another array"
            )

    @property
    def own(self) -> Any:
        """This rank's elements, a view of `local`: of a part, as `a[5:7, 3:9]`, those of the part alone. Not collective.

        What is written into it is written into the array. For a whole array it is `local` itself.
        """
        desc, local = self._desc, self._local
        if desc.parent is None or desc.coords is None or local is None:
            return local
        return local[local_part(desc.distributions, desc.coords)]

    @property
    def shape(self) -> tuple[int, ...]:
        """Global shape; of the sub-array for a slice."""
        return self._desc.shape

    def __len__(self) -> int:
        """Number of elements along the first dimension."""
        return self.shape[0]

    __reversed__ = None

    def __contains__(self, value: object) -> NoReturn:
        raise TypeError(f"whether an element is in a distributed array tells (a == x).any(), on all ranks; here {shown(self)}")

    def __iter__(self) -> NoReturn:
        raise TypeError(
            "a distributed array cannot be iterated: all ranks ask for a[i] together, a row or an element in each call, as in "
            f"for i in range(len(a)); here {shown(self)}"
        )

    @property
    def size(self) -> int:
        """Number of elements of the whole array, or of the part."""
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return self._desc.ndim

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """Dtype of the elements; None on a rank without a local array."""
        if self._consumed_by:
            return self._dtype
        local = self._local
        if isinstance(local, list | tuple):
            local = next((array for array in local if array is not None), None)
        return self._dtype if local is None else local.dtype

    @property
    def _dtype_digest(self) -> int | None:
        """A number equal on all ranks that have the same dtype; None on a rank that does not know it."""
        dtype = self.dtype
        return None if dtype is None else dtype_digest(dtype)

    @property
    def T(self) -> Self:  # noqa: N802 - as NumPy's
        """The transpose: `desc.T` and a view, `local.T`; of tiles a list of views. Nothing moves."""
        return self._turned(operator.attrgetter("T"))

    def transpose(self, *axes: Any) -> Self:
        """The array with its dimensions in another order, by default the reverse, a view, as by `numpy.transpose`.

        Nothing moves between ranks. Not collective.

        Parameters
        ----------
        *axes : int, or one sequence of them
            For each dimension of the result the dimension of this array.

        Raises
        ------
        ValueError
            They are not all dimensions of the array, each once.
        DescriptorError
            The array is of tiles, and this is neither its order nor the reverse.
        """
        # NumPy reads the arguments: the sizes of this one tell its dimensions apart
        order = np.empty(range(self.ndim)).transpose(*axes).shape
        if order == tuple(range(self.ndim))[::-1]:
            return self.T
        if not isinstance(self._desc, Descriptor):
            if order == tuple(range(self.ndim)):
                return self
            raise DescriptorError(
                f"{self._desc!r} has no dimensions in another order: redistribute it to a Descriptor first"
            )
        local = None if self._local is None else self._local.transpose(order)
        return type(self)._from_result(self._desc._permuted(order), local, self.dtype)

    def swapaxes(self, axis1: int, axis2: int) -> Self:
        """The array with two dimensions exchanged, a view, as by `numpy.swapaxes`. Not collective."""
        return self.transpose(np.swapaxes(np.empty(range(self.ndim)), axis1, axis2).shape)

    @property
    def H(self) -> Self:  # noqa: N802 - as numpy.matrix's
        """The conjugate transpose. For a real array it is `T`, a view; for a complex array the local array is copied.

        Nothing moves between ranks. `redistribute(..., op="C")` conjugates without a copy, `op="R"` without transposing. Not
        collective.
        """
        if self.dtype is None or not is_complex(self.dtype):
            return self.T
        return self._turned(lambda local: np.conj(local.T))

    def _turned(self, function: Callable[..., Any]) -> Self:
        """An array of the transposed layout, of the values of a function of the local array."""
        desc = self._desc
        if isinstance(desc, Descriptor):
            local: Any = None if self._local is None else function(self._local)
        else:
            turned = dict(zip(desc.own_places, _on_tiles(function, own_arrays(self)), strict=True))
            local = [turned[place[::-1]] for place in desc.T.own_places]
        return type(self)._from_result(desc.T, local, self.dtype)

    def __getitem__(self, key: object) -> Any:
        """A slice, `array[i0:i1, j0:j1]`: `desc[i0:i1, j0:j1]` and the same local array. Nothing moves. Not collective.

        Raises
        ------
        DescriptorError
            A bound is no integer, or a step is not 1.
        """
        if not isinstance(self._desc, Descriptor):
            raise DescriptorError(f"{self._desc!r} has no sub-arrays: redistribute the array to a Descriptor first")
        return type(self)(self._desc[key], self._local)

    def _with(self, function: Callable[..., Any], is_view: bool = False) -> Self:
        """A new array with the values of a function of this rank's elements, tile by tile; of a part, an array of its own."""
        return self._compute(function, self, is_view=is_view)

    def copy(self) -> Self:
        """A copy with a new local array; of a part, as `a[5:7, 3:9]`, one of that part alone. Not collective."""
        return self._with(operator.methodcaller("copy", order="K"))

    def astype(self, dtype: DTypeLike) -> Self:
        """A copy with another dtype, as by `numpy.ndarray.astype`; of a part, one of that part alone. Not collective."""
        converted = self._with(operator.methodcaller("astype", dtype))
        if self.dtype is not None:
            converted._dtype = np.empty(0, self.dtype).astype(dtype).dtype  # of a text without a length it has one
        elif np.dtype(dtype).itemsize:
            converted._dtype = np.dtype(dtype)
        return converted

    def __add__(self, other: Any) -> Self:
        return self._compute(np.add, self, other)

    def __radd__(self, other: Any) -> Self:
        return self._compute(np.add, other, self)

    def __sub__(self, other: Any) -> Self:
        return self._compute(np.subtract, self, other)

    def __rsub__(self, other: Any) -> Self:
        return self._compute(np.subtract, other, self)

    def __mul__(self, other: Any) -> Self:
        return self._compute(np.multiply, self, other)

    def __rmul__(self, other: Any) -> Self:
        return self._compute(np.multiply, other, self)

    def __truediv__(self, other: Any) -> Self:
        return self._compute(np.true_divide, self, other)

    def __rtruediv__(self, other: Any) -> Self:
        return self._compute(np.true_divide, other, self)

    @property
    def real(self) -> Self:
        """The real parts, a view. Not collective."""
        return self._with(operator.attrgetter("real"), is_view=True)

    @property
    def imag(self) -> Self:
        """The imaginary parts: a view, of an array that is not complex zeros. Not collective."""
        return self._with(operator.attrgetter("imag"), is_view=True)

    def conj(self) -> Self:
        """The complex conjugate, a copy. Not collective."""
        return self._compute(_conjugate, self)

    def __neg__(self) -> Self:
        return self._with(operator.neg)

    def __pos__(self) -> Self:
        return self._with(operator.pos)

    def __abs__(self) -> Self:
        return self._compute(np.absolute, self)

    def __pow__(self, other: Any) -> Self:
        return self._compute(operator.pow, self, other)

    def __rpow__(self, other: Any) -> Self:
        return self._compute(operator.pow, other, self)

    def __floordiv__(self, other: Any) -> Self:
        return self._compute(np.floor_divide, self, other)

    def __rfloordiv__(self, other: Any) -> Self:
        return self._compute(np.floor_divide, other, self)

    def __divmod__(self, other: Any) -> tuple[Self, Self]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Self, Self]:
        return other // self, other % self

    def __mod__(self, other: Any) -> Self:
        return self._compute(np.remainder, self, other)

    def __rmod__(self, other: Any) -> Self:
        return self._compute(np.remainder, other, self)

    def __and__(self, other: Any) -> Self:
        return self._compute(np.bitwise_and, self, other)

    __rand__ = __and__

    def __or__(self, other: Any) -> Self:
        return self._compute(np.bitwise_or, self, other)

    __ror__ = __or__

    def __xor__(self, other: Any) -> Self:
        return self._compute(np.bitwise_xor, self, other)

    __rxor__ = __xor__

    def __invert__(self) -> Self:
        return self._compute(np.invert, self)

    def __eq__(self, other: object) -> Self:  # type: ignore[override]
        return self._compared(np.equal, "==", other)

    def __ne__(self, other: object) -> Self:  # type: ignore[override]
        return self._compared(np.not_equal, "!=", other)

    __hash__ = object.__hash__

    def _compared(self, function: np.ufunc, operator: str, other: object) -> Self:
        result = self._compute(function, self, other)
        return (
            self._refuse(f"{operator} with a {kind_of(other)}", "both sides must be numbers or arrays")
            if result is NotImplemented
            else result
        )

    def __bool__(self) -> NoReturn:
        raise ValueError(f"{self!r} has no truth value: take .any() or .all(), on all ranks")

    def __lt__(self, other: Any) -> Self:
        return self._compute(np.less, self, other)

    def __le__(self, other: Any) -> Self:
        return self._compute(np.less_equal, self, other)

    def __gt__(self, other: Any) -> Self:
        return self._compute(np.greater, self, other)

    def __ge__(self, other: Any) -> Self:
        return self._compute(np.greater_equal, self, other)

    def _compute(self, function: Callable[..., Any], *operands: Any, is_view: bool = False) -> Self:
        """Combine this rank's elements of arrays of one shape, numbers, and NumPy arrays that all ranks have whole.

        The result is in the layout of the first distributed array, and stored as that says; views are of tiles a list.
        """
        if not all(map(_is_operand, operands)):
            return NotImplemented  # type: ignore[no-any-return]
        first = largest([operand for operand in operands if isinstance(operand, Distributed)])
        layout = whole_layout(first.desc)
        operands = tuple(
            [
                first._aligned(each) if isinstance(each, Distributed) and each is not first else each
                for each in operands
            ]
        )
        number = len(own_arrays(first))
        values = [own_values(operand, first) or [operand] * number for operand in operands]
        arrays = _on_tiles(function, *values)
        dtype = next((array.dtype for array in arrays if array is not None), None)
        if dtype is None:  # of a rank without elements
            dtype = _dtype_of_values(function, operands)
        if isinstance(layout, Descriptor):
            return type(self)._from_result(layout, arrays[0], dtype)
        if is_view:
            layout = layout._as_list()
        if layout.offsets is None or dtype is None:
            return type(self)._from_result(layout, arrays, dtype)
        local = layout.zeros(dtype)
        for view, array in zip(layout.views(local), arrays, strict=True):
            if array is not None:
                view[...] = array
        return type(self)._from_result(layout, local, dtype)

    def _aligned(self, other: Distributed) -> Distributed:
        """An operand of an operation whose result is in the layout of this one: each process has what its elements need."""
        layout = whole_layout(self._desc) if other.shape == self.shape else _layout_beside(self._desc, other.shape)
        return other if whole_layout(other.desc) == layout else self._brought(other, layout)

    def _check_shape(self, other: Distributed) -> None:
        if not _broadcasts(other.shape, self.shape):
            raise ArrayError(
                f"the shapes {self.shape} and {other.shape} differ: they must be equal, or one must broadcast to the other; "
                "np.outer(x, y) is the product of columns and rows"
            )

    def _brought(self, other: Distributed, layout: Layout) -> Distributed:
        """The second array of an operation in the layout of this one. An error here, where nothing moves."""
        self._check_shape(other)
        raise ArrayError(
            f"the arrays are in different layouts, {self._desc!r} and {other.desc!r}: bring both into one by b.redistribute(a)"
        )

    def _refuse(self, operation: str, remedy: str = "") -> NoReturn:
        """Raise a TypeError that says what to write."""
        remedy = remedy or (
            "a.gather() is the whole array on one rank, for NumPy there; a.own is this rank's part alone, of which a function "
            "is not that of the array"
        )
        raise TypeError(f"{operation} does not take distributed arrays: {remedy}; here {shown(self)}")

    def __array__(self, *_: object, **__: object) -> NoReturn:
        self._refuse(
            "numpy.asarray",
            "psr.linalg has functions as SciPy's, np.concatenate and its kin join arrays; a.gather(None) is the whole array on "
            "all ranks, and a.own this rank's part",
        )

    def __array_ufunc__(self, function: np.ufunc, method: str, *operands: Any, **options: Any) -> Any:
        """A function of elements, on the local arrays of arrays of one layout, and numbers; others raise a TypeError."""
        is_of_elements = function.nout == 1 and function.signature is None
        if method != "__call__" or options or not (is_of_elements or function in (np.matmul, np.divmod)):
            self._refuse(
                f"numpy.{function.__name__}{'' if method == '__call__' else f'.{method}'} in this form",
                _form(function, method, options),
            )
        if function is np.matmul and isinstance(operands[0], Distributed):
            return operands[0] @ operands[1]
        if function is np.divmod:
            return np.floor_divide(*operands), np.remainder(*operands)
        operator = OPERATORS.get(function) if isinstance(operands[0], np.ndarray | np.generic) else None
        combined = self._compute(function, *operands) if operator is None else getattr(self, operator)(operands[0])
        if combined is NotImplemented:
            strange = next(each for each in operands if not _is_operand(each))
            self._refuse(
                f"numpy.{function.__name__} with a {kind_of(strange)}",
                "the other operand must be a distributed array, a number, or a NumPy array that all ranks have",
            )
        return combined

    def __array_function__(
        self, function: Callable[..., Any], types: Any, operands: Sequence[Any], options: dict[str, Any]
    ) -> Any:
        """Some functions of elements, as `numpy.where`; others raise a TypeError."""
        are_numbers = all(isinstance(each, Number | np.generic) for each in options.values())
        if function in OF_ELEMENTS and are_numbers and (function is not np.where or len(operands) == 3):
            combined = self._compute(functools.partial(function, **options), *operands)
            if combined is not NotImplemented:
                return combined
        return self._of_numpy(function, operands, options)

    def _of_numpy(self, function: Callable[..., Any], operands: Sequence[Any], options: dict[str, Any]) -> Any:
        """Another function of NumPy."""
        if function in (np.shape, np.ndim):
            return getattr(self, function.__name__)
        return self._refuse(f"{function.__module__}.{function.__name__}")

    def __repr__(self) -> str:
        if self._consumed_by:
            return f"{type(self).__name__}(consumed by {self._consumed_by})"
        if not isinstance(self._desc, Descriptor):
            local = f"{len(self._desc.own)} tiles of it here"
        elif self._local is None or self._desc.coords is None:
            local = "nothing of it here"
        else:
            local = f"{' x '.join(map(str, self._local.shape))} of it here"
        dtype = "" if self.dtype is None else f"{self.dtype}, "
        return f"{type(self).__name__}({self._desc!r}, {dtype}{local})"


def _conjugate(array: NDArray[Any]) -> NDArray[Any]:
    """As the method of an array, which leaves the dtype of real numbers and of bool, but always a copy."""
    conjugate = array.conj()
    return conjugate.copy(order="K") if conjugate is array else conjugate


def descriptor_of(layout: object) -> Any:
    """The layout of a distributed array; other objects unchanged."""
    return layout.desc if isinstance(layout, Distributed) else layout


def whole_layout(layout: Any) -> Any:
    """The layout of a part as one of an array of its own; others unchanged."""
    return layout._as_whole() if isinstance(layout, Descriptor) else layout


def takes_distributed(*names: str) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Let a function take a distributed array in place of a descriptor and a local array, in the order of `names`."""
    pair: Callable[[Distributed], tuple[Any, Any]] = operator.attrgetter(*names)

    def decorated(function: Callable[..., R]) -> Callable[..., R]:
        @functools.wraps(function)
        def call(*arguments: Any, **keywords: Any) -> R:
            expanded: list[Any] = []
            for argument in arguments:
                expanded += pair(argument) if isinstance(argument, Distributed) else (argument,)
            return function(*expanded, **keywords)

        return call

    return decorated


def _is_operand(operand: object) -> bool:
    """Whether an operation of elements takes it."""
    is_array = isinstance(operand, np.ndarray) and not isinstance(operand, np.ma.MaskedArray)
    return is_array or isinstance(operand, Distributed | Number | np.generic)


def own_arrays(array: Distributed) -> list[Any]:
    """This rank's elements of an array, or of a part of one, tile by tile, however they are stored: views. Not collective.

    An array for each tile of `desc.own_places`; otherwise one array, or None where the local array is None.
    """
    return [array.own] if isinstance(array.desc, Descriptor) else array.desc.views(array.local)


def own_indices(array: Distributed) -> list[tuple[NDArray[np.int64], ...]]:
    """For each of `own_arrays` the global indices along each dimension; outside the grid none. Not collective."""
    desc = array.desc
    if isinstance(desc, Descriptor) and desc.coords is None:
        return [tuple([np.zeros(0, np.int64)] * desc.ndim)]
    axes = desc.distributions
    return [tuple([axis.global_indices(p) for axis, p in zip(axes, place, strict=False)]) for place in desc.own_places]


def own_values(operand: Any, array: Distributed) -> list[Any]:
    """This rank's elements of an operand, for each of the `own_arrays` of a distributed one; of a number none.

    A NumPy array, which may broadcast, has elements in the places of the distributed one.
    """
    if isinstance(operand, Distributed):
        if operand.shape == array.shape or isinstance(array.desc, Descriptor):
            return own_arrays(operand)
        operand = operand.own  # whole on this rank, beside tiles
    if not isinstance(operand, np.ndarray) or not operand.ndim:
        return []
    shape = array.shape
    missing = len(shape) - operand.ndim
    whole = operand.reshape((1,) * missing + operand.shape) if missing > 0 else operand
    if missing < 0 or any(n not in (1, size) for n, size in zip(whole.shape, shape, strict=True)):
        raise ArrayError(
            f"a NumPy array of shape {operand.shape} cannot be combined with a distributed one of shape {shape}: it is "
            "taken to be whole, the same on all ranks, and must broadcast to that shape; .own has this rank's elements"
        )
    return [
        whole[np.ix_(*([0] if n == 1 else index for n, index in zip(whole.shape, indices, strict=True)))]
        for indices in own_indices(array)
    ]


def _broadcasts(shape: Sequence[int], target: Sequence[int]) -> bool:
    """Whether an array of a shape broadcasts to another shape."""
    pairs = zip(shape[::-1], target[::-1], strict=False)
    return len(shape) <= len(target) and all(n in (1, size) for n, size in pairs)


def largest(arrays: Sequence[Distributed]) -> Distributed:
    """The first array to whose shape the others broadcast; the first one if there is none."""
    shapes = [array.shape for array in arrays]
    return next((each for each in arrays if all(_broadcasts(shape, each.shape) for shape in shapes)), arrays[0])


def _layout_beside(layout: Layout, shape: tuple[int, ...]) -> Layout:
    """Where the elements of an array that broadcasts to the shape of a layout are needed: on the processes that use them.

    Beside tiles it is whole on all ranks. For other shapes, which are an error, and on paper, it is the layout itself.
    """
    if not _broadcasts(shape, layout.shape) or layout.comm is None:
        return layout
    if not isinstance(layout, Descriptor):
        return replicated(shape, layout.comm)
    whole, first = whole_layout(layout), layout.ndim - len(shape)
    kept = [first + k if n == layout.shape[first + k] else None for k, n in enumerate(shape)]
    axes = [BlockCyclic(1, 1, 1) if k is None else whole.distributions[k] for k in kept]
    return Descriptor._of(axes, [None if k is None else whole.axes[k] for k in kept], whole.grid)


def replicated(shape: Sequence[int], comm: Any) -> Descriptor:
    """The layout of an array that is whole on all ranks of a communicator. Not collective."""
    return Descriptor(shape, None, ProcessGrid((comm.Get_size(),), comm), axes=(None,) * len(shape))


def _form(function: np.ufunc, method: str, options: dict[str, Any]) -> str:
    """What to write in place of a form of a ufunc; nothing for most forms."""
    if "out" in options:
        return "write b[...] = function(a), where b is the array to write into"
    if method == "reduce":
        return "sum, prod, min, max, any and all are methods of the array, with axis="
    return "write a - np.trunc(a) and np.trunc(a)" if function is np.modf else ""


def _on_tiles(function: Callable[..., Any], *operands: Sequence[Any]) -> list[Any]:
    """The values of a function of operands, tile by tile; None where an array is missing."""
    return [None if any(each is None for each in tile) else function(*tile) for tile in zip(*operands, strict=True)]


def _dtype_of_values(function: Callable[..., Any], operands: Sequence[Any]) -> np.dtype[Any] | None:
    """The dtype of values of a function; None if this rank does not know that of an array.

    Raises
    ------
    Exception
        The function takes no such operands; of a dtype that is not known, whatever it is.
    """

    def empty(other: Any) -> list[Any]:
        """The operands, with arrays without elements, of this dtype where it is not known."""
        return [
            np.empty(0, other if each.dtype is None else each.dtype) if np.ndim(each) else each for each in operands
        ]

    arrays = [each for each in operands if np.ndim(each)]
    known = [each.dtype for each in arrays if each.dtype is not None]
    if len(known) == len(arrays):
        result: np.dtype[Any] = function(*empty(None)).dtype
        return result
    for other in [*known, *DTYPES]:
        with contextlib.suppress(TypeError, ValueError, ArithmeticError), warnings.catch_warnings(action="ignore"):
            function(*empty(other))
            return None
    function(*empty(np.float64))
    return None
