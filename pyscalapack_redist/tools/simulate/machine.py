"""A machine of hosts, each with one link: what it sends and receives per second, and what a message costs to start.

Times are in seconds, sizes in bytes, rates in bytes per second. It knows nothing of arrays.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...engine.tabled import counted
from ...errors import ScheduleError

__all__ = ["Machine"]


@dataclass(frozen=True)
class Machine:
    """Hosts that are all alike, behind a switch without limits of its own. Not collective.

    Attributes
    ----------
    hosts, slots : int
        Hosts, and ranks on each; rank k is on host k // slots.
    rate : float
        Bytes per second that a host can send and, at the same time, receive, headers included.
    latency : float
        Seconds from the moment that sender and receiver have both come to a message until its first byte moves.
    overhead : float
        Seconds that a message takes of its sender's processor, and of its receiver's, one message after another.
    burst : float
        Bytes that a link lets through at once after it has been idle, headers included: a token bucket.
    efficiency : float
        The part of the bytes on a link that are the messages' own.
    turns_after : float
        Bytes of a message beyond which the two directions between two processes take turns, infinite where they never do.
        Open MPI over TCP sends what is beyond its eager limit when the receiver permits it, on one connection both ways: a
        permission that is given behind data of the other direction comes after all of that. It is so in exchanges that
        post a receive before their own send, such as lock step.

    Raises
    ------
    ScheduleError
        A parameter is out of range; the message names it.
    """

    hosts: int
    slots: int = 1
    rate: float = math.inf
    latency: float = 0.0
    overhead: float = 0.0
    efficiency: float = 1.0
    turns_after: float = math.inf
    burst: float = 0.0

    def __post_init__(self) -> None:
        for name in ("hosts", "slots"):
            if getattr(self, name) < 1:
                raise ScheduleError(f"{name} = {getattr(self, name)} must be at least 1")
        if not self.rate > 0:
            raise ScheduleError(f"rate = {self.rate} must be above 0 bytes per second")
        for name in ("latency", "overhead"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ScheduleError(f"{name} = {getattr(self, name)} must be a number of seconds of at least 0")
        if not 0 < self.efficiency <= 1:
            raise ScheduleError(f"efficiency = {self.efficiency} must be above 0 and at most 1")
        for name in ("turns_after", "burst"):
            if not getattr(self, name) >= 0:
                raise ScheduleError(f"{name} = {getattr(self, name)} must be a number of bytes of at least 0")

    @property
    def ranks(self) -> int:
        """Ranks in all."""
        return self.hosts * self.slots

    @property
    def bucket(self) -> float:
        """Bytes of messages in a burst."""
        return self.burst * self.efficiency

    def limit(self, nbytes: float) -> float:
        """Seconds below which a host cannot send, nor receive, so many bytes. Not collective."""
        return max(0.0, nbytes - self.bucket) / self.goodput

    @property
    def vote(self) -> float:
        """Seconds of the vote with which each call of a plan begins: a small reduction by doubling, over all ranks."""
        return (self.ranks - 1).bit_length() * (self.latency + self.overhead)

    @property
    def goodput(self) -> float:
        """Bytes of messages per second and direction."""
        return self.rate * self.efficiency

    def __str__(self) -> str:
        each = f" with {self.slots} ranks each" if self.slots > 1 else ""
        return (
            f"{counted(self.hosts, 'host')}{each}, {rate_text(self.rate)} each way, start-up {self.latency * 1e6:g} us"
            + (f" and {self.overhead * 1e6:g} us of processor" if self.overhead else "")
        )


def rate_text(rate: float) -> str:
    """A rate in bits per second, as 50 Mbit/s. Not collective."""
    bits = rate * 8
    for unit, name in ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")):
        if bits >= unit:
            return f"{bits / unit:g} {name}"
    return f"{bits:g} bit/s"
