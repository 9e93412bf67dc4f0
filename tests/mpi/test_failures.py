"""What goes wrong on real ranks: errors, interrupts, deaths, ends, waiting, freed communicators; and what is left behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from launch import environment, limit, mpi_library, run

PROGRAMS = Path(__file__).parent / "programs"
NODES = "PYSCALAPACK_REDIST_NODES"


def long(*values: object) -> object:
    return pytest.param(*values, marks=pytest.mark.long)


@pytest.mark.parametrize(
    ("program", "ranks", "nodes"),
    [
        ("errors", 4, ""),
        long("errors", 4, "0,1,1,0"),
        ("communicators", 4, ""),
        *(long("communicators", ranks, "") for ranks in (1, 2, 3)),
        *(long("communicators", 4, nodes) for nodes in ("0,0,1,1", "0,1,2,3")),
        ("defects", 4, ""),
        long("defects", 2, ""),
        long("defects", 4, "0,1,1,0"),
        *(("interrupts", 2, nodes) for nodes in ("", "0,1")),
        ("interrupts", 3, "0,1,1"),
        *(("guards", 3, nodes) for nodes in ("", "0,0,1")),
        long("guards", 2, "0,1"),
        *(("kept_arrays", 2, nodes) for nodes in ("", "0,1")),
        ("patience", 4, ""),
        long("outside", 5, ""),
        long("outside", 5, "0,0,1,1,1"),
        *(("unwritable", 2, nodes) for nodes in ("", "0,1")),
        *(("agreed_once", 3, nodes) for nodes in ("", "0,1,2")),
        *(long("agreed_once", 4, nodes) for nodes in ("0,1,0,1", "0,1,2,3")),
    ],
)
def test_program(program: str, ranks: int, nodes: str) -> None:
    assert run(PROGRAMS / f"{program}.py", ranks, env={NODES: nodes} if nodes else {}).stdout == "OK\n"


@pytest.mark.parametrize(("ranks", "nodes"), [(3, ""), (3, "0,1,2"), long(4, "0,0,1,1")])
def test_a_limit_of_time(ranks: int, nodes: str, tmp_path: Path) -> None:
    env = {NODES: nodes} if nodes else {}
    assert run(PROGRAMS / "time_limit.py", ranks, tmp_path, env=env).stdout == "OK\n"


@pytest.mark.parametrize(
    ("ranks", "nodes", "which"),
    [(2, "", ["some"]), long(2, "0,1", ["some"]), long(4, "", []), long(4, "0,0,1,2", []), long(3, "0,1,2", ["some"])],
)
def test_a_collective_call_by_one_rank_alone(ranks: int, nodes: str, which: list[str], tmp_path: Path) -> None:
    env = {NODES: nodes} if nodes else {}
    assert run(PROGRAMS / "alone.py", ranks, tmp_path, *which, env=env, alone=True).stdout == "OK\n"


def test_a_process_that_ends_after_it_has_given_up_a_first_call() -> None:
    """MPI waits in a thread, so it cannot be finalized."""
    code = (
        "import pyscalapack_redist as psr, sys; from mpi4py import MPI\n"
        "if MPI.COMM_WORLD.rank == 0:\n"
        "    try: psr.shape_of('a.npy', comm=MPI.COMM_WORLD)\n"
        "    except psr.WaitTimeoutError as error: print('gave up', flush=True)\n"
    )
    env = {"PYSCALAPACK_REDIST_TIMEOUT": "0.5"}
    done = run(("-c", code), 2, env=env, check=False, timeout=60)
    assert done.stdout == "gave up\n"
    assert done.returncode == 1, done.stderr
    assert "cannot be finalized meanwhile: the job is aborted" in done.stderr


@pytest.mark.parametrize(
    ("culprit", "how", "seconds", "cause"),
    [
        (1, "array", 60, "ArrayError: "),
        (1, "block", 60, "CollectiveError: the ranks ask for different things"),
        (0, "caught", 0.1, "CollectiveError: rank 0 could not take part: ArrayError"),
    ],
)
def test_one_traceback(culprit: int, how: str, seconds: float, cause: str) -> None:
    """That of the cause, under `python -m mpi4py`; where its rank has caught it, those of others are not lost."""
    done = run(PROGRAMS / "one_traceback.py", 3, culprit, how, seconds, timeout=50, check=False)
    assert done.returncode
    assert cause in done.stderr
    tracebacks = done.stderr.count("Traceback (most recent call last)")
    assert tracebacks == 1 if how != "caught" else tracebacks in (1, 2), done.stderr


def test_mpi_that_does_not_run(tmp_path: Path) -> None:
    """Before MPI_Init and after MPI_Finalize, which would end the process, or worse."""
    line = [sys.executable, PROGRAMS / "without_mpi.py", tmp_path]
    env = {**environment(), "MPI4PY_RC_INITIALIZE": "0"}
    done = subprocess.run(line, env=env, capture_output=True, text=True, timeout=limit(60))
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "OK"), done.stderr


@pytest.mark.long
def test_no_file_left_while_waiting() -> None:
    assert run(PROGRAMS / "defects.py", 2, "alone", alone=True).stdout == "OK\n"


@pytest.mark.parametrize(("ranks", "way"), [(2, "call"), *(long(3, way) for way in ("wait", "batch", "test"))])
def test_a_rank_that_dies_is_an_error_on_the_others(ranks: int, way: str) -> None:
    done = run(PROGRAMS / "dying_rank.py", ranks, way, timeout=60, check=False, survive=True)
    ended = done.stdout.splitlines().count("OK")
    if ended < ranks - 1 and "MPICH" in mpi_library():
        pytest.skip("this mpiexec kills the other ranks soon, though it is told not to")
    assert ended == ranks - 1, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("ranks", "how", "nodes"),
    [
        (2, "finalize", ""),
        long(3, "started", ""),
        *(long(3, how, nodes) for how in ("exit", "finalize", "raise") for nodes in ("", "0,0,1")),
    ],
)
def test_a_rank_that_ends_while_others_wait(ranks: int, how: str, nodes: str) -> None:
    env = {NODES: nodes} if nodes else {}
    done = run(PROGRAMS / "ending_rank.py", ranks, how, timeout=30, env=env, check=False, survive=True)
    assert done.stdout.splitlines().count("OK") == ranks - (how != "finalize"), done.stdout + done.stderr


@pytest.mark.parametrize(("ranks", "amounts"), [(2, (300, 30, 10)), long(3, (10_000, 500, 200))])
def test_nothing_is_left_behind(ranks: int, amounts: tuple[int, ...]) -> None:
    done = run(PROGRAMS / "resources.py", ranks, *amounts, timeout=280, alone=ranks > 2)
    assert done.stdout.endswith("OK\n"), done.stdout
