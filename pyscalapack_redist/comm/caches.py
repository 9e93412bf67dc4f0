"""What a group keeps between calls: plans and a staging buffer."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_PLANS = 32


class Plans(OrderedDict[Hashable, Any]):
    """Cached plans, the most recently used last. All ranks make the same calls, so they cache the same plans."""

    def keep(self, key: Hashable, plan: Any) -> None:
        """Cache a plan; drop the least recently used one if there are too many."""
        self[key] = plan
        self.move_to_end(key)
        while len(self) > MOST_PLANS:
            self.popitem(last=False)


class Staging:
    """The largest staging buffer that no transfer uses at present."""

    def __init__(self) -> None:
        self._buffer: NDArray[np.uint8] | None = None

    def take(self, size: int, is_kept: bool = False) -> NDArray[np.uint8]:
        """Take the buffer, or make one if that is smaller than `size` bytes, or if a plan keeps it, which needs no more."""
        if is_kept:
            return np.empty(size, np.uint8)
        buffer, self._buffer = self._buffer, None
        return buffer if buffer is not None and buffer.nbytes >= size else np.empty(size, np.uint8)

    def put_back(self, buffer: NDArray[np.uint8]) -> None:
        """Keep a buffer for the next transfer, unless a larger one is here."""
        if self._buffer is None or self._buffer.nbytes < buffer.nbytes:
            self._buffer = buffer
