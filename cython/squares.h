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

/* Tiles of constant sides. Offsets that are used often are copied, since for the compiler each byte that is written may be one of theirs;
 * each kind of tile is a function, so that the copies are in registers. */
#if defined(__GNUC__)
#define KIND static __attribute__((noinline)) void
#else
#define KIND static void
#endif
#define PARAMETERS char *d, const ptrdiff_t *to0, const ptrdiff_t *to1, const char *s, const ptrdiff_t *from0, const ptrdiff_t *from1
#define COPIED(COPY, PLACES, SIDE) UNROLLED for (k = 0; k < SIDE; k++) COPY[k] = PLACES[k]

/* Of squares; those of 8 bytes are small, and many. */
INLINE void fetch_next_tile(const char *s, const ptrdiff_t *from0, const ptrdiff_t *from1, ptrdiff_t side)
{
    ptrdiff_t i;
    for (i = 0; i < side && (from0[1] - from0[0]) % FAR; i++)  /* of these lines: no prefetcher follows so many */
        __builtin_prefetch(s + from0[i] + from1[0] + 64);
}
KIND tile_of_squares_8(PARAMETERS)
{
    ptrdiff_t source[SQUARE_TILE], target[SQUARE_TILE], i, j, k;
    fetch_next_tile(s, from0, from1, SQUARE_TILE);
    COPIED(source, from0, SQUARE_TILE);
    COPIED(target, to1, SQUARE_TILE);
    UNROLLED for (i = 0; i < SQUARE_TILE; i += 2)
        UNROLLED for (j = 0; j < SQUARE_TILE; j += 2)
            turn(d + to0[i], target + j, s + from1[j], source + i, 8, 0);
}
#define OF_SQUARES(ITEM, SIDE) \
INLINE void tile_of_squares_##ITEM(PARAMETERS) \
{ \
    fetch_next_tile(s, from0, from1, SIDE); \
    gather_squares(d, to0, to1, s, from0, from1, SIDE, SIDE, ITEM); \
}
OF_SQUARES(1, 2 * SQUARE_TILE)
OF_SQUARES(2, SQUARE_TILE)
OF_SQUARES(4, SQUARE_TILE)
OF_SQUARES(16, SQUARE_TILE)
/* Lines of the target from elements in any places, 16 bytes at a time. */
#define COLLECTED(ITEM, SIDE, NUMBER) \
KIND tile_collected_##ITEM(PARAMETERS) \
{ \
    typedef NUMBER Vector __attribute__((vector_size(16))); \
    ptrdiff_t source[SIDE], i, j, k; \
    COPIED(source, from0, SIDE); \
    for (j = 0; j < SIDE; j++) { \
        const char *from = s + from1[j]; \
        char *to = d + to0[0] + to1[j]; \
        UNROLLED for (i = 0; i < SIDE; i += 16 / ITEM) { \
            Vector vector = {0}; \
            UNROLLED for (k = 0; k < 16 / ITEM; k++) { \
                NUMBER number; \
                memcpy(&number, from + source[i + k], ITEM); \
                vector[k] = number; \
            } \
            memcpy(to + i * ITEM, &vector, 16); \
        } \
    } \
}
/* Lines of the source to any places. */
#define SPREAD(ITEM, SIDE, NUMBER) \
KIND tile_spread_##ITEM(PARAMETERS) \
{ \
    typedef NUMBER Vector __attribute__((vector_size(16))); \
    ptrdiff_t target[SIDE], i, j, k; \
    NUMBER number; \
    Vector vector; \
    COPIED(target, to1, SIDE); \
    for (i = 0; i < SIDE; i++) { \
        const char *from = s + from0[i] + from1[0]; \
        char *to = d + to0[i]; \
        UNROLLED for (j = 0; j < SIDE; j += 16 / ITEM) { \
            memcpy(&vector, from + j * ITEM, 16); \
            UNROLLED for (k = 0; k < 16 / ITEM; k++) { \
                number = vector[k]; \
                memcpy(to + target[j + k], &number, ITEM); \
            } \
        } \
    } \
}
/* Of single elements. */
#define OF_ITEMS(ITEM, SIDE) \
KIND tile_of_items_##ITEM(PARAMETERS) \
{ \
    ptrdiff_t source[SIDE], target[SIDE], i, j, k; \
    COPIED(source, from1, SIDE); \
    COPIED(target, to1, SIDE); \
    UNROLLED for (i = 0; i < SIDE; i++) { \
        const char *from = s + from0[i]; \
        char *to = d + to0[i]; \
        UNROLLED for (j = 0; j < SIDE; j++) \
            memcpy(to + target[j], from + source[j], ITEM); \
    } \
}
#define EACH(ITEM, SIDE, NUMBER) COLLECTED(ITEM, SIDE, NUMBER) SPREAD(ITEM, SIDE, NUMBER) OF_ITEMS(ITEM, SIDE)
EACH(2, SQUARE_TILE, uint16_t)
EACH(4, SQUARE_TILE, uint32_t)
EACH(8, SQUARE_TILE, uint64_t)
OF_ITEMS(1, 2 * SQUARE_TILE)
OF_ITEMS(3, SQUARE_TILE)
OF_ITEMS(16, SQUARE_TILE)
OF_ITEMS(24, SQUARE_TILE)

#define ARGUMENTS (d, to0, to1, s, from0, from1)
#define IN_LINES(PLACES, ITEM) adjacent(PLACES, SQUARE_TILE * (ITEM == 1 ? 2 : 1), ITEM)
#define OTHER(ITEM, SIDE, TILE) case ITEM: \
    if (rows != SIDE || columns != SIDE) \
        gather_items(d, to0, to1, s, from0, from1, rows, columns, ITEM); \
    else \
        TILE; \
    break
#define NUMBERS(ITEM) OTHER(ITEM, SQUARE_TILE, \
    if (!IN_LINES(to0, ITEM)) \
        if (IN_LINES(from1, ITEM)) tile_spread_##ITEM ARGUMENTS; else tile_of_items_##ITEM ARGUMENTS; \
    else if (IN_LINES(from1, ITEM)) tile_of_squares_##ITEM ARGUMENTS; else tile_collected_##ITEM ARGUMENTS)
static inline void gather(PARAMETERS, ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t item)
{
    switch (item) {
    NUMBERS(8);
    NUMBERS(4);
    NUMBERS(2);
    OTHER(1, 2 * SQUARE_TILE, if (IN_LINES(to0, 1) && IN_LINES(from1, 1)) tile_of_squares_1 ARGUMENTS; else tile_of_items_1 ARGUMENTS);
    OTHER(16, SQUARE_TILE, if (IN_LINES(to0, 16) && IN_LINES(from1, 16)) tile_of_squares_16 ARGUMENTS; else tile_of_items_16 ARGUMENTS);
    OTHER(24, SQUARE_TILE, tile_of_items_24 ARGUMENTS);
    OTHER(3, SQUARE_TILE, tile_of_items_3 ARGUMENTS);
    default: gather_items(d, to0, to1, s, from0, from1, rows, columns, item);
    }
}

#endif
