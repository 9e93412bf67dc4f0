"""What a plan costs, and the choice behind "auto"."""

from __future__ import annotations

import functools
import math
import time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..comm.links import Links
from ..comm.node import Node, usable_cores
from ..comm.vote import radix_for, work_of
from ..exchanges import Cutting, Exchange, Options, exchange_class
from ..exchanges.collective import Bruck
from ..exchanges.pipeline import Windowed
from ..schedules.layout_orders import Load

if TYPE_CHECKING:
    pass

ELEMENT = 8  # bytes that an element is taken to have before the arrays are known
# As measured on limited links (docs/between-hosts.md): while the wire is the bottleneck, short pieces of all messages at once
# win, so short that MPI sends them without asking first (Open MPI over TCP: up to 64 KiB with its headers), and so few that
# no queue grows long. Within these bounds a piece takes PIECE_SECONDS of the link.
SHORTEST_PIECE, LONGEST_PIECE, PIECE_SECONDS = 16_000, 60_000, 5e-4
MANY_PIECES, MOST_PIECES = 16, 64
# Where the wire is not much slower than packing, packing must overlap with sending, and there are few calls of MPI.
FAST_PIECE, FAST_RATE = 2**18, 1e9
# Few sends in flight keep many from meeting at one receiver; they must hold twice what is under way on the link.
SMALLEST_WINDOW, LARGEST_WINDOW = 8, 16
NOTHING = Load()
COPIED = 16 * 2**20  # bytes of the copy that is timed


class Choice(NamedTuple):
    """Schedule and exchange in place of "auto", why, and the pieces of messages between nodes."""

    schedule: str
    exchange: type[Exchange]
    why: str
    cutting: Cutting = Cutting()


def choose(
    schedule: str,
    exchange: str,
    buffers: str,
    node: Node | None,
    links: Links | None = None,
    elements: int = 0,
    load: Load = NOTHING,
) -> Choice:
    """Schedule and exchange in place of "auto". Not collective; equal on all ranks.

    Through shared memory a byte is read once and written once; by MPI it is copied twice more. Between nodes the steps of a
    good schedule keep links from being shared, and a window without lock step keeps them from being idle.

    Parameters
    ----------
    schedule, exchange, buffers : str
        As the user asked.
    node : Node or None
        The ranks of this node; None on a rank that takes no part.
    links : Links or None
        Between nodes; None on one node.
    elements : int
        That are moved, those that stay on their process included.
    load : Load
        The messages that they go in, and how many processes have them.
    """
    cutting = Cutting() if links is None else _cutting(links, elements, load)
    if exchange == "auto":
        if node is not None and node.anywhere and buffers == "packed":
            exchange, why = "shared", f"shared: {node.why}"
        elif links is not None:
            exchange, why = "windowed", "windowed: the schedule's order, and nothing waits for a step to end"
        else:
            exchange, why = "nonblocking", "nonblocking: nothing waits for a step to end"
            why += f"; {node.why}" if node is not None else ""
    elif exchange == "shared" and node is not None:
        why = f"as asked; {node.why}" + ("" if node.ring is not None else ", so by MPI")
    else:
        why = "as asked"
    chosen = exchange_class(exchange)
    if schedule == "auto" and not chosen.scheduled:
        schedule = "natural"
        why += "; the order of messages is left to MPI"
    elif schedule == "auto":
        all_at_once = chosen is Windowed and cutting.spread
        schedule, reason = _order(links, elements, load, cutting.window or 1 if all_at_once else 1)
        why += f"; {schedule} order: {reason}"
    return Choice(schedule, chosen, why, cutting)


def _cutting(links: Links, elements: int, load: Load) -> Cutting:
    """Pieces between nodes, and how many are under way."""
    under_way, message = 2 * links.latency * links.rate, ELEMENT * elements / max(1, load.messages)
    if links.rate < FAST_RATE:
        piece = min(LONGEST_PIECE, max(SHORTEST_PIECE, int(links.rate * PIECE_SECONDS)))
        fewest, most, spread = MANY_PIECES, MOST_PIECES, True
    else:
        piece, fewest, most, spread = FAST_PIECE, SMALLEST_WINDOW, LARGEST_WINDOW, False
    window = min(most, max(fewest, math.ceil(under_way / max(1.0, min(piece, message)))))
    return Cutting(piece, window, spread)


def log_steps_pay(options: Options, links: Links) -> str | None:
    """Why messages that "auto" sends in a window travel in log2 P steps, where that is faster. Not collective.

    Equal on all ranks, for they know the largest numbers of messages and of elements.
    """
    if not Bruck.pays(options._replace(item=ELEMENT), links):
        return None
    most = options.extents.messages
    return f"bruck: {most} messages of a rank take longer to start than their bytes take through other ranks"


def _order(links: Links | None, elements: int, load: Load, all_at_once: int) -> tuple[str, str]:
    """A one-port order, and why. Up to `all_at_once` messages of a process are under way together, whatever their order."""
    if links is None:
        return "caterpillar", "no process receives from two others at a time"
    processes = max(1, load.processes)
    sent, started = ELEMENT * elements / processes, links.latency * links.rate
    if sent < started:
        return "caterpillar", f"a process's {sent:.3g} bytes take less time than the start of a message ({started:.3g})"
    if load.messages <= all_at_once * processes:
        return "caterpillar", f"all messages of a process, some {load.messages / processes:.3g}, are under way at once"
    if not load.searchable:
        return "ring", f"the fewest steps of {load.messages:,} messages are not searched for"
    return "stepwise", f"{'fewest' if load.whole else 'few'} steps, so that no link is shared"


def predicted_seconds(moved: int, between: tuple[int, int], links: Links | None, ranks: int, node_ranks: int) -> float:
    """Seconds of a run: the vote, then wire and memory at the same time. Not collective.

    The wire has what the busiest node sends or receives, in messages of which some wait for others (`between`); this rank's
    memory the packing, unpacking and copying of `moved` bytes, and ranks that outnumber the cores take turns.
    """
    wire = 0.0
    if links is not None:
        votes = work_of(ranks, radix_for(ranks, links.latency)).steps
        wire = (votes + between[1]) * links.latency + between[0] / links.rate
    turns = max(1.0, node_ranks / len(usable_cores()))
    return max(wire, turns * moved / _copy_rate())


@functools.cache
def _copy_rate() -> float:
    """Bytes per second that a core copies, timed once in a process."""
    source, target = np.ones((2, COPIED), np.uint8)
    best = math.inf
    for _ in range(3):
        start = time.perf_counter()
        np.copyto(target, source)
        best = min(best, time.perf_counter() - start)
    return COPIED / best
