"""mpi4py's `MPI`, imported at its first use: `import pyscalapack_redist` starts no MPI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
