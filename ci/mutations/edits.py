"""What a mutant is: an edit of a named function, stated as text before and after, and how it is found in today's sources."""

from __future__ import annotations

import ast
import hashlib
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).resolve().parent
CHECKOUT = FOLDER.parents[1]
DEFINITIONS = ("drawn.toml", "cython.toml", "repairs.toml", "adapters.toml")  # in the order of the table


class StaleError(Exception):
    """A definition does not fit today's sources."""


class Mutant(NamedTuple):
    """An edit of one function.

    Attributes
    ----------
    name : str
    kind : str
        Of a drawn one what was changed; of one by hand what it breaks.
    file : str
        Relative to the checkout.
    function : str
        Qualified by its class; in C also the name of a macro.
    before, after : str
        The text occurs once in the function.
    equivalent : str
        Why nobody can see a difference; empty where one can.
    tests : str
        Patterns of the tests that were written for it, with spaces between them.
    """

    name: str
    kind: str
    file: str
    function: str
    before: str
    after: str
    equivalent: str = ""
    tests: str = ""

    @property
    def digest(self) -> str:
        """Of the edit: results are those of this one."""
        words = "\0".join([self.file, self.function, self.before, self.after])
        return hashlib.sha256(words.encode()).hexdigest()[:16]

    def applied(self, root: Path) -> str:
        """The text of its file with the edit.

        Raises
        ------
        StaleError
            The function is elsewhere, or its text has changed.
        """
        text = (root / self.file).read_text() if (root / self.file).is_file() else ""
        span = self._span(text)
        if span is None:
            others = sorted((root / self.file).parents[-1 - len(root.parts)].rglob(f"*{Path(self.file).suffix}"))
            found = [str(path.relative_to(root)) for path in others if self._span(path.read_text()) is not None]
            moved = (
                f"is in {' or '.join(found)}: change `file`" if found else "has changed: change `before` and `after`"
            )
            raise StaleError(f"{self.name}: {self.function} of {self.file} {moved}")
        return text[: span[0]] + text[slice(*span)].replace(self.before, self.after) + text[span[1] :]

    def _span(self, text: str) -> tuple[int, int] | None:
        """Where the function is in a text that has what is edited."""
        span = span_of(text, Path(self.file).suffix, self.function)
        return None if span is None or text[slice(*span)].count(self.before) != 1 else span


def mutants(*files: str) -> list[Mutant]:
    """Those of the files of definitions, without the equivalent ones unless these are asked for by file."""
    tables = [tomllib.loads((FOLDER / name).read_text())["mutant"] for name in files or DEFINITIONS]
    made = [Mutant(**{key: text.strip("\n") for key, text in row.items()}) for table in tables for row in table]
    return made if files else [mutant for mutant in made if not mutant.equivalent]


def functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """All functions of a module with their qualified names."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + node.name, node
        named = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        yield from functions(node, f"{prefix}{node.name}." if named else prefix)


def span_of(text: str, suffix: str, function: str) -> tuple[int, int] | None:
    """Where a function begins, with its decorators, and ends in a text; None if it is not there."""
    lines = text.splitlines(keepends=True)
    if suffix == ".py":
        named = [node for name, node in functions(ast.parse(text)) if name == function]  # overloads come first
        begins = [node.lineno for last in named[-1:] for node in (*last.decorator_list, last)]
        rows = (min(begins) - 1, named[-1].end_lineno or 0) if named else None
    else:
        rows = (_rows_of_c if suffix == ".h" else _rows_of_cython)(lines, function)
    return None if rows is None else (len("".join(lines[: rows[0]])), len("".join(lines[: rows[1]])))


def _rows_of_c(lines: list[str], function: str) -> tuple[int, int] | None:
    start = next((k for k, line in enumerate(lines) if re.match(rf"[a-zA-Z#].*\b{function}\(", line)), None)
    if start is None:
        return None
    macro = lines[start].startswith("#")
    last = r".*(?<!\\)$" if macro else r"}|.*\S+.*}$"
    end = next(k for k in range(start, len(lines)) if re.match(last, lines[k].rstrip("\n")))
    return start, end + 1


def _rows_of_cython(lines: list[str], function: str) -> tuple[int, int] | None:
    start, end = 0, len(lines)
    for part in function.split("."):
        pattern = rf"\s*(cdef class|class|def|cdef|cpdef)\b.*\b{part}\b\s*[(:]"
        start = next((k for k in range(start, end) if re.match(pattern, lines[k])), end)
        if start == end:
            return None
        depth = len(lines[start]) - len(lines[start].lstrip())
        body = next(k for k in range(start, end) if re.search(r":\s*(#.*)?$", lines[k])) + 1
        indents = ((k, len(lines[k]) - len(lines[k].lstrip())) for k in range(body, end) if lines[k].strip())
        end = next((k for k, indent in indents if indent <= depth), end)
    return start, end
