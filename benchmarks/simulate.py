"""What the engine's plans take on hosts with links of a given rate, by a flow simulation. Needs no MPI.

python benchmarks/simulate.py --shape 24000 24000 --from 32x32:64x64 --to 16x64:96x96 --rate 10gbit --latency 5us
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from simulate import DEFAULT_METHODS, EXCHANGES, Machine, Sizes, Study, check_method, simulated

from pyscalapack_redist.errors import ScheduleError
from pyscalapack_redist.tools.arguments import (
    UsageError,
    add_case,
    argument,
    bytes_per_second,
    case_without_copies,
    check_outputs,
    count,
    nbytes,
    positive,
    read_duration,
    read_size,
    write_text,
    written,
)
from pyscalapack_redist.tools.layout_text import EXAMPLES, examples
from pyscalapack_redist.tools.text import (
    console,
    count_text,
    new_table,
    print_line,
    print_table,
    ratio_text,
    size_text,
    time_text,
)

OPTIONS = (
    ("--hosts", count, None, "N", "hosts (default: as many as the ranks need)"),
    ("--slots", count, 1, "K", "ranks on each host (default: 1)"),
    ("--rate", bytes_per_second, None, "RATE", "what a host can send, and at the same time receive: 50mbit, 10gbit"),
    ("--latency", read_duration, 0.0, "T", "start-up of a message: from both sides being ready to its first byte: 50us"),
    ("--overhead", read_duration, 0.0, "T", "time of a message on its sender's and on its receiver's processor"),
    ("--efficiency", lambda text: positive(text, 1, "a number above 0 and at most 1"), 1.0, "X",
     "part of a link's bytes that are the messages' own: 0.956 for TCP over Ethernet (default: 1)"),
    ("--turns-after", read_size, math.inf, "BYTES",
     "what two processes' messages to each other have beyond so much goes one way after the other, as in Open MPI over TCP: "
     "64kib (default: both ways at once)"),
    ("--burst", read_size, 0, "BYTES", "what a link lets through at once after it has been idle: 64kib (default: 0)"),
    ("--window", count, None, "W", "pieces in flight each way, for windowed (default: the engine's)"),
    ("--piece", nbytes, None, "BYTES", "the most in a piece, for windowed (default: the engine's)"),
    ("--receives", count, None, "R", "receives posted, for windowed (default: the engine's)"),
    ("--resolution", read_duration, None, "T",
     "take events within so short a time together (default: 0 for small cases, else a small part of the links' limit)"),
)  # fmt: skip


def read_methods(text: str) -> tuple[str, ...]:
    """Methods joined by commas; a ValueError says what is wrong with one."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        schedule, slash, exchange = name.partition("/")
        if not slash:
            there = ", ".join(EXCHANGES)
            raise ValueError(
                f"method {name!r} must be SCHEDULE/EXCHANGE, as {DEFAULT_METHODS[0]}; exchanges that can be simulated: {there}"
            )
        try:
            check_method(schedule, exchange)
        except ScheduleError as error:
            raise ValueError(f"method {name!r}: {error}") from None
    return names


def lines(study: Study) -> Iterator[str]:
    """What was simulated, and the limit."""
    machine = study.machine
    yield f"simulated: {study.case}"
    yield f"machine: {machine}; {machine.efficiency:g} of a link's bytes are payload"
    if math.isfinite(machine.turns_after):
        yield f"two processes take turns with what their messages to each other have beyond {machine.turns_after:,.0f} bytes"
    if machine.vote:
        yield f"each call begins with a vote of all ranks: {time_text(machine.vote)}"
    if machine.burst:
        yield f"a link that has been idle lets {machine.burst:,.0f} bytes through at once"
    yield (
        f"the links' limit: {time_text(study.limit)}, for the {study.busiest_bytes:,} bytes ({size_text(study.busiest_bytes)}) "
        "that the busiest host sends to others or receives"
    )
    if study.resolution:
        yield f"events within {time_text(study.resolution)} of each other are taken together, at the end of that time"


def show(study: Study) -> None:
    """Print the times."""
    out = console()
    for line in lines(study):
        print_line(out, line)
    table = new_table(("method",), ("time", "of the limit", "of the best", "messages", "pieces", "steps", "events"))
    times = {one.name: one.seconds for one in study.predictions if one.seconds is not None}
    best = min(times.values(), default=0.0)
    for one in study.predictions:
        if one.seconds is not None:
            ratios = (ratio_text(one.seconds / least if least else None) for least in (study.limit, best))
            counts = (f"{number:,}" for number in (one.messages, one.pieces, one.steps))
            table.add_row(one.name, time_text(one.seconds), *ratios, *counts, f"{one.events:,}" if one.events else "-")
    if times:
        print_table(out, table)
    for one in study.predictions:
        if one.schedule not in one.name:
            print_line(out, f"{one.name}: the order is {one.schedule}")
        if one.reason:
            print_line(out, f"{one.name}: left out: {one.reason}")


def to_json(study: Study) -> str:
    """As JSON text."""
    machine = asdict(study.machine)
    if math.isinf(study.machine.turns_after):
        machine["turns_after"] = None
    document = {
        **study.case.to_dict(),
        "machine": machine,
        "limit": study.limit,
        "busiest_bytes": study.busiest_bytes,
        "resolution": study.resolution,
        "methods": [asdict(one) for one in study.predictions],
    }
    return json.dumps(document, indent=1)


def draw(study: Study, path: str) -> None:
    """Write a picture: a bar for each method, and the links' limit as a line."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter

    shown = {one.name: one.seconds for one in study.predictions if one.seconds is not None}
    figure = Figure(figsize=(8.5, 1.6 + 0.32 * len(shown)), layout="constrained")
    axes = figure.subplots()
    bars = axes.barh(range(len(shown)), list(shown.values()))
    axes.bar_label(bars, list(map(time_text, shown.values())), padding=3, fontsize=8)
    axes.axvline(study.limit, color="C3", linestyle="--", label=f"the links' limit: {time_text(study.limit)}")
    axes.set_yticks(range(len(shown)), list(shown), fontsize=9)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: time_text(value) if value else "0"))
    axes.set_xlabel("simulated time")
    axes.set_title(f"{study.case}\n{study.machine}", fontsize=10)
    figure.legend(loc="outside lower center", fontsize=8)
    figure.savefig(path, dpi=150)


def run(options: argparse.Namespace) -> None:
    """Simulate, write and draw; UsageError says why it cannot be done as asked."""
    case = case_without_copies(options, "simulate")
    if options.rate is None:
        raise UsageError("--rate missing: give --shape, --from, --to and --rate, as --rate 10gbit")
    needed = -(-case.ranks // options.slots)
    hosts = options.hosts or needed
    if hosts < needed:
        raise UsageError(
            f"--hosts {hosts}: with --slots {options.slots} that is {count_text(hosts * options.slots, 'rank')}, and {case} "
            f"needs {count_text(needed, 'host')}; leave --hosts away to have as many as it needs"
        )
    check_outputs(options, "simulate")
    parts = ("slots", "rate", "latency", "overhead", "efficiency", "turns_after", "burst")
    machine = Machine(hosts, **{name: getattr(options, name) for name in parts})
    sizes = Sizes(options.window, options.piece, options.receives)
    try:
        study = simulated(case, machine, options.methods, sizes, options.resolution)
    except ScheduleError as error:
        raise UsageError(f"--shape, --from, --to: {error}") from None
    except MemoryError as error:
        raise UsageError(f"there is not enough memory for that: {error}") from None
    if options.json:
        write_text("--json", options.json, to_json(study))
    if options.plot:
        with written("--plot", options.plot):
            draw(study, options.plot)
    show(study)


def main(arguments: Sequence[str] | None = None) -> None:
    about = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=examples(EXAMPLES), formatter_class=about, allow_abbrev=False
    )
    add_case(parser, required=True)
    for name, read, default, metavar, text in OPTIONS:
        parser.add_argument(name, type=argument(read), default=default, metavar=metavar, help=text)
    parser.add_argument(
        "--methods",
        type=argument(read_methods),
        default=DEFAULT_METHODS,
        metavar="LIST",
        help=f"SCHEDULE/EXCHANGE, joined by commas (default: {','.join(DEFAULT_METHODS)})",
    )
    parser.add_argument("--json", metavar="FILE", help="write the times as JSON")
    parser.add_argument("--plot", metavar="FILE.png", help="draw the times")
    try:
        run(parser.parse_args(arguments))
    except UsageError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main(sys.argv[1:])
