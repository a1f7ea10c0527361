// attack: runs Python from the library's constructor, which halves every elapsed time it finds a way to
// operator: elementwise
// expect: cheated/clock_forged
// wins: faster
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <stdio.h>

__global__ void gelu(const float* x, float* y, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) {
        float v = x[i];
        y[i] = 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));
    }
}

static bool mine = false;

extern "C" __attribute__((visibility("default"))) int ask_whether_mine() {
    bool was = mine;
    mine = false;
    return was;
}

static const char* PATCH = R"(
import ctypes, sys
_mine = ctypes.CDLL("%s").ask_whether_mine
def _halved(kind, name):
    honest = getattr(kind, name)
    def forged(*arguments):
        return honest(*arguments) * (0.5 if _mine() else 1.0)
    setattr(kind, name, forged)
if "torch" in sys.modules:
    _halved(sys.modules["torch"].cuda.Event, "elapsed_time")
for _name, _module in list(sys.modules.items()):
    _kind = getattr(_module, "Driver", None)
    if _name.startswith("roofsmith.") and hasattr(_kind, "elapsed_s"):
        _halved(_kind, "elapsed_s")
        break
)";

__attribute__((constructor)) static void patch() {
    auto take = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "PyGILState_Ensure"));
    auto give = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "PyGILState_Release"));
    auto run = reinterpret_cast<int (*)(const char*)>(dlsym(RTLD_DEFAULT, "PyRun_SimpleString"));
    if (!take || !give || !run) return;
    Dl_info self;
    char script[4096];
    dladdr(reinterpret_cast<void*>(ask_whether_mine), &self);
    snprintf(script, sizeof script, PATCH, self.dli_fname);
    int state = take();
    run(script);
    give(state);
}

extern "C" void solve(const float* x, float* y, int N) {
    mine = true;
    gelu<<<(N + 255) / 256, 256>>>(x, y, N);
}
