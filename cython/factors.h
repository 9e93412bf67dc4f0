/* out = alpha * x + beta * out, x conjugated or not; x is not read where alpha is 0, nor out where beta is. Of type PLAIN: a copy. */
#ifndef PYSCALAPACK_REDIST_FACTORS
#define PYSCALAPACK_REDIST_FACTORS

#include "crossing.h"

enum { PLAIN, FLOAT, DOUBLE, COMPLEX_FLOAT, COMPLEX_DOUBLE };
typedef struct { int type, conjugate, take, add; double alpha[2], beta[2]; } Factors;

/* Vectors of GCC and Clang, which are compiled for any processor: numbers of a type, or pairs of real and imaginary parts. */
typedef float Floats __attribute__((vector_size(16)));
typedef double Doubles __attribute__((vector_size(16)));
#define FOUR(EVEN, ODD) {EVEN, ODD, EVEN, ODD}
#define TWO(EVEN, ODD) {EVEN, ODD}
#define SWAPPED_FOUR(X) (Floats){X[1], X[0], X[3], X[2]}
#define SWAPPED_TWO(X) (Doubles){X[1], X[0]}

/* Lines are at the offsets `to` in the target, or at equal distances. */
typedef struct { const ptrdiff_t *to; ptrdiff_t apart_to, apart_from, count; } Lines;

/* SIZE bytes of source and target, at most a vector. A factor that is real leaves infinite parts what they are: there is no
 * product with its imaginary part. */
#define VECTOR(TYPE, SWAPPED, SIZE, TAKE, ADD, CROSS) do { \
    TYPE x = {0}, y = {0}, z = {0}; \
    if (TAKE) { \
        memcpy(&x, from, SIZE); \
        z = alpha * x; \
        if (CROSS && imaginary_alpha) z += alpha_swapped * SWAPPED(x); \
    } \
    if (ADD) { \
        memcpy(&y, to, SIZE); \
        z = TAKE ? z + beta * y : beta * y; \
        if (CROSS && imaginary_beta) z += beta_swapped * SWAPPED(y); \
    } \
    memcpy(to, &z, SIZE); } while (0)
#define LINES_OF(TYPE, SWAPPED, ITEM, TAKE, ADD, CROSS) \
    for (j = 0; j < lines.count; j++) { \
        char *to = d + (lines.to ? lines.to[j] : j * lines.apart_to); \
        const char *from = s + j * lines.apart_from; \
        if (dense) { \
            for (i = n * ITEM; i >= 16; i -= 16, to += 16, from += 16) VECTOR(TYPE, SWAPPED, 16, TAKE, ADD, CROSS); \
            if (i & 8) { VECTOR(TYPE, SWAPPED, 8, TAKE, ADD, CROSS); to += 8; from += 8; } \
            if (i & 4) VECTOR(TYPE, SWAPPED, 4, TAKE, ADD, CROSS); \
        } else \
            for (i = 0; i < n; i++, to += dd, from += ds) VECTOR(TYPE, SWAPPED, ITEM, TAKE, ADD, CROSS); \
    }
#define WAYS(TYPE, SWAPPED, ITEM, CROSS) do { \
    if (f->take && f->add) LINES_OF(TYPE, SWAPPED, ITEM, 1, 1, CROSS) \
    else if (f->take) LINES_OF(TYPE, SWAPPED, ITEM, 1, 0, CROSS) \
    else if (f->add) LINES_OF(TYPE, SWAPPED, ITEM, 0, 1, CROSS) \
    else LINES_OF(TYPE, SWAPPED, ITEM, 0, 0, CROSS) } while (0)
/* alpha * x is (a x0 - b x1, a x1 + b x0), and with x conjugated x1 has the other sign. */
#define COEFFICIENTS(TYPE, NUMBER, PAIRS) \
    const NUMBER sign = f->conjugate ? -1 : 1; \
    const TYPE alpha = PAIRS((NUMBER)f->alpha[0], sign * (NUMBER)f->alpha[0]); \
    const TYPE alpha_swapped = PAIRS(-sign * (NUMBER)f->alpha[1], (NUMBER)f->alpha[1]); \
    const TYPE beta = PAIRS((NUMBER)f->beta[0], (NUMBER)f->beta[0]); \
    const TYPE beta_swapped = PAIRS(-(NUMBER)f->beta[1], (NUMBER)f->beta[1])
#define FUNCTION(NAME, TYPE, NUMBER, PAIRS, SWAPPED, ITEM, PAIRED) \
static void NAME(char *d, ptrdiff_t dd, const char *s, ptrdiff_t ds, ptrdiff_t n, Lines lines, const Factors *f) \
{ \
    COEFFICIENTS(TYPE, NUMBER, PAIRS); \
    const int dense = dd == ITEM && ds == ITEM; \
    ptrdiff_t i, j; \
    const int imaginary_alpha = f->alpha[1] != 0, imaginary_beta = f->beta[1] != 0; \
    if (PAIRED && (imaginary_alpha || imaginary_beta)) WAYS(TYPE, SWAPPED, ITEM, 1); \
    else WAYS(TYPE, SWAPPED, ITEM, 0); \
}
FUNCTION(add_floats, Floats, float, FOUR, SWAPPED_FOUR, 4, 0)
FUNCTION(add_doubles, Doubles, double, TWO, SWAPPED_TWO, 8, 0)
FUNCTION(add_complex_floats, Floats, float, FOUR, SWAPPED_FOUR, 8, 1)
FUNCTION(add_complex_doubles, Doubles, double, TWO, SWAPPED_TWO, 16, 1)

/* Lines of n elements each, at equal distances on either side; source and target are apart from each other. */
static inline void add_lines(char *d, ptrdiff_t dd, const char *s, ptrdiff_t ds, ptrdiff_t n, Lines lines, const Factors *f)
{
    switch (f->type) {
    case FLOAT: add_floats(d, dd, s, ds, n, lines, f); break;
    case DOUBLE: add_doubles(d, dd, s, ds, n, lines, f); break;
    case COMPLEX_FLOAT: add_complex_floats(d, dd, s, ds, n, lines, f); break;
    case COMPLEX_DOUBLE: add_complex_doubles(d, dd, s, ds, n, lines, f); break;
    }
}

/* One such line. */
static inline void add_run(char *d, ptrdiff_t dd, const char *s, ptrdiff_t ds, ptrdiff_t n, const Factors *f)
{
    add_lines(d, dd, s, ds, n, (Lines){NULL, 0, 0, 1}, f);
}

static inline void add_spans(char *d, const char *s, const Span *spans, ptrdiff_t count, const Factors *f)
{
    ptrdiff_t k;
    for (k = 0; k < count; k++)
        add_run(d + spans[k].to, spans[k].stride_to, s + spans[k].from, spans[k].stride_from, spans[k].n, f);
}

/* Dense lines at equal distances. */
static inline void add_dense_lines(char *d, ptrdiff_t dd, const char *s, ptrdiff_t ds, ptrdiff_t lines, ptrdiff_t n, ptrdiff_t item,
                            const Factors *f)
{
    if (dd == n * item && ds == n * item) {
        n *= lines;
        lines = 1;
    }
    add_lines(d, item, s, item, n, (Lines){NULL, dd, ds, lines}, f);
}

/* As `copy_message_runs`, if some messages have factors. */
static inline void add_message_runs(char *const *d, const char *const *s, const char *past, const Factors *const *factors,
                            const ptrdiff_t *items, const MessageRun *runs, ptrdiff_t count, Tail *tail)
{
    ptrdiff_t k;
    for (k = 0; k < count; k++) {
        const MessageRun *run = runs + k;
        const ptrdiff_t item = items[run->message];
        if (factors[run->message]->type == PLAIN || past[run->message] == FETCHED_ONLY)
            copy_message_runs(d, s, past, run, 1, tail);
        else
            add_run(d[run->message] + run->to, item, s[run->message] + run->from, item, run->n / item, factors[run->message]);
    }
}

enum { LARGEST_TILE = 32, LARGEST_ITEM = 16 };

/* A tile is transposed into a buffer first, fast in squares; then both sides of the sum have lines. */
static inline void add_tile(char *d, const ptrdiff_t *to0, const ptrdiff_t *to1, const char *s, const ptrdiff_t *from0,
                     const ptrdiff_t *from1, ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t item, const Factors *f)
{
    char tile[LARGEST_TILE * LARGEST_TILE * LARGEST_ITEM] __attribute__((aligned(64)));
    ptrdiff_t place0[LARGEST_TILE], place1[LARGEST_TILE], i, j, n;
    for (i = 0; i < rows; i++)
        place0[i] = i * item;
    for (j = 0; j < columns; j++)
        place1[j] = j * rows * item;
    if (f->take)
        copy_tile(tile, place0, place1, s, from0, from1, rows, columns, item);
    for (i = 0; i < rows; i = n) {  /* elements at equal distances in the target */
        const ptrdiff_t step = i + 1 < rows ? to0[i + 1] - to0[i] : item;
        for (n = i + 1; n < rows && to0[n] - to0[n - 1] == step; n++)
            ;
        add_lines(d + to0[i], step, tile + place0[i], item, n - i, (Lines){to1, 0, rows * item, columns}, f);
    }
}

#if defined(__SSE2__)
/* As `stream_squares`, wherever lines of the target begin, and along these. With beta the target is read, and stays in the cache;
 * otherwise whole cache lines are streamed. */
INLINE void add_squares(char *d, const ptrdiff_t *to1, const char *s, const ptrdiff_t *from0, const ptrdiff_t *from1, ptrdiff_t rows,
                        ptrdiff_t columns, ptrdiff_t item, int past, const Factors *f)
{
    const ptrdiff_t side = 64 / item, first = first_line(d + to1[0], item);
    const int wide = is_wide();
    char square[LARGEST_SQUARE] __attribute__((aligned(64)));
    ptrdiff_t j, k, i, q, n;
    for (j = 0; j < columns; j += n) {
        n = columns - j < side ? columns - j : side;
        for (k = first; k < rows; k += side) {
            const ptrdiff_t begin = k < 0 ? 0 : k, end = k + side < rows ? k + side : rows;
            for (q = 0; q < side && j + side + q < columns; q++) {  /* the square beside this one */
                if (begin + q < end)
                    __builtin_prefetch(s + from0[begin + q] + from1[j + side + q]);
                if (f->add)
                    __builtin_prefetch(d + to1[j + side + q] + item * begin, 1);
            }
            if (f->take && end - begin == side && n == side && from1[j + side - 1] - from1[j] == 64 - item)
                turn_square(square, s + from1[j], from0 + k, item, wide);
            else if (f->take)
                for (q = 0; q < n; q++)
                    for (i = begin; i < end; i++)
                        memcpy(square + 64 * q + item * (i - k), s + from1[j + q] + from0[i], item);
            if (past && end - begin == side) {
                add_run(square, item, square, item, n * side, f);
                for (q = 0; q < n; q++)
                    stream_lines(d + to1[j + q] + item * k, square + 64 * q, 64);
            } else
                add_lines(d + item * begin, item, square + item * (begin - k), item, end - begin, (Lines){to1 + j, 0, 64, n}, f);
        }
    }
}

/* Stream a tile whose rows are dense in the target; 0 if they are too short. */
static inline int stream_added_tile(char *d, const ptrdiff_t *to1, const char *s, const ptrdiff_t *from0, const ptrdiff_t *from1, ptrdiff_t rows,
                       ptrdiff_t columns, ptrdiff_t item, const Factors *f)
{
    uintptr_t places = (uintptr_t)(d + to1[0]) & (item - 1);
    ptrdiff_t j;
    if (rows * item < SHORTEST_ROW)
        return 0;
    for (j = 1; j < columns; j++)
        places |= (uintptr_t)(to1[j] - to1[0]) & 63;
    if (item == 4)
        add_squares(d, to1, s, from0, from1, rows, columns, 4, !f->add && !places, f);
    else if (item == 8)
        add_squares(d, to1, s, from0, from1, rows, columns, 8, !f->add && !places, f);
    else
        add_squares(d, to1, s, from0, from1, rows, columns, 16, !f->add && !places, f);
    return 1;
}
#else
#define stream_added_tile(d, to1, s, from0, from1, rows, columns, item, f) 0
#endif

#endif
