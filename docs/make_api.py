"""Write docs/api.md from the docstrings: python docs/make_api.py [--check]."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pyscalapack_redist as psr

PAGE = Path(__file__).with_name("api.md")


def described(name: str, thing: Any, level: int) -> Iterator[str]:
    """A heading, the signature and the docstring of one public thing, and of what is in it."""
    heading = "#" * level
    if isinstance(thing, property):
        yield f"{heading} {name}\n\n{inspect.getdoc(thing)}\n"
        return
    if isinstance(thing, ModuleType):
        yield f"{heading} {name}\n\n{inspect.getdoc(thing)}\n"
        for inner in getattr(thing, "__all__", []):
            if callable(getattr(thing, inner)):
                yield from described(f"{name}.{inner}", getattr(thing, inner), level + 1)
        return
    text = (inspect.getdoc(thing) or "").replace("\n", "\n    ")
    yield f"{heading} {name}\n\n    {signature(name, thing)}\n\n    {text}\n"
    if inspect.isclass(thing) and not issubclass(thing, Exception):
        for inner, member in vars(thing).items():
            if inner.startswith("_") and inner != "__call__" and inner != "__getitem__":
                continue
            actual = member.__func__ if isinstance(member, classmethod | staticmethod) else member
            if isinstance(actual, property) or inspect.isfunction(actual):
                yield from described(f"{name}.{inner}", actual, level + 1)


def signature(name: str, thing: Any) -> str:
    """The call as one writes it, without annotations' module paths."""
    try:
        text = str(inspect.signature(thing))
    except (TypeError, ValueError):
        return name
    for module in ("pyscalapack_redist.", "numpy.", "typing."):
        text = text.replace(module, "")
    return name.rsplit(".", 1)[-1] + text.replace("'", "")


def page() -> str:
    """The whole page."""
    parts = [
        "# API\n\nWritten by `docs/make_api.py` from the docstrings. Everything is a name of `pyscalapack_redist`.\n"
    ]
    for name in sorted(psr.__all__, key=str.lower):
        parts += described(name, getattr(psr, name), 2)
    return "\n".join(line.rstrip() for part in parts for line in part.split("\n"))


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        sys.exit(
            0 if PAGE.read_text() == page() else "docs/api.md is not what the docstrings say: run docs/make_api.py"
        )
    PAGE.write_text(page())
