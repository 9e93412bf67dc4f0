"""The capacitance of a thin square plate by the method of moments, and a picture of its charge. No MPI in here.

The plate has side a = 1 and is held at potential V = 1, in units where 4 pi eps0 = 1. It is cut into rectangular
panels, each with a charge spread evenly over it. That the potential be V at the centre of every panel is one equation
for each unknown charge; the capacitance is then the total charge. (Harrington, Field Computation by Moment Methods.)
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["LITERATURE_CAPACITANCE", "SquarePlate", "draw_charge", "graded_edges", "panel_potentials"]

LITERATURE_CAPACITANCE = 0.36679  # times 4 pi eps0 a; F. H. Read, J. Comput. Phys. 133 (1997) 1
COLOURS = "plasma"
ROWS_AT_ONCE = 32  # the intermediate arrays then stay in cache


def graded_edges(panels: int) -> NDArray[np.float64]:
    """Edges of `panels` intervals from 0 to 1, closer together at both ends, where the charge density grows without bound."""
    return (1 - np.cos(np.pi * np.arange(panels + 1) / panels)) / 2


def panel_potentials(
    x: NDArray[np.float64], y: NDArray[np.float64], x_edges: NDArray[np.float64], y_edges: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Potential at each point (x, y) of a unit charge on each panel of a mesh: points x panels along x x panels along y.

    The integral of 1 / distance over a rectangle is a closed form taken at its four corners. Neighbouring panels share
    corners, so the form is evaluated once for each corner of the mesh. No point may be in line with an edge.
    """
    along_x = (x_edges - x[:, np.newaxis])[:, :, np.newaxis]
    along_y = (y_edges - y[:, np.newaxis])[:, np.newaxis, :]
    at_corners = along_x * np.arcsinh(along_y / np.abs(along_x)) + along_y * np.arcsinh(along_x / np.abs(along_y))
    integrals = np.diff(np.diff(at_corners, axis=1), axis=2)
    potentials: NDArray[np.float64] = integrals / np.outer(np.diff(x_edges), np.diff(y_edges))
    return potentials


class SquarePlate:
    """The linear system of a plate: its matrix, times the charges of the panels, gives the potentials at their centres.

    Panel k is the one in column k // panels and row k % panels of the mesh.
    """

    solution_name = "charges"

    def __init__(self, panels: int) -> None:
        self.panels = panels
        self.edges = graded_edges(panels)
        self.centres = (self.edges[:-1] + self.edges[1:]) / 2
        self.unknowns = panels * panels
        self.dtype = np.dtype(np.float64)
        self.title = f"Capacitance of a thin square plate of {panels} x {panels} panels"

    def fill(self, rows: NDArray[np.int64], local: NDArray[np.float64]) -> Iterator[float]:
        """Write these rows of the matrix into `local`, some at a time; yield the fraction done."""
        for start in range(0, len(rows), ROWS_AT_ONCE):
            some = slice(start, start + ROWS_AT_ONCE)
            column, row = np.divmod(rows[some], self.panels)
            potentials = panel_potentials(self.centres[column], self.centres[row], self.edges, self.edges)
            local[some] = potentials.reshape(-1, self.unknowns)
            yield min(1.0, (start + ROWS_AT_ONCE) / len(rows))

    def charge_density(self, charges: NDArray[np.float64]) -> NDArray[np.float64]:
        """Charge density of each panel, both faces of the plate together, in units of eps0 V / a."""
        widths = np.diff(self.edges)
        density: NDArray[np.float64] = 4 * np.pi * charges.reshape(self.panels, self.panels) / np.outer(widths, widths)
        return density


def draw_charge(path: Path, plate: SquarePlate, charges: NDArray[np.float64]) -> None:
    """Draw the charge density as a surface, as a map, and on the way to an edge and to a corner."""
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure

    density = plate.charge_density(charges)
    # it grows without bound towards the edges: a scale of all its values would leave the inside of the plate black
    colours = LogNorm(density.min(), 25 * density.min())
    figure = Figure(figsize=(17, 5.8), dpi=140, layout="constrained")
    figure.suptitle(
        f"Charge of a thin square plate of side $a$ at potential $V$:  $C = {charges.sum():.4f}\\times 4\\pi\\varepsilon_0 a$",
        fontsize=17,
    )
    _draw_surface(figure.add_subplot(1, 3, 1, projection="3d"), plate, density, colours)
    _draw_map(figure.add_subplot(1, 3, 2), plate, density, colours)
    _draw_growth(figure.add_subplot(1, 3, 3), plate, density)
    figure.savefig(path)


def _draw_surface(axes: Any, plate: SquarePlate, density: NDArray[np.float64], colours: Any) -> None:
    from matplotlib import colormaps

    x, y = np.meshgrid(plate.centres, plate.centres, indexing="ij")
    height = np.log10(density)
    between_centres = (height[1:, 1:] + height[1:, :-1] + height[:-1, 1:] + height[:-1, :-1]) / 4
    axes.plot_surface(
        x,
        y,
        height,
        facecolors=colormaps[COLOURS](colours(10**between_centres)),
        rstride=1,
        cstride=1,
        linewidth=0,
        antialiased=False,
        shade=False,
    )
    axes.view_init(32, -58)
    axes.set_box_aspect((1, 1, 0.62), zoom=1.05)
    marks = [mark for mark in (3, 10, 30, 100, 300, 1000) if density.min() < mark < density.max()]
    axes.set_zticks(np.log10(marks), [str(mark) for mark in marks])
    axes.set(xlabel="x / a", ylabel="y / a", title="charge density, logarithmic")


def _draw_map(axes: Any, plate: SquarePlate, density: NDArray[np.float64], colours: Any) -> None:
    drawn = axes.pcolormesh(plate.edges, plate.edges, density.T, norm=colours, cmap=COLOURS)
    if plate.panels > 2:
        levels = [level for level in (2.5, 3, 4, 6, 10) if density.min() < level < density.max()]
        lines = axes.contour(plate.centres, plate.centres, density.T, levels, colors="white", linewidths=0.8, alpha=0.8)
        axes.clabel(lines, fmt="%g", fontsize=9)
    axes.set(aspect="equal", xlabel="x / a", ylabel="y / a", title="from above")
    bar = axes.figure.colorbar(
        drawn, ax=axes, extend="max", label="charge density, both faces  [ε₀ V / a]", shrink=0.92
    )
    marks = [mark for mark in (3, 5, 10, 20, 30, 50, 100) if colours.vmin < mark < colours.vmax]
    bar.set_ticks(marks, labels=[str(mark) for mark in marks])
    bar.minorticks_off()


def _draw_growth(axes: Any, plate: SquarePlate, density: NDArray[np.float64]) -> None:
    half = slice(0, (plate.panels + 1) // 2)
    distance = plate.centres[half]
    to_edge, to_corner = density[half, plate.panels // 2], density.diagonal()[half]
    axes.loglog(distance, to_corner, ".-", color="#f0804e", linewidth=2.5, label="towards a corner")
    axes.loglog(distance, to_edge, ".-", color="#6a00a8", linewidth=2.5, label="towards the middle of an edge")
    near = distance[distance < 0.03]
    if len(near) > 2:
        axes.loglog(near, to_edge[2] * np.sqrt(distance[2] / near), "k--", linewidth=1.2, label="1 / √distance")
    axes.set(xlabel="distance from the edge / a", ylabel="charge density  [ε₀ V / a]", title="near the edge")
    axes.grid(alpha=0.25, which="both")
    axes.legend(frameon=False)
