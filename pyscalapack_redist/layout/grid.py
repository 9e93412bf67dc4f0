"""ProcessGrid: the ranks of a communicator at the coordinates of a process grid, and the grid's BLACS context.

NineIntegers: ScaLAPACK's array descriptor, DTYPE, CTXT, M, N, MB, NB, RSRC, CSRC, LLD, read and written.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._descriptor import FIELDS, build_fields, check_fields, read_fields
from ..comm.agreement import agreement
from ..comm.groups import check_alive, check_running, group_of
from ..comm.guard import holding_interrupts
from ..comm.mpi import MPI
from ..comm.vote import digest
from ..errors import DescriptorError, shown
from ..tracebacks import brief_methods
from .axis import check_dimensions, whole_number

if TYPE_CHECKING:
    from ..blacs.contexts import Contexts


@brief_methods
class ProcessGrid:
    """A grid of processes, of any number of dimensions. Not collective.

    `close()`, or the end of a `with` block, frees the BLACS context of a grid: BLACS keeps 26 kB and communicators for each. If
    a grid is dropped unclosed, the next equal grid on the communicator gets its context, which is freed with the communicator.

    A pickled grid is restored with ranks of COMM_WORLD, whatever its communicator; `on(comm)` then gives an equal grid.

    Parameters
    ----------
    shape : sequence of int
        Processes along each dimension, each 1 or more.
    comm : MPI.Intracomm, optional
        Communicator of the ranks; not all of them need be in the grid. None: a grid "on paper", whose plans can be made and
        studied, but not run.
    order : {"row", "column"}
        Order in which ranks 0, 1, ... fill the grid without `ranks`; BLACS's "Row" and "Col".
    ranks : array_like of int, optional
        Rank of `comm` at each coordinate, of the grid's shape, in any order. May be a flat list if at most one dimension of the
        grid is larger than 1.

    Raises
    ------
    DescriptorError
        A dimension is not positive, the grid is larger than its communicator, or a rank is invalid or occurs twice.
    """

    _contexts: Contexts | None = None  # of the context that this grid has made

    def __init__(
        self,
        shape: Sequence[int],
        comm: MPI.Intracomm | None = None,
        *,
        order: str = "row",
        ranks: ArrayLike | None = None,
    ) -> None:
        self._shape = _grid_shape(shape)
        self._comm = checked_communicator(comm)
        if order not in ("row", "column"):
            raise DescriptorError(f"order = {order!r} must be 'row' or 'column'")
        size = int(np.prod(self._shape, dtype=object))
        # size and rank: kept, as errors quote them when MPI has been finalized
        self._place_in_communicator = None if comm is None else (comm.Get_size(), comm.Get_rank())
        available, own_rank = self._place_in_communicator or (None, None)
        if available is not None and size > available:
            raise DescriptorError(
                f"shape = {self._shape} needs {size} processes, but its communicator has {available}: start more ranks, "
                "or choose a smaller grid"
            )
        if ranks is None:
            table = np.arange(size, dtype=np.int64).reshape(self._shape, order="C" if order == "row" else "F")
        else:
            table = _placement(ranks, self._shape, available)
        table.setflags(write=False)
        self._ranks = table
        self._context: int | None = None
        self._known_coords: dict[int, tuple[int, ...] | None] = {}  # results of `coords_of`
        self._coords = None if own_rank is None else self.coords_of(own_rank)
        # results of `Places.ranks` by axes, shared by all layouts on this grid
        self._rank_tables: dict[tuple[int | None, ...], NDArray[np.int64]] = {}

    @classmethod
    @holding_interrupts
    def from_context(cls, ctxt: int, comm: MPI.Intracomm) -> ProcessGrid:
        """Read the grid of a BLACS context of any origin. Collective over `comm`.

        Parameters
        ----------
        ctxt : int
            The BLACS context (CTXT); -1 on a rank outside its grid.
        comm : MPI.Intracomm
            Communicator that holds all of the grid's processes.

        Raises
        ------
        DescriptorError
            The context is invalid, no rank is in it, or a process of it is not in `comm`.
        CollectiveError
            Another rank has such an error.
        """
        with agreement(group_of(comm), "ProcessGrid.from_context", learn=True, confirm=True, deliver=True) as agreed:
            grid = cls._read_context(ctxt, comm)
            content = None if grid is None else (grid.shape, grid.ranks.tobytes())
            number = None if content is None else digest(content)
            agreed.same("the grid of the BLACS context", number, grid, field="source")
            agreed.learn(None if grid is None else (grid.shape, grid.ranks))
        if agreed.result is None:
            raise DescriptorError("ctxt = -1 on every rank of the communicator: no rank knows a grid")
        shape, ranks = agreed.result
        return grid or cls(shape, comm, ranks=ranks)

    @classmethod
    def _read_context(cls, ctxt: int, comm: MPI.Intracomm) -> ProcessGrid | None:
        """The grid of a context of this rank; None for -1."""
        try:
            ctxt = operator.index(ctxt)
        except TypeError:
            raise DescriptorError(f"ctxt = {shown(ctxt)} must be an integer, the number of a BLACS context") from None
        if ctxt == -1:
            return None
        from ..blacs import context_grid

        rows, columns, ranks = context_grid(ctxt, comm)
        grid = cls((rows, columns), comm, ranks=ranks)
        grid._context = ctxt
        return grid

    @property
    def shape(self) -> tuple[int, ...]:
        """Processes along each dimension."""
        return self._shape

    @property
    def size(self) -> int:
        """Number of processes."""
        return self._ranks.size

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self._shape)

    @property
    def comm(self) -> MPI.Intracomm | None:
        """The communicator; None for a grid on paper."""
        return self._comm

    @property
    def ranks(self) -> NDArray[np.int64]:
        """Rank of the communicator at each coordinate, read-only, of the grid's shape."""
        return self._ranks

    @functools.cached_property
    def _in_bytes(self) -> bytes:
        """Bytes that are equal for grids with the same ranks at the same coordinates."""
        return repr(self._shape).encode() + self._ranks.tobytes()

    @functools.cached_property
    def _ascending(self) -> tuple[int, ...]:
        """The ranks in order."""
        return tuple(sorted(self._ranks.ravel().tolist()))

    @property
    def coords(self) -> tuple[int, ...] | None:
        """Coordinates of this rank; None on a rank outside the grid and for a grid on paper."""
        return self._coords

    def rank_of(self, coords: Sequence[int]) -> int:
        """Rank at the given coordinates. Not collective.

        Raises
        ------
        DescriptorError
            The coordinates are outside the grid.
        """
        return int(self._ranks[self._checked_coords(coords)])

    def _checked_coords(self, coords: object) -> tuple[int, ...]:
        """Coordinates as a tuple of integers; a DescriptorError unless they are inside the grid."""
        try:
            checked = tuple(operator.index(c) for c in coords)  # type: ignore[attr-defined]
        except TypeError:
            checked = ()
        if len(checked) != self.ndim:
            raise DescriptorError(
                f"coords = {coords!r} must be a sequence of integers, one for each dimension of a grid of shape {self._shape}"
            )
        if not all(0 <= c < n for c, n in zip(checked, self._shape, strict=True)):
            raise DescriptorError(f"coords = {checked} are outside a grid of shape {self._shape}")
        return checked

    def coords_of(self, rank: int) -> tuple[int, ...] | None:
        """Coordinates of a rank of the communicator; None outside the grid. Not collective."""
        if rank not in self._known_coords:
            position = np.flatnonzero(self._ranks.ravel() == rank)
            coords = tuple(int(c) for c in np.unravel_index(position[0], self._shape)) if position.size else None
            self._known_coords[rank] = coords
        return self._known_coords[rank]

    def make_context(self) -> int:
        """Make the grid's BLACS context, or return the existing one. Collective over the grid; -1 on ranks outside.

        Raises
        ------
        DescriptorError
            The grid is on paper or not of two dimensions.
        LibraryError
            No ScaLAPACK is available.
        CollectiveError
            Another rank has such an error; the communicator has been freed, or MPI finalized.
        """
        if self._comm is None:
            raise DescriptorError(f"{self} is on paper: give it a communicator to make a BLACS context of it")
        if self.ndim != 2:
            raise DescriptorError(f"a BLACS context is of two dimensions; this grid has shape {self._shape}")
        if self._coords is None:
            return -1
        if self._context is None:
            from ..blacs.contexts import Contexts

            contexts = Contexts.on(self._comm, (self._shape[0], self._shape[1]), self._ranks.ravel().tolist())
            self._context, self._contexts = contexts.take(self), contexts
        return self._context

    def on(self, comm: MPI.Intracomm) -> ProcessGrid:
        """This grid with its processes as ranks of another communicator, without a BLACS context. Not collective.

        On its own communicator returns this grid. On another communicator, even a duplicate, returns a new grid: a context
        stays with the grid that made or read it, and `make_context()` makes one for the new grid.

        Raises
        ------
        DescriptorError
            A process of the grid is not in `comm`, or the grid is on paper.
        """
        if self._comm is comm:
            return self
        if self._comm is None:
            raise DescriptorError(f"{self} is on paper: give it a communicator to run a redistribution on it")
        if same_ranks(self._comm, comm):
            return self if self._comm == comm else ProcessGrid(self._shape, comm, ranks=self._ranks)
        return ProcessGrid(self._shape, comm, ranks=translate_ranks(self._ranks, self._comm, comm, self))

    @property
    def has_context(self) -> bool:
        """Whether `context` is known on this rank: there is a BLACS context, or the rank is outside the grid."""
        return self._context is not None or (self._comm is not None and self._coords is None)

    @property
    def context(self) -> int:
        """The BLACS context (CTXT); -1 on a rank outside the grid.

        Raises
        ------
        DescriptorError
            There is no context yet; call `make_context()`. Or the context has been freed by other code.
        """
        if self._context is None:
            if self.has_context:
                return -1
            raise DescriptorError(
                f"{self} has no BLACS context yet: call make_context() on all of its ranks first (it is collective), or give "
                "a routine of scalapack comm="
            )
        if self._coords is not None:  # with an invalid context, ScaLAPACK would end the process
            from ..blacs import contexts

            contexts.check_alive(self._context, (self._shape[0], self._shape[1]))
        return self._context

    def close(self) -> None:
        """Free the BLACS context if this grid made it. Collective over the grid.

        When the communicator has been freed, or MPI finalized, nothing is left to free.

        Raises
        ------
        CollectiveError
            Other ranks close another grid.
        """
        context, self._context = self._context, None
        contexts, self._contexts = self._contexts, None
        if context is not None and contexts is not None:
            contexts.free(context)

    def __enter__(self) -> ProcessGrid:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ProcessGrid):
            return NotImplemented
        return self is other or (
            self._shape == other._shape
            and np.array_equal(self._ranks, other._ranks)
            and same_ranks(self._comm, other._comm)
        )

    def __hash__(self) -> int:
        return hash((self._shape, self._ranks.tobytes()))

    def __copy__(self) -> ProcessGrid:
        return self

    def __deepcopy__(self, memo: object) -> ProcessGrid:
        """Return the grid itself: it is immutable, and communicators and contexts cannot be copied."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the ranks in COMM_WORLD, or COMM_SELF, without a context: other communicators have no name elsewhere."""
        name, grid = to_named_communicator(self)
        return _unpickled, (self._shape, name, grid._ranks)

    def __repr__(self) -> str:
        n = self.size
        flat = self._ranks.ravel()
        if np.array_equal(flat, np.arange(n)):
            ranks = f"ranks 0 to {n - 1}" if n > 1 else "rank 0"
        elif n <= 16:
            ranks = f"ranks {self._ranks.tolist()}"
        else:
            ranks = f"ranks {flat[:4].tolist()} ... {flat[-2:].tolist()}"
        paper = ", on paper" if self._comm is None else ""
        return f"ProcessGrid({' x '.join(map(str, self._shape))}, {ranks}{paper})"


def _unpickled(shape: tuple[int, ...], name: str | None, ranks: NDArray[np.int64]) -> ProcessGrid:
    return ProcessGrid(shape, named_communicator(name), ranks=ranks)


def to_named_communicator(layout: Any) -> tuple[str | None, Any]:
    """The name of a predefined communicator, and the layout on it, for pickling; the name is None on paper.

    Raises
    ------
    DescriptorError
        A process of the layout is not in COMM_WORLD.
    """
    comm = layout.comm
    if comm is None or comm == MPI.COMM_SELF:
        return None if comm is None else "COMM_SELF", layout
    try:
        return "COMM_WORLD", layout.on(MPI.COMM_WORLD)
    except DescriptorError:
        raise DescriptorError(
            f"{layout} cannot be pickled: not all of its processes are in COMM_WORLD, the only communicator that other "
            "ranks know by name"
        ) from None


def named_communicator(name: str | None) -> MPI.Intracomm | None:
    """The predefined communicator of a pickled layout."""
    return None if name is None else getattr(MPI, name)


def same_ranks(a: MPI.Intracomm | None, b: MPI.Intracomm | None) -> bool:
    """Whether two communicators have the same ranks for the same processes; a CollectiveError if one has been freed."""
    if a is b or a is None or b is None:
        return a is b
    check_alive(a)
    check_alive(b)
    return a == b or bool(MPI.Comm.Compare(a, b) == MPI.CONGRUENT)


def translate_ranks(
    ranks: NDArray[np.int64], old: MPI.Intracomm, new: MPI.Intracomm, layout: object
) -> NDArray[np.int64]:
    """Translate ranks of one communicator to ranks of another.

    Raises
    ------
    DescriptorError
        A rank is not in `new`; the text names `layout`.
    """
    old_group, new_group = old.Get_group(), new.Get_group()
    flat = old_group.Translate_ranks(ranks.ravel().tolist(), new_group)
    old_group.Free()
    new_group.Free()
    if MPI.UNDEFINED in flat:
        missing = int(ranks.ravel()[flat.index(MPI.UNDEFINED)])
        raise DescriptorError(f"rank {missing} of {layout} is not in comm: give a communicator that holds both grids")
    return np.array(flat, np.int64).reshape(ranks.shape)


def _grid_shape(shape: Any) -> tuple[int, ...]:
    if hasattr(shape, "Create_group"):
        raise DescriptorError(f"shape = {shown(shape)} is a communicator, the second argument: ProcessGrid((2, 2), comm)")
    try:
        sizes: tuple[Any, ...] = tuple(shape)
    except TypeError:
        sizes = (shape,)
    check_dimensions(sizes)
    return tuple(
        whole_number(f"shape[{k}]", n, 1, ": processes along a dimension of the grid") for k, n in enumerate(sizes)
    )


def checked_communicator(comm: MPI.Intracomm | None) -> MPI.Intracomm | None:
    """Return an intra-communicator, or None for a layout on paper; a DescriptorError for other objects."""
    if comm is None:
        return None
    check_running()
    if hasattr(comm, "Get_size") and not comm:
        raise DescriptorError("comm is MPI.COMM_NULL: only ranks that are in a communicator can make a grid on it")
    if not hasattr(comm, "Create_group"):
        raise DescriptorError(f"comm = {comm!r} must be an mpi4py Intracomm, or None for a grid on paper")
    return comm


def _placement(ranks: ArrayLike, shape: tuple[int, ...], available: int | None) -> NDArray[np.int64]:
    table = np.asarray(ranks)
    if table.ndim == 1 and table.size == max(shape) == math.prod(shape):  # a line of processes has one order
        table = table.reshape(shape)
    if table.shape != shape:
        raise DescriptorError(
            f"ranks has shape {table.shape}, but the grid has shape {shape}: give one rank for each coordinate"
        )
    if not np.issubdtype(table.dtype, np.integer):
        raise DescriptorError(f"ranks must be integers, not {table.dtype}")
    places = np.array(table, dtype=np.int64, order="C")
    low, high = int(places.min()), int(places.max())
    if low < 0 or (available is not None and high >= available):
        end = "" if available is None else f" and below the communicator's size {available}"
        raise DescriptorError(f"ranks = {places.tolist()}: every rank must be at least 0{end}")
    values, counts = np.unique(places, return_counts=True)
    if (counts > 1).any():
        raise DescriptorError(f"ranks has rank {values[counts > 1][0]} twice: a process has one place in a grid")
    return places


class NineIntegers(NamedTuple):
    """The fields of the nine integers, with the grid of the BLACS context instead of its number.

    `lld` is 1 on a process outside the grid, where the integer is ignored.
    """

    grid: ProcessGrid
    shape: tuple[int, ...]
    block: tuple[int, ...]
    source: tuple[int, ...]
    lld: int

    @classmethod
    def read(cls, integers: object, comm: MPI.Intracomm) -> NineIntegers | None:
        """Read nine integers on a rank of their grid; None if CTXT is -1."""
        fields = dict(zip(FIELDS, read_fields(integers), strict=True))
        grid = ProcessGrid._read_context(fields["CTXT"], comm)
        if grid is None:
            return None
        check_fields(integers, grid.shape[0], grid.shape[1], -1 if grid.coords is None else grid.coords[0])
        return cls(
            grid,
            (fields["M"], fields["N"]),
            (fields["MB"], fields["NB"]),
            (fields["RSRC"], fields["CSRC"]),
            1 if grid.coords is None else max(1, fields["LLD"]),
        )

    def to_array(self) -> NDArray[np.intc]:
        """The integers.

        Raises
        ------
        DescriptorError
            The grid has no BLACS context yet, or a number does not fit in 32 bits.
        """
        return np.asarray(build_fields((1, self.grid.context, *self.shape, *self.block, *self.source, self.lld)))


def is_nine_integers(argument: object) -> bool:
    """Whether an argument is nine integers that begin with the type of a dense matrix."""
    if isinstance(argument, list | tuple) or (isinstance(argument, np.ndarray) and argument.ndim == 1):
        numbers = list(argument[:10])
        return len(numbers) == 9 and all(isinstance(n, int | np.integer) for n in numbers) and numbers[0] == 1
    return False
