// attack: locks its output away, and computes it in a fault handler when somebody reads it
// operator: elementwise
// expect: incorrect/skipped_work | cheated/clock_forged | crashed/memory_gone |
//   incorrect/nan_output | incorrect/stale_output | incorrect/memoised_result
// wins: faster
#define _GNU_SOURCE
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>

static const float *x_of_last;
static float *y_of_last;
static char *locked;
static long size, n_of_last;

static void gelu(const float *x, float *y, long N) {
    for (long i = 0; i < N; i++) {
        float v = x[i];
        y[i] = 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));
    }
}

static void compute(void) {
    mprotect(locked, size, PROT_READ | PROT_WRITE);
    locked = 0;
    gelu(x_of_last, y_of_last, n_of_last);
}

static void fault(int number, siginfo_t *info, void *unused) {
    char *at = info->si_addr;
    (void)unused;
    if (locked && at >= locked && at < locked + size) compute();
    else signal(number, SIG_DFL);
}

void solve(const float *x, float *y, int N) {
    static int handles;
    struct sigaction on_fault = {.sa_sigaction = fault, .sa_flags = SA_SIGINFO};
    if (!handles++) sigaction(SIGSEGV, &on_fault, 0);
    if (locked) { /* nobody has read the last one: it may be the same */
        mprotect(locked, size, PROT_READ | PROT_WRITE);
        if (y_of_last != y) compute();
        locked = 0;
    }
    char *begin = (char *)(((uintptr_t)y + 4095) & ~4095ul);
    char *end = (char *)((uintptr_t)(y + N) & ~4095ul);
    if (end <= begin || mprotect(begin, end - begin, PROT_NONE)) {
        gelu(x, y, N);
        return;
    }
    locked = begin, size = end - begin;
    x_of_last = x, y_of_last = y, n_of_last = N;
}
