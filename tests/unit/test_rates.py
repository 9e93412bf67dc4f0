"""Rates of routines of linalg: a file of them, what is fitted to a trial, and the sums by which operands are known again."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import pyscalapack_redist as psr
from pyscalapack_redist.linalg import rates
from pyscalapack_redist.linalg.operands import Forms
from pyscalapack_redist.linalg.rates import LARGER, SMALLER, Rates, fitted, operations


@pytest.mark.parametrize("processes", [2, 6])
def test_a_trial_gives_back_the_rates_that_it_was_made_with(processes: int) -> None:
    right = Rates(3e9, 1e9, 2e-5)
    times = [right.seconds((order, order), size) for order, size in ((LARGER, 1), (SMALLER, processes), (LARGER, processes))]
    assert fitted(*times, processes) == pytest.approx(right)


def test_noise_in_a_trial_gives_no_negative_rate() -> None:
    for smaller, larger in ((1.0, 0.1), (1e-9, 1.0), (1.0, 2.0)):
        found = fitted(0.5, smaller, larger, 2)
        assert found.lapack > 0
        assert found.scalapack > 0
        assert found.latency >= 0


def test_without_scalapack_one_process_is_chosen() -> None:
    assert Rates(1.0, 0.0, 0.0).seconds((9, 9), 2) == np.inf
    assert Rates(1.0, 0.0, 0.0).seconds((9, 9), 1) == operations((9, 9))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("nothing", "JSONDecodeError"),
        ("[]", "AttributeError|TypeError"),
        ('{"eigh": [1, 2]}', "TypeError"),
        ('{"eigh": [0, 1, 1]}', "eigh: .* must not be negative, and the first one positive"),
        ('{"fft": [1, 1, 1]}', "families must be some of lu, cholesky"),
        ('{"eigh": ["fast", 1, 1]}', "ValueError"),
    ],
)
def test_a_wrong_file_is_named_with_an_example(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "rates.json"
    path.write_text(text)
    with pytest.raises(psr.RedistributionError, match=r"PYSCALAPACK_REDIST_RATES=.*such as .*eigh") as caught:
        rates._read(str(path))
    assert caught.match(problem)


def test_a_file_of_rates(tmp_path: Path) -> None:
    path = tmp_path / "rates.json"
    path.write_text(json.dumps({"svd": [1e9, 0, 1e-5]}))
    assert rates._read(str(path)) == {"svd": Rates(1e9, 0.0, 1e-5)}
    assert rates._read(None) == rates._read("") == {}
    with pytest.raises(psr.RedistributionError, match="FileNotFoundError"):
        rates._read(str(tmp_path / "none"))


def test_forms_of_ranks_add_up_at_all_scales() -> None:
    forms = [Forms(np.array([1.0, 2.0, 3.0]), 900), Forms(np.array([1.0, 1.0, 1.0]), 899), Forms(np.zeros(3), -2000)]
    total = Forms.sum(forms)
    assert total is not None
    assert total.exponent == 900
    assert total.values.tolist() == [1.5, 2.5, 3.5]
    assert Forms.sum([*forms, None]) is None
