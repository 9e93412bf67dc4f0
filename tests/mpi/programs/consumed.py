"""Redistributions that consume A: results, what is left of A, errors that leave it whole, and the memory that they need."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from layouts import descriptor
from mpi4py import MPI
from oracle import random_layout

import pyscalapack_redist as psr
from pyscalapack_redist.engine import overwriting, room
from pyscalapack_redist.engine.panels import PANELS
from pyscalapack_redist.exchanges import EXCHANGES

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.rank, WORLD.size
ROWS, COLUMNS = (psr.ProcessGrid(shape, WORLD) for shape in ((SIZE, 1), (1, SIZE)))
M, N = 70, 50
A, B = psr.Descriptor((M, N), (3, 4), ROWS), psr.Descriptor((M, N), (16, 16), COLUMNS)
STATM = Path("/proc/self/statm")


def value(i: Any, j: Any) -> Any:
    return 100.0 * i + j


def array(desc: psr.Descriptor = A) -> psr.DistributedArray:
    return psr.DistributedArray.from_function(desc, value)


def as_expected(result: psr.DistributedArray) -> bool:
    return np.array_equal(result.local, array(result.desc).local)


# -- results


def random_case(rng: np.random.Generator) -> None:
    """The result is that of an ordinary plan, in a first and in a second use."""

    def drawn(some: Any) -> Any:
        return some[rng.integers(len(some))]

    shape: Any = tuple(rng.integers(0, 91, 2).tolist())
    op, uplo = drawn("NNNTCR"), drawn([None, None, None, "U", "L"])
    dtype: Any = drawn([np.float64, np.float32, np.complex128, np.int8, "V24"])
    order_a, order_b = drawn("FC"), drawn("FC")
    exchanges = ("auto", "windowed", "alltoallv", "bruck", "node-packed")
    ways = [("optimal", "auto"), *(("auto", name) for name in exchanges)]
    schedule, exchange = drawn(ways)
    layouts = [random_layout(rng, size, SIZE) for size in (shape, shape[::-1] if op in "TC" else shape)]
    a, b = (descriptor(layout, WORLD) for layout in layouts)
    whole_a, whole_b = a.parent or a, b.parent or b
    local = whole_a.from_function(lambda i, j: (131 * i + 7 * j) % 113, np.int8)
    if local is not None:
        local = np.array(local.astype(dtype), order=order_a)
    out = whole_b.zeros(dtype)
    if out is not None:
        out = np.array(out, order=order_b)
    wanted = None if out is None else out.copy(order="K")
    psr.redistribute(a, b, op=op, uplo=uplo)(local, wanted)
    plan = psr.redistribute(a, b, op=op, uplo=uplo, schedule=schedule, exchange=exchange, overwrite=True)
    for _ in range(2):
        if out is not None:
            out[...] = np.zeros((), dtype)
        plan(None if local is None else local.copy(order="K"), out)
        assert out is None or out.tobytes() == wanted.tobytes(), (shape, op, uplo, dtype, order_a, order_b, a, b)


def every_exchange() -> None:
    """A process may send in one panel and receive in another, where in the whole move it does as much of both."""
    desc, target = psr.Descriptor((30, 19), (30, 4), COLUMNS), psr.Descriptor((30, 19), None, ROWS)
    for exchange in EXCHANGES:
        result = psr.redistribute(desc, target, overwrite=True, exchange=exchange)(array(desc).local)
        assert np.array_equal(result, array(target).local), exchange


# -- what is left of A


def consumed() -> None:
    """A is let go of, and each use of it says so; gone are the memory and nothing else."""
    uses: list[Callable[[psr.DistributedArray], Any]] = [
        lambda x: psr.redistribute(x, B),
        lambda x: psr.redistribute(x, B, overwrite=True),
        lambda x: x.redistribute(B),
        lambda x: x + 1,
        lambda x: x.gather(),
        lambda x: x.shape,
        lambda x: x.local,
        psr.layout_of,
        psr.redistribute(A, B),
    ]
    ways: list[Callable[[psr.DistributedArray], psr.DistributedArray]] = [
        lambda x: psr.redistribute(x, B, overwrite=True),
        lambda x: x.redistribute(B, overwrite=True),
        lambda x: psr.redistribute(A, B, overwrite=True)(x),
        lambda x: psr.redistribute(A, B)(x, overwrite=True),
        lambda x: psr.redistribute(A, B, overwrite=True).start(x).wait(),
    ]
    for way in ways:
        x = array()
        assert as_expected(way(x))
        assert x.dtype == np.float64
        assert "consumed by" in repr(x)
        for use in uses:
            with pytest.raises(psr.ArrayError, match="has been consumed by a redistribution with overwrite=True"):
                use(x)
    scaled = psr.redistribute(A, B, overwrite=True)(array().local, B.zeros(np.float64), alpha=2.0)
    assert np.array_equal(scaled, 2 * array(B).local)


def errors_leave_it_whole() -> None:
    """What is refused before the first panel leaves A as it is, on all ranks."""
    x = array()
    with pytest.raises(psr.RedistributionError):
        psr.redistribute(x, B if RANK else psr.Descriptor((M, N + 1), 4, COLUMNS), overwrite=True)
    if SIZE > 1:
        with pytest.raises(psr.CollectiveError, match="overwrite=True"):
            psr.redistribute(x, B, overwrite=RANK == 0)
    plan = psr.redistribute(A, B, overwrite=True)
    with pytest.raises((psr.ArrayError, psr.CollectiveError)):
        plan(x, None if RANK else np.zeros((1, 1)))
    for more in ({"fill": "zero", "uplo": "U"}, {"via": "lcm"}, {"agree": "first"}, {"buffers": "datatypes"}):
        with pytest.raises(psr.ScheduleError, match="A moves once, panel by panel"):
            psr.redistribute(x, B, overwrite=True, **more)  # type: ignore[arg-type]
        with pytest.raises(psr.ScheduleError, match="A moves once, panel by panel"):
            psr.redistribute(A, B, **more)(x.local, overwrite=True)  # type: ignore[call-overload]
    if SIZE > 1:
        for exchange in EXCHANGES:
            with pytest.raises(psr.ArrayError, match="memory_limit = 4 bytes is too small for elements of 8 bytes"):
                psr.redistribute(x, B, overwrite=True, memory_limit=4, exchange=exchange)
        fails = mock.patch.object(overwriting.PanelStage, "make_exchange", side_effect=MemoryError)
        errors = pytest.raises((MemoryError, psr.CollectiveError), match=None if RANK else "MemoryError")
        with fails if RANK else contextlib.nullcontext(), errors:
            psr.redistribute(x, B, overwrite=True, memory_limit=2**20)
    ordinary = psr.redistribute(A, B)
    with pytest.raises(psr.ScheduleError, match="not for a batch"):
        psr.batch(ordinary, ordinary)([x.local, x.local], overwrite=True)
    with pytest.raises(psr.ScheduleError, match=r"plan 1 consumes A \(overwrite=True\), which a batch does not"):
        psr.batch(ordinary, plan)
    with pytest.raises(psr.ScheduleError, match="must be True"):
        psr.redistribute(x, B, overwrite=1)  # type: ignore[call-overload]
    assert as_expected(x)
    assert as_expected(psr.redistribute(x, B))


def kept() -> None:
    """Memory that cannot be given back is kept, and the log says why; the result is right."""
    n = 1024
    desc, target = psr.Descriptor((n, n), None, ROWS), psr.Descriptor((n, n), 64, COLUMNS)
    wanted = np.asarray(psr.DistributedArray.from_function(target, value).local)
    whole = psr.DistributedArray.from_function(desc, value).local
    padded = np.zeros((whole.shape[0] + 1, n), order="F")
    padded[:-1] = whole
    memory = bytearray(whole.tobytes(order="F"))
    foreign = np.frombuffer(memory, whole.dtype).reshape(whole.shape, order="F")
    cases: list[tuple[Any, Any, str]] = [
        (padded[:-1], contextlib.nullcontext(), "not next to one another"),
        (foreign, contextlib.nullcontext(), "belongs to memoryview"),
        (whole.copy(order="F"), mock.patch.object(overwriting, "give_back", return_value=0), "takes no pages back"),
    ]
    plan = psr.redistribute(desc, target, overwrite=True)
    for local, patch, reason in cases:
        before = local.copy()
        with mock.patch.object(overwriting, "log") as log, patch:
            assert np.array_equal(plan(local), wanted)
        assert np.array_equal(local, before)
        assert [reason in str(call) for call in log.call_args_list] == [True], (reason, log.call_args_list)


def kept_views(m: int, n: int, k: int) -> list[tuple[str, Any, Any]]:
    """Views of this shape whose pages are not given back, by name, with the arrays that they are views of."""
    views: list[tuple[str, Any, Any]] = []
    whole: Any = np.empty((3 * m, n, k), order="F")
    views.append(("rows reversed, with neighbours", whole, whole[m : 2 * m][::-1]))
    for order in "FC":
        for dim in range(3):
            whole = np.empty((m, n, k), order=order)  # type: ignore[call-overload]
            views.append((f"{order}, dimension {dim} reversed", whole, np.flip(whole, dim)))
        whole = np.empty((m, n, k), order=order)  # type: ignore[call-overload]
        views.append((f"{order}, read-only", whole, whole.view()))
        whole = np.empty((m, n, k), order=order)  # type: ignore[call-overload]
        views.append((f"{order}, of a read-only array", whole, whole[:]))
    whole = np.empty((n, k, m, n))
    views.append(("gaps, and a last stride as without", whole, whole[..., 0].transpose(2, 0, 1)))
    whole = np.empty((k, 2 * n, m))
    views.append(("every second column", whole, whole[:, ::2].T))
    return views


def only_own_elements() -> None:
    """Not a byte changes that is no element of A, and nothing of a read-only array."""
    m, n, k = shape = 64, 32, 64
    grids = (psr.ProcessGrid(grid, WORLD) for grid in ((SIZE, 1, 1), (1, SIZE, 1)))
    desc, target = (psr.Descriptor((m * SIZE, n, k), None, grid) for grid in grids)

    def f(i: Any, j: Any, k: Any) -> Any:
        return 1.0 + i * 1e6 + j * 1e3 + k

    plan, wanted = psr.redistribute(desc, target, overwrite=True), target.from_function(f, float)
    for name, whole, view in kept_views(*shape):
        whole[...] = -1
        view[...] = desc.from_function(f, float)
        if "read-only" in name:
            (whole if "of a" in name else view).flags.writeable = False
        before = whole.copy()
        assert np.array_equal(plan(view), wanted), name
        assert np.array_equal(whole, before), name
    whole = np.full((m, n, k + 2), -1.0, order="F")
    view = whole[..., 1:-1]
    view[...] = desc.from_function(f, float)
    assert np.array_equal(plan(view), wanted)
    assert not STATM.exists() or np.count_nonzero(view) < view.size / 2  # whole pages are
    assert np.all(whole[..., [0, -1]] == -1)


def in_place() -> None:
    """Where A is B nothing is given back."""
    desc = psr.Descriptor((512, 512), None, ROWS)
    plan, wanted = psr.redistribute(desc, desc), array(desc).local
    local = wanted.copy(order="F")
    for alpha in (1.0, 2.0):
        assert plan(local, local, alpha=alpha, overwrite=True) is local
        assert np.array_equal(local, alpha * wanted)
    x = array(desc)
    assert plan(x, x, overwrite=True) is x
    assert np.array_equal(x.local, wanted)


# -- memory


def not_enough() -> None:
    """An ordinary call is refused on all ranks where B cannot fit; one that has B or consumes A is not, nor a small one."""
    n = 3072  # 72 MiB
    a, b = psr.Descriptor((n, n), None, ROWS), psr.Descriptor((n, n), 64, COLUMNS)
    plan, local, out = psr.redistribute(a, b), a.zeros(np.float64), b.zeros(np.float64)
    calls: list[Callable[[], Any]] = [lambda: plan(local), lambda: psr.redistribute(psr.DistributedArray(a, local), b)]
    fine: list[Callable[[], Any]] = [lambda: plan(local, out), lambda: plan(local, overwrite=True)]
    small = psr.redistribute(A, B)
    for free in (8 * n * n - 1, 8 * n * n):
        with mock.patch.object(room, "free_memory", return_value=free if RANK == 0 else 2**50):
            for call in calls * 2:
                if free == 8 * n * n:
                    call()
                    continue
                with pytest.raises((psr.ArrayError, psr.CollectiveError), match=r"not enough free memory.*overwrite=True"):
                    call()
                with mock.patch.dict(os.environ, {room.VARIABLE: "0"}):
                    call()
            for call in fine:
                call()
            small(array().local)


def resident() -> int:
    """Bytes of this process in memory."""
    return int(STATM.read_text().split()[1]) * 4096


def peak(use: Callable[[], Any]) -> int:
    """The most bytes that were resident in a use, beside those before."""
    with contextlib.suppress(AttributeError):  # what the C library keeps free would be used again
        ctypes.CDLL(None).malloc_trim(0)
    before, most, is_over = resident(), [0], threading.Event()

    def watch() -> None:
        while not is_over.is_set():
            most[0] = max(most[0], resident())
            time.sleep(0.0005)

    watching = threading.Thread(target=watch)
    watching.start()
    result = use()
    most[0] = max(most[0], resident())
    is_over.set()
    watching.join()
    assert result is not None
    return most[0] - before


def memory(nbytes: int) -> None:
    """Beside A a use needs a tenth to a third of an array, where an ordinary one needs all of B."""
    n = int((nbytes * SIZE // 8) ** 0.5) // 64 * 64
    tall = 16 * n, n // 16
    cases: list[tuple[str, tuple[int, int], Any, psr.ProcessGrid, str, str, float]] = [
        ("rows", (n, n), None, ROWS, "N", "F", 0.15),
        ("columns", (n, n), None, COLUMNS, "T", "F", 0.4),
        ("cyclic", (n, n), (1, 1), ROWS, "N", "F", 0.15),
        ("uneven", (n + 5, n - 3), (300, 77), ROWS, "N", "F", 0.15),
        ("tall", tall, None, ROWS, "N", "F", 0.4),
        ("rows, C order", (n, n), None, ROWS, "N", "C", 0.3),
        ("wide, C order", tall[::-1], None, ROWS, "N", "C", 0.2),
        ("blocks, C order", (n, n), (64, 64), ROWS, "N", "C", 0.4),
    ]
    psr.redistribute(array(), B, overwrite=True)  # libraries and rings
    for name, shape, block, grid, op, order, more in cases:
        desc = psr.Descriptor(shape, block, grid)
        target = psr.Descriptor(shape[::-1] if op == "T" else shape, (64, 64), COLUMNS)
        plans = [psr.redistribute(desc, target, op=op, overwrite=overwrite) for overwrite in (False, True)]
        needed = []
        for plan in plans:
            gc.collect()
            local = np.ones(desc.local_shape, order=order)  # type: ignore[call-overload]
            WORLD.Barrier()
            needed.append(WORLD.allreduce(peak(lambda: plan(local)), MPI.MAX) / local.nbytes)  # noqa: B023
        assert np.count_nonzero(local) <= 2 * PANELS * 4096 // 8, name  # of pages that are not whole in a panel
        assert needed[0] > 0.8, (name, needed)
        assert needed[1] < more + 16 * 2**20 / nbytes, (name, needed)


def limited(group: Path, what: str) -> None:
    """One use in a control group that has half as much memory again as A."""
    (group / "cgroup.procs").write_text(str(os.getpid()))
    n = 6144
    desc, target = psr.Descriptor((n, n), None, ROWS), psr.Descriptor((n, n), (64, 64), COLUMNS)
    x = psr.DistributedArray(desc, np.ones(desc.local_shape, order="F"))
    WORLD.Barrier()
    if what.startswith("solve"):
        for k in range(n):
            if x.local.shape[0] * RANK <= k < x.local.shape[0] * (RANK + 1):
                x.local[k - x.local.shape[0] * RANK, k] = n
        b = psr.DistributedArray.from_function(psr.Descriptor((n, 1), None, ROWS), lambda i, j: i + 0.0)
        result = psr.linalg.solve(x, b, overwrite_a=what == "solve, overwrite")
        assert abs(result.local.sum()) > 0
    else:
        result = psr.redistribute(x, target, overwrite=what == "overwrite")
        assert result.local[0, 0] == result.local[-1, -1] == 1
    WORLD.Barrier()
    if RANK == 0:
        print("OK", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "limited":
        limited(Path(sys.argv[2]), sys.argv[3])
        sys.exit()
    rng = np.random.default_rng(int(sys.argv[1]))
    for _ in range(int(sys.argv[2])):
        random_case(rng)
    every_exchange()
    consumed()
    errors_leave_it_whole()
    kept()
    only_own_elements()
    in_place()
    if not os.environ.get("PYSCALAPACK_REDIST_NODES"):
        not_enough()
    if STATM.exists() and int(sys.argv[3]):  # MiB of a rank
        memory(int(sys.argv[3]) * 2**20)
