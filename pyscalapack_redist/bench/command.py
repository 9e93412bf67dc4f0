"""`pyscalapack-redist bench`: choose the cases, run them, show, compare, write. Rank 0 alone prints and writes files."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import DescriptorError
from ..info import EXTRA, missing_extras
from .benchmark import run_case, ticks_of_case
from .case import Case
from .clock import Clock
from .environment import environment, nodes_of
from .methods import DEFAULT_METHODS, Method, read_method
from .results import CaseResult, Results
from .suites import SUITES

if TYPE_CHECKING:
    from mpi4py import MPI

    from .display import Display

__all__ = ["UsageError", "bench"]

NOT_VERIFIED = 1


class UsageError(Exception):
    """What was asked for cannot be done; the message names the argument and what is expected."""


def bench(options: Namespace) -> int:
    """Run the benchmark. Collective over all ranks.

    Parameters
    ----------
    options : Namespace
        The command line: suite or shape, before and after; dtype, methods, repeat, compare, json, plot.

    Returns
    -------
    int
        Exit status: 0, or 1 where a result was wrong.

    Raises
    ------
    UsageError
        On every rank.
    """
    cases = _cases(options)
    notes: list[str] = []
    methods = options.methods or [read_method(name) for name in DEFAULT_METHODS]
    comm = _world()
    if options.suite:
        cases, notes = _for_size(options.suite, cases, comm.Get_size())
    elif cases[0].ranks > comm.Get_size():
        raise UsageError(f"{cases[0]}: it was started on {comm.Get_size()}; start it by {_start(cases[0].ranks)}")
    old = _prepare_files(comm, options)
    display = _display(comm, len(cases) * ticks_of_case(options.repeat))
    results = _run(cases, methods, options.repeat, comm, display, notes)
    if display is not None:
        display.close()
        _finish(results, old, options, display)
    return 0 if results.verified else NOT_VERIFIED


# -- what to run


def _cases(options: Namespace) -> list[Case]:
    single = {"--shape": options.shape, "--from": options.before, "--to": options.after}
    given = [name for name, value in single.items() if value is not None]
    if options.suite:
        if given:
            raise UsageError(f"{given[0]} and --suite: give a suite, or one case by --shape, --from and --to")
        cases = SUITES[options.suite]
        return [Case(one.shape, one.before, one.after, options.dtype or one.dtype) for one in cases]
    missing = [name for name in single if name not in given]
    if missing:
        raise UsageError(
            f"{', '.join(missing)} missing: give --shape, --from and --to, or --suite {' or '.join(SUITES)}"
        )
    chosen = {} if options.dtype is None else {"dtype": options.dtype}
    try:
        return [Case(tuple(options.shape), options.before, options.after, **chosen)]
    except DescriptorError as error:
        raise UsageError(f"--shape, --from, --to: {error}") from None


def _for_size(suite: str, cases: Sequence[Case], size: int) -> tuple[list[Case], list[str]]:
    """The cases for that many ranks, and a word on the others."""
    mine = [case for case in cases if case.ranks == size]
    others = sorted({case.ranks for case in cases} - {size})
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


def _any_of(numbers: Sequence[int]) -> str:
    *most, last = map(str, numbers)
    return f"{', '.join(most)} or {last}" if most else last


def _start(ranks: int) -> str:
    return f"mpiexec -n {ranks} python -m mpi4py -m pyscalapack_redist bench ..."


def _world() -> MPI.Intracomm:
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise UsageError(
            f"bench needs an MPI, and mpi4py cannot start one ({reason}): see pyscalapack-redist info"
        ) from None
    return MPI.COMM_WORLD


# -- files and what else rank 0 has to have


def _prepare_files(comm: MPI.Intracomm, options: Namespace) -> Results | None:
    """Find what would fail at the end before anything runs; returns the earlier run on rank 0. Collective."""
    old, problem = None, None
    if comm.Get_rank() == 0:
        try:
            _check_extras(options)
            for name in ("json", "plot"):
                _check_writable(f"--{name}", getattr(options, name))
            old = _read_old(options.compare)
        except UsageError as error:
            problem = str(error)
    problem = comm.bcast(problem, root=0)
    if problem is not None:
        raise UsageError(problem)
    return old


def _check_extras(options: Namespace) -> None:
    missing = missing_extras(("rich", "matplotlib") if options.plot else ("rich",))
    if missing:
        raise UsageError(f"bench needs {' and '.join(missing)}, which is not installed: {EXTRA}")
    if options.plot:
        from matplotlib.backend_bases import FigureCanvasBase

        known = FigureCanvasBase.get_supported_filetypes()
        if os.path.splitext(options.plot)[1][1:].lower() not in known:
            raise UsageError(
                f"--plot {options.plot}: its name must end in a format of pictures: {', '.join(sorted(known))}"
            )


def _check_writable(name: str, path: str | None) -> None:
    if path is None:
        return
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path) or not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise UsageError(
            f"{name} {path}: it cannot be written: it must be a file, in a folder that exists and is writable"
        )


def _read_old(path: str | None) -> Results | None:
    if path is None:
        return None
    try:
        with open(path) as file:
            return Results.from_json(file.read())
    except OSError as error:
        raise UsageError(
            f"--compare {path}: it cannot be read ({error.strerror}): it must be what --json wrote"
        ) from None
    except ValueError as error:
        raise UsageError(f"--compare {path}: it must be what --json wrote, but {error}") from None


# -- running


def _display(comm: MPI.Intracomm, ticks: int) -> Display | None:
    if comm.Get_rank() != 0:
        return None
    from .display import Display

    return Display(ticks)


def _run(
    cases: Sequence[Case],
    methods: Sequence[Method],
    repeat: int,
    comm: MPI.Intracomm,
    display: Display | None,
    notes: Sequence[str],
) -> Results:
    nodes = nodes_of(comm)
    clock = Clock(comm, one_node=len(set(nodes)) == 1)
    where = environment(comm, nodes, clock)
    if display is not None:
        display.environment(where)
        for note in notes:
            display.note(note)
    done: list[CaseResult] = []
    for number, case in enumerate(cases, 1):
        if display is None:
            done.append(run_case(case, methods, repeat, clock, comm, lambda: None))
            continue
        display.case(number, case)
        done.append(run_case(case, methods, repeat, clock, comm, display.tick))
        display.result(number, done[-1])
    return Results(where, tuple(done))


def _finish(results: Results, old: Results | None, options: Namespace, display: Display) -> None:
    """Compare and write, on rank 0."""
    if old is not None:
        display.comparison(old, results)
    if options.json:
        with open(options.json, "w") as file:
            file.write(results.to_json() + "\n")
    if options.plot:
        from .plot import plot

        plot(results, options.plot)
    if not results.verified:
        display.note("WRONG RESULTS: at least one method's output was not what it must be; see the column 'verified'")
