"""Links between nodes: their latency and bandwidth, measured or read from a file.

`PYSCALAPACK_REDIST_LINKS` names a JSON file {"latency": seconds, "rate": bytes per second of a node, each way}, used in place
of a measurement. The variable of the group's first rank counts.
"""

from __future__ import annotations

import json
import logging
import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .. import diagnostics
from ..errors import RedistributionError
from .progress import wait_until

if TYPE_CHECKING:
    from .channel import Channel
    from .node import Node

LOGGER = logging.getLogger(__name__)
VARIABLE = "PYSCALAPACK_REDIST_LINKS"
# The rate follows from the difference of the two larger sizes, which removes the latency. With these sizes a link of 50 Mbit/s
# is measured in 0.1 s, one of 10 Gbit/s in 1 ms. There are enough empty messages that one of them finds a core free on all
# ranks; the largest minimum of all ranks counts.
EMPTY, SMALLER, LARGER = 0, 64 * 1024, 256 * 1024
ROUNDS = {EMPTY: 20, SMALLER: 2, LARGER: 2}


class Links(NamedTuple):
    """Costs of messages between nodes, equal on all ranks.

    Attributes
    ----------
    latency : float
        Seconds of an empty message on the slowest link.
    rate : float
        Bytes per second that a node sends while it receives as many, on the slowest link.
    nodes : int
        The number of nodes.
    origin : str
        The source of the numbers, in words.
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
    call_on_all: Callable[[Callable[[], Any]], list[Any]],
    tag: int,
    check_peers: Callable[[], None],
) -> Links | None:
    """Measure the links, or read the file; None on one node. Collective over the group.

    One rank of each node sends to the next node.

    Parameters
    ----------
    channel : Channel
        The group's channel.
    node : Node
        The ranks of this node.
    call_on_all : callable
        Calls a function, and returns the list of its results on all ranks; an error on one is raised on all. Collective
        over the group.
    tag : int
        A tag that no other message has.
    check_peers : callable
        Called while waiting; raises if the wait cannot end.

    Raises
    ------
    RedistributionError
        The file cannot be read; CollectiveError on the other ranks.
    """
    leaders = sorted(set(node.leaders.tolist()))
    if len(leaders) == 1:
        return None
    path = os.environ.get(VARIABLE) if channel.rank == 0 else None
    values = call_on_all(lambda: _read(path) if path else None)[0]
    if values is not None:
        path, latency, rate = values
        return _logged(Links(latency, rate, len(leaders), f"from {path}"))
    costs = (0.0, 0.0)
    if channel.rank in leaders:
        costs = _measure(channel, leaders, tag, check_peers)
    latency, per_byte = map(max, zip(*call_on_all(lambda: costs), strict=True))
    return _logged(Links(latency, 1 / per_byte, len(leaders), "measured"))


def _logged(links: Links) -> Links:
    """Log the links, and return them."""
    diagnostics.log(LOGGER, logging.INFO, "links: %s", links)
    return links


def _measure(channel: Channel, leaders: list[int], tag: int, check_peers: Callable[[], None]) -> tuple[float, float]:
    """Seconds of an empty message, and seconds per byte."""
    number = leaders.index(channel.rank)
    target, source = leaders[(number + 1) % len(leaders)], leaders[number - 1]
    outgoing, incoming = np.ones(LARGER, np.uint8), np.empty(LARGER, np.uint8)
    best = dict.fromkeys(ROUNDS, math.inf)
    for size, rounds in ROUNDS.items():
        for _ in range(rounds):
            start = time.perf_counter()
            send, receive = channel.send(outgoing[:size], target, tag), channel.receive(incoming[:size], source, tag)
            wait_until(lambda send=send, receive=receive: send.Test() & receive.Test(), check_peers, patience=math.inf)  # type: ignore[misc]
            best[size] = min(best[size], time.perf_counter() - start)
    difference = best[LARGER] - best[SMALLER]
    return best[EMPTY], (difference / (LARGER - SMALLER) if difference > 0 else best[LARGER] / LARGER)


def _read(path: str) -> tuple[str, float, float]:
    """The path, the latency and the rate.

    Raises
    ------
    RedistributionError
        The file cannot be read.
    """
    try:
        values = json.loads(Path(path).read_text(encoding="utf-8"))
        latency, rate = float(values["latency"]), float(values["rate"])
        if not (0 <= latency < math.inf and 0 < rate < math.inf):
            raise ValueError(f"latency = {latency!r} must not be negative, and rate = {rate!r} positive")
        if 2 * latency * rate == math.inf:
            raise ValueError(f"latency = {latency!r} times rate = {rate!r}, the bytes on the way, is no number")
    except Exception as caught:
        problem = f"{type(caught).__name__}: {caught}"
        raise RedistributionError(
            f"{VARIABLE}={path!r} must name a JSON file such as "
            f'{{"latency": 2e-6, "rate": 12e9}} (seconds, bytes per second): {problem[:200]}'
        ) from caught
    return path, latency, rate
