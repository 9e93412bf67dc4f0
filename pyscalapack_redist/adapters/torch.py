"""PyTorch: distributed tensors with any placements, on meshes of processes with CPUs."""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..comm.mpi import MPI
from ..errors import ArrayError, DescriptorError
from ..layout.arrays import new_array
from ..layout.descriptor import Descriptor
from ..layout.tiles import Layout
from .adapter import Adapter, Blueprint, Summands, View
from .boxes import layouts_of_boxes
from .tensors import array_of, check_gradient, tensor_of

Place = tuple[int, ...]  # in a mesh
Span = tuple[int, int]
Window = tuple[slice, ...]
Origin = Literal["own", "given", "like"]  # of placements
START = 'torch.distributed.init_process_group("gloo", rank=MPI.COMM_WORLD.rank, world_size=MPI.COMM_WORLD.size, ...)'


class DTensors(Adapter):
    """`DTensor` on a mesh of CPUs. Rank k of torch.distributed must be rank k of COMM_WORLD.

    For `like`, also a pair (mesh, placements). A new array has the placements of another one: for `Partial`, and for parts of a
    dimension that it does not have, it is replicated.
    """

    def takes(self, x: Any) -> bool:
        tensor = sys.modules.get("torch.distributed.tensor")  # loaded already, if there is a DTensor
        if tensor is None:
            return False
        if isinstance(x, tuple):
            return isinstance(x[0], import_module("torch.distributed.device_mesh").DeviceMesh)
        return isinstance(x, tensor.DTensor)

    def layout(self, x: Any, comm: MPI.Intracomm) -> Layout:
        sharding = _sharding(x)
        if sharding.partial:
            raise ArrayError(
                f"the DTensor has the placements {sharding.placements}: each process has a summand, and no layout tells where "
                "elements are; redistribute(x, desc) adds them, or x.redistribute(placements=[...]) of PyTorch"
            )
        return sharding.layouts(comm)[0]

    def view(self, x: Any, comm: MPI.Intracomm) -> View:
        sharding = _sharding(x)
        check_gradient("the DTensor", x)
        layouts = sharding.layouts(comm)
        layout, local = layouts[0], array_of("the DTensor", _local_tensor(x))
        if local.shape != sharding.local_shape:
            raise ArrayError(
                f"the DTensor has a local tensor of shape {local.shape} here, but by its shape {sharding.shape}, its mesh and "
                f"{sharding.placements} it must be {sharding.local_shape}: give DTensor.from_local shape= and stride="
            )
        if isinstance(layout, Descriptor):
            summands = sharding.summands(comm)
            return View(layout, None if layout.coords is None else local, local.dtype, summands)
        if sharding.partial:
            raise ArrayError(
                f"the DTensor has {sharding.placements}, several parts of a dimension with summands: bring it to others by "
                "x.redistribute(placements=[...]) of PyTorch"
            )
        if len(layouts) > 1:  # whoever writes the tiles of one layout leaves the other copies as they are
            local = local.view()
            local.flags.writeable = False
        return View(layout, sharding.tiles(layout, local), local.dtype)

    def make(self, like: Any, shape: tuple[int, ...], comm: MPI.Intracomm) -> Blueprint:
        sharding = _sharding(like, shape)
        layouts = sharding.layouts(comm)
        is_product = isinstance(layouts[0], Descriptor)
        whole: NDArray[Any] | None = None

        def allocate(dtype: np.dtype[Any], zeroed: bool) -> list[Any]:
            nonlocal whole
            whole = new_array(sharding.local_shape, dtype, "C", zeroed)
            return [sharding.tiles(layout, whole) for layout in layouts]

        def build(*locals: Any, dtype: np.dtype[Any]) -> Any:
            local = locals[0] if is_product else whole
            if local is None or local.shape != sharding.local_shape:  # outside the grid
                local = np.empty(sharding.local_shape, dtype)
            x = _dtensor(local, sharding.mesh, sharding.placements, shape)
            if not sharding.is_read_in_order:
                x._spec.use_strided_shard_as_shard_order = False
                x._spec.shard_order = x._spec.compute_default_shard_order(x.placements)
            return x

        return Blueprint(layouts, "C", build, None if is_product else allocate)

    def replicated(self, like: Any, values: NDArray[Any]) -> Any:
        mesh = like.device_mesh
        placements = [import_module("torch.distributed.tensor").Replicate()] * mesh.ndim
        return _dtensor(values, mesh, placements, values.shape)

    def written(self, x: Any) -> None:  # for autograd, which would take what it has saved for a gradient to be as it was
        for tensor in (x, _local_tensor(x)):
            import_module("torch").autograd.graph.increment_version(tensor)


class Sharding:
    """What a mesh, with a placement for each of its dimensions, makes of an array of a shape.

    Parameters
    ----------
    mesh : DeviceMesh
        The mesh, of ranks of torch.distributed.
    placements : sequence of Placement
        `Shard`, `_StridedShard` or `Replicate` for each dimension of the mesh. They are applied in this order, each to what
        the last one has left.
    shape : tuple of int
        Shape of the array.
    """

    def __init__(self, mesh: Any, placements: Sequence[Any], shape: tuple[int, ...]) -> None:
        if not shape:
            raise ArrayError("the DTensor has no dimensions: only arrays with one or more are distributed")
        if mesh.device_type != "cpu":
            raise ArrayError(
                f"the DTensor is on a mesh of devices {mesh.device_type}, and only the host's memory is moved: put it on a "
                'mesh of "cpu"'
            )
        self.mesh, self.placements, self.shape = mesh, tuple(placements), shape
        self.ranks: NDArray[np.int64] = np.array(mesh.mesh.tolist(), np.int64)
        for k, placement in enumerate(self.placements):
            if hasattr(placement, "dim") and (np.diff(self.ranks, axis=k) < 0).any():
                raise ArrayError(
                    f"the DTensor's mesh {self.ranks.tolist()} has ranks that do not ascend along dimension {k}, which has "
                    f"{placement!r}: PyTorch itself takes such parts now by their place in the mesh, now by their rank. Make a "
                    "mesh of ascending ranks"
                )

    @functools.cached_property
    def cuts(self) -> list[dict[Place, list[Span]]]:
        """For each dimension of the array, the index ranges of each place in the mesh."""
        return [self._cut(k, self._cutters(k)) for k in range(len(self.shape))]

    def _cutters(self, k: int) -> dict[int, int]:
        """The dimensions of the mesh that cut a dimension of the array, in their order, and their split factors."""
        shards = enumerate(self.placements)
        return {axis: getattr(each, "split_factor", 1) for axis, each in shards if getattr(each, "dim", None) == k}

    def _cut(self, k: int, cutters: Mapping[int, int]) -> dict[Place, list[Span]]:
        """The index ranges of each place, if dimension k of the array is cut by dimensions of the mesh in this order."""
        n, sizes = self.shape[k], self.ranks.shape
        spans_of: dict[Place, list[Span]] = {(): [(0, n)]}  # by the place along the dimensions that cut
        for axis, factor in cutters.items():
            spans_of = {
                (*place, part): _part(spans, part, sizes[axis], factor)
                for place, spans in spans_of.items()
                for part in range(sizes[axis])
            }
        return {
            place: spans_of[tuple([place[axis] for axis in cutters])] if n else [(0, 0)] for place in np.ndindex(sizes)
        }

    @property
    def is_read_in_order(self) -> bool:
        """Whether PyTorch reads parts as it makes them, in the order of the placements, if the tensor's spec is the default.

        It reads `_StridedShard` as shards in another order, if one has these split factors. Else it forgets that a strided
        shard has cut what the next shard cuts.
        """
        strided = [hasattr(placement, "split_factor") for placement in self.placements]
        if not any(strided):
            return True
        spec = import_module("torch.distributed.tensor._dtensor_spec").DTensorSpec
        order = getattr(spec, "_maybe_convert_StridedShard_to_shard_order", lambda *_: None)(self.placements, self.mesh)
        if order is None:
            cutters = [
                [axis for axis in self._cutters(k) if self.ranks.shape[axis] > 1] for k in range(len(self.shape))
            ]
            return not any(strided[axis] for axes in cutters for axis in axes[:-1])
        return all(self._cut(k, dict.fromkeys(axes, 1)) == self.cuts[k] for k, axes in order)

    def spans(self, place: Place) -> list[list[Span]]:
        """The index ranges along each dimension of the array at a place of the mesh, in the order of the local tensor."""
        return [cut[place] for cut in self.cuts]

    def layouts(self, comm: MPI.Intracomm) -> list[Layout]:
        """The layouts of the array, from the boxes of each rank."""
        rank_of = _ranks_in(comm)
        strangers = sorted(set(self.ranks.flat) - rank_of.keys())
        if strangers:
            raise DescriptorError(
                f"the DTensor's mesh has the ranks {list(map(int, strangers))} of torch.distributed, which are not in comm: "
                "give a communicator that has them"
            )
        starts = [sorted({begin for spans in cut.values() for begin, _ in spans}) for cut in self.cuts]
        number = [{start: k for k, start in enumerate(line)} for line in starts]
        holders: dict[tuple[int, ...], list[int]] = {}
        for place, rank in np.ndenumerate(self.ranks):
            for box in itertools.product(*self.spans(place)):
                index = tuple([of[begin] for of, (begin, _) in zip(number, box, strict=True)])
                holders.setdefault(index, []).append(rank_of[int(rank)])
        return layouts_of_boxes([[*line, n] for line, n in zip(starts, self.shape, strict=True)], holders, comm)

    @functools.cached_property
    def partial(self) -> list[int]:
        """The dimensions of the mesh along which processes have summands."""
        partial = import_module("torch.distributed.tensor").Partial
        return [k for k, placement in enumerate(self.placements) if isinstance(placement, partial)]

    def summands(self, comm: MPI.Intracomm) -> Summands | None:
        """The layout of the summands, of which each element has one copy, and their factor; None if there are none."""
        if not self.partial:
            return None
        replicate = import_module("torch.distributed.tensor").Replicate
        single = Sharding(self.mesh, self.placements, self.shape)
        single.ranks = self.ranks[
            tuple([slice(1) if isinstance(placement, replicate) else slice(None) for placement in self.placements])
        ]
        (layout,) = single.layouts(comm)
        assert isinstance(layout, Descriptor)
        factors = [
            1 / self.ranks.shape[k] for k in self.partial if getattr(self.placements[k], "reduce_op", "sum") == "avg"
        ]
        return Summands(layout, float(np.prod(factors)))

    @functools.cached_property
    def own_place(self) -> Place | None:
        """The place of this process in the mesh; None if it is not in it."""
        places = np.argwhere(self.ranks == import_module("torch.distributed").get_rank())
        return tuple(places[0].tolist()) if len(places) else None

    @property
    def local_shape(self) -> tuple[int, ...]:
        """The shape of this process's local tensor."""
        if self.own_place is None:
            return (0,)
        return tuple([sum(end - begin for begin, end in spans) for spans in self.spans(self.own_place)])

    def tiles(self, layout: Any, local: NDArray[Any]) -> list[NDArray[Any]]:
        """The own tiles of a layout as parts of the local tensor."""
        if self.own_place is None:
            return []
        windows = dict(_windows(self.spans(self.own_place)))
        return [local[windows[tuple([part.start for part in window])]] for window in layout.windows]


def _part(spans: list[Span], part: int, parts: int, factor: int) -> list[Span]:
    """A part of index ranges: of each of `factor` blocks of theirs the block of that number. Blocks are `torch.chunk`'s."""
    kept: list[Span] = []
    whole = sum(end - begin for begin, end in spans)
    for outer in _chunks(whole, factor):
        begin, end = list(_chunks(outer[1] - outer[0], parts))[part]
        for first, last in _within(spans, outer[0] + begin, outer[0] + end):
            if kept and kept[-1][1] == first:
                kept[-1] = kept[-1][0], last
            else:
                kept.append((first, last))
    return kept


def _chunks(n: int, parts: int) -> Iterator[Span]:
    """n elements in blocks, all of one size as long as there are any."""
    size = -(-n // parts)
    return ((min(n, k * size), min(n, (k + 1) * size)) for k in range(parts))


def _within(spans: list[Span], begin: int, end: int) -> Iterator[Span]:
    """The part of index ranges from their element of number `begin` on to that of number `end`."""
    passed = 0
    for first, last in spans:
        low, high = max(begin - passed, 0), min(end - passed, last - first)
        if low < high:
            yield first + low, first + high
        passed += last - first


def _windows(spans: Sequence[Sequence[Span]]) -> Iterator[tuple[tuple[int, ...], Window]]:
    """For each box of a process: its first index along each dimension, and its part of the local tensor."""
    lines = []
    for line in spans:
        ends = list(itertools.accumulate([end - begin for begin, end in line], initial=0))
        lines.append([(line[k][0], slice(ends[k], ends[k + 1])) for k in range(len(line))])
    for box in itertools.product(*lines):
        yield tuple([start for start, _ in box]), tuple([part for _, part in box])


def _sharding(x: Any, shape: tuple[int, ...] | None = None) -> Sharding:
    """The mesh and the placements of a DTensor, or of a pair of them, for an array of its shape or of another one."""
    if isinstance(x, tuple):
        mesh, placements = x
        if shape is None:
            raise ArrayError(
                "a pair (mesh, placements) is no array, it is for like=: redistribute(x, like=(mesh, placements))"
            )
        return Sharding(mesh, _fitted(mesh, placements, len(shape), "given"), shape)
    _check_order(x)
    sizes = tuple(x.shape) if shape is None else shape
    origin: Origin = "own" if shape is None else "like"
    sharding = Sharding(x.device_mesh, _fitted(x.device_mesh, x.placements, len(sizes), origin), sizes)
    if shape is None and getattr(x._spec, "use_strided_shard_as_shard_order", True) and not sharding.is_read_in_order:
        raise ArrayError(
            f"the DTensor has the placements {sharding.placements} for the shape {sizes}: PyTorch cuts it in the order of the "
            "mesh's dimensions, and puts such parts together in another. Make it with Shard in place of _StridedShard"
        )
    return sharding


def _fitted(mesh: Any, placements: Any, ndim: int, origin: Origin) -> list[Any]:
    """Placements for an array of `ndim` dimensions.

    They are its "own"; or "given" for it; or those of a tensor that it is to be "like": then it is replicated where that has
    summands, or parts of a dimension that it does not have.
    """
    types = import_module("torch.distributed.tensor.placement_types")
    if not isinstance(placements, list | tuple) or len(placements) != mesh.ndim:
        raise DescriptorError(
            f"placements = {placements!r} must be a list with one for each dimension of the mesh, which has {mesh.ndim}"
        )
    fitted = []
    for placement in placements:
        _check_placement(placement, types, takes_summands=origin != "given")
        if isinstance(placement, types.Replicate | types.Partial):
            fitted.append(types.Replicate() if origin == "like" else placement)
            continue
        dim = placement.dim + ndim if placement.dim < 0 else placement.dim
        factor = getattr(placement, "split_factor", None)
        if 0 <= dim < ndim:
            fitted.append(types.Shard(dim) if factor is None else types._StridedShard(dim, split_factor=factor))
        elif origin == "given":
            raise DescriptorError(f"{placement!r} is of no dimension of the array, which has {ndim}")
        else:
            fitted.append(types.Replicate())
    return fitted


def _check_placement(placement: Any, types: Any, takes_summands: bool) -> None:
    """Raise an ArrayError for a placement that is not taken: of summands in a new array, or that are not added."""
    kind, is_partial = type(placement), isinstance(placement, types.Partial)
    if is_partial and not takes_summands:
        raise ArrayError(
            f"{placement!r} is no placement for a new DTensor, in which each process would have a summand: give "
            "Replicate() or Shard(k)"
        )
    if is_partial and (kind is not types.Partial or placement.reduce_op not in ("sum", "avg")):
        raise ArrayError(
            f"the DTensor has the placement {placement!r}: only sums and means of type Partial itself are made. Combine its "
            "parts first, by x.redistribute(placements=[Replicate()]) of PyTorch, one placement for each dimension of the mesh"
        )
    if not is_partial and kind not in (types.Shard, types._StridedShard, types.Replicate):
        raise ArrayError(
            f"{placement!r} is no placement that is taken: Shard, _StridedShard, Replicate and Partial are"
        )


def _check_order(x: Any) -> None:
    """Raise an ArrayError for shards that are not made in the order of the mesh's dimensions."""
    order = getattr(x._spec, "shard_order", None) or ()
    if any(list(entry.mesh_dims) != sorted(entry.mesh_dims) for entry in order):
        raise ArrayError(
            f"the DTensor has shards in the order {order}: only such in the order of the mesh's dimensions are taken, in which "
            "x.redistribute(placements=...) of PyTorch brings them"
        )


def _ranks_in(comm: MPI.Intracomm) -> dict[int, int]:
    """The rank in `comm` of each rank of torch.distributed that is in it."""
    distributed = import_module("torch.distributed")
    if not distributed.is_initialized():
        raise DescriptorError(f"torch.distributed has no process group, so ranks are unknown: call {START} first")
    own, rank = distributed.get_rank(), MPI.COMM_WORLD.Get_rank()
    if own != rank:
        raise DescriptorError(
            f"this is rank {own} of torch.distributed and rank {rank} of COMM_WORLD: they must be equal, as by {START}"
        )
    ranks = range(comm.Get_size())
    world = MPI.Group.Translate_ranks(comm.Get_group(), ranks, MPI.COMM_WORLD.Get_group())
    return dict(zip(world, ranks, strict=True))


def _local_tensor(x: Any) -> Any:
    """The local tensor of a DTensor, when it is complete. It has the DTensor's memory."""
    with import_module("torch").no_grad():
        local = x.to_local()
        return local.wait() if hasattr(local, "wait") else local


def _dtensor(local: NDArray[Any], mesh: Any, placements: Sequence[Any], shape: tuple[int, ...]) -> Any:
    """A DTensor whose memory is a local array in C order."""
    strides = tuple([int(np.prod(shape[k + 1 :], dtype=np.int64)) for k in range(len(shape))])
    tensor = import_module("torch.distributed.tensor").DTensor
    return tensor.from_local(tensor_of(local), mesh, placements, run_check=False, shape=shape, stride=strides)
