"""Replacement of a file, or a directory: the new one has a temporary name in the same directory, and is renamed when complete.

The temporary name has the machine and the process that write the file, so that files of killed programs can be removed. A lock
would not do: other hosts may not see it, and HDF5 locks the file itself.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import hashlib
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable
from contextlib import ExitStack, nullcontext, suppress
from pathlib import Path
from typing import NamedTuple

from .. import diagnostics
from ..comm.group import Group
from ..comm.node import machine
from ..errors import FileError
from .slabs import on_all, on_first

UNKNOWN = "0" * 12
STAMP = r"\.[0-9a-f]{12}\.[0-9a-f]{1,7}\.[0-9a-f]{1,16}\.[0-9a-f]{12}"  # of a temporary name: machine, process, start, token


def check_regular(target: str) -> None:
    """Raise a FileError unless the existing `target` is an ordinary file, which may be replaced."""
    if not stat.S_ISREG(os.stat(target).st_mode):
        raise FileError(f"{target} is not an ordinary file and would be replaced: give another path")


def check_writable(target: str) -> None:
    """Raise a FileError for an existing file or directory that this user may not write, though it could be replaced."""
    effective = os.access in os.supports_effective_ids
    if not os.access(target, os.W_OK, effective_ids=effective):
        mode = stat.S_IMODE(os.stat(target).st_mode)
        raise FileError(
            f"{target} is write-protected (mode {mode:04o}) and would be replaced: allow writing (chmod u+w), or give "
            "another path"
        )


def replace_file(
    group: Group, name: str, write: Callable[[str, str], None], check: Callable[[str], None] = check_regular
) -> None:
    """Replace a file or a directory, or the target of a link. Collective.

    `write(temporary, target)` makes the new one. `check(target)` raises an error if the old one must not be replaced.
    """
    target, temporary, others = on_first(group, lambda: _place(name, check))
    if others:
        remove_ended(group, others, name)
    with ExitStack() as at_end:
        if group.rank == 0:
            at_end.callback(_remove, temporary)  # after success, an old directory
        write(temporary, target)
        on_first(group, lambda: _finish(temporary, target, check))


def _place(name: str, check: Callable[[str], None]) -> tuple[str, str, list[str]]:
    """The file to replace (the target of a link), a temporary name for it, and existing files with such names."""
    folder = os.path.dirname(name) or "."
    if not os.path.isdir(folder):
        raise FileError(f"{name} cannot be written: there is no directory {folder}; make it first")
    target = os.path.realpath(name)
    if not os.path.isdir(os.path.dirname(target)):
        raise FileError(f"{name} is a link to {target}, and there is no such directory: make it first")
    if os.path.lexists(target):
        check(target)
        check_writable(target)
    return target, temporary_name(target), temporary_files_of(target)


def _finish(temporary: str, target: str, check: Callable[[str], None]) -> None:
    """Rename the complete file or directory; an old directory gets the temporary name. On the first rank."""
    if os.path.exists(target):
        check(target)  # again: it may have been made, or protected, since
        check_writable(target)
        shutil.copymode(target, temporary)
    try:
        if not os.path.isdir(target):
            os.replace(temporary, target)
            temporary = ""
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        check(target)  # another call has made the directory since
    if temporary:
        _exchange(temporary, target)
    bring_to_disk(os.path.dirname(target))


AT_FDCWD, RENAME_EXCHANGE = -100, 2  # of <fcntl.h>, <linux/fs.h>


def _exchange(temporary: str, target: str) -> None:
    """Exchange the names of two directories, in one step where the system can."""
    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    if rename and not rename(AT_FDCWD, os.fsencode(temporary), AT_FDCWD, os.fsencode(target), RENAME_EXCHANGE):
        return
    aside = temporary_name(target)
    os.rename(target, aside)  # a program killed here leaves both, under temporary names
    try:
        os.rename(temporary, target)
    except BaseException:
        os.rename(aside, target)
        raise
    os.rename(aside, temporary)


def bring_to_disk(path: str) -> None:
    """Have the system write a file or a directory to the disk."""
    number = os.open(path, os.O_RDONLY)
    try:
        with suppress(OSError) if os.path.isdir(path) else nullcontext():  # not all file systems can, for a directory
            os.fsync(number)
    finally:
        os.close(number)


def _remove(path: str) -> None:
    """Remove a file or a directory, as far as possible."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            os.unlink(path)


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
    """Temporary files and directories of other calls of save() for a file; empty if the directory cannot be read."""
    folder, first = os.path.split(_beginning(target))
    pattern = re.compile(re.escape(first) + STAMP + r"\.part")
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.path for entry in entries if pattern.fullmatch(entry.name) and not entry.is_symlink())
    except OSError:
        return []


def remove_ended(group: Group, paths: list[str], name: str) -> None:
    """Remove temporary files of ended processes of each rank's machine, and warn of other files. Collective."""

    def remove() -> None:
        for path in paths:
            if has_ended(path):
                _remove(path)

    def warn() -> None:
        doubtful = [path for path in paths if os.path.lexists(path) and has_ended(path) is not False]
        if doubtful:
            diagnostics.warn(
                f"{name}: the directory has temporary files of calls of save() on other machines, or that cannot be removed: "
                f"{', '.join(doubtful[:5])}; remove them unless such a call is still running",
                RuntimeWarning,
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
