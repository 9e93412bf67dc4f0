"""Bundles: boxes of several arrays as one run of bytes, cut anywhere; what a call asks of its arrays; products of shares."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyscalapack_redist._kernels.boxes import Box
from pyscalapack_redist._kernels.bundle import Bundle, Origins
from pyscalapack_redist._kernels.call import Kinds
from pyscalapack_redist._kernels.products import number_of, runs_of_all
from pyscalapack_redist._kernels.ring import Ring, bytes_needed
from pyscalapack_redist._kernels.runs import Runs
from pyscalapack_redist._kernels.stores import Stores
from pyscalapack_redist.exchanges import ByteMessage, ExchangeOptions, Extents, Form
from pyscalapack_redist.exchanges.shared import Shared

ITEMS = 1, 2, 3, 4, 7, 8, 16, 24  # bytes of an element


def row(start: int, step: int, count: int, dense: bool) -> Runs:
    """`count` elements from `start` in steps of `step`, to or from a dense buffer."""
    places, period = np.array([start], np.int64), start + step
    length, zero = np.array([1], np.int64), np.array([0], np.int64)
    return Runs(zero, places, length, 1, period, count) if dense else Runs(places, zero, length, period, 1, count)


@settings(max_examples=4 * settings.default.max_examples)
@given(st.integers(0, 2**32), st.integers(1, 60), st.integers(1, 60))
def test_any_pieces_bring_every_byte_over(seed: int, most_out: int, most_in: int) -> None:
    """Of several arrays of one dimension, whose elements lie apart."""
    rng = np.random.default_rng(seed)
    arrays, outs, parts_out, parts_in = [], [], [], []
    origins = Origins(6)
    for k in range(int(rng.integers(1, 7))):
        count, step, item = int(rng.integers(1, 41)), int(rng.integers(1, 4)), int(rng.choice(ITEMS))
        source, target = rng.integers(0, 256, (count * step, item), np.uint8), np.zeros((count * step, item), np.uint8)
        parts_out.append((k, Box([row(0, step, count, False)]), (item,), (item,), (0,), item, None))
        parts_in.append((k, Box([row(0, step, count, True)]), (item,), (item,), (0,), item, None))
        origins.put(k, source.ctypes.data, target.ctypes.data)
        arrays.append(source[::step])
        outs.append(target[::step])
    wanted = b"".join(array.tobytes() for array in arrays)
    packing, unpacking = Bundle(parts_out, "target"), Bundle(parts_in, "source")
    assert packing.size == unpacking.size == len(wanted)
    assert packing.largest_element == max(array.shape[1] for array in arrays)
    dense = np.zeros(packing.size, np.uint8)
    for bundle, most in ((packing, most_out), (unpacking, most_in)):
        place = 0
        while place < bundle.size:
            end = bundle.end_of_piece(place, most)
            assert place < end <= place + max(most, bundle.largest_element)
            bundle.move(origins, dense.ctypes.data + place, place, end)
            place = end
        assert dense.tobytes() == wanted
    assert b"".join(out.tobytes() for out in outs) == wanted


FOUR = Bundle([(1, Box([row(0, 1, 4, False)]), (8,), (8,), (0,), 8, None)], "target")


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: FOUR.move(Origins(1), 0, 0, 8), ValueError, "arrays number 1 are not among 1"),
        (lambda: FOUR.move(Origins(2), 0, 0, 40), ValueError, "bytes 0 to 40 are not in a bundle of 32"),
        (lambda: FOUR.end_of_piece(33, 1), ValueError, "byte 33 is not in a bundle of 32"),
        (lambda: Origins(2).put(2, 0, 0), ValueError, "pair 2 is not one of 2"),
        (lambda: Bundle([], "neither"), KeyError, "neither"),
        (lambda: runs_of_all([], "packt"), ValueError, "packt"),
        (lambda: number_of((1, 2), (3, 1, 4)), ValueError, "no coordinates"),
    ],
)
def test_what_does_not_fit_is_refused(call: Callable[[], object], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()


def test_arrays_of_known_kinds_are_taken_and_others_are_not() -> None:
    a, b, c = (np.zeros((4, 5), order="F") for _ in range(3))
    kinds = Kinds([a, None], [b, c], [None, lambda dtype: np.ones((4, 5), dtype, order="F")])
    memory = np.zeros(60)
    other = memory[:20].reshape(5, 4).T
    found = kinds.match([other, None], [b, None])
    assert found is not None
    assert found[0][0] is b
    assert found[0][1] is not None
    assert found[0][1].all()
    assert kinds.match([a, None], [a, None]) is None  # one array twice, and written
    assert kinds.match([other, None], [memory[19:39].reshape(5, 4).T, None]) is None
    assert kinds.match([other, None], [memory[20:40].reshape(5, 4).T, None]) is not None
    assert kinds.match([other, None], [b, memory[40:].reshape(5, 4).T]) is not None
    for wrong in (a.astype("f4"), np.zeros((4, 5)), np.zeros((5, 4), order="F"), None, [1.0]):
        assert kinds.match([wrong, None], [b, None]) is None
    assert kinds.match([a], [b]) is None


def test_arrays_that_were_given_together_before_are_taken_again() -> None:
    """The windows of one array overlap as far as addresses go; who made the kinds has looked closer."""
    whole = np.zeros((4, 8))
    left, right, a = whole[:, :4], whole[:, 4:], np.zeros((4, 4))
    kinds = Kinds([a, a], [left, right], [None, None])
    assert kinds.match([a, a], [left, right]) is not None
    assert kinds.match([a, a.copy()], [left, right]) is None


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((3, 1100), "f8"), ((70, 513), "D"), ((9, 512), "f4"), ((600, 5, 3), "i2"), ((2, 530, 4), "f8"), ((1, 700), "f8")],
)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_copies_whose_lines_cross_come_over_in_any_pieces(
    shape: tuple[int, ...], dtype: str, stream: bool, order: tuple[int, ...]
) -> None:
    """Their elements are numbered by panels: no piece leaves any out, or brings any twice."""
    rng = np.random.default_rng(len(shape))
    source = np.asfortranarray(rng.integers(1, 100, shape).astype(dtype))
    box = Box([row(0, 1, n, True) for n in shape])  # every place is its own number on both sides
    order = tuple(k for k in order if k < len(shape))
    smallest = source.itemsize if source.size < 10_000 else source.nbytes // 500
    for most in (smallest, 1000, 5000, 64 * 512 * source.itemsize, source.nbytes):
        target = np.zeros(shape, dtype)
        bundle = Bundle([(0, box, source.strides, target.strides, order, source.itemsize, None)], "")
        bundle.stores = Stores(0, stream)
        origins = Origins(1)
        origins.put(0, source.ctypes.data, target.ctypes.data)
        seen, place = np.zeros(shape, bool), 0
        while place < bundle.size:
            end = bundle.end_of_piece(place, most)
            before = target.copy()
            bundle.move(origins, 0, place, end)
            written = target != before
            assert not (written & seen).any()
            assert written.sum() * source.itemsize == end - place
            seen |= written
            place = end
        assert np.array_equal(target, source)


# -- what the shared exchange says that it needs


@pytest.mark.parametrize("item", [8, 64, 130, 200])
def test_what_is_said_to_suffice_suffices(item: int) -> None:
    """Two receivers on this node, one on another: more than half of a tight limit is for the two."""
    size, area, elements = 3, 1024, 5
    ring = Ring(bytearray(bytes_needed(size, area)), 0, size, area, 0)
    node: Any = SimpleNamespace(ring=ring, number={0: 0, 1: 1, 2: 2}, whole=False, size=size)
    box = Box([Runs(*np.array([[0], [0], [elements]]), elements, elements, elements)])
    bundle = Bundle([(0, box, (item,), (item,), (0,), item, None)], "target")
    form = Form(box, (item,), item, (0,))
    sends = [ByteMessage(peer, (0,), bundle, 0, bundle.size, form) for peer in (1, 2, 3)]
    extents = Extents(messages=len(sends), elements=elements, between=elements * size)

    def shared(limit: int) -> Shared:
        return Shared(sends, [], Bundle([], ""), ExchangeOptions(limit, extents=extents, item=item), node)

    least = shared(1).staging_bytes
    exchange = shared(least)
    assert exchange.by_mpi
    assert not exchange.sends_early
    assert exchange.staging_bytes <= least
    assert exchange.traffic is not None
    assert 2 * item <= exchange.traffic.bytes_used <= least - exchange.private_bytes
