"""Pictures of plans: the array before and after, and what goes from rank to rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..errors import ScheduleError
from ..layout.dimensions import common_region
from ..layout.letters import transposes
from .layouts import descriptors, moved
from .traffic import between_ranks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


from .plan import Plan

__all__ = ["draw_plans", "region_of", "traffic_table"]

WIDTH, HEIGHT = 15.0, 5.2  # inches of a plan
MOST_PLANS = 8


def region_of(plan: Plan, html: bool = False) -> tuple[int, ...]:
    """The first elements of B that both pictures of a plan can show. Not collective."""
    pair = plan.pairs[0]
    return common_region(descriptors(moved(pair.desc_a, pair.op), pair.desc_b, "a picture"), html)


def traffic_table(plan: Plan) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The ranks of a plan, and the elements from each to each in all its moves. Not collective.

    Raises
    ------
    ScheduleError
        There are too many ranks for a table.
    """
    found = [
        between_ranks(*descriptors(move.moved, move.desc_b, "a table of the traffic"), move.edge) for move in plan.moves
    ]
    ranks = np.unique(np.concatenate([some for some, _ in found]))
    whole = np.zeros((len(ranks), len(ranks)), np.int64)
    for some, table in found:
        at = np.searchsorted(ranks, some)
        whole[np.ix_(at, at)] += table
    return ranks, whole


def draw_plans(plans: Sequence[Plan]) -> Figure:
    """A row of three pictures for each plan. Not collective."""
    from ..drawing.figures import new_figure

    shown = plans[:MOST_PLANS]
    figure = new_figure(WIDTH, HEIGHT * len(shown))
    axes = figure.subplots(len(shown), 3, squeeze=False)
    for plan, (before, after, traffic) in zip(shown, axes, strict=True):
        region, pair = region_of(plan), plan.pairs[0]
        a, b = descriptors(pair.desc_a, pair.desc_b, "a picture")
        a._draw(before, region[::-1] if transposes(pair.op) else region)
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
        ranks, table = traffic_table(plan)
    except ScheduleError as error:
        axes.axis("off")
        axes.text(0.5, 0.5, f"traffic: {error}", ha="center", va="center", wrap=True, fontsize=8)
        return
    numbered = None if ranks[-1] == len(ranks) - 1 else ranks.tolist()
    draw_heat(axes, table, "elements", ("from rank", "to rank"), numbered)
    axes.set_title("from rank to rank; on the diagonal what stays", fontsize=9)
