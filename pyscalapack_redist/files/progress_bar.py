"""The progress of a long `load` or `save` on one rank: a bar by rich in a terminal, else lines of the package's logger."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator

from .. import diagnostics
from ..comm.free_memory import peak_memory
from ..comm.guard import Guard

LOGGER = logging.getLogger(__name__)
LOG_SECONDS = 2.0  # between two lines of the log

Advance = Callable[[int], None]


def on_terminal() -> bool:
    """Whether standard output is seen by a person.

    Open MPI gives ranks a terminal of its own whatever happens to their output, so what starts this process (mpiexec)
    must write to one as well.
    """
    if sys.stdout is None or not sys.stdout.isatty():
        return False
    try:
        return os.readlink(f"/proc/{os.getppid()}/fd/1").startswith(("/dev/pts/", "/dev/tty", "/dev/console"))
    except OSError:
        return True


@contextlib.contextmanager
def progress_bar(call: str, path: str, total: int, shown: bool) -> Iterator[Advance]:
    """Report the progress of the block, which calls the function that it gets with the bytes just moved. Never fails.

    Parameters
    ----------
    call, path : str
        The call, and the file. The log has the whole path, a terminal its last part, which leaves room for the bar.
    total : int
        Bytes of the whole.
    shown : bool
        Whether this rank reports; else the function does nothing.
    """
    stack, advance = contextlib.ExitStack(), _ignore  # type: contextlib.ExitStack, Advance
    display = Guard()  # other ranks wait: what a terminal or a log raises is dropped
    if shown:
        path = os.fsencode(path).decode(errors="backslashreplace")  # a name may be any bytes
        name = os.path.basename(path)
        report = display.attempt(
            lambda: _open_bar(stack, f"{call} {name}", total) or _log_lines(f"{call} {path}", total), is_open=False
        )
        advance = report or _ignore
    try:
        yield lambda nbytes: display.attempt(lambda: advance(nbytes), is_open=False)
    finally:
        display.attempt(stack.close, is_open=False)


def _ignore(nbytes: int) -> None:
    """Report nothing."""


def _open_bar(stack: contextlib.ExitStack, title: str, total: int) -> Advance | None:
    """A bar, if rich is installed and a person sees it."""
    if not on_terminal():
        return None
    try:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
    except ImportError:
        return None
    columns = TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TimeRemainingColumn()
    bar = stack.enter_context(Progress(*columns, console=Console(file=sys.stdout)))
    task = bar.add_task(title, total=total)
    return lambda nbytes: bar.advance(task, nbytes)


def _log_lines(title: str, total: int) -> Advance:
    """Lines in the log, every few seconds and at the end."""
    done, last = 0, time.monotonic()

    def advance(nbytes: int) -> None:
        nonlocal done, last
        done += nbytes
        moment = time.monotonic()
        if done >= total or moment - last >= LOG_SECONDS:
            last = moment
            words = f"{title}: {done} of {total} bytes ({100 * done / max(1, total):.0f} %)"
            peak = peak_memory()
            if peak and done >= total:
                words += f"; at most {peak} bytes of memory on this rank since it began"
            diagnostics.log(LOGGER, logging.INFO, "%s", words)

    return advance
