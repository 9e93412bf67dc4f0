/* out = alpha * x + beta * out, x conjugated or not; x is not read where alpha is 0, nor out where beta is. Of type PLAIN: a copy. */
#ifndef PYSCALAPACK_REDIST_FACTORS
#define PYSCALAPACK_REDIST_FACTORS

#include "kernels.h"

enum { PLAIN, FLOAT, DOUBLE, COMPLEX_FLOAT, COMPLEX_DOUBLE };
typedef struct { int type, conjugate, take, add; double alpha[2], beta[2]; } Factors;

#define REAL(TYPE, D, S) do { \
    TYPE x = 0, y; \
    if (f->take) { memcpy(&x, S, sizeof x); x *= (TYPE)f->alpha[0]; } \
    if (f->add) { memcpy(&y, D, sizeof y); x += (TYPE)f->beta[0] * y; } \
    memcpy(D, &x, sizeof x); } while (0)
#define COMPLEX(TYPE, D, S) do { \
    TYPE x[2], y[2], z[2] = {0, 0}; const TYPE a = (TYPE)f->alpha[0], b = (TYPE)f->alpha[1]; \
    if (f->take) { memcpy(x, S, sizeof x); if (f->conjugate) x[1] = -x[1]; \
        z[0] = a * x[0]; z[1] = a * x[1]; \
        if (b != 0) { z[0] -= b * x[1]; z[1] += b * x[0]; } } \
    if (f->add) { const TYPE c = (TYPE)f->beta[0], e = (TYPE)f->beta[1]; memcpy(y, D, sizeof y); \
        z[0] += c * y[0] - e * y[1]; z[1] += c * y[1] + e * y[0]; } \
    memcpy(D, z, sizeof z); } while (0)
#define EACH_TYPE(LOOP, D, S) switch (f->type) { \
    case FLOAT: LOOP REAL(float, D, S); break; \
    case DOUBLE: LOOP REAL(double, D, S); break; \
    case COMPLEX_FLOAT: LOOP COMPLEX(float, D, S); break; \
    case COMPLEX_DOUBLE: LOOP COMPLEX(double, D, S); break; }

static inline void add_spans(char *d, const char *s, const Span *spans, ptrdiff_t count, const Factors *f)
{
    ptrdiff_t k, i;
    for (k = 0; k < count; k++) {
        char *to = d + spans[k].to;
        const char *from = s + spans[k].from;
        const ptrdiff_t n = spans[k].n, dd = spans[k].stride_to, ds = spans[k].stride_from;
        EACH_TYPE(for (i = 0; i < n; i++), to + i * dd, from + i * ds)
    }
}

static inline void add_tile(char *d, const ptrdiff_t *to0, const ptrdiff_t *to1, const char *s, const ptrdiff_t *from0,
                     const ptrdiff_t *from1, ptrdiff_t rows, ptrdiff_t columns, const Factors *f)
{
    ptrdiff_t i, j;
    EACH_TYPE(for (j = 0; j < columns; j++) for (i = 0; i < rows; i++), d + to0[i] + to1[j], s + from0[i] + from1[j])
}

#endif
