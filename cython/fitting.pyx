"""Whether some edges of a bipartite graph fit into levels at all: an exact answer for few edges, by search.

Level l has room for so many edges of a vertex, and edge e may go into levels 0 to widest[e]: what is open to an edge is open to
every edge of smaller `widest` too, so at one vertex counting decides (Hall): of the edges that must be in the first levels there
may not be more than these have room for. The search puts the edge with fewest levels left into each of them, and gives up
after some number of nodes.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t

import numpy as np

FITS, TOO_MANY, UNKNOWN = 1, 0, -1

cdef enum:
    MANY = 1 << 30
    FEWER = 8  # times fewer nodes to see whether an edge matters


cdef struct Part:
    int64_t edges
    int64_t vertices
    int64_t levels
    const int64_t *end[2]
    const int64_t *widest
    uint8_t *present
    int64_t *level
    int64_t *first
    int32_t *room  # left at a vertex in a level
    int32_t *slack  # room in levels up to one, less the edges still to come that must be there
    int32_t *open  # levels that each edge can still be in; many where it is placed
    int32_t *at  # edges of each vertex, one vertex after another
    int32_t *start
    int64_t nodes


def fits(const int64_t[::1] left, const int64_t[::1] right, const int64_t[::1] widest, const int64_t[:, ::1] room,
         int64_t nodes, int64_t[::1] level):
    """Whether all edges fit: 1, 0 if not, -1 where the search gives up.

    Parameters
    ----------
    left, right : int64 array
        Ends of the edges, numbered together.
    widest : int64 array
        The last level that each may be in.
    room : int64 array
        Edges of each vertex (row) that each level (column) takes.
    nodes : int
        After so many the search gives up.
    level : int64 array
        Where each edge is tried first, -1 for the last level that is open to it; set to where each is, if they fit.
    """
    return _answers(left, right, widest, room, nodes, np.ones(left.shape[0], np.uint8), level, False)


def minimal(const int64_t[::1] left, const int64_t[::1] right, const int64_t[::1] widest, const int64_t[:, ::1] room,
            int64_t nodes):
    """Edges that do not fit, of which any one less do, or are not seen not to; parameters as for `fits`.

    Returns
    -------
    uint8 array
        1 for these edges; all zeros where the edges fit, or where the search gives up.
    """
    present = np.ones(left.shape[0], np.uint8)
    level = np.full(left.shape[0], -1, np.int64)
    if _answers(left, right, widest, room, nodes, present, level, True) != TOO_MANY:
        present[:] = 0
    return present


cdef int _answers(const int64_t[::1] left, const int64_t[::1] right, const int64_t[::1] widest, const int64_t[:, ::1] room,
                  int64_t nodes, uint8_t[::1] present, int64_t[::1] level, bint smallest) except -2:
    cdef int64_t e, cells = room.shape[0] * room.shape[1]
    cdef int answer
    cdef Part part
    part.edges, part.vertices, part.levels = left.shape[0], room.shape[0], room.shape[1]
    if not part.edges:
        return 1
    if not part.levels:
        return 0
    cdef int64_t[::1] first = np.array(level)
    cdef int32_t[::1] numbers = np.empty(2 * cells, np.int32)
    cdef int32_t[::1] lists = np.zeros(3 * part.edges + part.vertices + 2, np.int32)
    part.end[0], part.end[1], part.widest = &left[0], &right[0], &widest[0]
    part.present, part.level, part.first = &present[0], &level[0], &first[0]
    part.room, part.slack = &numbers[0], &numbers[cells]
    part.open, part.at, part.start = &lists[0], &lists[part.edges], &lists[3 * part.edges]
    with nogil:
        _list(&part)
        answer = _search(&part, &room[0, 0], nodes)
        if smallest and answer == 0:
            # The edges that come last are the farthest: they are the first to go.
            for e in range(part.edges - 1, -1, -1):
                part.present[e] = 0
                if _search(&part, &room[0, 0], nodes // FEWER) != 0:
                    part.present[e] = 1
    return answer


cdef void _list(Part *part) noexcept nogil:
    """The edges of each vertex."""
    cdef int64_t e, k, v
    for k in range(2):
        for e in range(part.edges):
            part.start[part.end[k][e] + 2] += 1
    for v in range(part.vertices):
        part.start[v + 2] += part.start[v + 1]
    for k in range(2):
        for e in range(part.edges):
            v = part.end[k][e] + 1
            part.at[part.start[v]] = <int32_t>e
            part.start[v] += 1


cdef int _search(Part *part, const int64_t *room, int64_t nodes) noexcept nogil:
    cdef int64_t v, k, e, l, sum_
    for v in range(part.vertices):
        sum_ = 0
        for l in range(part.levels):
            sum_ += room[v * part.levels + l]
            part.room[v * part.levels + l] = <int32_t>room[v * part.levels + l]
            part.slack[v * part.levels + l] = <int32_t>sum_
    for e in range(part.edges):
        part.level[e] = -1
        if part.present[e]:
            for k in range(2):
                v = part.end[k][e] * part.levels
                for l in range(part.widest[e], part.levels):
                    part.slack[v + l] -= 1
                    if part.slack[v + l] < 0:
                        return 0
    for e in range(part.edges):
        part.open[e] = _open(part, e)
    part.nodes = nodes
    return _placed(part)


cdef int _placed(Part *part) noexcept nogil:
    """Whether the edges that are left fit."""
    cdef int64_t e, a, first, best = -1, fewest = MANY
    cdef int answer
    if part.nodes <= 0:
        return -1
    part.nodes -= 1
    for e in range(part.edges):
        if part.open[e] < fewest:
            best, fewest = e, part.open[e]
            if fewest <= 1:
                break
    if fewest == 0:
        return 0
    if best < 0:
        return 1
    first = part.first[best]
    if 0 <= first <= part.widest[best] and _possible(part, best, first):
        answer = _tried(part, best, first)
        if answer != 0:
            return answer
    for a in range(part.widest[best], -1, -1):
        if a < part.widest[best] and not _spare(part, best, a):
            break
        if a != first and _has_room(part, best, a):
            answer = _tried(part, best, a)
            if answer != 0:
                return answer
    return 0


cdef int _tried(Part *part, int64_t e, int64_t a) noexcept nogil:
    """Whether the edges that are left fit with one of them in a level."""
    cdef int answer
    _put(part, e, a, 1)
    answer = _placed(part)
    if answer != 1:
        _put(part, e, a, -1)
    return answer


cdef bint _possible(Part *part, int64_t e, int64_t level) noexcept nogil:
    cdef int64_t a
    for a in range(level, part.widest[e]):
        if not _spare(part, e, a):
            return False
    return _has_room(part, e, level)


cdef int32_t _open(Part *part, int64_t e) noexcept nogil:
    """Number of levels that an edge can still be in; many where it is placed."""
    cdef int64_t a
    cdef int32_t number = 0
    if part.level[e] >= 0 or not part.present[e]:
        return MANY
    for a in range(part.widest[e], -1, -1):
        if a < part.widest[e] and not _spare(part, e, a):
            break
        number += _has_room(part, e, a)
    return number


cdef bint _has_room(Part *part, int64_t e, int64_t a) noexcept nogil:
    return part.room[part.end[0][e] * part.levels + a] > 0 and part.room[part.end[1][e] * part.levels + a] > 0


cdef bint _spare(Part *part, int64_t e, int64_t a) noexcept nogil:
    """Whether levels up to a can take an edge that need not be in them."""
    return part.slack[part.end[0][e] * part.levels + a] > 0 and part.slack[part.end[1][e] * part.levels + a] > 0


cdef void _put(Part *part, int64_t e, int64_t a, int32_t sign) noexcept nogil:
    """Put an edge into a level, or take it out again where `sign` is -1."""
    cdef int64_t k, l, v, i
    part.level[e] = a if sign > 0 else -1
    for k in range(2):
        v = part.end[k][e] * part.levels
        part.room[v + a] -= sign
        for l in range(a, part.widest[e]):
            part.slack[v + l] -= sign
    for k in range(2):
        v = part.end[k][e]
        for i in range(part.start[v], part.start[v + 1]):
            part.open[part.at[i]] = _open(part, part.at[i])
