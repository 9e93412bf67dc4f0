/* Moves between crossing lines of source and target, with or without factors: tiles, and whole cache lines written past the cache. */
#ifndef PYSCALAPACK_REDIST_CROSSING
#define PYSCALAPACK_REDIST_CROSSING

#include "factors.h"
#include "squares.h"

/* Prefetch the cache lines of a square of the source and of the target: a diagonal meets each of them, along
 * whichever dimension they run. */
static inline void fetch_square(const char *d, const ptrdiff_t *to0, const ptrdiff_t *to1, const char *s, const ptrdiff_t *from0,
                                const ptrdiff_t *from1, ptrdiff_t side)
{
    ptrdiff_t k;
    for (k = 0; k < side; k++) {
        __builtin_prefetch(s + from0[k] + from1[k]);
        __builtin_prefetch(d + to0[k] + to1[k], 1);
    }
}

/* Element (i, j) of a tile is at the sum of two offsets. */
static inline void copy_tile(char *d, const ptrdiff_t *to0, const ptrdiff_t *to1, const char *s, const ptrdiff_t *from0,
                      const ptrdiff_t *from1, ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t item)
{
    if (columns > 1 && to1[1] - to1[0] == item)
        gather(d, to1, to0, s, from1, from0, columns, rows, item);
    else
        gather(d, to0, to1, s, from0, from1, rows, columns, item);
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
        gather(tile, place0, place1, s, from0, from1, rows, columns, item);
    for (i = 0; i < rows; i = n) {  /* elements at equal distances in the target */
        const ptrdiff_t step = i + 1 < rows ? to0[i + 1] - to0[i] : item;
        for (n = i + 1; n < rows && to0[n] - to0[n - 1] == step; n++)
            ;
        add_lines(d + to0[i], step, tile + place0[i], item, n - i, (Lines){to1, 0, rows * item, columns}, f);
    }
}

enum {
    HEIGHT = 256,         /* bytes of a line of the target that are written together: memory writes a few cache lines in a row faster */
    WIDTH = 512,          /* bytes of a line of the source that are read together */
    LARGEST = 32,         /* most bytes of an element of a streamed tile */
    SMALLEST_ADDED = 4,   /* least bytes of one with factors: an array of places has one for each in a cache line */
    MOST = 512,           /* most columns of a streamed tile */
    SHORTEST_ROW = 64,    /* least bytes of a row for streaming; with factors twice as many */
    LONG_ROW = 512        /* least bytes of a row with any alignment: few of its cache lines are incomplete */
};

/* The cache lines of the source that are read next, line by line: no prefetcher follows so many lines, or knows the next run. */
typedef struct {
    const char *s;
    const ptrdiff_t *from0;
    ptrdiff_t row, last, line, count, lines[MOST];
} Ahead;

static inline void look_ahead(Ahead *a, const ptrdiff_t *from1, ptrdiff_t columns, ptrdiff_t row, ptrdiff_t last)
{
    ptrdiff_t k;
    a->row = row;
    a->last = last;
    a->line = a->count = 0;
    for (k = 0; k < columns; k++)
        if (k == 0 || ((uintptr_t)(a->s + from1[k]) ^ (uintptr_t)(a->s + from1[k - 1])) & ~(uintptr_t)63)
            a->lines[a->count++] = from1[k];
}

INLINE void fetch_some(Ahead *a, ptrdiff_t n)
{
    for (; n > 0 && a->row < a->last; n--) {
        __builtin_prefetch(a->s + a->from0[a->row] + a->lines[a->line]);
        if (++a->line == a->count) {
            a->line = 0;
            a->row++;
        }
    }
}

/* Whole cache lines past the cache; the last one may be left incomplete, and the first one. */
static inline void write_part(char *to, const char *from, ptrdiff_t n)
{
    ptrdiff_t head = (ptrdiff_t)(-(uintptr_t)to & 63);
    if (head > n)
        head = n;
    copy_short(to, from, head);
    stream_lines(to + head, from + head, (n - head) & ~(ptrdiff_t)63, 0);
    copy_short(to + n - ((n - head) & 63), from + n - ((n - head) & 63), (n - head) & 63);
}

/* Rows of the tile are lines of the target. They are written in windows of whole cache lines: of each row HEIGHT bytes from its first
 * cache line in the window on. Squares go directly into the target where rows begin in one place to a cache line, others through a buffer. */
INLINE void stream_items(char *d, const ptrdiff_t *to1, const char *s, const ptrdiff_t *from0, const ptrdiff_t *from1, ptrdiff_t rows,
                         ptrdiff_t columns, ptrdiff_t item, int uneven)
{
    const ptrdiff_t side = side_of_square(item), group = 64 / item, width = WIDTH / item / group * group, bytes = rows * item;
    const ptrdiff_t before = (ptrdiff_t)(-(uintptr_t)(d + to1[0]) & 63), extra = uneven ? 64 : 0;
    char buffer[64 * (HEIGHT + 128)] __attribute__((aligned(64)));
    ptrdiff_t place0[HEIGHT + 128], place1[64], height = 64, pitch, begin, j, k, i, q, m;
    Ahead ahead;
    while (height % item)
        height += 64;
    height *= height < HEIGHT ? HEIGHT / height : 1;
    pitch = (height + extra + 2 * item + 63) / 64 * 64;
    for (i = 0; i < pitch / item; i++)
        place0[i] = i * item;
    for (q = 0; q < group; q++)
        place1[q] = q * pitch;
    ahead.s = s;
    ahead.from0 = from0;
    for (begin = before ? before - 64 : 0; begin < bytes; begin += height) {
        const ptrdiff_t first = begin > 0 ? begin / item : 0, after = (begin + height + extra + item - 1) / item;
        const ptrdiff_t last = after < rows ? after : rows, next = 2 * last - first < rows ? 2 * last - first : rows;
        const ptrdiff_t till = begin + height < bytes ? begin + height : bytes;
        const int whole = !uneven && begin >= 0 && begin % item == 0 && (till - begin) % 64 == 0;
        for (j = 0; j < columns; j += width) {
            const ptrdiff_t end = j + width < columns ? j + width : columns;
            if (end < columns)
                look_ahead(&ahead, from1 + end, end + width < columns ? width : columns - end, first, last);
            else
                look_ahead(&ahead, from1, columns < width ? columns : width, last, next);
            for (k = j; k < end; k += group) {
                const ptrdiff_t n = k + group < end ? group : end - k;
                if (whole && item >= 4 && side * item == 16 && n == group && from1[k + n - 1] - from1[k] == 64 - item) {
                    for (m = first; m < last; m += group) {
                        fetch_some(&ahead, group);
                        for (q = 0; q < group; q += side)
                            for (i = m; i < m + group; i += side)
                                turn(d + i * item, to1 + k + q, s + from1[k + q], from0 + i, item, 1);
                    }
                    continue;
                }
                gather_items(buffer, place0, place1, s, from0 + first, from1 + k, last - first, n, item);
                for (q = 0; q < n; q++) {
                    char *row = d + to1[k + q];
                    const ptrdiff_t shift = (ptrdiff_t)(-(uintptr_t)(row + begin) & 63);
                    const ptrdiff_t from = begin > 0 ? begin + shift : 0, to = begin + height + shift < bytes ? begin + height + shift : bytes;
                    fetch_some(&ahead, (last - first) / group + 1);
                    if (from < to)
                        write_part(row + from, buffer + place1[q] + from - first * item, to - from);
                }
            }
        }
    }
}

/* As `stream_items` with factors, wherever rows begin, along them. With beta the target is read, and stays in the cache; otherwise whole
 * cache lines are streamed if `past`. */
INLINE void add_squares(char *d, const ptrdiff_t *to1, const char *s, const ptrdiff_t *from0, const ptrdiff_t *from1, ptrdiff_t rows,
                        ptrdiff_t columns, ptrdiff_t item, int past, const Factors *f)
{
    const ptrdiff_t side = 64 / item, before = (ptrdiff_t)(-(uintptr_t)(d + to1[0]) & 63) / item;
    char square[16 * 64] __attribute__((aligned(64)));
    ptrdiff_t place0[16], place1[16], j, k, q, n;
    for (q = 0; q < side; q++) {
        place0[q] = q * item;
        place1[q] = q * 64;
    }
    for (j = 0; j < columns; j += n) {
        n = columns - j < side ? columns - j : side;
        for (k = before ? before - side : 0; k < rows; k += side) {
            const ptrdiff_t begin = k < 0 ? 0 : k, end = k + side < rows ? k + side : rows;
            for (q = 0; q < side && j + side + q < columns; q++) {  /* the square beside this one */
                if (begin + q < end)
                    __builtin_prefetch(s + from0[begin + q] + from1[j + side + q]);
                if (f->add)
                    __builtin_prefetch(d + to1[j + side + q] + item * begin, 1);
            }
            if (f->take && end - begin == side && n == side && adjacent(from1 + j, side, item))
                gather_squares(square, place0, place1, s, from0 + k, from1 + j, side, side, item);
            else if (f->take)
                gather_items(square + item * (begin - k), place0, place1, s, from0 + begin, from1 + j, end - begin, n, item);
            if (past && end - begin == side) {
                add_run(square, item, square, item, n * side, f);
                for (q = 0; q < n; q++)
                    stream_lines(d + to1[j + q] + item * k, square + 64 * q, 64, 0);
            } else
                add_lines(d + item * begin, item, square + item * (begin - k), item, end - begin, (Lines){to1 + j, 0, 64, n}, f);
        }
    }
}

#define STREAM(ITEM) stream_items(d, to1, s, from0, from1, rows, columns, ITEM, apart != 0)
#define ADD(ITEM) add_squares(d, to1, s, from0, from1, rows, columns, ITEM, !f->add && !apart && before % ITEM == 0, f)
/* Stream a tile whose rows are dense in the target; 0 if its elements, places or rows do not allow it. */
static inline int stream_tile(char *d, const ptrdiff_t *to1, const char *s, const ptrdiff_t *from0, const ptrdiff_t *from1, ptrdiff_t rows,
                       ptrdiff_t columns, ptrdiff_t item, const Factors *f)
{
    const ptrdiff_t n = rows * item, before = (ptrdiff_t)(-(uintptr_t)(d + to1[0]) & 63);
    uintptr_t apart = 0;
    ptrdiff_t j;
    if (n < (f->type == PLAIN ? SHORTEST_ROW : 2 * SHORTEST_ROW) || item > LARGEST || (f->type != PLAIN && item < SMALLEST_ADDED))
        return 0;
    for (j = 1; j < columns; j++)
        apart |= (uintptr_t)(to1[j] - to1[0]) & 63;
    if (f->type != PLAIN) {
        switch (item) {
        case 4: ADD(4); break;
        case 8: ADD(8); break;
        default: ADD(16); break;
        }
        return 1;
    }
    if (n < LONG_ROW && (apart || 8 * ((n - before) & ~(ptrdiff_t)63) < 7 * n))
        return 0;
    switch (item) {
    case 8: STREAM(8); break;
    case 4: STREAM(4); break;
    case 16: STREAM(16); break;
    case 2: STREAM(2); break;
    case 1: STREAM(1); break;
    default: STREAM(item); break;
    }
    return 1;
}

#endif
