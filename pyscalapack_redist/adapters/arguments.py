"""Arguments that are arrays of other libraries, read on all ranks: each becomes a distributed array, or its layout."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._lazy import load_above
from ..comm.agreement import agreement
from ..comm.groups import group_of
from ..comm.guard import Guard
from ..comm.mpi import MPI
from ..comm.progress import hold_interrupts
from ..comm.vote import digest
from ..errors import ArrayError, DescriptorError, shown
from ..layout.array_arithmetic import Distributed, own_arrays
from ..layout.grid import checked_communicator
from ..layout.tiles import LAYOUTS, Layout
from .adapter import Adapter, Blueprint, View, adapter_of


def view_of(
    name: str,
    x: object,
    comm: Any = None,
    other: object = None,
    required: bool = False,
    elements: bool = True,
    writes: bool = False,
    may_lack_elements: bool = False,
) -> View | None:
    """The view of an array of another library, with a layout that all ranks know; None for other objects.

    Collective over the communicator of the array if its library has one, else over `comm`, else over that of the layout
    or array `other`, else over COMM_WORLD. If the view is required, all ranks raise an error for other objects. Without
    `elements` it has the layout only. With `writes` memory that cannot be written is an error. So is an object that has no
    elements, unless it may lack them.
    """
    with hold_interrupts():
        return _read_view(name, x, comm, other, required, elements, writes, may_lack_elements)[0]


def _read_view(
    name: str,
    x: object,
    comm: Any,
    other: object,
    required: bool,
    elements: bool,
    writes: bool,
    may_lack_elements: bool,
) -> tuple[View | None, bool]:
    """The view, and whether a rank's library is to be told that the array has been written."""
    adapter = adapter_of(x)
    if adapter is None and not required:
        return None, False
    comm, error = communicator_for(adapter, x, comm, other)
    communicates = adapter is not None and adapter.communicates
    if communicates:
        agreed_layouts(name, functools.partial(_nothing_but, error), comm)
    view = View(None)

    def read() -> Sequence[Layout | None]:
        nonlocal view
        _nothing_but(error)
        if adapter is None:
            raise not_taken(name, x)
        view = adapter.view(x, comm) if elements else View(adapter.layout(x, comm))
        if view.local is ... and elements and not may_lack_elements:
            kind = type(x).__name__
            raise ArrayError(f"{name} is a {kind}, a layout without elements: give a pair, ({name}, local array)")
        if view.layout is not None and view.local is not ...:
            array = Distributed._from_result(view.layout, view.local, view.dtype)  # raises for a local array that does not fit
            if writes:
                check_writable(name, x, array)
                if view.summands is not None:
                    raise ArrayError(
                        f"{name} is a {type(x).__name__} of summands, and its elements are their sum: it cannot be written"
                    )
        return [view.layout]

    notifies = writes and adapter is not None and type(adapter).written is not Adapter.written
    (layout,), any_notifies = agreed_layouts(name, read, comm, not communicates, notifies)
    return view._replace(layout=layout), any_notifies


def _nothing_but(error: BaseException | None) -> Sequence[Layout | None]:
    """No layout; an earlier error of this rank is raised, so that all ranks raise it."""
    if error is not None:
        raise error
    return []


def blueprint_for(
    like: object,
    adapter: Adapter | None,
    read_shape: Callable[[], tuple[int, ...]],
    comm: MPI.Intracomm,
    error: BaseException | None = None,
) -> Blueprint:
    """The blueprint of an array like another one, with layouts that all ranks know. Collective over `comm`.

    An error in reading its shape is one on all ranks, and so is an earlier `error` of this one.
    """
    blueprint = Blueprint([], "F", tuple)

    def check_shape() -> Sequence[Layout | None]:
        _nothing_but(error)
        read_shape()
        return []

    def make() -> Sequence[Layout | None]:
        nonlocal blueprint
        _nothing_but(error)
        if adapter is None:
            raise not_taken("like", like)
        blueprint = adapter.make(like, read_shape(), comm)
        return blueprint.layouts

    communicates = adapter is not None and adapter.communicates
    if communicates:
        agreed_layouts("like", check_shape, comm)
    layouts = agreed_layouts("like", make, comm, not communicates)[0]
    return blueprint._replace(layouts=layouts)


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
    remedy = "give a DistributedArray, a pair (layout, local array), or an array of a library with an adapter"
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
    return ArrayError(f"{name} is a {kind}: {remedy}")


def agreed_layouts(
    name: str,
    read: Callable[[], Sequence[Layout | None]],
    comm: MPI.Intracomm,
    is_open: bool = True,
    notifies: bool = False,
) -> tuple[list[Layout], bool]:
    """Read layouts on each rank, and share them with ranks that cannot know them. Collective over `comm`.

    `read` does not wait for other ranks, if `is_open`: then interrupts end it. The second result is whether `notifies` is true
    on any rank.

    Raises
    ------
    RedistributionError
        A rank cannot read them, two ranks read different ones, or none knows one. On all ranks.
    """
    with agreement(
        group_of(comm), f"{name} of another library to read", learn=True, deliver=True, open=is_open
    ) as agreed:
        layouts = read()
        number = _digest_of_known(name, layouts)
        agreed.same(f"the layout of {name}", number, functools.partial(_words, layouts), field="source")
        agreed.count(notifies=int(notifies))
        agreed.learn(None if number is None else [(type(layout), layout._pack()) for layout in layouts if layout is not None])
    if agreed.result is None:
        raise DescriptorError(f"no rank knows the layout of {name}")
    if number is None:
        layouts = [kind._unpack(content, comm) for kind, content in agreed.result]
    return [layout for layout in layouts if layout is not None], bool(agreed.outcome.notifies)


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


def to_distributed(
    name: str, x: Any, comm: Any = None, other: object = None, required: bool = False, writes: bool = False
) -> Any:
    """A distributed array in the memory of an array of another library; other objects unchanged. Collective, as `view_of`."""
    view = view_of(name, x, comm, other, required and not isinstance(x, Distributed), writes=writes)
    return x if view is None else _distributed(view)


def array_to_write(name: str, x: Any, comm: Any, other: object) -> tuple[Distributed, bool]:
    """As `to_distributed`, and whether a rank's library is to be told by `written`, the same on all ranks."""
    with hold_interrupts():
        is_array = isinstance(x, Distributed)
        view, any_notifies = _read_view(name, x, comm, other, not is_array, True, True, False)
    return x if view is None else _distributed(view), any_notifies


def check_writable(name: str, x: object, array: Distributed) -> None:
    """Raise an ArrayError if this rank cannot write the memory of an array."""
    if not all(isinstance(own, np.ndarray) and own.flags.writeable for own in own_arrays(array) if own is not None):
        kind = "pair of a layout and a local array" if isinstance(x, tuple) else type(x).__name__
        raise ArrayError(f"{name} is a {kind} whose memory is read-only: redistribute(x, like=y) makes a new array")


def _distributed(view: View) -> Distributed:
    """The array of a view; of summands their sum, in new local arrays. Collective then."""
    assert view.layout is not None
    if view.summands is not None:
        total: Distributed = load_above("door").added(view)
        return total
    return Distributed._from_result(view.layout, view.local, view.dtype)


def array_or_layout(name: str, x: Any, comm: Any = None, other: object = None) -> Any:
    """As `to_distributed`, but the layout of an object without elements. Nine integers in a C structure are a layout."""
    view = None if isinstance(x, ctypes.Structure) else view_of(name, x, comm, other, may_lack_elements=True)
    if view is None:
        return x
    return view.layout if view.local is ... else _distributed(view)


def layout_of_argument(name: str, x: Any, comm: Any = None, other: object = None, required: bool = False) -> Any:
    """The layout of an array; objects that are no arrays are unchanged. Collective for arrays of other libraries.

    Nine integers in a C structure are no array, unless the layout is required.
    """
    if isinstance(x, Distributed):
        return x.desc
    is_layout = isinstance(x, LAYOUTS) or (isinstance(x, ctypes.Structure) and not required)
    view = None if is_layout else view_of(name, x, comm, other, required, elements=False)
    return x if view is None else view.layout
