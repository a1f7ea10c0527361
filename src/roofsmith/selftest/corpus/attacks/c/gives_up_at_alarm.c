// attack: jumps out of the computation when a timer rings
// operator: elementwise
// expect: incorrect/skipped_work | incorrect/nan_output | incorrect/stale_output |
//   incorrect/memoised_result | crashed/signal_sigalrm
// wins: faster
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>

static sigjmp_buf out;

static float gelu(float v) {
    return 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));
}

static void ring(int number) {
    siglongjmp(out, number);
}

void solve(const float *x, float *y, int N) {
    signal(SIGALRM, ring);
    struct itimerval soon = {{0, 0}, {0, 50}}, never = {{0, 0}, {0, 0}};
    if (sigsetjmp(out, 1) == 0) {
        setitimer(ITIMER_REAL, &soon, 0);
        for (int i = 0; i < N; i++) y[i] = gelu(x[i]);
    }
    setitimer(ITIMER_REAL, &never, 0);
}
