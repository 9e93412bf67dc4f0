"""Checks while a rank waits: whether other ranks are alive, and after a timeout one report of the missing ranks.

Ranks of other nodes are notified by messages. A rank that works in a call, while others wait for it, says so: that time is
neither reported nor limited.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from .. import diagnostics
from .._kernels.ring import Ring, Tickets
from ..errors import CollectiveError, WaitTimeoutError, calling_line, public_call
from . import progress
from .channel import Channel, Request
from .node import Node
from .timers import Timer

LOGGER = logging.getLogger(__name__)
VARIABLE = "PYSCALAPACK_REDIST_PATIENCE"  # seconds until a report
LIMIT = "PYSCALAPACK_REDIST_TIMEOUT"  # seconds until a rank that waits raises
LONGEST_STEP = 1.0  # seconds between two checks that count as waiting: a rank that computes meanwhile does not wait
CHECK_SECONDS = 0.05
ANSWER_SECONDS = 1.0
SETTLE_SECONDS = 10.0  # that ranks wait for one another before a communicator is freed
FAILURE_SECONDS = 10.0  # that a rank waits after a failure, in all its calls together, until all ranks know of it
WATCHERS = 64  # the lowest ranks: they ask all ranks whether they wait; other ranks ask only these
MOST_NAMED = 8  # ranks that a report names
WAITS, ABORTED, WORKS, RESTS = range(4)  # kinds of notices


class Waiters(Protocol):
    """The attributes of `Group` that this module needs."""

    channel: Channel
    rank: int
    size: int
    names: tuple[str, ...]
    node: Node | None
    tickets: Tickets
    watch: Callable[[], None] | None

    @property
    def voting_ring(self) -> Ring | None:
        """The ring in which votes are cast, or None."""

    @property
    def call_count(self) -> int:
        """The number of calls that these ranks have started."""

    @property
    def in_flight(self) -> bool:
        """Whether an operation of this rank is not complete."""

    def end(self) -> None:
        """Record that this rank makes no more calls."""

    def end_series(self) -> None:
        """End all series, unless a transfer is in flight."""

    def take_up_operations(self) -> None:
        """Let this thread make progress on what is in flight and other threads have started."""

    def check_peers(self) -> None:
        """Let MPI make progress, and check that the other ranks are alive."""

    def set_working(self, is_working: bool) -> bool:
        """Say to the ranks of the node whether this one works; returns what it has said before."""


class Waiting:
    """The time that a rank has waited in one call, and its knowledge of other waiting ranks."""

    def __init__(self, group: Waiters, tag: int) -> None:
        self._group, self._tag = group, tag
        self._waiting_calls: dict[int, int] = {}  # by rank, from its notices
        self._at_work = set[int]()  # ranks, from their notices
        self._notified: set[int] = set()
        self._sends: list[Any] = []
        self._since, self._has_reported, self._has_asked = 0.0, False, False
        self._call: object = None
        self._checked = 0.0
        self._timeout, self._limit, self._waited = read_timeout(), read_limit(), 0.0

    def look(self, plan: object) -> None:
        """Check from time to time that other ranks are alive; report the missing ranks after the timeout.

        Raises
        ------
        CollectiveError
            A rank has died or has aborted.
        WaitTimeoutError
            This rank has waited for longer than the limit.
        """
        last = self._checked
        if not self._check_others():
            return
        moment, call = self._checked, self._group.call_count
        self._waited += min(moment - last, LONGEST_STEP)
        if call != self._call:
            self._waited = 0.0
            self._call, self._since, self._has_reported, self._has_asked, self._notified = (
                call,
                moment,
                False,
                False,
                set(),
            )
        self._take_notices()
        if self._is_work_awaited:
            self._since, self._waited = moment, 0.0
        self._notify_of_waiting({peer for peer, waiting_call in self._waiting_calls.items() if waiting_call == call})
        if not self._has_reported and 0 < self._timeout < moment - self._since:
            self._has_reported = True
            self._report_missing(plan)
        if 0 < self._limit < self._waited + ANSWER_SECONDS and not self._has_asked and self._by_messages:
            self._ask()  # whose replies the error names
        if 0 < self._limit < self._waited:
            raise WaitTimeoutError(self._describe_wait(plan))

    @contextlib.contextmanager
    def at_work(self, announces: bool) -> Iterator[None]:
        """Say that this rank works in the block, as `Group.at_work`."""
        notices = announces and self._limit > 0
        before = self._group.set_working(True)
        try:
            if notices:
                self._notify(WORKS, range(self._group.size))
            yield
        finally:
            self._group.set_working(before)
            if notices:
                self._notify(RESTS, range(self._group.size))

    @property
    def _is_work_awaited(self) -> bool:
        """Whether another rank has said that it works."""
        node = self._group.node
        return bool(self._at_work) or (node is not None and node.has_others_at_work(self._group.rank))

    def timeout_error(self, plan: object, reason: str) -> WaitTimeoutError | None:
        """The error of a rank that has waited for half the limit or more when another rank aborts; None for others."""
        if not 0 < self._limit < 2 * self._waited:
            return None
        return WaitTimeoutError(self._describe_wait(plan, f"; {reason}"))

    def _describe_wait(self, plan: object, reason: str = "") -> str:
        """How long this rank has waited and in which call, and for which ranks; if these are not known, the reason to end."""
        group, operation = self._group, _describe_call(plan)
        late: list[int] = []
        if self._has_asked or not self._by_messages:
            late = self._find_missing() or []
        names = _list_names([group.names[k] for k in late])
        known = f": {names} {'has' if len(late) == 1 else 'have'} not called it" if late else reason
        return (
            f"{group.names[group.rank]} has waited for {self._waited:.3g} s ({LIMIT}={self._limit:g}) in call "
            f"{group.call_count} of these {group.size} ranks, {operation}{known}"
        )

    def _check_others(self) -> bool:
        """Check that other ranks are alive; False if the last check was a moment ago."""
        moment = time.monotonic()
        if moment - self._checked < CHECK_SECONDS:
            return False
        self._checked = moment
        if self._group.node is not None:
            self._group.node.check(self._group.tickets.drawn)
        if self._group.watch is not None:
            self._group.watch()
        return True

    def settle(self, barrier: Callable[[], Request]) -> bool:
        """Complete all operations and receive all notices, before the communicator is freed. Collective over the group.

        MPI may reuse the communicator's number, and would deliver a late notice there. A rank starts the barrier when its own
        notices are received (Hoefler, Siebert & Lumsdaine 2010, "NBX").

        Returns
        -------
        bool
            False if other ranks did not take part within `SETTLE_SECONDS`, or have died.
        """
        request, last = None, time.monotonic() + SETTLE_SECONDS
        with contextlib.suppress(Exception):  # a rank has died, or MPI fails without it
            while time.monotonic() < last:
                self._take_notices()
                self._group.end_series()
                if request is None and not self._group.in_flight and not self._count_pending_notices():
                    self._group.end()
                    request = barrier()
                if request is not None and not self._group.in_flight and request.Test():
                    return True
                self._check_others()
                self._group.take_up_operations()
                progress.advance_others()  # other ranks may wait for operations of other groups
                progress.pause()
        return False

    def for_failures(self, settled: Callable[[], bool], since: float) -> None:
        """Wait until all ranks know of a failure, for at most `FAILURE_SECONDS` since then."""
        last = since + FAILURE_SECONDS
        with contextlib.suppress(CollectiveError):  # the caller raises the first failure
            progress.wait_until(lambda: settled() or time.monotonic() > last, self._group.check_peers)

    def notify_of_abort(self) -> None:
        """Notify all ranks that this one has aborted."""
        self._notify(ABORTED, range(self._group.size))

    @property
    def _by_messages(self) -> bool:
        """Whether ranks need notices, because no shared memory holds all of them."""
        return self._group.voting_ring is None

    def _notify(self, kind: int, ranks: Iterable[int]) -> None:
        group = self._group
        if not self._by_messages:
            return
        self._count_pending_notices()  # frees the others
        data = np.array([kind, group.call_count], np.int64)
        for peer in ranks:
            if peer != group.rank:
                with contextlib.suppress(Exception):
                    self._sends.append((data, group.channel.send_synchronously(data, peer, self._tag)))

    def _count_pending_notices(self) -> int:
        """The number of this rank's notices that are not received."""
        self._sends = [send for send in self._sends if not send[1].Test()]
        return len(self._sends)

    def _notify_of_waiting(self, ranks: set[int]) -> None:
        """Notify ranks, once in each call, that this one waits; those that wait in the same call reply."""
        if ranks - self._notified:
            self._notify(WAITS, sorted(ranks - self._notified))
            self._notified |= ranks

    def take_announcements(self) -> None:
        """Receive notices where ranks announce their work, so that those for which this rank need not wait do not pile up."""
        if self._limit > 0 and self._by_messages:
            self._take_notices()

    def _take_notices(self) -> None:
        """Receive notices; raise if a rank has aborted."""
        for peer, kind, call in self._receive_notices():
            if kind == ABORTED:
                raise CollectiveError(f"{self._group.names[peer]} has aborted a redistribution")
            if kind == WAITS:
                self._waiting_calls[peer] = call
            elif kind == WORKS:
                self._at_work.add(peer)
            else:
                self._at_work.discard(peer)

    def _receive_notices(self) -> list[tuple[int, int, int]]:
        """The sender, kind and call of each notice."""
        notices: list[tuple[int, int, int]] = []
        while (message := self._group.channel.probe(None, self._tag)) is not None:
            data = np.empty(2, np.int64)
            request = message.receive(data)
            while not request.Test():
                progress.pause()
            notices.append((message.peer, int(data[0]), int(data[1])))
        return notices

    def _find_missing(self) -> list[int] | None:
        """The missing ranks; None until other ranks have had the time to reply."""
        group = self._group
        if group.node is not None and group.voting_ring is not None:
            node_ranks = list(group.node.number)
            return [node_ranks[k] for k in group.voting_ring.missing()]
        asked = self._asked
        if not self._has_asked:
            self._ask()
            self._has_reported = False
            self._since = time.monotonic() - self._timeout + ANSWER_SECONDS
            return None
        return [k for k in asked if k != group.rank and self._waiting_calls.get(k) != group.call_count]

    def _ask(self) -> None:
        """Ask other ranks whether they wait in this call."""
        self._notify_of_waiting(set(self._asked))
        self._has_asked = True

    @property
    def _asked(self) -> range:
        """The ranks that this one asks whether they wait."""
        group = self._group
        return range(WATCHERS if self._by_messages and group.rank >= WATCHERS else group.size)

    def _report_missing(self, plan: object) -> None:
        """Report the missing ranks, on the lowest of the waiting ranks, or on the lowest of a node if no asked rank waits.

        If no rank is missing, a rank may be at work without waiting: the two lowest ranks report that.
        """
        group, missing = self._group, self._find_missing()
        if missing is None:
            return
        waiting = [k for k in self._asked if k not in missing]
        reporters = waiting[: 1 if missing else 2] or [group.rank if group.node is None else min(group.node.number)]
        if group.rank not in reporters:
            return
        operation = _describe_call(plan)
        names, has = _list_names([group.names[k] for k in missing]), "has" if len(missing) == 1 else "have"
        absence = f"{names} {has} not called it" if missing else "all have called it"
        text = f"in call {group.call_count} of these {group.size} ranks, {operation}: {absence}"
        _report(group.names[group.rank], self._timeout, text)


def _describe_call(plan: object) -> str:
    """The plan in whose call this rank waits, or else the call; and where the user's code has made it."""
    call, line = (public_call() or "a redistribution") if plan is None else f"{plan!r}", calling_line()
    return f"{call} at {line}" if line else call


class WaitInMPI:
    """A wait inside MPI, which does not tell for whom: in a call that is the first one over some ranks.

    Parameters
    ----------
    name : str
        Name of this rank in texts.
    ranks : str
        The ranks over which the call is collective.
    """

    def __init__(self, name: str, ranks: str) -> None:
        self._name, self._text = name, f"in the first call that is collective over {ranks}, {_describe_call(None)}"
        self.absence = "not all of them have called it"  # the latest that is known
        self._timeout, self._limit = read_timeout(), read_limit()
        self._waited, self._checked, self._has_reported = 0.0, time.monotonic(), False

    @property
    def is_limited(self) -> bool:
        """Whether `check` may raise."""
        return self._limit > 0

    @contextlib.contextmanager
    def reported(self) -> Iterator[None]:
        """Report after the timeout, from another thread, that the block still waits."""
        if not 0 < self._timeout <= threading.TIMEOUT_MAX:
            yield
            return
        text = f"{self._text}: {self.absence}"
        timer = Timer(self._timeout, _report, (self._name, self._timeout, text))
        try:
            timer.start()
            yield
        finally:
            timer.cancel()

    def check(self) -> None:
        """Called from time to time while another thread waits; raises a WaitTimeoutError after the limit."""
        last, self._checked = self._checked, time.monotonic()
        self._waited += min(self._checked - last, LONGEST_STEP)
        if 0 < self._limit < self._waited:
            raise WaitTimeoutError(
                f"{self._name} has waited for {self._waited:.3g} s ({LIMIT}={self._limit:g}) {self._text}: {self.absence}; "
                "MPI still waits for them, in a thread of this process: end the program"
            )


def describe_absence(ranks: Sequence[int], number: int, half: int) -> tuple[str, bool]:
    """The ranks that a call waits for in one half of a block of ranks, and whether this rank reports them.

    A rank that waits for one other rank reports it; otherwise the lowest rank of the first and of the second half do.

    Parameters
    ----------
    ranks : sequence of int
        The ranks that make the call.
    number : int
        The index of this rank among them.
    half : int
        Half the ranks of a block; blocks begin at multiples of `2 * half`.
    """
    other = number // half ^ 1
    awaited = list_ranks(ranks[other * half : (other + 1) * half])
    reports = bool(awaited) and number % half == 0 and (half == 1 or number < 2 * half)
    if half > 1:
        return f"it waits for {awaited} together, and at least one of these has not called it", reports
    return f"{awaited} has not called it{', and perhaps others' if len(ranks) > 2 else ''}", reports


def list_ranks(ranks: Sequence[int]) -> str:
    """Ranks in words, the first of them if there are many."""
    return _list_names([f"rank {rank}" for rank in ranks])


def read_timeout() -> float:
    """Seconds until a report, from the environment."""
    return _read_seconds(VARIABLE, 30.0, "0 for no message: 30 is used")


def read_limit() -> float:
    """Seconds until a rank that waits raises, from the environment; 0 for no limit."""
    return _read_seconds(LIMIT, 0.0, "0 for no limit: there is none")


def _read_seconds(variable: str, default: float, advice: str) -> float:
    """A number of seconds from the environment; the default, with a warning, if it is none."""
    text = os.environ.get(variable)
    if not text:
        return default
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if math.isnan(seconds):
        diagnostics.warn(f"{variable}={text!r} must be a number of seconds, {advice}", UserWarning)
        return default
    return seconds


def _list_names(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST_NAMED]) + (" and others" if len(names) > MOST_NAMED else "")


def _report(name: str, seconds: float, text: str) -> None:
    diagnostics.log(LOGGER, logging.INFO, "%s has waited for %g s %s", name, seconds, text)
    diagnostics.write_line(
        f"pyscalapack_redist: {name} has waited for {seconds:g} s {text}. Look for a rank that has raised an exception, "
        f"has been interrupted, takes another branch, or makes its calls in another order. ({VARIABLE}=0 turns this "
        "message off.)"
    )
