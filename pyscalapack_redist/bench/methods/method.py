"""What every method of the comparison is."""

from __future__ import annotations

from abc import ABC, abstractmethod

from ..case import Case
from ..stage import Stage

__all__ = ["Method", "Prepared"]


class Method(ABC):
    """A way of getting from one layout to the other, by the name that the command line gives it."""

    name: str

    def obstacle(self, case: Case) -> str | None:
        """Why it cannot run the case on this rank; None where it can. Not collective."""
        return None

    @abstractmethod
    def prepare(self, stage: Stage) -> Prepared:
        """Make all that is made once and used often. Collective over the stage's communicator.

        Raises
        ------
        RedistributionError
            The method does not apply; on every rank, if on any that has a part in the case.
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

    def forget(self) -> None:  # noqa: B027
        """Give back memory that earlier calls have left, so that what a call takes can be measured. Not collective."""

    def close(self) -> None:  # noqa: B027 (most have nothing to give back)
        """Give back what `prepare` made. Collective over the stage's communicator."""
