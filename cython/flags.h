/* Flags in shared memory, and pauses of a process that waits for one. */
#ifndef PYSCALAPACK_REDIST_FLAGS
#define PYSCALAPACK_REDIST_FLAGS

#include <sched.h>
#include <stdint.h>
#include <time.h>

static inline int64_t peek(const int64_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
static inline void put(int64_t *p, int64_t value) { __atomic_store_n(p, value, __ATOMIC_RELEASE); }

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Prefetch all lines at once: they are in another core's cache, and loads would wait for them one after another. */
static inline void fetch(const char *from, int64_t bytes)
{
    int64_t k;
    for (k = 0; k < bytes; k += 64)
        __builtin_prefetch(from + k);
}

static inline int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1000000000 * (int64_t)t.tv_sec + t.tv_nsec;
}

static inline void sleep_ns(int64_t duration)
{
    const struct timespec t = {duration / 1000000000, duration % 1000000000};
    nanosleep(&t, NULL);
}

#endif
