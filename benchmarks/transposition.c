/* A transposition by blocks of whole cache lines on both sides, as one would write it by hand: for benchmarks/crossing_lines.py.
 * B[j][i] = A[i][j] of n x n elements; n is a multiple of 64. Blocks are turned in the first cache, and their lines written past it. */
#include <emmintrin.h>
#include <stdint.h>
#include <string.h>

typedef struct { uint64_t parts[2]; } Pair;

#define TRANSPOSITION(ITEM, TYPE) \
void transpose_##ITEM(TYPE *b, const TYPE *a, long n) \
{ \
    enum { SIDE = 64 / ITEM < 8 ? 8 : 64 / ITEM }; \
    TYPE block[SIDE][SIDE] __attribute__((aligned(64))); \
    long i, j, k, m, p; \
    for (j = 0; j < n; j += SIDE) \
        for (i = 0; i < n; i += SIDE) { \
            for (k = 0; k < SIDE; k++) \
                for (m = 0; m < SIDE; m++) \
                    block[m][k] = a[(i + k) * n + j + m]; \
            for (m = 0; m < SIDE; m++) \
                for (p = 0; p < (long)sizeof block[0] / 16; p++) \
                    _mm_stream_si128((__m128i *)&b[(j + m) * n + i] + p, _mm_load_si128((const __m128i *)block[m] + p)); \
        } \
    _mm_sfence(); \
}
TRANSPOSITION(1, uint8_t)
TRANSPOSITION(2, uint16_t)
TRANSPOSITION(4, uint32_t)
TRANSPOSITION(8, uint64_t)
TRANSPOSITION(16, Pair)
