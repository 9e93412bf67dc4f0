"""One rank's request to `redistribute`: layouts and options, checked locally. An error is stored for the vote."""

from __future__ import annotations

import copy
import operator
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..comm.groups import MergedIntercomm, MPIGroup, check_alive, check_running, group_of, merge_intercomm
from ..comm.guard import Guard
from ..comm.mpi import MPI
from ..comm.vote import Outcome, Statement
from ..errors import DescriptorError, ScheduleError, shown
from ..layout.descriptor import Descriptor
from ..layout.dtypes import dtype_digest
from ..layout.letters import transposes
from ..layout.tiles import LAYOUTS, Layout, Tiles, read_layout
from ..layout.waypoints import read_via, readable_via
from .operation import check_square
from .options import USUAL, Options

RETURNS_PLAN, RETURNS_ARRAY = 1, 2  # what a call returns


class PlanKey(NamedTuple):
    """The request as numbers, by the names of the vote's fields that have them. A group keeps its plans under this key.

    Before the vote a rank has its own, with None for what it does not know; the outcome of the vote has that of all ranks,
    which is complete. They are equal where this rank knows both layouts.
    """

    call: int | None
    source: int | None
    target: int | None
    side: int | None = None
    dtype: int | None = None

    @classmethod
    def of(cls, outcome: Outcome) -> PlanKey:
        """The key that all ranks have in common, from the outcome of the vote."""
        return cls(outcome.call, outcome.source, outcome.target, outcome.side, outcome.dtype)


class Spec:
    """The arguments of one rank. An error is stored until the vote. Immutable."""

    def __init__(
        self,
        desc_a: object,
        desc_b: object,
        options: Options = USUAL,
        returns: int | None = RETURNS_PLAN,
        error: BaseException | None = None,
    ) -> None:
        self.error: BaseException | None = error or options.error
        self.returns = returns
        comm, via = options.comm, options.via
        self.on_paper = on_paper(desc_a, desc_b, comm)
        if not self.on_paper:
            check_running()
        self.merged = _merged(comm)
        if self.on_paper:
            self._comm = None
        else:
            self._comm = (
                self.merged.comm if self.merged is not None else _communicator(desc_a, desc_b, comm, self.error)
            )
            check_alive(self._comm)
        if self.merged is not None and (desc_a is None) == (desc_b is None):
            which = "neither desc_a nor desc_b is" if desc_a is None else "both desc_a and desc_b are"
            self.error = self.error or DescriptorError(
                f"comm is an inter-communicator, and {which} given: give desc_a alone on the side that has the array, "
                "desc_b alone on the side that gets it"
            )
        self._sends, explicit = desc_b is None, comm is not None
        guard, a, b, self.call = Guard(self.error), None, None, 0
        with guard.block():
            a = read_layout("desc_a", desc_a, self._comm, explicit)
        with guard.block():
            b = read_layout("desc_b", desc_b, self._comm, explicit)
        self.descriptors: tuple[Layout | None, Layout | None] = a, b
        self.knows_both = a is not None and b is not None
        with guard.block():
            _check_layouts(options, a, b)
        between: tuple[Descriptor, ...] = ()
        if via is not None:
            between, options = readable_via(via, self._comm), options._replace(via=None)
            with guard.block():
                options = options._replace(via=read_via(via, self._comm, self.merged is not None))
        self.options = options
        with guard.block():
            self.call = options.digest()
        self.error = guard.error
        self.ranks: tuple[int, ...] = ()
        self.idle = False
        if self.on_paper:
            return
        known = [desc.ranks for desc in (a, b, *between) if desc is not None]
        if comm is None and known:  # with one bad descriptor, the other's processes are the best guess
            alike = known.count(known[0]) == len(known)
            self.ranks = known[0] if alike else tuple(sorted(set().union(*known)))
        else:
            self.ranks = tuple(range(self.comm.Get_size()))
        self.idle = self.comm.Get_rank() not in self.ranks

    def is_of(self, options: Options) -> bool:
        """Whether it was made of these very options."""
        return options is self.options or all(map(operator.is_, options, self.options))

    def known(self) -> tuple[Any, ...]:
        """This rank's layouts and dtype, None for unknown ones, as they are sent to other ranks."""
        return (
            *(None if layout is None else (type(layout), layout._pack()) for layout in self.descriptors),
            self.options.dtype,
        )

    @property
    def lacks_data(self) -> bool:
        """Whether this rank needs a layout, or the dtype of the requested array, from other ranks."""
        return not self.knows_both or (self.returns == RETURNS_ARRAY and self.options.dtype is None)

    def completed(self, a: Any, b: Any, dtype: np.dtype[Any] | None) -> Spec:
        """A copy with the layouts and the dtype that other ranks know. Equal on all ranks.

        Raises
        ------
        DescriptorError, ScheduleError
            No rank knows a layout, or the layouts do not fit each other or the options.
        """
        if a is None or b is None:
            raise DescriptorError("no rank knows the layout: CTXT is -1, or the descriptor None, on all of them")
        spec = copy.copy(self)
        a, b = (
            kind._unpack(packed, self.comm) if layout is None else layout
            for layout, (kind, packed) in zip(self.descriptors, (a, b), strict=True)
        )
        spec.descriptors = a, b
        spec.knows_both = True
        if self.merged is not None:
            spec.options = self.options._replace(dtype=dtype)
        _check_layouts(self.options, a, b)
        return spec

    @property
    def comm(self) -> MPI.Intracomm:
        """The communicator of the ranks. RuntimeError on paper."""
        if self._comm is None:
            raise RuntimeError("a plan on paper has no communicator")
        return self._comm

    def key(self) -> PlanKey:
        """The key as this rank knows it."""
        a, b = self.descriptors
        source, target = None if a is None else a.layout_digest, None if b is None else b.layout_digest
        if self.merged is None:
            return PlanKey(self.call, source, target)
        dtype = None if self.options.dtype is None else dtype_digest(self.options.dtype)
        return PlanKey(self.call, source, target, self._sender(self.merged), dtype)

    def _sender(self, merged: MergedIntercomm) -> int:
        """The side that sends."""
        return merged.side if self._sends else 1 - merged.side

    @property
    def layouts(self) -> tuple[Layout, Layout]:
        """Both layouts.

        Raises
        ------
        Exception
            The stored error, if this rank has one.
        """
        a, b = self.descriptors
        if self.error is not None or a is None or b is None:
            raise self.error or DescriptorError("desc_a or desc_b is None, and comm is not given: pass both, or comm=")
        return a, b

    def statements(self) -> list[Statement]:
        """This rank's request in words, for the error of ranks that differ."""
        returned = (
            "a plan: desc_a and desc_b are layouts" if self.returns == RETURNS_PLAN else "an array: desc_a is one"
        )
        statements = [Statement("what the call returns", self.returns, returned)]
        if self.merged is not None:
            role = "desc_a alone, so its side sends" if self._sends else "desc_b alone, so its side receives"
            dtype = None if self.options.dtype is None else dtype_digest(self.options.dtype)
            statements += [
                Statement("the direction", self._sender(self.merged), role),
                Statement("dtype", dtype, f"{self.options.dtype}"),
            ]
        for name, desc in zip(("desc_a", "desc_b"), self.descriptors, strict=True):
            statements.append(Statement(name, None if desc is None else desc.layout_digest, repr(desc)))
        return [*statements, Statement("the options", self.options.on_all_ranks(), self.options.describe())]


RECENT_SPECS = 8
_recent: OrderedDict[tuple[int, int], Spec] = OrderedDict()


def resolve(
    desc_a: object,
    desc_b: object,
    options: Options = USUAL,
    returns: int | None = RETURNS_PLAN,
    error: BaseException | None = None,
) -> Spec:
    """The spec for these arguments; a recent one, not checked again, if all are the same objects. Parameters as for `Spec`.

    What a recent spec has read from elsewhere than its arguments, as from the environment, is as old as the spec.
    """
    if type(desc_a) is not Descriptor or type(desc_b) is not Descriptor:
        return Spec(desc_a, desc_b, options, returns, error)
    key = id(desc_a), id(desc_b)  # unique while the cache holds the spec
    cached = _recent.get(key)
    if cached is not None and cached.returns == returns and error is None and cached.is_of(options):
        check_running()
        return cached
    spec = Spec(desc_a, desc_b, options, returns, error)
    if spec.error is None and not spec.on_paper and spec.merged is None and options.via is None:
        _recent[key] = spec
        while len(_recent) > RECENT_SPECS:
            _recent.popitem(last=False)
    return spec


def check_shapes(a: Layout, b: Layout, op: str) -> None:
    """Raise a DescriptorError if B cannot hold op(A)."""
    wanted = a.shape[::-1] if transposes(op) else a.shape
    if b.shape == wanted:
        return
    message = f"desc_a has shape {a.shape} and desc_b {b.shape}: "
    if a.ndim != b.ndim:
        raise DescriptorError(
            f"{message}both must have as many dimensions; desc.merge(k, ...) makes one of several neighbours"
        )
    if transposes(op):
        message += f"op = {op!r} exchanges rows and columns, so desc_b must have shape {wanted}"
    else:
        message += f"a redistribution keeps the global shape, so desc_b must have shape {wanted}"
    pairs = list(zip(wanted, b.shape, strict=True))
    if all(m <= n for m, n in pairs):
        message += "; to write into a part of B, give a sub-array desc_b[i0:i1, ...] of that shape"
    elif all(m >= n for m, n in pairs):
        message += "; to move a part of A, give a sub-array desc_a[i0:i1, ...]"
    raise DescriptorError(message)


def communicator_of(desc: Layout) -> MPI.Intracomm:
    """The communicator of a layout.

    Raises
    ------
    DescriptorError
        The argument is no layout, or is on paper.
    CollectiveError
        The communicator has been freed.
    """
    comm = _communicator_of(desc)
    check_alive(comm)
    return comm


def _communicator_of(desc: Layout) -> MPI.Intracomm:
    """The communicator of a layout, which may have been freed."""
    if not isinstance(desc, LAYOUTS):
        raise DescriptorError(f"desc = {shown(desc)} must be a Descriptor or Tiles")
    comm = desc.comm
    if comm is None:
        raise DescriptorError(f"desc = {desc!r} is on paper: give its grid a communicator")
    return comm


def group_of_all(desc: Layout) -> MPIGroup:
    """All ranks of the communicator of a layout. Collective over it the first time."""
    return group_of(_communicator_of(desc))


def on_paper(desc_a: object, desc_b: object, comm: object) -> bool:
    """Whether no communicator is known: both grids are without one, and `comm` is None."""
    return (
        comm is None
        and isinstance(desc_a, Descriptor)
        and isinstance(desc_b, Descriptor)
        and desc_a.comm is None
        and desc_b.comm is None
    )


def _merged(comm: object) -> MergedIntercomm | None:
    """Both sides of an inter-communicator as one; None for anything else. Collective over both sides, once."""
    return merge_intercomm(comm) if comm is not None and hasattr(comm, "Get_remote_size") and comm else None  # type: ignore[arg-type]


def _communicator(
    desc_a: object, desc_b: object, comm: MPI.Intracomm | MPI.Intercomm | None, error: BaseException | None
) -> MPI.Intracomm:
    """The communicator through which the ranks can communicate; raises `error` if none is known."""
    if comm is not None:
        if not hasattr(comm, "Create_group"):  # that of no process is of another type
            raise DescriptorError("comm is MPI.COMM_NULL: only ranks that are in a communicator can redistribute on it")
        return comm  # type: ignore[return-value]
    for desc in desc_a, desc_b:
        known = desc.comm if isinstance(desc, LAYOUTS) else None
        if known is not None:
            return known
    raise error or DescriptorError(
        f"desc_a = {shown(desc_a)}, desc_b = {shown(desc_b)}: no communicator is known; "
        "pass comm=, the communicator that holds both grids, with nine integers or None in place of a Descriptor"
    )


def _check_layouts(options: Options, a: Layout | None, b: Layout | None) -> None:
    """Raise an error for options that do not fit the known layouts, or for layouts that do not fit each other."""
    op, part, fill = options.op, options.part, options.fill
    if a is not None:
        if a.ndim != 2 and transposes(op):
            raise DescriptorError(f"op = {op!r} is for matrices, but desc_a has shape {a.shape}")
        if a.ndim != 2 and part is not None:
            raise DescriptorError(f"uplo = {part.uplo!r} is for matrices, but desc_a has shape {a.shape}")
        if fill is not None:
            check_square(fill, a.shape)
    _check_tiles(options, (a, b))
    if options.reduce is not None and options.via is not None:
        raise ScheduleError(
            f"reduce = {options.reduce!r} with via = {options.via!r}: add into a layout on the way in one redistribution, and "
            "go on from there in another"
        )
    if options.overwrite and options.via is not None:
        raise ScheduleError(f"overwrite = True with via = {options.via!r}: A moves once, panel by panel; leave via out")
    if a is not None and b is not None:
        check_shapes(a, b, op)


def _check_tiles(options: Options, layouts: Sequence[Layout | None]) -> None:
    """Raise an error for options that tiles do not have."""
    if not any(layout is not None and not layout.is_product for layout in layouts):
        return
    if options.fill is not None:
        raise DescriptorError(f"fill = {options.fill!r} is not for tiles: leave it out, and fill B in its own layout")
    if options.buffers == "datatypes":
        raise ScheduleError(
            "buffers = 'datatypes' with tiles: no derived datatype is made of several local arrays; use buffers='packed'"
        )
    b = layouts[1]
    if options.order == "C" and isinstance(b, Tiles) and b.offsets is not None:
        raise DescriptorError(
            "order = 'C': the tiles of desc_b are in one array, where offsets= and leading_dimensions= place their columns; "
            "leave order out"
        )
    if options.overwrite:
        raise ScheduleError("overwrite = True is not for tiles: leave it out, or use slabs")
    if options.reduce is not None and any(layout is not None and layout.copies > 1 for layout in layouts[:1]):
        raise ScheduleError(
            f"reduce = {options.reduce!r} with tiles: add into a Descriptor in one redistribution, and go on to tiles in "
            "another"
        )
    if options.via is not None:
        raise ScheduleError(f"via = {options.via!r} is not for tiles: make the legs one by one")
