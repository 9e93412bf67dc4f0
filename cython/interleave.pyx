"""Interleaved packing: messages that share lines of an array are moved together, line by line.

The messages of a process for one column of the other grid, and its local copy, are runs of the same columns of its array. One
message after another reads these columns repeatedly and with gaps; together they are read once, from end to end. In the same
way, messages received from several processes write whole cache lines of the same columns.
"""

from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free, qsort

from .moving cimport PLAIN, Factors, Job, find_matrix
from .runs cimport Cursor, Table, begin, next_run

cdef extern from "kernels.h":
    ctypedef struct MessageRun:
        Py_ssize_t from_ "from"
        Py_ssize_t to
        Py_ssize_t n
        Py_ssize_t message
    ctypedef struct Tail:
        size_t n
    void copy_message_runs(char *const *d, const char *const *s, const char *past, const MessageRun *runs, Py_ssize_t count,
                     Tail *tail, Py_ssize_t ahead) noexcept nogil
    void end_tail(Tail *tail) noexcept nogil
    void end_stream() noexcept nogil

cdef extern from "factors.h":
    void add_message_runs(char *const *d, const char *const *s, const char *past, const Factors *const *factors,
                         const Py_ssize_t *items, const MessageRun *runs, Py_ssize_t count, Tail *tail, Py_ssize_t ahead) noexcept nogil

cdef enum:
    MOST_RUNS = 1 << 15  # of one line
    FAR_AHEAD = 8192  # bytes by which lines are fetched ahead
    MOST_COMPARED = 1 << 16  # runs of the other dimensions

cdef struct Interleaving:
    Py_ssize_t count, n_runs, ahead
    const Job **jobs
    MessageRun *runs
    char *past
    bint adds  # whether a message has factors
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


cdef Interleaving *make_interleaving(const Job **jobs, const char *past, Py_ssize_t count, bint by_source, int64_t shortest) except? NULL:
    cdef Interleaving *interleaving
    cdef int64_t runs = 0, bytes = 0
    cdef Py_ssize_t k, n = 0
    cdef Cursor c
    for k in range(count):
        runs += _runs(jobs[k].axes[0])
        bytes += jobs[k].axes[0].total * jobs[k].item
    if count < 2 or runs > MOST_RUNS or bytes < shortest * runs:
        return NULL
    interleaving = <Interleaving *> calloc(1, sizeof(Interleaving))
    if interleaving == NULL:
        raise MemoryError(f"no memory to interleave {count} messages")
    interleaving.jobs = <const Job **> calloc(7 * count, sizeof(void *))
    interleaving.runs = <MessageRun *> calloc(runs, sizeof(MessageRun))
    interleaving.past = <char *> calloc(count, 1)
    interleaving.cursors = <Cursor *> calloc(count, sizeof(Cursor))
    if interleaving.jobs == NULL or interleaving.runs == NULL or interleaving.past == NULL or interleaving.cursors == NULL:
        free_interleaving(interleaving)
        raise MemoryError(f"no memory to interleave {runs} runs of {count} messages")
    interleaving.s = <const char **> interleaving.jobs + count
    interleaving.t = <char **> interleaving.s + count
    interleaving.line_s = <const char **> interleaving.t + count
    interleaving.line_t = <char **> interleaving.line_s + count
    interleaving.factors = <const Factors **> interleaving.line_t + count
    interleaving.items = <Py_ssize_t *> interleaving.factors + count
    interleaving.count = count
    for k in range(count):
        interleaving.jobs[k] = jobs[k]
        interleaving.factors[k], interleaving.items[k] = &jobs[k].factors, jobs[k].item
        interleaving.past[k] = past[k]
        interleaving.adds = interleaving.adds or (jobs[k].factors.type != PLAIN)
        begin(jobs[k].axes[0], 0, jobs[k].axes[0].total, &c)
        while next_run(jobs[k].axes[0], &c):
            interleaving.runs[n] = MessageRun(c.x * jobs[k].item, c.y * jobs[k].item, c.count * jobs[k].item, k)
            n += 1
    interleaving.n_runs = n
    qsort(interleaving.runs, n, sizeof(MessageRun), _by_from if by_source else _by_to)
    # read from end to end, but by several loops, which prefetchers do not follow as one
    interleaving.ahead = FAR_AHEAD if by_source else 0
    return interleaving


cdef void free_interleaving(Interleaving *interleaving) noexcept:
    if interleaving != NULL:
        free(interleaving.jobs)
        free(interleaving.runs)
        free(interleaving.past)
        free(interleaving.cursors)
        free(interleaving)


cdef void write_past(Interleaving *interleaving, Py_ssize_t message, bint past) noexcept nogil:
    interleaving.past[message] = past


cdef void move_interleaved(Interleaving *interleaving, const char **sources, char **targets, int64_t first, int64_t last) noexcept nogil:
    cdef const Job *job
    cdef Cursor *c
    cdef Tail tail
    cdef int64_t n1 = interleaving.jobs[0].axes[1].total, width, j
    cdef Py_ssize_t k
    tail.n = 0
    while first < last:
        width = min(last - first, n1 - first % n1)
        for k in range(interleaving.count):
            job = interleaving.jobs[k]
            interleaving.s[k], interleaving.t[k] = sources[k], targets[k]
            find_matrix(job, first / n1, interleaving.s + k, interleaving.t + k)
            begin(job.axes[1], first % n1, first % n1 + width, interleaving.cursors + k)
        for j in range(width):
            for k in range(interleaving.count):
                job = interleaving.jobs[k]
                c = interleaving.cursors + k
                if c.count == 0:
                    next_run(job.axes[1], c)
                interleaving.line_s[k] = interleaving.s[k] + c.x * job.ss[1]
                interleaving.line_t[k] = interleaving.t[k] + c.y * job.ts[1]
                c.x += c.step_x
                c.y += c.step_y
                c.count -= 1
            if interleaving.adds:
                add_message_runs(interleaving.line_t, interleaving.line_s, interleaving.past, interleaving.factors, interleaving.items, interleaving.runs, interleaving.n_runs,
                                &tail, interleaving.ahead)
                continue
            copy_message_runs(interleaving.line_t, interleaving.line_s, interleaving.past, interleaving.runs, interleaving.n_runs, &tail, interleaving.ahead)
        first += width
    end_tail(&tail)
    end_stream()


cdef bint _in_lines(const Job *job) noexcept:
    """Whether a message consists of dense runs along lines on both sides."""
    return (
        not job.tiled and job.part == NULL
        and job.axes[0].unit and job.ss[0] == job.item and job.ts[0] == job.item
    )


cdef int64_t _runs(const Table *runs) noexcept:
    return (runs.total + runs.per_period - 1) // runs.per_period * runs.size if runs.total else 0


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
    return ((<const MessageRun *> a).from_ > (<const MessageRun *> b).from_) - ((<const MessageRun *> a).from_ < (<const MessageRun *> b).from_)


cdef int _by_to(const void *a, const void *b) noexcept nogil:
    return ((<const MessageRun *> a).to > (<const MessageRun *> b).to) - ((<const MessageRun *> a).to < (<const MessageRun *> b).to)
