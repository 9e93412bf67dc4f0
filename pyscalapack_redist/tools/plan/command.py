"""`pyscalapack-redist plan`: study a redistribution, show it, write it, draw it. Needs no MPI."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace

import numpy as np

from ...errors import DescriptorError, ScheduleError
from ...schedules.catalogue import check_name
from ..usage import UsageError, case_without_copies, check_outputs, write_text, written
from .study import Study

__all__ = ["MOST_PROCESSES", "plan", "read_schedule"]

MOST_PROCESSES = 100_000


def plan(options: Namespace) -> int:
    """Show what a redistribution consists of. Not collective.

    Parameters
    ----------
    options : Namespace
        The command line: shape, before, after, schedule, time_limit, dtype, model, processes, json, plot.

    Returns
    -------
    int
        Exit status 0.

    Raises
    ------
    UsageError
        It cannot be done as asked.
    """
    given = {"--shape": options.shape, "--from": options.before, "--to": options.after}
    missing = [name for name, value in given.items() if value is None]
    if options.model is not None and missing == ["--from", "--to"]:
        return _sweeps(options)
    if missing:
        raise UsageError(
            f"{', '.join(missing)} missing: give --shape, --from and --to, or --shape and --model for sweeps over grids of "
            "any size"
        )
    if options.processes is not None:
        raise UsageError("--processes: it is for --model without --from and --to")
    case = case_without_copies(options, "plan")
    check_outputs(options, "plan")
    try:
        study = replace(Study.of(case, options.schedule, options.time_limit), model=options.model)
    except ScheduleError as error:
        raise UsageError(f"--schedule {options.schedule}: {error}") from None
    if options.plot:
        _check_size(study)
    if options.json:
        from .document import to_json

        write_text("--json", options.json, to_json(study))
    if options.plot:
        from .picture import draw

        with written("--plot", options.plot):
            draw(study, options.plot)
    _show(study)  # last: whoever reads the output may stop, as head does
    return 0


def _sweeps(options: Namespace) -> int:
    """Sweeps by the model alone."""
    check_outputs(options, "plan")
    from .sweeps import Sweeps, draw_sweeps

    try:
        sweeps = Sweeps.of(
            tuple(options.shape),
            np.dtype(np.float64) if options.dtype is None else options.dtype,
            options.model,
            options.processes or MOST_PROCESSES,
        )
    except DescriptorError as error:
        raise UsageError(f"--shape: {error}") from None
    if options.json:
        write_text("--json", options.json, sweeps.to_json())
    if options.plot:
        with written("--plot", options.plot):
            draw_sweeps(sweeps, options.plot)
    sweeps.show()
    return 0


def read_schedule(name: str) -> str:
    """A schedule's name as the command line gives it. Not collective.

    Raises
    ------
    ScheduleError
        There is none; lists those that there are, the nearest first.
    """
    check_name(name)
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
                "processes on a side can be drawn; omit --plot, or take fewer processes"
            )
