"""Where text goes: colours and progress only for a person at a terminal."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = ["console", "new_table", "on_terminal"]

WIDTH_OF_FILES = 160


def on_terminal() -> bool:
    """Whether standard output is seen by a person. Not collective.

    Open MPI gives ranks a terminal of its own whatever happens to their output, so what starts this process (mpiexec)
    must write to one as well.
    """
    if not sys.stdout.isatty():
        return False
    try:
        return os.readlink(f"/proc/{os.getppid()}/fd/1").startswith(("/dev/pts/", "/dev/tty", "/dev/console"))
    except OSError:
        return True


def console() -> Console:
    """A console that is plain and wide enough for whole tables where nobody looks on. Not collective."""
    from rich.console import Console

    if on_terminal():
        return Console(highlight=False)
    return Console(
        force_terminal=False, color_system=None, width=WIDTH_OF_FILES, highlight=False, emoji=False, markup=False
    )


def new_table(*columns: str) -> Table:
    """An empty table, its first column of text and the others of figures. In files it is one of Markdown."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD if on_terminal() else box.MARKDOWN, pad_edge=False)
    table.add_column(columns[0], no_wrap=True)
    for name in columns[1:]:
        table.add_column(name, justify="right")
    return table
