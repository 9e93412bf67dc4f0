"""Plans on paper: on grids without a communicator, for any number of processes, to be studied and not run."""

from __future__ import annotations

from typing import Any, NoReturn

from numpy.typing import DTypeLike

from ..errors import DescriptorError
from ..exchanges import Message, Options, exchange_class
from ..schedules.orders import ORDERS
from .choose import choose
from .layouts import process_shapes
from .messages import Messages
from .order import order_for
from .plan import Plan
from .redistribution import Redistribution
from .report import Report, report_of
from .spec import Spec
from .stages import Move, Pair, Stage
from .via import identity, pending_moves

__all__ = ["PaperPlan", "plan_on_paper"]


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


def plan_on_paper(spec: Spec) -> PaperPlan:
    """The plan of a spec on paper. Not collective.

    Raises
    ------
    RedistributionError
        An argument is wrong, or the schedule does not apply.
    """
    a, b = spec.layouts
    moves = pending_moves(spec, a, b)
    chosen = choose(spec.schedule, spec.exchange, spec.buffers, None)
    why = (
        "on paper; what moves the bytes is chosen where ranks run" if spec.exchange == "auto" else "on paper; as asked"
    )
    options = Options(spec.memory_limit, spec.buffers)
    nothing = Messages([], [], [])
    by_stage: dict[int, list[Move]] = {}
    for pending in moves:
        order = order_for(chosen.schedule, pending.moved, pending.b)
        stage, source, target, before, after, op, part, last = pending
        by_stage.setdefault(stage, []).append(Move(0, source, target, before, after, op, last, part, order, nothing))
    stages = [Stage(by_stage[k], exchange_class(chosen.exchange), options, None) for k in sorted(by_stage)]
    between = {pending.target: pending.b for pending in moves if pending.target > 1}
    pair = Pair(a, b, spec.dtype, spec.op, spec.part, spec.fill)
    by = "any exchange" if spec.exchange == "auto" else spec.exchange
    plan = Plan(None, [pair], stages, between, why, identity(spec, a, b, chosen), by=by)
    if spec.via is not None:
        order = ORDERS["caterpillar"](*process_shapes(spec.moved(a), b))
        whole = Move(0, 0, 1, a, b, spec.op, True, spec.part, order, nothing)
        plan.direct = Stage([whole], exchange_class(chosen.exchange), options, None)
    return PaperPlan(plan)
