"""What every method of the comparison is, and two kinds: this package's own, and those without options."""

from __future__ import annotations

import functools
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

from ....engine.redistribute import redistribute
from ....exchanges.exchange import MEMORY_LIMIT
from ...cases import Case
from ..stage import Stage

__all__ = ["Anew", "Method", "Ours", "Plain", "Prepared"]

LIMIT = 2**31  # of what MPI counts
# Plans are kept with the communicator, by all that was asked for. Asked for with a memory limit of a byte less than the last
# time, a plan is made anew, by nothing but what users have. The limits come again after more plans than are kept.
LIMITS = 4096
_limits = itertools.cycle(range(MEMORY_LIMIT - 1, MEMORY_LIMIT - 1 - LIMITS, -1))


class Method(ABC):
    """A way of getting from one layout to the other, by the name that the command line gives it."""

    name: str

    def obstacle(self, case: Case) -> str | None:
        """Why it cannot run the case on this rank; None where it can. Not collective."""
        return None

    def anew(self) -> Method:
        """The same with all that it keeps from call to call made in each call, and timed with it. Not collective."""
        return self

    @abstractmethod
    def prepare(self, stage: Stage) -> Prepared:
        """Make all that is made once and used often. Collective over the stage's communicator.

        Raises RedistributionError where it does not apply; on every rank, if on any that has a part in the case.
        """


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
        """Give back what `prepare` made. Collective over the stage's communicator."""


class Plain(Method):
    """A method without options: `made` is what runs.

    `counts` is what MPI counts in 32 bits, so that larger local arrays are an obstacle; `keeps` says whether anything is
    kept from call to call that a user would make anew for a single call.
    """

    def __init__(
        self,
        name: str,
        made: Callable[[Stage], Prepared],
        counts: Literal["bytes", "elements"] | None = None,
        keeps: bool = False,
    ) -> None:
        self.name, self._made, self._counts, self._keeps = name, made, counts, keeps

    def obstacle(self, case: Case) -> str | None:
        """Local arrays that 32 bits cannot count. Not collective."""
        size = case.local_elements * (case.dtype.itemsize if self._counts == "bytes" else 1)
        if self._counts and size >= LIMIT:
            return f"{self.name} counts {self._counts} in 32 bits: the local arrays are too large for it"
        return None

    def anew(self) -> Method:
        """The same, prepared in each call where it keeps anything. Not collective."""
        return Anew(self) if self._keeps else self

    def prepare(self, stage: Stage) -> Prepared:
        """Make what is made once. Collective."""
        return self._made(stage)


class Anew(Method):
    """A method that is prepared in each call; what it prepares must be made without regard to earlier times."""

    def __init__(self, method: Method) -> None:
        self.name, self._method = method.name, method

    def obstacle(self, case: Case) -> str | None:
        """What the method says. Not collective."""
        return self._method.obstacle(case)

    def prepare(self, stage: Stage) -> Prepared:
        """Prepare it once to see that it can be. Collective."""
        return _PreparedAnew(stage, self._method)


class _PreparedAnew(Prepared):
    def __init__(self, stage: Stage, method: Method) -> None:
        super().__init__(stage)
        self._method = method
        trial = method.prepare(stage)
        self.extra_bytes = trial.extra_bytes
        trial.close()

    def __call__(self) -> None:
        fresh = self._method.prepare(self.stage)
        fresh()
        fresh.close()

    def profile(self) -> Mapping[str, float]:
        fresh = self._method.prepare(self.stage)
        found = fresh.profile()
        fresh.close()
        return found


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
