"""Edge colouring of a bipartite multigraph with as many colours as its maximum degree (Koenig; Berge, p. 238).

Edges are coloured one by one, trying colours from (left + right) on, which suffices for a complete graph. If the two ends have
no free colour in common, a chain of two alternating colours is swapped first; the two ends of the new edge are never on one
chain, since the graph is bipartite.
"""

from libc.stdint cimport int32_t, int64_t, uint64_t

import numpy as np

cdef extern from *:
    """
    #define lowest_bit(word) __builtin_ctzll(word)
    """
    int lowest_bit(uint64_t word) nogil


def colour_edges(const int64_t[::1] left, const int64_t[::1] right, int64_t lefts, int64_t rights, int64_t colours):
    """Assign a colour 0 <= colour < `colours` to each edge, different ones at a vertex; `colours` is at least the maximum degree.

    Returns
    -------
    int64 array
        Colours; -1 for an edge without one, because a vertex has more edges than there are colours.
    """
    cdef int64_t edges = left.shape[0], words = (colours + 63) // 64, e
    answer = np.full(edges, -1, np.int64)
    if not edges or colours < 1:
        return answer
    cdef int64_t[::1] colour = answer
    cdef int32_t[::1] at_left = np.full(lefts * colours, -1, np.int32)
    cdef int32_t[::1] at_right = np.full(rights * colours, -1, np.int32)
    cdef uint64_t[::1] full = np.full(words, 2**64 - 1, np.uint64)
    if colours % 64:
        full[words - 1] = (<uint64_t>1 << (colours % 64)) - 1
    cdef uint64_t[::1] free_left = np.tile(full, lefts)
    cdef uint64_t[::1] free_right = np.tile(full, rights)
    with nogil:
        for e in range(edges):
            if not _colour(e, left, right, colours, words, &colour[0], &at_left[0], &at_right[0],
                           &free_left[0], &free_right[0]):
                break
    return answer


def occurrences(const int64_t[::1] key, int64_t keys):
    """For each key, the number of equal keys before it; 0 <= key < `keys`."""
    cdef int64_t count = key.shape[0], i
    answer = np.empty(count, np.int64)
    cdef int64_t[::1] rank = answer, seen = np.zeros(keys, np.int64)
    with nogil:
        for i in range(count):
            rank[i] = seen[key[i]]
            seen[key[i]] += 1
    return answer


cdef bint _colour(int64_t e, const int64_t[::1] left, const int64_t[::1] right, int64_t colours, int64_t words,
                  int64_t *colour, int32_t *at_left, int32_t *at_right,
                  uint64_t *free_left, uint64_t *free_right) noexcept nogil:
    cdef int64_t u = left[e], v = right[e], w, i, free_u = -1, free_v = -1, start = (left[e] + right[e]) % colours
    cdef uint64_t common
    for i in range(words + 1):
        common = ~<uint64_t>0 << (start % 64) if i == 0 else ~<uint64_t>0
        w = (start // 64 + i) % words
        common &= free_left[u * words + w] & free_right[v * words + w]
        if common:
            free_u = 64 * w + lowest_bit(common)
            _put(e, u, v, free_u, colours, words, colour, at_left, at_right, free_left, free_right)
            return True
    for w in range(words):
        if free_u < 0 and free_left[u * words + w]:
            free_u = 64 * w + lowest_bit(free_left[u * words + w])
        if free_v < 0 and free_right[v * words + w]:
            free_v = 64 * w + lowest_bit(free_right[v * words + w])
    if free_u < 0 or free_v < 0:
        return False
    _swap(v, free_u, free_v, left, right, colours, words, colour, at_left, at_right, free_left, free_right)
    _put(e, u, v, free_u, colours, words, colour, at_left, at_right, free_left, free_right)
    return True


cdef void _put(int64_t e, int64_t u, int64_t v, int64_t c, int64_t colours, int64_t words, int64_t *colour,
               int32_t *at_left, int32_t *at_right, uint64_t *free_left, uint64_t *free_right) noexcept nogil:
    colour[e] = c
    at_left[u * colours + c] = <int32_t>e
    at_right[v * colours + c] = <int32_t>e
    free_left[u * words + c // 64] &= ~(<uint64_t>1 << (c % 64))
    free_right[v * words + c // 64] &= ~(<uint64_t>1 << (c % 64))


cdef void _swap(int64_t v, int64_t first, int64_t second, const int64_t[::1] left, const int64_t[::1] right,
                int64_t colours, int64_t words, int64_t *colour, int32_t *at_left, int32_t *at_right,
                uint64_t *free_left, uint64_t *free_right) noexcept nogil:
    """Swap colours `first` and `second` along the chain that starts at right vertex v with colour `first`."""
    cdef int64_t vertex = v, take = first, give = second, swap
    cdef int32_t e = at_right[v * colours + first], following
    cdef bint on_right = True
    at_right[v * colours + first] = -1
    free_right[v * words + first // 64] |= <uint64_t>1 << (first % 64)
    while e >= 0:
        # Edge e has colour `take` and gets `give`; its near end is `vertex`.
        if on_right:
            at_right[vertex * colours + give] = e
            free_right[vertex * words + give // 64] &= ~(<uint64_t>1 << (give % 64))
            vertex = left[e]
            following = at_left[vertex * colours + give]
            at_left[vertex * colours + give] = e
            free_left[vertex * words + give // 64] &= ~(<uint64_t>1 << (give % 64))
            at_left[vertex * colours + take] = -1
            free_left[vertex * words + take // 64] |= <uint64_t>1 << (take % 64)
        else:
            at_left[vertex * colours + give] = e
            free_left[vertex * words + give // 64] &= ~(<uint64_t>1 << (give % 64))
            vertex = right[e]
            following = at_right[vertex * colours + give]
            at_right[vertex * colours + give] = e
            free_right[vertex * words + give // 64] &= ~(<uint64_t>1 << (give % 64))
            at_right[vertex * colours + take] = -1
            free_right[vertex * words + take // 64] |= <uint64_t>1 << (take % 64)
        colour[e] = give
        on_right = not on_right
        swap = take
        take = give
        give = swap
        e = following
