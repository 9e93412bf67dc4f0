"""How fast HDF5 files are written and read beside .npy files, and beside h5py on one process. Under mpiexec.

    mpiexec -n 2 python -m mpi4py benchmarks/hdf5_files.py [FOLDER] [--gib 2] [--rounds 3] [--ways npy contiguous gzip]

A matrix of float64 in blocks of 64 x 64: the first rank prints the least and the median seconds of some rounds, in which the
ways take turns, and the most memory that a rank took beside its part. The numbers compress to about a half.
"""

from __future__ import annotations

import argparse
import functools
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

import pyscalapack_redist as psr

WORLD = MPI.COMM_WORLD
CHUNKS = (512, 256)  # 1 MiB
COLUMNS = 16384


def make_packed(path: Path, rows: int) -> None:
    """A file whose data set has the filters that save() keeps."""
    with h5py.File(path, "w") as file:
        file.create_dataset(
            "data", (rows, COLUMNS), "f8", chunks=CHUNKS, compression="gzip", compression_opts=1, shuffle=True
        )


def reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def memory(field: str) -> int:
    """Bytes of this process: VmRSS now, VmHWM at most."""
    text = Path("/proc/self/status").read_text()
    return int(text.split(f"{field}:")[1].split()[0]) * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path())
    parser.add_argument("--gib", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--ways", nargs="+", choices=["npy", "contiguous", "gzip"], default=["npy", "contiguous", "gzip"]
    )
    arguments = parser.parse_args()
    rows = int(arguments.gib * 2**30 / 8 / COLUMNS)
    npy, plain, packed, alone = (arguments.folder / name for name in ("b.npy", "b.h5", "packed.h5", "alone.h5"))
    ranks = WORLD.Get_size()
    grid = psr.ProcessGrid((1, ranks), WORLD)
    desc = psr.Descriptor((rows, COLUMNS), 64, grid)
    local = desc.zeros()
    local[...] = np.random.default_rng(WORLD.rank).integers(0, 2**24, local.shape)
    local *= 2.0**-24
    extra: dict[str, int] = {}
    seconds: dict[str, list[float]] = {}

    def timed(name: str, call: Callable[[], Any], collective: bool = True) -> None:
        if WORLD.rank == 0:
            os.sync()
        WORLD.Barrier()
        reset_peak()
        before, start = memory("VmRSS"), time.perf_counter()
        if collective or WORLD.rank == 0:
            call()
        seconds.setdefault(name, []).append(WORLD.allreduce(time.perf_counter() - start, MPI.MAX))
        extra[name] = max(extra.get(name, 0), WORLD.allreduce(memory("VmHWM") - before, MPI.MAX))

    def write_alone() -> None:
        make_packed(alone, rows)
        with h5py.File(alone, "r+") as file:
            for low in range(0, rows, CHUNKS[0]):
                file["data"][low : low + CHUNKS[0]] = block[: rows - low]
        with open(alone, "rb") as file:
            os.fsync(file.fileno())

    def read_alone() -> None:
        with h5py.File(alone) as file:
            for low in range(0, rows, CHUNKS[0]):
                block[: rows - low] = file["data"][low : low + CHUNKS[0]]

    if WORLD.rank == 0:
        make_packed(packed, rows)
        block = np.random.default_rng(0).integers(0, 2**24, (CHUNKS[0], COLUMNS)) * 2.0**-24
    files = {"npy": npy, "contiguous": plain, "gzip": packed}
    for _ in range(arguments.rounds):
        for call, of_rank, by_h5py in (("save", psr.save, write_alone), ("load", load, read_alone)):
            for way in arguments.ways:
                timed(f"{call} {way}", functools.partial(of_rank, desc, local, files[way]))
            if "gzip" in arguments.ways:
                timed(f"{call} gzip, h5py alone", by_h5py, collective=False)
    if WORLD.rank:
        return
    for path in (*files.values(), alone):
        path.unlink(missing_ok=True)
    print(
        f"{rows} x {COLUMNS} float64 on {ranks} ranks, {os.cpu_count()} cores, {platform.platform()}, h5py {h5py.__version__}"
    )
    print(f"{'':24}{'least s':>9}{'median s':>10}{'MiB beside':>12}")
    for name, times in seconds.items():
        print(f"{name:24}{min(times):9.2f}{np.median(times):10.2f}{extra[name] / 2**20:12.0f}")


def load(desc: psr.Descriptor, local: NDArray[Any], path: Path) -> None:
    psr.load(desc, path, local)


if __name__ == "__main__":
    main()
