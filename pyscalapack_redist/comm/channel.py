"""Channels: the nonblocking operations of MPI that transfers use.

All messages go through a channel, so that tests/interleavings can replace it by one that delays messages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from .mpi import MPI


class Request(Protocol):
    """A nonblocking operation."""

    def Test(self) -> bool:  # noqa: N802 - as in MPI
        """Whether it is complete."""


class Persistent(Request, Protocol):
    """A nonblocking operation that can be started again once it is complete."""

    def Start(self) -> None:  # noqa: N802
        """Start it."""

    def Free(self) -> None:  # noqa: N802
        """Free it."""


class Incoming(Protocol):
    """A message that has arrived and is matched, to be received."""

    peer: int
    nbytes: int

    def receive(self, buffer: Any) -> Request:
        """Start to receive it."""


class Channel(Protocol):
    """Nonblocking messages among the ranks of a group. Buffers are those of mpi4py."""

    rank: int
    size: int
    tags: int  # 0 to tags - 1
    nothing: Any  # a null request, for `first_done`

    def send(self, buffer: Any, peer: int, tag: int, /) -> Request:
        """Start to send."""

    def send_synchronously(self, buffer: Any, peer: int, tag: int, /) -> Request:
        """Start to send in synchronous mode: it completes when the receive has begun."""

    def receive(self, buffer: Any, peer: int, tag: int, /) -> Request:
        """Start to receive a message of a rank with a tag."""

    def send_init(self, buffer: Any, peer: int, tag: int, /) -> Persistent:
        """Make a persistent send."""

    def receive_init(self, buffer: Any, peer: int, tag: int, /) -> Persistent:
        """Make a persistent receive."""

    def start_all(self, requests: Sequence[Any], /) -> None:
        """Start persistent requests."""

    def all_done(self, requests: Sequence[Any], /) -> bool:
        """Whether all requests are complete."""

    def free_all(self, requests: Sequence[Any], /) -> None:
        """Free persistent requests."""

    def probe(self, peer: int | None, tag: int) -> Incoming | None:
        """A message that has arrived from a rank, or from any if None, with a tag; None if there is none."""

    def first_done(self, requests: Sequence[Any]) -> int | None:
        """The index of a request that has completed since the last call; None if none has."""

    def make_progress(self) -> object:
        """Let MPI make progress."""


class MPIChannel:
    """A channel on a private communicator."""

    def __init__(self, comm: MPI.Intracomm) -> None:
        self.comm = comm
        self.rank, self.size = comm.Get_rank(), comm.Get_size()
        self.tags = min(int(comm.Get_attr(MPI.TAG_UB) or 32767), 2**30)
        self.send, self.receive, self.make_progress = comm.Isend, comm.Irecv, comm.Iprobe
        self.send_synchronously = comm.Issend
        self.send_init, self.receive_init = comm.Send_init, comm.Recv_init
        self.start_all: Callable[[Sequence[Any]], None] = MPI.Prequest.Startall  # type: ignore[assignment]
        self.all_done: Callable[[Sequence[Any]], bool] = MPI.Request.Testall
        self.free_all = free_all
        self.nothing, self._testany = MPI.REQUEST_NULL, MPI.Request.Testany
        self._any, self._status, self._undefined = MPI.ANY_SOURCE, MPI.Status(), MPI.UNDEFINED

    def probe(self, peer: int | None, tag: int) -> Incoming | None:
        """A message that has arrived from a rank, or from any if None, with a tag; None if there is none."""
        message = self.comm.Improbe(self._any if peer is None else peer, tag, self._status)
        return None if message is None else _MatchedMessage(message, self._status)

    def first_done(self, requests: Sequence[Any]) -> int | None:
        """The index of a request that has completed since the last call; None if none has."""
        number, done = self._testany(requests)
        return number if done and number != self._undefined else None


def free_all(requests: Sequence[Any]) -> None:
    """Free requests, a local operation."""
    if not MPI.Is_finalized():
        for request in requests:
            request.Free()


class _MatchedMessage:
    def __init__(self, message: MPI.Message, status: MPI.Status) -> None:
        self.peer, self.nbytes = status.source, status.Get_count(MPI.BYTE)
        self._message = message

    def receive(self, buffer: Any) -> Request:
        """Start to receive it."""
        return self._message.Irecv(buffer)
