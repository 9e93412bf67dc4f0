"""What a command line asks for, and whether it can be done: what would fail at the end is found before anything runs."""

from __future__ import annotations

import dataclasses
import os
from argparse import Namespace
from collections.abc import Sequence

from ...errors import DescriptorError
from ..info import EXTRA, missing_extras
from .case import Case
from .results import Results
from .suites import SUITES

__all__ = ["UsageError", "asked_for", "check_outputs", "for_size", "read_earlier"]

START = "mpiexec -n {} python -m mpi4py -m pyscalapack_redist bench ..."


class UsageError(Exception):
    """What was asked for cannot be done; the message names the argument and what is expected."""


def asked_for(options: Namespace) -> list[Case]:
    """The cases of a suite, or the one that is given. Not collective.

    Raises UsageError where neither is given, both are, or the layouts do not fit the shape.
    """
    single = {"--shape": options.shape, "--from": options.before, "--to": options.after}
    given = [name for name, value in single.items() if value is not None]
    if options.suite:
        if given:
            raise UsageError(f"{given[0]} and --suite: give a suite, or one case by --shape, --from and --to")
        suite = SUITES[options.suite]
        if options.quick and not suite.quick:
            raise UsageError(f"--quick: the suite {options.suite} has no smaller cases")
        cases = suite.quick if options.quick else suite.cases
        return list(dict.fromkeys(dataclasses.replace(case, dtype=options.dtype or case.dtype) for case in cases))
    if options.quick:
        raise UsageError("--quick: it is for a --suite")
    missing = ", ".join(name for name in single if name not in given)
    if missing:
        raise UsageError(f"{missing} missing: give --shape, --from and --to, or --suite {' or '.join(SUITES)}")
    dtype = {} if options.dtype is None else {"dtype": options.dtype}
    try:
        return [Case(tuple(options.shape), options.before, options.after, **dtype)]
    except DescriptorError as error:
        raise UsageError(f"--shape, --from, --to: {error}") from None


def for_size(cases: Sequence[Case], suite: str | None, size: int) -> tuple[list[Case], list[str]]:
    """The cases to run on `size` ranks, and a word on those that are left out. Not collective.

    A single case may run on more ranks than it needs; of a suite only the cases for this number of ranks are run. Raises
    UsageError where there is none, and says how to start it.
    """
    if suite is None:
        needed = cases[0].ranks
        if needed > size:
            raise UsageError(f"{cases[0]}: it was started on {size}; start it by {START.format(needed)}")
        return list(cases), []
    ranks_for = SUITES[suite].ranks_for
    mine = [case for case in cases if ranks_for(case) == size]
    others = sorted(set(map(ranks_for, cases)) - {size})
    if not mine:
        raise UsageError(
            f"--suite {suite}: it has cases for {_any_of(others)} ranks, none for {size}; start it by {START.format(others[0])}"
        )
    if not others:
        return mine, []
    return mine, [
        f"suite {suite}: {len(mine)} of {len(cases)} cases are for {size} ranks and run now; the others are left out, "
        f"start them by mpiexec -n {_any_of(others)}"
    ]


def _any_of(numbers: Sequence[int]) -> str:
    *most, last = map(str, numbers)
    return f"{', '.join(most)} or {last}" if most else last


def check_outputs(options: Namespace, command: str = "bench") -> None:
    """See that all that a command is to show and write can be. Not collective.

    Raises UsageError where rich or matplotlib is missing, or a file cannot be written.
    """
    missing = missing_extras(("rich", "matplotlib") if options.plot else ("rich",))
    if missing:
        raise UsageError(f"{command} needs {' and '.join(missing)}, which is not installed: {EXTRA}")
    if options.plot:
        from matplotlib.backend_bases import FigureCanvasBase

        known = FigureCanvasBase.get_supported_filetypes()
        if os.path.splitext(options.plot)[1][1:].lower() not in known:
            formats = ", ".join(sorted(known))
            raise UsageError(f"--plot {options.plot}: its name must end in a format of pictures: {formats}")
    for name, path in (("--json", options.json), ("--plot", options.plot)):
        folder = os.path.dirname(os.path.abspath(path)) if path else ""
        if path and (os.path.isdir(path) or not os.access(path if os.path.exists(path) else folder, os.W_OK)):
            raise UsageError(
                f"{name} {path}: it cannot be written: it must be a file, in a folder that exists and is writable"
            )


def read_earlier(path: str | None) -> Results | None:
    """The results of an earlier run; None without a file. Not collective.

    Raises UsageError where the file cannot be read, or holds something else.
    """
    if path is None:
        return None
    try:
        with open(path) as file:
            return Results.from_json(file.read())
    except OSError as error:
        why = error.strerror
    except ValueError as error:
        why = str(error)
    raise UsageError(f"--compare {path}: it must be what --json wrote, and cannot be read: {why}")
