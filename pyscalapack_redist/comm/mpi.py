"""mpi4py's `MPI`, imported when something of it is first used: `import pyscalapack_redist` starts no MPI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mpi4py import MPI as MPI
else:

    class _Lazy:
        """Stands for the module; what has been asked for is kept."""

        def __getattr__(self, name: str) -> Any:
            from mpi4py import MPI

            value = getattr(MPI, name)
            setattr(self, name, value)
            return value

    MPI = _Lazy()
