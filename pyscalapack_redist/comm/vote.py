"""Votes: what all ranks of a group must agree on before anything moves, and what is said where they do not.

A vote is a record of named fields, each with a rule (`_kernels.ring.RULES`). Ranks of one node cast it in shared memory
(`_kernels.ring.RingVote`), others by messages of MPI.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._kernels.ring import RULES, Ballot, Outcome, RingVote
from .channel import Channel
from .log_steps import LogSteps, Rows

__all__ = [
    "Ballot",
    "MPIVote",
    "Outcome",
    "RingVote",
    "Statement",
    "Verdict",
    "Vote",
    "differ",
    "digest",
    "error_in_words",
    "good",
    "verdict",
]


LONGEST_TEXT = 300  # characters of a statement in words


def digest(value: object) -> int:
    """A 62-bit number that is equal on all ranks for equal values (of plain Python types). Not collective."""
    text = value if isinstance(value, bytes) else repr(_plain(value)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") >> 2


def _plain(value: object) -> object:
    """The same without NumPy's scalars, which look unlike Python's."""
    if isinstance(value, np.generic):
        return value.item()
    return tuple([_plain(part) for part in value]) if isinstance(value, tuple) else value


class Statement(NamedTuple):
    """One of the things on which ranks must agree, as this rank has it: None, or a value, and both in words."""

    what: str
    value: Any
    text: str

    def told(self) -> Statement:
        """As it goes to other ranks: whatever the user gave as a value, it is a number, which can be sent and compared."""
        return Statement(self.what, None if self.value is None else digest(self.value), self.text[:LONGEST_TEXT])


Verdict = list[str | int] | None  # a text in which numbers stand for the names of ranks, which differ from side to side


def differ(what: str, said: Sequence[tuple[int, str]]) -> Verdict:
    """That ranks differ in something. Not collective."""
    parts: list[str | int] = [f"the ranks ask for different things: {what} must be the same on every rank, but "]
    for k, (rank, text) in enumerate(said[:4]):
        parts += [", " if k else "", rank, f" has {text}"]
    return parts


class MPIVote:
    """A vote by messages of MPI, in few steps (`LogSteps`), with which blocks of bytes for all ranks may travel.

    Votes must be cast in the same order on all ranks, and each is counted before the next one goes on.
    """

    def __init__(
        self, ballot: Ballot, steps: LogSteps, done: Callable[[LogSteps], None], rows: Rows | None = None
    ) -> None:
        self.outcome: Outcome | None = None
        self.number = 0
        self.ballot = ballot
        self._steps, self._done = steps, done
        ballot.numbers(steps.largest)
        steps.start(rows)

    @staticmethod
    def steps(channel: Channel, radix: int, tag: int) -> LogSteps:
        """What votes go by, one after another."""
        return LogSteps(channel, radix, 2 * len(RULES), tag=tag)

    def post(self) -> bool:
        """It is posted from the beginning."""
        return True

    def test(self, block: bool = False) -> bool:
        """Whether all ranks have voted."""
        if self.outcome is None and self._steps.advance():
            self.outcome = Outcome.of(self.ballot, self._steps.largest)
            self._done(self._steps)
        return self.outcome is not None


Vote = RingVote | MPIVote


def good(outcome: Outcome) -> bool:
    """Whether no rank failed and none disagree."""
    return not outcome.failed and not outcome.disputed


def error_in_words(error: BaseException) -> str:
    """An error as other ranks are told of it."""
    return f"{type(error).__name__}: {error}"


def verdict(told: Sequence[tuple[str | None, Sequence[Statement], object]]) -> Verdict:
    """Why no rank may go on, from what all have told: its error, and its statements. None if nothing is wrong."""
    for rank, (error, _, _) in enumerate(told):
        if error is not None:
            return [rank, f" could not take part: {error}"]
    for k in range(min(len(statements) for _, statements, _ in told)):
        first: dict[Any, tuple[int, str]] = {}
        for rank, (_, statements, _) in enumerate(told):
            what, value, text = statements[k]
            if value is not None:
                first.setdefault((what, value), (rank, text))
        if len(first) > 1:
            return differ(told[0][1][k].what, list(first.values()))
    said = any(statements for _, statements, _ in told)
    return ["the ranks ask for different things"] if said else None
