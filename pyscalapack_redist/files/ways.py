"""The ways in which bytes get to and from a file by MPI-IO, by name."""

from __future__ import annotations

from ..errors import FileError
from . import slabs, view

__all__ = ["WAYS", "checked_way"]

WAYS = {"slabs": slabs, "view": view}


def checked_way(through: object, window: object) -> None:
    """How the bytes get to or from the file."""
    if not isinstance(through, str) or through not in WAYS:
        raise FileError(f"through = {through!r} must be 'slabs' or 'view'")
    if through != "slabs" and window is not None:
        raise FileError(f"through = {through!r} is for whole files: with window= it must be 'slabs'")
