"""`pyscalapack-redist simulate`: what a redistribution takes on a machine of any size. Needs no MPI."""

from __future__ import annotations

from argparse import Namespace

from ...errors import ScheduleError
from ..text import counted
from ..usage import UsageError, case_without_copies, check_outputs, write_text, written
from .exchange_rules import EXCHANGES, Sizes, check_method
from .machine import Machine
from .study import DEFAULT_METHODS, simulated

__all__ = ["read_methods", "simulate"]


def simulate(options: Namespace) -> int:
    """Simulate a redistribution, show the times, write and draw them. Not collective.

    Parameters
    ----------
    options : Namespace
        The command line: shape, before, after, dtype, hosts, slots, rate, latency, overhead, efficiency, turns_after,
        burst, methods, window, piece, receives, resolution, json, plot.

    Returns
    -------
    int
        Exit status 0.

    Raises
    ------
    UsageError
        It cannot be done as asked.
    """
    given = {"--shape": options.shape, "--from": options.before, "--to": options.after, "--rate": options.rate}
    missing = [name for name, value in given.items() if value is None]
    if missing:
        raise UsageError(f"{', '.join(missing)} missing: give --shape, --from, --to and --rate, as --rate 10gbit")
    case = case_without_copies(options, "simulate")
    hosts = options.hosts or -(-case.ranks // options.slots)
    if hosts * options.slots < case.ranks:
        raise UsageError(
            f"--hosts {hosts}: with --slots {options.slots} that is {counted(hosts * options.slots, 'rank')}, and {case} needs "
            f"{counted(-(-case.ranks // options.slots), 'host')}; leave --hosts away to have as many as it needs"
        )
    check_outputs(options, "simulate")
    machine = Machine(
        hosts,
        options.slots,
        options.rate,
        options.latency,
        options.overhead,
        options.efficiency,
        float("inf") if options.turns_after is None else options.turns_after,
        options.burst,
    )
    try:
        sizes = Sizes(options.window, options.piece, options.receives)
        found = simulated(case, machine, options.methods, sizes, options.resolution)
    except ScheduleError as error:
        raise UsageError(f"--shape, --from, --to: {error}") from None
    from .report import show, to_json  # after it is known that rich is there

    if options.json:
        write_text("--json", options.json, to_json(found))
    if options.plot:
        from .picture import draw

        with written("--plot", options.plot):
            draw(found, options.plot)
    show(found)  # last: whoever reads the output may stop, as head does
    return 0


def read_methods(text: str) -> tuple[str, ...]:
    """Methods joined by commas, as the command line gives them. Not collective.

    Raises
    ------
    ValueError
        One is unknown, or its parts do not go together; says which there are.
    """
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        schedule, slash, exchange = name.partition("/")
        if not slash:
            raise ValueError(
                f"method {name!r} must be SCHEDULE/EXCHANGE, as {DEFAULT_METHODS[0]}; exchanges that can be simulated: "
                f"{', '.join(EXCHANGES)}"
            )
        try:
            check_method(schedule, exchange)
        except ScheduleError as error:
            raise ValueError(f"method {name!r}: {error}") from None
    return names
