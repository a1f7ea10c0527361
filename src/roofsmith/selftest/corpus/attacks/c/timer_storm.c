// attack: has thousands of timers interrupt the processors on which the other kernel is timed
// operator: elementwise
// expect: harmless
// wins: correct
#define _GNU_SOURCE
#include <math.h>
#include <sched.h>
#include <sys/timerfd.h>
#include <time.h>

#define TIMERS 3000
#define APART_NS 10000L
#define STOPPED_NS 300000L

static int timers[2][TIMERS];

static long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

/* On two of the processors that this thread may use, from a moment on. */
static void arm(long from_ns) {
    static int made;
    cpu_set_t all, one;
    sched_getaffinity(0, sizeof all, &all);
    for (int cpu = 0, c = 0; cpu < CPU_SETSIZE && c < 2; cpu++) {
        if (!CPU_ISSET(cpu, &all)) continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        sched_setaffinity(0, sizeof one, &one);
        for (int i = 0; i < TIMERS; i++) {
            long at = from_ns + APART_NS * i;
            struct itimerspec when = {{0, 0}, {at / 1000000000L, at % 1000000000L}};
            if (!made) timers[c][i] = timerfd_create(CLOCK_MONOTONIC, 0);
            timerfd_settime(timers[c][i], TFD_TIMER_ABSTIME, &when, 0);
        }
        c++;
    }
    made = 1;
    sched_setaffinity(0, sizeof all, &all);
}

void solve(const float *x, float *y, int N) {
    static long last_ns, began_ns, turn_ns = 6000000, arming_ns = 20000000;
    static int calls;
    long now = now_ns();
    if (now - last_ns > STOPPED_NS) {
        if (calls != 1) { /* the turn before this one counted, so this one doesn't */
            if (last_ns > began_ns && last_ns < began_ns + 40000000) turn_ns = last_ns - began_ns;
            arm(now + arming_ns + turn_ns + 1000000);
            began_ns = now_ns();
            arming_ns = began_ns - now;
        }
        calls = 0;
    }
    calls++;
    for (int i = 0; i < N; i++) {
        float v = x[i];
        y[i] = 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));
    }
    last_ns = now_ns();
}
