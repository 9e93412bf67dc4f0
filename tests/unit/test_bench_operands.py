"""Sub-arrays and memory orders in the benchmark: their notation, and what each rank must hold, without the engine."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import balanced, deal

from pyscalapack_redist import DescriptorError
from pyscalapack_redist.tools.bench.stage import AROUND, Part, bytes_of, poison, poisoned, values
from pyscalapack_redist.tools.cases import Case
from pyscalapack_redist.tools.layouts import Layout

WHOLE = Layout.parse("1x1:1x1")


@pytest.mark.parametrize(
    ("text", "layout"),
    [
        ("2x4:64x64", Layout((2, 4), (64, 64), (0, 0))),
        ("2x4:64x64/C", Layout((2, 4), (64, 64), (0, 0), order="C")),
        ("2x1:3x4@1,0+5/70x50@10,0", Layout((2, 1), (3, 4), (1, 0), 5, (70, 50), (10, 0))),
        ("3:5/70@10/C", Layout((3,), (5,), (0,), 0, (70,), (10,), "C")),
    ],
)
def test_operands_are_read_and_written(text: str, layout: Layout) -> None:
    assert Layout.parse_operand(text) == layout
    assert str(layout) == text


def test_fortran_order_is_not_written() -> None:
    assert str(Layout.parse_operand("2x2:3x3/F")) == "2x2:3x3"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2x2:3x3/", "ends in ''"),
        ("2x2:3x3/9x9", "ends in '9x9': there are /MxN@IA,JA"),
        ("2x2:3x3/C/9x9@1,1", "ends in 'C/9x9@1,1'"),
        ("2x2:3x3/9@1,1", "the whole shape '9' must have one number for each dimension"),
        ("2x2:3x3/9x9@1", "the sub-array's start '1' must have one number"),
        ("2x2:3x3/9xa@1,1", "the whole shape '9xa'"),
        ("2x2:3x3/9x9@-1,1", "the sub-array's start '-1,1' must be whole numbers of at least 0"),
        ("2x2/C", "has no block size"),
    ],
)
def test_the_wrong_part_of_an_operand_is_named(text: str, said: str) -> None:
    with pytest.raises(DescriptorError) as caught:
        Layout.parse_operand(text)
    assert said in str(caught.value)


def test_whole_arrays_have_no_endings() -> None:
    with pytest.raises(DescriptorError, match="block size"):
        Layout.parse("2x2:3x3/C")


def test_a_sub_array_must_fit() -> None:
    Case((30, 20), WHOLE, Layout.parse_operand("1x1:1x1/40x20@10,0"))
    with pytest.raises(DescriptorError, match=r"no room for a sub-array of the shape \(30, 20\).*\(41, 20\)"):
        Case((30, 20), WHOLE, Layout.parse_operand("1x1:1x1/40x20@11,0"))


@given(st.data())
def test_a_part_has_the_elements_of_the_sub_array_and_no_others(data: st.DataObject) -> None:
    """Every element is placed one at a time, by dealing out the blocks of the whole array."""
    sizes = [data.draw(st.integers(0, 12)) for _ in range(2)]
    offset = tuple(data.draw(st.integers(0, 9)) for _ in range(2))
    whole = tuple(n + o + data.draw(st.integers(0, 9)) for n, o in zip(sizes, offset, strict=True))
    grid = tuple(data.draw(st.integers(1, 3)) for _ in range(2))
    block = tuple(data.draw(st.one_of(st.integers(1, 5), st.just("balanced"))) for _ in range(2))
    source = tuple(
        0 if cut == "balanced" else data.draw(st.integers(0, p - 1)) for p, cut in zip(grid, block, strict=True)
    )
    order = data.draw(st.sampled_from("CF"))
    layout = Layout(grid, block, source, 1, whole, offset, order)
    case = Case((sizes[0], sizes[1]), layout, layout, np.dtype(np.int64))
    held = [
        deal(n, balanced(n, p) if cut == "balanced" else cut, p, s)
        for n, cut, p, s in zip(whole, block, grid, source, strict=True)
    ]
    found = 0
    for rank in range(1, 1 + grid[0] * grid[1]):
        part = Part(case, layout, rank)
        filled = part.filled()
        coords = layout.coords(rank)
        assert filled is not None
        assert coords is not None
        rows, columns = held[0][coords[0]], held[1][coords[1]]
        assert filled.shape == part.shape == (len(rows), len(columns))
        assert filled.flags.c_contiguous if order == "C" else filled.flags.f_contiguous
        right = np.full(filled.shape, AROUND, np.uint8).astype(np.int64) * 0x0101010101010101
        written = part.empty()
        assert written is not None
        poison(written)
        for i, row in enumerate(rows):
            for j, column in enumerate(columns):
                place = row - offset[0], column - offset[1]
                if all(0 <= at < n for at, n in zip(place, sizes, strict=True)):
                    right[i, j] = written[i, j] = place[0] * sizes[1] + place[1]
                    found += 1
        assert np.array_equal(filled, right)
        assert part.matches(written)
        for i, j in np.ndindex(filled.shape):
            written[i, j] += 1
            assert not part.matches(written)
            written[i, j] -= 1
    assert found == case.elements
    assert Part(case, layout, 0).filled() is None


@given(st.integers(0, 40), st.integers(0, 9), st.integers(1, 7), st.integers(1, 4))
def test_local_arrays_are_those_of_the_descriptor(n: int, offset: int, block: int, processes: int) -> None:
    layout = Layout((processes, 1), (block, 3), (0, 0), 0, (n + offset + 2, 9), (offset, 1))
    case = Case((n, 8), layout, layout)
    descriptor = layout.descriptor(case.shape, None)
    assert (descriptor.shape, descriptor.offset) == (case.shape, layout.offset if n < layout.whole[0] else (0, 1))
    for rank in range(processes):
        assert Part(case, layout, rank).shape == descriptor.local_shape_of((rank, 0))


@pytest.mark.parametrize("dtype", ["float64", "int8", "V24", "bool", "complex64"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_poison_is_in_every_byte(dtype: str, order: str) -> None:
    array = np.zeros((5, 4), dtype, order=order)  # type: ignore[call-overload]
    assert not poisoned(array)
    poison(array)
    assert poisoned(array)
    assert bytes_of(array).base is not None
    bytes_of(array)[7] = 1
    assert not poisoned(array)


def test_the_padding_of_long_doubles_does_not_count() -> None:
    case = Case((6, 5), WHOLE, WHOLE, np.dtype(np.longdouble))
    part = Part(case, WHOLE, 0)
    array = part.empty()
    assert array is not None
    poison(array)
    array[...] = values(np.arange(30), 30, case.dtype).reshape(6, 5)
    assert part.matches(array)
    array[3, 3] += 1
    assert not part.matches(array)
