"""Moves of a message's elements, line by line or by tiles; columns are lines of the first dimension, or parts of them.

The places of some hundred runs are computed once for many lines. If the lines of the sides cross, elements move by small tiles,
so that both sides use whole cache lines.
"""

from libc.stdint cimport int64_t

from .runs cimport Cursor, Table, begin, next_run, part_at

cdef extern from "kernels.h":
    ctypedef struct Span:
        Py_ssize_t from_ "from"
        Py_ssize_t to
        Py_ssize_t n
        Py_ssize_t stride_from
        Py_ssize_t stride_to
    void end_stream() noexcept nogil
    void copy_spans(char *d, const char *s, const Span *spans, Py_ssize_t count, Py_ssize_t item, Py_ssize_t bytes, bint dense,
                    bint stream, Py_ssize_t next) noexcept nogil
    void copy_lines(char *d, Py_ssize_t dd, const char *s, Py_ssize_t ds, Py_ssize_t n, Py_ssize_t bytes, bint stream) noexcept nogil

cdef extern from "crossing.h":
    void copy_tile(char *d, const Py_ssize_t *to0, const Py_ssize_t *to1, const char *s, const Py_ssize_t *from0,
                   const Py_ssize_t *from1, Py_ssize_t rows, Py_ssize_t columns, Py_ssize_t item) noexcept nogil
    void fetch_square(const char *d, const Py_ssize_t *to0, const Py_ssize_t *to1, const char *s, const Py_ssize_t *from0,
                      const Py_ssize_t *from1, Py_ssize_t side) noexcept nogil
    void add_tile(char *d, const Py_ssize_t *to0, const Py_ssize_t *to1, const char *s, const Py_ssize_t *from0,
                  const Py_ssize_t *from1, Py_ssize_t rows, Py_ssize_t columns, Py_ssize_t item, const Factors *f) noexcept nogil
    bint stream_tile(char *d, const Py_ssize_t *to1, const char *s, const Py_ssize_t *from0, const Py_ssize_t *from1,
                     Py_ssize_t rows, Py_ssize_t columns, Py_ssize_t item, const Factors *f) noexcept nogil

cdef extern from "factors.h":
    void add_spans(char *d, const char *s, const Span *spans, Py_ssize_t count, const Factors *f) noexcept nogil
    void add_dense_lines(char *d, Py_ssize_t dd, const char *s, Py_ssize_t ds, Py_ssize_t lines, Py_ssize_t n, Py_ssize_t item,
                         const Factors *f) noexcept nogil

cdef enum:
    SPANS = 512  # runs whose places are computed once for all lines of a piece
    STRIP = 32  # columns of a trapezoid in one transposing move; at most TILE
    TILE = 128  # side of a tile in a transposing move
    LARGEST_TILE = 512  # the same with streaming, along lines of the target
    WIDEST_TILE = 2048  # and across them
    SHORTEST_STREAMED = 64  # least bytes of the longest run of a line for streaming
    LENGTHS = 8  # most lengths of the short runs of a line, which are grouped by length
    LONGEST_SHORT = 128  # most bytes of a short run: loops of fixed size exist up to here
    FEW_LINES = 4  # most lines without sorting of runs
    SPREAD = 8  # most elements of a run with gaps that is split into single elements


cdef void perform(const Job *job, const char *source, char *target, int64_t first, int64_t last, bint stream) noexcept nogil:
    cdef int64_t n0 = job.axes[0].total, n1 = job.axes[1].total
    cdef int64_t column, row, width, height
    cdef const char *s
    cdef char *t
    if job.part != NULL:
        _part(job, source + job.from_source, target + job.from_target, first, last, stream)
        last = first
    elif job.panels:
        _panels(job, source, target, first, last, stream)
        last = first
    while first < last:
        column = first / n0
        row = first % n0
        if row or last - first < n0:
            width = 1
            height = min(n0 - row, last - first)
        else:
            height = n0
            width = min((last - first) / n0, n1 - column % n1)
        s, t = source, target
        find_matrix(job, column / n1, &s, &t)
        column %= n1
        if job.tiled:
            _tiles(job, row, row + height, column, column + width, s, t, stream)
        else:
            _columns(job, row, row + height, column, column + width, s, t, stream)
        first += width * height
    if stream:
        end_stream()


cdef void _panels(const Job *job, const char *source, char *target, int64_t first, int64_t last, bint stream) noexcept nogil:
    """Move panels of PANEL columns, each row by row: a piece of whole rows of a panel has long parts of lines of both sides."""
    cdef int64_t n0 = job.axes[0].total, n1 = job.axes[1].total, place, panel, width, row, column, rows, columns
    cdef const char *s
    cdef char *t
    while first < last:
        s, t = source, target
        find_matrix(job, first / (n0 * n1), &s, &t)
        place = first % (n0 * n1)
        panel = place / (PANEL * n0) * PANEL
        width = min(<int64_t> PANEL, n1 - panel)
        place -= panel * n0
        row, column = place / width, place % width
        rows = 1 if column or last - first < width else min(n0 - row, (last - first) / width)
        columns = min(width - column, last - first)
        _tiles(job, row, row + rows, panel + column, panel + column + columns, s, t, stream)
        first += rows * columns


cdef inline void _rows_of_part(const Job *job, int64_t column, int64_t *low, int64_t *high) noexcept nogil:
    low[0] = job.part.cut[column] if job.part.rest else 0
    high[0] = job.axes[0].total if job.part.rest else job.part.cut[column]


cdef void _part(const Job *job, const char *s, char *t, int64_t first, int64_t last, bint stream) noexcept nogil:
    """Move a part column by column; with crossing lines, by tiles where columns have rows in common."""
    cdef const int64_t *before = job.part.before
    cdef int64_t n1 = job.axes[1].total, column = part_at(before, n1, first), end, low, high, top, bottom, a, b, dense, k
    while first < last:
        end = column
        top, bottom = 0, job.axes[0].total
        while job.tiled and end < min(n1, column + STRIP) and before[end] >= first and before[end + 1] <= last:
            _rows_of_part(job, end, &low, &high)
            if min(bottom, high) <= max(top, low):
                break
            top, bottom = max(top, low), min(bottom, high)
            end += 1
        if end - column > 1:
            _strip(job, top, bottom, column, end, s, t, stream)
        else:
            top = bottom = 0
            end = column + 1
        for k in range(column, end):
            _rows_of_part(job, k, &low, &high)
            dense = before[k] - low
            a, b = max(low, first - dense), min(high, last - dense)
            if top < bottom:
                _line(job, a, top, k, dense, s, t, stream)
                a = bottom
            _line(job, a, b, k, dense, s, t, stream)
        first = max(first, min(last, before[end]))
        column = end


cdef inline void _line(const Job *job, int64_t row, int64_t row_end, int64_t column, int64_t dense, const char *s, char *t,
                       bint stream) noexcept nogil:
    if row < row_end:
        _columns(job, row, row_end, column, column + 1, s + dense * job.to_source, t + dense * job.to_target, stream)


cdef void _strip(const Job *job, int64_t row, int64_t row_end, int64_t column, int64_t column_end,
                 const char *s, char *t, bint stream) noexcept nogil:
    """Move a rectangle of at most STRIP columns by tiles."""
    cdef Cursor c
    cdef int64_t low, high
    cdef Py_ssize_t x1[STRIP]
    cdef Py_ssize_t y1[STRIP]
    cdef Py_ssize_t columns, k
    begin(job.axes[1], column, column_end, &c)
    columns = _places(job.axes[1], &c, job.ss[1], job.ts[1], x1, y1, STRIP)
    for k in range(columns):
        _rows_of_part(job, column + k, &low, &high)
        x1[k] += (job.part.before[column + k] - low) * job.to_source
        y1[k] += (job.part.before[column + k] - low) * job.to_target
    _tile_rows(job, row, row_end, x1, y1, columns, s, t, stream)


cdef struct Alike:
    Py_ssize_t start  # of runs copied in one loop
    Py_ssize_t count
    Py_ssize_t bytes  # of each; 0 if they differ


cdef Py_ssize_t _by_length(Span *spans, Py_ssize_t count, Py_ssize_t item, Alike *groups) noexcept nogil:
    """Group short runs by length, in any order: finding the length of each would take longer than copying it."""
    cdef Py_ssize_t n_groups = 0, start = 0, end, k
    while start < count and n_groups < LENGTHS:
        end = start + 1
        for k in range(end, count):
            if spans[k].n == spans[start].n:
                spans[k], spans[end] = spans[end], spans[k]
                end += 1
        groups[n_groups] = Alike(start, end - start, spans[start].n * item)
        n_groups += 1
        start = end
    if start < count:
        groups[n_groups - 1].count += count - start
        groups[n_groups - 1].bytes = 0
    return n_groups


cdef struct Line:
    # some hundred runs of a line, with the same places in other lines
    Py_ssize_t count, n_groups
    bint dense  # no run has gaps
    Alike groups[LENGTHS]
    bint past  # written with non-temporal stores
    Span spans[SPANS]


cdef void _take(const Job *job, Cursor *r, int64_t lines, bint stream, Line *line) noexcept nogil:
    """Take the next runs of `lines` lines, as many as there is room for."""
    cdef Py_ssize_t item = job.item, longest = 0, n, k, from_, to, stride_from, stride_to
    cdef bint equal = True, dense
    line.count = 0
    line.dense = True
    while line.count <= SPANS - SPREAD and next_run(job.axes[0], r):
        n, from_, to = r.count, r.x * job.ss[0], r.y * job.ts[0]
        stride_from, stride_to = r.step_x * job.ss[0], r.step_y * job.ts[0]
        dense = n == 1 or (stride_from == item and stride_to == item)
        if not dense and n <= SPREAD:
            for k in range(n):
                line.spans[line.count] = Span(from_ + k * stride_from, to + k * stride_to, 1, item, item)
                line.count += 1
            n = 1
        else:
            line.spans[line.count] = Span(from_, to, n, stride_from, stride_to)
            line.count += 1
            line.dense = line.dense and dense
        equal = equal and n == line.spans[0].n
        longest = max(longest, n)
    equal = equal and line.dense
    line.past = stream and longest * item >= SHORTEST_STREAMED
    line.groups[0] = Alike(0, line.count, line.spans[0].n * item if equal and line.count > 1 else 0)
    line.n_groups = 1
    if line.dense and not equal and not line.past and longest * item <= LONGEST_SHORT and lines > FEW_LINES:
        line.n_groups = _by_length(line.spans, line.count, item, line.groups)


cdef inline void _copy_line(const Job *job, const Line *line, const char *s, char *t, Py_ssize_t next) noexcept nogil:
    cdef const Alike *group
    cdef Py_ssize_t k
    if job.factors.type != PLAIN:
        add_spans(t, s, line.spans, line.count, &job.factors)
        return
    for k in range(line.n_groups):
        group = line.groups + k
        copy_spans(t, s, line.spans + group.start, group.count, job.item, group.bytes, line.dense, line.past, next)


cdef inline void _copy_lines(const Job *job, const Span *run, const Cursor *c, const char *s, char *t, bint stream) noexcept nogil:
    """Move lines of one dense run."""
    s += c.x * job.ss[1] + run.from_
    t += c.y * job.ts[1] + run.to
    if job.factors.type != PLAIN:
        add_dense_lines(t, c.step_y * job.ts[1], s, c.step_x * job.ss[1], c.count, run.n, job.item, &job.factors)
    else:
        copy_lines(t, c.step_y * job.ts[1], s, c.step_x * job.ss[1], c.count, run.n * job.item, stream)


cdef void _columns(const Job *job, int64_t row, int64_t row_end, int64_t column, int64_t column_end,
                   const char *s, char *t, bint stream) noexcept nogil:
    """Move line by line, some hundred runs of each."""
    cdef Line line
    cdef Cursor c, r
    cdef int64_t j
    if column_end - column <= FEW_LINES and _long_lines(job, row, row_end, column, column_end, s, t, stream):
        return
    begin(job.axes[0], row, row_end, &r)
    while r.left > 0:
        _take(job, &r, column_end - column, stream, &line)
        begin(job.axes[1], column, column_end, &c)
        while next_run(job.axes[1], &c):
            if line.count == 1 and line.dense:
                _copy_lines(job, line.spans, &c, s, t, stream)
                continue
            for j in range(c.count):
                _copy_line(job, &line, s + (c.x + j * c.step_x) * job.ss[1], t + (c.y + j * c.step_y) * job.ts[1], c.step_x * job.ss[1])


cdef bint _long_lines(const Job *job, int64_t row, int64_t row_end, int64_t column, int64_t column_end,
                      const char *s, char *t, bint stream) noexcept nogil:
    """Move a few long lines of short periods, with several periods taken as a line; False if they are not long enough."""
    cdef Line line
    cdef Cursor c, r
    cdef const Table *rows = job.axes[0]
    cdef int64_t runs = 0, periods, first, middle, lines, j, k
    if rows.size > SPANS or row_end - row <= FEW_LINES * rows.per_period:
        return False
    for k in range(rows.size):
        runs += rows.count[k] if rows.count[k] <= SPREAD else 1
    if runs > SPANS - SPREAD:
        return False
    periods = (SPANS - SPREAD) / runs
    first = (row + rows.per_period - 1) / rows.per_period * rows.per_period
    lines = (row_end - first) / (periods * rows.per_period)
    if lines <= FEW_LINES:
        return False
    middle = first + lines * periods * rows.per_period
    begin(rows, first, first + periods * rows.per_period, &r)
    _take(job, &r, lines, stream, &line)
    begin(job.axes[1], column, column_end, &c)
    while next_run(job.axes[1], &c):
        for j in range(c.count):
            for k in range(lines):
                _copy_line(job, &line,
                           s + (c.x + j * c.step_x) * job.ss[1] + k * periods * rows.period_x * job.ss[0],
                           t + (c.y + j * c.step_y) * job.ts[1] + k * periods * rows.period_y * job.ts[0],
                           periods * rows.period_x * job.ss[0])
    _columns(job, row, first, column, column_end, s, t, stream)
    _columns(job, middle, row_end, column, column_end, s, t, stream)
    return True


cdef Py_ssize_t _places(const Table *runs, Cursor *c, Py_ssize_t source, Py_ssize_t target, Py_ssize_t *x, Py_ssize_t *y,
                        Py_ssize_t most) noexcept nogil:
    """Offsets in bytes of the next elements of a dimension, at most `most`."""
    cdef Py_ssize_t count = 0, n, k
    while count < most and (c.count or next_run(runs, c)):
        n = min(<int64_t> most - count, c.count)
        for k in range(n):
            x[count + k], y[count + k] = (c.x + k * c.step_x) * source, (c.y + k * c.step_y) * target
        c.x += n * c.step_x
        c.y += n * c.step_y
        c.count -= n
        count += n
    return count


cdef inline Py_ssize_t _side_of_tiles(bint stream, bint along) noexcept nogil:
    """The most places of a tile along lines of the target, or across them."""
    return TILE if not stream else LARGEST_TILE if along else WIDEST_TILE


cdef void _squares(const Job *job, char *t, const Py_ssize_t *y0, const Py_ssize_t *y1, const char *s, const Py_ssize_t *x0,
                   const Py_ssize_t *x1, Py_ssize_t rows, Py_ssize_t columns, bint stream) noexcept nogil:
    """Move squares along lines of the target; with `stream`, prefetch the neighbouring squares."""
    cdef Py_ssize_t i, j = 0, height, width
    while j < columns:
        width = min(job.side, columns - j)
        i = 0
        while i < rows:
            height = min(job.side, rows - i)
            if stream and j + width < columns:
                fetch_square(t, y0 + i, y1 + j + width, s, x0 + i, x1 + j + width, min(height, columns - j - width))
            if job.factors.type != PLAIN:
                add_tile(t, y0 + i, y1 + j, s, x0 + i, x1 + j, height, width, job.item, &job.factors)
            else:
                copy_tile(t, y0 + i, y1 + j, s, x0 + i, x1 + j, height, width, job.item)
            i += job.side
        j += job.side


cdef void _tile(const Job *job, char *t, const Py_ssize_t *y0, const Py_ssize_t *y1, const char *s, const Py_ssize_t *x0,
                const Py_ssize_t *x1, Py_ssize_t rows, Py_ssize_t columns, bint stream) noexcept nogil:
    """Move a tile in squares; with `stream`, long runs of rows of the target by streamed cache lines, and squares between them."""
    cdef Py_ssize_t first = 0, start = 0, end
    while stream and start < rows:
        end = start + 1
        while end < rows and y0[end] - y0[end - 1] == job.item:
            end += 1
        if stream_tile(t + y0[start], y1, s, x0 + start, x1, end - start, columns, job.item, &job.factors):
            _squares(job, t, y0 + first, y1, s, x0 + first, x1, start - first, columns, True)
            first = end
        start = end
    _squares(job, t, y0 + first, y1, s, x0 + first, x1, rows - first, columns, stream)


cdef void _tile_rows(const Job *job, int64_t row, int64_t row_end, const Py_ssize_t *x1, const Py_ssize_t *y1,
                     Py_ssize_t columns, const char *s, char *t, bint stream) noexcept nogil:
    """Move all rows of columns with known places."""
    cdef Cursor r
    cdef Py_ssize_t x0[WIDEST_TILE]
    cdef Py_ssize_t y0[WIDEST_TILE]
    cdef Py_ssize_t rows, most = _side_of_tiles(stream, not job.across)
    begin(job.axes[0], row, row_end, &r)
    while True:
        rows = _places(job.axes[0], &r, job.ss[0], job.ts[0], x0, y0, most)
        if rows == 0:
            return
        if not job.across:  # along the lines of the target
            _tile(job, t, y0, y1, s, x0, x1, rows, columns, stream)
        else:
            _tile(job, t, y1, y0, s, x1, x0, columns, rows, stream)


cdef void _tiles(const Job *job, int64_t row, int64_t row_end, int64_t column, int64_t column_end,
                 const char *s, char *t, bint stream) noexcept nogil:
    """Move by small squares, so that both sides use whole cache lines, whatever their runs."""
    cdef Cursor c
    cdef Py_ssize_t x1[WIDEST_TILE]
    cdef Py_ssize_t y1[WIDEST_TILE]
    cdef Py_ssize_t columns, most = _side_of_tiles(stream, job.across)
    begin(job.axes[1], column, column_end, &c)
    while True:
        columns = _places(job.axes[1], &c, job.ss[1], job.ts[1], x1, y1, most)
        if columns == 0:
            return
        _tile_rows(job, row, row_end, x1, y1, columns, s, t, stream)
