"""A study for a person to read: sizes, tables of small grids, and how the algorithms compare."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...layout.blockcyclic import Axis
from ...schedules import CommunicationGrid
from ..text import console, counted, new_table, print_line, print_table, ratio_text, size_text, time_text
from .study import AxisStudy, Outcome, Study, block_of
from .tables import MOST_ACROSS, grid_lines, is_small, step_figures, step_lines

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from ...schedules import Schedule

__all__ = ["show"]

ABOUT_COSTS = (
    "cost: each step's longest message, added up; one-port: in a step no process sends to or receives from two"
)


def show(study: Study) -> None:
    """Print a study. Not collective."""
    out = console()
    _say(out, study_lines(study))
    for k, axis in enumerate(study.axes):
        _say(out, ["", *axis_lines(axis, k)])
        if axis.schedule is not None and is_small(axis.grid):
            _say(out, ["", f"communication grid, {_unit(axis)}:", *grid_lines(axis.grid)])
            _say(out, ["", f"step of each pair, {study.name}:", *step_lines(axis.schedule, axis.grid)])
        if axis.schedule is not None:
            _say(out, ["", *cost_lines(axis.schedule, study.name)])
        _say(out, ["", f"algorithms, costs in {_unit(axis)}:", ABOUT_COSTS])
        print_table(out, _comparison(axis))
        _say(out, (f"{outcome.name}: {outcome.reason}" for outcome in axis.outcomes if outcome.reason))
    if len(study.axes) > 1:
        _say(out, ["", "products of the dimensions' schedules (steps and costs multiply):"])
        print_table(out, _products(study))
        _say(out, whole_lines(study.whole))
    _say(out, ["", *way_lines(study)])
    print_table(out, _ways(study))
    _say(out, (f"{way.name}: {way.reason}" for way in study.ways if way.reason))


def study_lines(study: Study) -> Iterator[str]:
    """The array, its messages and its bytes. Not collective."""
    yield f"plan: {study.case}"
    messages, kept = study.messages, study.kept
    count = "messages not counted: the tables are too large" if messages is None else counted(messages, "message")
    yield f"array: {study.total_bytes:,} bytes ({size_text(study.total_bytes)}), {count}"
    if kept is None or messages is None:
        yield "local copies: not counted, the tables are too large"
    else:
        moved = study.total_bytes - kept[1]
        yield f"between ranks: {moved:,} bytes in {counted(messages - kept[0], 'message')}"
        yield f"local copies: {kept[1]:,} bytes on {counted(kept[0], 'rank')}"
    sent, received = study.most_messages(1), study.most_messages(0)
    if sent is not None and received is not None:
        yield f"a process sends at most {counted(sent, 'message')} and receives at most {received}"


def whole_lines(whole: Outcome | None) -> Iterator[str]:
    """The least cost over all dimensions at once, beside the products. Not collective."""
    if whole is not None and whole.steps is not None:
        yield (
            f"{whole.name}, messages of ranks to themselves left out: {counted(whole.steps, 'step')}, cost {whole.cost}; "
            f"{whole.certificate}"
        )
    elif whole is not None:
        yield f"{whole.name}: {whole.reason}"
    yield "a product of least-cost schedules need not be the cheapest of all: its certificates are of each dimension"


def way_lines(study: Study) -> Iterator[str]:
    """What the table of the ways of `via=` holds. Not collective."""
    yield "ways of via=, all ranks and legs together, without local copies:"
    yield (
        "fewest steps: of any one-port schedule; busiest rank: the most bytes that one rank sends or receives in each leg, "
        f"added up; steps, cost: of {study.name}, dimension by dimension and with those messages, the cost in bytes of the "
        "whole array"
    )
    if study.model is not None:
        yield f"time by the model {study.model}: a start-up for each of the fewest steps, and the busiest rank's bytes"


def axis_lines(axis: AxisStudy, k: int) -> Iterator[str]:
    """One dimension's parameters and bounds. Not collective."""
    before, after, grid = axis.before, axis.after, axis.grid
    yield (
        f"dimension {k}: {before.n} elements, {before.processes} -> {after.processes} processes, "
        f"block size {_block(before)} -> {_block(after)}"
    )
    sliced = axis.sliced
    if not isinstance(grid, CommunicationGrid):
        yield "the whole axis is taken as one: irregular blocks do not repeat, so there are no slices"
    elif sliced is None:
        yield (
            f"the whole axis is taken as one: it is shorter than a slice, the {grid.slice_length} elements after which both "
            "layouts repeat"
        )
    else:
        yield f"both layouts repeat after {grid.slice_length} elements, a slice; the axis has {_slices(axis.before.n, sliced)}"
    if axis.bounds is None:
        yield "bounds: not worked out, the tables are too large"
    else:
        yield f"bounds: at least {counted(axis.bounds[0], 'step')}, cost at least {counted(axis.bounds[1], 'element')}"
        if axis.grid.volume_bound < axis.bounds[1]:
            yield f"where messages are cut: cost at least {counted(axis.grid.volume_bound, 'element')}"
    if axis.schedule is None:
        yield f"{axis.entries:,} pairs: too many to schedule them all here; a rank's own part needs no table"
    elif not is_small(grid):
        yield f"tables are printed up to {MOST_ACROSS} processes"


def cost_lines(schedule: Schedule, name: str) -> Iterator[str]:
    """Messages and cost of each step, equal ones in a row told together. Not collective."""
    yield (
        f"{name}: {counted(schedule.number_of_steps, 'step')}, cost {schedule.total_cost}; {schedule.certificate}"
        + ("" if schedule.one_port else "; not one-port: several may send to one process in a step")
    )
    runs: list[tuple[int, int, tuple[int, int]]] = []
    for number, figures in enumerate(map(step_figures, schedule.steps)):
        if runs and runs[-1][2] == figures:
            runs[-1] = (runs[-1][0], number, figures)
        else:
            runs.append((number, number, figures))
    for first, last, (messages, cost) in runs[:MOST_ACROSS]:
        steps = f"step {first}" if first == last else f"steps {first} to {last}, each"
        yield f"  {steps}: {counted(messages, 'message')}, cost {cost}" if messages else f"  {steps}: empty"
    if len(runs) > MOST_ACROSS:
        yield f"  ... {counted(len(runs) - MOST_ACROSS, 'more line')} left out"


def _comparison(axis: AxisStudy) -> Table:
    table = new_table(("algorithm",), ("steps", "of the bound", "cost", "of the bound", "one-port", "certificate"))
    for outcome in axis.outcomes:
        if outcome.steps is not None or outcome.cost is not None:
            table.add_row(*_row(outcome, axis.bounds), outcome.certificate or "-")
        else:
            table.add_row(outcome.name, *["-"] * 5, "see below")
    return table


def _products(study: Study) -> Table:
    table = new_table(("algorithm",), ("steps", "of the bound", "cost", "of the bound", "one-port"))
    for name in (outcome.name for outcome in study.axes[0].outcomes):
        product = study.product(name)
        if product is not None:
            table.add_row(*_row(product, study.bounds))
    return table


def _ways(study: Study) -> Table:
    table = new_table(
        ("way",),
        (
            *("legs", "messages", "bytes", "of direct", "fewest steps", "busiest rank", "steps", "cost", "of direct"),
            *([] if study.model is None else ["time by the model"]),
        ),
    )
    direct = study.ways[0]
    for way in study.ways:
        figures = (way.legs, way.messages, way.bytes, None, way.fewest_steps, way.busiest_bytes, way.steps, way.cost)
        cells = ["-" if value is None else f"{value:,}" for value in figures]
        cells[3] = _of(way.bytes, direct.bytes)
        cells.append(_of(way.cost, direct.cost))
        if study.model is not None:
            seconds = way.seconds(study.model)
            cells.append("-" if seconds is None else time_text(seconds))
        table.add_row(way.name, *cells)
    return table


def _row(outcome: Outcome, bounds: tuple[int, int] | None) -> tuple[str, ...]:
    if outcome.one_port is False:
        bounds = None  # they are those of one-port schedules
    return (
        outcome.name,
        "-" if outcome.steps is None else str(outcome.steps),
        _of(outcome.steps, bounds and bounds[0]),
        "-" if outcome.cost is None else str(outcome.cost),
        _of(outcome.cost, bounds and (outcome.cost_bound or bounds[1])),
        {True: "yes", False: "no", None: "-"}[outcome.one_port],
    )


def _of(value: int | None, bound: int | None) -> str:
    return ratio_text(value / bound if value is not None and bound else None)


def _unit(axis: AxisStudy) -> str:
    return "elements of the axis" if axis.grid is axis.whole else "elements of one slice"


def _block(axis: Axis) -> str:
    size = block_of(axis)
    return "irregular" if size is None else str(size)


def _slices(n: int, grid: CommunicationGrid) -> str:
    whole, rest = divmod(n, grid.slice_length)
    return f"{whole} of them" + (f" and {counted(rest, 'element')} of another" if rest else "")


def _say(out: Console, lines: Iterator[str] | list[str]) -> None:
    for line in lines:
        print_line(out, line)
