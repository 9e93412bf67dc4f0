# Sharing a large move among the threads of this process, without the interpreter lock.

from libc.stdint cimport int64_t

ctypedef void (*Work)(void *task, int64_t piece) noexcept nogil

# Bytes from which on a move is shared: more than any move has, where there is one thread.
cdef int64_t least_shared

# How many threads there are; how many share a move of so many bytes; and into how many pieces these cut it.
cdef int64_t threads_used() noexcept nogil
cdef int64_t threads_for(int64_t nbytes) noexcept nogil
cdef int64_t pieces_for(int64_t nbytes, int64_t threads) noexcept nogil

# Bytes to move between two looks at other things, where one thread alone would move so many.
cdef int64_t stretched(int64_t nbytes) noexcept nogil

# Do work(task, k) for every piece k, in any order, by so many threads; False where the caller is to do all of it itself.
cdef bint share(Work work, void *task, int64_t pieces, int64_t threads) noexcept nogil
