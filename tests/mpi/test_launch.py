"""Programs that run one after another on the same ranks: none is left with anything of the one before."""

from __future__ import annotations

import sys
from pathlib import Path

import job
import launch
import pytest

RANKS = 2


def write(folder: Path, text: str) -> Path:
    program = folder / "program.py"
    program.write_text(f"import os, sys\nfrom mpi4py import MPI\nworld = MPI.COMM_WORLD\n{text}\n")
    return program


def test_arguments_output_and_directory_are_the_programs_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = write(tmp_path, "print(sys.argv[1:], os.getcwd(), __name__, world.size)\nprint('end', file=sys.stderr)")
    monkeypatch.chdir(tmp_path)
    for word in ("first", "second"):
        done = launch.run(program, RANKS, word)
        assert done.stdout == f"['{word}'] {tmp_path} __main__ {RANKS}\n" * RANKS
        assert done.stderr == "end\n" * RANKS


def test_the_ranks_are_the_same(tmp_path: Path) -> None:
    program = write(tmp_path, "pids = world.allgather(os.getpid())\nprint(pids if world.rank == 0 else '', end='')")
    assert launch.run(program, RANKS).stdout == launch.run(program, RANKS).stdout
    assert launch.run(program, RANKS).stdout != launch.run(program, RANKS, alone=True).stdout


def test_nothing_of_a_program_is_left(tmp_path: Path) -> None:
    changes = """
import signal
from pyscalapack_redist.comm import node
assert node.AREA != 1 and "LEFT" not in os.environ and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
node.AREA, os.environ["LEFT"] = 1, "here"
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.chdir("/")
"""
    program = write(tmp_path, changes)
    for _ in range(2):
        launch.run(program, RANKS)


def test_variables_of_a_program_are_not_those_of_the_next(tmp_path: Path) -> None:
    program = write(tmp_path, "print(os.environ.get('PYSCALAPACK_REDIST_NODES'))")
    assert launch.run(program, RANKS, env={"PYSCALAPACK_REDIST_NODES": "0,1"}).stdout == "0,1\n" * RANKS
    assert launch.run(program, RANKS).stdout == "None\n" * RANKS


def test_a_program_that_fails_says_where_and_the_next_runs(tmp_path: Path) -> None:
    program = write(tmp_path, "if world.rank == 1:\n    raise ValueError('on purpose')\nworld.Barrier()")
    with pytest.raises(launch.LaunchError, match=r"failed with status (?s:.)*ValueError: on purpose"):
        launch.run(program, RANKS)
    assert launch.run(write(tmp_path, "print(world.rank)"), RANKS).stdout.count("\n") == RANKS


def test_a_program_may_exit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", [])
    monkeypatch.setattr("sys.path", list(sys.path))
    program = tmp_path / "program.py"
    program.write_text("import sys\nsys.exit(int(sys.argv[1]) or None)\n")
    job.run_program([str(program), "0"])
    with pytest.raises(SystemExit, match="3"):
        job.run_program([str(program), "3"])


@pytest.mark.long
def test_a_program_that_hangs_says_where_and_the_next_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSCALAPACK_REDIST_TIMEOUTS", "1")
    waits = "import time\ndef waits():\n    time.sleep(100)\nif world.rank == 1:\n    waits()\nworld.Barrier()"
    program = write(tmp_path, waits)
    with pytest.raises(launch.LaunchError, match=r"hung: it had not ended after 3 s(?s:.)*in waits"):
        launch.run(program, RANKS, timeout=3)
    assert launch.run(write(tmp_path, "print(world.rank == 0)"), RANKS).stdout.count("True") == 1


@pytest.mark.long
def test_a_program_may_finalize_mpi(tmp_path: Path) -> None:
    for _ in range(2):
        assert launch.run(write(tmp_path, "print('end')\nMPI.Finalize()"), RANKS).stdout == "end\n" * RANKS
