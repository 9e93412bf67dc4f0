"""Between hosts: the same results over limited links, and what becomes of a run when a host goes.

What is asked of Open MPI here: it ends the job at once when a rank dies, and when a host cannot be reached any more as soon
as its connections to that host's daemon are found dead, which takes minutes unless it is told to look sooner.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import hosts
import launch
import pytest

pytestmark = pytest.mark.long
PROGRAMS = Path(__file__).parent / "programs"
PROGRAM = ("-m", "pyscalapack_redist")
SLEEPING = "from mpi4py import MPI; import time, pathlib; MPI.COMM_WORLD.Barrier(); pathlib.Path({!r}).touch(); time.sleep(999)"
# Seconds without a word from a daemon before it is asked, between questions, and questions before it is taken for dead.
SOON = {f"OMPI_MCA_oob_tcp_keepalive_{name}": value for name, value in (("time", "3"), ("intvl", "1"), ("probes", "3"))}


@pytest.fixture(autouse=True)
def _hosts() -> None:
    why = hosts.available()
    if why is not None:
        pytest.skip(f"no hosts can be made here: {why}")


def alive(mark: str) -> list[str]:
    """Processes with these words in their command line."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if mark.encode() in line and int(entry.name) != os.getpid():
            found.append(f"{entry.name}: {line!r}")
    return found


# -- the hosts themselves


def test_each_host_has_its_name_its_ranks_and_its_link() -> None:
    done = hosts.run(PROGRAMS / "on_hosts.py", 3, "seen", slots=2, rate="80mbit", slow={1: "8mbit"})
    seen = sorted(map(json.loads, done.stdout.splitlines()), key=lambda rank: rank["rank"])
    assert [rank["host"] for rank in seen] == ["host0", "host0", "host1", "host1", "host2", "host2"]
    assert [rank["processor"] for rank in seen] == [rank["host"] for rank in seen]
    assert [rank["ranks"] for rank in seen] == [2] * 6
    assert [" rate 8Mbit " in rank["queue"] for rank in seen] == [False, False, True, True, False, False]
    assert sum(" rate 80Mbit " in rank["queue"] for rank in seen) == 4
    assert all({"lo", "eth0"} <= set(rank["devices"]) for rank in seen)


def test_nothing_is_left_where_the_launcher_is_killed(tmp_path: Path) -> None:
    mark = uuid.uuid4().hex
    started = tmp_path / mark
    line = [sys.executable, hosts.__file__, "2", "--", "-c", SLEEPING.format(str(started))]
    process = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=hosts.environment())
    try:
        until = time.monotonic() + 60
        while not started.exists():
            assert process.poll() is None, f"it ended with status {process.returncode}"
            assert time.monotonic() < until, "it has not started"
            time.sleep(0.05)
        assert len(alive(mark)) > 2
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    until = time.monotonic() + 30
    while alive(mark) and time.monotonic() < until:
        time.sleep(0.05)
    assert alive(mark) == []


# -- the library on them


@pytest.mark.parametrize(("count", "slots"), [(4, 1), (2, 2)])
def test_random_cases(count: int, slots: int) -> None:
    done = hosts.run(PROGRAMS / "random_cases.py", count, 24, 20 + slots, slots=slots, rate="100mbit", timeout=150)
    assert json.loads(done.stdout)["use call"]


@pytest.mark.parametrize(
    ("count", "slots", "methods"), [(4, 1, ""), (2, 2, "auto,mpi-waitall,auto/nonblocking,pxgemr2d")]
)
def test_the_suite(tmp_path: Path, count: int, slots: int, methods: str) -> None:
    file, picture = tmp_path / "suite.json", tmp_path / "suite.png"
    options = ["--suite", "hosts", "--quick", "--repeat", 1, "--json", file, "--plot", picture]
    options += ["--methods", methods] if methods else ["--link-rate", "100mbit"]
    done = hosts.run(PROGRAM, count, "bench", *options, slots=slots, rate="100mbit", timeout=150)
    content = json.loads(file.read_text())
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert content["environment"]["host_of_rank"] == [rank // slots for rank in range(4)]
    assert content["environment"]["link_rate_origin"] == ("measured" if methods else "as given")
    assert content["environment"]["hosts"] == count
    assert all(method["verified"] for case in content["cases"] for method in case["methods"])
    assert done.stdout.count("| the links' limit ") == len(content["cases"]) > 4


# -- a host goes


@pytest.mark.parametrize(
    ("what", "env", "words"),
    [
        ("killed", {}, "on node host3 exited on signal 9"),
        ("cut", SOON, "ORTE has lost communication with a remote daemon"),
    ],
)
def test_a_host_that_goes_ends_the_job_as_soon_as_mpi_finds_out(
    what: str, env: dict[str, str], words: str, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    done = hosts.run(PROGRAMS / "on_hosts.py", 4, what, started, check=False, timeout=90, env=env)
    assert started.exists(), launch.told(done)
    assert "no error" not in done.stdout
    assert done.returncode != 0
    assert words in done.stderr
