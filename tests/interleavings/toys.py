"""Small protocols, right and wrong ones, that show whether the explorer finds what it should."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from .explore import Case
from .world import QUIET, Channel, Choices, World, pause

DATA, READY = 1, 2


def wait(request: Any) -> None:
    while not request.Test():
        pause()


def finish(channel: Channel, requests: list[Any]) -> None:
    """Wait for all, in whatever order they complete."""
    left = len(requests)
    while left:
        done = channel.first_done(requests)
        if done is None:
            pause()
        else:
            requests[done] = channel.nothing
            left -= 1


def token(rank: int, channel: Channel) -> int:
    """A number goes round, and every rank adds its own."""
    number = np.zeros(1, np.int64)
    if rank:
        wait(channel.receive(number, rank - 1, DATA))
    number += rank + 1
    wait(channel.send(number, (rank + 1) % channel.size, DATA))
    if not rank:
        wait(channel.receive(number, channel.size - 1, DATA))
    return int(number[0])


def exchange(rank: int, channel: Channel) -> list[int]:
    """Everybody sends two messages to everybody; those with the same tag come in order."""
    peers = [peer for peer in range(channel.size) if peer != rank]
    buffers = {(peer, k): bytearray(8) for peer in peers for k in range(2)}
    requests = [channel.receive(buffer, peer, DATA) for (peer, _), buffer in buffers.items()]
    requests += [channel.send([bytes([10 * rank + k] * 9), 8, None], peer, DATA) for peer in peers for k in range(2)]
    finish(channel, requests)
    assert all(buffer == bytes([10 * peer + k] * 8) for (peer, k), buffer in buffers.items()), buffers
    return [buffer[0] for buffer in buffers.values()]


def meeting(rank: int, channel: Channel) -> None:
    """Nobody leaves before all have come, twice."""
    flags = channel.world.shared["flags"]
    for turn in range(1, 3):
        flags[rank] = turn
        wait(channel.barrier())
        assert min(flags[: channel.size]) >= turn, flags


def overtaking(rank: int, channel: Channel) -> None:
    """Wrong: that a message has come does not mean that one sent before it with another tag has."""
    if rank == 0:
        finish(channel, [channel.send(b"data", 1, DATA), channel.send(b"", 1, READY)])
        return
    while (message := channel.probe(0, READY)) is None:
        pause()
    wait(message.receive(b""))
    message = channel.probe(None, DATA)
    assert message is not None, "the data had not come"
    wait(message.receive(bytearray(4)))


def reused(rank: int, channel: Channel) -> None:
    """Wrong: the buffer of the first message is used for the second one."""
    buffer = np.array([1], np.int64)
    if rank == 0:
        first = channel.send(buffer, 1, DATA)
        buffer[0] = 2
        finish(channel, [first, channel.send(buffer, 1, DATA)])
        return
    for _ in range(2):
        wait(channel.receive(buffer, 0, DATA))


def synchronous(rank: int, channel: Channel) -> None:
    """Wrong: everybody's send must have completed before anybody receives."""
    wait(channel.send(b"x", (rank + 1) % channel.size, DATA))
    wait(channel.receive(bytearray(1), (rank - 1) % channel.size, DATA))


def lost(rank: int, channel: Channel) -> None:
    """Wrong: an interrupt drops the message that has been taken out of the queue, and the wait begins anew."""
    if rank == 0:
        wait(channel.send(b"x", 1, DATA))
        return

    def come() -> None:
        while (message := channel.probe(0, DATA)) is None:
            pause()
        wait(message.receive(bytearray(1)))

    try:
        come()
    except KeyboardInterrupt:
        come()


def kept(rank: int, channel: Channel) -> None:
    """Right: after an interrupt the same request is waited for."""
    requests = [channel.send(b"x", 1 - rank, DATA), channel.receive(bytearray(1), 1 - rank, DATA)]
    for request in requests:
        while not request.Test():
            with contextlib.suppress(KeyboardInterrupt):
                wait(request)


def unpoked(rank: int, channel: Channel) -> None:
    """Wrong: a rank waits for shared memory only, and the other one for a message that it has still to send."""
    flags = channel.world.shared["flags"]
    if rank == 0:
        request = channel.send(b"x", 1, DATA)
        while not flags[0]:
            pause()
        wait(request)
        return
    wait(channel.receive(bytearray(1), 0, DATA))
    flags[0] = 1


def make(size: int, program: Any, **options: Any) -> Any:
    """A function that makes worlds. What ranks share is in `shared` of the world, and tells when it changes."""

    def make_world(choices: Choices) -> World:
        world = World(size, choices, program, **options)
        flags = bytearray(4)
        world.shared = {"flags": flags}
        world.state = lambda: bytes(flags)
        return world

    return make_world


SHORT = (1, QUIET)

CASES = {
    "token": Case(make(3, token, delays=SHORT), bound=2),
    "exchange": Case(make(2, exchange, delays=SHORT), bound=1),
    "exchange of three": Case(make(3, exchange)),
    "meeting": Case(make(3, meeting, delays=SHORT), bound=2),
    "kept": Case(make(2, kept, interrupts=2, victims=[0]), bound=1),
}

WRONG = {
    "overtaking": (Case(make(2, overtaking), bound=1), "the data had not come"),
    "reused": (Case(make(2, reused), bound=1), "changed the buffer of a message 0->1"),
    "synchronous": (Case(make(3, synchronous), bound=0), "waiting for ever: [0, 1, 2]"),
    "lost": (Case(make(2, lost, interrupts=1, victims=[1]), bound=1), "waiting for ever: [1]"),
    "unpoked": (Case(make(2, unpoked), bound=0), "waiting for ever: [0, 1]"),
}
