"""Arguments of public functions: an array of any library becomes a distributed array, or its layout, on all ranks.

Arrays of a plan's call do not come here: their layouts are known (door.py).
"""

from __future__ import annotations

import ctypes
import enum
import functools
import inspect
import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from .adapters.adapter import Adapter, View, adapter_of
from .comm.agreement import agreement
from .comm.groups import group_of
from .comm.guard import Guard
from .comm.mpi import MPI
from .comm.progress import hold_interrupts
from .comm.vote import digest
from .engine.options import Options
from .engine.spec import RETURNS_ARRAY, communicator_of
from .errors import ArrayError, DescriptorError, shown
from .layout.array_arithmetic import Distributed, own_arrays
from .layout.axis import check_dimensions
from .layout.descriptor import Descriptor
from .layout.dimensions import BALANCED
from .layout.grid import ProcessGrid, checked_communicator
from .layout.letters import transposes
from .layout.notation import check_layout_text, layout_from_text
from .layout.tiles import LAYOUTS, Layout, Tiles
from .redistribution import plan_between, planned

R = TypeVar("R")


class Needs(enum.Enum):
    """What a function needs of an argument."""

    LAYOUT = enum.auto()  # no elements
    ELEMENTS = enum.auto()
    MEMORY = enum.auto()  # elements that it writes
    EITHER = enum.auto()  # elements, or the layout of an object that has none


class Argument(NamedTuple):
    """What an argument is to a function.

    Attributes
    ----------
    content : object
        A distributed array, or a layout; of anything else than an array what the user gave.
    notifies : bool
        Of memory to write: whether a rank's library is to be told that it has been written; the same on all ranks.
    """

    content: Any
    notifies: bool = False


def read_argument(
    name: str,
    x: Any,
    comm: Any = None,
    other: object = None,
    needs: Needs = Needs.ELEMENTS,
    required: bool = False,
) -> Argument:
    """Read an argument that may be an array of another library: it is then a distributed array in the same memory.

    Collective for such arrays, over the communicator of the array if its library has one, else over `comm`, else over that of
    the layout or array `other`, else over COMM_WORLD. All ranks then know the layout. If an array is required, all ranks raise
    an error for other objects. Nine integers in a C structure are a layout, where one is asked for and no array required.
    """
    if isinstance(x, Distributed):
        return Argument(x.desc if needs is Needs.LAYOUT else x)
    if needs is Needs.LAYOUT and isinstance(x, LAYOUTS):
        return Argument(x)
    if needs in (Needs.LAYOUT, Needs.EITHER) and isinstance(x, ctypes.Structure) and not required:
        return Argument(x)
    adapter = adapter_of(x)
    if adapter is None and not required:
        return Argument(x)
    view, notifies = _read_view(name, x, adapter, comm, other, needs)
    if needs is Needs.LAYOUT or view.local is ...:
        return Argument(view.layout)
    if view.summands is not None:
        return Argument(_summed(view))
    assert view.layout is not None
    return Argument(Distributed._from_result(view.layout, view.local, view.dtype), notifies)


def _read_view(
    name: str, x: object, adapter: Adapter | None, comm: Any, other: object, needs: Needs
) -> tuple[View, bool]:
    """The view of an array, with a layout that all ranks know, and whether a rank's library is to be told. Collective."""
    with hold_interrupts():
        comm, error = communicator_for(adapter, x, comm, other)
        communicates = adapter is not None and adapter.communicates
        if communicates:
            agree_to_read(name, comm, error)
        with reading(name, comm, is_open=not communicates) as agreed:
            if error is not None:
                raise error
            if adapter is None:
                raise not_taken(name, x)
            view = View(adapter.layout(x, comm)) if needs is Needs.LAYOUT else adapter.view(x, comm)
            if needs is not Needs.LAYOUT:
                _check_view(name, x, view, needs)
            state_layouts(agreed, name, [view.layout])
            agreed.count(notifies=int(needs is Needs.MEMORY and type(adapter).written is not Adapter.written))
        (layout,) = stated_layouts(agreed, name, [view.layout], comm)
        return view._replace(layout=layout), bool(agreed.outcome.notifies)


def _check_view(name: str, x: object, view: View, needs: Needs) -> None:
    """Raise an error for an array without elements that are needed, or whose local array does not fit, or cannot be written."""
    if view.local is ...:
        if needs is not Needs.EITHER:
            kind = type(x).__name__
            raise ArrayError(f"{name} is a {kind}, a layout without elements: give a pair, ({name}, local array)")
    elif view.layout is not None:
        # raises an error for a local array that does not fit
        array = Distributed._from_result(view.layout, view.local, view.dtype)
        if needs is Needs.MEMORY:
            _check_writable(name, x, array)
            if view.summands is not None:
                raise ArrayError(
                    f"{name} is a {type(x).__name__} of summands, and its elements are their sum: it cannot be written"
                )


def _check_writable(name: str, x: object, array: Distributed) -> None:
    """Raise an ArrayError if this rank cannot write the memory of an array."""
    if not all(isinstance(own, np.ndarray) and own.flags.writeable for own in own_arrays(array) if own is not None):
        kind = "pair of a layout and a local array" if isinstance(x, tuple) else type(x).__name__
        raise ArrayError(f"{name} is a {kind} whose memory is read-only: redistribute(x, like=y) makes a new array")


def _summed(view: View) -> Distributed:
    """The array of a view of summands: their sum, in new local arrays. Collective."""
    assert view.summands is not None
    assert view.layout is not None
    source, factor = view.summands
    to_sum = plan_between(source, view.layout, dtype=view.dtype, comm=source.comm, reduce="sum")
    try:
        total: Any = to_sum(view.local if source.coords is not None else None, alpha=factor)
    except ArrayError:
        if factor != 1 and view.dtype is not None and view.dtype.kind in "biu":
            raise ArrayError(
                f"the summands have dtype {view.dtype}, and a mean of integers is none: convert them to floating point first"
            ) from None
        raise
    return Distributed._from_result(view.layout, total, view.dtype)


# -- what ranks agree on as they read


def reading(name: str, comm: MPI.Intracomm, is_open: bool = True) -> agreement:
    """The agreement of ranks that read an array, in which each says the layouts that it has read (`state_layouts`).

    If the block does not wait for other ranks, it is open: interrupts end it. `stated_layouts` are known to all ranks then.
    """
    return agreement(group_of(comm), f"{name} of another library to read", learn=True, deliver=True, open=is_open)


def agree_to_read(name: str, comm: MPI.Intracomm, error: BaseException | None) -> None:
    """Agree that all ranks have an array whose library communicates as it is read. Collective; raises `error` on all ranks."""
    with reading(name, comm) as agreed:
        if error is not None:
            raise error
        state_layouts(agreed, name, [])


def state_layouts(agreed: agreement, name: str, layouts: Sequence[Layout | None]) -> None:
    """Say which layouts this rank has read; None for one that it cannot know."""
    number = _digest_of_known(name, layouts)
    agreed.same(f"the layout of {name}", number, functools.partial(_words, layouts), field="source")
    agreed.learn(
        None if number is None else [(type(layout), layout._pack()) for layout in layouts if layout is not None]
    )


def stated_layouts(agreed: agreement, name: str, layouts: Sequence[Layout | None], comm: MPI.Intracomm) -> list[Layout]:
    """The layouts that this rank has read, or learns of others.

    Raises
    ------
    DescriptorError
        No rank knows them.
    """
    if agreed.result is None:
        raise DescriptorError(f"no rank knows the layout of {name}")
    if None in layouts:
        return [kind._unpack(content, comm) for kind, content in agreed.result]
    return [layout for layout in layouts if layout is not None]


def _words(layouts: Sequence[Layout | None]) -> str:
    return ", ".join(map(repr, layouts)) or "one that all ranks read together"


def _digest_of_known(name: str, layouts: Sequence[Layout | None]) -> int | None:
    """A number equal on all ranks for equal layouts; None if this rank does not know one."""
    if None in layouts:
        return None
    for layout in layouts:
        if not isinstance(layout, LAYOUTS):
            raise ArrayError(f"the adapter's layout of {name} is {shown(layout)}: it must be a Descriptor or Tiles")
    return digest(tuple([layout.layout_digest for layout in layouts if layout is not None]))


def communicator_for(
    adapter: Adapter | None, x: object, comm: Any, other: object = None
) -> tuple[MPI.Intracomm, BaseException | None]:
    """The communicator over which an array of another library is read: its own, or another one of the same ranks.

    If the adapter cannot tell its own, the second result is the error, for the vote on the one that the caller gave. If there
    is none, other ranks wait nobody knows where, and the error is raised.
    """
    layout = _layout_at_hand(other)
    candidates = [comm, None if layout is None else layout.comm, MPI.COMM_WORLD]
    choices: list[MPI.Intracomm] = [candidate for candidate in candidates if candidate is not None]
    for choice in choices:
        checked_communicator(choice)
    guard = Guard()
    own = None if adapter is None else guard.attempt(lambda: adapter.communicator(x))
    if guard.error is not None and len(choices) == 1:
        raise guard.error
    if own is None:
        return choices[0], guard.error
    same = (choice for choice in choices if MPI.Comm.Compare(own, choice) in (MPI.IDENT, MPI.CONGRUENT))
    return next(same, own), None


def _layout_at_hand(x: object) -> Layout | None:
    """The layout of an argument that is one, or an array of this package, or a pair: other ranks are on its communicator."""
    if isinstance(x, Distributed):
        return None if x._consumed_by else x.desc
    layout = x[0] if isinstance(x, tuple) and x else x
    return layout if isinstance(layout, LAYOUTS) else None


def not_taken(name: str, x: object) -> ArrayError:
    """The error for an object that no adapter takes."""
    kind = f"{type(x).__module__}.{type(x).__name__}".removeprefix("builtins.")
    remedy = "give psr.DistributedArray, a pair (layout, local array), or an array of a library with an adapter"
    if kind.startswith("scipy.sparse"):
        remedy = "sparse matrices are not taken: make a dense one"
    elif kind in ("torch.Tensor", "torch.nn.parameter.Parameter"):
        remedy = "it is on this process alone: give a pair (layout, tensor), or from_local(tensor, comm) of rows"
    elif any(
        type(part).__module__.startswith("torch.distributed") for part in (x, *(x if isinstance(x, list | tuple) else ()))
    ):
        remedy = "a mesh or placements alone are no layout: give a DTensor, or with like= the pair (mesh, placements)"
    elif type(x).__module__ == "numpy":
        remedy = "the layout of a local array is not known: give a pair (layout, local array); distribute takes a whole array"
        remedy += ", and linalg one that all ranks have, beside a distributed array"
    elif isinstance(x, tuple) and x and isinstance(x[0], Distributed):
        remedy = "of factors and what is with them the first item is an array; slogdet, det and inv take the matrix itself"
    return ArrayError(f"{name} is a {kind}: {remedy}")


# -- arrays in layouts that functions take


def layouts_of(desc_a: Any, desc_b: Any, options: Options) -> tuple[Any, Any, Options]:
    """Both arguments, the layouts of those that are arrays or texts, and options. Collective for arrays of other libraries.

    A text is read for the shape and the communicator of the other argument, all of whose ranks take part then, and an error
    in it is left in the options. A rank whose other argument has none looks for the others on COMM_WORLD.
    """
    comm: Any = options.comm
    if not isinstance(desc_a, LAYOUTS):
        desc_a = read_argument("desc_a", desc_a, comm, desc_b, Needs.LAYOUT).content
    if not isinstance(desc_b, LAYOUTS):
        desc_b = read_argument("desc_b", desc_b, comm, desc_a, Needs.LAYOUT).content
    if not isinstance(desc_a, str) and not isinstance(desc_b, str):
        return desc_a, desc_b, options
    (name, text), (other_name, other) = ("desc_b", desc_b), ("desc_a", desc_a)
    if isinstance(desc_a, str):
        (name, text), (other_name, other) = ("desc_a", desc_a), ("desc_b", desc_b)
    is_layout, guard = isinstance(other, LAYOUTS), Guard(options.error)
    if comm is None and is_layout:
        comm = other.comm
    elif comm is None and not isinstance(other, str):  # other ranks may have an array: as for one of another library
        comm = MPI.COMM_WORLD

    def read() -> Descriptor:
        if not is_layout:
            raise DescriptorError(
                f"{name} = {text!r} gets its shape and its communicator from {other_name}, and {other_name} = {shown(other)} "
                "has none: give a distributed array there, or here Descriptor(shape, block, ProcessGrid(..., comm))"
            )
        return layout_from_text(name, text, other.shape[::-1] if transposes(options.op) else other.shape, comm)

    layout, other = guard.attempt(read), other if is_layout else None
    options = options._replace(comm=comm, error=guard.error)
    return (layout, other, options) if name == "desc_a" else (other, layout, options)


def takes_arrays(*names: str) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Let a function take an array in place of its first two arguments, a descriptor and a local array, by these names.

    The array is distributed, perhaps in tiles, or of another library.
    """

    def decorated(function: Callable[..., R]) -> Callable[..., R]:
        parameters = inspect.signature(function).parameters.values()
        required = [each.name for each in parameters if each.default is each.empty]

        def with_layout(*arguments: Any, **keywords: Any) -> R:
            """The call as it is; where it has one argument too few, the first is meant as an array."""
            given = {*required[: len(arguments)], *keywords}
            if len(given.intersection(required)) == len(required) - 1 and not isinstance(arguments[0], Descriptor | None):
                raise not_taken("array", arguments[0])
            return function(*arguments, **keywords)

        @functools.wraps(function)
        def call(*arguments: Any, **keywords: Any) -> R:
            first = arguments[0] if arguments else None
            if type(first) is np.ndarray or isinstance(first, Descriptor | None):
                return with_layout(*arguments, **keywords)
            if isinstance(first, ctypes.Structure):  # an array of PyScalapack is also nine integers
                second = arguments[1] if len(arguments) > 1 else keywords.get(names[1], "")
                is_root = second is None and keywords.get("comm") is None  # of all ranks: nine integers need comm
                if not (is_root or isinstance(second, str | os.PathLike | int)):
                    return function(*arguments, **keywords)
            array = read_argument("array", first, keywords.get("comm")).content
            if not isinstance(array, Distributed):
                return with_layout(*arguments, **keywords)
            array = in_slabs(array)
            return function(*[getattr(array, name) for name in names], *arguments[1:], **keywords)

        return call

    return decorated


def in_slabs(array: Distributed) -> Distributed:
    """An array of tiles in slabs of the longest dimension; others unchanged. Collective over the communicator of tiles."""
    return array if isinstance(array.desc, Descriptor) else move(array, slabs_of(array.desc))


def in_rows(array: NDArray[Any], layout: Layout) -> tuple[Descriptor, NDArray[Any] | None, np.dtype[Any]]:
    """A NumPy array that all ranks have, in balanced rows on the processes of a layout: that of these, the own ones, the dtype.

    It has this machine's order of bytes. Not collective.
    """
    rows, dtype = slabs_along(layout, array.shape, 0), array.dtype.newbyteorder("=")
    if rows.coords is None:
        return rows, None, dtype
    return rows, np.asarray(array)[rows.global_indices(0)].astype(dtype, copy=False), dtype


def slabs_of(tiles: Tiles) -> Descriptor:
    """Slabs of the longest dimension of an array of tiles, on all ranks."""
    return slabs_along(tiles, tiles.shape, max(range(tiles.ndim), key=lambda k: tiles.shape[k]))


def slabs_along(layout: Layout, shape: Sequence[int], dim: int) -> Descriptor:
    """Balanced slabs of one dimension of a shape on all processes of a layout."""
    return Descriptor(shape, BALANCED, line_of(layout), axes=[0 if k == dim else None for k in range(len(shape))])


def line_of(layout: Layout) -> ProcessGrid:
    """The processes of a layout in one line; of tiles all ranks."""
    if isinstance(layout, Descriptor):
        return ProcessGrid((layout.grid.size,), layout.grid.comm, ranks=layout.grid.ranks.ravel())
    comm = communicator_of(layout)
    return ProcessGrid((comm.Get_size(),), comm)


def named_layout(shape: Any, layout: object, comm: Any) -> Descriptor:
    """The layout of an array of a shape by a text, such as "rows" or "2x2:64x64". Not collective.

    Raises
    ------
    DescriptorError
        The shape is none, there is no communicator, or the text is no layout for them.
    """
    sizes: Any = (shape,) if isinstance(shape, int | np.integer) else shape
    if not hasattr(sizes, "__len__") or isinstance(sizes, str | os.PathLike):
        raise DescriptorError(
            f"shape = {shown(shape)} must be a shape with comm, or a Descriptor, or an array that has one"
        )
    check_layout_text("layout", layout)
    if checked_communicator(comm) is None:
        raise DescriptorError(
            "comm = None: give the communicator of the ranks that the array is to be on, as comm=: a shape has none"
        )
    check_dimensions(sizes)
    return layout_from_text("layout", layout, sizes, comm)


def move(array: Distributed, layout: Descriptor | Tiles, error: BaseException | None = None) -> Distributed:
    """An array in another layout on its communicator. Collective over it; all ranks learn the dtype, or of an earlier error."""
    comm = communicator_of(array.desc)
    options = Options(dtype=array.dtype, comm=comm)
    agreed = planned(array.desc, layout, options, RETURNS_ARRAY, error, local=array.local)
    return type(array)._from_result(agreed.plan.desc_b, agreed.plan(array.local), agreed.dtype)
