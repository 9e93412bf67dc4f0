"""Methods of a redistribution on a machine that is not there: the time of each, and the links' limit.

Messages are those of plans on paper; the exchanges say how many bytes a piece has and how many are in flight.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from pyscalapack_redist import redistribute
from pyscalapack_redist.comm.links import Links
from pyscalapack_redist.engine.choose import choose
from pyscalapack_redist.engine.options import Options
from pyscalapack_redist.errors import ScheduleError, unknown
from pyscalapack_redist.exchanges import Cutting, ExchangeOptions, Extents, check_combination, exchange_class
from pyscalapack_redist.exchanges.exchange import MEMORY_LIMIT
from pyscalapack_redist.schedules.layout_orders import is_one_port, load_between
from pyscalapack_redist.tools.cases import Case
from pyscalapack_redist.tools.text import count_text

from .flow import Machine, Pieces, lock_step, simulate
from .rules import AnySource, Ints, Rule, Stages, Window

EXCHANGES = ("sendrecv", "synchronized", "windowed", "nonblocking", "alltoallv", "alltoallw")
IN_PIECES = ("windowed", "nonblocking")
DEFAULT_METHODS = (
    "caterpillar/sendrecv",
    "ring/sendrecv",
    "optimal/sendrecv",
    "caterpillar/windowed",
    "optimal/windowed",
    "caterpillar/nonblocking",
    "natural/nonblocking",
    "auto/alltoallv",
)
MOST_MESSAGES = 5 * 10**6
FASTEST = 1e15  # bytes per second: a link without limit
# Up to so many messages every event is taken by itself; otherwise those within such a part of the links' limit together.
FEW, MANY = 2_000, 200_000
PARTS, FEWER_PARTS = 2_000, 500


class Messages(NamedTuple):
    """Messages between ranks by step, sender and receiver: ranks, elements, and the place of the step's key among all."""

    sender: Ints
    receiver: Ints
    size: Ints
    step: Ints


@dataclass(frozen=True)
class Sizes:
    """What the user asks for in place of the engine's own sizes, for `windowed`.

    Attributes
    ----------
    window, piece, receives : int or None
        Pieces in flight each way; bytes of a piece; receives posted, of messages one after another. With one of them and a
        window of 1 a process has one port each way.
    spread : bool
        Whether the pieces in flight are few of each of many messages, where `receives` is not given.
    """

    window: int | None = None
    piece: int | None = None
    receives: int | None = None
    spread: bool = False


@dataclass(frozen=True)
class Prediction:
    """The time of one method, SCHEDULE/EXCHANGE; `events` is 0 for lock step in closed form."""

    name: str
    schedule: str  # that of the name; for "auto" what it takes
    seconds: float | None = None
    messages: int = 0
    pieces: int = 0
    steps: int = 0
    events: int = 0
    reason: str | None = None  # why something is missing


@dataclass(frozen=True)
class Study:
    """A redistribution on a machine.

    Attributes
    ----------
    limit : float
        The links' limit: seconds that the busiest host's bytes take, whatever the schedule.
    busiest_bytes : int
        What that host sends to others, or receives.
    resolution : float
        Seconds within which events were taken together.
    """

    case: Case
    machine: Machine
    limit: float
    busiest_bytes: int
    resolution: float
    predictions: list[Prediction] = field(default_factory=list)


def check_method(schedule: str, exchange: str) -> None:
    """Raise ScheduleError for what cannot be simulated; the schedule "auto" goes with every exchange."""
    if exchange not in EXCHANGES:
        raise unknown("exchange", exchange, EXCHANGES)
    if schedule != "auto":
        check_combination(schedule, is_one_port(schedule), exchange, "packed")


def simulated(
    case: Case,
    machine: Machine,
    methods: tuple[str, ...] = DEFAULT_METHODS,
    sizes: Sizes | None = None,
    resolution: float | None = None,
) -> Study:
    """Simulate each method.

    Parameters
    ----------
    methods : tuple of str
        SCHEDULE/EXCHANGE each; the schedule "auto" is the one that the engine would choose. What does not apply is left out,
        with the reason.
    sizes : Sizes, optional
        What is not given is what the engine chooses for such links.
    resolution : float, optional
        Seconds within which events are taken together; by default none for small cases.

    Raises
    ------
    ScheduleError
        The machine has too few ranks, or there are too many messages.
    """
    if case.ranks > machine.ranks:
        raise ScheduleError(
            f"{case}: the machine has {count_text(machine.hosts, 'host')} with {count_text(machine.slots, 'rank')} each, "
            f"{count_text(machine.ranks, 'rank')} in all; it needs {count_text(-(-case.ranks // machine.slots), 'host')}"
        )
    traffic = {"caterpillar": messages_of(case, "caterpillar")}
    everything = traffic["caterpillar"]
    busiest = _busiest(everything, machine) * case.dtype.itemsize
    limit = machine.limit(busiest)
    if resolution is None:
        count = len(everything.size)
        resolution = 0.0 if count <= FEW else limit / (PARTS if count <= MANY else FEWER_PARTS)
    links = Links(machine.latency, min(machine.goodput, FASTEST), machine.hosts, "as given")
    load = load_between(*(layout.descriptor(case.shape, None) for layout in (case.before, case.after)))
    chosen = {
        exchange: choose(Options(exchange=exchange), None, links, math.prod(case.shape), load) for exchange in EXCHANGES
    }
    own, asked = chosen["windowed"].cutting, sizes or Sizes()
    sizes = Sizes(asked.window or own.window, asked.piece or own.nbytes, asked.receives, own.spread)
    study = Study(case, machine, limit, busiest, resolution)
    for name in methods:
        asked_for, _, exchange = name.partition("/")
        schedule = chosen[exchange].schedule if asked_for == "auto" and exchange in chosen else asked_for
        alike = [one for one in study.predictions if (one.schedule, one.name.partition("/")[2]) == (schedule, exchange)]
        if alike:
            study.predictions.append(replace(alike[0], name=name))
            continue
        try:
            check_method(asked_for, exchange)
            if schedule not in traffic:
                traffic[schedule] = messages_of(case, schedule)
            study.predictions.append(_predicted(name, schedule, traffic[schedule], study, sizes))
        except ScheduleError as error:
            study.predictions.append(Prediction(name, schedule, reason=str(error)))
    return study


def messages_of(case: Case, schedule: str) -> Messages:
    """All messages of a redistribution, in the global order of the engine.

    Raises
    ------
    ScheduleError
        The schedule does not apply, or there are too many messages.
    """
    plan = redistribute(
        *(layout.descriptor(case.shape, None) for layout in (case.before, case.after)), schedule=schedule
    )
    rows, keys = [], []
    for rank in range(case.before.first, case.before.end):
        for message in plan.messages_of(rank)["send"]:
            rows.append((rank, message.peer, message.size))
            keys.append(message.key)
        if len(rows) > MOST_MESSAGES:
            raise ScheduleError(
                f"{case}: more messages than the {MOST_MESSAGES:,} that are simulated at most: take larger blocks, fewer "
                "processes or more grid dimensions"
            )
    if not rows:
        return Messages(*np.zeros((4, 0), np.int64))
    table, key = np.array(rows, np.int64), np.array(keys, np.int64)
    order = np.lexsort((table[:, 1], table[:, 0], *key.T[::-1]))
    table, key = table[order], key[order]
    step = np.concatenate([[0], np.cumsum((key[1:] != key[:-1]).any(axis=1))])
    return Messages(*table.T, step)


def _busiest(messages: Messages, machine: Machine) -> int:
    """The most elements that a host sends to others, or receives from others."""
    source, target = messages.sender // machine.slots, messages.receiver // machine.slots
    away = source != target
    return max(int(np.bincount(side[away], messages.size[away]).max(initial=0)) for side in (source, target))


def _predicted(name: str, schedule: str, messages: Messages, study: Study, sizes: Sizes) -> Prediction:
    exchange, machine = name.partition("/")[2], study.machine
    pieces, rule, stage = _work(exchange, messages, study.case.dtype.itemsize, sizes)
    if exchange != "synchronized":  # only there a permission may go out before the own request
        machine = replace(machine, turns_after=math.inf)
    if stage is not None and machine.slots == 1:
        seconds, events = lock_step(machine, pieces, stage), 0
    else:
        seconds, _, events = simulate(machine, pieces, rule, study.resolution)
    steps = int(messages.step.max(initial=-1)) + 1
    return Prediction(name, schedule, machine.vote + seconds, len(messages.size), len(pieces.nbytes), steps, events)


def _work(exchange: str, messages: Messages, item: int, sizes: Sizes) -> tuple[Pieces, Rule, Ints | None]:
    """The pieces of an exchange in the global order, and its rule.

    And the stage of each, where a process has at most one to send and one to receive in a stage and waits for both.
    """
    cls = exchange_class(exchange)
    longest = int(messages.size.max(initial=1))
    most = max(int(np.bincount(side).max(initial=0)) for side in (messages.sender, messages.receiver))
    cutting = Cutting(sizes.piece, sizes.window, sizes.spread and not sizes.receives)
    options = ExchangeOptions(MEMORY_LIMIT, extents=Extents(most, longest), item=item, cutting=cutting)
    step = np.full(len(messages.size), max(1, cls.largest_piece(options) // item))
    if exchange == "synchronized":  # its processes count messages, which therefore go whole here
        step[:] = longest
    elif exchange in IN_PIECES:
        lengths, place = np.unique(messages.size, return_inverse=True)
        of_length = [max(1, cls.piece_bytes(options, length * item) // item) for length in lengths.tolist()]
        step = np.array(of_length, np.int64)[place]
    count = -(-messages.size // step)
    which = np.repeat(np.arange(len(count)), count)
    number = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
    size = np.minimum(messages.size[which] - number * step[which], step[which])
    sender, receiver = messages.sender[which], messages.receiver[which]
    pieces = Pieces(sender, receiver, size.astype(np.float64) * item)
    if exchange == "synchronized":
        return pieces, AnySource(sender, receiver, _awaited(messages)), None
    if exchange in IN_PIECES:
        receives, window = cls.in_flight(options, min(int(step.max(initial=1)), longest) * item)
        if exchange == "windowed":
            receives = sizes.receives or receives
        return pieces, Window(sender, receiver, window, receives, which, cls.pieces_per_peer(options)), None
    if exchange == "sendrecv":
        stage = messages.step[which] * (1 + int(number.max(initial=0))) + number
        return pieces, Stages(sender, receiver, stage), stage
    return pieces, Stages(sender, receiver, number), None


def _awaited(messages: Messages) -> Ints:
    """What the sender of each message has received before: as much as comes in earlier steps; as many messages as it has sent
    where each process sends as many as it receives."""
    sender, receiver, _, step = messages
    ranks = 1 + int(max(sender.max(initial=0), receiver.max(initial=0)))
    sends, receives = (
        np.split(np.argsort(side, kind="stable"), np.cumsum(np.bincount(side, minlength=ranks))[:-1])
        for side in (sender, receiver)
    )
    unbalanced = any(len(sent) != len(received) for sent, received in zip(sends, receives, strict=True))
    found = np.empty(len(sender), np.int64)
    for sent, received in zip(sends, receives, strict=True):
        found[sent] = np.searchsorted(step[received], step[sent]) if unbalanced else np.arange(len(sent))
    return found
