"""Every routine of `psr.scalapack` for small matrices in blocks of all sizes, beside NumPy. Arguments: first case, stride.

On every grid of the ranks. Around each array that a routine takes there are NaNs, which it must neither change nor take; with
a third argument, "after-nans", there are also NaNs in the buffers of the BLAS.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from linalg_cases import RANK, SIZE, WORLD
from numpy.typing import NDArray
from routines import Operands, linear_systems, orthogonal, spectral

from pyscalapack_redist import ProcessGrid, scalapack
from pyscalapack_redist.scalapack import calls

ORDERS = [*range(1, 9), 13, 16, 17, 25, 26, 31, 32, 33, 40]
BLOCKS = [1, 2, 3, 5, 8, 16, 32, 33, 64, 128, 256]
MARGIN = 1024  # bytes


class Guarded(calls.FortranCall):
    """A call with its arrays in the midst of others."""

    def __init__(self, name: str, arguments: Sequence[Any], result: Any = None) -> None:
        self._arrays: list[tuple[NDArray[Any], NDArray[Any], NDArray[np.uint8]]] = []
        super().__init__(name, tuple(map(self._guarded, arguments)), result)

    def _guarded(self, argument: Any) -> Any:
        if not isinstance(argument, np.ndarray):
            return argument
        memory = np.full(argument.nbytes + 2 * MARGIN, 255, np.uint8)
        copy = memory[MARGIN:-MARGIN].view(argument.dtype)
        self._arrays.append((argument, copy, memory))
        return copy

    def __call__(self) -> Any:
        for array, copy, _ in self._arrays:
            copy[:] = array
        result = super().__call__()
        for array, copy, memory in self._arrays:
            array[:] = copy
            around = np.concatenate([memory[:MARGIN], memory[-MARGIN:]])
            assert (around == 255).all(), "it wrote outside of an array"
        return result


def leave_nans(x: Operands) -> None:
    """Multiply matrices of NaNs."""
    operands = [x.wrap(*x.local(np.full((40, 40), np.nan, x.dtype))) for _ in range(3)]
    scalapack.pxgemm(*operands[0], *operands[1], *operands[2])


def main(first: int, stride: int, before: Callable[[Operands], None]) -> None:
    calls.FortranCall = Guarded  # type: ignore[misc]
    shapes = [(rows, SIZE // rows) for rows in range(1, SIZE + 1) if SIZE % rows == 0]
    cases = list(enumerate(itertools.product(ORDERS, BLOCKS, shapes)))[first::stride]
    for number, (n, block, shape) in cases:
        with ProcessGrid(shape, WORLD) as grid:
            grid.make_context()
            x = Operands(grid, "fdFD"[(number + block) % 4], block=block)
            try:
                before(x)
                linear_systems(x, n)
                for m, k in ((n, n), (n, n // 2 + 1), (n // 2 + 1, n)):
                    before(x)
                    orthogonal(x, m, k)
                if n == 1 or n > block or SIZE == 1:
                    before(x)
                    spectral(x, n)
            except BaseException as error:
                error.add_note(f"n = {n}, block = {block}, {shape}, {x.dtype}")
                raise
    if RANK == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), leave_nans if sys.argv[3:] else lambda x: None)
