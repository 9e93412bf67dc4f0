# Lanes of a ring: a message goes in chunks through slots of its sender's area.

from libc.stdint cimport int64_t

from .bundle cimport Load
from .interleave cimport Interleaving

cdef struct Lane:
    # a message to send or to receive, or a local copy, in one run; sizes in bytes
    const Load *load
    int64_t done, chunks, step, base, stride, slots
    int64_t begun, until  # the range of the chunk being unpacked
    int64_t column  # bytes of a column of the packed message, if chunks are whole columns, as groups need; else 0
    Group *group
    int64_t *line
    char *area

cdef struct Group:
    # lanes that share the columns of an array, with the local copy of these columns; see lane_groups.pxd
    bint sends
    Py_ssize_t size
    int64_t foremost  # the furthest column of its lanes
    Lane **lanes
    Lane *copy  # moved with the lanes
    Interleaving *interleaving
    Interleaving *with_copy
    const char **sources
    char **targets

cdef struct Progress:
    # one run of all lanes of a rank
    const char **sources
    char **targets
    int64_t mark  # number of a vote before which ranks packed in another order than the agreed one, or 0
    int64_t arrived  # messages that are completely unpacked
    bint stream  # write long runs of the target with non-temporal stores

cdef enum:
    FETCHED = 16 * 1024  # bytes prefetched before unpacking; they fit in the first cache
    TIMED = 32 * 1024  # least bytes of a chunk that is timed and may be streamed

# Whether a slot is free for the next chunk; its address; publish the chunk that was packed there.
cdef bint has_room(const Lane *lane) noexcept nogil
cdef char *slot_of(const Lane *lane) noexcept nogil
cdef bint is_streamed(const Lane *lane) noexcept nogil  # whether to write it with non-temporal stores
cdef void record_packing(Lane *lane, int64_t nbytes, int64_t spent) noexcept nogil  # nanoseconds of writing `nbytes` bytes
cdef void packed_to(Lane *lane, int64_t last) noexcept nogil

# Whether a chunk has arrived, or the rest of one; its address; consume the part that was unpacked.
cdef bint has_arrived(const Progress *run, Lane *lane) noexcept nogil
cdef char *chunk_of(const Lane *lane) noexcept nogil
cdef void record_reading(Lane *lane, int64_t nbytes, int64_t spent) noexcept nogil  # nanoseconds of reading `nbytes` bytes
cdef void unpacked_to(Progress *run, Lane *lane, int64_t last) noexcept nogil

# Pack and publish the next chunk of a lane; False if no slot is free.
cdef bint pack(const Progress *run, Lane *lane) noexcept nogil

# Unpack the next chunk of a lane; False if it has not arrived.
cdef bint unpack(Progress *run, Lane *lane) noexcept nogil

# Copy locally up to byte `last`.
cdef void copy_to(const Progress *run, Lane *lane, int64_t last) noexcept nogil


cdef inline int64_t parts_of(int64_t size, int64_t most) noexcept nogil:
    """The number of parts of at most `most` bytes, without overflow; size >= 0, most >= 1."""
    return size // most + (size % most != 0)
