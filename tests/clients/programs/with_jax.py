"""Arrays of JAX in many shardings, to each other and to blocks; linalg; errors. Arguments: devices of a process, "few"."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable
from typing import Any

os.environ.update(JAX_PLATFORMS="cpu", JAX_NUM_CPU_DEVICES=sys.argv[1])

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P
from mpi4py import MPI
from numpy.typing import NDArray

import pyscalapack_redist as psr

WORLD = MPI.COMM_WORLD
SIZE, DEVICES, FEW = WORLD.size, WORLD.size * int(sys.argv[1]), "few" in sys.argv
if SIZE > 1:
    jax.distributed.initialize(cluster_detection_method="mpi4py")
jax.config.update("jax_enable_x64", True)


def numbers(shape: tuple[int, ...], dtype: Any = float) -> NDArray[Any]:
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


def sharded(whole: NDArray[Any], sharding: Any) -> Any:
    return jax.make_array_from_callback(whole.shape, sharding, lambda index: whole[index])


def check(x: Any, whole: NDArray[Any], sharding: Any) -> None:
    """A result is on all its devices, as the oracle NumPy cuts it."""
    assert isinstance(x, jax.Array)
    assert x.sharding == sharding
    assert x.dtype == whole.dtype
    for shard in x.addressable_shards:
        assert np.array_equal(np.asarray(shard.data), whole[shard.index])


def meshes() -> list[Mesh]:
    """Meshes of one to three dimensions, with devices in several orders."""
    devices = np.array(jax.devices())
    orders = [np.random.default_rng(3).permutation(devices)] if FEW else [devices, devices[::-1]]
    shapes = {(DEVICES, 1), (1, DEVICES), (2, DEVICES // 2) if DEVICES % 2 == 0 else (DEVICES,)}
    shapes |= {(2, DEVICES // 4, 2)} if DEVICES % 4 == 0 else set()
    return [
        Mesh(each.reshape(shape), tuple("xyz")[: len(shape)])
        for each, shape in itertools.product(orders, sorted(shapes))
    ]


def check_moves() -> None:
    """Every sharding to the next ones, in one to three dimensions; to blocks and back."""
    specs = [
        P(),
        P("x"),
        P("x", "y"),
        P("y", "x"),
        P(None, "y"),
        P(("x", "y")),
        P(None, ("y", "x")),
        P(("x", "z"), "y"),
    ]
    for mesh, shape in itertools.product(meshes(), [(24, 48)] if FEW else [(24, 48), (48,), (24, 24, 2)]):
        whole = numbers(shape)
        names = set(mesh.axis_names)
        fitting = [
            NamedSharding(mesh, spec)
            for spec in specs
            if len(spec) <= len(shape) and names.issuperset(np.hstack([axis for axis in spec if axis] or [[]]).tolist())
        ]
        blocks = psr.Descriptor(shape, 5, psr.ProcessGrid((1,) * (len(shape) - 1) + (SIZE,), WORLD))
        for k, sharding in enumerate(fitting):
            x = sharded(whole, sharding)
            for target in (fitting[(k + 1) % len(fitting)], fitting[(k + 3) % len(fitting)]):
                check(psr.redistribute(x, like=sharded(0 * whole, target)), whole, target)
            moved = psr.redistribute(x, blocks)
            assert np.array_equal(moved.local, whole[np.ix_(*map(blocks.global_indices, range(len(shape))))])
            check(psr.redistribute(moved, like=x), whole, sharding)
    for dtype in ("f4", "D", "i2", bool, jax.numpy.bfloat16):
        x = sharded(numbers((DEVICES, 3), dtype), NamedSharding(jax.make_mesh((DEVICES,), ("x",)), P("x")))
        check(psr.redistribute(psr.redistribute(x, psr.Descriptor(x.shape, 2, psr.ProcessGrid((1, SIZE), WORLD))), like=x),
              numbers((DEVICES, 3), dtype), x.sharding)  # fmt: skip


def check_memory() -> None:
    """A view has the memory of the array; so has a plan; a device of one process has all."""
    whole, sharding = numbers((DEVICES, 4)), NamedSharding(jax.make_mesh((DEVICES,), ("x",)), P("x"))
    x = sharded(whole, sharding)
    view = psr.as_distributed(x)
    arrays = view.local if isinstance(view.local, list) else [view.local]
    own = [shard.data.unsafe_buffer_pointer() for shard in x.addressable_shards]
    assert [array.ctypes.data for array in arrays] == own
    assert view.desc == psr.layout_of(x)
    turned = psr.Descriptor((4, DEVICES), 2, psr.ProcessGrid((SIZE, 1), WORLD))
    assert np.array_equal(psr.plan(x, turned, op="T")(x), whole.T[turned.global_indices(0)])
    single = SingleDeviceSharding(jax.devices()[-1])
    there = jax.make_array_from_single_device_arrays(
        whole.shape,
        single,
        [jax.device_put(0 * whole, device) for device in single.addressable_devices],
        dtype=whole.dtype,
    )
    check(psr.redistribute(x, like=there), whole, single)
    assert np.array_equal(psr.gather(psr.redistribute(x, like=there), None), whole)
    assert np.array_equal(psr.gather(x, None), whole)
    first = NamedSharding(Mesh(np.array(jax.local_devices(process_index=0)), ["x"]), P("x"))  # other ranks have no part
    arrays = [jax.device_put(np.zeros((2, 4), "f4"), device) for device in first.addressable_devices]
    narrow = jax.make_array_from_single_device_arrays((2 * first.num_devices, 4), first, arrays, dtype=np.dtype("f4"))
    rows = psr.Descriptor(narrow.shape, 2, psr.ProcessGrid((SIZE, 1), WORLD))
    check(
        psr.redistribute((rows, rows.from_function(lambda i, j: 4.0 * i + j)), like=narrow),
        numbers(narrow.shape),
        first,
    )

    pinned = NamedSharding(sharding.mesh, P("x"), memory_kind="pinned_host")
    check(psr.redistribute(x, like=sharded(0 * whole, pinned)), whole, pinned)


def check_linalg() -> None:
    """Results are JAX's, in the sharding of the operand that they are like."""
    rng = np.random.default_rng(5)
    n = 12 * DEVICES
    a, b = rng.standard_normal((n, n)), rng.standard_normal((n, 3))
    definite = a @ a.T + n * np.eye(n)
    mesh = jax.make_mesh((DEVICES,), ("x",))
    for spec in (P("x"), P(None, "x"), P())[: 1 if FEW else 3]:
        on = NamedSharding(mesh, spec)
        x, y, rows = sharded(a, on), sharded(definite, on), sharded(b, NamedSharding(mesh, P("x")))
        w, v = psr.linalg.eigh(y)
        assert v.sharding == on
        assert w.is_fully_replicated
        vectors = psr.gather(v, None)
        assert np.allclose(definite @ vectors, vectors * np.asarray(w), atol=1e-9)
        for sides in (rows, sharded(b[:, 0], NamedSharding(mesh, P("x")))):
            solution = psr.linalg.solve(x, sides)
            assert solution.sharding == sides.sharding
            assert np.allclose(a @ psr.gather(solution, None), b[:, 0] if sides.ndim == 1 else b, atol=1e-8)
        q, r = psr.linalg.qr(rows)
        assert q.sharding == rows.sharding
        assert r.is_fully_replicated or 3 % DEVICES == 0  # a size that does not divide
        assert np.allclose(psr.gather(q, None) @ psr.gather(r, None), b, atol=1e-12)
        u, s, vh = psr.linalg.svd(x)
        assert u.sharding == on
        assert np.allclose(psr.gather(u, None) * np.asarray(s) @ psr.gather(vh, None), a, atol=1e-9)
        c = psr.linalg.cholesky(y, lower=True)
        assert np.allclose(psr.gather(c, None) @ psr.gather(c, None).T, definite, atol=1e-9)
        assert np.allclose(definite @ psr.gather(psr.linalg.cho_solve((c, True), rows), None), b, atol=1e-9)
        solution = psr.linalg.lu_solve(psr.linalg.lu_factor(x), rows)
        assert solution.sharding == rows.sharding
        assert np.allclose(a @ psr.gather(solution, None), b, atol=1e-8)
        blocks = psr.Descriptor((n, n), 16, psr.ProcessGrid((1, SIZE), WORLD))
        inverse = psr.linalg.inv(y, like=blocks)
        assert isinstance(inverse, psr.DistributedArray)
        assert inverse.desc == blocks
        assert isinstance(psr.linalg.matmul(inverse, y), psr.DistributedArray)  # the kind of the first operand
        assert isinstance(psr.linalg.matmul(y, inverse), jax.Array)
        assert isinstance(psr.linalg.inv(inverse, like=x), jax.Array)


def check_errors() -> None:
    """Every rank raises, and says what to do."""
    whole, sharding = numbers((DEVICES, 4)), NamedSharding(jax.make_mesh((DEVICES,), ("x",)), P("x"))
    x = sharded(whole, sharding)
    desc = psr.Descriptor(whole.shape, 2, psr.ProcessGrid((SIZE, 1), WORLD))
    blocks = desc, desc.from_function(lambda i, j: 4.0 * i + j)
    raises(lambda: jax.jit(lambda y: psr.linalg.svd(y))(x), "is being traced", "outside")
    raises(lambda: jax.jit(lambda y: psr.redistribute(x, like=y))(x), "is being traced", "outside")
    raises(lambda: psr.copy_to(blocks, x), "read-only", "redistribute(x, like=y)")
    number = sharded(np.array(1.0), NamedSharding(sharding.mesh, P()))
    raises(lambda: psr.as_distributed(number), "no dimensions")
    raises(lambda: psr.as_distributed(jax.random.key(0)), "key_data")
    explicit = jax.make_mesh((DEVICES,), ("x",), axis_types=(jax.sharding.AxisType.Explicit,))
    of_summands = NamedSharding(explicit, P(None, unreduced={"x"}))
    parts = [jax.device_put(np.ones((2, 2)), device) for device in jax.local_devices()]
    summands = jax.make_array_from_single_device_arrays((2, 2), of_summands, parts)
    raises(lambda: psr.as_distributed(summands), "summands, which are not added", "jax.reshard")
    raises(lambda: psr.redistribute(blocks, like=summands), "jax.reshard")
    halves = sharded(numbers((DEVICES, 3), jax.numpy.bfloat16), sharding)
    raises(lambda: psr.save(halves, "nothing.npy"), "has dtype bfloat16", "local.view(numpy.int16)")
    if SIZE > 1:
        raises(lambda: psr.as_distributed(jax.numpy.ones((3, 3))), "the layout of x must be the same on every rank")
        raises(lambda: psr.as_distributed(x, MPI.COMM_SELF), "which are not in comm")
        raises(lambda: psr.as_distributed(x, WORLD.Split(0, -WORLD.rank)), "must be in one order")
        raises(lambda: psr.redistribute(x if WORLD.rank else whole, like=x), "the layout of a local array is not known")
        deleted = sharded(whole, sharding)
        if WORLD.rank == 1:
            deleted.delete()
        raises(lambda: psr.linalg.svd(deleted), "has been deleted")
        other = sharded(whole.T.copy(), NamedSharding(sharding.mesh, P(None, "x")))
        plan = psr.plan(x, desc)
        raises(lambda: plan(x if WORLD.rank else other), "has the layout", "the plan is for")
        assert np.array_equal(plan(x), blocks[1])
    square = sharded(np.eye(DEVICES), sharding)
    with jax.enable_x64(WORLD.rank > 0):
        raises(lambda: psr.linalg.eigh(square), "jax_enable_x64")
    with jax.enable_x64(False):
        raises(lambda: psr.redistribute(blocks, like=x), "jax_enable_x64")
    check(psr.redistribute(blocks, like=x), whole, sharding)
    check(x, whole, sharding)


def raises(call: Callable[[], object], *texts: str) -> None:
    message, result = "", ""
    try:
        result = repr(call())
    except psr.RedistributionError as error:
        message = str(error)
    assert not any(WORLD.allgather(result)), result
    assert all(text in message for text in texts), message


if __name__ == "__main__":
    for step in (check_moves, check_memory, check_linalg, check_errors):
        step()
    if WORLD.rank == 0:
        print("OK", flush=True)
