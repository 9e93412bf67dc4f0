"""What goes wrong on real ranks: errors, deaths, ends, waiting, freed communicators. Each program under one mpiexec."""

from __future__ import annotations

from pathlib import Path

import pytest
from launch import mpi_library, run

PROGRAMS = Path(__file__).parent / "programs"
SEED = 20260


def test_a_wrong_map_of_nodes_is_an_error_on_every_rank() -> None:
    env = {"PYSCALAPACK_REDIST_NODES": "0,0,one"}
    done = run(PROGRAMS / "random_layouts.py", 3, 1, SEED, env=env, check=False)
    assert done.returncode
    assert "PYSCALAPACK_REDIST_NODES='0,0,one' must be a node number for each of the 3 ranks" in done.stderr


@pytest.mark.parametrize("way", ["call", "transfer", "batch"])
def test_a_rank_that_dies_is_an_error_on_the_others(way: str) -> None:
    done = run(PROGRAMS / "dying_rank.py", 3, way, timeout=60, check=False, survive=True)
    lines = sorted(line for line in done.stdout.splitlines() if line.startswith("rank "))
    for line in lines:
        assert line[6:].startswith(": in time: rank "), line
        assert "what it owed will not come" in line
        assert "cannot redistribute any more" in line
        assert "| []" in line
    if len(lines) < 2 and "MPICH" in mpi_library():
        pytest.skip("this mpiexec kills the other ranks soon, though it is told not to")
    assert [line[:6] for line in lines] == ["rank 0", "rank 1"], done.stdout + done.stderr
    assert "rank 2 has died" in done.stdout


@pytest.mark.parametrize("ranks", [4, 5])
def test_bad_input_is_an_error_on_every_rank(ranks: int) -> None:
    assert run(PROGRAMS / "bad_input.py", ranks, timeout=120).stdout == "OK\n"


@pytest.mark.parametrize("ranks", [1, 3, 4])
def test_transfers_in_flight_and_kinds_of_communicators(ranks: int) -> None:
    assert run(PROGRAMS / "transfers.py", ranks, timeout=120).stdout.endswith("self\nOK\n")


@pytest.mark.parametrize("ranks", [1, 3])
def test_duplicates_of_a_communicator(ranks: int) -> None:
    assert run(PROGRAMS / "duplicates.py", ranks, timeout=120).stdout == "OK\n"


@pytest.mark.parametrize("nodes", ["0,0,1,1", "0,1,2,3"])
def test_transfers_in_flight_between_nodes(nodes: str) -> None:
    """Several at once, in part or all by MPI."""
    env = {"PYSCALAPACK_REDIST_NODES": nodes}
    assert run(PROGRAMS / "transfers.py", 4, timeout=120, env=env).stdout.endswith("self\nOK\n")


def test_nothing_is_left_behind() -> None:
    done = run(PROGRAMS / "resources.py", 3, 10_000, 1_000, 500, timeout=280, alone=True)
    assert done.stdout.endswith("OK\n"), done.stdout


@pytest.mark.parametrize("nodes", ["0,0", "0,1"])
def test_plans_end_with_their_last_reference(nodes: str) -> None:
    env = {"PYSCALAPACK_REDIST_NODES": nodes}
    assert run(PROGRAMS / "plans_end.py", 2, timeout=60, env=env).stdout == "OK\n"


def reports_of_waiting(*arguments: object, nodes: str, patience: float) -> list[str]:
    """What ranks say that wait, after a program that succeeds."""
    env = {"PYSCALAPACK_REDIST_NODES": nodes, "PYSCALAPACK_REDIST_PATIENCE": f"{patience:g}"}
    done = run(PROGRAMS / "patience.py", nodes.count(",") + 1, *arguments, timeout=60, env=env)
    assert done.stdout == "OK\n"
    return [line for line in done.stderr.splitlines() if line.startswith("pyscalapack_redist: ")]


@pytest.mark.parametrize("nodes", ["0,0,0", "0,0,1", "0,1,2"])
@pytest.mark.parametrize("late", [0, 2])
def test_ranks_that_wait_for_long_say_for_whom(nodes: str, late: int) -> None:
    seconds = ",".join("4" if rank == late else "0" for rank in range(3))
    (said,) = reports_of_waiting(seconds, nodes=nodes, patience=1)
    first = 1 if late == 0 else 0
    assert said.startswith(f"pyscalapack_redist: rank {first} has waited for 1 s in call "), said
    assert "Redistribution(Descriptor(40 x 30, blocks 4 x 4, ProcessGrid(3 x 1, ranks 0 to 2)) -> Desc" in said
    assert f": rank {late} has not come to it. Look for a rank that has raised an exception" in said, said


@pytest.mark.parametrize("nodes", ["0,0,1", "0,1,2"])
def test_a_rank_that_has_not_waited_for_long_is_not_said_to_be_missing(nodes: str) -> None:
    """Rank 1 comes 1.5 s after rank 0, which speaks up after 3 s; before that rank 1 has no reason to say anything."""
    (said,) = reports_of_waiting("0,1.5,5", nodes=nodes, patience=2)
    assert ": rank 2 has not come to it." in said, said


@pytest.mark.parametrize(
    ("seconds", "nodes", "speaker", "missing"),
    [("0,4,0,0", "0,1,2,3", 0, "rank 1 has"), ("4,4,0,0", "0,1,2,2", 2, "rank 0, rank 1 have")],
)
def test_one_of_many_ranks_that_wait_says_so(seconds: str, nodes: str, speaker: int, missing: str) -> None:
    """Of many ranks only the lowest ask all: here two."""
    (said,) = reports_of_waiting(seconds, "few", nodes=nodes, patience=1)
    assert said.startswith(f"pyscalapack_redist: rank {speaker} has waited for 1 s in call "), said
    assert f": {missing} not come to it." in said, said


def test_ranks_that_wait_for_the_first_plan_say_so() -> None:
    """They wait in MPI, and cannot know for whom."""
    said = reports_of_waiting("0,3,0", "first", nodes="0,0,0", patience=1)
    assert sorted(line.split()[2] for line in said) == ["0", "2"], said
    for line in said:
        assert " has waited for 1 s for the first call here that is collective over rank 0, rank 1, rank 2:" in line


def test_a_communicator_after_one_whose_ranks_waited_for_long() -> None:
    """What ranks have said of their waiting is never taken for a message of a later communicator."""
    env = {"PYSCALAPACK_REDIST_PATIENCE": "0.1"}
    assert run(PROGRAMS / "freed_after_waiting.py", 3, 30, timeout=100, env=env).stdout == "OK\n"


def test_a_communicator_that_one_rank_frees_late() -> None:
    """The other does not wait for it for ever."""
    assert run(PROGRAMS / "freed_by_some.py", 2, timeout=60).stdout == "OK\n"


@pytest.mark.parametrize("nodes", ["", "0,0,1", "0,1,2"])
def test_communicators_that_are_freed_while_something_is_in_flight(nodes: str) -> None:
    """What is in flight ends, an interrupt comes out of the call that frees, and nothing is kept."""
    env = {"PYSCALAPACK_REDIST_NODES": nodes} if nodes else {}
    assert run(PROGRAMS / "freed_in_use.py", 3, timeout=60, env=env).stdout == "OK\n"


@pytest.mark.parametrize("nodes", ["", "0,0,1"])
@pytest.mark.parametrize("how", ["exit", "finalize", "raise"])
def test_a_rank_that_ends_while_others_wait(how: str, nodes: str) -> None:
    env = {"PYSCALAPACK_REDIST_NODES": nodes} if nodes else {}
    done = run(PROGRAMS / "ending_rank.py", 3, how, timeout=30, env=env, check=False, survive=True)
    assert done.stdout.splitlines().count("OK") == 2, done.stdout + done.stderr


def test_a_rank_that_ends_in_the_middle() -> None:
    done = run(PROGRAMS / "ending_rank.py", 3, "started", timeout=30, check=False, survive=True)
    assert done.stdout.splitlines().count("OK") == 2, done.stdout + done.stderr


def test_ranks_that_have_come_are_not_said_to_be_missing() -> None:
    """Rank 0 is at work, after a vote that all have cast."""
    done = run(PROGRAMS / "patience.py", 3, "search", timeout=60, env={"PYSCALAPACK_REDIST_PATIENCE": "0.5"})
    assert done.stdout == "OK\n"
    (said,) = [line for line in done.stderr.splitlines() if line.startswith("pyscalapack_redist: ")]
    assert said.startswith("pyscalapack_redist: rank 1 has waited for 0.5 s in call "), said
    assert ": all have come to it." in said


def test_patience_that_is_no_number_is_told() -> None:
    done = run(PROGRAMS / "patience.py", 2, "0,0", timeout=60, env={"PYSCALAPACK_REDIST_PATIENCE": "2 min"})
    assert "PYSCALAPACK_REDIST_PATIENCE='2 min' must be a number of seconds, 0 for no message" in done.stderr


def test_patience_may_be_endless() -> None:
    env = {"PYSCALAPACK_REDIST_PATIENCE": "0"}
    done = run(PROGRAMS / "patience.py", 2, "0,2", timeout=60, env=env)
    assert "has waited" not in done.stderr
