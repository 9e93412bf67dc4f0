"""Saves that are killed, and the next one to the same file. Arguments: folder, name of the file, "killed" or "next".

The next one removes what the killed ones have left, but not what somebody else may still write. A Zarr store is one before, and
its save is killed when some of its chunks are there: what is loaded is the old one.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import warnings
from pathlib import Path

import numpy as np
from mpi4py import MPI

import pyscalapack_redist as psr
from pyscalapack_redist.files import replacement, slabs

WORLD = MPI.COMM_WORLD


def killed(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


moved = 0


def killed_at_half(nbytes: int) -> None:
    """End this process when half of the matrix is written."""
    global moved
    moved += nbytes
    if moved >= 120:
        killed()


def parts(folder: Path) -> list[str]:
    """Temporary files, when all have come here. Collective."""
    WORLD.Barrier()
    names = sorted(name for name in os.listdir(folder) if name.endswith(".part"))
    WORLD.Barrier()
    return names


def main() -> None:
    folder, name, what = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    desc = psr.Descriptor((6, 5), (2, 2), psr.ProcessGrid((1, WORLD.Get_size()), WORLD))
    ones = desc.from_function(lambda i, j: 1.0 + 0 * i * j)
    path = folder / name
    if what == "killed":
        if path.suffix == ".zarr":
            psr.save(desc, -ones, path, chunks=1)
            slabs.SLAB_BYTES = 8
            slabs.ArrayFile._progress = lambda *_: contextlib.nullcontext(killed_at_half)
        else:
            replacement._finish = killed
        psr.save(desc, ones, path, **({"chunks": 1} if path.suffix == ".zarr" else {}))
    left = parts(folder)
    assert len(left) == 1, left
    if path.suffix == ".zarr":
        assert any((folder / left[0]).rglob("c/*/*"))
        assert not any((folder / left[0]).rglob("c/5/4"))
        assert np.array_equal(psr.load(desc, path), -ones)
    psr.save(desc, ones, folder / f"other{path.suffix}")
    assert parts(folder) == left
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        psr.save(desc, ones, path)
    assert not caught
    assert parts(folder) == []
    assert np.array_equal(psr.load(desc, path), ones)

    # Of another machine, and of a process that lives.
    fields = left[0].split(".")
    elsewhere = ".".join([*fields[:-5], "0123456789ab", *fields[-4:]])
    alive = Path(WORLD.bcast(replacement.temporary_name(str(path)))).name
    if WORLD.Get_rank() == 0:
        for temporary in (elsewhere, alive):
            (folder / temporary).write_bytes(b"")
    WORLD.Barrier()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        psr.save(desc, ones, path)
    assert [warning.category for warning in caught] == [RuntimeWarning] * (WORLD.Get_rank() == 0)
    for warning in caught:
        assert elsewhere in str(warning.message)
        assert alive not in str(warning.message)
        assert warning.filename == __file__, warning.filename
    assert parts(folder) == sorted([alive, elsewhere])
    if WORLD.Get_rank() == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main()
