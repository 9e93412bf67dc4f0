"""The links between nodes: what a message costs to start and how fast bytes go, measured or read from a file.

`PYSCALAPACK_REDIST_LINKS` names a JSON file {"latency": seconds, "rate": bytes per second of a node, each way} that is
taken in place of a measurement; that of the participants' first rank counts.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import CollectiveError, RedistributionError
from .progress import wait_until

if TYPE_CHECKING:
    from .channel import Channel
    from .node import Node

VARIABLE = "PYSCALAPACK_REDIST_LINKS"
# The rate is that of what the larger message has more than the smaller: what starts a message is in both. Not larger, so
# that a link of 50 Mbit/s is known after a tenth of a second, one of 10 Gbit/s after a thousandth. Empty messages are so many
# that each rank has one during which all others had a core: the longest of all ranks counts.
EMPTY, SMALLER, LARGER = 0, 64 * 1024, 256 * 1024
ROUNDS = {EMPTY: 20, SMALLER: 2, LARGER: 2}


class Links(NamedTuple):
    """What messages between nodes cost, equal on all ranks.

    Attributes
    ----------
    latency : float
        Seconds until a message without contents has arrived, on the slowest link.
    rate : float
        Bytes per second that a node sends, while it receives as many, on the slowest link.
    nodes : int
        Nodes that the ranks are on.
    origin : str
        Where the numbers are from, in words.
    """

    latency: float
    rate: float
    nodes: int
    origin: str

    def __str__(self) -> str:
        return f"{self.nodes} nodes, latency {1e6 * self.latency:.3g} us, {self.rate / 1e6:.4g} MB/s a node ({self.origin})"


def links_between(
    channel: Channel,
    node: Node,
    combine: Callable[..., Any],
    tag: int,
    check_peers: Callable[[], None],
) -> Links | None:
    """Measure, or read the file: one rank of each node sends to the next node. None on one node. Collective over the group.

    Parameters
    ----------
    channel : Channel
        Between the ranks.
    node : Node
        Those of this node.
    combine : callable
        Gives what all ranks tell, by rank. Collective.
    tag : int
        Of messages that nobody else sends.
    check_peers : callable
        Called while waiting; raises if those waited for have gone.

    Raises
    ------
    RedistributionError
        The file cannot be read; CollectiveError on the other ranks.
    """
    leaders = sorted(set(node.leaders.tolist()))
    if len(leaders) == 1:
        return None
    path = os.environ.get(VARIABLE) if channel.rank == 0 else None
    path, problem, *given = combine(_read(path) if path else (None, None))[0]
    if path is not None:
        if problem is not None:
            raise (CollectiveError if channel.rank else RedistributionError)(
                f"rank 0 could not take part: {problem}" if channel.rank else problem
            )
        return Links(given[0], given[1], len(leaders), f"from {path}")
    mine = (0.0, 0.0)
    if channel.rank in leaders:
        mine = _measured(channel, leaders, tag, check_peers)
    latency, per_byte = map(max, zip(*combine(mine), strict=True))
    return Links(latency, 1 / per_byte, len(leaders), "measured")


def _measured(channel: Channel, leaders: list[int], tag: int, check_peers: Callable[[], None]) -> tuple[float, float]:
    """Seconds of an empty message, and seconds per byte."""
    at = leaders.index(channel.rank)
    to, come_from = leaders[(at + 1) % len(leaders)], leaders[at - 1]
    out, come = np.ones(LARGER, np.uint8), np.empty(LARGER, np.uint8)
    best = dict.fromkeys(ROUNDS, math.inf)
    for size, rounds in ROUNDS.items():
        for _ in range(rounds):
            start = time.perf_counter()
            sent, received = channel.send(out[:size], to, tag), channel.receive(come[:size], come_from, tag)
            wait_until(lambda sent=sent, received=received: sent.Test() & received.Test(), check_peers)  # type: ignore[misc]
            best[size] = min(best[size], time.perf_counter() - start)
    more = best[LARGER] - best[SMALLER]
    return best[EMPTY], (more / (LARGER - SMALLER) if more > 0 else best[LARGER] / LARGER)


def _read(path: str) -> tuple[str, str] | tuple[str, None, float, float]:
    """The path; and what is wrong with the file, or its latency and rate."""
    try:
        given = json.loads(Path(path).read_text(encoding="utf-8"))
        latency, rate = float(given["latency"]), float(given["rate"])
        if not (0 <= latency < math.inf and 0 < rate < math.inf):
            raise ValueError(f"latency = {latency!r} must not be negative, and rate = {rate!r} positive")
        if 2 * latency * rate == math.inf:
            raise ValueError(f"latency = {latency!r} times rate = {rate!r}, the bytes on the way, is no number")
    except Exception as caught:
        problem = f"{type(caught).__name__}: {caught}"
        return path, (
            f"{VARIABLE}={path!r} must name a JSON file such as "
            f'{{"latency": 2e-6, "rate": 12e9}} (seconds, bytes per second): {problem[:200]}'
        )
    return path, None, latency, rate
