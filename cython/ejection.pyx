"""Edges of a bipartite graph put into levels, with others put out of theirs where there is no room.

As in `nested`, level l has room for so many edges of a vertex, and edge e may go into levels 0 to widest[e]; paths of edges that
alternately leave one level for another make room. An edge for which there is none goes where it puts out least: at most one
edge at each end, best one that has room elsewhere at once. Edges that were put out are put in again in the same way, and may not go back at once (a tabu search of
partial colourings: Bloechliger and Zufferey, 2008).
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

import numpy as np

cdef enum:
    OFTEN = 255  # moves between two looks at the clock
    WORD = 64
    TENURE = 12  # moves for which an edge does not go back
    VARYING = 12
    STAYS = 6  # moves for which it is not put out
    FAR = 8  # what putting out an edge costs that has no room elsewhere; 1 for the others
    MOST_OUT = 400
    PATHS = 64  # pairs of levels between which room is sought for an edge
    PATHS_BACK = 6  # and for one that was put out
    NEVER = 1 << 30


cdef double now() noexcept nogil:
    cdef timespec at
    clock_gettime(CLOCK_MONOTONIC, &at)
    return at.tv_sec + 1e-9 * at.tv_nsec


cdef struct State:
    int64_t levels
    int64_t words
    const int64_t *end[2]
    const int64_t *widest
    const int64_t *steps
    int64_t *level
    int32_t *used[2]  # edges of a vertex in a level
    int32_t *first[2]  # of the list of these edges, -1 at its end
    int32_t *after[2]
    int32_t *before[2]
    uint64_t *free[2]  # levels with room at a vertex, a bit each
    uint64_t *open  # levels that are open to edges of each `widest`
    int32_t *left_level  # where an edge was put out
    int64_t *until  # move up to which it does not go back there
    int64_t *stays  # move up to which it is not put out
    uint64_t random
    int64_t move
    int64_t *seen[2]  # number of the search that has seen a vertex
    int32_t *came[2]  # edge by which it did
    int64_t search
    int32_t *queue


def ejected(const int64_t[::1] left, const int64_t[::1] right, int64_t lefts, int64_t rights, const int64_t[::1] widest,
            const int64_t[::1] steps, int64_t[::1] level, int64_t moves, int64_t seed, double deadline):
    """Put edges without a level into one, in their order, until there is no room for an edge.

    Parameters
    ----------
    left, right : int64 array
        Ends of the edges, each side numbered on its own.
    lefts, rights : int
        Number of vertices on either side.
    widest : int64 array
        The last level that each may be in.
    steps : int64 array
        Edges of a vertex that each level takes.
    level : int64 array
        Of each edge, -1 for none. Changed. Edges that no longer have room in theirs count as without one.
    moves : int
        For one edge, and those put out for it.
    seed : int
        Of the choice among what is equally good.
    deadline : float
        When to stop, on the clock of `time.monotonic`.

    Returns
    -------
    int
        The edge for which there was no room, -1 if there is none. It and the edges after it without a level keep -1,
        as do those that were put out for it.
    """
    cdef int64_t edges = left.shape[0], levels = steps.shape[0], e, k, failed = -1, words = (levels + WORD - 1) // WORD
    if not edges:
        return -1
    cdef State state
    cdef int64_t sides = lefts + rights
    cdef int32_t[::1] used = np.zeros(sides * levels, np.int32)
    cdef int32_t[::1] first = np.full(sides * levels, -1, np.int32)
    cdef int32_t[:, ::1] links = np.empty((4, edges), np.int32)
    cdef uint64_t[::1] free = np.zeros(sides * words, np.uint64)
    cdef uint64_t[::1] open_ = np.zeros(levels * words, np.uint64)
    cdef int32_t[::1] left_level = np.full(edges, -1, np.int32)
    cdef int64_t[:, ::1] times = np.zeros((2, edges), np.int64)
    cdef int64_t[::1] seen = np.zeros(sides, np.int64)
    cdef int32_t[::1] came = np.zeros(2 * sides, np.int32)
    state.levels, state.words = levels, words
    state.seen[0], state.seen[1], state.came[0], state.came[1] = &seen[0], &seen[lefts], &came[0], &came[lefts]
    state.search, state.queue = 0, &came[sides]
    state.end[0], state.end[1], state.widest = &left[0], &right[0], &widest[0]
    state.steps, state.level = &steps[0], &level[0]
    state.used[0], state.used[1] = &used[0], &used[lefts * levels]
    state.first[0], state.first[1] = &first[0], &first[lefts * levels]
    state.free[0], state.free[1] = &free[0], &free[lefts * words]
    for k in range(2):
        state.after[k], state.before[k] = &links[2 * k, 0], &links[2 * k + 1, 0]
    state.open, state.left_level = &open_[0], &left_level[0]
    state.until, state.stays = &times[0, 0], &times[1, 0]
    state.random, state.move = <uint64_t>(2 * seed + 1) * 0x9E3779B97F4A7C15ull, 0
    with nogil:
        _begin(&state, sides, edges)
        for e in range(edges):
            if level[e] < 0 and not _inserted(&state, <int32_t>e, moves, deadline):
                failed = e
                break
    return failed


cdef void _begin(State *state, int64_t sides, int64_t edges) noexcept nogil:
    """Room in all levels, then the edges that have a level where there still is room."""
    cdef int64_t v, l, e, here
    for l in range(state.levels):
        for here in range(l, state.levels):
            state.open[here * state.words + l // WORD] |= (<uint64_t>1) << (l % WORD)
        if state.steps[l] > 0:
            for v in range(sides):
                state.free[0][v * state.words + l // WORD] |= (<uint64_t>1) << (l % WORD)
    for e in range(edges):
        l = state.level[e]
        state.level[e] = -1
        if 0 <= l <= state.widest[e] and _has_room(state, 0, e, l) and _has_room(state, 1, e, l):
            _put(state, <int32_t>e, l)


cdef bint _inserted(State *state, int32_t edge, int64_t moves, double deadline) noexcept nogil:
    """Whether there is room for an edge, and for all that are put out for it."""
    cdef int32_t[MOST_OUT] out
    cdef int32_t[2] goes
    cdef int64_t waiting = 1, place, l, k
    cdef int32_t e
    out[0] = edge
    while waiting:
        place = <int64_t>(_random(state) % <uint64_t>waiting)
        e = out[place]
        waiting -= 1
        out[place] = out[waiting]
        l = _common(state, e)
        if l >= 0:
            _put(state, e, l)
            continue
        if _by_path(state, e, PATHS if e == edge else PATHS_BACK):
            continue
        moves -= 1
        state.move += 1
        if moves < 0 or waiting + 2 > MOST_OUT or (state.move & OFTEN == 0 and now() > deadline):
            return False
        l = _cheapest(state, e, goes)
        if l < 0:
            out[waiting] = e
            waiting += 1
            continue
        for k in range(2):
            if goes[k] >= 0:
                _take(state, goes[k])
                state.left_level[goes[k]] = <int32_t>l
                state.until[goes[k]] = state.move + TENURE + <int64_t>(_random(state) % VARYING)
                out[waiting] = goes[k]
                waiting += 1
        _put(state, e, l)
        state.stays[e] = state.move + STAYS
    return True


cdef int64_t _common(State *state, int32_t e) noexcept nogil:
    """The cheapest open level with room at both ends of an edge; -1 if there is none."""
    cdef int64_t w
    cdef uint64_t both
    cdef uint64_t *first = state.free[0] + state.end[0][e] * state.words
    cdef uint64_t *second = state.free[1] + state.end[1][e] * state.words
    cdef uint64_t *open_ = state.open + state.widest[e] * state.words
    for w in range(state.words - 1, -1, -1):
        both = first[w] & second[w] & open_[w]
        if both:
            return w * WORD + _highest(both)
    return -1


cdef bint _by_path(State *state, int32_t e, int64_t tries) noexcept nogil:
    """Whether an edge is put where a path makes room at one end: between a level with room at one and one at the other."""
    cdef int64_t a, b
    for a in range(state.widest[e], -1, -1):
        if not _has_room(state, 0, e, a):
            continue
        for b in range(state.widest[e], -1, -1):
            if not _has_room(state, 1, e, b):
                continue
            if _room(state, e, 1, a, b):
                _put(state, e, a)
                return True
            if _room(state, e, 0, b, a):
                _put(state, e, b)
                return True
            tries -= 1
            if tries <= 0:
                return False
    return False


cdef bint _room(State *state, int32_t e, int64_t start, int64_t full, int64_t other) noexcept nogil:
    """Whether the end of e on side `start` gets room in level `full`, as in `nested`."""
    cdef int64_t vertex = state.end[start][e], there, k, here, gives, takes, head = 0, tail = 1, levels = state.levels
    cdef int32_t f
    state.search += 1
    state.seen[start][vertex], state.came[start][vertex] = state.search, -1
    state.queue[0] = <int32_t>(2 * vertex + start)
    while head < tail:
        k = state.queue[head]
        head += 1
        here, vertex = k & 1, k >> 1
        gives, takes = (full, other) if here == start else (other, full)
        f = state.first[here][vertex * levels + gives]
        while f >= 0:
            if takes <= state.widest[f]:
                there = state.end[1 - here][f]
                if state.seen[1 - here][there] != state.search:
                    state.seen[1 - here][there], state.came[1 - here][there] = state.search, f
                    if _has_room(state, 1 - here, f, takes):
                        _move(state, there, 1 - here, takes, gives)
                        return True
                    state.queue[tail] = <int32_t>(2 * there + 1 - here)
                    tail += 1
            f = state.after[here][f]
    return False


cdef void _move(State *state, int64_t vertex, int64_t side, int64_t takes, int64_t gives) noexcept nogil:
    """Move the edges of a path, from its end back to its beginning."""
    cdef int64_t swap
    cdef int32_t f = state.came[side][vertex]
    while f >= 0:
        _take(state, f)
        _put(state, f, takes)
        side = 1 - side
        vertex = state.end[side][f]
        f = state.came[side][vertex]
        swap, takes = takes, gives
        gives = swap


cdef int64_t _highest(uint64_t bits) noexcept nogil:
    cdef int64_t place = 0, shift = 32
    while shift:
        if bits >> (place + shift):
            place += shift
        shift >>= 1
    return place


cdef int64_t _cheapest(State *state, int32_t e, int32_t *goes) noexcept nogil:
    """The open level where an edge puts out what costs least, and the edges that are put out at either end, -1 for none."""
    cdef int64_t l, k, price, cost, best = NEVER, found = -1
    cdef uint64_t ties = 0
    cdef int32_t[2] some
    for l in range(state.widest[e], -1, -1):
        if not state.steps[l] or (state.left_level[e] == l and state.until[e] > state.move):
            continue
        price = 0
        for k in range(2):
            some[k] = -1
            if not _has_room(state, k, e, l):
                cost = _put_out(state, k, e, l, &some[k])
                price += cost
                if some[k] < 0 or price > best:
                    price = NEVER
                    break
        if price >= NEVER:
            continue
        if price == best:
            ties += 1
            if _random(state) % (ties + 1):
                continue
        elif price < best:
            ties = 0
        best, found, goes[0], goes[1] = price, l, some[0], some[1]
    return found


cdef int64_t _put_out(State *state, int64_t k, int32_t e, int64_t l, int32_t *goes) noexcept nogil:
    """What it costs to put out an edge at one end of another, and which."""
    cdef int64_t cost, best = NEVER
    cdef uint64_t ties = 0
    cdef int32_t f = state.first[k][state.end[k][e] * state.levels + l]
    while f >= 0:
        if state.stays[f] <= state.move:
            cost = 1 if _common(state, f) >= 0 else FAR
            if cost == best:
                ties += 1
            elif cost < best:
                ties = 0
            if cost < best or (cost == best and _random(state) % (ties + 1) == 0):
                best = cost
                goes[0] = f
        f = state.after[k][f]
    return best


cdef uint64_t _random(State *state) noexcept nogil:
    """Xorshift (Marsaglia, 2003)."""
    state.random ^= state.random << 13
    state.random ^= state.random >> 7
    state.random ^= state.random << 17
    return state.random >> 11


cdef bint _has_room(State *state, int64_t k, int64_t e, int64_t l) noexcept nogil:
    return (state.free[k][state.end[k][e] * state.words + l // WORD] >> (l % WORD)) & 1


cdef void _put(State *state, int32_t e, int64_t l) noexcept nogil:
    cdef int64_t k, v, place
    state.level[e] = l
    for k in range(2):
        v = state.end[k][e]
        place = v * state.levels + l
        state.used[k][place] += 1
        if state.used[k][place] >= state.steps[l]:
            state.free[k][v * state.words + l // WORD] &= ~((<uint64_t>1) << (l % WORD))
        state.before[k][e] = -1
        state.after[k][e] = state.first[k][place]
        if state.first[k][place] >= 0:
            state.before[k][state.first[k][place]] = e
        state.first[k][place] = e


cdef void _take(State *state, int32_t e) noexcept nogil:
    cdef int64_t k, v, place, l = state.level[e]
    state.level[e] = -1
    for k in range(2):
        v = state.end[k][e]
        place = v * state.levels + l
        state.used[k][place] -= 1
        if state.used[k][place] < state.steps[l]:  # along a path an edge comes before the other leaves
            state.free[k][v * state.words + l // WORD] |= (<uint64_t>1) << (l % WORD)
        if state.before[k][e] >= 0:
            state.after[k][state.before[k][e]] = state.after[k][e]
        else:
            state.first[k][place] = state.after[k][e]
        if state.after[k][e] >= 0:
            state.before[k][state.after[k][e]] = state.before[k][e]
