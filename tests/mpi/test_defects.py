"""What once went wrong; a hang is a failure. See programs/defects.py."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import launch
import pytest
from launch import run

PROGRAM = Path(__file__).parent / "programs" / "defects.py"
TIMEOUT = 25

# Names and numbers of ranks; and on which node each rank is to count as being, where not all are on one.
CASES: list[tuple[str, int, str]] = [
    ("order-that-only-one-rank-knows", 2, ""),
    ("one-rank-short-one-long", 2, ""),
    ("one-rank-short-one-long", 2, "0,1"),
    ("waited-for-in-another-order", 2, ""),
    ("ten-plans-waited-for-in-another-order", 2, ""),
    ("killed-while-others-test", 3, ""),
    ("killed-while-others-test-in-the-middle", 3, ""),
    ("killed-while-two-are-in-flight", 3, ""),
    ("killed-while-a-batch-is-tested", 3, ""),
    ("no-memory-for-out-shared", 2, ""),
    ("no-memory-for-out-nonblocking", 2, ""),
    ("no-memory-for-out-nonblocking", 2, "0,1"),
    ("no-memory-for-outs-of-a-batch", 2, ""),
    ("no-memory-in-the-first-call", 2, ""),
    ("no-memory-in-the-first-call", 2, "0,1"),
    ("no-memory-to-go-on-after-a-vote", 2, ""),
    ("no-memory-to-go-on-after-a-vote", 3, ""),
    ("factor-that-no-float-holds", 2, ""),
    ("factor-that-no-float-holds", 2, "0,1"),
    ("datatypes-in-either-order", 2, ""),
    ("datatypes-in-either-order", 3, "0,1,1"),
    ("factors-with-signs-of-zeros", 2, ""),
    ("factors-with-signs-of-zeros", 2, "0,1"),
    ("conversations-that-fail", 2, ""),
    ("conversations-that-fail", 3, "0,1,1"),
    ("tiles-and-copies-that-no-rank-knows-both", 3, ""),
    ("tiles-and-copies-that-no-rank-knows-both", 4, "0,1,1,0"),
    ("large-elements", 2, ""),
    ("large-elements", 4, ""),
    ("large-elements-in-a-batch", 2, ""),
    ("interrupted-while-planning", 2, ""),
    ("interrupted-while-planning", 2, "0,1"),
    ("interrupted-as-calls-end", 2, ""),
    ("interrupted-as-calls-end", 2, "0,1"),
    ("interrupted-before-a-batch-is-agreed", 2, ""),
    ("interrupted-before-a-batch-is-agreed", 2, "0,1"),
    ("way-that-is-wrong-on-one-rank", 3, ""),
    ("way-that-is-wrong-on-one-rank", 3, "0,1,1"),
    ("dtype-that-cannot-be-shown", 2, ""),
    ("interrupted-while-batching", 2, ""),
    ("interrupted-while-batching", 2, "0,1"),
    ("interrupted-while-messages-are-planned", 2, ""),
    ("interrupted-while-messages-are-planned", 2, "0,1"),
    ("interrupted-while-messages-are-planned-nonblocking", 2, ""),
    ("interrupted-on-the-way", 2, ""),
    ("interrupted-on-the-way", 2, "0,1"),
    ("interrupted-in-a-call", 2, ""),
    ("interrupted-in-a-call", 2, "0,1"),
    ("interrupted-while-elements-move", 2, ""),
    ("interrupted-while-elements-move", 2, "0,1"),
    ("new-ranks-while-in-flight", 3, ""),
    ("new-ranks-while-in-flight", 3, "0,1,1"),
    ("save-while-in-flight", 3, ""),
    ("load-while-in-flight", 3, ""),
    ("tensor-on-one-rank", 2, ""),
    ("empty-thing-that-is-no-array", 2, ""),
    ("test-does-not-wait-for-the-one-that-failed", 2, ""),
    ("test-does-not-wait-for-the-one-that-failed", 2, "0,1"),
    ("no-file-left-while-waiting", 2, ""),
    ("communicator-that-was-freed", 2, ""),
    ("communicator-that-was-freed", 2, "0,1"),
    ("profile-of-legs", 3, ""),
    ("messages-of-legs", 3, ""),
    ("schedule-that-only-the-legs-allow", 2, ""),
    ("leg-without-enough-memory", 3, ""),
    ("leg-that-cannot-multiply", 3, ""),
    ("leg-that-cannot-conjugate", 3, ""),
    ("leg-that-refuses-a-schedule", 3, ""),
    ("in-place-on-one-rank-only", 2, ""),
    ("symmetric-fill-with-a-rank-outside", 3, ""),
    ("hermitian-fill-with-a-rank-outside", 3, ""),
    ("fill-with-too-little-memory", 2, ""),
    ("dtype-that-is-none", 2, ""),
    ("node-number-that-is-too-large", 2, "0,2147483648"),
    ("links-that-no-float-holds", 2, "0,1"),
    ("just-enough-memory", 3, ""),
    ("just-enough-memory", 4, "0,0,0,1"),
    ("two-that-fail-waited-for-in-another-order", 3, ""),
    ("all-interrupted-while-planning", 2, ""),
    ("interrupted-before-the-vote", 2, ""),
    ("interrupted-before-the-vote", 2, "0,1"),
    ("all-interrupted-in-a-call", 2, ""),
    ("all-interrupted-in-a-call", 2, "0,1"),
    ("descriptor-on-another-communicator", 2, ""),
    ("threads-with-a-communicator-each", 2, ""),
    ("calls-after-finalize", 2, ""),
    ("calls-after-finalize", 2, "0,1"),
    ("out-that-overlaps-itself", 2, ""),
    ("more-than-32-dimensions", 2, ""),
    ("files-of-many-sets-of-ranks", 2, ""),
]
ALONE = ("no-file-left-while-waiting", "files-of-many-sets-of-ranks")  # what else a process has open matters


@pytest.mark.parametrize(("name", "ranks", "nodes"), CASES)
def test_defect(name: str, ranks: int, nodes: str) -> None:
    env = {"PYSCALAPACK_REDIST_NODES": nodes} if nodes else {}
    killed = name.startswith("killed")
    done = run(PROGRAM, ranks, name, timeout=TIMEOUT, env=env, check=not killed, survive=killed, alone=name in ALONE)
    alive = ranks - 1 if killed else 1
    ended = well(done.stdout)
    if killed and ended < alive and "MPICH" in launch.mpi_library():
        pytest.skip("this mpiexec kills the other ranks soon, though it is told not to")
    assert ended == alive, done.stdout + done.stderr


def well(printed: str) -> int:
    """How many ranks have ended well; a launcher may print words of its own."""
    return printed.splitlines().count("OK")


@pytest.mark.parametrize("exchange", ["auto", "nonblocking"])
def test_job_that_is_killed_while_the_other_tests(exchange: str, tmp_path: Path) -> None:
    def start(role: str) -> str:
        name, where = "job-killed-while-the-other-tests", f"{role}:{tmp_path / 'meeting'}"
        variables = {**launch.environment(4), **env}  # both jobs' ranks
        # The survivors end one by one, without MPI: the first one's end must not be the end of the other.
        done = run(PROGRAM, 2, name, where, exchange, timeout=TIMEOUT, env=variables, check=False, survive=True)
        return done.stdout

    with launch.name_server(tmp_path) as env, ThreadPoolExecutor(2) as pool:
        printed = list(pool.map(start, ("accept", "connect")))
    assert [well(text) for text in printed] == [0, 2], printed
