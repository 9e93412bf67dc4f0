"""What a comparison prints: the machine, a table of all cases, and what follows from them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from case_list import TimedCase
from verdicts import Launch, Ratio, Verdict, geometric_mean

RATIOS_ONLY = 8  # ranks from which on times mean nothing on few cores
NOISY = 0.2  # spread of ratios beyond which they say little
Launches = Mapping[str, tuple[Sequence[Launch], Sequence[Launch]]]


def machine() -> str:
    """The processor, the cores that may be used, and the last cache that the system reports."""
    from pyscalapack_redist.comm.node import last_cache, usable_cores

    model = "an unknown processor"
    if shutil.which("lscpu"):
        listed = subprocess.run(["lscpu"], capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}).stdout
        fields = dict(line.split(":", 1) for line in listed.splitlines() if ":" in line)
        model = fields.get("Model name", model).strip()
    return f"{model}, {len(usable_cores())} cores, last cache {last_cache().nbytes / 2**20:g} MiB"


def print_results(
    cases: Sequence[TimedCase],
    names: Sequence[str],
    verdicts: Mapping[str, Verdict],
    launches: Launches,
    reasons: Mapping[str, str],
    facts: Mapping[int, Mapping[str, Any]],
) -> None:
    """Print all: with rich to a terminal that can show it, in Markdown elsewhere."""
    print(f"\n{names[0]} / {names[1]}: ratios of times, above 1 where the first is slower\n")
    print(f"{machine()}; {' '.join(facts[0]['mpi'].splitlines()[0].split(',')[0].split())}")
    caches = [f"{name}: {facts[number]['cache']}" for number, name in enumerate(names)]
    print(f"size of the last cache for {', '.join(caches)}")
    variables = {name: value for name, value in os.environ.items() if name.startswith("PYSCALAPACK_REDIST_")}
    print("".join(f"{name}={value}\n" for name, value in sorted(variables.items())))
    head, rows = head_of(names), rows_of(cases, verdicts, launches, reasons)
    if sys.stdout.isatty() and show_rich(head, rows):
        print()
    else:
        print(markdown(head, rows) + "\n")
    print("\n".join(summary(cases, verdicts)))


def head_of(names: Sequence[str]) -> list[str]:
    """The columns' headings."""
    return ["Case", "Ranks", *(f"{name}, ms" for name in names), "Minima", "Spread", "Medians", "Spread", ""]


def rows_of(
    cases: Sequence[TimedCase], verdicts: Mapping[str, Verdict], launches: Launches, reasons: Mapping[str, str]
) -> list[list[str]]:
    """A row of texts for each case: the best times, ratios with their spreads, and a mark."""
    rows = []
    for case in cases:
        name = f"{case.suite}: {case.text}"
        if case.key in verdicts:
            both = launches[case.key] if case.ranks < RATIOS_ONLY else ([], [])
            times = [f"{min(item.minimum for item in side) * 1e3:.3g}" if side else "" for side in both]
            verdict = verdicts[case.key]
            rows.append(
                [name, str(case.ranks), *times, *_cells(verdict.minima), *_cells(verdict.medians), verdict.mark]
            )
        else:
            rows.append([name, str(case.ranks), *[""] * 6, reasons.get(case.key, "not run")])
    return rows


def _cells(ratio: Ratio) -> list[str]:
    return [f"{ratio.value:.2f}", f"{ratio.spread:.0%}"]


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table as text; its columns are aligned."""
    widths = [max(3, *(len(row[k]) for row in (head, *rows))) for k in range(len(head))]
    line = ["-" * width if k == 0 else "-" * (width - 1) + ":" for k, width in enumerate(widths)]
    texts = [
        [
            cell.ljust(width) if k == 0 else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        for row in (head, *rows)
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in (texts[0], line, *texts[1:]))


def show_rich(head: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Print the table in colours; False where rich is not installed."""
    try:
        from rich.console import Console
        from rich.markup import escape
        from rich.table import Table
    except ImportError:
        return False
    table = Table()
    for k, name in enumerate(head):
        table.add_column(escape(name), justify="left" if k == 0 else "right")
    for row in rows:
        table.add_row(*map(escape, row), style={"SLOWER": "bold red", "slower": "red", "faster": "green"}.get(row[-1]))
    Console().print(table)
    return True


def summary(cases: Sequence[TimedCase], verdicts: Mapping[str, Verdict]) -> list[str]:
    """Means of each suite, and how many cases are slower, faster or too noisy to tell."""
    lines = []
    for suite in dict.fromkeys(case.suite for case in cases):
        some = [verdicts[case.key] for case in cases if case.suite == suite and case.key in verdicts]
        if some:
            minima, medians = ([getattr(verdict, name).value for verdict in some] for name in ("minima", "medians"))
            means = f"{geometric_mean(minima):.2f} of minima, {geometric_mean(medians):.2f} of medians"
            lines.append(f"{suite}: geometric mean of {len(some)} ratios {means}")
    failing = [case.key for case in cases if case.key in verdicts and verdicts[case.key].fails]
    marks = [verdict.mark for verdict in verdicts.values()]
    noisy = sum(verdict.minima.spread > NOISY for verdict in verdicts.values())
    lines.append(f"{marks.count('faster')} cases are faster and {marks.count('slower')} slower in most launches")
    if noisy:
        lines.append(
            f"in {noisy} cases ratios of minima differ by more than {NOISY:.0%}: these say little"
        )
    lines.append(f"{len(failing) or 'none'} slower in most launches, by more than is allowed{':' if failing else ''}")
    return lines + [f"  {key}" for key in failing]
