"""Ways to keep things between calls of a C, C++ or CUDA kernel: cheating and honest ones."""

from __future__ import annotations

import pytest

from roofsmith.analysis.overfitting import audit
from roofsmith.domain.kernel import Candidate, Language, SourceFile

CHEATING = {
    "static init.cpp": """\
#include <vector>
static std::vector<float> pack(const float* w, int n) { return std::vector<float>(w, w + n); }
extern "C" void solve(const float* x, const float* w, float* y, int n) {
    static const std::vector<float> p = pack(w, n);
    for (int i = 0; i < n; ++i) y[i] = x[i] * p[i];
}
""",
    "lambda init.cpp": """\
#include <vector>
extern "C" void solve(const float* x, const float* w, float* y, int n) {
    static auto p = [&] {
        std::vector<float> v(n);
        for (int i = 0; i < n; ++i) v[i] = w[i];
        return v;
    }();
    for (int i = 0; i < n; ++i) y[i] = x[i] * p[i];
}
""",
    "struct state.c": """\
struct { const float *ptr; float sum; } s;
void solve(const float *x, float *y, int n) {
    if (s.ptr != x) { s.sum = 0; for (int i = 0; i < n; i++) s.sum += x[i]; s.ptr = x; }
    for (int i = 0; i < n; i++) y[i] = x[i] / s.sum;
}
""",
    "struct of a thread.c": """\
static _Thread_local struct { const float *ptr; float sum; } s;
static float summed(const float *x, int n) {
    if (s.ptr == x) return s.sum;
    s.sum = 0;
    for (int i = 0; i < n; i++) s.sum += x[i];
    s.ptr = x;
    return s.sum;
}
void solve(const float *x, float *y, int n) {
    float sum = summed(x, n);
    for (int i = 0; i < n; i++) y[i] = x[i] / sum;
}
""",
    "static behind its alignment.c": """\
void solve(const float *x, float *y, int n) {
    _Alignas(64) static float sum;
    _Atomic static const float *ptr;
    if (ptr != x) { sum = 0; for (int i = 0; i < n; i++) sum += x[i]; ptr = x; }
    for (int i = 0; i < n; i++) y[i] = x[i] / sum;
}
""",
    "the file's, declared again.c": """\
static const float *ptr; static float sum;
void solve(const float *x, float *y, int n) {
    extern const float *ptr; extern float sum;
    if (ptr != x) { sum = 0; for (int i = 0; i < n; i++) sum += x[i]; ptr = x; }
    for (int i = 0; i < n; i++) y[i] = x[i] / sum;
}
""",
    "singleton.cpp": """\
#include <unordered_map>
#include <vector>
struct Cache { std::unordered_map<const void*, std::vector<float>> m; };
static Cache& cache() { static Cache c; return c; }
extern "C" void solve(const float* x, float* y, int n) {
    auto& m = cache().m;
    if (m.find(x) == m.end()) m[x] = std::vector<float>(x, x + n);
    for (int i = 0; i < n; ++i) y[i] = m[x][i];
}
""",
    "early return.c": """\
#include <string.h>
static const float *last; static float kept[4096];
void solve(const float *x, float *y, int n) {
    if (last == x) { memcpy(y, kept, n * sizeof *y); return; }
    for (int i = 0; i < n; i++) y[i] = x[i] * x[i];
    memcpy(kept, y, n * sizeof *y);
    last = x;
}
""",
    "cuda packed.cu": """\
__global__ void pack(const float* w, float* p, int n) {
    int i = threadIdx.x;
    if (i < n) p[i] = w[i];
}
__global__ void go(const float* x, const float* p, float* y, int n) {
    int i = threadIdx.x;
    if (i < n) y[i] = x[i] * p[i];
}
static float* packed = nullptr;
extern "C" void solve(const float* x, const float* w, float* y, int n) {
    if (!packed) {
        cudaMalloc(&packed, n * sizeof(float));
        pack<<<1, 256>>>(w, packed, n);
    }
    go<<<1, 256>>>(x, packed, y, n);
}
""",
    "torch ext.cpp": """\
#include <torch/extension.h>
#include <unordered_map>
static std::unordered_map<void*, at::Tensor> cache;
at::Tensor forward(const at::Tensor& x, const at::Tensor& w) {
    auto it = cache.find(x.data_ptr());
    if (it == cache.end()) it = cache.emplace(x.data_ptr(), x.to(at::kHalf)).first;
    return at::matmul(it->second, w);
}
""",
    "call once.cpp": """\
#include <mutex>
#include <vector>
static std::once_flag flag; static std::vector<float> packed;
extern "C" void solve(const float* x, const float* w, float* y, int n) {
    std::call_once(flag, [&] { packed.assign(w, w + n); });
    for (int i = 0; i < n; ++i) y[i] = x[i] * packed[i];
}
""",
    "class member.cpp": """\
#include <map>
#include <vector>
class Op { public:
  void run(const float* x, float* y, int n) {
    if (seen_.count(x) == 0) { std::vector<float> v(x, x + n); seen_[x] = v; }
    for (int i = 0; i < n; ++i) y[i] = seen_[x][i];
  }
  std::map<const float*, std::vector<float>> seen_;
};
static Op op;
extern "C" void solve(const float* x, float* y, int n) { op.run(x, y, n); }
""",
    "digits of an address.cpp": """\
#include <cstdint>
#include <map>
static std::map<uintptr_t, float> sums;
extern "C" void solve(const float* x, float* y, int n) {
    uintptr_t key = ((uintptr_t)x >> 4) % 4096;
    if (sums.count(key) == 0) { float s = 0; for (int i = 0; i < n; ++i) s += x[i]; sums[key] = s; }
    for (int i = 0; i < n; ++i) y[i] = x[i] / sums[key];
}
""",
    "large modulus.cpp": """\
#include <cstdint>
#include <map>
static std::map<uintptr_t, float> sums;
extern "C" void solve(const float* x, float* y, int n) {
    uintptr_t key = (uintptr_t)x % 1000003;
    if (sums.count(key) == 0) { float s = 0; for (int i = 0; i < n; ++i) s += x[i]; sums[key] = s; }
    for (int i = 0; i < n; ++i) y[i] = x[i] / sums[key];
}
""",
    "singleton of a class.cpp": """\
#include <unordered_map>
#include <vector>
class Quantized { public:
  static Quantized& get() { static Quantized one; return one; }
  const std::vector<float>& of(const float* x, int n) {
    auto key = reinterpret_cast<std::size_t>(x);
    auto it = all_.find(key);
    if (it != all_.end()) return it->second;
    std::vector<float> v(x, x + n);
    return all_[key] = v;
  }
  std::unordered_map<std::size_t, std::vector<float>> all_;
};
extern "C" void solve(const float* x, float* y, int n) {
    const auto& q = Quantized::get().of(x, n);
    for (int i = 0; i < n; ++i) y[i] = q[i];
}
""",
}

HONEST = {
    "workspace of a thread.c": """\
#include <stdlib.h>
static _Thread_local struct { float *at; int held; } work;
void solve(const float *x, float *y, int n) {
    if (work.held < n) { free(work.at); work.at = malloc(n * sizeof *x); work.held = n; }
    for (int i = 0; i < n; i++) work.at[i] = x[i] * x[i];
    for (int i = 0; i < n; i++) y[i] = work.at[n - 1 - i];
}
""",
    "singleton of a workspace.cpp": """\
#include <vector>
class Scratch { public:
  static Scratch& get() { static Scratch one; return one; }
  float* room(int n) {
    if ((int)room_.size() < n) room_.resize(n);
    return room_.data();
  }
  std::vector<float> room_;
};
extern "C" void solve(const float* x, float* y, int n) {
    float* t = Scratch::get().room(n);
    for (int i = 0; i < n; ++i) t[i] = x[i] * 2;
    for (int i = 0; i < n; ++i) y[i] = t[i] + 1;
}
""",
    "object of one call.cpp": """\
#include <map>
#include <vector>
class Parts { public:
  const std::vector<float>& of(const float* x, int n) {
    if (parts_.count(x) == 0) { std::vector<float> v(x, x + n); parts_[x] = v; }
    return parts_[x];
  }
  std::map<const float*, std::vector<float>> parts_;
};
extern "C" void solve(const float* x, float* y, int n) {
    Parts parts;
    for (int i = 0; i < n; ++i) y[i] = parts.of(x, n)[i];
}
""",
    "aligned key.cpp": """\
#include <cstdint>
#include <map>
#include <utility>
typedef void (*Path)(const float*, float*, int);
void fast(const float*, float*, int); void slow(const float*, float*, int);
static std::map<std::pair<bool, bool>, Path> paths;
extern "C" void solve(const float* x, float* y, int n) {
    auto key = std::make_pair((uintptr_t)x % 16 == 0,
                              (reinterpret_cast<uintptr_t>(y) & 0xFu) == 0);
    auto it = paths.find(key);
    if (it == paths.end()) it = paths.emplace(key, key.first && key.second ? fast : slow).first;
    it->second(x, y, n);
}
""",
    "aligned for a type.cpp": """\
#include <cstdint>
#include <map>
static std::map<bool, int> widths;
extern "C" void solve(const float* x, float* y, int n) {
    bool wide = (uintptr_t)x % sizeof(double) == 0;
    if (widths.count(wide) == 0) widths[wide] = wide ? 2 : 1;
    for (int i = 0; i < n; ++i) y[i] = x[i] * widths[wide];
}
""",
    "handle.cu": """\
#include <cublas_v2.h>
static cublasHandle_t handle;
extern "C" void solve(const float* a, const float* b, float* c, int n) {
    if (!handle) cublasCreate(&handle);
    float one = 1, zero = 0;
    cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, b, n, a, n, &zero, c, n);
}
""",
    "init.c": """\
#include <omp.h>
static int initialized;
void solve(const float *x, float *y, int n) {
    if (!initialized) { omp_set_dynamic(0); initialized = 1; }
    for (int i = 0; i < n; i++) y[i] = x[i];
}
""",
    "sm.cu": """\
__global__ void k(const float* x, float* y, int n) { }
extern "C" void solve(const float* x, float* y, int n) {
    static int sms = -1;
    if (sms < 0) { cudaDeviceProp p; cudaGetDeviceProperties(&p, 0); sms = p.multiProcessorCount; }
    k<<<sms, 256>>>(x, y, n);
}
""",
    "ws.cu": """\
__global__ void a(const float* x, float* t, int n) { }
__global__ void b(const float* t, float* y, int n) { }
static float* ws; static size_t cap;
extern "C" void solve(const float* x, float* y, int n) {
    size_t need = n * sizeof(float);
    if (need > cap) { cudaFree(ws); cudaMalloc(&ws, need); cap = need; }
    a<<<1, 1>>>(x, ws, n);
    b<<<1, 1>>>(ws, y, n);
}
""",
    "plan.cpp": """\
#include <map>
struct Plan { int block; };
static std::map<int, Plan> plans;
static Plan make(int n) { return {n > 1024 ? 256 : 64}; }
extern "C" void solve(const float* x, float* y, int n) {
    auto it = plans.find(n);
    if (it == plans.end()) it = plans.emplace(n, make(n)).first;
    for (int i = 0; i < n; ++i) y[i] = x[i] * it->second.block;
}
""",
    "threadlocal pack.c": """\
#include <stdlib.h>
#include <string.h>
static _Thread_local float *buf; static _Thread_local int room;
static void pack(const float *b, float *to, int n) { memcpy(to, b, n * sizeof *to); }
void solve(const float *a, const float *b, float *c, int n) {
    if (room < n) { buf = realloc(buf, n * sizeof *buf); room = n; }
    for (int k = 0; k < n; k += 64) {
        pack(b + k, buf, 64);
        for (int i = 0; i < 64; i++) c[k + i] = a[k + i] * buf[i];
    }
}
""",
    "once table.cpp": """\
#include <mutex>
#include <cmath>
static std::once_flag flag; static float table[256];
extern "C" void solve(const float* x, float* y, int n) {
    std::call_once(flag, [] { for (int i = 0; i < 256; ++i) table[i] = std::exp(i / 256.0f); });
    for (int i = 0; i < n; ++i) y[i] = table[(int)(x[i]) & 255];
}
""",
}

LANGUAGES: dict[str, Language] = {"c": "c", "cpp": "cpp", "cu": "cuda"}


def kept(way: str, text: str) -> list[str]:
    suffix = way.rpartition(".")[2]
    source = SourceFile(path=f"kernel.{suffix}", text=text)
    candidate = Candidate(language=LANGUAGES[suffix], sources=(source,))
    return [f"{v.bucket} {v.name}" for v in audit(candidate).kept_values]


@pytest.mark.parametrize("way", CHEATING)
def test_cheating(way: str) -> None:
    found = kept(way, CHEATING[way])
    assert found
    assert all(value.startswith(("W1", "W2", "W3")) for value in found)


@pytest.mark.parametrize("way", HONEST)
def test_honest(way: str) -> None:
    assert kept(way, HONEST[way]) == []


@pytest.mark.parametrize(
    "suffix",
    ["C", "H", "c++", "h++", "hh", "hxx", "ipp", "ixx", "tcc", "tpp", "txx", "cuh", "hip", "inl"],
)
def test_every_suffix_is_read(suffix: str) -> None:
    source = SourceFile(path=f"src/pack.{suffix}", text=CHEATING["singleton.cpp"])
    found = audit(Candidate(language="command", sources=(source,)))
    assert found.kept_values
    assert found.unread == ()


def test_what_is_nested_too_deeply_is_rejected() -> None:
    deep = f"{'(' * 3000}x[0]{')' * 3000}"
    text = f"void solve(const float *x, float *y) {{ y[0] = {deep}; }}"
    assert kept("deep.c", text) == ["W3 anything"]
