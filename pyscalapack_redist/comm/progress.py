"""Progress: a wait makes progress on all tasks that its thread has in flight, so ranks may wait in any order.

An interrupt ends a wait, not the task: signals are held back while a task changes its state, and handled between two steps.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # the wrappers in `signal` make enumerations of all numbers, which takes longer than the rest
import threading
from collections.abc import Callable
from typing import Any, ClassVar, Protocol, TypeVar

from .mpi import MPI
from .node import yield_core

T = TypeVar("T")

CHECK_SECONDS = 0.1
SIGNALS = (_signal.SIGINT, _signal.SIGALRM, _signal.SIGTERM, _signal.SIGHUP, _signal.SIGUSR1, _signal.SIGUSR2)
_MAIN = threading.main_thread()
POLLS = 20  # before a wait yields its core: a few microseconds
POLLS_PER_CHECK = 50  # polls between two checks of the peers


class Task(Protocol):
    """An operation in flight, a `Transfer` or an `InterruptedAgreement`: waits of its thread advance it.

    A task keeps its error for the caller that waits for it.
    """

    def advance(self, block: bool = False) -> bool:
        """Make progress; True when it has ended. Never raises."""


class _ThreadState(threading.local):
    def __init__(self) -> None:
        self.tasks: dict[Task, None] = {}


thread_state = _ThreadState()
pause: Callable[[], object] = yield_core  # called by a wait after polls without progress


def tasks_in_flight() -> dict[Task, None]:
    """The tasks that this thread has started and that have not ended, in order."""
    return thread_state.tasks


def advance_others(exclude: object = None) -> bool:
    """Make progress on all tasks of this thread but `exclude`; True if there are any."""
    others = [task for task in thread_state.tasks if task is not exclude]
    for task in others:
        if task.advance():
            thread_state.tasks.pop(task, None)
    return bool(others)


def wait_until(
    finished: Callable[[], T | None],
    check_peers: Callable[[], None] | None = None,
    task: object = None,
    waits: bool = False,
) -> T:
    """Poll until the result is true, and return it; meanwhile make progress on all tasks but `task`.

    It yields the core between polls. MPI's own waits may spin through whole time slices where MPI does not know that ranks
    share cores.

    Parameters
    ----------
    finished : callable
        Does not block; called with interrupts held back.
    check_peers : callable, optional
        Raises if the wait cannot end.
    task : object
        The task that `finished` advances, if any.
    waits : bool
        Whether `finished` itself waits for a while.
    """
    tasks, own = thread_state.tasks, task is not None
    spins = POLLS
    while True:
        with hold_interrupts():
            for _ in range(1 if waits else POLLS_PER_CHECK):
                if result := finished():
                    return result
                if len(tasks) > own:
                    advance_others(task)
                if spins:
                    spins -= 1
                else:
                    pause()
        if check_peers is not None:
            check_peers()


class hold_interrupts:  # noqa: N801 - used like a function
    """Hold back signals with Python handlers in a `with` body, until its end or `deliver_interrupts`.

    A handler may raise, as that of SIGINT does, and would leave a task in the middle of a step. Nested uses leave the signals
    to the outermost.
    """

    _outermost: ClassVar[hold_interrupts | None] = None

    def __enter__(self) -> hold_interrupts:
        self.pending: list[tuple[int, Any]] = []
        self._handlers: list[tuple[int, Any]] = []
        if self._outermost is None and _MAIN is threading.current_thread():
            for number in SIGNALS:
                handler = _signal.getsignal(number)
                if callable(handler):
                    _signal.signal(number, self._keep)
                    self._handlers.append((number, handler))
            type(self)._outermost = self
        return self

    def _keep(self, number: int, frame: object) -> None:
        self.pending.append((number, frame))

    def deliver_interrupts(self) -> None:
        """Handle the signals that have arrived."""
        while self.pending:
            number, frame = self.pending.pop(0)
            dict(self._handlers)[number](number, frame)

    def end(self) -> list[int]:
        """Stop holding signals back; return the numbers of those that have arrived, unhandled."""
        self._restore()
        return [number for number, _ in self.pending]

    def __exit__(self, *exception: object) -> None:
        self._restore()
        self.deliver_interrupts()

    def _restore(self) -> None:
        if self._outermost is self:
            type(self)._outermost = None
        for number, handler in self._handlers:
            _signal.signal(number, handler)


def call_blocking(call: Callable[[], T], watch: Callable[[], None] | None = None) -> T:
    """Make a blocking call of MPI and return its result; or raise what `watch` raises, if that is first.

    With tasks in flight or a `watch`, the call runs in another thread while the tasks make progress. After an exception of
    `watch` it keeps running there, and the program should end by MPI_Abort. Without either, or if MPI does not allow the
    thread, the call runs in this thread.

    Parameters
    ----------
    call : callable
        The blocking call of MPI.
    watch : callable or None
        Raises if the call cannot return.
    """
    threads = MPI.Query_thread()
    moving = bool(thread_state.tasks) and threads == MPI.THREAD_MULTIPLE
    if not moving and (watch is None or threads < MPI.THREAD_SERIALIZED):
        return call()
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(call())
        except BaseException as caught:
            errors.append(caught)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while thread.is_alive():
        if moving:
            with hold_interrupts():
                advance_others()
        thread.join(0.0001 if moving else CHECK_SECONDS)
        if watch is not None and thread.is_alive():
            watch()
    if errors:
        raise errors[0]
    return results[0]
