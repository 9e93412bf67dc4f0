"""connect() and accept(): two jobs, each started by an mpiexec of its own, joined by an inter-communicator.

MPI's own way of joining them, `Open_port`, `Accept` and `Connect`, waits for ever where one job does not come. So the jobs
meet by files first (`rendezvous`), with a limit on time, and each sees whether the other lives from then on.

MPI joins whoever knows the port and asks no further. So before the engine, which trusts its ranks, sends or reads anything,
each side sends 32 bytes, HMAC-SHA256 (RFC 2104) of its role under the secrets of both cards, and compares what it gets: it has
read the other side's card. The secrets are of one meeting only, so what somebody else hears or gets is of no use later. Nothing
up to then is unpickled.
"""

from __future__ import annotations

import hmac
import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from numbers import Real
from typing import Any, TypeVar

import numpy as np

from ..comm.groups import MergedIntercomm, check_running, merge_intercomm
from ..comm.mpi import MPI
from ..comm.progress import call_blocking
from ..errors import CollectiveError, ConnectError
from .rendezvous import OTHER, Card, Hold, Watch, check_directory, offer, take, wait_for

T = TypeVar("T")

TIMEOUT = 60.0
JOINING_SECONDS = 10.0  # for MPI, however late the other side came
LINGER_SECONDS = 2.0
TAG, BYTES, SECONDS = 21_318, 32, 5.0  # of the proof, and how long it may take to come
STRANGER = (
    "whoever came by MPI's port is not the job that met this one: end both jobs, and use a path that nobody else knows"
)


def proof(role: str, card: Card, other: Card) -> bytes:
    """What the side of that role sends; the two cards in any order. Not collective."""
    return hmac.digest(b"".join(sorted((card.secret, other.secret))), role.encode(), "sha256")


def check_other_side(intercomm: MPI.Intercomm, role: str, card: Card, other: Card) -> None:
    """On rank 0 of each side: a ConnectError unless the other is the one whose card was read. Collective over both."""
    intercomm.Set_errhandler(MPI.ERRORS_RETURN)
    if intercomm.Get_remote_size() != other.about["ranks"]:
        raise ConnectError(f"{intercomm.Get_remote_size()} ranks, not {other.about['ranks']}, came by MPI: {STRANGER}")
    end = time.monotonic() + SECONDS
    sent = intercomm.Isend([np.frombuffer(proof(role, card, other), np.uint8), MPI.BYTE], 0, TAG)
    status, got = MPI.Status(), np.empty(BYTES, np.uint8)
    _wait(lambda: intercomm.Iprobe(0, TAG, status), end)
    if status.Get_count(MPI.BYTE) != BYTES:
        raise ConnectError(f"{status.Get_count(MPI.BYTE)} bytes came where {BYTES} should: {STRANGER}")
    intercomm.Recv([got, MPI.BYTE], 0, TAG)
    if not hmac.compare_digest(got.tobytes(), proof(OTHER[role], card, other)):
        raise ConnectError(STRANGER)
    _wait(sent.Test, end)


def _wait(come: Any, end: float) -> None:
    while not come():
        if time.monotonic() > end:
            raise ConnectError(f"nothing came within {SECONDS:g} s: {STRANGER}")
        time.sleep(0.001)


def accept(path: str | os.PathLike[str], comm: MPI.Intracomm, *, timeout: float = TIMEOUT) -> MPI.Intercomm:
    """Join this job with another that calls `connect` with the same path. Collective over `comm`.

    Which of the two jobs accepts and which connects makes no difference later: arrays go both ways.

    Parameters
    ----------
    path : str or path
        Rendezvous files: `PATH.accept` and `PATH.connect` are made there, and removed once the jobs are joined. The
        directory must be there and be seen by all ranks of both jobs, and its file system must have locks (POSIX record
        locks). It must be yours (or root's), and others may not write to it unless it is sticky. That of rank 0 counts.
    comm : MPI.Intracomm
        The processes of this job that take part.
    timeout : float
        Seconds to wait for the other job, which must be the same user's. That of rank 0 counts.

    Returns
    -------
    MPI.Intercomm
        For `redistribute(desc, None, comm=...)` and `redistribute(None, desc, comm=...)`, or anything else. Its
        `Disconnect()`, collective over both jobs, ends the connection.

    Raises
    ------
    ConnectError
        The other job did not come in time or cannot be joined; a file at the meeting place is a link, no regular file or
        somebody else's; or whoever came by MPI has not read it. On all ranks of `comm`.
    """
    return _join(path, comm, timeout, "accept")


def connect(path: str | os.PathLike[str], comm: MPI.Intracomm, *, timeout: float = TIMEOUT) -> MPI.Intercomm:
    """Join this job with another that calls `accept` with the same path. Collective over `comm`.

    Parameters, result and errors are those of `accept`.
    """
    return _join(path, comm, timeout, "connect")


def _join(path: Any, comm: MPI.Intracomm, timeout: Any, role: str) -> MPI.Intercomm:
    if not hasattr(comm, "Create_group") or hasattr(comm, "Get_remote_size") or not comm:
        raise ConnectError(f"comm = {comm!r} must be an mpi4py Intracomm: the ranks of this job that take part")
    check_running()
    side = _Side(comm.Dup(), role)
    with ExitStack() as undo:
        undo.callback(side.leave)
        intercomm = side.join(path, timeout)
        undo.pop_all()
    return intercomm


class _Side:
    """One job's part in coming together. Every method is collective over its communicator."""

    def __init__(self, comm: MPI.Intracomm, role: str) -> None:
        self.comm, self.role, self.is_root = comm, role, comm.Get_rank() == 0
        self.card: Card | None = None  # of this side, on rank 0
        self.hold: Hold | None = None
        self.watch: Watch | None = None
        self.port: str | None = None
        self.bound = False

    def join(self, path: Any, timeout: Any) -> MPI.Intercomm:
        place, seconds = self._by_root(lambda: _checked(path, timeout))
        end = time.monotonic() + seconds
        name = self._by_root(lambda: self._new_card(place).path)
        self._do(partial(self._take_hold, name))
        self._by_root(lambda: self._own.publish(place, self.role, end))
        other = self._by_root(lambda: self._other(place, end, seconds))
        watch = self._do(partial(self._look_at, other))
        self.bound = True
        port = self._by_root(lambda: self._arrange(place, other, watch, end))
        limit = max(end, time.monotonic() + JOINING_SECONDS)

        def check_time() -> None:
            watch()
            if time.monotonic() > limit:
                raise ConnectError(f"MPI did not join the jobs within {seconds:g} s: end both, and start them anew")

        try:
            intercomm: MPI.Intercomm = call_blocking(partial(self._in_mpi, port, other, watch), check_time)
        except CollectiveError as gone:
            raise ConnectError(f"the other job was lost while MPI joined the two: {gone}") from gone
        if self.card is not None:
            self.card.remove()
        return intercomm

    def leave(self) -> None:
        """What a side does that gives up. Not collective."""
        if self.card is not None:
            self.card.remove()
        self._let_go()
        if not self.bound:
            self.comm.Free()

    @property
    def _own(self) -> Card:
        assert self.card is not None  # on rank 0
        return self.card

    def _new_card(self, place: str) -> Card:
        self.card = Card.write(place, self.role, {**_about(), "ranks": self.comm.Get_size()})
        return self.card

    def _take_hold(self, name: str) -> None:
        """This rank's lock on this side's card."""
        self.hold = Hold(name, self.comm.Get_rank())

    def _look_at(self, other: Card) -> Watch:
        self.watch = Watch(other)
        return self.watch

    def _other(self, place: str, end: float, seconds: float) -> Card:
        """On rank 0: the other side's card, if the two can be joined."""
        other = wait_for(place, self.role, end, seconds)
        try:
            _check_pair(self._own.about, other.about)
        except ConnectError:
            leaving = time.monotonic() + LINGER_SECONDS  # for the other side to see why as well
            while time.monotonic() < leaving and Card.read(place, OTHER[self.role]):
                time.sleep(0.1)
            raise
        return other

    def _arrange(self, place: str, other: Card, watch: Watch, end: float) -> str:
        """On rank 0: settle with the other side that both now ask MPI."""
        if self.role == "connect":
            return take(place, self._own, watch, end)
        try:
            self.port = MPI.Open_port()
        except MPI.Exception as caught:
            raise ConnectError(f"MPI opens no port: {caught}") from caught
        assert self.hold is not None
        offer(place, self.hold, other, self.port, watch, end)
        return self.port

    def _in_mpi(self, port: str, other: Card, watch: Watch) -> MPI.Intercomm:
        """Accept or connect, and all that blocks when it is done for the first time. Collective over both sides."""
        info = MPI.Info.Create()
        info.Set("timeout", str(int(JOINING_SECONDS)))
        try:
            intercomm = (self.comm.Accept if self.role == "accept" else self.comm.Connect)(port, info)
        except MPI.Exception as caught:
            raise ConnectError(f"MPI cannot join the jobs{self._why_not(other)}: {caught}") from caught
        finally:
            info.Free()
        # before anything else
        self._by_root(lambda: check_other_side(intercomm, self.role, self._own, other))
        merged: MergedIntercomm = merge_intercomm(intercomm, watch, self._release)
        merged.group.make_node()
        merged.group.combine()
        return intercomm

    def _why_not(self, other: Card) -> str:
        """What is known of an MPI that cannot join such jobs."""
        ranks, mpi = (self.comm.Get_size(), other.about["ranks"]), other.about["mpi"]
        if ranks != (1, 1) or not mpi.startswith("MPICH"):
            return ""
        return (
            " (MPICH takes two processes that were both started without mpiexec, such as two notebooks, for one: start one "
            "of them by `mpiexec -n 1`)"
        )

    def _release(self) -> None:
        """When the inter-communicator is disconnected."""
        self._let_go()
        self.comm.Free()

    def _let_go(self) -> None:
        for lock in (self.hold, self.watch):
            if lock is not None:
                lock.close()
        port, self.port = self.port, None
        if port is not None and not MPI.Is_finalized():
            MPI.Close_port(port)

    def _do(self, call: Callable[[], T], which: str = "rank {}: ") -> T:
        """Let all ranks do something, and return what this one has of it; where one cannot, all raise, and say which.

        They wait for the last one without keeping a core busy.
        """
        error: BaseException | None = None
        try:
            value = call()
        except BaseException as caught:
            error = caught
        here = self.comm.Ibarrier()
        while not here.Test():
            time.sleep(0.002)
        for rank, problem in enumerate(self.comm.allgather(error and self._in_words(error))):
            if problem is not None:
                if error is not None and not isinstance(error, Exception):
                    raise error
                raise ConnectError(which.format(rank) + problem)
        return value

    def _by_root(self, call: Callable[[], T]) -> T:
        """Let rank 0 do something, and return what it has of it on all."""
        mine = self._do(call, which="") if self.is_root else self._do(lambda: None, which="")
        value: T = self.comm.bcast(mine)
        return value

    def _in_words(self, error: BaseException) -> str:
        if not isinstance(error, Exception):
            return f"rank {self.comm.Get_rank()} was interrupted ({type(error).__name__})"
        return str(error) if isinstance(error, ConnectError) else f"{type(error).__name__}: {error}"


def _checked(path: Any, timeout: Any) -> tuple[str, float]:
    try:
        name = os.fsdecode(path)
    except TypeError:
        name = ""
    if not os.path.basename(name) or "\0" in name:
        raise ConnectError(f"path = {path!r} must be the name of a file, without NUL")
    place = os.path.abspath(name)
    check_directory(os.path.dirname(place))
    if isinstance(timeout, bool) or not isinstance(timeout, Real) or not 0 < float(timeout) < 1e9:
        raise ConnectError(f"timeout = {timeout!r} must be a positive number of seconds")
    return place, float(timeout)


def _about() -> dict[str, Any]:
    """What a side tells of itself."""
    return {
        "mpi": MPI.Get_library_version().strip(" \n\0").splitlines()[0],
        "job": os.environ.get("PMIX_NAMESPACE"),
        "server": "OMPI_MCA_pmix_server_uri" in os.environ,
    }


def _check_pair(mine: dict[str, Any], other: dict[str, Any]) -> None:
    """Whether MPI can join the two; the same on both sides."""
    if mine["mpi"] != other["mpi"]:
        raise ConnectError(
            f"this job runs on {mine['mpi']}, the other on {other['mpi']}: both must run on the same MPI"
        )
    needs_server = mine["mpi"].startswith(("Open MPI v3", "Open MPI v4")) and mine["job"] != other["job"]
    if needs_server and not (mine["server"] and other["server"]):
        whose = "both jobs have" if mine["server"] == other["server"] else "one of the jobs has"
        raise ConnectError(
            f"Open MPI joins two jobs by a name server only, and {whose} none: run `ompi-server --no-daemonize -r FILE`, and "
            "start both jobs by `mpiexec --ompi-server file:FILE ...`"
        )
