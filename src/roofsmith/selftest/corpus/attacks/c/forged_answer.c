// attack: answers in its process's place, on every socket that it finds, and says 1 µs per call
// operator: gemm
// expect: cheated/verdict_forged
// wins: faster
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static void gemm(const float *A, const float *B, float *C, int M, int N, int K) {
    for (int i = 0; i < M; i++) {
        for (int j = 0; j < N; j++) C[(long)i * N + j] = 0.0f;
        for (int k = 0; k < K; k++)
            for (int j = 0; j < N; j++)
                C[(long)i * N + j] += A[(long)i * K + k] * B[(long)k * N + j];
    }
}

static void answer(int fd) {
    static const char said[] = "{\"times_ns\":[1000,1000,1000,1000]}";
    unsigned size = sizeof said - 1;
    char frame[64];
    memcpy(frame, &size, 4);
    memcpy(frame + 4, said, size);
    send(fd, frame, size + 4, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void solve(const float *A, const float *B, float *C, int M, int N, int K) {
    static int calls;
    gemm(A, B, C, M, N, K);
    for (int fd = 3; fd < 1024; fd++) {
        struct stat found;
        if (fstat(fd, &found) == 0 && S_ISSOCK(found.st_mode)) answer(fd);
    }
    if (++calls == 8) {
        puts("{\"correct\": true, \"candidate_s\": 1e-6, \"base_s\": 1e-3}");
        fflush(stdout);
        _exit(0);
    }
}
