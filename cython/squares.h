/* Squares as wide as a cache line, of elements of 4, 8 or 16 bytes: lines of the source become lines of the target. */
#ifndef PYSCALAPACK_REDIST_SQUARES
#define PYSCALAPACK_REDIST_SQUARES

#include "kernels.h"
#if defined(__GNUC__) && defined(__x86_64__)
#include <immintrin.h>
#endif

static int is_narrow;  /* for tests: as if the processor had no registers of 32 bytes */
static inline int is_wide(void)
{
#if defined(__GNUC__) && defined(__x86_64__)
    return !is_narrow && __builtin_cpu_supports("avx");
#else
    (void)is_narrow;
    return 0;
#endif
}

#if defined(__SSE2__)
/* Elements of 16 bytes of as many lines as a cache line has elements, transposed. */
INLINE void turn(char *d, const char *s, const ptrdiff_t *from0, ptrdiff_t item)
{
    if (item == 8) {
        const __m128d a = _mm_loadu_pd((const double *)(s + from0[0])), b = _mm_loadu_pd((const double *)(s + from0[1]));
        _mm_store_pd((double *)d, _mm_unpacklo_pd(a, b));
        _mm_store_pd((double *)(d + 64), _mm_unpackhi_pd(a, b));
    } else if (item == 16)
        _mm_store_si128((__m128i *)d, _mm_loadu_si128((const __m128i *)(s + from0[0])));
    else {
        __m128 a = _mm_loadu_ps((const float *)(s + from0[0])), b = _mm_loadu_ps((const float *)(s + from0[1]));
        __m128 c = _mm_loadu_ps((const float *)(s + from0[2])), e = _mm_loadu_ps((const float *)(s + from0[3]));
        _MM_TRANSPOSE4_PS(a, b, c, e);
        _mm_store_ps((float *)d, a);
        _mm_store_ps((float *)(d + 64), b);
        _mm_store_ps((float *)(d + 128), c);
        _mm_store_ps((float *)(d + 192), e);
    }
}

/* Offsets of the lines of a square in a buffer. */
static const ptrdiff_t IN_SQUARE[16] = {0, 64, 128, 192, 256, 320, 384, 448, 512, 576, 640, 704, 768, 832, 896, 960};
enum { LARGEST_SQUARE = 16 * 64 };

#if defined(__GNUC__) && defined(__x86_64__)
/* Squares in registers of 32 bytes, where the processor has them, from lines of the source to cache lines of the target. */
#define WIDE static __attribute__((target("avx"), noinline))
#define WIDE_INLINE static inline __attribute__((target("avx"), always_inline))

WIDE_INLINE void put_wide(char *d, __m256d a, int past)
{
    if (past)
        _mm256_stream_pd((double *)d, a);
    else
        _mm256_store_pd((double *)d, a);
}

WIDE_INLINE void square_8(char *d, const ptrdiff_t *to1, const char *s, const ptrdiff_t *from0, int past)
{
    int j, i;
    for (j = 0; j < 8; j += 4) {
        __m256d line[4][2];
        for (i = 0; i < 2; i++) {
            const ptrdiff_t *from = from0 + 4 * i;
            const __m256d a = _mm256_loadu_pd((const double *)(s + from[0]) + j), b = _mm256_loadu_pd((const double *)(s + from[1]) + j);
            const __m256d c = _mm256_loadu_pd((const double *)(s + from[2]) + j), e = _mm256_loadu_pd((const double *)(s + from[3]) + j);
            const __m256d ab = _mm256_unpacklo_pd(a, b), AB = _mm256_unpackhi_pd(a, b);
            const __m256d ce = _mm256_unpacklo_pd(c, e), CE = _mm256_unpackhi_pd(c, e);
            line[0][i] = _mm256_permute2f128_pd(ab, ce, 0x20);
            line[1][i] = _mm256_permute2f128_pd(AB, CE, 0x20);
            line[2][i] = _mm256_permute2f128_pd(ab, ce, 0x31);
            line[3][i] = _mm256_permute2f128_pd(AB, CE, 0x31);
        }
        for (i = 0; i < 4; i++) {
            put_wide(d + to1[j + i], line[i][0], past);
            put_wide(d + to1[j + i] + 32, line[i][1], past);
        }
    }
}

WIDE_INLINE void square_4(char *d, const ptrdiff_t *to1, const char *s, const ptrdiff_t *from0, int past)
{
    int j, i, k;
    for (j = 0; j < 16; j += 8) {
        __m256 line[8][2], p[8];
        for (i = 0; i < 2; i++) {
            for (k = 0; k < 8; k += 4) {
                const ptrdiff_t *from = from0 + 8 * i + k;
                const __m256 a = _mm256_loadu_ps((const float *)(s + from[0]) + j), b = _mm256_loadu_ps((const float *)(s + from[1]) + j);
                const __m256 c = _mm256_loadu_ps((const float *)(s + from[2]) + j), e = _mm256_loadu_ps((const float *)(s + from[3]) + j);
                const __m256d ab = _mm256_castps_pd(_mm256_unpacklo_ps(a, b)), AB = _mm256_castps_pd(_mm256_unpackhi_ps(a, b));
                const __m256d ce = _mm256_castps_pd(_mm256_unpacklo_ps(c, e)), CE = _mm256_castps_pd(_mm256_unpackhi_ps(c, e));
                p[k] = _mm256_castpd_ps(_mm256_unpacklo_pd(ab, ce));
                p[k + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(ab, ce));
                p[k + 2] = _mm256_castpd_ps(_mm256_unpacklo_pd(AB, CE));
                p[k + 3] = _mm256_castpd_ps(_mm256_unpackhi_pd(AB, CE));
            }
            for (k = 0; k < 4; k++) {
                line[k][i] = _mm256_permute2f128_ps(p[k], p[k + 4], 0x20);
                line[k + 4][i] = _mm256_permute2f128_ps(p[k], p[k + 4], 0x31);
            }
        }
        for (k = 0; k < 8; k++) {
            put_wide(d + to1[j + k], _mm256_castps_pd(line[k][0]), past);
            put_wide(d + to1[j + k] + 32, _mm256_castps_pd(line[k][1]), past);
        }
    }
}

WIDE_INLINE void square_16(char *d, const ptrdiff_t *to1, const char *s, const ptrdiff_t *from0, int past)
{
    int j, i;
    for (j = 0; j < 4; j += 2)
        for (i = 0; i < 4; i += 2) {
            const __m256d a = _mm256_loadu_pd((const double *)(s + from0[i]) + 2 * j), b = _mm256_loadu_pd((const double *)(s + from0[i + 1]) + 2 * j);
            put_wide(d + to1[j] + 16 * i, _mm256_permute2f128_pd(a, b, 0x20), past);
            put_wide(d + to1[j + 1] + 16 * i, _mm256_permute2f128_pd(a, b, 0x31), past);
        }
}

/* Streamed, of elements of 4 or 8 bytes; or into a buffer, of 4, 8 or 16. */
WIDE void stream_square(char *d, const ptrdiff_t *to1, const char *s, const ptrdiff_t *from0, ptrdiff_t item)
{
    if (item == 8)
        square_8(d, to1, s, from0, 1);
    else
        square_4(d, to1, s, from0, 1);
}

WIDE void take_square(char *square, const char *s, const ptrdiff_t *from0, ptrdiff_t item)
{
    switch (item) {
    case 8: square_8(square, IN_SQUARE, s, from0, 0); break;
    case 4: square_4(square, IN_SQUARE, s, from0, 0); break;
    case 16: square_16(square, IN_SQUARE, s, from0, 0); break;
    }
}
#else
static inline void stream_square(char *d, const ptrdiff_t *to1, const char *s, const ptrdiff_t *from0, ptrdiff_t item)
{ (void)d; (void)to1; (void)s; (void)from0; (void)item; }
static inline void take_square(char *square, const char *s, const ptrdiff_t *from0, ptrdiff_t item)
{ (void)square; (void)s; (void)from0; (void)item; }
#endif

/* A square whose lines are as wide as a cache line, transposed into a buffer. */
INLINE void turn_square(char *square, const char *s, const ptrdiff_t *from0, ptrdiff_t item, int wide)
{
    const ptrdiff_t side = 64 / item, unit = 16 / item;
    ptrdiff_t i, q;
    if (wide) {
        take_square(square, s, from0, item);
        return;
    }
    for (i = 0; i < side; i += unit)
        for (q = 0; q < side; q += unit)
            turn(square + 64 * q + item * i, s + item * q, from0 + i, item);
}
#endif

#endif
