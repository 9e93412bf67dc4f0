"""Plans on paper: for grids without a communicator and any number of processes; they can be studied but not run."""

from __future__ import annotations

from typing import Any, NoReturn

from numpy.typing import DTypeLike

from ..engine.redistribution import Redistribution
from ..errors import DescriptorError
from ..exchanges import Message
from ..reports import Report
from .report import report_of


class PaperPlan(Redistribution):
    """A plan on grids without a communicator: it can be studied but not run. Made by `redistribute`. Not collective.

    There is no own rank: `report()` is of all ranks, and `messages_of(rank)` of any. `plot()` and `schedule` work as for any
    plan. Messages are computed when they are needed; only the steps of a searched schedule are computed at once.
    """

    @property
    def messages(self) -> dict[str, tuple[Message, ...]]:
        """Raises DescriptorError: a plan on paper has no own rank. Use `messages_of(rank)`."""
        raise DescriptorError(f"{self!r} is on paper and has no own rank: use messages_of(rank)")

    def report(self, dtype: DTypeLike | Any = None, *, all_ranks: bool = True) -> Report:
        """Report the messages of all ranks. Not collective.

        Parameters
        ----------
        dtype : dtype, optional
            Dtype of the elements; by default the plan's own, else float64.
        all_ranks : bool
            Ignored: a report on paper is of all ranks.

        Returns
        -------
        Report
            Without staging memory and times. With `via=`, reduce="sum" and a mirror image, `legs` has a report of each part.

        Raises
        ------
        ScheduleError
            A dimension has too many processes for a table of all pairs.
        """
        return report_of(self.inside, dtype)

    def __call__(
        self, a: Any = None, out: Any = None, *, alpha: Any = 1, beta: Any = 0, overwrite: bool = False
    ) -> NoReturn:
        """Raises DescriptorError: a plan on paper cannot be run. Not collective.

        Raises
        ------
        DescriptorError
            Always; the text names the missing communicators.
        """
        self._refuse()

    def start(self, a: Any = None, out: Any = None, *, alpha: Any = 1, beta: Any = 0) -> NoReturn:
        """Raises DescriptorError: a plan on paper cannot be run. Not collective."""
        self._refuse()

    def profile(self, a: Any = None, out: Any = None, *, alpha: Any = 1, beta: Any = 0) -> NoReturn:
        """Raises DescriptorError: a plan on paper cannot be run. Not collective."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        shapes = " and ".join(f"ProcessGrid({desc.grid.shape}, comm)" for desc in (self.desc_a, self.desc_b))
        raise DescriptorError(
            f"{self!r} is on paper and cannot be run: its grids have no communicator. Make them with one, {shapes}, and "
            "plan again"
        )
