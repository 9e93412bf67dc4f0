"""Simulated times for a person to read, and as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator

from ..text import console, new_table, print_line, print_table, ratio_text, size_text, time_text
from .study import Simulated

__all__ = ["lines", "show", "to_json"]


def show(found: Simulated) -> None:
    """Print the times. Not collective."""
    out = console()
    for line in lines(found):
        print_line(out, line)
    table = new_table(
        ("method",), ("time", "of the limit", "of the best", "messages", "pieces", "steps", "events", "took")
    )
    known = [prediction.seconds for prediction in found.predictions if prediction.seconds is not None]
    best = min(known, default=0.0)
    for prediction in found.predictions:
        if prediction.seconds is None:
            continue
        table.add_row(
            prediction.name,
            time_text(prediction.seconds),
            ratio_text(prediction.seconds / found.limit if found.limit else None),
            ratio_text(prediction.seconds / best if best else None),
            f"{prediction.messages:,}",
            f"{prediction.pieces:,}",
            f"{prediction.steps:,}",
            f"{prediction.events:,}" if prediction.events else "-",
            time_text(prediction.elapsed),
        )
    if known:
        print_table(out, table)
    for prediction in found.predictions:
        if prediction.schedule not in prediction.name:
            print_line(out, f"{prediction.name}: the order is {prediction.schedule}")
        if prediction.reason:
            print_line(out, f"{prediction.name}: left out: {prediction.reason}")


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
                    "name": prediction.name,
                    "schedule": prediction.schedule,
                    "seconds": prediction.seconds,
                    "messages": prediction.messages,
                    "pieces": prediction.pieces,
                    "steps": prediction.steps,
                    "events": prediction.events,
                    "elapsed": prediction.elapsed,
                    "reason": prediction.reason,
                }
                for prediction in found.predictions
            ],
        },
        indent=1,
    )
