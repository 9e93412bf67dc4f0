"""The blocks of README and docs that need MPI, each on the ranks that it asks for."""

from __future__ import annotations

from pathlib import Path

import documents
import launch
import packages
import pytest
from documents import Block

pytestmark = pytest.mark.any_mpi


@pytest.mark.parametrize("block", documents.all_programs(parallel=True), ids=lambda block: block.name)
def test_block_runs(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = packages.environment(block.needs) if block.needs else None
    program = tmp_path / "block.py"
    program.write_text(block.code)
    monkeypatch.chdir(tmp_path)
    launch.run(program, block.ranks, env=environment)
