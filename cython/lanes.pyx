"""Lanes through a ring: a message goes in chunks through slots of its sender's area, each lane by itself.

The sender counts what it has published, the receiver what it has consumed; a slot is free again once its chunk is consumed.
"""

from libc.stdint cimport int64_t

from .bundle cimport carry, end_of_piece
from .ring cimport BASE, CONSUMED, PUBLISHED, REPACKED, SLOTS, STEP, STRIDE, fetch, peek, put


cdef bint has_room(const Lane *lane) noexcept nogil:
    return lane.line[PUBLISHED] - peek(lane.line + CONSUMED) < lane.slots


cdef char *slot_of(const Lane *lane) noexcept nogil:
    return lane.area + lane.base + lane.line[PUBLISHED] % lane.slots * lane.stride


cdef void packed_to(Lane *lane, int64_t last) noexcept nogil:
    lane.done = last
    lane.chunks += 1
    put(lane.line + PUBLISHED, lane.line[PUBLISHED] + 1)


cdef bint has_come(const Progress *run, Lane *lane) noexcept nogil:
    if lane.done < lane.until:
        return True
    if run.mark and peek(lane.line + REPACKED) < run.mark:
        return False
    if peek(lane.line + PUBLISHED) == lane.line[CONSUMED]:
        return False
    lane.begun = lane.done
    lane.until = end_of_piece(lane.load, lane.done, lane.line[STEP])
    return True


cdef char *chunk_of(const Lane *lane) noexcept nogil:
    return lane.area + lane.line[BASE] + lane.line[CONSUMED] % lane.line[SLOTS] * lane.line[STRIDE]


cdef void unpacked_to(Progress *run, Lane *lane, int64_t last) noexcept nogil:
    lane.done = last
    if last == lane.until:
        put(lane.line + CONSUMED, lane.line[CONSUMED] + 1)
    run.arrived += last == lane.load.size


cdef bint pack(const Progress *run, Lane *lane) noexcept nogil:
    cdef int64_t last
    if not has_room(lane):
        return False
    last = end_of_piece(lane.load, lane.done, lane.step)
    carry(lane.load, run.sources, run.targets, slot_of(lane), lane.done, last, False)
    packed_to(lane, last)
    return True


cdef bint unpack(Progress *run, Lane *lane) noexcept nogil:
    cdef char *chunk
    if not has_come(run, lane):
        return False
    chunk = chunk_of(lane) + (lane.done - lane.begun)
    fetch(chunk, min(lane.until - lane.done, <int64_t> FETCHED))
    carry(lane.load, run.sources, run.targets, chunk, lane.done, lane.until, run.stream)
    unpacked_to(run, lane, lane.until)
    return True


cdef void copy_to(const Progress *run, Lane *lane, int64_t last) noexcept nogil:
    carry(lane.load, run.sources, run.targets, NULL, lane.done, last, run.stream)
    lane.done = last
