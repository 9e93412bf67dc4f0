"""Waiting for other processes: without taking the core from whoever could use it, and not for ever.

Calls of MPI that cannot be cancelled, such as `Comm.Accept`, are left behind once the processes they wait for are gone.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TypeVar

__all__ = ["LOOKS", "until", "while_watching"]

T = TypeVar("T")

LOOK_SECONDS = 0.1
LOOKS = 20  # before the core is offered to others: a few microseconds


def until(finished: Callable[[], object]) -> None:
    """Ask until it is true, and offer the core to others in between: what is waited for may need it. Not collective.

    MPI's own waits may spin through whole time slices, where it does not know that ranks share cores.
    """
    for _ in range(LOOKS):
        if finished():
            return
    while not finished():
        os.sched_yield()


def while_watching(watch: Callable[[], None] | None, call: Callable[[], T]) -> T:
    """What `call` returns, or what it raises; or what `watch` raises, if that comes first. Not collective by itself.

    The call runs in another thread, and goes on there if it is left behind: the program had better end then, by
    MPI_Abort. Where MPI does not allow that thread (MPI_THREAD_FUNNELED or less), and with `watch` None, it runs here.

    Parameters
    ----------
    watch : callable or None
        Raises if what is waited for will not come.
    call : callable
        Makes blocking calls of MPI; the caller makes none until this function returns.
    """
    if watch is None or not _threads():
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
        thread.join(LOOK_SECONDS)
        if thread.is_alive():
            watch()
    if errors:
        raise errors[0]
    return results[0]


def _threads() -> bool:
    from mpi4py import MPI

    return bool(MPI.Query_thread() >= MPI.THREAD_SERIALIZED)
