"""While a rank waits: whether the others live, and after a long time a report, once, of which ranks have not come.

Ranks of other nodes are told by messages.
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from .._kernels.ring import Ring, Tickets
from ..errors import CollectiveError
from . import progress
from .channel import Channel, Request
from .node import Node

PATIENCE = "PYSCALAPACK_REDIST_PATIENCE"
CHECK_SECONDS = 0.05
ANSWER_SECONDS = 1.0
SETTLE_SECONDS = 10.0
WATCHERS = 64  # the lowest ranks: they ask all others whether they wait, and the others ask only them
MOST_NAMED = 8  # ranks that a report names
WAITS, LEFT = range(2)  # what a notice says


class Waiters(Protocol):
    """The ranks of whom one waits, as `Group` has them."""

    channel: Channel
    rank: int
    size: int
    names: tuple[str, ...]
    node: Node | None
    tickets: Tickets
    watch: Callable[[], None] | None

    @property
    def voting_ring(self) -> Ring | None:
        """Where votes are cast in shared memory."""

    @property
    def started(self) -> int:
        """How many calls these ranks have started."""

    @property
    def in_flight(self) -> bool:
        """Whether anything that this rank has started has not ended."""

    def end(self) -> None:
        """Come to no more calls. Not collective."""

    def end_series(self) -> None:
        """End all calls without votes, once none is under way."""

    def check_peers(self) -> None:
        """Let messages move, and see whether the others still live and come."""


class Waiting:
    """How long a rank has waited for one thing, and what it knows of others that wait. Not collective."""

    def __init__(self, group: Waiters, tag: int) -> None:
        self._group, self._tag = group, tag
        self._heard: dict[int, int] = {}
        self._told: set[int] = set()
        self._sent: list[Any] = []
        self._since, self._said, self._has_asked = 0.0, False, False
        self._what: object = None
        self._checked = 0.0
        self._patience = _patience()

    def look(self, plan: object) -> None:
        """See from time to time whether the others live, and whether this rank has waited for long.

        Raises
        ------
        CollectiveError
            One has died or has gone.
        """
        if not self._check_others():
            return
        moment, ticket = self._checked, self._group.started
        if ticket != self._what:
            self._what, self._since, self._said, self._has_asked, self._told = ticket, moment, False, False, set()
        self._listen()
        self._say_here({peer for peer, theirs in self._heard.items() if theirs == ticket})
        if not self._said and 0 < self._patience < moment - self._since:
            self._said = True
            self._say(plan)

    def _check_others(self) -> bool:
        """See whether they live, as far as this rank can see; False where it has done so a moment ago."""
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
        """End what is in flight, and receive all notices: MPI could take one for a message of a later communicator. Collective.

        Each rank starts the barrier when its own are done (Hoefler, Siebert & Lumsdaine 2010, "NBX").

        Returns
        -------
        bool
            False where others have not come for `SETTLE_SECONDS`, or will not come.
        """
        met, last = None, time.monotonic() + SETTLE_SECONDS
        with contextlib.suppress(Exception):  # of ranks that have died, or of MPI without them
            while time.monotonic() < last:
                self._listen()
                self._group.end_series()
                if met is None and not self._group.in_flight and not self._on_their_way():
                    self._group.end()
                    met = barrier()
                if met is not None and not self._group.in_flight and met.Test():
                    return True
                self._check_others()
                progress.advance_others()  # here, or elsewhere: others may wait for that before they come
                progress.pause()
        return False

    def for_failures(self, settled: Callable[[], bool]) -> None:
        """Wait until all ranks know of a failure, or they have not come to that for `SETTLE_SECONDS`. Not collective."""
        last = time.monotonic() + SETTLE_SECONDS
        with contextlib.suppress(CollectiveError):  # the failure is told, whatever comes after it
            progress.wait_until(lambda: settled() or time.monotonic() > last, self._group.check_peers)

    def leave(self) -> None:
        """Tell all others that this rank takes part no more."""
        self._notify(LEFT, range(self._group.size))

    @property
    def _by_messages(self) -> bool:
        """Whether ranks must tell one another what they could not read in shared memory."""
        return self._group.voting_ring is None

    def _notify(self, what: int, ranks: Iterable[int]) -> None:
        group = self._group
        if not self._by_messages:
            return
        self._on_their_way()  # forgets the others
        data = np.array([what, group.started], np.int64)
        for peer in ranks:
            if peer != group.rank:
                with contextlib.suppress(Exception):
                    self._sent.append((data, group.channel.send_synchronously(data, peer, self._tag)))

    def _on_their_way(self) -> int:
        """How many notices of this rank have not been received."""
        self._sent = [message for message in self._sent if not message[1].Test()]
        return len(self._sent)

    def _say_here(self, ranks: set[int]) -> None:
        """Tell ranks, once, that this one waits; they tell this one, if they wait for the same."""
        if ranks - self._told:
            self._notify(WAITS, sorted(ranks - self._told))
            self._told |= ranks

    def _listen(self) -> None:
        """Hear what ranks say of themselves."""
        for peer, what, call in self._receive_notices():
            if what == LEFT:
                raise CollectiveError(f"{self._group.names[peer]} has left a redistribution in the middle")
            self._heard[peer] = call

    def _receive_notices(self) -> list[tuple[int, int, int]]:
        """From whom, what they say, and in which call."""
        came: list[tuple[int, int, int]] = []
        while (found := self._group.channel.probe(None, self._tag)) is not None:
            data = np.empty(2, np.int64)
            request = found.receive(data)
            while not request.Test():
                progress.pause()
            came.append((found.peer, int(data[0]), int(data[1])))
        return came

    def _missing(self) -> list[int] | None:
        """The ranks that have not come; None until others have had the time to say that they wait."""
        group = self._group
        if group.node is not None and group.voting_ring is not None:
            here = list(group.node.number)
            return [here[k] for k in group.voting_ring.missing()]
        asked = self._asked
        if not self._has_asked:
            self._say_here(set(asked))
            self._has_asked, self._said = True, False
            self._since = time.monotonic() - self._patience + ANSWER_SECONDS
            return None
        return [k for k in asked if k != group.rank and self._heard.get(k) != group.started]

    @property
    def _asked(self) -> range:
        """The ranks of which this one may know whether they have come."""
        group = self._group
        return range(WATCHERS if self._by_messages and group.rank >= WATCHERS else group.size)

    def _say(self, plan: object) -> None:
        """On standard error, by the lowest of the ranks that wait, or by the lowest of a node where none of the lowest waits.

        Where all have come, one of the others may be at work and not wait: two ranks then say so.
        """
        group, missing = self._group, self._missing()
        if missing is None:
            return
        waiting = [k for k in self._asked if k not in missing]
        speakers = waiting[: 1 if missing else 2] or [group.rank if group.node is None else min(group.node.number)]
        if group.rank not in speakers:
            return
        what = "a redistribution" if plan is None else f"{plan!r}"
        who, has = _listed([group.names[k] for k in missing]), "has" if len(missing) == 1 else "have"
        absent = f"{who} {has} not come to it" if missing else "all have come to it"
        where = f"in call {group.started} of these {group.size} ranks, {what}: {absent}"
        _report(group.names[group.rank], self._patience, where)


@contextlib.contextmanager
def reported(ranks: Sequence[int], number: int, half: int) -> Iterator[None]:
    """While a rank waits in MPI for the other half of a block of some ranks: after a long time the same report. Not collective.

    It is written by a rank that waits for one other rank, and by the lowest one of the first or the second half.

    Parameters
    ----------
    ranks : sequence of int
        Those that the call is of.
    number : int
        Which of them this one is.
    half : int
        Ranks of half a block: blocks begin at multiples of twice that number.
    """
    patience, other = _patience(), number // half ^ 1
    awaited = [f"rank {rank}" for rank in ranks[other * half : (other + 1) * half]]
    speaks = number % half == 0 and (half == 1 or number < 2 * half)
    if not 0 < patience <= threading.TIMEOUT_MAX or not awaited or not speaks:
        yield
        return
    names = _listed([f"rank {rank}" for rank in ranks])
    absent = f"{awaited[0]} has not come to it" if half == 1 else f"some of {_listed(awaited)} have not come to it"
    where = f"for the first call here that is collective over {names}: {absent}"
    timer = threading.Timer(patience, _report, (f"rank {ranks[number]}", patience, where))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _patience() -> float:
    """Seconds."""
    text = os.environ.get(PATIENCE) or "30"
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if math.isnan(seconds):
        warnings.warn(
            f"{PATIENCE}={text!r} must be a number of seconds, 0 for no message: it is taken for 30", stacklevel=2
        )
        return 30.0
    return seconds


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST_NAMED]) + (" and others" if len(names) > MOST_NAMED else "")


def _report(who: str, seconds: float, where: str) -> None:
    sys.stderr.write(
        f"pyscalapack_redist: {who} has waited for {seconds:g} s {where}. Look for a rank that has raised an exception, "
        f"has been interrupted, takes another branch, or makes its calls in another order. ({PATIENCE}=0 turns this "
        "message off.)\n"
    )
    sys.stderr.flush()
