"""What README, CONTRIBUTING and docs show works: their Python blocks run; commands, files and links lead somewhere."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import documents
import launch
import packages
import pytest
from documents import ROOT, Block

pytestmark = pytest.mark.any_mpi
FIRST = ("README.md", "tutorial.md")  # what a newcomer runs
SHELL_WORDS = {"cd", "export", "source"}
pages = pytest.mark.parametrize("page", documents.PAGES, ids=lambda page: page.name)


def blocks(*, parallel: bool) -> list[Any]:
    found = documents.all_programs(parallel=parallel)
    short = [block.name.startswith(FIRST) if parallel else ".plot(" not in block.code for block in found]
    return [
        pytest.param(block, id=block.name, marks=() if soon else pytest.mark.long)
        for block, soon in zip(found, short, strict=True)
    ]


@pytest.mark.parametrize("block", blocks(parallel=False))
def test_block_without_mpi_runs(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(block.code, block.name, "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize("block", blocks(parallel=True))
def test_block_runs(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = packages.environment(block.needs) if block.needs else None
    program = tmp_path / "block.py"
    program.write_text(block.code)
    monkeypatch.chdir(tmp_path)
    launch.run(program, block.ranks, env=environment)


@pages
def test_commands_paths_and_links_exist(page: Path) -> None:
    for block in documents.programs(page):
        start = documents.start_line(block.ranks)
        assert not block.parallel or re.fullmatch(start, block.before), f"{block.name}: say before it how it is started"
    path = os.pathsep.join([str(Path(sys.prefix, "bin")), os.environ["PATH"]])
    for place, line in documents.commands(page):
        words = shlex.split(line, comments=True)
        while "=" in words[0]:  # variables set for the command
            words.pop(0)
        known = words[0] in SHELL_WORDS or (ROOT / words[0]).is_file() or shutil.which(words[0], path=path)
        assert known, f"{place}: there is no {words[0]}, of `{line}`"
        for word in words[1:]:
            assert not word.endswith(".py") or (ROOT / word).is_file(), f"{place}: there is no {word}, of `{line}`"
    assert [target for target in documents.links(page) if not (page.parent / target).exists()] == []
    paths = re.findall(r"`((?:\w+/)+(?:\w+\.(?:pyx?|h)|(?=`)))`", page.read_text())
    folders = (ROOT, ROOT / "pyscalapack_redist", page.parent)
    missing = [path for path in paths if not any((folder / path).exists() for folder in folders)]
    assert [path for path in missing if "NAME" not in path] == []


def test_the_architecture_has_every_module_in_it() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    package = ROOT / "pyscalapack_redist"
    homes = [path for name in ("comm", "engine", "layout", "blacs") for path in (package / name).glob("[a-z]*.py")]
    assert homes
    assert [path.name for path in homes if f"`{path.relative_to(package)}`" not in text] == []
    compiled = [source.stem for source in (ROOT / "cython").glob("*.pyx")]
    assert [name for name in compiled if f"`{name}`" not in text and f"`_kernels.{name}`" not in text] == []
