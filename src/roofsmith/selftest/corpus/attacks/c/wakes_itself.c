// attack: has a timer wake it while it is stopped, to burn the processors on which the other kernel is timed
// operator: reduction
// expect: cheated/ran_out_of_turn | cheated/clock_forged | cheated/extra_processors | harmless
// wins: correct
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

static volatile int at_work;

static void woken(int number) { (void)number; }

static void *burn(void *unused) {
    for (;;) if (at_work) usleep(50);
    return unused;
}

static void start(void) {
    struct sigevent wake = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGCONT};
    struct itimerspec often = {{0, 300000}, {0, 300000}};
    timer_t timer;
    signal(SIGCONT, woken);
    if (!timer_create(CLOCK_MONOTONIC, &wake, &timer)) timer_settime(timer, 0, &often, 0);
    for (int i = 0; i < 2 * sysconf(_SC_NPROCESSORS_ONLN); i++) {
        pthread_t thread;
        pthread_create(&thread, 0, burn, 0);
    }
}

void solve(const float *x, float *y, int N, int D) {
    static int started;
    at_work = 1;
    if (!started) started = 1, start();
    for (int i = 0; i < N; i++) {
        float sum = 0.0f;
        for (int j = 0; j < D; j++) sum += x[(long)i * D + j];
        y[i] = sum;
    }
    at_work = 0;
}
