"""Every public name is on a page of docs/api, and its docstring says what it is and whether it is collective.

The pages name what they show (`::: pyscalapack_redist.redistribute`); the rest comes from the docstrings when the site is
built.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import pyscalapack_redist as psr
from pyscalapack_redist.comm.links import Links
from pyscalapack_redist.engine import report
from pyscalapack_redist.engine.operation import Part
from pyscalapack_redist.engine.plan import Leg
from pyscalapack_redist.engine.totals import Totals
from pyscalapack_redist.engine.transfer import Transfer

PAGES = sorted((Path(__file__).parents[2] / "docs" / "api").glob("*.md"))
SHOWN = re.compile(r"^::: (\S+)\n((?: +.*\n)*)", re.MULTILINE)
# What users get back from calls, beside the names of the package.
FIGURES = [getattr(report, name) for name in report.__all__ if name not in ("PARTS", "PLANNING")]
RETURNED = [Transfer, Totals, Leg, Part, Links, *FIGURES]


def shown(text: str) -> dict[str, str]:
    """Dotted names that the source of a page shows, and the options of each."""
    return dict(SHOWN.findall(text + "\n"))


@functools.cache
def on_the_pages() -> dict[str, str]:
    return {name: options for page in PAGES for name, options in shown(page.read_text()).items()}


def public() -> Iterator[tuple[str, Any]]:
    """Every public name: of the package, of its public modules, and of what users get back."""
    for name in psr.__all__:
        thing = getattr(psr, name)
        yield f"{psr.__name__}.{name}", thing
        if isinstance(thing, ModuleType):
            yield from ((f"{thing.__name__}.{inner}", getattr(thing, inner)) for inner in thing.__all__)
    for member in RETURNED:
        yield f"{member.__module__}.{member.__name__}", member


def members(thing: Any) -> Iterator[tuple[str, Any]]:
    """What the pages show of a class: its own public methods and properties."""
    for name, member in vars(thing).items() if inspect.isclass(thing) else ():
        actual = getattr(member, "__func__", member)
        if (not name.startswith("_") or name in ("__call__", "__getitem__")) and (
            inspect.isfunction(actual) or isinstance(actual, property | functools.cached_property)
        ):
            yield name, actual


def resolved(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        module, _, last = name.rpartition(".")
        return getattr(importlib.import_module(module), last)


def missing(pages: dict[str, str]) -> list[str]:
    """Public names that no page shows, and members that are left out of what is shown."""
    things = {id(resolved(name)) for name in pages}
    found = [name for name, thing in public() if name not in pages and not (callable(thing) and id(thing) in things)]
    for name, options in pages.items():
        thing = resolved(name)
        cut = re.search(r"\b(members|filters)", options) and not isinstance(thing, ModuleType)
        found += [f"{name}.{inner}" for inner, member in members(thing) if cut or not inspect.getdoc(member)]
    return found


def test_every_public_name_is_on_a_page() -> None:
    assert missing(on_the_pages()) == []


@pytest.mark.parametrize(
    "name",
    [
        "pyscalapack_redist.redistribute",
        "pyscalapack_redist.blacs",
        "pyscalapack_redist.schedules.NAMES",
        "pyscalapack_redist.schedules.WalkerOtto",
        "pyscalapack_redist.engine.transfer.Transfer",
        "pyscalapack_redist.engine.report.ChainReport",
    ],
)
def test_a_missing_name_is_found(name: str) -> None:
    assert missing({listed: options for listed, options in on_the_pages().items() if listed != name}) == [name]


def test_a_missing_member_is_found() -> None:
    layouts = "# Layouts\n\n::: pyscalapack_redist.Descriptor\n    options:\n      members: [merge]\n"
    assert "pyscalapack_redist.Descriptor.T" in missing({**on_the_pages(), **shown(layouts)})


def test_functions_say_whether_they_are_collective() -> None:
    silent = []
    for name in psr.__all__:
        thing = getattr(psr, name)
        inner = members(thing) if inspect.isclass(thing) and not issubclass(thing, Exception) else ()
        for where, member in [(name, thing), *((f"{name}.{k}", v) for k, v in inner)]:
            short = where.rsplit(".", 1)[-1]
            said = "ollective" in (inspect.getdoc(member) or "")
            if inspect.isfunction(member) and not short.startswith("_") and not said:
                silent.append(where)
    assert not silent
