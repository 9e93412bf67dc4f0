"""One error, or one answer, on all ranks of a communicator.

Whatever a rank finds wrong with its own arguments, it still takes part in one small reduction; then every rank raises,
or none does. `Participants` holds what a set of processes keeps for this: a private communicator, so that no message of
the user's is ever mixed with ours, and it goes with the user's communicator as an attribute of it.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from ._ring import NUMBERS_OF_A_VOTE, Vote
from .errors import CollectiveError
from .links import Links, links_between
from .node import Node
from .patience import until

if TYPE_CHECKING:
    from mpi4py import MPI

__all__ = ["Ballot", "Participants", "digest", "participants"]

T = TypeVar("T")

NO_OPINION = np.iinfo(np.int64).min
GROUP_TAG = 21_317  # of Create_group, which needs one that concurrent creations do not share
PLANS_KEPT = 32
NOTES = 4


def digest(value: object) -> int:
    """A 62-bit number that is equal on all ranks for equal values (of plain Python types). Not collective."""
    text = value if isinstance(value, bytes) else repr(value).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") >> 2


class Ballot:
    """What one rank puts into the reduction: whether it failed, and its opinion on a few questions. Not collective.

    Parameters
    ----------
    questions : sequence of str
        What is asked, in words for the error message. On each, all ranks with an opinion must have the same one.
    extras : int
        Further numbers at the end of `mine`, of which `all` has the largest.
    """

    def __init__(self, questions: Sequence[str], extras: int = 0) -> None:
        self.questions = tuple(questions)
        self._end = 1 + 2 * len(self.questions)
        self.mine = np.zeros(self._end + extras, np.int64)
        self.all = np.empty_like(self.mine)

    def fill(self, rank_from_end: int, opinions: Sequence[int | None], note: int = 0) -> None:
        """`rank_from_end` is 0 where this rank is well, else the communicator's size less its rank; `note` is below NOTES."""
        numbers = [NOTES * rank_from_end + note]
        for opinion in opinions:
            numbers += (NO_OPINION, NO_OPINION) if opinion is None else (opinion, -opinion)
        self.mine[: self._end] = numbers

    @property
    def unanimous(self) -> bool:
        """Whether no rank failed and no two differ, after the reduction."""
        numbers = self.all.tolist()
        if numbers[0] >= NOTES:
            return False
        for k in range(1, self._end, 2):  # noqa: SIM110 - a third of the time of a generator
            if numbers[k] != -numbers[k + 1] and numbers[k] != NO_OPINION:
                return False
        return True

    def failed_rank(self, size: int) -> int | None:
        """The lowest rank that failed, after the reduction."""
        return size - int(self.all[0]) // NOTES if self.all[0] >= NOTES else None

    @property
    def note(self) -> int:
        """The largest note of all ranks, after a reduction in which none failed."""
        return int(self.all[0])

    def disputed(self) -> list[int]:
        """The questions on which two ranks differ, after the reduction."""
        top, bottom = self.all[1 : self._end : 2], self.all[2 : self._end : 2]
        return [int(k) for k in np.flatnonzero((top != NO_OPINION) & (top != -bottom))]

    def answer(self, question: int) -> int | None:
        """What all that had an opinion said, after the reduction; None where nobody had one."""
        value = int(self.all[1 + 2 * question])
        return None if value == NO_OPINION else value

    @property
    def answers(self) -> tuple[int | None, ...]:
        """The answers to all questions, after the reduction."""
        tops = self.all[1 : self._end : 2].tolist()
        return tuple([None if top == NO_OPINION else top for top in tops])


class Participants:
    """Processes that redistribute among themselves: their private communicator, plans and staging memory.

    Attributes
    ----------
    comm : MPI.Intracomm
        Private communicator of these processes.
    ranks : tuple of int
        Their ranks in the user's communicator, in the order of their ranks in `comm`.
    plans : OrderedDict
        Plans made, the most recently used last.
    in_flight : dict
        Transfers under way on the user's communicator, also among other participants, in the order in which they were
        started.
    collectives : MPI.Intracomm or None
        Communicator of the same processes for exchanges that make collective calls: apart from `comm`, where votes on
        later transfers may come in between.
    node : Node or None
        The ranks of this node and the memory that they share, once it was asked for.
    links : Links or None
        What messages between nodes cost, once it was asked for; None on one node.
    names : tuple of str
        What each is called in messages: "rank 3".
    watch : callable or None
        Where some of these processes may end without the others (two jobs): raises CollectiveError once they have.
        Nothing waits inside MPI then.
    others : frozenset of int
        The ranks in `comm` of these processes.
    measuring_tag, repeating_tag : int
        Tags that no transfer has: to measure links, and of runs that are kept ready, of which there is one at a time.
    """

    def __init__(self, comm: MPI.Intracomm, ranks: tuple[int, ...], in_flight: dict[Any, None]) -> None:
        from mpi4py import MPI

        self.comm = comm
        self.ranks = ranks
        self.rank, self.size = comm.Get_rank(), comm.Get_size()
        self.number = {rank: k for k, rank in enumerate(ranks)}
        self.plans: OrderedDict[Any, Any] = OrderedDict()
        self.in_flight = in_flight
        self.collectives: MPI.Intracomm | None = None
        self.node: Node | None = None
        self.links: Links | None = None
        self.names = tuple(f"rank {rank}" for rank in ranks)
        self.watch: Callable[[], None] | None = None
        self.others: frozenset[int] = frozenset()
        self._abandoned: list[MPI.Request | Vote] = []
        self._staging: list[np.ndarray] = []
        self._tag = 0
        self._tags = min(int(comm.Get_attr(MPI.TAG_UB) or 32767), 2**30) - 1
        self.measuring_tag, self.repeating_tag = self._tags, self._tags + 1

    def next_tag(self) -> int:
        """A tag that no other transfer in flight here has. All ranks start transfers in the same order."""
        self._tag = (self._tag + 1) % self._tags
        return self._tag

    def make_collectives(self) -> None:
        """Make the second communicator, if it is not there. Collective over the participants."""
        if self.collectives is None:
            self.collectives = self.comm.Dup()

    def make_node(self) -> Node:
        """Find the ranks of this node, share memory with them and measure the links to others, once.

        Collective over the participants.
        """
        if self.node is None:
            node = Node(self.comm, self.names, self.others)
            self.links = links_between(self.comm, node, self.measuring_tag, self.look_around)
            self.node = node
        return self.node

    def vote(self, mine: NDArray[np.int64], outcome: NDArray[np.int64]) -> MPI.Request | Vote:
        """Start a reduction of a ballot's numbers; all ranks start theirs in the same order. Not collective: nobody waits.

        Raises
        ------
        CollectiveError
            The ranks of this node cannot talk any more.
        """
        node = self.node
        if node is not None and node.ring is not None and node.ring.left:
            why = node.broken or "a call was interrupted"
            raise CollectiveError(f"these ranks cannot redistribute any more ({why}): use another communicator")
        if node is not None and node.ring is not None and node.whole and mine.size <= NUMBERS_OF_A_VOTE:
            vote = Vote(node.ring, mine, outcome)
            vote.Test()
            return vote
        from mpi4py import MPI

        return self.comm.Iallreduce(mine, outcome, MPI.MAX)

    def conclude(self, vote: MPI.Request | Vote, mine: object = None) -> None:
        """Wait until all have voted. Transfers in flight other than `mine` go on: another rank may wait for them first."""
        alone = not self.in_flight or all(one is mine for one in self.in_flight)
        if self.watch is None and not isinstance(vote, Vote) and alone:
            until(vote.Test)
            return
        try:
            while not (vote.Test(alone) if isinstance(vote, Vote) else vote.Test()):
                self.let_go_on(mine)
                self.look_around()
        except Exception:
            self._abandoned.append(vote)  # MPI may still have its memory
            raise

    def look_around(self) -> None:
        """While waiting: let MPI make progress, and see whether the others still live. Not collective.

        Raises
        ------
        CollectiveError
            One has died or has gone, and what it owed will not come.
        """
        if self.node is not None:
            self.node.look_around()
        if self.watch is not None:
            try:
                self.watch()
            except CollectiveError as gone:
                if self.node is not None:
                    self.node.break_off(str(gone))
                raise

    def let_go_on(self, mine: object = None) -> None:
        """Let transfers in flight other than `mine` go on. Their errors are kept for their own `wait`."""
        for one in tuple(self.in_flight):
            if one is not mine and not one.done:
                with contextlib.suppress(Exception):
                    one.advance(block=False)

    def free(self) -> None:
        """Free the communicators. Collective over the participants."""
        self.comm.Free()
        if self.collectives is not None:
            self.collectives.Free()

    def agree(
        self,
        ballot: Ballot,
        error: Exception | None,
        opinions: Sequence[int | None],
        words: Callable[[], Sequence[str]],
        note: int = 0,
    ) -> None:
        """Raise on every rank where any rank failed or two disagree. Collective over the participants.

        Parameters
        ----------
        error : Exception or None
            What this rank found wrong.
        opinions : sequence of int or None
            One for each question of the ballot.
        words : callable
            Gives this rank's opinions in words, for the message if they are disputed.
        note : int
            Below NOTES; `ballot.note` is then the largest of all ranks.

        Raises
        ------
        Exception
            `error` itself on the ranks that have one.
        CollectiveError
            On the others, and on all of them where they disagree.
        """
        ballot.fill(self.size - self.rank if error is not None else 0, opinions, note)
        self.conclude(self.vote(ballot.mine, ballot.all))
        if not ballot.unanimous:
            self.refuse(ballot, error, words)

    def refuse(self, ballot: Ballot, error: Exception | None, words: Callable[[], Sequence[str]]) -> NoReturn:
        """Raise what `agree` says, after its reduction. Collective over the participants."""
        failed = ballot.failed_rank(self.size)
        if failed is not None:
            told = self.comm.bcast(None if error is None else f"{type(error).__name__}: {error}", root=failed)
            if error is not None:
                raise error
            raise CollectiveError(f"{self.names[failed]} could not take part: {told}")
        question = ballot.disputed()[0]
        said = self.comm.allgather((int(ballot.mine[1 + 2 * question]), words()[question][:300]))
        first: dict[int, str] = {}
        for name, (opinion, text) in zip(self.names, said, strict=True):
            if opinion != NO_OPINION:
                first.setdefault(opinion, f"{name} has {text}")
        raise CollectiveError(
            f"the ranks ask for different things: {ballot.questions[question]} must be the same on every rank, but "
            + ", ".join(list(first.values())[:4])
        )

    def share(self, value: T | None) -> T | None:
        """The value of the lowest rank that has one, on all; None where nobody has. Collective over the participants."""
        ballot = Ballot(["which rank has it"])
        ballot.fill(0, [None if value is None else self.size - self.rank], note=int(value is None))
        self.conclude(self.vote(ballot.mine, ballot.all))
        top = ballot.answer(0)
        if top is None or not ballot.note:
            return value
        root = self.size - top
        shared: T = self.comm.bcast(value if self.rank == root else None, root=root)
        return shared if value is None else value

    def take_staging(self, size: int) -> np.ndarray:
        """`size` bytes of staging memory, from what an earlier transfer returned where that is large enough."""
        for k, kept in enumerate(self._staging):
            if kept.nbytes >= size:
                return self._staging.pop(k)
        self._staging.clear()
        return np.empty(size, np.uint8)

    def return_staging(self, memory: np.ndarray) -> None:
        """Keep staging memory for the next transfer: one piece, the largest."""
        if not self._staging or self._staging[0].nbytes < memory.nbytes:
            self._staging[:] = [memory]

    def remember(self, key: Any, plan: Any) -> None:
        """Keep a plan; all ranks keep and drop the same ones, since all make the same calls."""
        self.plans[key] = plan
        self.plans.move_to_end(key)
        while len(self.plans) > PLANS_KEPT:
            self.plans.popitem(last=False)


_keyval: int | None = None


def _groups_of(comm: MPI.Intracomm) -> dict[tuple[int, ...], Participants]:
    """The sets of participants of a communicator, kept as an attribute of it and freed with it."""
    global _keyval
    if _keyval is None:
        from mpi4py import MPI

        def free(_: object, __: object, groups: dict[tuple[int, ...], Participants]) -> None:
            if not MPI.Is_finalized():
                for one in groups.values():
                    one.free()

        _keyval = MPI.Comm.Create_keyval(delete_fn=free)
    kept: Any = comm.Get_attr(_keyval)
    if kept is None:
        kept = {}
        comm.Set_attr(_keyval, kept)
    groups: dict[tuple[int, ...], Participants] = kept
    return groups


def participants(comm: MPI.Intracomm, ranks: tuple[int, ...]) -> Participants:
    """The participants with these ranks of `comm`, ascending. Collective over these ranks the first time."""
    groups = _groups_of(comm)
    if ranks not in groups:
        from mpi4py import MPI

        everyone = comm.Get_group()
        some = everyone.Incl(ranks)
        private = comm.Create_group(some, GROUP_TAG)
        some.Free()
        everyone.Free()
        private.Set_errhandler(MPI.ERRORS_RETURN)
        first = next(iter(groups.values()), None)
        made = Participants(private, ranks, first.in_flight if first is not None else {})
        if first is not None and set(ranks) <= set(first.ranks):
            same = [first.number[rank] for rank in ranks]
            made.names, made.watch = tuple(first.names[k] for k in same), first.watch
            made.others = frozenset(new for new, k in enumerate(same) if k in first.others)
        groups[ranks] = made
    return groups[ranks]
