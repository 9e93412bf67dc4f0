"""Which part may import which. The engine's parts are in one line, the library's beside it; see docs/architecture.md."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = "pyscalapack_redist"
SOURCES = Path(__file__).resolve().parents[2] / PACKAGE

# Directly below each part, a module or a package; a part may import whatever lies below it, and nothing else of the library.
BELOW: dict[str, tuple[str, ...]] = {
    "errors": (),
    "_kernels": ("errors",),
    "layout": (),  # the package itself, which is empty
    "layout.blockcyclic": ("errors", "_kernels"),
    "layout.irregular": ("layout.blockcyclic",),
    "intersections": ("layout.irregular",),
    "schedules": ("intersections",),
    "comm": ("schedules",),
    "exchanges": ("comm",),
    "blacs": ("comm",),
    "layout.grid": ("blacs", "comm"),
    "layout.dimensions": ("layout.grid",),
    "layout.tiles": ("layout.grid", "layout.new_array"),
    "layout.collapsed": ("layout.dimensions",),
    "layout.nine_integers": ("layout.grid",),
    "drawing": ("errors",),
    "layout.ownership": ("layout.dimensions", "drawing"),
    "layout.letters": ("errors",),
    "layout.descriptor": (
        "layout.collapsed",
        "layout.nine_integers",
        "layout.ownership",
        "layout.letters",
        "layout.new_array",
    ),
    "layout.given": ("layout.descriptor", "layout.tiles"),
    "layout.relabel": ("layout.descriptor",),
    "layout.host_array": ("errors",),
    "layout.new_array": ("errors",),
    "layout.distributed": ("layout.descriptor", "layout.host_array"),
    "tracing": ("layout.descriptor", "layout.tiles"),
    "engine": ("layout.distributed", "layout.given", "exchanges", "tracing"),
    "files": ("engine",),
    "distributed_array": ("files",),
    "connection": ("comm",),
    "scalapack": ("layout.distributed", "layout.given", "tracing"),
    "linalg": ("distributed_array", "scalapack"),
    "__init__": ("linalg", "connection", "layout.relabel", "tracing"),
    "tools": ("__init__",),
    "__main__": ("tools",),
}
# Who alone may import a compiled module; the others are for blockcyclic and everything above it.
OWNERS = {"_blacs": "blacs", "_descriptor": "layout.nine_integers"}
# Who imports mpi4py by itself: the one lazy import, and those that say what to do where it fails.
WITH_MPI = ("comm.mpi", "blacs.library", "tools.cli", "tools.info", "tools.bench.command", "tools.bench.environment")
# These run on any machine.
WITHOUT_MPI = ("errors", "_kernels", "layout.blockcyclic", "layout.irregular", "intersections", "schedules")


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


def part_of(module: str) -> str | None:
    """The part that a module, or something in one, is in: the longest name in BELOW that it begins with."""
    words = module.split(".")
    names = [".".join(words[:n]) for n in range(len(words), 0, -1)]
    return next((name for name in names if name in BELOW or name in OWNERS), None)


def violations(sources: Mapping[str, str]) -> list[str]:
    """Broken rules. `sources` has a dotted name below the package for each module."""
    found = []
    for module, source in sources.items():
        part = part_of(module)
        if part is None or (part == "layout" and module not in ("layout", "layout.__init__")):
            found.append(f"{module} has no place yet: give it one in {Path(__file__).name} and docs/architecture.md")
            continue
        for line, name in imported(source, module):
            package, _, rest = name.partition(".")
            if package == "mpi4py" and module not in WITH_MPI:
                found.append(f"{module}:{line} imports mpi4py")
            if package != PACKAGE:
                continue
            other = part_of(rest) or "__init__"
            if rest.startswith("comm.mpi") and part in WITHOUT_MPI:
                found.append(f"{module}:{line} imports comm.mpi")
                continue
            if other == "layout":
                other = "__init__"
            allowed = part == OWNERS[other] if other in OWNERS else other == part or other in below(part)
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
                yield from [way for way in ways if way in sources][:1]

    try:
        TopologicalSorter({module: {*targets(module, source)} for module, source in sources.items()}).prepare()
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
    assert len(sources) > 100
    assert violations(sources) == []


def test_every_part_is_there() -> None:
    assert {*BELOW} == {part_of(module) for module in sources_of_the_package()}


def test_no_modules_import_each_other() -> None:
    assert circle(sources_of_the_package()) == []


def test_no_compiled_modules_cimport_each_other() -> None:
    cimported: dict[str, set[str]] = {}
    for path in (SOURCES.parent / "cython").glob("*.p[xy]*"):
        found = re.findall(r"^from \.(\w+) cimport", path.read_text(), re.MULTILINE)
        cimported.setdefault(path.stem, set()).update(found)
    assert "moving" in cimported["boxes"]
    TopologicalSorter(cimported).prepare()


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
        ("layout.grid", "from ..blacs import load", None),
        ("layout.grid", "from .. import blacs", None),
        (
            "exchanges.shared",
            "from ..comm.group import Ballot\nfrom .message import Message\nfrom .._kernels.boxes import Box",
            None,
        ),
        ("tools.bench.plot", "import pyscalapack_redist as psr", None),
        ("layout.blockcyclic", "import numpy, scipy.optimize", None),
        ("layout.blockcyclic", "def f():\n    from .grid import G", "layout.blockcyclic:2 imports layout.grid"),
        ("exchanges.shared", "from ..layout.descriptor import D", "exchanges.shared:1 imports layout.descriptor"),
        ("exchanges.shared", "import pyscalapack_redist.layout.grid", "exchanges.shared:1 imports layout.grid"),
        (
            "exchanges.shared",
            "if TYPE_CHECKING:\n    from ..layout.grid import G",
            "exchanges.shared:2 imports layout.grid",
        ),
        ("comm.group", "from .. import BlockCyclic", "comm.group:1 imports __init__"),
        ("comm.group", "from ..exchanges import Run", "comm.group:1 imports exchanges"),
        ("schedules.caterpillar", "if True:\n    from mpi4py import MPI", "schedules.caterpillar:2 imports mpi4py"),
        ("schedules.caterpillar", "from ..comm.mpi import MPI", "schedules.caterpillar:1 imports comm.mpi"),
        ("engine.plan", "def f():\n    from mpi4py import MPI", "engine.plan:2 imports mpi4py"),
        ("engine.plan", "from ..comm.mpi import MPI", None),
        ("intersections.scan", "from ..blacs import load", "intersections.scan:1 imports blacs"),
        ("layout.grid", "from .._blacs import Entries", "layout.grid:1 imports _blacs"),
        ("errors", "from ._kernels.boxes import Box", "errors:1 imports _kernels"),
        ("engine.plan", "from ..files import load", "engine.plan:1 imports files"),
        ("layout.relabel", "from ..engine.plan import P", "layout.relabel:1 imports engine"),
        ("files.slabs", "from ..tools.units import size", "files.slabs:1 imports tools"),
        ("misc", "", "misc has no place yet"),
        ("layout.misc", "", "layout.misc has no place yet"),
    ],
)
def test_a_broken_rule_is_found(module: str, source: str, broken: str | None) -> None:
    package = dict.fromkeys(BELOW, "")
    found = violations({**package, module: source})
    assert found == [] if broken is None else len(found) == 1 and found[0].startswith(broken)


def test_mpi_comes_in_only_with_a_communicator() -> None:
    code = f"import sys, {PACKAGE}; print(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"mpi4py", "matplotlib", "rich"} & set(done.stdout.split())
