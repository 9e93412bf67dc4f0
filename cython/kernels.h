/* Moves of bytes along lines: runs of a line, and lines of several messages together. */
#ifndef PYSCALAPACK_REDIST_KERNELS
#define PYSCALAPACK_REDIST_KERNELS

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* Inlined, because short runs are many. */
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

/* Bytes of the source by which its runs are fetched ahead, where there are gaps between them: prefetchers fetch the gaps. */
enum {
    AHEAD = 4096,
    LONG_RUN = 1024  /* least bytes of a run to fetch ahead with ordinary stores: of shorter ones the processor reads several at a time */
};

/* A run, and `ahead` bytes further on what is read soon; 0: nothing. */
INLINE void copy_run(char *d, const char *s, size_t n, ptrdiff_t ahead)
{
    if (n >= 128 && ahead == 0) {
        memcpy(d, s, n);
        return;
    }
    for (; n >= 128; n -= 64, d += 64, s += 64) {
        uint64_t w[8];
        __builtin_prefetch(s + ahead);
        memcpy(w, s, 64);
        memcpy(d, w, 64);
    }
    copy_short(d, s, n);
}

#if defined(__SSE2__)
/* The beginning of a streamed cache line, buffered until the next run completes it: half a line would cost a read. */
typedef struct { char *at; size_t n; char line[64] __attribute__((aligned(64))); } Tail;

static inline void stream_lines(char *d, const char *s, size_t n, ptrdiff_t ahead)
{
    for (; n >= 64; n -= 64, d += 64, s += 64) {
        const __m128i a = _mm_loadu_si128((const __m128i *)s), b = _mm_loadu_si128((const __m128i *)s + 1);
        const __m128i c = _mm_loadu_si128((const __m128i *)s + 2), e = _mm_loadu_si128((const __m128i *)s + 3);
        __builtin_prefetch(s + ahead);
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

/* A non-temporal store of 16 bytes, or of 8 if the processor has these. */
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

/* As `stream_run`, for runs of whole units: each is streamed by itself, which completes lines as well. */
INLINE void stream_units(Tail *t, char *d, const char *s, size_t n, size_t unit, ptrdiff_t ahead)
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
    stream_lines(d, s, n - t->n, ahead);
    for (k = 0; k < t->n; k += unit)
        memcpy(t->line + k, s + (n - t->n) + k, unit);
}

/* A run whose whole lines are streamed, together with adjacent runs. */
static inline void stream_run(Tail *t, char *d, const char *s, size_t n, ptrdiff_t ahead)
{
    size_t part;
    if (t->n && t->at + t->n != d)
        end_tail(t);
    if ((((uintptr_t)d | n | t->n) & 15) == 0) {
        stream_units(t, d, s, n, 16, ahead);
        return;
    }
    if ((((uintptr_t)d | n | t->n) & (LEAST_UNIT - 1)) == 0) {
        stream_units(t, d, s, n, LEAST_UNIT, ahead);
        return;
    }
    if (t->n) {
        part = 64 - t->n < n ? 64 - t->n : n;
        copy_short(t->line + t->n, s, part);
        t->n += part; d += part; s += part; n -= part;
        if (t->n < 64)
            return;
        stream_lines(t->at, t->line, 64, 0);
        t->n = 0;
    }
    part = (size_t)(-(uintptr_t)d & 63);
    if (part > n)
        part = n;
    copy_short(d, s, part);
    d += part; s += part; n -= part;
    part = n & 63;
    stream_lines(d, s, n - part, ahead);
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
static inline void stream_run(Tail *t, char *d, const char *s, size_t n, ptrdiff_t ahead) { (void)t; copy_run(d, s, n, ahead); }
static inline void stream_lines(char *d, const char *s, size_t n, ptrdiff_t ahead) { (void)ahead; memcpy(d, s, n); }
static inline void end_stream(void) { }
#endif

/* A run of one of several messages: its offsets in the lines of source and target, in bytes. */
typedef struct { ptrdiff_t from, to, n, message; } MessageRun;

static inline void copy_message_runs(char *const *d, const char *const *s, const char *past, const MessageRun *runs, ptrdiff_t count, Tail *tail, ptrdiff_t ahead)
{
    ptrdiff_t k;
    for (k = 0; k < count; k++) {
        const MessageRun run = runs[k];
        if (past[run.message])
            stream_run(tail, d[run.message] + run.to, s[run.message] + run.from, run.n, ahead);
        else
            copy_run(d[run.message] + run.to, s[run.message] + run.from, run.n, ahead);
    }
}

/* A run of n elements: its offsets and strides in lines of the source and of the target, in bytes. */
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

enum { STREAMED = 256 };  /* shortest run that is streamed alone: four lines, of which three are whole */

/* From a run to one that is read soon, `runs` runs later, of this line or of one that is `next` bytes further on; 0 if there is no gap between them. */
INLINE ptrdiff_t to_later_run(const Span *spans, ptrdiff_t count, ptrdiff_t item, ptrdiff_t k, ptrdiff_t runs, ptrdiff_t next)
{
    const ptrdiff_t end = spans[k].from + spans[k].n * item;
    ptrdiff_t later = k + runs, lines = 0;
    if (k + 1 < count ? spans[k + 1].from == end : spans[0].from + next == end)
        return 0;
    for (; later >= count; later -= count)
        lines += next;
    return lines + spans[later].from - spans[k].from;
}

/* So many runs later. */
INLINE ptrdiff_t runs_ahead(ptrdiff_t bytes) { return bytes < AHEAD ? AHEAD / bytes : 1; }

static inline void stream_spans(char *d, const char *s, const Span *spans, ptrdiff_t count, ptrdiff_t item, ptrdiff_t next)
{
    const ptrdiff_t runs = runs_ahead(spans[0].n * item);
    Tail tail = {0};
    ptrdiff_t k;
    for (k = 0; k < count; k++) {
        const ptrdiff_t n = spans[k].n * item;
        char *to = d + spans[k].to;
        if (n >= STREAMED || (k + 1 < count && spans[k + 1].to == spans[k].to + n) || (k && spans[k - 1].to + spans[k - 1].n * item == spans[k].to))
            stream_run(&tail, to, s + spans[k].from, n, to_later_run(spans, count, item, k, runs, next));
        else
            copy_run(to, s + spans[k].from, n, 0);
    }
    end_tail(&tail);
}

#define EQUAL(BYTES) case BYTES: for (k = 0; k < count; k++) memcpy(d + spans[k].to, s + spans[k].from, BYTES); return
/* The spans of one line; `bytes` is the length of each if all are equal and dense, else 0; the next line is `next` bytes further on. */
static inline void copy_spans(char *d, const char *s, const Span *spans, ptrdiff_t count, ptrdiff_t item, ptrdiff_t bytes,
                       int dense, int stream, ptrdiff_t next)
{
    ptrdiff_t k, runs;
    if (stream && dense && (bytes == 0 || bytes > 128 || (bytes >= 32 && spans[1].to == spans[0].to + bytes))) {
        stream_spans(d, s, spans, count, item, next);
        return;
    }
    switch (bytes) {
    EQUAL(1); EQUAL(2); EQUAL(3); EQUAL(4); EQUAL(6); EQUAL(8); EQUAL(12); EQUAL(16); EQUAL(24); EQUAL(32); EQUAL(48);
    EQUAL(64); EQUAL(96); EQUAL(128);
    }
    if (!dense)
        for (k = 0; k < count; k++)
            copy_strided(d + spans[k].to, spans[k].stride_to, s + spans[k].from, spans[k].stride_from, spans[k].n, item);
    else if (bytes && bytes < LONG_RUN)
        for (k = 0; k < count; k++)
            copy_run(d + spans[k].to, s + spans[k].from, bytes, 0);
    else
        for (k = 0, runs = runs_ahead(spans[0].n * item); k < count; k++)
            copy_run(d + spans[k].to, s + spans[k].from, spans[k].n * item, to_later_run(spans, count, item, k, runs, next));
}

/* Lines that are one run each, at equal distances. */
#define LINES(BYTES) case BYTES: for (j = 0; j < n; j++) memcpy(d + j * dd, s + j * ds, BYTES); return
static inline void copy_lines(char *d, ptrdiff_t dd, const char *s, ptrdiff_t ds, ptrdiff_t n, ptrdiff_t bytes, int stream)
{
    const ptrdiff_t ahead = ds == bytes ? 0 : runs_ahead(bytes) * ds;
    Tail tail = {0};
    ptrdiff_t j;
    if (dd == bytes && ds == bytes) {
        bytes *= n;
        n = 1;
    }
    if (stream && (bytes >= STREAMED || (bytes >= 32 && dd == bytes))) {
        for (j = 0; j < n; j++)
            stream_run(&tail, d + j * dd, s + j * ds, bytes, ahead);
        end_tail(&tail);
        return;
    }
    switch (bytes) {
    LINES(1); LINES(2); LINES(4); LINES(8); LINES(12); LINES(16); LINES(24); LINES(32); LINES(48); LINES(64); LINES(96);
    LINES(128); LINES(192); LINES(256);
    }
    for (j = 0; j < n; j++)
        copy_run(d + j * dd, s + j * ds, bytes, bytes < LONG_RUN ? 0 : ahead);
}

#endif
