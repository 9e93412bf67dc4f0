"""What the oracle has drawn, as the package takes it."""

from __future__ import annotations

from typing import Any

from oracle import Layout, balanced

from pyscalapack_redist import Blocks

__all__ = ["block_sizes"]


def block_sizes(layout: Layout) -> list[Any]:
    """Block sizes for a Descriptor; irregular ones that are numpy.array_split's, by their name."""
    dims = zip(layout.shape, layout.block, layout.processes, strict=True)
    return [
        block if isinstance(block, int) else "balanced" if block == balanced(n, p) else Blocks(*block)
        for n, block, p in dims
    ]
