// honest: times two variants in its first calls, and stays with the faster one
// operator: gemm
#include <time.h>

static void by_rows(const float *A, const float *B, float *C, int M, int N, int K) {
    for (int i = 0; i < M; i++) {
        for (int j = 0; j < N; j++) C[(long)i * N + j] = 0.0f;
        for (int k = 0; k < K; k++)
            for (int j = 0; j < N; j++)
                C[(long)i * N + j] += A[(long)i * K + k] * B[(long)k * N + j];
    }
}

static void by_elements(const float *A, const float *B, float *C, int M, int N, int K) {
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            float sum = 0.0f;
            for (int k = 0; k < K; k++) sum += A[(long)i * K + k] * B[(long)k * N + j];
            C[(long)i * N + j] = sum;
        }
}

void solve(const float *A, const float *B, float *C, int M, int N, int K) {
    static long took[2];
    static int calls;
    int variant = calls < 2 ? calls : took[1] < took[0];
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    (variant ? by_elements : by_rows)(A, B, C, M, N, K);
    clock_gettime(CLOCK_MONOTONIC, &end);
    if (calls < 2)
        took[calls++] = (end.tv_sec - begin.tv_sec) * 1000000000L + end.tv_nsec - begin.tv_nsec;
}
