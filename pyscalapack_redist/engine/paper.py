"""Plans on paper: on grids without a communicator, for any number of processes, to be studied and not run."""

from __future__ import annotations

from typing import Any, NoReturn

from numpy.typing import DTypeLike

from ..errors import DescriptorError
from ..exchanges import Message
from .redistribution import Redistribution
from .report import Report, report_of


class PaperPlan(Redistribution):
    """A plan on grids without a communicator: to be studied, not run. Made by `redistribute`. Not collective.

    It has what any plan has but a rank of its own: `report()` is of all ranks, `messages_of(rank)` of each, `plot()` and
    `schedule` are the same. Nothing is worked out before it is asked for, but the steps of a schedule that is searched for.
    """

    @property
    def messages(self) -> dict[str, tuple[Message, ...]]:
        """On paper no rank is this one: `messages_of(rank)` has those of any."""
        raise DescriptorError(
            f"{self!r} is on paper, where no rank has messages: messages_of(rank) has those of any rank"
        )

    def report(self, dtype: DTypeLike | Any = None, *, all_ranks: bool = True) -> Report:
        """What all ranks move together. Not collective.

        Parameters
        ----------
        dtype : dtype, optional
            Of the elements; by default the plan's own, else float64.
        all_ranks : bool
            On paper there are no other figures.

        Returns
        -------
        Report
            Without staging memory and times. With `via=` and with a mirror image, its `legs` have a report of each part.

        Raises
        ------
        ScheduleError
            There are too many processes along a dimension for a table of all pairs.
        """
        return report_of(self.inside, dtype)

    def __call__(self, a: Any = None, out: Any = None, *, alpha: Any = 1, beta: Any = 0) -> NoReturn:
        """A plan on paper cannot be run.

        Raises
        ------
        DescriptorError
            Says what is missing.
        """
        self._refuse()

    def start(self, a: Any = None, out: Any = None, *, alpha: Any = 1, beta: Any = 0) -> NoReturn:
        """A plan on paper cannot be run; raises as a call does. Not collective."""
        self._refuse()

    def profile(self, a: Any = None, out: Any = None, *, alpha: Any = 1, beta: Any = 0) -> NoReturn:
        """A plan on paper cannot be run; raises as a call does. Not collective."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        shapes = " and ".join(f"ProcessGrid({desc.grid.shape}, comm)" for desc in (self.desc_a, self.desc_b))
        raise DescriptorError(
            f"{self!r} is on paper and cannot be run: its grids have no communicator. Make them on one, {shapes}, and "
            "plan again"
        )
