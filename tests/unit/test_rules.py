"""Rules of the source: which part may import which, what docstrings say, and that the API's pages show all that is public.

The contracts are in pyproject.toml, and import-linter checks them: those imports too that are for types only. It reads Python
alone, so it is given a copy of the package in which the compiled modules are their stubs.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import logging
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from types import ModuleType
from typing import Any

import griffe
import pytest

import pyscalapack_redist as psr
from pyscalapack_redist.comm.links import Links
from pyscalapack_redist.comm.transfer import Transfer
from pyscalapack_redist.engine.operation import MatrixPart
from pyscalapack_redist.engine.redistribution import Leg
from pyscalapack_redist.engine.report import Profile, Report

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "pyscalapack_redist"


def test_imports_keep_the_contracts(tmp_path: Path) -> None:
    for source in [*(ROOT / PACKAGE).rglob("*.py"), *(ROOT / PACKAGE).rglob("*.pyi")]:
        target = tmp_path / source.relative_to(ROOT).with_suffix(".py")
        target.parent.mkdir(exist_ok=True, parents=True)
        shutil.copyfile(source, target)
    code = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    command = [sys.executable, "-c", code, "--config", str(ROOT / "pyproject.toml"), "--no-cache", "--no-logo"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\d\d kept, 0 broken", done.stdout)


def test_no_compiled_modules_cimport_each_other() -> None:
    cimported: dict[str, set[str]] = {}
    for path in (ROOT / "cython").glob("*.p[xy]*"):
        names = re.findall(r"^from \.(\w+) cimport", path.read_text(), re.MULTILINE)
        cimported.setdefault(path.stem, set()).update(names)
    assert "moving" in cimported["boxes"]
    TopologicalSorter(cimported).prepare()


def test_mpi_comes_in_only_with_a_communicator() -> None:
    code = f"import sys, {PACKAGE}; print(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"mpi4py", "matplotlib", "rich"} & set(done.stdout.split())


# -- docstrings, and the pages that show them

SHOWN = re.compile(r"^::: (\S+)\n((?: +.*\n)*)", re.MULTILINE)
RETURNED = [Transfer, Report, Profile, Leg, MatrixPart, Links]  # what users get back from calls


@functools.cache
def on_the_pages() -> dict[str, str]:
    """Dotted names that the pages of the API show, and the options of each."""
    pages = (ROOT / "docs" / "api").glob("*.md")
    return {name: options for page in pages for name, options in SHOWN.findall(page.read_text() + "\n")}


def public() -> Iterator[tuple[str, Any]]:
    """Every public name: of the package, of its public modules, and of what users get back."""
    for name in psr.__all__:
        thing = getattr(psr, name)
        yield f"{PACKAGE}.{name}", thing
        if isinstance(thing, ModuleType):
            yield from ((f"{thing.__name__}.{inner}", getattr(thing, inner)) for inner in thing.__all__)
    for kind in RETURNED:
        yield f"{kind.__module__}.{kind.__name__}", kind


def resolved(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        module, _, last = name.rpartition(".")
        return getattr(importlib.import_module(module), last)


def members(kind: type) -> Iterator[tuple[str, Any]]:
    """A class's own public methods and properties."""
    for name, member in vars(kind).items():
        actual = getattr(member, "__func__", member)
        shown = not name.startswith("_") or name in ("__call__", "__getitem__")
        if shown and (inspect.isfunction(actual) or isinstance(actual, property | functools.cached_property)):
            yield name, actual


def test_every_public_name_is_on_a_page() -> None:
    pages = on_the_pages()
    things = {id(resolved(name)) for name in pages}
    named = [(name, thing) for name, thing in public() if name not in pages]
    assert [name for name, thing in named if not (callable(thing) and id(thing) in things)] == []
    with_members = [name for name, options in pages.items() if re.search(r"\bmembers: ", options)]
    assert [name for name in with_members if inspect.isclass(resolved(name))] == []


def test_all_that_is_shown_has_a_docstring_and_says_whether_it_is_collective() -> None:
    for name, thing in public():
        if not callable(thing):
            continue
        assert inspect.getdoc(thing), name
        collective = name.removeprefix(f"{PACKAGE}.") in psr.__all__ and not (
            inspect.isclass(thing) and issubclass(thing, Exception)
        )
        if collective and inspect.isfunction(thing):
            assert "ollective" in (inspect.getdoc(thing) or ""), name
        for inner, member in members(thing) if inspect.isclass(thing) else ():
            text = inspect.getdoc(member)
            assert text, f"{name}.{inner}"
            if collective and inspect.isfunction(member) and not inner.startswith("_"):
                assert "ollective" in text, f"{name}.{inner}"


def test_docstrings_are_of_what_they_describe(caplog: pytest.LogCaptureFixture) -> None:
    """The parser of the site finds nothing to warn of: parameters that are none, sections that are not as NumPy's."""
    caplog.set_level(logging.WARNING)
    package = griffe.load(PACKAGE, search_paths=[ROOT], docstring_parser="numpy", allow_inspection=False)
    assert "redistribute" in package.members
    parse_all(package)
    assert caplog.messages == []


def parse_all(thing: griffe.Object) -> None:
    for member in thing.members.values():
        if not member.is_alias:
            assert member.docstring is None or member.docstring.parsed
            parse_all(member)
