"""What all tests share: where their modules are found, which MPI they run on, and how hypothesis searches."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from hypothesis import settings

# Modules beside this file (launch, oracle, documents) are imported by name, here and in the programs under mpiexec.
sys.path.insert(0, str(Path(__file__).parent))
import launch

# pytest-xdist tells its workers a width, which is not that of what is printed here.
os.environ.pop("COLUMNS", None)

# A deadline for one example would fail on a busy machine; a failure prints what repeats it.
settings.register_profile("project", deadline=None, print_blob=True)
settings.load_profile("project")


def pytest_report_header() -> str:
    try:
        return f"MPI: {launch.mpi_library()} ({launch.mpiexec()[0]})"
    except launch.LaunchError as error:
        return f"MPI: none. {error}"
