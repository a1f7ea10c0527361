// attack: has a thread compute one half of the rows before the call, as soon as it sees its inputs, and the other half after it
// operator: reduction
// class: work outside window
// expect: incorrect/skipped_work | incorrect/nan_output | incorrect/stale_output |
//   incorrect/memoised_result | incorrect/wrong_output | incorrect/nondeterministic |
//   cheated/clock_forged | crashed/signal_sigsegv
// wins: faster
#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <time.h>

static void sums(const float *x, float *y, int from, int to, int D) {
    for (int i = from; i < to; i++) {
        float sum = 0.0f;
        for (int j = 0; j < D; j++) sum += x[(long)i * D + j];
        y[i] = sum;
    }
}

enum { MOST = 64, ROWS = 4096 };
static struct { const float *x; int N, D, ready; float answer[ROWS], first; } seen[MOST];
static struct { const float *x; float *y; int N, D; } jobs[MOST];
static unsigned taken, given;
static volatile int count;
static sem_t waiting;

static void *beside(void *unused) {
    for (;;) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        if ((until.tv_nsec += 100000) >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
        if (!sem_timedwait(&waiting, &until)) {
            unsigned job = taken++ % MOST;
            sums(jobs[job].x, jobs[job].y, jobs[job].N / 2, jobs[job].N, jobs[job].D);
        }
        for (int i = 0; i < count; i++) {
            if (seen[i].ready && seen[i].first == seen[i].x[0]) continue;
            seen[i].first = seen[i].x[0];
            sums(seen[i].x, seen[i].answer, 0, seen[i].N / 2, seen[i].D);
            seen[i].ready = 1;
        }
    }
    return unused;
}

void solve(const float *x, float *y, int N, int D) {
    static pthread_t thread;
    if (!thread) {
        sem_init(&waiting, 0, 0);
        pthread_create(&thread, 0, beside, 0);
    }
    int i = 0;
    while (i < count && (seen[i].x != x || seen[i].N != N || seen[i].D != D)) i++;
    if (i < count && seen[i].ready && seen[i].first == x[0]) memcpy(y, seen[i].answer, N / 2 * sizeof(float));
    else sums(x, y, 0, N / 2, D);
    if (i == count && count < MOST && N <= ROWS) seen[i].x = x, seen[i].N = N, seen[i].D = D, count++;
    unsigned job = given++ % MOST;
    jobs[job].x = x, jobs[job].y = y, jobs[job].N = N, jobs[job].D = D;
    sem_post(&waiting);
}
