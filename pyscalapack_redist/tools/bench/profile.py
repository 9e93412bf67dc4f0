"""Where the time of a call goes: planning, agreeing, packing, copying, unpacking, waiting, on each rank.

A profiled call is apart from the timed ones: looking at the clock in it takes time.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...engine.redistribute import Redistribution
from .figures import time_text
from .methods import Prepared
from .results import CaseResult, Profile
from .selection import UsageError
from .terminal import new_table

if TYPE_CHECKING:
    from mpi4py import MPI
    from rich.table import Table

__all__ = ["check_profiles", "profile_of", "profile_table"]


def check_profiles() -> None:
    """See that plans can tell. Not collective.

    Raises
    ------
    UsageError
        They cannot.
    """
    if not hasattr(Redistribution, "profile"):
        raise UsageError("--profile: plans of this version cannot tell where their time goes: leave it away")


def profile_of(run: Prepared, comm: MPI.Intracomm) -> Profile:
    """One call's parts, each with the seconds of each rank that has it. Collective; the same on all ranks."""
    comm.Barrier()
    found: list[Mapping[str, float]] = comm.allgather(dict(run.profile()))
    parts = dict.fromkeys(part for one in found for part in one)
    return tuple((part, tuple(one[part] for one in found if part in one)) for part in parts)


def profile_table(result: CaseResult) -> Table | None:
    """A row for each part of each method, over the ranks; None where no method can tell. Not collective."""
    table = new_table(("method", "part"), ("least", "median", "most"))
    for method in result.methods:
        for part, seconds in method.profile:
            figures = min(seconds), statistics.median(seconds), max(seconds)
            table.add_row(method.name, part, *map(time_text, figures))
    return table if table.row_count else None
