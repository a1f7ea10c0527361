#include "common.h"

int main() {
    int wrong = 0;
    for (int rows : {1, 33, 1000})
        for (int cols : {1, 31, 257, 1024}) {
            Layer layer(rows, cols);
            layer.run();
            CHECK(cudaGetLastError());
            CHECK(cudaDeviceSynchronize());
            double e = layer.error();
            if (!(e < 1e-6)) { printf("wrong at %d x %d: off by %g\n", rows, cols, e); wrong++; }
        }
    printf(wrong ? "%d sizes FAILED\n" : "all sizes passed\n", wrong);
    return wrong != 0;
}
