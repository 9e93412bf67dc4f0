"""The moves that a plan consists of, before they are planned: through layouts on the way, and of a mirror image."""

from __future__ import annotations

import itertools
from typing import NamedTuple

from ..comm.vote import digest
from ..layout.descriptor import Descriptor
from .arguments import Request
from .fill import second_move
from .layouts import Layout, moved
from .model import Choice
from .operation import Edge, Part, edge_of
from .waypoints import waypoints

__all__ = ["PendingMove", "identity", "pending_moves"]


def identity(request: Request, a: Layout, b: Layout, chosen: Choice) -> int:
    """A number equal on all ranks for the same plan."""
    said = f"call {request.call} {a.layout_digest} {b.layout_digest} {chosen.schedule} {chosen.exchange}"
    return digest(said.encode())


class PendingMove(NamedTuple):
    """A move that is still to be planned."""

    stage: int
    source: int
    target: int
    a: Layout
    b: Layout
    op: str
    part: Part | None
    last: bool

    @property
    def edge(self) -> Edge | None:
        """Which elements of op(A) move; None for all."""
        return edge_of(self.part, self.op, self.b.shape)

    @property
    def moved(self) -> Layout:
        """The layout of op(A)."""
        return moved(self.a, self.op)


def pending_moves(request: Request, a: Layout, b: Layout) -> list[PendingMove]:
    """The moves of a plan: of the trapezoid and of its mirror image, if there is one, each through the layouts on its way."""
    if not request.knows_both:  # what this rank was told, it has not looked at
        request.check(a, b)
    if request.via is None and request.fill is None:
        return [PendingMove(0, 0, 1, a, b, request.op, request.part, True)]
    kinds: list[tuple[str, Part | None]] = [(request.op, request.part)]
    if request.fill is not None and request.part is not None:
        second = second_move(request.fill, request.op, request.part)
        kinds += [second] if second is not None else []
    ways = []
    for op, part in kinds:
        before = moved(a, op)
        stops: list[Layout] = [a, b]
        if request.via is not None and isinstance(before, Descriptor) and isinstance(b, Descriptor):
            stops[1:1] = waypoints(before, b, request.via)
        ways.append((op, part, stops))
    longest = max(len(stops) for _, _, stops in ways) - 1
    legs: list[PendingMove] = []
    slot = 2
    for op, part, stops in ways:
        source, first = 0, longest - (len(stops) - 1)
        for k, (start, end) in enumerate(itertools.pairwise(stops)):
            last = end is stops[-1] and k == len(stops) - 2
            target = 1 if last else slot
            slot += not last
            legs.append(PendingMove(first + k, source, target, start, end, op if k == 0 else "N", part, last))
            part = part.moved(op) if part is not None and k == 0 else part
            source = target
    return legs
