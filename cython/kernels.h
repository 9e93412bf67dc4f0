/* What moves bytes: runs of a line, lines of several messages at once, tiles of a transposition. */
#ifndef PYSCALAPACK_REDIST_KERNELS
#define PYSCALAPACK_REDIST_KERNELS

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* Short runs are many: no call for them, which compilers otherwise make where there are several places. */
#if defined(__GNUC__)
#define INLINE static inline __attribute__((always_inline))
#else
#define INLINE static inline
#endif

INLINE void copy_short(char *d, const char *s, size_t n)
{
    for (; n >= 32; n -= 32, d += 32, s += 32) {
        uint64_t w[4];
        memcpy(w, s, 32);
        memcpy(d, w, 32);
    }
    if (n & 16) { uint64_t w[2]; memcpy(w, s, 16); memcpy(d, w, 16); d += 16; s += 16; }
    if (n & 8) { uint64_t w; memcpy(&w, s, 8); memcpy(d, &w, 8); d += 8; s += 8; }
    if (n & 4) { uint32_t w; memcpy(&w, s, 4); memcpy(d, &w, 4); d += 4; s += 4; }
    if (n & 2) { uint16_t w; memcpy(&w, s, 2); memcpy(d, &w, 2); d += 2; s += 2; }
    if (n & 1) *d = *s;
}

INLINE void copy_run(char *d, const char *s, size_t n)
{
    if (n >= 128)
        memcpy(d, s, n);
    else
        copy_short(d, s, n);
}

#if defined(__SSE2__)
/* The beginning of a cache line past the cache, until the run that continues it comes: half a line would cost a read. */
typedef struct { char *at; size_t n; char line[64] __attribute__((aligned(64))); } Tail;

static inline void stream_lines(char *d, const char *s, size_t n)
{
    for (; n >= 64; n -= 64, d += 64, s += 64) {
        const __m128i a = _mm_loadu_si128((const __m128i *)s), b = _mm_loadu_si128((const __m128i *)s + 1);
        const __m128i c = _mm_loadu_si128((const __m128i *)s + 2), e = _mm_loadu_si128((const __m128i *)s + 3);
        _mm_stream_si128((__m128i *)d, a);
        _mm_stream_si128((__m128i *)d + 1, b);
        _mm_stream_si128((__m128i *)d + 2, c);
        _mm_stream_si128((__m128i *)d + 3, e);
    }
}

static inline void end_tail(Tail *t)
{
    if (t->n)
        copy_short(t->at, t->line, t->n & 63);
    t->n = 0;
}

/* 16 bytes past the cache, or 8 where the processor has such stores. */
INLINE void stream_unit(char *d, const char *s, size_t unit)
{
#if defined(__x86_64__)
    if (unit == 8) {
        long long w;
        memcpy(&w, s, 8);
        _mm_stream_si64((long long *)d, w);
        return;
    }
#endif
    (void)unit;
    _mm_stream_si128((__m128i *)d, _mm_loadu_si128((const __m128i *)s));
}
#if defined(__x86_64__)
enum { LEAST_UNIT = 8 };
#else
enum { LEAST_UNIT = 16 };
#endif

/* As `stream_run`, where all is in such units: they go past the cache one by one, which writes whole lines as well. */
INLINE void stream_units(Tail *t, char *d, const char *s, size_t n, size_t unit)
{
    size_t k, part;
    if (t->n) {
        part = 64 - t->n < n ? 64 - t->n : n;
        if (t->n + part < 64) {
            for (k = 0; k < part; k += unit)
                memcpy(t->line + t->n + k, s + k, unit);
            t->n += part;
            return;
        }
        for (k = 0; k < t->n; k += unit)
            stream_unit(t->at + k, t->line + k, unit);
        for (k = 0; k < part; k += unit)
            stream_unit(d + k, s + k, unit);
    } else {
        part = (size_t)(-(uintptr_t)d & 63);
        if (part > n)
            part = n;
        for (k = 0; k < part; k += unit)
            memcpy(d + k, s + k, unit);
    }
    d += part; s += part; n -= part;
    t->n = n & 63;
    t->at = d + (n - t->n);
    stream_lines(d, s, n - t->n);
    for (k = 0; k < t->n; k += unit)
        memcpy(t->line + k, s + (n - t->n) + k, unit);
}

/* A run of which whole lines go past the cache, together with the runs before and behind it where they touch. */
static inline void stream_run(Tail *t, char *d, const char *s, size_t n)
{
    size_t part;
    if (t->n && t->at + t->n != d)
        end_tail(t);
    if ((((uintptr_t)d | n | t->n) & 15) == 0) {
        stream_units(t, d, s, n, 16);
        return;
    }
    if ((((uintptr_t)d | n | t->n) & (LEAST_UNIT - 1)) == 0) {
        stream_units(t, d, s, n, LEAST_UNIT);
        return;
    }
    if (t->n) {
        part = 64 - t->n < n ? 64 - t->n : n;
        copy_short(t->line + t->n, s, part);
        t->n += part; d += part; s += part; n -= part;
        if (t->n < 64)
            return;
        stream_lines(t->at, t->line, 64);
        t->n = 0;
    }
    part = (size_t)(-(uintptr_t)d & 63);
    if (part > n)
        part = n;
    copy_short(d, s, part);
    d += part; s += part; n -= part;
    part = n & 63;
    stream_lines(d, s, n - part);
    if (part) {
        t->at = d + (n - part);
        t->n = part;
        copy_short(t->line, s + (n - part), part);
    }
}
static inline void end_stream(void) { _mm_sfence(); }
#else
typedef struct { size_t n; } Tail;
static inline void end_tail(Tail *t) { (void)t; }
static inline void stream_run(Tail *t, char *d, const char *s, size_t n) { (void)t; copy_run(d, s, n); }
static inline void end_stream(void) { }
#endif

/* A run of a line of several messages: where it is in the line of its message on either side, in bytes. */
typedef struct { ptrdiff_t from, to, n, strand; } StrandRun;

static inline void copy_strand_runs(char *const *d, const char *const *s, const char *past, const StrandRun *runs, ptrdiff_t count, Tail *tail)
{
    ptrdiff_t k;
    for (k = 0; k < count; k++) {
        const StrandRun run = runs[k];
        if (past[run.strand])
            stream_run(tail, d[run.strand] + run.to, s[run.strand] + run.from, run.n);
        else
            copy_run(d[run.strand] + run.to, s[run.strand] + run.from, run.n);
    }
}

/* A run of n elements: where it is in a line of the source and of the target, and its distances there, in bytes. */
typedef struct { ptrdiff_t from, to, n, stride_from, stride_to; } Span;

/* Constant sizes let the compiler use one load and one store. */
#define STRIDED(BYTES) for (i = 0; i < n; i++) memcpy(d + i * dd, s + i * ds, BYTES)
static inline void copy_strided(char *d, ptrdiff_t dd, const char *s, ptrdiff_t ds, ptrdiff_t n, ptrdiff_t item)
{
    ptrdiff_t i;
    switch (item) {
    case 8: STRIDED(8); break;
    case 4: STRIDED(4); break;
    case 16: STRIDED(16); break;
    case 2: STRIDED(2); break;
    case 1: STRIDED(1); break;
    case 24: STRIDED(24); break;
    default: STRIDED(item); break;
    }
}

enum { STREAMED = 256 };  /* shortest run worth writing past the cache alone: four lines, of which three are whole */

static inline void stream_spans(char *d, const char *s, const Span *spans, ptrdiff_t count, ptrdiff_t item)
{
    Tail tail = {0};
    ptrdiff_t k;
    for (k = 0; k < count; k++) {
        const ptrdiff_t n = spans[k].n * item;
        char *to = d + spans[k].to;
        if (n >= STREAMED || (k + 1 < count && spans[k + 1].to == spans[k].to + n) || (k && spans[k - 1].to + spans[k - 1].n * item == spans[k].to))
            stream_run(&tail, to, s + spans[k].from, n);
        else
            copy_run(to, s + spans[k].from, n);
    }
    end_tail(&tail);
}

#define EQUAL(BYTES) case BYTES: for (k = 0; k < count; k++) memcpy(d + spans[k].to, s + spans[k].from, BYTES); return
/* The spans of one line; `bytes` is what each has where all are of one length and dense, else 0. */
static inline void copy_spans(char *d, const char *s, const Span *spans, ptrdiff_t count, ptrdiff_t item, ptrdiff_t bytes,
                       int dense, int stream)
{
    ptrdiff_t k;
    if (stream && dense && (bytes == 0 || bytes > 128 || (bytes >= 32 && spans[1].to == spans[0].to + bytes))) {
        stream_spans(d, s, spans, count, item);
        return;
    }
    switch (bytes) {
    EQUAL(1); EQUAL(2); EQUAL(3); EQUAL(4); EQUAL(6); EQUAL(8); EQUAL(12); EQUAL(16); EQUAL(24); EQUAL(32); EQUAL(48);
    EQUAL(64); EQUAL(96); EQUAL(128);
    }
    if (!dense)
        for (k = 0; k < count; k++)
            copy_strided(d + spans[k].to, spans[k].stride_to, s + spans[k].from, spans[k].stride_from, spans[k].n, item);
    else
        for (k = 0; k < count; k++)
            copy_run(d + spans[k].to, s + spans[k].from, spans[k].n * item);
}

/* Whether elements of that size are transposed in squares of 8 by 8. */
static inline int in_squares(ptrdiff_t item) { return item == 8 || item == 4 || item == 2 || item == 1; }

#if defined(__SSE2__)
/* Squares of 8 by 8 elements whose columns are dense in the target and whose rows are in the source. */
static inline void transpose_8(char *d, const ptrdiff_t *to1, const char *s, const ptrdiff_t *from0)
{
    int i, j;
    for (i = 0; i < 8; i++)  /* the next squares of these rows: a processor does not foresee so many lines far apart */
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

/* Places ascend by a stride of at least an element, so their span tells whether they are dense. */
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

/* Whole cache lines of several lines of the target, gathered from as many lines of the source as each has elements, of 8 or 16 bytes.
 * Each line of the target may begin anywhere in a cache line; what is less than that is stored as it is. */
INLINE void stream_gathered(char *d, const ptrdiff_t *to1, const char *s, const ptrdiff_t *from0, const ptrdiff_t *from1, ptrdiff_t rows,
                            ptrdiff_t columns, ptrdiff_t item)
{
    const ptrdiff_t whole = 64 / item;
    ptrdiff_t i, j, k;
    for (k = 0; k < rows; k += whole)
        for (j = 0; j < columns; j++) {
            char *const to = d + to1[j];
            const char *const from = s + from1[j];
            const ptrdiff_t before = (ptrdiff_t)(-(uintptr_t)to & 63) / item, first = k + before;
            if (k == 0)
                for (i = 0; i < before && i < rows; i++)
                    memcpy(to + i * item, from + from0[i], item);
            if (first + whole > rows)
                for (i = first; i < rows; i++)
                    memcpy(to + i * item, from + from0[i], item);
            else if (item == 8)
                for (i = first; i < first + whole; i += 2)
                    _mm_stream_pd((double *)(to + i * item), _mm_loadh_pd(_mm_load_sd((const double *)(from + from0[i])),
                                                                          (const double *)(from + from0[i + 1])));
            else
                for (i = first; i < first + whole; i++)
                    _mm_stream_si128((__m128i *)(to + i * item), _mm_loadu_si128((const __m128i *)(from + from0[i])));
        }
}

/* The same of elements of 4 bytes, four lines of the target at a time, which are all in one place to a cache line and dense in the source. */
static inline void stream_fours(char *d, const ptrdiff_t *to1, const char *s, const ptrdiff_t *from0, const ptrdiff_t *from1, ptrdiff_t rows,
                         ptrdiff_t columns)
{
    ptrdiff_t k, j, i, q, n;
    for (k = (ptrdiff_t)(-(uintptr_t)(d + to1[0]) & 63) / 4 - 16; k < rows; k += 16)
        for (j = 0; j < columns; j += n) {
            n = columns - j < 4 ? columns - j : 4;
            if (k >= 0 && k + 16 <= rows && n == 4 && from1[j + 3] - from1[j] == 12) {
                for (i = k; i < k + 16; i += 4) {
                    __m128 a = _mm_loadu_ps((const float *)(s + from0[i] + from1[j]));
                    __m128 b = _mm_loadu_ps((const float *)(s + from0[i + 1] + from1[j]));
                    __m128 c = _mm_loadu_ps((const float *)(s + from0[i + 2] + from1[j]));
                    __m128 e = _mm_loadu_ps((const float *)(s + from0[i + 3] + from1[j]));
                    _MM_TRANSPOSE4_PS(a, b, c, e);
                    _mm_stream_ps((float *)(d + to1[j]) + i, a);
                    _mm_stream_ps((float *)(d + to1[j + 1]) + i, b);
                    _mm_stream_ps((float *)(d + to1[j + 2]) + i, c);
                    _mm_stream_ps((float *)(d + to1[j + 3]) + i, e);
                }
                continue;
            }
            for (q = j; q < j + n; q++)
                for (i = k < 0 ? 0 : k; i < rows && i < k + 16; i++)
                    memcpy(d + to1[q] + i * 4, s + from0[i] + from1[q], 4);
        }
}

/* Whether there is such a way for elements of that size. */
static inline int crosses_past(ptrdiff_t item) { return item == 4 || item == 8 || item == 16; }

enum {
    SHORTEST_ROW = 128,  /* bytes of a row that is worth it */
    LONG_ROW = 512       /* and of such that so few of their cache lines are not whole, wherever they begin, that reading those is little */
};

/* A tile whose rows are dense in the target; 0 where there is no way for its elements or places, or too few whole cache lines. */
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
    if (item == 8)
        stream_gathered(d, to1, s, from0, from1, rows, columns, 8);
    else if (item == 16)
        stream_gathered(d, to1, s, from0, from1, rows, columns, 16);
    else if (!(apart & 63))
        stream_fours(d, to1, s, from0, from1, rows, columns);
    else
        return 0;
    return 1;
}
#else
#define transposed_square(d, to0, to1, s, from0, from1, rows, columns, item) 0
#define crosses_past(item) 0
#define stream_tile(d, to1, s, from0, from1, rows, columns, item) 0
#endif

/* Lines that are one run each, at equal distances. */
#define LINES(BYTES) case BYTES: for (j = 0; j < n; j++) memcpy(d + j * dd, s + j * ds, BYTES); return
static inline void copy_lines(char *d, ptrdiff_t dd, const char *s, ptrdiff_t ds, ptrdiff_t n, ptrdiff_t bytes, int stream)
{
    Tail tail = {0};
    ptrdiff_t j;
    if (dd == bytes && ds == bytes) {
        bytes *= n;
        n = 1;
    }
    if (stream && (bytes >= STREAMED || (bytes >= 32 && dd == bytes))) {
        for (j = 0; j < n; j++)
            stream_run(&tail, d + j * dd, s + j * ds, bytes);
        end_tail(&tail);
        return;
    }
    switch (bytes) {
    LINES(1); LINES(2); LINES(4); LINES(8); LINES(12); LINES(16); LINES(24); LINES(32); LINES(48); LINES(64); LINES(96);
    LINES(128); LINES(192); LINES(256);
    }
    for (j = 0; j < n; j++)
        copy_run(d + j * dd, s + j * ds, bytes);
}

/* Element (i, j) of a tile is where two lists of distances say. */
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
