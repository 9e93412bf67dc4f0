"""Groups: processes that redistribute among themselves, with their votes, agreements, conversations and kept plans.

A rank that has found an error in its own arguments still votes; then every rank raises, or none does. docs/protocol.md says
which assumptions a rank may make when.
"""

from __future__ import annotations

import pickle
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from .._kernels.ring import Ring, Tickets
from ..errors import CollectiveError
from . import progress
from .channel import Channel, Request
from .links import Links, links_between
from .mpi import MPI
from .node import Node
from .progress import wait_until
from .series import Series, Settling
from .vote import (
    LogSteps,
    MPIVoting,
    Outcome,
    RingVoting,
    Rows,
    Statement,
    Verdict,
    Vote,
    Voting,
    describe_error,
    digest,
    good,
    radix_for,
    verdict,
)
from .waiting import Waiting

PLANS_KEPT = 32
DATA, TALK, TAGS = range(3)  # of one ticket: the tag of its messages, that of conversations, and how many tags it has


class Plans(OrderedDict[Hashable, Any]):
    """Plans made, the most recently used last. All ranks keep and drop the same ones, since all make the same calls."""

    def keep(self, key: Hashable, plan: Any) -> None:
        """Keep a plan, and drop the one that was not used for longest where there are too many."""
        self[key] = plan
        self.move_to_end(key)
        while len(self) > PLANS_KEPT:
            self.popitem(last=False)


class Staging:
    """Staging memory that no transfer uses: the largest piece that one has put back."""

    def __init__(self) -> None:
        self._kept: NDArray[np.uint8] | None = None

    def take(self, size: int) -> NDArray[np.uint8]:
        """`size` bytes or more: what is kept, where that is large enough."""
        kept, self._kept = self._kept, None
        return kept if kept is not None and kept.nbytes >= size else np.empty(size, np.uint8)

    def put_back(self, memory: NDArray[np.uint8]) -> None:
        """Keep it for the next transfer, unless a larger piece is kept."""
        if self._kept is None or self._kept.nbytes < memory.nbytes:
            self._kept = memory


class Untold(NamedTuple):
    """In place of what a rank could not tell, or the first one could not answer: why."""

    rank: int
    text: str


class Conversation:
    """One question and its answer. Collective over the group; the ranks may start and advance it when they like.

    Every rank tells the first one something, and the first one answers all of them. This is for rare things: errors in words,
    objects that not all ranks know, the set-up of a node. The messages have a tag of their own, so a conversation needs no
    order among other things that are under way, and it is advanced without blocking.

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
        return Untold(self._channel.rank, describe_error(error))

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


def first_known(told: list[Any]) -> Any:
    """The value of the lowest rank that has one; None where nobody has. Not collective."""
    return next((value for value in told if value is not None), None)


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
                self._group.abort(self.answer)
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


T = TypeVar("T")


class Agreement:
    """An agreement that an interrupt has ended on this rank, which still has its part in what the others do.

    Parameters
    ----------
    group : Group
        The ranks.
    ticket : int
        That of the vote.
    vote : Voting
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
        voting: Voting,
        error: BaseException,
        statements: Callable[[], Sequence[Statement]],
        asks: Callable[[Outcome], bool],
    ) -> None:
        self._group, self._ticket, self._voting = group, ticket, voting
        self._error, self._statements, self._asks = error, statements, asks
        self._talk: Conversation | Refusal | None = None

    def advance(self, block: bool = False) -> bool:
        """Go on; True when the others need nothing more of this rank. It never raises."""
        group = self._group
        if group.abort_reason is not None:
            return True
        if self._talk is None:
            outcome = group.count(self._voting)
            if outcome is None:
                return False
            if not good(outcome):
                self._talk = group.refusal(self._ticket, self._error, self._statements)
            elif self._asks(outcome):
                self._talk = all_tell(group.channel, self._ticket, describe_error(self._error))
            else:
                return True
        return self._talk.advance()


def read_consistently(group: Group, what: str, read: Callable[[], T | None], number: Callable[[T], int]) -> T | None:
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
        Vote(failed=group.failure_code(error), call=digest(what), source=found),
        error,
        lambda: [Statement(what, found, repr(mine))],
        lambda outcome: True,
    )
    return mine


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
    abort_reason : str or None
        Why these processes cannot redistribute any more.
    tickets : Tickets
        How many things these ranks have started.
    transfers : dict
        Transfers under way, in the order of their tickets.
    unvoted : int
        How many calls these ranks have started that have no ticket.
    series : dict
        Those calls, plan by plan, by tag.
    settling : dict
        What is left to do of series in which a rank has failed.
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
        self.abort_reason: str | None = None
        self.lock = threading.Lock()
        self.aborted_uses: list[Any] = []  # of what broke off: MPI may still read and write there
        self.transfers: dict[Any, None] = {}
        self.tickets = Tickets()
        self.unvoted, self.settling, self.series = 0, dict[Settling, None](), dict[int, Series]()
        self._closed = False
        self._notices = channel.tags - 1  # the last tags are of notices, and of votes
        self._most_series = channel.tags // 8  # each has two tags
        self._most_tickets = (channel.tags - 2 - 2 * self._most_series) // TAGS
        self._votes: deque[Voting] = deque()
        self._free_steps: list[LogSteps] = []  # of votes that were counted
        self._waiting = Waiting(self, self._notices)

    # -- tickets and votes

    def draw_ticket(self) -> int:
        """The tag of the messages of whatever starts now; all ranks start these in the same order."""
        self.tickets.drawn += 1
        return self.ticket

    @property
    def ticket(self) -> int:
        """The one that was drawn last."""
        return TAGS * (self.tickets.drawn % self._most_tickets)

    @property
    def started(self) -> int:
        """How many calls these ranks have started, the same on all of them."""
        return self.tickets.drawn + self.unvoted

    def new_series(self, targets: Sequence[int], sources: Sequence[int]) -> Series | None:
        """One more series of calls; None where there is no tag left for it. All ranks make it together."""
        if len(self.series) == self._most_series:
            return None
        tag = self._notices - 3 - 2 * len(self.series)
        made = self.series[tag] = Series(self, tag, targets, sources)
        return made

    def end_series(self) -> None:
        """End all series, once no call is under way: there will be no more. Collective, but no rank waits."""
        for series in self.series.values() if not self.transfers else ():
            series.end(self.rank)

    def wait_for_failures(self) -> None:
        """Wait for a while, until all ranks know of what has failed without a vote. Not collective."""
        self._waiting.for_failures(self.settle_series)

    def settle_series(self) -> bool:
        """Go on with what is left of series that have ended; True when nothing is."""
        for settling in list(self.settling):
            settling.advance()
        return not self.settling

    def check_usable(self) -> None:
        """See whether these ranks can still redistribute.

        Raises
        ------
        CollectiveError
            They cannot.
        """
        self.abort_reason = self.abort_reason or self.communication_error()
        if self.abort_reason is not None:
            raise CollectiveError(
                f"these ranks cannot redistribute any more ({self.abort_reason}): use another communicator"
            )

    @property
    def voting_ring(self) -> Ring | None:
        """Where votes are cast in shared memory; None where they go by messages."""
        node = self.node
        return node.ring if node is not None and node.whole else None

    @property
    def radix(self) -> int:
        """Of votes that go by messages."""
        return 2 if self.links is None else radix_for(self.size, self.links.latency)

    def new_vote(self, vote: Vote, rows: Rows | None = None) -> Voting:
        """A vote that is cast; one by messages has the requests of one that was counted, if there is one."""
        ring = self.voting_ring
        if ring is not None:
            return RingVoting(ring, vote)
        radix, free = self.radix, self._free_steps
        while free and free[-1].radix != radix:  # of before the links were known
            free.pop().free()
        steps = free.pop() if free else MPIVoting.steps(self.channel, radix, self._notices - 1)
        return MPIVoting(vote, steps, free.append, rows)

    def cast_vote(self, vote: Vote, rows: Rows | None = None) -> Voting:
        """Start a vote; all ranks start theirs in the same order. They are posted and counted in that order.

        Parameters
        ----------
        vote : Vote
            What this rank says.
        rows : Rows, optional
            Where the vote goes by messages: blocks that travel with it, as for `LogSteps.start`.
        """
        voting = self.new_vote(vote, rows)
        self._votes.append(voting)
        self.count()
        return voting

    def adopt(self, voting: Voting) -> Voting:
        """A vote that a call has cast, and not counted; nothing else was open."""
        self._votes.append(voting)
        return voting

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
        return self.abort_reason is None and not self._closed and not self._votes

    @property
    def in_flight(self) -> bool:
        """Whether anything that this rank has started here has not ended."""
        return bool(self.transfers or self._votes) or not self.settle_series()

    @property
    def coming_ticket(self) -> int:
        """The ticket that will be drawn next."""
        return TAGS * ((self.tickets.drawn + 1) % self._most_tickets)

    def failure_code(self, error: BaseException | None) -> int:
        """What a vote says of an error on this rank."""
        return 0 if error is None else self.size - self.rank

    # -- agreement

    def agree(
        self,
        vote: Vote,
        error: BaseException | None,
        statements: Callable[[], Sequence[Statement]],
        asks: Callable[[Outcome], bool] = lambda outcome: False,
        deliver_interrupts: Callable[[], None] | None = None,
    ) -> Outcome:
        """Raise on every rank where any rank failed or two disagree. Collective over the group.

        Parameters
        ----------
        vote : Vote
            Its `failed` says whether there is an error.
        error : BaseException or None
            What this rank found wrong.
        statements : callable
            What the vote's digests are of, for the message if they differ.
        asks : callable
            Whether all have more to tell one another after such an outcome. They then see first that all are still here: an
            interrupt may have ended the call on a rank.
        deliver_interrupts : callable, optional
            Where the caller holds interrupts back: lets them come, while votes are waited for.

        Raises
        ------
        BaseException
            `error` itself on the rank that has it.
        CollectiveError
            On the others, and on all of them where they disagree.
        """
        self.check_usable()
        cast: tuple[int, Voting] | None = None
        try:
            with progress.hold_interrupts():
                cast = ticket, voting = self.draw_ticket(), self.cast_vote(vote)
                outcome = self.count(voting, block=self.voting_ring is not None and not progress.tasks_in_flight())
            if outcome is None:

                def check_peers() -> None:
                    if deliver_interrupts is not None:
                        deliver_interrupts()
                    self.check_peers()

                outcome = wait_until(lambda: self.count(voting), check_peers)
        except CollectiveError:
            raise
        except BaseException as caught:
            if cast is not None:
                progress.tasks_in_flight()[Agreement(self, *cast, error or caught, statements, asks)] = None
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
        with progress.hold_interrupts():
            wait_until(talk.advance, self.check_peers)

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
        mine = (None if error is None else describe_error(error), said, tuple(sent))

        def answers(told: list[Any]) -> list[Any]:
            why = verdict(told)
            came = [tuple(k for k, theirs in enumerate(told) if rank in theirs[2]) for rank in range(self.size)]
            return [(why, some) for some in came]

        return Refusal(self, ticket, Conversation(self.channel, ticket + TALK, mine, answers))

    def in_words(self, why: Verdict) -> str:
        """As this rank names the others."""
        return "".join(self.names[part] if isinstance(part, int) else part for part in why or ())

    def combine(
        self, mine: Any = None, answer: Callable[[list[Any]], Any] | None = None, error: BaseException | None = None
    ) -> Any:
        """What all ranks tell, by rank; or what `answer` makes of that, on the first one. Collective over the group.

        Parameters
        ----------
        mine : object
            What this rank tells; anything that can be pickled.
        answer : callable, optional
            Such as `first_known`.
        error : BaseException, optional
            What this rank has found wrong: then all raise, and nothing is answered.

        Raises
        ------
        BaseException
            `error` itself on the rank that has it.
        CollectiveError
            On the others.
        """
        self.check_usable()

        def answered(told: list[Any]) -> Any:
            errors, values = [text for text, _ in told], [value for _, value in told]
            if any(text is not None for text in errors):
                return errors, None
            return errors, values if answer is None else answer(values)

        said = None if error is None else describe_error(error)
        with progress.hold_interrupts():
            errors, result = self._answer(all_tell(self.channel, self.draw_ticket(), (said, mine), answered))
        self._raise_first(errors, error)
        return result

    # -- what a group has

    def make_collectives(self) -> None:
        """Make the second communicator, if it is not there. Collective over the group."""

    def make_node(self) -> Node:
        """Find the ranks of this node, share memory with them and measure the links to others, once. Collective."""
        if self.node is None:
            node = Node(self.rank, self.combine, self.names, self.others, self.forced_node)
            self.links = links_between(self.channel, node, self.combine, self.draw_ticket(), self.check_peers)
            self.node = node
        return self.node

    def forced_node(self) -> int | None:
        """The node on which this rank counts as being, if the environment says so."""
        return None

    # -- liveness

    def communication_error(self) -> str | None:
        """Why these ranks cannot communicate any more; None if they can."""
        return None

    def check_peers(self, plan: object = None) -> None:
        """Let messages move, and see whether the others still live and come.

        Raises
        ------
        CollectiveError
            One has died or has gone, and what it owed will not come.
        """
        why = self.communication_error()
        self.settle_series()
        try:
            if why is None:
                self.channel.make_progress()
                self._waiting.look(plan)
        except CollectiveError as caught:
            why = str(caught)
        if why is not None:
            self.abort(why)
            raise CollectiveError(
                f"{self.abort_reason}: what it owed will not come; use another communicator without it"
            )

    def abort(self, why: str) -> None:
        """Note that these ranks cannot redistribute any more, and tell the others."""
        if self.abort_reason is not None:
            return
        self.abort_reason = why
        if self.node is not None and self.node.ring is not None:
            self.node.ring.abort()
        self._waiting.leave()

    def disown(self, why: str) -> None:
        """In a forked process: leave what the group shares with others to the parent. Not collective."""
        self.abort_reason, self.lock = why, threading.Lock()
        if self.node is not None and self.node.ring is not None:
            self.node.ring.closed = True

    def end(self) -> None:
        """Come to no more calls: the others of this node, which tell the rest, do not wait for this rank. Not collective."""
        if self.abort_reason is None and self.node is not None and self.node.ring is not None:
            if self.in_flight:
                self.node.ring.abort()
            else:
                self.node.ring.end(self.tickets.drawn)

    def close(self) -> None:
        """Start no call any more that goes straight through."""
        self._closed = True
        while self._free_steps:
            self._free_steps.pop().free()
        if self.node is not None and self.node.ring is not None:
            self.node.ring.closed = True
