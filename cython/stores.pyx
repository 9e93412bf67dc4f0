"""The kind of stores for B: ordinary or non-temporal, whichever is faster in trials.

No file tells which part of the last cache a process has for itself: other virtual machines, jobs and chips may share it. So
from time to time six uses of a plan are the steps of a trial: two with the present kind, then four with the other kind, of
which the first two bring the caches into its state. The other kind is adopted if it is clearly faster. Both write the same
bytes, so each rank decides by itself.
"""

from libc.math cimport HUGE_VAL
from libc.stdint cimport int64_t

cdef enum:
    # Uses of a size class between trials. A prime number, so that plans used in turn have trials in turn.
    PERIOD = 197
    FIRST_TRIAL = 8  # the use at which the first trial begins: by then pages are mapped and cores run at full speed
    USUAL_STEPS = 2
    LAST_STEP = 6  # the last two steps count

cdef double CLEARLY = 0.97  # the other kind is adopted below this part of the usual time
cdef double HOPELESS = 1.5  # the trial ends at once above this multiple of the usual time


cdef class SizeClass:
    """Moves of about the same size and pattern: when the next trial is due, and the kind of the last one."""

    def __cinit__(self):
        self.past, self.due = True, FIRST_TRIAL


cdef class Trials:
    """Trials of equal moves.

    Parameters
    ----------
    size_class : SizeClass
        The size class that they share with similar moves.
    """

    def __cinit__(self, SizeClass size_class not None):
        self.size_class = size_class

    cdef int begin(self) noexcept:
        """Begin a use; return its step in a trial, or 0."""
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
        """Whether a use at this step uses non-temporal stores."""
        return (self.past if self.decided else self.size_class.past) != (step > USUAL_STEPS)

    cdef void end(self, int step, double cost) noexcept:
        """Record the cost of a use at this step, in nanoseconds per byte."""
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
    """The kind of stores of successive uses.

    Parameters
    ----------
    nbytes : int
        Bytes of B that a use writes.
    past : bool
        Whether stores are non-temporal, without trials.
    trials : Trials, optional
        Trials that choose the kind.
    """

    def __cinit__(self, int64_t nbytes, bint past, Trials trials=None):
        self.nbytes, self.past, self.trials = nbytes, past, trials

    cpdef bint begin(self):
        """Begin a use; return whether its stores are non-temporal."""
        if self.trials is not None:
            self.step = self.trials.begin()
            self.past = self.trials.kind_at(self.step)
            self.timed = self.step > 0
            self.moved = self.spent = 0
        return self.past

    cdef bint of_move(self) noexcept:
        """The kind for a move of a part of B; the first move begins a use."""
        return self.begin() if self.moved == 0 else self.past

    cpdef void add(self, int64_t nbytes, int64_t spent) noexcept:
        """Add bytes written, and their time in nanoseconds if timed; the last bytes end the use."""
        if self.trials is None:
            return
        self.moved += nbytes
        self.spent += spent
        if self.moved >= self.nbytes:
            if self.timed:
                self.trials.end(self.step, <double> self.spent / self.moved)
            self.moved = 0
            self.timed = False
