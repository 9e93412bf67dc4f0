"""Group: processes that redistribute among themselves, and what they agree on.

Whatever a rank finds wrong with its own arguments, it still votes; then every rank raises, or none does. docs/protocol.md
says what each rank may assume when.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

from .._kernels.ring import Ring, Tickets
from ..errors import CollectiveError
from . import progress
from .agreement import Agreement
from .channel import Channel
from .conversation import TAGS, TALK, Conversation, Refusal, all_tell
from .kept import Plans, Staging
from .links import Links, links_between
from .log_steps import LogSteps, Rows, radix_for
from .mpi import MPI
from .node import Node
from .progress import until
from .vote import Ballot, MPIVote, Outcome, RingVote, Statement, Verdict, Vote, error_in_words, good, verdict
from .waiting import Waiting

__all__ = ["Group"]

T = TypeVar("T")


class Group:
    """Processes that redistribute among themselves. Not collective, unless a method says so.

    Attributes
    ----------
    channel : Channel
        Messages among these processes.
    ranks : tuple of int
        Their ranks in the user's communicator, in the order of their ranks in the group.
    number : dict
        Rank in the group for each of these.
    plans : Plans
        Plans made.
    staging : Staging
        Staging memory that no transfer uses.
    collectives : MPI.Intracomm or None
        Communicator of the same processes for exchanges that make collective calls, one transfer after another.
    node : Node or None
        The ranks of this node and the memory that they share, once it was asked for.
    links : Links or None
        What messages between nodes cost, once it was asked for; None on one node.
    names : tuple of str
        What each is called in messages: "rank 3".
    watch : callable or None
        Where some of these processes may end without the others (two jobs): raises CollectiveError once they have.
    others : frozenset of int
        The ranks of the group of these processes.
    broken : str or None
        Why these processes cannot redistribute any more.
    tickets : Tickets
        How many things these ranks have started.
    transfers : dict
        Transfers under way, in the order of their tickets.
    lock : Lock
        Of whoever changes the state of anything here: another thread may wait for something else.
    """

    def __init__(self, channel: Channel, ranks: Sequence[int]) -> None:
        self.channel = channel
        self.ranks = tuple(ranks)
        self.rank, self.size = channel.rank, channel.size
        self.number = {rank: k for k, rank in enumerate(self.ranks)}
        self.plans, self.staging = Plans(), Staging()
        self.collectives: MPI.Intracomm | None = None
        self.node: Node | None = None
        self.links: Links | None = None
        self.names = tuple(f"rank {rank}" for rank in self.ranks)
        self.watch: Callable[[], None] | None = None
        self.others: frozenset[int] = frozenset()
        self.broken: str | None = None
        self.lock = threading.Lock()
        self.wreckage: list[Any] = []  # of what broke off: MPI may still read and write there
        self.transfers: dict[Any, None] = {}
        self.tickets = Tickets()
        self._closed = False
        self._notices = channel.tags - 1  # the last tags are of notices, and of votes
        self._most_tickets = (channel.tags - 2) // TAGS
        self._votes: deque[Vote] = deque()
        self._free_steps: list[LogSteps] = []  # of votes that were counted
        self._waiting = Waiting(self, self._notices)

    # -- tickets and votes

    def next_ticket(self) -> int:
        """The tag of the messages of whatever starts now; all ranks start these in the same order."""
        self.tickets.drawn += 1
        return self.ticket

    @property
    def ticket(self) -> int:
        """The one that was drawn last."""
        return TAGS * (self.tickets.drawn % self._most_tickets)

    def check_usable(self) -> None:
        """See whether these ranks can still redistribute.

        Raises
        ------
        CollectiveError
            They cannot.
        """
        self.broken = self.broken or self.gone()
        if self.broken is not None:
            raise CollectiveError(f"these ranks cannot redistribute any more ({self.broken}): use another communicator")

    @property
    def voting_ring(self) -> Ring | None:
        """Where votes are cast in shared memory; None where they go by messages."""
        node = self.node
        return node.ring if node is not None and node.whole else None

    @property
    def radix(self) -> int:
        """Of votes that go by messages."""
        return 2 if self.links is None else radix_for(self.size, self.links.latency)

    def new_vote(self, ballot: Ballot, rows: Rows | None = None) -> Vote:
        """A vote that is cast; one by messages has the requests of one that was counted, if there is one."""
        ring = self.voting_ring
        if ring is not None:
            return RingVote(ring, ballot)
        radix, free = self.radix, self._free_steps
        while free and free[-1].radix != radix:  # of before the links were known
            free.pop().free()
        steps = free.pop() if free else MPIVote.steps(self.channel, radix, self._notices - 1)
        return MPIVote(ballot, steps, free.append, rows)

    def cast(self, ballot: Ballot, rows: Rows | None = None) -> Vote:
        """Start a vote; all ranks start theirs in the same order. They are posted and counted in that order.

        Parameters
        ----------
        ballot : Ballot
            What this rank says.
        rows : Rows, optional
            Where the vote goes by messages: blocks that travel with it, as for `LogSteps.start`.
        """
        vote = self.new_vote(ballot, rows)
        self._votes.append(vote)
        self.count()
        return vote

    def adopt(self, vote: Vote) -> Vote:
        """A vote that a call has cast, and not counted; nothing else was open."""
        self._votes.append(vote)
        return vote

    def count(self, vote: Any = None, block: bool = False) -> Outcome | None:
        """Post and count votes as far as it goes; what this one has come to. With `block`, wait for a while."""
        while self._votes and self._votes[0].test(block and self._votes[0] is vote):
            self._votes.popleft()
        for pending in self._votes:
            if not pending.post():
                break
        outcome: Outcome | None = None if vote is None else vote.outcome
        return outcome

    @property
    def is_ready(self) -> bool:
        """Whether a call may cast its vote by itself: nothing is wrong, and no vote is open."""
        return self.broken is None and not self._closed and not self._votes

    @property
    def in_flight(self) -> bool:
        """Whether anything that this rank has started here has not ended."""
        return bool(self.transfers or self._votes)

    @property
    def coming_ticket(self) -> int:
        """The ticket that will be drawn next."""
        return TAGS * ((self.tickets.drawn + 1) % self._most_tickets)

    def failed(self, error: BaseException | None) -> int:
        """What a ballot says of an error on this rank."""
        return 0 if error is None else self.size - self.rank

    # -- agreement

    def agree(
        self,
        ballot: Ballot,
        error: BaseException | None,
        statements: Callable[[], Sequence[Statement]],
        asks: Callable[[Outcome], bool] = lambda outcome: False,
        let_through: Callable[[], None] | None = None,
    ) -> Outcome:
        """Raise on every rank where any rank failed or two disagree. Collective over the group.

        Parameters
        ----------
        ballot : Ballot
            Its `failed` says whether there is an error.
        error : BaseException or None
            What this rank found wrong.
        statements : callable
            What the ballot's digests are of, for the message if they differ.
        asks : callable
            Whether all have more to tell one another after such an outcome. They then see first that all are still here: an
            interrupt may have ended the call on a rank.
        let_through : callable, optional
            Where the caller holds interrupts back: lets them come, while votes are waited for.

        Raises
        ------
        BaseException
            `error` itself on the rank that has it.
        CollectiveError
            On the others, and on all of them where they disagree.
        """
        self.check_usable()
        cast: tuple[int, Vote] | None = None
        try:
            with progress.interrupts_held():
                cast = ticket, vote = self.next_ticket(), self.cast(ballot)
                outcome = self.count(vote, block=self.voting_ring is not None and not progress.under_way())
            if outcome is None:

                def look_around() -> None:
                    if let_through is not None:
                        let_through()
                    self.look_around()

                outcome = until(lambda: self.count(vote), look_around)
        except CollectiveError:
            raise
        except BaseException as caught:
            if cast is not None:
                progress.under_way()[Agreement(self, *cast, error or caught, statements, asks)] = None
            raise
        if not good(outcome):
            refusal = self.refusal(ticket, error, statements)
            self._until(refusal)
            raise error or CollectiveError(refusal.answer)
        if asks(outcome):
            self._raise_first(self._answer(all_tell(self.channel, ticket, None)), None)
        return outcome

    def _until(self, talk: Conversation | Refusal) -> None:
        """Wait until it is done. Not to be interrupted: all ranks are here, or will be."""
        with progress.interrupts_held():
            until(talk.advance, self.look_around)

    def _answer(self, talk: Conversation) -> Any:
        """What has come of it. Where a rank could not tell, or the first one not answer, all raise."""
        self._until(talk)
        if talk.failure is not None:
            raise talk.error or CollectiveError(self.in_words(talk.failure))
        return talk.answer

    def _raise_first(self, told: Sequence[str | None], error: BaseException | None) -> None:
        if error is not None:
            raise error
        for name, text in zip(self.names, told, strict=True):
            if text is not None:
                raise CollectiveError(f"{name} could not take part: {text}")

    def refusal(
        self,
        ticket: int,
        error: BaseException | None,
        statements: Callable[[], Sequence[Statement]],
        sent: Collection[int] = (),
    ) -> Refusal:
        """After a vote that was not good: its answer says why, in words. All ranks of the group start one.

        Parameters
        ----------
        ticket : int
            That of the vote.
        error : BaseException or None
            What this rank found wrong.
        statements : callable
            What this rank means.
        sent : collection of int
            Ranks to which it has sent messages already.
        """
        said: list[Statement] = []
        try:
            said = [statement.told() for statement in statements()]
        except Exception as caught:  # of what the user gave, in words: the others wait for this rank
            error = error or caught
        mine = (None if error is None else error_in_words(error), said, tuple(sent))

        def answers(told: list[Any]) -> list[Any]:
            why = verdict(told)
            came = [tuple(k for k, theirs in enumerate(told) if rank in theirs[2]) for rank in range(self.size)]
            return [(why, some) for some in came]

        return Refusal(self, ticket, Conversation(self.channel, ticket + TALK, mine, answers))

    def in_words(self, why: Verdict) -> str:
        """As this rank names the others."""
        return "".join(self.names[part] if isinstance(part, int) else part for part in why or ())

    def combine(self, mine: Any, answer: Callable[[list[Any]], Any] | None = None) -> Any:
        """What all ranks tell, by rank; or what `answer` makes of that, on the first one. Collective over the group."""
        self.check_usable()
        with progress.interrupts_held():
            return self._answer(all_tell(self.channel, self.next_ticket(), mine, answer))

    def raise_on_all(self, error: BaseException | None) -> None:
        """Raise on every rank if any has an error. Collective over the group."""
        self._raise_first(self.combine(None if error is None else error_in_words(error)), error)

    def share(self, value: T | None) -> T | None:
        """The value of the lowest rank that has one, on all; None where nobody has. Collective over the group."""
        shared: T | None = self.combine(value, lambda told: next((given for given in told if given is not None), None))
        return shared if value is None else value

    # -- what a group has

    def make_collectives(self) -> None:
        """Make the second communicator, if it is not there. Collective over the group."""

    def make_node(self) -> Node:
        """Find the ranks of this node, share memory with them and measure the links to others, once. Collective."""
        if self.node is None:
            node = Node(self.rank, self.combine, self.names, self.others, self.forced_node)
            self.links = links_between(self.channel, node, self.combine, self.next_ticket(), self.look_around)
            self.node = node
        return self.node

    def forced_node(self) -> int | None:
        """The node on which this rank counts as being, if the environment says so."""
        return None

    # -- liveness

    def gone(self) -> str | None:
        """Why these ranks cannot communicate any more; None if they can."""
        return None

    def look_around(self, plan: object = None) -> None:
        """Let messages move, and see whether the others still live and come.

        Raises
        ------
        CollectiveError
            One has died or has gone, and what it owed will not come.
        """
        why = self.gone()
        try:
            if why is None:
                self.channel.poke()
                self._waiting.look(plan)
        except CollectiveError as caught:
            why = str(caught)
        if why is not None:
            self.break_off(why)
            raise CollectiveError(f"{self.broken}: what it owed will not come; use another communicator without it")

    def break_off(self, why: str) -> None:
        """Note that these ranks cannot redistribute any more, and tell the others."""
        if self.broken is not None:
            return
        self.broken = why
        if self.node is not None and self.node.ring is not None:
            self.node.ring.break_off()
        self._waiting.leave()

    def disown(self, why: str) -> None:
        """In a forked process: leave what the group shares with others to the parent. Not collective."""
        self.broken, self.lock = why, threading.Lock()
        if self.node is not None and self.node.ring is not None:
            self.node.ring.closed = True

    def end(self) -> None:
        """Come to no more calls: the others of this node, which tell the rest, do not wait for this rank. Not collective."""
        if self.broken is None and self.node is not None and self.node.ring is not None:
            if self.in_flight:
                self.node.ring.break_off()
            else:
                self.node.ring.end(self.tickets.drawn)

    def close(self) -> None:
        """Start no call any more that goes straight through."""
        self._closed = True
        while self._free_steps:
            self._free_steps.pop().free()
        if self.node is not None and self.node.ring is not None:
            self.node.ring.closed = True
