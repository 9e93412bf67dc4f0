"""Two groups of processes that redistribute to each other: in one world, spawned, and two jobs that meet by files."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import launch
import pytest
from launch import run

pytestmark = pytest.mark.xdist_group("connection")  # of one name server
PROGRAMS = Path(__file__).parent / "programs"
MANY_PRODUCERS = Path(__file__).resolve().parents[2] / "benchmarks" / "many_producers.py"
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "producer_consumer.py"
SEED = 20261
Job = tuple[int, list[object], dict[str, str]]  # ranks, arguments, environment


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """What two jobs need to be joined, in their environment; of this test alone."""
    with launch.name_server(tmp_path_factory.mktemp("server")) as variables:
        yield variables


def run_both(
    program: Path,
    *jobs: Job,
    timeout: float = 90,
    check: bool = True,
    survive: bool = False,
    goes: int | None = None,
) -> list[str]:
    """What two jobs print that run at once, each under an mpiexec of its own.

    The job of the number `goes` is ended soon after the other: it may be in MPI_Finalize, which the other never calls. Open
    MPI 4 can spin there for ever.
    """
    over = threading.Event()

    def start(number: int) -> subprocess.CompletedProcess[str]:
        ranks, args, env = jobs[number]
        env = {**launch.environment(sum(other[0] for other in jobs)), **env}
        until = over if number == goes else None
        try:
            return run(program, ranks, *args, timeout=timeout, env=env, check=check, survive=survive, until=until)
        finally:
            if number != goes:
                over.set()

    with ThreadPoolExecutor(len(jobs)) as pool:
        return [done.stdout for done in pool.map(start, range(len(jobs)))]


def check_printed(lines: list[str], ranks: int) -> None:
    assert len(lines) == ranks, lines
    assert all(line.endswith(f"20 plans, {ranks} ranks OK") for line in lines), lines


@pytest.mark.parametrize(("ranks", "first"), [(2, 1), (4, 3), (5, 2)])
def test_two_parts_of_a_world(ranks: int, first: int) -> None:
    done = run(PROGRAMS / "two_jobs.py", ranks, f"split:{first}", SEED + ranks, 20, 200)
    check_printed(done.stdout.splitlines(), ranks)


def test_two_parts_of_a_world_on_two_nodes() -> None:
    env = {"PYSCALAPACK_REDIST_NODES": "0,1,0,1"}
    check_printed(run(PROGRAMS / "two_jobs.py", 4, "split:2", SEED, 20, 20, env=env).stdout.splitlines(), 4)


def test_spawned_processes() -> None:
    check_printed(run(PROGRAMS / "two_jobs.py", 2, "spawn:3", SEED, 20, 100, alone=True).stdout.splitlines(), 5)


@pytest.mark.parametrize(("m", "n"), [(1, 1), (2, 3), (3, 1)])
def test_two_jobs(m: int, n: int, server: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "meeting"
    nodes = {"PYSCALAPACK_REDIST_NODES": ",".join(map(str, range(m)))}  # of one job: says nothing of the other's ranks
    printed = run_both(
        PROGRAMS / "two_jobs.py",
        (m, [f"accept:{path}", SEED + m, 20, 200], {**server, **nodes}),
        (n, [f"connect:{path}", SEED + m, 20, 200], server),
    )
    check_printed("".join(printed).splitlines(), m + n)
    assert not list(tmp_path.iterdir())


def test_the_example_as_two_jobs(server: dict[str, str], tmp_path: Path) -> None:
    path, picture = tmp_path / "meeting", tmp_path / "heat"
    small = ["--points", "23", "--frames", "30", "--steps", "2", "--block", "3"]
    printed = run_both(
        EXAMPLE,
        (2, ["--accept", path, *small], server),
        (3, ["--connect", path, *small, "--picture", picture, "--every", "15"], server),
    )
    assert "the last came back as it went" in printed[0]
    assert "energy 0.250000 -> " in printed[1]
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"heat-{frame:04}.png" for frame in (0, 15, 30)]


def test_bad_input_is_an_error_on_both_sides() -> None:
    assert run(PROGRAMS / "two_sides_bad_input.py", 5).stdout == "OK\n"


@pytest.mark.parametrize(
    ("what", "use", "exchange"),
    [
        ("kill", "steps", "auto"),
        ("kill-one", "steps", "nonblocking"),
        ("leave", "steps", "alltoallv"),
        ("leave", "plans", "auto"),
        ("raise", "plans", "nonblocking"),
    ],
)
@pytest.mark.parametrize("sender_goes", [True, False])
def test_a_job_that_goes_away(
    what: str, use: str, exchange: str, sender_goes: bool, server: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "meeting"
    acts = (what, "stay") if sender_goes else ("stay", what)
    printed = run_both(
        PROGRAMS / "two_jobs_trouble.py",
        (2, [f"accept:{path}", acts[0], use, exchange], server),
        (3, [f"connect:{path}", acts[1], use, exchange], server),
        timeout=60,
        check=False,
        survive=what == "kill-one",
        goes=int(not sender_goes),
    )
    lines = sorted(line for line in printed[int(sender_goes)].splitlines() if line.startswith("rank "))
    assert len(lines) == 3 if sender_goes else 2, printed
    assert all(": in time True CollectiveError [] CollectiveError: rank " in line for line in lines), lines
    assert "of the other side has" in "".join(lines)


@pytest.mark.parametrize("dying", ["accept", "connect"])
def test_a_job_that_dies_while_mpi_joins_the_two(dying: str, server: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "meeting"
    jobs: list[Job] = [
        (2, [f"{role}:{path}", "joining" if role == dying else "stay", "steps", "auto"], server)
        for role in ("accept", "connect")
    ]
    printed = "".join(run_both(PROGRAMS / "two_jobs_trouble.py", *jobs, timeout=60, check=False))
    lines = sorted(line for line in printed.splitlines() if line.startswith("rank "))
    assert [line[:7] for line in lines] == ["rank 0:", "rank 1:"], printed
    assert all("was lost while MPI joined" in line or "MPI cannot join the jobs" in line for line in lines), printed


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("wrong", "rank 0: whoever came by MPI's port is not the job that met this one"),
        ("pickle", " bytes came where 32 should: whoever came by MPI's port"),
        ("silent", "nothing came within 5 s: whoever came by MPI's port"),
    ],
)
@pytest.mark.parametrize("role", ["accept", "connect"])
def test_a_stranger_who_comes_by_mpi(role: str, what: str, words: str, server: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "meeting"
    jobs: list[Job] = [
        (2, [f"{each}:{path}", "stay" if each == role else what, "steps", "auto"], server)
        for each in ("accept", "connect")
    ]
    printed = run_both(PROGRAMS / "two_jobs_trouble.py", *jobs, timeout=60, check=False)[role == "connect"]
    assert not list(tmp_path.iterdir()), "it was unpickled"
    lines = sorted(line for line in printed.splitlines() if line.startswith("rank "))
    assert [line[:7] for line in lines] == ["rank 0:", "rank 1:"], printed
    assert all(words in line.replace("rank 1:", "rank 0:") for line in lines), printed


@pytest.mark.parametrize("role", ["accept", "connect"])
def test_a_pipe_at_the_meeting_place(role: str, tmp_path: Path) -> None:
    path = tmp_path / "meeting"
    os.mkfifo(f"{path}.accept")
    arguments = [f"{role}:{path}", "stay", "steps", "auto"]
    printed = run(PROGRAMS / "two_jobs_trouble.py", 2, *arguments, timeout=40, check=False).stdout
    assert printed.count(f"{path}.accept is not a regular file: remove it, or use another path") == 2, printed
    assert [file.name for file in tmp_path.iterdir()] == ["meeting.accept"]


@pytest.mark.parametrize("role", ["accept", "connect"])
def test_a_file_of_somebody_at_the_meeting_place(role: str, tmp_path: Path) -> None:
    path = tmp_path / "meeting"
    for name in "accept", "connect":
        (tmp_path / f"meeting.{name}").write_text("of the program's own\n")
    arguments = [f"{role}:{path}", "stay", "steps", "auto"]
    printed = run(PROGRAMS / "two_jobs_trouble.py", 2, *arguments, timeout=40, check=False).stdout
    assert printed.count(f"{path}.{role} is not a file of psr.accept or psr.connect: use another path") == 2, printed
    assert {file.read_text() for file in tmp_path.iterdir()} == {"of the program's own\n"}


@pytest.mark.parametrize("role", ["accept", "connect"])
def test_an_interrupt_on_the_rank_that_waits_for_the_other_job(role: str, tmp_path: Path) -> None:
    arguments = [f"{role}:{tmp_path / 'meeting'}", "interrupted", "steps", "auto"]
    printed = run(PROGRAMS / "two_jobs_trouble.py", 3, *arguments, timeout=40, check=False).stdout
    words = [f"rank {rank}: rank 0 was interrupted (KeyboardInterrupt)" for rank in (1, 2)]
    assert sorted(printed.splitlines()) == ["rank 0: KeyboardInterrupt", *words], printed
    assert not list(tmp_path.iterdir())


def test_what_lies_beside_the_meeting_place_is_left_alone(server: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "meeting"
    os.mkfifo(f"{path}.port")
    jobs: list[Job] = [(1, [f"{role}:{path}", SEED, 2, 2], server) for role in ("accept", "connect")]
    assert "".join(run_both(PROGRAMS / "two_jobs.py", *jobs, timeout=60)).count("2 ranks OK") == 2
    assert [file.name for file in tmp_path.iterdir()] == ["meeting.port"]


@pytest.mark.parametrize(
    ("mode", "words"), [(0o777, "others may write to the directory {0} (mode 0777)"), (0o1777, "nobody came to {0}")]
)
def test_a_directory_in_which_everybody_may_write(mode: int, words: str, tmp_path: Path) -> None:
    tmp_path.chmod(mode)
    arguments = [f"connect:{tmp_path / 'meeting'}", "stay", "steps", "auto"]
    printed = run(PROGRAMS / "two_jobs_trouble.py", 2, *arguments, timeout=40, check=False).stdout
    assert printed.count(words.format(tmp_path)) == 2, printed
    assert not list(tmp_path.iterdir())


def test_two_jobs_on_different_mpis(tmp_path: Path) -> None:
    path = tmp_path / "meeting"
    jobs: list[Job] = [
        (2, [f"{role}:{path}", what, "steps", "auto"], {})
        for role, what in (("accept", "foreign"), ("connect", "stay"))
    ]
    printed = "".join(run_both(PROGRAMS / "two_jobs_trouble.py", *jobs, timeout=40, check=False))
    assert printed.count("both must run on the same MPI") == 4, printed
    assert printed.count("Another MPI 1.0") == 4
    assert not list(tmp_path.iterdir())


def test_a_job_that_does_not_come(tmp_path: Path) -> None:
    path = tmp_path / "meeting"
    done = run(PROGRAMS / "two_jobs_trouble.py", 3, f"connect:{path}", "stay", "steps", "auto", timeout=40, check=False)
    words = f"nobody came to {path} within 2 s: start the other job, which calls psr.accept with this path"
    assert sorted(line[:8] for line in done.stdout.splitlines() if words in line) == [
        "rank 0: ",
        "rank 1: ",
        "rank 2: ",
    ]
    assert not list(tmp_path.iterdir())


def test_two_jobs_that_both_accept(tmp_path: Path) -> None:
    path = tmp_path / "meeting"
    job: Job = (2, [f"accept:{path}", "stay", "steps", "auto"], {})
    printed = "".join(run_both(PROGRAMS / "two_jobs_trouble.py", job, job, timeout=40, check=False))
    assert printed.count(f"another job waits in psr.accept at {path} already: use another path") == 2, printed
    assert not list(tmp_path.iterdir())


def test_no_such_directory(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "meeting"
    done = run(PROGRAMS / "two_jobs_trouble.py", 2, f"accept:{path}", "stay", "steps", "auto", timeout=40, check=False)
    assert done.stdout.count("there is no such directory") == 2


def test_open_mpi_without_its_name_server(tmp_path: Path) -> None:
    if not launch.mpi_library().startswith("Open MPI v4"):
        pytest.skip("only Open MPI 3 and 4 need a name server")
    path = tmp_path / "meeting"
    jobs: list[Job] = [(2, [f"{role}:{path}", "stay", "steps", "auto"], {}) for role in ("accept", "connect")]
    printed = "".join(run_both(PROGRAMS / "two_jobs_trouble.py", *jobs, timeout=40, check=False))
    assert printed.count("both jobs have none: run `ompi-server --no-daemonize -r FILE`") == 4, printed
    assert not list(tmp_path.iterdir())


def test_many_producers_of_one_program() -> None:
    words = ["--producers", "4", "1,3", "1,1,1,1", "--orders", 1, 70, "--repeat", 2]
    lines = run(MANY_PRODUCERS, 6, *words).stdout.splitlines()
    assert [line.split("|")[1:3] for line in lines[2:]] == [
        [f" {n} x {n} ", f" {sizes} "] for n in (1, 70) for sizes in ("4", "1,3", "1,1,1,1")
    ]


def test_many_producers_in_jobs_of_their_own(server: dict[str, str], tmp_path: Path) -> None:
    sizes = [1, 2]
    words = ["--producers", "1,2", "--meet", tmp_path, "--orders", 1, 70, "--repeat", 2, "--timeout", 40, "--job"]
    jobs: list[Job] = [(2, [*words, "consumer"], server)]
    jobs += [(size, [*words, number], server) for number, size in enumerate(sizes)]
    consumed, *produced = run_both(MANY_PRODUCERS, *jobs)
    assert [line.split("|")[1:3] for line in consumed.splitlines()[2:]] == [
        [" 1 x 1 ", " 1,2 "],
        [" 70 x 70 ", " 1,2 "],
    ]
    assert produced == [""] * len(sizes)


def test_many_producers_whose_matrix_is_wrong(tmp_path: Path) -> None:
    program = tmp_path / "wrong.py"
    program.write_text(
        "import sys\n"
        f"sys.path.insert(0, {str(MANY_PRODUCERS.parent)!r})\n"
        "import many_producers\n"
        "right = many_producers.Setting.expected\n"
        "many_producers.Setting.expected = lambda self, step: right(self, step + (self.job.number == 1 and step == 3))\n"
        "many_producers.main()\n"
    )
    done = run(program, 4, "--producers", "1,1", "--orders", 8, "--repeat", 2, check=False)
    assert done.returncode
    assert "the matrix of step 3 is wrong" in done.stderr
