"""DTensors with many placements, to each other and to blocks; linalg; errors. Argument: "few"."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import process_group
import pytest
import torch
import torch.distributed as dist
from conversions import check_conversions, check_linalg, check_refused
from mpi4py import MPI
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor._dtensor_spec import DTensorSpec
from torch.distributed.tensor._shards_wrapper import LocalShardsWrapper
from torch.distributed.tensor.placement_types import _StridedShard

import pyscalapack_redist as psr

WORLD = MPI.COMM_WORLD
SIZE, RANK = WORLD.size, WORLD.rank
Placements = Sequence[Any]


def part_of(whole: torch.Tensor, mesh: Any, placements: Placements) -> torch.Tensor:
    """This process's part of a tensor, as PyTorch cuts it: a copy, and nothing outside the mesh."""
    place = mesh.get_coordinate()
    if place is None:
        return whole.new_empty(0)
    for k, placement in enumerate(placements):
        if not placement.is_replicate():
            whole = placement._split_tensor(whole, mesh.shape[k], with_padding=False)[0][place[k]]
    return whole.contiguous().clone()


def sharded(whole: torch.Tensor, mesh: Any, placements: Placements, of_view: bool = True) -> Any:
    """A DTensor of these parts. If it is as PyTorch's views are, it reads strided shards as it cuts them."""
    local = part_of(whole, mesh, placements)
    x = DTensor.from_local(local, mesh, placements, shape=whole.shape, stride=whole.stride())
    if of_view and any(type(placement) is _StridedShard for placement in placements):
        spec = DTensorSpec(mesh, x.placements, x._spec.tensor_meta, use_strided_shard_as_shard_order=False)
        x = DTensor(local, spec, requires_grad=False)
    return x


def numbers(shape: tuple[int, ...], dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.arange(int(np.prod(shape)), dtype=torch.float64).reshape(shape).to(dtype)


def check(x: Any, whole: torch.Tensor, mesh: Any, placements: Placements) -> None:
    """A DTensor with these placements, and its part the one that PyTorch would cut, bit by bit; PyTorch puts them together."""
    assert type(x) is DTensor
    assert (x.device_mesh, x.placements) == (mesh, tuple(placements))
    assert (x.shape, x.stride(), x.dtype) == (whole.shape, whole.stride(), whole.dtype)
    local, expected = x.to_local(), part_of(whole, mesh, placements)
    assert local.dtype == whole.dtype
    assert local.shape == expected.shape
    assert bytes_of(local) == bytes_of(expected)
    if whole.dtype == torch.float64 and mesh.get_coordinate() is not None:
        assert torch.equal(x.full_tensor(), whole), placements


def bytes_of(x: torch.Tensor) -> bytes:
    return x.contiguous().view(torch.uint8).numpy().tobytes() if x.numel() else b""


def strided(dim: int, factor: int) -> Any:
    return _StridedShard(dim, split_factor=factor)


def meshes(few: bool) -> list[Any]:
    """Meshes of one to three dimensions, of all ranks and of some, by rows and by columns. All ranks make all of them."""
    ranks = np.arange(SIZE)
    found = [DeviceMesh("cpu", ranks), DeviceMesh("cpu", ranks[: max(1, SIZE // 2)])]
    if not few:
        found += [DeviceMesh("cpu", ranks[SIZE // 2 :]), DeviceMesh("cpu", ranks.reshape(1, -1))]
    if SIZE % 2 == 0:
        found.append(DeviceMesh("cpu", ranks.reshape(-1, 2).T.copy()))
    if SIZE % 4 == 0:
        found.append(DeviceMesh("cpu", ranks.reshape(2, -1, 2)))
    return found


def placements_for(mesh: Any, ndim: int) -> list[Placements]:
    each = [Replicate(), Shard(0), strided(0, 2)]
    if ndim > 1:
        each += [Shard(1), strided(1, 3)]
    return [list(choice) for choice in itertools.product(each, repeat=mesh.ndim)]


def check_moves(few: bool) -> None:
    """Placements on a mesh to others on any mesh; to blocks and back. Some sizes leave ranks without elements."""
    rng = np.random.default_rng(20260)
    for shape in [(7, 9)] if few else [(7, 9), (5,), (13, 6, 2), (1, 24), (0, 4)]:
        whole = numbers(shape)
        blocks = psr.Descriptor(shape, 2, psr.ProcessGrid((1,) * (len(shape) - 1) + (SIZE,), WORLD))
        cases = [(mesh, chosen) for mesh in meshes(few) for chosen in placements_for(mesh, len(shape))]
        for k in rng.permutation(len(cases))[: 12 if few else 60]:
            x = sharded(whole, *cases[k])
            check(x, whole, *cases[k])
            target = cases[rng.integers(len(cases))]
            check(psr.redistribute(x, like=target), whole, *target)
            check(psr.redistribute(x, like=sharded(0 * whole, *target)), whole, *target)
            moved = psr.redistribute(x, blocks)
            assert np.array_equal(moved.local, whole.numpy()[np.ix_(*map(blocks.global_indices, range(len(shape))))])
            check(psr.redistribute(moved, like=x), whole, *cases[k])
            if len(shape) == 2:
                upper = psr.redistribute(x, uplo="U", like=target)
                diagonal = max(0, shape[0] - shape[1])
                check(upper, torch.triu(whole, -diagonal), *target)


def check_full() -> None:
    """PyTorch itself puts a result together, and goes on with it."""
    mesh = DeviceMesh("cpu", np.arange(SIZE))
    whole = numbers((4 * SIZE, 6))
    y = psr.redistribute(sharded(whole, mesh, [Shard(1)]), like=(mesh, [Shard(-2)]))
    assert torch.equal(y.full_tensor(), whole)
    assert torch.equal((y @ y.T).full_tensor(), whole @ whole.T)
    pending = y.redistribute(placements=[Replicate()], async_op=True)
    check(psr.redistribute(pending, like=(mesh, [Shard(1)])), whole, mesh, [Shard(1)])


def check_gradients() -> None:
    """PyTorch sees that what it has saved for a gradient has been written."""
    mesh = DeviceMesh("cpu", np.arange(SIZE))
    source = sharded(numbers((4, 4)), mesh, [Shard(1)])
    for write in (psr.copy_to, lambda x, y: psr.plan(x, y)(x, y)):
        for is_local in (False, True):
            x = sharded(numbers((4, 4)), mesh, [Shard(0)])
            saved = x.to_local() if is_local else x
            weights = torch.ones_like(saved).requires_grad_()
            result = (saved * weights).sum()
            write(source, x)
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                result.backward()


def check_strided() -> None:
    """What PyTorch reads in another order than it cuts is refused; what is made, it puts together again."""
    mesh = DeviceMesh("cpu", np.arange(SIZE).reshape(2, -1))
    refused = set()
    for first, last in itertools.product([Replicate(), Shard(0), strided(0, 2), strided(0, 3)], repeat=2):
        for n in (5, 12):
            whole = numbers((n, 2))
            y = psr.redistribute(sharded(whole, mesh, [first, last]), like=(mesh, [first, last]))
            assert torch.equal(y.full_tensor(), whole), (first, last, n)
            assert torch.equal((y + 1).redistribute(placements=[Replicate()] * 2).to_local(), whole + 1)
            x = sharded(whole, mesh, [first, last], of_view=False)
            try:
                values = psr.gather(x, None)
            except psr.ArrayError:
                refused.add((first, last))
                check_refused(lambda: psr.layout_of(x), "puts such parts together in another")  # noqa: B023
            else:
                assert np.array_equal(values, x.full_tensor().numpy())
    second = strided(0, 2), strided(0, 3)
    assert refused == {*itertools.product(second, second), (strided(0, 3), Shard(0))}
    whole = numbers((4, 4, 4))
    for first, last in itertools.product([Replicate(), Shard(0), Shard(1), Shard(2)], repeat=2):
        x = distribute_tensor(whole, mesh, [first, last])
        for shape in ((16, 4), (4, 16), (64,)):
            view = x.reshape(shape)
            for y in (view, psr.redistribute(view, like=view)):
                assert y.placements == view.placements
                assert torch.equal(y.full_tensor(), whole.reshape(shape)), (first, last, shape)
                assert np.array_equal(psr.gather(y, None), whole.reshape(shape).numpy())
    one = DeviceMesh("cpu", np.arange(SIZE).reshape(2, -1, 1))
    uneven = sharded(numbers((6,)), one, [strided(0, 2), Shard(0), strided(0, 2)])  # shards in another order
    check(psr.redistribute(uneven, like=uneven), numbers((6,)), one, uneven.placements)


def check_dtypes() -> None:
    mesh = DeviceMesh("cpu", np.arange(SIZE))
    names = "bfloat16 float16 float32 complex64 complex128 int8 uint8 int16 uint16 int32 int64 bool"
    names += " float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz"
    for name in names.split():
        whole = numbers((5, 7), getattr(torch, name))
        x = sharded(whole, mesh, [Shard(0)])
        check(psr.redistribute(x, like=(mesh, [Shard(1)])), whole, mesh, [Shard(1)])
        assert psr.as_distributed(x).dtype == name


def check_memory() -> None:
    """A view has the memory of the local tensor; `copy_to` writes into it; all replicas are written, or none."""
    mesh = DeviceMesh("cpu", np.arange(SIZE))
    whole = numbers((2 * SIZE, 3))
    for placements in ([Shard(0)], [Shard(1)], [Replicate()]):
        x = sharded(0 * whole, mesh, placements)
        view = psr.as_distributed(x)
        assert view.desc == psr.layout_of(x)
        assert not x.to_local().numel() or view.local.ctypes.data == x.to_local().data_ptr()
        check_conversions(x, lambda x: x.to_local().numpy(), indices_of, float)
        psr.copy_to(sharded(whole, mesh, [Shard(1)]), x)
        check(x, whole, mesh, placements)
    x = sharded(0 * whole, mesh, [strided(0, 2)])
    psr.copy_to(sharded(whole, mesh, [Shard(1)]), x)
    check(x, whole, mesh, [strided(0, 2)])
    if SIZE % 2 == 0:
        square = DeviceMesh("cpu", np.arange(SIZE).reshape(2, -1))
        y = sharded(0 * whole, square, [strided(0, 3), Replicate()])
        if SIZE > 2:
            check_refused(lambda: psr.copy_to(x, y), "read-only")
        check(psr.redistribute(x, like=y), whole, square, [strided(0, 3), Replicate()])
    assert np.array_equal(psr.gather(x, None), whole.numpy())
    turned = sharded(whole, mesh, [Shard(0)]).T  # the local tensors are not contiguous
    check(psr.redistribute(turned, like=(mesh, [Replicate()])), whole.T.contiguous(), mesh, [Replicate()])


def indices_of(x: Any) -> list[Any]:
    """The indices of this process's part along each dimension."""
    found = []
    for k, n in enumerate(x.shape):
        own = [Shard(0) if p.is_shard(k) else Replicate() for p in x.placements]
        found.append(part_of(torch.arange(n), x.device_mesh, own).numpy())
    return found


def check_solvers() -> None:
    mesh = DeviceMesh("cpu", np.arange(SIZE))
    for placements in ([Shard(0)], [Shard(1)], [Replicate()]):
        check_linalg(
            sharded(torch.zeros(12, 12, dtype=torch.float64), mesh, placements), lambda w: w.full_tensor().numpy()
        )
    a = sharded(torch.eye(12, dtype=torch.float64) + 1, mesh, [strided(0, 2)])
    w, v = psr.linalg.eigh(a)
    assert (w.placements, v.placements) == ((Replicate(),), tuple(a.placements))
    assert torch.allclose(w.full_tensor(), torch.tensor([1.0] * 11 + [13.0], dtype=torch.float64))
    side = sharded(torch.ones(12, dtype=torch.float64), mesh, [Shard(0)])
    solution = psr.linalg.solve(a, side)
    assert solution.placements == side.placements
    assert torch.allclose(solution.full_tensor(), side.full_tensor() / 13)
    vector = psr.redistribute(side, like=(mesh, [Shard(-1)]))
    assert vector.placements == (Shard(0),)
    columns = sharded(torch.zeros(4, 4), mesh, [Shard(1)])
    check(psr.redistribute(side, like=columns), torch.ones(12, dtype=torch.float64), mesh, [Replicate()])


def check_summands() -> None:
    """`Partial`: the summands of all processes are added, or their mean is made, with replicas and shards beside them."""
    mesh = DeviceMesh("cpu", np.arange(SIZE))
    whole = numbers((6, 8))
    for kind, factor in (("sum", SIZE * (SIZE + 1) / 2), ("avg", (SIZE + 1) / 2)):
        for dtype in (torch.float32, torch.float64, torch.complex64):
            x = DTensor.from_local((whole * (RANK + 1)).to(dtype), mesh, [Partial(kind)])
            expected = (whole * factor).to(dtype)
            array = psr.as_distributed(x)
            assert torch.allclose(torch.from_numpy(array.local.copy()), expected)
            assert not np.shares_memory(array.local, x.to_local().numpy())
            shards = psr.redistribute(x, like=(mesh, [Shard(0)]))
            assert shards.placements == (Shard(0),)
            assert torch.allclose(shards.full_tensor(), expected)
            gathered = psr.gather(x)
            assert (gathered is None) == (RANK > 0)
            assert gathered is None or np.allclose(gathered, expected.numpy())
    counts = DTensor.from_local(torch.full((5,), RANK, dtype=torch.int64), mesh, [Partial()])
    assert psr.as_distributed(counts).local.tolist() == [SIZE * (SIZE - 1) // 2] * 5
    if SIZE % 2 or SIZE < 4:
        return
    grid = DeviceMesh("cpu", np.arange(SIZE).reshape(2, SIZE // 2))
    row, column = divmod(RANK, SIZE // 2)
    for placements, own, expected in (
        ([Partial(), Replicate()], whole * (row + 1), whole * 3),
        ([Replicate(), Partial()], whole * (column + 1), whole * sum(range(1, SIZE // 2 + 1))),
        ([Partial(), Partial("avg")], whole * (RANK + 1), whole * (SIZE + 1)),
        ([Shard(0), Partial()], whole[3 * row :][:3] * (column + 1), whole * sum(range(1, SIZE // 2 + 1))),
    ):
        x = DTensor.from_local(own.contiguous(), grid, placements, shape=whole.shape, stride=whole.stride())
        assert torch.allclose(psr.redistribute(x, like=(mesh, [Shard(1)])).full_tensor(), expected), placements
        y = psr.redistribute(x, like=x)
        assert y.placements == tuple(Replicate() if isinstance(each, Partial) else each for each in placements)
        assert torch.allclose(y.full_tensor(), expected), placements


def check_results_of_summands() -> None:
    """A product of PyTorch's that has summands is taken, and a result like it is replicated."""
    mesh = DeviceMesh("cpu", np.arange(SIZE))
    whole = torch.eye(8, dtype=torch.float64) + numbers((8, 8)).to(torch.float64) / 1000
    x = sharded(whole, mesh, [Shard(0)])
    gram = x.T @ x
    assert isinstance(gram.placements[0], Partial) or SIZE == 1
    w, v = psr.linalg.eigh(gram)
    assert v.placements == (Replicate(),)
    own = whole.T @ whole
    assert torch.allclose(own @ v.to_local(), v.to_local() * w.to_local())
    assert torch.allclose(psr.linalg.inv(gram).to_local() @ own, torch.eye(8, dtype=torch.float64))


class Weighted(Partial):
    """Summands that are not added as they are."""


class Halo(Shard):
    """Parts that are not cut as those of `Shard`."""


def check_reductions() -> None:
    """What PyTorch's reductions leave to be combined is refused by name, or combined as PyTorch does it."""
    mesh = DeviceMesh("cpu", np.arange(SIZE))
    x = distribute_tensor(numbers((2 * SIZE, 3)) + 1, mesh, [Shard(0)])
    rows = distribute_tensor(torch.tensor([0, 3, 1, 2, 1]), mesh, [Replicate()])
    for result, name in (
        (x.sum(0), ""),
        (x.mean(0), ""),
        (torch.linalg.vector_norm(x, dim=0), "_NormPartial"),
        (torch.linalg.vector_norm(x, 1, dim=0), "_NormPartial"),
        (torch.nn.functional.embedding(rows, x), "_MaskPartial"),
        (x.amax(0), "Partial(max)"),
        (x.prod(0), "Partial(product)"),
    ):
        assert name in repr(result.placements)
        if name:
            check_refused(lambda: psr.as_distributed(result), f"the placement {name}")  # noqa: B023
            check_refused(lambda: psr.redistribute(x, like=result), "x.redistribute(placements=[Replicate()])")  # noqa: B023
            result = result.redistribute(placements=[Replicate()])
        assert torch.allclose(torch.from_numpy(psr.gather(result, None)), result.full_tensor())


def check_meshes_that_do_not_ascend() -> None:
    """PyTorch's own functions disagree on their parts; replicas are alike."""
    turned = DeviceMesh("cpu", np.arange(SIZE)[::-1].copy())
    whole, line = numbers((6, 8)), DeviceMesh("cpu", np.arange(SIZE))
    x = sharded(whole, line, [Shard(0)])
    check(psr.redistribute(x, like=(turned, [Replicate()])), whole, turned, [Replicate()])
    check_refused(lambda: psr.redistribute(x, like=(turned, [Shard(1)])), "do not ascend along dimension 0")
    y = sharded(whole, turned, [Shard(0)])
    check_refused(lambda: psr.redistribute(y, like=x), "do not ascend along dimension 0")
    if SIZE == 4:
        crossed = DeviceMesh("cpu", np.array([[0, 2], [1, 3]]))
        check(psr.redistribute(x, like=(crossed, [Shard(1), Shard(0)])), whole, crossed, [Shard(1), Shard(0)])


def check_errors() -> None:
    """Every rank raises, and says what to do."""
    mesh = DeviceMesh("cpu", np.arange(SIZE))
    whole = numbers((6, 8))
    x = sharded(whole, mesh, [Shard(0)])
    partial = DTensor.from_local(whole, mesh, [Partial()])
    check_refused(lambda: psr.redistribute(x, like=(mesh, [Partial("avg")])), "is no placement for a new DTensor")
    for dim in (2, -3):
        check_refused(lambda: psr.redistribute(x, like=(mesh, [Shard(dim)])), "of no dimension of the array")  # noqa: B023
    check_refused(lambda: psr.layout_of(partial), "each process has a summand")
    check_refused(lambda: psr.as_distributed(DTensor.from_local(whole, mesh, [Partial("max")])), "only sums and means")
    weighted = DTensor.from_local(whole, mesh, [Weighted()])
    check_refused(lambda: psr.as_distributed(weighted), "only sums and means of type Partial itself")
    halo = DTensor.from_local(x.to_local(), mesh, [Halo(0)], run_check=False, shape=x.shape, stride=x.stride())
    check_refused(lambda: psr.as_distributed(halo), "is no placement that is taken")
    check_refused(lambda: psr.redistribute(x, like=halo), "is no placement that is taken")
    check_refused(lambda: psr.copy_to(x, partial), "of summands")
    check_refused(lambda: psr.plan(partial, psr.layout_of(x)), "a summand")
    check_refused(lambda: psr.plan(psr.layout_of(x), psr.layout_of(x))(partial), "of summands")
    mean = DTensor.from_local(whole.to(torch.int64), mesh, [Partial("avg")])
    if SIZE > 1:
        check_refused(lambda: psr.as_distributed(mean), "a mean of integers")
    check_refused(lambda: psr.linalg.eigh(x.detach().clone().requires_grad_()), "detach()")
    weights = torch.nn.Parameter(x.clone())
    check_refused(lambda: psr.as_distributed(weights if RANK == SIZE - 1 else weights.detach()), "detach()")
    check(psr.redistribute(weights.detach(), like=weights), whole, mesh, [Shard(0)])
    check_refused(lambda: psr.layout_of((mesh, [Shard(0)])), "it is for like=")
    check_refused(lambda: psr.redistribute(x, like=(mesh, [Shard(0), Shard(1)])), "one for each dimension of the mesh")
    check_refused(lambda: psr.redistribute(x, like=(mesh, Shard(0))), "one for each dimension of the mesh")
    check_refused(lambda: psr.redistribute(x, like=(mesh, ["rows"])), "is no placement that is taken")
    check_refused(lambda: psr.redistribute(x, like=[Shard(1)]), "the pair (mesh, placements)")
    check_refused(lambda: psr.redistribute(x, like=mesh), "the pair (mesh, placements)")
    check_refused(lambda: psr.redistribute(whole, like=x), "a pair (layout, tensor), or from_local(tensor, comm)")
    rows = psr.from_local(x.to_local(), WORLD)
    assert np.array_equal(rows.gather(None), whole.numpy())
    check_refused(lambda: psr.as_distributed(sharded(torch.tensor(1.0), mesh, [Replicate()])), "no dimensions")
    nowhere = DTensor.from_local(torch.empty(6, 8, device="meta"), mesh, [Replicate()])
    check_refused(lambda: psr.as_distributed(nowhere), "the device meta")
    rows = psr.Descriptor((6, 8), None, psr.ProcessGrid((SIZE, 1), WORLD))
    nothing = torch._efficientzerotensor(rows.local_shape)
    for wrapper in (nothing, LocalShardsWrapper([torch.ones(rows.local_shape)], [(0, 0)])):
        if all(WORLD.allgather(wrapper.numel())):
            check_refused(lambda: psr.as_distributed((rows, wrapper)), "no memory of its own")  # noqa: B023
    conjugate = sharded(whole.to(torch.complex64), mesh, [Shard(0)]).conj()
    check_refused(lambda: psr.as_distributed(conjugate), "resolve_conj()")
    sums = psr.DistributedArray.from_function(psr.layout_of(x), lambda i, j: i + j, np.longdouble)
    check_refused(lambda: psr.redistribute(sums, like=x), "PyTorch has no elements")
    short = DTensor.from_local(whole[:1, :2].clone(), mesh, [Shard(0)], shape=(6, 8), stride=(8, 1))
    check_refused(lambda: psr.as_distributed(short), "DTensor.from_local shape=")
    plan = psr.plan(x, psr.layout_of(x))
    for argument in (x, x.to_local()):
        result = plan(argument)  # None on a rank without elements
        assert np.array_equal([] if result is None else result.ravel(), x.to_local().numpy().ravel())
    if SIZE > 1:
        check_refused(lambda: psr.as_distributed(x, MPI.COMM_SELF), "which are not in comm")
        turned = WORLD.Split(0, -RANK)
        y = psr.redistribute(psr.as_distributed(x, turned), like=(mesh, [Shard(1)]))
        check(y, whole, mesh, [Shard(1)])
    check(x, whole, mesh, [Shard(0)])


def check_other_ranks() -> None:
    """Ranks of torch.distributed that are not those of MPI are refused, and none at all too."""
    x = sharded(numbers((6, 8)), DeviceMesh("cpu", np.arange(SIZE)), [Shard(0)])
    dist.destroy_process_group()
    check_refused(lambda: psr.as_distributed(x), "has no process group")
    if SIZE > 1:
        process_group.start(SIZE - 1 - RANK)
        x = sharded(numbers((6, 8)), DeviceMesh("cpu", np.arange(SIZE)), [Shard(0)])
        check_refused(lambda: psr.as_distributed(x), "of COMM_WORLD: they must be equal")
        dist.destroy_process_group()


def main() -> None:
    process_group.start()
    few = "few" in sys.argv
    check_moves(few)
    check_full()
    check_dtypes()
    check_memory()
    check_gradients()
    check_solvers()
    check_summands()
    check_results_of_summands()
    if SIZE > 1:  # alone, a process has no parts to combine
        check_reductions()
    if SIZE % 4 == 0:
        check_strided()
    if SIZE > 1:
        check_meshes_that_do_not_ascend()
    check_errors()
    check_other_ranks()


if __name__ == "__main__":
    main()
    if RANK == 0:
        print("OK", flush=True)
