"""Edges of a bipartite graph put into levels: groups of steps that cost the same, open to edges of that length or less.

A vertex may have as many edges in a level as the level has steps; by Koenig's theorem each level can then be coloured by
itself. Edges are placed longest first. If no open level has room at both ends, a path of edges that alternately move from level
A to B and from B to A makes room (an augmenting path of two b-matchings, by breadth-first search). Without such a path, the
costliest of the cheaper steps gets the cost of the edge.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

import numpy as np

cdef enum:
    OFTEN = 63  # edges, and searches, between two reads of the clock


cdef double now() noexcept nogil:
    cdef timespec at
    clock_gettime(CLOCK_MONOTONIC, &at)
    return at.tv_sec + 1e-9 * at.tv_nsec


cdef struct Side:
    const int64_t *end  # vertex of each edge
    int32_t *used  # edges of a vertex in a level
    int32_t *first  # of the list of these edges, -1 at its end
    int32_t *after
    int32_t *before
    int64_t *seen  # number of the last search that reached a vertex
    int32_t *came  # edge by which it did


cdef struct State:
    int64_t levels
    const int64_t *length
    int64_t *level
    int64_t *cost
    int64_t *steps
    Side[2] side
    int64_t search
    int32_t *queue
    double deadline
    bint late


def nested_levels(const int64_t[::1] left, const int64_t[::1] right, const int64_t[::1] length, int64_t lefts,
                  int64_t rights, const int64_t[::1] preferred, const int64_t[::1] cost, int64_t[::1] steps, int64_t tries, double deadline, uint8_t[::1] raised, bint firm):
    """Assign a level to each edge, such that no vertex has more edges in a level than the level has steps.

    Parameters
    ----------
    left, right, length : int64 array
        Ends and lengths of the edges, in descending order of lengths.
    lefts, rights : int
        Number of vertices on either side.
    preferred : int64 array
        The preferred level of each edge, of its length or more.
    cost : int64 array
        Cost of a step of each level, strictly descending; every length is among them.
    steps : int64 array
        Steps of each level, changed in place: steps are moved to costlier levels, or added, where there is no room.
    tries : int
        Most pairs of levels that are searched for a path, for one edge.
    deadline : float
        End of searches, on the clock of `time.monotonic`; later edges take steps of their own.
    raised : uint8 array
        Set to 1 for edges for which a step was moved or added.
    firm : bool
        Whether to stop at the first such edge, which is marked and has no level, without a change of steps.

    Returns
    -------
    int64 array
        Levels.
    """
    cdef int64_t edges = left.shape[0], levels = cost.shape[0], e, open_ = 0, k
    answer = np.full(edges, -1, np.int64)
    if not edges:
        return answer
    cdef int64_t[::1] level = answer
    costs = np.array(cost)
    cdef int64_t[::1] own_cost = costs
    cdef int32_t[:, ::1] of_left = np.full((2, lefts * levels), -1, np.int32)
    cdef int32_t[:, ::1] of_right = np.full((2, rights * levels), -1, np.int32)
    cdef int32_t[:, ::1] links = np.empty((4, edges), np.int32)
    cdef int64_t[::1] seen_left = np.zeros(lefts, np.int64), seen_right = np.zeros(rights, np.int64)
    cdef int32_t[::1] came_left = np.zeros(lefts, np.int32), came_right = np.zeros(rights, np.int32)
    cdef int32_t[::1] queue = np.zeros(lefts + rights, np.int32)
    of_left[0, :] = 0
    of_right[0, :] = 0
    cdef State state
    state.levels, state.length, state.level = levels, &length[0], &level[0]
    state.cost, state.steps, state.search, state.queue = &own_cost[0], &steps[0], 0, &queue[0]
    state.deadline, state.late = deadline, False
    state.side[0].end, state.side[0].used, state.side[0].first = &left[0], &of_left[0, 0], &of_left[1, 0]
    state.side[1].end, state.side[1].used, state.side[1].first = &right[0], &of_right[0, 0], &of_right[1, 0]
    for k in range(2):
        state.side[k].after, state.side[k].before = &links[2 * k, 0], &links[2 * k + 1, 0]
    state.side[0].seen, state.side[0].came = &seen_left[0], &came_left[0]
    state.side[1].seen, state.side[1].came = &seen_right[0], &came_right[0]
    with nogil:
        for e in range(edges):
            while open_ < levels and own_cost[open_] >= length[e]:
                open_ += 1
            if e & OFTEN == 0 and now() > deadline:
                state.late = True
            if not _place(<int32_t>e, preferred[e], open_, tries, &state):
                raised[e] = True
                if firm:
                    break
                _raise_step(open_ - 1, &state)
                _put(<int32_t>e, open_ - 1, &state)
    return answer


cdef void _raise_step(int64_t level, State *state) noexcept nogil:
    """Give a level one more step: the costliest of the cheaper steps, which have no edges yet; else a new one."""
    cdef int64_t k
    state.steps[level] += 1
    for k in range(level + 1, state.levels):
        if state.steps[k]:
            state.steps[k] -= 1
            return


cdef bint _place(int32_t e, int64_t preferred, int64_t open_, int64_t tries, State *state) noexcept nogil:
    cdef int64_t a, b, levels = state.levels
    cdef int32_t *used_u = state.side[0].used + state.side[0].end[e] * levels
    cdef int32_t *used_v = state.side[1].used + state.side[1].end[e] * levels
    if used_u[preferred] < state.steps[preferred] and used_v[preferred] < state.steps[preferred]:
        _put(e, preferred, state)
        return True
    for a in range(open_):
        if used_u[a] < state.steps[a] and used_v[a] < state.steps[a]:
            _put(e, a, state)
            return True
    if state.late:
        return False
    for a in range(open_ - 1, -1, -1):
        if used_u[a] >= state.steps[a]:
            continue
        for b in range(open_ - 1, -1, -1):
            if used_v[b] >= state.steps[b]:
                continue
            if _room(e, 1, a, b, state):
                _put(e, a, state)
                return True
            if _room(e, 0, b, a, state):
                _put(e, b, state)
                return True
            tries -= 1
            if tries <= 0:
                return False
    return False


cdef bint _room(int32_t e, int64_t start, int64_t full, int64_t other, State *state) noexcept nogil:
    """Whether the end of e on side `start` gets room in level `full` by a path of edges between it and `other`.

    At a vertex of the side `start` an edge leaves `full` for `other`, at one of the other side another comes back.
    """
    cdef int64_t vertex, there, k, here, gives, takes, head = 0, tail = 0, levels = state.levels
    cdef int32_t f
    state.search += 1
    if state.search & OFTEN == 0 and now() > state.deadline:
        state.late = True
    if state.late:
        return False
    vertex = state.side[start].end[e]
    state.side[start].seen[vertex] = state.search
    state.side[start].came[vertex] = -1
    state.queue[tail] = <int32_t>(2 * vertex + start)
    tail += 1
    while head < tail:
        k = state.queue[head]
        head += 1
        here, vertex = k & 1, k >> 1
        gives, takes = (full, other) if here == start else (other, full)
        f = state.side[here].first[vertex * levels + gives]
        while f >= 0:
            if state.length[f] <= state.cost[takes]:
                there = state.side[1 - here].end[f]
                if state.side[1 - here].seen[there] != state.search:
                    state.side[1 - here].seen[there] = state.search
                    state.side[1 - here].came[there] = f
                    if state.side[1 - here].used[there * levels + takes] < state.steps[takes]:
                        _move(there, 1 - here, takes, gives, state)
                        return True
                    state.queue[tail] = <int32_t>(2 * there + 1 - here)
                    tail += 1
            f = state.side[here].after[f]
    return False


cdef void _move(int64_t vertex, int64_t side, int64_t takes, int64_t gives, State *state) noexcept nogil:
    """Move the edges of a path, from its end back to its beginning."""
    cdef int64_t swap
    cdef int32_t f = state.side[side].came[vertex]
    while f >= 0:
        _take(f, state)
        _put(f, takes, state)
        side = 1 - side
        vertex = state.side[side].end[f]
        f = state.side[side].came[vertex]
        swap, takes = takes, gives
        gives = swap


cdef void _put(int32_t e, int64_t level, State *state) noexcept nogil:
    cdef int64_t k, place
    cdef Side *side
    state.level[e] = level
    for k in range(2):
        side = &state.side[k]
        place = side.end[e] * state.levels + level
        side.used[place] += 1
        side.before[e] = -1
        side.after[e] = side.first[place]
        if side.first[place] >= 0:
            side.before[side.first[place]] = e
        side.first[place] = e


cdef void _take(int32_t e, State *state) noexcept nogil:
    cdef int64_t k, place
    cdef Side *side
    for k in range(2):
        side = &state.side[k]
        place = side.end[e] * state.levels + state.level[e]
        side.used[place] -= 1
        if side.before[e] >= 0:
            side.after[side.before[e]] = side.after[e]
        else:
            side.first[place] = side.after[e]
        if side.after[e] >= 0:
            side.before[side.after[e]] = side.before[e]
