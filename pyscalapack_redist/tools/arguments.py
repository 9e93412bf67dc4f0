"""Arguments of command lines: shapes, numbers and sizes, read with errors that say what they must be."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from typing import Any, TypeVar

from .cases import read_dtype
from .layouts import Layout
from .units import read_size

__all__ = ["Shape", "add_case", "add_shape", "argument", "count", "nbytes", "positive"]

T = TypeVar("T")
LARGEST = 2**62  # index of an array
POWER = re.compile(r"(?P<digits>\d+)e\+?(?P<power>\d{1,2})")
ABOUT_SHAPES = "global shape of the array: 1000 1000, 1000x1000, 1e6 20"


def argument(read: Callable[[str], T]) -> Callable[[str], T]:
    """The same, with what is wrong told as argparse tells it. Not collective."""

    def parse(text: str) -> T:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parse


class Shape(argparse.Action):
    """Sizes, each by itself or several joined by x."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option: str | None = None) -> None:
        namespace.shape = [n for sizes in values for n in sizes]


def add_shape(parser: Any, **more: Any) -> None:
    """Add --shape. Not collective."""
    parser.add_argument(
        "--shape", nargs="+", action=Shape, type=argument(_sizes), metavar="N", help=ABOUT_SHAPES, **more
    )


def add_case(parser: Any, read: Callable[[str], Layout] = Layout.parse, dtype: str = "float64") -> None:
    """Add --shape, --from, --to and --dtype. Not collective."""
    add_shape(parser)
    parser.add_argument("--from", dest="before", type=argument(read), metavar="LAYOUT", help="layout before")
    parser.add_argument("--to", dest="after", type=argument(read), metavar="LAYOUT", help="layout after")
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
    """A whole number of at least 1. Not collective."""
    return _whole_number(text, 1)


def nbytes(text: str) -> int:
    """A size of at least 1 byte. Not collective."""
    size = read_size(text)
    if not size:
        raise ValueError(f"{text!r} must be at least 1 byte")
    return size


def positive(text: str, most: float, what: str) -> float:
    """A number above 0 and at most that, or a ValueError that says what it must be. Not collective."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= most:
        raise ValueError(f"{text!r} must be {what}")
    return value
