"""The model of Birkeland & Sorevik: Eqs (5.1) to (5.3), sizes that do not divide, where they cross, and the fit."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from oracle import deal
from papers import birkeland_figure
from papers.birkeland import load, model_of, tables
from papers.birkeland_projection import AROUND, AT_ONCE, ONE_BY_ONE, PROJECTION, layouts, loads, matrix
from papers.birkeland_sweep import MPI4PY_FFT, SUBARRAYS, grid_of, layout

from pyscalapack_redist import DescriptorError, ProcessGrid
from pyscalapack_redist.tools.bench.results import CaseResult, MethodResult, Results
from pyscalapack_redist.tools.cases import Case
from pyscalapack_redist.tools.plan.birkeland_model import (
    Load,
    Model,
    crossover,
    even_grid,
    fitted,
    moves,
    places,
    route,
    sweep,
)


@given(st.integers(1, 6), st.integers(1, 3), st.integers(1, 4), st.sampled_from((1, 8, 16)))
def test_the_papers_equations_where_all_divides(P: int, r: int, factor: int, item: int) -> None:
    d, N = r + 1, P * factor
    shape, ts, tw = (N,) * d, 3e-6, 2e-9
    model = Model(ts, tw)
    for moved in moves(shape, (P,) * r, item):
        assert model.seconds(moved) == pytest.approx((P - 1) * (ts + tw * item * N**d / P ** (r + 1)))  # (5.1)
    assert model.seconds(sweep(shape, (P,) * r, item)) == pytest.approx(
        r * (P - 1) * (ts + tw * item * N**d / P ** (r + 1))  # (5.2)
    )
    total = P**r
    whole = (total * factor, total * factor)
    size = item * math.prod(whole)
    assert model.seconds(sweep(whole, (total,), item)) == pytest.approx(
        (total - 1) * (ts + tw * size / total**2)
    )  # (5.3)


def owners(shape: Sequence[int], grid: Sequence[int], where: Sequence[int]) -> NDArray[np.int64]:
    """Rank of each element where grid dimension j is on array dimension where[j], one block for each process."""
    ranks = np.zeros(shape, np.int64)
    for j, dim in enumerate(where):
        held = deal(shape[dim], -(-shape[dim] // grid[j]), grid[j])
        coordinate = np.array([next(p for p, some in enumerate(held) if i in some) for i in range(shape[dim])])
        ranks = ranks * grid[j] + coordinate.reshape([-1 if k == dim else 1 for k in range(len(shape))])
    return ranks


@given(st.data())
def test_the_busiest_process_of_sizes_that_do_not_divide(data: st.DataObject) -> None:
    r = data.draw(st.integers(1, 2))
    grid = tuple(data.draw(st.lists(st.integers(1, 4), min_size=r, max_size=r)))
    shape = tuple(data.draw(st.lists(st.integers(4, 9), min_size=r + 1, max_size=r + 2)))
    for moved, figures in enumerate(moves(shape, grid, 1)):
        before, after = (owners(shape, grid, places(r, k)) for k in (moved, moved + 1))
        pairs: dict[tuple[int, int], int] = {}
        for p, q in zip(before.flat, after.flat, strict=True):
            pairs[p, q] = pairs.get((p, q), 0) + 1
        largest = max(pairs.values())
        assert figures == Load(grid[r - 1 - moved] - 1, (grid[r - 1 - moved] - 1) * largest)


def test_a_route_is_two_sweeps_and_one_more() -> None:
    assert route(1) == (0, 1, 0, 1)
    assert route(2) == (0, 1, 2, 1, 0, 1)
    for r in range(1, 6):
        assert len(route(r)) == 2 * r + 2
        assert all(abs(k - to) == 1 for k, to in zip(route(r), route(r)[1:], strict=False))
    assert [places(2, moved) for moved in range(3)] == [(0, 1), (0, 2), (1, 2)]


@given(st.integers(1, 5000), st.integers(1, 4))
def test_even_grids(processes: int, dims: int) -> None:
    grid = even_grid(processes, dims)
    assert math.prod(grid) == processes
    assert len(grid) == dims
    if dims == 2:
        assert min(grid) == max(p for p in range(1, math.isqrt(processes) + 1) if processes % p == 0)


@given(st.floats(1e-7, 1e-4), st.floats(1e-12, 1e-8), st.integers(2, 4))
def test_where_grids_cross(ts: float, tw: float, r: int) -> None:
    model, V = Model(ts, tw), 8 * 256**3
    at = crossover(model, V, r)
    assert at is not None
    if r == 2:
        assert at == pytest.approx(max(math.sqrt(tw * V / ts), 1.0), rel=1e-6)

    def times(P: float) -> tuple[float, float]:
        """Eqs (5.2) and (5.3)."""
        return (
            r * (P - 1) * (ts + tw * V / P ** (r + 1)),
            (P**r - 1) * (ts + tw * V / P ** (2 * r)),
        )

    if at > 1.5:
        by_dimension, at_once = times(1.02 * at ** (1 / r))
        assert by_dimension < at_once
        by_dimension, at_once = times(0.98 * at ** (1 / r))
        assert by_dimension > at_once
    assert crossover(Model(0, tw), V, r) is None


def test_the_fit_finds_the_model_again() -> None:
    model = Model(2e-6, 3e-10)
    loads = [sweep((n, n, n), grid, 8) for n in (8, 64, 200) for grid in ((4,), (2, 2), (16,))]
    found = fitted(loads, [model.seconds(load) for load in loads])
    assert found.startup == pytest.approx(model.startup)
    assert found.per_byte == pytest.approx(model.per_byte)
    with pytest.raises(ValueError, match="no messages"):
        fitted([Load(0, 0)], [1.0])


@pytest.mark.parametrize(
    "text", ["", "ts=1", "ts=1,tw=x", "ts=-1,tw=1", "ts=0,tw=0", "ts=1,tw=1,tx=1", "tw=inf,ts=1", "ts=1e308,tw=1"]
)
def test_a_model_that_cannot_be_read(text: str) -> None:
    with pytest.raises(ValueError, match=r"must be ts=SECONDS,tw=SECONDS"):
        Model.parse(text)
    assert Model.parse("tw=1e-9, ts=2e-6") == Model(2e-6, 1e-9)


def test_processes_that_share_a_core_take_turns() -> None:
    shape = (12, 12, 12)
    case = Case(shape, layout(shape, (2, 2), 0), layout(shape, (2, 2), 1))
    assert load(case, 4) == load(case, 64) == Load(5, 5 * 12**3 * 8 / 8)
    assert load(case, 2) == load(case, 4).times(2)


def made_up(model: Model) -> Results:
    cases = []
    for n in (12, 30):
        for grid in ((4,), (2, 2)):
            case = Case((n, n, n), layout((n, n, n), grid, 0), layout((n, n, n), grid, 1))
            seconds = model.seconds(load(case, 2))
            timed = (MethodResult("sweep", (seconds,), 0, True), MethodResult(SUBARRAYS.name, (3 * seconds,), 0, True))
            cases.append(CaseResult(case, timed))
    return Results({"ranks": 4, "cores": 2, "mpi": "an MPI"}, tuple(cases))


def test_tables_hold_the_model_and_the_rivals() -> None:
    results = made_up(Model(1e-6, 1e-9))
    model = model_of([results])
    assert model is not None
    assert (model.startup, model.per_byte) == pytest.approx((1e-6, 1e-9))
    headings = [heading for heading, _ in tables(results)]
    assert headings[0].startswith("4 processes, a grid of 1 dimension: median times of 3 redistributions")
    assert headings[1].startswith("2x2 processes, a grid of 2 dimensions: median times of 5")
    (_, last) = tables(results)[-1]
    columns = [list(column.cells) for column in last.columns]
    assert (
        dict(zip(*columns, strict=True))["times as fast as subarrays/alltoallw (geometric mean, least)"] == "3.00, 3.00"
    )


def test_runs_are_joined(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, picture = tmp_path / "run.json", tmp_path / "fig3.png"
    run.write_text(made_up(Model(1e-6, 1e-9)).to_json())
    assert birkeland_figure.main([str(run), str(run), "--plot", str(picture)]) == 0
    assert "t_s = 1.00 us, t_w = 1 ns a byte: --model ts=1e-06,tw=1e-09" in capsys.readouterr().out
    assert picture.read_bytes().startswith(b"\x89PNG")
    (tmp_path / "other.json").write_text(json.dumps({"cases": 3}))
    with pytest.raises(SystemExit):
        birkeland_figure.main([str(tmp_path / "other.json")])
    assert "must be what bench --suite birkeland --json wrote" in capsys.readouterr().err


def test_other_cases_are_no_sweeps() -> None:
    shape = (12, 12, 12)
    assert grid_of(Case(shape, layout(shape, (2, 3), 0), layout(shape, (2, 3), 1))) == (2, 3)
    case = Case(shape, layout(shape, (2, 3), 0), layout(shape, (2, 3), 2))
    why = SUBARRAYS.obstacle(case)
    assert why is not None
    assert "the first redistribution of a sweep" in why
    full = Case(shape, layout(shape, (4,), 0), layout(shape, (4,), 0))
    assert SUBARRAYS.obstacle(full)
    assert MPI4PY_FFT.obstacle(full)


@pytest.mark.parametrize(("n", "side"), [(12, 2), (36, 3), (16, 4)])
def test_what_the_projection_sends(n: int, side: int) -> None:
    found, held = loads(n, side), n**4 * 8 / side**2
    group = Load(side - 1, held * (side - 1) / side)
    assert found[AT_ONCE] == found[PROJECTION] == Load(side**2 - 1, held * (1 - 1 / side**2))
    assert found[ONE_BY_ONE] == group.times(2)
    assert (
        found[AROUND] == found[PROJECTION] + found[ONE_BY_ONE]
    )  # blocks are dealt out within groups, and gathered again


def test_a_projected_layout_is_a_matrix_in_rows_then_in_columns() -> None:
    made = layouts(12, ProcessGrid((3, 3)))
    rows, columns = (matrix(made[name]) for name in ("first, dealt out", "last, dealt out"))
    assert (rows.shape, rows.axes, rows.grid.shape) == ((144, 144), (0, None), (9,))
    assert (columns.axes, rows.block[0], columns.block[1]) == ((None, 0), 4, 4)
    with pytest.raises(DescriptorError, match="cannot be merged"):
        matrix(made["first"])
