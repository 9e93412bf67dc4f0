"""Sweeps of redistribution on machines that we do not have, by the model of Birkeland & Sorevik (2007, section 5).

For each number of processes the time of a sweep over grids of 1 to d - 1 dimensions, and the processes from which on each is
faster, in closed forms. Network topology, the nodes' shared links and copying in memory are not in the model; the paper
cautions likewise. Run:
python benchmarks/sweeps.py --shape 256 256 256 --model ts=2e-6,tw=1e-10 --plot sweeps.png
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from typing import Any

from papers.birkeland_model import Model, crossover, even_grid, sweep

from pyscalapack_redist.tools.arguments import (
    UsageError,
    add_shape,
    argument,
    check_outputs,
    count,
    write_text,
    written,
)
from pyscalapack_redist.tools.cases import read_dtype
from pyscalapack_redist.tools.text import console, log_ticks, new_table, print_line, print_table, size_text, time_text

MOST_PROCESSES = 100_000


def predicted(shape: Sequence[int], item: int, model: Model, processes: int) -> dict[str, Any]:
    """A sweep on the most even grids of so many processes; no figures where a dimension has fewer elements than processes."""
    grids: list[dict[str, Any]] = []
    for r in range(1, len(shape)):
        grid = even_grid(processes, r)
        fits = all(p <= min(shape[j], shape[j + 1]) for j, p in enumerate(grid))
        load = sweep(shape, grid, item) if fits else None
        figures = (None, None, None) if load is None else (*load, model.seconds(load))
        grids.append({"grid": grid, **dict(zip(("messages", "bytes", "seconds"), figures, strict=True))})
    times = [(grid["seconds"], r) for r, grid in enumerate(grids, 1) if grid["seconds"] is not None]
    return {"processes": processes, "best_r": min(times)[1] if times else None, "grids": grids}


def show(title: str, least: int, document: dict[str, Any]) -> None:
    """Print the times."""
    out = console()
    for line in (
        f"sweeps over {title} (Birkeland & Sorevik)",
        "a sweep makes each dimension local once: r redistributions on a grid of r dimensions; times are of the process "
        "that has most, a dash where processes would have nothing",
        f"one grid dimension can have at most {least} processes here",
    ):
        print_line(out, line)
    for crossing in document["crossovers"]:
        from_here = "never faster than r = 1, as messages have no start-up"
        if crossing["processes"] is not None:
            from_here = f"faster than r = 1 from {crossing['processes']:,.0f} processes on, if r = 1 can have as many"
        print_line(out, f"r = {crossing['r']}: {from_here}")
    dims = range(1, len(document["shape"]))
    table = new_table(("processes",), (*(name for r in dims for name in (f"grid, r = {r}", "time")), "best r"))
    for row in document["sweeps"]:
        cells = [
            cell
            for grid in row["grids"]
            for cell in (
                "x".join(map(str, grid["grid"])),
                "-" if grid["seconds"] is None else time_text(grid["seconds"]),
            )
        ]
        table.add_row(f"{row['processes']:,}", *cells, str(row["best_r"] or "-"))
    print_table(out, table)


def draw(title: str, least: int, document: dict[str, Any], path: str) -> None:
    """Draw time against processes, a line for each number of grid dimensions, and where they cross."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter

    figure = Figure(figsize=(8.5, 5), layout="constrained")
    axes = figure.subplots()
    for r in range(1, len(document["shape"])):
        points = [(row["processes"], row["grids"][r - 1]["seconds"]) for row in document["sweeps"]]
        known = [point for point in points if point[1]]
        if known:
            axes.plot(*zip(*known, strict=True), marker="os^DvP"[(r - 1) % 6], color=f"C{r - 1}", label=f"grid of {r}")
    for crossing in document["crossovers"]:
        at, r = crossing["processes"], crossing["r"]
        if at is not None and at <= document["sweeps"][-1]["processes"]:
            axes.axvline(at, color=f"C{r - 1}", linestyle=":", label=f"r = {r} faster than r = 1 from {at:,.0f} on")
    axes.axvline(least, color="grey", linestyle="--", label=f"most that r = 1 can use: {least}")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    log_ticks(axes.yaxis, time_text)
    axes.tick_params(axis="x", rotation=45)
    axes.set(xlabel="processes", ylabel="time of a sweep, by the model")
    axes.set_title(title, fontsize=11)
    axes.grid(alpha=0.35)
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=150)


def run(options: argparse.Namespace) -> None:
    """Work it out, write, draw and show it; UsageError says why it cannot be done as asked."""
    shape, model, most = tuple(options.shape), options.model, options.processes
    if len(shape) < 2 or 0 in shape:
        raise UsageError(f"--shape: {shape}: a sweep takes an array of two dimensions or more, with elements")
    check_outputs(options, "sweeps")
    nbytes, least = math.prod(shape) * options.dtype.itemsize, min(shape[:2])
    counts = sorted({*(2**k for k in range(most.bit_length())), most})
    document = {
        "shape": shape,
        "dtype": str(options.dtype),
        "model": {"ts": model.startup, "tw": model.per_byte},
        "crossovers": [{"r": r, "processes": crossover(model, nbytes, r)} for r in range(2, len(shape))],
        "sweeps": [predicted(shape, options.dtype.itemsize, model, processes) for processes in counts],
    }
    title = f"{' x '.join(map(str, shape))} {options.dtype}, {size_text(nbytes)}, by the model {model}"
    if options.json:
        write_text("--json", options.json, json.dumps(document, indent=1))
    if options.plot:
        with written("--plot", options.plot):
            draw(title, least, document, options.plot)
    show(title, least, document)


def main(arguments: Sequence[str] | None = None) -> None:
    about = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=about, allow_abbrev=False)
    add_shape(parser, required=True)
    add = parser.add_argument
    add("--dtype", type=argument(read_dtype), default="float64", help="of the elements (default: float64)")
    add(
        "--model",
        type=argument(Model.parse),
        required=True,
        metavar="ts=S,tw=S",
        help="seconds of a start-up and of a byte",
    )
    add("--processes", type=argument(count), default=MOST_PROCESSES, metavar="P", help="at most (default: 100000)")
    add("--json", metavar="FILE", help="write the times as JSON")
    add("--plot", metavar="FILE.png", help="draw them")
    try:
        run(parser.parse_args(arguments))
    except UsageError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
