"""Tracebacks of the package's own errors that end at the public call: what is below it tells a user nothing.

Of an error that all ranks raise, those come last that say less, where the first one ends the job.
"""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable
from types import FunctionType, TracebackType
from typing import Any, ParamSpec, TypeVar

from .errors import RedistributionError

VARIABLE = "PYSCALAPACK_REDIST_TRACEBACK"  # "full" leaves them as they are
BETWEEN = ("contextlib", "functools")  # modules of the standard library that stand between functions of this package

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type)
E = TypeVar("E", bound=BaseException)

SECONDS = 2.0  # in which the rank that has the cause ends the job
MARK = "_has_its_cause_on_another_rank"


def brief(function: Callable[P, R]) -> Callable[P, R]:
    """Let a public function raise the package's own errors with its own frame as the last one."""

    @functools.wraps(function)
    def call(*arguments: P.args, **keywords: P.kwargs) -> R:
        try:
            return function(*arguments, **keywords)
        except RedistributionError as error:
            # in no variable: this frame would refer to its own traceback, and so keep the user's arrays
            shorten(error, None if error.__traceback__ is None else error.__traceback__.tb_next)
            raise

    return call


def brief_methods(cls: C) -> C:
    """`brief` for the constructor and the public methods of a class, but for those that shorten tracebacks themselves."""
    for name, member in list(vars(cls).items()):
        is_public = not name.startswith("_") or name in ("__init__", "__getitem__")
        if is_public and isinstance(member, FunctionType) and shorten.__name__ not in member.__code__.co_names:
            setattr(cls, name, brief(member))
        elif is_public and isinstance(member, classmethod | staticmethod):
            setattr(cls, name, type(member)(brief(member.__func__)))
    return cls


def shorten(error: RedistributionError, last: TracebackType | None) -> None:
    """Let the traceback of an error begin with a frame, as far as it goes down, and end there; not with user's frames below.

    Parameters
    ----------
    error : RedistributionError
        The error.
    last : traceback or None
        The entry of the public function.
    """
    if last is None or os.environ.get(VARIABLE) == "full" or not _is_own(last.tb_next):
        return
    last.tb_next = None
    error.__traceback__ = last
    cause: Any = error.__cause__
    if cause is None:
        error.__suppress_context__ = True
    elif _is_own(cause.__traceback__):
        cause.__traceback__, cause.__suppress_context__ = None, True


def _is_own(entry: TracebackType | None) -> bool:
    """Whether all frames from an entry on are of this package."""
    while entry is not None:
        module = entry.tb_frame.f_globals.get("__name__", "")
        if module not in BETWEEN and not module.startswith(f"{__package__}."):
            return False
        entry = entry.tb_next
    return True


def with_its_cause_elsewhere(error: E) -> E:
    """The error, marked if it is the package's own: in the same call another rank raises the one that is to be read."""
    if isinstance(error, RedistributionError):
        setattr(error, MARK, True)
    return error


def print_causes_first() -> None:
    """Let marked errors be printed later than others, where `python -m mpi4py` runs the program and nobody else prints errors.

    A rank that does not catch such an error waits before Python prints it. By then the rank that has the cause has mostly
    printed its own and ended the job; where it has caught it, nothing is lost.
    """
    if "mpi4py.run" in sys.modules and sys.excepthook is sys.__excepthook__:
        sys.excepthook = _print_later


def _print_later(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    if getattr(error, MARK, False):
        time.sleep(SECONDS)
    sys.__excepthook__(kind, error, traceback)
