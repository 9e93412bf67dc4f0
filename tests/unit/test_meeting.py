"""Cards, locks and ports in files, between two processes; no MPI."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pyscalapack_redist.connection.rendezvous import Card, Hold, Watch, offer, take, wait_for
from pyscalapack_redist.errors import CollectiveError, ConnectError

# The other job: puts its card down for two ranks, prints a line, and does what it is told line by line.
OTHER = """
import sys
from pyscalapack_redist.connection.rendezvous import *
path, role = sys.argv[1:]
card = Card.write(path, role, {"ranks": 2})
holds = [Hold(card.path, rank) for rank in range(2)]
card.publish(path, role)
print(card.about["token"], flush=True)
for line in sys.stdin:
    exec(line)
    print("done", flush=True)
"""


@contextmanager
def other_job(path: Path, role: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", OTHER, str(path), role], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert len(process.stdout.readline()) == 17
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


def own_card(path: Path, role: str) -> Card:
    card = Card.write(str(path), role, {"ranks": 1})
    Hold(card.path, 0)
    card.publish(str(path), role)
    return card


def test_the_other_side_is_found_while_it_lives(tmp_path: Path) -> None:
    path = tmp_path / "m"
    with other_job(path, "accept"):
        card = wait_for(str(path), "connect", time.monotonic() + 5, 5)
        assert card.about["ranks"] == 2
        assert Card.read(str(path), "connect") is None
    assert Path(card.path).exists()
    assert Card.read(str(path), "accept") is None, "its process was killed: the card is stale"
    with pytest.raises(
        ConnectError, match=r"nobody came to .* within 0\.5 s: start the other job, which calls psr\.accept"
    ):
        wait_for(str(path), "connect", time.monotonic() + 0.2, 0.5)


def test_a_stale_card_is_replaced_and_a_live_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "m"
    refused = pytest.raises(ConnectError, match=r"another job waits in psr\.accept at .* already: use another path")
    with other_job(path, "accept"), refused:
        own_card(path, "accept")
    card = own_card(path, "accept")
    assert json.loads(Path(card.path).read_text())["token"] == card.about["token"]
    card.remove()
    assert [path.name for path in tmp_path.iterdir() if path.name == "m.accept"] == []


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_ends_is_missed(rank: int, tmp_path: Path) -> None:
    path = tmp_path / "m"
    with other_job(path, "connect") as process:
        watch = Watch(wait_for(str(path), "accept", time.monotonic() + 5, 5))
        assert watch.missing() is None
        watch()
        # Closing any opening of a file lets go of all locks that the process has on it: the other one is taken again.
        tell(process, f"holds[{rank}].close(); holds[{1 - rank}] = Hold(card.path, {1 - rank})")
        assert watch.missing() == rank
        with pytest.raises(
            CollectiveError, match=f"rank {rank} of the other side has ended: what it owed will not come"
        ):
            look_for_four_seconds(watch)


def test_the_port_is_taken_or_withdrawn_never_both(tmp_path: Path) -> None:
    path = tmp_path / "m"
    own = own_card(path, "accept")
    with other_job(path, "connect") as process:
        card = wait_for(str(path), "accept", time.monotonic() + 5, 5)
        watch = Watch(card)
        with pytest.raises(ConnectError, match=r"came to .* and left again"):
            offer(str(path), own, card, "port 1", watch, time.monotonic() + 0.2)
        assert not (tmp_path / "m.port").exists()
        (tmp_path / "m.port").write_text(json.dumps({"from": "some", "to": "others", "port": "stale"}))
        tell(process, "import threading, time; other = Card.read(path, 'accept')")
        tell(
            process,
            "threading.Thread(target=lambda: take(path, card, other, Watch(other), time.monotonic() + 5)).start()",
        )
        offer(str(path), own, card, "port 2", watch, time.monotonic() + 5)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["m.accept", "m.connect"]


def test_a_port_that_never_comes(tmp_path: Path) -> None:
    path = tmp_path / "m"
    own = own_card(path, "connect")
    with other_job(path, "accept"):
        card = wait_for(str(path), "connect", time.monotonic() + 5, 5)
        watch = Watch(card)
        with pytest.raises(ConnectError, match=r"came to .* and left again"):
            take(str(path), own, card, watch, time.monotonic() + 0.2)
    with pytest.raises(ConnectError, match=r"came to .* and left again"):  # its process has ended
        take(str(path), own, card, watch, time.monotonic() + 60)
