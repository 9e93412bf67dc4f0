"""Local arrays: new ones, those that go with a descriptor, and what is refused before anything moves."""

from __future__ import annotations

import itertools
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray
from one_rank import OneRank

from pyscalapack_redist import ArrayError, Descriptor, ProcessGrid
from pyscalapack_redist.engine.local_arrays import check_arrays, make_out, memory_order
from pyscalapack_redist.engine.stages import Pair
from pyscalapack_redist.layout.arrays import LARGE, host_array, new_array

F8 = np.dtype(np.float64)


def local(shape: tuple[int, ...], ranks: int = 1, source: tuple[int, ...] | int = 0) -> Descriptor:
    """Blocks of one element each, so that rank 0 of several, unless it is the source, has nothing of one element."""
    grid = ProcessGrid((ranks,) + (1,) * (len(shape) - 1), OneRank(ranks))  # type: ignore[arg-type]
    return Descriptor(shape, 1, grid, source=source)


class Odd:
    """An array of another library: it has the names that a NumPy array has, and other things behind them."""

    dtype = "of another library"
    shape = "?"
    strides = None
    size = 0


class Angry:
    """An object whose attributes cannot even be asked for."""

    def __getattr__(self, name: str) -> object:
        raise RuntimeError(name)


FOREIGN = [Odd(), Angry(), [], 0, memoryview(b"")]
NOTHING = [local((0, 3)), local((1, 3), 2, (1, 0))]


@pytest.mark.parametrize("which", ["a", "out"])
@pytest.mark.parametrize("foreign", FOREIGN, ids=lambda array: type(array).__name__)
def test_what_is_no_array_is_refused(which: str, foreign: Any) -> None:
    for desc, dtype in itertools.product((local((2, 3)), *NOTHING), (None, F8)):
        given = {"a": desc.zeros(), "out": desc.zeros(), which: foreign}
        words = f"{which} is a {type(foreign).__name__}: it must be a NumPy array of shape"
        with pytest.raises(ArrayError, match=words):
            check_arrays(given["a"], given["out"], Pair(desc, desc, dtype))


@pytest.mark.parametrize("desc", NOTHING, ids=["empty", "none"])
def test_nothing_may_be_none_or_any_empty_array(desc: Descriptor) -> None:
    for nothing in (None, np.empty(0), np.empty((5, 0), "f4"), desc.zeros()):
        assert check_arrays(nothing, desc.zeros(), Pair(desc, desc, F8)).dtype == F8
        assert check_arrays(desc.zeros(), nothing, Pair(desc, desc, F8)).dtype == F8


@st.composite
def strided(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Shape, strides and bytes of an element: often such that it is not plain whether elements share memory."""
    dims, item = draw(st.integers(1, 4)), draw(st.sampled_from([1, 2, 4, 8]))
    shape = draw(st.lists(st.integers(1, 6), min_size=dims, max_size=dims))
    strides = draw(st.lists(st.integers(-40, 40), min_size=dims, max_size=dims))
    unit = draw(st.sampled_from([1, item]))
    return tuple(shape), tuple(unit * stride for stride in strides), item


@settings(max_examples=4 * settings.default.max_examples)
@given(strided())
def test_out_is_refused_where_two_of_its_elements_share_memory(
    case: tuple[tuple[int, ...], tuple[int, ...], int],
) -> None:
    shape, strides, item = case
    places = sum(np.ix_(*(np.arange(n) * stride for n, stride in zip(shape, strides, strict=True))))
    shared = bool((np.diff(np.sort(places.ravel())) < item).any())
    memory = np.zeros(int(np.ptp(places)) + item, np.uint8)
    begin = memory[-int(places.min()) :] if places.min() < 0 else memory
    target = as_strided(begin[:item].view(f"V{item}"), shape, strides)
    desc = local(shape)
    source = desc.zeros(target.dtype)
    if shared:
        with pytest.raises(ArrayError, match=r"out has strides \(.*\): several of its elements share memory"):
            check_arrays(source, target, Pair(desc, desc, None))
    else:
        assert check_arrays(source, target, Pair(desc, desc, None)).out is not None


@given(st.integers(0, 4).flatmap(lambda ndim: st.permutations(range(ndim))), st.data())
def test_the_order_of_an_array_is_the_nearer_one(axes: list[int], data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(0, 3), min_size=len(axes), max_size=len(axes))))
    array = np.zeros([2 * n for n in shape]).transpose(axes)
    if data.draw(st.booleans()):
        array = array[tuple(slice(None, None, -2) for _ in shape)]
    order = memory_order(array)
    alike = sum(n > 1 for n in array.shape) < 2 or not array.size
    assert (order is None) == alike
    copy = np.array(array, order="K")  # with the strides of NumPy's own rule
    if not alike and copy.flags.c_contiguous != copy.flags.f_contiguous:
        assert (order == "C") == copy.flags.c_contiguous
    for name in "CF":
        assert memory_order(np.zeros(array.shape, order=name)) == (None if alike else name)  # type: ignore[call-overload]


class Tensor:
    """An array of another library, in the host's memory unless told otherwise, that speaks DLPack."""

    def __init__(self, array: NDArray[Any], device: tuple[int, int] = (1, 0)) -> None:
        self.array, self.device = array, device

    def __dlpack__(self, **keywords: Any) -> Any:
        return self.array.__dlpack__(**keywords)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


class Old:
    """One that speaks NumPy's interface."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.array = array

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self.array.__array_interface__


class Unversioned(Tensor):
    """One whose DLPack cannot say that it may be written, with a view of its own that can."""

    def __dlpack__(self, **keywords: Any) -> Any:
        return self.array.__dlpack__()

    def __array__(self, dtype: Any = None, copy: Any = None) -> NDArray[Any]:
        return self.array


class Lazy(Tensor):
    """One that is conjugated or negated when it is read, which DLPack does not tell."""

    def __init__(self, array: NDArray[Any], bit: str) -> None:
        super().__init__(array)
        for name in ("conj", "neg"):
            setattr(self, f"is_{name}", lambda name=name: name == bit)
            setattr(self, f"resolve_{name}", lambda: self)


class OnGpu:
    __cuda_array_interface__: ClassVar[dict[str, Any]] = {"shape": (2, 3)}


@pytest.mark.parametrize("kind", [Tensor, Old, Unversioned, lambda array: Lazy(array, "none")])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_of_other_libraries_are_taken_without_a_copy(kind: Any, order: Any) -> None:
    array = np.arange(12.0).reshape(3, 4, order=order)[1:]
    made = host_array("a", kind(array))
    assert type(made) is np.ndarray
    assert np.array_equal(made, array)
    if np.lib.NumpyVersion(np.__version__) >= "2.1.0" or kind is not Tensor:
        made[0, 0] = 99
        assert array[0, 0] == 99
    else:
        assert np.shares_memory(made, array)


def test_what_may_not_be_written_stays_so() -> None:
    array = np.zeros((2, 3))
    array.flags.writeable = False
    assert not host_array("a", Old(array)).flags.writeable
    assert not host_array("a", np.broadcast_to(1.0, (2, 3))).flags.writeable


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (Tensor(np.zeros(2), (2, 0)), r"a is a Tensor in the memory of a device \(CUDA\), .* by a.cpu\(\) of PyTorch"),
        (Tensor(np.zeros(2), (10, 1)), r"device \(ROCm\)"),
        (Tensor(np.zeros(2), (99, 0)), r"device \(number 99 of DLPack\)"),
        (OnGpu(), r"a is a OnGpu in the memory of a device \(CUDA\)"),
        (Tensor(np.zeros(2, object)), "a is a Tensor, whose memory NumPy cannot use without a copy: "),
        (Lazy(np.ones(2), "neg"), r"a is a Lazy with its neg bit set, .* pass a.resolve_neg\(\)"),
        (Lazy(np.ones(2), "conj"), r"a is a Lazy with its conj bit set, .* pass a.resolve_conj\(\)"),
        (np.ma.zeros((2, 3)), r"a is a masked array; the mask would be lost: pass a.filled\(value\)"),
    ],
)
def test_what_is_not_in_the_hosts_memory_is_refused(given: Any, words: str) -> None:
    with pytest.raises(ArrayError, match=words):
        host_array("a", given)


@pytest.mark.parametrize("kind", [np.matrix, np.memmap, np.recarray])
def test_derived_classes_of_numpy_are_arrays_of_the_same_memory(kind: type[Any]) -> None:
    whole = np.zeros((2, 3))
    array = host_array("a", whole.view(kind))
    assert type(array) is np.ndarray
    assert np.shares_memory(array, whole)
    assert (array.shape, array.strides, array.dtype) == (whole.shape, whole.strides, whole.dtype)


@pytest.mark.parametrize("order", ["F", "C"])
@pytest.mark.parametrize("dtype", [np.float64, "S3", [("a", "i2"), ("b", "f8")], ("f4", (3,)), object])
@pytest.mark.parametrize("shape", [(0, 5), (3, 4), (51, LARGE // 50)])
def test_an_array_is_as_numpy_makes_it(shape: tuple[int, ...], dtype: object, order: str) -> None:
    made = new_array(shape, dtype, order, zeroed=True)  # type: ignore[arg-type]
    expected = np.zeros(shape, dtype, order=order)  # type: ignore[call-overload]
    assert (made.shape, made.strides, made.dtype) == (expected.shape, expected.strides, expected.dtype)
    assert made.flags.writeable
    assert made.flags.aligned
    assert (made == expected).all()
    assert new_array(shape, dtype, order).shape == expected.shape  # type: ignore[arg-type]


@pytest.mark.parametrize("order", ["F", "C"])
def test_large_ones_begin_with_a_cache_line(order: str) -> None:
    for n in range(100, 110):
        made = new_array((n, 100), np.float64, order), new_array((LARGE + n,), np.int8, order, zeroed=True)
        assert [array.ctypes.data % 64 for array in made] == [0, 0]


def test_without_memory_for_a_new_array_its_layout_is_named() -> None:
    desc = local((2**30, 2**25))
    words = r"the new local array of Descriptor\(1073741824 x 33554432, .*; give out=, .* overwrite=True"
    with pytest.raises(MemoryError, match=words):
        make_out(desc, F8)
    for shape in ((2**40, 2**40), (0, 2**62, 2**62)):  # for NumPy a ValueError
        with pytest.raises(MemoryError, match=r"is larger than NumPy's arrays can be"):
            new_array(shape, F8, "F")
