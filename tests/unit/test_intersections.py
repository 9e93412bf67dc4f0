"""`intersections.find`: what it refuses, and what holds for any two axes."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyscalapack_redist import BlockCyclic, DescriptorError, ScheduleError, intersections

AXIS = BlockCyclic(5, 2, 3)


@pytest.mark.parametrize(
    ("arguments", "form", "error", "message"),
    [
        (("falsl", AXIS, AXIS, 0), "python", ScheduleError, "algorithm = 'falsl' is unknown; there are falls, "),
        (("scam", AXIS, AXIS, 0), "python", ScheduleError, "'scam' is unknown; there are scan, "),
        ((None, AXIS, AXIS, 0), "python", ScheduleError, "algorithm = None is unknown; there are "),
        (("aspen", AXIS, AXIS, 0), "Python", ScheduleError, "form = 'Python' is unknown; there are python, compiled"),
        (("aspen", AXIS, BlockCyclic(6, 2, 3), 0), "python", DescriptorError, "a.n = 5 and b.n = 6 must be equal"),
        (("aspen", AXIS, AXIS, 3), "compiled", IndexError, "process 3 is outside 0 <= p < 3"),
        (("falls", AXIS, AXIS, -1), "compiled", IndexError, "process -1 is outside 0 <= p < 3"),
    ],
)
def test_bad_input_is_named(
    arguments: tuple[str, BlockCyclic, BlockCyclic, int], form: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=re.escape(message)):
        intersections.find(*arguments, form=form)


def test_an_unknown_name_is_told_all_there_are() -> None:
    with pytest.raises(ScheduleError) as told:
        intersections.find("bisect", AXIS, AXIS, 0)
    assert all(name in str(told.value) for name in ("classical", "falls", "scan", "aspen"))


axes = st.builds(
    BlockCyclic,
    st.just(10**15),
    st.integers(1, 10**6),
    st.integers(1, 100),
    offset=st.integers(0, 10**9),
)


@given(axes, axes, st.data())
def test_runs_of_a_period_of_a_huge_array_are_where_the_axes_say(
    a: BlockCyclic, b: BlockCyclic, data: st.DataObject
) -> None:
    """Checked against the axes' own arithmetic: the array is too large to deal out."""
    p = data.draw(st.integers(0, a.processes - 1))
    b = BlockCyclic(b.n, max(b.block, a.block // 1000), b.processes, b.source, b.offset)  # not too many runs
    if a.stride * 10**4 < np.lcm(a.stride, b.stride):
        a = BlockCyclic(b.n, b.block, a.processes, 0, a.offset)
    found = intersections.find("aspen", a, b, p)
    assert (np.diff(found.start_a) == found.length[:-1]).all()
    first = a.global_index(p, found.start_a)
    last = a.global_index(p, found.start_a + found.length - 1)
    assert (last - first == found.length - 1).all()
    assert (b.owner(first) == found.remote).all()
    assert (b.owner(last) == found.remote).all()
    assert (b.local_index(first) == found.start_b).all()
    assert (b.local_index(last) == found.start_b + found.length - 1).all()
    assert found.size == a.local_size(p)


@pytest.mark.parametrize("algorithm", intersections.ALGORITHMS)
@pytest.mark.parametrize("form", intersections.FORMS)
def test_numbers_near_the_largest(algorithm: str, form: str) -> None:
    """Products of block and processes beyond 64 bits."""
    huge = 2**62
    a, b = BlockCyclic(9, huge, 7, 3), BlockCyclic(9, 2, huge, huge - 2)
    found = intersections.find("aspen", a, b, 3, form=form).expand().tolist()  # the others look at each process
    assert found == [[huge - 2, 0, 0, 2], [huge - 1, 2, 0, 2], [0, 4, 0, 2], [1, 6, 0, 2], [2, 8, 0, 1]]
    found = [intersections.find(algorithm, b, a, p, form=form).expand().tolist() for p in (huge - 2, 2, 3)]
    assert found == [[[3, 0, 0, 2]], [[3, 0, 8, 1]], []]
    wide = BlockCyclic(9, huge, 4)  # block * processes is 0 in 64 bits
    assert intersections.find(algorithm, a, wide, 3, form=form).expand().tolist() == [[0, 0, 0, 9]]
    c = BlockCyclic(huge, huge, 5, 4, offset=7)
    whole = BlockCyclic(huge, huge - 1, 2)
    found = [intersections.find(algorithm, c, whole, p, form=form).expand().tolist() for p in (4, 0, 1)]
    assert found == [[[0, 7, 0, huge - 7]], [[0, 0, huge - 7, 6], [1, 6, 0, 1]], []]
