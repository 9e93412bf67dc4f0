"""Pictures of a plan: its array before and after, and its traffic from rank to rank."""

from __future__ import annotations

import math
from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np

from ..engine.plan import Plan
from ..errors import DescriptorError, ScheduleError
from ..layout.descriptor import Descriptor
from ..layout.dimensions import common_region
from ..layout.letters import transposes
from ..layout.tiles import Tiles
from .traffic import traffic_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 15.0, 5.2  # inches of a plan
MOST_PLANS = 8
TEXT_WIDTH = 44  # characters of a line in place of a picture
MOST_BLOCKS = 2**14  # of a layout, in a picture with all ranks


def region_of(plan: Plan, html: bool = False) -> tuple[int, ...]:
    """The first elements of B that both pictures of a plan can show."""
    a, b = _descriptors(plan)
    return common_region([a.T if transposes(plan.pairs[0].op) else a, b], html)


def _with_all_ranks(region: tuple[int, ...], layouts: Sequence[Descriptor]) -> tuple[int, ...]:
    """A region with a block of each process, if the pictures of all layouts have room for its blocks."""
    whole = layouts[0].shape
    wider = list(region)
    for layout in layouts:
        for k, axis in enumerate(layout.distributions):
            edges = axis.block_edges(MOST_BLOCKS)
            _, first = np.unique(axis.owner(edges[:-1]), return_index=True)
            wider[k] = max(wider[k], int(edges[first.max(initial=-1) + 1]))
    shape = tuple(n if 2 * wide > n else wide for n, wide in zip(whole, wider, strict=True))
    for candidate in (shape, tuple(wider)):
        if all(_count_blocks(layout, candidate) <= MOST_BLOCKS for layout in layouts):
            return candidate
    return region


def _count_blocks(layout: Descriptor, region: tuple[int, ...]) -> int:
    """Number of blocks of a layout that begin in a region."""
    axes = zip(layout.distributions, region, strict=True)
    return math.prod(int(np.searchsorted(axis.block_edges(MOST_BLOCKS + 1)[:-1], n)) for axis, n in axes)


def _descriptors(plan: Plan) -> tuple[Descriptor, Descriptor]:
    a, b = plan.pairs[0][:2]
    if isinstance(a, Tiles) or isinstance(b, Tiles):
        raise DescriptorError(f"a picture is for descriptors, and {plan!r} is of tiles")
    return a, b


def draw_plans(plans: Sequence[Plan]) -> Figure:
    """A row of three pictures for each plan."""
    from ..drawing.figures import new_figure

    shown = plans[:MOST_PLANS]
    figure = new_figure(WIDTH, HEIGHT * len(shown))
    axes = figure.subplots(len(shown), 3, squeeze=False)
    for plan, (before, after, traffic) in zip(shown, axes, strict=True):
        (a, b), op = _descriptors(plan), plan.pairs[0].op
        region = _with_all_ranks(region_of(plan), [a.T if transposes(op) else a, b])
        a._draw(before, region[::-1] if transposes(op) else region)
        b._draw(after, region)
        for ax, name in ((before, "before"), (after, "after")):
            ax.set_title(f"{name}: {ax.get_title()}", fontsize=9)
        _draw_traffic(traffic, plan)
    if len(plans) > len(shown):
        figure.suptitle(f"the first {len(shown)} of {len(plans)} plans")
    return figure


def _draw_traffic(axes: Axes, plan: Plan) -> None:
    from ..drawing.figures import draw_heat

    try:
        ranks, table = traffic_table(plan.moves)
    except ScheduleError as error:
        axes.axis("off")
        axes.text(0.5, 0.5, fill(f"traffic: {error}", TEXT_WIDTH), ha="center", va="center", fontsize=8)
        return
    numbered = None if ranks[-1] == len(ranks) - 1 else ranks.tolist()
    draw_heat(axes, table, "elements", ("from rank", "to rank"), numbered)
    axes.set_title("from rank to rank; on the diagonal what stays", fontsize=9)
