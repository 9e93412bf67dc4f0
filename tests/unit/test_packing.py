"""What the ranks of a node pack for other nodes: places, carriers, messages as all ranks see them, and the choice."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pyscalapack_redist._kernels.packing import DONE, PACKED, Packing, bytes_needed
from pyscalapack_redist.comm.node import PACKED_AREA, Node, Places
from pyscalapack_redist.exchanges import ExchangeOptions, Extents
from pyscalapack_redist.exchanges.node_packed import FEWEST, NodePacked

AREA = 512


def places_of(nodes: list[int]) -> Places:
    return Places.by(np.array([nodes.index(node) for node in nodes]))


@given(st.lists(st.integers(0, 4), min_size=1, max_size=12))
def test_places_and_carriers(nodes: list[int]) -> None:
    places = places_of(nodes)
    assert [nodes[rank] for rank in places.ranks] == sorted(nodes, key=nodes.index)
    assert places.ranks[places.of].tolist() == list(range(len(nodes)))
    assert sum(places.sizes) == len(nodes) == places.firsts[-1]
    for place, rank in enumerate(places.ranks):
        first, end = places.firsts[places.node_of(place) :][:2]
        assert {nodes[other] for other in places.ranks[first:end]} == {nodes[rank]}
    number = len(places.sizes)
    for own in range(number):
        carriers = [places.carrier(own, other) for other in range(number) if other != own]
        assert {places.node_of(places.of[carrier]) for carrier in carriers} <= {own}
        assert len(set(carriers)) == min(number - 1, places.sizes[own]), "the work is shared"


@given(st.lists(st.integers(0, 3), min_size=2, max_size=8), st.integers(0, 2**32 - 1))
def test_each_rank_finds_what_all_have_sent(nodes: list[int], seed: int) -> None:
    """Two runs of other lengths, in the order of the exchange: pack, gather, receive, locate."""
    places, size = places_of(nodes), len(nodes)
    number = len(places.sizes)
    memory = [np.zeros(bytes_needed(n, number, size, AREA), np.uint8) for n in places.sizes]
    ranks = [int(rank) for rank in places.ranks]
    views = []
    for place in range(size):
        node = places.node_of(place)
        own = place - int(places.firsts[node])
        views.append(Packing(memory[node], None, own, places.sizes[node], node, places.firsts, AREA))
    for run in (1, 2):
        lengths = np.random.default_rng([seed, run]).integers(0, AREA // size, (size, size))
        for p, q in itertools.product(range(size), repeat=2):
            if places.node_of(p) == places.node_of(q):
                lengths[p, q] = 0
        for p, view in enumerate(views):
            view.write_lengths(lengths[p].copy(), lengths[:, p].copy())
            packed = np.concatenate([content(run, p, q, int(lengths[p, q])) for q in range(size)])
            node = memory[places.node_of(p)]
            start = view.address - node.ctypes.data
            node[start : start + len(packed)] = packed
            assert not view.all_marked(PACKED, run) or p == places.firsts[places.node_of(p) + 1]
            view.mark(PACKED, run)
        assert all(view.all_marked(PACKED, run) and not view.all_marked(DONE, run) for view in views)
        for own, other in itertools.permutations(range(number), 2):
            sender, receiver = (views[places.of[places.carrier(*way)]] for way in ((own, other), (other, own)))
            (start, nbytes), (place, expected) = sender.gather(other), receiver.incoming(own)
            assert nbytes == expected
            memory[other][place : place + nbytes] = memory[own][start : start + nbytes]
            assert not receiver.has_arrived(own, run)
            receiver.mark_arrived(own, run)
        for q, view in enumerate(views):
            addresses, node = np.empty(size, np.int64), memory[places.node_of(q)]
            view.locate(addresses)
            for p in range(size):
                start = int(addresses[p]) - node.ctypes.data
                assert np.array_equal(node[start : start + lengths[p, q]], content(run, p, q, int(lengths[p, q])))
            view.mark(DONE, run)
    assert ranks


def content(run: int, p: int, q: int, nbytes: int) -> NDArray[np.uint8]:
    return np.random.default_rng([run, p, q]).integers(0, 256, nbytes).astype(np.uint8)


def test_memory_that_is_too_small() -> None:
    places = places_of([0, 0, 1])
    with pytest.raises(ValueError, match="are needed"):
        Packing(bytearray(100), None, 0, 2, 0, places.firsts, AREA)
    view = Packing(bytearray(bytes_needed(2, 2, 3, AREA)), None, 0, 2, 0, places.firsts, AREA)
    view.write_lengths(np.array([0, 0, 2 * AREA + 1]), np.zeros(3, np.int64))
    with pytest.raises(ValueError, match=f"{2 * AREA + 1} bytes do not fit"):
        view.gather(1)


def node_of(nodes: list[int], packs: bool = True) -> Any:
    node = object.__new__(Node)
    node.places, node.packing = places_of(nodes), None
    if packs:
        memory = bytearray(bytes_needed(nodes.count(0), len(set(nodes)), len(nodes), PACKED_AREA))
        node.packing = Packing(memory, None, 0, nodes.count(0), 0, node.places.firsts, PACKED_AREA)
    return node


def test_what_fits_and_what_is_faster() -> None:
    several, uneven = [k // 4 for k in range(16)], [0] * 7 + [1]

    def options(away: int, nbytes: int, item: int = 1, limit: int = 2**26) -> ExchangeOptions:
        return ExchangeOptions(limit, item=item, extents=Extents(away + 3, nbytes, between=nbytes, away=away))

    fits, pays = NodePacked.fits, NodePacked.is_faster
    assert fits(options(1, 4 * PACKED_AREA), node_of(several))
    assert not fits(options(1, 4 * PACKED_AREA + 1), node_of(several))
    assert not fits(options(1, PACKED_AREA // 2, 16), node_of(several))
    assert not fits(options(1, 6000, limit=35_999), node_of(several))
    assert fits(options(1, PACKED_AREA), node_of(uneven))
    assert not fits(options(1, PACKED_AREA + 1), node_of(uneven)), "a node of one rank gets all"
    assert not fits(options(1, 0), node_of(several))
    assert not fits(options(1, 100), node_of(several, packs=False))
    assert pays(options(12, 4 * PACKED_AREA), node_of(several))
    assert not pays(options(12, 4 * PACKED_AREA + 1), node_of(several))
    assert pays(options(FEWEST, 1000), node_of(several))
    assert not pays(options(FEWEST - 1, 1000), node_of(several))
    pairs = [k // 2 for k in range(16)]  # a rank carries four messages
    assert not pays(options(14, 1000), node_of(pairs))
