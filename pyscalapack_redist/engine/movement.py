"""The elements of one transfer on their way, and the arrays of layouts in between.

Arrays of the layouts in between, of plans with `via=`: made for each use, and where they are.

Movement: the elements of one transfer on their way: the arrays, what moves them, and the memory for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._kernels.bundle import Origins, address_of
from ..comm.group import DATA, Group
from ..exchanges import Exchange, Progress, Run
from .arrays import BY_COLUMNS, BY_ROWS
from .operands import Binding, Operands, factors_of
from .plan import Plan
from .stages import Forms

__all__ = [
    "Movement",
    "allocate",
    "forms_with",
    "origins",
]


def allocate(
    plan: Plan, mine: Operands, dtypes: Sequence[np.dtype[Any] | None]
) -> tuple[Forms, list[NDArray[Any] | None]]:
    """The kind with all dtypes, and with the arrays of layouts in between, which are made."""
    forms = mine.forms._replace(items=tuple(0 if dtype is None else dtype.itemsize for dtype in dtypes))
    made: list[NDArray[Any] | None] = []
    for slot in sorted(plan.between):
        desc, pair = plan.between[slot], plan.pair_of[slot]
        dtype = dtypes[pair]
        made.append(desc.empty(dtype) if desc._held and dtype is not None else None)
    return forms_with(plan, mine._replace(forms=forms), made), made


def forms_with(plan: Plan, mine: Operands, between: Sequence[NDArray[Any] | None]) -> Forms:
    """The kind with the arrays of layouts in between."""
    strides = mine.forms.strides + tuple(() if array is None else array.strides for array in between)
    items, blends = list(mine.forms.items), list(mine.forms.blends)
    for slot, array in zip(sorted(plan.between), between, strict=True):
        pair = plan.pair_of[slot]
        if array is not None:
            items[pair] = array.itemsize
            for move in plan.moves:
                if move.pair == pair and (move.op, move.last) not in blends[pair]:
                    blends[pair] = {
                        **blends[pair],
                        (move.op, move.last): factors_of(mine.factors[pair], move).blend(array.dtype),
                    }
    return mine.forms._replace(strides=strides, items=tuple(items), blends=tuple(blends))


def origins(
    plan: Plan, stage: int, mine: Operands, between: Sequence[NDArray[Any] | None]
) -> tuple[Origins, tuple[int, int]]:
    """Where the arrays of a stage begin; and, for derived datatypes, those of its first move."""
    if not plan.between:
        return mine.origins, mine.origins.pair(0)
    slots = sorted(plan.between)

    def address(slot: int) -> int:
        if slot < 2 * len(plan.pairs):
            return mine.origins.pair(slot // 2)[slot % 2]
        array = between[slots.index(slot)]
        return 0 if array is None else address_of(array)

    moves = plan.stages[stage].moves
    made = Origins(len(moves))
    for k, move in enumerate(moves):
        made.put(k, address(move.source), address(move.target))
    return made, made.pair(0)


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
