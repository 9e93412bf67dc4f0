"""LAPACK's functions by their capsules: results beside SciPy's, and arguments that are refused before the call."""

from __future__ import annotations

import re
from unittest import mock

import numpy as np
import pytest
import scipy.linalg
from scipy.linalg import cython_lapack

from pyscalapack_redist import LibraryError
from pyscalapack_redist.linalg import kernels
from pyscalapack_redist.linalg.kernels import lapack_function

CHOLESKY = {"s": np.float32, "d": np.float64, "c": np.complex64, "z": np.complex128}


@pytest.mark.parametrize("letter", CHOLESKY)
def test_the_result_is_that_of_scipy(letter: str) -> None:
    rng = np.random.default_rng(1)
    half = rng.standard_normal((5, 5)) + (1j * rng.standard_normal((5, 5)) if letter in "cz" else 0)
    matrix = np.asfortranarray(half @ half.conj().T + 5 * np.eye(5), CHOLESKY[letter])
    expected, info = scipy.linalg.cholesky(matrix), np.ones(1, np.intc)
    lapack_function(f"{letter}potrf")("U", 5, matrix, 5, info)
    assert info[0] == 0
    assert np.allclose(np.triu(matrix), expected, rtol=1e-5)


def test_a_matrix_that_is_refused_by_lapack_is_told_by_info() -> None:
    info = np.zeros(1, np.intc)
    lapack_function("dpotrf")("U", 2, -np.eye(2, order="F"), 2, info)
    assert info[0] == 1


def test_wrong_arguments_are_refused() -> None:
    function, info, matrix = lapack_function("dpotrf"), np.zeros(1, np.intc), np.eye(4, order="F")
    read_only = matrix.copy("F")
    read_only.flags.writeable = False
    wrong = {
        "takes 5 arguments, not 4": ("U", 4, matrix, 4),
        "argument 0 of dpotrf is 1: it must be of C's type char": (1, 4, matrix, 4, info),
        "argument 1 of dpotrf is 4.0: it must be of C's type int": ("U", 4.0, matrix, 4, info),
        "argument 2 of dpotrf is 'U': it must be of C's type d": ("U", 4, "U", 4, info),
        "it must be of C's type d": ("U", 4, matrix.astype("f"), 4, info),
        "it must be of C's type int": ("U", 4, matrix, 4, np.zeros(1, np.int64)),
        "argument 2 of dpotrf is an array that is not contiguous, or read-only": ("U", 2, matrix[:2], 4, info),
        "is an array that is not contiguous, or read-only": ("U", 4, read_only, 4, info),
    }
    for text, arguments in wrong.items():
        with pytest.raises(TypeError, match=re.escape(text)):
            function(*arguments)
    with pytest.raises(OverflowError, match=re.escape(f"is {2**31}, and LAPACK's integers have 32 bits")):
        function("U", 2**31, matrix, 4, info)
    assert np.array_equal(matrix, np.eye(4))


def test_a_function_that_cannot_be_called_is_named() -> None:
    with pytest.raises(LibraryError, match=r"SciPy .* has no dnothing: install SciPy"):
        lapack_function("dnothing")
    with pytest.raises(LibraryError, match=r"dlamch .* functions without a result"):
        lapack_function("dlamch")
    with (
        mock.patch.object(kernels, "_capsule_name", return_value=b"void (char *, long *)"),
        pytest.raises(LibraryError, match=r"is void \(char \*, long \*\): .* integers have 32 bits"),
    ):
        lapack_function("dpotri")
    assert "dpotri" in cython_lapack.__pyx_capi__
