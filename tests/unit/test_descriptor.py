"""Descriptors on paper: who holds what, sub-arrays, equality, the nine integers, and what cannot be."""

from __future__ import annotations

import ctypes
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from layouts import block_sizes
from numpy.typing import NDArray
from one_rank import OneRank
from oracle import Layout, random_axes, random_layout, random_shape

from pyscalapack_redist import ArrayError, BlockCyclic, Blocks, Descriptor, DescriptorError, ProcessGrid
from pyscalapack_redist._descriptor import FIELDS, build_fields, check_fields, read_fields
from pyscalapack_redist.layout.axis import MOST_DIMENSIONS, Irregular
from pyscalapack_redist.scalapack.matrix_operands import check_square

GRID = ProcessGrid((2, 3))
ALONE = ProcessGrid((1, 1), OneRank(1))  # type: ignore[arg-type]
OTHERS = ProcessGrid((2, 1), OneRank(3), ranks=[[1], [2]])  # type: ignore[arg-type] # without this rank
SEEDS = st.integers(0, 2**32 - 1)


def drawn(seed: int, least: int = 1, sub_arrays: bool = True) -> tuple[Layout, Descriptor]:
    """Of up to 4 dimensions, over grids of others, with irregular blocks and copies, or part of a larger array."""
    rng = np.random.default_rng(seed)
    layout = random_layout(rng, random_shape(rng, int(rng.integers(least, 5)), 400), 8, sub_arrays, copies=True)
    ranks, axes = random_axes(rng, layout)
    grid = ProcessGrid(ranks.shape, ranks=ranks)
    whole = Descriptor(layout.shape, block_sizes(layout), grid, source=layout.source, axes=axes)
    return layout, whole if layout.size == layout.shape else whole[layout.window()]


@settings(max_examples=4 * settings.default.max_examples)
@given(SEEDS)
def test_who_holds_what_is_found_by_dealing(seed: int) -> None:
    layout, desc = drawn(seed)
    owners = np.full(layout.size, -1)
    numbers = np.arange(math.prod(layout.size)).reshape(layout.size)
    for coords in np.ndindex(*desc.grid.shape):
        rank = desc.grid.rank_of(coords)
        (indices,) = layout.pieces(rank)
        assert desc.local_shape_of(coords) == tuple(map(len, indices))
        inside = [
            some[(some >= o) & (some < o + n)] - o
            for some, o, n in zip(indices, layout.start, layout.size, strict=True)
        ]
        for dim, some in enumerate(inside):
            assert desc.global_indices(dim, coords).tolist() == some.tolist()
        place = layout.coords(rank)
        assert place is not None
        assert rank in desc.places[place].ravel()
        if desc.placement[place] == rank:
            owners[np.ix_(*inside)] = rank
    assert (owners >= 0).all()
    assert desc.copies == layout.copies == desc.places[(0,) * desc.ndim].size
    assert not desc.places.flags.writeable
    assert np.array_equal(desc.owner_map(), owners)
    assert np.array_equal(desc.owner(*np.ogrid[tuple(slice(n) for n in desc.shape)]), owners)
    if numbers.size:
        index = np.unravel_index(numbers.size // 2, numbers.shape)
        rank = desc.owner(*(int(i) for i in index))
        assert isinstance(rank, int)
        assert rank == owners[index]
    spread = desc.owner_map(blocks=True)
    edges = [desc.block_edges(k) for k in range(desc.ndim)]
    assert spread.shape == tuple(len(some) - 1 for some in edges)
    for k, (some, n) in enumerate(zip(edges, desc.shape, strict=True)):
        assert (some[0], some[-1]) == (0, n)
        assert (np.diff(some) > 0).all()
        spread = np.repeat(spread, np.diff(some), axis=k)
    assert np.array_equal(spread, owners)
    copy = pickle.loads(pickle.dumps(desc))
    assert (copy, copy.parent, copy.layout_digest, hash(copy)) == (desc, desc.parent, desc.layout_digest, hash(desc))
    assert desc == desc.T.T
    assert np.array_equal(desc.T.placement, desc.placement.T)


# -- how they are made


@pytest.mark.parametrize(
    ("arguments", "keywords", "block"),
    [
        (((10, 10), (None, None), GRID), {}, (5, 4)),
        (((0, 3), None, GRID), {}, (1, 1)),
        (((10, 10), 4, GRID), {}, (4, 4)),
        (((6, 6), "balanced", GRID), {}, (Blocks([3, 3]), Blocks([2, 2, 2]))),
        (
            ((25, 10, 7), ("balanced", None, Blocks([3, 0, 1, 3], [1, 0, 0, 1])), GRID),
            {"axes": (0, None, 1)},
            (Blocks([13, 12]), 10, Blocks([3, 1, 3], [1, 0, 1])),
        ),
    ],
)
def test_blocks(arguments: tuple[Any, ...], keywords: dict[str, Any], block: tuple[object, ...]) -> None:
    """None: one for each process; "balanced": the same with sizes that differ by one at most; empty ones are left out."""
    desc = Descriptor(*arguments, **keywords)
    assert desc.block == block
    assert Descriptor(desc.shape, desc.block, GRID, axes=desc.axes) == desc
    assert desc.source == (0,) * desc.ndim


def test_axes() -> None:
    part = Descriptor((6, 4, 5), (2, None, None), GRID, axes=(1, None, None))[1:5, :2]
    assert part.copies == part.T.copies == 2
    assert Descriptor((6, 5), 2, GRID, axes=(None, None)).copies == 6
    free = Descriptor((8, 9, 10), None, ProcessGrid((1, 3, 1)), axes=(None, None, 1))  # dimensions of one process
    assert free.placement.shape == (1, 1, 3)
    assert free.local_shape_of((0, 2, 0)) == (8, 9, 2)
    shape = (1,) * (MOST_DIMENSIONS - 1) + (5,)
    assert Descriptor(shape, 2, ProcessGrid((1,))).placement.shape == (1,) * MOST_DIMENSIONS


@pytest.mark.parametrize(
    ("desc", "text"),
    [
        (Descriptor((8, 9, 10), (2, 3, 5), GRID, axes=(1, None, 0)), "axes (1, None, 0)"),
        (Descriptor((6, 5), (2, None), ProcessGrid((2, 3, 2)), axes=(1, None)), "axes (1, None), 4 replicas"),
        (Descriptor((6,), 2, ProcessGrid((3, 2)), axes=(0,)), "2 replicas"),
        (Descriptor((20, 30), (4, 5), GRID)[3:17, 11:], "at (3, 11) of 20 x 30"),
        (Descriptor((25, 7), ("balanced", 2), GRID), "Descriptor(25 x 7, blocks Blocks([13, 12]) x 2"),
    ],
)
def test_a_person_can_read_it(desc: Descriptor, text: str) -> None:
    assert text in repr(desc)
    assert ("replicas" in repr(desc)) == (desc.copies > 1)


def irregular(*blocks: Any) -> Descriptor:
    return Descriptor((9,), (Blocks(*blocks),), ProcessGrid((3,)))


@pytest.mark.parametrize(
    ("desc", "same", "others"),
    [
        (
            Descriptor((20, 30), (4, 5), GRID),
            Descriptor((20, 30), (4, 5), ProcessGrid((2, 3)), lld=99),
            [
                Descriptor((20, 31), (4, 5), GRID),
                Descriptor((20, 30), (4, 6), GRID),
                Descriptor((20, 30), (4, 5), GRID, source=(0, 1)),
                Descriptor((20, 30), (4, 5), ProcessGrid((3, 2))),
                Descriptor((20, 30), (4, 5), ProcessGrid((2, 3), order="column")),
                Descriptor((20, 30), (4, 5), GRID)[0:20, 0:29],
            ],
        ),
        (
            irregular([4, 2, 3], [0, 1, 0]),
            irregular([1, 0, 3, 2, 0, 3], [0, 2, 0, 1, 2, 0]),
            [
                irregular([4, 3, 2], [0, 1, 0]),
                irregular([4, 2, 3], [0, 1, 2]),
                Descriptor((9,), (3,), ProcessGrid((3,))),
            ],
        ),
        (
            Descriptor((6, 5), 2, ProcessGrid((2, 2)), axes=(0, None)),
            Descriptor((6, 5), 2, ProcessGrid((2, 2)), axes=(0, None)),
            [
                Descriptor((6, 5), 2, ProcessGrid((2, 2)), axes=(1, None)),
                Descriptor((6, 5), 2, ProcessGrid((2, 1)), axes=(0, None)),
            ],
        ),
        (
            Descriptor((400,), (Blocks([1] * 400, np.arange(400) % 3),), ProcessGrid((3,))),
            Descriptor((400,), (Blocks([1] * 400, np.arange(400) % 3),), ProcessGrid((3,))),
            [Descriptor((400,), (Blocks([1] * 400, np.arange(1, 401) % 3),), ProcessGrid((3,)))],
        ),
    ],
    ids=["block-cyclic", "irregular", "copies", "many-blocks"],
)
def test_equality_and_hash_are_of_the_layout(desc: Descriptor, same: Descriptor, others: list[Descriptor]) -> None:
    assert desc == same
    assert hash(desc) == hash(same)
    assert desc.layout_digest == same.layout_digest
    for other in others:
        assert desc != other
        assert desc.layout_digest != other.layout_digest
        assert repr(desc) != repr(other)
    assert desc != "a descriptor"


def test_nothing_of_a_descriptor_can_be_set() -> None:
    desc = Descriptor((4, 4), 2, GRID)
    for name in ("blok", "shape", "dtype", "T"):
        with pytest.raises(AttributeError, match=f"{name} of a Descriptor cannot be set"):
            setattr(desc, name, 3)
    assert "blok" not in vars(desc)


def test_owners_and_edges() -> None:
    assert SMALL.owner([0, 4], 3).tolist() == [1, 1]
    assert SMALL.block_edges(-1).tolist() == SMALL.block_edges(1).tolist() == [0, 3, 6, 7]
    assert LARGE.owner(10**6 - 1, 10**6 - 1) == LARGE[10**6 - 1 :, 10**6 - 1 :].owner_map()[0, 0]
    assert Descriptor((6, 6), (2, 2), GRID, lld=9).lld == 9


# -- local arrays from a function


@pytest.mark.parametrize(
    ("f", "dtype"),
    [
        (lambda i, j: np.float32(2) * (i + j).astype(np.float32), np.float32),
        (lambda i, j: i + 1j * j, np.complex128),
        (lambda i, j: 7, np.int64),
    ],
)
def test_a_function_gives_the_dtype(f: Any, dtype: Any) -> None:
    """On ranks of a grid, and outside of it, where no elements are held."""
    grid = ProcessGrid((2, 1), OneRank(2))  # type: ignore[arg-type]
    part = Descriptor((5, 4), 2, grid)[1:4, 1:]
    for desc in (
        Descriptor((5, 4), 2, grid),
        part,
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
    # where nothing is held of a known dtype, it is not called
    assert Descriptor((5, 4), 2, OTHERS).from_function(np.vectorize(lambda i, j: i + j), float).dtype == np.float64


@pytest.mark.parametrize("f", [lambda i, j: math.sin(i), lambda i, j: 1.0 if i == j else 0.0])
def test_a_function_for_single_indices_gets_a_note(f: Any) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        Descriptor((5, 4), 2, ALONE).from_function(f)
    assert any(
        "called once with arrays of indices, of shapes (5, 1), (1, 4)" in note for note in caught.value.__notes__
    )


@pytest.mark.parametrize(
    ("shape", "fits"), [((), True), ((4,), True), ((5, 1), True), ((1, 5, 4), True), ((5,), False), ((2, 5, 4), False)]
)
def test_what_a_function_gives_must_broadcast(shape: tuple[int, ...], fits: bool) -> None:
    desc = Descriptor((5, 4), 2, ALONE)
    if fits:
        assert (desc.from_function(lambda i, j: np.ones(shape)) == 1).all()
        return
    with pytest.raises(
        ArrayError, match=r"f returned an array of shape \(.*does not broadcast to .* elements, \(5, 4\)"
    ):
        desc.from_function(lambda i, j: np.ones(shape))


# -- sub-arrays


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
    desc = Descriptor((40, 30), (Blocks([20, 11, 9], [1, 0, 1]), "balanced"), GRID)
    part = desc[18:33, 5:]
    assert part.distributions[0].local_start(1) == 18
    assert part.distributions[0].block == Blocks([2, 11, 2], [1, 0, 1])
    assert part[2:] == desc[20:33, 5:]
    assert desc.T[5:, 18:33] == part.T


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
        (slice(5, 99), slice(-99, 2)),
        (slice(5, 3), slice(-2, 5)),
        (slice(99, 2**70), slice(40, -50)),
    ],
)
def test_slices_are_numpys(key: Any) -> None:
    rows, columns = np.indices((20, 30))
    for desc in (Descriptor((20, 30), (4, 5), GRID), Descriptor((20, 30), "balanced", GRID)):
        part = desc[key]
        assert part.shape == rows[key].shape
        if rows[key].size:
            assert part.offset == (rows[key].min(), columns[key].min())
    block = Descriptor((4, 20, 30), 3, ProcessGrid((1, 2, 3)))
    assert block[..., -3:] == block[:, :, 27:]


# -- dimensions merged


def indices_of(desc: Descriptor, rank: int) -> list[NDArray[np.int64]]:
    coords = desc.grid.coords_of(rank)
    return [desc.global_indices(dim, coords) for dim in range(desc.ndim)]


def check_merged(desc: Descriptor, merged: Descriptor, order: Any) -> None:
    """Every rank's local array is that of the array before, reshaped."""
    whole = np.arange(math.prod(desc.shape)).reshape(desc.shape, order=order)
    again = whole.reshape(merged.shape, order=order)
    for rank in desc.grid.ranks.ravel().tolist():
        local, other = whole[np.ix_(*indices_of(desc, rank))], again[np.ix_(*indices_of(merged, rank))]
        assert np.array_equal(other, local.reshape(other.shape, order=order))


@settings(max_examples=4 * settings.default.max_examples)
@given(SEEDS)
def test_merged_dimensions_hold_the_same_local_arrays(seed: int) -> None:
    rng = np.random.default_rng(seed)
    _, desc = drawn(seed, least=2, sub_arrays=False)
    first, order = int(rng.integers(desc.ndim - 1)), "FC"[rng.integers(2)]
    dims = range(first, int(rng.integers(first + 2, desc.ndim + 1)))
    try:
        merged = desc.merge(*dims, order=order)
    except DescriptorError:
        event("refused")
        faster = dims[:-1] if order == "F" else dims[1:]
        assert any(desc.distributions[k].processes > 1 for k in faster)
        return
    event("merged")
    check_merged(desc, merged, order)


@pytest.mark.parametrize("source", [(0, 0, 0), (1, 2, 0), (0, 1, 0)])
@pytest.mark.parametrize(("order", "blocks"), [("F", (4, 1, 5)), ("C", (1, 3, 5))])
def test_merging_two_distributed_dimensions_merges_the_grid(
    order: str, blocks: tuple[int, ...], source: tuple[int, ...]
) -> None:
    desc = Descriptor((8, 9, 5), blocks, GRID, source=source)
    merged = desc.merge(0, 1, order=order)
    assert merged.shape == (72, 5)
    assert (merged.grid.shape, merged.axes) == ((6,), (0, None))
    check_merged(desc, merged, order)


# -- the nine integers

NINE = [1, 0, 20, 30, 4, 5, 1, 2, 12]


def structure(names: Any, kind: Any) -> Any:
    return type("Nine", (ctypes.Structure,), {"_fields_": [(name, kind) for name in names]})


ARRAY = type("Array", (structure(FIELDS, ctypes.c_int),), {"M2": 7})  # a class may have more attributes


@pytest.mark.parametrize(
    "values",
    [
        NINE,
        tuple(NINE),
        np.array(NINE),
        np.array(NINE, np.intc),
        np.repeat(np.array(NINE, np.intc), 2)[::2],
        ARRAY(*NINE),
    ],
    ids=["list", "tuple", "array", "intc", "strided", "structure"],
)
def test_nine_integers_are_read_from_anything(values: object) -> None:
    assert read_fields(values) == tuple(NINE)


def test_nine_integers_are_built() -> None:
    built = np.asarray(build_fields(NINE))
    assert built.dtype == np.intc
    assert built.tolist() == NINE


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"DTYPE": 2}, "DTYPE = 2 must be 1"),
        ({"M": -1}, "M = -1 must be at least 0"),
        ({"N": -1}, "N = -1 must be at least 0"),
        ({"MB": 0}, "MB = 0 must be at least 1"),
        ({"NB": -4}, "NB = -4 must be at least 1"),
        ({"RSRC": 2}, "RSRC = 2 is outside the 2 x 3 grid .* it must be 0 to 1"),
        ({"CSRC": -1}, "CSRC = -1 is outside the 2 x 3 grid"),
        ({"LLD": 11}, "LLD = 11 is too small: process row 1 holds 12 rows"),
        ({"M": 4, "LLD": 0}, "LLD = 0 is too small: process row 1 holds 4 rows"),
        ({"M": 0, "LLD": -1}, "LLD = -1 is too small"),
    ],
)
def test_each_field_is_checked(changed: dict[str, int], words: str) -> None:
    check_fields(NINE, 2, 3, 1)
    check_fields([1, 0, 4, 30, 4, 5, 1, 2, 0], 2, 3, 0)  # some make LLD 0 where there are no rows
    with pytest.raises(DescriptorError, match=words):
        check_fields([changed.get(name, value) for name, value in zip(FIELDS, NINE, strict=True)], 2, 3, 1)


# -- what is refused

MIXED = Descriptor((7, 4), (2, "balanced"), GRID)
COPIES = Descriptor((6, 5), 2, ProcessGrid((2, 2)), axes=(0, None))
LARGE = Descriptor((10**6, 10**6), (1, 64), ProcessGrid((32, 32)))
SMALL = Descriptor((5, 7), (2, 3), GRID)
THREE = Descriptor((8, 10, 7), (2, 3, 7), GRID)
WHOLE = Descriptor((20, 30), (4, 5), GRID)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        # how they are made
        (lambda: Descriptor((4, 4), (0, 2), GRID), r"block\[0\] = 0 must be at least 1"),
        (lambda: Descriptor((4, -4), (2, 2), GRID), r"shape\[1\] = -4 must be at least 0"),
        (lambda: Descriptor((4, 4), (2, 2, 2), GRID), r"block = \(2, 2, 2\) has 3 entries, but the array has"),
        (lambda: Descriptor((4, 4), "x", GRID), r"block\[0\] = 'x' must be an integer .* 'balanced'"),
        (lambda: Descriptor((4, 4), 2.5, GRID), "block = 2.5 must be an integer or a sequence"),
        (lambda: Descriptor((4, 4), (2, 2), "grid"), "grid = 'grid' must be a ProcessGrid"),
        (lambda: Descriptor((4, 4), 2, (2, 1)), r"grid = \(2, 1\) must be a ProcessGrid: ProcessGrid\(\(2, 1\), "),
        (lambda: Descriptor((4, 4), (2, 2), GRID, source=(2, 0)), r"source\[0\] = 2 is outside the grid: .* 0 to 1"),
        (lambda: Descriptor((4, 4), (2, 2), GRID, axes=(0, 0)), "uses grid dimension 0 twice"),
        (lambda: Descriptor((4, 4), (2, 2), GRID, axes=(0, 2)), r"axes\[1\] = 2 is not a dimension of the grid"),
        (lambda: Descriptor((4, 4), 2, GRID, axes=(0, -1)), r"axes\[1\] = -1 must be at least 0"),
        (lambda: Descriptor((4, 4), (2, 2), GRID, axes=(0,)), r"axes = \(0,\) has 1 entries, but the array has"),
        (
            lambda: Descriptor((4,), (2,), GRID),
            r"grid dimension 1 has 3 processes, but no array dim.*axes = \(0,\) for a replica",
        ),
        (lambda: Descriptor((), (), GRID), "at least one dimension"),
        (lambda: Descriptor((1,) * (MOST_DIMENSIONS + 1), 2, GRID), f"NumPy's arrays have at most {MOST_DIMENSIONS}"),
        (lambda: Descriptor((4, 4), (2, 2), GRID, lld=0), "lld = 0 must be at least 1"),
        (lambda: Descriptor((7, 4), (Blocks([3, 3]), 2), GRID), r"the sizes sum to 6, but shape\[0\] = 7"),
        (lambda: Descriptor((7, 4), (Blocks([3, 3, 1]), 2), GRID), r"owners has process 2, but its dimension has 2"),
        (lambda: Descriptor((7, 4), ("balanced", 2), GRID, source=1), r"source\[0\] = 1 is for blocks of one"),
        # blocks, and what is none of ScaLAPACK's
        (lambda: Blocks(3), "sizes = 3 must be a sequence of integers of at least 0: elements in a block"),
        (lambda: Blocks(np.array([1, -2])), r"sizes\[1\] = -2 must be at least 0: elements in a block"),
        (lambda: Blocks([1, 2.5]), r"sizes\[1\] = 2.5 must be an integer of at least 0"),
        (lambda: Blocks([2**61, 2**61, 2**61]), r"sizes must sum to at most 2\*\*62"),
        (lambda: Blocks([1, 2], [0]), "owners has 1 entries and sizes 2: give the process of each block"),
        (lambda: Blocks([1, 2], [0, -1]), r"owners\[1\] = -1 must be at least 0: a process coordinate"),
        (lambda: Irregular(5, Blocks([3]), 1, 1), "sizes sum to 3, which is less than 5 elements from index 1 on"),
        (
            MIXED.to_array,
            r"dimension 1 has irregular blocks, Blocks\(\[2, 1, 1\]\), but a ScaLAPACK descriptor has one bl",
        ),
        (lambda: np.asarray(MIXED), "redistribute to a Descriptor with a block size first"),
        (lambda: check_square(Descriptor((6, 6), "balanced", GRID)), "dimension 0 has irregular blocks"),
        (COPIES.to_array, "2 replicas.* has no ScaLAPACK descriptor: .*without replicas; redistribute"),
        # owners, and what means nothing on paper
        (lambda: SMALL.owner(3), r"owner\(\) got 1 indices: the array has 2 dimensions"),
        (lambda: SMALL.owner(0, 7), "index 1 = 7 is outside the array: along dimension 1 indices are 0 to 6"),
        (lambda: SMALL.owner(1.5, 0), "index 0 = 1.5 must be an integer"),
        (lambda: SMALL.global_indices(0, (2, 0)), r"coords = \(2, 0\) are outside"),
        (lambda: SMALL.block_edges(2), "dim = 2 must be a dimension of the array, 0 to 1"),
        (lambda: SMALL.global_indices(None, (0, 0)), "dim = None must be a dimension of the array, 0 to 1"),
        (LARGE.owner_map, r"1000000 x 1000000 elements .* take owner_map\(blocks=True\)"),
        (lambda: LARGE.owner_map(blocks=True), "1000000 x 15625 blocks .* take a sub-array"),
        (lambda: SMALL.local_shape, "is on paper, where no rank has .*; or give its grid a communicator"),
        (lambda: SMALL.lld, "is on paper, where no rank has .*; or give its grid a communicator"),
        (lambda: SMALL.empty(), "is on paper, where no rank has .*; or give its grid a communicator"),
        (lambda: SMALL.from_function(lambda i, j: i), "is on paper, where no rank has .*; or give its grid a comm"),
        (lambda: SMALL.global_indices(0), "is on paper, where no rank has .*; or give its grid a communicator"),
        # sub-arrays
        (lambda: WHOLE[..., :, ...], r"at most one ellipsis \(...\), got 2"),
        (lambda: WHOLE[0:8:2], "the step of a sub-array must be 1, not 2"),
        (lambda: WHOLE[3], "needs slices, not 3; for one index i write i:i\\+1"),
        (lambda: WHOLE[..., :, :, :], "at most 2 slices, got 3"),
        (lambda: WHOLE["a":], "must be integers"),
        # dimensions merged
        (lambda: THREE.merge(), r"dims = \(\) must be two or more neighbours of the 3 dimensions, ascending"),
        (lambda: THREE.merge(1), r"dims = \(1,\) must be two or more neighbours"),
        (lambda: THREE.merge(0, 2), r"dims = \(0, 2\) must be two or more neighbours"),
        (lambda: THREE.merge(2, 3), "must be two or more neighbours"),
        (lambda: THREE.merge(0, "x"), r"dims\[1\] = 'x' must be an integer"),
        (lambda: THREE.merge(1, 2, order="K"), "order = 'K' must be 'F'"),
        (lambda: THREE.merge(0, 1), "dimensions 0 and 1 cannot be merged: both are distributed: the faster"),
        (lambda: THREE.merge(1, 2), "a dimension of 10 in blocks of 3 over 3 processes runs faster, .* multi"),
        (lambda: THREE[1:].merge(1, 2), "a sub-array's dimensions cannot be merged"),
        (lambda: Descriptor((4, 6), ("balanced", 1), GRID).merge(0, 1), "both are distributed"),
        # the nine integers
        (lambda: read_fields(NINE[:6]), "got 6; RSRC, CSRC, LLD are missing"),
        (lambda: read_fields([*NINE, 1]), "has nine integers DTYPE, CTXT, .* got 10"),
        (lambda: read_fields(7), "must be nine integers .* got int: 7"),
        (lambda: read_fields([1, 0, 2.5, 30, 4, 5, 1, 2, 12]), "M = 2.5 must be an integer"),
        (lambda: read_fields([1, 0, 2**40, 30, 4, 5, 1, 2, 12]), "M = 1099511627776 does not fit"),
        (lambda: read_fields(structure(FIELDS, ctypes.c_long)(*NINE)), "must be nine integers .* got Nine"),
        (lambda: read_fields(structure(FIELDS[:8], ctypes.c_int)(*NINE[:8])), "got 8; LLD is missing"),
        (lambda: build_fields([1, 0, 2**31, 1, 1, 1, 0, 0, 1]), "M = 2147483648 does not fit into "),
    ],
)
def test_what_is_refused(call: Callable[[], object], words: str) -> None:
    with pytest.raises(DescriptorError, match=words):
        call()
