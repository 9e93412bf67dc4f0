"""All that the engine asks of MPI while transfers are in flight: nonblocking operations, and whether they have completed.

A channel is the only object through which messages go, so that another one can stand in for it: tests/interleavings has
one whose messages are delayed at will.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from .mpi import MPI


class Request(Protocol):
    """A nonblocking operation."""

    def Test(self) -> bool:  # noqa: N802 - as MPI's requests are asked
        """Whether it has completed."""


class Persistent(Request, Protocol):
    """A nonblocking operation that can be started again once it has completed."""

    def Start(self) -> None:  # noqa: N802
        """Start it."""

    def Free(self) -> None:  # noqa: N802
        """It is not started any more."""


class Incoming(Protocol):
    """A message that has come and was taken out of the queue, to be received."""

    peer: int
    nbytes: int

    def receive(self, buffer: Any) -> Request:
        """Start to receive it."""


class Channel(Protocol):
    """Nonblocking messages among the ranks of a group. A buffer is what mpi4py takes for one."""

    rank: int
    size: int
    tags: int  # 0 to tags - 1
    nothing: Any  # an operation that never completes, for `first_done`

    def send(self, buffer: Any, peer: int, tag: int, /) -> Request:
        """Start to send."""

    def send_synchronously(self, buffer: Any, peer: int, tag: int, /) -> Request:
        """Start to send in synchronous mode: it completes when the receive has begun, however short the message."""

    def receive(self, buffer: Any, peer: int, tag: int, /) -> Request:
        """Start to receive what a rank sends with that tag."""

    def send_init(self, buffer: Any, peer: int, tag: int, /) -> Persistent:
        """What sends a buffer whenever it is started."""

    def receive_init(self, buffer: Any, peer: int, tag: int, /) -> Persistent:
        """What receives into a buffer whenever it is started."""

    def start_all(self, requests: Sequence[Any], /) -> None:
        """Start what was made by `send_init` or `receive_init`."""

    def all_done(self, requests: Sequence[Any], /) -> bool:
        """Whether all that were started have completed."""

    def free_all(self, requests: Sequence[Any], /) -> None:
        """They are not started any more."""

    def probe(self, peer: int | None, tag: int) -> Incoming | None:
        """A message that has come from a rank, or from any, with that tag; None where there is none."""

    def first_done(self, requests: Sequence[Any]) -> int | None:
        """The place of a request that has completed since it was asked for last; None where none has."""

    def make_progress(self) -> object:
        """Let messages move."""


class MPIChannel:
    """Messages on a communicator that nobody else uses."""

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
        """A message that has come from a rank, or from any, with that tag; None where there is none."""
        found = self.comm.Improbe(self._any if peer is None else peer, tag, self._status)
        return None if found is None else _Matched(found, self._status)

    def first_done(self, requests: Sequence[Any]) -> int | None:
        """The place of a request that has completed since it was asked for last; None where none has."""
        number, done = self._testany(requests)
        return number if done and number != self._undefined else None


def free_all(requests: Sequence[Any]) -> None:
    """Free requests: a local operation. Not collective."""
    if not MPI.Is_finalized():
        for request in requests:
            request.Free()


class _Matched:
    def __init__(self, message: MPI.Message, status: MPI.Status) -> None:
        self.peer, self.nbytes = status.source, status.Get_count(MPI.BYTE)
        self._message = message

    def receive(self, buffer: Any) -> Request:
        """Start to receive it."""
        return self._message.Irecv(buffer)
