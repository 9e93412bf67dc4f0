"""Random arrays in files: what NumPy wrote is loaded, what was saved NumPy loads. Arguments: folder, cases, seed.

Cases take turns at both kinds of file, both orders, arrays of one to five dimensions, sub-arrays, and pieces of all sizes.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
from layouts import block_sizes
from mpi4py import MPI
from numpy.typing import NDArray
from oracle import Layout, random_axes, random_layout, random_shape

import pyscalapack_redist as psr
from pyscalapack_redist.files import slabs, view
from pyscalapack_redist.layout.dimensions import local_part

RECORD = np.dtype([("key", ">i4"), ("value", "<f8", (2,)), ("tag", "S3")])
ALIGNED = np.dtype([("key", "i1"), ("value", "f8")], align=True)
PADDED = (ALIGNED, np.dtype("g"))  # what lies between numbers is anybody's
DTYPES = [
    *(
        np.dtype(t)
        for t in ("?", "b", "H", "i", ">i2", "q", "e", "f", "d", ">d", "g", "F", "D", ">D", "S5", "U3", ">U2")
    ),
    np.dtype("M8[s]"),
    np.dtype("V7"),
    RECORD,
    ALIGNED,
]


def numbered(shape: tuple[int, ...], dtype: np.dtype[Any], rng: np.random.Generator) -> NDArray[Any]:
    """An array of the dtype whose elements differ."""
    if dtype.names:
        made = np.zeros(shape, dtype)
        for name in dtype.names:
            made[name] = numbered(made[name].shape, made[name].dtype, rng)
        return made
    if dtype.kind == "V":
        return np.frombuffer(rng.bytes(int(np.prod(shape)) * dtype.itemsize), dtype).reshape(shape).copy()
    if dtype.kind in "fc":
        return rng.integers(-1000, 1000, shape).astype(dtype)
    return rng.integers(0, 2 if dtype.kind == "b" else 100, shape).astype(dtype)


def placed(rng: np.random.Generator, local: NDArray[Any]) -> NDArray[Any]:
    """The same in Fortran or C order, with gaps, or reversed."""
    kind = rng.integers(4)
    if kind == 0:
        made = np.empty(local.shape, local.dtype)
    elif kind == 1:
        made = np.empty([2 * n + 1 for n in local.shape], local.dtype)[
            tuple(slice(1, 2 * n + 1, 2) for n in local.shape)
        ]
    elif kind == 2:
        made = np.empty(local.shape, local.dtype)[tuple(slice(None, None, -1) for _ in local.shape)]
    else:
        made = np.empty(local.shape, local.dtype, order="F")
    made[...] = local
    return made


def descriptor(layout: Layout, comm: MPI.Intracomm, rng: np.random.Generator) -> psr.Descriptor:
    ranks, axes = random_axes(rng, layout)
    grid = psr.ProcessGrid(ranks.shape, comm, ranks=ranks)
    whole = psr.Descriptor(layout.shape, block_sizes(layout), grid, source=layout.source, axes=axes)
    return whole if layout.size == layout.shape else whole[layout.window()]


def check_case(comm: MPI.Intracomm, folder: Path, rng: np.random.Generator) -> None:
    rank = comm.Get_rank()
    size = random_shape(rng, int(rng.integers(1, 6)), 800)
    layout = random_layout(rng, size, comm.Get_size(), copies=True)
    desc = descriptor(layout, comm, rng)
    dtype = DTYPES[rng.integers(len(DTYPES))]
    order = "CF"[rng.integers(2)]
    through = ("slabs", "slabs", "view")[rng.integers(3)]
    view.REGION_BYTES = slabs.SLAB_BYTES = int(rng.choice([100, 500, 3000, 10**7]))
    view.RUN_BYTES = int(rng.choice([1, 64]))
    whole = numbered(layout.shape, dtype, rng)
    part = whole[layout.window()]
    background = numbered(layout.shape, dtype, rng)
    what = f"{layout}, {dtype}, {order}, {through}, {view.REGION_BYTES}"

    # what NumPy wrote
    path = folder / ("in.npy" if rng.integers(2) else "in.bin")
    keywords: dict[str, Any] = {"through": through}
    if path.suffix == ".npy":
        if rank == 0:
            np.save(path, np.asarray(part, order=order))  # type: ignore[call-overload]
    else:
        skipped = int(rng.integers(0, 9))
        keywords |= {"dtype": dtype, "order": order, **({"offset": skipped} if skipped else {})}
        if rank == 0:
            path.write_bytes(bytes(skipped) + part.tobytes(order) + bytes(skipped))  # type: ignore[arg-type]
    comm.Barrier()
    out, wanted = layout.local(background, rank), None
    give_out = layout.size != layout.shape or bool(rng.integers(2))
    if out is not None:
        out = placed(np.random.default_rng(rank), out)
    loaded = psr.load(desc, path, out if give_out else None, **keywords)
    background[layout.window()] = part
    wanted = layout.local(background, rank)
    assert (loaded is None) == (wanted is None), what
    if loaded is not None and wanted is not None:
        assert loaded.dtype == (dtype if give_out or path.suffix == ".bin" else dtype.newbyteorder("=")), what
        assert loaded is out or not give_out, what
        assert np.array_equal(loaded, wanted), what

    # what NumPy is to read
    saved = folder / ("out.npy" if rng.integers(2) else "out.bin")
    local = layout.local(whole, rank)
    psr.save(
        desc, None if local is None else placed(np.random.default_rng(rank), local), saved, order=order, through=through
    )
    comm.Barrier()
    if rank == 0:
        if saved.suffix == ".npy":
            found = np.load(saved)
            assert found.dtype == dtype, what
            assert np.array_equal(found, part), what
            np.save(path.with_suffix(".npy"), np.asarray(part, order=order))  # type: ignore[call-overload]
            # NumPy says "C" of what is both
            if not (order == "F" and np.asarray(part, order="F").flags.c_contiguous) and dtype not in PADDED:
                assert saved.read_bytes() == path.with_suffix(".npy").read_bytes(), what
        elif dtype in PADDED:
            assert np.array_equal(np.fromfile(saved, dtype), part.ravel(order)), what  # type: ignore[arg-type]
        else:
            assert saved.read_bytes() == part.tobytes(order), what  # type: ignore[arg-type]
    comm.Barrier()


def same_view(rng: np.random.Generator) -> bool:
    """What is a darray is the same as runs of indices; both pick the oracle's elements of the whole."""
    size = random_shape(rng, int(rng.integers(1, 4)), 800)
    if 0 in size:
        return False
    layout = random_layout(rng, size, 6)
    order = "CF"[rng.integers(2)]
    desc = psr.Descriptor(layout.shape, block_sizes(layout), psr.ProcessGrid(layout.ranks.shape), source=layout.source)
    axes = desc[layout.window()].distributions
    coords = tuple(int(rng.integers(0, p)) for p in layout.ranks.shape)
    whole = np.arange(np.prod(layout.shape), dtype="i4").reshape(layout.shape)
    part = whole[layout.window()]
    held = layout.local(whole, int(layout.ranks[coords]))
    assert held is not None
    mine = held[local_part(axes, coords)]
    if not mine.size:
        return False
    makers = [view._runs, view._darray] if view.is_darray(axes) else [view._runs]
    for make in makers:
        made = make(axes, coords, MPI.INT32_T, order).Commit()
        assert made.Get_extent() == (0, part.nbytes)
        picked = np.empty(mine.size, "i4")
        source = np.ascontiguousarray(part.ravel(order))
        made.Pack(source, picked, 0, MPI.COMM_SELF)
        assert np.array_equal(picked, mine.ravel(order)), (make, layout, coords, order)
        made.Free()
    return len(makers) == 2


def far_in_a_file(comm: MPI.Intracomm, folder: Path) -> None:
    """Places beyond 2^31 and 2^32 bytes; the file has holes and takes no room."""
    path, offset = folder / "far.bin", 5 * 2**30 + 3
    whole = np.arange(700.0).reshape(20, 35)
    if comm.Get_rank() == 0:
        with open(path, "wb") as file:
            file.seek(offset)
            file.write(whole.tobytes())
    comm.Barrier()
    desc = psr.Descriptor(whole.shape, (3, 4), psr.ProcessGrid((1, comm.Get_size()), comm))
    for through in ("slabs", "view"):
        local = psr.load(desc, path, dtype="d", offset=offset, through=through)
        assert np.array_equal(local, desc.from_function(lambda i, j: whole[i, j]))
    comm.Barrier()


def what_lies_between_fields(comm: MPI.Intracomm, folder: Path) -> None:
    """Bytes that belong to no field go into the file as well: what was written is compared byte by byte."""
    desc = psr.Descriptor((20, 35), (3, 4), psr.ProcessGrid((1, comm.Get_size()), comm))
    local = desc.empty(ALIGNED)
    local.ravel("K").view(np.uint8)[...] = np.random.default_rng(comm.Get_rank()).integers(0, 256, local.nbytes)
    psr.save(desc, local, folder / "gaps.bin", through="view")
    comm.Barrier()
    out = desc.empty("V16")
    psr.load(desc, folder / "gaps.bin", out)
    assert np.array_equal(out.ravel("K").view(np.uint8), local.ravel("K").view(np.uint8))


def main() -> None:
    folder, cases, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    world = MPI.COMM_WORLD
    darrays = sum(
        same_view(np.random.default_rng([seed, case])) for case in range(2 * cases)
    )  # irregular blocks are none
    assert darrays > cases // 4
    reordered = world.Split(0, -world.Get_rank())
    for case in range(cases):
        rng = np.random.default_rng([seed, case])
        check_case((world, reordered)[rng.integers(2)], folder, rng)
    left = [name for name in os.listdir(folder) if name.endswith(".part")]
    assert not left, left
    view.REGION_BYTES = slabs.SLAB_BYTES = 10**7
    far_in_a_file(reordered, folder)
    what_lies_between_fields(world, folder)
    reordered.Free()
    if world.Get_rank() == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
