"""Indexing of distributed arrays beside NumPy's: elements, rows, columns, steps and assignment. Arguments: seed, cases."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from mpi4py import MPI
from reductions import drawn, same

import pyscalapack_redist as psr

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.rank, WORLD.size


def drawn_key(rng: random.Random, shape: tuple[int, ...]) -> Any:
    """An index: integers, slices with and without steps, an ellipsis."""
    parts: list[Any] = []
    for n in shape:
        if rng.random() < 0.4 and n:
            parts.append(rng.choice([int, np.int64])(rng.randrange(-n, n)))
        else:
            ends = [rng.choice([None, rng.randint(-n - 2, n + 2)]) for _ in range(2)]
            parts.append(slice(*ends, rng.choice([None, 1, 2, 3, -1, -2])))
    if rng.random() < 0.3:
        low, high = sorted(rng.randint(0, len(parts)) for _ in range(2))
        parts[low:high] = [...]
    else:
        parts = parts[: rng.randint(1, len(parts))]
    return parts[0] if len(parts) == 1 and rng.random() < 0.5 else tuple(parts)


def read(rng: random.Random) -> None:
    array, whole = drawn(rng)
    key = drawn_key(rng, whole.shape)
    parts = key if isinstance(key, tuple) else (key,)
    is_view = all(part is ... or (isinstance(part, slice) and part.step in (None, 1)) for part in parts)
    what, expected = f"{array!r}[{key}]", whole[key]
    if is_view and isinstance(array.desc, psr.Tiles):
        return
    found = array[key]
    if not isinstance(found, psr.DistributedArray):
        assert np.ndim(expected) == 0, what
        same(found, expected, what)
        return
    assert found.shape == expected.shape, what
    same(found.gather(None), expected, what)
    assert is_view or found.desc.parent is None
    if not is_view and found.desc.copies == 1 and found.desc.coords is not None:
        for axis in found.desc.distributions:
            sizes = [axis.local_size(p) for p in range(axis.processes)]
            assert max(sizes) - min(sizes) <= 1, what


def write(rng: random.Random) -> None:
    array, whole = drawn(rng)
    array, whole = array.copy(), whole.copy()
    key = drawn_key(rng, whole.shape)
    kind, shape = rng.random(), np.shape(whole[key])
    value: Any
    if kind < 0.3:
        value = expected = rng.choice([1, np.float32(3), True, np.ones(shape[-1:], np.int8)])
    elif kind < 0.6 or not shape or isinstance(array.desc, psr.Tiles):
        value = expected = np.random.default_rng(rng.randrange(2**30)).integers(0, 9, shape)
    else:
        value, expected = drawn(rng, shape)
        expected = np.nan_to_num(expected)
        for own in [value.own] if isinstance(value.desc, psr.Descriptor) else value.desc.own_arrays(value.local):
            if own is not None:
                own[np.isnan(own)] = 0
    what = f"{array!r}[{key}] = {value!r}"
    if np.iscomplexobj(expected) and not np.iscomplexobj(whole):
        with pytest.raises((psr.ArrayError, psr.CollectiveError), match="take its real part"):
            array[key] = value
        value, expected = value.real, expected.real
    array[key] = value
    whole[key] = expected
    same(psr.gather(array, None), whole, what)


def by_masks(rng: random.Random) -> None:
    """A number is written where a mask is true."""
    array, whole = drawn(rng)
    array, whole = array.copy(), whole.copy()
    mask = array == array if rng.random() < 0.3 else array == whole.flat[0] if whole.size else array == 0
    chosen = mask.gather(None)
    array[mask] = 3
    whole[chosen] = 3
    same(psr.gather(array, None), whole, f"{array!r}[{mask!r}] = 3")


def within_itself() -> None:
    """Elements that are read and written at once, through parts and transposes."""
    desc = psr.Descriptor((12, 12), 2, psr.ProcessGrid((SIZE, 1), WORLD))
    cases: list[tuple[Any, Callable[[Any], Any]]] = [
        (np.s_[0:6], lambda x: x[3:9]),
        (np.s_[:, 2:], lambda x: x[:, :-2]),
        (..., lambda x: x.T),
        (np.s_[::-1, 1], lambda x: x[4]),
    ]
    for key, value in cases:
        array = psr.DistributedArray.from_function(desc, lambda i, j: 100.0 * i + j)
        whole: Any = array.gather(None)
        array[key] = value(array)
        whole[key] = value(whole).copy()
        assert np.array_equal(array.gather(None), whole)  # type: ignore[arg-type]
    part = array[2:4, 3:9]
    part[0, 1:] = 7
    assert (array[2, 4:9].gather(None) == 7).all()
    assert array[2, 3] != 7


def refused() -> None:
    """An index that is wrong, on one rank or on all, or differs, is an error on all ranks."""
    desc = psr.Descriptor((9, 7), 2, psr.ProcessGrid((SIZE, 1), WORLD))
    x = psr.DistributedArray.from_function(desc, lambda i, j: i + 1.0 * j)
    both, row = (psr.ArrayError, psr.CollectiveError), x[0]
    wrong: list[tuple[Any, str]] = [
        (9, "index 9 is outside the array of 9 there: it must be -9 to 8"),
        ((0, -8), "dimension 1: index -8 is outside"),
        ("rows", "'rows' must be an integer or a slice"),
        (None, "None must be an integer or a slice"),
        (True, "True must be an integer or a slice"),
        (([1, 2],), r"\[1, 2\] must be an integer or a slice; elements by lists are on each rank"),
        ((0, 0, 0), "is for more dimensions than 2"),
        ((..., 0, ...), "more than one ellipsis"),
        (np.s_[::0], "its step, which is not 0"),
        (np.s_["a":2:2], "must have integers"),
    ]
    for key, words in wrong:
        for keys in ([key] * SIZE, [key] + [(0, 0)] * (SIZE - 1), [key] + [0] * (SIZE - 1)):
            with pytest.raises(both, match=words):
                x[keys[RANK]]
        with pytest.raises(psr.ArrayError, match=words):
            x[key] = 1  # not collective
        with pytest.raises(both, match=words):
            x[key if RANK == 0 else 0] = row
    if SIZE > 1:
        for one, other in ((0, 1), ((0, 0), 0), (np.s_[::2], np.s_[::3])):
            with pytest.raises(psr.CollectiveError, match=r"\[.*\].*\[.*\]"):
                x[one if RANK else other]
    with pytest.raises(both, match=r"of shape \(9, 7\) cannot be assigned to \(3, 7\) elements"):
        x[:3] = x
    with pytest.raises(psr.ArrayError, match=r"of shape \(2,\) cannot be assigned to \(9, 7\) elements"):
        x[...] = np.ones(2)
    with pytest.raises(both, match="cannot be assigned to"):
        x[0, 0] = x[0]
    for mask, value, words in (
        (x > 0, np.ones(3), "must be a number"),
        (x + 0, 1, "must be of bool"),
        ((x > 0).redistribute(block=1), 1, r"mask\.redistribute\(a\)"),
        (x[:3] > 0, 1, "must be in the layout of the array"),
        (x > 0, 1j, "real part"),
    ):
        with pytest.raises(psr.ArrayError, match=words):
            x[mask] = value
    small, mask = x.astype("u1"), x >= 0
    overflow = OverflowError if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else ()
    for key in (..., 0, (2, 3), mask, x < 0):
        for number in (300, -1) if overflow else ():
            with pytest.raises(overflow, match="out of bounds for uint8"):
                small[key] = number
        with pytest.raises(ValueError, match="NaN"):
            small[key] = np.nan
    if overflow:
        with pytest.raises(overflow):
            small[:] = [1, 2, 3, 4, 5, 6, 300]
    x[0] = 2**70
    assert x[0, 0] == 2.0**70
    x[0] = range(7)
    for last in (False, True):  # on one rank, and on no other
        y, z = x.copy(), x.copy()
        if (SIZE - 1 if last else 0) == RANK:
            y.local.flags.writeable = False
            if z.local.size:
                z.local[0, 0] = np.nan
        if WORLD.allreduce(y.local.size if not y.local.flags.writeable else 0):
            with pytest.raises(both, match="is read-only on this rank"):
                y[...] = x * 2
            with np.errstate(all="raise"), pytest.raises((FloatingPointError, psr.CollectiveError), match="invalid value"):
                small[...] = z
        assert np.array_equal(y.gather(None), x.gather(None))  # type: ignore[arg-type]
    assert np.array_equal(small.gather(None), x.gather(None))  # type: ignore[arg-type]
    for i, j in ((0, 0), (8, 6), (-1, 3)):
        assert x[i, j] == range(9)[i] + range(7)[j]
    assert x.sum() == 63 * 4 + 63 * 3


if __name__ == "__main__":
    rng = random.Random(int(sys.argv[1]))
    for _ in range(int(sys.argv[2])):
        read(rng)
        write(rng)
        by_masks(rng)
    within_itself()
    refused()
    if RANK == 0:
        print("OK", flush=True)
