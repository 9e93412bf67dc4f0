"""What the run shows while it goes on, on rank 0: heading, progress, and each case's table when it is done."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from .case import Case
from .comparison import changes, comparison_lines, comparison_table
from .profile import profile_table
from .report import case_lines, case_table, environment_lines, flag_text
from .results import CaseResult, Results
from .summary import summary_table
from .terminal import console, on_terminal, print_table

__all__ = ["Display"]


class Display:
    """Text and tables on standard output; a progress bar where that is a terminal. Not collective.

    Parameters
    ----------
    ticks : int
        How often `tick` will be called.
    """

    def __init__(self, ticks: int) -> None:
        self._console: Console = console()
        self._environment: dict[str, Any] = {}
        # no thread that refreshes the bar: it would take time from what is timed
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=self._console,
            auto_refresh=False,
            transient=True,
            disable=not on_terminal(),
        )
        self._task = self._progress.add_task("", total=ticks)

    def environment(self, environment: dict[str, Any]) -> None:
        """Show where it runs."""
        self._environment = environment
        self._lines(environment_lines(environment))
        self._progress.start()

    def note(self, text: str) -> None:
        """Show one line."""
        self._lines([text])

    def case(self, number: int, case: Case) -> None:
        """A case begins."""
        self._progress.update(self._task, description=f"case {number}: {case}")
        self._progress.refresh()

    def tick(self) -> None:
        """Another round is done."""
        self._progress.advance(self._task)
        self._progress.refresh()

    def result(self, number: int, result: CaseResult) -> None:
        """A case is done."""
        calls = f"; times are of {result.calls} calls in a row, divided" if result.calls > 1 else ""
        self._lines(["", f"case {number}: {result.case}; flag round trip {flag_text(self._environment)}{calls}"])
        print_table(self._console, case_table(result))
        self._lines(case_lines(result))
        profile = profile_table(result)
        if profile is not None:
            self.table(f"where the time of a call went in case {number}, over the ranks:", profile)

    def table(self, heading: str, table: Table) -> None:
        """A table of several cases, with its heading."""
        self._lines(["", heading])
        print_table(self._console, table)

    def summary(self, results: Results) -> None:
        """All cases together, where there are several."""
        if len(results.cases) > 1:
            self.table(
                "all cases: geometric means of the ratios of minimum times / of medians:", summary_table(results)
            )

    def comparison(self, old: Results, new: Results) -> None:
        """What changed since an earlier run."""
        found = changes(old, new)
        self._lines(["", "compared with the earlier run:" if found else "no case and method is in both runs"])
        if found:
            print_table(self._console, comparison_table(found))
        self._lines(comparison_lines(old, new))

    def close(self) -> None:
        """Take the progress bar away."""
        self._progress.stop()

    def _lines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._console.print(line, soft_wrap=True, markup=False)
