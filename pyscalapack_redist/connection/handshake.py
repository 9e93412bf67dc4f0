"""The hand-shake of two jobs that MPI has joined: rank 0 of each proves that it has read the other side's card.

MPI joins whoever knows the port and asks no further. So before anything else each side sends 32 bytes, HMAC-SHA256 (RFC 2104)
of its role under the secrets of both cards, and compares what it gets. The secrets are of one meeting only, so what somebody
else hears or gets is of no use later. Nothing here is unpickled.
"""

from __future__ import annotations

import hmac
import time
from typing import Any

import numpy as np

from ..comm.mpi import MPI
from ..errors import ConnectError
from .rendezvous import OTHER, Card

__all__ = ["check_other_side", "proof"]

TAG = 21_318
BYTES = 32
SECONDS = 5.0  # for 32 bytes to come
STRANGER = (
    "whoever came by MPI's port is not the job that met this one: end both jobs, and use a path that nobody else knows"
)


def proof(role: str, card: Card, other: Card) -> bytes:
    """What the side of that role sends; the two cards in any order. Not collective."""
    return hmac.digest(b"".join(sorted((card.secret, other.secret))), role.encode(), "sha256")


def check_other_side(intercomm: MPI.Intercomm, role: str, card: Card, other: Card) -> None:
    """On rank 0 of each side: see that the other is the one whose card was read. Collective over both.

    Raises
    ------
    ConnectError
        It sends something else, or nothing.
    """
    intercomm.Set_errhandler(MPI.ERRORS_RETURN)
    if intercomm.Get_remote_size() != other.about["ranks"]:
        raise ConnectError(f"{intercomm.Get_remote_size()} ranks, not {other.about['ranks']}, came by MPI: {STRANGER}")
    end = time.monotonic() + SECONDS
    sent = intercomm.Isend([np.frombuffer(proof(role, card, other), np.uint8), MPI.BYTE], 0, TAG)
    status, got = MPI.Status(), np.empty(BYTES, np.uint8)
    _wait(lambda: intercomm.Iprobe(0, TAG, status), end)
    if status.Get_count(MPI.BYTE) != BYTES:
        raise ConnectError(f"{status.Get_count(MPI.BYTE)} bytes came where {BYTES} should: {STRANGER}")
    intercomm.Recv([got, MPI.BYTE], 0, TAG)
    if not hmac.compare_digest(got.tobytes(), proof(OTHER[role], card, other)):
        raise ConnectError(STRANGER)
    _wait(sent.Test, end)


def _wait(come: Any, end: float) -> None:
    while not come():
        if time.monotonic() > end:
            raise ConnectError(f"nothing came within {SECONDS:g} s: {STRANGER}")
        time.sleep(0.001)
