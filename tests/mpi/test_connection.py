"""Two groups of processes that redistribute to each other: in one world, spawned, and two jobs that meet by files."""

from __future__ import annotations

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
TROUBLE = PROGRAMS / "two_jobs_trouble.py"
MANY_PRODUCERS = Path(__file__).resolve().parents[2] / "benchmarks" / "many_producers.py"
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "producer_consumer.py"
SEED = 20261
ROLES = ("accept", "connect")
Job = tuple[int, list[object], dict[str, str]]  # ranks, arguments, environment
long = pytest.mark.long


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


def in_trouble(
    path: Path, acts: tuple[str, str], env: dict[str, str], ranks: tuple[int, int] = (2, 2), how: object = "steps auto",
    **options: object,
) -> list[str]:  # fmt: skip
    """What each of two jobs prints, of which the first accepts and the second connects."""
    jobs: list[Job] = [
        (n, [f"{role}:{path}", act, *str(how).split()], env) for n, role, act in zip(ranks, ROLES, acts, strict=True)
    ]
    return run_both(TROUBLE, *jobs, timeout=60, check=False, **options)  # type: ignore[arg-type]


def of_ranks(printed: str, ranks: int = 2) -> list[str]:
    lines = sorted(line for line in printed.splitlines() if line.startswith("rank "))
    assert [line[:7] for line in lines] == [f"rank {rank}:" for rank in range(ranks)], printed
    return lines


def check_printed(lines: list[str], ranks: int, plans: int) -> None:
    assert len(lines) == ranks, lines
    assert all(line.endswith(f"{plans} plans, {ranks} ranks OK") for line in lines), lines


# -- that it works


@pytest.mark.parametrize(
    ("ranks", "first", "plans", "steps", "nodes"),
    [
        (4, 3, 12, 20, ""),
        (4, 2, 6, 10, "0,1,0,1"),
        pytest.param(5, 2, 20, 200, "", marks=long),
        pytest.param(4, 2, 20, 200, "0,1,0,1", marks=long),
    ],
)
def test_two_parts_of_a_world(ranks: int, first: int, plans: int, steps: int, nodes: str) -> None:
    env = {"PYSCALAPACK_REDIST_NODES": nodes} if nodes else {}
    done = run(PROGRAMS / "two_jobs.py", ranks, f"split:{first}", SEED + ranks, plans, steps, env=env)
    check_printed(done.stdout.splitlines(), ranks, plans)


@long
def test_spawned_processes() -> None:
    check_printed(run(PROGRAMS / "two_jobs.py", 2, "spawn:3", SEED, 20, 100, alone=True).stdout.splitlines(), 5, 20)


@pytest.mark.parametrize(
    ("m", "n", "plans"),
    [(2, 1, 10), *(pytest.param(m, n, 20, marks=long) for m, n in ((1, 1), (2, 3), (3, 1)))],
)
def test_two_jobs(m: int, n: int, plans: int, server: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "meeting"
    nodes = {"PYSCALAPACK_REDIST_NODES": ",".join(map(str, range(m)))}  # of one job: says nothing of the other's ranks
    printed = run_both(
        PROGRAMS / "two_jobs.py",
        (m, [f"accept:{path}", SEED + m, plans, 10 * plans], {**server, **nodes}),
        (n, [f"connect:{path}", SEED + m, plans, 10 * plans], server),
    )
    check_printed("".join(printed).splitlines(), m + n, plans)
    assert not list(tmp_path.iterdir())


@long
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


# -- what goes wrong


@pytest.mark.parametrize("ranks", [4, pytest.param(5, marks=long)])
def test_errors_are_those_of_every_rank(ranks: int, tmp_path: Path) -> None:
    assert run(PROGRAMS / "two_sides_errors.py", ranks, tmp_path).stdout == "OK\n"


@long
@pytest.mark.parametrize(
    ("what", "how", "sender_goes"),
    [
        ("kill", "steps auto", True),
        ("kill", "tests auto", True),
        ("kill", "tests nonblocking", True),
        ("kill-one", "steps nonblocking", False),
        ("kill-one", "steps nonblocking", True),
        ("leave", "steps alltoallv", False),
        ("leave", "plans auto", True),
        ("raise", "plans nonblocking", False),
    ],
)
def test_a_job_that_goes_away(what: str, how: str, sender_goes: bool, server: dict[str, str], tmp_path: Path) -> None:
    acts = (what, "stay") if sender_goes else ("stay", what)
    survive, goes = what == "kill-one", int(not sender_goes)
    printed = in_trouble(tmp_path / "meeting", acts, server, (2, 3), how, survive=survive, goes=goes)
    lines = of_ranks(printed[int(sender_goes)], 3 if sender_goes else 2)
    assert all(": in time True CollectiveError [] CollectiveError: r" in line for line in lines), lines
    assert "remote rank" in "".join(lines)
    assert all(line.count("its pending data are lost") < 2 for line in lines), lines


@long
@pytest.mark.parametrize("acts", [("joining", "stay"), ("stay", "joining")])
def test_a_job_that_dies_while_mpi_joins_the_two(acts: tuple[str, str], server: dict[str, str], tmp_path: Path) -> None:
    lines = of_ranks("".join(in_trouble(tmp_path / "meeting", acts, server)))
    assert all("was lost while MPI joined" in line or "MPI cannot join the jobs" in line for line in lines), lines


@long
@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("wrong", "rank 0: the process that connected to MPI's port is not the job"),
        ("pickle", " bytes instead of 32: the process that connected to MPI's port"),
        ("silent", "received nothing within 5 s: the process that connected to MPI's port"),
    ],
)
@pytest.mark.parametrize("role", [0, 1])
def test_a_stranger_who_comes_by_mpi(role: int, what: str, words: str, server: dict[str, str], tmp_path: Path) -> None:
    acts = ("stay", what) if role == 0 else (what, "stay")
    lines = of_ranks(in_trouble(tmp_path / "meeting", acts, server)[role])
    assert not list(tmp_path.iterdir()), "it was unpickled"
    assert all(words in line.replace("rank 1:", "rank 0:") for line in lines), lines


@long
@pytest.mark.parametrize(
    ("acts", "text"),
    [
        (("foreign", "stay"), "both must run on the same MPI"),
        (("stay", "stay"), "both jobs have none: run `ompi-server --no-daemonize -r FILE`"),
    ],
)
def test_two_jobs_that_mpi_cannot_join(acts: tuple[str, str], text: str, tmp_path: Path) -> None:
    if acts[0] == "stay" and not launch.mpi_library().startswith("Open MPI v4"):
        pytest.skip("only Open MPI 3 and 4 need a name server")
    printed = "".join(in_trouble(tmp_path / "meeting", acts, {}))
    assert printed.count(text) == 4, printed
    assert printed.count("Another MPI 1.0") == (4 if acts[0] == "foreign" else 0)
    assert not list(tmp_path.iterdir())


# -- the benchmark of many producers


@long
def test_many_producers_in_jobs_of_their_own(server: dict[str, str], tmp_path: Path) -> None:
    sizes = [1, 2]
    words = ["--producers", "1,2", "--meet", tmp_path, "--orders", 1, 70, "--repeat", 2, "--timeout", 40, "--job"]
    jobs: list[Job] = [(2, [*words, "consumer"], server)]
    jobs += [(size, [*words, number], server) for number, size in enumerate(sizes)]
    consumed, *produced = run_both(MANY_PRODUCERS, *jobs)
    assert [line.split("|")[1:3] for line in consumed.splitlines()[2:]] == [[f" {n} x {n} ", " 1,2 "] for n in (1, 70)]
    assert produced == [""] * len(sizes)
