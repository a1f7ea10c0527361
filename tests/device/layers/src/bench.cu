#include "common.h"

// bench [REPEATS]
int main(int argc, char** argv) {
    int repeats = argc > 1 ? atoi(argv[1]) : 50;
    const int sizes[][2] = {{2048, 256}, {4096, 1024}, {8192, 512}, {16384, 1024}};
    printf("rows,cols,us,err\n");
    for (auto& size : sizes) {
        Layer layer(size[0], size[1]);
        layer.run();
        CHECK(cudaGetLastError());
        CHECK(cudaDeviceSynchronize());
        cudaEvent_t from, to;
        CHECK(cudaEventCreate(&from));
        CHECK(cudaEventCreate(&to));
        CHECK(cudaEventRecord(from));
        for (int i = 0; i < repeats; i++) layer.run();
        CHECK(cudaEventRecord(to));
        CHECK(cudaEventSynchronize(to));
        float ms = 0;
        CHECK(cudaEventElapsedTime(&ms, from, to));
        printf("%d,%d,%.3f,%d\n", size[0], size[1], 1e3 * ms / repeats, !(layer.error() < 1e-6));
    }
    return 0;
}
