"""The README and docs: their Python blocks, and the commands and links in them.

A block marked ```python is a program of its own. ```python {data-ranks=4} runs on four ranks, and the line before the block
says so to the reader (`start_line`); ```python {data-continued=yes} goes on from the block before it, on as many ranks as
that one; ```python {data-needs=MODULE} is run where that package can be used (`packages.py`). All are attributes in the syntax
of the documents' generator, which shows none of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("**/*.md"))]
FENCE = re.compile(r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<code>.*?)^(?P=indent)```\s*$", re.MULTILINE | re.DOTALL)

KNOWN = re.compile(r"data-continued=yes|data-ranks=[1-9]\d*|data-needs=\w+")


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    name: str
    words: tuple[str, ...]
    code: str
    before: str = ""  # the last line of text before the block

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


def start_line(ranks: int) -> str:
    """What the line of text before a block must match: how many ranks it wants, and the command that starts it."""
    return rf".*\b[Oo]n {ranks} ranks, `mpiexec -n {ranks} python -m mpi4py \w+\.py`:"


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
    found: list[Block] = []
    for block in fenced(page):
        if block.words[:1] != ("python",):
            continue
        assert all(KNOWN.fullmatch(word) for word in block.words[1:]), f"{block.name}: unknown words after ```python"
        if "data-continued=yes" in block.words:
            before = found[-1]
            block = Block(block.name, before.words, f"{before.code}\n{block.code}", before.before)
        found.append(block)
    return found


def all_programs(*, parallel: bool) -> list[Block]:
    return [block for page in PAGES if page.exists() for block in programs(page) if block.parallel == parallel]


def commands(page: Path) -> list[tuple[str, str]]:
    """Lines after `$ ` in console blocks, with where they stand."""
    return [
        (block.name, line.removeprefix("$ "))
        for block in fenced(page)
        if block.words[:1] == ("console",)
        for line in block.code.replace("\\\n", " ").splitlines()
        if line.startswith("$ ")
    ]


def links(page: Path) -> list[str]:
    """The targets of links to other files of the project."""
    targets = re.findall(r"\]\(([^)\s]+)\)", page.read_text())
    return [target.split("#")[0] for target in targets if not re.match(r"[a-z]+:|#", target)]
