"""Random vectors of checks, equal on all ranks and in each call."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

VECTORS = 3
SEED = 20260


@functools.lru_cache(maxsize=16)
def gaussian(size: int, is_complex: bool, stream: int = 0) -> NDArray[Any]:
    """Random vectors, as columns of a read-only array, equal on all ranks and in each call."""
    rng = np.random.default_rng((SEED, stream))
    vectors: NDArray[Any] = rng.standard_normal((size, VECTORS))
    if is_complex:
        vectors = vectors + 1j * rng.standard_normal((size, VECTORS))
    vectors.flags.writeable = False
    return vectors
