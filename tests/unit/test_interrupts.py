"""Interrupts that come just as signals begin to be held back, or no longer are."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from pyscalapack_redist.comm import progress
from pyscalapack_redist.comm.progress import hold_interrupts


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Handlers of the program, which raise the number."""

    def raise_number(number: int, frame: Any) -> None:
        raise KeyboardInterrupt(number)

    before = {number: signal.signal(number, raise_number) for number in progress.SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def hold(*numbers: int) -> None:
    """Hold back signals; they come as the body ends, and not before."""
    has_ended = False
    try:
        with hold_interrupts():
            for number in numbers:
                os.kill(os.getpid(), number)
            has_ended = True
    finally:
        assert has_ended, "a signal came in the body"


@pytest.mark.parametrize("number", progress.SIGNALS)
def test_an_interrupt_as_handlers_are_replaced(number: int) -> None:
    """Before each call by which they are replaced or restored: it comes out, and later ones are held back as ever."""
    for late in itertools.count():
        calls = itertools.count()

        def interrupted(call: Any) -> Any:
            def interrupt_first(*given: Any) -> Any:
                if next(calls) == late:  # noqa: B023 - of this round
                    os.kill(os.getpid(), number)
                return call(*given)

            return interrupt_first

        replaced = SimpleNamespace(getsignal=interrupted(signal.getsignal), signal=interrupted(signal.signal))
        has_come = False
        with mock.patch.object(progress, "_signal", replaced):
            try:
                with hold_interrupts():
                    pass
            except KeyboardInterrupt as caught:
                has_come = caught.args == (number,)
        assert has_come == (next(calls) > late)
        assert hold_interrupts.current is None
        for other in progress.SIGNALS:
            with pytest.raises(KeyboardInterrupt, match=str(other)):
                hold(other)
        if not has_come:
            break
    assert late == 3 * len(progress.SIGNALS)  # two of each to replace it, one to restore it


def test_all_signals_that_were_held_back_are_handled() -> None:
    """Though the handler of the first one raises."""
    numbers: list[int] = []
    signal.signal(signal.SIGUSR1, lambda number, frame: numbers.append(number))
    signal.signal(signal.SIGUSR2, lambda number, frame: numbers.append(number))
    with pytest.raises(KeyboardInterrupt, match=str(int(signal.SIGALRM))):
        hold(signal.SIGUSR1, signal.SIGALRM, signal.SIGUSR2)
    assert numbers == [signal.SIGUSR1, signal.SIGUSR2]
