"""The choice behind "auto"."""

from __future__ import annotations

import pytest

from pyscalapack_redist.comm.links import Links
from pyscalapack_redist.comm.log_steps import radix_for, work_of
from pyscalapack_redist.engine.choose import (
    FAST_PIECE,
    LARGEST_WINDOW,
    LONGEST_PIECE,
    MANY_PIECES,
    MOST_PIECES,
    SHORTEST_PIECE,
    SMALLEST_WINDOW,
    choose,
)
from pyscalapack_redist.engine.options import Options
from pyscalapack_redist.exchanges import Cutting, ExchangeOptions, Extents
from pyscalapack_redist.exchanges.collective import Bruck
from pyscalapack_redist.exchanges.pipeline import FEW, Nonblocking, SendReceive, Windowed
from pyscalapack_redist.schedules.layout_orders import Load


def links(latency: float, rate: float) -> Links:
    return Links(latency, rate, 2, "made up")


def test_what_was_asked_for_is_kept_and_nothing_else_waits_for_a_step() -> None:
    chosen = choose(Options(schedule="optimal", exchange="sendrecv"), None, links(1e-6, 1e9), 10**6, Load(16, 4))
    assert chosen[:3] == ("optimal", SendReceive, "as asked")
    assert choose(Options(exchange="alltoallv"), None).schedule == "natural"
    assert choose(Options(), None, links(1e-6, 1e9), 10**6)[:2] == ("caterpillar", Windowed)
    assert choose(Options(), None)[:2] == ("caterpillar", Nonblocking)


@pytest.mark.parametrize(
    ("rate", "piece"), [(6e6, SHORTEST_PIECE), (1e8, 50_000), (9e8, LONGEST_PIECE), (12e9, FAST_PIECE)]
)
def test_pieces_are_short_where_the_wire_is_slow_and_overlap_with_packing_where_it_is_fast(
    rate: float, piece: int
) -> None:
    chosen = choose(Options(), None, links(1e-6, rate), 10**9, Load(4, 2))
    assert (chosen.cutting.nbytes, chosen.cutting.spread) == (piece, rate < 1e9)


@pytest.mark.parametrize(("messages", "each"), [(0, FEW), (1, FEW), (5, 3), (8, 2), (15, 1), (1000, 1)])
def test_all_messages_are_under_way_at_once_on_slow_links(messages: int, each: int) -> None:
    options = ExchangeOptions(2**26, extents=Extents(messages), cutting=Cutting(SHORTEST_PIECE, MANY_PIECES, spread=True))
    assert Windowed.pieces_per_peer(options) == each
    assert Windowed.pieces_per_peer(options._replace(cutting=options.cutting._replace(spread=False))) is None
    assert Windowed.in_flight(options, SHORTEST_PIECE) == (MANY_PIECES, MANY_PIECES)
    assert Windowed.in_flight(options._replace(memory_limit=10 * SHORTEST_PIECE), SHORTEST_PIECE) == (5, 5)


def test_the_window_holds_what_a_link_does() -> None:
    def window(latency: float, rate: float, elements: int, before: int, after: int) -> int | None:
        load = Load(before * after, min(before, after))
        chosen = choose(Options(exchange="windowed"), None, links(latency, rate), elements, load)
        return chosen.cutting.window

    assert window(1e-6, 1e9, 10**8, 2, 2) == SMALLEST_WINDOW
    assert window(1e-3, 1e9, 10**6, 8, 10) == LARGEST_WINDOW  # 2 MB under way in messages of 100 kB
    assert window(1e-3, 1e9, 8 * 10**6, 10, 32) == 10  # 2 MB under way in messages of 200 kB
    assert window(1e-3, 1e9, 0, 4, 4) == LARGEST_WINDOW  # an empty array
    assert window(1e-6, 1e8, 10**8, 2, 2) == MANY_PIECES
    assert window(1e-3, 5e8, 10**8, 2, 2) == 17  # 1 MB under way in pieces of 60 kB
    assert window(1e-2, 9e8, 10**8, 2, 2) == MOST_PIECES


@pytest.mark.parametrize(
    ("elements", "load", "order", "reason"),
    [
        (10**7, Load(17 * 17, 17), "stepwise", "fewest steps"),
        (10**2, Load(17 * 17, 17), "caterpillar", "less time than the start of a message"),
        (10**7, Load(16 * 17, 17), "caterpillar", "some 16, are in flight at once"),
        (10**9, Load(257**2, 257, whole=False, searchable=False), "ring", "66,049 messages are too many for a search"),
    ],
)
def test_steps_are_searched_for_where_they_count(elements: int, load: Load, order: str, reason: str) -> None:
    chosen = choose(Options(), None, links(1e-5, 1e8), elements, load)
    assert chosen.schedule == order
    assert reason in chosen.why


def test_few_messages_where_they_are_quick_and_few_steps_where_they_are_slow() -> None:
    assert [radix_for(16, latency) for latency in (0.0, 1e-6, 1e-4, 1e-3)] == [2, 2, 4, 16]
    assert radix_for(1, 1.0) == 2
    assert work_of(16, 2) == (4, 4, 32, 8)
    assert work_of(16, 16) == (1, 15, 15, 1)
    assert work_of(10, 4)[:2] == (2, 3 + 2)
    assert radix_for(1000, 1.0) == 32


def test_messages_go_through_others_where_their_start_costs_more_than_their_bytes() -> None:
    def pays(messages: int, elements: int, rate: float, radix: int = 2, ranks: int = 16) -> bool:
        extents = Extents(messages, elements)
        return Bruck.is_faster(ExchangeOptions(2**26, extents=extents, item=8, ranks=ranks, radix=radix), links(1e-5, rate))

    assert pays(15, 10, 1e9)
    assert not pays(15, 10, 5e5)  # 3.1 kB in place of 1.2 take 3.7 ms more, the starts of 15 messages 2.3
    assert not pays(1, 400, 1e9)  # 15 starts are saved by nobody who has one message
    assert not pays(15, 600, 1e12)  # more than fits into the messages of a vote
    assert not pays(0, 0, 1e9)
    assert pays(2, 100, 1e6, radix=16)  # straight away, with a vote that goes to all


@pytest.mark.parametrize(("nbytes", "piece"), [(10**6, 16_000), (500_001, 8001), (250_000, 4000), (10, 4000)])
def test_messages_that_share_the_links_end_together(nbytes: int, piece: int) -> None:
    options = ExchangeOptions(2**26, extents=Extents(elements=125_000), item=8, cutting=Cutting(SHORTEST_PIECE, spread=True))
    assert Windowed.piece_bytes(options, nbytes) == piece
    one_by_one = options._replace(cutting=Cutting(SHORTEST_PIECE))
    assert Windowed.piece_bytes(one_by_one, nbytes) == SHORTEST_PIECE
    assert Windowed.piece_bytes(options._replace(memory_limit=2), nbytes) == 1
    assert Windowed.piece_bytes(options._replace(extents=Extents(elements=8000)), nbytes) == SHORTEST_PIECE
