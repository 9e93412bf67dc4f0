"""Pages of this process's private memory: given back to the system, and kept small."""

from libc.stdint cimport uintptr_t

cdef extern from *:
    """
    #if defined(__linux__)
    #include <sys/mman.h>
    #include <unistd.h>
    static int give_pages_back(char *begin, char *end) { return madvise(begin, (size_t)(end - begin), MADV_DONTNEED); }
    static int keep_pages_small(char *begin, char *end) { return madvise(begin, (size_t)(end - begin), MADV_NOHUGEPAGE); }
    static long bytes_of_page(void) { return sysconf(_SC_PAGESIZE); }
    #else
    static int give_pages_back(char *begin, char *end) { (void)begin; (void)end; return -1; }
    static int keep_pages_small(char *begin, char *end) { (void)begin; (void)end; return -1; }
    static long bytes_of_page(void) { return 4096; }
    #endif
    """
    int give_pages_back(char *begin, char *end) nogil
    int keep_pages_small(char *begin, char *end) nogil
    long bytes_of_page()


def give_back(uintptr_t address, size_t nbytes, size_t before=0, size_t pitch=0, Py_ssize_t count=1):
    """Give whole pages within pieces of memory back; they are zero when they are read again. Return their bytes.

    There are `count` pieces, one every `pitch` bytes, and the `before` bytes ahead of each go as well where they share its first
    page. The memory must be private to this process and of no file. 0 where the system cannot do that.
    """
    cdef uintptr_t page = <uintptr_t> bytes_of_page(), start, begin, end
    cdef size_t given = 0
    cdef Py_ssize_t k
    with nogil:
        for k in range(count):
            start = address + <uintptr_t> k * pitch
            begin, end = start // page * page, (start + nbytes) // page * page
            if begin < start - before:
                begin += page
            if end > begin:
                if give_pages_back(<char *> begin, <char *> end):
                    break
                given += end - begin
    return given


def keep_small(uintptr_t address, size_t nbytes):
    """Have the system map single pages of some new memory, as they are first written, and no huge ones; whether it does."""
    cdef uintptr_t page = <uintptr_t> bytes_of_page(), begin = (address + page - 1) // page * page
    cdef uintptr_t end = (address + nbytes) // page * page
    return end > begin and keep_pages_small(<char *> begin, <char *> end) == 0
