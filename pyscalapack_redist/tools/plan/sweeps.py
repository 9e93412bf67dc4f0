"""Sweeps of redistribution on machines that we do not have, by the model of Birkeland & Sorevik (2007, section 5).

For each number of processes, grids of 1 to d - 1 dimensions: closed forms, so any number of processes is quick. Network
topology, the nodes' shared links and copying in memory are not in the model; the paper cautions likewise.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import DescriptorError
from ..text import console, log_ticks, new_table, print_table, size_text, time_text
from .birkeland_model import Load, Model, crossover, even_grid, sweep

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["Prediction", "Sweeps", "draw_sweeps"]


@dataclass(frozen=True)
class Prediction:
    """A sweep on one grid: what one process sends, and the time of it.

    Attributes
    ----------
    load, seconds : Load, float, or None
        None where a dimension of the array has fewer elements than the grid has processes for it.
    """

    grid: tuple[int, ...]
    load: Load | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Sweeps:
    """Sweeps over an array by a model. Not collective.

    Attributes
    ----------
    rows : list of (int, list of Prediction)
        Numbers of processes, and for each the most even grids of 1, 2, ... dimensions.
    crossovers : dict
        For each number of grid dimensions from 2 on, the processes from which on it is faster than one dimension, by
        Eqs (5.2) and (5.3) for grids of equal dimensions and sizes that divide; None where it never is.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    model: Model
    rows: list[tuple[int, list[Prediction]]]
    crossovers: dict[int, float | None]

    @classmethod
    def of(cls, shape: tuple[int, ...], dtype: np.dtype[np.generic], model: Model, most: int) -> Sweeps:
        """Work out 1, 2, 4, ... and `most` processes.

        Raises
        ------
        DescriptorError
            The array has fewer than two dimensions, or no elements.
        """
        if len(shape) < 2 or 0 in shape:
            raise DescriptorError(f"shape {shape}: a sweep takes an array of two dimensions or more, with elements")
        counts = sorted({*(2**k for k in range(most.bit_length())), most})
        rows = [(n, [_predicted(shape, dtype, model, even_grid(n, r)) for r in range(1, len(shape))]) for n in counts]
        nbytes = math.prod(shape) * dtype.itemsize
        return cls(shape, dtype, model, rows, {r: crossover(model, nbytes, r) for r in range(2, len(shape))})

    @property
    def title(self) -> str:
        """What is swept over."""
        return f"{' x '.join(map(str, self.shape))} {self.dtype}"

    def lines(self) -> Iterator[str]:
        """What the table holds, and where the grids of more dimensions begin to be faster. Not collective."""
        nbytes = math.prod(self.shape) * self.dtype.itemsize
        size = f"{nbytes:,} bytes ({size_text(nbytes)})"
        yield f"sweeps over {self.title}, {size}, by the model {self.model} (Birkeland & Sorevik)"
        yield (
            "a sweep makes each dimension local once: r redistributions on a grid of r dimensions; times are of the process "
            "that has most, a dash where processes would have nothing"
        )
        yield f"one grid dimension can have at most {min(self.shape[:2])} processes here"
        for r, at in self.crossovers.items():
            if at is None:
                yield f"r = {r}: never faster than r = 1, as messages have no start-up"
            else:
                yield f"r = {r}: faster than r = 1 from {at:,.0f} processes on, if r = 1 can have as many"

    def show(self) -> None:
        """Print them. Not collective."""
        out = console()
        for line in self.lines():
            out.print(line, soft_wrap=True, markup=False)
        print_table(out, self._table())

    def _table(self) -> Table:
        dims = range(1, len(self.shape))
        table = new_table(("processes",), (*(name for r in dims for name in (f"grid, r = {r}", "time")), "best r"))
        for count, predictions in self.rows:
            cells = []
            for prediction in predictions:
                time = "-" if prediction.seconds is None else time_text(prediction.seconds)
                cells += ["x".join(map(str, prediction.grid)), time]
            best = self.best(predictions)
            table.add_row(f"{count:,}", *cells, "-" if best is None else str(best))
        return table

    def best(self, predictions: list[Prediction]) -> int | None:
        """Grid dimensions of the fastest; None where no grid has work for all."""
        times = [
            (prediction.seconds, r) for r, prediction in enumerate(predictions, 1) if prediction.seconds is not None
        ]
        return min(times)[1] if times else None

    def to_json(self) -> str:
        """As JSON text. Not collective."""
        written: dict[str, Any] = {
            "shape": list(self.shape),
            "dtype": str(self.dtype),
            "model": {"ts": self.model.startup, "tw": self.model.per_byte},
            "crossovers": [{"r": r, "processes": at} for r, at in self.crossovers.items()],
            "sweeps": [
                {
                    "processes": count,
                    "best_r": self.best(found),
                    "grids": [_written(prediction) for prediction in found],
                }
                for count, found in self.rows
            ],
        }
        return json.dumps(written, indent=1)


def _predicted(shape: tuple[int, ...], dtype: np.dtype[np.generic], model: Model, grid: tuple[int, ...]) -> Prediction:
    if any(p > min(shape[j], shape[j + 1]) for j, p in enumerate(grid)):
        return Prediction(grid)
    load = sweep(shape, grid, dtype.itemsize)
    return Prediction(grid, load, model.seconds(load))


def _written(prediction: Prediction) -> dict[str, Any]:
    load = prediction.load
    return {
        "grid": list(prediction.grid),
        "messages": None if load is None else load.messages,
        "bytes": None if load is None else load.bytes,
        "seconds": prediction.seconds,
    }


def draw_sweeps(sweeps: Sweeps, path: str) -> None:
    """Draw time against processes, a line for each number of grid dimensions, and where they cross. Not collective.

    Raises
    ------
    OSError, ValueError
        The file cannot be written, or there is no such format.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter

    figure = Figure(figsize=(8.5, 5), layout="constrained")
    axes = figure.subplots()
    for r in range(1, len(sweeps.shape)):
        points = [(count, found[r - 1].seconds) for count, found in sweeps.rows if found[r - 1].seconds]
        if points:
            axes.plot(
                *zip(*points, strict=True),
                marker="os^DvP"[(r - 1) % 6],
                color=f"C{r - 1}",
                label=f"grid of {r}: r = {r}",
            )
        at = sweeps.crossovers.get(r)
        if at is not None and at <= sweeps.rows[-1][0]:
            axes.axvline(at, color=f"C{r - 1}", linestyle=":", label=f"r = {r} faster than r = 1 from {at:,.0f} on")
    axes.axvline(
        min(sweeps.shape[:2]), color="grey", linestyle="--", label=f"most that r = 1 can use: {min(sweeps.shape[:2])}"
    )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    log_ticks(axes.yaxis, time_text)
    axes.tick_params(axis="x", rotation=45)
    axes.set_xlabel("processes")
    axes.set_ylabel("time of a sweep, by the model")
    axes.set_title(f"{sweeps.title}, {sweeps.model}", fontsize=11)
    axes.grid(alpha=0.35)
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=150)
