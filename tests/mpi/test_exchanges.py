"""The exchanges' special ways on real ranks: pieces, few steps, the vote, links, shared memory and datatypes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from launch import run

PROGRAMS = Path(__file__).parent / "programs"
SEED = int(os.environ.get("PYSCALAPACK_REDIST_SEED", "20260"))


def test_all_messages_are_under_way_on_slow_links(tmp_path: Path) -> None:
    links = tmp_path / "links.json"
    links.write_text(json.dumps({"latency": 1e-6, "rate": 6.25e6}))
    env = {"PYSCALAPACK_REDIST_NODES": "0,1,2,3", "PYSCALAPACK_REDIST_LINKS": str(links)}
    assert run(PROGRAMS / "short_pieces.py", 4, env=env).stdout == "OK\n"


@pytest.mark.parametrize("ranks", [1, 2, 5, 8])
def test_messages_in_few_steps(ranks: int) -> None:
    assert run(PROGRAMS / "log_steps.py", ranks).stdout == "OK\n"


@pytest.mark.parametrize(("latency", "radix", "messages"), [(1e-9, 2, 3), (5e-5, 3, 4), (1.0, 8, 7)])
def test_small_messages_travel_with_the_vote(latency: float, radix: int, messages: int, tmp_path: Path) -> None:
    links = tmp_path / "links.json"
    links.write_text(json.dumps({"latency": latency, "rate": 1e9}))
    env = {"PYSCALAPACK_REDIST_NODES": "0,1,2,3,4,5,6,7", "PYSCALAPACK_REDIST_LINKS": str(links)}
    assert run(PROGRAMS / "with_vote.py", 8, radix, messages, env=env).stdout == "OK\n"


@pytest.mark.parametrize("ranks", [2, 3])
def test_chunks_in_the_cache_and_past_it(ranks: int) -> None:
    assert run(PROGRAMS / "large_chunks.py", ranks, 12).stdout == "OK\n"


def test_cut_messages() -> None:
    assert run(PROGRAMS / "cut_messages.py", 4, timeout=120).stdout.endswith("OK\n")


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("measured", None),
        ("file", '{"latency": 0.5, "rate": 8000}'),
        ("error", '{"latency": 0.5}'),
        ("error", '{"latency": 0.5, "rate": -1}'),
        ("error", "fast"),
    ],
)
def test_links_between_nodes(what: str, text: str | None, tmp_path: Path) -> None:
    env = {"PYSCALAPACK_REDIST_NODES": "0,0,1,1"}
    if text is not None:
        (tmp_path / "links.json").write_text(text)
        env["PYSCALAPACK_REDIST_LINKS"] = str(tmp_path / "links.json")
    assert run(PROGRAMS / "links.py", 4, what, env=env).stdout == "OK\n"


@pytest.mark.parametrize("ranks", [2, 3])
def test_memory_that_ranks_share_or_may_not(ranks: int) -> None:
    assert run(PROGRAMS / "shared_memory.py", ranks).stdout == "OK\n"


def test_datatypes_of_random_boxes() -> None:
    assert run(PROGRAMS / "datatypes.py", 1, 500, SEED, timeout=120).stdout == "OK\n"
