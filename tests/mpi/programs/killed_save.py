"""Saves that are killed, and the next one to the same file. Arguments: folder, "killed" or "next".

The next one removes what the killed ones have left, but not what somebody else may still write.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from pathlib import Path

import numpy as np
from mpi4py import MPI

import pyscalapack_redist as psr
from pyscalapack_redist.files import replacement

WORLD = MPI.COMM_WORLD


def killed(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def parts(folder: Path) -> list[str]:
    """Temporary files, when all have come here. Collective."""
    WORLD.Barrier()
    names = sorted(name for name in os.listdir(folder) if name.endswith(".part"))
    WORLD.Barrier()
    return names


def main() -> None:
    folder, what = Path(sys.argv[1]), sys.argv[2]
    desc = psr.Descriptor((6, 5), (2, 2), psr.ProcessGrid((1, WORLD.Get_size()), WORLD))
    ones = desc.from_function(lambda i, j: 1.0 + 0 * i * j)
    path = folder / "kept.npy"
    if what == "killed":
        replacement._finish = killed
        psr.save(desc, ones, path)
    left = parts(folder)
    assert len(left) == 1, left
    psr.save(desc, ones, folder / "other.npy")
    assert parts(folder) == left
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        psr.save(desc, ones, path)
    assert not caught
    assert parts(folder) == []
    assert np.array_equal(np.load(path), np.ones((6, 5)))

    # Of another machine, and of a process that lives.
    fields = left[0].split(".")
    elsewhere = ".".join([*fields[:-5], "0123456789ab", *fields[-4:]])
    alive = Path(WORLD.bcast(replacement.temporary_name(str(path)))).name
    if WORLD.Get_rank() == 0:
        for name in (elsewhere, alive):
            (folder / name).write_bytes(b"")
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
