"""Conversation: every rank of a group tells the first one something, and the first one answers all of them.

For what happens seldom: errors in words, objects that not all ranks know, the set-up of a node. It goes by messages with a
tag of its own, so it needs no order among whatever else is under way, and it is advanced without blocking.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .channel import Channel, Request
from .vote import Verdict, error_in_words

if TYPE_CHECKING:
    from .group import Group

__all__ = ["DATA", "TAGS", "TALK", "Conversation", "Refusal", "all_tell"]

DATA, TALK, TAGS = range(3)  # of one ticket: the tag of its messages, that of conversations, and how many tags it has


class Untold(NamedTuple):
    """In place of what a rank could not tell, or the first one could not answer: why."""

    rank: int
    text: str


class Conversation:
    """One question and its answer. Collective over the group; the ranks may start and advance it when they like.

    What fails on a rank, in pickling or in `answers`, is told to all in place of the answer.

    Parameters
    ----------
    channel : Channel
        The group's.
    tag : int
        Of no other messages at the same time.
    mine : object
        What this rank tells; anything that can be pickled.
    answers : callable
        On the first rank: from what all ranks told, by rank, the answer to each.
    """

    def __init__(self, channel: Channel, tag: int, mine: Any, answers: Callable[[list[Any]], list[Any]]) -> None:
        self._channel, self._tag, self._answers = channel, tag, answers
        self._told: list[Any] = [None] * channel.size
        self._missing = channel.size - 1 if channel.rank == 0 else 1
        self._requests: list[Request] = []
        self._coming: tuple[int, Any, Request] | None = None
        self._kept: list[Any] = []  # MPI reads it until a send has completed
        self.done = False
        self.answer: Any = None
        self.error: Exception | None = None  # what failed on this rank
        if channel.rank == 0:
            self._told[0] = mine
        else:
            try:
                data = pickle.dumps(mine)
            except Exception as caught:
                data = pickle.dumps(self._untold(caught))
            self._send(0, data)

    @property
    def failure(self) -> Verdict:
        """Why there is no answer; None if there is one."""
        return [self.answer.rank, f" could not take part: {self.answer.text}"] if type(self.answer) is Untold else None

    def _untold(self, error: Exception) -> Untold:
        self.error = error
        return Untold(self._channel.rank, error_in_words(error))

    def _send(self, peer: int, pickled: bytes) -> None:
        data = np.frombuffer(pickled, np.uint8)
        self._kept.append(data)
        self._requests.append(self._channel.send(data, peer, self._tag))

    def _take(self) -> bool:
        """Receive what has come; True where something has come in whole."""
        if self._coming is None:
            found = self._channel.probe(None if self._channel.rank == 0 else 0, self._tag)
            if found is None:
                return False
            data = np.empty(found.nbytes, np.uint8)
            self._coming = found.peer, data, found.receive(data)
        peer, data, request = self._coming
        if not request.Test():
            return False
        self._coming = None
        self._told[peer] = pickle.loads(data.tobytes())
        return True

    def advance(self) -> bool:
        """Go on; True when this rank has its answer, and what it sent is on its way. Not collective."""
        while self._missing and self._take():
            self._missing -= 1
            if self._channel.rank == 0 and not self._missing:
                self._reply()
            elif self._channel.rank:
                self.answer = self._told[0]
        if not self._missing and self._channel.size == 1 and not self.done:
            self._reply()
        self._requests = [request for request in self._requests if not request.Test()]
        self.done = not self._missing and not self._requests
        return self.done

    def _reply(self) -> None:
        untold = next((mine for mine in self._told if type(mine) is Untold), None)
        try:
            answers = [untold] * self._channel.size if untold is not None else self._answers(self._told)
            pickled = [pickle.dumps(answer) for answer in answers[1:]]
        except Exception as caught:
            answers = [self._untold(caught)]
            pickled = [pickle.dumps(answers[0])] * (self._channel.size - 1)
        self.answer = answers[0]
        for peer, data in enumerate(pickled, 1):
            self._send(peer, data)


def all_tell(
    channel: Channel, ticket: int, mine: Any, answer: Callable[[list[Any]], Any] | None = None
) -> Conversation:
    """All get what all tell, by rank, or what the first one makes of that."""

    def answers(told: list[Any]) -> list[Any]:
        return [told if answer is None else answer(told)] * len(told)

    return Conversation(channel, ticket + TALK, mine, answers)


class Refusal:
    """What ranks tell one another after a vote that was not good. `answer` says why, on all; None if nothing is wrong.

    What others have sent before they knew the vote is received, and forgotten.
    """

    def __init__(self, group: Group, ticket: int, talk: Conversation) -> None:
        self._group, self._ticket, self._talk = group, ticket, talk
        self._come: list[int] | None = None  # the ranks whose messages are still to be received
        self._receiving: tuple[Any, Request] | None = None
        self.answer: str | None = None

    def advance(self) -> bool:
        """Go on; True when this rank has its answer, and nothing for it is on its way. Not collective."""
        if self._come is None:
            if not self._talk.advance():
                return False
            if self._talk.failure is not None:  # nobody knows which messages are on their way to whom
                self.answer = self._group.in_words(self._talk.failure)
                self._group.break_off(self.answer)
                return True
            verdict, come = self._talk.answer
            self.answer = None if verdict is None else self._group.in_words(verdict)
            self._come = [] if self.answer is None else list(come)
        while self._come:
            if self._receiving is None:
                found = self._group.channel.probe(self._come[0], self._ticket + DATA)
                if found is None:
                    return False
                data = np.empty(found.nbytes, np.uint8)
                self._receiving = data, found.receive(data)
            if not self._receiving[1].Test():
                return False
            self._receiving = None
            del self._come[0]
        return True
