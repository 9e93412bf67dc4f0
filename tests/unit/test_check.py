"""Claims that results of linear algebra are right."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pyscalapack_redist.linalg.check import Claim, _worst


@pytest.mark.parametrize(
    ("error", "bound", "excess"),
    [
        *((0.5, 1.0, 0.0), (0.0, 0.0, 0.0), (3.0, 1.5, 2.0), (1.0, 0.0, math.inf)),
        *(
            (math.inf, math.inf, math.inf),
            (0.0, math.inf, math.inf),
            (math.nan, 1.0, math.inf),
            (0.0, math.nan, math.inf),
        ),
        ([0.5, 2.0, 0.0], [1.0, 0.5, 1.0], 4.0),
        ([0.0, 0.0], [1.0, math.inf], math.inf),
        ([], [], 0.0),
    ],
)
def test_no_claim_holds_with_infs_or_nans(error: object, bound: object, excess: float) -> None:
    claim = Claim("it", np.array(error), np.array(bound))
    with np.errstate(all="ignore"):
        assert claim.excess == excess
        worst = _worst([Claim("another", 0.0, 1.0), claim])
    is_finite = bool(np.isfinite([error, bound]).all())
    assert worst == (None if excess == 0 else ("it", excess, is_finite))


def test_lengths_of_columns_whose_squares_overflow() -> None:
    with np.errstate(all="ignore"):
        claim = Claim.equal("it", np.full((2, 3), 1e200), np.zeros((2, 3)), 1.0)
    assert not claim.is_finite
    assert claim.excess == math.inf
