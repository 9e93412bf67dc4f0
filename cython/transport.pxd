# All that a rank moves through a ring in one run.

from libc.stdint cimport int64_t

from .bundle cimport Load, Origins
from .ring cimport Ring
from .interleave cimport Braid

cdef struct Lane:
    # what one rank sends to another, receives from it, or copies, in one run; sizes in bytes
    const Load *load
    int64_t done, chunks, step, base, stride, slots
    int64_t begun, until  # the chunk that is being unpacked
    int64_t column  # of the message, as it lies in the buffer; chunks are whole ones, so that lanes can go together; else 0
    Group *group
    int64_t *line
    char *area

cdef struct Group:
    # lanes that share the columns of an array, and the local copy that reads or writes them too
    bint sends
    Py_ssize_t size
    int64_t foremost  # column that the first of the lanes has reached
    Lane **lanes
    Lane *copy
    Braid *braid
    Braid *with_copy
    const char **sources
    char **targets

cdef class Traffic:
    cdef readonly Ring ring
    cdef readonly int64_t bytes_used
    cdef Lane *_sends
    cdef Lane *_receives
    cdef Lane *_copies
    cdef Py_ssize_t _n_sends, _n_receives, _n_copies
    cdef Group *_groups  # those of the sends, then those of the receives
    cdef Py_ssize_t _n_send_groups, _n_groups
    cdef list _bundles
    cdef Origins _origins
    cdef int64_t _serial, _rounds, _round, _arrived, _mark
    cdef int64_t _looks  # since something could be moved; over calls, so that no lane waits for the others for ever
    cdef bint _stream, _packed, _timed
    cdef int64_t _spent[3]  # nanoseconds of packing, copying and unpacking, where asked for
    cdef const char **_sources
    cdef char **_targets
    cdef int _group(self, int64_t shortest) except -1
    cdef int _find(self, Lane *lanes, Py_ssize_t n, bint sends, int64_t shortest) except -1
    cdef int _divide(self, int64_t limit, int64_t most_slots) except -1
    cdef void start(self, Origins origins, int64_t mark) noexcept
    cdef void take_back(self) noexcept nogil
    cdef bint _open(self) noexcept nogil
    cdef bint _has_room(self, Lane *lane) noexcept nogil
    cdef bint _has_come(self, Lane *lane) noexcept nogil
    cdef char *_slot(self, Lane *lane) noexcept nogil
    cdef char *_chunk(self, Lane *lane) noexcept nogil
    cdef void _packed_to(self, Lane *lane, int64_t last) noexcept nogil
    cdef void _unpacked_to(self, Lane *lane, int64_t last) noexcept nogil
    cdef bint _pack(self, Lane *lane) noexcept nogil
    cdef bint _unpack(self, Lane *lane) noexcept nogil
    cdef bint _in_step(self, Group *group) noexcept nogil
    cdef bint _pack_together(self, Group *group, bint copying) noexcept nogil
    cdef Braid *_braid_from(self, Group *group, int64_t column, bint copying) noexcept nogil
    cdef void _weave(self, Group *group, Braid *braid, int64_t first, int64_t last) noexcept nogil
    cdef bint _unpack_together(self, Group *group) noexcept nogil
    cdef bint _goes_alone(self, Lane *lane) noexcept nogil
    cdef int64_t _goal(self, Lane *lane) noexcept nogil
    cdef bint send_round(self, bint copying, bint alone) noexcept nogil
    cdef bint _complete(self, Group *group) noexcept nogil
    cdef bint _copy_piece(self, bint overtake, bint alone) noexcept nogil
    cdef bint _receive_round(self, bint alone) noexcept nogil
    cdef int64_t _lap(self, int64_t start, Py_ssize_t part) noexcept nogil
    cdef bint go_on(self, bint block) noexcept nogil
