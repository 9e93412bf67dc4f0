"""Sums over the replicas of A: each replica is a summand, and the stages of the plan are turns.

In a turn a rank gets elements of one summand at most, those of the first in its first turn, then those of the others in their
order. So sums have the same bits whatever comes first, and wherever B is. B's ranks begin one turn after another: each
rank would wait for the same replica otherwise, and in turn each replica for all others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..layout.descriptor import Descriptor
from ..layout.tiles import Layout
from .messages import RankMessages
from .options import Options
from .stages import Move


def summands_of(layout: Layout, options: Options) -> list[Layout]:
    """The layouts of the summands: of each replica of A with reduce="sum", else A's."""
    if options.reduce is None or layout.copies == 1 or not isinstance(layout, Descriptor):
        return [layout]
    return [*layout._replicas()]


def turns_of(moves: Sequence[Move], first: Mapping[int, int], me: int) -> list[Move]:
    """The part of all summands' moves that each turn has on this rank.

    Parameters
    ----------
    moves : sequence of Move
        The whole move of each summand.
    first : mapping
        For the ranks of B, by their number in the group: the turn in which they get elements of the first summand.
    me : int
        This rank's number in the group.
    """
    turns = []
    for turn in range(2 * len(moves) - 1):
        messages = RankMessages([], [], [])
        for k, move in enumerate(moves):
            for chosen, whole in ((messages.sends, move.messages.sends), (messages.copies, move.messages.copies)):
                chosen += [message for message in whole if first[message.peer] + k == turn]
        summand = turn - first.get(me, 0)
        if 0 <= summand < len(moves):
            messages.receives.extend(moves[summand].messages.receives)
        turns.append(moves[0]._replace(messages=messages, adds=summand > 0))
    return turns


def first_turns(numbers: Sequence[int], summands: int) -> dict[int, int]:
    """The turn in which ranks of B, by their numbers in the group, get elements of the first summand."""
    return {number: k % summands for k, number in enumerate(numbers)}
