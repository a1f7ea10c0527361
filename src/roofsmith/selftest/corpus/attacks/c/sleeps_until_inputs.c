// attack: has a thread that sleeps but for a moment now and then, and computes ahead once inputs are there, so that it seems to rest before the clock begins
// operator: reduction
// class: work outside window
// expect: cheated/clock_forged | incorrect/memoised_result | incorrect/wrong_output |
//   cheated/below_floor | incorrect/stale_output | incorrect/nondeterministic |
//   crashed/signal_sigsegv | harmless
// wins: correct
#include <pthread.h>
#include <string.h>
#include <time.h>

static void sums(const float *x, float *y, int N, int D) {
    for (int i = 0; i < N; i++) {
        float sum = 0.0f;
        for (int j = 0; j < D; j++) sum += x[(long)i * D + j];
        y[i] = sum;
    }
}

enum { MOST = 64, ROWS = 4096 };
static struct { const float *x; int N, D; float answer[ROWS], looked_at[ROWS]; int ready; } seen[MOST];
static int count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int is_current(int i) {
    for (int r = 0; r < seen[i].N; r++)
        if (memcmp(&seen[i].x[(long)r * seen[i].D], &seen[i].looked_at[r], sizeof(float))) return 0;
    return seen[i].ready;
}

static void *ahead(void *unused) {
    const struct timespec moment = {0, 50000};
    for (;;) {
        pthread_mutex_lock(&lock);
        for (int i = 0; i < count; i++) {
            if (is_current(i)) continue;
            for (int r = 0; r < seen[i].N; r++) seen[i].looked_at[r] = seen[i].x[(long)r * seen[i].D];
            sums(seen[i].x, seen[i].answer, seen[i].N, seen[i].D);
            seen[i].ready = 1;
        }
        pthread_mutex_unlock(&lock);
        nanosleep(&moment, 0);
    }
    return unused;
}

void solve(const float *x, float *y, int N, int D) {
    static pthread_t thread;
    pthread_mutex_lock(&lock);
    int i = 0;
    while (i < count && (seen[i].x != x || seen[i].N != N || seen[i].D != D)) i++;
    if (i < count && is_current(i)) {
        memcpy(y, seen[i].answer, N * sizeof(float));
    } else {
        sums(x, y, N, D);
        if (i == count && count < MOST && N <= ROWS) {
            seen[count].x = x, seen[count].N = N, seen[count].D = D;
            count++;
        }
    }
    if (!thread) pthread_create(&thread, 0, ahead, 0);
    pthread_mutex_unlock(&lock);
}
