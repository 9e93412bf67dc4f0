"""Whether B is written by ordinary stores, through the cache, or by non-temporal ones, past it: by trial (`_kernels.stores`).

What surely fits into the cache is written through it. What is sure goes by the size of the last cache as the system tells
it, which errs upwards, as a virtual machine is told of a cache that it shares with others: so a rank is taken to have a few
MiB of it at most. The rest is written past the cache until a trial has found otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable

from .._kernels.bundle import Bundle
from .._kernels.stores import SizeClass, Stores, Trials
from ..comm.cores import last_cache

__all__ = ["stores_for"]

LARGEST_SHARE = 4 * 2**20  # most bytes of the last cache that a rank is taken to have
STREAM_FROM = 0.5  # part of its share that a rank writes, from which on non-temporal stores are tried: A is as large
MOST_TRIALS = 1024  # kinds of moves that are kept apart

_size_classes: dict[tuple[object, ...], SizeClass] = {}
_trials: dict[tuple[object, ...], Trials] = {}


def stores_for(arriving: Iterable[Bundle], copies: Bundle, ranks: int) -> Stores:
    """The kind of stores for what a rank writes into B, of a node with so many ranks. Not collective.

    Parameters
    ----------
    arriving, copies : Bundle
        What comes from other ranks, and what stays here.
    ranks : int
        Ranks of the node, which share its caches.
    """
    bundles = [copies, *arriving]
    nbytes = sum([bundle.size for bundle in bundles])
    if nbytes == 0 or nbytes < STREAM_FROM * min(last_cache().share(ranks), LARGEST_SHARE):
        return Stores(nbytes, False)
    pattern = max(bundles, key=lambda bundle: bundle.size).pattern
    key = nbytes, copies.size, len(bundles), ranks, pattern
    trials = _trials.get(key)
    if trials is None:
        size_class = _size_classes.setdefault((nbytes.bit_length(), ranks, pattern), SizeClass())
        while len(_trials) >= MOST_TRIALS:
            del _trials[next(iter(_trials))]
        trials = _trials[key] = Trials(size_class)
    return Stores(nbytes, True, trials)
