"""Movement: the elements of one transfer on their way: the arrays, what moves them, and the memory for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..comm.group import DATA, Group
from ..exchanges import Exchange, Progress, Run
from .binding import BY_COLUMNS, BY_ROWS, Binding, Operands
from .intermediate import origins
from .plan import Plan
from .stages import Forms

__all__ = ["Movement"]


class Movement:
    """The stages of one transfer, one after another. Made with all the memory that it needs; nothing moves yet.

    Parameters
    ----------
    plan : Plan
        The plan.
    group : Group
        Its processes.
    ticket : int
        That of the transfer.
    mine : Operands
        This rank's arrays.
    binding : Binding
        What moves them.
    spent : dict or None
        Is to have the seconds of each part of the work.
    forms : Forms, optional
        What arrays of this kind have in common, with what other ranks know of them and with the intermediate arrays.
    between : sequence of ndarray or None
        The intermediate arrays.
    begin : callable, optional
        Makes the progress of the first stage, where a compiled call has begun it.
    staging : ndarray, optional
        Memory that such a call has used already.
    started : bool
        Whether such a call has started to move already.

    Attributes
    ----------
    exchange : Exchange
        That of the stage which is moving.
    progress : Progress
        Its run.
    """

    def __init__(
        self,
        plan: Plan,
        group: Group,
        ticket: int,
        mine: Operands,
        binding: Binding,
        spent: dict[str, float] | None,
        forms: Forms | None = None,
        between: Sequence[NDArray[Any] | None] = (),
        begin: Callable[[Any, Run], Progress] | None = None,
        staging: NDArray[np.uint8] | None = None,
        started: bool = False,
    ) -> None:
        self._plan, self._group, self._ticket, self._spent = plan, group, ticket, spent
        self._mine, self._between = mine, between
        self._forms = forms or mine.forms
        self.binding = binding
        self._staging = group.staging.take(binding.private_bytes) if staging is None else staging
        self._stage, self._started = 0, started
        self.exchange = binding.exchanges[0]
        self.progress = self.exchange.begin(self._run()) if begin is None else begin(self.exchange, self._run())

    def agree(self, order: int, item: int) -> None:
        """All ranks know in which order elements go, and how large the largest is."""
        if (self.binding.order, self.binding.item) != (order, item):
            self.binding = self._plan.binding(self._mine, self._forms, order, item)
            self.exchange = self.binding.exchanges[self._stage]

    def start(self, mark: int) -> None:
        """Start moving, if it has not been; `mark` as for `Progress.start`."""
        if not self._started:
            self.progress.start(self.exchange, mark)

    def advance(self, block: bool) -> bool:
        """Stage after stage; True when all has moved."""
        while self.progress.advance(block):
            self._stage += 1
            if self._stage == len(self._plan.stages):
                return True
            self.exchange = self.binding.exchanges[self._stage]
            self.progress = self.exchange.begin(self._run())
            self.progress.start(self.exchange)
        return False

    def close(self) -> None:
        """Give the staging memory back: nothing reads or writes it any more."""
        self._group.staging.put_back(self._staging)

    def _run(self) -> Run:
        # No `self` in what a run keeps: the arrays would stay until the garbage collector runs.
        plan, mine, binding, stage, forms = self._plan, self._mine, self.binding, self._stage, self._forms
        starts, addresses = origins(plan, stage, mine, self._between)

        def turned() -> Exchange:
            other = BY_ROWS + BY_COLUMNS - binding.order
            return plan.binding(mine, forms, other, binding.item).exchanges[stage]

        group = self._group
        return Run(
            group.channel,
            group.collectives,
            self._ticket + DATA,
            starts,
            addresses,
            self._staging,
            self._spent,
            turned,
        )
