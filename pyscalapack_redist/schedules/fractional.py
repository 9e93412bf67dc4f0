"""A bound for messages that may be divided among levels: the linear program of `levels` for all messages, nothing folded.

Solvers take seconds to minutes for it. After each round of the game of `_kernels.regrets` the mean prices already give a bound,
which after a hundred rounds is mostly within half a percent of the program's value.
"""

from __future__ import annotations

import time

import numpy as np

from .._kernels.regrets import Regrets
from .levels import TINY, Reals
from .message_graph import Ints
from .nested import Messages

__all__ = ["Fractional"]

UNITS = 2**36  # of price for the dearest level: prices are whole numbers, so their sums are exact
FIRST, MORE = 20, 1.3  # rounds before the first look at the bound, and how many times as many before the next
AT_ONCE = 4  # rounds between two looks at the clock
FEWEST, PLACE_SECONDS = 60, 2e-9  # rounds that tell something, and time for a message in a level in a round
MOST_PLACES = 20_000_000  # of 4 bytes each
SLOW = 0.02  # part of what is missing that the bound must gain from look to look


class Fractional:
    """The program of one graph. Not collective.

    Parameters
    ----------
    messages : Messages
        All messages.
    costs : ndarray
        Of steps, descending, every length among them.
    weights : ndarray
        Of a step of each cost, positive.

    Attributes
    ----------
    bound : float
        Of the weight of all steps.
    """

    def __init__(self, messages: Messages, costs: Ints, weights: Reals) -> None:
        order = np.lexsort((messages.receiver, messages.sender))  # both ends of a message are in cache more often
        senders, receivers = messages.shape
        left, right = messages.sender[order], messages.receiver[order] + senders
        widest = np.searchsorted(-costs, -messages.length)[order]
        self._game = Regrets(left, right, widest, senders + receivers, weights)
        self._weights, self._whole = weights, bool((weights == np.rint(weights)).all())
        self._value = self.bound = -np.inf

    @staticmethod
    def seconds(messages: Messages, costs: Ints) -> float:
        """About how long it takes until the bound tells something; infinite where it takes too much memory. Not collective."""
        places = int(np.searchsorted(-costs, -messages.length, side="right").sum())
        return FEWEST * PLACE_SECONDS * places if places <= MOST_PLACES else np.inf

    def run(self, most: float, deadline: float) -> None:
        """Play until the bound is so high, until it hardly comes nearer, or until time is up. Not collective.

        Parameters
        ----------
        most : float
            What the bound need not exceed.
        deadline : float
            When to stop, on the clock of `time.monotonic`.
        """
        rounds = FIRST
        while self.bound < most:
            while self._game.rounds < rounds:
                if time.monotonic() > deadline:
                    return
                self._game.advance(min(AT_ONCE, rounds - self._game.rounds))
            rounds, before = int(MORE * rounds), self._value
            self._value = max(self._value, self._worth())
            self.bound = float(np.ceil(self._value - TINY)) if self._whole else self._value
            if self._value < before + SLOW * (most - self._value):
                return

    def _worth(self) -> float:
        """What the mean prices so far give: any prices do, if those of a level do not exceed the weight of a step."""
        prices = self._game.prices()[:, : len(self._weights)].astype(np.float64)
        prices *= self._weights / prices.sum(axis=0)
        unit = float(self._weights.max()) / UNITS
        whole = np.floor(prices / unit).astype(np.int64)
        total = whole.sum(axis=0)
        charged = total > 0
        return self._game.least(whole) * float((self._weights[charged] / total[charged]).min())
