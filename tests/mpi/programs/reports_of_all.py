"""Reports of all ranks, messages of any rank, profiles with factors, transfers in a `with` block, on real ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from mpi4py import MPI

import pyscalapack_redist as psr
from pyscalapack_redist.reports import Report

COMM = MPI.COMM_WORLD
RANK, SIZE = COMM.Get_rank(), COMM.Get_size()
SOME = max(1, SIZE // 2)  # processes of the smaller grid, the last ones
ROWS = psr.Descriptor((37, 23), (3, 4), psr.ProcessGrid((SIZE, 1), COMM))
LATE = psr.Descriptor((37, 23), (5, 2), psr.ProcessGrid((1, SOME), COMM, ranks=[range(SIZE - SOME, SIZE)]))


INSIDE = LATE.coords is not None


def value(i: Any, j: Any) -> Any:
    return i + 100.0 * j


def on_paper(desc: psr.Descriptor) -> psr.Descriptor:
    grid = psr.ProcessGrid(desc.grid.shape, ranks=desc.grid.ranks)
    return psr.Descriptor(desc.shape, desc.block, grid)


FIGURES = [
    "name",
    "ranks",
    "sends",
    "most_messages",
    "steps",
    "bytes_sent",
    "bytes_copied",
    "most_sent",
    "most_received",
]
FIGURES += ["receives", "bytes_received", "between_bytes", "steps_of_all", "fewest_steps", "sends_apart"]


def same(mine: Report, paper: Report) -> None:
    for name in FIGURES:
        assert getattr(mine, name) == getattr(paper, name), (name, mine, paper)
    assert abs(mine.imbalance - paper.imbalance) < 1e-12
    assert mine.extra_bytes is not None
    assert paper.extra_bytes is None
    for leg, there in zip(mine.legs, paper.legs, strict=True):
        same(leg, there)
    if mine.direct is not None and paper.direct is not None:
        same(mine.direct, paper.direct)


def totals_are_those_on_paper() -> None:
    for options in ({}, {"schedule": "ring"}, {"uplo": "L"}, {"schedule": "optimal"}):
        plan = psr.redistribute(ROWS, LATE, **options)
        paper = psr.redistribute(on_paper(ROWS), on_paper(LATE), **{"schedule": plan.schedule.name, **options})
        same(plan.report(all_ranks=True), paper.report())
        # what each rank says it sends is what any rank says of it
        told = COMM.allgather([(m.peer, m.key, m.size) for m in plan.messages["send"]])
        for rank in range(SIZE):
            assert [(m.peer, m.key, m.size) for m in plan.messages_of(rank)["send"]] == told[rank]
    square = psr.Descriptor((23, 23), 3, ROWS.grid), psr.Descriptor((23, 23), 5, LATE.grid)
    filled = {"uplo": "U", "fill": "symmetric"}
    for options in ({"via": "lcm"}, filled, {"via": "dimensions", **filled}):
        plan = psr.redistribute(*square, schedule="ring", **options)
        paper = psr.redistribute(*map(on_paper, square), schedule="ring", **options).report("f4")
        same(plan.report("f4", all_ranks=True), paper)
        assert len(paper.legs) == 2 - (options == {"via": "dimensions", **filled} and SIZE == 1)
        mine = plan.report()
        assert mine.ranks is None
        assert mine.bytes_sent == sum(leg.bytes_sent for leg in mine.legs)


def the_direct_way_is_that_of_a_plan_without_via() -> None:
    for exchange in ("bruck", "alltoallv", "alltoallw", "nonblocking"):
        options = {"exchange": exchange, "memory_limit": 4000}
        chain, plain = (psr.redistribute(ROWS, LATE, via=via, **options).report() for via in ("lcm", None))
        assert (chain.direct.extra_bytes, chain.direct.sends) == (plain.extra_bytes, plain.sends)


def dtypes_are_agreed() -> None:
    plan = psr.redistribute(ROWS, LATE, dtype=np.complex128 if RANK == SIZE - 1 else None)
    sent = plan.report("c16", all_ranks=True).bytes_sent
    assert plan.report(all_ranks=True).bytes_sent == sent
    assert plan.report("f4", all_ranks=True).bytes_sent == sent // 4
    if SIZE > 1:
        with pytest.raises(psr.CollectiveError, match=r"in different dtypes: .*rank 0 float32, rank 1 float64"):
            plan.report("f4" if RANK == 0 else "f8", all_ranks=True)
        with pytest.raises(TypeError if RANK == SIZE - 1 else psr.CollectiveError, match="no such thing"):
            plan.report("no such thing" if RANK == SIZE - 1 else None, all_ranks=True)
    assert plan.report(all_ranks=True).bytes_sent == sent


def batches_have_both() -> None:
    plans = [psr.redistribute(ROWS, LATE), psr.redistribute(LATE, ROWS)]
    both = psr.batch(*plans)
    whole = both.report(["f8", "f4"], all_ranks=True)
    apart = [plan.report(kind, all_ranks=True) for plan, kind in zip(plans, ("f8", "f4"), strict=True)]
    for name in ("bytes_sent", "bytes_copied"):
        assert getattr(whole, name) == sum(getattr(report, name) for report in apart)
    for k, (leg, report) in enumerate(zip(whole.legs, apart, strict=True)):
        assert leg.name == f"plan {k}"
        assert (leg.bytes_sent, leg.sends, leg.ranks) == (report.bytes_sent, report.sends, report.ranks)
    assert whole.sends_apart == sum(report.sends for report in apart)
    pairs = {(rank, m.peer) for plan in plans for rank in range(SIZE) for m in plan.messages_of(rank)["send"]}
    assert whole.sends == len(pairs)
    arrays = [ROWS.from_function(value), LATE.from_function(value) if INSIDE else None]
    outs = [LATE.zeros() if INSIDE else None, ROWS.zeros()]
    profile = both.profile(arrays, outs, alpha=[2, 3])
    assert (outs[1] == 3 * arrays[0]).all()
    assert profile.seconds["planned"] == sum(profile.planning.values()) > 0


def profiles_take_factors() -> None:
    plan = psr.redistribute(ROWS, LATE, schedule="stepwise")
    out = LATE.from_function(lambda i, j: 1.0 + 0 * (i + j)) if INSIDE else None
    profile = plan.profile(ROWS.from_function(value), out, alpha=2, beta=5)
    assert out is None or (out == 2 * LATE.from_function(value) + 5).all()
    assert {*profile.planning} == {"processes", "schedule", "messages"}
    assert profile.seconds["planned"] == sum(profile.planning.values()) > 0
    assert "planned" in str(profile)
    assert "schedule" in profile._repr_html_()


def transfers_in_a_with_block() -> None:
    plan = psr.redistribute(ROWS, LATE, dtype="f8")
    a, out = ROWS.from_function(value), LATE.empty() if INSIDE else None
    with plan.start(a, out) as transfer:
        assert repr(transfer).startswith(f"Transfer({plan!r}, ")
        assert transfer.state.name.lower() in repr(transfer)
    assert repr(transfer).endswith(", complete)")
    assert out is None or (out == LATE.from_function(value)).all()
    with pytest.raises(ZeroDivisionError), plan.start(a, out) as transfer:
        1 / 0  # noqa: B018
    transfer.wait()  # it is still in flight, and completes when it is waited for
    assert plan(a, out) is out


def ranks_outside_have_no_part() -> None:
    if SIZE < 3:
        return
    few = psr.Descriptor((9, 9), 2, psr.ProcessGrid((1, 2), COMM))
    plan = psr.redistribute(few, few)
    found = plan.report(all_ranks=True)
    assert (found.ranks if found else None) == (2 if RANK < 2 else None)
    other = psr.redistribute(few, psr.Descriptor((9, 9), 3, ROWS.grid))
    legs = psr.batch(plan, other).report(all_ranks=True).legs  # of which some ranks have no part in the first
    assert [leg.ranks for leg in legs] == [2, SIZE]
    assert plan.messages_of(SIZE - 1) == {"send": (), "receive": (), "copy": ()}
    assert [m.size for m in plan.messages_of(0)["copy"]] == [np.prod(few.local_shape_of((0, 0)))]


if __name__ == "__main__":
    totals_are_those_on_paper()
    the_direct_way_is_that_of_a_plan_without_via()
    dtypes_are_agreed()
    batches_have_both()
    profiles_take_factors()
    transfers_in_a_with_block()
    ranks_outside_have_no_part()
    if RANK == 0:
        print("OK")
