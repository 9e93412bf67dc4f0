"""Agreement: one vote, and what follows from it, also on a rank where an interrupt has ended the waiting for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from .conversation import Conversation, Refusal, all_tell
from .vote import Ballot, Outcome, Statement, Vote, digest, error_in_words, good

if TYPE_CHECKING:
    from .group import Group

__all__ = ["Agreement", "read_alike"]

T = TypeVar("T")


class Agreement:
    """An agreement that an interrupt has ended on this rank, which still has its part in what the others do.

    Parameters
    ----------
    group : Group
        The ranks.
    ticket : int
        That of the vote.
    vote : Vote
        What this rank has cast.
    error : BaseException
        What the others are told, if they ask: what this rank found wrong, or the interrupt.
    statements, asks : callable
        As for `Group.agree`.
    """

    def __init__(
        self,
        group: Group,
        ticket: int,
        vote: Vote,
        error: BaseException,
        statements: Callable[[], Sequence[Statement]],
        asks: Callable[[Outcome], bool],
    ) -> None:
        self._group, self._ticket, self._vote = group, ticket, vote
        self._error, self._statements, self._asks = error, statements, asks
        self._talk: Conversation | Refusal | None = None

    def advance(self, block: bool = False) -> bool:
        """Go on; True when the others need nothing more of this rank. It never raises."""
        group = self._group
        if group.broken is not None:
            return True
        if self._talk is None:
            outcome = group.count(self._vote)
            if outcome is None:
                return False
            if not good(outcome):
                self._talk = group.refusal(self._ticket, self._error, self._statements)
            elif self._asks(outcome):
                self._talk = all_tell(group.channel, self._ticket, error_in_words(self._error))
            else:
                return True
        return self._talk.advance()


def read_alike(group: Group, what: str, read: Callable[[], T | None], number: Callable[[T], int]) -> T | None:
    """What this rank reads, or None; all raise where one cannot, or two read different things. Collective over the group.

    Parameters
    ----------
    group : Group
        The ranks.
    what : str
        What is read, in words.
    read : callable
        Gives it, or None on a rank that cannot know.
    number : callable
        A digest of it.
    """
    mine, error = None, None
    try:
        mine = read()
    except Exception as caught:
        error = caught
    found = None if mine is None else number(mine)
    group.agree(
        Ballot(failed=group.failed(error), call=digest(what), source=found),
        error,
        lambda: [Statement(what, found, repr(mine))],
        lambda outcome: True,
    )
    return mine
