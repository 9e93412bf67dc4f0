"""Random graphs of messages, of every kind that schedules are made for; hypothesis draws them."""

from __future__ import annotations

import numpy as np
from axes import random_pair
from hypothesis import strategies as st

from pyscalapack_redist.schedules import CommunicationGrid, LengthMatrix, between, whole

seeds = st.integers(0, 2**32)
sizes = st.integers(1, 9)
some_slices = st.builds(CommunicationGrid, sizes, sizes, sizes, sizes, st.none(), st.integers(-20, 20))
some_arrays = st.builds(
    CommunicationGrid, sizes, sizes, sizes, sizes, st.integers(0, 300), st.integers(-20, 20), st.integers(0, 20)
)
some_grids = some_slices | some_arrays
small_grids = st.builds(CommunicationGrid, *[st.integers(1, 4)] * 4)
some_wholes = st.tuples(small_grids, small_grids).map(
    lambda two: whole(two, np.eye(two[0].P * two[1].P, two[0].Q * two[1].Q, dtype=bool))
)


def random_matrix(seed: int, longest: int | None = None) -> LengthMatrix:
    """Of up to 8 x 8 processes, whose messages are of up to 1 to 343 elements, or of up to `longest`."""
    most = (1 + seed % 7) ** 3 if longest is None else longest + 1
    return LengthMatrix(np.random.default_rng(seed).integers(0, most, (1 + seed // 7 % 8, 1 + seed // 56 % 8)))


def random_lengths(seed: int, P: int, Q: int, longest: int) -> LengthMatrix:
    """At least one message."""
    lengths = np.random.default_rng(seed).integers(0, longest + 1, (P, Q))
    lengths[0, 0] = max(1, lengths[0, 0])
    return LengthMatrix(lengths)


some_matrices = seeds.map(random_matrix)
some_irregular = seeds.map(
    lambda seed: between(*(dealt.axis for dealt in random_pair(np.random.default_rng(seed), (True, bool(seed % 2)))))
)
