"""A study as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import numpy as np

from ...schedules import CommunicationGrid
from .study import AxisStudy, Outcome, Study, block_of
from .tables import is_small, steps_of_pairs

__all__ = ["to_json"]


def to_json(study: Study) -> str:
    """As JSON text; tables only of small grids. Not collective."""
    case, kept, messages = study.case, study.kept, study.messages
    products = [study.product(outcome.name) for outcome in study.axes[0].outcomes]
    return json.dumps(
        {
            "shape": list(case.shape),
            "from": str(case.before),
            "to": str(case.after),
            "dtype": str(case.dtype),
            "ranks": case.ranks,
            "schedule": study.name,
            "bytes": study.total_bytes,
            "messages": messages,
            "bytes_between_ranks": None if kept is None else study.total_bytes - kept[1],
            "messages_between_ranks": None if kept is None or messages is None else messages - kept[0],
            "dimensions": [_axis(axis) for axis in study.axes],
            "whole": None if study.whole is None else _outcome(study.whole),
            "products": [_outcome(product) for product in products if product is not None],
            "ways": [{**asdict(way), "seconds": way.seconds(study.model)} for way in study.ways],
            "model": None if study.model is None else {"ts": study.model.startup, "tw": study.model.per_byte},
        },
        indent=1,
    )


def _axis(axis: AxisStudy) -> dict[str, Any]:
    before, after, grid, schedule = axis.before, axis.after, axis.grid, axis.schedule
    bounds = axis.bounds
    written: dict[str, Any] = {
        "n": before.n,
        "P": before.processes,
        "Q": after.processes,
        "r": block_of(before),
        "s": block_of(after),
        "slice_length": int(grid.slice_length) if isinstance(grid, CommunicationGrid) else None,
        "slices": float(axis.slices),
        "step_bound": None if bounds is None else int(bounds[0]),
        "cost_bound": None if bounds is None else int(bounds[1]),
        "algorithms": [_outcome(outcome) for outcome in axis.outcomes],
    }
    if schedule is not None:
        written["steps"] = int(schedule.number_of_steps)
        written["cost"] = int(schedule.total_cost)
        written["certificate"] = schedule.certificate
    if schedule is not None and is_small(grid):
        steps = steps_of_pairs(schedule)
        written["lengths"] = np.asarray(grid.lengths).tolist()
        written["step_of_pair"] = [[steps.get((p, q), []) for q in range(grid.Q)] for p in range(grid.P)]
    return written


def _outcome(outcome: Outcome) -> dict[str, Any]:
    return {
        "name": outcome.name,
        "steps": None if outcome.steps is None else int(outcome.steps),
        "cost": None if outcome.cost is None else int(outcome.cost),
        "one_port": outcome.one_port,
        "certificate": outcome.certificate,
        "reason": outcome.reason,
    }
