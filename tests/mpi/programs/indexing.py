"""Indexing of distributed arrays: the layouts of results, assignment within an array, errors; results: tests/hostile."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from mpi4py import MPI

import pyscalapack_redist as psr

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.rank, WORLD.size


def balanced() -> None:
    """What is no view is in blocks of sizes that differ by one at most."""
    x = psr.DistributedArray.from_function(psr.Descriptor((9, 7), 2, psr.ProcessGrid((SIZE, 1), WORLD)), np.add)
    for array in (x, x.T, x[1:8, 2:]):
        for key in (0, np.s_[:, -1], np.s_[::2], np.s_[::-1, 1:4], np.s_[..., ::-2]):
            desc = array[key].desc
            assert desc.parent is None
            for axis in desc.distributions if desc.coords is not None else ():
                sizes = [axis.local_size(p) for p in range(axis.processes)]
                assert max(sizes) - min(sizes) <= 1, key


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
        (None, "None adds a dimension, which np.expand_dims"),
        (True, "True must be an integer or a slice"),
        (([1, 2],), r"\[1, 2\] must be an integer or a slice; a.mask. has the rows"),
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
    with pytest.raises(both, match="take its real part"):
        x[0] = row * 1j
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


def rows() -> None:
    """Rows by masks of one dimension, distributed or of NumPy, in all layouts; reading, writing, and what is wrong."""
    for shape in ((9, 7), (5, 2, 3), (0, 4), (5, 0)):
        whole = np.random.default_rng(5).standard_normal(shape)
        for layout, order in itertools.product(("rows", "columns"), "CF"):
            x = psr.distribute(whole, WORLD, layout=layout, order=order)
            chosen = np.arange(len(whole)) % 3 == 1
            for mask in (chosen, psr.distribute(chosen, WORLD).redistribute(block=1), chosen & False, chosen | True):
                kept = whole[mask if isinstance(mask, np.ndarray) else chosen]
                assert np.array_equal(x[mask].gather(None), kept)
                assert np.allclose(x[mask].sum(0), kept.sum(0))
                y, expected = x.copy(), whole.copy()
                y[mask], expected[mask if isinstance(mask, np.ndarray) else chosen] = 7, 7
                assert np.array_equal(y.gather(None), expected)
    x = psr.distribute(np.ones((9, 7)), WORLD)
    part = x[2:6, 1:]
    part[part[:, 0] > 0] = 3
    assert np.array_equal(x[:, 1].gather(None) == 3, (np.arange(9) >= 2) & (np.arange(9) < 6))
    both = (psr.ArrayError, psr.CollectiveError)
    for key, words in ((np.ones(3, bool), r"a mask of shape \(3,\)"), (x[:, 0], "dtype float64")):
        with pytest.raises(both, match=words):
            x[key if RANK == 0 else x[:, 0]]
    with pytest.raises(both, match="must be a number"):
        x[x[:, 0] > 0] = np.ones(7)
    alone = psr.distribute(np.arange(9) % 2 == RANK % 2, MPI.COMM_SELF)
    if SIZE > 1:
        with pytest.raises(psr.ArrayError, match="the mask is on another communicator"):
            x[alone]
        with pytest.raises(psr.ArrayError, match="the mask is on another communicator"):
            x[alone] = 1
    y = x.copy()
    y.local.flags.writeable = RANK != SIZE - 1
    for mask, error in ((np.arange(9) < 9, psr.ArrayError), (y[:, 0] > 0, both)):
        if isinstance(mask, psr.DistributedArray) or RANK == SIZE - 1:
            with pytest.raises(error, match="is read-only on this rank"):
                y[mask] = 7
    if SIZE > 1:
        with pytest.raises(psr.CollectiveError, match="value must be the same on every rank"):
            x[x[:, 0] > 0] = RANK
        with pytest.raises(psr.CollectiveError, match="the mask must be the same on every rank"):
            x[np.arange(9) == RANK]


if __name__ == "__main__":
    rows()
    balanced()
    within_itself()
    refused()
    if RANK == 0:
        print("OK", flush=True)
