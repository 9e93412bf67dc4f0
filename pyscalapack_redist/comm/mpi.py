"""mpi4py's `MPI`, imported at its first use: `import pyscalapack_redist` starts no MPI."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

MPI_FILE = re.compile(r"/lib(mpi|mpich|mpi_abi)\.so[.\d]*$")


def mpi_files() -> list[str]:
    """The files of MPI libraries in this process, in the order of their addresses; none where the system does not show them."""
    try:
        with open("/proc/self/maps") as maps:
            files = [line.split(maxsplit=5)[-1].strip() for line in maps]
    except OSError:
        return []
    return list(dict.fromkeys(filter(MPI_FILE.search, files)))


if TYPE_CHECKING:
    from mpi4py import MPI as MPI
else:

    class _Lazy:
        """A stand-in for the module that caches the attributes used."""

        def __getattr__(self, name: str) -> Any:
            from mpi4py import MPI

            value = getattr(MPI, name)
            setattr(self, name, value)
            return value

    MPI = _Lazy()
