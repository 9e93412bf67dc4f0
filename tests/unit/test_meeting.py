"""Rendezvous files of two processes: locks, ports, and the owners of the files; no MPI."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from pyscalapack_redist.connection import connect
from pyscalapack_redist.connection.connect import _checked
from pyscalapack_redist.connection.rendezvous import (
    RankLock,
    RendezvousFile,
    Watch,
    accept_port,
    check_directory,
    offer_port,
    open_own_file,
    wait_for,
)
from pyscalapack_redist.errors import CollectiveError, ConnectError

PATHS = "", b"", "there/", 3, None, "a\0b"
STRANGER = 65_533  # another user
AS_ANOTHER_USER = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")

SOON = 30.0  # seconds, for what comes at once where the machine is not busy
LONG = 10_000.0  # seconds, which no test may take

# The other job: publishes its file for two ranks, prints a line, and executes each line that it reads.
OTHER = """
import os, sys, time, threading
from pyscalapack_redist.connection.rendezvous import *
path, role = sys.argv[1:]
SOON = 30.0
own = RendezvousFile.write(path, role, {"ranks": 2})
locks = [RankLock(own.path, rank) for rank in range(2)]
own.publish(path, role, time.monotonic() + SOON)
print("published", flush=True)
for line in sys.stdin:
    exec(line)
    print("done", flush=True)
"""

# Before that: after opening a file of psr.accept it makes a file `opened`, and waits for a file `go`.
SLOW = """
import os, pathlib, time
open_now = os.open
def slow_open(path, *how):
    opened = open_now(path, *how)
    if str(path).endswith("m.accept"):
        pathlib.Path(there, "opened").touch()
        while not os.path.exists(there + "/go"):
            time.sleep(0.01)
    return opened
os.open = slow_open
"""


@contextmanager
def other_job(path: Path, role: str) -> Iterator[subprocess.Popen[str]]:
    line = [sys.executable, "-c", OTHER, str(path), role]
    process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "published\n"
        yield process
    finally:
        process.kill()
        process.wait()


def tell(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()
    assert process.stdout.readline() == "done\n"


def look_for_four_seconds(watch: Watch) -> None:
    for _ in range(400):
        watch()
        time.sleep(0.01)


def own_file(path: Path, role: str) -> tuple[RendezvousFile, RankLock]:
    own = RendezvousFile.write(str(path), role, {"ranks": 1})
    lock = RankLock(own.path, 0)
    own.publish(str(path), role, time.monotonic() + SOON)
    return own, lock


NOBODY = r"no other job at .* within 0\.5 s: start the other job, which calls psr\.accept"
LEFT = r"the other job was at .* but gave up or ended"
OCCUPIED = r"another job already waits in psr\.accept at .*: use another path"


def test_a_file_is_found_while_its_job_lives_and_replaced_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "m"
    with other_job(path, "accept"):
        file = wait_for(str(path), "connect", time.monotonic() + SOON, SOON)
        assert file.about["ranks"] == 2
        assert RendezvousFile.read(str(path), "connect") is None
        with pytest.raises(ConnectError, match=OCCUPIED):
            own_file(path, "accept")
        (tmp_path / "there").mkdir()
        os.link(f"{path}.accept", tmp_path / "there" / "m.accept")
        assert RendezvousFile.read(str(tmp_path / "there" / "m"), "accept") is None, (
            "a hard link to a file elsewhere is none"
        )
    assert Path(file.path).exists()
    assert RendezvousFile.read(str(path), "accept") is None, "its process was killed: the file is stale"
    with pytest.raises(ConnectError, match=NOBODY):
        wait_for(str(path), "connect", time.monotonic() + 0.1, 0.5)
    file, _ = own_file(path, "accept")
    assert json.loads(Path(file.path).read_text()) == {"ranks": 1, "secret": file.secret.hex()}
    assert os.stat(file.path).st_mode & 0o777 == 0o600, "it is for its user only"
    assert len(file.secret) == 32
    assert file.secret.hex()[:16] not in file.path, "the name does not have the secret"
    file.remove()
    assert not (tmp_path / "m.accept").exists()


def test_a_rank_that_ends_is_missed(tmp_path: Path) -> None:
    path = tmp_path / "m"
    with other_job(path, "connect") as process:
        watch = Watch(wait_for(str(path), "accept", time.monotonic() + SOON, SOON))
        assert watch.ended_rank() is None
        watch()
        # Closing any opening of a file lets go of all locks that the process has on it: the other one is taken again.
        tell(process, "locks[1].close(); locks[0] = RankLock(own.path, 0)")
        assert watch.ended_rank() == 1
        with pytest.raises(CollectiveError, match=r"^remote rank 1 exited$"):
            look_for_four_seconds(watch)


def test_the_port_is_accepted_or_withdrawn_never_both(tmp_path: Path) -> None:
    path = tmp_path / "m"
    _, lock = own_file(path, "accept")
    with other_job(path, "connect") as process:
        other = wait_for(str(path), "accept", time.monotonic() + SOON, SOON)
        watch = Watch(other)
        tell(process, "watch = Watch(RendezvousFile.read(path, 'accept'))")
        with pytest.raises(ConnectError, match=LEFT):
            offer_port(str(path), lock, other, "port 1", watch, time.monotonic() + 0.2)
        tell(process, "assert watch.accept_port(own) is None, 'the port was withdrawn'")
        lock.close()
        tell(process, "assert watch.accept_port(own) is None, 'and whoever withdrew it has gone'; watch.close()")
        _, lock = own_file(path, "accept")
        tell(process, "watch = Watch(RendezvousFile.read(path, 'accept'))")
        tell(process, "def take_it(): ports.append(accept_port(path, own, watch, time.monotonic() + SOON))")
        tell(process, "ports = []; taking = threading.Thread(target=take_it); taking.start()")
        offer_port(str(path), lock, other, "port 2", watch, time.monotonic() + SOON)
        assert not lock.withdraw_port(), "it was accepted"
        tell(process, "taking.join(); assert ports == ['port 2']")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["m.accept", "m.connect"]


def test_a_port_that_never_comes_or_is_for_another(tmp_path: Path) -> None:
    path = tmp_path / "m"
    own, _ = own_file(path, "connect")
    with other_job(path, "accept") as process:
        watch = Watch(wait_for(str(path), "connect", time.monotonic() + SOON, SOON))
        with pytest.raises(ConnectError, match=LEFT):
            accept_port(str(path), own, watch, time.monotonic() + 0.1)
        tell(process, "locks[0].add_line({'to': bytes(32).hex(), 'port': 'for another'})")
        assert watch.accept_port(own) is None
    with pytest.raises(ConnectError, match=LEFT):  # its process has ended
        accept_port(str(path), own, watch, time.monotonic() + 60)


def make_link_to_a_file(place: Path) -> None:
    other = place.parent / "another"
    file, lock = own_file(other, place.suffix[1:])
    LOCKS.append(lock)  # until this process ends
    place.symlink_to(file.path)


def make_device(place: Path) -> None:
    os.mknod(place, 0o20600, os.makedev(1, 5))  # /dev/zero


LOCKS: list[RankLock] = []


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (make_link_to_a_file, "is a symbolic link"),
        (os.mkfifo, "is not a regular file"),
        (os.mkdir, "is not a regular file"),
        pytest.param(make_device, "is not a regular file", marks=AS_ANOTHER_USER),
    ],
)
def test_what_is_no_file_is_refused_at_once(make: Any, what: str, tmp_path: Path) -> None:
    path = tmp_path / "m"
    for role in ("accept", "connect"):
        make(tmp_path / f"m.{role}")
    with pytest.raises(ConnectError, match=f"{re.escape(str(path))}.accept {what}: remove it"):
        wait_for(str(path), "connect", time.monotonic() + LONG, LONG)
    with pytest.raises(ConnectError, match=f"{re.escape(str(path))}.connect {what}: remove it"):
        own_file(path, "connect")


CONTENTS = [
    (b"", "not a file of psr.accept or psr.connect"),
    (b"[1, 2]\n", "not a file of psr.accept or psr.connect"),
    (b"{}\n", "'secret'"),
    (b'{"ranks": 1, "secret": 7}\n', "cannot read"),
    (b"\x80\x04N.\n", "cannot read"),  # a pickle
]


def test_the_content_of_a_file_is_checked(tmp_path: Path) -> None:
    with other_job(tmp_path / "m", "accept"):
        for content, what in CONTENTS:
            (tmp_path / "m.accept").write_bytes(content)
            with pytest.raises(ConnectError, match=what):
                RendezvousFile.read(str(tmp_path / "m"), "accept")


@contextmanager
def slow_job(path: Path, before: str) -> Iterator[subprocess.Popen[str]]:
    """The other job, with some code before it, beside a stale file."""
    with other_job(path, "accept"):
        pass
    line, pipe = [sys.executable, "-c", before + OTHER, str(path), "accept"], subprocess.PIPE
    process = subprocess.Popen(line, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.long
def test_two_jobs_that_find_one_stale_file(tmp_path: Path) -> None:
    """The second comes between the moment when the first sees that a file is stale and the moment when it removes it."""
    path = tmp_path / "m"
    slow = "import os, time; remove = os.unlink; os.unlink = lambda path: (time.sleep(0.5), remove(path))\n"
    with slow_job(path, slow) as first:
        while not list(tmp_path.glob("m.accept.*")):
            time.sleep(0.01)
        time.sleep(0.2)
        with pytest.raises(ConnectError, match=OCCUPIED):
            own_file(path, "accept")
        assert first.stdout is not None
        assert first.stdout.readline() == "published\n"
        assert RendezvousFile.read(str(path), "accept") is not None


def test_a_file_that_has_been_replaced_is_not_removed(tmp_path: Path) -> None:
    """The first has opened a stale file; the second replaces it before the first locks it."""
    path = tmp_path / "m"
    with slow_job(path, f"there = {str(tmp_path)!r}\n" + SLOW) as first:
        while not (tmp_path / "opened").exists():
            time.sleep(0.01)
        file, _lock = own_file(path, "accept")
        (tmp_path / "go").touch()
        printed, errors = first.communicate(timeout=SOON)
        assert printed == ""
        assert "another job already waits in psr.accept" in errors
        assert (tmp_path / "m.accept").samefile(file.path)


@pytest.mark.parametrize("mode", [0o700, 0o1777, 0o770, 0o707])
def test_a_directory_in_which_others_may_write(mode: int, tmp_path: Path) -> None:
    os.chmod(tmp_path, mode)
    if mode in (0o700, 0o1777):  # nobody else may, or may replace what is another's
        check_directory(str(tmp_path))
        return
    words = f"others may write to the directory {tmp_path} (mode {mode:04o}) and replace what is in it: use a directory"
    with pytest.raises(ConnectError, match=re.escape(words)):
        check_directory(str(tmp_path))


def test_the_files_of_another_user_are_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, user = tmp_path / "m.accept", os.geteuid()
    place.write_text("{}")
    monkeypatch.setattr(os, "geteuid", lambda: user + 4321)
    with pytest.raises(ConnectError, match=rf"belongs to user {user}, not to user {user + 4321}: use a directory"):
        open_own_file(str(place))


@AS_ANOTHER_USER
def test_a_strangers_file_and_directory_are_refused_at_once(tmp_path: Path) -> None:
    """Root may read and write them, so nothing but the check is in the way."""
    path = tmp_path / "m"
    with other_job(path, "accept"):
        os.chown(tmp_path / "m.accept", STRANGER, -1)
        with pytest.raises(ConnectError, match=f"m.accept belongs to user {STRANGER}, not to user 0"):
            wait_for(str(path), "connect", time.monotonic() + 30, 30)
    with pytest.raises(ConnectError, match=f"m.accept belongs to user {STRANGER}, not to user 0"):
        own_file(path, "accept")  # a stale one
    assert (tmp_path / "m.accept").exists()
    os.chown(tmp_path, STRANGER, -1)
    with pytest.raises(ConnectError, match=f"the directory {tmp_path} belongs to user {STRANGER}: use a directory of"):
        check_directory(str(tmp_path))


@pytest.mark.parametrize(
    ("mpi", "ranks", "says"),
    [("MPICH Version: 5.0", 1, True), ("MPICH Version: 5.0", 2, False), ("Open MPI", 1, False)],
)
def test_two_processes_that_mpich_cannot_tell_apart(
    mpi: str, ranks: int, says: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "MPI", Mock(Exception=OSError))
    comm = Mock(**{"Get_rank.return_value": 0, "Get_size.return_value": 1, "Accept.side_effect": OSError("no group")})
    with pytest.raises(ConnectError, match=r"^MPI cannot join the jobs.*: no group$") as caught:
        connect._Side(comm, "accept")._in_mpi("port", Mock(about={"mpi": mpi, "ranks": ranks}), Mock())
    assert ("such as two notebooks: start one of them by `mpiexec -n 1`" in str(caught.value)) == says


@pytest.mark.parametrize("path", PATHS)
def test_what_names_no_file(path: Any) -> None:
    with pytest.raises(ConnectError, match=re.escape(f"path = {path!r} must be the name of a file")):
        _checked(path, 1)
