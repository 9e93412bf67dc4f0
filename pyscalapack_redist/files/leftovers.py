"""Temporary files of save(): their names tell who writes them, so that those of a killed program can be removed.

A lock would tell less: locks of one host need not be seen by another, and MPI-IO and HDF5 lock the file themselves.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import secrets
import socket
import warnings
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ..comm.group import Group
from ..errors import callers_level
from .agreed import all_must, from_one

__all__ = ["found_beside", "remove_ended", "temporary_name"]

UNKNOWN = "0" * 12


class _Process(NamedTuple):
    """A process as the kernel sees it: state, number of threads, and when it started, in ticks since the machine did."""

    state: str
    threads: int
    start: int


def temporary_name(target: str) -> str:
    """A new name beside a file, which tells the machine and the process. Not collective."""
    process = _process(os.getpid())
    machine = UNKNOWN if process is None else _machine()
    start = 0 if process is None else process.start
    return f"{_beginning(target)}.{machine}.{os.getpid():x}.{start:x}.{secrets.token_hex(6)}.part"


def found_beside(target: str) -> list[str]:
    """Temporary files of other calls of save() for a file; none where the folder cannot be read. Not collective."""
    folder, first = os.path.split(_beginning(target))
    mine = re.compile(re.escape(first) + r"\.[0-9a-f]{12}\.[0-9a-f]{1,7}\.[0-9a-f]{1,16}\.[0-9a-f]{12}\.part")
    try:
        with os.scandir(folder) as entries:
            return sorted(
                entry.path for entry in entries if mine.fullmatch(entry.name) and entry.is_file(follow_symlinks=False)
            )
    except OSError:
        return []


def remove_ended(everyone: Group, left: list[str], name: str) -> None:
    """Remove those of processes that have ended, and warn of those of which nobody here can know. Collective.

    Parameters
    ----------
    everyone : Group
        The ranks: each knows the processes of its machine.
    left : list of str
        Temporary files, the same on all ranks.
    name : str
        What is to be saved, for the warning.
    """

    def remove() -> None:
        for path in left:
            if has_ended(path):
                with suppress(OSError):
                    os.unlink(path)

    def warn() -> None:
        doubtful = [path for path in left if os.path.lexists(path) and has_ended(path) is not False]
        if doubtful:
            warnings.warn(
                f"{name}: beside it are temporary files of calls of save() on other machines, or that cannot be removed: "
                f"{', '.join(doubtful[:5])}; remove them unless such a call is still running",
                RuntimeWarning,
                stacklevel=callers_level(),
            )

    all_must(everyone, remove)
    from_one(everyone, warn)


def has_ended(path: str) -> bool | None:
    """Whether the process that writes a temporary file has ended; None where this machine cannot know. Not collective."""
    machine, pid, start = Path(path).name.split(".")[-5:-2]
    if machine == UNKNOWN or machine != _machine():
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
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        return UNKNOWN
    return hashlib.sha256(f"{boot} {space} {socket.gethostname()}".encode()).hexdigest()[:12]


def _process(pid: int) -> _Process | None:
    """What the kernel tells of a process; None where it tells nothing."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return _Process(fields[0].decode(), int(fields[17]), int(fields[19]))
