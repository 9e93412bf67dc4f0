# All moves of a rank through a ring in one run.

from libc.stdint cimport int64_t

from .bundle cimport Origins
from .lanes cimport Group, Lane, Progress
from .ring cimport Ring
from .stores cimport Stores

cdef class Traffic:
    cdef readonly Ring ring
    cdef readonly int64_t bytes_used
    cdef Lane *_sends
    cdef Lane *_receives
    cdef Lane *_copies
    cdef Py_ssize_t _n_sends, _n_receives, _n_copies
    cdef Group *_groups  # those of the sends, then those of the receives
    cdef Py_ssize_t _n_send_groups, _n_groups
    cdef Progress _run
    cdef readonly Stores stores
    cdef int64_t _shortest
    cdef list _bundles
    cdef Origins _origins
    cdef int64_t _serial, _rounds, _round
    cdef int64_t _polls  # since the last move, over all calls, so that no lane waits for its group for ever
    cdef bint _packed, _timed
    cdef int64_t _spent[3]  # nanoseconds of packing, copying and unpacking, if timed
    cdef int _group(self) except -1
    cdef void _write(self, bint past) noexcept
    cdef int64_t _unit(self, const Lane *lane, int64_t longest, int64_t stride) noexcept
    cdef int _divide(self, int64_t limit, int64_t most_slots) except -1
    cdef void start(self, Origins origins, int64_t mark) noexcept
    cdef void end(self) noexcept
    cdef void withdraw_chunks(self) noexcept nogil
    cdef bint _open(self) noexcept nogil
    cdef int64_t _goal(self, Lane *lane) noexcept nogil
    cdef bint send_round(self, bint copying, bint alone) noexcept nogil
    cdef bint send_early(self) noexcept nogil
    cdef bint _copy_piece(self, bint overtake, bint alone) noexcept nogil
    cdef bint _receive_round(self, bint alone) noexcept nogil
    cdef int64_t _lap(self, int64_t start, Py_ssize_t part, bint moved) noexcept nogil
    cdef bint make_progress(self, bint block) noexcept nogil
