"""The linear program of messages that may be divided among levels, solved by regret matching.

Each message chooses among the levels that are open to it, and each level the process that its steps are charged to: a zero-sum
game with the value of the program. Both sides learn by regret matching+ (Tammelin, Solving large imperfect information games
using CFR+, 2014), one after the other, and later rounds count more. Whatever they have learnt, the mean of the charges is a
solution of the dual program, so it gives a bound.
"""

from libc.stdint cimport int64_t

import numpy as np

cdef extern from "regrets.h":
    void choose_levels(float *regret, int64_t levels, const float *left, const float *right, float *left_load,
                       float *right_load) noexcept nogil
    void choose_processes(int64_t processes, int64_t width, const float *load, float *regret, float *price, float *mean,
                          float times, float *total, float *value, const float *weight) noexcept nogil


cdef class Regrets:
    """The game so far. Not collective.

    Parameters
    ----------
    left, right : int64 array
        Ends of each message, processes numbered together.
    widest : int64 array
        The last level that each may be in; those before are open to it too.
    processes : int
        How many there are.
    weights : float64 array
        Of a step of each level.

    Attributes
    ----------
    rounds : int
        How many there have been.
    """

    cdef readonly int64_t rounds
    cdef int64_t _width
    cdef const int64_t[::1] _left, _right, _widest, _start
    cdef float[::1] _regret, _weight, _total, _value
    cdef float[:, ::1] _load, _regret_of, _price, _mean

    def __init__(self, left, right, widest, int64_t processes, weights):
        cdef int64_t levels = len(weights)
        self.rounds, self._width = 0, (levels + 3) // 4 * 4
        self._left, self._right, self._widest = left, right, widest
        places = (np.asarray(widest) + 4) // 4 * 4
        self._start = np.cumsum(places) - places
        self._regret = np.zeros(places.sum(), np.float32)
        self._weight = np.pad(np.asarray(weights, np.float32), (0, self._width - levels))
        self._value = np.zeros(self._width, np.float32)
        shape = processes, self._width
        self._load, self._mean = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        self._regret_of = np.ones(shape, np.float32)
        self._total = np.full(self._width, processes, np.float32)
        self._price = np.tile(np.asarray(self._weight) / np.float32(processes), (processes, 1))

    def advance(self, int64_t rounds):
        """So many rounds more."""
        cdef int64_t e, _
        with nogil:
            for _ in range(rounds):
                self.rounds += 1
                self._load[:, :] = 0
                for e in range(self._left.shape[0]):
                    choose_levels(&self._regret[self._start[e]], self._widest[e] + 1, &self._price[self._left[e], 0],
                                  &self._price[self._right[e], 0], &self._load[self._left[e], 0],
                                  &self._load[self._right[e], 0])
                choose_processes(self._price.shape[0], self._width, &self._load[0, 0], &self._regret_of[0, 0],
                                 &self._price[0, 0], &self._mean[0, 0], self.rounds * self.rounds, &self._total[0],
                                 &self._value[0], &self._weight[0])

    def prices(self):
        """The mean of what each process (row) is charged for a step of each level (column), up to a factor for each level."""
        return np.asarray(self._mean)

    def least(self, const int64_t[:, ::1] prices):
        """What all messages are charged at least, each in the cheapest level that is open to it."""
        cdef int64_t e, k, left, right, cheapest, here, answer = 0
        with nogil:
            for e in range(self._left.shape[0]):
                left, right = self._left[e], self._right[e]
                cheapest = prices[left, 0] + prices[right, 0]
                for k in range(1, self._widest[e] + 1):
                    here = prices[left, k] + prices[right, k]
                    cheapest = here if here < cheapest else cheapest
                answer += cheapest
        return answer
