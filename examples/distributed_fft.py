"""A three-dimensional FFT of an array spread over processes: transforms along local dimensions, redistributions between.

A dimension can be transformed where one process has all of it. *Slabs*: one dimension is spread over P processes, two
are local; one redistribution brings in the third. *Pencils*: two dimensions are spread over a grid of P x Q processes;
two redistributions, each within groups of P or of Q processes, bring in the other two. (Birkeland & Sorevik, 2007.)
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.fft
from numpy.typing import NDArray

import pyscalapack_redist as psr

__all__ = ["DistributedFFT", "Part"]

Axes = tuple[int | None, ...]
Local = NDArray[np.complex128]

# Grid dimension of each array dimension, one layout after another, and the dimensions transformed in each.
SLABS: list[tuple[Axes, tuple[int, ...]]] = [((0, None, None), (1, 2)), ((None, None, 0), (0,))]
PENCILS: list[tuple[Axes, tuple[int, ...]]] = [
    ((0, 1, None), (2,)),
    ((0, None, 1), (1,)),
    ((None, 0, 1), (0,)),
]


@dataclass(frozen=True)
class Part:
    """A step of the transform: along local dimensions, or from one layout to the next."""

    name: str
    dims: tuple[int, ...] = ()
    plan: psr.Redistribution | None = None

    def __call__(self, local: Local, inverse: bool = False) -> Local:
        """Do it to this rank's local array. Collective where it is a redistribution."""
        if self.plan is not None:
            moved = self.plan(local)
            assert moved is not None
            return moved
        if not local.size:
            return local
        transform = scipy.fft.ifftn if inverse else scipy.fft.fftn
        return np.asfortranarray(transform(local, axes=self.dims))


class DistributedFFT:
    """Forward and inverse transforms of one shape over one grid, with plans made once. Collective over the grid.

    Parameters
    ----------
    shape : tuple of int
        Global shape, three dimensions; none need be a multiple of anything.
    grid : psr.ProcessGrid
        All ranks of its communicator, in one dimension (slabs) or two (pencils).
    """

    def __init__(self, shape: tuple[int, ...], grid: psr.ProcessGrid) -> None:
        stages = SLABS if grid.ndim == 1 else PENCILS
        layouts = [psr.Descriptor(shape, None, grid, axes=axes) for axes, _ in stages]
        self.before, self.after = layouts[0], layouts[-1]
        plans, back = [], []
        for a, b in itertools.pairwise(layouts):
            plans.append(psr.redistribute(a, b, dtype=np.complex128))
            back.append(psr.redistribute(b, a, dtype=np.complex128))
        self._forward = list(_parts(stages, plans))
        self._inverse = list(_parts(stages[::-1], back[::-1]))

    @property
    def parts(self) -> list[Part]:
        """The steps of the forward transform, to be run one by one."""
        return self._forward

    def forward(self, local: Local) -> Local:
        """Local array of `before` to that of the spectrum, in the layout `after`. Collective."""
        for part in self._forward:
            local = part(local)
        return local

    def inverse(self, local: Local) -> Local:
        """Back from `after` to `before`. Collective."""
        for part in self._inverse:
            local = part(local, inverse=True)
        return local


def _parts(stages: list[tuple[Axes, tuple[int, ...]]], plans: list[psr.Redistribution]) -> Iterator[Part]:
    for number, (axes, dims) in enumerate(stages):
        yield Part("FFT along " + " and ".join(map(str, dims)), dims)
        if number < len(plans):
            spread, to = (
                "x".join(str(k) for k, axis in enumerate(axis_of) if axis is not None)
                for axis_of in (axes, stages[number + 1][0])
            )
            yield Part(f"{spread} -> {to}", plan=plans[number])
