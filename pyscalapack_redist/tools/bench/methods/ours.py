"""This package's redistribution, with a schedule, an exchange and buffers."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence

from ....engine.redistribute import MEMORY_LIMIT, redistribute
from ..stage import Stage
from .method import Anew, Method, Prepared

__all__ = ["Ours"]

# Plans are kept with the communicator, by all that was asked for. Asked for with a memory limit of a byte less than the last
# time, a plan is made anew, by nothing but what users have. The limits come again after more plans than are kept.
LIMITS = 4096
_limits = itertools.cycle(range(MEMORY_LIMIT - 1, MEMORY_LIMIT - 1 - LIMITS, -1))


class Ours(Method):
    """A plan of `redistribute`, made once and reused; its name is "auto" or SCHEDULE/EXCHANGE[/BUFFERS].

    The next of the memory limits is asked for with each plan: the same on all ranks.
    """

    def __init__(self, name: str, memory_limits: Iterator[int] | None = None) -> None:
        self.name = name
        parts = ("auto", "auto", "packed") if name == "auto" else (*name.split("/"), "packed")[:3]
        self._asked = parts
        self._memory_limits = memory_limits or itertools.repeat(MEMORY_LIMIT)

    def anew(self) -> Method:
        """The same with a plan that is made, used once and timed in each call. Not collective."""
        return Anew(Ours(self.name, _limits))

    def prepare(self, stage: Stage) -> Prepared:
        """Make the plan. Collective."""
        return _Planned(stage, self._asked, next(self._memory_limits))


class _Planned(Prepared):
    def __init__(self, stage: Stage, asked: Sequence[str], memory_limit: int) -> None:
        super().__init__(stage)
        schedule, exchange, buffers = asked
        self._plan = redistribute(
            stage.desc_a,
            stage.desc_b,
            dtype=stage.case.dtype,
            schedule=schedule,
            exchange=exchange,
            buffers=buffers,
            memory_limit=memory_limit,
        )

    @functools.cached_property
    def extra_bytes(self) -> int | None:  # type: ignore[override]
        size: int = self._plan.report(self.stage.case.dtype).extra_bytes
        return size

    def __call__(self) -> None:
        self._plan(self.stage.a, self.stage.out)

    def profile(self) -> Mapping[str, float]:
        seconds: Mapping[str, float] = self._plan.profile(self.stage.a, self.stage.out).seconds
        return seconds
