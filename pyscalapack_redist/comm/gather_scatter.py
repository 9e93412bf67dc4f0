"""A nonblocking gather of Python objects to the first rank of a group, which scatters a reply to each rank."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .channel import Channel, Request
from .guard import Guard
from .vote import Verdict, describe_error


class Failure(NamedTuple):
    """An error of a gather-scatter, sent in place of a value or a reply."""

    rank: int
    text: str


class GatherScatter:
    """A nonblocking gather of Python objects to the group's first rank, which scatters a reply to each rank.

    For rare cases: texts of errors, objects that not all ranks know, the set-up of a node. All ranks start one. Its messages
    have a tag of their own, so other operations in flight may overtake it. If a rank cannot pickle its value, or `reply`
    raises, all ranks get a `Failure`.

    Parameters
    ----------
    channel : Channel
        The group's channel.
    tag : int
        A tag that no other message has meanwhile.
    value : object
        This rank's value; anything that can be pickled.
    reply : callable
        Called on the first rank: makes the list of replies, by rank, from the list of values.
    """

    def __init__(self, channel: Channel, tag: int, value: Any, reply: Callable[[list[Any]], list[Any]]) -> None:
        self._channel, self._tag, self._make_replies = channel, tag, reply
        self._values: list[Any] = [None] * channel.size
        self._missing = channel.size - 1 if channel.rank == 0 else 1
        self._requests: list[Request] = []
        self._receive: tuple[int, Any, Request] | None = None
        self._buffers: list[Any] = []  # of sends that are not complete
        self.done = False
        self.reply: Any = None
        self.error: BaseException | None = None  # this rank's
        if channel.rank == 0:
            self._values[0] = value
        else:
            guard = Guard()
            data = guard.attempt(lambda: pickle.dumps(value), is_open=False) or b""
            self._send(0, data if guard.error is None else pickle.dumps(self._record(guard.error)))

    @property
    def failure(self) -> Verdict:
        """The reason why there is no reply; None if there is one."""
        return [self.reply.rank, f" could not take part: {self.reply.text}"] if type(self.reply) is Failure else None

    def _record(self, error: BaseException) -> Failure:
        self.error = error
        return Failure(self._channel.rank, describe_error(error))

    def _send(self, peer: int, pickled: bytes) -> None:
        data = np.frombuffer(pickled, np.uint8)
        self._buffers.append(data)
        self._requests.append(self._channel.send(data, peer, self._tag))

    def _receive_value(self) -> bool:
        """Make progress on the next receive; True if it has completed."""
        if self._receive is None:
            message = self._channel.probe(None if self._channel.rank == 0 else 0, self._tag)
            if message is None:
                return False
            data = np.empty(message.nbytes, np.uint8)
            self._receive = message.peer, data, message.receive(data)
        peer, data, request = self._receive
        if not request.Test():
            return False
        self._receive = None
        guard = Guard()
        self._values[peer] = guard.attempt(lambda: pickle.loads(data.tobytes()), is_open=False)
        if guard.error is not None:  # the types of a value may be unknown here
            self._values[peer] = self._record(guard.error)
        return True

    def advance(self) -> bool:
        """Make progress; True when this rank has its reply and its sends are complete."""
        while self._missing and self._receive_value():
            self._missing -= 1
            if self._channel.rank == 0 and not self._missing:
                self._scatter()
            elif self._channel.rank:
                self.reply = self._values[0]
        if not self._missing and self._channel.size == 1 and not self.done:
            self._scatter()
        self._requests = [request for request in self._requests if not request.Test()]
        self.done = not self._missing and not self._requests
        return self.done

    def _scatter(self) -> None:
        failure = next((value for value in self._values if type(value) is Failure), None)

        def make() -> tuple[Any, list[bytes]]:
            replies = [failure] * self._channel.size if failure is not None else self._make_replies(self._values)
            pickled: list[bytes] = []
            for last, reply in itertools.pairwise(replies):
                pickled.append(pickled[-1] if pickled and reply is last else pickle.dumps(reply))
            return replies[0], pickled

        guard = Guard()
        replies = guard.attempt(make, is_open=False)
        if guard.error is not None or replies is None:
            assert guard.error is not None
            own_failure = self._record(guard.error)
            replies = own_failure, [pickle.dumps(own_failure)] * (self._channel.size - 1)
        self.reply, pickled = replies
        for peer, data in enumerate(pickled, 1):
            self._send(peer, data)
