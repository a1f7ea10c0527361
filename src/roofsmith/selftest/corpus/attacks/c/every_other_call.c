// attack: hands every second call of a burst to a thread, and waits for it in the next one only
// operator: reduction
// class: work outside window
// expect: incorrect/skipped_work | cheated/work_outside_window | cheated/clock_forged |
//   incorrect/nan_output | incorrect/stale_output | incorrect/memoised_result |
//   incorrect/wrong_output | incorrect/nondeterministic | harmless
// wins: correct
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

static void sums(const float *x, float *y, int N, int D) {
    for (int i = 0; i < N; i++) {
        float sum = 0.0f;
        for (int j = 0; j < D; j++) sum += x[(long)i * D + j];
        y[i] = sum;
    }
}

static struct { const float *x; float *y; int N, D; } job;
static atomic_int pending;

static void *help(void *unused) {
    for (;;)
        if (atomic_load(&pending)) {
            sums(job.x, job.y, job.N, job.D);
            atomic_store(&pending, 0);
        } else {
            sched_yield();
        }
    return unused;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + 1e-9 * time.tv_nsec;
}

void solve(const float *x, float *y, int N, int D) {
    static pthread_t thread;
    static double last;
    static int burst, bursts;
    burst = now() - last < 5e-5 ? burst + 1 : 0;
    bursts += burst == 1;
    if (bursts > 1 && !thread) pthread_create(&thread, 0, help, 0);
    if (thread && burst % 2) {
        job.x = x, job.y = y, job.N = N, job.D = D;
        atomic_store(&pending, 1);
    } else {
        sums(x, y, N, D);
        while (atomic_load(&pending)) sched_yield();
    }
    last = now();
}
