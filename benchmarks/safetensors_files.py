"""Is a tensor of a safetensors file loaded as fast as a .npy file, and is any byte read twice?

Both are loaded in turn, into rows and into blocks of 64: mpiexec -n 2 python -m mpi4py benchmarks/safetensors_files.py FOLDER
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
from pathlib import Path

import numpy as np
from mpi4py import MPI

import pyscalapack_redist as psr

COMM = MPI.COMM_WORLD


def write(npy: Path, tensors: Path, n: int) -> None:
    """The same matrix in both files; the tensor begins at no multiple of its elements' size."""
    whole = np.arange(n * n, dtype=np.float32).reshape(n, n)
    np.save(npy, whole)
    entries = {"first": ("U8", [1], [0, 1]), "w": ("F32", [n, n], [1, 1 + whole.nbytes])}
    header = {name: dict(zip(("dtype", "shape", "data_offsets"), each, strict=True)) for name, each in entries.items()}
    text = json.dumps(header).encode()
    with tensors.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + bytes(1))
        whole.tofile(file)


def bytes_read() -> int:
    """What this process has read by calls of Linux."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("rchar")).split()[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gib", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    n = int((arguments.gib * 2**28) ** 0.5)
    npy, tensors = arguments.folder / "w.npy", arguments.folder / "w.safetensors"
    if COMM.rank == 0:
        write(npy, tensors, n)
        print(f"{n} x {n} float32, {COMM.size} ranks, {os.cpu_count()} cores, {platform.platform()}, NumPy {np.__version__}")
    COMM.Barrier()
    grid = psr.ProcessGrid((1, COMM.size), COMM)
    layouts = {"rows": psr.zeros((n, n), COMM).desc, "blocks": psr.Descriptor((n, n), 64, grid)}
    for name, desc in layouts.items():
        out, seconds, extra = desc.zeros(np.float32), {npy: list[float](), tensors: list[float]()}, 0
        for k in range(arguments.rounds):
            for path in (npy, tensors) if k % 2 else (tensors, npy):
                COMM.Barrier()
                before, start = bytes_read(), MPI.Wtime()
                psr.load(desc, path, out, dataset="w" if path is tensors else None)
                COMM.Barrier()
                seconds[path].append(MPI.Wtime() - start)
                if path is tensors:
                    extra = COMM.allreduce(bytes_read() - before) - 4 * n * n
        if COMM.rank == 0:
            pairs = [b / a for a, b in zip(seconds[npy], seconds[tensors], strict=True)]
            print(
                f"{name}: .npy {min(seconds[npy]):.3f} s, safetensors {min(seconds[tensors]):.3f} s at least; the median of "
                f"their ratios is {statistics.median(pairs):.2f}; {extra} bytes are read besides the tensor's {4 * n * n}",
                flush=True,
            )


if __name__ == "__main__":
    main()
