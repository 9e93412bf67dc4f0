"""Groups of lanes that share the columns of an array and advance together, column by column.

A group may include the local copy of these columns, which advances with the lanes.
"""

from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free

from .bundle cimport end_of_piece
from .interleave cimport Interleaving, make_interleaving, free_interleaving, lines_of, same_lines, move_interleaved, write_past
from .lanes cimport (
    FETCHED, chunk_of, copy_to, is_streamed, has_arrived, has_room, record_packing, record_reading, packed_to, parts_of, slot_of,
    unpacked_to,
)
from .moving cimport Job
from .ring cimport fetch, now

cdef enum:
    GROUPED = 64  # most lanes of a group, without the copy


cdef Py_ssize_t make_groups(Group *groups, Lane *lanes, Py_ssize_t count, Lane *copies, Py_ssize_t n_copies, bint sends,
                            int64_t shortest, bint stream) except -1:
    cdef Lane *members[GROUPED]
    cdef Lane *copy
    cdef Py_ssize_t first, k, size, n_groups = 0
    for first in range(count):
        if lanes[first].group != NULL or lanes[first].column == 0:
            continue
        size, copy = 0, NULL
        for k in range(first, count):
            if size < GROUPED and lanes[k].group == NULL and lanes[k].column and _together(lanes + first, lanes + k, sends):
                members[size] = lanes + k
                size += 1
        for k in range(n_copies if stream or size > 1 else 0):  # with one message in cache the local copy is faster alone
            if copies[k].group == NULL and _together(lanes + first, copies + k, sends):
                copy = copies + k
        if size and _make_group(groups + n_groups, members, size, copy, sends, shortest, stream):
            n_groups += 1
    return n_groups


cdef bint _together(const Lane *a, const Lane *b, bint by_source) noexcept:
    """Whether two lanes, each of one box, share the columns of an array."""
    return (
        a.load.count == b.load.count == 1 and a.load.sections.array == b.load.sections.array
        and same_lines(&a.load.sections.job, &b.load.sections.job, by_source)
    )


cdef bint _make_group(Group *group, Lane **lanes, Py_ssize_t size, Lane *copy, bint sends,
                      int64_t shortest, bint stream) except -1:
    """Group lanes that share columns, with a local copy or NULL; False if interleaving gains nothing."""
    cdef const Job *jobs[GROUPED + 1]
    cdef char past[GROUPED + 1]
    cdef Py_ssize_t k
    for k in range(size):
        jobs[k], past[k] = &lanes[k].load.sections.job, stream and not sends
    if copy != NULL:
        jobs[size], past[size] = &copy.load.sections.job, stream
    group.lanes = <Lane **> calloc(3 * size + 2, sizeof(void *))
    if group.lanes == NULL:
        raise MemoryError(f"no memory for a group of {size} messages")
    group.sources = <const char **> group.lanes + size
    group.targets = <char **> group.sources + size + 1
    group.interleaving = make_interleaving(jobs, past, size, sends, shortest)
    if copy != NULL:
        group.with_copy = make_interleaving(jobs, past, size + 1, sends, shortest)
    if group.interleaving == NULL and group.with_copy == NULL:
        end_group(group)
        return False
    group.size, group.sends = size, sends
    for k in range(size):
        group.lanes[k] = lanes[k]
        lanes[k].group = group
    if group.with_copy != NULL:
        group.copy = copy
        copy.group = group
    return True


cdef void end_group(Group *group) noexcept:
    cdef Py_ssize_t k
    if group == NULL:
        return
    for k in range(group.size):
        group.lanes[k].group = NULL
    if group.copy != NULL:
        group.copy.group = NULL
    free_interleaving(group.interleaving)
    free_interleaving(group.with_copy)
    free(group.lanes)
    group.size, group.copy, group.interleaving, group.with_copy, group.lanes = 0, NULL, NULL, NULL, NULL


cdef bint in_step(Group *group) noexcept nogil:
    cdef int64_t column
    cdef bint same = True
    cdef Py_ssize_t k
    if group.size == 0:
        return False
    column = group.foremost = group.lanes[0].done / group.lanes[0].column
    for k in range(group.size):
        same = same and group.lanes[k].done == column * group.lanes[k].column
        group.foremost = max(group.foremost, parts_of(group.lanes[k].done, group.lanes[k].column))
    return same


cdef bint pack_together(const Progress *run, Group *group, bint copying) noexcept nogil:
    cdef Lane *lane = group.lanes[0]
    cdef Interleaving *interleaving
    cdef int64_t first = lane.done / lane.column, last, begun = now(), spent, nbytes = 0
    cdef Py_ssize_t k
    for k in range(group.size):
        if not has_room(group.lanes[k]):
            return False
    last = end_of_piece(lane.load, lane.done, lane.step) / lane.column
    interleaving = _braid_from(run, group, first, copying)
    if interleaving == NULL:
        return False
    for k in range(group.size):
        lane = group.lanes[k]
        group.sources[k] = run.sources[lane.load.sections.array]
        group.targets[k] = slot_of(lane) - lane.done
        write_past(interleaving, k, is_streamed(lane))
        nbytes += last * lane.column - lane.done
    _weave(group, interleaving, first, last)
    spent = now() - begun
    for k in range(group.size):
        record_packing(group.lanes[k], nbytes, spent)
        packed_to(group.lanes[k], last * group.lanes[k].column)
    return True


cdef Interleaving *_braid_from(const Progress *run, Group *group, int64_t column, bint copying) noexcept nogil:
    """The interleaving that moves a group from a column on, with the local copy if that may go and is not ahead; or NULL."""
    cdef Lane *copy = group.copy
    if not copying or copy == NULL or copy.done > column * copy.column:
        return group.interleaving
    if copy.done < column * copy.column:
        copy_to(run, copy, column * copy.column)
    group.sources[group.size] = run.sources[copy.load.sections.array]
    group.targets[group.size] = run.targets[copy.load.sections.array]
    return group.with_copy


cdef void _weave(Group *group, Interleaving *interleaving, int64_t first, int64_t last) noexcept nogil:
    """Move columns of a group between its addresses."""
    move_interleaved(interleaving, group.sources, group.targets, first, last)
    if interleaving == group.with_copy:
        group.copy.done = last * group.copy.column


cdef bint unpack_together(Progress *run, Group *group) noexcept nogil:
    cdef Lane *lane
    cdef Interleaving *interleaving
    cdef int64_t first = group.lanes[0].done / group.lanes[0].column, last = lines_of(&group.lanes[0].load.sections.job)
    cdef int64_t begun, spent, nbytes = 0
    cdef Py_ssize_t k
    for k in range(group.size):
        lane = group.lanes[k]
        if lane.done == lane.load.size or not has_arrived(run, lane):
            return False
        last = min(last, lane.until / lane.column)
    if first >= last:
        group.foremost = first + 1  # chunks of less than a column
        return False
    interleaving = _braid_from(run, group, first, True)
    if interleaving == NULL:
        return False
    begun = now()
    for k in range(group.size):
        lane = group.lanes[k]
        nbytes += last * lane.column - lane.done
        group.sources[k] = chunk_of(lane) - lane.begun
        group.targets[k] = run.targets[lane.load.sections.array]
        fetch(group.sources[k] + lane.done, min(last * lane.column - lane.done, <int64_t> FETCHED / group.size))
    _weave(group, interleaving, first, last)
    spent = now() - begun
    for k in range(group.size):
        record_reading(group.lanes[k], nbytes, spent)
        unpacked_to(run, group.lanes[k], last * group.lanes[k].column)
    return True


cdef bint complete(const Group *group) noexcept nogil:
    cdef Py_ssize_t k
    for k in range(group.size):
        if group.lanes[k].done < group.lanes[k].load.size:
            return False
    return True
