"""DistributedArray: what it does without communication, on one rank of a few."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy as shallow
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from one_rank import OneRank

import pyscalapack_redist as psr
from pyscalapack_redist import ArrayError, Descriptor, DescriptorError, DistributedArray, ProcessGrid
from pyscalapack_redist.layout.array_arithmetic import takes_distributed

COMM: Any = OneRank(6)
GRID = ProcessGrid((2, 3), COMM)
DESC = Descriptor((10, 12), (2, 2), GRID)  # 6 x 4 here
OUTSIDE = Descriptor((10, 12), 2, ProcessGrid((1, 2), COMM, ranks=[[3, 4]]))
FOREIGN = type("DistributedArray", (), {"__module__": "other"})


def of(dtype: str = "f8") -> DistributedArray:
    return DistributedArray.from_function(DESC, lambda i, j: 100 * i + j, dtype)


def test_it_is_a_descriptor_and_the_users_array() -> None:
    for local in (DESC.zeros(), DESC.zeros(order="C"), np.zeros((12, 8))[::-2, ::2], DESC.zeros("V3")):
        array = DistributedArray(DESC, local)
        assert array.desc is DESC
        assert array.local is local
        assert (array.shape, array.ndim, array.dtype, len(array)) == ((10, 12), 2, local.dtype, 10)


def test_of_a_leading_dimension_only_the_rows_are_kept() -> None:
    desc = Descriptor((10, 12), (2, 2), GRID, lld=9)
    local = np.arange(36.0).reshape(9, 4, order="F")
    array = DistributedArray(desc, local)
    assert array.local is not None
    assert np.array_equal(array.local, local[:6])
    assert np.shares_memory(array.local, local)
    assert array.T.local is not None
    assert array.T.local.shape == array.T.desc.local_shape == (4, 6)


def test_an_argument_that_is_missing_names_the_class() -> None:
    with pytest.raises(TypeError, match=r"^DistributedArray\.__init__\(\) missing 1 required .* 'local'"):
        DistributedArray(np.zeros((4, 4)))  # type: ignore[call-arg]


@pytest.mark.parametrize("desc", [OUTSIDE, Descriptor((0, 12), 2, GRID)], ids=["outside", "empty"])
def test_without_elements_there_is_none_or_an_empty_array(desc: Descriptor) -> None:
    for local, dtype in (
        (None, None),
        (np.empty(0, "f4"), "f4"),
        (np.empty((5, 0), "i2"), "i2"),
        (desc.empty("D"), "D"),
    ):
        for array in (
            DistributedArray(desc, local),
            DistributedArray(desc, local).T,
            DistributedArray(desc, local)[:, :3],
        ):
            assert array.dtype == (None if dtype is None else np.dtype(dtype))
            assert array.local is None or array.local.shape == array.desc.local_shape
        assert "nothing of it here" in repr(DistributedArray(OUTSIDE, local))
        assert DistributedArray(desc, local).H.copy().dtype == array.dtype
        assert dtype is None or DistributedArray(desc, local).astype("F").dtype == np.complex64


PAPER = Descriptor((4, 4), 2, ProcessGrid((2, 2)))
WORDS = r"local has shape \(6, 5\), but this rank's local array of Descriptor\(.* has shape \(6, 4\)"


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: DistributedArray(DESC, np.zeros((6, 5))), ArrayError, WORDS),
        (lambda: DistributedArray(DESC, np.zeros((10, 12))), ArrayError, "of the whole array: distribute and scatter take"),
        (lambda: DistributedArray(DESC, np.zeros((4, 6))), ArrayError, r"has shape \(6, 4\); local.T fits"),
        *((lambda shape=shape: DistributedArray(DESC, np.zeros(shape)), ArrayError, words) for shape, words in (
            ((2, 12), r"has these sizes: Descriptor\(\(10, 12\), \('balanced', None\), ProcessGrid\(\(6, 1\), comm\)"),
            ((5, 12), r"\('balanced', None\), ProcessGrid\(\(2, 1\), comm\)"),
            ((10, 4), r"\(None, 'balanced'\), ProcessGrid\(\(1, 3\), comm\)"),
            ((6, 7), r"has shape \(6, 4\)$"),
        )),
        (lambda: DistributedArray(DESC, None), ArrayError, "local is None, but this rank holds a local array of shape"),
        (lambda: DistributedArray(DESC, [[1.0] * 4] * 6), ArrayError, "local is a list: it must be a NumPy array of sh"),
        (lambda: DistributedArray(DESC, np.ma.zeros((6, 4))), ArrayError, "the mask would be lost: pass loc"),
        (lambda: DistributedArray(OUTSIDE, np.zeros((2, 2))), ArrayError, "but this rank is outside the grid: pass None"),
        (lambda: DistributedArray(np.zeros(2), DESC), DescriptorError, r"desc = <ndarray of shape \(2,\) and dtype fl"),
        (lambda: DistributedArray.from_function(lambda i, j: i, DESC), DescriptorError, "and f the next argument"),
        (lambda: of().__setitem__("3", 1), ArrayError, "dimension 0: '3' must be an integer or a slice"),
        *((call, TypeError, rf"^{name}.* distributed arrays: .*{words}.*; here <D.* of shape \(10, 12\) and dtype float64>$")
            for name, words, call in (
            ("numpy.asarray", r"a\.gather\(None\)", lambda: np.asarray(of())),
            ("numpy.save", r"write a\.save\('a\.npy'\)", lambda: np.save("a.npy", of())),
            ("numpy.unique", r"np\.sort\(a, axis=None\)", lambda: np.unique(of())),
            ("== with a str", "numbers or arrays", lambda: of() == "x"), ("!= with a list", "", lambda: of() != [3]),
            ("numpy.exp", "", lambda: np.exp(of(), where=1)), ("numpy.add.reduce", "methods", lambda: np.add.reduce(of())),
            ("numpy.power", "a number, or a NumPy array that all ranks have", lambda: np.power(of(), [2])),
            ("numpy.frexp", r"a\.gather\(\)", lambda: np.frexp(of())),
            ("numpy.take", "write slices", lambda: np.take(of(), [0])),
        )),
        *((call, TypeError, None) for call in (lambda: np.ma.zeros(12) == of(), lambda: of() - np.ma.zeros(12))),
        *((call, ArrayError, r"of shape \(.*\) cannot be combined with .* of shape \(10, 12\): it is taken to be whole")
            for call in (lambda: of() != np.eye(3), lambda: np.ones(3) * of(), lambda: of() - DESC.zeros(),
                         lambda: of() + np.zeros((1, 10, 12)))),
        *((call, ValueError, r"^Distrib.* has no truth value: take \.any\(\) or \.all\(\)")
            for call in (lambda: bool(of()), lambda: 3 in (of(),))),
        (lambda: of().__setitem__(0, None), ArrayError, r"value = None: each rank writes its own .*psr\.distribute"),
        (lambda: of().__setitem__(0, 1j), ArrayError, r"dtype complex128 cannot be assigned to an array of float64: take"),
        (lambda: DistributedArray(PAPER, None), DescriptorError, "is on paper, .* a local_shape: .* give "),
        (lambda: psr.distribute([], PAPER), DescriptorError, "is on paper: give its grid a communicator"),
        (lambda: of() + "1", TypeError, None),  # it is no array library
        (lambda: list(of()), TypeError, r"cannot be iterated: all ranks ask for a\[i\] together"),
        (lambda: 3 in of(), TypeError, r"\(a == x\)\.any\(\)"),
        (lambda: reversed(of()), TypeError, "not reversible"),
        (lambda: of().fill(3), AttributeError, r"no attribute 'fill': write a\[\.\.\.\] = value"),
        (lambda: of().nothing, AttributeError, "no attribute 'nothing'$"),
    ],
)  # fmt: skip
def test_what_is_refused(make: Any, error: type[Exception], words: str | None) -> None:
    with pytest.raises(error, match=words):
        make()


def test_what_no_elements_are_needed_for() -> None:
    array = of()
    assert {array: 1}[array] == 1
    assert array in (array,)
    assert np.shape(array) == array.shape == array[:99, -99:].shape
    assert np.ndim(array) == 2


def test_copies() -> None:
    array = of()
    assert array.local is not None
    for copy in (array.copy(), array.astype("f8"), array.T.copy().T):
        assert copy.local is not None
        assert np.array_equal(copy.local, array.local)
        assert not np.shares_memory(copy.local, array.local)
    for copied in deepcopy(array), shallow(array):  # a communicator is not copied, and pickled only by name
        assert copied.desc.grid is array.desc.grid
        assert np.array_equal(copied.local, array.local)  # type: ignore[arg-type]
    part = array[1:3, 4:]
    for copy in (part.copy(), part.astype("f8"), +part, part.T.copy().T, part.T.T + 0):  # the part alone
        assert copy.desc.parent is None
        assert copy.shape == part.shape
        assert np.array_equal(copy.local, part.own)  # type: ignore[arg-type]
        assert np.array_equal(copy.desc.global_indices(1), part.desc.global_indices(1))
    assert np.shares_memory(part.own, array.local)  # type: ignore[arg-type]
    assert array.own is array.local
    assert DistributedArray(OUTSIDE, None)[1:3].own is None
    assert array.astype("i2").dtype == np.int16
    assert np.shares_memory(array.H.local, array.local)  # type: ignore[arg-type]
    values = of("D")
    assert not np.shares_memory(values.H.local, values.local)  # type: ignore[arg-type]


def test_operators_are_those_of_the_local_arrays() -> None:
    a, b = of(), of("F")
    x, y = a.local, b.local
    cases: list[tuple[DistributedArray, Any]] = [
        (a + b, x + y), (a - b, x - y), (a * b, x * y), (-a, -x), (2 * a, 2 * x), (a * np.float32(2), x * 2), (a / 2, x / 2),
        (1 - b, 1 - y), (3 + a, x + 3), (np.float64(2) / (a + 1), 2 / (x + 1)), (b / (a + 1j), y / (x + 1j)),
    ]  # fmt: skip
    for result, expected in cases:
        assert result.desc is a.desc or result.desc is b.desc
        assert result.dtype == expected.dtype
        assert np.array_equal(result.local, expected)  # type: ignore[arg-type]
    for order in "CF":
        array = DistributedArray(DESC, DESC.zeros(order=order))
        for result in (array + array, 2 * array, -array, array / 2):
            assert result.local.flags[f"{order}_CONTIGUOUS"]  # type: ignore[union-attr]
    part = a[1:3] + a[1:3]
    assert part.desc == a[1:3].copy().desc
    assert np.array_equal(part.local, 2 * a[1:3].own)  # type: ignore[arg-type]
    outside = DistributedArray(OUTSIDE, None)
    assert (outside + outside).local is (2 * outside).local is (-outside).local is None
    assert (of("f4") * 2).dtype == np.float32
    before = a
    a += 1
    assert a is not before
    assert np.array_equal(before.local, x)  # type: ignore[arg-type]


def test_repr() -> None:
    desc = "Descriptor(10 x 12, blocks 2 x 2, ProcessGrid(2 x 3, ranks 0 to 5))"
    assert repr(of()) == f"DistributedArray({desc}, float64, 6 x 4 of it here)"
    where = "ProcessGrid(1 x 2, ranks [[3, 4]])"
    assert repr(DistributedArray(OUTSIDE, None)) == (
        f"DistributedArray(Descriptor(10 x 12, blocks 2 x 2, {where}), nothing of it here)"
    )


def test_what_is_made_of_it_is_of_its_class() -> None:
    class Matrix(DistributedArray):
        pass

    matrix = Matrix.from_function(DESC, lambda i, j: i)
    for made in (matrix, matrix.T, matrix.H, matrix[1:], matrix.copy(), matrix.astype("i8")):
        assert type(made) is Matrix


def test_functions_take_it_in_place_of_both() -> None:
    @takes_distributed("local", "desc")
    def call(*arguments: Any, **keywords: Any) -> Any:
        return arguments, keywords

    array, desc = of(), OUTSIDE
    assert call(array, 3, array, k=4) == ((array.local, DESC, 3, array.local, DESC), {"k": 4})
    assert call(None, desc) == ((None, desc), {})


@pytest.mark.parametrize("call", [psr.gather, lambda x: psr.save(x, "a.npy")])
@pytest.mark.parametrize(
    ("array", "reason"),
    [
        (np.ones((3, 3)), "array is a numpy.ndarray: the layout of a local array is not known"),
        ([1, 2], "array is a list: give psr.DistributedArray, a pair"),
        (FOREIGN(), "array is a other.DistributedArray: give psr.DistributedArray"),
    ],
)
def test_an_object_in_place_of_an_array(call: Callable[[Any], Any], array: Any, reason: str) -> None:
    with pytest.raises(ArrayError, match=reason):
        call(array)


def test_dimensions_in_another_order_are_views() -> None:
    grid = ProcessGrid((2, 1, 3), COMM)
    array = DistributedArray.from_function(Descriptor((6, 5, 4), 2, grid), lambda i, j, k: 100 * i + 10 * j + k)
    local = array.local
    for turned, order in (
        (array.transpose(2, 0, 1), (2, 0, 1)),
        (array.transpose([1, 0, 2]), (1, 0, 2)),
        (array.swapaxes(0, -1), (2, 1, 0)),
        (np.moveaxis(array, 0, -1), (1, 2, 0)),
        (array[1:5, :, 1:].transpose(0, 2, 1), (0, 2, 1)),
        (array.transpose(), (2, 1, 0)),
    ):
        assert turned.desc.axes == tuple(order)
        assert turned.local.shape == turned.desc.local_shape
        assert np.shares_memory(turned.local, local)
        assert np.array_equal(turned.local, local.transpose(order))
    more = np.expand_dims(array[:, :, 1:], (0, -1))
    assert more.shape == (1, 6, 5, 3, 1)
    assert more.own.shape == (1, *array[:, :, 1:].own.shape, 1)
    for wrong in ((0, 0, 1), (0, 1), (0, 1, 3)):
        with pytest.raises(ValueError, match=r"axes|axis"):
            array.transpose(*wrong)
