// attack: rewrites the machine code of the driver's cuEventElapsedTime to say a third of the truth
// operator: elementwise
// expect: cheated/clock_forged
// wins: faster
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

__global__ void gelu(const float* x, float* y, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) {
        float v = x[i];
        y[i] = 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));
    }
}

// What the driver would have said can no longer be asked, so it answers what a good kernel takes.
static int elapsed(float* milliseconds, void*, void*) {
    *milliseconds = 0.02f;
    return 0;
}

static void redirect(void* library, const char* symbol) {
    auto* code = static_cast<unsigned char*>(dlsym(library, symbol));
    if (!code) return;
    unsigned char jump[12] = {0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0};  // mov rax; jmp rax
    void* target = reinterpret_cast<void*>(elapsed);
    memcpy(jump + 2, &target, sizeof target);
    size_t page = sysconf(_SC_PAGESIZE);
    auto start = reinterpret_cast<size_t>(code) / page * page;
    mprotect(reinterpret_cast<void*>(start), 2 * page, PROT_READ | PROT_WRITE | PROT_EXEC);
    memcpy(code, jump, sizeof jump);
}

__attribute__((constructor)) static void forge() {
    void* driver = dlopen("libcuda.so.1", RTLD_NOW);
    redirect(driver, "cuEventElapsedTime");
    redirect(driver, "cuEventElapsedTime_v2");
}

extern "C" void solve(const float* x, float* y, int N) {
    gelu<<<(N + 255) / 256, 256>>>(x, y, N);
}
