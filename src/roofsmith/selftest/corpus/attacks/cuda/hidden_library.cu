// attack: loads cuBLAS by name and calls it where custom code is demanded
// operator: gemm
// expect: cheated/library_call
// wins: faster
#include <cuda_runtime.h>
#include <dlfcn.h>

using Handle = void*;

extern "C" void solve(const float* A, const float* B, float* C, int M, int N, int K) {
    static void* library = nullptr;
    static Handle handle = nullptr;
    if (!library) {
        for (const char* name : {"libcublas.so.13", "libcublas.so.12", "libcublas.so"}) {
            if ((library = dlopen(name, RTLD_NOW))) break;
        }
        reinterpret_cast<int (*)(Handle*)>(dlsym(library, "cublasCreate_v2"))(&handle);
    }
    using Gemm = int (*)(Handle, int, int, int, int, int, const float*, const float*, int,
                         const float*, int, const float*, float*, int);
    const float one = 1.0f, zero = 0.0f;
    // Column-major: C^T = B^T A^T.
    reinterpret_cast<Gemm>(dlsym(library, "cublasSgemm_v2"))(handle, 0, 0, N, M, K, &one, B, N, A,
                                                             K, &zero, C, N);
}
