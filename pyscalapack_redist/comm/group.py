"""Groups: the processes that take part in a plan, with their votes, agreements and cached plans.

A rank with an error in its own arguments still votes; then every rank raises, or none does. docs/protocol.md states what a
rank may assume in each state.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from .._kernels.ring import Ring, Tickets
from ..errors import CollectiveError, WaitTimeoutError
from ..tracebacks import with_its_cause_elsewhere
from . import progress
from .caches import Plans, Staging
from .channel import Channel, Request
from .gather_scatter import GatherScatter
from .guard import Guard
from .links import Links, links_between
from .log_steps import LogSteps, Rows, radix_for
from .mpi import MPI
from .node import Node
from .progress import wait_until
from .series import Series, Settling
from .vote import (
    MPIVoting,
    NodeVoting,
    Outcome,
    RingVoting,
    Statement,
    Verdict,
    Vote,
    Voting,
    describe_error,
    find_verdict,
    is_good,
)
from .waiting import Waiting

DATA, CONTROL, TAGS = range(
    3
)  # of a ticket: the tag of its data, that of its gather-scatters, and the number of its tags


def first_known(values: list[Any]) -> Any:
    """The value of the lowest rank that has one; None if no rank has."""
    return next((value for value in values if value is not None), None)


def start_allgather(
    channel: Channel,
    ticket: int,
    error: BaseException | None = None,
    value: Any = None,
    reduce: Callable[[list[Any]], Any] | None = None,
) -> GatherScatter:
    """Start to give all ranks the texts of all errors, by rank, and the list of all values or what `reduce` makes of it.

    If a rank has an error, there is no list. `reduce` is called on the first rank.
    """

    def reply(reports: list[Any]) -> list[Any]:
        errors, values = [text for text, _ in reports], [value for _, value in reports]
        if any(errors):
            return [(errors, None)] * len(reports)
        return [(errors, values if reduce is None else reduce(values))] * len(reports)

    report = (None if error is None else describe_error(error), value)
    return GatherScatter(channel, ticket + CONTROL, report, reply)


class Refusal:
    """A refused transfer or agreement: all ranks learn the reason, and discard messages that were sent before the vote.

    Attributes
    ----------
    error : BaseException or None
        This rank's error.
    """

    def __init__(self, group: Group, ticket: int, exchange: GatherScatter, error: BaseException | None) -> None:
        self._group, self._ticket, self._exchange, self.error = group, ticket, exchange, error
        self._senders: list[int] | None = None  # of messages that are still to be received
        self._receive: tuple[Any, Request] | None = None
        self._verdict: Verdict = None

    @property
    def reason(self) -> str | None:
        """The reason, the same on all ranks; None if no rank has an error after all."""
        return None if self._verdict is None else self._group.format_verdict(self._verdict)

    def raised(self) -> BaseException:
        """What this rank raises: its own error, or one with the reason."""
        return self._group.error_of(self._verdict, self.error)

    def advance(self) -> bool:
        """Make progress; True when this rank has the reason and no message for it is on its way."""
        if self._senders is None:
            if not self._exchange.advance():
                return False
            if self._exchange.failure is not None:  # no rank knows which messages are in flight
                self._verdict = self._exchange.failure
                self._group.abort(self._group.format_verdict(self._verdict))
                return True
            self._verdict, senders = self._exchange.reply
            self._senders = [] if self._verdict is None else list(senders)
        while self._senders:
            if self._receive is None:
                message = self._group.channel.probe(self._senders[0], self._ticket + DATA)
                if message is None:
                    return False
                data = np.empty(message.nbytes, np.uint8)
                self._receive = data, message.receive(data)
            if not self._receive[1].Test():
                return False
            self._receive = None
            del self._senders[0]
        return True


T = TypeVar("T")


class InterruptedAgreement:
    """An agreement interrupted on this rank, which still takes part in what follows for the other ranks.

    Parameters
    ----------
    group : Group
        The ranks.
    ticket : int
        The ticket of the vote.
    voting : Voting
        The voting that counts this rank's vote.
    error : BaseException
        The error to report to other ranks: this rank's own, or the interrupt.
    statements, has_followup : callable
        As for `Group.agree`.
    """

    def __init__(
        self,
        group: Group,
        ticket: int,
        voting: Voting,
        error: BaseException,
        statements: Callable[[], Sequence[Statement]],
        has_followup: Callable[[Outcome], bool],
    ) -> None:
        self._group, self._ticket, self._voting = group, ticket, voting
        self._error, self._statements, self._has_followup = error, statements, has_followup
        self._followup: GatherScatter | Refusal | None = None

    def has_ticket(self, ticket: int) -> bool:
        """Whether its vote had this ticket. Not collective."""
        return self._ticket == ticket

    def advance(self, block: bool = False) -> bool:
        """Make progress; True when other ranks need nothing more of this one. Never raises."""
        group = self._group
        if self not in group.interrupted:
            return True
        if not group.lock.acquire(False):
            return False
        try:
            if group.abort_reason is not None or self._advance():
                group.interrupted.pop(self, None)
        finally:
            group.lock.release()
        return self not in group.interrupted

    def _advance(self) -> bool:
        group = self._group
        if self._followup is None:
            outcome = group.count(self._voting)
            if outcome is None:
                return False
            if not is_good(outcome):
                self._followup = group.start_refusal(self._ticket, self._error, self._statements)
            elif self._has_followup(outcome):
                self._followup = start_allgather(group.channel, self._ticket, self._error)
            else:
                return True
        return self._followup.advance()


class Group:
    """The processes that take part in a plan: the base class of `MPIGroup`. Methods are not collective unless they say so.

    `MPIGroup` overrides `make_collectives`, `forced_node` and `communication_error`, which do nothing here.

    Attributes
    ----------
    channel : Channel
        Messages among these processes.
    ranks : tuple of int
        Their ranks in the user's communicator, in the order of their ranks in the group.
    number : dict
        Rank in the group for each of these.
    plans : Plans
        Cached plans.
    staging : Staging
        A staging buffer that no transfer uses.
    collectives : MPI.Intracomm or None
        A communicator of the same processes, for exchanges that make collective calls.
    node : Node or None
        The ranks of this node and their shared memory; None until `make_node`.
    links : Links or None
        Costs of messages between nodes; None on one node, and until `make_node`.
    names : tuple of str
        Names of the ranks in error texts: "rank 3".
    watch : callable or None
        Raises CollectiveError when processes of the other job have ended; None if there is one job.
    remote_ranks : frozenset of int
        Ranks in the group of the processes of the other job.
    abort_reason : str or None
        The reason why these processes cannot redistribute any more.
    tickets : Tickets
        The number of tickets drawn.
    transfers : dict
        Transfers in flight, in the order in which they were started.
    queued : dict
        Those that have not begun, in that order.
    starts : int
        How many transfers this rank has started.
    interrupted : dict
        Interrupted agreements in which this rank still takes part.
    series : dict
        The series of such calls, by tag.
    settling : dict
        Ends of series in which a rank has failed.
    lock : RLock
        Held by the thread that starts an operation, or changes the state of one or of a vote. While one thread uses these
        ranks, another may make progress on what it has started before.
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
        self.remote_ranks: frozenset[int] = frozenset()
        self.abort_reason: str | None = None
        self.lock = threading.RLock()
        self.aborted_uses: list[Any] = []  # whose memory is kept
        self.transfers, self.queued = dict[Any, None](), dict[Any, None]()
        self.starts = 0
        self.interrupted: dict[InterruptedAgreement, None] = {}
        self.tickets = Tickets()
        self.settling, self.series = dict[Settling, None](), dict[int, Series]()
        self._closed = False
        self._notices = channel.tags - 1  # notices and votes have the last tags
        self._most_series = channel.tags // 8  # each has two tags
        self._most_tickets = (channel.tags - 2 - 2 * self._most_series) // TAGS
        self._votings: deque[Voting] = deque()
        self._free_steps: list[LogSteps] = []  # of counted votes
        self._waiting = Waiting(self, self._notices)

    # -- tickets and votes

    def draw_ticket(self) -> int:
        """Draw the next ticket, the first tag of an operation. All ranks draw them in the same order.

        It waits until all transfers that have been started have drawn theirs. Tags come again: if an operation in flight has
        those of this ticket, it waits until that has ended. Called with interrupts held back.
        """
        if not self._may_draw():
            self.take_up_operations()
            with self.aborting_if_forced():
                wait_until(self._may_draw, self.check_peers, patience=math.inf)
        return self.take_ticket()

    def take_ticket(self) -> int:
        """Draw the next ticket, whose tags are free, at once."""
        self.tickets.drawn += 1
        return self.ticket

    def _may_draw(self) -> bool:
        return not self.queued and self.has_free_tags()

    def has_free_tags(self) -> bool:
        """Whether no operation in flight has the tags of the next ticket."""
        if not self.transfers and not self.interrupted:
            return True
        coming = self.coming_ticket
        return not any(each.has_ticket(coming) for each in (*self.transfers, *self.interrupted))

    @property
    def ticket(self) -> int:
        """The ticket that was drawn last."""
        return TAGS * (self.tickets.drawn % self._most_tickets)

    @property
    def call_count(self) -> int:
        """The number of calls that these ranks have started: the same on all that know of the same failures.

        Calls of series in which a rank has failed do not count: ranks have begun more or fewer of them.
        """
        return self.tickets.drawn + sum(series.calls for series in self.series.values() if series.culprit is None)

    def new_series(self, number: int, targets: Sequence[int], sources: Sequence[int]) -> Series | None:
        """Make the series that a call begins, by its tickets so far; None if the tags are taken. All ranks make it."""
        tag = self._notices - 3 - 2 * (number % self._most_series)
        if tag in self.series:
            return None
        series = self.series[tag] = Series(self, tag, targets, sources)
        return series

    def end_series(self) -> None:
        """End all series, unless a transfer is in flight. All ranks do so before they free the communicator; none waits."""
        for series in self.series.values() if not self.transfers else ():
            series.end(self.rank)

    def wait_for_failures(self) -> None:
        """Wait, for a limited time after the last failure in a series, until all ranks know of each."""
        self._waiting.for_failures(self.settle_series, max((settling.began for settling in self.settling), default=0.0))

    def settle_series(self) -> bool:
        """Make progress on series that end; True when all have ended."""
        if not self.settling:
            return True
        with progress.hold_interrupts():
            for settling in list(self.settling):
                if settling.advance():
                    progress.tasks_in_flight().pop(settling, None)
        return not self.settling

    def check_usable(self) -> None:
        """Check that these ranks can still redistribute.

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
        """The ring in which votes are cast; None if they go by messages."""
        node = self.node
        return node.ring if node is not None and node.whole else None

    @property
    def radix(self) -> int:
        """The radix of exchanges of all ranks in few steps."""
        return self._radix_for(self.size)

    def _radix_for(self, size: int) -> int:
        """The radix of exchanges of so many ranks in few steps."""
        return 2 if self.links is None else radix_for(size, self.links.latency)

    @property
    def voters(self) -> Sequence[int]:
        """The ranks among which votes go by messages: all, or one for those that share memory."""
        return range(self.size) if self.node is None else self.node.voters

    def start_voting(self, vote: Vote, rows: Rows | None = None) -> Voting:
        """Cast a vote by itself, in the ring, by messages, or both; messages reuse the requests of a counted vote."""
        node, ring, free = self.node, self.voting_ring, self._free_steps
        if ring is not None:
            return RingVoting(ring, vote)
        steps = self._take_steps() if self.rank in self.voters else None
        if node is not None and node.ring is not None:
            return NodeVoting(vote, node.ring, steps, free.append)
        assert steps is not None
        return MPIVoting(vote, steps, free.append, rows)

    def _take_steps(self) -> LogSteps:
        """Take the steps of a counted vote, or make new ones."""
        voters, free = self.voters, self._free_steps
        radix = self._radix_for(len(voters))
        while free and (free[-1].radix != radix or len(free[-1].members) != len(voters)):  # made before the node was known
            free.pop().free()
        return free.pop() if free else MPIVoting.steps(self.channel, voters, radix, self._notices - 1)

    def cast_vote(self, vote: Vote, rows: Rows | None = None) -> Voting:
        """Cast a vote. All ranks cast votes in the same order; they are posted and counted in that order.

        Parameters
        ----------
        vote : Vote
            This rank's vote.
        rows : Rows, optional
            Blocks to send with a vote by messages of all ranks, as for `LogSteps.start`.
        """
        with self.lock:
            voting = self.start_voting(vote, rows)
            self._votings.append(voting)
            if self._votings[0] is voting:
                voting.post()
            else:
                self.count()
        return voting

    def adopt(self, voting: Voting) -> Voting:
        """Queue a vote that a fast path has cast, unless it has counted it. No other vote is open."""
        if voting.outcome is None:
            self._votings.append(voting)
        return voting

    def count(self, voting: Any = None, block: bool = False) -> Outcome | None:
        """Post and count open votes as far as possible; the outcome of `voting`. With `block`, wait for a while."""
        with self.lock:
            while self._votings and self._votings[0].test(block and self._votings[0] is voting):
                self._votings.popleft()
            for later in self._votings:
                if not later.post():
                    break
        outcome: Outcome | None = None if voting is None else voting.outcome
        return outcome

    @property
    def is_ready(self) -> bool:
        """Whether a fast path may cast its vote by itself: the group is usable and no vote is open."""
        return self.abort_reason is None and not self._closed and not self._votings

    @property
    def in_flight(self) -> bool:
        """Whether an operation that this rank has started is not complete."""
        return bool(self.transfers or self._votings or self.interrupted) or not self.settle_series()

    @property
    def coming_ticket(self) -> int:
        """The ticket that is drawn next."""
        return TAGS * ((self.tickets.drawn + 1) % self._most_tickets)

    def take_up_operations(self) -> None:
        """Let this thread make progress on what is in flight and other threads have started, or left as they ended."""
        if self.transfers or self.interrupted:
            progress.tasks_in_flight().update(dict.fromkeys((*self.interrupted, *self.transfers)))

    def failure_code(self, error: BaseException | None) -> int:
        """The field `failed` of a vote for an error on this rank, or for None."""
        return 0 if error is None else self.size - self.rank

    # -- agreement

    def agree(
        self,
        vote: Vote,
        error: BaseException | None,
        statements: Callable[[], Sequence[Statement]],
        has_followup: Callable[[Outcome], bool],
        deliver_interrupts: Callable[[], None] | None = None,
        value: Any = None,
        reduce: Callable[[list[Any]], Any] | None = None,
        dozes: bool = False,
    ) -> tuple[Outcome, Any]:
        """Vote, and raise on every rank if a rank has an error or two ranks disagree. Collective. For `agreement`.

        Parameters
        ----------
        vote : Vote
            This rank's vote; its field `failed` agrees with `error`.
        error : BaseException or None
            This rank's error.
        statements : callable
            Returns the values behind the vote's digests, for the error text if they differ.
        has_followup : callable
            Whether the ranks exchange more after such an outcome. Then it is seen that no rank was interrupted.
        deliver_interrupts : callable, optional
            Called while waiting for votes, if the caller holds interrupts back.
        value, reduce
            What they exchange, as for `combine`.
        dozes : bool
            Whether this rank sleeps between polls, because another one computes for long.

        Returns
        -------
        Outcome, object
            The counted vote, and the combined values of its followup.

        Raises
        ------
        BaseException
            `error` itself on the rank that has it.
        CollectiveError
            On the other ranks; on all ranks if they disagree.
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

                outcome = wait_until(lambda: self.count(voting), check_peers, doze=progress.Doze() if dozes else None)
            with progress.hold_interrupts():
                self._waiting.take_announcements()
                self.take_up_operations()
                progress.advance_others()  # what follows from the votes of interrupted agreements comes before
        except CollectiveError:
            raise
        except BaseException as caught:
            if cast is None:  # the vote's message has no room
                self.abort(describe_error(caught))
            else:
                agreement = InterruptedAgreement(self, *cast, error or caught, statements, has_followup)
                self.interrupted[agreement] = progress.tasks_in_flight()[agreement] = None
            raise
        if not is_good(outcome):
            refusal = self.start_refusal(ticket, error, statements)
            self._complete(refusal)
            raise refusal.raised()
        result: Any = None
        if has_followup(outcome):
            exchange = start_allgather(self.channel, ticket, None, value, reduce)
            errors, result = self._complete_exchange(exchange)
            self._raise_first(errors, None)
        return outcome, result

    def _complete(self, operation: GatherScatter | Refusal) -> None:
        """Wait for an operation without interrupts: all ranks take part in it, now or soon.

        A second interrupt ends the wait, and so does an error, as where a message has no room. Then other ranks may lack what
        this one would have sent: the group is aborted.
        """
        with progress.hold_interrupts():
            try:
                wait_until(operation.advance, self.check_peers, patience=math.inf)
            except BaseException as caught:
                self.abort(describe_error(caught))
                raise

    @contextlib.contextmanager
    def aborting_if_forced(self) -> Iterator[None]:
        """Abort the group if an interrupt ends a wait in the block."""
        try:
            yield
        except BaseException as caught:
            if caught is progress.hold_interrupts.forced:
                self.abort(describe_error(caught))
            raise

    def _complete_exchange(self, exchange: GatherScatter) -> Any:
        """Wait for a gather-scatter and return its reply; all ranks raise if it has failed."""
        self._complete(exchange)
        if exchange.failure is not None:
            raise self.error_of(exchange.failure, exchange.error)
        return exchange.reply

    def _raise_first(self, errors: Sequence[str | None], error: BaseException | None) -> None:
        for rank, text in enumerate(errors):
            if text is not None:
                raise self.error_of([rank, f" could not take part: {text}"], error)

    def start_refusal(
        self,
        ticket: int,
        error: BaseException | None,
        statements: Callable[[], Sequence[Statement]],
        sent: Collection[int] = (),
    ) -> Refusal:
        """Start a refusal after a failed vote. All ranks of the group start one.

        Parameters
        ----------
        ticket : int
            The ticket of the vote.
        error : BaseException or None
            This rank's error.
        statements : callable
            Returns the values behind this rank's vote.
        sent : collection of int
            Ranks to which this rank has sent messages already.
        """
        guard = Guard(error)  # the repr of a user's object may raise anything
        own_statements = guard.attempt(lambda: [each.for_sending() for each in statements()], is_open=False) or []
        report = (None if guard.error is None else describe_error(guard.error), own_statements, tuple(sent))

        def reply(reports: list[Any]) -> list[Any]:
            verdict = find_verdict(reports)
            senders = [tuple(k for k, report in enumerate(reports) if rank in report[2]) for rank in range(self.size)]
            return [(verdict, peers) for peers in senders]

        return Refusal(self, ticket, GatherScatter(self.channel, ticket + CONTROL, report, reply), guard.error)

    def error_of(self, verdict: Verdict, error: BaseException | None) -> BaseException:
        """What this rank raises after a verdict: its own error, or one with the verdict's text."""
        raised = error or CollectiveError(self.format_verdict(verdict))
        culprit = verdict[0] if verdict and isinstance(verdict[0], int) else 0
        return raised if culprit == self.rank else with_its_cause_elsewhere(raised)

    def format_verdict(self, verdict: Verdict) -> str:
        """A verdict as text, with this rank's names of the ranks."""
        return "".join(self.names[part] if isinstance(part, int) else part for part in verdict or ())

    def combine(
        self,
        value: Any = None,
        reduce: Callable[[list[Any]], Any] | None = None,
        error: BaseException | None = None,
    ) -> Any:
        """Return the list of all ranks' values, or what `reduce` makes of it on the first rank. Collective over the group.

        Parameters
        ----------
        value : object
            This rank's value; anything that can be pickled.
        reduce : callable, optional
            A function of the list, such as `first_known`.
        error : BaseException, optional
            This rank's error; if a rank has one, all raise.

        Raises
        ------
        BaseException
            `error` itself on the rank that has it.
        CollectiveError
            On the other ranks.
        """
        self.check_usable()
        with progress.hold_interrupts():
            exchange = start_allgather(self.channel, self.draw_ticket(), error, value, reduce)
            errors, result = self._complete_exchange(exchange)
        self._raise_first(errors, error)
        return result

    def call_on_all(self, work: Callable[[], Any]) -> list[Any]:
        """Call a function on every rank, and return the list of results; an error on one is raised on all. Collective.

        Parameters
        ----------
        work : callable
            Does not wait for other ranks: interrupts end it.

        Raises
        ------
        BaseException
            The error of `work` on the rank that has it; CollectiveError on the others.
        """
        with Guard() as guard:
            value = guard.attempt(work)
            results: list[Any] = self.combine(value, error=guard.take_interrupts())
        return results

    # -- resources

    def make_collectives(self) -> None:
        """Make the second communicator, once. Collective over the group."""

    def make_node(self) -> Node:
        """Find the ranks of this node, share memory, and measure the links between nodes, once. Collective over the group."""
        if self.node is None:
            with progress.hold_interrupts(), self.aborting_if_forced():
                node = Node(self.rank, self.call_on_all, self.names, self.remote_ranks, self.forced_node)
                self.links = links_between(self.channel, node, self.call_on_all, self.draw_ticket(), self.check_peers)
                self.node = node
        return self.node

    def forced_node(self) -> int | None:
        """The node that the environment sets for this rank, or None."""
        return None

    # -- liveness

    def at_work(self, announces: bool = False) -> contextlib.AbstractContextManager[None]:
        """Say to ranks that wait for this one that it works in the block, and does not wait: they wait for as long as it takes.

        On a node that is a byte in shared memory. With `announces` the ranks of other nodes get a message, if there is a limit
        of time: for work of one rank, or of the first one of those that work together.
        """
        return self._waiting.at_work(announces)

    def set_working(self, is_working: bool) -> bool:
        """As `at_work`, on the node, from now on; returns whether it was so before."""
        return self.node is not None and self.node.set_working(self.rank, is_working)

    def communication_error(self) -> str | None:
        """The reason why these ranks cannot communicate any more, or None."""
        return None

    def check_peers(self, plan: object = None) -> None:
        """Let MPI make progress, and check that the other ranks are alive.

        Raises
        ------
        CollectiveError
            A rank has died or has aborted, so its pending data are lost.
        WaitTimeoutError
            This rank has waited for longer than the limit, and has aborted; or another one has, and this one waits as well.
        """
        reason = self.communication_error()
        self.settle_series()
        self.take_up_operations()
        try:
            if reason is None:
                self.channel.make_progress()
                self._waiting.look(plan)
        except WaitTimeoutError as caught:
            self.abort(str(caught))
            raise
        except CollectiveError as caught:
            reason = str(caught)
        if reason is not None:
            self.abort(reason)
            timeout = self._waiting.timeout_error(plan, reason)
            raise timeout or CollectiveError(f"{self.abort_reason}: its pending data are lost; {self._remedy}")

    @property
    def _remedy(self) -> str:
        return "use another communicator without it" if self.watch is None else "disconnect and connect again"

    def abort_use(self, error: BaseException, *memory: Any) -> None:
        """As `abort`, for an error of a use of a plan; its memory stays, because MPI may still access it."""
        self.abort(describe_error(error))
        self.aborted_uses.append(memory)

    def abort(self, reason: str) -> None:
        """Record that these ranks cannot redistribute any more, and notify the other ranks."""
        if self.abort_reason is not None:
            return
        self.abort_reason = reason
        if self.node is not None and self.node.ring is not None:
            self.node.ring.abort()
        self._waiting.notify_of_abort()

    def detach(self, reason: str) -> None:
        """In a forked process: leave the shared memory and the communicator to the parent."""
        self.abort_reason, self.lock = reason, threading.RLock()
        if self.node is not None and self.node.ring is not None:
            self.node.ring.closed = True

    def end(self) -> None:
        """Record in shared memory that this rank makes no more calls, so that the ranks of its node do not wait for it."""
        if self.abort_reason is None and self.node is not None and self.node.ring is not None:
            if self.in_flight:
                self.node.ring.abort()
            else:
                self.node.ring.end(self.tickets.drawn)

    def close(self) -> None:
        """Disable the fast paths."""
        self._closed = True
        while self._free_steps:
            self._free_steps.pop().free()
        if self.node is not None and self.node.ring is not None:
            self.node.ring.closed = True
