"""How many threads share a rank's large moves: PYSCALAPACK_REDIST_THREADS, 1 where it is not set.

They pack, unpack and copy what stays on a rank, for ranks that have several cores each. What goes through the ring of a
node goes chunk by chunk by one thread, for others wait for each chunk.
"""

from __future__ import annotations

import os

from .._kernels.threads import MOST, use
from ..errors import RedistributionError

__all__ = ["VARIABLE", "prepare", "wanted"]

VARIABLE = "PYSCALAPACK_REDIST_THREADS"
_prepared = False


def wanted() -> int:
    """What the environment asks for. Not collective.

    Raises
    ------
    RedistributionError
        It is no such number.
    """
    text = os.environ.get(VARIABLE) or "1"
    try:
        number = int(text)
    except ValueError:
        number = 0
    if not 1 <= number <= MOST:
        raise RedistributionError(
            f"{VARIABLE}={text!r} must be the number of threads with which each rank packs, unpacks and copies, 1 to {MOST}: "
            "set it to the number of cores that a rank has to itself, or unset it for one thread"
        )
    return number


def prepare() -> None:
    """Have as many threads as the environment asks for; it is read once. Not collective.

    Raises
    ------
    RedistributionError
        The environment is wrong.
    """
    global _prepared
    if not _prepared:
        use(wanted())
        _prepared = True
