"""What a method of the comparison is, and this package's own: plans, made once and reused or made anew in each call."""

from __future__ import annotations

import functools
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ....engine.redistribute import redistribute
from ....exchanges.exchange import MEMORY_LIMIT
from ...cases import Case
from ..stage import Stage

__all__ = ["Method", "Planned", "Prepared", "planned"]

# Plans are kept with the communicator, by all that was asked for. Asked for with a memory limit of a byte less than the last
# time, a plan is made anew, by nothing but what users have. The limits come again after more plans than are kept.
LIMITS = 4096
_limits = itertools.cycle(range(MEMORY_LIMIT - 1, MEMORY_LIMIT - 1 - LIMITS, -1))


class Prepared(ABC):
    """A method ready to run one case.

    Attributes
    ----------
    extra_bytes : int or None
        Memory that a run takes beside the two local arrays on this rank; None where only a measurement can tell.
    """

    extra_bytes: int | None = None

    def __init__(self, stage: Stage) -> None:
        self.stage = stage

    @abstractmethod
    def __call__(self) -> None:
        """Run once. Collective over the processes of the case."""

    def poison(self) -> None:
        """Leave nothing correct in the output. Not collective."""
        self.stage.poison()

    def correct(self) -> bool:
        """Whether the output of the last run is right on this rank. Not collective."""
        return self.stage.correct()

    def profile(self) -> Mapping[str, float]:
        """Run once; seconds that this rank spent on each part, where the method can tell. Collective like a run."""
        return {}

    def forget(self) -> None:  # noqa: B027
        """Give back memory that earlier calls have left, so that what a call takes can be measured. Not collective."""

    def close(self) -> None:  # noqa: B027 (most have nothing to give back)
        """Give back what was made. Collective over the stage's communicator."""


@dataclass(frozen=True)
class Method:
    """A way of getting from one layout to the other.

    Attributes
    ----------
    name : str
        What the command line calls it.
    prepare : callable
        Makes all that is made once and used often, for a stage. Collective over the stage's communicator. Raises
        RedistributionError where it does not apply; on every rank, if on any that has a part in the case.
    obstacle : callable
        From a case to why the method cannot run it on this rank; None where it can. Not collective.
    fresh : callable, optional
        As `prepare`, with nothing kept from earlier times; None where a user has nothing to make for a single call.
    """

    name: str
    prepare: Callable[[Stage], Prepared]
    obstacle: Callable[[Case], str | None] = lambda case: None
    fresh: Callable[[Stage], Prepared] | None = None

    def anew(self) -> Method:
        """The same with all that it keeps from call to call made in each call, and timed with it. Not collective."""
        return self if self.fresh is None else replace(self, prepare=functools.partial(_Anew, fresh=self.fresh))


class _Anew(Prepared):
    """What is prepared in each call; and once before, to see that it can be."""

    def __init__(self, stage: Stage, fresh: Callable[[Stage], Prepared]) -> None:
        super().__init__(stage)
        self._fresh = fresh
        trial = fresh(stage)
        self.extra_bytes = trial.extra_bytes
        trial.close()

    def __call__(self) -> None:
        made = self._fresh(self.stage)
        made()
        made.close()

    def profile(self) -> Mapping[str, float]:
        made = self._fresh(self.stage)
        found = made.profile()
        made.close()
        return found


def planned(name: str) -> Method:
    """A plan of `redistribute` by its name: "auto" or SCHEDULE/EXCHANGE[/BUFFERS]. Not collective."""
    asked = () if name == "auto" else name.split("/")
    return Method(
        name, lambda stage: Planned(stage, asked), fresh=lambda stage: Planned(stage, asked, memory_limit=next(_limits))
    )


class Planned(Prepared):
    """A plan: its schedule, exchange and buffers, as far as they are asked for."""

    def __init__(self, stage: Stage, asked: Sequence[str], memory_limit: int = MEMORY_LIMIT) -> None:
        super().__init__(stage)
        schedule, exchange, buffers = (*asked, *("auto", "auto", "packed")[len(asked) :])
        self.plan = redistribute(
            stage.desc_a,
            stage.desc_b,
            dtype=stage.case.dtype,
            schedule=schedule,
            exchange=exchange,
            buffers=buffers,
            memory_limit=memory_limit,
        )

    @functools.cached_property
    def extra_bytes(self) -> int | None:  # type: ignore[override]  # found when asked for: a report takes as long as a plan
        """Staging memory of a run, on this rank. Not collective."""
        found: int | None = self.plan.report(self.stage.case.dtype).extra_bytes
        return found

    def __call__(self) -> None:
        self.plan(self.stage.a, self.stage.out)

    def profile(self) -> Mapping[str, float]:
        seconds: Mapping[str, float] = self.plan.profile(self.stage.a, self.stage.out).seconds
        return seconds
