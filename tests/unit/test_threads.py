"""Threads that share one rank's large moves, and threads in place of ranks; a pool that comes and goes when it should."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import moves_in_threads
import numpy as np
import pytest
import ring_in_threads
from launch import SEED
from pool_threads import TASKS, pool_threads

from pyscalapack_redist import RedistributionError
from pyscalapack_redist._kernels import threads as pool
from pyscalapack_redist._kernels.boxes import Box
from pyscalapack_redist._kernels.bundle import Bundle, Origins
from pyscalapack_redist._kernels.runs import Runs
from pyscalapack_redist.comm.node import usable_cores
from pyscalapack_redist.exchanges import exchange as variable
from pyscalapack_redist.tools import info

needs_tasks = pytest.mark.skipif(not TASKS.exists(), reason="threads cannot be counted")
N = 1000  # bytes of a move that is shared

# What is run in processes of its own: moves on, and is alive when the interpreter ends.
PROGRAM = """
import os, threading
from pyscalapack_redist._kernels import threads as pool
from test_threads import copied
pool.use(3, 64)
assert copied()
"""


@pytest.fixture(autouse=True)
def one_thread_again() -> Iterator[None]:
    yield
    pool.use(1)
    if TASKS.exists():
        pool_threads(0)


def copied() -> bool:
    """Move bytes from one array to another, in pieces where there are threads; whether all have come."""
    row = Runs(*np.array([[0], [0], [N]]), N, N, N)
    bundle = Bundle([(0, Box([row]), (1,), (1,), (0,), 1, None)], "")
    a, b, origins = np.random.default_rng(0).integers(0, 255, N, np.uint8), np.zeros(N, np.uint8), Origins(1)
    origins.put(0, a.ctypes.data, b.ctypes.data)
    bundle.move(origins, 0, 0, N)
    return np.array_equal(a, b)


@pytest.mark.parametrize(
    ("threads", "callers", "moves"),
    [(1, 1, 20), (2, 1, 40), (3, 3, 40), (17, 2, 20), pytest.param(3, 3, 600, marks=pytest.mark.long)],
)
def test_the_same_bytes(threads: int, callers: int, moves: int) -> None:
    """Of large moves that threads share; `ci/memory-order` has more of it."""
    moves_in_threads.main(threads, callers, moves, seed=SEED + threads)


@pytest.mark.parametrize(("ranks", "plans"), [(1, 10), (2, 25), (3, 25), pytest.param(4, 400, marks=pytest.mark.long)])
def test_every_element_arrives(ranks: int, plans: int) -> None:
    """Through the memory of a node, with threads in place of ranks; `ci/memory-order` has more of it."""
    ring_in_threads.main(ranks, plans, seed=SEED + ranks)


@needs_tasks
def test_threads_are_made_by_the_first_large_move() -> None:
    pool.use(3, N)  # no move of less than 2 N bytes is shared
    assert copied()
    pool_threads(0)
    pool.use(3, N // 2)
    pool_threads(0)
    assert copied()
    made = pool_threads(2)
    assert copied()
    assert pool_threads(2) == made
    pool.use(1)
    pool_threads(0)
    assert copied()
    pool_threads(0)


@needs_tasks
def test_threads_sleep_between_moves_and_get_no_signals() -> None:
    """None is running, or ready to run, once it has found that there is nothing to do."""
    pool.use(4, 64)
    assert copied()
    for number in pool_threads(3):
        for _ in range(10_000):
            state = (TASKS / number / "stat").read_text().rpartition(")")[2].split()[0]
            if state == "S":
                break
            time.sleep(0.001)
        assert state == "S"
        blocked = (TASKS / number / "status").read_text().partition("SigBlk:")[2].split()[0]
        assert int(blocked, 16) & 1 << 1  # SIGINT


@pytest.mark.parametrize(("threads", "floor"), [(0, 1), (257, 1), (2, 0)])
def test_what_the_pool_refuses(threads: int, floor: int) -> None:
    with pytest.raises(ValueError, match=f"threads = {threads} must be 1 to 256, and floor = {floor} positive"):
        pool.use(threads, floor)


@pytest.mark.parametrize(
    "code",
    [
        # a forked process has threads of its own, though its parent's are gone, and ends as well
        "child = os.fork()\nassert copied() and copied()\n"
        "if child: assert os.waitpid(child, 0)[1] == 0, 'the child failed'",
        # while another thread has the threads, again and again
        "stop = []\n"
        "def go():\n"
        "    while not stop: copied()\n"
        "other = threading.Thread(target=go); other.start()\n"
        "for _ in range(10):\n"
        "    child = os.fork()\n"
        "    if not child: os._exit(not (copied() and copied()))\n"
        "    assert os.waitpid(child, 0)[1] == 0\n"
        "stop.append(1); other.join()",
        # a thread that Python does not wait for is at it when the interpreter ends
        "def go():\n    while True: copied()\nthreading.Thread(target=go, daemon=True).start()\nassert copied()",
        # a move after the pool has ended
        "import atexit\n"
        "atexit._clear()\n"
        "atexit.register(lambda: os._exit(3 * (not copied())))\n"
        "atexit.register(pool._end)",
    ],
    ids=["fork", "fork-while-moving", "daemon", "after-the-end"],
)
def test_a_process_ends_well(code: str) -> None:
    here = Path(__file__).parent
    paths = os.pathsep.join([str(here), str(here.parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PROGRAM + code],  # of forks among threads
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("text", "number"), [(None, 1), ("", 1), (" 16 ", 16), ("256", 256)])
def test_what_the_environment_asks_for(text: str | None, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(variable.VARIABLE, raising=False)
    if text is not None:
        monkeypatch.setenv(variable.VARIABLE, text)
    assert variable.read_thread_count() == number
    told = info._threads()
    assert f"threads of a rank's large moves: {number} (" in told
    assert ("may use" in told) == (number > len(usable_cores()))


@pytest.mark.parametrize("text", ["0", "257", "two", "1.5"])
def test_what_the_environment_must_not_ask_for(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable.VARIABLE, text)
    with pytest.raises(RedistributionError) as caught:
        variable.read_thread_count()
    for part in (
        f"{variable.VARIABLE}={text!r}",
        "1 to 256",
        "set it to the number of cores",
        "unset it for one thread",
    ):
        assert part in str(caught.value)
    assert info._threads() == f"not usable: {caught.value}"


def test_the_environment_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variable, "_prepared", False)
    monkeypatch.setenv(variable.VARIABLE, "3")
    variable.prepare()
    monkeypatch.setenv(variable.VARIABLE, "none")
    variable.prepare()
    assert pool.used() == 3
