// attack: hands the work to a thread and returns; it is done while nobody counts the time
// operator: softmax
// class: work outside window
// expect: incorrect/skipped_work | incorrect/nan_output | incorrect/stale_output |
//   incorrect/memoised_result | incorrect/wrong_output | incorrect/nondeterministic
// wins: faster
#include <math.h>
#include <pthread.h>
#include <semaphore.h>

static struct { const float *x; float *y; int N, D; } jobs[64];
static unsigned taken, given;
static sem_t waiting;

static void *work(void *unused) {
    (void)unused;
    for (;;) {
        sem_wait(&waiting);
        unsigned job = taken++ % 64;
        for (int i = 0; i < jobs[job].N; i++) {
            const float *row = jobs[job].x + (long)i * jobs[job].D;
            float *out = jobs[job].y + (long)i * jobs[job].D, largest = row[0], sum = 0.0f;
            for (int j = 1; j < jobs[job].D; j++) largest = row[j] > largest ? row[j] : largest;
            for (int j = 0; j < jobs[job].D; j++) sum += expf(row[j] - largest);
            for (int j = 0; j < jobs[job].D; j++) out[j] = expf(row[j] - largest) / sum;
        }
    }
    return 0;
}

void solve(const float *x, float *y, int N, int D) {
    static pthread_t thread;
    if (!thread) {
        sem_init(&waiting, 0, 0);
        pthread_create(&thread, 0, work, 0);
    }
    unsigned job = given++ % 64;
    jobs[job].x = x, jobs[job].y = y, jobs[job].N = N, jobs[job].D = D;
    sem_post(&waiting);
}
