"""Lanes of a ring: a message goes in chunks through slots of its sender's area.

The sender counts published chunks, the receiver consumed ones; the slot of a consumed chunk is free again.

If two cores share a cache, chunks go through it. Otherwise each line would be fetched from the other core's cache, and chunks
written to memory with non-temporal stores are read several times as fast. Both sides time their writes and reads. From time
to time the receiver has some chunks written with the other kind of stores, and keeps the kind with the lower total time.
"""

from libc.stdint cimport int64_t

from .bundle cimport carry, carry_together, end_of_piece
from .ring cimport (
    BASE, CONSUMED, LEFT, PACKING, PERIOD, PUBLISHED, READING, REPACKED, SLOTS, STEP, STRIDE, SWITCH, TRIED, fetch, now, peek, put,
)

cdef enum:
    SAMPLE = 4  # chunks that count in a trial of the other kind; the first ones reuse slots written with the old kind
    SHORTEST_PERIOD = 64  # chunks between trials, after a trial that changed the kind
    LONGEST_PERIOD = 1024  # the same after many trials that did not
    FORGOTTEN = 16  # a least time grows by this part with each later chunk, because the packed data change


cdef bint has_room(const Lane *lane) noexcept nogil:
    return lane.line[PUBLISHED] - peek(lane.line + CONSUMED) < lane.slots


cdef char *slot_of(const Lane *lane) noexcept nogil:
    return lane.area + lane.base + lane.line[PUBLISHED] % lane.slots * lane.stride


cdef inline bint _past(const int64_t *line, int64_t number) noexcept nogil:
    """Whether chunk `number` is streamed: SWITCH is twice the number of the first chunk of a kind, plus 1 if that is streamed."""
    cdef int64_t switch = peek(line + SWITCH)
    return (switch & 1) == (number >= switch >> 1)


cdef bint is_streamed(const Lane *lane) noexcept nogil:
    return lane.step >= TIMED and _past(lane.line, lane.line[PUBLISHED])


cdef inline void _switch(int64_t *line, bint past) noexcept nogil:
    """Request another kind, from the first chunk that the sender can write with it."""
    put(line + SWITCH, 2 * (line[CONSUMED] + line[SLOTS]) + past)


cdef inline void _record(int64_t *line, int64_t *least, int64_t number, int64_t nbytes, int64_t spent) noexcept nogil:
    """Record the time of a chunk of `nbytes` bytes in the least time per byte of its kind."""
    cdef int64_t cost = spent * TIMED // nbytes + 1, since = number - (peek(line + SWITCH) >> 1)
    least += _past(line, number)
    if 0 <= since < line[SLOTS]:
        return
    if least[0] and since != line[SLOTS]:
        cost = min(cost, least[0] + least[0] // FORGOTTEN)
    put(least, cost)


cdef inline bint _is_better(const int64_t *line, bint tried) noexcept nogil:
    """Whether to keep the tried kind, by the total time of writing and reading a chunk.

    Streaming must be clearly faster, because it takes memory bandwidth from other processes.
    """
    cdef int64_t new = line[READING + tried] + peek(line + PACKING + tried)
    cdef int64_t old = line[READING + (not tried)] + peek(line + PACKING + (not tried))
    return line[READING] and line[READING + 1] and 10 * new < (6 if tried else 14) * old


cdef void record_packing(Lane *lane, int64_t nbytes, int64_t spent) noexcept nogil:
    if nbytes >= TIMED and lane.step >= TIMED:
        _record(lane.line, lane.line + PACKING, lane.line[PUBLISHED], nbytes, spent)


cdef void record_reading(Lane *lane, int64_t nbytes, int64_t spent) noexcept nogil:
    cdef int64_t *line = lane.line
    cdef bint tried = line[SWITCH] & 1
    if nbytes < TIMED or line[STEP] < TIMED:
        return
    _record(line, line + READING, line[CONSUMED], nbytes, spent)
    line[LEFT] -= 1
    if line[LEFT] > 0:
        return
    line[TRIED] = not line[TRIED]
    if line[TRIED]:
        line[READING + (not tried)] = 0
        _switch(line, not tried)
        line[LEFT] = 2 * line[SLOTS] + SAMPLE
        return
    if _is_better(line, tried):
        line[PERIOD] = SHORTEST_PERIOD
    else:
        line[PERIOD] = min(max(2 * line[PERIOD], <int64_t> SHORTEST_PERIOD), <int64_t> LONGEST_PERIOD)
        _switch(line, not tried)
    line[LEFT] = line[PERIOD]


cdef void packed_to(Lane *lane, int64_t last) noexcept nogil:
    lane.done = last
    lane.chunks += 1
    put(lane.line + PUBLISHED, lane.line[PUBLISHED] + 1)


cdef bint has_arrived(const Progress *run, Lane *lane) noexcept nogil:
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
    cdef int64_t last, begun
    if not has_room(lane):
        return False
    last = end_of_piece(lane.load, lane.done, lane.step)
    begun = now() if lane.step >= TIMED else 0
    carry(lane.load, run.sources, run.targets, slot_of(lane), lane.done, last, is_streamed(lane))
    if begun:
        record_packing(lane, last - lane.done, now() - begun)
    packed_to(lane, last)
    return True


cdef bint unpack(Progress *run, Lane *lane) noexcept nogil:
    cdef char *chunk
    cdef int64_t begun
    if not has_arrived(run, lane):
        return False
    chunk = chunk_of(lane) + (lane.done - lane.begun)
    begun = now() if lane.until - lane.done >= TIMED else 0
    fetch(chunk, min(lane.until - lane.done, <int64_t> FETCHED))
    carry(lane.load, run.sources, run.targets, chunk, lane.done, lane.until, run.stream)
    if begun:
        record_reading(lane, lane.until - lane.done, now() - begun)
    unpacked_to(run, lane, lane.until)
    return True


cdef void copy_to(const Progress *run, Lane *lane, int64_t last) noexcept nogil:
    carry_together(lane.load, run.sources, run.targets, NULL, lane.done, last, run.stream)
    lane.done = last
