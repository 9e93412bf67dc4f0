"""The square plate of the LU example: its integrals against quadrature, its symmetries, and the value it converges to."""

from __future__ import annotations

import importlib.util
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import dblquad


def example(name: str) -> Any:
    path = Path(__file__).resolve().parents[2] / "examples" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


square_plate = example("square_plate")


def system_matrix(plate: Any) -> NDArray[np.float64]:
    matrix = np.full((plate.unknowns, plate.unknowns), np.nan)
    assert list(plate.fill(np.arange(plate.unknowns), matrix))[-1] == 1
    return matrix


def charges(panels: int) -> NDArray[np.float64]:
    return np.linalg.solve(system_matrix(square_plate.SquarePlate(panels)), np.ones(panels**2))


def potential_by_quadrature(x: float, y: float, x_edges: tuple[float, float], y_edges: tuple[float, float]) -> float:
    """Of a unit charge on one panel. Where the point is over the panel, it is cut there: a corner may be singular."""
    x_cuts, y_cuts = sorted({*x_edges, np.clip(x, *x_edges)}), sorted({*y_edges, np.clip(y, *y_edges)})
    total = 0.0
    for x_from, x_to in pairwise(x_cuts):
        for y_from, y_to in pairwise(y_cuts):
            total += dblquad(lambda v, u: 1 / np.hypot(u - x, v - y), x_from, x_to, y_from, y_to, epsabs=1e-11)[0]
    return total / ((x_edges[1] - x_edges[0]) * (y_edges[1] - y_edges[0]))


@pytest.mark.parametrize(
    ("x", "y"),
    [
        pytest.param(0.35, 0.1, id="own-centre"),
        pytest.param(0.31, 0.13, id="over-the-panel"),
        pytest.param(0.55, 0.1, id="beside"),
        pytest.param(0.35, 0.4, id="above"),
        pytest.param(0.22, -0.03, id="at-a-corner"),
        pytest.param(-0.4, 0.77, id="diagonally"),
        pytest.param(9.0, -7.0, id="far"),
    ],
)
def test_potential_against_quadrature(x: float, y: float) -> None:
    x_edges, y_edges = (0.25, 0.45), (0.0, 0.2)
    found = square_plate.panel_potentials(np.array([x]), np.array([y]), np.array(x_edges), np.array(y_edges))
    assert found.shape == (1, 1, 1)
    assert found.item() == pytest.approx(potential_by_quadrature(x, y, x_edges, y_edges), rel=1e-7)


def test_potential_of_an_oblong_panel_against_quadrature() -> None:
    x_edges, y_edges = (0.0, 0.01), (0.3, 0.9)
    for x, y in ((0.005, 0.6), (0.02, 0.5), (0.5, 0.1)):
        found = square_plate.panel_potentials(np.array([x]), np.array([y]), np.array(x_edges), np.array(y_edges))
        assert found.item() == pytest.approx(potential_by_quadrature(x, y, x_edges, y_edges), rel=1e-7)


def test_several_points_and_panels_at_once_are_as_one_by_one() -> None:
    x, y = np.array([0.1, 0.52, 0.9]), np.array([0.3, 0.11, 0.65])
    x_edges, y_edges = np.array([0, 0.2, 0.7, 1]), np.array([0, 0.5, 1])
    together = square_plate.panel_potentials(x, y, x_edges, y_edges)
    assert together.shape == (3, 3, 2)
    for p, i, j in np.ndindex(together.shape):
        alone = square_plate.panel_potentials(x[p : p + 1], y[p : p + 1], x_edges[i : i + 2], y_edges[j : j + 2])
        assert together[p, i, j] == pytest.approx(alone.item(), rel=1e-12)


def test_far_away_a_panel_is_a_point_charge() -> None:
    edges = np.array([-0.01, 0.01])
    found = square_plate.panel_potentials(np.array([3.0]), np.array([4.0]), edges, edges)
    assert found.item() == pytest.approx(1 / 5, rel=1e-5)


@pytest.mark.parametrize("panels", [1, 2, 7, 64])
def test_graded_edges(panels: int) -> None:
    edges = square_plate.graded_edges(panels)
    widths = np.diff(edges)
    assert (edges[0], edges[-1]) == (0, 1)
    assert (widths > 0).all()
    np.testing.assert_allclose(widths, widths[::-1], rtol=1e-9)
    assert (np.diff(widths[: (panels + 1) // 2]) > 0).all()


@pytest.mark.parametrize("panels", [1, 4, 5])
def test_the_matrix_has_the_symmetries_of_the_square(panels: int) -> None:
    matrix = system_matrix(square_plate.SquarePlate(panels)).reshape((panels,) * 4)
    np.testing.assert_allclose(matrix, matrix[::-1, :, ::-1, :], rtol=1e-9)
    np.testing.assert_allclose(matrix, matrix[:, ::-1, :, ::-1], rtol=1e-9)
    np.testing.assert_allclose(matrix, matrix.transpose(1, 0, 3, 2), rtol=1e-9)
    assert (matrix > 0).all()


def test_an_even_charge_has_the_potential_of_a_uniform_square() -> None:
    plate = square_plate.SquarePlate(5)
    widths = np.diff(plate.edges)
    at_the_middle = system_matrix(plate)[12] @ np.outer(widths, widths).ravel()
    assert at_the_middle == pytest.approx(4 * np.arcsinh(1), rel=1e-12)


def test_some_rows_are_those_of_the_whole_matrix() -> None:
    plate = square_plate.SquarePlate(9)
    rows = np.array([0, 3, 4, 40, 77, 80])
    local = np.empty((len(rows), plate.unknowns), order="F")
    list(plate.fill(rows, local))
    np.testing.assert_array_equal(local, system_matrix(plate)[rows])


def test_the_capacitance_converges_to_that_of_the_literature() -> None:
    coarse, middle, fine = (charges(panels).sum() for panels in (8, 16, 32))
    exact = square_plate.LITERATURE_CAPACITANCE
    assert coarse < middle < fine < exact
    assert exact == pytest.approx(0.3668, abs=5e-5)
    assert (exact - coarse) / (exact - middle) == pytest.approx(4, rel=0.2)
    assert (exact - middle) / (exact - fine) == pytest.approx(4, rel=0.2)
    assert fine + (fine - middle) / 3 == pytest.approx(exact, abs=5e-5)


def test_the_charge_gathers_at_the_edges_and_corners() -> None:
    plate = square_plate.SquarePlate(9)
    density = plate.charge_density(charges(9))
    np.testing.assert_allclose(density, density[::-1], rtol=1e-8)
    np.testing.assert_allclose(density, density.T, rtol=1e-8)
    assert density[0, 0] == pytest.approx(density.max(), rel=1e-12)
    assert density[4, 4] == pytest.approx(density.min())
    assert (np.diff(density[:5, 4]) < 0).all()


@pytest.mark.parametrize("panels", [1, 2, 3, 9])
def test_the_picture_is_drawn_whatever_the_number_of_panels(
    panels: int, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "charge.png"
    square_plate.draw_charge(picture, square_plate.SquarePlate(panels), charges(panels))
    assert picture.stat().st_size > 10_000
    assert not recwarn.list
