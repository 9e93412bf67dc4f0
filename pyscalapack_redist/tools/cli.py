"""`pyscalapack-redist`: the installation, layouts, plans on paper, and the benchmark.

Under mpiexec every rank reads the same command line, and rank 0 speaks for all; `show` and `plan` need and start no MPI.
Exit status 2: it cannot be done as asked.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import IO, Any, NoReturn, TextIO, cast

from .. import __version__
from ..diagnostics import write_line
from ..layout.notation import NOTATION, LayoutText
from .arguments import (
    UsageError,
    add_case,
    add_shape,
    argument,
    bytes_per_second,
    check_file,
    count,
    positive,
    read_duration,
    write_text,
)
from .bench.command import bench
from .bench.methods import DEFAULT_METHODS, Method, read_method
from .bench.suites import SUITES
from .info import describe, launched
from .layout_text import (
    EXAMPLES,
    EXAMPLES_OF_COPIES,
    EXAMPLES_OF_PARTS,
    EXAMPLES_OF_TILES,
    examples,
    read_side,
)
from .plan_command import plan, read_schedule
from .show import show
from .text import indented

BAD_USAGE = 2
PLAN, SHOW = "plan", "show"
STANDARD_OUTPUT = "-"
SIMULATE = "simulate"  # moved to benchmarks
WITHOUT_MPI = PLAN, SHOW, SIMULATE


class _Output:
    """Standard output. It never raises, since other ranks wait for this one: what cannot be written is dropped.

    Attributes
    ----------
    problem : OSError or None
        The reason, such as a full disk; None for a broken pipe, as of head.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.problem: OSError | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            self._stream.write(text)
        except OSError as error:
            self._let_go(error)
        return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._let_go(error)

    def _let_go(self, error: OSError) -> None:
        if not isinstance(error, BrokenPipeError):
            self.problem = self.problem or error
        os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())


def main() -> None:
    """Entry point of `pyscalapack-redist`. Collective over all ranks."""
    if sys.stdout is None:  # closed before the program began
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (as long as the program)
    output = _Output(sys.stdout)
    sys.stdout = cast(TextIO, output)
    status = run(sys.argv[1:])
    output.flush()
    if output.problem is not None:
        write_line(f"pyscalapack-redist: error: the output cannot be written: {output.problem.strerror}")
        status = BAD_USAGE
    if status:
        _finalize()
        sys.exit(status)


def run(arguments: Sequence[str]) -> int:
    """Run a command line, and return the exit status. Collective over all ranks.

    Parameters
    ----------
    arguments : sequence of str
        Without the program's name.
    """
    parser = _parser()
    try:
        if arguments[:1] == [SIMULATE]:
            raise UsageError(
                "simulate is in the sources: python benchmarks/simulate.py, with the same options, in a checkout"
            )
        options = parser.parse_args(arguments)
        status: int = options.command(options)
    except UsageError as error:
        if {*arguments[:1]} & {*WITHOUT_MPI} or _is_printing_rank():
            write_line(f"{parser.prog}: error: {error}")
        return BAD_USAGE
    except MemoryError as error:
        if arguments[0] not in WITHOUT_MPI:
            raise
        write_line(f"{parser.prog}: error: there is not enough memory for that: {error}")
        return BAD_USAGE
    except SystemExit as wanted:  # argparse has printed its help
        return wanted.code if isinstance(wanted.code, int) else 0
    return status


def _is_printing_rank() -> bool:
    """Whether this rank prints: rank 0, any process outside mpiexec, or one without MPI."""
    if not launched():
        return True
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError):
        return True
    return not MPI.Is_initialized() or MPI.COMM_WORLD.Get_rank() == 0


def _finalize() -> None:
    """Finalize MPI, on all ranks: `python -m mpi4py` would abort it for a status other than 0."""
    if "mpi4py.MPI" in sys.modules:
        from mpi4py import MPI

        if MPI.Is_initialized() and not MPI.Is_finalized():
            MPI.Finalize()


class _Parser(argparse.ArgumentParser):
    """A parser that prints on rank 0 only; for `show` and `plan` without MPI."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")

    def _print_message(self, message: str, file: IO[str] | None = None) -> None:  # type: ignore[override]
        if self.prog.split()[-1] in WITHOUT_MPI or _is_printing_rank():
            super()._print_message(message, file)


def _parser() -> _Parser:
    parser = _Parser(
        prog="pyscalapack-redist",
        description="Redistribution of block-cyclic (ScaLAPACK) arrays.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"pyscalapack_redist {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def command(name: str, run: Callable[[argparse.Namespace], int], short: str, about: str, epilog: str = "") -> Any:
        if epilog:
            epilog = f"a LAYOUT is {NOTATION.partition(', as in')[0]}\n{epilog}"
        added = commands.add_parser(
            name,
            help=short,
            description=about,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        added.set_defaults(command=run)
        return added

    command(
        "info",
        _info,
        "what is installed and what will be used",
        "Versions, the MPI and the ScaLAPACK that will be used and why, memory shared by ranks, what is missing.",
    ).add_argument(
        "--json", metavar="FILE", help="write it as JSON, a list of lines for each heading; - for standard output"
    )
    _show_arguments(
        command(
            SHOW,
            show,
            "who owns which block of an array, in colour",
            "The blocks of an array with the ranks that own them, in a terminal or as a picture; needs no MPI.",
            examples(EXAMPLES, EXAMPLES_OF_COPIES, EXAMPLES_OF_PARTS),
        )
    )
    _plan_arguments(
        command(
            PLAN,
            plan,
            "time and memory of a redistribution, on paper",
            "How long a redistribution takes on a machine of any size, its memory, and what limits it; needs no MPI.",
            examples(EXAMPLES),
        )
    )
    _bench_arguments(
        command(
            "bench",
            bench,
            "compare methods of redistribution (under mpiexec)",
            "Time methods of redistribution against each other, interleaved, and verify their results.",
            examples(EXAMPLES, EXAMPLES_OF_COPIES, EXAMPLES_OF_PARTS, EXAMPLES_OF_TILES)
            + "\n\nstart it by: mpiexec -n RANKS python -m mpi4py -m pyscalapack_redist bench ...",
        )
    )
    return parser


def _show_arguments(parser: Any) -> None:
    parser.add_argument("layout", type=argument(LayoutText.parse_operand), metavar="LAYOUT", help="as 2x4:64x64")
    add_shape(parser, required=True)
    parser.add_argument("--plot", metavar="FILE.png", help="draw it")


def _plan_arguments(parser: Any) -> None:
    add_case(parser, required=True)
    add = parser.add_argument
    add("--orders", action="store_true", help="the orders of the messages, their steps and bounds, and the ways of via=")
    add("--schedule", type=argument(read_schedule), help="the order whose steps --orders shows (default: optimal)")
    add("--time-limit", type=argument(_seconds), default=1.0, metavar="S", help="seconds of its search (default: 1)")
    rate = "what a node can send, and at the same time receive: 10gbit, 12GB/s"
    add("--rate", type=argument(bytes_per_second), help=rate)
    add("--latency", type=argument(read_duration), default=0.0, metavar="T", help="of a message, as 5us (default: 0)")
    slots = "ranks on each node, which share its link (default: 1)"
    add("--slots", type=argument(count), default=1, metavar="K", help=slots)
    add("--overwrite", action="store_true", help="of a redistribution that consumes A: its memory")
    add("--json", metavar="FILE", help="write the plan as JSON")
    add("--plot", metavar="FILE.png", help="draw who sends whom what in which step")
    for option in ("--model", "--processes"):
        add(option, action=_Moved, nargs="*", help=argparse.SUPPRESS)


class _Moved(argparse.Action):
    """A former option, of the models of sweeps."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option: str | None = None) -> None:
        raise UsageError(
            f"{option}: sweeps by the model of Birkeland and Sorevik are in the sources: python benchmarks/sweeps.py, with the "
            "same options, in a checkout. Times of one redistribution follow from plan's --rate and --latency"
        )


def _bench_arguments(parser: Any) -> None:
    add_case(parser, read_side, "the suite's, else float64")
    add = parser.add_argument
    add("--suite", choices=tuple(SUITES), help="a named set of cases; those for this number of ranks are run")
    add("--quick", action="store_true", help="of the suite only a few small cases")
    methods = (
        "joined by commas: auto, SCHEDULE/EXCHANGE[/BUFFERS[/AGREE]], pxgemr2d, pxgemr2d=PATH[:PREFIX], gather-scatter, "
        f"mpi-waitall, mpi-alltoallv, memcpy, bcast, alltoall (default: the suite's, else {','.join(DEFAULT_METHODS)})"
    )
    add("--methods", type=argument(_methods), metavar="LIST", help=methods)
    rate = (
        "what a host's link carries each way, as 50mbit or 12GB/s: show the links' limit and how close each method comes "
        "(default: for the suite hosts what is measured)"
    )
    add("--link-rate", type=argument(bytes_per_second), metavar="RATE", help=rate)
    add("--repeat", type=argument(count), default=9, metavar="N", help="timed rounds (default: 9)")
    add("--profile", action="store_true", help="show where the time of a call goes on the ranks: packing, waiting, ...")
    add("--compare", metavar="OLD.json", help="show what got slower or faster since a run with --json OLD.json")
    add("--json", metavar="FILE", help="write the results as JSON")
    add("--plot", metavar="FILE.png", help="draw the results")


def _info(options: argparse.Namespace) -> int:
    if not _is_printing_rank():
        return 0
    if options.json is not None:
        if options.json != STANDARD_OUTPUT:
            check_file("--json", options.json)
        text = json.dumps(dict(describe()), indent=2)
        if options.json == STANDARD_OUTPUT:
            print(text)
        else:
            write_text("--json", options.json, text)
    else:
        for heading, lines in describe():
            print(heading)
            for line in lines:
                print(indented(line))
    return 0


def _seconds(text: str) -> float:
    return positive(text, sys.float_info.max, "a number of seconds above 0")


def _methods(text: str) -> list[Method]:
    names = [name.strip() for name in text.split(",")]
    return [read_method(name) for name in dict.fromkeys(names)]
