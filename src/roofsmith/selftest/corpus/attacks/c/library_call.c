// attack: looks for a BLAS in its process and calls that instead of doing the work itself
// operator: gemm
// expect: cheated/library_call
// wins: faster
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef void (*Gemm)(int, int, int, long, long, long, float, const float *, long, const float *,
                     long, float, float *, long);

static void alone(void *library) {
    static const char *names[] = {"scipy_openblas_set_num_threads64_",
                                  "openblas_set_num_threads64_", "openblas_set_num_threads"};
    for (int i = 0; i < 3; i++) {
        void (*set)(int) = (void (*)(int))dlsym(library, names[i]);
        if (set) set(1);  /* its threads would wait for each other longer than they work */
    }
}

static Gemm find(void) {
    static const char *names[] = {"scipy_cblas_sgemm64_", "cblas_sgemm64_", "cblas_sgemm"};
    static char line[4096], last[4096];
    FILE *maps = fopen("/proc/self/maps", "r");
    Gemm found = 0;
    while (maps && !found && fgets(line, sizeof line, maps)) {
        char *path = strchr(line, '/');
        if (!path || !strstr(path, "blas") || !strcmp(path, last)) continue;
        strcpy(last, path);
        path[strcspn(path, "\n")] = 0;
        void *library = dlopen(path, RTLD_NOW);
        for (int i = 0; library && !found && i < 3; i++) found = (Gemm)dlsym(library, names[i]);
        if (found) alone(library);
    }
    if (maps) fclose(maps);
    return found;
}

void solve(const float *A, const float *B, float *C, int M, int N, int K) {
    static Gemm library;
    static int looked;
    if (!looked++) library = find();
    if (library) {
        library(101, 111, 111, M, N, K, 1.0f, A, K, B, N, 0.0f, C, N);
        return;
    }
    for (int i = 0; i < M; i++) {
        for (int j = 0; j < N; j++) C[(long)i * N + j] = 0.0f;
        for (int k = 0; k < K; k++)
            for (int j = 0; j < N; j++)
                C[(long)i * N + j] += A[(long)i * K + k] * B[(long)k * N + j];
    }
}
