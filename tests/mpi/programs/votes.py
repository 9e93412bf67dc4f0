"""Votes of ranks on several nodes: every rank learns the same outcome, whatever each votes, and several are open at a time.

Arguments: how many votes.
"""

from __future__ import annotations

import sys

import numpy as np
from mpi4py import MPI

from pyscalapack_redist._kernels.ring import RULES, UNKNOWN
from pyscalapack_redist.comm.groups import group_of
from pyscalapack_redist.comm.progress import wait_until
from pyscalapack_redist.comm.vote import NodeVoting, Vote, Voting

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.Get_rank(), WORLD.Get_size()
EQUAL = [name for name, rule in RULES.items() if rule == "equal"]
MOST_OPEN = 11  # more than fit into a ring


def drawn(number: int, rank: int) -> dict[str, int | None]:
    """What a rank votes: few different values, some unknown."""
    draw = np.random.default_rng([number, rank]).integers
    same = int(np.random.default_rng(number).integers(-5, 5))
    fields: dict[str, int | None] = {name: int(draw(0, 3)) for name in RULES if name not in EQUAL}
    for name in EQUAL:
        fields[name] = (None, same, same, int(draw(-5, 5)))[int(draw(4 if number % 2 else 3))]
    return fields


def check(number: int, voting: Voting) -> None:
    """Compare an outcome with what all ranks have voted."""
    votes, outcome = [drawn(number, rank) for rank in range(SIZE)], voting.outcome
    assert outcome is not None
    disputed = []
    for name in RULES:
        known = [vote[name] for vote in votes if vote[name] is not None]
        largest = max(known) if known else None
        assert getattr(outcome, name) == largest, (number, name, getattr(outcome, name), known)
        if name in EQUAL and len(set(known)) > 1:
            disputed.append(name)
    assert outcome.disputed == disputed, (number, outcome.disputed, disputed)


def main(votes: int) -> None:
    assert UNKNOWN < -5
    group = group_of(WORLD, tuple(range(SIZE)))
    node = group.make_node()
    leaders = node.leaders.tolist()
    assert node.voters == sorted(set(leaders)), node.voters
    open_votes: list[tuple[int, Voting]] = []
    for number in range(votes):
        open_votes.append((number, group.cast_vote(Vote(**drawn(number, RANK)))))
        assert isinstance(open_votes[-1][1], NodeVoting) == (leaders.count(leaders[RANK]) > 1)
        while open_votes and (len(open_votes) == MOST_OPEN or (number + RANK) % 5 == 0):
            first, voting = open_votes.pop(0)
            wait_until(lambda: group.count(voting, block=first % 2 == 0))  # noqa: B023 - called here
            check(first, voting)
    for number, voting in open_votes:
        wait_until(lambda: group.count(voting))  # noqa: B023
        check(number, voting)


if __name__ == "__main__":
    main(int(sys.argv[1]))
    WORLD.Barrier()
    if RANK == 0:
        print("OK", flush=True)
