"""Arguments of command lines: reading and checking them before anything runs.

Values are read with errors that say what they must be: shapes, numbers, rates (50mbit, 12GB/s), durations (50us) and sizes
(64kib), as people write them.
"""

from __future__ import annotations

import argparse
import math
import os
import re
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from ..engine.options import number_with_unit, read_size
from ..errors import DescriptorError
from ..layout.notation import LayoutText
from .cases import Case, read_dtype
from .info import EXTRA, missing_extras

T = TypeVar("T")
LARGEST = 2**62  # index of an array
POWER = re.compile(r"(?P<digits>\d+)e\+?(?P<power>\d{1,2})")
ABOUT_SHAPES = "global shape of the array: 1000 1000, 1000x1000, 1e6 20"
DURATIONS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
PREFIXES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}


class UsageError(Exception):
    """A command line that cannot be carried out; the message names the argument and what is expected."""


def argument(read: Callable[[str], T]) -> Callable[[str], T]:
    """A reader for argparse: a ValueError becomes an ArgumentTypeError."""

    def parse(text: str) -> T:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parse


class Shape(argparse.Action):
    """Sizes, single or joined by x."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option: str | None = None) -> None:
        namespace.shape = [n for sizes in values for n in sizes]


def add_shape(parser: Any, **more: Any) -> None:
    """Add --shape."""
    parser.add_argument(
        "--shape", nargs="+", action=Shape, type=argument(_sizes), metavar="N", help=ABOUT_SHAPES, **more
    )


def add_case(
    parser: Any, read: Callable[[str], LayoutText] = LayoutText.parse, dtype: str = "float64", **more: Any
) -> None:
    """Add --shape, --from, --to and --dtype."""
    add_shape(parser, **more)
    for name, key in (("before", "--from"), ("after", "--to")):
        parser.add_argument(key, dest=name, type=argument(read), metavar="LAYOUT", help=f"layout {name}", **more)
    parser.add_argument("--dtype", type=argument(read_dtype), help=f"NumPy dtype of the elements (default: {dtype})")


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(_size(part) for part in text.lower().split("x"))


def _size(text: str) -> int:
    number = POWER.fullmatch(text)
    size = int(number["digits"]) * 10 ** int(number["power"]) if number else _whole_number(text, 0)
    if size > LARGEST:
        raise ValueError(f"{text!r} must be at most 2**62, the largest index of this package")
    return size


def _whole_number(text: str, least: int) -> int:
    if not text.isdecimal() or int(text) < least:
        raise ValueError(f"{text!r} must be a whole number of at least {least}")
    return int(text)


def count(text: str) -> int:
    """A whole number of at least 1."""
    return _whole_number(text, 1)


def nbytes(text: str) -> int:
    """A size of at least 1 byte."""
    size = read_size(text)
    if not size:
        raise ValueError(f"{text!r} must be at least 1 byte")
    return size


def positive(text: str, most: float, what: str) -> float:
    """A number above 0 and at most `most`; the ValueError says `what` is expected."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= most:
        raise ValueError(f"{text!r} must be {what}")
    return value


def bytes_per_second(text: str) -> float:
    """Read a rate: a number with `bit` or `B/s`, with k, m, g or t (powers of 1000) before it or not.

    Bits are as `tc` and makers of networks count them, so 50mbit is 6.25 million bytes per second. A bare number is
    refused: nobody could tell whether bits or bytes are meant.

    Raises
    ------
    ValueError
        The text is not a rate with its unit, or not above 0.
    """
    rate, words = None, text.strip()
    if words.endswith("B/s"):  # b/s could be bits
        rate = number_with_unit(words[:-3], PREFIXES)
    elif words.lower().endswith(("bit", "bit/s")):
        bits = number_with_unit(words.lower().removesuffix("/s")[:-3], PREFIXES)
        rate = bits and bits / 8
    if rate is None or not 0 < rate < math.inf:
        raise ValueError(f"{text!r} must be a rate above 0 with its unit, such as 50mbit, 10gbit, 6.25MB/s or 12GB/s")
    return rate


def read_duration(text: str) -> float:
    """Seconds, from 50us or 0.

    Raises
    ------
    ValueError
        The message quotes the text and says what is expected.
    """
    value = 0.0 if text == "0" else number_with_unit(text, DURATIONS)
    if value is None or value == math.inf:
        raise ValueError(f"{text!r} must be a duration with its unit: 50us, 1.5ms, 300ns, or 0")
    return value


# -- the case and the files of results


def case_of(options: Namespace, instead: str = "") -> Case:
    """The case of --shape, --from, --to and --dtype.

    Raises UsageError if one is missing, with the text `instead`, or if the layouts do not fit the shape.
    """
    arguments = {"--shape": options.shape, "--from": options.before, "--to": options.after}
    missing = [name for name, value in arguments.items() if value is None]
    if missing:
        raise UsageError(f"{', '.join(missing)} missing: give --shape, --from and --to{instead}")
    dtype = {} if options.dtype is None else {"dtype": options.dtype}
    try:
        return Case(tuple(options.shape), options.before, options.after, **dtype)
    except DescriptorError as error:
        raise UsageError(f"--shape, --from, --to: {error}") from None


def case_without_copies(options: Namespace, command: str) -> Case:
    """The case, for a command that studies one dimension after the other.

    Raises UsageError for layouts with replicas, too.
    """
    case = case_of(options)
    for name, layout in (("--from", case.before), ("--to", case.after)):
        if layout.copied:
            raise UsageError(
                f"{name} {layout}: {command} is for layouts without replicas; show draws this one, bench times it, and "
                "pyscalapack_redist.redistribute() of descriptors on paper has its plan"
            )
    return case


def write_text(name: str, path: str, text: str) -> None:
    """Write a text into a file that an argument names. Raises UsageError if that fails, as on a full disk."""
    with written(name, path), open(path, "w") as file:
        file.write(text + "\n")


@contextmanager
def written(name: str, path: str) -> Iterator[None]:
    """A block that writes a file that an argument names. Raises UsageError if that fails, as on a full disk."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{name} {path}: it cannot be written: {error.strerror or error}") from None
    except RuntimeError as error:  # of matplotlib, without a program that a format needs
        raise UsageError(f"{name} {path}: it cannot be drawn: {error}") from None


def check_outputs(options: Namespace, command: str = "bench") -> None:
    """Check that a command can show and write its results.

    Raises UsageError if rich or matplotlib is missing, or a file cannot be written.
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
    for name, path in (("--json", getattr(options, "json", None)), ("--plot", options.plot)):
        if path is not None:
            check_file(name, path)


def check_file(name: str, path: str) -> None:
    """Check that a file that an argument names can be written. Raises UsageError."""
    if path == "":
        raise UsageError(f"{name} '': it must name a file")
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path) or not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise UsageError(
            f"{name} {path}: it cannot be written: it must be a file, in a folder that exists and is writable"
        )
