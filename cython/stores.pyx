"""Which kind of store writes B: ordinary ones, through the cache, or non-temporal ones, past it. The faster is found by timing.

What part of the last cache a process has for itself stands in no file: it may be shared with other virtual machines, other
jobs and other chips. So now and then, where it is time for a trial, six uses of a plan are its steps: two in the kind that
is in use, then four in the other one, of which two only leave the caches as that kind does. The other kind is taken where it
is clearly faster. Both write the same bytes, so each rank decides by itself.
"""

from libc.math cimport HUGE_VAL
from libc.stdint cimport int64_t

cdef enum:
    # Uses of a size class from one trial to the next. A prime: plans that are used in turn come to trials in turn.
    PERIOD = 197
    FIRST_TRIAL = 8  # the use at which the first begins: pages of B are in place by then, and cores at their speed
    USUAL_STEPS = 2
    LAST_STEP = 6  # this one and the one before count

cdef double CLEARLY = 0.97  # the part of the usual time that the other kind may take, to be taken in its place
cdef double HOPELESS = 1.5  # and beyond so much of it the trial ends at once


cdef class SizeClass:
    """Moves of about the same size and pattern: when one of them is to try, and what was last found. Not collective."""

    def __cinit__(self):
        self.past, self.due = True, FIRST_TRIAL


cdef class Trials:
    """Of moves that are all alike, and are timed against one another. Not collective.

    Parameters
    ----------
    size_class : SizeClass
        Where it is kept when the last trial was, and what it found.
    """

    def __cinit__(self, SizeClass size_class not None):
        self.size_class = size_class

    cdef int begin(self) noexcept:
        """Begin a use; returns the step of a trial that it is, or 0."""
        cdef SizeClass alike = self.size_class
        alike.uses += 1
        if self.step == 0 and alike.uses >= alike.due:
            self.step, self.usual, self.other = 1, 0, HUGE_VAL
            alike.due = alike.uses + PERIOD
        elif self.step:
            self.step += 1
        cdef int step = self.step
        if step == LAST_STEP:
            self.step = 0
        return step

    cdef bint kind_at(self, int step) noexcept:
        """Whether a use that is this step writes past the cache."""
        return (self.past if self.decided else self.size_class.past) != (step > USUAL_STEPS)

    cdef void end(self, int step, double cost) noexcept:
        """Take note of what the use took that was this step, in nanoseconds per byte."""
        if step <= USUAL_STEPS:
            self.usual = cost if step == 1 else min(self.usual, cost)
        elif cost > HOPELESS * self.usual:
            self.step = 0
        elif step == LAST_STEP - 1:
            self.other = cost
        elif step == LAST_STEP:
            self.past = self.kind_at(0) != (min(self.other, cost) < CLEARLY * self.usual)
            self.decided, self.size_class.past = True, self.past


cdef class Stores:
    """The kind of store of one use after the other. Not collective.

    Parameters
    ----------
    nbytes : int
        Of B that a use writes.
    past : bool
        Whether it writes past the cache, where there is nothing to try.
    trials : Trials, optional
        By which to choose.
    """

    def __cinit__(self, int64_t nbytes, bint past, Trials trials=None):
        self.nbytes, self.past, self.trials = nbytes, past, trials

    cpdef bint begin(self):
        """Begin a use; returns whether it writes past the cache."""
        if self.trials is not None:
            self.step = self.trials.begin()
            self.past = self.trials.kind_at(self.step)
            self.timed = self.step > 0
            self.moved = self.spent = 0
        return self.past

    cdef bint of_move(self) noexcept:
        """The kind of a move of a part of B; the first begins a use."""
        return self.begin() if self.moved == 0 else self.past

    cpdef void add(self, int64_t nbytes, int64_t spent) noexcept:
        """So many bytes have been written, which took `spent` nanoseconds, if it is timed; the last of them end the use."""
        if self.trials is None:
            return
        self.moved += nbytes
        self.spent += spent
        if self.moved >= self.nbytes:
            if self.timed:
                self.trials.end(self.step, <double> self.spent / self.moved)
            self.moved = 0
            self.timed = False
