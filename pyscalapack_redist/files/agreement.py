"""What all ranks of a call agree on: what they ask for, the error of one of them, and which file they see."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ..comm.group import Group, first_known
from ..comm.mpi import MPI
from ..comm.node import machine
from ..comm.vote import Ballot, Statement, digest
from ..engine.arrays import dtype_digest
from ..errors import FileError
from ..layout.descriptor import Descriptor
from .contents import check_ordinary

__all__ = ["agree_on", "on_all", "on_first", "one_file"]

T = TypeVar("T")
NUMBERS = ("device", "inode")  # hosts that share a file system give their own
CONTENTS = ("size", "modified")


def agree_on(
    group: Group,
    desc: Descriptor,
    call: tuple[object, ...],
    dtype: np.dtype[Any] | None,
    error: Exception | None,
) -> np.dtype[Any] | None:
    """Raise on every rank unless all are well and ask for the same; the dtype, if a rank knows it. Collective."""
    known = None if dtype is None else dtype_digest(dtype)
    group.agree(
        Ballot(failed=group.failed(error), call=digest((desc.layout_digest, call)), dtype=known),
        error,
        lambda: [
            Statement("desc", desc.layout_digest, repr(desc)),
            Statement("what is asked of the file", repr(call), repr(call)),
            Statement("the dtype", known, repr(dtype)),
        ],
        lambda outcome: True,
    )
    agreed: np.dtype[Any] | None = group.combine(dtype, first_known)
    return agreed


def on_all(group: Group, action: Callable[[], T]) -> T:
    """Do something on every rank; if it fails on one, raise on all. Collective."""
    result, error = _outcome(action)
    group.combine(error=error)
    return result  # type: ignore[return-value]


def on_first(group: Group, action: Callable[[], T]) -> T:
    """Do something on the first rank, and return the result, or raise the error, on all. Collective."""
    outcome = _outcome(action) if group.rank == 0 else None
    result, error = group.combine(outcome, lambda outcomes: outcomes[0])
    if error is not None:
        raise error
    return result  # type: ignore[no-any-return]


def _outcome(action: Callable[[], T]) -> tuple[T | None, Exception | None]:
    """What an action returns, and what it raises: an error of the system or of MPI as the package's own."""
    try:
        return action(), None
    except Exception as error:
        if isinstance(error, FileError) or not isinstance(error, OSError | MPI.Exception):
            return None, error
        own = FileError(f"MPI: {error}" if isinstance(error, MPI.Exception) else str(error))
        own.__cause__ = error
        return None, own


# -- one file


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
            status = os.fstat(file.fileno())
        return cls(machine(), status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)

    def difference(self, first: Identity, here: tuple[str, ...], elsewhere: tuple[str, ...]) -> str | None:
        """In what it differs from the file that the first rank has seen, on this host or elsewhere; None if in nothing."""
        for name in here if self.host == first.host else elsewhere:
            own, other = getattr(self, name), getattr(first, name)
            if own != other:
                return f"is not the file that the first rank has seen: {name} {own}, not {other}"
        return None


@contextmanager
def one_file(
    group: Group, path: str, ranks: int, writes: bool = False, elsewhere: tuple[str, ...] = CONTENTS
) -> Iterator[None]:
    """See to it that the name is that of the same file on the first `ranks`, before and after what is done with it. Collective.

    A FileError on all ranks where it is not, or one of them cannot open it. What of it is `elsewhere`, on other hosts, must be
    alike before, and where nobody writes also afterwards.
    """
    mode = "r+b" if writes else "rb"
    first = on_first(group, lambda: Identity.of(path, mode))
    here = NUMBERS if writes else (*NUMBERS, *CONTENTS)

    def compare(elsewhere: tuple[str, ...]) -> None:
        problem = None
        try:
            if group.rank < ranks:
                problem = Identity.of(path, mode).difference(first, here, elsewhere)
        except Exception as error:
            problem = f"cannot be opened as on the first rank ({error})"
        problems = group.combine(problem)
        for name, text in zip(group.names, problems, strict=True):
            if text is not None:
                raise FileError(
                    f"{path} on {name} {text}: all ranks must see the same file, by an absolute path where their working "
                    "directories differ, and nobody may replace or change it meanwhile"
                )

    compare(elsewhere)
    yield
    compare(() if writes else elsewhere)
