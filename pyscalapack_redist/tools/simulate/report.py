"""Simulated times for a person to read, and as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator

from ..text import console, new_table, print_table, ratio_text, size_text, time_text
from .study import Simulated

__all__ = ["lines", "show", "to_json"]


def show(found: Simulated) -> None:
    """Print the times. Not collective."""
    out = console()
    for line in lines(found):
        out.print(line, soft_wrap=True, markup=False)
    table = new_table(
        ("method",), ("time", "of the limit", "of the best", "messages", "pieces", "steps", "events", "took")
    )
    known = [one.seconds for one in found.predictions if one.seconds is not None]
    best = min(known, default=0.0)
    for one in found.predictions:
        if one.seconds is None:
            continue
        table.add_row(
            one.name,
            time_text(one.seconds),
            ratio_text(one.seconds / found.limit if found.limit else None),
            ratio_text(one.seconds / best if best else None),
            f"{one.messages:,}",
            f"{one.pieces:,}",
            f"{one.steps:,}",
            f"{one.events:,}" if one.events else "-",
            time_text(one.elapsed),
        )
    if known:
        print_table(out, table)
    for one in found.predictions:
        if one.reason:
            out.print(f"{one.name}: left out: {one.reason}", soft_wrap=True, markup=False)


def lines(found: Simulated) -> Iterator[str]:
    """What was simulated, and the limit. Not collective."""
    machine = found.machine
    yield f"simulated: {found.case}"
    yield f"machine: {machine}; {machine.efficiency:g} of a link's bytes are payload"
    if math.isfinite(machine.turns_after):
        yield f"two processes take turns with what their messages to each other have beyond {machine.turns_after:,.0f} bytes"
    if machine.vote:
        yield f"each call begins with a vote of all ranks: {time_text(machine.vote)}"
    if machine.burst:
        yield f"a link that has been idle lets {machine.burst:,.0f} bytes through at once"
    yield (
        f"the links' limit: {time_text(found.limit)}, for the {found.busiest_bytes:,} bytes ({size_text(found.busiest_bytes)}) "
        "that the busiest host sends to others or receives"
    )
    if found.resolution:
        yield f"events within {time_text(found.resolution)} of each other are taken together, at the end of that time"


def to_json(found: Simulated) -> str:
    """As JSON text. Not collective."""
    case, machine = found.case, found.machine
    return json.dumps(
        {
            "shape": list(case.shape),
            "from": str(case.before),
            "to": str(case.after),
            "dtype": str(case.dtype),
            "ranks": case.ranks,
            "machine": {
                "hosts": machine.hosts,
                "slots": machine.slots,
                "rate": machine.rate,
                "latency": machine.latency,
                "overhead": machine.overhead,
                "efficiency": machine.efficiency,
                "burst": machine.burst,
                "turns_after": machine.turns_after if math.isfinite(machine.turns_after) else None,
            },
            "limit": found.limit,
            "busiest_bytes": found.busiest_bytes,
            "resolution": found.resolution,
            "methods": [
                {
                    "name": one.name,
                    "seconds": one.seconds,
                    "messages": one.messages,
                    "pieces": one.pieces,
                    "steps": one.steps,
                    "events": one.events,
                    "elapsed": one.elapsed,
                    "reason": one.reason,
                }
                for one in found.predictions
            ],
        },
        indent=1,
    )
