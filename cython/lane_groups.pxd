# Lanes that share the columns of an array, and go column by column together.

from libc.stdint cimport int64_t

from .lanes cimport Group, Lane, Progress

# Put lanes that share columns, and a local copy of these columns, into groups; returns how many were made. End each of them.
cdef Py_ssize_t make_groups(Group *groups, Lane *lanes, Py_ssize_t count, Lane *copies, Py_ssize_t n_copies, bint sends,
                            int64_t shortest, bint stream) except -1

# Let the lanes go each alone.
cdef void end_group(Group *group) noexcept

# Whether there is such a group still, and all lanes have reached the same column.
cdef bint in_step(Group *group) noexcept nogil

# Publish the next chunks of a group, and copy what stays of their columns; False where that is not to be.
cdef bint pack_together(const Progress *run, Group *group, bint copying) noexcept nogil

# Take the columns that have come from all of a group; False if there are none.
cdef bint unpack_together(Progress *run, Group *group) noexcept nogil

# Whether all of its lanes have been moved.
cdef bint complete(const Group *group) noexcept nogil


cdef inline bint goes_alone(const Lane *lane) noexcept nogil:
    """Whether a lane need not wait for the others of its group: they are ahead of it, or it is in no column's beginning."""
    cdef const Group *group = lane.group
    return group == NULL or group.braid == NULL or lane.done < group.foremost * lane.column or lane.done % lane.column
