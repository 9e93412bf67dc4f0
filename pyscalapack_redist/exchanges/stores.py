"""Whether B is written by ordinary stores, through the cache, or by non-temporal ones, past it: by trial (`_kernels.stores`).

Until a trial has found anything, it goes by the size of the last cache as the system tells it, which errs upwards: a virtual
machine is told of a cache that it shares with others. So a rank is taken to have a few MiB of it at most.
"""

from __future__ import annotations

from collections.abc import Iterable

from .._kernels.bundle import Bundle
from .._kernels.stores import SizeClass, Stores, Trials
from ..comm.cores import last_cache

__all__ = ["stores_for"]

LARGEST_SHARE = 4 * 2**20  # most bytes of the last cache that a rank is taken to have
STREAM_FROM = 0.5  # part of its share that a rank writes, from which on non-temporal stores come first: A is as large
TRIED_FROM = 2**19  # bytes that a rank writes, from which on both kinds are tried: two cores' second caches hold less
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
    past = nbytes >= STREAM_FROM * min(last_cache().share(ranks), LARGEST_SHARE)
    if nbytes < max(1, TRIED_FROM):
        return Stores(nbytes, past)
    pattern = max(bundles, key=lambda bundle: bundle.size).pattern
    key = nbytes, copies.size, len(bundles), ranks, pattern
    trials = _trials.get(key)
    if trials is None:
        size_class = _size_classes.setdefault((nbytes.bit_length(), ranks, pattern), SizeClass(past))
        while len(_trials) >= MOST_TRIALS:
            del _trials[next(iter(_trials))]
        trials = _trials[key] = Trials(size_class)
    return Stores(nbytes, past, trials)
