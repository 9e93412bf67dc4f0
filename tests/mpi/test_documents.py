"""What README, CONTRIBUTING and docs show works: their Python blocks run; commands, files and links lead somewhere.

A block marked ```python is a program of its own. ```python {data-ranks=4} runs on four ranks, and the line before the block
says so to the reader; ```python {data-continued=yes} goes on from the block before it, on as many ranks as that one;
```python {data-needs=MODULE} is run where that package can be used (`packages.py`). ```text {data-output=yes} shows lines that
the program before it prints. All are attributes in the syntax of the documents' generator, which shows none of it.
"""

from __future__ import annotations

import math
import os
import pydoc
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import launch
import packages
import pytest

pytestmark = pytest.mark.any_mpi
FIRST = ("README.md", "tutorial.md", "CONTRIBUTING.md")  # what a newcomer runs
SHELL_WORDS = {"cd", "export", "source"}
ROOT = Path(__file__).resolve().parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("**/*.md"))]
FENCE = re.compile(r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<code>.*?)^(?P=indent)```\s*$", re.MULTILINE | re.DOTALL)

KNOWN = re.compile(r"data-continued=yes|data-ranks=[1-9]\d*|data-needs=\w+")


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    name: str
    words: tuple[str, ...]
    code: str
    before: str = ""  # the last line of text before the block
    output: tuple[str, ...] = ()  # lines that the program prints, as a block after it shows

    def value(self, name: str) -> str | None:
        """What a word data-NAME=VALUE says."""
        return next((word.partition("=")[2] for word in self.words if word.startswith(f"data-{name}=")), None)

    @property
    def ranks(self) -> int:
        return int(self.value("ranks") or 1)

    @property
    def needs(self) -> str | None:
        """The package that it needs, where the tests' environment need not have it."""
        return self.value("needs")

    @property
    def parallel(self) -> bool:
        """Does it need an MPI?"""
        return self.ranks > 1 or "mpi4py" in self.code


def fenced(page: Path) -> list[Block]:
    text = page.read_text()
    blocks = []
    for fence in FENCE.finditer(text):
        line = text.count("\n", 0, fence.start()) + 1
        code = re.sub(rf"^{fence['indent']}", "", fence["code"], flags=re.MULTILINE)
        before = text[: fence.start()].rstrip().rpartition("\n")[2].strip()
        words = tuple(re.split(r"[\s{}]+", fence["info"].strip(" {}")))
        blocks.append(Block(f"{page.name}:{line}", words, code, before))
    return blocks


def programs(page: Path) -> list[Block]:
    """The Python blocks, each with all that it goes on from."""
    programs_so_far: list[Block] = []
    for block in fenced(page):
        if block.words[:2] == ("text", "data-output=yes"):
            programs_so_far[-1] = replace(programs_so_far[-1], output=tuple(block.code.splitlines()))
        if block.words[:1] != ("python",):
            continue
        assert all(KNOWN.fullmatch(word) for word in block.words[1:]), f"{block.name}: unknown words after ```python"
        if "data-continued=yes" in block.words:
            before = programs_so_far[-1]
            block = Block(block.name, before.words, f"{before.code}\n{block.code}", before.before)
        programs_so_far.append(block)
    return programs_so_far


def commands(page: Path) -> list[tuple[str, str]]:
    """Lines after `$ ` in console blocks, with where they stand."""
    return [
        (block.name, line.removeprefix("$ "))
        for block in fenced(page)
        if block.words[:1] == ("console",)
        for line in block.code.replace("\\\n", " ").splitlines()
        if line.startswith("$ ")
    ]


def blocks(*, parallel: bool) -> list[Any]:
    found = [block for page in PAGES for block in programs(page) if block.parallel == parallel]
    short = [block.name.startswith(FIRST) if parallel else ".plot(" not in block.code for block in found]
    return [
        pytest.param(block, id=block.name, marks=() if soon else pytest.mark.long)
        for block, soon in zip(found, short, strict=True)
    ]


def test_pages_are_as_what_they_include() -> None:
    run = subprocess.run(
        [sys.executable, ROOT / "ci" / "pages", "--check"], capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout + run.stderr) == (0, "")
    included = [line for page in PAGES for line in page.read_text().splitlines() if line.startswith("<!-- from ")]
    assert len(included) >= 6, included


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
    printed = launch.run(program, block.ranks, env=environment).stdout
    assert [line for line in block.output if line not in printed] == []  # a newline may come after another rank's line


@pytest.mark.long
@pytest.mark.parametrize("block", [block for block in programs(ROOT / "README.md") if block.ranks == 4])
def test_the_first_program_runs_on_more_ranks_than_its_grid_has(block: Block, tmp_path: Path) -> None:
    program = tmp_path / "block.py"
    program.write_text(block.code)
    printed = launch.run(program, 5).stdout
    assert [line for line in block.output if line not in printed] == []


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "api").glob("*.md")), ids=lambda page: page.name)
def test_pages_of_the_api_say_how_to_read_them_without_the_site(page: Path) -> None:
    (name,) = re.findall(r"`python -m pydoc (\S+)`", page.read_text())
    assert page.name == "index.md" or f"::: {name}\n" in page.read_text()
    assert pydoc.locate(name).__doc__


def test_the_paper_has_its_sections_and_cites_what_is_in_its_bibliography() -> None:
    _, header, text = (ROOT / "paper.md").read_text().split("---\n", 2)
    assert "bibliography: paper.bib\n" in header
    sections = ["Summary", "Statement of need", "State of the field", "Software design", "Research impact statement"]
    assert re.findall(r"^# (.*)$", text, re.MULTILINE) == [*sections, "References"]
    assert 750 <= len(text.split()) <= 1750  # the journal's limits
    keys = re.findall(r"^@\w+\{(\w+),$", (ROOT / "paper.bib").read_text(), re.MULTILINE)
    assert {*re.findall(r"@(\w+)", text)} == {*keys}
    figures = re.findall(r"^!\[.*\\label\{(\S+)\}\]\(\S+\)$", text, re.MULTILINE)
    assert figures == ["fig:layouts", "fig:speed"]
    assert [name for name in figures if f"\\autoref{{{name}}}" not in text] == []


STAND_INS = {
    "srun": 'echo "srun: $SLURM_NTASKS tasks" && exec {mpiexec} -n "$SLURM_NTASKS" "$@"',
    "module": ":",
    "redist/bin/activate": 'PATH="{environment}:$PATH"',
}
JOB_SCRIPTS = [(page, block) for page in PAGES for block in fenced(page) if "#SBATCH" in block.code]


@pytest.mark.parametrize(("page", "script"), JOB_SCRIPTS, ids=[block.name for _, block in JOB_SCRIPTS])
def test_job_script_runs(page: Path, script: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What Slurm makes of it, but for ranks beyond the fourth: `srun` and `module` are stand-ins, first on PATH."""
    monkeypatch.chdir(tmp_path)
    (program,) = re.findall(r"^srun python -m mpi4py (\w+\.py)", script.code, re.MULTILINE)
    (block,) = (block for block in programs(page) if f" {program}`" in block.before)
    Path(program).write_text(block.code)
    Path("redist/bin").mkdir(parents=True)
    words = {"mpiexec": shlex.join(launch.mpiexec()), "environment": Path(sys.prefix, "bin")}
    for name, line in STAND_INS.items():
        Path(name).write_text(f"#!/bin/bash\n{line.format(**words)}\n")
        Path(name).chmod(0o755)
    Path("job.sh").write_text(script.code)
    asked = [
        re.findall(rf"^#SBATCH .*--{option}=(\d+)", script.code, re.MULTILINE)
        for option in ("nodes", "ntasks-per-node")
    ]
    ranks = min(4, math.prod(int(number) for (number,) in asked))
    path = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
    its = {**launch.environment(ranks), "HOME": str(tmp_path), "PATH": path, "SLURM_NTASKS": str(ranks)}
    with launch.started(["bash", "job.sh"], its) as (process, _, out, err):
        in_time = launch.ended(process, launch.limit(120), None)
        assert (in_time, process.returncode) == (True, 0), launch.read(out) + launch.read(err)
        printed = launch.read(out).partition(f"srun: {ranks} tasks\n")[2]
    assert printed.strip(), "rank 0 has printed nothing"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_paths_and_links_exist(page: Path) -> None:
    for block in programs(page):
        start = rf".*\b[Oo]n {block.ranks} ranks, `mpiexec -n {block.ranks} python -m mpi4py \w+\.py`:"
        assert not block.parallel or re.fullmatch(start, block.before), f"{block.name}: say before it how it is started"
    path = os.pathsep.join([str(Path(sys.prefix, "bin")), os.environ["PATH"]])
    for place, line in commands(page):
        words = shlex.split(line, comments=True)
        while "=" in words[0]:  # variables set for the command
            words.pop(0)
        known = words[0] in SHELL_WORDS or (ROOT / words[0]).is_file() or shutil.which(words[0], path=path)
        assert known, f"{place}: there is no {words[0]}, of `{line}`"
        for word in words[1:]:
            assert not word.endswith(".py") or (ROOT / word).is_file(), f"{place}: there is no {word}, of `{line}`"
    targets = [target.split("#")[0] for target in re.findall(r"\]\((?![a-z]+:|#)([^)\s]+)\)", page.read_text())]
    assert [target for target in targets if not (page.parent / target).exists()] == []
    paths = re.findall(r"`((?:\w+/)+(?:\w+\.(?:pyx?|h)|(?=`)))`", page.read_text())
    folders = (ROOT, ROOT / "pyscalapack_redist", page.parent)
    missing = [path for path in paths if not any((folder / path).exists() for folder in folders)]
    assert [path for path in missing if "NAME" not in path] == []


FILES = r"(?:\w+/)*(?:\w+\.(?:py|pyx|pxd|h)|(?<=/))"


def file_named(path: str) -> Path:
    """A file or folder of the repository or of the package, as a page names it."""
    return next(folder / path for folder in (ROOT, ROOT / "pyscalapack_redist") if (folder / path).exists())


def rows_of(text: str, header: str) -> list[list[str]]:
    """The rows of the table with this header, as cells."""
    table = text.partition(header)[2].partition("\n\n")[0].splitlines()[2:]
    return [line.strip("| ").split(" | ") for line in table]


def test_the_architecture_names_all_packages_and_code_that_exists() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    package = ROOT / "pyscalapack_redist"
    contents = [path.name + "/" * path.is_dir() for path in package.iterdir() if path.is_dir() or path.suffix == ".py"]
    packages = rows_of(text, "| Package | What it contains | Tests |")
    named = [name for cells in packages for name in re.findall(r"`([\w./]+)`", cells[0])]
    assert sorted(named) == sorted(name for name in contents if not name.startswith("__"))
    tests = [path for cells in packages for path in re.findall(r"`([\w./]+)`", cells[2])]
    assert all(cells[2] for cells in packages)
    assert [path for path in tests if not (ROOT / path).exists()] == []
    compiled = [source.stem for source in (ROOT / "cython").glob("*.pyx")]
    assert [name for name in compiled if f"`{name}`" not in text] == []

    places = [
        (name, re.findall(rf"`({FILES})`", cells[1]))
        for cells in rows_of(text, "| Idea | Where | Names |")
        for name in re.findall(r"`(\w+)`", cells[2])
    ]
    prose = text + (ROOT / "CONTRIBUTING.md").read_text()
    places += [(name, [path]) for name, path in re.findall(rf"`(\w+)` (?:in |\()`({FILES})`", prose)]
    assert len(places) > 40
    sources = {path: file_named(path).read_text() for _, paths in places for path in paths}
    missing = [
        f"{name} in {paths}"
        for name, paths in places
        if not any(re.search(rf"\b{name}\b", sources[path]) for path in paths)
    ]
    assert missing == []
