"""Circumstances: what comes over a call on one rank, or on all, at a moment that it does not choose; a context for each."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from mpi4py import MPI

import pyscalapack_redist as psr
from pyscalapack_redist.comm.groups import MPIGroup
from pyscalapack_redist.comm.progress import hold_interrupts
from pyscalapack_redist.comm.waiting import Waiting
from pyscalapack_redist.linalg.call import WrongResultError
from pyscalapack_redist.linalg.check import Check

RANK, SIZE = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
BAD = min(1, SIZE - 1)
PACKAGE = str(Path(psr.__file__).parent)
MOMENTS = (0, 1, 2, 3, 5, 8)  # the votes, or allocations, at which something comes


class Circumstance(NamedTuple):
    """A context for a call.

    Attributes
    ----------
    context : callable
        Makes it, on all ranks.
    may_fail : bool
        Whether all ranks may raise.
    may_differ : bool
        Whether that rank alone may raise, as a signal comes when its part is done.
    """

    context: Callable[[], contextlib.AbstractContextManager[Any]]
    may_fail: bool = True
    may_differ: bool = False


@contextlib.contextmanager
def warnings_as_errors() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@contextlib.contextmanager
def at_vote(number: int, after: bool, action: Callable[[], object]) -> Iterator[None]:
    """Something is done on one rank before, or after, a vote of the call is cast."""
    cast, left = MPIGroup.cast_vote, number

    def cast_vote(*arguments: Any, **keywords: Any) -> Any:
        nonlocal left
        left -= 1
        if left == -1 and not after:
            action()
        voting = cast(*arguments, **keywords)
        if left == -1 and after:
            action()
        return voting

    with mock.patch.object(MPIGroup, "cast_vote", cast_vote) if RANK == BAD else contextlib.nullcontext():
        yield


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


@contextlib.contextmanager
def interrupted_later(seconds: float) -> Iterator[None]:
    """A signal after some time, if it comes when a call has begun: before, the rank has not called."""

    def handler(number: int, frame: FrameType | None) -> None:
        caller = sys._getframe(1).f_code  # a signal that was held back comes as the call ends
        if hold_interrupts.current is not None or caller is hold_interrupts.deliver_interrupts.__code__:
            raise KeyboardInterrupt

    if RANK == BAD:
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


# Memory for messages of a vote and after it, and of a first compiled call: without it the group is aborted (docs/protocol.md).
OF_MESSAGES = f"{PACKAGE}/comm/"
ALLOCATIONS = ("array", "asfortranarray", "concatenate", "empty", "empty_like", "eye", "full", "ones", "zeros")


@contextlib.contextmanager
def at_allocation(number: int, action: Callable[[], object]) -> Iterator[None]:
    """Something is done on one rank as the package makes an array or a layout for the so-manieth time."""
    left = number

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **keywords: Any) -> Any:
            nonlocal left
            file = sys._getframe(1).f_code.co_filename
            if (
                file.startswith(PACKAGE)
                and not file.startswith(OF_MESSAGES)
                and threading.current_thread() is threading.main_thread()
            ):
                left -= 1
                if left == -1:
                    action()
            return function(*arguments, **keywords)

        return call

    with contextlib.ExitStack() as stack:
        if RANK == BAD:
            for name in ALLOCATIONS:
                stack.enter_context(mock.patch.object(np, name, counted(getattr(np, name))))
        yield


def no_memory() -> None:
    raise MemoryError("planted")


# -- thresholds: constants from which on another path is taken, each with a small value

THRESHOLDS: dict[str, Any] = {
    "comm.caches.MOST_PLANS": 1,
    "comm.free_memory.NEGLIGIBLE": 1,
    "comm.series.PERIOD": 2,
    "engine.bound.LARGEST_KEPT": 1,
    "engine.bound.MOST_BOUNDS": 1,
    "engine.local_arrays.WORK": 1,
    "engine.overwriting.LARGE": 1,
    "engine.overwriting.LONGEST": 3,
    "engine.panels.PAGE": 64,
    "engine.room.LARGE": 1,
    "engine.spec.RECENT_SPECS": 0,
    "exchanges.collective.MOST_BLOCKS": 16,
    "exchanges.exchange.LARGEST_SHARE": 64,
    "exchanges.exchange.MOST_TRIALS": 1,
    "exchanges.exchange.STREAM_FROM": 0.0,
    "exchanges.message.LARGEST_COUNT": 3,
    "exchanges.node_packed.FEWEST": 1,
    "exchanges.pipeline.SMALL": 0,
    "exchanges.shared.INTERLEAVED_FROM": 1,
    "exchanges.shared.SHORTEST": 1,
    "files.binary_file.CALL_BYTES": 16,
    "files.binary_file.GAP_BYTES": 1,
    "files.binary_file.SPAN_BYTES": 32,
    "files.hdf5_storage.UNIT_BYTES": 16,
    "files.slabs.SLAB_BYTES": 64,
    "files.zarr_store.CHUNK_BYTES": 32,
    "layout.arrays.LARGE": 1,
    "linalg.bidiagonal.MOST": 3,
    "linalg.bidiagonal.SLENDER": 1.0,
    "linalg.cache.MOST_PLANS": 1,
    "linalg.check.SMALL_PANEL": 1,
    "linalg.place.SURE": 0,
    "linalg.eigenproblems.PART_ON_ONE": 1,
    "linalg.matrix_parts.MODERATE": 2,
    "linalg.multiplication.COLUMNS": 2,
    "linalg.operands.CONSUMED": 1,
    "linalg.operands.EAGER": 1,
    "linalg.attempt.LONG": 2,
    "linalg.attempt.THREADED": 2,
    "linalg.product_grids.HALF_COLUMNS": (1, 2),
    "linalg.product_grids.LEAST_WIDTH": 1,
    "linalg.product_grids.PANEL_BYTES": 64,
    "linalg.solver_rules.ELEMENTS": 4,
    "linalg.stacks.CHUNK": 30,
    "linalg.stacks.MOST_REFUSED": 0,
    "linalg.kernels.TRIANGLE_BLOCK": 2,
    "linalg.largest_values.MORE": 1,
    "linalg.largest_values.STEPS": 1,
    "linalg.tall.MOST_COLUMNS": 2,
    "linalg.tall.ROWS": 2,
    "linalg.tall.SQUARES": 1,
    "linalg.tall.TALL": 2,
    "linalg.tridiagonal.FEW": 0.0,
    "scalapack.matrix_operands.COLUMNS": 1,
}
# Constants that no array comes past by its size, and what they are instead.
NO_THRESHOLDS: dict[str, tuple[str, ...]] = {
    "seconds, or rates": (
        "comm.log_steps.MESSAGE_SECONDS", "comm.progress.CHECK_SECONDS", "comm.progress.HELD_SECONDS",
        "comm.progress.LAST_SECONDS",
        "comm.waiting.ANSWER_SECONDS", "comm.waiting.CHECK_SECONDS", "comm.waiting.FAILURE_SECONDS",
        "comm.waiting.LONGEST_STEP",
        "comm.waiting.SETTLE_SECONDS", "exchanges.collective.PEER_SECONDS", "files.containers.WAITS",
        "files.progress_bar.LOG_SECONDS",
        "linalg.place.COPY_RATE", "linalg.product_grids.LATENCY", "linalg.rates.SLENDER_SHARE",
        "linalg.rates.STEP_SECONDS",
    ),
    "numbers of polls, ranks, repetitions": (
        "comm.log_steps.RADICES", "comm.node.SPINS", "comm.progress.POLLS", "comm.progress.POLLS_PER_CHECK",
        "comm.waiting.MOST_NAMED",
        "comm.waiting.WATCHERS", "engine.panels.PANELS", "exchanges.shared.SLOTS", "linalg.product_grids.DIVISORS",
        "linalg.product_grids.HALF_BLOCKS", "linalg.random_vectors.VECTORS", "linalg.rates.TIMES",
    ),
    "sizes of formats, or of what does not hang on an array": (
        "comm.free_memory.UNLIMITED", "comm.log_steps.LONGEST", "comm.node.AREA", "comm.node.MARK", "comm.node.PACKED_AREA",
        "comm.series.HEADER",
        "comm.vote.MOST_CHARACTERS",
        "engine.choose.COPIED", "engine.choose.ELEMENT", "files.checkpoint.MOST_BITS", "files.containers.FORMAT",
        "files.contents.LONGEST", "files.hdf5_storage.GROWTH", "files.hdf5_storage.USER_BLOCK", "files.safetensors.LONGEST",
        "files.slabs.UNIT_SHARE", "layout.arrays.LINE_BYTES", "layout.axis.SHOWN", "linalg.cache.BLOCK",
        "scalapack.calls.OPERAND_INTEGERS",
    ),
    "names for numbers": (
        "comm.groups.CREATION_TAG", "comm.series.FAILED", "engine.bound.ONE", "engine.bound.ZERO", "engine.messages.NONE",
        "engine.bounds.ASKS_DTYPES", "layout.arrays.CUDA", "layout.arrays.HOST",
        "linalg.elpa.INTERFACE", "linalg.elpa.ONE_STAGE", "linalg.operands.FORM_STREAMS", "linalg.operands.LEAST_EXPONENT",
        "linalg.random_vectors.SEED",
    ),
    "factors of a bound, or of a model": (
        "layout.relabel.WEIGHT", "linalg.bidiagonal.SQUARES", "linalg.least_squares.NORMAL", "linalg.attempt.MOVED",
        "linalg.operands.WORKSPACES", "linalg.products.PRODUCT", "linalg.matrix_functions.INACCURATE",
        "linalg.matrix_functions.ROOTS",
    ),
    "limits beyond which there is an error: tests of their own": (
        "layout.axis.LARGEST", "layout.dimensions.LARGEST_MAP", "layout.relabel.EXACT", "layout.relabel.PAIRS",
        "linalg.solver_rules.LIMIT", "scalapack.matrix_operands.LIMIT", "exchanges.exchange.MEMORY_LIMIT",
    ),
    "of pictures": ("layout.dimensions.FEW_BLOCKS",),
    "of ELPA: tests/clients": ("linalg.elpa.LEAST_ORDER",),
}  # fmt: skip


@contextlib.contextmanager
def threshold(path: str, value: Any) -> Iterator[None]:
    """A constant has another value, in all modules that import it."""
    name, _, constant = path.rpartition(".")
    usual = getattr(importlib.import_module(f"{psr.__name__}.{name}"), constant)
    with contextlib.ExitStack() as stack:
        for module in [m for n, m in sys.modules.items() if n.startswith(psr.__name__)]:
            if vars(module).get(constant) is usual:
                stack.enter_context(mock.patch.object(module, constant, value))
        yield


@contextlib.contextmanager
def refused_once() -> Iterator[None]:
    """The check of the first attempt refuses its result."""
    require = Check.require

    def refuse(check: Check, *arguments: Any, **keywords: Any) -> None:
        require(check, *arguments, **keywords)
        if check.active and not check._place.is_refused:
            raise WrongResultError("a result that is refused")

    with mock.patch.object(Check, "require", refuse):
        yield


LIMIT, WORK = 0.4, 0.7  # seconds


@contextlib.contextmanager
def long_work() -> Iterator[None]:
    """A rank works for longer than others may wait, the first time that it says that it works."""
    look, at_work, has_worked = Waiting.look, Waiting.at_work, False

    def limited(waiting: Waiting, plan: object) -> None:
        with mock.patch.object(waiting, "_limit", LIMIT):
            look(waiting, plan)

    @contextlib.contextmanager
    def slow(waiting: Waiting, announces: bool) -> Iterator[None]:
        nonlocal has_worked
        with mock.patch.object(waiting, "_limit", LIMIT), at_work(waiting, announces):
            if announces and not has_worked:
                has_worked = True
                time.sleep(WORK)
            yield

    with mock.patch.object(Waiting, "look", limited), mock.patch.object(Waiting, "at_work", slow):
        yield


@contextlib.contextmanager
def late() -> Iterator[None]:
    time.sleep(0.01 if RANK == BAD else 0)
    yield


CIRCUMSTANCES: dict[str, Circumstance] = {
    "": Circumstance(contextlib.nullcontext, may_fail=False),
    "warnings are errors": Circumstance(warnings_as_errors),
    "NumPy raises": Circumstance(lambda: np.errstate(all="raise")),
    "NumPy raises on one rank": Circumstance(lambda: np.errstate(all="raise" if RANK == BAD else "ignore")),
    "a late rank": Circumstance(late, may_fail=False),
    "a first result is refused": Circumstance(refused_once, may_fail=False),
    "work beyond the limit": Circumstance(long_work, may_fail=False),
    **{
        f"interrupted before vote {k}": Circumstance(lambda k=k: at_vote(k, False, interrupt), may_differ=True)
        for k in MOMENTS
    },
    **{
        f"interrupted after vote {k}": Circumstance(lambda k=k: at_vote(k, True, interrupt), may_differ=True)
        for k in MOMENTS
    },
    **{
        f"interrupted after {k} ms": Circumstance(lambda k=k: interrupted_later(k / 1000), may_differ=True)
        for k in (1, 3, 10)
    },
    **{
        f"no memory at allocation {k}": Circumstance(lambda k=k: at_allocation(k, no_memory), may_differ=True)
        for k in MOMENTS
    },
    **{
        f"{path}={value}": Circumstance(lambda path=path, value=value: threshold(path, value), may_fail=False)
        for path, value in THRESHOLDS.items()
    },
}
