/* out = alpha * x + beta * out, x conjugated or not; x is not read where alpha is 0, nor out where beta is. Of type PLAIN: a copy.
 * Integers of 1, 2, 4 and 8 bytes are only added, out = x + out, modulo 2 to the number of their bits, signed ones too. */
#ifndef PYSCALAPACK_REDIST_FACTORS
#define PYSCALAPACK_REDIST_FACTORS

#include "kernels.h"

enum { PLAIN, FLOAT, DOUBLE, COMPLEX_FLOAT, COMPLEX_DOUBLE, INTEGER_1, INTEGER_2, INTEGER_4, INTEGER_8 };
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

#define ADD_INTEGER(TYPE, SIZE) do { \
    TYPE x, y; \
    memcpy(&x, from, SIZE); \
    memcpy(&y, to, SIZE); \
    y += x; \
    memcpy(to, &y, SIZE); } while (0)
#define INTEGERS(NAME, INTEGER) \
static void NAME(char *d, ptrdiff_t dd, const char *s, ptrdiff_t ds, ptrdiff_t n, Lines lines) \
{ \
    typedef INTEGER Vector __attribute__((vector_size(16))); \
    const ptrdiff_t item = sizeof(INTEGER); \
    const int dense = dd == item && ds == item; \
    ptrdiff_t i, j; \
    for (j = 0; j < lines.count; j++) { \
        char *to = d + (lines.to ? lines.to[j] : j * lines.apart_to); \
        const char *from = s + j * lines.apart_from; \
        i = n; \
        if (dense) \
            for (; i * item >= 16; i -= 16 / item, to += 16, from += 16) ADD_INTEGER(Vector, 16); \
        for (; i > 0; i--, to += dd, from += ds) ADD_INTEGER(INTEGER, sizeof(INTEGER)); \
    } \
}
INTEGERS(add_integers_1, uint8_t)
INTEGERS(add_integers_2, uint16_t)
INTEGERS(add_integers_4, uint32_t)
INTEGERS(add_integers_8, uint64_t)

/* Lines of n elements each, at equal distances on either side; source and target are apart from each other. */
static inline void add_lines(char *d, ptrdiff_t dd, const char *s, ptrdiff_t ds, ptrdiff_t n, Lines lines, const Factors *f)
{
    switch (f->type) {
    case FLOAT: add_floats(d, dd, s, ds, n, lines, f); break;
    case DOUBLE: add_doubles(d, dd, s, ds, n, lines, f); break;
    case COMPLEX_FLOAT: add_complex_floats(d, dd, s, ds, n, lines, f); break;
    case COMPLEX_DOUBLE: add_complex_doubles(d, dd, s, ds, n, lines, f); break;
    case INTEGER_1: add_integers_1(d, dd, s, ds, n, lines); break;
    case INTEGER_2: add_integers_2(d, dd, s, ds, n, lines); break;
    case INTEGER_4: add_integers_4(d, dd, s, ds, n, lines); break;
    case INTEGER_8: add_integers_8(d, dd, s, ds, n, lines); break;
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
                            const ptrdiff_t *items, const MessageRun *runs, ptrdiff_t count, Tail *tail, ptrdiff_t ahead)
{
    ptrdiff_t k;
    for (k = 0; k < count; k++) {
        const MessageRun *run = runs + k;
        const ptrdiff_t item = items[run->message];
        if (factors[run->message]->type == PLAIN)
            copy_message_runs(d, s, past, run, 1, tail, ahead);
        else
            add_run(d[run->message] + run->to, item, s[run->message] + run->from, item, run->n / item, factors[run->message]);
    }
}

#endif
