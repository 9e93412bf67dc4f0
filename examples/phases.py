"""Phases of a parallel program: run on all ranks, timed, and given up by all ranks together if one of them cannot."""

from __future__ import annotations

import argparse
import contextlib
import math
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, TextIO, TypeVar

from mpi4py import MPI

import pyscalapack_redist as psr

__all__ = [
    "Phases",
    "Refusal",
    "grid_shape",
    "most_square",
    "on_all_ranks",
    "options_parser",
    "positive",
    "read_words",
    "say",
    "start",
    "timed",
]

T = TypeVar("T")

EXPECTED = (psr.RedistributionError, OSError, ValueError, ImportError, MemoryError)


class Refusal(Exception):  # noqa: N818
    """Something that a person has to put right. Every rank raises it, so none waits for another."""


def on_all_ranks(comm: MPI.Intracomm, work: Callable[[], T]) -> T:
    """Do something on every rank; if any rank cannot, raise a Refusal on all of them. Collective."""
    result: T
    problem = None
    try:
        result = work()
    except EXPECTED as error:
        problem = str(error) or type(error).__name__
    problems = [text for text in comm.allgather(problem) if text is not None]
    if problems:
        raise Refusal(problems[0])
    return result


def options_parser(program: str, description: str | None) -> argparse.ArgumentParser:
    """A parser that leaves it to `read_words` to show help and to refuse: on all ranks alike. Not collective."""
    parser = argparse.ArgumentParser(
        prog=program,
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        exit_on_error=False,
        add_help=False,
    )
    parser.add_argument("-h", "--help", action="store_true", help="show this and end")
    return parser


def read_words(
    parser: argparse.ArgumentParser, comm: MPI.Intracomm, words: list[str], instead: str
) -> argparse.Namespace | None:
    """What the words say; None where only help was wanted. A Refusal says what there is `instead`. Not collective."""
    try:
        given, unknown = parser.parse_known_args(words)
    except argparse.ArgumentError as error:
        raise Refusal(str(error)) from None
    if given.help:
        if comm.rank == 0:
            parser.print_help()
        return None
    if unknown:
        raise Refusal(f"unknown argument {unknown[0]}: {instead}")
    return given


def positive(text: str) -> int:
    """A number of the command line that must be at least 1. Not collective."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number of at least 1")
    return int(text)


def grid_shape(text: str) -> tuple[int, int]:
    """A process grid of the command line. Not collective."""
    found = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} must be rows x columns of processes, such as 2x2")
    return int(found[1]), int(found[2])


def most_square(ranks: int) -> tuple[int, int]:
    """The most square grid of all ranks. Not collective."""
    rows = max(rows for rows in range(1, math.isqrt(ranks) + 1) if ranks % rows == 0)
    return rows, ranks // rows


def start(read: Callable[[MPI.Intracomm, list[str]], T | None], run: Callable[[MPI.Intracomm, T], bool]) -> NoReturn:
    """Run a program and end: status 0 if its result is right, 1 if it is wrong, 2 after a Refusal. Collective.

    Parameters
    ----------
    read : callable
        From the words of the command line to options; None if there is nothing to do.
    run : callable
        Whether the result is right.
    """
    comm = MPI.COMM_WORLD
    try:
        options = on_all_ranks(comm, lambda: read(comm, sys.argv[1:]))
        status = 0 if options is None or run(comm, options) else 1
    except Refusal as refusal:
        if comm.rank == 0:
            print(f"{Path(sys.argv[0]).name}: error: {refusal}", file=sys.stderr, flush=True)
        status = 2
    # all ranks got here: had they not finalized when they end with a status other than 0, `python -m mpi4py` would abort them
    if status:
        MPI.Finalize()
    sys.exit(status)


def say(comm: MPI.Intracomm, text: object = "", end: str = "\n") -> None:
    """Print on rank 0. Not collective."""
    if comm.rank == 0:
        print(text, end=end, flush=True)


def timed(comm: MPI.Intracomm, work: Callable[[], T]) -> tuple[float, T]:
    """Seconds from when every rank is ready until every rank is done, and what `work` returned. Collective."""
    comm.Barrier()
    start = MPI.Wtime()
    result = work()
    comm.Barrier()
    return MPI.Wtime() - start, result


class Phases:
    """Runs what `psr.timings` does not record, one phase after another; rank 0 prints a line for each."""

    def __init__(self, comm: MPI.Intracomm) -> None:
        self._comm = comm
        self._line = ""
        self._terminal: TextIO | None = None
        if comm.rank == 0:
            # sys.stdout cannot tell: mpiexec puts a pipe, or a terminal of its own, in its place
            with contextlib.suppress(OSError):
                self._terminal = open("/dev/tty", "w")  # noqa: SIM115

    def run(self, name: str, where: object, work: Callable[[], T]) -> T:
        """Do one phase on all ranks. Collective."""
        self._line = f"{name:34}{where!s:34}"
        say(self._comm, self._line, end="")
        try:
            seconds, result = timed(self._comm, lambda: on_all_ranks(self._comm, work))
        except Refusal:
            say(self._comm)
            raise
        say(self._comm, f"{seconds:9.3f} s")
        return result

    def show_progress(self, fraction: float) -> None:
        """Show how much of the running phase is done, where its time will be printed. Not collective."""
        if self._terminal is not None:
            done = f"{fraction:9.0%}" if fraction < 1 else ""
            print(f"\r{self._line}{done}\x1b[K", end="", file=self._terminal, flush=True)
