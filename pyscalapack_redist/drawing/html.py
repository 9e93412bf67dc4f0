"""Tables and pictures as HTML, in the reader's own colours."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

__all__ = ["beside", "picture", "table"]

HEAD = "text-align:left;vertical-align:top;font-weight:600;padding:2px 12px 2px 0;white-space:nowrap"
CELL = "text-align:left;vertical-align:top;padding:2px 8px 2px 0"


def table(title: str, rows: Iterable[tuple[str, str]]) -> str:
    """A table of names and values below a title. Not collective."""
    lines = "".join(
        f'<tr><th scope="row" style="{HEAD}">{escape(name)}</th><td style="{CELL}">{escape(value)}</td></tr>'
        for name, value in rows
    )
    caption = f'<caption style="text-align:left;font-weight:600;padding:2px 0">{escape(title)}</caption>'
    return f'<table style="border-collapse:collapse;margin:0">{caption}<tbody>{lines}</tbody></table>'


def beside(*parts: str) -> str:
    """Parts beside each other, where there is room. Not collective."""
    inner = "".join(f"<div>{part}</div>" for part in parts)
    return f'<div style="display:flex;flex-wrap:wrap;gap:24px;align-items:flex-start">{inner}</div>'


def picture(svg: str, title: str = "", note: str = "") -> str:
    """A picture below its title, with a note below it. Not collective."""
    above, below = (f'<div style="font-size:small">{escape(words)}</div>' if words else "" for words in (title, note))
    return above + svg + below
