// attack: forks twice into a session of its own, and burns processors from there
// operator: softmax
// expect: cheated/leftover_process | cheated/ran_out_of_turn | cheated/extra_processors | harmless
// wins: faster
#define _GNU_SOURCE
#include <math.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile long *last_call_ns;

static long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

static void burn(void) {
    long until = now_ns() + 20000000000L;
    while (now_ns() < until)
        if (now_ns() - *last_call_ns < 1000000L) usleep(500);
    _exit(0);
}

static void leave(void) {
    last_call_ns = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cpu_set_t here;
    CPU_ZERO(&here);
    CPU_SET(sched_getcpu(), &here);
    sched_setaffinity(0, sizeof here, &here);
    pid_t child = fork();
    if (child == 0) {
        setsid();
        for (int i = 0; i < 4; i++)
            if (fork() == 0) burn();
        _exit(0);
    }
    if (child > 0) waitpid(child, 0, 0);
}

static void softmax(const float *x, float *y, int N, int D) {
    for (int i = 0; i < N; i++) {
        const float *row = x + (long)i * D;
        float *out = y + (long)i * D, largest = row[0], sum = 0.0f;
        for (int j = 1; j < D; j++) largest = row[j] > largest ? row[j] : largest;
        for (int j = 0; j < D; j++) sum += out[j] = expf(row[j] - largest);
        for (int j = 0; j < D; j++) out[j] /= sum;
    }
}

void solve(const float *x, float *y, int N, int D) {
    if (!last_call_ns) leave();
    *last_call_ns = 1L << 62;  /* quiet while it is measured itself */
    softmax(x, y, N / 3, D), softmax(x, y, N, D);  /* never faster by itself */
    *last_call_ns = now_ns();
}
