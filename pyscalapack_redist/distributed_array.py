"""DistributedArray: a matrix that knows its layout; distribute(), which makes one of an array on one rank; redistribute().

Operations without communication are in `layout.array_arithmetic`. Those that communicate call `redistribute`, `gather`, `load`
or `save`; this module sees to it that all ranks know the dtype and agree on the layout to reach.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar, Unpack, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ._lazy import load_above
from .adapters.adapter import adapter_of
from .arguments import Needs, communicator_for, layouts_of, move, named_layout, not_taken, read_argument, reading
from .comm.agreement import agreement, meet
from .comm.group import first_known
from .comm.groups import group_of
from .comm.guard import Guard
from .comm.mpi import MPI
from .comm.progress import hold_interrupts
from .conversion import convert
from .engine.options import Options, PlanKeywords, read_options, taking_options
from .engine.spec import RETURNS_ARRAY, RETURNS_PLAN, communicator_of, group_of_all
from .errors import ArrayError, DescriptorError, shown
from .indexing import Selection, assign, is_of_rows, is_of_view, picked, rows_of
from .layout.array_arithmetic import Distributed, descriptor_of
from .layout.arrays import host_array
from .layout.descriptor import Descriptor
from .layout.dimensions import BlockSizes
from .layout.grid import ProcessGrid, checked_communicator
from .layout.letters import OPERATIONS, letter_of, transposes
from .layout.notation import check_layout_text, layout_from_text
from .layout.tiles import LAYOUTS, Layout, Tiles
from .redistribution import Redistribution, local_result, plan_between, planned
from .reductions import Axis, diagonal, extremum, mean, reduced, trace, variance
from .tracebacks import brief, brief_methods
from .whole_arrays import checked_root, from_root, gather

if TYPE_CHECKING:
    from .files.sources import Sliceable


@brief_methods
class DistributedArray(Distributed):
    """A matrix that knows its layout: a descriptor and this rank's local array, and nothing else. Not collective.

    Every function that takes a descriptor and a local array takes it in place of both, and a plan takes and gives it.
    The operators + - * / // % ** < <= > >= == != & | ^ and NumPy's functions of elements, `where`, `clip` and `round` among
    them, combine two arrays, or an array and a number, element by element; the result has a new local array, in the layout of
    the first array. They are not collective where the layouts are equal: each rank computes its own elements. Where they
    differ, the others are redistributed to the layout of the first one, which moves data and is collective over their
    communicators. `a @ b` is `linalg.matmul(a, b)`, which is collective.

    Parameters
    ----------
    desc : Descriptor
        Layout of the array; of a sub-array, `local` is the whole array's.
    local : ndarray or None
        This rank's local array, of any fixed-size dtype and any strides, which is not copied. Of (LLD, columns), only the
        rows that are held are kept. On a rank outside the grid None, or an empty array, which tells the dtype.

    Raises
    ------
    DescriptorError, ArrayError
        `desc` is no Descriptor, or `local` does not fit it. On this rank only.
    """

    def __init__(self, desc: Layout, local: Any) -> None:
        super().__init__(desc, local)

    def _brought(self, other: Distributed, layout: Layout) -> Distributed:
        if not isinstance(other, DistributedArray):
            return super()._brought(other, layout)
        with Guard() as guard:
            guard.attempt(lambda: self._check_shape(other))
            if guard.error is not None and self._desc.comm is None:
                raise guard.error
            return move(other, layout, guard.take_interrupts())

    def __getitem__(self, key: object) -> Any:
        """A part, a view, as `a[i0:i1, j0:j1]`, not collective; an element, row, column or every so many, collective.

        `a[mask]` with a mask of the array's shape is for reductions alone, as `a[a > 0].sum()`, which are collective; it is no
        array, and not collective. With a mask of one dimension, distributed or a NumPy array that all ranks have, as
        `a[a[:, 0] > 0]`, it is a new array of the rows where that is true, in slabs: collective.

        `a[i0:i1, j0:j1]` is `desc[i0:i1, j0:j1]` with the same local array; nothing moves. `a[i, j]` is the element, on all
        ranks: a vote and a message for each, so it is slow. `a[i]`, `a[:, j]` and `a[::2]` are new arrays, in balanced blocks
        on the array's grid; of fewer dimensions, along the longest of them. They are collective over its communicator.

        Raises
        ------
        ArrayError
            A part of the index is neither an integer nor a slice, or is outside the array; on this rank.
        DescriptorError
            The array is of tiles, and a view of it was asked for.
        CollectiveError
            The index is wrong on another rank, or ranks have different ones.
        """
        if is_of_rows(self, key):
            return rows_of(self, key)
        if isinstance(key, Distributed):
            return Selection(self, key)
        return super().__getitem__(key) if is_of_view(key) else picked(self, key)

    def __setitem__(self, key: object, value: object) -> None:
        """Write elements: `a[i0:i1, j0:j1] = value`; the index is as for reading, and the array's dtype stays.

        A number, or a NumPy array, which is the same on all ranks and may broadcast, is written by each rank into its own
        elements: that is not collective. A distributed array, of the shape of what is written, in any layout, is redistributed:
        that is collective over the communicators of both. Masks choose elements, or rows, for a number; a distributed one of
        rows is collective: all ranks give one.

        Raises
        ------
        ArrayError
            The index is wrong, or the value does not fit it; on this rank.
        CollectiveError
            That is so on another rank, or ranks have different indices.
        """
        assign(self, key, value)

    def _of_numpy(self, function: Callable[..., Any], operands: Sequence[Any], options: dict[str, Any]) -> Any:
        """A function of NumPy in the table of `numpy_functions`; for others a TypeError says what to write."""
        return _of_numpy(function, operands, options)

    def __matmul__(self, other: Any) -> DistributedArray:
        return _product(self, other)

    def __rmatmul__(self, other: object) -> DistributedArray:
        return _product(other, self)

    def reshape(self, *shape: Any, order: str = "C") -> Self:
        """The elements in another shape, as by `numpy.reshape`, always a new array. Collective, as `sum`.

        They pass through ranges of C order, whole along all dimensions but the first, and the result is in balanced blocks
        of its first dimension on all processes of the array's grid.

        Parameters
        ----------
        *shape : int, or one sequence of them
            The new shape; one size may be -1, for what is left.
        order : {"C", "F"}
            The order of elements in both shapes: the last dimension runs fastest, or the first.

        Raises
        ------
        ArrayError, CollectiveError
            The shape has another number of elements, or ranks call different things.
        """
        return _of_numpy(np.reshape, (self, shape[0] if len(shape) == 1 else shape), {"order": order})  # type: ignore[no-any-return]

    def ravel(self, order: str = "C") -> Self:
        """All elements in one dimension, in C order or in Fortran order: `reshape(-1)`. Collective, as `sum`."""
        return self.reshape(-1, order=order)

    def flatten(self, order: str = "C") -> Self:
        """`ravel`: its elements are copies already. Collective, as `sum`."""
        return self.reshape(-1, order=order)

    def cumsum(self, axis: int | None = None, dtype: DTypeLike | None = None) -> Self:
        """Sums of the elements so far along a dimension, or of all in C order, as by `numpy.cumsum`. Collective, as `sum`.

        The result has the array's layout; of all elements it is in balanced blocks.
        """
        return _of_numpy(np.cumsum, (self, axis, dtype), {})  # type: ignore[no-any-return]

    def dot(self, other: Any) -> Any:
        """The product, as by `numpy.dot`: of two vectors a number, of matrices `a @ b`. Collective, as `sum`."""
        return _of_numpy(np.dot, (self, other), {})

    @classmethod
    def load(
        cls,
        desc: Descriptor | str | os.PathLike[str] | Sliceable,
        path: str | os.PathLike[str] | Sliceable | None = None,
        *,
        comm: MPI.Intracomm | None = None,
        layout: str | None = None,
        **options: Any,
    ) -> Self:
        """Read an array from a file. Collective over the communicator of the descriptor's grid, or over `comm`.

        With the path alone, and `comm`, the shape is read from the file: a .npy, HDF5, netCDF-4 or safetensors file, or a Zarr
        store; or that of the `window`. An object with slices, as of h5py, is read as a file is.

        Parameters
        ----------
        desc : Descriptor, str, path or object with slices
            Layout of the array; or the file or object, which has its shape.
        path : str, path or object with slices, optional
            The file or object, with a layout.
        comm : MPI.Intracomm, optional
            Communicator of the ranks; all of them take part.
        layout : str, optional
            Without a descriptor, as for `zeros`: "rows", the default, "columns", or a text such as "2x2:64x64".
        **options
            Those of `load`, as are the errors and the formats of files.
        """
        from .files import load
        from .files.load_and_save import shape_to_load

        if not isinstance(desc, str | os.PathLike) and (path is not None or isinstance(desc, LAYOUTS)):
            options |= {"comm": comm, "layout": layout}
            file: Any = path  # None is refused on all ranks
            of_layout: Any = desc
            return cls(of_layout, load(of_layout, file, **options))
        if checked_communicator(comm) is None:
            raise DescriptorError(
                "comm = None: without a Descriptor the ranks that read are those of comm, as in load(path, comm)"
            )
        name = "rows" if layout is None else layout
        with hold_interrupts() as held:
            group = group_of(comm)  # type: ignore[arg-type]
            with agreement(group, "load", confirm=True, deliver=True, held=held) as agreed:
                agreed.call += f"({name!r})"
                if path is not None:
                    raise ArrayError(f"path = {shown(path)} is given twice: as the first argument and as the second")
                if options.get("out") is not None:
                    raise ArrayError("out= needs a Descriptor: load(desc, path, out)")
                check_layout_text("layout", name)
            shape = shape_to_load(desc, options.get("dataset"), options.get("window"), group)
            with agreement(group, "load, its layout"):
                named = named_layout(shape, name, comm)
            return cls(named, load(named, desc, **options))

    def save(self, path: str | os.PathLike[str], **options: Any) -> None:
        """Write the array into a file. Collective over the communicator of the array's grid.

        Parameters, errors and the formats of files are those of `save`.
        """
        from .files import save

        save(self, path, **options)

    def gather(self, root: int | None = 0) -> NDArray[Any] | None:
        """The whole array, or slice, on rank `root`, on all ranks for None, as `gather` returns it; None elsewhere.

        Collective over the communicator of the array's grid.
        """
        return gather(self, root)

    def sum(
        self,
        axis: Axis = None,
        dtype: DTypeLike | None = None,
        *,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = True,
    ) -> Any:
        """The sum over all elements, or along dimensions, as by `numpy.sum`; each element counts once, replicas or not.

        The sums of the ranks are added in their order, so the result is the same from run to run.

        Collective over the communicator of the array's grid, as are `prod`, `mean`, `var`, `std`, `min`, `max`, `any`, `all`,
        `argmin`, `argmax`, `trace` and `diagonal`. All ranks get the result, a NumPy number or array. Of a slice only its
        elements count.

        Parameters
        ----------
        axis : int or sequence of int, optional
            The dimensions to sum over; by default all.
        dtype : dtype, optional
            Of the sum.
        keepdims : bool, optional
            Whether the dimensions summed over stay, of size 1.
        initial : number, optional
            One more element.
        where : DistributedArray or ndarray, optional
            A mask, of the array's shape or of one that broadcasts to it: the elements that count. A distributed one in any
            layout, or a NumPy array that all ranks have whole. `a[mask].sum()` is the same for all dimensions.

        Raises
        ------
        ArrayError, CollectiveError
            The array has no such dimension, or the ranks call different things.
        """
        return reduced(self, np.add, "sum", axis, keepdims, dtype, initial, where)

    def prod(
        self,
        axis: Axis = None,
        dtype: DTypeLike | None = None,
        *,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = True,
    ) -> Any:
        """The product of all elements, or along dimensions, as by `numpy.prod`. Collective; arguments are those of `sum`."""
        return reduced(self, np.multiply, "prod", axis, keepdims, dtype, initial, where)

    def mean(self, axis: Axis = None, *, keepdims: bool = False, where: Any = True) -> Any:
        """The mean over all elements, or along dimensions; float32 is summed as float64. Collective, as `sum`."""
        return mean(self, axis, keepdims, where)

    def var(self, axis: Axis = None, *, ddof: float = 0, keepdims: bool = False) -> Any:
        """The variance, the mean of the squares of distances from the mean, as `numpy.var`. Collective, as `sum`.

        The sum of squares is divided by the number of elements less `ddof`.
        """
        return variance(self, axis, ddof, keepdims)

    def std(self, axis: Axis = None, *, ddof: float = 0, keepdims: bool = False) -> Any:
        """The standard deviation, the square root of `var`. Collective, as `var`."""
        return np.sqrt(self.var(axis, ddof=ddof, keepdims=keepdims))

    def min(self, axis: Axis = None, *, keepdims: bool = False, initial: Any = None, where: Any = True) -> Any:
        """The least element, NaN if there is one, as by `numpy.min`. Collective, as `sum`."""
        return reduced(self, np.minimum, "min", axis, keepdims, None, initial, where)

    def max(self, axis: Axis = None, *, keepdims: bool = False, initial: Any = None, where: Any = True) -> Any:
        """The largest element, NaN if there is one, as by `numpy.max`. Collective, as `sum`."""
        return reduced(self, np.maximum, "max", axis, keepdims, None, initial, where)

    def any(self, axis: Axis = None, *, keepdims: bool = False, where: Any = True) -> Any:
        """Whether any element is true. Collective, as `sum`."""
        return reduced(self, np.logical_or, "any", axis, keepdims, None, None, where)

    def all(self, axis: Axis = None, *, keepdims: bool = False, where: Any = True) -> Any:
        """Whether all elements are true. Collective, as `sum`."""
        return reduced(self, np.logical_and, "all", axis, keepdims, None, None, where)

    def argmin(self, axis: int | None = None, *, keepdims: bool = False) -> Any:
        """Index of the first least element, or of the first NaN, along a dimension, or in C order of all elements.

        As by `numpy.argmin`. Collective, as `sum`.
        """
        return extremum(self, "argmin", np.argmin, np.less, axis, keepdims)

    def argmax(self, axis: int | None = None, *, keepdims: bool = False) -> Any:
        """Index of the first largest element, or of the first NaN, along a dimension, or in C order of all elements.

        As by `numpy.argmax`. Collective, as `sum`.
        """
        return extremum(self, "argmax", np.argmax, np.greater, axis, keepdims)

    def trace(self, offset: int = 0) -> Any:
        """The sum of a diagonal of a matrix, as by `numpy.trace`. Collective, as `sum`."""
        return trace(self, offset)

    def diagonal(self, offset: int = 0) -> Any:
        """A diagonal of a matrix, a NumPy vector on all ranks, as by `numpy.diagonal`. Collective, as `sum`."""
        return diagonal(self, offset)

    def redistribute(
        self,
        desc: Descriptor | Distributed | str | None = None,
        *,
        block: Sequence[BlockSizes] | BlockSizes | EllipsisType = ...,
        grid: ProcessGrid | None = None,
        source: Sequence[int] | int = 0,
        axes: Sequence[int | None] | None = None,
        out: Self | None = None,
        op: str = "N",
        alpha: complex = 1,
        beta: complex = 0,
        order: str | None = None,
        **options: Any,
    ) -> Self:
        """The array in another layout: out = alpha * op(A) + beta * out. Collective over the communicator of its grid.

        The plan is kept with the communicator. A plan that is made by `redistribute` and held saves two votes in each call.

        Parameters
        ----------
        desc : Descriptor, DistributedArray or str, optional
            Layout to reach, or an array that has it, on the same communicator or among its processes; or a text, "rows",
            "columns" or as "2x2:64x64", for the same communicator.
        block, grid, source, axes : optional
            In place of `desc`: the layout to reach, as for `Descriptor`; block size and grid are by default those of this
            array.
        out : DistributedArray, optional
            In place of a layout: the array, or slice of one, to write into.
        op : {"N", "T", "C", "R"}
            As it is, transposed, transposed and conjugated, or conjugated.
        alpha, beta : number
            As in a call of a plan.
        order : {None, "C", "F", "K"}
            Of the elements in a new local array, as for `redistribute`. Not with `out`.
        **options
            uplo, diag, fill, schedule, exchange, buffers, via, memory_limit, overwrite and reduce of `redistribute`.

        Returns
        -------
        DistributedArray
            `out`, or a new array, on every rank.

        Raises
        ------
        DescriptorError, ArrayError, ScheduleError
            An argument is wrong on this rank.
        CollectiveError
            An argument is wrong on another rank, or ranks ask for different things. Every rank raises.
        """
        comm = communicator_of(self._desc)
        with hold_interrupts():  # an interrupt goes into the next vote
            with agreement(group_of_all(self._desc), "DistributedArray.redistribute", learn=True) as agreed:
                target = self._layout_to_reach(desc, out, op, block, grid, source, axes)
                if out is not None and order is not None:
                    raise ArrayError(f"order = {shown(order)} is for a new array, and out is given: leave one of them out")
                agreed.same("the layout to reach", target.layout_digest, target, field="target")
                agreed.learn(self.dtype)
            dtype = agreed.result
            options |= {"op": op, "order": order}
            to_target = plan_between(self._desc, target, self._local, dtype=dtype, comm=comm, **options)
            local = local_result(to_target, self, out, alpha=alpha, beta=beta)
        return type(self)._from_result(target, local, dtype) if out is None else out

    def _layout_to_reach(
        self,
        desc: Any,
        out: Any,
        op: str,
        block: Sequence[BlockSizes] | BlockSizes | EllipsisType,
        grid: ProcessGrid | None,
        source: Sequence[int] | int,
        axes: Sequence[int | None] | None,
    ) -> Layout:
        """The layout that the arguments ask for; an error if they name none, or several."""
        left_out = block is ..., grid is None, np.ndim(source) == 0 and source == 0, axes is None
        written = not all(left_out)
        if (desc is not None) + (out is not None) + written != 1:
            raise DescriptorError("give the layout to reach in one way: a Descriptor; or block=, grid=; or out=")
        if out is not None:
            if not isinstance(out, Distributed):
                raise not_taken("out", out)
            return out.desc  # type: ignore[no-any-return]
        step = -1 if transposes(letter_of("op", op, OPERATIONS)) else 1
        if isinstance(desc, str):
            return layout_from_text("desc", desc, self.shape[::step], self._desc.comm)
        if desc is not None:
            layout = descriptor_of(desc)
            if not isinstance(layout, LAYOUTS):
                raise DescriptorError(
                    f"desc = {shown(desc)} must be a Descriptor, Tiles, a DistributedArray or a text such as '2x2:64x64'"
                )
            return layout
        if not isinstance(self._desc, Descriptor):
            raise DescriptorError(f"{self._desc!r} has no blocks and no grid to start from: give a Descriptor")
        blocks: Any = block
        if isinstance(block, EllipsisType):  # of a slice, its part of irregular blocks
            blocks = [axis.block for axis in self._desc.distributions][::step]
        return Descriptor(self.shape[::step], blocks, grid or self._desc.grid, source=source, axes=axes)


def _of_numpy(function: Callable[..., Any], operands: Sequence[Any], options: dict[str, Any]) -> Any:
    """What a function of NumPy is on distributed arrays, by the module above this one."""
    return load_above("numpy_functions").call(function, operands, options)


def _product(a: object, b: object) -> DistributedArray:
    """The product by `linalg`; of a distributed array and a NumPy array, or a vector and a matrix, in the module above."""
    if isinstance(a, Distributed) and isinstance(b, Distributed) and a.ndim > 1:
        return load_above("linalg").matmul(a, b)  # type: ignore[no-any-return]
    return _of_numpy(np.matmul, (a, b), {})  # type: ignore[no-any-return]


LayoutOrNone = Descriptor | Tiles | Sequence[int] | NDArray[np.integer] | str | None
D = TypeVar("D", bound=Distributed)


@overload
def redistribute(desc_a: D, desc_b: LayoutOrNone, **options: Unpack[PlanKeywords]) -> D: ...


@overload
def redistribute(desc_a: LayoutOrNone, desc_b: LayoutOrNone, **options: Unpack[PlanKeywords]) -> Redistribution: ...


@overload
def redistribute(desc_a: object, desc_b: object, **options: Unpack[PlanKeywords]) -> Any: ...


@overload
def redistribute(desc_a: object, *, like: object, **options: Unpack[PlanKeywords]) -> Any: ...


@brief
@taking_options
def redistribute(
    desc_a: object,
    desc_b: object = ...,
    *misplaced: object,
    like: object = None,
    **options: Unpack[PlanKeywords],
) -> Any:
    """Plan the redistribution from layout A to layout B; with a DistributedArray for A, redistribute it.

    Collective over the processes of the two grids, and of those of a list `via`; with `comm`, over all of `comm`, which
    is the only way that ranks which name different processes by mistake hear of it. Other ranks may call it too. On two
    grids without a communicator the plan is one to study, for any number of processes: see `PaperPlan`. Plans
    are kept with the communicator: asking again for the same one costs one small reduction, holding it costs nothing.
    The first plan of a set of processes on several nodes measures the links between them, once: one rank of each sends
    some 640 kB to the next, unless PYSCALAPACK_REDIST_LINKS names a file with latency and bandwidth.

    Parameters
    ----------
    desc_a, desc_b : Descriptor, Tiles, DistributedArray or nine integers
        Layouts before and after, of the same global shape: a `Descriptor` or `Tiles`, or a ScaLAPACK descriptor with a
        live BLACS context. On a rank outside its grid CTXT may be -1, and a rank that does not know a layout passes None;
        `comm` must then be given. In place of `desc_a` a `DistributedArray`, or an array as for `as_distributed`, which is
        redistributed. One of the two may be a text, "rows", "columns" or as "2x2:64x64", for the shape and the communicator
        of the other, all of whose ranks then take part.
    like : object, optional
        In place of `desc_b` an array whose layout is reached; the result is of its kind, as for `as_distributed`.

    Returns
    -------
    Redistribution or DistributedArray
        For two layouts a plan: call it with the local array of A to get that of B. The same object again for the same
        layouts and options, `dtype` among them, but a new one each time with `agree="first"`. On paper a `PaperPlan`, which
        says what is missing. For an array and a layout the array in that layout, as `desc_a.redistribute(desc_b)` gives it;
        with `like` a new array of that kind. A rank that passes None gets what the others ask for. `plan` gives a plan for
        arrays too.

    Other Parameters
    ----------------
    dtype : dtype, default None
        Of the arrays; of a `DistributedArray` its own. Needed only on ranks that are in B but not in A and will pass no
        `out`; on an inter-communicator it is enough that one rank of either side gives it.
    comm : MPI.Intracomm or MPI.Intercomm, default None
        Communicator that holds both grids. By default the one that both grids are on. On an inter-communicator all ranks
        of the side that has the array give `desc_a` alone, all ranks of the other side `desc_b` alone, and the options
        are the same on both; the layouts and the dtype are sent to the other side.
    op : {"N", "T", "C", "R"}, default "N"
        What B gets: A, its transpose, its conjugate transpose (of matrices; B then has A's columns as rows), or its
        conjugate. Like `uplo` and `diag`, in either case.
    uplo : {None, "U", "L"}, default None
        Move only the upper or the lower trapezoid of A (of the sub-array, where it is one), as pxtrmr2d does: i <= j for
        "U", but i <= j + m - n in a tall matrix of m x n; i >= j for "L", but i >= j - (n - m) in a wide one. With "T"
        and "C" it is the other triangle of B that is written. The rest of `out` is not touched; that of a new array is 0.
    diag : {"N", "U"}, default "N"
        "U": the last diagonal of the trapezoid stays out too. Only with `uplo`.
    fill : {None, "zero", "symmetric", "hermitian"}, default None
        Write the rest of B too: B = alpha * op(S) + beta * B, where S is A's trapezoid and 0 elsewhere, or, of a square
        matrix, its transpose or conjugate transpose elsewhere (then with `diag="U"` the diagonal of B is left as it is).
        The mirror image is a second move of the same elements. The diagonal is copied unchanged.
    schedule : str, default "auto"
        Order of the messages: "auto" or a name in `schedules.NAMES`. "walker-otto", "phases", "random-phases" and "classes"
        have conditions; "stepwise", "greedy" and "optimal" are searched for by one rank when the plan is made.
    exchange : str, default "auto"
        How they move: "auto", "shared" (through memory shared by the ranks of a node, by MPI between nodes),
        "node-packed" (the same, but in one message from node to node for up to 128 KiB a rank), "nonblocking", "windowed",
        "synchronized", "ready", "sendrecv", "bruck" (through other ranks, in log2 P messages of each rank), or "alltoallv"
        and "alltoallw", which leave the order to MPI.
    buffers : {"packed", "datatypes"}, default "packed"
        What MPI is given: bytes that are packed and unpacked here, or the arrays themselves, described by derived
        datatypes, with no staging memory of ours (all exchanges but alltoallv).
    via : {None, "dimensions", "lcm", "gcd"} or list of Descriptor, default None
        None: every element moves once. "dimensions": one dimension after another. "lcm": blocks grow to the least common
        multiple of both sizes, then shrink; each leg has its own schedule. "gcd": they shrink to the greatest common
        divisor, then grow. Descriptors: through these layouts. The local arrays of layouts in between
        are made in each call, beside what `memory_limit` counts.
    order : {None, "C", "F", "K"}, default None
        Of the elements in a new local array of B: "C", the last dimension runs fastest; "F", the first, as ScaLAPACK has
        it; "K", as in A (in op(A)), of "C" and "F" the nearer one. None: as in A, and "F" for matrices. Where A's order is
        taken, that is the order on this rank, in a call of a plan, and "F" on a rank that has nothing of A. An array that
        is redistributed has one order on all ranks, "F" if their orders differ.
    memory_limit : int or str, default "64MiB"
        Most bytes of extra memory per rank, as a number or as "64MiB" (kB, MB and GB are powers of 1000, KiB, MiB and GiB
        of 1024).
    overwrite : bool, default False
        Consume A, for the sake of memory: its elements move in panels, and the pages of each go back to the system when it
        has been sent, while those of a new B come as they are written. So a rank needs about a tenth more than the larger of
        its parts of A and B in all, beside `memory_limit`, in place of both. Afterwards a `DistributedArray` can be used no
        more (`local` has length 0), and the elements of a local array that a plan was called with are undefined; an error
        after the first panel, or an interrupt, loses them. Linux gives memory back that NumPy has allocated, whose elements
        are next to one another; other memory is kept, with a warning in the log. Not with `fill`, `via`, tiles,
        buffers="datatypes" and agree="first".
    reduce : {None, "sum"}, default None
        "sum": the processes along grid dimensions that no dimension of A uses hold summands instead of replicas, and B gets
        their sum: out = alpha * (op(A_0) + op(A_1) + ...) + beta * out. They are added one after another in the order in
        which `Descriptor.places` numbers them, to beta * out if beta is not 0 and each multiplied by alpha, so a sum has
        the same bits in each run, in every replica of B and in every layout. Of float32, float64, complex64, complex128 and
        integers, which overflow as NumPy's. A layout without replicas is one summand. `out is a` is not possible; not with
        `fill`, `via`, `overwrite`, tiles, buffers="datatypes", and in a batch.
    agree : {"always", "first"}, default "always"
        "always": in each call all ranks agree before any element moves, so an error on one is an error on all, and no array
        is touched. "first": they agree in the first call, and a later one starts as a persistent collective of MPI does
        (MPI_Alltoallv_init, MPI_Start): its arguments are bound, here dtype, alpha, beta and the order of elements in
        messages, while the arrays may be others, with other strides; and whether another rank has called correctly is not
        looked at first. That is for small messages between nodes (all that goes at once, up to 256 KiB a rank), where
        agreeing takes as long as moving; through shared memory, and for longer messages, ranks go on to agree. What is
        given up is that errors are the same on all: a rank with an error of its own raises it, once all have heard of that
        or after 10 s, and calls that it has in flight end well where the others have begun them; one that receives from it
        raises CollectiveError in this call, with B perhaps written in part; all others at most 32 calls later, having had
        correct arrays until then. So after an error all ranks must come to their next calls of the plan, or free the
        communicator: a rank that comes later than 10 s after the error is told while the rank that raised it waits for
        anything in this package, and until then it waits. The plan can be used no more after that, also where ranks have
        agreed on the failure. Not for the exchanges "ready", "bruck", "alltoallv" and "alltoallw", nor for
        buffers="datatypes".

    Raises
    ------
    DescriptorError, ArrayError, ScheduleError
        An argument is wrong on this rank.
    CollectiveError
        An argument is wrong on another rank, or ranks ask for different things. Every rank raises.
    """
    with hold_interrupts() as held:
        read = read_options("redistribute", options)
        if isinstance(desc_a, LAYOUTS) and isinstance(desc_b, LAYOUTS) and like is None and not misplaced:
            return planned(desc_a, desc_b, read, held=held).plan
        if like is not None:
            return _redistribute_like(desc_a, desc_b, misplaced, like, read)
        return _redistribute_arrays(desc_a, desc_b, misplaced, read)


@brief
@taking_options
def plan(
    desc_a: Descriptor | Tiles | Distributed | Sequence[int] | NDArray[np.integer] | str | None,
    desc_b: Descriptor | Tiles | Distributed | Sequence[int] | NDArray[np.integer] | str | None,
    **options: Unpack[PlanKeywords],
) -> Redistribution:
    """Plan the redistribution of an array from layout A to layout B. Collective, as `redistribute` with two layouts.

    Parameters
    ----------
    desc_a, desc_b : Descriptor, Tiles, DistributedArray or nine integers
        Layouts before and after; a `DistributedArray` stands for its layout. None and texts as for `redistribute`.
    **options : optional
        dtype, comm, op, uplo, diag, fill, schedule, exchange, buffers, via, order, memory_limit, overwrite, reduce and
        agree, as for `redistribute`.

    Returns
    -------
    Redistribution
        Call it with the local array of A to get that of B.

    Raises
    ------
    DescriptorError, ArrayError, ScheduleError
        An argument is wrong on this rank.
    CollectiveError
        An argument is wrong on another rank, or ranks ask for different things. Every rank raises.
    """
    with hold_interrupts() as held:
        asked = read_options("plan", options)
        return planned(*layouts_of(desc_a, desc_b, asked), held=held).plan


def _redistribute_arrays(desc_a: object, desc_b: object, misplaced: Sequence[object], options: Options) -> Any:
    """The redistributed array, or a plan; what the other ranks ask for if this one does not know."""
    comm = options.comm
    if desc_b is ...:
        _raise_lacking_layout(desc_a, comm)
    desc_a = read_argument("desc_a", desc_a, comm, desc_b, Needs.EITHER).content
    layout_a, layout_b, options = layouts_of(desc_a, desc_b, options)
    error = _misuse(desc_a, desc_b, misplaced)
    returns: int | None = RETURNS_PLAN
    if isinstance(desc_a, Distributed):
        returns = RETURNS_ARRAY
        if options.dtype is None:
            options = options._replace(dtype=desc_a.dtype)
    elif desc_a is None or desc_b is None:
        returns = None
    local = desc_a.local if isinstance(desc_a, Distributed) else None
    agreed = planned(layout_a, layout_b, options, returns, error, local=local)
    if not agreed.gives_array:
        return agreed.plan
    kind = type(desc_a) if isinstance(desc_a, DistributedArray) else DistributedArray
    return kind._from_result(agreed.plan.desc_b, local_result(agreed.plan, desc_a), agreed.dtype)


def _redistribute_like(x: object, desc_b: object, misplaced: Sequence[object], like: object, options: Options) -> Any:
    """The elements of an array in a new object like another one."""
    if desc_b is not ... or misplaced:
        raise ArrayError("like= has the layout to reach: redistribute(x, like=y), without a second layout")
    comm: Any = options.comm
    array = _taken(x, comm, like)
    if adapter_of(like) is not None:
        return convert(array, like, comm, options)
    layout = read_argument("like", like, comm, array.desc, Needs.LAYOUT, required=True).content
    return _redistribute_arrays(array, layout, (), options)


def _raise_lacking_layout(desc_a: object, comm: Any) -> NoReturn:
    """Raise the error for a call without a second layout; of an array, on all ranks. Collective for arrays."""
    error = TypeError(
        "redistribute() needs a second layout, or like=, an array that has it, and like = None is no array"
    )
    if isinstance(desc_a, Distributed) or adapter_of(desc_a) is not None:
        array = as_distributed(desc_a, comm)
        with reading("like", communicator_for(None, None, comm, array.desc)[0]):
            raise error
    raise error


@brief
def as_distributed(x: object, comm: MPI.Intracomm | None = None) -> DistributedArray:
    """An array of another library as a distributed array in the same memory.

    Collective over the communicator of the array if its library has one, else over `comm`, by default COMM_WORLD. Nothing is
    copied if the library gives its memory. The layout is read once: an array that changes its layout must be read again.

    Parameters
    ----------
    x : object
        A `jax.Array`, a `DTensor` of PyTorch, a `DNDarray` of Heat, a `DistributedArray` of pylops-mpi, a `Mat` or `Vec` of
        PETSc, a `DistArray` of mpi4py-fft, an `NPScal` of scalapack4py, a dask array, a pair (layout, local array), or an
        array of a package with an adapter of its own.
    comm : MPI.Intracomm, optional
        Communicator of the processes.

    Returns
    -------
    DistributedArray
        Its layout is a `Descriptor`, or `Tiles` if a process has several local arrays.

    Raises
    ------
    ArrayError, DescriptorError
        The array cannot be taken on this rank: it is on a device, sparse, on another communicator, ...
    CollectiveError
        That is so on another rank, or ranks have different layouts.
    """
    return _taken(x, comm)


def _taken(x: object, comm: MPI.Intracomm | None, other: object = None) -> DistributedArray:
    """As `as_distributed`; a rank that has no array finds the others on the communicator of `other`."""
    array = read_argument("x", x, comm, other, required=True).content
    if isinstance(array, DistributedArray) and comm is None:
        return array
    desc = array.desc if comm is None else array.desc.on(comm)
    return DistributedArray._from_result(desc, array.local, array.dtype)


def _misuse(desc_a: object, desc_b: object, misplaced: Sequence[object]) -> ArrayError | None:
    """The error for arguments that do not say what is wanted, with the line to write; None for others."""
    if misplaced:
        return ArrayError(
            "redistribute takes two layouts, or a DistributedArray and a layout, and everything else by name: "
            "redistribute(desc_a, desc_b)(a) redistributes the local array a"
        )
    if not isinstance(desc_b, Distributed):
        return None
    if isinstance(desc_a, Distributed):
        return ArrayError(
            "both arguments of redistribute are arrays: desc_a.redistribute(out=desc_b) writes the first into the second, "
            "redistribute(desc_a, desc_b.desc) gives a new array, and plan(desc_a, desc_b) a plan"
        )
    return ArrayError(
        "the second argument of redistribute is an array, and the first is not: redistribute(array, desc) brings an array "
        "into a layout, and plan(desc_a, desc_b) gives a plan"
    )


@brief
def distribute(
    array: object,
    desc: Descriptor | MPI.Intracomm | str | None = None,
    root: int = 0,
    *,
    comm: MPI.Intracomm | None = None,
    layout: str | None = None,
    order: str | None = None,
) -> DistributedArray:
    """Distribute an array of one rank. Collective over the communicator of the descriptor's grid, or over the one given.

    `distribute(a, comm)` makes balanced rows on all ranks of `comm`, which need not know the shape.

    Parameters
    ----------
    array : array_like
        On `root` the whole array, of the descriptor's shape: anything that NumPy can make an array of, such as nested lists,
        but no masked array. Ignored on other ranks.
    desc : Descriptor, MPI.Intracomm or str
        Layout to reach, of a whole array, not of a sub-array; or the communicator of the ranks; or, with `comm`, a text.
    root : int
        Rank that has it.
    comm : MPI.Intracomm, optional
        The communicator, by name.
    layout : str, optional
        With a communicator: "rows", the default, "columns" or a text such as "2x2:64x64", as for `zeros`.
    order : {None, "C", "F", "K"}
        Of the elements in local arrays: "K" is that of the array on `root`, as it is by default of other than two dimensions;
        matrices are in Fortran order.

    Raises
    ------
    ArrayError, DescriptorError
        An argument is wrong on this rank.
    CollectiveError
        An argument is wrong on another rank.
    """
    target: Any = desc
    if desc is None or (isinstance(desc, str) and layout is None):
        target, layout, comm = comm, layout if desc is None else desc, None
    if target is None or isinstance(target, str):
        remedy = f"give one layout, layout = {layout!r} or this" if comm is not None else "it has no communicator"
        raise DescriptorError(f"desc = {shown(desc)}: {remedy}, as distribute(array, comm, layout={desc or 'rows'!r})")
    if not isinstance(target, LAYOUTS) and not hasattr(target, "Get_size"):
        raise DescriptorError(f"desc = {shown(desc)} must be a Descriptor, Tiles, a communicator or, with comm=, a text")
    with hold_interrupts():  # an interrupt goes into the next vote
        is_layout = isinstance(target, LAYOUTS)
        if not is_layout:
            checked_communicator(target)
        surplus = {"comm": comm} | ({"layout": layout} if is_layout else {})
        for name, each in surplus.items():
            if each is not None:
                error = DescriptorError(f"{name} = {shown(each)} is given beside desc = {target!r}, which has its own: omit it")
                meet(group_of_all(target) if is_layout else group_of(target), "distribute", error)
        if not is_layout:
            target, array = _layout_of_whole(array, target, root, "rows" if layout is None else layout)
        local, dtype = from_root(target, lambda: _read_whole(array, target.shape), root, order=order)
    return DistributedArray._from_result(target, local, dtype)


def _layout_of_whole(array: object, comm: MPI.Intracomm, root: int, layout: str) -> tuple[Descriptor, Any]:
    """The layout that a text names for the array of one rank, whose shape all ranks learn, and the array as NumPy reads it."""
    group = group_of(comm)
    with agreement(group, "distribute", combine=first_known, deliver=True) as agreed:
        holder = checked_root(root, group.size)
        check_layout_text("layout", layout)
        agreed.same("root", holder)
        agreed.same("layout", layout)
        whole = _read_whole(array) if group.rank == holder else None
        agreed.give(None if whole is None else whole.shape)
    if agreed.result is None:
        raise ArrayError(f"the array is None on rank {holder}: pass it there")
    with agreement(group, "distribute, its layout"):
        desc = named_layout(agreed.result, layout, comm)
    return desc, whole


def _read_whole(array: Any, shape: tuple[int, ...] | None = None) -> NDArray[Any] | None:
    """The array as NumPy reads it; an error if it has not the shape."""
    if array is None:
        return None
    if _is_masked(array):
        raise ArrayError("the array is a masked array, whose mask would not move with it: pass array.filled(value)")
    readable = host_array("array", array)
    try:
        whole = np.asarray(readable)
    except MemoryError:
        raise
    except Exception as caught:
        raise ArrayError(f"NumPy cannot make an array of this {type(array).__name__}: {caught}") from caught
    if shape is not None and whole.shape != shape:
        raise ArrayError(f"the array has shape {whole.shape}, but desc has shape {shape}: they must be equal")
    return whole


def _is_masked(array: object) -> bool:
    """Whether this is a masked array, or a nested sequence that contains one: NumPy would drop the mask."""
    if isinstance(array, list | tuple):
        return any(map(_is_masked, array))
    return isinstance(array, np.ma.MaskedArray)
