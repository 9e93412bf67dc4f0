"""The experiment of Birkeland & Sorevik (2007, section 6): sweeps over an N^3 array on grids of one and of two dimensions.

A time is that of 2 r + 1 redistributions of float64 (two sweeps and the way back into the first layout but one). On a
grid of P processes in one dimension each redistribution has P - 1 messages for a process; in two dimensions fewer and
longer ones, but twice the bytes. The model of section 5 is fitted to the run, and set beside what was measured. Unlike
the paper's, times are of whole redistributions with packing and copying in place.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pyscalapack_redist.tools.bench.methods import named_methods
from pyscalapack_redist.tools.bench.results import Results
from pyscalapack_redist.tools.bench.suites import Suite
from pyscalapack_redist.tools.cases import Case
from pyscalapack_redist.tools.text import new_table, ratio_text, time_text

from .birkeland_model import Load, Model, crossover, even_grid, moves, nearest, route
from .birkeland_sweep import IN_RING, MPI4PY_FFT, SUBARRAYS, grid_of, layout, sweep

if TYPE_CHECKING:
    from rich.table import Table

SIZES = (64, 96, 128, 160, 192, 224, 256, 288, 320)
QUICK = (12, 16, 30)
ON_LINKS = (9, 12, 18, 24, 36, 48, 72, 96)  # from messages of bytes to ones of 100 kB, for 9 hosts
PROCESSES = (1, 2, 4, 6, 8, 9, 12, 16)
OURS = "sweep"
RIVALS = (SUBARRAYS.name, IN_RING.name, MPI4PY_FFT.name)


def _case(n: int, grid: tuple[int, ...]) -> Case:
    shape = (n, n, n)
    return Case(shape, layout(shape, grid, 0), layout(shape, grid, 1))


def _cases(sizes: Sequence[int]) -> tuple[Case, ...]:
    found = []
    for processes in PROCESSES:
        even = even_grid(processes, 2)
        grids = [(processes,), *([even] if min(even) > 1 else [])]
        found += [_case(n, grid) for grid in grids for n in sizes]
    return tuple(found)


def load(case: Case, cores: int) -> Load:
    """What one core has to send in all redistributions of a time, by the model. Not collective.

    The model has a core and a link for each process. More processes than cores take turns.
    """
    grid = grid_of(case)
    each = moves(case.shape, grid, case.dtype.itemsize)
    stops = route(len(grid))
    return Load.total([each[min(k, to)] for k, to in itertools.pairwise(stops)], max(1.0, case.ranks / cores))


def cores_of(results: Results) -> int:
    """Cores of the machine that a run was on, 1 or more. Not collective."""
    return max(1, int(results.environment["cores"]))


def model_of(results: Results) -> Model | None:
    """t_s and t_w fitted to the least times of ours; None where nothing was sent. Not collective."""
    cores = cores_of(results)
    loads = [(load(result.case, cores), ours.least) for result in results.cases if (ours := result.method(OURS))]
    timed = [(sent, seconds) for sent, seconds in loads if sent.messages]
    return Model(*nearest(*zip(*timed, strict=True))) if timed else None


def tables(results: Results) -> Sequence[tuple[str, Table]]:
    """Times over N on each grid, what the model says, and the rivals. Not collective."""
    made = []
    times = {name: column[:, 1] for name, column in results.times.items() if name != "memcpy"}
    rivals = [name for name in times if name in RIVALS]
    model = model_of(results)
    said = _predicted(results, model)
    off = results.column(OURS)[:, 0] / said
    for grid in dict.fromkeys(grid_of(result.case) for result in results.cases):
        table = new_table(("N",), (*times, *(f"{name} / {OURS}" for name in rivals), "model", "off"))
        numbers = [k for k, result in enumerate(results.cases) if grid_of(result.case) == grid]
        for k in sorted(numbers, key=lambda k: results.cases[k].case.shape):
            ratios = (ratio_text(times[name][k] / times[OURS][k]) for name in rivals)
            cells = (*(time_text(column[k]) for column in times.values()), *ratios, time_text(said[k]))
            table.add_row(str(results.cases[k].case.shape[0]), *cells, ratio_text(off[k]))
        many = f"{'x'.join(map(str, grid))} process{'es' * (math.prod(grid) > 1)}"
        dims = f"a grid of {len(grid)} dimension{'s' * (len(grid) > 1)}"
        made.append((f"{many}, {dims}: median times of {2 * len(grid) + 1} redistributions:", table))
    made.append(("by the model and in all:", _summary(results, model, np.abs(np.log(off[np.isfinite(off)])))))
    return made


def _predicted(results: Results, model: Model | None) -> np.ndarray:
    """The model's times of all cases; NaN where there are none."""
    seconds = [model.seconds(load(result.case, cores_of(results))) if model else 0.0 for result in results.cases]
    return np.array([said or np.nan for said in seconds])


def _summary(results: Results, model: Model | None, off: np.ndarray) -> Table:
    table = new_table(("figure", "value"), ())
    if model is not None:
        table.add_row("t_s, start-up of a message", time_text(model.startup))
        table.add_row("t_w, time of a byte", f"{1e9 * model.per_byte:.3g} ns")
        factors = f"{ratio_text(math.exp(off.mean()))}, {ratio_text(math.exp(off.max()))}"
        table.add_row("measured / model, off by a factor of (mean, worst)", factors)
        for n in sorted({results.cases[0].case.shape[0], results.cases[-1].case.shape[0]}):
            at = crossover(model, n**3 * results.cases[0].case.dtype.itemsize, 2)
            if at is not None:
                what = f"a grid of two dimensions is faster, by the model, N = {n}"
                table.add_row(what, f"from {at:,.0f} processes on")
    for rival in RIVALS:
        faster = results.column(rival)[:, 1] / results.column(OURS)[:, 1]
        known = faster[~np.isnan(faster)]
        if known.size:
            figures = f"{ratio_text(math.exp(np.log(known).mean()))}, {ratio_text(known.min())}"
            table.add_row(f"times as fast as {rival} (geometric mean, least)", figures)
    return table


BIRKELAND = Suite(
    cases=_cases(SIZES),
    quick=_cases(QUICK),
    methods=(sweep(OURS), sweep("sweep/alltoallw/datatypes", "alltoallw", "datatypes"), SUBARRAYS, MPI4PY_FFT,
             *named_methods("memcpy")),
    tables=tables,
)  # fmt: skip
BIRKELAND_LINKS = Suite(
    cases=_cases(ON_LINKS),
    quick=_cases(QUICK[:1]),
    methods=(sweep(OURS), sweep("sweep/nonblocking", "nonblocking"), IN_RING, SUBARRAYS),
    tables=tables,
)
