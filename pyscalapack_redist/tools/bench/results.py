"""What was measured, as a table of times by method and case, and its form as JSON."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..cases import Case, read_dtype
from .environment import Limit

__all__ = ["CaseResult", "Column", "MethodResult", "Profile", "Results", "Times", "fastest", "ratios"]

Profile = tuple[tuple[str, tuple[float, ...]], ...]


class Times(NamedTuple):
    """The shortest of some times and their median, or ratios of such to those of others."""

    least: float
    median: float


Column = dict[int, Times]  # by the numbers of the cases that have them, counted from 1


def ratios(dividends: Column, divisors: Column) -> Column:
    """One column over another, in the cases that both have. Not collective."""
    pairs = {number: (times, divisors[number]) for number, times in dividends.items() if number in divisors}
    return {number: Times(a.least / b.least, a.median / b.median) for number, (a, b) in pairs.items()}


def fastest(columns: Iterable[Column]) -> Column:
    """The least of several columns in each case, of the shortest times and of the medians apart. Not collective."""
    found: dict[int, list[Times]] = {}
    for column in columns:
        for number, times in column.items():
            found.setdefault(number, []).append(times)
    return {number: Times(*map(min, zip(*some, strict=True))) for number, some in sorted(found.items())}


@dataclass(frozen=True)
class MethodResult:
    """One method's figures in one case.

    Attributes
    ----------
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
        return next((method for method in self.methods if method.name == name), None)

    @property
    def verified(self) -> bool:
        """Whether all methods' results were right."""
        return all(method.verified for method in self.methods)


@dataclass(frozen=True)
class Results:
    """A whole run of the benchmark: where it ran, and each case."""

    environment: dict[str, Any]
    cases: tuple[CaseResult, ...]

    @property
    def verified(self) -> bool:
        """Whether all methods' results were right in all cases."""
        return all(result.verified for result in self.cases)

    @property
    def measured(self) -> bool:
        """Whether any method ran."""
        return any(result.methods for result in self.cases)

    @property
    def times(self) -> dict[str, Column]:
        """A column for each method, in the order in which they first ran: what tables and pictures are made of."""
        columns: dict[str, Column] = {}
        for number, result in enumerate(self.cases, 1):
            for method in result.methods:
                columns.setdefault(method.name, {})[number] = Times(method.least, method.median)
        return columns

    def limits(self, least_bytes: int = 0) -> Column:
        """The links' limit in the cases that have it and in which the busiest host has so much to send or receive."""
        known = ((number, result.limit) for number, result in enumerate(self.cases, 1) if result.limit is not None)
        return {number: Times(limit.seconds, limit.seconds) for number, limit in known if limit.nbytes >= least_bytes}

    def to_json(self) -> str:
        """As JSON text. Not collective."""
        return json.dumps({"environment": self.environment, "cases": list(map(_written, self.cases))}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Results:
        """Read what `to_json` wrote; ValueError says what is missing in other texts. Not collective."""
        try:
            read = json.loads(text)
            return cls(dict(read["environment"]), tuple(map(_read, read["cases"])))
        except KeyError as error:
            raise ValueError(f"it has no entry {error}") from error
        except (TypeError, AttributeError) as error:
            raise ValueError(f"it is not of the expected form ({error})") from error


def _written(result: CaseResult) -> dict[str, Any]:
    case, limit = result.case, result.limit
    methods = [
        {
            "name": method.name,
            "seconds": method.seconds,
            "min": method.least,
            "median": method.median,
            "extra_bytes": method.extra_bytes,
            "verified": method.verified,
            **({"profile": dict(method.profile)} if method.profile else {}),
        }
        for method in result.methods
    ]
    links = {} if limit is None else {"bytes": limit.nbytes, "rate": limit.rate, "seconds": limit.seconds}
    return {
        "shape": case.shape,
        "from": str(case.before),
        "to": str(case.after),
        "dtype": str(case.dtype),
        "ranks": case.ranks,
        "calls_per_time": result.calls,
        "methods": methods,
        "not_run": [{"name": name, "why": why} for name, why in result.not_run.items()],
        **({"links_limit": links} if links else {}),
    }


def _read(case: dict[str, Any]) -> CaseResult:
    known = Case.read(tuple(map(int, case["shape"])), case["from"], case["to"], read_dtype(case["dtype"]))
    methods = tuple(map(_read_method, case["methods"]))
    if not all(method.seconds for method in methods):
        raise ValueError("a method has no times")
    links = case.get("links_limit")
    limit = None if links is None else Limit(int(links["bytes"]), float(links["rate"]))
    why = {missing["name"]: missing["why"] for missing in case.get("not_run", ())}
    return CaseResult(known, methods, why, int(case.get("calls_per_time", 1)), limit)


def _read_method(method: dict[str, Any]) -> MethodResult:
    profile = tuple((part, tuple(map(float, seconds))) for part, seconds in method.get("profile", {}).items())
    seconds = tuple(map(float, method["seconds"]))
    return MethodResult(method["name"], seconds, method["extra_bytes"], bool(method["verified"]), profile)
