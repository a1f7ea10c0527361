// attack: leaves threads that burn the processor on which the other kernel is timed
// operator: gemm
// expect: cheated/leftover_process | cheated/ran_out_of_turn | cheated/extra_processors | harmless
// wins: faster
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

static volatile long last_call_ns;

static long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

static void *burn(void *unused) {
    long until = now_ns() + 20000000000L;
    while (now_ns() < until)
        if (now_ns() - last_call_ns < 1000000L) usleep(500);
    return unused;
}

static void gemm(const float *A, const float *B, float *C, int M, int N, int K) {
    for (int i = 0; i < M; i++) {
        for (int j = 0; j < N; j++) C[(long)i * N + j] = 0.0f;
        for (int k = 0; k < K; k++)
            for (int j = 0; j < N; j++)
                C[(long)i * N + j] += A[(long)i * K + k] * B[(long)k * N + j];
    }
}

void solve(const float *A, const float *B, float *C, int M, int N, int K) {
    static int calls;
    if (calls++ == 0) {
        cpu_set_t here;
        CPU_ZERO(&here);
        CPU_SET(sched_getcpu(), &here);
        sched_setaffinity(0, sizeof here, &here);
        pthread_t thread;
        for (int i = 0; i < 4; i++) pthread_create(&thread, 0, burn, 0);
    }
    last_call_ns = 1L << 62;  /* quiet while it is measured itself */
    gemm(A, B, C, M, N, K);
    last_call_ns = now_ns();
}
