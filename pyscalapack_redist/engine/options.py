"""What is asked of a plan beside its layouts, checked once for the same words."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple, ParamSpec, TypeVar

from ..errors import DescriptorError, ScheduleError, unknown
from ..exchanges import BUFFERS, EXCHANGES, check_combination
from ..layout.letters import OPERATIONS, letter_of, transposes
from ..schedules import NAMES
from .layouts import Layout
from .memory import checked_memory
from .operation import Part, check_square, checked_fill, checked_part
from .scheduling import is_one_port

__all__ = ["PlanOptions", "checked_options"]

P = ParamSpec("P")
R = TypeVar("R")


class PlanOptions(NamedTuple):
    """The options of `redistribute` in one spelling, equal on all ranks for equal ones; `via` has layouts, and is no part."""

    schedule: str
    exchange: str
    buffers: str
    memory_limit: int = 0
    op: str = "N"
    part: Part | None = None
    fill: str | None = None

    def check(self, a: Layout, op: object, uplo: object) -> None:
        """Refuse what is not for an array of layout `a`, in the user's words for the operation and the part. Not collective.

        Raises
        ------
        DescriptorError
            It is for matrices, or for square ones.
        """
        if a.ndim != 2 and transposes(self.op):
            raise DescriptorError(f"op = {op!r} is for matrices, but desc_a has shape {a.shape}")
        if a.ndim != 2 and self.part is not None:
            raise DescriptorError(f"uplo = {uplo!r} is for matrices, but desc_a has shape {a.shape}")
        if self.fill is not None:
            check_square(self.fill, a.shape)


def _kept(check: Callable[P, R]) -> Callable[P, R]:
    """Keep what comes of arguments that have a hash; what is wrong with others is told each time."""
    cached: Callable[P, R] = functools.lru_cache(maxsize=64, typed=True)(check)  # type: ignore[assignment]

    @functools.wraps(check)
    def call(*arguments: P.args, **keywords: P.kwargs) -> R:
        try:
            return cached(*arguments, **keywords)
        except TypeError:
            return check(*arguments, **keywords)

    return call


@_kept
def checked_options(
    schedule: str,
    exchange: str,
    buffers: str,
    memory_limit: object,
    op: object,
    uplo: object,
    diag: object,
    fill: object,
) -> PlanOptions:
    """The options that these arguments are. Not collective.

    Raises
    ------
    DescriptorError, ScheduleError
        Names the argument, its value and what it must be.
    """
    limit = checked_memory(memory_limit)
    known = (
        ("schedule", schedule, (*NAMES, "auto")),
        ("exchange", exchange, (*EXCHANGES, "auto")),
        ("buffers", buffers, BUFFERS),
    )
    for what, name, names in known:
        if not isinstance(name, str):
            raise unknown(what, name, names)
    check_combination(schedule, schedule == "auto" or is_one_port(schedule), exchange, buffers)
    letter, part = letter_of("op", op, OPERATIONS), checked_part(uplo, diag)
    if part is not None and buffers == "datatypes":
        raise ScheduleError(
            f"uplo = {uplo!r} with buffers = 'datatypes': no derived datatype is made for a trapezoid; "
            "use buffers='packed'"
        )
    return PlanOptions(schedule, exchange, buffers, limit, letter, part, checked_fill(fill, part))
