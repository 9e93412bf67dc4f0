"""What all tests share: how they start programs on several ranks, and how hypothesis searches."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

# Modules beside this file (launch, oracle, documents) are imported by name, here and in the programs under mpiexec.
sys.path.insert(0, str(Path(__file__).parent))
import launch  # noqa: E402

# A deadline for one example would fail on a busy machine; a failure prints what repeats it.
settings.register_profile("project", deadline=None, print_blob=True)
settings.load_profile("project")


def pytest_report_header() -> str:
    try:
        return f"MPI: {launch.mpi_library()} ({launch.mpiexec()[0]})"
    except launch.LaunchError as error:
        return f"MPI: none. {error}"


@pytest.fixture
def mpiexec(request: pytest.FixtureRequest) -> Callable[..., subprocess.CompletedProcess[str]]:
    """`launch.run`, its program being a file in `programs` beside the test."""

    def run(program: str, ranks: int, *args: object, **options: object) -> subprocess.CompletedProcess[str]:
        return launch.run(request.path.parent / "programs" / program, ranks, *args, **options)

    return run
