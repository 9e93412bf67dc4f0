"""Which part may import which. The engine's parts are in one line, the library's beside it; see docs/architecture.md."""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

PACKAGE = "pyscalapack_redist"
SOURCES = Path(__file__).resolve().parents[2] / PACKAGE

# Directly below each part; a part may import whatever lies below it, and nothing else of the package.
BELOW: dict[str, tuple[str, ...]] = {
    "errors": (),
    "units": (),
    "blockcyclic": ("errors",),
    "intersections": ("blockcyclic",),
    "schedules": ("intersections",),
    "orders": ("schedules",),
    "node": ("schedules",),
    "links": ("node", "patience"),
    "agreement": ("links",),
    "exchanges": ("agreement",),
    "model": ("exchanges",),
    "operation": ("blockcyclic",),
    "blacs": ("errors",),
    "grid": ("blacs", "agreement"),
    "merging": ("blockcyclic",),
    "descriptor": ("grid", "merging"),
    "arrays": ("descriptor", "exchanges"),
    "planning": ("descriptor", "exchanges", "operation", "orders"),
    "scheduling": ("descriptor", "orders"),
    "report": ("exchanges", "orders"),
    "waypoints": ("descriptor",),
    "intercommunicator": ("agreement",),
    "patience": ("errors",),
    "request": ("scheduling", "arrays", "intercommunicator", "operation"),
    "repeated": ("arrays",),
    "flight": ("exchanges",),
    "direct": ("repeated", "report", "operation", "model", "flight"),
    "chain": ("direct",),
    "filled": ("chain",),
    "redistribution": ("model", "patience", "planning", "request", "filled", "waypoints"),
    "operands": ("descriptor",),
    "scalapack": ("operands",),
    "meeting": ("errors",),
    **dict.fromkeys(("one_process", "relabel", "batch", "files"), ("redistribution",)),
    "connection": ("redistribution", "meeting"),
    "__init__": ("one_process", "relabel", "batch", "files", "connection", "scalapack"),
    "info": ("__init__",),
    "bench": ("info", "units"),
    "plan": ("bench",),
    "simulate": ("bench",),
    "cli": ("plan", "simulate"),
    "__main__": ("cli",),
}
# Who alone may import a compiled module; the others are for blockcyclic and everything above it.
OWNERS = {"_blacs": "blacs", "_descriptor": "descriptor"}
# These run on any machine.
WITHOUT_MPI = ("errors", "blockcyclic", "intersections", "schedules")


@functools.cache
def below(part: str) -> frozenset[str]:
    direct = BELOW[part]
    return frozenset(direct).union(*(below(other) for other in direct))


def imported(source: str, module: str) -> Iterator[tuple[int, str]]:
    """Line and absolute name of everything that a module imports, inside functions and for type checking included."""
    package = [PACKAGE, *module.split(".")[:-1]]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            start = ".".join([*base, *filter(None, [node.module])])
            yield from ((node.lineno, f"{start}.{alias.name}") for alias in node.names)


def part_of(name: str, parts: set[str], compiled: set[str]) -> str:
    """The part of the package that an absolute name is in."""
    first = [*name.split("."), ""][1]
    return first if first in parts | compiled else "__init__"


def violations(sources: Mapping[str, str], compiled: set[str]) -> list[str]:
    """Broken rules. `sources` has a dotted name below the package for each module, `compiled` the compiled modules."""
    found = []
    parts = {module.split(".")[0] for module in sources}
    for module, source in sources.items():
        part = module.split(".")[0]
        if part not in BELOW:
            found.append(f"{module} has no place yet: give it one in {Path(__file__).name} and docs/architecture.md")
            continue
        for line, name in imported(source, module):
            if name.split(".")[0] == "mpi4py" and part in WITHOUT_MPI:
                found.append(f"{module}:{line} imports mpi4py")
            if name.split(".")[0] != PACKAGE:
                continue
            other = part_of(name, parts, compiled)
            if other in compiled:
                owner = OWNERS.get(other)
                allowed = part == owner if owner else "blockcyclic" in {part, *below(part)}
            else:
                allowed = other == part or other in below(part)
            if not allowed:
                found.append(f"{module}:{line} imports {other}")
    return found


def test_imports_point_one_way() -> None:
    sources = {
        ".".join(path.relative_to(SOURCES).with_suffix("").parts): path.read_text() for path in SOURCES.rglob("*.py")
    }
    compiled = {path.stem for path in (SOURCES.parent / "cython").glob("*.pyx")}
    assert len(sources) > 1
    assert compiled
    found = violations(sources, compiled)
    assert found == []


@pytest.mark.parametrize(
    ("module", "source", "broken"),
    [
        ("grid", "from .blacs import load", None),
        ("grid", "from . import blacs", None),
        (
            "exchanges.ring",
            "from ..agreement import Ballot\nfrom .message import Message\nfrom .._copy import Box",
            None,
        ),
        ("bench.case", "import pyscalapack_redist as psr", None),
        ("blockcyclic", "import numpy, scipy.optimize", None),
        ("blockcyclic", "def f():\n    from .grid import ProcessGrid", "blockcyclic:2 imports grid"),
        ("exchanges.ring", "from ..descriptor import Descriptor", "exchanges.ring:1 imports descriptor"),
        ("exchanges.ring", "import pyscalapack_redist.grid", "exchanges.ring:1 imports grid"),
        ("agreement", "from . import BlockCyclic", "agreement:1 imports __init__"),
        ("schedules.ring", "if True:\n    from mpi4py import MPI", "schedules.ring:2 imports mpi4py"),
        ("intersections", "from .blacs import load", "intersections:1 imports blacs"),
        ("grid", "from ._blacs import Entries", "grid:1 imports _blacs"),
        ("errors", "from ._copy import Box", "errors:1 imports _copy"),
        ("redistribution", "from .batch import batch", "redistribution:1 imports batch"),
        ("batch", "from .files import load", "batch:1 imports files"),
        ("misc", "", "misc has no place yet"),
    ],
)
def test_a_broken_rule_is_found(module: str, source: str, broken: str | None) -> None:
    package = dict.fromkeys(BELOW, "")
    found = violations({**package, module: source}, {"_blacs", "_copy", "_descriptor", "_runs"})
    assert found == [] if broken is None else len(found) == 1 and found[0].startswith(broken)


def test_mpi_comes_in_only_with_a_communicator() -> None:
    code = f"import sys, {PACKAGE}; print(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"mpi4py", "matplotlib", "rich"} & set(done.stdout.split())
