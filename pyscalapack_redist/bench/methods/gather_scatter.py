"""Gather the array on one rank, then scatter it from there: what programs do that have nothing better."""

from __future__ import annotations

import numpy as np

from ...descriptor import Descriptor
from ...grid import ProcessGrid
from ...redistribution import redistribute
from ..stage import Stage
from .method import Method, Prepared

__all__ = ["GatherScatter"]


class GatherScatter(Method):
    """Two plans of `redistribute`, to and from a grid of rank 0 alone, made once and reused."""

    name = "gather-scatter"

    def prepare(self, stage: Stage) -> Prepared:
        """Make both plans and, on rank 0, room for the whole array. Collective."""
        return _ThroughOne(stage)


class _ThroughOne(Prepared):
    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        case, comm = stage.case, stage.comm
        one = (1,) * len(case.shape)
        single = Descriptor(case.shape, None, ProcessGrid(one, comm, ranks=np.zeros(one, np.int64)))
        self._gather = redistribute(stage.desc_a, single, dtype=case.dtype)
        self._scatter = redistribute(single, stage.desc_b, dtype=case.dtype)
        self._whole = single.empty(case.dtype) if comm.Get_rank() == 0 else None
        staging = max(plan.report(case.dtype).extra_bytes for plan in (self._gather, self._scatter))
        self.extra_bytes = staging + (0 if self._whole is None else self._whole.nbytes)

    def __call__(self) -> None:
        self._gather(self.stage.a, self._whole)
        self._scatter(self._whole, self.stage.out)
