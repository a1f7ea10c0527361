/* A team of threads that runs one phase together and is timed as one.
 *
 * Plain pthreads, so that no OpenMP runtime is needed. The barrier spins: a sleeping barrier would
 * wake its threads tens of microseconds apart, which is as long as one pass over a level-2 cache.
 */
#ifndef ROOFSMITH_TEAM_H
#define ROOFSMITH_TEAM_H

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif

/* Takes a value through a register: the compiler may not guess it, drop it or move it. */
#if defined(__x86_64__) || defined(__i386__)
#define OPAQUE(value) __asm__ volatile("" : "+x"(value))
#elif defined(__aarch64__)
#define OPAQUE(value) __asm__ volatile("" : "+w"(value))
#else
#define OPAQUE(value) __asm__ volatile("" : "+m"(value))
#endif

#define MAX_THREADS 1024

typedef void (*phase_fn)(int thread, int threads, void *context);

struct team {
    int threads;
    int arrived;
    int generation;
    int abandoned;
    phase_fn phase;
    void *context;
    double begin_s[MAX_THREADS];
    double end_s[MAX_THREADS];
};

struct member {
    struct team *team;
    int thread;
};

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* 1 once every thread has come; 0 if some could not be started. */
static int meet(struct team *team)
{
    int generation = __atomic_load_n(&team->generation, __ATOMIC_ACQUIRE);
    if (__atomic_add_fetch(&team->arrived, 1, __ATOMIC_ACQ_REL) == team->threads) {
        __atomic_store_n(&team->arrived, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&team->generation, generation + 1, __ATOMIC_RELEASE);
        return 1;
    }
    /* Yields now and then: with more threads than processors, spinning alone would be a live-lock. */
    for (long spins = 1; __atomic_load_n(&team->generation, __ATOMIC_ACQUIRE) == generation; spins++) {
        if (__atomic_load_n(&team->abandoned, __ATOMIC_ACQUIRE))
            return 0;
        if (spins % 4096 == 0)
            sched_yield();
    }
    return 1;
}

static void *join_in(void *argument)
{
    struct member *member = argument;
    struct team *team = member->team;
    if (!meet(team))
        return NULL;
    team->begin_s[member->thread] = now_s();
    team->phase(member->thread, team->threads, team->context);
    team->end_s[member->thread] = now_s();
    return NULL;
}

/* Runs `phase` on every thread; seconds from the first start to the last end, or -1. */
static double run_team(int threads, phase_fn phase, void *context)
{
    static struct team team;
    static struct member members[MAX_THREADS];
    static pthread_t handles[MAX_THREADS];
    if (threads < 1 || threads > MAX_THREADS)
        return -1.0;
    team.threads = threads;
    team.arrived = 0;
    team.abandoned = 0;
    team.phase = phase;
    team.context = context;
    for (int t = 0; t < threads; t++) {
        members[t].team = &team;
        members[t].thread = t;
    }
    int started = 1;
    while (started < threads &&
           pthread_create(&handles[started], NULL, join_in, &members[started]) == 0)
        started++;
    if (started < threads)
        __atomic_store_n(&team.abandoned, 1, __ATOMIC_RELEASE);
    else
        join_in(&members[0]);
    for (int t = 1; t < started; t++)
        pthread_join(handles[t], NULL);
    if (started < threads)
        return -1.0;
    double begin = team.begin_s[0], end = team.end_s[0];
    for (int t = 1; t < threads; t++) {
        if (team.begin_s[t] < begin)
            begin = team.begin_s[t];
        if (team.end_s[t] > end)
            end = team.end_s[t];
    }
    return end - begin;
}

#endif
