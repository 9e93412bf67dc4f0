"""Tracebacks of the package's own errors: one frame of the package, unless user's code comes after that."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mpi4py import MPI

import pyscalapack_redist as psr
from pyscalapack_redist.tracebacks import VARIABLE

PACKAGE = str(Path(psr.__file__).parent)
GRID = psr.ProcessGrid((2, 2))
A = psr.Descriptor((8, 8), (2, 2), GRID)


def raising(i: Any, j: Any) -> Any:
    raise psr.ArrayError("of the user")


CALLS: list[tuple[Callable[[], Any], int]] = [
    (lambda: psr.Descriptor((8, 8), (0, 2), GRID), 1),
    (lambda: psr.ProcessGrid((0, 2)), 1),
    (lambda: A.redistribute, 0),  # type: ignore[attr-defined]  # an AttributeError
    (lambda: A[3:9:2], 1),
    (lambda: psr.redistribute(A, A, schedule="x"), 1),
    (lambda: psr.plan(A, A, op="X"), 1),
    (lambda: psr.DistributedArray(A, np.zeros((3, 3))) + 1, 1),
    (lambda: psr.Descriptor((8, 8), 2, psr.ProcessGrid((1, 1), MPI.COMM_SELF)).from_function(raising), 2),
]


@pytest.mark.parametrize(("call", "frames"), CALLS)
@pytest.mark.parametrize("setting", ["", "full"])
def test_a_traceback_ends_at_the_public_call(
    call: Callable[[], Any], frames: int, setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, setting)
    with pytest.raises(Exception) as caught:  # noqa: PT011
        call()
    entries = traceback.extract_tb(caught.value.__traceback__)
    own = [entry for entry in entries if entry.filename.startswith(PACKAGE)]
    if setting == "full":
        assert len(own) >= frames
    elif frames < 2:
        assert len(own) == frames, entries
        assert len(traceback.format_exception(caught.value)) <= 2 + len(entries), "nothing else is shown"
    else:
        assert entries[-1].name == "raising"
