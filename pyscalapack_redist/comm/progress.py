"""Progress: a wait makes progress on all tasks that its thread has in flight, so ranks may wait in any order.

An interrupt ends a wait, not the task: signals are held back while a task changes its state, and handled between two steps.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # the wrappers in `signal` make enumerations of all numbers, which takes longer than the rest
import atexit
import functools
import os
import threading
import time
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, ClassVar, Protocol, TypeVar

from .. import diagnostics
from .mpi import MPI

T = TypeVar("T")

CHECK_SECONDS = 0.1
LAST_SECONDS = 1.0  # at the end of the process, for calls that were given up
DEFAULT = _signal.SIG_DFL  # an integer, as `_signal.getsignal` returns it
SIGNALS = (_signal.SIGINT, _signal.SIGALRM, _signal.SIGTERM, _signal.SIGHUP, _signal.SIGUSR1, _signal.SIGUSR2)
_MAIN = threading.main_thread()
POLLS = 20  # before a wait yields its core: a few microseconds
POLLS_PER_CHECK = 50  # polls between two checks of the peers
HELD_SECONDS = 0.5  # for which a wait holds back an interrupt that may go into the next vote of a call


class Task(Protocol):
    """An operation in flight, a `Transfer` or an `InterruptedAgreement`: waits of its thread advance it.

    A task keeps its error for the caller that waits for it.
    """

    def advance(self, block: bool = False) -> bool:
        """Make progress; True when it has ended. Never raises."""


class _ThreadTasks(threading.local):
    def __init__(self) -> None:
        self.tasks: dict[Task, None] = {}


thread_state = _ThreadTasks()
# Called by a wait after polls without progress. Not every system has sched_yield.
pause: Callable[[], object] = getattr(os, "sched_yield", functools.partial(time.sleep, 0))


def tasks_in_flight() -> dict[Task, None]:
    """The tasks that this thread has started and that have not ended, in order."""
    return thread_state.tasks


def advance_others(exclude: object = None) -> bool:
    """Make progress on all tasks of this thread but `exclude`; True if there are any."""
    if not thread_state.tasks:
        return False
    others = [task for task in thread_state.tasks if task is not exclude]
    for task in others:
        if task.advance():
            thread_state.tasks.pop(task, None)
    return bool(others)


class Doze:
    """Pauses of a wait that may be long: they grow with the time waited, so that other processes have the core meanwhile."""

    SHARE, LONGEST, FIRST = 0.02, 1e-3, 1e-4  # of the time waited; seconds; seconds without a pause of this kind

    def __init__(self) -> None:
        self._since = time.perf_counter()

    def __call__(self) -> None:
        """Pause."""
        waited = time.perf_counter() - self._since
        if waited < self.FIRST:
            pause()
        else:
            time.sleep(min(self.SHARE * waited, self.LONGEST))


def wait_until(
    finished: Callable[[], T | None],
    check_peers: Callable[[], None] | None = None,
    task: object = None,
    waits: bool = False,
    patience: float = HELD_SECONDS,
    doze: Callable[[], object] | None = None,
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
    patience : float
        Seconds for which an interrupt that the caller holds back does not end the wait; a second one does at once.
    doze : callable, optional
        Called in place of `pause` between polls.
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
                elif doze is not None:
                    doze()
                else:
                    pause()
        if check_peers is not None:
            check_peers()
        force_interrupts(patience)


class hold_interrupts:  # noqa: N801 - used like a function
    """Hold back signals with Python handlers in a `with` body, until its end or `deliver_interrupts`.

    A handler may raise, as that of SIGINT does, and would leave a task in the middle of a step. Nested uses leave the signals
    to the outermost, unless that is open, as in the work of a `Guard`.

    Attributes
    ----------
    pending : list
        The signals that have arrived and are held back.
    is_open : bool
        Whether signals are handled at once for the time being.
    forced : BaseException or None
        The exception of a signal that ended a wait of this rank alone (`force_interrupts`), until the outermost use ends.
    """

    current: ClassVar[hold_interrupts | None] = None  # the one that holds signals back, in the main thread
    forced: ClassVar[BaseException | None] = None
    own_code: ClassVar[set[CodeType]] = set()  # functions in which signals are held back also while it is open
    _handlers: ClassVar[dict[int, Any]] = {}  # of the program
    is_open = _is_current = False
    _outer: hold_interrupts | None = None
    _since = 0.0

    def __enter__(self) -> hold_interrupts:
        self.pending: list[tuple[int, Any]] = []
        outer = hold_interrupts.current
        if (outer is None or outer.is_open) and threading.get_ident() == _MAIN.ident:
            if outer is None:
                self._replace_handlers()  # an interrupt may end this, so it comes before the state is changed
            self._is_current, self._outer, hold_interrupts.current = True, outer, self
        return self

    def _replace_handlers(self) -> None:
        handlers, getsignal = self._handlers, _signal.getsignal
        for number in SIGNALS:
            handler = getsignal(number)
            if handler is not DEFAULT and callable(handler) and handler is not _receive:
                handlers[number] = handler
                _signal.signal(number, _receive)

    def receive(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal, or hold it back."""
        if self.is_open and (frame is None or frame.f_code not in self.own_code):
            self._handlers[number](number, frame)
            return
        if not self.pending:
            self._since = time.monotonic()
        self.pending.append((number, frame))

    def deliver_interrupts(self) -> None:
        """Handle the signals that have arrived."""
        while self.pending:
            number, frame = self.pending.pop(0)
            self._handlers[number](number, frame)

    def force(self, patience: float) -> None:
        """Handle the signals that have arrived if they are two or more, or if the first one is older than `patience`."""
        if len(self.pending) < 2 and time.monotonic() - self._since < patience:
            return
        signals = dict(self.pending)  # a second one of a number adds nothing
        self.pending[:] = list(signals.items())
        try:
            self.deliver_interrupts()
        except BaseException as caught:
            hold_interrupts.forced = caught
            raise

    def end(self) -> list[int]:
        """Stop holding signals back; return the numbers of those that have arrived, unhandled."""
        self._restore()
        return [number for number, _ in self.pending]

    def __exit__(self, *exception: object) -> None:
        if self._is_current:
            try:
                self._restore()
            finally:
                if self.pending:
                    self._deliver_all()

    def _deliver_all(self) -> None:
        """Handle the signals that have arrived, those too that come after one whose handler raises."""
        try:
            self.deliver_interrupts()
        finally:
            if self.pending:
                self._deliver_all()

    def _restore(self) -> None:
        if not self._is_current:
            return
        self._is_current, hold_interrupts.current = False, self._outer
        if self._outer is not None:
            return
        hold_interrupts.forced = None
        for number, handler in self._handlers.items():
            present = _signal.signal(number, handler)
            if present is not _receive:  # the program has another one since
                _signal.signal(number, present)


def _receive(number: int, frame: FrameType | None) -> None:
    """The handler of signals while they are held back. One that an interrupt leaves in place hands them on."""
    held = hold_interrupts.current
    if held is None:
        hold_interrupts._handlers[number](number, frame)
    else:
        held.receive(number, frame)


def current_hold() -> hold_interrupts | None:
    """The use of `hold_interrupts` that holds back the signals of this thread."""
    held = hold_interrupts.current
    return held if held is not None and threading.get_ident() == _MAIN.ident else None


def force_interrupts(patience: float = HELD_SECONDS) -> None:
    """Handle signals that a call holds back for its next vote, where that does not come: at the second, or after a while.

    Called in a wait, between two steps. What it raises passes all guards.
    """
    held = hold_interrupts.current
    if held is not None and held.pending and _MAIN is threading.current_thread():
        held.force(patience)


def call_blocking(call: Callable[[], T], watch: Callable[[], None] | None = None) -> T:
    """Make a blocking call of MPI and return its result; or raise what `watch` raises, if that is first.

    With tasks in flight or a `watch`, the call runs in another thread while the tasks make progress. After an exception of
    `watch`, or an interrupt, it keeps running there. If it still does when the process ends, that is by MPI_Abort, since
    MPI_Finalize must not be called meanwhile. Without either, or if MPI does not allow the thread, the call runs in this
    thread.

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
    try:
        while thread.is_alive():
            if moving:
                with hold_interrupts():
                    advance_others()
            thread.join(0.0001 if moving else CHECK_SECONDS)
            if watch is not None and thread.is_alive():
                watch()
    except BaseException:
        if not _abandoned:
            atexit.register(_abort_abandoned)
        _abandoned.append(thread)
        raise
    if errors:
        raise errors[0]
    return results[0]


_abandoned: list[threading.Thread] = []  # in calls of MPI


def _abort_abandoned() -> None:
    """As the process ends: abort the job if MPI still waits in a call that was given up."""
    last = time.monotonic() + LAST_SECONDS
    for thread in _abandoned:
        thread.join(max(0.0, last - time.monotonic()))
    if any(thread.is_alive() for thread in _abandoned) and not MPI.Is_finalized():
        diagnostics.write_line(
            "pyscalapack_redist: MPI still waits for other ranks in a call that this rank has given up, and cannot be "
            "finalized meanwhile: the job is aborted"
        )
        MPI.COMM_WORLD.Abort(1)
