"""connect() and accept(): join two jobs, each started by its own mpiexec, by an inter-communicator.

MPI's functions for this, `Open_port`, `Accept` and `Connect`, wait forever if the other job does not come. So the jobs find
each other by rendezvous files first (`rendezvous`), with a timeout; from then on each detects whether the other is alive.

MPI joins any process that knows the port. The engine trusts its ranks, so before it sends or reads anything, each side proves
that it has read the other side's file: it sends 32 bytes, HMAC-SHA256 (RFC 2104) of its role under the secrets of both files,
and compares the bytes that it receives. The secrets are used once. Nothing is unpickled before the proof.
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

from ..comm.agreement import meet
from ..comm.groups import MergedIntercomm, group_of, merge_intercomm
from ..comm.guard import Guard
from ..comm.mpi import MPI
from ..comm.progress import call_blocking, force_interrupts
from ..errors import CollectiveError, ConnectError
from ..tracebacks import brief
from .rendezvous import OTHER, RankLock, RendezvousFile, Watch, accept_port, check_directory, offer_port, wait_for

T = TypeVar("T")

TIMEOUT = 60.0
JOINING_SECONDS = 10.0  # for MPI, even after the timeout
LINGER_SECONDS = 2.0  # for the other side to read this side's file before an error
TAG, BYTES, SECONDS = 21_318, 32, 5.0  # of the proof, and its timeout
STRANGER = (
    "the process that connected to MPI's port is not the job of the rendezvous file: end both jobs, and use a path that nobody "
    "else knows"
)


def proof(role: str, own: RendezvousFile, other: RendezvousFile) -> bytes:
    """The proof that the side of that role sends; the two files may be in any order."""
    return hmac.digest(b"".join(sorted((own.secret, other.secret))), role.encode(), "sha256")


def check_other_side(intercomm: MPI.Intercomm, role: str, own: RendezvousFile, other: RendezvousFile) -> None:
    """Exchange proofs; a ConnectError if the other side's is wrong. Collective over rank 0 of each side."""
    intercomm.Set_errhandler(MPI.ERRORS_RETURN)
    if intercomm.Get_remote_size() != other.about["ranks"]:
        raise ConnectError(
            f"{intercomm.Get_remote_size()} ranks, not {other.about['ranks']}, connected by MPI: {STRANGER}"
        )
    end = time.monotonic() + SECONDS
    request = intercomm.Isend([np.frombuffer(proof(role, own, other), np.uint8), MPI.BYTE], 0, TAG)
    status, received = MPI.Status(), np.empty(BYTES, np.uint8)
    _wait(lambda: intercomm.Iprobe(0, TAG, status), end)
    if status.Get_count(MPI.BYTE) != BYTES:
        raise ConnectError(f"received {status.Get_count(MPI.BYTE)} bytes instead of {BYTES}: {STRANGER}")
    intercomm.Recv([received, MPI.BYTE], 0, TAG)
    if not hmac.compare_digest(received.tobytes(), proof(OTHER[role], own, other)):
        raise ConnectError(STRANGER)
    _wait(request.Test, end)


def _wait(condition: Callable[[], bool], end: float) -> None:
    while not condition():
        if time.monotonic() > end:
            raise ConnectError(f"received nothing within {SECONDS:g} s: {STRANGER}")
        time.sleep(0.001)


@brief
def accept(path: str | os.PathLike[str], comm: MPI.Intracomm, *, timeout: float = TIMEOUT) -> MPI.Intercomm:
    """Join this job and another job that calls `connect` with the same path. Collective over `comm`.

    Later it makes no difference which job accepted: arrays go both ways.

    Parameters
    ----------
    path : str or path
        Path of the rendezvous files: `PATH.accept` and `PATH.connect` are created, and removed when the jobs are joined. The
        directory must exist, on a file system with POSIX record locks that all ranks of both jobs can access. It must belong to
        you or root, and others may not write to it unless it is sticky. The path of rank 0 is used.
    comm : MPI.Intracomm
        The processes of this job that take part.
    timeout : float
        Seconds to wait for the other job, which must be of the same user. The timeout of rank 0 is used.

    Returns
    -------
    MPI.Intercomm
        For `redistribute(desc, None, comm=...)` and `redistribute(None, desc, comm=...)`, or anything else. Its
        `Disconnect()`, collective over both jobs, ends the connection.

    Raises
    ------
    ConnectError
        The other job did not come in time or cannot be joined; a rendezvous file is a link, no regular file, or of another
        user; or the process that connected by MPI is another job. On all ranks of `comm`.
    CollectiveError
        Other ranks of `comm` call `connect`; or the communicator has been freed, or MPI is not running.
    """
    return _join(path, comm, timeout, "accept")


@brief
def connect(path: str | os.PathLike[str], comm: MPI.Intracomm, *, timeout: float = TIMEOUT) -> MPI.Intercomm:
    """Join this job and another job that calls `accept` with the same path. Collective over `comm`.

    Parameters, result and errors are those of `accept`.
    """
    return _join(path, comm, timeout, "connect")


def _join(path: Any, comm: MPI.Intracomm, timeout: Any, role: str) -> MPI.Intercomm:
    if not hasattr(comm, "Create_group") or hasattr(comm, "Get_remote_size") or not comm:
        raise ConnectError(f"comm = {comm!r} must be an mpi4py Intracomm: the ranks of this job that take part")
    meet(group_of(comm), role)
    side = _Side(comm.Dup(), role)
    with ExitStack() as undo:
        undo.callback(side.leave)
        intercomm = side.join(path, timeout)
        undo.pop_all()
    return intercomm


class _Side:
    """One side of a connection. Methods are collective over its communicator unless they say otherwise."""

    def __init__(self, comm: MPI.Intracomm, role: str) -> None:
        self.comm, self.role, self.is_root = comm, role, comm.Get_rank() == 0
        self.own_file: RendezvousFile | None = None  # on rank 0
        self.lock: RankLock | None = None
        self.watch: Watch | None = None
        self.port: str | None = None
        self.joining = False  # whether MPI may be joining: the communicator must stay then

    def join(self, path: Any, timeout: Any) -> MPI.Intercomm:
        base, seconds = self._by_root(lambda: _checked(path, timeout))
        end = time.monotonic() + seconds
        name = self._by_root(lambda: self._write_file(base).path)
        self._do(partial(self._lock_file, name))
        self._by_root(lambda: self._own.publish(base, self.role, end))
        other = self._by_root(lambda: self._find_other(base, end, seconds))
        watch = self._do(partial(self._start_watch, other))
        self.joining = True
        port = self._by_root(lambda: self._agree_on_port(base, other, watch, end))
        limit = max(end, time.monotonic() + JOINING_SECONDS)

        def check_time() -> None:
            watch()
            if time.monotonic() > limit:
                raise ConnectError(f"MPI did not join the jobs within {seconds:g} s: end both, and start them again")

        try:
            intercomm: MPI.Intercomm = call_blocking(partial(self._in_mpi, port, other, watch), check_time)
        except CollectiveError as error:
            raise ConnectError(f"the other job was lost while MPI joined the two: {error}") from error
        if self.own_file is not None:
            self.own_file.remove()
        return intercomm

    def leave(self) -> None:
        """Clean up after an error. Not collective."""
        if self.own_file is not None:
            self.own_file.remove()
        self._close_files()
        if not self.joining:
            self.comm.Free()

    @property
    def _own(self) -> RendezvousFile:
        """This side's file, on rank 0."""
        assert self.own_file is not None
        return self.own_file

    def _write_file(self, base: str) -> RendezvousFile:
        """Write this side's file, on rank 0. Not collective."""
        self.own_file = RendezvousFile.write(base, self.role, {**_facts_of_mpi(), "ranks": self.comm.Get_size()})
        return self.own_file

    def _lock_file(self, name: str) -> None:
        """Lock this rank's byte of this side's file. Not collective."""
        self.lock = RankLock(name, self.comm.Get_rank())

    def _start_watch(self, other: RendezvousFile) -> Watch:
        """Watch the other side's processes. Not collective."""
        self.watch = Watch(other)
        return self.watch

    def _find_other(self, base: str, end: float, seconds: float) -> RendezvousFile:
        """Wait for the other side's file, and check that MPI can join the two; on rank 0. Not collective."""
        other = wait_for(base, self.role, end, seconds)
        try:
            _check_pair(self._own.about, other.about)
        except ConnectError:
            linger_end = time.monotonic() + LINGER_SECONDS  # the other side needs this side's file for the same check
            while time.monotonic() < linger_end and RendezvousFile.read(base, OTHER[self.role]):
                time.sleep(0.1)
            raise
        return other

    def _agree_on_port(self, base: str, other: RendezvousFile, watch: Watch, end: float) -> str:
        """Offer or accept the port; then both sides call MPI. On rank 0. Not collective."""
        if self.role == "connect":
            return accept_port(base, self._own, watch, end)
        try:
            self.port = MPI.Open_port()
        except MPI.Exception as caught:
            raise ConnectError(f"MPI cannot open a port: {caught}") from caught
        assert self.lock is not None
        offer_port(base, self.lock, other, self.port, watch, end)
        return self.port

    def _in_mpi(self, port: str, other: RendezvousFile, watch: Watch) -> MPI.Intercomm:
        """Accept or connect, and do the first blocking calls on the result. Collective over both sides."""
        info = MPI.Info.Create()
        info.Set("timeout", str(int(JOINING_SECONDS)))
        try:
            intercomm = (self.comm.Accept if self.role == "accept" else self.comm.Connect)(port, info)
        except MPI.Exception as caught:
            raise ConnectError(f"MPI cannot join the jobs{self._reason(other)}: {caught}") from caught
        finally:
            info.Free()
        # before any other use of the inter-communicator
        self._by_root(lambda: check_other_side(intercomm, self.role, self._own, other))
        merged: MergedIntercomm = merge_intercomm(intercomm, watch, self._release)
        merged.group.make_node()
        merged.group.combine()
        return intercomm

    def _reason(self, other: RendezvousFile) -> str:
        """A known reason why MPI cannot join such jobs; empty if there is none. Not collective."""
        ranks, mpi = (self.comm.Get_size(), other.about["ranks"]), other.about["mpi"]
        if ranks != (1, 1) or not mpi.startswith("MPICH"):
            return ""
        return (
            " (MPICH cannot tell apart two processes that were both started without mpiexec, such as two notebooks: start one "
            "of them by `mpiexec -n 1`)"
        )

    def _release(self) -> None:
        """Clean up when the inter-communicator is disconnected."""
        self._close_files()
        self.comm.Free()

    def _close_files(self) -> None:
        """Close the rendezvous files and the port. Not collective."""
        for file in (self.lock, self.watch):
            if file is not None:
                file.close()
        port, self.port = self.port, None
        if port is not None and not MPI.Is_finalized():
            MPI.Close_port(port)

    def _do(self, call: Callable[[], T], which: str = "rank {}: ") -> T:
        """Call a function on all ranks, and return its value on this rank. If it fails on one, all raise, naming the rank.

        Ranks wait for the last one without keeping a core busy.
        """
        with Guard() as guard:
            value: Any = guard.attempt(call)
            error = guard.take_interrupts()
            barrier = self.comm.Ibarrier()
            while not barrier.Test():
                time.sleep(0.002)
                force_interrupts()
            for rank, problem in enumerate(self.comm.allgather(error and self._in_words(error))):
                if problem is not None:
                    if error is not None and not isinstance(error, Exception):
                        raise error
                    raise ConnectError(which.format(rank) + problem)
            result: T = value
            return result

    def _by_root(self, call: Callable[[], T]) -> T:
        """Call a function on rank 0, and return its value on all ranks."""
        own = self._do(call, which="") if self.is_root else self._do(lambda: None, which="")
        value: T = self.comm.bcast(own)
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
    base = os.path.abspath(name)
    check_directory(os.path.dirname(base))
    if isinstance(timeout, bool) or not isinstance(timeout, Real) or not 0 < float(timeout) < 1e9:
        raise ConnectError(f"timeout = {timeout!r} must be a positive number of seconds")
    return base, float(timeout)


def _facts_of_mpi() -> dict[str, Any]:
    """Facts about this side's MPI, for the rendezvous file."""
    return {
        "mpi": MPI.Get_library_version().strip(" \n\0").splitlines()[0],
        "job": os.environ.get("PMIX_NAMESPACE"),
        "server": "OMPI_MCA_pmix_server_uri" in os.environ,
    }


def _check_pair(own: dict[str, Any], other: dict[str, Any]) -> None:
    """Raise a ConnectError if MPI cannot join the two sides; equal on both."""
    if own["mpi"] != other["mpi"]:
        raise ConnectError(f"this job runs on {own['mpi']}, the other on {other['mpi']}: both must run on the same MPI")
    needs_server = own["mpi"].startswith(("Open MPI v3", "Open MPI v4")) and own["job"] != other["job"]
    if needs_server and not (own["server"] and other["server"]):
        subject = "both jobs have" if own["server"] == other["server"] else "one of the jobs has"
        raise ConnectError(
            f"Open MPI joins two jobs only by a name server, and {subject} none: run `ompi-server --no-daemonize -r FILE`, and "
            "start both jobs by `mpiexec --ompi-server file:FILE ...`"
        )
