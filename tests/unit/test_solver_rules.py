"""Rules of solver libraries on paper: each is broken by a layout, none by a layout that is chosen."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np
import pytest

from pyscalapack_redist import Descriptor, DescriptorError, ProcessGrid
from pyscalapack_redist.linalg import check_layout, solver_rules
from pyscalapack_redist.linalg.solver_rules import SOLVERS, Rule, find_broken_rule, prefer

GRID = ProcessGrid((2, 2), order="column")
LINE = ProcessGrid((4, 1), order="column")
SHAPE = (64, 64)
# For each condition a layout that has all others.
BREAKING = {
    "a whole array": Descriptor(SHAPE, 8, GRID)[16:48, 16:48],
    "blocks of one size": Descriptor(SHAPE, "balanced", GRID),
    "square blocks": Descriptor(SHAPE, (8, 16), GRID),
    "source (0, 0)": Descriptor(SHAPE, 8, GRID, source=(0, 1)),
    "a square matrix": Descriptor((64, 32), 8, GRID),
    "a matrix that is not empty": Descriptor((0, 0), 8, ProcessGrid((1, 1))),
    "columns on each process column": Descriptor(SHAPE, 64, GRID),
    "several blocks, and ranks in a usual order": Descriptor(SHAPE, 64, GRID),
    "other than 1 x 2 elements on process columns": Descriptor((1, 2), 1, ProcessGrid((1, 2))),
    "two dimensions over a grid of two, in order": Descriptor((64,), 8, ProcessGrid((4,))),
}
RULES = [(library, rule) for library, solver in SOLVERS.items() for rule in solver.rules]


@pytest.mark.parametrize(
    ("library", "rule"), RULES, ids=lambda value: value if isinstance(value, str) else value.condition.name
)
def test_each_rule_is_broken_alone(library: str, rule: Rule) -> None:
    desc, name = BREAKING[rule.condition.name], (rule.routines or SOLVERS[library].routines or ("svd",))[-1]
    presupposed = rule.condition in (solver_rules.PLANE, solver_rules.EVEN)
    for other in () if presupposed else SOLVERS[library].rules:
        if other.routines is None or name in other.routines:
            assert bool(other.condition.find_obstacle(desc)) == (other is rule), other
    with pytest.raises(DescriptorError) as caught:
        check_layout(desc, library, name)
    for words in (f"{SOLVERS[library].title} needs {rule.condition.name}", rule.condition.remedy, rule.source):
        assert words in str(caught.value)


def test_layouts_without_a_fault() -> None:
    for library in SOLVERS:
        for name in SOLVERS[library].routines or ("solve", "svd"):
            check_layout(Descriptor(SHAPE, 8, GRID), library, name)
        if library != "scalapack":
            check_layout(Descriptor(SHAPE, 8, GRID), library)
    check_layout(Descriptor((32, 64), 64, GRID), "scalapack", "solve")
    check_layout(Descriptor(SHAPE, 8, ProcessGrid((2, 2), ranks=[[3, 0], [1, 2]])), "elpa")
    check_layout(Descriptor(SHAPE, 64, LINE), "elpa")


def test_chosen_layouts_follow_the_rules() -> None:
    sizes = (1, 2, 5, 64, 65, 257, 300, 511, 513, 4097)
    for library, solver in SOLVERS.items():
        for name, m, n, processes in itertools.product(solver.routines or ("solve", "svd"), sizes, sizes, range(1, 10)):
            if m == n or name in ("lstsq", "matmul", "norm", "qr", "svd"):
                block, sides = prefer(library, (m, n), processes)
                desc = Descriptor((m, n), block, ProcessGrid(sides))
                broken = find_broken_rule(library, desc, name)
                assert broken is None, (library, name, desc, broken)
                assert np.prod(sides) <= processes
                assert library == "scalapack" or block & (block - 1) == 0
                assert block <= solver.block


def test_grids_are_nearly_square() -> None:
    assert prefer("elpa", (5000, 5000), 7) == (64, (2, 3))


def test_the_page_names_all_rules() -> None:
    text = (Path(__file__).parents[2] / "docs" / "linalg.md").read_text()
    for library, solver in SOLVERS.items():
        (row,) = (line for line in text.splitlines() if line.startswith(f'| `"{library}"` |'))
        for rule in solver.rules:
            assert rule.condition.name in (text if rule.condition in (solver_rules.PLANE, solver_rules.EVEN) else row)
        assert str(solver.block) in row or library == "scalapack"


def test_wrong_names() -> None:
    desc = Descriptor(SHAPE, 8, GRID)
    with pytest.raises(ValueError, match=r"library = 'elpha' must be one of scalapack, elpa$"):
        check_layout(desc, "elpha")
    with pytest.raises(ValueError, match="'qr' is no routine of ELPA, which has cho_factor, cholesky, eigh, eigvalsh"):
        check_layout(desc, "elpa", "qr")
    with pytest.raises(ValueError, match="name = 'sovle' is no routine of linalg"):
        check_layout(desc, "elpa", "sovle")
    with pytest.raises(DescriptorError, match=re.escape("desc = [1, 2] must be a Descriptor")):
        check_layout([1, 2], "elpa")  # type: ignore[arg-type]
