"""This package's redistribution, with a schedule and an exchange."""

from __future__ import annotations

from ...redistribution import redistribute
from ..stage import Stage
from .method import Method, Prepared

__all__ = ["Ours"]


class Ours(Method):
    """A plan of `redistribute`, made once and reused."""

    def __init__(self, name: str, schedule: str, exchange: str) -> None:
        self.name = name
        self.schedule, self.exchange = schedule, exchange

    def prepare(self, stage: Stage) -> Prepared:
        """Make the plan. Collective."""
        return _Planned(stage, self.schedule, self.exchange)


class _Planned(Prepared):
    def __init__(self, stage: Stage, schedule: str, exchange: str) -> None:
        super().__init__(stage)
        dtype = stage.case.dtype
        self._plan = redistribute(stage.desc_a, stage.desc_b, dtype=dtype, schedule=schedule, exchange=exchange)
        self.extra_bytes = self._plan.report(dtype).extra_bytes

    def __call__(self) -> None:
        self._plan(self.stage.a, self.stage.out)
