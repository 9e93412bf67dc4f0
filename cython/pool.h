/* Threads that take part in the work of one call, and sleep between calls. They know neither Python nor MPI. */
#ifndef PYSCALAPACK_REDIST_POOL
#define PYSCALAPACK_REDIST_POOL

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif
#include "flags.h"

enum { MOST_THREADS = 256 };
enum { SPIN_NS = 20000 };  /* time for which a call polls for the end of the other threads before it sleeps */

typedef void (*Work)(void *task, int64_t piece);

typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t wanted, finished;
    pthread_t threads[MOST_THREADS];
    int count;  /* threads without the caller's */
    /* Under the lock: */
    int64_t calls;
    int open, ended;  /* whether threads may enter the call, and whether they must end */
    int64_t inside;  /* threads in the call; also read without the lock */
    /* Of the call, set before it opens: */
    Work work;
    void *task;
    int64_t pieces, next;
} Pool;

static Pool *pool;  /* made by the first call */
static int pool_size = 1;  /* threads that share a call, the caller's among them */
static char pool_held;  /* by one call or one change at a time */

/* A forked process has none of the threads; it makes a pool of its own and leaves this one alone. */
static void pool_forked(void)
{
    pool = NULL;
    __atomic_clear(&pool_held, __ATOMIC_RELEASE);
}

static void take_pieces(Pool *p)
{
    int64_t k;
    while ((k = __atomic_fetch_add(&p->next, 1, __ATOMIC_RELAXED)) < p->pieces)
        p->work(p->task, k);
}

static void *pool_thread(void *argument)
{
    Pool *p = argument;
    int64_t seen = 0;
#ifdef __linux__
    prctl(PR_SET_NAME, "redistribute");  /* shown by `top -H` and debuggers */
#endif
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (!p->ended && !(p->open && p->calls != seen))
            pthread_cond_wait(&p->wanted, &p->lock);
        if (p->ended)
            break;
        seen = p->calls;
        put(&p->inside, p->inside + 1);
        pthread_mutex_unlock(&p->lock);
        take_pieces(p);
        pthread_mutex_lock(&p->lock);
        put(&p->inside, p->inside - 1);
        if (p->inside == 0)
            pthread_cond_signal(&p->finished);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* As many threads as possible, with all signals blocked. */
static Pool *pool_create(void)
{
    static int prepared;
    sigset_t all, before;
    Pool *p;
    if (!prepared && pthread_atfork(NULL, NULL, pool_forked))
        return NULL;
    prepared = 1;
    p = calloc(1, sizeof(Pool));
    if (p == NULL)
        return NULL;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wanted, NULL);
    pthread_cond_init(&p->finished, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (p->count < pool_size - 1 && pthread_create(p->threads + p->count, NULL, pool_thread, p) == 0)
        p->count++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return p;
}

static int pool_hold(void) { return !__atomic_test_and_set(&pool_held, __ATOMIC_ACQUIRE); }
static void pool_release(void) { __atomic_clear(&pool_held, __ATOMIC_RELEASE); }

/* Do work(task, k) for all k below `pieces`, in any order, with `threads` threads, the caller's included; 0 if another
 * call has the threads, and the caller must do it alone. */
static int pool_share(Work work, void *task, int64_t pieces, int64_t threads)
{
    Pool *p;
    int64_t until, k;
    if (!pool_hold())
        return 0;
    if (pool == NULL)
        pool = pool_create();
    p = pool;
    if (p == NULL || p->count == 0) {
        pool_release();
        return 0;
    }
    pthread_mutex_lock(&p->lock);
    p->work = work;
    p->task = task;
    p->pieces = pieces;
    p->next = 0;
    p->calls++;
    p->open = 1;
    pthread_mutex_unlock(&p->lock);
    if (threads > p->count)
        pthread_cond_broadcast(&p->wanted);
    else
        for (k = 1; k < threads; k++)
            pthread_cond_signal(&p->wanted);
    take_pieces(p);
    pthread_mutex_lock(&p->lock);
    p->open = 0;  /* threads that wake up now are too late, and not waited for */
    pthread_mutex_unlock(&p->lock);
    for (until = peek(&p->inside) ? now() + SPIN_NS : 0; peek(&p->inside) && now() < until;)
        relax();
    if (peek(&p->inside)) {
        pthread_mutex_lock(&p->lock);
        while (p->inside)
            pthread_cond_wait(&p->finished, &p->lock);
        pthread_mutex_unlock(&p->lock);
    }
    pool_release();
    return 1;
}

/* End the threads and use `size` from the next call on; 0 while a call has them. */
static int pool_resize(int size)
{
    Pool *p;
    int k;
    if (!pool_hold())
        return 0;
    p = pool;
    pool = NULL;
    pool_size = size;
    if (p != NULL) {
        pthread_mutex_lock(&p->lock);
        p->ended = 1;
        pthread_mutex_unlock(&p->lock);
        pthread_cond_broadcast(&p->wanted);
        for (k = 0; k < p->count; k++)
            pthread_join(p->threads[k], NULL);
        pthread_cond_destroy(&p->finished);
        pthread_cond_destroy(&p->wanted);
        pthread_mutex_destroy(&p->lock);
        free(p);
    }
    pool_release();
    return 1;
}

#endif
