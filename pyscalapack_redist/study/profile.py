"""The profile of a call: where its time goes on this rank."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ..engine.plan import Plan
from ..reports import Profile

PARTS = ("planned", "agreed", "packed", "copied", "unpacked", "waited", "other")


def profile_call(plan: Plan, start_transfer: Callable[..., Any]) -> Profile:
    """Redistribute, and return the seconds of each part of the work. Collective over the plan's ranks."""
    spent = dict.fromkeys(PARTS, 0.0)
    start = time.perf_counter()
    transfer = start_transfer(spent=spent)
    voted = time.perf_counter()
    transfer.wait()
    end = time.perf_counter()
    moved = spent["packed"] + spent["copied"] + spent["unpacked"]
    spent["planned"], spent["other"] = sum(plan.planning.values()), voted - start
    spent["agreed"] = max(0.0, spent["agreed"] - spent["other"])
    spent["waited"] = max(0.0, end - start - spent["other"] - spent["agreed"] - moved)
    return Profile(spent, dict(plan.planning))
