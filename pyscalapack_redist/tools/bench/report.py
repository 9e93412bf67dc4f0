"""The table of a case for a person: times, ratios to memcpy and to pxgemr2d, memory, and whether it was right."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .figures import ratio_text, size_text, time_text
from .results import CaseResult, MethodResult
from .terminal import new_table

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["LIMIT", "case_lines", "case_table", "environment_lines", "library_of"]

LIMIT = "the links' limit"


def environment_lines(environment: dict[str, Any]) -> Iterator[str]:
    """Where it runs, what is timed, and what the columns mean."""
    ranks, nodes, cores = environment["ranks"], len(set(environment["node_of_rank"])), environment["cores"]
    library = environment["scalapack"]
    yield (
        f"{ranks} rank{'s' * (ranks != 1)} on {nodes} node{'s' * (nodes != 1)}, {cores} core{'s' * (cores != 1)} "
        f"({environment['processor'] or environment['machine']})"
    )
    yield (
        f"pyscalapack_redist {environment['pyscalapack_redist']}, Python {environment['python']}, "
        f"numpy {environment['numpy']}, mpi4py {environment['mpi4py']}, {environment['mpi']}"
    )
    yield f"ScaLAPACK: {library['vendor']}, {library['path']}" if library else "ScaLAPACK: none"
    yield f"flag round trip between ranks 0 and 1: {flag_text(environment)}"
    yield f"time: {environment['time']}; plans: {environment['plans']}"
    rate = environment.get("link_rate")
    if rate is not None:
        hosts = len(set(environment["host_of_rank"]))
        yield (
            f"links of {hosts} host{'s' * (hosts != 1)}: {rate / 1e6:.4g} MB/s each way ({environment['link_rate_origin']}); "
            "limit: what the busiest host sends or receives, over that"
        )
    yield "ratios: of the minimum times / of the medians; extra memory: the most of all ranks, beside A and B"


def flag_text(environment: dict[str, Any]) -> str:
    """The round trip in words."""
    trip = environment["flag_round_trip_ns"]
    return "not measured (no two ranks with shared memory)" if trip is None else f"{trip:.0f} ns"


def case_lines(result: CaseResult) -> Iterator[str]:
    """What did not run and why, in one line each."""
    for name, why in result.not_run.items():
        first, *more = why.splitlines()
        yield f"{name} not run: {first}" + (" (`pyscalapack-redist info` says more)" if more else "")


def case_table(result: CaseResult) -> Table:
    """A row for each method, and one for the links' limit where it is known.

    Ratios are to memcpy; where that did not run, to auto.
    """
    base = result.method("memcpy") or result.method("auto")
    limit, library = result.limit, library_of(result)
    columns = ["min", "median", f"x {base.name if base else 'memcpy'}", "faster than pxgemr2d"]
    columns += ["x limit"] * (limit is not None)
    table = new_table(("method",), (*columns, "extra memory", "verified"))
    for one in result.methods:
        table.add_row(
            one.name,
            time_text(one.least),
            time_text(one.median),
            _ratios(one, base),
            _ratios(library, one) if one is not library and one.name != "memcpy" else "-",
            *([f"{ratio_text(one.least / limit.seconds)} / {ratio_text(one.median / limit.seconds)}"] if limit else []),
            size_text(one.extra_bytes),
            "yes" if one.verified else "NO",
            style=None if one.verified else "bold red",
        )
    if limit is not None:
        table.add_row(LIMIT, *[time_text(limit.seconds)] * 2, *["-"] * 5)
    return table


def library_of(result: CaseResult) -> MethodResult | None:
    """The library that others are held against: the one in use, else the first that was named."""
    return result.method("pxgemr2d") or next((one for one in result.methods if one.name.startswith("pxgemr2d=")), None)


def _ratios(one: MethodResult | None, other: MethodResult | None) -> str:
    if one is None or other is None:
        return "-"
    return f"{ratio_text(one.least / other.least)} / {ratio_text(one.median / other.median)}"
