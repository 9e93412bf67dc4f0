"""Two jobs meet by files, before MPI is asked for anything that cannot be cancelled, and see whether each other lives.

Each side puts down a card, `PATH.accept` or `PATH.connect`: a file that says who is there. Every process of the side holds
a lock on one byte of its card, byte k for rank k. The kernel drops the lock when the process ends, however it ends, so a
card that somebody left behind is known for stale, and a process that dies later is missed. No clocks are compared and
nothing is written meanwhile. The port goes from one side to the other in a third file, `PATH.port`: the connecting side
takes it by renaming it, the accepting side withdraws it by removing it, and only one of the two can succeed.
"""

from __future__ import annotations

import atexit
import fcntl
import json
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ..errors import CollectiveError, ConnectError

__all__ = ["Card", "Hold", "Watch", "offer", "take", "wait_for"]

OTHER = {"accept": "connect", "connect": "accept"}
POLL_SECONDS = 0.05
LOOK_SECONDS = 0.2
GRACE_SECONDS = 2.0  # for messages of a process that has ended in good order and are still on the way
GRACE_LOOKS = 20
LOOKED_AT = 16  # processes of the other side looked at in one go


class Card:
    """A card of one side, by the rank that writes or reads it. Not collective.

    Attributes
    ----------
    path : str
        Where it lies; under another name until `publish`.
    about : dict
        What it says: "token", "ranks", and what the side tells of itself.
    """

    def __init__(self, path: str, about: dict[str, Any]) -> None:
        self.path, self.about = path, about

    @classmethod
    def write(cls, path: str, role: str, about: dict[str, Any]) -> Card:
        """A new card that nobody can see yet."""
        about = {**about, "token": secrets.token_hex(8)}
        hidden = f"{path}.{role}.{about['token']}"
        with _explained(f"cannot write {hidden}"):
            _write(hidden, about)
        return cls(hidden, about)

    @classmethod
    def read(cls, path: str, role: str) -> Card | None:
        """The card of a side whose rank 0 is alive; None where there is none."""
        place = f"{path}.{role}"
        try:
            file = os.open(place, os.O_RDWR)
        except FileNotFoundError:
            return None
        except OSError as caught:
            raise ConnectError(f"cannot read {place}: {caught}") from caught
        try:
            with _explained(f"cannot read {place}"):
                return cls(place, _content(file)) if _locked(file, 0) else None
        finally:
            os.close(file)

    def publish(self, path: str, role: str) -> None:
        """Put it down, in place of a stale one."""
        place = f"{path}.{role}"
        while True:
            try:
                os.link(self.path, place)
                break
            except FileExistsError:
                if Card.read(path, role) is not None:
                    raise ConnectError(f"another job waits in psr.{role} at {path} already: use another path") from None
                with suppress(FileNotFoundError):
                    os.unlink(place)
            except OSError as caught:
                raise ConnectError(f"cannot write {place}: {caught}") from caught
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
            self._file = os.open(path, os.O_RDWR)
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, rank)
        atexit.register(self.close)  # before MPI_Finalize, which may wait for the other side

    def close(self) -> None:
        """Let go."""
        atexit.unregister(self.close)
        if self._file >= 0:
            os.close(self._file)
        self._file = -1


class Watch:
    """Whether the processes of the other side still live: a call raises CollectiveError once one does not."""

    def __init__(self, card: Card) -> None:
        with _explained(f"cannot open {card.path}, which must be on a file system that all ranks see"):
            self._file = os.open(card.path, os.O_RDWR)
        self._ranks = int(card.about["ranks"])
        self._next = 0
        self._looked = -LOOK_SECONDS
        self._missed: int | None = None
        self._since = 0.0
        self._looks = 0

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
                f"rank {self._missed} of the other side has ended: what it owed will not come; the connection is of no more use"
            )

    def missing(self) -> int | None:
        """A rank of the other side that has ended, of some that are looked at; None where all live."""
        some = [(self._next + k) % self._ranks for k in range(min(LOOKED_AT, self._ranks))]
        self._next = (some[-1] + 1) % self._ranks
        try:
            return next((rank for rank in some if not _locked(self._file, rank)), None)
        except OSError:  # the file went with the host that had it
            return some[0]

    def close(self) -> None:
        """Stop looking."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1


def wait_for(path: str, role: str, end: float, seconds: float) -> Card:
    """The card of the other side, once it is there. Not collective.

    Parameters
    ----------
    path, role : str
        The meeting place, and what this side does there: "accept" or "connect".
    end : float
        Moment of `time.monotonic` until which to wait.
    seconds : float
        The same as the user gave it.

    Raises
    ------
    ConnectError
        It did not come in time.
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


def offer(path: str, own: Card, other: Card, port: str, watch: Watch, end: float) -> None:
    """Give the other side the port, and return once it has taken it. Not collective.

    Raises
    ------
    ConnectError
        It did not take it in time, or has ended.
    """
    place, hidden = f"{path}.port", f"{path}.port.{own.about['token']}"
    with _explained(f"cannot write {place}"):
        _write(hidden, {"from": own.about["token"], "to": other.about["token"], "port": port})
        os.rename(hidden, place)
    accepted = f"{path}.port.{other.about['token']}"
    while not os.path.exists(accepted):
        if time.monotonic() > end or watch.missing() is not None:
            with suppress(FileNotFoundError):
                os.unlink(place)
                raise ConnectError(
                    f"the other job came to {path} and left again: see what it says, and start both anew"
                )
        time.sleep(POLL_SECONDS)
    os.unlink(accepted)


def take(path: str, own: Card, other: Card, watch: Watch, end: float) -> str:
    """The port that the other side offers. From then on both sides are bound to use it. Not collective.

    Raises
    ------
    ConnectError
        None is offered in time, or the other side has ended.
    """
    place = f"{path}.port"
    while True:
        with suppress(FileNotFoundError):
            with _explained(f"cannot read {place}", FileNotFoundError):
                file = os.open(place, os.O_RDONLY)
                try:
                    said = _content(file)
                finally:
                    os.close(file)
            if said["from"] == other.about["token"] and said["to"] == own.about["token"]:
                os.rename(place, f"{path}.port.{own.about['token']}")
                port: str = said["port"]
                return port
        if time.monotonic() > end or watch.missing() is not None:
            raise ConnectError(f"the other job came to {path} and left again: see what it says, and start both anew")
        time.sleep(POLL_SECONDS)


def _write(path: str, content: dict[str, Any]) -> None:
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(file, json.dumps(content).encode())
        os.fsync(file)
    finally:
        os.close(file)


def _content(file: int) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(os.pread(file, 2**20, 0))
    return content


def _locked(file: int, byte: int) -> bool:
    """Whether another process has this byte. A lock that many may have at once is tried, and let go."""
    try:
        fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, byte)
    except (BlockingIOError, PermissionError):
        return True
    fcntl.lockf(file, fcntl.LOCK_UN, 1, byte)
    return False


@contextmanager
def _explained(what: str, *but: type[Exception]) -> Iterator[None]:
    """Errors of the system and of what stands in a file, as ConnectError."""
    try:
        yield
    except but:
        raise
    except (OSError, ValueError, KeyError) as caught:
        raise ConnectError(f"{what}: {caught}") from caught
