"""The choice behind "auto", and the predicted time of a plan."""

from __future__ import annotations

import functools
import math
import time
from typing import NamedTuple

import numpy as np

from ..comm.links import Links
from ..comm.log_steps import radix_for, work_of
from ..comm.node import Node, last_cache, usable_cores
from ..exchanges import Cutting, Exchange, ExchangeOptions, exchange_class
from ..exchanges.collective import Bruck
from ..exchanges.node_packed import NodePacked
from ..exchanges.pipeline import Windowed
from ..schedules.layout_orders import Load
from .options import Options

ELEMENT = 8  # bytes assumed for an element before the arrays are known
# Measured on limited links (docs/between-hosts.md): while the link is the bottleneck, short pieces of all messages in turn are
# fastest. They must be short enough for MPI's eager protocol (Open MPI over TCP: up to 64 KiB with headers), and few enough to
# keep queues short. Within these bounds a piece takes PIECE_SECONDS of the link.
SHORTEST_PIECE, LONGEST_PIECE, PIECE_SECONDS = 16_000, 60_000, 5e-4
MANY_PIECES, MOST_PIECES = 16, 64
# On a link about as fast as packing, packing must overlap with sending, and MPI must be called rarely.
FAST_PIECE, FAST_RATE = 2**18, 1e9
# With few sends in flight, few meet at one receiver; together they must hold twice the bytes in flight on the link.
SMALLEST_WINDOW, LARGEST_WINDOW = 8, 16
NOTHING = Load()
COPIED = 16 * 2**20  # least bytes of the copy that is timed, which the last cache does not hold


class Choice(NamedTuple):
    """The schedule and exchange for "auto", the reason, and how messages between nodes are cut into pieces."""

    schedule: str
    exchange: type[Exchange]
    why: str
    cutting: Cutting = Cutting()


def choose(
    asked: Options,
    node: Node | None,
    links: Links | None = None,
    elements: int = 0,
    load: Load = NOTHING,
) -> Choice:
    """Choose the schedule and exchange for "auto". Equal on all ranks.

    Shared memory reads and writes a byte once; MPI copies it twice more. Between nodes, the steps of a good schedule keep
    messages from sharing links, and a window without lock step keeps links busy.

    Parameters
    ----------
    asked : Options
        The user's options.
    node : Node or None
        The ranks of this node; None on a rank that takes no part.
    links : Links or None
        Latency and bandwidth between nodes; None on one node.
    elements : int
        Number of elements that move, local copies included.
    load : Load
        Number of messages, and of processes that have any.
    """
    cutting = Cutting() if links is None else _cutting(links, elements, load)
    schedule, exchange, buffers = asked.schedule, asked.exchange, asked.buffers
    if exchange == "auto":
        if node is not None and node.anywhere and buffers == "packed":
            exchange, why = "shared", f"shared: {node.description}"
        elif links is not None:
            exchange, why = "windowed", "windowed: in the schedule's order, without waiting for steps to end"
        else:
            exchange, why = "nonblocking", "nonblocking: without waiting for steps to end"
            why += f"; {node.description}" if node is not None else ""
    elif exchange in ("shared", "node-packed") and node is not None:
        why = f"as asked; {node.description}" + ("" if node.ring is not None else ", so by MPI")
    else:
        why = "as asked"
    exchange_type = exchange_class(exchange)
    if schedule == "auto" and not exchange_type.scheduled:
        schedule = "natural"
        why += "; MPI orders the messages"
    elif schedule == "auto" and asked.reduce is not None:
        schedule = "caterpillar"
        why += "; caterpillar order: each rank has few messages of a sum in flight"
    elif schedule == "auto":
        all_at_once = exchange_type is Windowed and cutting.spread
        schedule, reason = _order(links, elements, load, cutting.window or 1 if all_at_once else 1)
        why += f"; {schedule} order: {reason}"
    return Choice(schedule, exchange_type, why, cutting)


def _cutting(links: Links, elements: int, load: Load) -> Cutting:
    """Choose the size of pieces between nodes, and how many are in flight."""
    in_flight, message = 2 * links.latency * links.rate, ELEMENT * elements / max(1, load.messages)
    if links.rate < FAST_RATE:
        piece = min(LONGEST_PIECE, max(SHORTEST_PIECE, int(links.rate * PIECE_SECONDS)))
        fewest, most, spread = MANY_PIECES, MOST_PIECES, True
    else:
        piece, fewest, most, spread = FAST_PIECE, SMALLEST_WINDOW, LARGEST_WINDOW, False
    window = min(most, max(fewest, math.ceil(in_flight / max(1.0, min(piece, message)))))
    return Cutting(piece, window, spread)


def log_steps_pay(options: ExchangeOptions, links: Links) -> str | None:
    """Return the reason for sending messages in log2 P steps instead of in a window; None if that is not faster.

    Equal on all ranks: the extents are the largest of all ranks.
    """
    if not Bruck.is_faster(options._replace(item=ELEMENT), links):
        return None
    most = options.extents.messages
    return f"bruck: starting {most} messages of a rank takes longer than sending their bytes through other ranks"


def packing_pays(options: ExchangeOptions, node: Node) -> str | None:
    """Return the reason for one message from node to node instead of one for each pair of ranks; None if that is not faster.

    Equal on all ranks, as for `log_steps_pay`.
    """
    if not NodePacked.is_faster(options._replace(item=ELEMENT), node):
        return None
    return f"node-packed: {options.extents.away} messages of a rank to other nodes, which go together with those of its node"


def _order(links: Links | None, elements: int, load: Load, all_at_once: int) -> tuple[str, str]:
    """Choose a one-port order; return it and the reason. A process has up to `all_at_once` messages in flight in any order."""
    if links is None:
        return "caterpillar", "no process receives from two others at a time"
    processes = max(1, load.processes)
    sent, started = ELEMENT * elements / processes, links.latency * links.rate
    if sent < started:
        return "caterpillar", f"a process's {sent:.3g} bytes take less time than the start of a message ({started:.3g})"
    if load.messages <= all_at_once * processes:
        return "caterpillar", f"all messages of a process, some {load.messages / processes:.3g}, are in flight at once"
    if not load.searchable:
        return "ring", f"{load.messages:,} messages are too many for a search for the fewest steps"
    return "stepwise", f"{'fewest' if load.whole else 'few'} steps, so that no link is shared"


def predicted_seconds(
    moved_bytes: int, between: tuple[int, int], links: Links | None, voters: int, node_ranks: int
) -> float:
    """Predict the seconds of a run: the vote, then the link and the memory at the same time.

    The link carries the bytes of the busiest node, in messages of which some wait for others (`between`). This rank's memory
    packs, unpacks and copies `moved_bytes`; ranks that outnumber the cores take turns.
    """
    link_seconds = 0.0
    if links is not None:
        votes = work_of(voters, radix_for(voters, links.latency)).steps
        link_seconds = (votes + between[1]) * links.latency + between[0] / links.rate
    turns = max(1.0, node_ranks / len(usable_cores()))
    return max(link_seconds, turns * moved_bytes / _copy_rate())


@functools.cache
def _copy_rate() -> float:
    """Measure the bytes per second that a core copies from memory to memory, once in a process."""
    copied = min(max(COPIED, last_cache().nbytes), 4 * COPIED)
    source, target = np.ones((2, copied), np.uint8)
    best = math.inf
    for _ in range(3):
        start = time.perf_counter()
        np.copyto(target, source)
        best = min(best, time.perf_counter() - start)
    return copied / best
