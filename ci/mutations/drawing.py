"""Mutants drawn at random, with a fixed seed, from the syntax trees of some packages: small edits of one line or statement."""

from __future__ import annotations

import ast
import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from edits import CHECKOUT, Mutant, StaleError, functions

SEED = 35
PACKAGE = "pyscalapack_redist"
SHARES = {
    "layout": 6, "intersections": 5, "engine": 8, "comm": 6, "exchanges": 6, "files": 5, "linalg": 4,
}  # fmt: skip
KINDS = ("condition", "off by one", "swapped arguments", "dropped statement")
# What is only shown, or only changes how fast something is.
LEFT_OUT_FILES = {"links.py", "cores.py"}
LEFT_OUT_FUNCTIONS = {"__repr__", "__str__", "_repr_html_", "plot"}
NOT_SWAPPED = {
    "min",
    "max",
    "math.gcd",
    "np.minimum",
    "np.maximum",
    "isinstance",
    "hasattr",
    "getattr",
}  # the same, or none
MESSAGES = (ast.Raise, ast.JoinedStr, ast.Assert)  # nothing inside them
OPPOSITE = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip


class Site(NamedTuple):
    """Bytes `start` to `end` of a source may become `text`."""

    kind: str
    start: int
    end: int
    text: str


class Source:
    """A source as bytes, for syntax trees count them."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.bytes = text.encode()
        lengths = [len(line) for line in self.bytes.splitlines(keepends=True)]
        self._starts = [0, *itertools.accumulate(lengths)]

    def bounds(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """Where a node begins and ends."""
        end = self._starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        return self._starts[node.lineno - 1] + node.col_offset, end

    def of(self, node: ast.expr | ast.stmt) -> str:
        """The text of a node."""
        return self.bytes[slice(*self.bounds(node))].decode()

    def replaced(self, site: Site) -> tuple[str, str]:
        """The whole lines in which a site is, before and after, without the first one's indentation and the last line's end."""
        first = self.bytes.rfind(b"\n", 0, site.start) + 1
        last = self.bytes.find(b"\n", site.end)
        before = self.bytes[first:last].decode()
        after = (self.bytes[first : site.start] + site.text.encode() + self.bytes[site.end : last]).decode()
        return before.lstrip(), after.lstrip()


def sites(source: Source, function: ast.AST) -> Iterator[Site]:
    """What may be changed in a function; functions in it are looked at by themselves."""
    for node in _within(function):
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            start, end = source.bounds(node.left)[1], source.bounds(node.comparators[0])[0]
            opening = "(" * source.bytes[start:end].decode().count("(")
            closing = ")" * source.bytes[start:end].decode().count(")")
            yield Site("condition", start, end, f"{closing} {OPPOSITE[type(node.ops[0])]} {opening}")
        elif isinstance(node, ast.If | ast.IfExp | ast.While) and not isinstance(node.test, ast.Compare):
            yield Site("condition", *source.bounds(node.test), f"not ({source.of(node.test)})")
        elif isinstance(node, ast.Constant) and type(node.value) is int:
            yield Site("off by one", *source.bounds(node), str(node.value + 1))
        elif isinstance(node, ast.Call) and len(node.args) > 1 and ast.unparse(node.func) not in NOT_SWAPPED:
            a, b = node.args[:2]
            between = source.bytes[source.bounds(a)[1] : source.bounds(b)[0]].decode()
            if source.of(a) != source.of(b):
                text = f"{source.of(b)}{between}{source.of(a)}"
                yield Site("swapped arguments", source.bounds(a)[0], source.bounds(b)[1], text)
        elif _may_go(node):
            yield Site("dropped statement", *source.bounds(node), "pass")


def _may_go(node: ast.AST) -> bool:
    """Whether a statement can be left out without a name that is missing then."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call | ast.Await | ast.Yield)
    if isinstance(node, ast.Assign):
        return all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets)
    return isinstance(node, ast.AugAssign | ast.Continue | ast.Break | ast.Delete)


def _within(node: ast.AST) -> Iterator[ast.AST]:
    for name, field in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "args") and not isinstance(node, ast.Call):
            continue
        for child in field if isinstance(field, list) else [field]:
            if isinstance(child, ast.AST) and not isinstance(child, (*MESSAGES, ast.FunctionDef, ast.ClassDef)):
                yield child
                yield from _within(child)


def candidates(text: str, file: str) -> Iterator[Mutant]:
    """All mutants of a module, without names."""
    source = Source(text)
    for name, function in functions(ast.parse(text)):
        if function.name not in LEFT_OUT_FUNCTIONS and "overload" not in map(ast.unparse, function.decorator_list):
            for site in sites(source, function):
                yield Mutant("", site.kind, file, name, *source.replaced(site))


def _fits(mutant: Mutant, root: Path) -> bool:
    """Whether its text occurs once in the function, and what comes of it is Python."""
    try:
        compile(mutant.applied(root), mutant.file, "exec")
    except (StaleError, SyntaxError):
        return False
    return True


def drawn(package: str, count: int, left_out: set[str], root: Path = CHECKOUT) -> list[Mutant]:
    """So many of a package, the kinds in turn, no two of one function; those of the digests left out are passed over."""
    folder = root / PACKAGE / package
    files = [path for path in sorted(folder.rglob("*.py")) if path.name not in LEFT_OUT_FILES | {"__init__.py"}]
    found = [m for path in files for m in candidates(path.read_text(), str(path.relative_to(root)))]
    random.Random(f"{SEED} {package}").shuffle(found)
    turns = [[mutant for mutant in found if mutant.kind == kind] for kind in KINDS]
    made: list[Mutant] = []
    for turn in itertools.cycle(turns):
        if len(made) == count or not any(turns):
            return made
        used = {(mutant.file, mutant.function) for mutant in made}
        while turn:
            mutant = turn.pop()
            new = mutant.digest not in left_out and (mutant.file, mutant.function) not in used
            if new and _fits(mutant, root):
                made.append(mutant._replace(name=f"{package} {len(made) + 1}"))
                break
    return made
