"""What a group keeps from one redistribution to the next: plans, and staging memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Plans", "Staging"]

PLANS_KEPT = 32


class Plans(OrderedDict[Hashable, Any]):
    """Plans made, the most recently used last. All ranks keep and drop the same ones, since all make the same calls."""

    def keep(self, key: Hashable, plan: Any) -> None:
        """Keep a plan, and drop the one that was not used for longest where there are too many."""
        self[key] = plan
        self.move_to_end(key)
        while len(self) > PLANS_KEPT:
            self.popitem(last=False)


class Staging:
    """Staging memory that no transfer uses: the largest piece that one has put back."""

    def __init__(self) -> None:
        self._kept: NDArray[np.uint8] | None = None

    def take(self, size: int) -> NDArray[np.uint8]:
        """`size` bytes or more: what is kept, where that is large enough."""
        kept, self._kept = self._kept, None
        return kept if kept is not None and kept.nbytes >= size else np.empty(size, np.uint8)

    def put_back(self, memory: NDArray[np.uint8]) -> None:
        """Keep it for the next transfer, unless a larger piece is kept."""
        if self._kept is None or self._kept.nbytes < memory.nbytes:
            self._kept = memory
