"""While a rank waits: whether the others live, and after a long time a report, once, of which ranks have not come.

Ranks of other nodes are told by messages.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import CollectiveError
from . import progress

if TYPE_CHECKING:
    from .group import Group

__all__ = ["LEFT", "Waiting"]

PATIENCE = "PYSCALAPACK_REDIST_PATIENCE"
CHECK_SECONDS = 0.05
WATCHERS = 64  # ranks that are told who waits
WAITS, LEFT = range(2)  # what a notice says


class Waiting:
    """How long a rank has waited for one thing, and what it knows of others that wait. Not collective."""

    def __init__(self, group: Group, tag: int) -> None:
        self._group, self._tag = group, tag
        self._heard: dict[int, int] = {}
        self._sent: list[Any] = []
        self._since, self._said, self._asked = 0.0, False, False
        self._what: object = None
        self._checked = 0.0
        try:
            self._patience = float(os.environ.get(PATIENCE, "30"))
        except ValueError:
            self._patience = 30.0

    def look(self, plan: object) -> None:
        """See from time to time whether the others live, and whether this rank has waited for long.

        Raises
        ------
        CollectiveError
            One has died or has gone.
        """
        moment, group = time.monotonic(), self._group
        if moment - self._checked < CHECK_SECONDS:
            return
        self._checked = moment
        if group.node is not None:
            group.node.check()
        if group.watch is not None:
            group.watch()
        self._listen()
        ticket = group.tickets.drawn
        if ticket != self._what:
            self._what, self._since, self._said, self._asked = ticket, moment, False, False
        if not self._said and 0 < self._patience < moment - self._since:
            self._said = True
            self._say(plan)

    def notify(self, what: int, ranks: int) -> None:
        """Tell the first so many ranks, where a message may be needed for it."""
        group = self._group
        if group.node is None or group.node.whole:
            return
        self._sent = [message for message in self._sent if not message[1].Test()]
        data = np.array([what, group.tickets.drawn], np.int64)
        for peer in range(min(ranks, group.size)):
            if peer != group.rank:
                with contextlib.suppress(Exception):
                    self._sent.append((data, group.channel.send(data, peer, self._tag)))

    def _listen(self) -> None:
        """Read what ranks say of themselves."""
        group = self._group
        if group.node is None or group.node.whole:
            return
        while (found := group.channel.probe(None, self._tag)) is not None:
            data = np.empty(2, np.int64)
            request = found.receive(data)
            while not request.Test():
                progress.pause()
            if data[0] == LEFT:
                raise CollectiveError(f"{group.names[found.peer]} has left a redistribution in the middle")
            self._heard[found.peer] = int(data[1])

    def _missing(self) -> list[int] | None:
        """The ranks that have not come; None until others have had the time to say that they wait."""
        group = self._group
        if group.node is not None and group.node.ring is not None and group.node.whole:
            here = list(group.node.number)
            return [here[k] for k in group.node.ring.missing()]
        if not self._asked:
            self.notify(WAITS, WATCHERS)
            self._asked, self._said = True, False
            self._since = time.monotonic() - self._patience + 1.0
            return None
        return [k for k in range(group.size) if k != group.rank and self._heard.get(k) != group.tickets.drawn]

    def _say(self, plan: object) -> None:
        """On standard error, by the lowest of the ranks that wait.

        Where all have come, one of the others may be at work and not wait: two ranks then say so.
        """
        group, missing = self._group, self._missing()
        if missing is None:
            return
        waiting = [k for k in range(group.size) if k not in missing]
        if group.rank not in (waiting[:1] if missing else waiting[:2]):
            return
        what = "a redistribution" if plan is None else f"{plan!r}"
        who = ", ".join(group.names[k] for k in missing[:8]) + (" and others" if len(missing) > 8 else "")
        absent = f"{who} {'has' if len(missing) == 1 else 'have'} not come to it" if missing else "all have come to it"
        sys.stderr.write(
            f"pyscalapack_redist: {group.names[group.rank]} has waited for {self._patience:g} s in call "
            f"{group.tickets.drawn} of these {group.size} ranks, {what}: {absent}. Look for a rank that has raised an "
            f"exception, has been interrupted, takes another branch, or makes its calls in another order. "
            f"({PATIENCE}=0 turns this message off.)\n"
        )
        sys.stderr.flush()
