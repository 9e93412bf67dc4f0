"""An error of one rank at each step of linalg in turn: all ranks raise, none waits, and the next call is good.

Arguments: where routines work, "grid", "one process", "slabs" of rows, or "new" for a grid on which nothing is kept of earlier
calls; steps, "allocations" or "lines"; the first one that fails, and how many further the next one is; routines, by default
all.

Allocations are calls that make arrays and layouts. Lines are all that the rank runs in modules of linalg from the moment when a
routine knows its ranks, but for those by which they leave it together.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from linalg_cases import RANK, RNG, ROWS, SIZE, SQUARE, WORLD, put

import pyscalapack_redist as psr
from pyscalapack_redist import linalg
from pyscalapack_redist.comm.groups import group_of
from pyscalapack_redist.linalg.cache import cache_of
from pyscalapack_redist.linalg.call import current_call

N, BAD = 12, 1
PACKAGE = Path(linalg.__file__).parent
ALLOCATIONS = {
    np: ("array", "asfortranarray", "concatenate", "empty", "empty_like", "eye", "hstack", "vstack", "zeros"),
    psr.Descriptor: ("__init__", "empty", "from_function", "zeros"),
    psr.ProcessGrid: ("__init__",),
}
SPARED = (  # functions by which ranks leave a call together
    "call", "end", "group", "leave", "step", "take_error", "_note_error_of_all", "show_warnings"
)


class Fault:
    """An error of one rank at a step, counted from 0."""

    def __init__(self, kind: str) -> None:
        self._steps, self._left = {"allocations": self._allocations, "lines": self._lines}[kind], -1

    @contextlib.contextmanager
    def at(self, step: int) -> Iterator[None]:
        self._left = step
        with self._steps() if RANK == BAD else contextlib.nullcontext():
            yield

    @property
    def is_reached(self) -> bool:
        """Whether there were so many steps."""
        return self._left < 0

    def _count(self, frame: FrameType) -> None:
        """Count a step in a function; raise if it is the one that fails."""
        call = current_call.get(None)
        if is_of_linalg(frame) and call is not None and call.has_ranks:
            self._left -= 1
            if self._left == -1:
                raise MemoryError("planted")

    @contextlib.contextmanager
    def _allocations(self) -> Iterator[None]:
        def counted(function: Callable[..., Any]) -> Callable[..., Any]:
            def call(*arguments: Any, **keywords: Any) -> Any:
                self._count(sys._getframe(1))
                return function(*arguments, **keywords)

            return call

        with pytest.MonkeyPatch.context() as patch:
            for owner, names in ALLOCATIONS.items():
                for name in names:
                    patch.setattr(owner, name, counted(getattr(owner, name)))
            yield

    @contextlib.contextmanager
    def _lines(self) -> Iterator[None]:
        def at_line(frame: FrameType, event: str, _: object) -> Any:
            if event == "line":
                self._count(frame)
            return at_line

        before = sys.gettrace()
        sys.settrace(lambda frame, event, _: at_line if is_of_linalg(frame) else None)
        try:
            yield
        finally:
            sys.settrace(before)


@functools.cache
def is_a_module_of_linalg(file: str) -> bool:
    return Path(file).parent == PACKAGE


def is_of_linalg(frame: FrameType) -> bool:
    code = frame.f_code
    return code.co_name not in SPARED and is_a_module_of_linalg(code.co_filename)


def arrays() -> dict[str, psr.DistributedArray]:
    """Operands, in a layout that fits ScaLAPACK and in others."""
    matrix, sides = RNG.standard_normal((N, N)), RNG.standard_normal((N, 3))
    positive = matrix @ matrix.T + N * np.eye(N)
    fits, by_rows = psr.Descriptor((N, N), 2, SQUARE), psr.Descriptor((N, N), 5, ROWS)
    return {
        "a": put(matrix, by_rows),
        "s": put(matrix + matrix.T, fits),
        "p": put(positive, by_rows),
        "b": put(sides, psr.Descriptor((N, 3), None, ROWS)),
        "tall": put(matrix[:, :5].copy(), psr.Descriptor((N, 5), 2, SQUARE)),
        "wide": put(matrix[:5].copy(), psr.Descriptor((5, N), 3, ROWS)),
        "slender": put(np.vstack([matrix[:, :3]] * 2) + 0.1, psr.Descriptor((2 * N, 3), 2, SQUARE)),
        "slender sides": put(np.vstack([sides] * 2), psr.Descriptor((2 * N, 3), 5, ROWS)),
        "few": put(sides[:5].copy(), psr.Descriptor((5, 3), 2, ROWS)),
    }


def routines(o: dict[str, psr.DistributedArray]) -> dict[str, Callable[..., Any]]:
    """Calls that take `layout`."""
    lu, cholesky = linalg.lu_factor(o["a"]), linalg.cho_factor(o["p"])
    return {
        "solve": lambda **k: linalg.solve(o["a"], o["b"], **k),
        "lu_factor": lambda **k: linalg.lu_factor(o["a"], **k),
        "lu_solve": lambda **k: linalg.lu_solve(lu, o["b"], **k),
        "cholesky": lambda **k: linalg.cholesky(o["p"], **k),
        "cho_solve": lambda **k: linalg.cho_solve(cholesky, o["b"], **k),
        "solve_triangular": lambda **k: linalg.solve_triangular(o["p"], o["b"], 2, **k),
        "inv": lambda **k: linalg.inv(o["a"], **k),
        "det": lambda **k: linalg.det(o["a"], **k),
        "matmul": lambda **k: linalg.matmul(o["a"], o["s"], **k),
        "norm": lambda **_: linalg.norm(o["a"], 1),
        "norm by values": lambda **k: linalg.norm(o["a"], "nuc", **k),
        "cond": lambda **k: linalg.cond(o["a"], 1, **k),
        "cond by values": lambda **k: linalg.cond(o["a"], **k),
        "matrix_rank": lambda **k: linalg.matrix_rank(o["a"], **k),
        "eigvalsh": lambda **k: linalg.eigvalsh(o["s"], **k),
        "eigh": lambda **k: linalg.eigh(o["s"], **k),
        "some of eigh": lambda **k: linalg.eigh(o["s"], subset_by_index=(2, 3), **k),
        "many of eigh": lambda **k: linalg.eigh(o["s"], subset_by_index=(1, 9), **k),
        "generalized eigh": lambda **k: linalg.eigh(o["s"], o["p"], **k),
        "some of generalized eigh": lambda **k: linalg.eigh(o["s"], o["p"], subset_by_index=(2, 3), **k),
        "qr": lambda **k: linalg.qr(o["a"], **k),
        "svd": lambda **k: linalg.svd(o["a"], **k),
        "svd by gesvd": lambda **k: linalg.svd(o["a"], driver="gesvd", **k),
        "svd of tall": lambda **_: linalg.svd(o["tall"]),
        "svd of wide": lambda **_: linalg.svd(o["wide"]),
        "svdvals": lambda **k: linalg.svdvals(o["a"], **k),
        "pinv": lambda **_: linalg.pinv(o["wide"]),
        "polar": lambda **k: linalg.polar(o["a"], **k),
        "lstsq": lambda **_: linalg.lstsq(o["tall"], o["b"]),
        "lstsq of wide": lambda **_: linalg.lstsq(o["wide"], o["few"]),
        "lstsq by svd": lambda **k: linalg.lstsq(o["a"], o["b"], method="svd", **k),
    }


def routines_of_slabs(o: dict[str, psr.DistributedArray]) -> dict[str, Callable[..., Any]]:
    """Calls of tall matrices, which are in slabs of rows with rates for that."""
    a, b = o["slender"], o["slender sides"]
    return {
        "qr of slabs": lambda: linalg.qr(a),
        "svd of slabs": lambda: linalg.svd(a, False),
        "svdvals of slabs": lambda: linalg.svdvals(a),
        "pinv of slabs": lambda: linalg.pinv(a),
        "polar of slabs": lambda: linalg.polar(a),
        "lstsq of slabs": lambda: linalg.lstsq(a, b),
        "lstsq of slabs by svd": lambda: linalg.lstsq(a, b, method="svd"),
    }


def parts(result: Any) -> list[Any]:
    """This rank's part of a result."""
    if isinstance(result, psr.DistributedArray):
        return [np.zeros(0) if result.local is None else result.local]
    if isinstance(result, tuple):
        return [part for item in result for part in parts(item)]
    return [np.zeros(0) if result is None else np.asarray(result)]


def outcome(call: Callable[[], Any]) -> tuple[str, list[Any]]:
    try:
        return "", parts(call())
    except (MemoryError, psr.CollectiveError) as caught:
        return f"{type(caught).__name__} {caught}", []


def check_outcomes(texts: list[str]) -> None:
    """One rank has raised its own error, the others say that it has one."""
    assert texts[BAD] == "MemoryError planted"
    for text in texts[:BAD] + texts[BAD + 1 :]:
        assert text.startswith(f"CollectiveError rank {BAD} could not take part: ")
        assert text.endswith("MemoryError: planted")


def main(where: str, kind: str, first: int, stride: int, names: list[str]) -> None:
    operands, fault, count = arrays(), Fault(kind), 0
    before = {name: None if array.local is None else array.local.copy() for name, array in operands.items()}
    layout = {} if where in ("one process", "slabs") else {"layout": psr.Descriptor((N, N), 3, SQUARE)}
    calls = routines_of_slabs(operands) if where == "slabs" else routines(operands)
    for name, routine in calls.items():
        if names and name not in names:
            continue
        expected = parts(routine(**layout))
        for step in itertools.count(first, stride):
            if where == "new":
                cache_of(group_of(WORLD)).forget()
            with fault.at(step):
                text, result = outcome(lambda routine=routine: routine(**layout))  # type: ignore[misc]
            everywhere = WORLD.allgather((text, fault.is_reached))
            texts = [text for text, _ in everywhere]
            try:
                if any(texts):
                    check_outcomes(texts)
                else:  # the fault did not matter, or there are fewer steps
                    assert all(np.allclose(*pair) for pair in zip(result, expected, strict=True))
                    if not everywhere[BAD][1]:
                        break
                for key, local in before.items():
                    assert local is None or np.array_equal(operands[key].local, local), f"{key} has changed"
            except AssertionError as caught:
                raise AssertionError(f"{name}, step {step}: {everywhere}") from caught
            count += 1
            if where == "new" or count % 10 == 0:  # ranks keep the same after an error
                assert all(np.allclose(*pair) for pair in zip(parts(routine(**layout)), expected, strict=True)), name
    assert count, "no step failed"
    if RANK == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    assert SIZE > 1, "run on at least two ranks"
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5:])
