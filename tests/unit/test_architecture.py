"""Which part may import which. The engine's parts are in one line, the library's beside it; see docs/architecture.md."""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
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
    "comm": ("orders",),
    "exchanges": ("comm",),
    "model": ("exchanges",),
    "operation": ("blockcyclic",),
    "blacs": ("errors",),
    "grid": ("blacs", "comm"),
    "merging": ("blockcyclic",),
    "descriptor": ("grid", "merging"),
    "arrays": ("descriptor",),
    "planning": ("descriptor", "exchanges", "operation"),
    "scheduling": ("descriptor",),
    "engine": ("arrays", "operation", "planning", "scheduling", "model"),
    "request": ("engine",),
    "waypoints": ("descriptor",),
    "redistribution": ("request", "waypoints"),
    "operands": ("descriptor",),
    "scalapack": ("operands",),
    "meeting": ("errors",),
    **dict.fromkeys(("one_process", "relabel", "files"), ("redistribution",)),
    "connection": ("redistribution", "meeting"),
    "__init__": ("one_process", "relabel", "files", "connection", "scalapack"),
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


def statements(tree: ast.AST, typing: bool) -> Iterator[ast.AST]:
    """All that is in a tree, with what is under `if TYPE_CHECKING:` or without."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING" and not typing:
            child = ast.Module(child.orelse, [])
        yield child
        yield from statements(child, typing)


def imported(source: str, module: str, typing: bool = True) -> Iterator[tuple[int, str]]:
    """Line and absolute name of everything that a module imports, also inside functions; `typing`: for types alone too."""
    package = [PACKAGE, *module.split(".")[:-1]]
    for node in statements(ast.parse(source), typing):
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


def circle(sources: Mapping[str, str]) -> list[str]:
    """Modules of which each imports the one before it, the last as the first; none if there is no such circle.

    Imports under `if TYPE_CHECKING:` are not counted: they do nothing when the program runs. The order of the parts, above,
    counts them.
    """

    def targets(module: str, source: str) -> Iterator[str]:
        for _, name in imported(source, module, typing=False):
            first, *words = name.split(".")
            if first == PACKAGE:  # a module, or something out of one
                ways = [".".join(some) for some in (words, [*words, "__init__"], words[:-1], [*words[:-1], "__init__"])]
                yield from [one for one in ways if one in sources][:1]

    try:
        TopologicalSorter({one: {*targets(one, source)} for one, source in sources.items()}).prepare()
    except CycleError as caught:
        return [*caught.args[1]]
    return []


@functools.cache
def sources_of_the_package() -> dict[str, str]:
    return {
        ".".join(path.relative_to(SOURCES).with_suffix("").parts): path.read_text() for path in SOURCES.rglob("*.py")
    }


def test_imports_point_one_way() -> None:
    sources = sources_of_the_package()
    compiled = {path.stem for path in (SOURCES.parent / "cython").glob("*.pyx")}
    assert len(sources) > 1
    assert compiled
    found = violations(sources, compiled)
    assert found == []


def test_every_part_is_there() -> None:
    assert {*BELOW} == {module.split(".")[0] for module in sources_of_the_package()}


@pytest.mark.parametrize("parts", [("comm",), ("exchanges",), ("engine",), ("__init__", *sorted(below("__init__")))])
def test_no_modules_import_each_other(parts: tuple[str, ...]) -> None:
    """The packages that make up the engine by themselves, for a short list where one fails; then the whole library."""
    sources = {one: source for one, source in sources_of_the_package().items() if one.split(".")[0] in parts}
    assert len(sources) > 5
    assert circle(sources) == []


@pytest.mark.parametrize(
    ("sources", "found"),
    [
        ({"comm.node": "from .group import Group", "comm.group": "from .node import Node"}, True),
        ({"comm.node": "def f():\n    from . import group", "comm.group": "from ..comm.node import Node"}, True),
        ({"comm.node": f"import {PACKAGE}.comm.group", "comm.group": "from .node import Node"}, True),
        ({"engine.__init__": "from .plan import P", "engine.plan": "from ..engine import P"}, True),
        ({"__init__": "from .comm.node import N", "comm.node": "from .. import BlockCyclic"}, True),
        ({"a": "from .b import x", "b": "from .c import x", "c": "from . import a"}, True),
        ({"comm.node": "if TYPE_CHECKING:\n    from .group import G", "comm.group": "from .node import N"}, False),
        ({"comm.node": "from .group import Group", "comm.group": "import numpy, group"}, False),
    ],
)
def test_a_circle_is_found(sources: dict[str, str], found: bool) -> None:
    assert bool(circle(sources)) == found


@pytest.mark.parametrize(
    ("module", "source", "broken"),
    [
        ("grid", "from .blacs import load", None),
        ("grid", "from . import blacs", None),
        (
            "exchanges.ring",
            "from ..comm.group import Ballot\nfrom .message import Message\nfrom .._copy import Box",
            None,
        ),
        ("bench.case", "import pyscalapack_redist as psr", None),
        ("blockcyclic", "import numpy, scipy.optimize", None),
        ("blockcyclic", "def f():\n    from .grid import ProcessGrid", "blockcyclic:2 imports grid"),
        ("exchanges.ring", "from ..descriptor import Descriptor", "exchanges.ring:1 imports descriptor"),
        ("exchanges.ring", "import pyscalapack_redist.grid", "exchanges.ring:1 imports grid"),
        ("exchanges.ring", "if TYPE_CHECKING:\n    from ..grid import G", "exchanges.ring:2 imports grid"),
        ("comm.group", "from .. import BlockCyclic", "comm.group:1 imports __init__"),
        ("comm.group", "from ..exchanges import Run", "comm.group:1 imports exchanges"),
        ("schedules.ring", "if True:\n    from mpi4py import MPI", "schedules.ring:2 imports mpi4py"),
        ("intersections", "from .blacs import load", "intersections:1 imports blacs"),
        ("grid", "from ._blacs import Entries", "grid:1 imports _blacs"),
        ("errors", "from ._copy import Box", "errors:1 imports _copy"),
        ("engine.plan", "from ..redistribution import redistribute", "engine.plan:1 imports redistribution"),
        ("request", "from .redistribution import redistribute", "request:1 imports redistribution"),
        ("redistribution", "from .relabel import relabel", "redistribution:1 imports relabel"),
        ("relabel", "from .files import load", "relabel:1 imports files"),
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
