/* Moves between crossing lines of source and target: squares, and streamed cache lines. */
#ifndef PYSCALAPACK_REDIST_CROSSING
#define PYSCALAPACK_REDIST_CROSSING

#include "squares.h"

/* Whether elements of that size are transposed in squares of 8 by 8. */
static inline int in_squares(ptrdiff_t item) { return item == 8 || item == 4 || item == 2 || item == 1; }

#if defined(__SSE2__)
/* Squares of 8 by 8 elements whose columns are dense in the target and whose rows are in the source. */
static inline void transpose_8(char *d, const ptrdiff_t *to1, const char *s, const ptrdiff_t *from0)
{
    int i, j;
    for (i = 0; i < 8; i++)  /* the next squares of these rows: no prefetcher follows so many lines */
        __builtin_prefetch(s + from0[i] + 64);
    for (i = 0; i < 8; i += 2)
        for (j = 0; j < 8; j += 2) {
            const __m128i a = _mm_loadu_si128((const __m128i *)(s + from0[i] + 8 * j));
            const __m128i b = _mm_loadu_si128((const __m128i *)(s + from0[i + 1] + 8 * j));
            _mm_storeu_si128((__m128i *)(d + to1[j] + 8 * i), _mm_unpacklo_epi64(a, b));
            _mm_storeu_si128((__m128i *)(d + to1[j + 1] + 8 * i), _mm_unpackhi_epi64(a, b));
        }
}

static inline void transpose_4(char *d, const ptrdiff_t *to1, const char *s, const ptrdiff_t *from0)
{
    int i, j;
    for (i = 0; i < 8; i += 4)
        for (j = 0; j < 8; j += 4) {
            const __m128i a = _mm_loadu_si128((const __m128i *)(s + from0[i] + 4 * j));
            const __m128i b = _mm_loadu_si128((const __m128i *)(s + from0[i + 1] + 4 * j));
            const __m128i c = _mm_loadu_si128((const __m128i *)(s + from0[i + 2] + 4 * j));
            const __m128i e = _mm_loadu_si128((const __m128i *)(s + from0[i + 3] + 4 * j));
            const __m128i ab = _mm_unpacklo_epi32(a, b), ce = _mm_unpacklo_epi32(c, e);
            const __m128i AB = _mm_unpackhi_epi32(a, b), CE = _mm_unpackhi_epi32(c, e);
            _mm_storeu_si128((__m128i *)(d + to1[j] + 4 * i), _mm_unpacklo_epi64(ab, ce));
            _mm_storeu_si128((__m128i *)(d + to1[j + 1] + 4 * i), _mm_unpackhi_epi64(ab, ce));
            _mm_storeu_si128((__m128i *)(d + to1[j + 2] + 4 * i), _mm_unpacklo_epi64(AB, CE));
            _mm_storeu_si128((__m128i *)(d + to1[j + 3] + 4 * i), _mm_unpackhi_epi64(AB, CE));
        }
}

/* Pairs of rows, then pairs of pairs, and so on: after three steps a register has one column, or two of single bytes. */
static inline void transpose_2(char *d, const ptrdiff_t *to1, const char *s, const ptrdiff_t *from0)
{
    __m128i r[8], low[4], high[4];
    int i, half;
    for (i = 0; i < 8; i++)
        r[i] = _mm_loadu_si128((const __m128i *)(s + from0[i]));
    for (i = 0; i < 4; i++) {
        low[i] = _mm_unpacklo_epi16(r[2 * i], r[2 * i + 1]);
        high[i] = _mm_unpackhi_epi16(r[2 * i], r[2 * i + 1]);
    }
    for (half = 0; half < 2; half++) {
        const __m128i *p = half ? high : low;
        const __m128i a = _mm_unpacklo_epi32(p[0], p[1]), b = _mm_unpacklo_epi32(p[2], p[3]);
        const __m128i c = _mm_unpackhi_epi32(p[0], p[1]), e = _mm_unpackhi_epi32(p[2], p[3]);
        _mm_storeu_si128((__m128i *)(d + to1[4 * half]), _mm_unpacklo_epi64(a, b));
        _mm_storeu_si128((__m128i *)(d + to1[4 * half + 1]), _mm_unpackhi_epi64(a, b));
        _mm_storeu_si128((__m128i *)(d + to1[4 * half + 2]), _mm_unpacklo_epi64(c, e));
        _mm_storeu_si128((__m128i *)(d + to1[4 * half + 3]), _mm_unpackhi_epi64(c, e));
    }
}

static inline void transpose_1(char *d, const ptrdiff_t *to1, const char *s, const ptrdiff_t *from0)
{
    __m128i r[8], p[4], both[4];
    int i;
    for (i = 0; i < 8; i++)
        r[i] = _mm_loadl_epi64((const __m128i *)(s + from0[i]));
    for (i = 0; i < 4; i++)
        p[i] = _mm_unpacklo_epi8(r[2 * i], r[2 * i + 1]);
    for (i = 0; i < 2; i++) {
        const __m128i a = i ? _mm_unpackhi_epi16(p[0], p[1]) : _mm_unpacklo_epi16(p[0], p[1]);
        const __m128i b = i ? _mm_unpackhi_epi16(p[2], p[3]) : _mm_unpacklo_epi16(p[2], p[3]);
        both[2 * i] = _mm_unpacklo_epi32(a, b);
        both[2 * i + 1] = _mm_unpackhi_epi32(a, b);
    }
    for (i = 0; i < 4; i++) {
        _mm_storel_epi64((__m128i *)(d + to1[2 * i]), both[i]);
        _mm_storel_epi64((__m128i *)(d + to1[2 * i + 1]), _mm_unpackhi_epi64(both[i], both[i]));
    }
}

static inline void transpose_square(char *d, const ptrdiff_t *to1, const char *s, const ptrdiff_t *from0, ptrdiff_t item)
{
    switch (item) {
    case 8: transpose_8(d, to1, s, from0); break;
    case 4: transpose_4(d, to1, s, from0); break;
    case 2: transpose_2(d, to1, s, from0); break;
    default: transpose_1(d, to1, s, from0); break;
    }
}

/* Places ascend by at least an element, so their span shows whether they are dense. */
#define DENSE(PLACES) ((PLACES)[7] - (PLACES)[0] == 7 * item)
static inline int transposed_square(char *d, const ptrdiff_t *to0, const ptrdiff_t *to1, const char *s, const ptrdiff_t *from0,
                             const ptrdiff_t *from1, ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t item)
{
    if (rows != 8 || columns != 8 || !in_squares(item))
        return 0;
    if (DENSE(to0) && DENSE(from1))
        transpose_square(d + to0[0], to1, s + from1[0], from0, item);
    else if (DENSE(to1) && DENSE(from0))
        transpose_square(d + to1[0], to0, s + from0[0], from1, item);
    else
        return 0;
    return 1;
}

enum { LINES_AHEAD = 8 };  /* cache lines by which a line of the source is fetched ahead: no prefetcher knows the next run */

/* Prefetch (k, j + distance) of two lists of places; beyond the end, a place of the next `step` lines. */
INLINE void fetch_ahead(const char *s, const ptrdiff_t *from0, ptrdiff_t k, ptrdiff_t rows, ptrdiff_t step, const ptrdiff_t *from1, ptrdiff_t j,
                        ptrdiff_t columns, ptrdiff_t distance)
{
    j += distance;
    if (j >= columns) {
        j = (j - columns) % columns;
        k += step;
    }
    if (k < rows)
        __builtin_prefetch(s + from0[k] + from1[j]);
}

/* A cache line of a line of the target. Incomplete ones, and elements of 4 bytes, use ordinary stores. */
INLINE void stream_line(char *to, const char *from, const ptrdiff_t *from0, ptrdiff_t first, ptrdiff_t rows, ptrdiff_t item)
{
    const ptrdiff_t last = first + 64 / item;
    ptrdiff_t i;
    if (first < 0 || last > rows || item == 4)
        for (i = first < 0 ? 0 : first; i < last && i < rows; i++)
            memcpy(to + i * item, from + from0[i], item);
    else if (item == 8)
        for (i = first; i < last; i += 2)
            _mm_stream_pd((double *)(to + i * item), _mm_loadh_pd(_mm_load_sd((const double *)(from + from0[i])), (const double *)(from + from0[i + 1])));
    else
        for (i = first; i < last; i++)
            _mm_stream_si128((__m128i *)(to + i * item), _mm_loadu_si128((const __m128i *)(from + from0[i])));
}

/* Whole cache lines of several lines of the target, gathered from as many lines of the source as each has elements, of 8 or 16 bytes.
 * Each line of the target may begin anywhere in a cache line. */
INLINE void stream_gathered(char *d, const ptrdiff_t *to1, const char *s, const ptrdiff_t *from0, const ptrdiff_t *from1, ptrdiff_t rows,
                            ptrdiff_t columns, ptrdiff_t item)
{
    const ptrdiff_t whole = 64 / item;
    ptrdiff_t j, k;
    for (k = 0; k < rows; k += whole)
        for (j = 0; j < columns; j++) {
            char *const to = d + to1[j];
            const ptrdiff_t before = (ptrdiff_t)(-(uintptr_t)to & 63) / item;
            fetch_ahead(s, from0, k + j % whole, rows, whole, from1, j, columns, LINES_AHEAD * whole);
            if (k == 0 && before)
                stream_line(to, s + from1[j], from0, before - whole, rows, item);
            stream_line(to, s + from1[j], from0, k + before, rows, item);
        }
}

/* The element of a line of the target with which a cache line begins, the first or one before it. */
INLINE ptrdiff_t first_line(const char *line, ptrdiff_t item)
{
    const ptrdiff_t before = (ptrdiff_t)(-(uintptr_t)line & 63) / item;
    return before ? before - 64 / item : 0;
}

/* Lines of the target at this distance, or a multiple, conflict unless several cache lines of each are written in a row. */
enum { FAR = 512, LINES_TOGETHER = 2 };

/* Lines of the target that begin in one place to a cache line, of elements of 4 or 8 bytes. Squares of whole cache lines are transposed in the
 * first cache: source lines far apart by a power of two would drive each other out of it if only a few elements of each were read at a time. */
INLINE void stream_squares(char *d, const ptrdiff_t *to1, const char *s, const ptrdiff_t *from0, const ptrdiff_t *from1, ptrdiff_t rows,
                           ptrdiff_t columns, ptrdiff_t item)
{
    const ptrdiff_t side = 64 / item;
    const int wide = is_wide();
    char square[LARGEST_SQUARE] __attribute__((aligned(64)));
    const ptrdiff_t together = columns > 1 && (to1[1] - to1[0]) % FAR == 0 ? LINES_TOGETHER : 1;
    ptrdiff_t first, k, j, q, n = 0;
    for (first = first_line(d + to1[0], item); first < rows; first += together * side)
        for (j = 0; j < columns; j += n)
            for (k = first; k < rows && k < first + together * side; k += side) {
                n = columns - j < side ? columns - j : side;
                for (q = 0; q < n; q++)
                    fetch_ahead(s, from0, (k < 0 ? 0 : k) + (j + q) % side, rows, together * side, from1, j + q, columns,
                                LINES_AHEAD / together * side);
                if (k < 0 || k + side > rows || n < side || from1[j + side - 1] - from1[j] != 64 - item)
                    for (q = j; q < j + n; q++)
                        stream_line(d + to1[q], s + from1[q], from0, k, rows, item);
                else if (wide)
                    stream_square(d + item * k, to1 + j, s + from1[j], from0 + k, item);
                else {
                    turn_square(square, s + from1[j], from0 + k, item, 0);
                    for (q = 0; q < side; q++)
                        stream_lines(d + to1[j + q] + item * k, square + 64 * q, 64);
                }
            }
}

/* Whether elements of that size can be streamed so. */
static inline int crosses_past(ptrdiff_t item) { return item == 4 || item == 8 || item == 16; }

enum {
    SHORTEST_ROW = 128,  /* least bytes of a row for streaming */
    LONG_ROW = 512       /* least bytes of a row with any alignment: few of its cache lines are incomplete */
};

/* Stream a tile whose rows are dense in the target; 0 if its elements, places or rows do not allow it. */
static inline int stream_tile(char *d, const ptrdiff_t *to1, const char *s, const ptrdiff_t *from0, const ptrdiff_t *from1, ptrdiff_t rows,
                       ptrdiff_t columns, ptrdiff_t item)
{
    const uintptr_t begin = (uintptr_t)(d + to1[0]);
    const ptrdiff_t n = rows * item, before = (ptrdiff_t)(-begin & 63);
    uintptr_t apart = 0;
    ptrdiff_t j;
    if (n < SHORTEST_ROW || !crosses_past(item))
        return 0;
    for (j = 1; j < columns; j++)
        apart |= (uintptr_t)(to1[j] - to1[0]);
    if (((begin | apart) & (item - 1)) || (n < LONG_ROW && ((apart & 63) || 8 * ((n - before) & ~63) < 7 * n)))
        return 0;
    if (!(apart & 63) && item == 4)
        stream_squares(d, to1, s, from0, from1, rows, columns, 4);
    else if (!(apart & 63) && item == 8)
        stream_squares(d, to1, s, from0, from1, rows, columns, 8);
    else if (item == 8)
        stream_gathered(d, to1, s, from0, from1, rows, columns, 8);
    else if (item == 16)
        stream_gathered(d, to1, s, from0, from1, rows, columns, 16);
    else
        return 0;
    return 1;
}
#else
#define transposed_square(d, to0, to1, s, from0, from1, rows, columns, item) 0
#define crosses_past(item) 0
#define stream_tile(d, to1, s, from0, from1, rows, columns, item) 0
#endif

/* Prefetch the cache lines of a square of the source and of the target: a diagonal meets each of them, along
 * whichever dimension they run. */
static inline void fetch_square(const char *d, const ptrdiff_t *to0, const ptrdiff_t *to1, const char *s, const ptrdiff_t *from0,
                                const ptrdiff_t *from1, ptrdiff_t side)
{
    ptrdiff_t k;
    for (k = 0; k < side; k++) {
        __builtin_prefetch(s + from0[k] + from1[k]);
        __builtin_prefetch(d + to0[k] + to1[k], 1);
    }
}

/* Element (i, j) of a tile is at the sum of two offsets. */
#define TILED(BYTES) for (j = 0; j < columns; j++) for (i = 0; i < rows; i++) \
    memcpy(d + to0[i] + to1[j], s + from0[i] + from1[j], BYTES)
static inline void copy_tile(char *d, const ptrdiff_t *to0, const ptrdiff_t *to1, const char *s, const ptrdiff_t *from0,
                      const ptrdiff_t *from1, ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t item)
{
    ptrdiff_t i, j;
    if (transposed_square(d, to0, to1, s, from0, from1, rows, columns, item))
        return;
    switch (item) {
    case 8: TILED(8); break;
    case 4: TILED(4); break;
    case 16: TILED(16); break;
    case 2: TILED(2); break;
    case 1: TILED(1); break;
    case 24: TILED(24); break;
    default: TILED(item); break;
    }
}

#endif
