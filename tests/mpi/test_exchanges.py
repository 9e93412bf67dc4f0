"""The exchanges' special ways on real ranks: pieces, few steps, the vote, links, shared memory and datatypes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from launch import SEED, run

PROGRAM = Path(__file__).parent / "programs" / "exchanges.py"


def long(*values: object) -> object:
    return pytest.param(*values, marks=pytest.mark.long)


def check(ranks: int, *arguments: object, nodes: str = "", links: object = None, folder: Path = Path()) -> None:
    """Run a part of the program, with links of a file whose content is text or what JSON makes of a dictionary."""
    env = {"PYSCALAPACK_REDIST_NODES": nodes} if nodes else {}
    if links is not None:
        (folder / "links.json").write_text(links if isinstance(links, str) else json.dumps(links))
        env["PYSCALAPACK_REDIST_LINKS"] = str(folder / "links.json")
    assert run(PROGRAM, ranks, *arguments, env=env).stdout == "OK\n"


def test_all_messages_are_under_way_on_slow_links(tmp_path: Path) -> None:
    check(4, "short_pieces", nodes="0,1,2,3", links={"latency": 1e-6, "rate": 6.25e6}, folder=tmp_path)


@pytest.mark.parametrize("exchange", ["windowed", "sendrecv"])
def test_one_rank_searches_for_the_steps_of_auto(exchange: str, tmp_path: Path) -> None:
    check(4, "one_search", exchange, nodes="0,1,2,3", links={"latency": 1e-6, "rate": 1e10}, folder=tmp_path)


@pytest.mark.parametrize("ranks", [1, 4, long(5), long(8)])
def test_messages_in_few_steps(ranks: int) -> None:
    check(ranks, "few_steps")


@pytest.mark.parametrize(
    ("ranks", "latency", "radix", "messages"),
    [(4, 1e-9, 2, 2), long(8, 1e-9, 2, 3), long(8, 5e-5, 3, 4), long(8, 1.0, 8, 7)],
)
def test_small_messages_travel_with_the_vote(
    ranks: int, latency: float, radix: int, messages: int, tmp_path: Path
) -> None:
    nodes, links = ",".join(map(str, range(ranks))), {"latency": latency, "rate": 1e9}
    check(ranks, "with_vote", radix, messages, nodes=nodes, links=links, folder=tmp_path)


@pytest.mark.parametrize(
    ("ranks", "nodes"), [(4, "0,0,0,1"), (4, "0,1,0,1"), long(4, "0,1,2,3"), long(8, "0,0,1,1,2,0,2,2")]
)
def test_votes_of_several_nodes(ranks: int, nodes: str) -> None:
    assert run(PROGRAM.with_name("votes.py"), ranks, 60, env={"PYSCALAPACK_REDIST_NODES": nodes}).stdout == "OK\n"


@pytest.mark.parametrize("nodes", ["", "0,0,1,1", "0,1,2,3"])
def test_dtypes_that_a_rank_does_not_know(nodes: str) -> None:
    exchanges = "auto,windowed,node-packed,shared,nonblocking,alltoallv", "auto,nonblocking,shared,node-packed"
    done = run(PROGRAM.with_name("unknown_dtypes.py"), 4, *exchanges, env={"PYSCALAPACK_REDIST_NODES": nodes} if nodes else {})
    assert done.stdout == "OK\n"


@pytest.mark.parametrize(
    ("nodes", "most"), [("0,0,1,1", 1), ("0,0,0,1", 1), ("0,1,0,2", 2), long("0,1,2,2,2,1,0,2", 2), long("0,1,2,3,4,5,6,6", 6)]
)
def test_one_message_from_node_to_node(nodes: str, most: int) -> None:
    check(len(nodes.split(",")), "packed", most, nodes=nodes)


def test_auto_packs_many_small_messages(tmp_path: Path) -> None:
    links = {"latency": 1e-5, "rate": 1e9}
    check(8, "chosen_if_faster", nodes="0,0,0,0,1,1,1,1", links=links, folder=tmp_path)


@pytest.mark.parametrize(("ranks", "calls"), [(2, 3), long(2, 12), long(3, 12)])
def test_chunks_in_the_cache_and_past_it(ranks: int, calls: int) -> None:
    check(ranks, "large_chunks", calls)


@pytest.mark.parametrize("nodes", ["0,0", "0,1"])
def test_ordinary_calls_are_timed(nodes: str) -> None:
    check(2, "last_run", nodes=nodes)


def test_cut_messages() -> None:
    check(4, "cut_messages")


def test_no_message_has_memory_that_was_not_written() -> None:
    check(4, "elements_alone", nodes="0,1,2,3")


@pytest.mark.parametrize(
    ("what", "links"), [("measured", None), ("file", {"latency": 0.5, "rate": 8000}), ("error", "fast")]
)
def test_links_between_nodes(what: str, links: object, tmp_path: Path) -> None:
    check(4, "links", what, nodes="0,0,1,1", links=links, folder=tmp_path)


def test_memory_that_ranks_share_or_may_not() -> None:
    check(4, "shared_memory")


@pytest.mark.parametrize("cases", [40, long(500)])
def test_datatypes_of_random_boxes(cases: int) -> None:
    check(1, "boxes", cases, SEED)
