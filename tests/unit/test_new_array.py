"""New local arrays: where they begin, and that they are otherwise NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

from pyscalapack_redist.layout.new_array import LARGE, new_array


@pytest.mark.parametrize("order", ["F", "C"])
@pytest.mark.parametrize(
    "dtype", [np.int8, np.float64, np.complex128, "S3", [("a", "i2"), ("b", "f8")], ("f4", (3,)), object]
)
@pytest.mark.parametrize("shape", [(0, 5), (3, 4), (301, 257), (LARGE,)])
def test_an_array_is_as_numpy_makes_it(shape: tuple[int, ...], dtype: object, order: str) -> None:
    made = new_array(shape, dtype, order, zeroed=True)  # type: ignore[arg-type]
    expected = np.zeros(shape, dtype, order=order)  # type: ignore[call-overload]
    assert (made.shape, made.strides, made.dtype) == (expected.shape, expected.strides, expected.dtype)
    assert made.flags.writeable
    assert made.flags.aligned
    assert made.tolist() == expected.tolist()
    assert new_array(shape, dtype, order).shape == expected.shape  # type: ignore[arg-type]


@pytest.mark.parametrize("order", ["F", "C"])
def test_large_ones_begin_with_a_cache_line(order: str) -> None:
    for n in range(100, 140):
        made = new_array((n, 100), np.float64, order), new_array((LARGE + n,), np.int8, order, zeroed=True)
        assert [array.ctypes.data % 64 for array in made] == [0, 0]
