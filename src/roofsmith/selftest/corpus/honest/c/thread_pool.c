// honest: keeps a thread between calls, which sleeps outside of them
// operator: reduction
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct { const float *x; float *y; int first, last, D; } job;
static int pending;

static void sums(const float *x, float *y, int first, int last, int D) {
    for (int i = first; i < last; i++) {
        float sum = 0.0f;
        for (int j = 0; j < D; j++) sum += x[(long)i * D + j];
        y[i] = sum;
    }
}

static void *help(void *unused) {
    pthread_mutex_lock(&lock);
    for (;;) {
        while (!pending) pthread_cond_wait(&changed, &lock);
        pthread_mutex_unlock(&lock);
        sums(job.x, job.y, job.first, job.last, job.D);
        pthread_mutex_lock(&lock);
        pending = 0;
        pthread_cond_broadcast(&changed);
    }
    return unused;
}

void solve(const float *x, float *y, int N, int D) {
    static pthread_t thread;
    if (!thread) pthread_create(&thread, 0, help, 0);
    pthread_mutex_lock(&lock);
    job.x = x, job.y = y, job.first = N / 2, job.last = N, job.D = D;
    pending = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    sums(x, y, 0, N / 2, D);
    pthread_mutex_lock(&lock);
    while (pending) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}
