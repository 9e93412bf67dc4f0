"""What was measured, and its form as JSON."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from .case import Case, read_dtype
from .layout import Layout
from .limit import Limit

__all__ = ["CaseResult", "MethodResult", "Profile", "Results"]

Profile = tuple[tuple[str, tuple[float, ...]], ...]


@dataclass(frozen=True)
class MethodResult:
    """One method's figures in one case.

    Attributes
    ----------
    name : str
        As on the command line.
    seconds : tuple of float
        One for each round.
    extra_bytes : int or None
        Memory beside the two local arrays, the most of all ranks; None where it is not known.
    verified : bool
        Whether every rank's output was right, byte by byte.
    profile : tuple of (str, tuple of float)
        Where the time of a call goes: each part's seconds on each rank. Empty where it was not asked for.
    """

    name: str
    seconds: tuple[float, ...]
    extra_bytes: int | None
    verified: bool
    profile: Profile = ()

    @property
    def least(self) -> float:
        """The shortest time."""
        return min(self.seconds)

    @property
    def median(self) -> float:
        """The median time."""
        return statistics.median(self.seconds)


@dataclass(frozen=True)
class CaseResult:
    """One case: the methods that ran, and why others did not.

    Attributes
    ----------
    calls : int
        Calls in a row that each time is the mean of.
    limit : Limit or None
        What the links between hosts allow; None where that was not asked for or is not known.
    """

    case: Case
    methods: tuple[MethodResult, ...]
    not_run: dict[str, str] = field(default_factory=dict)
    calls: int = 1
    limit: Limit | None = None

    def method(self, name: str) -> MethodResult | None:
        """The figures of a method; None where it did not run."""
        return next((one for one in self.methods if one.name == name), None)

    @property
    def verified(self) -> bool:
        """Whether all methods' results were right."""
        return all(one.verified for one in self.methods)


@dataclass(frozen=True)
class Results:
    """A whole run of the benchmark: where it ran, and each case."""

    environment: dict[str, Any]
    cases: tuple[CaseResult, ...]

    @property
    def verified(self) -> bool:
        """Whether all methods' results were right in all cases."""
        return all(one.verified for one in self.cases)

    def to_json(self) -> str:
        """As JSON text. Not collective."""
        return json.dumps({"environment": self.environment, "cases": [_written(one) for one in self.cases]}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Results:
        """Read what `to_json` wrote. Not collective.

        Raises
        ------
        ValueError
            The text is something else; says what is missing.
        """
        try:
            read = json.loads(text)
            return cls(dict(read["environment"]), tuple(_read(one) for one in read["cases"]))
        except KeyError as error:
            raise ValueError(f"it has no entry {error}") from error
        except (TypeError, AttributeError) as error:
            raise ValueError(f"it is not of the expected form ({error})") from error


def _written(result: CaseResult) -> dict[str, Any]:
    case = result.case
    written: dict[str, Any] = {
        "shape": list(case.shape),
        "from": str(case.before),
        "to": str(case.after),
        "dtype": str(case.dtype),
        "ranks": case.ranks,
        "calls_per_time": result.calls,
        "methods": [_written_method(one) for one in result.methods],
        "not_run": [{"name": name, "why": why} for name, why in result.not_run.items()],
    }
    if result.limit is not None:
        limit = result.limit
        written["links_limit"] = {"bytes": limit.nbytes, "rate": limit.rate, "seconds": limit.seconds}
    return written


def _written_method(one: MethodResult) -> dict[str, Any]:
    written = {
        "name": one.name,
        "seconds": list(one.seconds),
        "min": one.least,
        "median": one.median,
        "extra_bytes": one.extra_bytes,
        "verified": one.verified,
    }
    if one.profile:
        written["profile"] = {part: list(seconds) for part, seconds in one.profile}
    return written


def _read(case: dict[str, Any]) -> CaseResult:
    shape = tuple(int(n) for n in case["shape"])
    known = Case(shape, Layout.parse_operand(case["from"]), Layout.parse_operand(case["to"]), read_dtype(case["dtype"]))
    not_run: Iterable[dict[str, str]] = case.get("not_run", ())
    methods = tuple(map(_read_method, case["methods"]))
    if not all(one.seconds for one in methods):
        raise ValueError("a method has no times")
    links = case.get("links_limit")
    limit = None if links is None else Limit(int(links["bytes"]), float(links["rate"]))
    why = {one["name"]: one["why"] for one in not_run}
    return CaseResult(known, methods, why, int(case.get("calls_per_time", 1)), limit)


def _read_method(one: dict[str, Any]) -> MethodResult:
    profile: dict[str, list[float]] = one.get("profile", {})
    return MethodResult(
        one["name"],
        tuple(map(float, one["seconds"])),
        one["extra_bytes"],
        bool(one["verified"]),
        tuple((part, tuple(map(float, seconds))) for part, seconds in profile.items()),
    )
