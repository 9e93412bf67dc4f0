"""What all tests share: where their modules are found, which MPI they run on, and what they draw at random."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# Modules beside this file (launch, oracle, packages) are imported by name, here and in the programs under mpiexec.
sys.path.insert(0, str(Path(__file__).parent))
import launch

os.environ.setdefault("PYSCALAPACK_REDIST_TRACEBACK", "full")  # what fails is shown as a whole

# pytest-xdist tells its workers a width, which is not that of what is printed here.
os.environ.pop("COLUMNS", None)

# A deadline for one example would fail on a busy machine. Without a database of examples, a run depends on its seed alone.
for name, examples in {"default": 25, "long": 200}.items():
    settings.register_profile(name, deadline=None, print_blob=True, database=None, max_examples=examples)
settings.load_profile("default")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(launch.SEED)


def pytest_report_header(config: pytest.Config) -> list[str]:
    try:
        mpi = f"{launch.mpi_library()} ({launch.mpiexec()[0]})"
    except launch.LaunchError as error:
        mpi = f"none. {error}"
    return [f"MPI: {mpi}", f"PYSCALAPACK_REDIST_SEED={launch.SEED}"]


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):  # a worker of pytest-xdist tells the process that writes the summary
        session.config.workeroutput["launches"] = launch.LAUNCHES


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    for kind, number in getattr(node, "workeroutput", {}).get("launches", {}).items():
        launch.LAUNCHES[kind] += number


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    terminalreporter.line("launches: " + ", ".join(f"{number} {kind}" for kind, number in launch.LAUNCHES.items()))
    failed = {r.nodeid: None for kind in ("failed", "error") for r in terminalreporter.getreports(kind)}
    if not failed:
        return
    terminalreporter.section("each alone")
    pytest_of_this = os.path.relpath(Path(sys.prefix, "bin", "pytest"), config.invocation_params.dir)
    profile = config.option.hypothesis_profile
    options = [f"--hypothesis-profile={profile}"] if profile else []
    if config.option.hypothesis_seed != str(launch.SEED):
        options.append(f"--hypothesis-seed={config.option.hypothesis_seed}")
    for test in failed:
        name = re.sub(r"@\w+$", "", test)  # pytest-xdist adds the group
        command = shlex.join([pytest_of_this, name, "-m", "", *options])
        terminalreporter.line(f"PYSCALAPACK_REDIST_SEED={launch.SEED} {command}")


@pytest.fixture
def control_group() -> Iterator[Path]:
    """A control group whose processes may have 1.5 times the memory of 6144 x 6144 doubles."""
    limit = str(3 * 6144 * 6144 * 8 // 2)
    for root, name in ((Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"), (Path("/sys/fs/cgroup"), "memory.max")):
        folder = root / f"pyscalapack_redist-{os.getpid()}"
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            (folder / name).write_text(limit)
            with contextlib.suppress(OSError):
                (folder / "memory.swap.max").write_text("0")
            yield folder
            return
        except OSError:
            continue
        finally:
            _remove(folder)
    pytest.skip("no control group can be made")


def _remove(group: Path) -> None:
    """Remove a control group, once the processes that have been killed there have gone."""
    last = time.monotonic() + 60
    while True:
        try:
            return group.rmdir()
        except OSError:
            if time.monotonic() > last:
                raise
        for process in (group / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(process), signal.SIGKILL)
        time.sleep(0.05)
