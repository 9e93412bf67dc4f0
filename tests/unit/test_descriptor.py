"""Descriptors on paper: shapes, sub-arrays, equality, the nine integers, and what cannot be."""

from __future__ import annotations

import ctypes
import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from oracle import deal
from rank_zero import RankZero

from pyscalapack_redist import ArrayError, BlockCyclic, Descriptor, DescriptorError, ProcessGrid
from pyscalapack_redist._descriptor import FIELDS, build_fields, check_fields, read_fields
from pyscalapack_redist.layout.blockcyclic import MOST_DIMENSIONS

GRID = ProcessGrid((2, 3))
OTHERS = ProcessGrid((2, 1), RankZero(3), ranks=[[1], [2]])  # type: ignore[arg-type] # without this rank


@given(
    st.integers(0, 40), st.integers(0, 40), st.integers(1, 9), st.integers(1, 9), st.integers(0, 1), st.integers(0, 2)
)
def test_local_shapes_are_those_of_dealing(m: int, n: int, mb: int, nb: int, row: int, column: int) -> None:
    desc = Descriptor((m, n), (mb, nb), GRID, source=(row, column))
    rows, columns = deal(m, mb, 2, row), deal(n, nb, 3, column)
    for i in range(2):
        for j in range(3):
            assert desc.local_shape_of((i, j)) == (len(rows[i]), len(columns[j]))


@pytest.mark.parametrize(
    ("f", "dtype"),
    [
        (lambda i, j: i + 10 * j, np.int64),
        (lambda i, j: i + 10.0 * j, np.float64),
        (lambda i, j: np.float32(2) * (i + j).astype(np.float32), np.float32),
        (lambda i, j: i + 1j * j, np.complex128),
        (lambda i, j: i > j, np.bool_),
        (lambda i, j: 7, np.int64),
    ],
)
def test_a_function_gives_the_dtype(f: Any, dtype: Any) -> None:
    """On ranks of a grid, and outside of it, where no elements are held."""
    grid = ProcessGrid((2, 1), RankZero(2))  # type: ignore[arg-type]
    for desc in (
        Descriptor((5, 4), 2, grid),
        Descriptor((5, 4), 2, grid)[1:4, 1:],
        Descriptor((1, 4), 1, grid, source=(1, 0)),
        Descriptor((5, 4), 2, OTHERS),
    ):
        local = desc.from_function(f)
        assert local.dtype == dtype
        assert local.shape == desc.local_shape
        if desc.shape == (5, 4) and desc.coords is not None:
            whole = np.empty((5, 4), dtype)
            whole[...] = f(*np.indices((5, 4)))
            assert np.array_equal(local, whole[[0, 1, 4]])
        assert desc.from_function(f, np.complex64).dtype == np.complex64


def test_a_function_is_not_called_where_nothing_is_held_of_a_known_dtype() -> None:
    assert Descriptor((5, 4), 2, OTHERS).from_function(np.vectorize(lambda i, j: i + j), float).dtype == np.float64


@pytest.mark.parametrize("f", [lambda i, j: math.sin(i), lambda i, j: 1.0 if i == j else 0.0])
def test_a_function_for_single_indices_gets_a_note(f: Any) -> None:
    desc = Descriptor((5, 4), 2, ProcessGrid((1, 1), RankZero(1)))  # type: ignore[arg-type]
    with pytest.raises((TypeError, ValueError)) as caught:
        desc.from_function(f)
    assert any(
        r"called once with arrays of indices, of shapes (5, 1), (1, 4)" in note for note in caught.value.__notes__
    )


@pytest.mark.parametrize(
    ("given", "fits"), [((), True), ((4,), True), ((5, 1), True), ((1, 5, 4), True), ((5,), False), ((2, 5, 4), False)]
)
def test_what_a_function_gives_must_broadcast(given: tuple[int, ...], fits: bool) -> None:
    desc = Descriptor((5, 4), 2, ProcessGrid((1, 1), RankZero(1)))  # type: ignore[arg-type]
    if fits:
        assert (desc.from_function(lambda i, j: np.ones(given)) == 1).all()
        return
    with pytest.raises(ArrayError, match=r"f gave an array of shape \(.*does not broadcast to .* elements, \(5, 4\)"):
        desc.from_function(lambda i, j: np.ones(given))


def test_none_is_one_block_per_process() -> None:
    assert Descriptor((10, 10), (None, None), GRID).block == (5, 4)
    assert Descriptor((0, 3), None, GRID).block == (1, 1)
    assert Descriptor((10, 10), 4, GRID).block == (4, 4)


def test_axes() -> None:
    desc = Descriptor((8, 9, 10), (2, 3, 5), GRID, axes=(1, None, 0))
    assert [axis.processes for axis in desc.distributions] == [3, 1, 2]
    assert desc.local_shape_of((1, 0)) == (4, 9, 5)
    assert desc.placement.shape == (3, 1, 2)
    assert desc.placement[2, 0, 1] == GRID.rank_of((1, 2))
    assert "axes (1, None, 0)" in repr(desc)


def test_a_grid_dimension_of_one_process_need_not_be_used() -> None:
    desc = Descriptor((8, 9, 10), None, ProcessGrid((1, 3, 1)), axes=(None, None, 1))
    assert desc.placement.shape == (1, 1, 3)
    assert desc.local_shape_of((0, 2, 0)) == (8, 9, 2)


def test_sub_arrays() -> None:
    desc = Descriptor((20, 30), (4, 5), GRID, source=(1, 2))
    part = desc[3:17, 11:]
    assert (part.shape, part.offset, part.parent) == ((14, 19), (3, 11), desc)
    assert part.distributions[0] == BlockCyclic(14, 4, 2, 1, 3)
    inner = part[1:5]
    assert (inner.shape, inner.offset, inner.parent) == ((4, 19), (4, 11), desc)
    assert part.local_shape_of((0, 0)) == desc.local_shape_of((0, 0))
    assert part != desc
    assert part == Descriptor((20, 30), (4, 5), GRID, source=(1, 2))[3:17, 11:30]
    assert "at (3, 11) of 20 x 30" in repr(part)


@pytest.mark.parametrize(
    "key",
    [
        slice(-3, None),
        (slice(-5, -2), slice(None, -29)),
        (slice(-20, 20), slice(-30, -30)),
        ...,
        (..., slice(2, 5)),
        (slice(-3, None), ..., slice(1, -1)),
        (slice(1, 2), slice(3, 4), ...),
    ],
)
def test_slices_count_from_the_end_as_numpys_do(key: Any) -> None:
    rows, columns = np.indices((20, 30))
    for desc in (Descriptor((20, 30), (4, 5), GRID), Descriptor((20, 30), "balanced", GRID)):
        part = desc[key]
        assert part.shape == rows[key].shape
        if rows[key].size:
            assert part.offset == (rows[key].min(), columns[key].min())
    block = Descriptor((4, 20, 30), 3, ProcessGrid((1, 2, 3)))
    assert block[..., -3:] == block[:, :, 27:]
    assert block[-1:, ...] == block[3:]


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ((slice(0, 21),), "dimension 0: 0:21 is not inside 0:20"),
        ((slice(None), slice(-2, 5)), "dimension 1: -2:5 is not inside 0:30"),
        ((slice(-21, None),), "dimension 0: -21:20 is not inside 0:20"),
        ((slice(0, -21),), "dimension 0: 0:-21 is not inside 0:20"),
        ((..., slice(0, 31)), "dimension 1: 0:31 is not inside 0:30"),
        ((..., slice(None), ...), r"at most one ellipsis \(...\), got 2"),
        ((..., -1), "taken by slices, not -1"),
        ((slice(5, 3),), "dimension 0: 5:3 is not inside"),
        ((slice(0, 8, 2),), "the step of a sub-array must be 1, not 2"),
        ((3,), "taken by slices, not 3; for one index i write i:i\\+1"),
        ((slice(None),) * 3, "at most 2 slices, got 3"),
        ((..., *(slice(None),) * 3), "at most 2 slices, got 3"),
        ((slice("a", None),), "must be integers"),
    ],
)
def test_sub_arrays_past_the_edge(key: tuple[object, ...], words: str) -> None:
    with pytest.raises(DescriptorError, match=words):
        Descriptor((20, 30), (4, 5), GRID)[key]


@pytest.mark.parametrize(
    ("arguments", "keywords", "words"),
    [
        (((4, 4), (0, 2), GRID), {}, r"block\[0\] = 0 must be at least 1"),
        (((4, 4), (2, -3), GRID), {}, r"block\[1\] = -3 must be at least 1"),
        (((4, -4), (2, 2), GRID), {}, r"shape\[1\] = -4 must be at least 0"),
        (((4, 4), (2, 2, 2), GRID), {}, r"block = \(2, 2, 2\) has 3 entries, but the array has 2 dimensions"),
        (((4, 4), "x", GRID), {}, r"block\[0\] = 'x' must be an integer .* 'balanced'"),
        (((4, 4), 2.5, GRID), {}, "block = 2.5 must be an integer or a sequence"),
        (((4, 4), (2, 2), "grid"), {}, "grid = 'grid' must be a ProcessGrid"),
        (((4, 4), (2, 2), np.zeros((2, 3))), {}, r"grid = <ndarray of shape \(2, 3\) and dtype float64> must be a"),
        (((4, 4), (2, 2), GRID), {"source": (2, 0)}, r"source\[0\] = 2 is outside the grid: .* it must be 0 to 1"),
        (((4, 4), (2, 2), GRID), {"source": (0, -1)}, r"source\[1\] = -1 must be at least 0"),
        (((4, 4), (2, 2), GRID), {"axes": (0, 0)}, "uses grid dimension 0 twice"),
        (((4, 4), (2, 2), GRID), {"axes": (0, 2)}, r"axes\[1\] = 2 is not a dimension of the grid"),
        (((4,), (2,), GRID), {}, "grid dimension 1 has 3 processes and no array dimension"),
        (
            ((4, 4, 4), (2, 2), GRID),
            {},
            r"block = \(2, 2\) has 2 entries, but the array has 3 dimensions: give one for each",
        ),
        (((4, 4), (2, 2), GRID), {"axes": (0,)}, r"axes = \(0,\) has 1 entries, but the array has 2 dimensions"),
        (((4, 4, 4), 2, GRID), {"axes": (1, 0, 1)}, "uses grid dimension 1 twice"),
        (((4, 4), 2, GRID), {"axes": (0, -1)}, r"axes\[1\] = -1 must be at least 0"),
        (((), (), GRID), {}, "at least one dimension"),
        (((4, 4), (2, 2), GRID), {"lld": 0}, "lld = 0 must be at least 1"),
    ],
)
def test_what_cannot_be_is_named(arguments: tuple[object, ...], keywords: dict[str, object], words: str) -> None:
    with pytest.raises(DescriptorError, match=words):
        Descriptor(*arguments, **keywords)  # type: ignore[arg-type]


def test_equality_and_hash_are_of_the_layout() -> None:
    desc, equal = Descriptor((20, 30), (4, 5), GRID), Descriptor((20, 30), (4, 5), ProcessGrid((2, 3)), lld=99)
    assert desc == equal
    assert hash(desc) == hash(equal)
    assert desc.layout_digest == equal.layout_digest
    for other in (
        Descriptor((20, 31), (4, 5), GRID),
        Descriptor((20, 30), (4, 6), GRID),
        Descriptor((20, 30), (4, 5), GRID, source=(0, 1)),
        Descriptor((20, 30), (4, 5), ProcessGrid((3, 2))),
        Descriptor((20, 30), (4, 5), ProcessGrid((2, 3), order="column")),
        desc[0:20, 0:29],
    ):
        assert desc != other
        assert desc.layout_digest != other.layout_digest
    assert desc != "a descriptor"


# -- dimensions merged


@st.composite
def layouts_to_merge(draw: st.DrawFn) -> tuple[Descriptor, tuple[int, ...], str]:
    """A descriptor of 2 to 4 dimensions over a grid of 1 to 3, and neighbours to merge."""
    ndim = draw(st.integers(2, 4))
    grid = ProcessGrid(tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=min(3, ndim)))))
    axes = draw(st.permutations([*range(grid.ndim), *[None] * (ndim - grid.ndim)]))
    processes = [1 if axis is None else grid.shape[axis] for axis in axes]
    block = [draw(st.sampled_from((None, 1, 1, 2, 3))) for _ in range(ndim)]
    shape = [
        draw(st.one_of(st.integers(0, 7), st.just((cut or draw(st.integers(1, 3))) * p)))
        for cut, p in zip(block, processes, strict=True)
    ]
    source = [draw(st.integers(0, p - 1)) for p in processes]
    desc = Descriptor(shape, block, grid, source=source, axes=axes)
    first = draw(st.integers(0, ndim - 2))
    return desc, tuple(range(first, draw(st.integers(first + 2, ndim)))), draw(st.sampled_from("FC"))


def held(desc: Descriptor, whole: np.ndarray) -> dict[int, np.ndarray]:
    """What each rank has of an array, blocks dealt out one at a time."""
    dealt = [deal(axis.n, axis.block, axis.processes, axis.source) for axis in desc.distributions]
    return {
        int(desc.placement[place]): whole[np.ix_(*(np.array(d[p], int) for d, p in zip(dealt, place, strict=True)))]
        for place in np.ndindex(*desc.placement.shape)
    }


@settings(max_examples=600)
@given(layouts_to_merge())
def test_merged_dimensions_hold_the_same_local_arrays(case: tuple[Descriptor, tuple[int, ...], str]) -> None:
    desc, dims, order = case
    whole = np.arange(math.prod(desc.shape)).reshape(desc.shape, order=order)  # type: ignore[call-overload]
    try:
        merged = desc.merge(*dims, order=order)
    except DescriptorError:
        event("refused")
        faster = dims[:-1] if order == "F" else dims[1:]
        assert any(desc.distributions[k].processes > 1 for k in faster)
        return
    event("merged")
    expected = held(desc, whole)
    for rank, local in held(merged, whole.reshape(merged.shape, order=order)).items():
        coords = merged.grid.coords_of(rank)
        assert coords is not None
        assert merged.local_shape_of(coords) == local.shape
        assert np.array_equal(local, expected[rank].reshape(local.shape, order=order))  # type: ignore[call-overload]


@pytest.mark.parametrize(("order", "source"), [("F", (0, 0, 0)), ("C", (1, 2, 0)), ("F", (1, 2, 0))])
def test_merging_two_distributed_dimensions_merges_the_grid(order: str, source: tuple[int, ...]) -> None:
    blocks = (4, 1, 5) if order == "F" else (1, 3, 5)
    desc = Descriptor((8, 9, 5), blocks, GRID, source=source).merge(0, 1, order=order)
    assert desc.shape == (72, 5)
    assert (desc.grid.shape, desc.axes) == ((6,), (0, None))


@pytest.mark.parametrize(
    ("arguments", "keywords", "words"),
    [
        ((), {}, r"dims = \(\) must be two or more neighbours of the 3 dimensions"),
        ((1,), {}, r"dims = \(1,\) must be two or more neighbours"),
        ((0, 2), {}, r"dims = \(0, 2\) must be two or more neighbours"),
        ((2, 1), {}, "ascending"),
        ((2, 3), {}, "must be two or more neighbours"),
        ((0, "x"), {}, r"dims\[1\] = 'x' must be an integer"),
        ((1, 2), {"order": "K"}, "order = 'K' must be 'F'"),
        (
            (0, 1),
            {},
            r"dimensions 0 and 1 cannot be merged: both are distributed: the faster \(a dimension of 8 in blocks of 2",
        ),
        (
            (1, 2),
            {},
            "a dimension of 10 in blocks of 3 over 3 processes runs faster, .* a multiple of block x processes = 9",
        ),
    ],
)
def test_what_cannot_be_merged_is_named(arguments: tuple[Any, ...], keywords: dict[str, Any], words: str) -> None:
    desc = Descriptor((8, 10, 7), (2, 3, 7), GRID)
    with pytest.raises(DescriptorError, match=words):
        desc.merge(*arguments, **keywords)
    with pytest.raises(DescriptorError, match="a sub-array's dimensions cannot be merged"):
        desc[1:].merge(1, 2)


# -- the nine integers

NINE = [1, 0, 20, 30, 4, 5, 1, 2, 12]


@pytest.mark.parametrize(
    "kind", [list, tuple, np.array, lambda v: np.array(v, np.intc), lambda v: np.array(v * 2, np.intc)[::2]]
)
def test_nine_integers_are_read_from_anything(kind: object) -> None:
    values = [1, 0, 20, 30, 4, 5, 1, 2, 12]
    given_ = kind(values)  # type: ignore[operator]
    assert len(read_fields(given_)) == 9
    if not isinstance(given_, np.ndarray) or given_.flags.c_contiguous:
        assert read_fields(given_) == tuple(NINE)


def test_structures_of_c_ints() -> None:
    """As wrappers of ScaLAPACK have them; a class may stand on one and have more attributes."""
    nine = type("Nine", (ctypes.Structure,), {"_fields_": [(name, ctypes.c_int) for name in FIELDS]})
    array = type("Array", (nine,), {"M2": 7})
    assert read_fields(array(*NINE)) == tuple(NINE)
    long = type("Long", (ctypes.Structure,), {"_fields_": [(name, ctypes.c_long) for name in FIELDS]})
    with pytest.raises(DescriptorError, match=r"must be nine integers .* got Long"):
        read_fields(long(*NINE))
    short = type("Short", (ctypes.Structure,), {"_fields_": [(name, ctypes.c_int) for name in FIELDS[:8]]})
    with pytest.raises(DescriptorError, match="got 8; LLD is missing"):
        read_fields(short(*NINE[:8]))


def test_nine_integers_are_built() -> None:
    built = np.asarray(build_fields(NINE))
    assert built.dtype == np.intc
    assert built.tolist() == NINE
    with pytest.raises(DescriptorError, match="M = 2147483648 does not fit into ScaLAPACK's 32-bit integer"):
        build_fields([1, 0, 2**31, 1, 1, 1, 0, 0, 1])


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (NINE[:8], "got 8; LLD is missing"),
        (NINE[:6], "got 6; RSRC, CSRC, LLD are missing"),
        ([*NINE, 1], "has nine integers DTYPE, CTXT, .* got 10"),
        (7, "must be nine integers .* got int: 7"),
        ([1, 0, 2.5, 30, 4, 5, 1, 2, 12], "M = 2.5 must be an integer"),
        ([1, 0, 2**40, 30, 4, 5, 1, 2, 12], "M = 1099511627776 does not fit"),
    ],
)
def test_what_is_not_nine_integers(values: object, words: str) -> None:
    with pytest.raises(DescriptorError, match=words):
        read_fields(values)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("DTYPE", 2, "DTYPE = 2 must be 1"),
        ("M", -1, "M = -1 must be at least 0"),
        ("N", -1, "N = -1 must be at least 0"),
        ("MB", 0, "MB = 0 must be at least 1"),
        ("NB", -4, "NB = -4 must be at least 1"),
        ("RSRC", 2, "RSRC = 2 is outside the 2 x 3 grid .* it must be 0 to 1"),
        ("CSRC", -1, "CSRC = -1 is outside the 2 x 3 grid"),
        ("LLD", 11, "LLD = 11 is too small: process row 1 holds 12 rows"),
    ],
)
def test_each_field_is_checked(field: str, value: int, words: str) -> None:
    check_fields(NINE, 2, 3, 1)
    wrong = list(NINE)
    wrong[FIELDS.index(field)] = value
    with pytest.raises(DescriptorError, match=words):
        check_fields(wrong, 2, 3, 1)


def test_a_leading_dimension_of_no_rows() -> None:
    """Some make it 0 where there are no rows; a negative one is refused there too."""
    none = [1, 0, 4, 30, 4, 5, 1, 2, 0]
    check_fields(none, 2, 3, 0)
    with pytest.raises(DescriptorError, match="LLD = 0 is too small: process row 1 holds 4 rows"):
        check_fields(none, 2, 3, 1)
    with pytest.raises(DescriptorError, match="LLD = -1 is too small"):
        check_fields([*none[:8], -1], 2, 3, 0)


def test_as_many_dimensions_as_an_array_can_have() -> None:
    shape = (1,) * (MOST_DIMENSIONS - 1) + (5,)
    assert Descriptor(shape, 2, ProcessGrid((1,))).placement.shape == (1,) * MOST_DIMENSIONS
    words = f"shape has {MOST_DIMENSIONS + 1} dimensions: NumPy's arrays have at most {MOST_DIMENSIONS}"
    with pytest.raises(DescriptorError, match=words):
        Descriptor((1, *shape), 2, ProcessGrid((1,)))


def test_nothing_of_a_descriptor_can_be_set() -> None:
    desc = Descriptor((4, 4), 2, GRID)
    for name in ("blok", "shape", "dtype", "T"):
        with pytest.raises(AttributeError, match=f"{name} of a Descriptor cannot be set"):
            setattr(desc, name, 3)
    assert desc == desc.T.T
    assert "blok" not in vars(desc)


def test_descriptors_are_pickled() -> None:
    for desc in (
        Descriptor((4, 5, 6), (2, None, "balanced"), ProcessGrid((2, 1, 3), ranks=np.arange(6)[::-1].reshape(2, 1, 3))),
        Descriptor((20, 30), (4, 5), GRID, source=(1, 2))[3:, ...],
    ):
        hash(desc)
        desc.layout_digest  # noqa: B018
        again = pickle.loads(pickle.dumps(desc))
        assert again == desc
        assert again.parent == desc.parent
        assert again.layout_digest == desc.layout_digest
