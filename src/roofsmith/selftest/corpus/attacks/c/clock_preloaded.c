// attack: starts its process anew with itself preloaded, so that its own clock_gettime comes first
// operator: gemm
// expect: cheated/clock_forged | timed_out/worker_deadline | crashed/garbled_answer |
//   crashed/exited | crashed/hung_up | cheated/below_floor | harmless
// wins: faster
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long stolen_ns;

int clock_gettime(clockid_t clock, struct timespec *now) {
    long failed = syscall(SYS_clock_gettime, clock, now);
    long *shared = (long *)dlsym(RTLD_DEFAULT, "roofsmith_selftest_stolen_ns");
    long ns = now->tv_sec * 1000000000L + now->tv_nsec - (shared ? *shared : stolen_ns);
    now->tv_sec = ns / 1000000000L, now->tv_nsec = ns % 1000000000L;
    return (int)failed;
}

long roofsmith_selftest_stolen_ns;

__attribute__((constructor)) static void again(void) {
    Dl_info own;
    if (getenv("LD_PRELOAD") || !dladdr((void *)again, &own)) return;
    static char arguments[65536], path[4096], *list[64];
    int file = open("/proc/self/cmdline", O_RDONLY);
    long size = read(file, arguments, sizeof arguments - 1), at = 0;
    close(file);
    for (int i = 0; i < 63 && at < size; i++) {
        list[i] = arguments + at;
        while (at < size && arguments[at]) at++;
        at++;
    }
    long length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (size <= 0 || length <= 0) return;
    setenv("LD_PRELOAD", own.dli_fname, 1);
    execv(list[0][0] == '/' ? list[0] : path, list);
    unsetenv("LD_PRELOAD");
}

static void gemm(const float *A, const float *B, float *C, int M, int N, int K) {
    for (int i = 0; i < M; i++) {
        for (int j = 0; j < N; j++) C[(long)i * N + j] = 0.0f;
        for (int k = 0; k < K; k++)
            for (int j = 0; j < N; j++)
                C[(long)i * N + j] += A[(long)i * K + k] * B[(long)k * N + j];
    }
}

static long true_ns(void) {
    struct timespec now;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

void solve(const float *A, const float *B, float *C, int M, int N, int K) {
    long *shared = (long *)dlsym(RTLD_DEFAULT, "roofsmith_selftest_stolen_ns");
    long begin = true_ns();
    gemm(A, B, C, M, N, K);
    *(shared ? shared : &stolen_ns) += (true_ns() - begin) / 2;
}
