# Groups of lanes that share the columns of an array and advance together.

from libc.stdint cimport int64_t

from .lanes cimport Group, Lane, Progress

# Group lanes that share columns, with the local copy of these columns; returns the number of groups. `end_group` ends each.
cdef Py_ssize_t make_groups(Group *groups, Lane *lanes, Py_ssize_t count, Lane *copies, Py_ssize_t n_copies, bint sends,
                            int64_t shortest, bint stream) except -1

# Separate the lanes of a group.
cdef void end_group(Group *group) noexcept

# Whether the group exists and all its lanes have reached the same column.
cdef bint in_step(Group *group) noexcept nogil

# Pack and publish the next chunks of a group, with the local copy of their columns; False if that is not possible.
cdef bint pack_together(const Progress *run, Group *group, bint copying) noexcept nogil

# Unpack the columns that have arrived in all lanes of a group; False if there are none.
cdef bint unpack_together(Progress *run, Group *group) noexcept nogil

# Whether all lanes are complete.
cdef bint complete(const Group *group) noexcept nogil


cdef inline bint goes_alone(const Lane *lane) noexcept nogil:
    """Whether a lane need not wait for its group: the others are ahead, or it is inside a column."""
    cdef const Group *group = lane.group
    return group == NULL or group.interleaving == NULL or lane.done < group.foremost * lane.column or lane.done % lane.column
