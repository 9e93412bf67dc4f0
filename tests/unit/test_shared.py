"""The shared exchange on paper: what it says it needs is enough for what it makes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pyscalapack_redist._kernels.boxes import Box
from pyscalapack_redist._kernels.bundle import Bundle
from pyscalapack_redist._kernels.ring import Ring, bytes_needed
from pyscalapack_redist._kernels.runs import Runs
from pyscalapack_redist.exchanges import ByteMessage, Extents, Form, Options
from pyscalapack_redist.exchanges.shared import Shared


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
        return Shared(sends, [], Bundle([], ""), Options(limit, extents=extents, item=item), node)

    least = shared(1).staging_bytes
    exchange = shared(least)
    assert exchange.by_mpi
    assert not exchange.goes_ahead
    assert exchange.staging_bytes <= least
    assert exchange.traffic is not None
    assert 2 * item <= exchange.traffic.bytes_used <= least - exchange.private_bytes
