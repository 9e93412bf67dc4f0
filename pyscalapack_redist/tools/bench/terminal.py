"""Where text goes: colours and progress only for a person at a terminal."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = ["console", "new_table", "on_terminal", "print_table"]

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
        return Console(highlight=False, width=_width())
    return Console(
        force_terminal=False, color_system=None, width=WIDTH_OF_FILES, highlight=False, emoji=False, markup=False
    )


def _width() -> int | None:
    """Columns of the terminal that the launcher writes to; None where it does not tell, which leaves it to rich."""
    try:
        terminal = os.open(f"/proc/{os.getppid()}/fd/1", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return None
    try:
        return os.get_terminal_size(terminal).columns or None
    except OSError:
        return None
    finally:
        os.close(terminal)


def new_table(texts: tuple[str, ...], figures: tuple[str, ...]) -> Table:
    """An empty table with columns of text, then of figures. In files it is one of Markdown. Not collective."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD if on_terminal() else box.MARKDOWN)
    for name in texts:
        table.add_column(name, overflow="fold", min_width=12)
    for name in figures:
        table.add_column(name, justify="right")
    return table


def print_table(out: Console, table: Table) -> None:
    """Print a table, in files without the empty lines that its frame is made of. Not collective."""
    if out.is_terminal:
        out.print(table)
        return
    with out.capture() as text:
        out.print(table)
    lines = [line.rstrip() for line in text.get().splitlines()]
    out.out("\n".join(filter(None, lines)), highlight=False)
