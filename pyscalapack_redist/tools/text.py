"""Numbers, tables and lines of text for people. Tables need rich, of the extra `cli`."""

from __future__ import annotations

import math
import os
import re
import textwrap
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..files.progress_bar import on_terminal as on_terminal
from ..reports import count_text as count_text  # for the commands

if TYPE_CHECKING:
    from matplotlib.axis import Axis
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

WIDTH_OF_FILES = 160
MANY_DECADES = 1000


def time_text(seconds: float) -> str:
    """Three digits and a unit, as 11.2 ms; a dash for NaN."""
    if math.isnan(seconds):
        return "-"
    for unit, name in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= 0.9995 * unit:
            return f"{ratio_text(seconds / unit)} {name}"
    return f"{ratio_text(seconds * 1e6)} us"


def size_text(size: int | None) -> str:
    """Bytes in binary units, as 64.0 MiB; a question mark for None."""
    if size is None:
        return "?"
    if size < 1024:
        return f"{size} B"
    amount = float(size)
    for name in ("KiB", "MiB", "GiB"):
        amount /= 1024
        if amount < 1023.95 or name == "GiB":
            break
    return f"{amount:.1f} {name}"


def ratio_text(value: float | None) -> str:
    """Three digits, as 1.05 or 12.3; a dash for None or NaN."""
    if value is None or math.isnan(value):
        return "-"
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:.0f}"


def log_ticks(axis: Axis, words: Callable[[float], str]) -> None:
    """Label a logarithmic axis with texts, at 1, 2 and 5 of each decade if there are few decades."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1,) if high > MANY_DECADES * low else (1, 2, 5), numticks=20))
    axis.set_major_formatter(FuncFormatter(lambda value, _: re.sub(r"\.0+\b", "", words(value))))
    axis.set_minor_formatter(NullFormatter())


# -- colours and progress only in a terminal


def console(quiet: bool = False) -> Console:
    """A console. In files it is wide enough for whole tables, and plain unless FORCE_COLOR is set."""
    from rich.console import Console

    width = _window_width()
    if on_terminal():
        return Console(highlight=False, width=width or _terminal_width(), quiet=quiet)
    plain = not os.environ.get("FORCE_COLOR")  # rich itself sees to NO_COLOR
    return Console(
        force_terminal=False if plain else None,
        color_system=None if plain else "auto",
        width=width or WIDTH_OF_FILES,
        quiet=quiet,
        highlight=False,
        emoji=False,
        markup=False,
    )


def print_line(out: Console, line: str | Text) -> None:
    """Print a line of text, broken only at the width in the variable COLUMNS."""
    out.print(line, soft_wrap=_window_width() is None, markup=False)


def indented(line: str, indent: str = "  ") -> str:
    """An indented line of text, broken between words at the width in the variable COLUMNS."""
    width = _window_width()
    if width is None:
        return indent + line
    return textwrap.fill(
        line, width, initial_indent=indent, subsequent_indent=2 * indent, break_long_words=False, break_on_hyphens=False
    )


def _window_width() -> int | None:
    text = os.environ.get("COLUMNS", "")
    return int(text) if text.isdecimal() and int(text) else None


def _terminal_width() -> int | None:
    """Columns of the launcher's terminal; None if they are unknown, and rich decides."""
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
    """An empty table with columns of text, then of numbers. In files in Markdown."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD if on_terminal() else box.MARKDOWN)
    for name in texts:
        table.add_column(name, overflow="fold", min_width=12)
    for name in figures:
        table.add_column(name, justify="right")
    return table


def print_table(out: Console, table: Table) -> None:
    """Print a table, in files without empty lines."""
    if on_terminal():
        out.print(table)
        return
    with out.capture() as text:
        out.print(table)
    lines = [line.rstrip() for line in text.get().splitlines()]
    out.out("\n".join(filter(None, lines)), highlight=False)
