"""Votes: records of named fields, each with a rule (`_kernels.ring.RULES`), that a group counts before data move.

Ranks of one node count them in shared memory (`_kernels.ring.RingVoting`), others by MPI messages (`log_steps`), for which one
rank of each node is enough. A verdict names the ranks that disagree.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._kernels.ring import RULES, NodeVotes, Outcome, Ring, RingVoting, Vote
from .channel import Channel
from .guard import Guard
from .log_steps import LogSteps, Rows

__all__ = [
    "MPIVoting",
    "NodeVoting",
    "Outcome",
    "RingVoting",
    "Statement",
    "Verdict",
    "Vote",
    "Voting",
    "describe_dispute",
    "describe_error",
    "digest",
    "find_verdict",
    "is_good",
]

MOST_CHARACTERS = 300  # of a statement's text
PLAIN = frozenset({type(None), bool, int, str})


def digest(value: object) -> int:
    """A 62-bit number, equal on all ranks for equal values of plain Python types."""
    text = value if isinstance(value, bytes) else repr(_plain(value)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") >> 2


def _plain(value: object) -> object:
    """A value with NumPy scalars replaced by Python's, whose repr is the same in all versions."""
    if isinstance(value, np.generic):
        return value.item()
    if not isinstance(value, tuple):
        return value
    return tuple([part if type(part) in PLAIN else _plain(part) for part in value])


class Statement(NamedTuple):
    """A value that must be equal on all ranks: its name, its value or None, and its text.

    After a vote on digests has failed, ranks compare their statements one by one: the first whose values differ is the error's
    subject. A rank whose value is None is not compared.
    """

    subject: str
    value: Any
    text: str

    def for_sending(self) -> Statement:
        """The statement with a digest in place of the value, which may be any object of the user's."""
        return Statement(self.subject, None if self.value is None else digest(self.value), self.text[:MOST_CHARACTERS])


Verdict = list[str | int] | None  # parts of a text; an int stands for a rank, whose name differs from side to side


def describe_dispute(subject: str, values: Sequence[tuple[int, str]]) -> Verdict:
    """The verdict that ranks have different values."""
    parts: list[str | int] = [f"the ranks ask for different things: {subject} must be the same on every rank, but "]
    for k, (rank, text) in enumerate(values[:4]):
        parts += [", " if k else "", rank, f" has {text}"]
    return parts


class MPIVoting:
    """The count of votes by MPI messages (`LogSteps`), which may carry blocks of bytes for all ranks.

    Votes are cast in the same order on all ranks, and each is counted before the next one makes progress.
    """

    def __init__(self, vote: Vote, steps: LogSteps, done: Callable[[LogSteps], None], rows: Rows | None = None) -> None:
        self.outcome: Outcome | None = None
        self.number = 0
        self.vote = vote
        self._steps, self._done = steps, done
        vote.numbers(steps.largest)
        steps.start(rows)

    @staticmethod
    def steps(channel: Channel, voters: Sequence[int], radix: int, tag: int) -> LogSteps:
        """Make the steps for votes, one after another, among these ranks."""
        return LogSteps(channel, radix, 2 * len(RULES), tag=tag, members=voters)

    def post(self) -> bool:
        """True: the constructor posts the vote."""
        return True

    def test(self, block: bool = False) -> bool:
        """Make progress; True when all ranks have voted."""
        if self.outcome is None and self._steps.advance():
            self.outcome = Outcome.of(self.vote, self._steps.largest)
            self._done(self._steps)
        return self.outcome is not None


class NodeVoting:
    """The count of votes in three steps: within the node, between the first ranks of all nodes, and back within the node.

    Within the node they go through its ring, and between nodes by messages.

    Parameters
    ----------
    vote : Vote
        This rank's vote.
    ring : Ring
        The ring of its node.
    steps, done
        As for `MPIVoting`, on the first rank of the node; None for the steps on others.
    """

    def __init__(self, vote: Vote, ring: Ring, steps: LogSteps | None, done: Callable[[LogSteps], None]) -> None:
        self.outcome: Outcome | None = None
        self.number = 0
        self.vote = vote
        self._votes, self._steps, self._done = NodeVotes(ring, vote), steps, done
        self._is_between = False  # whether the votes of the node are on their way to the others
        self._numbers = np.empty(2 * len(RULES), np.int64)

    def post(self) -> bool:
        """Post the vote; True when it is posted. Votes cast before it must be posted."""
        return self._votes.post()

    def test(self, block: bool = False) -> bool:
        """Make progress; True when all ranks have voted. With `block`, wait for a while for ranks of the node."""
        if self.outcome is None and self._is_counted(block):
            self.outcome = Outcome.of(self.vote, self._numbers)
        return self.outcome is not None

    def _is_counted(self, block: bool) -> bool:
        steps, numbers = self._steps, self._numbers
        if steps is None:
            return self._votes.receive(numbers, block)
        if not self._is_between:
            if not self._votes.collect(steps.largest, block):
                return False
            self._is_between = True
            steps.start()
        if not steps.advance():
            return False
        numbers[:] = steps.largest
        self._votes.reply(numbers)
        self._done(steps)
        return True


Voting = RingVoting | MPIVoting | NodeVoting


def is_good(outcome: Outcome) -> bool:
    """Whether no rank failed and no field is disputed."""
    return not outcome.failed and not outcome.disputed


def describe_error(error: BaseException) -> str:
    """The text of an error for other ranks. Never raises: an error of the user's may have no text."""
    text = Guard().attempt(lambda: f"{type(error).__name__}: {error}", is_open=False)
    return f"{type(error).__name__}, whose text cannot be made" if text is None else text


def find_verdict(reports: Sequence[tuple[str | None, Sequence[Statement], object]]) -> Verdict:
    """The reason for a refusal, from the error and the statements of each rank; None if there is none."""
    for rank, (error, _, _) in enumerate(reports):
        if error is not None:
            return [rank, f" could not take part: {error}"]
    for k in range(min(len(statements) for _, statements, _ in reports)):
        first: dict[Any, tuple[int, str]] = {}
        for rank, (_, statements, _) in enumerate(reports):
            subject, value, text = statements[k]
            if value is not None:
                first.setdefault((subject, value), (rank, text))
        if len(first) > 1:
            return describe_dispute(reports[0][1][k].subject, list(first.values()))
    has_statements = any(statements for _, statements, _ in reports)
    return ["the ranks ask for different things"] if has_statements else None
