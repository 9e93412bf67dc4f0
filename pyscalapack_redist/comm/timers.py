"""Calls that come later, from one thread of the process."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any


class Timer:
    """A function to call after some seconds, as by `threading.Timer`, but in one thread that all timers share.

    A thread of its own for each would take longer to start than most waits last, and some MPIs lose memory with each thread
    that ends. The thread starts with the first timer, and sleeps until the first one is due.

    Parameters
    ----------
    seconds : float
        Time from `start` to the call.
    function : callable
        Should return soon: other timers wait for it.
    arguments : tuple
        Its arguments.
    """

    def __init__(self, seconds: float, function: Callable[..., object], arguments: tuple[Any, ...] = ()) -> None:
        self._seconds, self._function, self._arguments = seconds, function, arguments
        self._due = 0.0

    def start(self) -> None:
        """Let the time run."""
        global _thread, _wakes
        self._due = time.monotonic() + self._seconds
        with _changed:
            _running.add(self)
            if _thread is None or not _thread.is_alive():  # at first, or in a forked process
                _thread, _wakes = threading.Thread(target=_call_when_due, daemon=True), 0.0
                _thread.start()
            elif self._due < _wakes:
                _changed.notify()

    def cancel(self) -> None:
        """Never call the function, unless that has begun."""
        with _changed:
            _running.discard(self)

    def _call(self) -> None:
        try:
            self._function(*self._arguments)
        except Exception:  # as in a thread of its own
            threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))


def _call_when_due() -> None:
    global _wakes
    while True:
        with _changed:
            now = time.monotonic()
            late = [timer for timer in _running if timer._due <= now]
            _running.difference_update(late)
            if not late:
                _wakes = min((timer._due for timer in _running), default=threading.TIMEOUT_MAX)
                _changed.wait(min(_wakes - now, threading.TIMEOUT_MAX))
        for timer in sorted(late, key=lambda timer: timer._due):
            timer._call()


_changed = threading.Condition()
_running: set[Timer] = set()
_thread: threading.Thread | None = None
_wakes = 0.0  # when the thread looks again, in the time of time.monotonic
