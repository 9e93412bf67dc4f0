"""`pyscalapack-redist plan`: study a redistribution, show it, write it, draw it. Needs no MPI."""

from __future__ import annotations

import difflib
from argparse import Namespace

from .. import schedules
from ..bench.case import Case
from ..bench.files import check_outputs
from ..bench.selection import UsageError
from ..errors import DescriptorError, ScheduleError
from .study import Study

__all__ = ["plan", "read_schedule"]


def plan(options: Namespace) -> int:
    """Show what a redistribution consists of. Not collective.

    Parameters
    ----------
    options : Namespace
        The command line: shape, before, after, schedule, time_limit, dtype, json, plot.

    Returns
    -------
    int
        Exit status 0.

    Raises
    ------
    UsageError
        It cannot be done as asked.
    """
    dtype = {} if options.dtype is None else {"dtype": options.dtype}
    try:
        case = Case(tuple(options.shape), options.before, options.after, **dtype)
    except DescriptorError as error:
        raise UsageError(f"--shape, --from, --to: {error}") from None
    check_outputs(options, "plan")
    try:
        study = Study.of(case, options.schedule, options.time_limit)
    except ScheduleError as error:
        raise UsageError(f"--schedule {options.schedule}: {error}") from None
    if options.plot:
        _check_size(study)
    _show(study)
    if options.json:
        from .document import to_json

        with open(options.json, "w") as file:
            file.write(to_json(study) + "\n")
    if options.plot:
        from .picture import draw

        draw(study, options.plot)
    return 0


def read_schedule(name: str) -> str:
    """A schedule's name as the command line gives it. Not collective.

    Raises
    ------
    ValueError
        There is none; lists those that there are, the nearest first.
    """
    if name not in schedules.NAMES:
        near = difflib.get_close_matches(name, schedules.NAMES, n=len(schedules.NAMES), cutoff=0.0)
        raise ValueError(f"unknown schedule {name!r}: there are {', '.join(near)}")
    return name


def _show(study: Study) -> None:
    from .report import show  # after it is known that rich is there

    show(study)


def _check_size(study: Study) -> None:
    from .picture import MOST_DRAWN

    for k, axis in enumerate(study.axes):
        if max(axis.before.processes, axis.after.processes) > MOST_DRAWN:
            raise UsageError(
                f"--plot: dimension {k} has {axis.before.processes} x {axis.after.processes} pairs: at most {MOST_DRAWN} "
                "processes on a side can be drawn; leave it away, or take fewer processes"
            )
