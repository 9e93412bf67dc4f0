"""What a command line asks for, and what of it cannot be done, found before anything runs."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import DescriptorError
from .cases import Case
from .info import EXTRA, missing_extras

__all__ = ["UsageError", "case_of", "case_without_copies", "check_outputs", "write_text", "written"]


class UsageError(Exception):
    """What was asked for cannot be done; the message names the argument and what is expected."""


def case_of(options: Namespace) -> Case:
    """The case of --shape, --from, --to and --dtype, which are given. Not collective.

    Raises UsageError where the layouts do not fit the shape.
    """
    dtype = {} if options.dtype is None else {"dtype": options.dtype}
    try:
        return Case(tuple(options.shape), options.before, options.after, **dtype)
    except DescriptorError as error:
        raise UsageError(f"--shape, --from, --to: {error}") from None


def case_without_copies(options: Namespace, command: str) -> Case:
    """The same, for a command that studies one dimension after the other. Not collective.

    Raises UsageError for layouts with copies as well.
    """
    case = case_of(options)
    for name, layout in (("--from", case.before), ("--to", case.after)):
        if layout.copied:
            raise UsageError(
                f"{name} {layout}: {command} is for layouts without copies; show draws this one, bench times it, and "
                "pyscalapack_redist.redistribute() of descriptors on paper has its plan"
            )
    return case


def write_text(name: str, path: str, text: str) -> None:
    """Write a file that an argument names. Not collective.

    Raises UsageError where that fails, as on a full disk.
    """
    with written(name, path), open(path, "w") as file:
        file.write(text + "\n")


@contextmanager
def written(name: str, path: str) -> Iterator[None]:
    """Write a file that an argument names, by whatever is done inside. Not collective.

    Raises UsageError where that fails, as on a full disk.
    """
    try:
        yield
    except OSError as error:
        raise UsageError(f"{name} {path}: it cannot be written: {error.strerror or error}") from None
    except RuntimeError as error:  # of matplotlib, without a program that a format needs
        raise UsageError(f"{name} {path}: it cannot be drawn: {error}") from None


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
            raise UsageError(f"--plot {options.plot}: the file name must end in one of {formats}")
    for name, path in (("--json", options.json), ("--plot", options.plot)):
        if path == "":
            raise UsageError(f"{name} '': it must name a file")
        folder = os.path.dirname(os.path.abspath(path)) if path else ""
        if path and (os.path.isdir(path) or not os.access(path if os.path.exists(path) else folder, os.W_OK)):
            raise UsageError(
                f"{name} {path}: it cannot be written: it must be a file, in a folder that exists and is writable"
            )
