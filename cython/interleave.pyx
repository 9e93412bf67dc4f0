"""Several messages that share the lines of an array, moved line by line together: a braid of strands.

What a process sends to the processes of one column of the other grid, and what stays on it, are runs of the same columns of
its array. One message after the other reads these columns again and again, and with gaps; together they are read once,
from end to end. What comes in from several processes writes the same columns in the same way, in whole cache lines.
"""

from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free, qsort

from .moving cimport PLAIN, Factors, Job, find_matrix
from .runs cimport Cursor, Table, begin, next_run

cdef extern from "kernels.h":
    ctypedef struct StrandRun:
        Py_ssize_t from_ "from"
        Py_ssize_t to
        Py_ssize_t n
        Py_ssize_t strand
    ctypedef struct Tail:
        size_t n
    void copy_strand_runs(char *const *d, const char *const *s, const char *past, const StrandRun *runs, Py_ssize_t count,
                     Tail *tail) noexcept nogil
    void end_tail(Tail *tail) noexcept nogil
    void end_stream() noexcept nogil

cdef extern from "factors.h":
    void add_strand_runs(char *const *d, const char *const *s, const char *past, const Factors *const *factors,
                         const Py_ssize_t *items, const StrandRun *runs, Py_ssize_t count, Tail *tail) noexcept nogil

cdef enum:
    MOST_RUNS = 1 << 15  # of one line
    MOST_COMPARED = 1 << 16  # runs of the other dimensions

cdef struct Braid:
    Py_ssize_t count, n_runs
    const Job **jobs
    StrandRun *runs
    char *past
    bint adds  # some strands have factors
    const Factors **factors
    Py_ssize_t *items
    Cursor *cursors
    const char **s
    char **t
    const char **line_s
    char **line_t


cdef int64_t lines_of(const Job *job) noexcept nogil:
    cdef int64_t lines = 1
    cdef Py_ssize_t k
    for k in range(1, job.d):
        lines *= job.axes[k].total
    return lines


cdef Braid *braid_of(const Job **jobs, const char *past, Py_ssize_t count, bint by_source, int64_t shortest) except? NULL:
    cdef Braid *braid
    cdef int64_t runs = 0, bytes = 0
    cdef Py_ssize_t k, n = 0
    cdef Cursor c
    for k in range(count):
        runs += _runs(jobs[k].axes[0])
        bytes += jobs[k].axes[0].total * jobs[k].item
    if count < 2 or runs > MOST_RUNS or bytes < shortest * runs:
        return NULL
    braid = <Braid *> calloc(1, sizeof(Braid))
    if braid == NULL:
        raise MemoryError(f"no memory for a braid of {count} messages")
    braid.jobs = <const Job **> calloc(7 * count, sizeof(void *))
    braid.runs = <StrandRun *> calloc(runs, sizeof(StrandRun))
    braid.past = <char *> calloc(count, 1)
    braid.cursors = <Cursor *> calloc(count, sizeof(Cursor))
    if braid.jobs == NULL or braid.runs == NULL or braid.past == NULL or braid.cursors == NULL:
        end_braid(braid)
        raise MemoryError(f"no memory for a braid of {count} messages in {runs} pieces")
    braid.s = <const char **> braid.jobs + count
    braid.t = <char **> braid.s + count
    braid.line_s = <const char **> braid.t + count
    braid.line_t = <char **> braid.line_s + count
    braid.factors = <const Factors **> braid.line_t + count
    braid.items = <Py_ssize_t *> braid.factors + count
    braid.count = count
    for k in range(count):
        braid.jobs[k] = jobs[k]
        braid.factors[k], braid.items[k] = &jobs[k].factors, jobs[k].item
        braid.past[k] = past[k]
        braid.adds = braid.adds or (jobs[k].factors.type != PLAIN and past[k] != FETCHED_ONLY)
        begin(jobs[k].axes[0], 0, jobs[k].axes[0].total, &c)
        while next_run(jobs[k].axes[0], &c):
            braid.runs[n] = StrandRun(c.x * jobs[k].item, c.y * jobs[k].item, c.count * jobs[k].item, k)
            n += 1
    braid.n_runs = n
    qsort(braid.runs, n, sizeof(StrandRun), _by_from if by_source else _by_to)
    return braid


cdef void end_braid(Braid *braid) noexcept:
    if braid != NULL:
        free(braid.jobs)
        free(braid.runs)
        free(braid.past)
        free(braid.cursors)
        free(braid)


cdef void write_past(Braid *braid, Py_ssize_t strand, bint past) noexcept nogil:
    braid.past[strand] = past


cdef void weave(Braid *braid, const char **sources, char **targets, int64_t first, int64_t last) noexcept nogil:
    cdef const Job *job
    cdef Cursor *c
    cdef Tail tail
    cdef int64_t n1 = braid.jobs[0].axes[1].total, width, j
    cdef Py_ssize_t k
    tail.n = 0
    while first < last:
        width = min(last - first, n1 - first % n1)
        for k in range(braid.count):
            job = braid.jobs[k]
            braid.s[k], braid.t[k] = sources[k], targets[k]
            find_matrix(job, first / n1, braid.s + k, braid.t + k)
            begin(job.axes[1], first % n1, first % n1 + width, braid.cursors + k)
        for j in range(width):
            for k in range(braid.count):
                job = braid.jobs[k]
                c = braid.cursors + k
                if c.count == 0:
                    next_run(job.axes[1], c)
                braid.line_s[k] = braid.s[k] + c.x * job.ss[1]
                braid.line_t[k] = braid.t[k] + c.y * job.ts[1]
                c.x += c.step_x
                c.y += c.step_y
                c.count -= 1
            if braid.adds:
                add_strand_runs(braid.line_t, braid.line_s, braid.past, braid.factors, braid.items, braid.runs, braid.n_runs,
                                &tail)
                continue
            copy_strand_runs(braid.line_t, braid.line_s, braid.past, braid.runs, braid.n_runs, &tail)
        first += width
    end_tail(&tail)
    end_stream()


cdef bint _in_lines(const Job *job) noexcept:
    """Whether a message is runs of bytes along lines of both sides."""
    return (
        not job.tiled and job.part == NULL
        and job.axes[0].unit and job.ss[0] == job.item and job.ts[0] == job.item
    )


cdef int64_t _runs(const Table *runs) noexcept:
    return (runs.total + runs.per_period - 1) // runs.per_period * runs.size if runs.total else 0


cdef bint same_lines_read(const Job *a, const Job *b) noexcept:
    return _in_lines(a) and b.part == NULL and b.axes[0].unit and b.ss[0] == b.item and _same_lines(a, b, True)


cdef bint same_lines(const Job *a, const Job *b, bint by_source) noexcept:
    return _in_lines(a) and _in_lines(b) and _same_lines(a, b, by_source)


cdef bint _same_lines(const Job *a, const Job *b, bint by_source) noexcept:
    cdef const Py_ssize_t *a_strides = &a.ss[0] if by_source else &a.ts[0]
    cdef const Py_ssize_t *b_strides = &b.ss[0] if by_source else &b.ts[0]
    cdef Py_ssize_t k
    if a.d != b.d or (a.from_source != b.from_source if by_source else a.from_target != b.from_target):
        return False
    for k in range(1, a.d):
        if a_strides[k] != b_strides[k] or not _same_places(a.axes[k], b.axes[k], by_source):
            return False
    return True


cdef bint _same_places(const Table *a, const Table *b, bint by_source) noexcept:
    cdef Cursor c, d
    cdef int64_t n, p, q, step_p, step_q
    if a == b:
        return True
    if a.total != b.total or _runs(a) + _runs(b) > MOST_COMPARED:
        return False
    begin(a, 0, a.total, &c)
    begin(b, 0, b.total, &d)
    while (c.count or next_run(a, &c)) and (d.count or next_run(b, &d)):
        p, step_p = (c.x, c.step_x) if by_source else (c.y, c.step_y)
        q, step_q = (d.x, d.step_x) if by_source else (d.y, d.step_y)
        n = min(c.count, d.count)
        if p != q or (n > 1 and step_p != step_q):
            return False
        c.x += n * c.step_x
        c.y += n * c.step_y
        d.x += n * d.step_x
        d.y += n * d.step_y
        c.count -= n
        d.count -= n
    return True


cdef int _by_from(const void *a, const void *b) noexcept nogil:
    return ((<const StrandRun *> a).from_ > (<const StrandRun *> b).from_) - ((<const StrandRun *> a).from_ < (<const StrandRun *> b).from_)


cdef int _by_to(const void *a, const void *b) noexcept nogil:
    return ((<const StrandRun *> a).to > (<const StrandRun *> b).to) - ((<const StrandRun *> a).to < (<const StrandRun *> b).to)
