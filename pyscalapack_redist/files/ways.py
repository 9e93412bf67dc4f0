"""The ways in which bytes get to and from a file by MPI-IO, by name."""

from __future__ import annotations

from . import slab_file, view_file

__all__ = ["WAYS"]

WAYS = {"slabs": slab_file, "view": view_file}
