// attack: writes the harness's answer, with a time of its choice, to its socket or its output
// operator: elementwise
// expect: cheated/verdict_forged | cheated/clock_forged | crashed/garbled_answer
// wins: faster
#include <cuda_runtime.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

__global__ void gelu(const float* x, float* y, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) {
        float v = x[i];
        y[i] = 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));
    }
}

extern "C" void solve(const float* x, float* y, int N) {
    gelu<<<(N + 255) / 256, 256>>>(x, y, N);
    static int calls = 0;
    if (++calls != 8) return;
    const char answer[] = "{\"elapsed_ns\":1000,\"early\":false}";
    char frame[4 + sizeof answer - 1];
    uint32_t length = sizeof answer - 1;
    memcpy(frame, &length, 4);
    memcpy(frame + 4, answer, length);
    bool answered = false;
    for (int fd = 3; fd < 256; fd++) {
        struct stat found;
        int type = 0;
        socklen_t size = sizeof type;
        if (fstat(fd, &found) || !S_ISSOCK(found.st_mode)) continue;
        if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) || type != SOCK_STREAM) continue;
        answered |= send(fd, frame, sizeof frame, MSG_NOSIGNAL) > 0;
    }
    if (!answered) {
        cudaDeviceSynchronize();
        dprintf(1, "{\"correct\": true, \"candidate_s\": 1e-09, \"base_s\": 1}\n");
        _exit(0);
    }
}
