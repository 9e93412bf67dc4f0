"""The PBLAS's topologies of broadcasts and combines, which are of the process, for all its grids, and not of a context.

Routines set them for themselves and back; netlib's p?orgqr does not set them back. The processes of another grid that had no
part in that call then broadcast in another way than those that had, and wait for each other for ever.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator

from .. import blacs
from ..errors import LibraryError

__all__ = ["kept"]

PLACES = [
    (operation, scope) for operation in (b"Broadcast", b"Combine") for scope in (b"Rowwise", b"Columnwise", b"All")
]


@contextlib.contextmanager
def kept(ctxt: int) -> Iterator[None]:
    """Leave this process's topologies as they were, in whatever way the block ends. Not collective."""
    try:
        get, set_ = (ctypes.CFUNCTYPE(None)(blacs.load().routine(f"pb_top{name}")) for name in ("get", "set"))
    except LibraryError:  # then the library's routines cannot change them through these
        yield
        return
    context, before = ctypes.byref(ctypes.c_int(ctxt)), _each(get, ctxt)
    try:
        yield
    finally:
        for (operation, scope), was, now in zip(PLACES, before, _each(get, ctxt), strict=True):
            if was != now:
                set_(context, operation, scope, was, *_lengths(operation, scope))


def _each(get: ctypes._FuncPointer, ctxt: int) -> list[bytes]:
    found = []
    for operation, scope in PLACES:
        letter = ctypes.create_string_buffer(1)
        get(ctypes.byref(ctypes.c_int(ctxt)), operation, scope, letter, *_lengths(operation, scope))
        found.append(letter.raw)
    return found


def _lengths(operation: bytes, scope: bytes) -> list[ctypes.c_size_t]:
    """Of the three characters, which Fortran compilers pass after all arguments."""
    return [ctypes.c_size_t(len(operation)), ctypes.c_size_t(len(scope)), ctypes.c_size_t(1)]
