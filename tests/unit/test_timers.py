"""Timers share one thread, and are called in the order in which they are due."""

from __future__ import annotations

import os
import threading

import pytest

from pyscalapack_redist.comm import timers
from pyscalapack_redist.comm.timers import Timer

LONG = 1e5


def test_the_earlier_one_first() -> None:
    """A timer that is due earlier wakes the thread; of those that are due, the earliest is called first."""
    called: list[str] = []
    ended = threading.Event()
    late = Timer(LONG, called.append, ("late",))
    late.start()
    with timers._changed:  # the thread sees all of them together
        Timer(0, ended.set).start()
        Timer(-LONG, called.append, ("soon",)).start()
        Timer(-2 * LONG, called.append, ("now",)).start()
    assert ended.wait(100)
    late.cancel()
    assert called == ["now", "soon"]
    assert not timers._running


def test_cancelled() -> None:
    called: list[int] = []
    ended = threading.Event()
    pairs = [Timer(number - LONG, called.append, (number,)) for number in range(10)]
    with timers._changed:
        for timer in pairs:
            timer.start()
        for timer in pairs[::2]:
            timer.cancel()
        Timer(0, ended.set).start()
    assert ended.wait(100)
    assert called == [1, 3, 5, 7, 9]
    pairs[0].cancel()  # again


def test_one_thread() -> None:
    Timer(LONG, print).cancel()
    first = Timer(LONG, print)
    first.start()
    threads = {*threading.enumerate()}
    for _ in range(100):
        timer = Timer(LONG, print)
        timer.start()
        timer.cancel()
    first.cancel()
    assert {*threading.enumerate()} <= threads


def test_an_error_ends_no_other_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[type[BaseException]] = []
    monkeypatch.setattr(threading, "excepthook", lambda told: said.append(told.exc_type))
    ended = threading.Event()

    def fail() -> None:
        raise ZeroDivisionError

    Timer(0.01, fail).start()
    Timer(0.02, ended.set).start()
    assert ended.wait(100)
    assert said == [ZeroDivisionError]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_in_a_forked_process() -> None:
    """Its timers run, though it has no thread of its parent."""
    before = Timer(LONG, print)
    before.start()
    child = os.fork()
    if not child:
        ended = threading.Event()
        Timer(0.01, ended.set).start()
        os._exit(0 if ended.wait(100) else 1)
    before.cancel()
    assert os.waitpid(child, 0)[1] == 0
