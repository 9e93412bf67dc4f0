"""Ranks of one program in one process, over a network with MPI's rules, in an order that a scheduler chooses.

Each rank is a greenlet. It runs until it calls `pause`, which every waiting loop does that has found nothing to do; then
the scheduler chooses who goes on. Messages from one rank to another with the same tag do not overtake each other. Whatever
else the network does, it does when it is chosen to: a message arrives, its bytes are moved, its send completes, ranks hear
that all have come to a barrier.

By default ranks take turns, and the network acts at once. At a choice point a rank or a step of the network can be delayed
instead, by so many turns or until nothing else is left to do; ranks can be interrupted and killed. `Seeded` draws the
choices, `Enumerated` goes through all of them with a limited number of delays.

A rank has a turn only if something has changed that it can see: a message, one of its own operations, what `state` returns.
Shared memory that the ranks poll must be part of `state`.
"""

from __future__ import annotations

import itertools
import random
import traceback
from collections import deque
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from heapq import heappop, heappush
from typing import Any

import numpy as np
from greenlet import GreenletExit, getcurrent, greenlet

QUIET = -1  # a delay: until nothing else can happen
EAGER, BUFFERED, RENDEZVOUS = range(3)  # bytes are read by send(); later, without a receive; when a receive has matched
MODES = ("eager", "buffered", "rendezvous")
DELAYS = (1, 3, QUIET)
_RATES = (0.01, 0.03, 0.1, 0.3, 0.6)  # of delays, in schedules from seeds
_STRIKES = (0.01, 0.03, 0.1)  # of faults


class Hang(AssertionError):  # noqa: N818 - the name says it
    """Ranks wait, and nothing can happen any more."""


class Livelock(AssertionError):  # noqa: N818
    """The ranks go on and on."""


class Violation(AssertionError):  # noqa: N818
    """A rule of MPI has been broken."""


class TransportError(Exception):
    """What MPI would report to a rank: a message longer than its buffer."""


class NotRepeatable(AssertionError):  # noqa: N818
    """The same choices led to other choice points: the program depends on something else."""


class Choices:
    """Where a schedule's choices come from; 0 is always the default.

    `pick` is for what is equally good, `deviate` for what is one of the limited number of delays, and `fault` for what goes
    wrong, where `strike` says that it is worth asking. `from_token(token)` makes the same choices again.
    """

    exhaustive = traced = False
    pick: Callable[[int], int]
    deviate: Callable[[int], int]
    fault: Callable[[int], int]
    strike: Callable[[], bool]
    token: str


class Seeded(Choices):
    """Choices drawn from a seed. How often something is delayed, or fails, is drawn as well, once in a schedule."""

    def __init__(self, seed: int = 0) -> None:
        self._generator = random.Random()
        self._draw = self._generator.random
        self.restart(seed)

    def restart(self, seed: int) -> None:
        """Begin the schedule of another seed."""
        self.seed = seed
        self._generator.seed(seed)
        draw = self._draw
        self._rate = _RATES[int(draw() * len(_RATES))]
        self._strikes = _STRIKES[int(draw() * len(_STRIKES))]

    def pick(self, options: int) -> int:
        return int(self._draw() * options)

    def deviate(self, options: int) -> int:
        drawn = self._draw()
        if drawn >= self._rate:
            return 0
        return 1 + int(drawn / self._rate * (options - 1)) if options > 1 else 0

    def strike(self) -> bool:
        return self._draw() < self._strikes

    def fault(self, options: int) -> int:
        return 1 + int(self._draw() * (options - 1)) if options > 1 else 0

    @property
    def token(self) -> str:
        return f"s{self.seed}"


class Enumerated(Choices):
    """All choices with at most `bound` delays, depth first; `begin` before each schedule, `advance` to the next one.

    Parameters
    ----------
    bound : int
        Preemption bound: how often another option than 0 is taken at those choice points that cost one.
    prefix : sequence of int
        The first choices, the same in all schedules.
    """

    exhaustive = True

    def __init__(self, bound: int, prefix: Sequence[int] = ()) -> None:
        self.bound = bound
        self.picks = list(prefix)
        self.options = [0] * len(self.picks)
        self.fixed = len(self.picks)
        self.begin()

    def begin(self) -> None:
        self._at, self._left, self._known = 0, self.bound, len(self.picks)

    def end(self) -> None:
        """Check that a schedule has come to all choice points that it was to come to."""
        if self._at < self._known:
            raise NotRepeatable(f"{self._known} choices were to be made again, {self._at} were")

    def advance(self) -> bool:
        """Go to the next schedule; False if that was the last one."""
        picks, options = self.picks, self.options
        while len(picks) > self.fixed:
            if picks[-1] + 1 < options[-1]:
                picks[-1] += 1
                return True
            picks.pop()
            options.pop()
        return False

    def pick(self, options: int) -> int:
        if options < 2:
            return 0
        at = self._at
        self._at = at + 1
        if at < self._known:
            if self.options[at] != options:
                if self.options[at] or self.picks[at] >= options:
                    raise NotRepeatable(f"choice point {at} had {self.options[at]} options, then {options}")
                self.options[at] = options
            return self.picks[at]
        self.picks.append(0)
        self.options.append(options)
        return 0

    fault = pick

    def deviate(self, options: int) -> int:
        if not self._left:
            return 0
        chosen = self.pick(options)
        if chosen:
            self._left -= 1
        return chosen

    def strike(self) -> bool:
        return True

    @property
    def token(self) -> str:
        return f"x{self.bound}:" + ",".join(f"{at}={chosen}" for at, chosen in enumerate(self.picks) if chosen)


def from_token(token: str) -> Choices:
    """The choices of the schedule that printed this token."""
    if token.startswith("s"):
        return Seeded(int(token[1:]))
    bound, _, listed = token[1:].partition(":")
    chosen = {int(at): int(what) for at, _, what in (choice.partition("=") for choice in listed.split(",") if choice)}
    return Enumerated(int(bound), [chosen.get(at, 0) for at in range(max(chosen, default=-1) + 1)])


@lru_cache
def _fates(mode: int, delays: tuple[int, ...], product: bool) -> tuple[tuple[int, int, int, int], ...]:
    """What can become of a message: how it is sent, delays of its arrival, of its bytes and of the send's completion."""
    every = (0, *delays)
    fates = [(mode, 0, 0, 0)]
    fates += [(other, 0, 0, 0) for other in (EAGER, RENDEZVOUS) if other != mode]
    if product:
        fates += itertools.product((EAGER, BUFFERED), every, every, (0,))
        fates += itertools.product((RENDEZVOUS,), every, every, every)
        return tuple(fates)
    for delay in delays:
        fates += [(EAGER, delay, 0, 0), (BUFFERED, delay, 0, 0), (RENDEZVOUS, delay, 0, 0)]
        fates += [(EAGER, 0, delay, 0), (RENDEZVOUS, 0, delay, 0), (RENDEZVOUS, 0, 0, delay)]
    return tuple(fates)


@lru_cache
def _synchronous(delays: tuple[int, ...], product: bool) -> tuple[tuple[int, int, int, int], ...]:
    """The same of a message sent in synchronous mode."""
    return tuple(dict.fromkeys(fate for fate in _fates(RENDEZVOUS, delays, product) if fate[0] == RENDEZVOUS))


@lru_cache
def _rounds(size: int) -> tuple[tuple[int, ...], ...]:
    """The ranks in turn, from each one; the last is the first again."""
    return tuple(tuple((first + k) % size for k in range(size)) for first in range(size + 1))


@lru_cache
def _pairs(delays: tuple[int, ...], product: bool) -> tuple[tuple[int, int], ...]:
    """What can become of a rank's part in a barrier: delays until others hear of it, and of its completion."""
    every = (0, *delays)
    if product:
        return ((0, 0), *itertools.product(every, every))
    return ((0, 0), *((delay, 0) for delay in delays), *((0, delay) for delay in delays))


def _bytes_of(buffer: Any) -> memoryview:
    """The bytes of a buffer, or of its first ones, as mpi4py would take them."""
    count = None
    if type(buffer) is list or type(buffer) is tuple:
        if len(buffer) > 1:
            count = buffer[1]
        buffer = buffer[0]
    view = memoryview(b"" if buffer is None else buffer)
    if not view.nbytes:
        view = memoryview(b"")
    elif view.format != "B" or view.ndim != 1:
        try:
            view = view.cast("B")
        except (TypeError, ValueError):
            view = memoryview(np.asarray(buffer).reshape(-1, order="A").view(np.uint8))
    if count is not None:
        if not 0 <= count <= view.nbytes:
            raise ValueError(f"{count} bytes of a buffer that has {view.nbytes}")
        view = view[:count]
    return view


class _Request:
    """Something that a rank has started."""

    __slots__ = ("_world", "done", "error", "rank", "reported")

    def __init__(self, world: World, rank: int) -> None:
        self._world, self.rank = world, rank
        self.done = self.reported = False
        self.error: Exception | None = None

    def Test(self) -> bool:  # noqa: N802 - as MPI's requests are asked
        """Whether it has completed."""
        world, rank = self._world, self.rank
        world._called(rank)
        if not self.done:
            return False
        if not self.reported:
            self.reported = world._fresh[rank] = True
            world._changes += 1
        if self.error is not None:
            raise self.error
        return True


class _Message(_Request):
    """A message, and the request of its sender."""

    __slots__ = ("copy", "data", "fate", "nbytes", "peer", "purpose", "receive", "stream", "there", "view")

    def __str__(self) -> str:
        return f"message {self.rank}->{self.peer} tag {self.stream.tag}, {self.nbytes} bytes"


class _Receive(_Request):
    __slots__ = ("purpose", "view")


class _Stream:
    """What one rank sends to another with one tag: on the way, arrived, and receives that wait."""

    __slots__ = ("arrived", "flying", "posted", "tag")

    def __init__(self, tag: int) -> None:
        self.tag = tag
        self.flying: deque[_Message] = deque()
        self.arrived: deque[_Message] = deque()
        self.posted: deque[_Receive] = deque()


class _Part(_Request):
    """One rank's part in a barrier."""

    __slots__ = ("fate", "whole")


class _Barrier:
    __slots__ = ("missing", "parts")

    def __init__(self, missing: int) -> None:
        self.missing = missing
        self.parts: list[_Part] = []


class _Persistent:
    """An operation that is started again and again."""

    def __init__(self, begin: Callable[[], _Request]) -> None:
        self._begin = begin
        self._request: _Request | None = None

    def Start(self) -> None:  # noqa: N802 - as MPI's
        if self._request is not None and not self._request.done:
            raise TransportError("a persistent request is started before it has completed")
        self._request = self._begin()

    def Test(self) -> bool:  # noqa: N802
        return self._request is None or self._request.Test()

    def Free(self) -> None:  # noqa: N802
        if self._request is not None and not self._request.done:
            raise TransportError("a persistent request is freed before it has completed")


class _Incoming:
    """A message that a probe has taken out of the queue."""

    __slots__ = ("_message", "_rank", "_world", "nbytes", "peer")

    def __init__(self, world: World, rank: int, message: _Message, peer: int) -> None:
        self._world, self._rank, self._message = world, rank, message
        self.peer, self.nbytes = peer, message.nbytes

    def receive(self, buffer: Any) -> _Receive:
        """Start to receive it."""
        world, rank = self._world, self._rank
        world._called(rank)
        request = _Receive(world, rank)
        request.view, request.purpose = _bytes_of(buffer), world.purpose(rank)
        world._started(rank)
        world._match(self._message, request)
        return request


class Channel:
    """One rank's end of the network; ranks are numbered within the members."""

    nothing, tags = None, 1 << 30

    def __init__(self, world: World, rank: int, context: int = 0, members: Sequence[int] | None = None) -> None:
        self.world = world
        self._me = rank
        self._context = context
        self._members = range(world.size) if members is None else tuple(members)
        self.rank, self.size = self._members.index(rank), len(self._members)

    def split(self, context: int, members: Sequence[int]) -> Channel:
        """The channel of some members, given by their numbers here, as on a communicator of its own. Not collective."""
        return Channel(self.world, self._me, context, [self._members[member] for member in members])

    def send(self, buffer: Any, peer: int, tag: int) -> _Request:
        """Start to send."""
        return self._send(buffer, peer, tag, self.world._fates)

    def send_synchronously(self, buffer: Any, peer: int, tag: int) -> _Request:
        """Start to send in synchronous mode: it completes when its receive has begun."""
        return self._send(buffer, peer, tag, self.world._synchronous)

    def _send(self, buffer: Any, peer: int, tag: int, fates: Sequence[tuple[int, int, int, int]]) -> _Request:
        world, rank = self.world, self._me
        world._called(rank)
        message = _Message(world, rank)
        message.peer = to = self._members[peer]
        message.view = view = _bytes_of(buffer)
        message.nbytes = view.nbytes
        message.purpose = world.purpose(rank)
        message.stream = stream = world._stream(self._context, tag, rank, to)
        message.receive = message.data = message.copy = None
        message.there = False
        message.fate = mode, flight, _, _ = fates[world._choices.deviate(len(fates))]
        stream.flying.append(message)
        world._started(rank)
        if mode == EAGER:
            message.data, message.view, message.done = bytes(view), None, True
        else:
            message.copy = bytes(view)
        world._after(flight, world._depart if mode == BUFFERED else world._arrive, message)
        return message

    def receive(self, buffer: Any, peer: int, tag: int) -> _Request:
        """Start to receive what a rank sends with that tag."""
        world, rank = self.world, self._me
        world._called(rank)
        request = _Receive(world, rank)
        request.view, request.purpose = _bytes_of(buffer), world.purpose(rank)
        stream = world._stream(self._context, tag, self._members[peer], rank)
        world._started(rank)
        if stream.arrived:
            world._match(stream.arrived.popleft(), request)
        else:
            stream.posted.append(request)
        return request

    def send_init(self, buffer: Any, peer: int, tag: int) -> _Persistent:
        """What sends a buffer whenever it is started."""
        return _Persistent(lambda: self.send(buffer, peer, tag))

    def receive_init(self, buffer: Any, peer: int, tag: int) -> _Persistent:
        """What receives into a buffer whenever it is started."""
        return _Persistent(lambda: self.receive(buffer, peer, tag))

    def start_all(self, requests: Sequence[_Persistent]) -> None:
        """Start what was made by `send_init` or `receive_init`."""
        for request in requests:
            request.Start()

    def all_done(self, requests: Sequence[_Persistent]) -> bool:
        """Whether all that were started have completed."""
        return all(request.Test() for request in requests)

    @staticmethod
    def free_all(requests: Sequence[_Persistent]) -> None:
        """They are not started any more."""
        for request in requests:
            request.Free()

    def probe(self, peer: int | None, tag: int) -> _Incoming | None:
        """A message that has come from a rank, or from any, with that tag; None where there is none."""
        world, rank = self.world, self._me
        world._called(rank)
        streams, size = world._streams, world.size
        base = (self._context << 32 | tag) * size * size + rank
        if peer is None:
            peers = [
                number
                for number, member in enumerate(self._members)
                if (stream := streams.get(base + member * size)) is not None and stream.arrived
            ]
            if not peers:
                return None
            peer = peers[world._choices.deviate(len(peers))] if len(peers) > 1 else peers[0]
        stream = streams.get(base + self._members[peer] * size)
        if stream is None or not stream.arrived:
            return None
        world._started(rank)
        return _Incoming(world, rank, stream.arrived.popleft(), peer)

    def barrier(self) -> _Request:
        """Start to wait for all ranks."""
        return self.world._join(self._me, self._context, len(self._members))

    def first_done(self, requests: Sequence[Any]) -> int | None:
        """The place of a request that has completed since it was asked for last; None where none has."""
        world, rank = self.world, self._me
        world._called(rank)
        done = [
            at for at, request in enumerate(requests) if request is not None and request.done and not request.reported
        ]
        if not done:
            return None
        at = done[world._choices.deviate(len(done))] if len(done) > 1 else done[0]
        requests[at].Test()
        return at

    def close(self) -> None:
        """The rank uses it no more: what it has started must have ended."""
        self.world._closing(self._me, self._context)

    def make_progress(self) -> None:
        """Let messages move."""
        self.world._called(self._me)


_running: World | None = None


def pause() -> None:
    """What a waiting loop of a rank calls that has found nothing to do: the scheduler chooses who goes on."""
    world = _running
    if world is None or world.current < 0:
        raise RuntimeError("pause() outside a rank")
    world._hub.switch()


_idle: list[greenlet] = []  # ranks that have ended, for the next worlds: to make one takes as long as ten switches
_abandoned: list[greenlet] = []  # ranks that cannot be unwound: collecting them would run them again


def _serve(world: World | None, rank: int, program: Any) -> None:
    """The main function of a greenlet: one rank after the other, of one world after the other."""
    while world is not None:
        try:
            world.results[rank] = program(rank, Channel(world, rank))
        except BaseException as error:
            if not world._closed:
                world.errors[rank] = error
        world._returned = True
        hub = world._hub
        world = program = None  # not to be kept until this one is used again
        world, rank, program = hub.switch()


class World:
    """Ranks, the network between them, and the scheduler. `run` runs one schedule; then `close`.

    After `run`: `results` and `errors` by rank, what its program returned or raised; `dead`, the ranks that were killed;
    `waiting`, those that wait for ever; `interrupted`, the ranks that were interrupted, in order.

    Parameters
    ----------
    size : int
        Number of ranks.
    choices : Choices
        Used up by one schedule.
    program : callable
        program(rank, channel); may be set later, as may all public attributes.
    weak : bool or None
        Whether bytes leave a rank late only while that rank calls the channel, as in an MPI library without a thread of
        its own. None: chosen.
    mode : int or None
        How messages are sent by default, EAGER or RENDEZVOUS. None: chosen.
    delays : sequence of int
        How long ranks and steps of the network can be delayed: turns of other ranks, or QUIET.
    interrupts, deaths : int
        At most so many ranks are interrupted in `pause`, or are never run again.
    victims : collection of int or None
        The ranks that are interrupted or killed; None for any.
    late : collection of int
        Ranks that begin when nothing else can happen.
    expected_to_wait : collection of int
        Ranks that may wait for ever; a set that may be added to.
    progress_after_end : bool
        Whether bytes go on leaving a rank whose program has returned, as in MPI_Finalize.
    """

    def __init__(
        self,
        size: int,
        choices: Choices,
        program: Any = None,
        *,
        weak: bool | None = None,
        mode: int | None = None,
        delays: Sequence[int] = DELAYS,
        interrupts: int = 0,
        deaths: int = 0,
        victims: Collection[int] | None = None,
        late: Collection[int] = (),
        expected_to_wait: Collection[int] = (),
        progress_after_end: bool = False,
    ) -> None:
        self.size, self.program = size, program
        self.interrupts, self.deaths, self.victims = interrupts, deaths, victims
        self.expected_to_wait = set(expected_to_wait)
        self.state: Callable[[], object] | None = None  # differs, by ==, when ranks change what others poll without it
        self.enter: Callable[[int], object] | None = None  # called with the rank's number before it goes on
        # What a rank sends and receives for at this moment, equal on all ranks; None: that may be matched with anything.
        self.purpose: Callable[[int], object] = lambda rank: None
        self.patience = 3  # so many turns of all ranks without a change are a hang
        self.limit = 100_000  # turns of a schedule
        self.progress_after_end = progress_after_end
        self.results: list[Any] = [None] * size
        self.errors: list[BaseException | None] = [None] * size
        self.dead: set[int] = set()
        self.waiting: set[int] = set()
        self.interrupted: list[int] = []
        self.violations: list[str] = []
        self.log: list[str] | None = [] if choices.traced else None
        self.current = -1  # the rank that runs, or -1
        self.turns = 0
        self._choices = choices
        weak = bool(choices.pick(2)) if weak is None else weak
        mode = (EAGER, RENDEZVOUS)[choices.pick(2)] if mode is None else mode
        self._delays = tuple(delays)
        self._sleeps = (0, *delays)
        self._fates = _fates(mode, self._delays, not choices.exhaustive)
        self._synchronous = _synchronous(self._delays, not choices.exhaustive)
        self._pairs = _pairs(self._delays, not choices.exhaustive)
        self._weak = [weak] * size
        self._streams: dict[int, _Stream] = {}
        self._barriers: dict[int, list[_Barrier]] = {}  # by context
        self._joined: dict[int, int] = {}  # by context and rank
        self._events: list[tuple[int, int, Callable[[Any], None], Any]] = []  # a heap: turn, number, what
        self._held: list[tuple[Callable[[Any], None], Any]] = []  # until it is quiet
        self._due: list[list[tuple[Callable[[Any], None], Any]]] = [[] for _ in range(size)]  # when the rank calls
        self._fresh = [True] * size  # whether a rank may find something new
        self._awake = [True] * size
        self._ended = [False] * size
        self._now = self._number = self._changes = self._turn = 0
        self._closed = False
        self._live = size
        for rank in late:
            self._awake[rank] = False
            self._held.append((self._wake, rank))
        self._ranks: list[Any] = [None] * size  # those that have begun and not ended
        self._returned = False  # whether a program has just ended
        self._hub: Any = None

    # What programs call

    def channel(self, rank: int) -> Channel:
        """A rank's channel to all ranks."""
        return Channel(self, rank)

    def choose(self, options: int) -> int:
        """One of so many, in all combinations with other choices."""
        return self._choices.pick(options)

    def changed(self) -> None:
        """Say that something has changed that `state` does not tell."""
        self._changes += 1
        self._fresh = [True] * self.size

    # The network

    def _note(self, text: str, *what: object) -> None:
        if self.log is not None:
            self.log.append(f"{self._now:5} {text.format(*what)}")

    def _stream(self, context: int, tag: int, sender: int, receiver: int) -> _Stream:
        size = self.size
        key = ((context << 32 | tag) * size + sender) * size + receiver
        stream = self._streams.get(key)
        if stream is None:
            stream = self._streams[key] = _Stream(tag)
        return stream

    def _started(self, rank: int) -> None:
        self._changes += 1
        self._fresh[rank] = True

    def _called(self, rank: int) -> None:
        """A rank calls the channel: what waited for that happens."""
        while self._due[rank]:
            due, self._due[rank] = self._due[rank], []
            for act, what in due:
                act(what)

    def _after(self, delay: int, act: Callable[[Any], None], what: Any) -> None:
        if not delay:
            act(what)
        elif delay == QUIET:
            self._held.append((act, what))
        else:
            self._number += 1
            heappush(self._events, (self._now + delay, self._number, act, what))

    def _owner_calls(self, rank: int, act: Callable[[Any], None], what: Any) -> bool:
        """Whether a rank's memory can be read now; else it is read when that rank calls, or never."""
        if rank in self.dead:
            return False
        if self._weak[rank] and self.current != rank:
            self._due[rank].append((act, what))
            self._fresh[rank] = True
            return False
        return True

    def _unchanged(self, rank: int, copy: Any, now: Any, what: object) -> None:
        if copy is not None and copy != now:
            text = f"rank {rank} changed the buffer of a {what} before it had completed"
            self._note("{}", text)
            self.violations.append(text)

    def _closing(self, rank: int, context: int) -> None:
        """A rank frees a communicator."""
        pairs = self.size * self.size
        for key, stream in self._streams.items():
            if key // pairs >> 32 != context:
                continue
            if key % pairs // self.size == rank:
                self.violations += [
                    f"{message}: freed before it is sent"
                    for message in (*stream.flying, *stream.arrived)
                    if not message.done
                ]
            if key % self.size == rank and stream.posted:
                self.violations.append(f"rank {rank} frees a communicator while it receives there")

    @property
    def messages_move(self) -> bool:
        """Whether the network has anything left to do."""
        return any(act != self._wake for _, _, act, _ in self._events) or any(
            act != self._wake for act, _ in self._held
        )

    def _depart(self, message: _Message) -> None:
        """Buffered: the bytes are read, and the send has completed."""
        if self._owner_calls(message.rank, self._depart, message):
            self._unchanged(message.rank, message.copy, message.view, message)
            message.data, message.view = bytes(message.view), None
            self._sent(message)
            self._arrive(message)

    def _arrive(self, message: _Message) -> None:
        """The receiver can see the message, unless it has to stay behind another one."""
        message.there = True
        stream = message.stream
        flying = stream.flying
        while flying and flying[0].there:
            first = flying.popleft()
            self._note("{} arrives", first)
            self._changes += 1
            self._fresh[first.peer] = True
            if stream.posted:
                self._match(first, stream.posted.popleft())
            else:
                stream.arrived.append(first)

    def _match(self, message: _Message, request: _Receive) -> None:
        message.receive = request
        if message.purpose != request.purpose and None not in (message.purpose, request.purpose):
            text = f"{message}, sent for {message.purpose}, is received for {request.purpose}"
            self._note("{}", text)
            self.violations.append(text)
        self._after(message.fate[2], self._transfer, message)

    def _transfer(self, message: _Message) -> None:
        """The bytes are moved, and the receive has completed."""
        data = message.data
        if message.peer in self.dead:
            return
        if data is None:
            if not self._owner_calls(message.rank, self._transfer, message):
                return
            data = message.view
            self._unchanged(message.rank, message.copy, data, message)
        request = message.receive
        if message.nbytes > request.view.nbytes:
            request.error = TransportError(f"{message} is longer than the buffer of {request.view.nbytes} bytes")
        elif message.nbytes:
            request.view[: message.nbytes] = data
        self._note("{} is received", message)
        request.done = self._fresh[message.peer] = True
        request.view = message.receive = None
        self._changes += 1
        if not message.done:
            self._after(message.fate[3], self._sent, message)

    def _sent(self, message: _Message) -> None:
        if message.view is not None:
            self._unchanged(message.rank, message.copy, message.view, message)
        self._note("{}: send completes", message)
        message.view = message.copy = None
        message.done = self._fresh[message.rank] = True
        self._changes += 1

    def _join(self, rank: int, context: int, members: int) -> _Request:
        self._called(rank)
        started = self._barriers.setdefault(context, [])
        mark = context * self.size + rank
        at = self._joined.get(mark, 0)
        self._joined[mark] = at + 1
        if at == len(started):
            started.append(_Barrier(members))
        part = _Part(self, rank)
        part.whole = started[at]
        part.fate = self._pairs[self._choices.deviate(len(self._pairs))]
        part.whole.parts.append(part)
        self._started(rank)
        self._after(part.fate[0], self._come, part)
        return part

    def _come(self, part: _Part) -> None:
        """Others hear that a rank has come; all may go on then if it is the last one."""
        if not self._owner_calls(part.rank, self._come, part):
            return
        self._note("barrier: rank {} takes part", part.rank)
        self._changes += 1
        part.whole.missing -= 1
        if not part.whole.missing:
            for each in part.whole.parts:
                self._after(each.fate[1], self._finish, each)

    def _finish(self, part: _Part) -> None:
        if part.rank not in self.dead:
            self._note("barrier: completes on rank {}", part.rank)
            part.done = self._fresh[part.rank] = True
            self._changes += 1

    # The scheduler

    def run(self) -> None:
        """Run one schedule. It raises if ranks wait for ever that may not, and if they break a rule of MPI."""
        global _running
        self._hub = getcurrent()
        before, _running = _running, self
        try:
            self._schedule()
        finally:
            self.current = -1
            _running = before
        if self.violations:
            raise Violation("; ".join(dict.fromkeys(self.violations)))
        if not self.waiting <= self.expected_to_wait:
            raise Hang(self.where()) from next((error for error in self.errors if error is not None), None)

    def _schedule(self) -> None:
        size, choices, sleeps = self.size, self._choices, self._sleeps
        events, held, awake = self._events, self._held, self._awake
        rounds = _rounds(size)
        state, enter, deviate = self.state, self.enter, choices.deviate
        last = state() if state is not None else None
        ranks = self._ranks
        idle = mark = 0
        while self._live:
            while events and events[0][0] <= self._now:
                _, _, act, what = heappop(events)
                act(what)
            if (self.interrupts or self.deaths) and choices.strike() and self._inject():
                if state is not None and (seen := state()) != last:
                    last = seen
                    self.changed()
                continue
            fresh = self._fresh
            rank = -1
            other = bool(events or held)
            for turn in rounds[self._turn]:
                if fresh[turn] and awake[turn]:
                    if rank < 0:
                        rank = turn
                    else:
                        other = True
                        break
            if rank < 0:
                if events:
                    self._now = events[0][0]
                elif held:
                    act, what = held.pop(deviate(len(held)))
                    act(what)
                elif idle < self.patience or mark != self._changes:
                    idle = idle + 1 if mark == self._changes else 1
                    mark = self._changes
                    self._fresh = [True] * size
                else:
                    self.waiting = {rank for rank in range(size) if not self._ended[rank]}
                    return
                continue
            if other and (not idle or mark != self._changes):
                sleep = sleeps[deviate(len(sleeps))]
                if sleep:
                    self._note("rank {} is delayed", rank)
                    awake[rank] = False
                    self._after(sleep, self._wake, rank)
                    continue
            fresh[rank] = False
            self._now += 1
            self.turns += 1
            self.current = rank
            self._note("rank {} runs", rank)
            if enter is not None:
                enter(rank)
            thread = ranks[rank]
            if thread is not None:
                thread.switch()
            else:
                ranks[rank] = thread = _idle.pop() if _idle else greenlet(_serve)
                thread.switch(self, rank, self.program)
            self.current = -1
            self._turn = rank + 1
            if self._returned:
                self._leave(rank)
                self._end(rank)
            if state is not None and (seen := state()) != last:
                last = seen
                self.changed()
            if self.turns > self.limit:
                raise Livelock(f"no end after {self.turns} turns\n{self.where()}")

    def _leave(self, rank: int) -> None:
        """A rank's program has returned."""
        self._returned = False
        _idle.append(self._ranks[rank])
        self._ranks[rank] = None

    def _wake(self, rank: int) -> None:
        if not self._ended[rank]:
            self._awake[rank] = True

    def _end(self, rank: int) -> None:
        """A rank's program has ended, or the rank has been killed."""
        self._ended[rank] = True
        self._awake[rank] = False
        self._live -= 1
        self._changes += 1
        if self.progress_after_end and rank not in self.dead:
            self._weak[rank] = False
            self.current = rank
            self._called(rank)
            self.current = -1
        if rank in self.dead:
            self._note("rank {} is dead", rank)
        elif (error := self.errors[rank]) is not None:
            self._note("rank {} ends, {!r}", rank, error)
        else:
            self._note("rank {} ends", rank)

    def _inject(self) -> bool:
        """Interrupt or kill a rank, if that is chosen."""
        victims = [
            rank
            for rank in range(self.size)
            if not self._ended[rank] and (self.victims is None or rank in self.victims)
        ]
        stopped = []
        if self.interrupts:
            stopped = [rank for rank in victims if self._ranks[rank] is not None]
        if not self.deaths:
            victims = []
        chosen = self._choices.fault(1 + len(stopped) + len(victims))
        if not chosen:
            return False
        if chosen <= len(stopped):
            self.interrupts -= 1
            self._interrupt(stopped[chosen - 1])
        else:
            self.deaths -= 1
            rank = victims[chosen - 1 - len(stopped)]
            self.dead.add(rank)
            self._due[rank] = []
            self._end(rank)
            self.changed()
        return True

    def _interrupt(self, rank: int) -> None:
        self._note("rank {} is interrupted", rank)
        self.interrupted.append(rank)
        self._changes += 1
        self._fresh[rank] = self._awake[rank] = True
        self._now += 1
        self.turns += 1
        self.current = rank
        if self.enter is not None:
            self.enter(rank)
        self._ranks[rank].throw(KeyboardInterrupt("injected"))
        self.current = -1
        if self._returned:
            self._leave(rank)
            self._end(rank)

    # Afterwards

    def where(self) -> str:
        """Where each rank is, in words."""
        lines = [f"waiting for ever: {sorted(self.waiting)}"] if self.waiting else []
        for rank, thread in enumerate(self._ranks):
            if rank in self.dead:
                lines.append(f"rank {rank} is dead")
            elif self._ended[rank]:
                error = self.errors[rank]
                lines.append(f"rank {rank} has ended" + f" with {error!r}" * (error is not None))
            elif thread is not None and thread.gr_frame is not None:
                stack = [frame for frame in traceback.extract_stack(thread.gr_frame) if frame.filename != __file__]
                lines.append(f"rank {rank} waits at\n" + "".join(traceback.format_list(stack)).rstrip())
            else:
                lines.append(f"rank {rank} has not begun")
        return "\n".join(lines)

    def returned(self) -> list[Any]:
        """What all ranks returned; the first one's error is raised if one has raised."""
        for error in self.errors:
            if error is not None:
                raise error
        return self.results

    def unreceived(self) -> list[str]:
        """Messages that nobody has received, receives that no message has matched, and barriers to which not all have come."""
        left = []
        for stream in self._streams.values():
            left += [str(message) for message in (*stream.flying, *stream.arrived)]
            left += [f"receive on rank {receive.rank} tag {stream.tag}" for receive in stream.posted]
        for started in self._barriers.values():
            left += [f"barrier to which {call.missing} ranks have not come" for call in started if call.missing]
        return left

    def close(self) -> None:
        """Unwind the ranks that have not ended. What they do meanwhile has no effect."""
        global _running
        self._closed, self.current, self._hub = True, 0, getcurrent()
        before, _running = _running, self
        try:
            for rank, thread in enumerate(self._ranks):
                if thread is None:
                    continue
                for _ in range(10):
                    thread.throw(GreenletExit)
                    if self._returned:
                        self._leave(rank)
                        break
                else:
                    _abandoned.append(thread)
        finally:
            _running = before
        self._ranks, self._events, self._held = [], [], []
        self._streams = {}
