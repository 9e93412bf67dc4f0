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

/* Whether places are those of adjacent elements: they ascend by an element at least. */
INLINE int adjacent(const ptrdiff_t *places, ptrdiff_t count, ptrdiff_t item) { return places[count - 1] - places[0] == (count - 1) * item; }

/* Element (i, j), at from0[i] + from1[j] in the source, goes to to0[i] + to1[j] in the target; rows and columns are adjacent where squares
 * are transposed, and so many that no element is left over. Lines of the source are read from end to end, a few at a time: many that are
 * a power of two apart would drive each other out of the first cache. */
INLINE void gather_squares(char *d, const ptrdiff_t *to0, const ptrdiff_t *to1, const char *s, const ptrdiff_t *from0, const ptrdiff_t *from1,
                           ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t item)
{
    const ptrdiff_t side = side_of_square(item);
    ptrdiff_t i, j;
    for (i = 0; i < rows; i += side)
        UNROLLED for (j = 0; j < columns; j += side)
            turn(d + to0[i], to1 + j, s + from1[j], from0 + i, item, 0);
}

/* The same for any places. */
INLINE void gather_items(char *d, const ptrdiff_t *to0, const ptrdiff_t *to1, const char *s, const ptrdiff_t *from0, const ptrdiff_t *from1,
                         ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t item)
{
    const ptrdiff_t side = side_of_square(item);
    const int whole = side > 1 && adjacent(to0, rows, item) && adjacent(from1, columns, item);
    const ptrdiff_t whole_rows = whole ? rows - rows % side : 0, whole_columns = whole ? columns - columns % side : 0;
    ptrdiff_t i, j, k, m, n;
    gather_squares(d, to0, to1, s, from0, from1, whole_rows, whole_columns, item);
    for (i = whole_columns < columns ? 0 : whole_rows; i < rows; i += m) {
        m = side > 1 && i + side <= rows && adjacent(to0 + i, side, item) ? side : 1;
        for (j = i < whole_rows ? whole_columns : 0; j < columns; j += n)
            if (m > 1 && j + side <= columns && adjacent(from1 + j, side, item)) {
                n = side;
                turn(d + to0[i], to1 + j, s + from1[j], from0 + i, item, 0);
            } else {
                n = 1;
                for (k = i; k < i + m; k++)
                    memcpy(d + to0[k] + to1[j], s + from0[k] + from1[j], item);
            }
    }
}

enum {
    SQUARE_TILE = 8,  /* side of the tiles that are moved most often; of single bytes twice as many */
    FAR = 4096        /* lines at this distance, or a multiple, compete for the same places of a first cache */
};

#define GATHER(ITEM, SIDE) case ITEM: \
    if (rows != SIDE || columns != SIDE) \
        gather_items(d, to0, to1, s, from0, from1, rows, columns, ITEM); \
    else if (16 % ITEM == 0 && adjacent(to0, SIDE, ITEM) && adjacent(from1, SIDE, ITEM)) { \
        for (i = 0; i < SIDE && (from0[1] - from0[0]) % FAR; i++)  /* the next tile of these lines: no prefetcher follows so many */ \
            __builtin_prefetch(s + from0[i] + from1[0] + 64); \
        gather_squares(d, to0, to1, s, from0, from1, SIDE, SIDE, ITEM); \
    } else \
        UNROLLED for (i = 0; i < SIDE; i++)  /* it has few squares, or none, as in cyclic layouts */ \
            UNROLLED for (j = 0; j < SIDE; j++) \
                memcpy(d + to0[i] + to1[j], s + from0[i] + from1[j], ITEM); \
    break
/* Constant sizes let the compiler use registers. */
static inline void gather(char *d, const ptrdiff_t *to0, const ptrdiff_t *to1, const char *s, const ptrdiff_t *from0, const ptrdiff_t *from1,
                          ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t item)
{
    ptrdiff_t i, j;
    switch (item) {
    GATHER(8, SQUARE_TILE);
    GATHER(4, SQUARE_TILE);
    GATHER(2, SQUARE_TILE);
    GATHER(1, 2 * SQUARE_TILE);
    GATHER(16, SQUARE_TILE);
    GATHER(24, SQUARE_TILE);
    GATHER(3, SQUARE_TILE);
    default: gather_items(d, to0, to1, s, from0, from1, rows, columns, item);
    }
}

#endif
