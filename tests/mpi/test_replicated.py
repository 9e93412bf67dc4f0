"""Layouts with copies over real ranks. The random layouts of the other tests have some as well."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from launch import run

PROGRAM = Path(__file__).parent / "programs" / "replicated.py"
SEED = int(os.environ.get("PYSCALAPACK_REDIST_SEED", "20262"))


@pytest.mark.parametrize("ranks", [2, 3, 4, 6, 8])
def test_copies(ranks: int, tmp_path: Path) -> None:
    done = run(PROGRAM, ranks, tmp_path, 60, SEED + ranks, timeout=200)
    assert done.stdout == f"60 cases, seed {SEED + ranks} OK\n"
