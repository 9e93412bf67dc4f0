"""Traffic: what goes through a ring, with both ends in one process."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pyscalapack_redist._kernels.boxes import Box
from pyscalapack_redist._kernels.bundle import Bundle, Origins
from pyscalapack_redist._kernels.ring import Ring, bytes_needed
from pyscalapack_redist._kernels.runs import Runs
from pyscalapack_redist._kernels.stores import SizeClass, Stores, Trials
from pyscalapack_redist._kernels.transport import Traffic

PAIR = 16  # integers of a lane: its sender's line, then its receiver's
ORDINARY = Stores(0, False)
VOTES = 256  # integers that come before the lanes, for each rank: its votes
PUBLISHED, BASE, STRIDE, STEP, SLOTS, _, PACKING = range(7)


class Node:
    """Memory of some ranks with `area` bytes each, and what is in it."""

    def __init__(self, size: int, area: int) -> None:
        self.size, self.area = size, area
        self.memory = np.zeros(bytes_needed(size, area), np.uint8)
        self.rings = [Ring(self.memory, rank, size, area, 0) for rank in range(size)]

    def line(self, sender: int, receiver: int) -> NDArray[np.int64]:
        """The sender's line of a lane."""
        lanes = self.memory[: -self.size * self.area].view(np.int64)[self.size * VOTES :]
        return lanes[: self.size * self.size * PAIR].reshape(self.size, self.size, PAIR)[sender, receiver]

    def area_of(self, rank: int) -> NDArray[np.uint8]:
        """What a rank's chunks are in."""
        return self.memory[-self.size * self.area :].reshape(self.size, self.area)[rank]


def part_runs(x: int, y: int, n: int) -> Runs:
    """`n` elements in a row, from `x` on in the source and from `y` on in the target."""
    return Runs(*(np.array([number], np.int64) for number in (x, y, n)), x + n, y + n, n)


def begun(
    node: Node, out: Bundle, back: Bundle, source: NDArray[np.uint8], target: NDArray[np.uint8], **ways: int
) -> list[Traffic]:
    """Both ends of a message from rank 0 to rank 1."""
    traffics = [
        Traffic(node.rings[0], [(1, out)], [], [], stores=ORDINARY, shortest=-1, **ways),
        Traffic(node.rings[1], [], [(0, back)], [], stores=ORDINARY, shortest=-1, **ways),
    ]
    for traffic, addresses in zip(traffics, ((source.ctypes.data, 0), (0, target.ctypes.data)), strict=True):
        origins = Origins(1)
        origins.put(0, *addresses)
        traffic.begin(origins)
    return traffics


def test_a_message_of_enormous_size_goes_on_evenly() -> None:
    """One byte again and again, 2^60 times, in pieces of 16: no count of bytes passes 64 bits."""
    node = Node(2, 64)
    byte, came = np.array([7], np.uint8), np.zeros(1, np.uint8)
    box = Box([part_runs(0, 0, 2**20) for _ in range(3)])
    dense, still, order = (1, 2**20, 2**40), (0, 0, 0), (0, 1, 2)
    out = Bundle([(0, box, still, dense, order, 1, None)], "target")
    back = Bundle([(0, box, dense, still, order, 1, None)], "source")
    assert out.size == back.size == 2**60
    sender, receiver = begun(node, out, back, byte, came, limit=64, most_slots=4)
    line = node.line(0, 1)
    for k in range(1, 40):
        assert not sender.advance(False)
        assert not receiver.advance(False)
        assert line[PUBLISHED] == 4 * k
    assert came == byte


@pytest.mark.parametrize("slots", [1, 4])
@pytest.mark.parametrize("slow", [False, True])
def test_the_way_in_which_chunks_are_packed_faster_is_kept_to(slow: bool, slots: int) -> None:
    """By reading alone the two ways differ little here, or not at all."""
    chunk = 2**16
    node = Node(2, slots * chunk)
    numbers, came = np.zeros(chunk, np.uint8), np.zeros(chunk, np.uint8)
    box = Box([part_runs(0, 0, chunk), part_runs(0, 0, 2**20)])
    out = Bundle([(0, box, (1, 0), (1, chunk), (0, 1), 1, None)], "target")
    back = Bundle([(0, box, (1, chunk), (1, 0), (0, 1), 1, None)], "source")
    sender, receiver = begun(node, out, back, numbers, came, limit=slots * chunk, most_slots=slots)
    ways = []
    for k in range(400 // slots):
        numbers[:] = k % 251
        sender.advance(False)
        node.line(0, 1)[PACKING + slow] = 10**9  # ns for 32 KiB
        receiver.advance(False)
        assert (came == numbers).all()
        ways += node.rings[1].streams_by_rank()[:1]
    assert ways[len(ways) // 2 :].count(not slow) > 0.8 * len(ways) / 2


class Messages:
    """What rank 0 sends to ranks 1, 2, ...: arrays of one dimension, or rows of one matrix whose columns they share."""

    def __init__(self, items: list[list[int]], counts: list[list[int]], columns: int) -> None:
        self.items = items
        self.size = sum(i * n for pair in zip(items, counts, strict=True) for i, n in zip(*pair, strict=True))
        self.origins = Origins(1 if columns > 1 else sum(map(len, items)))
        self.packing: list[Bundle] = []
        self.unpacking: list[Bundle] = []
        lines, offset, number = self.size, 0, 0
        self.size *= columns
        self.source = np.random.default_rng(lines).integers(0, 255, (columns, lines), np.uint8)
        self.target = np.zeros_like(self.source)
        for some, numbers in zip(items, counts, strict=True):
            out, back = [], []
            for item, n in zip(some, numbers, strict=True):
                first = offset // item if columns > 1 else 0
                if columns == 1 or not offset:
                    self.origins.put(number, self.source[:, offset:].ctypes.data, self.target[:, offset:].ctypes.data)
                strided, dense, order = (item, lines), (item, item * n), (0, 1)
                away = Box([part_runs(first, 0, n), part_runs(0, 0, columns)])
                home = Box([part_runs(0, first, n), part_runs(0, 0, columns)])
                out.append((number, away, strided, dense, order, item, None))
                back.append((number, home, dense, strided, order, item, None))
                offset += item * n
                number += columns == 1
            self.packing.append(Bundle(out, "target"))
            self.unpacking.append(Bundle(back, "source"))

    def least(self) -> int:
        """Bytes that must suffice: of each message the largest element of all."""
        return len(self.items) * max(max(some) for some in self.items)


def check_slots(node: Node, traffic: Traffic, messages: Messages, limit: int) -> None:
    """Once the area is divided: slots that hold a piece each, apart from one another and within the limit."""
    ends = []
    for k, largest in enumerate(map(max, messages.items)):
        _, base, stride, step, slots = node.line(0, k + 1)[: SLOTS + 1].tolist()
        assert slots >= 1
        assert max(step, largest) <= stride
        ends += [(base + slot * stride, base + (slot + 1) * stride) for slot in range(slots)]
    ends.sort()
    assert ends[0][0] >= 0
    assert ends[-1][1] <= limit
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(ends))
    assert traffic.bytes_used == sum(end - start for start, end in ends) <= limit


def send_all(messages: Messages, limit: int, most_slots: int, shortest: int) -> None:
    n = len(messages.items)
    node = Node(n + 1, -(-limit // 64) * 64 + 64)
    node.area_of(0)[limit:] = 170
    ways: dict[str, Any] = {"limit": limit, "most_slots": most_slots, "stores": ORDINARY, "shortest": shortest}
    sender = Traffic(node.rings[0], list(enumerate(messages.packing, 1)), [], [], **ways)
    receivers = [Traffic(node.rings[k + 1], [], [(0, messages.unpacking[k])], [], **ways) for k in range(n)]
    running = [sender, *receivers]
    for traffic in running:
        traffic.begin(messages.origins)
    for _ in range(messages.size * n + 10):
        running = [traffic for traffic in running if not traffic.advance(False)]
        if sender in running:
            check_slots(node, sender, messages, limit)
        if not running:
            break
    assert not running
    assert (node.area_of(0)[limit:] == 170).all()
    assert np.array_equal(messages.target, messages.source)


@st.composite
def some_sends(draw: st.DrawFn) -> Messages:
    """To 1 to 5 ranks, elements of one size or of several, also within a message."""
    kinds = draw(st.lists(st.sampled_from([1, 2, 3, 8, 16, 24, 63, 64, 65, 130, 200]), min_size=1, max_size=3))
    to, columns = draw(st.integers(1, 5)), draw(st.sampled_from([1, 1, 7]))
    items = [draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=3)) for _ in range(to)]
    if columns > 1:
        items = [[kinds[0]]] * to
    return Messages(items, [[draw(st.integers(1, 40)) for _ in some] for some in items], columns)


@settings(max_examples=4 * settings.default.max_examples)
@given(some_sends(), st.one_of(st.integers(0, 3), st.integers(0, 5000)), st.integers(1, 5), st.sampled_from([-1, 0]))
def test_an_element_of_each_message_is_room_enough(
    messages: Messages, more: int, most_slots: int, shortest: int
) -> None:
    send_all(messages, messages.least() + more, most_slots, shortest)


@pytest.mark.parametrize(("item", "to"), [(1, 1), (64, 2), (191, 3), (4097, 3)])
def test_just_enough_room(item: int, to: int) -> None:
    messages = Messages([[item]] * to, [[5]] * to, 1)
    for more in (0, 1, 63, 64, 65):
        send_all(messages, messages.least() + more, 4, -1)
    with pytest.raises(ValueError, match=f"not enough for {to} messages with elements of {item}"):
        send_all(messages, messages.least() - 1, 4, -1)


@pytest.mark.parametrize("item", [1, 4, 8, 16])
@pytest.mark.parametrize(("rows", "columns"), [(256, 96), (200, 33), (128, 1000)])
def test_what_stays_crosses_the_lines_that_are_packed(item: int, rows: int, columns: int) -> None:
    """Blocks of 64 rows are sent and transposed in turn: packing fetches what stays, and writes none of it."""
    node = Node(2, 2**16)
    source = np.random.default_rng(rows).integers(0, 256, (columns, rows, item), np.uint8)
    sent = np.arange(rows) // 64 % 2 == 0
    target = np.full((rows - sent.sum() + 1, columns, item), 255, np.uint8)
    came = np.zeros((columns, sent.sum(), item), np.uint8)

    def blocks(first: int, count: int) -> Runs:
        return Runs(*(np.array([number], np.int64) for number in (first, 0, 64)), 128, 64, count)

    lines = part_runs(0, 0, columns)
    strided, order = (item, item * rows), (0, 1)
    away = Box([blocks(0, came.shape[1]), lines])
    stays = Box([blocks(64, rows - came.shape[1]), lines])
    whole = Box([part_runs(0, 0, came.shape[1]), lines])
    dense = (item, item * came.shape[1])
    out = Bundle([(0, away, strided, None, order, item, None)], "target")
    back = Bundle([(0, whole, None, dense, order, item, None)], "source")
    kept = Bundle([(0, stays, strided, (item * columns, item), order, item, None)], "")
    stores = [Stores(1, True, Trials(SizeClass())) for _ in range(2)]
    ways: dict[str, Any] = {"limit": 2**16, "most_slots": 4, "shortest": 0}
    ends = [
        Traffic(node.rings[0], [(1, out)], [], [kept], stores=stores[0], **ways),
        Traffic(node.rings[1], [], [(0, back)], [], stores=stores[1], **ways),
    ]
    origins = [Origins(1), Origins(1)]
    origins[0].put(0, source.ctypes.data, target.ctypes.data)
    origins[1].put(0, 0, came.ctypes.data)
    kinds = set()
    for _ in range(14):  # the tenth to the thirteenth write in the other way
        running = ends
        target[:], came[:] = 255, 0
        for traffic, begins in zip(running, origins, strict=True):
            traffic.begin(begins)
            kinds.add(traffic.stores.past)
        for _ in range(came.nbytes + target.nbytes):
            running = [traffic for traffic in running if not traffic.advance(False)]
            if not running:
                break
        assert not running
        assert np.array_equal(came, source[:, sent])
        assert np.array_equal(target[:-1], source[:, ~sent].transpose(1, 0, 2))
        assert (target[-1] == 255).all()
    assert kinds == {False, True}
