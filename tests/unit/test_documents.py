"""What README, CONTRIBUTING and docs show works: blocks that need no MPI are run here, commands and files exist."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import documents
import launch
import pytest
from documents import ROOT, Block

SHELL_WORDS = {"cd", "export", "source"}
pages = pytest.mark.parametrize("page", documents.PAGES, ids=lambda page: page.name)


@pytest.mark.parametrize("block", documents.all_programs(parallel=False), ids=lambda block: block.name)
def test_block_runs(block: Block, tmp_path: Path) -> None:
    program = tmp_path / "block.py"
    program.write_text(block.code)
    done = subprocess.run(
        [sys.executable, program],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
        env=launch.environment(),
    )
    assert done.returncode == 0, f"{block.name}\n{done.stdout}\n{done.stderr}"


@pages
def test_the_text_says_how_a_block_is_started(page: Path) -> None:
    silent = [
        block.name
        for block in documents.programs(page)
        if block.parallel and not re.fullmatch(documents.start_line(block.ranks), block.before)
    ]
    assert not silent


@pages
def test_commands_and_files_exist(page: Path) -> None:
    path = os.pathsep.join([str(Path(sys.prefix, "bin")), os.environ["PATH"]])
    for place, line in documents.commands(page):
        words = shlex.split(line, comments=True)
        while "=" in words[0]:  # variables set for the command
            words.pop(0)
        known = words[0] in SHELL_WORDS or (ROOT / words[0]).is_file() or shutil.which(words[0], path=path)
        assert known, f"{place}: there is no {words[0]}, of `{line}`"
        for word in words[1:]:
            assert not word.endswith(".py") or (ROOT / word).is_file(), f"{place}: there is no {word}, of `{line}`"


@pages
def test_links_lead_somewhere(page: Path) -> None:
    broken = [target for target in documents.links(page) if not (page.parent / target).exists()]
    assert not broken


def test_blocks_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "text\n```python\na = 1\n```\n```console\n$ ls \\\n  -l\nout\n```\n- item\n  ```python {data-ranks=4}\n  b = 2\n  ```\n"
        "```python {data-continued=yes}\nprint(b)\n```\n[x](other.md#part) [y](https://example.org)\n"
    )
    assert [(block.name, block.ranks, block.code) for block in documents.programs(page)] == [
        ("page.md:2", 1, "a = 1\n"),
        ("page.md:11", 4, "b = 2\n"),
        ("page.md:14", 4, "b = 2\n\nprint(b)\n"),
    ]
    assert documents.commands(page) == [("page.md:5", "ls    -l")]
    assert documents.links(page) == ["other.md"]


@pages
def test_paths_in_the_text_exist(page: Path) -> None:
    found = re.findall(r"`((?:\w+/)+(?:\w+\.(?:pyx?|h)|(?=`)))`", page.read_text())
    places = (ROOT, ROOT / "pyscalapack_redist", page.parent)
    missing = [path for path in found if not any((place / path).exists() for place in places)]
    assert [path for path in missing if "NAME" not in path] == []


def test_the_table_of_what_to_expect_is_what_the_benchmark_prints() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "break_even.py", "--most", "4000"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env=launch.environment(),
    )
    rows = done.stdout.splitlines()
    assert len(rows) == 6  # two of them are the head of the table
    shown = (ROOT / "docs" / "expect.md").read_text().splitlines()
    assert [row for row in rows if row not in shown] == []


def test_the_architecture_has_every_module_in_it() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    package = ROOT / "pyscalapack_redist"
    homes = [path for name in ("comm", "engine", "layout", "blacs") for path in (package / name).glob("[a-z]*.py")]
    assert homes
    assert [path.name for path in homes if f"`{path.relative_to(package)}`" not in text] == []
    compiled = [source.stem for source in (ROOT / "cython").glob("*.pyx")]
    assert [name for name in compiled if f"`{name}`" not in text and f"`_kernels.{name}`" not in text] == []
