"""JAX: arrays with any sharding over CPU devices of the processes."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..comm.mpi import MPI
from ..errors import ArrayError, DescriptorError
from ..layout.descriptor import Descriptor
from ..layout.tiles import Layout
from .adapter import Adapter, Blueprint, View
from .boxes import layouts_of_boxes

START = 'jax.distributed.initialize(cluster_detection_method="mpi4py")'


class JaxArrays(Adapter):
    """`jax.Array` on CPU devices. Process k of JAX must be rank k of COMM_WORLD, as its detection by mpi4py has it."""

    def takes(self, x: Any) -> bool:
        return isinstance(x, import_module("jax").Array)

    def view(self, x: Any, comm: MPI.Intracomm) -> View:
        jax = import_module("jax")
        _check_elements(x)
        if x.is_deleted():
            raise ArrayError("the jax.Array has been deleted or donated: its memory is gone")
        if jax.dtypes.issubdtype(x.dtype, jax.dtypes.extended):
            raise ArrayError(
                f"the jax.Array has dtype {x.dtype}, whose elements NumPy does not have: jax.random.key_data(keys) has"
            )
        layout = _layouts(x.sharding, x.shape, comm)[0]
        shards = {_starts(shard.index, x.shape): shard for shard in x.addressable_shards}
        if isinstance(layout, Descriptor):
            local = None if layout.coords is None else next(iter(shards.values()))
            return View(layout, None if local is None else np.asarray(local.data), x.dtype)
        own = [tuple(part.start for part in window) for window in layout.windows]
        return View(layout, [np.asarray(shards[starts].data) for starts in own], x.dtype)

    def make(self, like: Any, shape: tuple[int, ...], comm: MPI.Intracomm) -> Blueprint:
        _check_elements(like)
        sharding = _fitted(like, shape)
        layouts = _layouts(sharding, shape, comm)

        def build(*locals: Any, dtype: np.dtype[Any]) -> Any:
            boxes: dict[tuple[int, ...], NDArray[Any]] = {}
            for layout, local in zip(layouts, locals, strict=True):
                if not isinstance(layout, Descriptor):
                    own = [tuple(part.start for part in window) for window in layout.windows]
                    boxes.update(zip(own, local, strict=True))
                elif layout.coords is not None:
                    boxes[tuple(int(layout.global_indices(k)[0]) if n else 0 for k, n in enumerate(local.shape))] = (
                        local
                    )
            return _assembled(sharding, shape, boxes, dtype)

        return Blueprint(layouts, "C", build)

    def replicated(self, like: Any, values: NDArray[Any]) -> Any:
        sharding, jax = like.sharding, import_module("jax")
        if hasattr(sharding, "mesh"):
            sharding = jax.sharding.NamedSharding(sharding.mesh, jax.sharding.PartitionSpec())
        return _assembled(sharding, values.shape, {(0,) * values.ndim: values}, values.dtype)


def _check_elements(x: Any) -> None:
    """Raise an ArrayError for what stands for an array inside a transformation, and for summands."""
    if isinstance(x, import_module("jax").core.Tracer):
        raise ArrayError(
            "the jax.Array is being traced, inside jit or another transformation, and has no elements yet: call this "
            "outside, on the result"
        )
    spec = getattr(x.sharding, "spec", None)
    if getattr(spec, "unreduced", None):
        raise ArrayError(
            f"the jax.Array has the sharding {spec}, and along its unreduced axes summands, which are not added: add them "
            "first, by jax.reshard to a PartitionSpec without unreduced="
        )


def _layouts(sharding: Any, shape: tuple[int, ...], comm: MPI.Intracomm) -> list[Layout]:
    """The layouts of a sharding, from the box of each device."""
    if not shape:
        raise ArrayError("the jax.Array has no dimensions: only arrays with one or more are distributed")
    boxes = {device: _starts(index, shape) for device, index in sharding.devices_indices_map(shape).items()}
    platforms = {device.platform for device in boxes} - {"cpu"}
    if platforms:
        raise ArrayError(
            f"the jax.Array is on devices of {', '.join(sorted(platforms))}, and only the host's memory is moved: put it on "
            "CPU devices with jax.device_put"
        )
    rank_of = _ranks_of_processes(comm)
    strangers = sorted({device.process_index for device in boxes} - rank_of.keys())
    if strangers:
        raise DescriptorError(
            f"the jax.Array is also on processes {strangers} of JAX, which are not in comm: give a communicator that has them"
        )
    edges = [[*sorted({starts[k] for starts in boxes.values()}), n] for k, n in enumerate(shape)]
    holders: dict[tuple[int, ...], list[int]] = {}
    for device, starts in boxes.items():
        ranks = holders.setdefault(tuple(edges[k].index(start) for k, start in enumerate(starts)), [])
        if rank_of[device.process_index] not in ranks:
            ranks.append(rank_of[device.process_index])
    return layouts_of_boxes(edges, holders, comm)


def _ranks_of_processes(comm: MPI.Intracomm) -> dict[int, int]:
    """The rank in `comm` of each process of JAX that is in it."""
    jax = import_module("jax")
    count, own = jax.process_count(), jax.process_index()
    if count == 1 and comm.Get_size() > 1:
        raise DescriptorError(
            f"JAX has one process and comm has {comm.Get_size()}: call {START} first, or give comm=MPI.COMM_SELF for the array "
            "of one process"
        )
    if count == 1:
        return {0: 0}
    world: Sequence[int] = MPI.Group.Translate_ranks(
        comm.Get_group(), range(comm.Get_size()), MPI.COMM_WORLD.Get_group()
    )
    if own != MPI.COMM_WORLD.Get_rank() or list(world) != sorted(world):
        raise DescriptorError(
            f"this is process {own} of JAX and rank {MPI.COMM_WORLD.Get_rank()} of COMM_WORLD, and comm has its ranks "
            f"{list(world)}: the processes must be in one order: give comm= with the ranks in the order of COMM_WORLD, which "
            f"{START} takes"
        )
    return {process: rank for rank, process in enumerate(world)}


def _starts(index: Sequence[slice], shape: tuple[int, ...]) -> tuple[int, ...]:
    """The first index of a box along each dimension."""
    return tuple(part.indices(n)[0] for part, n in zip(index, shape, strict=True))


def _fitted(like: Any, shape: tuple[int, ...]) -> Any:
    """The sharding of an array, for another shape: dimensions that do not divide are replicated."""
    jax, sharding = import_module("jax"), like.sharding
    if shape == like.shape or not hasattr(sharding, "mesh"):
        return sharding
    sizes, spec = sharding.mesh.shape, []
    for n, axes in zip(shape, (*sharding.spec, *[None] * len(shape)), strict=False):
        names = axes if isinstance(axes, tuple) else () if axes is None else (axes,)
        spec.append(axes if names and n % int(np.prod([sizes[name] for name in names])) == 0 else None)
    return jax.sharding.NamedSharding(sharding.mesh, jax.sharding.PartitionSpec(*spec))


def _assembled(sharding: Any, shape: tuple[int, ...], boxes: dict[tuple[int, ...], NDArray[Any]], dtype: Any) -> Any:
    """A `jax.Array` whose memory are the boxes of this process; a box that is on several devices is copied."""
    jax = import_module("jax")
    if jax.dtypes.canonicalize_dtype(dtype) != dtype:
        raise ArrayError(f'JAX would convert {dtype}: jax.config.update("jax_enable_x64", True) keeps it')
    arrays, used = [], set()
    own = functools.partial(jax.sharding.SingleDeviceSharding, memory_kind=sharding.memory_kind)
    for device, index in sharding.addressable_devices_indices_map(shape).items():
        starts = _starts(index, shape)
        arrays.append(jax.device_put(boxes[starts].copy() if starts in used else boxes[starts], own(device)))
        used.add(starts)
    return jax.make_array_from_single_device_arrays(shape, sharding, arrays, dtype=dtype)
