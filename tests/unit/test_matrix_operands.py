"""Which elements of a matrix a routine of ScaLAPACK reads."""

from __future__ import annotations

import numpy as np
import pytest
from one_rank import OneRank

from pyscalapack_redist import Descriptor, ProcessGrid
from pyscalapack_redist.scalapack.matrix_operands import COLUMNS, is_finite


@pytest.mark.parametrize("value", [np.nan, np.inf, complex(1, np.nan), complex(-np.inf, 0)])
@pytest.mark.parametrize("n", [5, 2 * COLUMNS + 9])
def test_infs_and_nans_count_where_they_are_read(value: complex, n: int) -> None:
    for rank in range(4):
        desc = Descriptor((n, n), 3, ProcessGrid((2, 2), OneRank(4, rank)))
        rows, columns = (desc.global_indices(dim) for dim in (0, 1))
        for i, j in [*zip(rows[::4], columns, strict=False), (rows[0], columns[-1]), (rows[-1], columns[0])]:
            local = np.zeros((rows.size + 2, columns.size), np.complex128, order="F")
            local[rows.size :] = np.nan  # rows of padding
            assert is_finite(desc, local)
            local[desc.distributions[0].local_index(i), desc.distributions[1].local_index(j)] = value
            assert not is_finite(desc, local)
            is_read = i != j or not np.isfinite(value.real)
            assert is_finite(desc, local, "L") == (i < j or not is_read)
            assert is_finite(desc, local, "U") == (i > j or not is_read)
    outside = Descriptor((n, n), 3, ProcessGrid((2, 1), OneRank(4, 3)))
    assert is_finite(outside, None)
