"""Methods of a redistribution on a machine that is not there: the time of each, and the links' limit."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace

from ...comm.links import Links
from ...engine.model import choose
from ...engine.scheduling import load_between
from ...errors import ScheduleError
from ..cases import Case
from ..text import counted
from .exchange_rules import EXCHANGES, Sizes, Work, check_method, work_of
from .flow import simulate
from .lock_step import lock_step
from .machine import Machine
from .traffic import Messages, messages_of, volumes

__all__ = ["DEFAULT_METHODS", "Prediction", "Simulated", "simulated"]

FASTEST = 1e15  # bytes per second: a link without limit
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
# Up to so many messages every event is taken by itself; otherwise those within such a part of the links' limit together.
FEW, MANY = 2_000, 200_000
PARTS, FEWER_PARTS = 2_000, 500


@dataclass(frozen=True)
class Prediction:
    """One method.

    Attributes
    ----------
    name : str
        SCHEDULE/EXCHANGE.
    schedule : str
        That of the name; for "auto" what it takes.
    seconds : float or None
        The time that it takes; None where it was not simulated.
    messages, pieces, steps : int
        Messages between ranks, the pieces they go in, and steps of the schedule with messages.
    events : int
        How often the rates were worked out anew; 0 for lock step in closed form.
    elapsed : float
        Seconds that the simulation itself took.
    reason : str or None
        Why something is missing.
    """

    name: str
    schedule: str
    seconds: float | None = None
    messages: int = 0
    pieces: int = 0
    steps: int = 0
    events: int = 0
    elapsed: float = 0.0
    reason: str | None = None


@dataclass(frozen=True)
class Simulated:
    """A redistribution on a machine.

    Attributes
    ----------
    case : Case
        Array and layouts.
    machine : Machine
        Hosts and links.
    limit : float
        The links' limit: seconds that the busiest host's bytes take, whatever the schedule.
    busiest_bytes : int
        What that host sends to others, or receives.
    resolution : float
        Seconds within which events were taken together.
    predictions : list of Prediction
        One for each method.
    """

    case: Case
    machine: Machine
    limit: float
    busiest_bytes: int
    resolution: float
    predictions: list[Prediction] = field(default_factory=list)


def simulated(
    case: Case, machine: Machine, methods: tuple[str, ...], sizes: Sizes, resolution: float | None = None
) -> Simulated:
    """Simulate each method. Not collective.

    Parameters
    ----------
    case : Case
        Array and layouts.
    machine : Machine
        With at least as many ranks.
    methods : tuple of str
        SCHEDULE/EXCHANGE each; the schedule "auto" is the one that the engine would choose. What does not apply is left out,
        with the reason.
    sizes : Sizes
        Of pieces and windows; what is not given is what the engine chooses for such links.
    resolution : float, optional
        Seconds within which events are taken together; by default none for small cases.

    Raises
    ------
    ScheduleError
        The machine has too few ranks, or there are too many messages.
    """
    if case.ranks > machine.ranks:
        raise ScheduleError(
            f"{case}: the machine has {counted(machine.hosts, 'host')} with {counted(machine.slots, 'rank')} each, "
            f"{counted(machine.ranks, 'rank')} in all; it needs "
            f"{counted(-(-case.ranks // machine.slots), 'host')}"
        )
    traffic: dict[str, Messages | ScheduleError] = {}
    item = case.dtype.itemsize
    everything = messages_of(case, "caterpillar")
    busiest = max(int(side.max(initial=0)) for side in volumes(everything, machine.slots, machine.hosts)) * item
    limit = machine.limit(busiest)
    traffic["caterpillar"] = everything
    if resolution is None:
        parts = PARTS if everything.count <= MANY else FEWER_PARTS
        resolution = 0.0 if everything.count <= FEW else limit / parts
    links = Links(machine.latency, min(machine.goodput, FASTEST), machine.hosts, "as given")
    load = load_between(*(layout.descriptor(case.shape, None) for layout in (case.before, case.after)))
    chosen = {
        exchange: choose("auto", exchange, "packed", None, links, math.prod(case.shape), load) for exchange in EXCHANGES
    }
    own = chosen["windowed"].cutting
    sizes = Sizes(sizes.window or own.window, sizes.piece or own.nbytes, sizes.receives, own.spread)
    predicted: dict[tuple[str, str], Prediction] = {}
    found = []
    for name in methods:
        schedule, _, exchange = name.partition("/")
        if schedule == "auto" and exchange in chosen:
            schedule = chosen[exchange].schedule
        if (schedule, exchange) not in predicted:
            prediction = _predicted(name, schedule, exchange, case, machine, sizes, resolution, traffic)
            predicted[schedule, exchange] = prediction
        found.append(replace(predicted[schedule, exchange], name=name))
    return Simulated(case, machine, limit, busiest, resolution, found)


def _predicted(
    name: str,
    schedule: str,
    exchange: str,
    case: Case,
    machine: Machine,
    sizes: Sizes,
    resolution: float,
    traffic: dict[str, Messages | ScheduleError],
) -> Prediction:
    start = time.perf_counter()
    try:
        check_method(name.partition("/")[0], exchange)
        messages = _kept(traffic, case, schedule)
        work = work_of(exchange, messages, case.dtype.itemsize, sizes)
    except ScheduleError as error:
        return Prediction(name, schedule, reason=str(error))
    seconds, events = _time(machine, work, resolution)
    steps = int(messages.step[-1]) + 1 if messages.count else 0
    elapsed = time.perf_counter() - start
    return Prediction(name, schedule, seconds, messages.count, work.pieces.count, steps, events, elapsed)


def _kept(traffic: dict[str, Messages | ScheduleError], case: Case, schedule: str) -> Messages:
    """The messages in the order of a schedule, which is made once."""
    if schedule not in traffic:
        try:
            traffic[schedule] = messages_of(case, schedule)
        except ScheduleError as error:
            traffic[schedule] = error
    found = traffic[schedule]
    if isinstance(found, ScheduleError):
        raise found
    return found


def _time(machine: Machine, work: Work, resolution: float) -> tuple[float, int]:
    if not work.turns:
        machine = replace(machine, turns_after=math.inf)
    if work.stage is not None and machine.slots == 1:
        return machine.vote + lock_step(machine, work.pieces, work.stage), 0
    outcome = simulate(machine, work.pieces, work.rule(), resolution)
    return machine.vote + outcome.seconds, outcome.events
