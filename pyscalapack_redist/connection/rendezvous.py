"""Where two jobs meet: by files, which are read only where this job's user has made them.

Two jobs meet before MPI is asked for anything that cannot be cancelled, and see whether each other lives.

Each side puts down a card, `PATH.accept` or `PATH.connect`: a file that says who is there, with a secret that only its user
can read. Every process of the side holds a lock on one byte of its card, byte k for rank k. The kernel drops the lock when
the process ends, however it ends, so a card that somebody left behind is known for stale, and a process that dies later is
missed. No clocks are compared and nothing is written meanwhile. The accepting side adds the port to its card. The connecting
side takes it by a lock on a byte of that card which the accepting side locks to withdraw it, so only one of the two can
succeed. A side writes and removes nothing but its own files, and stale ones of its role.
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
LOOK_SECONDS = 0.2
GRACE_SECONDS = 2.0  # for messages of a process that has ended in good order and are still on the way
GRACE_LOOKS = 20
LOOKED_AT = 16  # processes of the other side looked at in one go
LARGEST = 2**16  # bytes of a card
TAKING, REMOVING = 2**40, 2**40 + 1  # bytes that are locked to take or withdraw the port, and to remove a stale card


# -- whose files are read


def check_directory(path: str) -> None:
    """A ConnectError unless nobody but this user, and root, can take away what is put into a directory. Not collective."""
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


def opened(path: str, flags: int = os.O_RDONLY) -> int:
    """The number of a regular file of this user, opened; it follows no link and waits for nobody. Not collective.

    A ConnectError for anything else, an OSError where it cannot be opened.
    """
    _check_file(path, os.lstat(path))
    file = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        _check_file(path, os.fstat(file))  # it may be another one now
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


# -- cards


class Card:
    """A card of one side, by the rank that writes or reads it. Not collective.

    Attributes
    ----------
    path : str
        Where it lies; under another name until `publish`.
    secret : bytes
        What only those know who can read it.
    about : dict
        What it says: "ranks", and what the side tells of itself.
    """

    def __init__(self, path: str, secret: bytes, about: dict[str, Any]) -> None:
        self.path, self.secret, self.about = path, secret, about

    @classmethod
    def write(cls, path: str, role: str, about: dict[str, Any]) -> Card:
        """A new card that nobody can see yet, and only its user can read."""
        card = cls(f"{path}.{role}.{secrets.token_hex(8)}", secrets.token_bytes(32), about)
        with _explained(f"cannot write {card.path}"):
            file = os.open(card.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            try:
                _add_line(file, {**about, "secret": card.secret.hex()})
            except OSError:
                os.unlink(card.path)
                raise
            finally:
                os.close(file)
        return card

    @classmethod
    def read(cls, path: str, role: str) -> Card | None:
        """The card of a side whose rank 0 is alive; None where there is none."""
        place = f"{path}.{role}"
        with _explained(f"cannot read {place}"):
            try:
                file = opened(place)
            except FileNotFoundError:
                return None
            try:
                # With two names it is not yet published, or is the card of another place.
                if not _locked(file, 0) or os.fstat(file).st_nlink != 1:
                    return None
                about = _lines(file)[0]
                return cls(place, bytes.fromhex(about.pop("secret")), {**about, "ranks": int(about["ranks"])})
            finally:
                os.close(file)

    def publish(self, path: str, role: str, end: float) -> None:
        """Put it down, in place of a stale one, until that moment of `time.monotonic`."""
        place = f"{path}.{role}"
        with _explained(f"cannot write {place}"):
            while True:
                with suppress(FileExistsError):
                    os.link(self.path, place)
                    break
                if not _removed_if_stale(place):
                    raise ConnectError(f"another job waits in psr.{role} at {path} already: use another path")
                if time.monotonic() > end:
                    raise ConnectError(f"{place} is a stale file that another process is removing: use another path")
            os.unlink(self.path)
        self.path = place

    def remove(self) -> None:
        """Take it back."""
        with suppress(OSError):
            os.unlink(self.path)


class Hold:
    """The lock of one process on its byte of its side's card, until it is closed or the process ends. Not collective."""

    def __init__(self, path: str, rank: int) -> None:
        with _explained(f"cannot lock {path}, which must be on a file system that all ranks see and that has locks"):
            self._file = opened(path, os.O_RDWR)
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, rank)
        atexit.register(self.close)  # before MPI_Finalize, which may wait for the other side

    def say(self, more: dict[str, Any]) -> None:
        """Add a line to the card."""
        with _explained("cannot write the port"):
            _add_line(self._file, more)

    def withdrawn(self) -> bool:
        """Withdraw what was said; False where the other side has taken it."""
        return not _locked(self._file, TAKING, fcntl.LOCK_EX, keep=True)

    def is_taken(self) -> bool:
        """Whether the other side has taken it."""
        return _locked(self._file, TAKING, fcntl.LOCK_EX)

    def close(self) -> None:
        """Let go."""
        atexit.unregister(self.close)
        if self._file >= 0:
            os.close(self._file)
        self._file = -1


class Watch:
    """Whether the processes of the other side still live: a call raises CollectiveError once one does not."""

    def __init__(self, card: Card) -> None:
        self._file, self._ranks = -1, int(card.about["ranks"])
        self._next = 0
        self._looked = -LOOK_SECONDS
        self._missed: int | None = None
        self._since = 0.0
        self._looks = 0
        words = f"cannot read {card.path}, which must be on a file system that all ranks see"
        with _explained(words), ExitStack() as undo:
            self._file = opened(card.path)
            undo.callback(self.close)
            if _lines(self._file)[0]["secret"] != card.secret.hex():
                raise ConnectError(f"{card.path} is not the same file on all ranks: use a directory that they all see")
            undo.pop_all()

    def __call__(self) -> None:
        self._looks += 1
        moment = time.monotonic()
        if moment - self._looked < LOOK_SECONDS:
            return
        self._looked = moment
        if self._missed is None:
            self._missed, self._since, self._looks = self.missing(), moment, 0
        elif moment - self._since > GRACE_SECONDS and self._looks > GRACE_LOOKS:
            raise CollectiveError(
                f"rank {self._missed} of the other side has ended, and the connection is of no more use"
            )

    def missing(self) -> int | None:
        """A rank of the other side that has ended, of some that are looked at; None where all live."""
        some = [(self._next + k) % self._ranks for k in range(min(LOOKED_AT, self._ranks))]
        self._next = (some[-1] + 1) % self._ranks
        try:
            return next((rank for rank in some if not _locked(self._file, rank)), None)
        except OSError:  # the file went with the host that had it
            return some[0]

    def taken(self, own: Card) -> str | None:
        """The port that the other side has for the holder of this card, taken; None where it has none, or not yet."""
        with _explained("cannot read the port"):
            offers = _lines(self._file)[1:]
            if not offers or offers[0]["to"] != own.secret.hex() or _locked(self._file, TAKING, keep=True):
                return None
            port = str(offers[0]["port"])
        return port if _locked(self._file, 0) else None  # withdrawn, and let go

    def close(self) -> None:
        """Stop looking."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1


def wait_for(path: str, role: str, end: float, seconds: float) -> Card:
    """The card of the other side of `role`, once it is there. Not collective.

    A ConnectError where it has not come by `end`, a moment of `time.monotonic`, which is `seconds` in the user's words.
    """
    while True:
        card = Card.read(path, OTHER[role])
        if card is not None:
            return card
        if time.monotonic() > end:
            raise ConnectError(
                f"nobody came to {path} within {seconds:g} s: start the other job, which calls psr.{OTHER[role]} with this "
                "path, or give a longer timeout"
            )
        time.sleep(POLL_SECONDS)


def offer(path: str, hold: Hold, other: Card, port: str, watch: Watch, end: float) -> None:
    """Give the other side the port, and return once it has taken it; a ConnectError if it does not. Not collective."""
    hold.say({"to": other.secret.hex(), "port": port})
    while not hold.is_taken():
        if (time.monotonic() > end or watch.missing() is not None) and hold.withdrawn():
            raise _left(path)
        time.sleep(POLL_SECONDS)


def take(path: str, own: Card, watch: Watch, end: float) -> str:
    """The port that the other side offers, which both are then bound to use; a ConnectError if none. Not collective."""
    while (port := watch.taken(own)) is None:
        if time.monotonic() > end or watch.missing() is not None:
            raise _left(path)
        time.sleep(POLL_SECONDS)
    return port


def _left(path: str) -> ConnectError:
    return ConnectError(f"the other job came to {path} and left again: see what it says, and start both anew")


def _removed_if_stale(place: str) -> bool:
    """Remove a card whose process has ended, and not the card that another job has put down meanwhile; False if it lives."""
    try:
        file = opened(place, os.O_RDWR)
    except FileNotFoundError:
        return True
    try:
        if _locked(file, 0):
            return False
        with _explained(f"{place} is not a file of psr.accept or psr.connect: use another path, or remove it"):
            bytes.fromhex(_lines(file)[0]["secret"])
        if _locked(file, REMOVING, fcntl.LOCK_EX, keep=True):
            time.sleep(POLL_SECONDS)  # for the job that is about to remove it
            return True
        with suppress(FileNotFoundError):
            if os.path.samestat(os.lstat(place), os.fstat(file)):
                os.unlink(place)
        return True
    finally:
        os.close(file)


def _add_line(file: int, content: dict[str, Any]) -> None:
    line = json.dumps(content).encode() + b"\n"
    if os.pwrite(file, line, os.fstat(file).st_size) != len(line):
        raise OSError("the disk is full")
    os.fsync(file)


def _lines(file: int) -> list[dict[str, Any]]:
    """What a card says, line by line; a line that is not yet whole is left out."""
    lines = [json.loads(line) for line in os.pread(file, LARGEST, 0).split(b"\n")[:-1]]
    if not lines or not all(isinstance(line, dict) for line in lines):
        raise ValueError("it is not a file of psr.accept or psr.connect")
    return lines


def _locked(file: int, byte: int, how: int = fcntl.LOCK_SH, keep: bool = False) -> bool:
    """Whether another process has this byte. A lock is tried, and let go unless it is to be kept.

    One that many may have at once (LOCK_SH) meets exclusive locks only.
    """
    try:
        fcntl.lockf(file, how | fcntl.LOCK_NB, 1, byte)
    except (BlockingIOError, PermissionError):
        return True
    if not keep:
        fcntl.lockf(file, fcntl.LOCK_UN, 1, byte)
    return False


@contextmanager
def _explained(what: str) -> Iterator[None]:
    """Errors of the system and of what stands in a file, as ConnectError."""
    try:
        yield
    except ConnectError:
        raise
    except (OSError, LookupError, TypeError, ValueError) as caught:
        raise ConnectError(f"{what}: {caught}") from caught
