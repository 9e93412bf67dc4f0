"""examples/malleable_solver.py: right on any sets of ranks, one after another, and what is wrong is told once."""

from __future__ import annotations

import re
from pathlib import Path

import launch
import pytest

PROGRAM = Path(__file__).resolve().parents[2] / "examples" / "malleable_solver.py"


def changes(text: str) -> list[tuple[float, float, float]]:
    """Of each change of the processes: MB sent, sent without relabelling, and kept."""
    found = re.findall(r": (\S+) MB sent \((\S+) without relabelling\), (\S+) MB stay", text)
    return [(float(sent), float(plain), float(kept)) for sent, plain, kept in found]


@pytest.mark.parametrize(
    ("ranks", "phases", "words"),
    [
        (6, "0-3 0-5 3-5", []),  # larger, then smaller
        (6, "0-2 3-5 0-2", ["--no-relabel"]),  # none in common
        (5, "0,2,4 1-3 4", ["--block", "7"]),
        (2, "0 0-1 1", []),
        (1, "0 0", []),
    ],
)
def test_goes_on_where_it_was(ranks: int, phases: str, words: list[str]) -> None:
    text = launch.run(PROGRAM, ranks, "--points", 300, "--iterations", 9, "--phases", *phases.split(), *words).stdout
    ended = re.search(r"^(\d+) iterations, .*; the matrix is what it was, .* by (\S+)$", text, re.MULTILINE)
    assert ended is not None, text
    assert float(ended[2]) < 1e-9
    rounds = [int(text) for text in re.findall(r"^ranks \S+ +(\d+) iterations", text, re.MULTILINE)]
    assert rounds[:-1] == [9] * (len(phases.split()) - 1)
    assert sum(rounds) == int(ended[1])
    costs = changes(text)
    assert len(costs) == len(phases.split()) - 1
    megabytes = 300 * 303 * 8 / 1e6
    for sent, plain, kept in costs:
        assert sent <= plain
        assert sent + kept == pytest.approx(megabytes, abs=0.02)


def test_disjoint_sets_keep_nothing() -> None:
    text = launch.run(PROGRAM, 4, "--points", 100, "--phases", "0-1", "2-3", "--iterations", 3).stdout
    assert changes(text) == [(0.08, 0.08, 0.0)]


def test_relabelling_keeps_more() -> None:
    text = launch.run(PROGRAM, 6, "--points", 300, "--phases", "0-3", "0-5").stdout
    ((sent, plain, _),) = changes(text)
    assert plain == pytest.approx(0.75 * 300 * 303 * 8 / 1e6, abs=0.01)
    assert sent == pytest.approx(plain * 4 / 9, abs=0.01)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--phases", "0-2"], "0-2 must be ascending and below 2, the number of ranks"),
        (["--phases", "1-0"], "1-0 must be ascending"),
        (["--phases", "0,0-1"], "a rank comes twice"),
        (["--phases", "all"], "ranks are written as 0-3, or 2, or 0-1,4"),
        (["--points", "0"], "--points 0: it must be at least 1"),
        (["--block", "0"], "--block 0: it must be at least 1"),
        (["--tolerance", "2"], "--tolerance 2.0: it must be at least 1e-14 and below 1"),
        (["--size", "4"], "unknown argument --size"),
    ],
)
def test_bad_input_is_told_once(words: list[str], message: str) -> None:
    done = launch.run(PROGRAM, 2, *words, check=False)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("malleable_solver.py: error:") == 1
