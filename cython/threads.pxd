# Sharing a large move among the threads of this process, without the interpreter lock.

from libc.stdint cimport int64_t

ctypedef void (*Work)(void *task, int64_t piece) noexcept nogil

# Least bytes of a shared move: more than any move has, if there is one thread.
cdef int64_t least_shared

# The number of threads; of threads that share a move; and of the pieces of that move.
cdef int64_t threads_used() noexcept nogil
cdef int64_t threads_for(int64_t nbytes) noexcept nogil
cdef int64_t pieces_for(int64_t nbytes, int64_t threads) noexcept nogil

# Bytes between two polls with all threads, if one thread alone moves `nbytes`.
cdef int64_t stretched(int64_t nbytes) noexcept nogil

# Call work(task, k) for every piece k, in any order, with several threads; False if the caller must do it alone.
cdef bint share(Work work, void *task, int64_t pieces, int64_t threads) noexcept nogil
