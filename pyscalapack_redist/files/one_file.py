"""Whether a name is that of one file on all ranks, from before it is read or written until that is done."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from ..comm.group import Group
from ..comm.node import machine
from ..errors import FileError
from .agreed import from_one
from .header import check_ordinary

__all__ = ["one_file"]

NUMBERS = ("device", "inode")  # hosts that share a file system give their own
CONTENTS = ("size", "modified")


class Identity(NamedTuple):
    """What tells a file from another that has its name elsewhere, or had it before; `modified` is in ns."""

    host: tuple[str, ...]
    device: int
    inode: int
    size: int
    modified: int

    @classmethod
    def of(cls, path: str, mode: str) -> Identity:
        """That of the file of this name, which is opened: a network file system may know only then what it is by now."""
        check_ordinary(path)
        with open(path, mode) as file:
            seen = os.fstat(file.fileno())
        return cls(machine(), seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns)

    def difference(self, first: Identity, here: tuple[str, ...], elsewhere: tuple[str, ...]) -> str | None:
        """In what it differs from the file that the first rank has seen, on this host or elsewhere; None if in nothing."""
        for name in here if self.host == first.host else elsewhere:
            own, other = getattr(self, name), getattr(first, name)
            if own != other:
                return f"is not the file that the first rank has seen: {name} {own}, not {other}"
        return None


@contextmanager
def one_file(
    everyone: Group,
    path: str,
    writes: bool = False,
    ranks: int | None = None,
    elsewhere: tuple[str, ...] = CONTENTS,
) -> Iterator[None]:
    """See to it that the name is that of the same file on the first `ranks`, before and after what is done with it. Collective.

    Parameters
    ----------
    everyone : Group
        The ranks.
    path : str
        The file.
    writes : bool
        Whether it is written: then others may write in it too.
    ranks : int, optional
        By default all.
    elsewhere : tuple of str
        What must be alike on other hosts, before.

    Raises
    ------
    FileError
        It is not, or one of them cannot open it. On all ranks.
    """
    mode = "r+b" if writes else "rb"
    first = from_one(everyone, lambda: Identity.of(path, mode))
    here = NUMBERS if writes else (*NUMBERS, *CONTENTS)

    def compare(elsewhere: tuple[str, ...]) -> None:
        problem = None
        try:
            if ranks is None or everyone.rank < ranks:
                problem = Identity.of(path, mode).difference(first, here, elsewhere)
        except Exception as error:
            problem = f"cannot be opened as on the first rank ({error})"
        seen = everyone.combine(problem, lambda told: next(((k, text) for k, text in enumerate(told) if text), None))
        if seen is not None:
            raise FileError(
                f"{path} on {everyone.names[seen[0]]} {seen[1]}: all ranks must see the same file, by an absolute path where "
                "their working directories differ, and nobody may replace or change it meanwhile"
            )

    compare(elsewhere)
    yield
    compare(() if writes else elsewhere)
