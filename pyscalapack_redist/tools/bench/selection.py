"""Which cases a command line asks for, and whether they can be run on so many ranks."""

from __future__ import annotations

import dataclasses
from argparse import Namespace
from collections.abc import Sequence

from ...errors import DescriptorError
from .case import Case
from .suites import SUITES

__all__ = ["UsageError", "asked_for", "for_size"]


class UsageError(Exception):
    """What was asked for cannot be done; the message names the argument and what is expected."""


def asked_for(options: Namespace) -> list[Case]:
    """The cases of a suite, or the one that is given. Not collective.

    Raises
    ------
    UsageError
        Neither is given, both are, or the layouts do not fit the shape.
    """
    single = {"--shape": options.shape, "--from": options.before, "--to": options.after}
    given = [name for name, value in single.items() if value is not None]
    if options.suite:
        if given:
            raise UsageError(f"{given[0]} and --suite: give a suite, or one case by --shape, --from and --to")
        suite = SUITES[options.suite]
        if options.quick and not suite.quick:
            raise UsageError(f"--quick: the suite {options.suite} has no smaller cases")
        cases = suite.quick if options.quick else suite.cases
        return list(dict.fromkeys(dataclasses.replace(one, dtype=options.dtype or one.dtype) for one in cases))
    if options.quick:
        raise UsageError("--quick: it is for a --suite")
    missing = ", ".join(name for name in single if name not in given)
    if missing:
        raise UsageError(f"{missing} missing: give --shape, --from and --to, or --suite {' or '.join(SUITES)}")
    dtype = {} if options.dtype is None else {"dtype": options.dtype}
    try:
        return [Case(tuple(options.shape), options.before, options.after, **dtype)]
    except DescriptorError as error:
        raise UsageError(f"--shape, --from, --to: {error}") from None


def for_size(cases: Sequence[Case], suite: str | None, size: int) -> tuple[list[Case], list[str]]:
    """The cases to run on `size` ranks, and a word on those that are left out. Not collective.

    A single case may run on more ranks than it needs; of a suite only the cases for this number of ranks are run.

    Raises
    ------
    UsageError
        There is none; says how to start it.
    """
    if suite is None:
        needed = cases[0].ranks
        if needed > size:
            raise UsageError(f"{cases[0]}: it was started on {size}; start it by {_start(needed)}")
        return list(cases), []
    ranks_for = SUITES[suite].ranks_for
    mine = [case for case in cases if ranks_for(case) == size]
    others = sorted(set(map(ranks_for, cases)) - {size})
    if not mine:
        raise UsageError(
            f"--suite {suite}: it has cases for {_any_of(others)} ranks, none for {size}; start it by {_start(others[0])}"
        )
    if not others:
        return mine, []
    return mine, [
        f"suite {suite}: {len(mine)} of {len(cases)} cases are for {size} ranks and run now; the others are left out, "
        f"start them by mpiexec -n {_any_of(others)}"
    ]


def _start(ranks: int) -> str:
    return f"mpiexec -n {ranks} python -m mpi4py -m pyscalapack_redist bench ..."


def _any_of(numbers: Sequence[int]) -> str:
    *most, last = map(str, numbers)
    return f"{', '.join(most)} or {last}" if most else last
