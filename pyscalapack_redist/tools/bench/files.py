"""The files that a run reads and writes. What would fail at the end is found before anything runs."""

from __future__ import annotations

import os
from argparse import Namespace

from ..info import EXTRA, missing_extras
from .results import Results
from .selection import UsageError
from .suite import Suite
from .suites import SUITES

__all__ = ["check_outputs", "read_earlier", "write"]


def check_outputs(options: Namespace, command: str = "bench") -> None:
    """See that all that a command is to show and write can be. Not collective.

    Raises
    ------
    UsageError
        rich or matplotlib is missing, or a file cannot be written.
    """
    missing = missing_extras(("rich", "matplotlib") if options.plot else ("rich",))
    if missing:
        raise UsageError(f"{command} needs {' and '.join(missing)}, which is not installed: {EXTRA}")
    if options.plot:
        _check_format(options.plot)
    for name, path in (("--json", options.json), ("--plot", options.plot)):
        folder = os.path.dirname(os.path.abspath(path)) if path else ""
        if path and (os.path.isdir(path) or not os.access(path if os.path.exists(path) else folder, os.W_OK)):
            raise UsageError(
                f"{name} {path}: it cannot be written: it must be a file, in a folder that exists and is writable"
            )


def _check_format(picture: str) -> None:
    from matplotlib.backend_bases import FigureCanvasBase

    known = FigureCanvasBase.get_supported_filetypes()
    if os.path.splitext(picture)[1][1:].lower() not in known:
        raise UsageError(f"--plot {picture}: its name must end in a format of pictures: {', '.join(sorted(known))}")


def read_earlier(path: str | None) -> Results | None:
    """The results of an earlier run; None without a file. Not collective.

    Raises
    ------
    UsageError
        The file cannot be read, or holds something else.
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


def write(results: Results, options: Namespace) -> None:
    """Write what was asked for. Not collective."""
    if options.json:
        with open(options.json, "w") as file:
            file.write(results.to_json() + "\n")
    if options.plot:
        (SUITES[options.suite] if options.suite else Suite(())).plot(results, options.plot)
