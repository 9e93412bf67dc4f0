"""The picture of fft3d.py: where the time goes, and the field with its spectrum. No MPI in here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["draw"]


def draw(
    path: Path,
    seconds: Mapping[str, Mapping[str, float]],
    field: NDArray[np.complex128],
    spectrum: NDArray[np.complex128],
    title: str,
) -> None:
    """Draw the time of each part of each transform, and a plane of the field and one of its spectrum.

    Parameters
    ----------
    path : Path
        The picture's file.
    seconds : mapping
        For each way to deal out the array, the time of each part in the order in which they run.
    field, spectrum : ndarray
        The whole array before and after the transform.
    title : str
        Of the whole picture.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15, 4.8), dpi=130, layout="constrained")
    figure.suptitle(title, fontsize=12)
    bars, before, after = figure.subplots(1, 3, gridspec_kw={"width_ratios": (1.5, 1, 1)})
    _draw_times(bars, seconds)
    middle = round(field.shape[2] / (2 * np.pi)) % field.shape[2]  # of the wave packet
    rows, columns = field.shape[:2]
    edges = (-0.5, columns - 0.5, -0.5, rows - 0.5)
    _draw_plane(before, field[:, :, middle].real, "RdBu_r", f"real part of the field, plane k = {middle}", edges)
    before.set(xlabel="j", ylabel="i")
    power = np.log10(np.abs(np.fft.fftshift(spectrum[:, :, 0])) + 1e-3)
    centred = (-(columns // 2) - 0.5, (columns - 1) // 2 + 0.5, -(rows // 2) - 0.5, (rows - 1) // 2 + 0.5)
    _draw_plane(after, power, "magma", "log10 of the spectrum's magnitude, plane kz = 0", centred)
    after.set(xlabel="ky", ylabel="kx")
    figure.savefig(path)


def _draw_times(axes: Any, seconds: Mapping[str, Mapping[str, float]]) -> None:
    ways = list(seconds)
    for row, way in enumerate(ways):
        left = 0.0
        for number, (part, time) in enumerate(seconds[way].items()):
            moves = "->" in part
            colour = f"C{1 if moves else 0}"
            axes.barh(row, 1e3 * time, 0.6, left=left, color=colour, alpha=1 - 0.15 * (number // 2), edgecolor="white")
            axes.text(
                left + 5e2 * time, row, f"{part}\n{1e3 * time:.3g}", ha="center", va="center", fontsize=8, rotation=90
            )
            left += 1e3 * time
    axes.set_yticks(range(len(ways)), ways)
    axes.set_ylim(-0.6, len(ways) - 0.4)
    axes.invert_yaxis()
    axes.set_xlabel("milliseconds")
    axes.set_title("forward transform: transforms along dimensions (blue), redistributions (orange)", fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_plane(
    axes: Any, plane: NDArray[np.float64], colours: str, title: str, extent: tuple[float, float, float, float]
) -> None:
    drawn = axes.imshow(plane, cmap=colours, origin="lower", aspect="auto", interpolation="nearest", extent=extent)
    axes.set_title(title, fontsize=9)
    axes.figure.colorbar(drawn, ax=axes, shrink=0.85)
