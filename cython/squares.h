/* Squares of elements, transposed in registers of 16 bytes by vectors of GCC and Clang, which are compiled for any processor. */
#ifndef PYSCALAPACK_REDIST_SQUARES
#define PYSCALAPACK_REDIST_SQUARES

#include "kernels.h"

#if defined(__clang__) || __GNUC__ >= 12
#define SHUFFLED(A, B, ...) __builtin_shufflevector(A, B, __VA_ARGS__)
#else
#define SHUFFLED(A, B, ...) __builtin_shuffle(A, B, (__typeof__(A)){__VA_ARGS__})
#endif
#define UNROLLED _Pragma("GCC unroll 16")

#if defined(__SSE2__)
#define PUT(D, VECTOR, PAST) do { if (PAST) _mm_stream_si128((__m128i *)(D), (__m128i)(VECTOR)); else memcpy(D, &(VECTOR), 16); } while (0)
#else
#define PUT(D, VECTOR, PAST) memcpy(D, &(VECTOR), 16)
#endif

/* N lines of the source, of 16 bytes each, become N lines of the target. Element by element the lower halves of lines i and i + N / 2
 * make line 2 i, the upper ones line 2 i + 1; after log2(N) such steps the square is transposed. */
#define SQUARE(ITEM, N, NUMBER, STEPS, LOW, HIGH) \
INLINE void square_##ITEM(char *d, const ptrdiff_t *to1, const char *s, const ptrdiff_t *from0, int past) \
{ \
    typedef NUMBER Vector __attribute__((vector_size(16))); \
    Vector line[N], next[N]; \
    int i, step; \
    UNROLLED for (i = 0; i < N; i++) \
        memcpy(&line[i], s + from0[i], 16); \
    UNROLLED for (step = 0; step < STEPS; step++) { \
        UNROLLED for (i = 0; i < N / 2; i++) { \
            next[2 * i] = SHUFFLED(line[i], line[i + N / 2], LOW); \
            next[2 * i + 1] = SHUFFLED(line[i], line[i + N / 2], HIGH); \
        } \
        UNROLLED for (i = 0; i < N; i++) \
            line[i] = next[i]; \
    } \
    UNROLLED for (i = 0; i < N; i++) \
        PUT(d + to1[i], line[i], past); \
}
#define COMMAS(...) __VA_ARGS__
#define LOW_16 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH_16 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define LOW_8 0, 8, 1, 9, 2, 10, 3, 11
#define HIGH_8 4, 12, 5, 13, 6, 14, 7, 15
#define LOW_4 0, 4, 1, 5
#define HIGH_4 2, 6, 3, 7
#define LOW_2 0, 2
#define HIGH_2 1, 3
SQUARE(1, 16, uint8_t, 4, COMMAS(LOW_16), COMMAS(HIGH_16))
SQUARE(2, 8, uint16_t, 3, COMMAS(LOW_8), COMMAS(HIGH_8))
SQUARE(4, 4, uint32_t, 2, COMMAS(LOW_4), COMMAS(HIGH_4))
SQUARE(16, 1, uint64_t, 0, COMMAS(LOW_2), COMMAS(HIGH_2))
SQUARE(8, 2, uint64_t, 1, COMMAS(LOW_2), COMMAS(HIGH_2))

/* Side of a square in registers, 1 for elements of other sizes, which move one by one. */
INLINE ptrdiff_t side_of_square(ptrdiff_t item) { return item <= 16 && 16 % item == 0 ? 16 / item : 1; }

INLINE void turn(char *d, const ptrdiff_t *to1, const char *s, const ptrdiff_t *from0, ptrdiff_t item, int past)
{
    switch (item) {
    case 1: square_1(d, to1, s, from0, past); break;
    case 2: square_2(d, to1, s, from0, past); break;
    case 4: square_4(d, to1, s, from0, past); break;
    case 8: square_8(d, to1, s, from0, past); break;
    case 16: square_16(d, to1, s, from0, past); break;
    }
}

/* Element (i, j), at from0[i] + from1[j] in the source, goes to to0[i] + to1[j] in the target, whose lines run along i where squares are
 * transposed. Lines of the source are read from end to end, a few at a time: many that are a power of two apart would drive each other
 * out of the first cache. */
INLINE void gather_items(char *d, const ptrdiff_t *to0, const ptrdiff_t *to1, const char *s, const ptrdiff_t *from0, const ptrdiff_t *from1,
                         ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t item)
{
    const ptrdiff_t side = side_of_square(item), most = (side - 1) * item;
    ptrdiff_t i, j, k, m, n;
    for (i = 0; i < rows; i += m) {
        m = side > 1 && i + side <= rows && to0[i + side - 1] - to0[i] == most ? side : 1;
        for (j = 0; j < columns; j += n)
            if (m > 1 && j + side <= columns && from1[j + side - 1] - from1[j] == most) {
                n = side;
                turn(d + to0[i], to1 + j, s + from1[j], from0 + i, item, 0);
            } else {
                n = 1;
                for (k = i; k < i + m; k++)
                    memcpy(d + to0[k] + to1[j], s + from0[k] + from1[j], item);
            }
    }
}

static inline void gather(char *d, const ptrdiff_t *to0, const ptrdiff_t *to1, const char *s, const ptrdiff_t *from0, const ptrdiff_t *from1,
                          ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t item)
{
    switch (item) {  /* constant sizes let the compiler use registers */
    case 8: gather_items(d, to0, to1, s, from0, from1, rows, columns, 8); break;
    case 4: gather_items(d, to0, to1, s, from0, from1, rows, columns, 4); break;
    case 16: gather_items(d, to0, to1, s, from0, from1, rows, columns, 16); break;
    case 2: gather_items(d, to0, to1, s, from0, from1, rows, columns, 2); break;
    case 1: gather_items(d, to0, to1, s, from0, from1, rows, columns, 1); break;
    case 24: gather_items(d, to0, to1, s, from0, from1, rows, columns, 24); break;
    default: gather_items(d, to0, to1, s, from0, from1, rows, columns, item); break;
    }
}

#endif
