"""Mutants that `ci/mutants` plants: what may be drawn from a source, and how a definition finds its function."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "ci" / "mutations"))
from drawing import Source, sites
from edits import CHECKOUT, DEFINITIONS, StaleError, mutants, span_of

SOURCE = '''
def größe(a: int = 3, *, b: str = "x") -> int:
    """Docstrings, 1 < 2, stay as they are."""
    if a < 5 and b:
        raise ValueError(f"a = {a + 1}: {max(a, 1)} < 2")
    put(
        b, a)  # of ß
    rest = pow(a, 4)
    return rest
'''


def test_what_may_be_changed() -> None:
    source = Source(SOURCE)
    assert [(site.kind, *source.replaced(site)) for site in sites(source, ast.parse(SOURCE).body[0])] == [
        ("condition", "if a < 5 and b:", "if not (a < 5 and b):"),
        ("condition", "if a < 5 and b:", "if a <= 5 and b:"),
        ("off by one", "if a < 5 and b:", "if a < 6 and b:"),
        ("dropped statement", "put(\n        b, a)  # of ß", "pass  # of ß"),
        ("swapped arguments", "b, a)  # of ß", "a, b)  # of ß"),
        ("swapped arguments", "rest = pow(a, 4)", "rest = pow(4, a)"),
        ("off by one", "rest = pow(a, 4)", "rest = pow(a, 5)"),
    ]


def test_definitions_fit_and_change_something() -> None:
    for mutant in mutants(*DEFINITIONS):
        text = mutant.applied(CHECKOUT)
        assert text != (CHECKOUT / mutant.file).read_text(), mutant.name
        if mutant.file.endswith(".py"):
            compile(text, f"{mutant.name}: {mutant.file}", "exec")  # what is no Python is found by any test


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"file": "cython/ring.pyx"}, "move_interleaved of cython/ring.pyx is in cython/interleave.pyx: change `file`"),
        ({"before": "no such text"}, "move_interleaved of cython/interleave.pyx has changed: change `before` and `after`"),
    ],
)
def test_a_definition_that_does_not_fit_says_where_its_function_is(changes: dict[str, str], what: str) -> None:
    mutant = next(mutant for mutant in mutants("cython.toml") if mutant.function == "move_interleaved")
    with pytest.raises(StaleError, match=f"{mutant.name}: {what}"):
        mutant._replace(**changes).applied(CHECKOUT)


def test_functions_of_cython_and_c_are_found_to_their_end() -> None:
    cython = (
        "cdef class A:\n    def f(\n        self,\n    ):\n        return 1\n\n    def g(self):\n        return 2\n"
    )
    assert cython[slice(*span_of(cython, ".pyx", "A.f") or ())].rstrip().endswith("return 1")
    assert cython[slice(*span_of(cython, ".pyx", "A.g") or ())].endswith("return 2\n")
    c = "#define TWICE(X) \\\n    ((X) + \\\n     (X))\nint f(void)\n{\n    return g(1);\n}\nint g(int x) { return x; }\n"
    assert c[slice(*span_of(c, ".h", "TWICE") or ())].endswith("(X))\n")
    assert c[slice(*span_of(c, ".h", "f") or ())].endswith("}\n")
    assert c[slice(*span_of(c, ".h", "g") or ())] == "int g(int x) { return x; }\n"
