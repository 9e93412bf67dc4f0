"""Votes and messages through the memory of a node, with threads in place of ranks; `ci/memory-order` has more of it."""

from __future__ import annotations

import pytest
import ring_in_threads


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_every_element_arrives(ranks: int) -> None:
    ring_in_threads.main(ranks, 25, seed=ranks)
