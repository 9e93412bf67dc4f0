"""Rules of the source: which part may import which, what docstrings say, and that the API's pages show all that is public.

The contracts are in pyproject.toml, and import-linter checks them: those imports too that are for types only. It reads Python
alone, so it is given a copy of the package in which the compiled modules are their stubs.
"""

from __future__ import annotations

import ast
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
from pyscalapack_redist.engine import options
from pyscalapack_redist.engine.operation import MatrixPart
from pyscalapack_redist.engine.transfer import Transfer
from pyscalapack_redist.redistribution import Leg
from pyscalapack_redist.reports import Profile, Report

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


LOADS_ABOVE = {  # modules that methods load at run time from above their own, where the contracts do not look
    "distributed_array": {"linalg", "numpy_functions"},
    "files.checkpoint": {"distributed_array"},
    "files.load_and_save": {"distributed_array", "files.checkpoint"},
}


def test_modules_above_are_loaded_by_methods_of_plans_only() -> None:
    loads: dict[str, set[str]] = {}
    for path in (ROOT / PACKAGE).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("load_above"):
                module = ".".join(path.relative_to(ROOT / PACKAGE).with_suffix("").parts)
                loads.setdefault(module, set()).add(ast.literal_eval(node.args[0]))
    assert loads == LOADS_ABOVE
    for names in loads.values():
        for name in names:
            importlib.import_module(f"{PACKAGE}.{name}")


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
        shown = not name.startswith("_") or name in ("__call__", "__getitem__", "__setitem__")
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


def test_routines_of_scalapack_describe_each_argument() -> None:
    """The site completes docstrings from the sources, as the package does on import."""
    completed = griffe.load_extensions(str(ROOT / "packaging" / "docstrings.py"))
    package = griffe.load(
        PACKAGE, search_paths=[ROOT], docstring_parser="numpy", allow_inspection=False, extensions=completed
    )
    routines = [name for name in psr.scalapack.__all__ if inspect.isfunction(getattr(psr.scalapack, name))]
    assert len(routines) == 26
    for name in routines:
        routine, text = getattr(psr.scalapack, name), package["scalapack"][name].docstring
        assert text.value == inspect.getdoc(routine), name
        sections = {section.kind.value: section.value for section in text.parsed}
        assert {each.name for each in sections["parameters"]} == {*inspect.signature(routine).parameters}, name
        assert "raises" in sections, name


def parse_all(thing: griffe.Object) -> None:
    for member in thing.members.values():
        if not member.is_alias:
            assert member.docstring is None or member.docstring.parsed
            parse_all(member)


# -- what is caught

# Work before a vote is caught by `comm/guard.py` alone. Each of these catches everything for a reason of its own.
CATCH_ALL = {
    "blacs.library._open": "closes files, and raises it again",
    "comm.guard.Guard.attempt": "the guard",
    "comm.group.Group.aborting_if_forced": "aborts the group, and raises it again",
    "comm.group.Group._complete": "aborts the group, and raises it again",
    "comm.agreement.agreement.__exit__": "raises it again",
    "comm.agreement.agreement._vote": "of a fact that is no number: the vote says it",
    "comm.agreement._outcome": "all ranks raise it",
    "comm.group.Group.agree": "after the vote is cast: the agreement goes on, and it is raised again",
    "comm.groups._Creation.make": "notes that MPI has failed, and raises it again",
    "comm.groups._Creation._tell_others": "in the thread of a call that was given up: nobody is there to hear of it",
    "comm.groups._private_communicator": "gives up, tells the others, and raises it again",
    "comm.groups.merge_intercomm": "gives up, and raises it again",
    "comm.links._read": "an error of a parser, which has many types, as one of the package's",
    "comm.progress.call_blocking": "notes the thread that is given up, and raises it again",
    "comm.progress.call_blocking.run": "brings it from another thread to the caller",
    "comm.progress.hold_interrupts.force": "notes the interrupt that ends a wait, and raises it again",
    "comm.series.Settling.advance": "after the vote: aborts the group",
    "comm.timers.Timer._call": "in the thread of all timers, which goes on: as in a thread of its own",
    "comm.waiting.Waiting.settle": "the communicator is freed, or a rank has died: there is no vote",
    "comm.waiting.Waiting._notify": "a notice that cannot be sent, after the group is aborted",
    "distributed_array._read_whole": "an error of NumPy as one of the package's",
    "diagnostics.log": "text is dropped where it cannot be written",
    "diagnostics.warn": "the same",
    "diagnostics.write_line": "the same",
    "linalg.call.RoutineCall.step": "after the vote: notes that all ranks raise it, and raises it again",
    "linalg.call.RoutineCall.end": "votes that this rank has failed, and raises it again",
    "linalg.matrix_functions._of_general.work": "an error of SciPy as one of NumPy's",
    "redistribution.Redistribution.__call__": "of a compiled call: its vote is cast as failed",
    "redistribution.start_trace": "figures of a trace",
    "engine.options.checked_dtype": "an error of NumPy as one of the package's",
    "engine.transfer.Transfer._go_on": "the driver: aborts the group",
    "engine.transfer.without_frames": "of a class of errors that cannot be copied",
    "engine.transfer.continue_call": "after the vote is cast: aborts the group, and raises it again",
    "engine.use.call_again": "before the vote: the slow path raises it again; after it: aborts the group",
    "engine.use.first_bound": "the slow path raises it again",
    "errors.shown": "an object without a readable shape or dtype",
    "files.contents.checked_path": "an error of a path's class as one of the package's",
    "files.contents.named_errors": "an error of a library as one of the package's",
    "files.contents.read_npy_header": "an error of a parser, which has many types, as one of the package's",
    "files.replacement._exchange": "gives a directory its name back, and raises it again",
    "layout.arrays._attribute": "an object without a readable attribute",
    "layout.arrays.host_array": "an error of another library as one of the package's",
    "layout.waypoints.readable_via": "`read_via` raises it again",
    "numpy_functions._together": "raised again: all ranks have it",
    "numpy_functions.call": "raised again, and in the last vote if not all ranks have it",
    "numpy_functions.step.__exit__": "raised again: all ranks have it",
    "scalapack.calls._run_together.agree": "all ranks raise it: the guard lets it pass",
}
KEEPS = {  # where an exception that is caught is kept in a variable
    "comm.agreement.agreement._vote": "for the vote that is cast next",
    "comm.progress.call_blocking.run": "for the caller in another thread",
    "comm.progress.hold_interrupts.force": "guards let it pass",
    "door._local_of": "raised again in the same function",
    "linalg.tall.Slabs.on_root": "all ranks raise it after the vote",
    "numpy_functions.call": "for the last vote",
    "scalapack.calls._run_together.agree": "so that the guard lets it pass",
}


def catches(path: Path) -> Iterator[tuple[str, ast.AST]]:
    """Each `except` and `suppress` of a module, with the dotted name of its function."""

    def visit(node: ast.AST, name: str) -> Iterator[tuple[str, ast.AST]]:
        for child in ast.iter_child_nodes(node):
            inner = f"{name}.{child.name}" if isinstance(child, ast.FunctionDef | ast.ClassDef) else name
            if isinstance(child, ast.ExceptHandler) or (
                isinstance(child, ast.Call) and ast.unparse(child.func) in ("suppress", "contextlib.suppress")
            ):
                yield name, child
            yield from visit(child, inner)

    module = ".".join(path.relative_to(ROOT / PACKAGE).with_suffix("").parts)
    return visit(ast.parse(path.read_text()), module)


def catches_all(catch: ast.AST) -> bool:
    kinds = [catch.type] if isinstance(catch, ast.ExceptHandler) else catch.args  # type: ignore[attr-defined]
    return any(
        kind is None or {"Exception", "BaseException"} & set(re.findall(r"[\w.]+", ast.unparse(kind))) for kind in kinds
    )


def keeps(catch: ast.AST) -> bool:
    """Whether the exception is assigned to another variable, or put into a list."""
    if not isinstance(catch, ast.ExceptHandler) or catch.name is None:
        return False
    for node in ast.walk(catch):
        values: list[Any] = []
        if isinstance(node, ast.Assign | ast.AnnAssign):
            values = [node.value, *getattr(node.value, "values", ()), *getattr(node.value, "elts", ())]
        elif (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("append", "add")
        ):
            values = node.args
        if any(isinstance(value, ast.Name) and value.id == catch.name for value in values):
            return True
    return False


def test_work_before_a_vote_is_caught_by_the_guard_alone() -> None:
    """An `except Exception` there lets an interrupt pass, and the other ranks wait for ever."""
    paths = [path for path in (ROOT / PACKAGE).rglob("*.py") if "tools" not in path.parts]
    found = [catch for path in paths for catch in catches(path)]
    assert {name for name, catch in found if catches_all(catch)} == set(CATCH_ALL)
    assert {name for name, catch in found if keeps(catch)} == set(KEEPS)


def test_keywords_of_plans_are_documented() -> None:
    of_redistribute = inspect.getdoc(psr.redistribute) or ""
    of_plan = inspect.getdoc(psr.plan) or ""
    for name in options.DEFAULTS:
        assert re.search(rf"^{name} : .*default", of_redistribute, re.MULTILINE), name
        assert re.search(rf"\b{name}\b", of_plan), name
    assert {*options.Options._fields} - {*options.OF_RANK} == {*options.DEFAULTS, "part"} - {"dtype", "comm", "uplo", "diag"}
