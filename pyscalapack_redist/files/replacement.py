"""Replacement of a file: the new file is written under a temporary name in the same directory, and renamed when complete.

The temporary name has the machine and the process that write the file, so that files of killed programs can be removed. A lock
would not do: other hosts may not see it, and MPI-IO and HDF5 lock the file themselves.
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
    """Replace a file, or the target of a link, by the file that `write(temporary, target)` makes. Collective."""
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
    """The file to replace (the target of a link), a temporary name for it, and existing files with such names."""
    folder = os.path.dirname(name) or "."
    if not os.path.isdir(folder):
        raise FileError(f"{name} cannot be written: there is no directory {folder}; make it first")
    target = os.path.realpath(name)
    if os.path.lexists(target) and not stat.S_ISREG(os.stat(target).st_mode):
        raise FileError(f"{target} is not an ordinary file and would be replaced: give another path")
    return target, temporary_name(target), temporary_files_of(target)


def _finish(temporary: str, target: str) -> None:
    """Rename the complete file. On the first rank."""
    if os.path.exists(target):
        shutil.copymode(target, temporary)
    os.replace(temporary, target)
    folder = os.open(os.path.dirname(target), os.O_RDONLY)
    try:
        with suppress(OSError):  # some file systems cannot do this for a directory
            os.fsync(folder)
    finally:
        os.close(folder)


# -- temporary names


class _Process(NamedTuple):
    """State and number of threads of a process, and its start time in clock ticks since boot."""

    state: str
    threads: int
    start: int


def temporary_name(target: str) -> str:
    """A new temporary name for a file, with the machine and the process."""
    process = _process(os.getpid())
    machine_id = UNKNOWN if process is None else _machine()
    start = 0 if process is None else process.start
    return f"{_beginning(target)}.{machine_id}.{os.getpid():x}.{start:x}.{secrets.token_hex(6)}.part"


def temporary_files_of(target: str) -> list[str]:
    """Temporary files of other calls of save() for a file; empty if the directory cannot be read."""
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
    """Remove temporary files of ended processes of each rank's machine, and warn of other files. Collective."""

    def remove() -> None:
        for path in paths:
            if has_ended(path):
                with suppress(OSError):
                    os.unlink(path)

    def warn() -> None:
        doubtful = [path for path in paths if os.path.lexists(path) and has_ended(path) is not False]
        if doubtful:
            warnings.warn(
                f"{name}: the directory has temporary files of calls of save() on other machines, or that cannot be removed: "
                f"{', '.join(doubtful[:5])}; remove them unless such a call is still running",
                RuntimeWarning,
                stacklevel=callers_level(),
            )

    on_all(group, remove)
    on_first(group, warn)


def has_ended(path: str) -> bool | None:
    """Whether the process that writes a temporary file has ended; None if unknown on this machine."""
    machine_id, pid, start = Path(path).name.split(".")[-5:-2]
    if machine_id == UNKNOWN or machine_id != _machine():
        return None
    try:
        os.kill(int(pid, 16), 0)
    except ProcessLookupError:
        return True
    except OSError:  # a process of another user
        pass
    process = _process(int(pid, 16))
    if process is None:  # hidden, or ended a moment ago
        return False
    return process.start != int(start, 16) or (process.state in "ZX" and process.threads <= 1)


def _beginning(target: str) -> str:
    folder, last = os.path.split(target)
    return os.path.join(folder, f".{last[:50]}")


@functools.cache
def _machine() -> str:
    """A hash of the running kernel, the host's name and the PID namespace."""
    try:
        if os.readlink("/proc/self") != str(os.getpid()):  # /proc of another container
            return UNKNOWN
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        return UNKNOWN
    return hashlib.sha256(" ".join((*machine(), space)).encode()).hexdigest()[:12]


def _process(pid: int) -> _Process | None:
    """Facts about a process from /proc; None if there are none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return _Process(fields[0].decode(), int(fields[17]), int(fields[19]))
