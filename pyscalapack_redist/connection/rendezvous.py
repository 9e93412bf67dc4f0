"""Rendezvous files: two jobs find each other by files before they call MPI functions that cannot be cancelled.

Each side writes a file, `PATH.accept` or `PATH.connect`, with its number of ranks and a secret that only its user can read.
Every process of the side holds a lock on one byte of its file, byte k for rank k. The kernel releases the lock when the process
ends for any reason. So a file without a lock is stale, and a process that dies later is detected. No clocks are compared, and
nothing is written while jobs run.

The accepting side adds the port to its file. The connecting side accepts the port by locking a byte; the accepting side locks
the same byte to withdraw it, so only one of the two can succeed. A side writes and removes only its own files, and stale files
of its role. A file is read only if it belongs to this job's user.
"""

from __future__ import annotations

import atexit
import fcntl
import json
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from ..errors import CollectiveError, ConnectError

ADVICE = "use a directory of your own, such as one made by `mkdir -m 700`"
OTHER = {"accept": "connect", "connect": "accept"}
POLL_SECONDS = 0.05
CHECK_SECONDS = 0.2  # between two checks of the other side
GRACE_SECONDS = 2.0  # for messages in flight from a process that exited normally
GRACE_CALLS = 20  # calls of a watch, within the grace period as well
RANKS_PER_CHECK = 16  # processes of the other side checked at a time
LARGEST = 2**16  # bytes of a file
PORT_BYTE, REMOVAL_BYTE = 2**40, 2**40 + 1  # bytes locked to accept or withdraw the port, and to remove a stale file


# -- ownership of files


def check_directory(path: str) -> None:
    """Raise a ConnectError if users other than this one and root can replace files in a directory."""
    if not os.path.isdir(path):
        raise ConnectError(f"{path}: there is no such directory; make it, where all ranks of both jobs see it")
    status = os.stat(path)
    if status.st_uid not in (0, os.geteuid()):
        raise ConnectError(f"the directory {path} belongs to user {status.st_uid}: {ADVICE}")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not status.st_mode & stat.S_ISVTX:
        raise ConnectError(
            f"others may write to the directory {path} (mode {stat.S_IMODE(status.st_mode):04o}) and replace what is in it: "
            f"{ADVICE}"
        )


def open_own_file(path: str, flags: int = os.O_RDONLY) -> int:
    """Open a regular file of this user, without following links or blocking, and return the file descriptor.

    Raises a ConnectError for other files, an OSError if the file cannot be opened.
    """
    _check_file(path, os.lstat(path))
    file = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        _check_file(path, os.fstat(file))  # another file may have the name now
    except ConnectError:
        os.close(file)
        raise
    return file


def _check_file(path: str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = "a symbolic link" if stat.S_ISLNK(status.st_mode) else "not a regular file"
        raise ConnectError(f"{path} is {kind}: remove it, or use another path")
    if status.st_uid != os.geteuid():
        raise ConnectError(f"{path} belongs to user {status.st_uid}, not to user {os.geteuid()}: {ADVICE}")


# -- rendezvous files


class RendezvousFile:
    """The rendezvous file of one side, on the rank that writes or reads it.

    Attributes
    ----------
    path : str
        Path of the file; a temporary name until `publish`.
    secret : bytes
        Random bytes, known only to users who can read the file.
    about : dict
        Content of the file: "ranks", the number of ranks, and facts about the side's MPI.
    """

    def __init__(self, path: str, secret: bytes, about: dict[str, Any]) -> None:
        self.path, self.secret, self.about = path, secret, about

    @classmethod
    def write(cls, path: str, role: str, about: dict[str, Any]) -> RendezvousFile:
        """Write a file under a temporary name, readable by its user only."""
        rendezvous = cls(f"{path}.{role}.{secrets.token_hex(8)}", secrets.token_bytes(32), about)
        with _as_connect_error(f"cannot write {rendezvous.path}"):
            file = os.open(rendezvous.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            try:
                _add_line(file, {**about, "secret": rendezvous.secret.hex()})
            except OSError:
                os.unlink(rendezvous.path)
                raise
            finally:
                os.close(file)
        return rendezvous

    @classmethod
    def read(cls, path: str, role: str) -> RendezvousFile | None:
        """Read the file of a side whose rank 0 is alive; None if there is none."""
        name = f"{path}.{role}"
        with _as_connect_error(f"cannot read {name}"):
            try:
                file = open_own_file(name)
            except FileNotFoundError:
                return None
            try:
                # A file with two names is not yet published, or is the file of another path.
                if not _is_locked(file, 0) or os.fstat(file).st_nlink != 1:
                    return None
                about = _lines(file)[0]
                return cls(name, bytes.fromhex(about.pop("secret")), {**about, "ranks": int(about["ranks"])})
            finally:
                os.close(file)

    def publish(self, path: str, role: str, end: float) -> None:
        """Give the file its final name, in place of a stale file; `end` is the deadline, on the clock of `time.monotonic`."""
        name = f"{path}.{role}"
        with _as_connect_error(f"cannot write {name}"):
            while True:
                with suppress(FileExistsError):
                    os.link(self.path, name)
                    break
                if not _remove_if_stale(name):
                    raise ConnectError(f"another job already waits in psr.{role} at {path}: use another path")
                if time.monotonic() > end:
                    raise ConnectError(f"{name} is a stale file that another process is removing: use another path")
            os.unlink(self.path)
        self.path = name

    def remove(self) -> None:
        """Remove the file."""
        with suppress(OSError):
            os.unlink(self.path)


class RankLock:
    """The lock of one process on its byte of its side's file, until `close` or the end of the process."""

    def __init__(self, path: str, rank: int) -> None:
        with _as_connect_error(f"cannot lock {path}: it must be on a file system with locks that all ranks can access"):
            self._file = open_own_file(path, os.O_RDWR)
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, rank)
        atexit.register(self.close)  # before MPI_Finalize, which may wait for the other side

    def add_line(self, content: dict[str, Any]) -> None:
        """Add a line to the side's file."""
        with _as_connect_error("cannot write the port"):
            _add_line(self._file, content)

    def withdraw_port(self) -> bool:
        """Withdraw the port; False if the other side has accepted it."""
        return not _is_locked(self._file, PORT_BYTE, fcntl.LOCK_EX, keep=True)

    def is_port_accepted(self) -> bool:
        """Whether the other side has accepted the port."""
        return _is_locked(self._file, PORT_BYTE, fcntl.LOCK_EX)

    def close(self) -> None:
        """Release the lock."""
        atexit.unregister(self.close)
        if self._file >= 0:
            os.close(self._file)
        self._file = -1


class Watch:
    """A check of the processes of the other side: a call raises a CollectiveError after one of them has ended."""

    def __init__(self, other: RendezvousFile) -> None:
        self._file, self._ranks = -1, int(other.about["ranks"])
        self._next_rank = 0
        self._last_check = -CHECK_SECONDS
        self._ended_rank: int | None = None
        self._detected = 0.0
        self._calls = 0
        text = f"cannot read {other.path}: it must be on a file system that all ranks can access"
        with _as_connect_error(text), ExitStack() as undo:
            self._file = open_own_file(other.path)
            undo.callback(self.close)
            if _lines(self._file)[0]["secret"] != other.secret.hex():
                raise ConnectError(
                    f"{other.path} is not the same file on all ranks: use a directory that all can access"
                )
            undo.pop_all()

    def __call__(self) -> None:
        self._calls += 1
        now = time.monotonic()
        if now - self._last_check < CHECK_SECONDS:
            return
        self._last_check = now
        if self._ended_rank is None:
            self._ended_rank, self._detected, self._calls = self.ended_rank(), now, 0
        elif now - self._detected > GRACE_SECONDS and self._calls > GRACE_CALLS:
            raise CollectiveError(f"remote rank {self._ended_rank} exited")

    def ended_rank(self) -> int | None:
        """Check some ranks of the other side; returns one that has ended, or None."""
        checked = [(self._next_rank + k) % self._ranks for k in range(min(RANKS_PER_CHECK, self._ranks))]
        self._next_rank = (checked[-1] + 1) % self._ranks
        try:
            return next((rank for rank in checked if not _is_locked(self._file, rank)), None)
        except OSError:  # the file's host is gone
            return checked[0]

    def accept_port(self, own: RendezvousFile) -> str | None:
        """Accept the port that the other side offers to the side of file `own`; None if there is none yet."""
        with _as_connect_error("cannot read the port"):
            offers = _lines(self._file)[1:]
            if not offers or offers[0]["to"] != own.secret.hex() or _is_locked(self._file, PORT_BYTE, keep=True):
                return None
            port = str(offers[0]["port"])
        return port if _is_locked(self._file, 0) else None  # else withdrawn, and its process has ended

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1


def wait_for(path: str, role: str, end: float, seconds: float) -> RendezvousFile:
    """Wait for the file of the other side of `role`.

    Raises a ConnectError at `end`, on the clock of `time.monotonic`; its text has the timeout, `seconds`.
    """
    while True:
        other = RendezvousFile.read(path, OTHER[role])
        if other is not None:
            return other
        if time.monotonic() > end:
            raise ConnectError(
                f"no other job at {path} within {seconds:g} s: start the other job, which calls psr.{OTHER[role]} with this "
                "path, or give a longer timeout"
            )
        time.sleep(POLL_SECONDS)


def offer_port(path: str, lock: RankLock, other: RendezvousFile, port: str, watch: Watch, end: float) -> None:
    """Offer the port to the other side, and wait until it is accepted; a ConnectError if it is not."""
    lock.add_line({"to": other.secret.hex(), "port": port})
    while not lock.is_port_accepted():
        if (time.monotonic() > end or watch.ended_rank() is not None) and lock.withdraw_port():
            raise _other_has_left(path)
        time.sleep(POLL_SECONDS)


def accept_port(path: str, own: RendezvousFile, watch: Watch, end: float) -> str:
    """Wait for the port of the other side, and accept it; a ConnectError if there is none. Both sides then call MPI."""
    while (port := watch.accept_port(own)) is None:
        if time.monotonic() > end or watch.ended_rank() is not None:
            raise _other_has_left(path)
        time.sleep(POLL_SECONDS)
    return port


def _other_has_left(path: str) -> ConnectError:
    return ConnectError(f"the other job was at {path} but gave up or ended: see its output, and start both jobs again")


def _remove_if_stale(name: str) -> bool:
    """Remove a file of a process that has ended, but not a newer file of another job; False if the process is alive."""
    try:
        file = open_own_file(name, os.O_RDWR)
    except FileNotFoundError:
        return True
    try:
        if _is_locked(file, 0):
            return False
        with _as_connect_error(f"{name} is not a file of psr.accept or psr.connect: use another path, or remove it"):
            bytes.fromhex(_lines(file)[0]["secret"])
        if _is_locked(file, REMOVAL_BYTE, fcntl.LOCK_EX, keep=True):
            time.sleep(POLL_SECONDS)  # another job is about to remove it
            return True
        with suppress(FileNotFoundError):
            if os.path.samestat(os.lstat(name), os.fstat(file)):
                os.unlink(name)
        return True
    finally:
        os.close(file)


def _add_line(file: int, content: dict[str, Any]) -> None:
    line = json.dumps(content).encode() + b"\n"
    if os.pwrite(file, line, os.fstat(file).st_size) != len(line):
        raise OSError("the disk is full")
    os.fsync(file)


def _lines(file: int) -> list[dict[str, Any]]:
    """The lines of a file; an incomplete last line is left out."""
    lines = [json.loads(line) for line in os.pread(file, LARGEST, 0).split(b"\n")[:-1]]
    if not lines or not all(isinstance(line, dict) for line in lines):
        raise ValueError("not a file of psr.accept or psr.connect")
    return lines


def _is_locked(file: int, byte: int, kind: int = fcntl.LOCK_SH, keep: bool = False) -> bool:
    """Whether another process has locked this byte.

    The test takes the lock, and releases it unless `keep`. A shared lock (LOCK_SH) conflicts with exclusive locks only.
    """
    try:
        fcntl.lockf(file, kind | fcntl.LOCK_NB, 1, byte)
    except (BlockingIOError, PermissionError):
        return True
    if not keep:
        fcntl.lockf(file, fcntl.LOCK_UN, 1, byte)
    return False


@contextmanager
def _as_connect_error(text: str) -> Iterator[None]:
    """Turn errors of the system and of a file's content into ConnectErrors that begin with `text`."""
    try:
        yield
    except ConnectError:
        raise
    except (OSError, LookupError, TypeError, ValueError) as caught:
        raise ConnectError(f"{text}: {caught}") from caught
