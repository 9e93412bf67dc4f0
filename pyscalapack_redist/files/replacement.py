"""A new file in place of an old one: written under another name beside it, which it gets when it is complete.

The temporary name tells who writes the file, so that those of a killed program can be removed. A lock would tell less: locks
of one host need not be seen by another, and MPI-IO and HDF5 lock the file themselves.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import secrets
import shutil
import stat
import warnings
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

from ..comm.group import Group
from ..comm.node import machine
from ..errors import FileError, callers_level
from .slabs import on_all, on_first

UNKNOWN = "0" * 12


def replace_file(group: Group, name: str, write: Callable[[str, str], None]) -> None:
    """Give a name, or what it links to, to the file that `write(temporary, target)` makes, once all went well. Collective."""
    target, temporary, others = on_first(group, lambda: _place(name))
    if others:
        _remove_ended(group, others, name)
    with ExitStack() as undo:
        if group.rank == 0:
            undo.callback(Path(temporary).unlink, missing_ok=True)
        write(temporary, target)
        on_first(group, lambda: _finish(temporary, target))
        undo.pop_all()


def _place(name: str) -> tuple[str, str, list[str]]:
    """The file that is to be replaced: what a link leads to. A temporary name for it, and what has such a name already."""
    folder = os.path.dirname(name) or "."
    if not os.path.isdir(folder):
        raise FileError(f"{name} cannot be written: there is no directory {folder}; make it first")
    target = os.path.realpath(name)
    if os.path.lexists(target) and not stat.S_ISREG(os.stat(target).st_mode):
        raise FileError(f"{target} is not an ordinary file and would be replaced: give another path")
    return target, temporary_name(target), temporary_files_of(target)


def _finish(temporary: str, target: str) -> None:
    """Give the complete file its name. On the first rank."""
    if os.path.exists(target):
        shutil.copymode(target, temporary)
    os.replace(temporary, target)
    folder = os.open(os.path.dirname(target), os.O_RDONLY)
    try:
        with suppress(OSError):  # not every file system does this for a directory
            os.fsync(folder)
    finally:
        os.close(folder)


# -- temporary names


class _Process(NamedTuple):
    """A process as the kernel sees it: state, number of threads, and when it started, in ticks since the machine did."""

    state: str
    threads: int
    start: int


def temporary_name(target: str) -> str:
    """A new name beside a file, which tells the machine and the process. Not collective."""
    process = _process(os.getpid())
    where = UNKNOWN if process is None else _machine()
    start = 0 if process is None else process.start
    return f"{_beginning(target)}.{where}.{os.getpid():x}.{start:x}.{secrets.token_hex(6)}.part"


def temporary_files_of(target: str) -> list[str]:
    """Temporary files of other calls of save() for a file; none where the folder cannot be read. Not collective."""
    folder, first = os.path.split(_beginning(target))
    pattern = re.compile(re.escape(first) + r"\.[0-9a-f]{12}\.[0-9a-f]{1,7}\.[0-9a-f]{1,16}\.[0-9a-f]{12}\.part")
    try:
        with os.scandir(folder) as entries:
            return sorted(
                entry.path
                for entry in entries
                if pattern.fullmatch(entry.name) and entry.is_file(follow_symlinks=False)
            )
    except OSError:
        return []


def _remove_ended(group: Group, paths: list[str], name: str) -> None:
    """Remove temporary files of processes that have ended, each rank those of its machine, and warn of others. Collective."""

    def remove() -> None:
        for path in paths:
            if has_ended(path):
                with suppress(OSError):
                    os.unlink(path)

    def warn() -> None:
        doubtful = [path for path in paths if os.path.lexists(path) and has_ended(path) is not False]
        if doubtful:
            warnings.warn(
                f"{name}: beside it are temporary files of calls of save() on other machines, or that cannot be removed: "
                f"{', '.join(doubtful[:5])}; remove them unless such a call is still running",
                RuntimeWarning,
                stacklevel=callers_level(),
            )

    on_all(group, remove)
    on_first(group, warn)


def has_ended(path: str) -> bool | None:
    """Whether the process that writes a temporary file has ended; None where this machine cannot know. Not collective."""
    where, pid, start = Path(path).name.split(".")[-5:-2]
    if where == UNKNOWN or where != _machine():
        return None
    try:
        os.kill(int(pid, 16), 0)
    except ProcessLookupError:
        return True
    except OSError:  # somebody else's process
        pass
    process = _process(int(pid, 16))
    if process is None:  # hidden, or it ended just now
        return False
    return process.start != int(start, 16) or (process.state in "ZX" and process.threads <= 1)


def _beginning(target: str) -> str:
    folder, last = os.path.split(target)
    return os.path.join(folder, f".{last[:50]}")


@functools.cache
def _machine() -> str:
    """The running kernel, the host's name and the space in which processes are numbered, as one word."""
    try:
        if os.readlink("/proc/self") != str(os.getpid()):  # the processes of another container
            return UNKNOWN
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        return UNKNOWN
    return hashlib.sha256(" ".join((*machine(), space)).encode()).hexdigest()[:12]


def _process(pid: int) -> _Process | None:
    """What the kernel tells of a process; None where it tells nothing."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return _Process(fields[0].decode(), int(fields[17]), int(fields[19]))
