"""Progress: whatever is under way in a thread goes on while any of it is waited for, so ranks may wait in any order.

An interrupt ends the waiting, never what is waited for: signals are held back while the state of a transfer changes, come
between two steps, and the transfer stays under way.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # the wrappers in `signal` make enumerations of all numbers, which takes longer than the rest
import threading
from collections.abc import Callable
from typing import Any, ClassVar, Protocol, TypeVar

from .mpi import MPI
from .node import give_way

T = TypeVar("T")

LOOK_SECONDS = 0.1
HELD = (_signal.SIGINT, _signal.SIGALRM, _signal.SIGTERM, _signal.SIGHUP, _signal.SIGUSR1, _signal.SIGUSR2)
_MAIN = threading.main_thread()
LOOKS = 20  # before the core is offered to others: a few microseconds
LOOKS_AROUND = 50  # looks at what is waited for between two at anything else


class Task(Protocol):
    """Something under way. An error of its own is kept for whoever waits for it."""

    def advance(self, block: bool = False) -> bool:
        """Go on; True when it has ended. It never raises."""


class _ThreadState(threading.local):
    def __init__(self) -> None:
        self.tasks: dict[Task, None] = {}


thread_state = _ThreadState()  # of this thread: what it has in flight
pause: Callable[[], object] = give_way  # what a wait does that has found nothing to do


def tasks_in_flight() -> dict[Task, None]:
    """What this thread has started and has not seen the end of, in order. Not collective."""
    return thread_state.tasks


def advance_others(mine: object = None) -> bool:
    """Let all that is under way go on, but for `mine`; True if there was anything. Not collective."""
    others = [task for task in thread_state.tasks if task is not mine]
    for task in others:
        if task.advance():
            thread_state.tasks.pop(task, None)
    return bool(others)


def wait_until(
    finished: Callable[[], T | None],
    check_peers: Callable[[], None] | None = None,
    mine: object = None,
    waits: bool = False,
) -> T:
    """Ask until it is true, and return that; meanwhile everything under way but `mine` goes on. Not collective.

    The core is offered to others in between: what is waited for may need it, and MPI's own waits may spin through whole
    time slices, where it does not know that ranks share cores.

    Parameters
    ----------
    finished : callable
        Does not block; changes state in one piece, whatever interrupts come.
    check_peers : callable, optional
        Raises if what is waited for will not come.
    mine : object
        What is waited for, if it is under way.
    waits : bool
        Whether `finished` itself waits for a while.
    """
    tasks, mine_too = thread_state.tasks, mine is not None
    spins = LOOKS
    while True:
        with hold_interrupts():
            for _ in range(1 if waits else LOOKS_AROUND):
                if found := finished():
                    return found
                if len(tasks) > mine_too:
                    advance_others(mine)
                if spins:
                    spins -= 1
                else:
                    pause()
        if check_peers is not None:
            check_peers()


class hold_interrupts:  # noqa: N801 - used as a function is
    """In its body signals that Python handles are held back: they come at the end, or where `deliver_interrupts` is called.

    A handler may raise, as that of SIGINT does, and in the middle of a step nobody could go on from there. Where they are held
    back already, the body of the outermost one decides.
    """

    _outermost: ClassVar[hold_interrupts | None] = None

    def __enter__(self) -> hold_interrupts:
        self.came: list[tuple[int, Any]] = []
        self._handlers: list[tuple[int, Any]] = []
        if self._outermost is None and _MAIN is threading.current_thread():
            for number in HELD:
                handler = _signal.getsignal(number)
                if callable(handler):
                    _signal.signal(number, self._keep)
                    self._handlers.append((number, handler))
            type(self)._outermost = self
        return self

    def _keep(self, number: int, frame: object) -> None:
        self.came.append((number, frame))

    def deliver_interrupts(self) -> None:
        """Handle what has come."""
        while self.came:
            number, frame = self.came.pop(0)
            dict(self._handlers)[number](number, frame)

    def end(self) -> list[int]:
        """Hold no signals back any more; those that have come, which are not handled then."""
        self._restore()
        return [number for number, _ in self.came]

    def __exit__(self, *exception: object) -> None:
        self._restore()
        self.deliver_interrupts()

    def _restore(self) -> None:
        if self._outermost is self:
            type(self)._outermost = None
        for number, handler in self._handlers:
            _signal.signal(number, handler)


def call_blocking(call: Callable[[], T], watch: Callable[[], None] | None = None) -> T:
    """What a call of MPI returns, or raises, that blocks; or what `watch` raises, if that comes first.

    Where transfers are under way, or somebody must be watched, the call runs in another thread, and they go on meanwhile. It
    goes on there if it is left behind: the program had better end then, by MPI_Abort. Where MPI does not allow that thread,
    and where nothing is under way, it runs here. Collective as the call is.

    Parameters
    ----------
    call : callable
        Makes blocking calls of MPI.
    watch : callable or None
        Raises if what is waited for will not come.
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
        thread.join(0.0001 if moving else LOOK_SECONDS)
        if watch is not None and thread.is_alive():
            watch()
    if errors:
        raise errors[0]
    return results[0]
