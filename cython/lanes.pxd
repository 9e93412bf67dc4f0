# Lanes through a ring: a message goes in chunks through slots of its sender's area.

from libc.stdint cimport int64_t

from .bundle cimport Load
from .interleave cimport Braid

cdef struct Lane:
    # what one rank sends to another, receives from it, or copies, in one run; sizes in bytes
    const Load *load
    int64_t done, chunks, step, base, stride, slots
    int64_t begun, until  # the chunk that is being unpacked
    int64_t column  # of the message, as it lies in the buffer; chunks are whole ones, so that lanes can go together; else 0
    Group *group
    bint fetched  # a local copy whose source is fetched by what is packed out of the same columns
    int64_t *line
    char *area

cdef struct Group:
    # lanes that share the columns of an array, and the local copy that reads or writes them too; see lane_groups.pxd
    bint sends
    Py_ssize_t size
    int64_t foremost  # column that the first of the lanes has reached
    Lane **lanes
    Lane *copy  # that is moved with them
    Lane *fetched  # or of which they fetch the source
    bint panels  # whether that was numbered by panels before
    Braid *braid
    Braid *with_copy
    const char **sources
    char **targets

cdef struct Progress:
    # of one run of all lanes of a rank
    const char **sources
    char **targets
    int64_t mark  # of a vote before which ranks packed in another order than the one agreed on, or 0
    int64_t arrived  # messages that have been unpacked to the end
    bint stream  # write long runs of the target past the cache

cdef enum:
    FETCHED = 16 * 1024  # bytes that are asked for before they are unpacked: they fit in the first cache
    TIMED = 32 * 1024  # bytes of a chunk, from which on it may be written past the cache, and is timed

# Whether there is a slot for the next chunk; where it is; go on behind the chunk that was packed there.
cdef bint has_room(const Lane *lane) noexcept nogil
cdef char *slot_of(const Lane *lane) noexcept nogil
cdef bint goes_past(const Lane *lane) noexcept nogil  # whether to write it past the cache
cdef void note_packing(Lane *lane, int64_t nbytes, int64_t spent) noexcept nogil  # ns to write it and what goes with it, so many bytes
cdef void packed_to(Lane *lane, int64_t last) noexcept nogil

# Whether there is a chunk to unpack, or the rest of one; where it is; go on behind what was unpacked of it.
cdef bint has_come(const Progress *run, Lane *lane) noexcept nogil
cdef char *chunk_of(const Lane *lane) noexcept nogil
cdef void note_reading(Lane *lane, int64_t nbytes, int64_t spent) noexcept nogil  # ns to read so many bytes
cdef void unpacked_to(Progress *run, Lane *lane, int64_t last) noexcept nogil

# Publish the next chunk of a lane; False where there is no room for it.
cdef bint pack(const Progress *run, Lane *lane) noexcept nogil

# Take the next chunk of a lane; False if it is not there.
cdef bint unpack(Progress *run, Lane *lane) noexcept nogil

# Copy what stays here, up to byte `last`.
cdef void copy_to(const Progress *run, Lane *lane, int64_t last) noexcept nogil


cdef inline int64_t parts_of(int64_t size, int64_t most) noexcept nogil:
    """How many parts of at most `most` bytes there are; for any size from 0 and any `most` from 1, without overflow."""
    return size // most + (size % most != 0)
