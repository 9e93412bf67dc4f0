"""`pyscalapack-redist`: what is installed, layouts, plans on paper and in simulation, and the benchmark.

Under mpiexec every rank reads the same command line, and rank 0 speaks for all; `show`, `plan` and `simulate` need and
start no MPI. Exit status 2: it cannot be done as asked.
"""

from __future__ import annotations

import argparse
import errno
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import IO, Any, NoReturn, TypeVar

from .. import __version__
from ..layout.blockcyclic import LARGEST
from .bench.command import bench
from .bench.methods import DEFAULT_METHODS, Method, read_method
from .bench.suites import STUDIES, SUITES
from .cases import read_dtype, read_side
from .info import describe, launched
from .layouts import ABOUT_COPIES, ABOUT_LAYOUTS, ABOUT_PARTS, Layout
from .plan.birkeland_model import Model
from .plan.command import MOST_PROCESSES, plan, read_schedule
from .show import show
from .simulate.command import read_methods, simulate
from .simulate.study import DEFAULT_METHODS as SIMULATED_METHODS
from .text import indented
from .tile_layouts import ABOUT_TILES
from .units import bytes_per_second, read_duration, read_size
from .usage import UsageError

__all__ = ["main", "run"]

T = TypeVar("T")
POWER = re.compile(r"(?P<digits>\d+)e\+?(?P<power>\d{1,2})")
BAD_USAGE = 2
READER_GONE = 141  # as a shell shows a process that SIGPIPE has ended
PLAN, SIMULATE, SHOW = WITHOUT_MPI = "plan", "simulate", "show"
ABOUT_SHAPES = "global shape of the array: 1000 1000, 1000x1000, 1e6 20"


def main() -> None:
    """Entry point of `pyscalapack-redist`. Collective over all ranks."""
    if sys.stdout is None:  # it was closed before the program began
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (as long as the program)
    try:
        status = run(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read the output has stopped, as head does: there is nobody to tell
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = READER_GONE
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"pyscalapack-redist: error: the output cannot be written: {error.strerror}", file=sys.stderr, flush=True)
        status = BAD_USAGE
    if status:
        _finalize()
        sys.exit(status)


def run(arguments: Sequence[str]) -> int:
    """Do what a command line says, and return the exit status. Collective over all ranks.

    Parameters
    ----------
    arguments : sequence of str
        Without the program's name.
    """
    parser = _parser()
    try:
        options = parser.parse_args(arguments)
        status: int = options.command(options)
    except UsageError as error:
        if {*arguments[:1]} & {*WITHOUT_MPI} or _speaks():
            print(f"{parser.prog}: error: {error}", file=sys.stderr, flush=True)
        return BAD_USAGE
    except MemoryError as error:
        if arguments[0] not in WITHOUT_MPI:
            raise
        print(f"{parser.prog}: error: there is not enough memory for that: {error}", file=sys.stderr, flush=True)
        return BAD_USAGE
    except SystemExit as wanted:  # argparse has printed its help
        return wanted.code if isinstance(wanted.code, int) else 0
    return status


def _speaks() -> bool:
    """Whether this rank speaks for all; yes where there is no MPI, and, without starting it, outside mpiexec."""
    if not launched():
        return True
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError):
        return True
    return MPI.COMM_WORLD.Get_rank() == 0


def _finalize() -> None:
    """End MPI in an orderly way, which all ranks do: `python -m mpi4py` would abort it for a status that is not 0."""
    if "mpi4py.MPI" in sys.modules:
        from mpi4py import MPI

        if MPI.Is_initialized() and not MPI.Is_finalized():
            MPI.Finalize()


class _Parser(argparse.ArgumentParser):
    """Speaks on rank 0 only; those of `show`, `plan` and `simulate` without asking MPI which one this is."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")

    def _print_message(self, message: str, file: IO[str] | None = None) -> None:  # type: ignore[override]
        if self.prog.split()[-1] in WITHOUT_MPI or _speaks():
            super()._print_message(message, file)


def _parser() -> _Parser:
    parser = _Parser(
        prog="pyscalapack-redist",
        description="Redistribution of block-cyclic (ScaLAPACK) arrays.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"pyscalapack_redist {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_info(commands)
    _add_show(commands)
    _add_plan(commands)
    _add_simulate(commands)
    _add_bench(commands)
    return parser


def _add_info(commands: Any) -> None:
    info = commands.add_parser(
        "info",
        help="what is installed and what will be used",
        description="Versions, the MPI and the ScaLAPACK that will be used and why, memory shared by ranks, what is missing.",
        allow_abbrev=False,
    )
    info.set_defaults(command=_info)


def _add_show(commands: Any) -> None:
    show_ = commands.add_parser(
        SHOW,
        help="who owns which block of an array, in colour",
        description="The blocks of an array with the ranks that own them, in a terminal or as a picture; needs no MPI.",
        epilog=f"{ABOUT_LAYOUTS} {ABOUT_COPIES} {ABOUT_PARTS}",
        allow_abbrev=False,
    )
    add = show_.add_argument
    add("layout", type=_argument(Layout.parse_operand), metavar="LAYOUT", help="as 2x4:64x64")
    add("--shape", nargs="+", action=_Shape, type=_argument(_sizes), metavar="N", required=True, help=ABOUT_SHAPES)
    add("--plot", metavar="FILE.png", help="draw it")
    show_.set_defaults(command=show)


def _add_plan(commands: Any) -> None:
    plan_ = commands.add_parser(
        PLAN,
        help="messages, steps and costs of a redistribution, on paper",
        description="Communication grids, steps and costs of a redistribution between machines of any size; needs no MPI.",
        epilog=ABOUT_LAYOUTS,
        allow_abbrev=False,
    )
    add = plan_.add_argument
    add("--shape", nargs="+", action=_Shape, type=_argument(_sizes), metavar="N", help=ABOUT_SHAPES)
    add("--from", dest="before", type=_argument(Layout.parse), metavar="LAYOUT", help="layout before")
    add("--to", dest="after", type=_argument(Layout.parse), metavar="LAYOUT", help="layout after")
    add("--schedule", type=_argument(read_schedule), default="optimal", help="the one to show (default: optimal)")
    add("--time-limit", type=_argument(_seconds), default=1.0, metavar="S", help="seconds of a search (default: 1)")
    add("--dtype", type=_argument(read_dtype), help="NumPy dtype of the elements (default: float64)")
    add(
        "--model",
        type=_argument(Model.parse),
        metavar="ts=S,tw=S",
        help="seconds of a message's start-up and of a byte: predict times; without --from and --to those of sweeps over "
        "grids of 1, 2, ... dimensions, and the processes from which on each is faster",
    )
    add(
        "--processes", type=_argument(_count), metavar="P", help=f"the most for such sweeps (default: {MOST_PROCESSES})"
    )
    add("--json", metavar="FILE", help="write the plan as JSON")
    add("--plot", metavar="FILE.png", help="draw the grid and the steps")
    plan_.set_defaults(command=plan)


def _add_simulate(commands: Any) -> None:
    simulate_ = commands.add_parser(
        SIMULATE,
        help="simulated times of a redistribution, on a machine of any size",
        description="What the engine's plans take on hosts with links of a given rate, by a flow simulation; needs no MPI.",
        epilog=ABOUT_LAYOUTS,
        allow_abbrev=False,
    )
    add = simulate_.add_argument
    add("--shape", nargs="+", action=_Shape, type=_argument(_sizes), metavar="N", help=ABOUT_SHAPES)
    add("--from", dest="before", type=_argument(Layout.parse), metavar="LAYOUT", help="layout before")
    add("--to", dest="after", type=_argument(Layout.parse), metavar="LAYOUT", help="layout after")
    add("--dtype", type=_argument(read_dtype), help="NumPy dtype of the elements (default: float64)")
    add("--hosts", type=_argument(_count), metavar="N", help="hosts (default: as many as the ranks need)")
    add("--slots", type=_argument(_count), default=1, metavar="K", help="ranks on each host (default: 1)")
    add(
        "--rate",
        type=_argument(bytes_per_second),
        help="what a host can send, and at the same time receive: 50mbit, 10gbit",
    )
    add(
        "--latency",
        type=_argument(read_duration),
        default=0.0,
        metavar="T",
        help="start-up of a message, as 50us: from both sides being ready to its first byte (default: 0)",
    )
    add(
        "--overhead",
        type=_argument(read_duration),
        default=0.0,
        metavar="T",
        help="time of a message on its sender's and on its receiver's processor, one after another (default: 0)",
    )
    add(
        "--efficiency",
        type=_argument(_part),
        default=1.0,
        metavar="X",
        help="part of a link's bytes that are the messages' own: 0.956 for TCP over Ethernet (default: 1)",
    )
    add(
        "--turns-after",
        type=_argument(read_size),
        metavar="BYTES",
        help="what two processes' messages to each other have beyond so much goes one way after the other, as in Open MPI "
        "over TCP: 64kib (default: both ways at once)",
    )
    add(
        "--burst",
        type=_argument(read_size),
        default=0,
        metavar="BYTES",
        help="what a link lets through at once after it has been idle, as a token bucket does: 64kib (default: 0)",
    )
    add(
        "--methods",
        type=_argument(read_methods),
        default=SIMULATED_METHODS,
        metavar="LIST",
        help=f"SCHEDULE/EXCHANGE, joined by commas (default: {','.join(SIMULATED_METHODS)})",
    )
    add(
        "--window",
        type=_argument(_count),
        metavar="W",
        help="pieces in flight each way, for windowed (default: the engine's)",
    )
    add(
        "--piece",
        type=_argument(_bytes),
        metavar="BYTES",
        help="the most in a piece, for windowed (default: the engine's)",
    )
    add(
        "--receives",
        type=_argument(_count),
        metavar="R",
        help="receives posted, for windowed (default: the engine's)",
    )
    add(
        "--resolution",
        type=_argument(read_duration),
        metavar="T",
        help="take events within so short a time together (default: 0 for small cases, else a small part of the links' limit)",
    )
    add("--json", metavar="FILE", help="write the times as JSON")
    add("--plot", metavar="FILE.png", help="draw the times")
    simulate_.set_defaults(command=simulate)


def _add_bench(commands: Any) -> None:
    bench_ = commands.add_parser(
        "bench",
        help="compare methods of redistribution (under mpiexec)",
        description="Time methods of redistribution against each other, interleaved, and verify their results.",
        epilog=f"{ABOUT_LAYOUTS} {ABOUT_COPIES} {ABOUT_PARTS} {ABOUT_TILES} "
        "Start it by: mpiexec -n RANKS python -m mpi4py -m pyscalapack_redist bench ...",
        allow_abbrev=False,
    )
    add = bench_.add_argument
    add("--shape", nargs="+", action=_Shape, type=_argument(_sizes), metavar="N", help=ABOUT_SHAPES)
    add("--from", dest="before", type=_argument(read_side), metavar="LAYOUT", help="layout before")
    add("--to", dest="after", type=_argument(read_side), metavar="LAYOUT", help="layout after")
    add("--suite", choices=(*SUITES, *STUDIES), help="a named set of cases; those for this number of ranks are run")
    add("--quick", action="store_true", help="of the suite only a few small cases")
    add("--dtype", type=_argument(read_dtype), help="NumPy dtype of the elements (default: the suite's, else float64)")
    add(
        "--methods",
        type=_argument(_methods),
        metavar="LIST",
        help="joined by commas: auto, SCHEDULE/EXCHANGE[/BUFFERS], pxgemr2d, pxgemr2d=PATH[:PREFIX], gather-scatter, "
        f"mpi-waitall, mpi-alltoallv, memcpy, bcast, alltoall (default: the suite's, else {','.join(DEFAULT_METHODS)})",
    )
    add(
        "--link-rate",
        type=_argument(bytes_per_second),
        metavar="RATE",
        help="what a host's link carries each way, as 50mbit or 12GB/s: show the links' limit and how close each method "
        "comes (default: for the suite hosts what is measured)",
    )
    add("--repeat", type=_argument(_count), default=9, metavar="N", help="timed rounds (default: 9)")
    add("--profile", action="store_true", help="show where the time of a call goes on the ranks: packing, waiting, ...")
    add("--compare", metavar="OLD.json", help="show what got slower or faster since a run with --json OLD.json")
    add("--json", metavar="FILE", help="write the results as JSON")
    add("--plot", metavar="FILE.png", help="draw the results")
    bench_.set_defaults(command=bench)


def _info(options: argparse.Namespace) -> int:
    if _speaks():
        for heading, lines in describe():
            print(heading)
            for line in lines:
                print(indented(line))
    return 0


# -- values of arguments


def _argument(read: Callable[[str], T]) -> Callable[[str], T]:
    """The same, with what is wrong told as argparse tells it."""

    def parse(text: str) -> T:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parse


class _Shape(argparse.Action):
    """Sizes, each by itself or several joined by x."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option: str | None = None) -> None:
        namespace.shape = [n for sizes in values for n in sizes]


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(_size(part) for part in text.lower().split("x"))


def _size(text: str) -> int:
    number = POWER.fullmatch(text)
    size = int(number["digits"]) * 10 ** int(number["power"]) if number else _whole_number(text, 0)
    if size > LARGEST:
        raise ValueError(f"{text!r} must be at most 2**62, the largest index of this package")
    return size


def _count(text: str) -> int:
    return _whole_number(text, 1)


def _whole_number(text: str, least: int) -> int:
    if not text.isdecimal() or int(text) < least:
        raise ValueError(f"{text!r} must be a whole number of at least {least}")
    return int(text)


def _bytes(text: str) -> int:
    size = read_size(text)
    if not size:
        raise ValueError(f"{text!r} must be at least 1 byte")
    return size


def _part(text: str) -> float:
    return _positive(text, 1, "a number above 0 and at most 1")


def _seconds(text: str) -> float:
    return _positive(text, sys.float_info.max, "a number of seconds above 0")


def _positive(text: str, most: float, what: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= most:
        raise ValueError(f"{text!r} must be {what}")
    return value


def _methods(text: str) -> list[Method]:
    names = [name.strip() for name in text.split(",")]
    return [read_method(name) for name in dict.fromkeys(names)]
