"""Kernels in many hands' styles, for cards that have to work on code nobody here has seen."""

from __future__ import annotations

from dataclasses import dataclass, field

from kinds import another


@dataclass(frozen=True)
class Kernel:
    text: str
    dims: dict[str, int]
    shapes: dict[str, tuple[str, ...]]
    """Array parameter to the dimensions that multiply to its length."""
    language: str = "c"
    family: str | None = None
    low: float = -2.0
    """Inputs are drawn from [low, 2)."""
    held: float = 0.0
    """What outputs hold before."""
    odd: dict[str, int] = field(default_factory=dict)
    """A second set of dimensions that no vector width divides."""


LAYERNORM = Kernel(
    text="""
#include <math.h>
#include <stddef.h>
/* layer norm; pointer rows, size_t counters, mean and variance in two passes */
void solve(const float *x, const float *gamma, const float *beta, float *y, int rows, int cols)
{
    for (size_t r = 0; r < (size_t)rows; ++r) {
        const float *src = x + r * cols;
        float *dst = y + r * cols;
        float mean = 0.f, var = 0.f;
        for (size_t c = 0; c < (size_t)cols; ++c)
            mean += src[c];
        mean /= cols;
        for (size_t c = 0; c < (size_t)cols; ++c) {
            float d = src[c] - mean;
            var += d * d;
        }
        float scale = 1.0f / sqrtf(var / cols + 1e-5f);
        for (size_t c = 0; c < (size_t)cols; ++c)
            dst[c] = (src[c] - mean) * scale * gamma[c] + beta[c];
    }
}
""",
    dims={"rows": 24, "cols": 256},
    odd={"rows": 7, "cols": 101},
    shapes={"x": ("rows", "cols"), "gamma": ("cols",), "beta": ("cols",), "y": ("rows", "cols")},
    family="norm",
)

RMSNORM = Kernel(
    text="""
#include <math.h>
#define AT(m, i, j, ld) ((m)[(i) * (ld) + (j)])
static float mean_square(const float* v, int n) {
    float total = 0.0f;
    for (int k = 0; k < n; k++) total = total + v[k] * v[k];
    return total / n;
}
void solve(const float* in, const float* w, float* out, int T, int H) {
    int t, k;
    for (t = 0; t < T; t++) {
        float inv = 1.0f / sqrtf(mean_square(in + t * H, H) + 1e-6f);
        for (k = 0; k < H; k++)
            AT(out, t, k, H) = AT(in, t, k, H) * inv * w[k];
    }
}
""",
    dims={"T": 20, "H": 192},
    odd={"T": 5, "H": 77},
    shapes={"in": ("T", "H"), "w": ("H",), "out": ("T", "H")},
    family="norm",
)

GELU = Kernel(
    text="""
#include <math.h>
static inline float gelu(float v) {
    const float k = 0.7978845608f;
    return 0.5f * v * (1.0f + tanhf(k * (v + 0.044715f * v * v * v)));
}
void solve(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int n) {
    // bias, activation, then a sigmoid gate
    for (int i = 0; i < n; i++) {
        float g = gelu(a[i] + b[i]);
        c[i] = g / (1.0f + expf(-b[i]));
    }
}
""",
    dims={"n": 4096},
    odd={"n": 1003},
    shapes={"a": ("n",), "b": ("n",), "c": ("n",)},
    family="elementwise",
)

ROW_SUM = Kernel(
    text="""
void solve(const double* m, double* sums, int R, int C) {
    for (int r = 0; r < R; r++) {
        double acc = 0;
        for (int c = 0; c < C; c++) {
            acc += m[r * C + c];
        }
        sums[r] = acc;
    }
}
""",
    dims={"R": 33, "C": 320},
    odd={"R": 9, "C": 67},
    shapes={"m": ("R", "C"), "sums": ("R",)},
    family="reduction",
)

DOT = Kernel(
    text="""
void solve(const float* p, const float* q, float* result, int n) {
    float s = 0;
    for (int i = 0; i < n; ++i)
        s += p[i] * q[i];
    result[0] = s;
}
""",
    dims={"n": 10000},
    odd={"n": 1237},
    shapes={"p": ("n",), "q": ("n",), "result": ("one",)},
    family="reduction",
)

STENCIL = Kernel(
    text="""
#define IDX(i, j) ((i) * W + (j))
void solve(const float* u, float* v, int H, int W) {
    for (int i = 1; i < H - 1; i++)
        for (int j = 1; j <= W - 2; j++)
            v[IDX(i, j)] = 0.25f * (u[IDX(i - 1, j)] + u[IDX(i + 1, j)]
                                  + u[IDX(i, j - 1)] + u[IDX(i, j + 1)]);
}
""",
    dims={"H": 64, "W": 64},
    odd={"H": 19, "W": 37},
    shapes={"u": ("H", "W"), "v": ("H", "W")},
)

CONV2D = Kernel(
    text="""
/* valid 2-D convolution, one channel */
void solve(const float* image, const float* kern, float* dest, int H, int W, int K) {
    int OH = H - K + 1, OW = W - K + 1;
    for (int y = 0; y < OH; y++) {
        for (int x = 0; x < OW; x++) {
            float sum = 0.0f;
            for (int ky = 0; ky < K; ky++)
                for (int kx = 0; kx < K; kx++)
                    sum += image[(y + ky) * W + (x + kx)] * kern[ky * K + kx];
            dest[y * OW + x] = sum;
        }
    }
}
""",
    dims={"H": 40, "W": 48, "K": 5},
    odd={"H": 17, "W": 23, "K": 3},
    shapes={"image": ("H", "W"), "kern": ("K", "K"), "dest": ("H", "W")},
)

MATVEC_T = Kernel(
    text="""
// y = A^T x: walks columns
extern "C" void solve(const float* A, const float* x, float* y, int m, int n) {
    for (int col = 0; col < n; ++col) {
        float acc = 0.0f;
        for (int row = 0; row < m; ++row) {
            acc += A[(long)row * n + col] * x[row];
        }
        y[col] = acc;
    }
}
""",
    dims={"m": 130, "n": 300},
    odd={"m": 31, "n": 45},
    shapes={"A": ("m", "n"), "x": ("m",), "y": ("n",)},
    language="cpp",
)

SOFTMAX_CPP = Kernel(
    text="""
#include <cmath>
#include <algorithm>
extern "C" void solve(const float* logits, float* probs, int batch, int classes) {
    for (int b = 0; b < batch; ++b) {
        float peak = logits[b * classes];
        for (int k = 1; k < classes; ++k) peak = std::max(peak, logits[b * classes + k]);
        float total = 0.0f;
        for (int k = 0; k < classes; ++k) {
            probs[b * classes + k] = std::exp(logits[b * classes + k] - peak);
            total += probs[b * classes + k];
        }
        for (int k = 0; k < classes; ++k) probs[b * classes + k] /= total;
    }
}
""",
    dims={"batch": 16, "classes": 512},
    odd={"batch": 5, "classes": 83},
    shapes={"logits": ("batch", "classes"), "probs": ("batch", "classes")},
    language="cpp",
    family="softmax",
)

LOG_SOFTMAX = Kernel(
    text="""
#include <math.h>
static float largest_of(const double* v, int n);
void solve(const double* z, double* o, int B, int C) {
    for (int b = 0; b < B; b++) {
        double top = z[b * C + 0];
        for (int c = 1; c < C; c++) top = z[b * C + c] > top ? z[b * C + c] : top;
        double sum = 0.0;
        for (int c = 0; c < C; c++) sum += exp(z[b * C + c] - top);
        double shift = log(sum) + top;
        for (int c = 0; c < C; c++) o[b * C + c] = z[b * C + c] - shift;
    }
}
static float largest_of(const double* v, int n) { return n ? (float)v[0] : 0.0f; }
""",
    dims={"B": 12, "C": 256},
    odd={"B": 3, "C": 91},
    shapes={"z": ("B", "C"), "o": ("B", "C")},
    family="softmax",
)

PREFIX_SUM = Kernel(
    text="""
void solve(const float* x, float* y, int n) {
    y[0] = x[0];
    for (int i = 1; i < n; i++) y[i] = y[i - 1] + x[i];
}
""",
    dims={"n": 2000},
    odd={"n": 333},
    shapes={"x": ("n",), "y": ("n",)},
)

HISTOGRAM = Kernel(
    text="""
void solve(const float* x, float* bins, int n, int k) {
    for (int b = 0; b < k; b++) bins[b] = 0;
    for (int i = 0; i < n; i++) {
        int at = (int)((x[i] + 2.0f) * 0.25f * k);
        if (at >= k) at = k - 1;
        bins[at] += 1.0f;
    }
}
""",
    dims={"n": 3000, "k": 16},
    odd={"n": 501, "k": 7},
    shapes={"x": ("n",), "bins": ("k",)},
)

CHANNELS = Kernel(
    text="""
#include <string.h>
void solve(const int* x, float* light, float* dark, float* total, int n, int m) {
    float all = 0; int at;
    memset(light, 0, 16 * sizeof(float));
    for (int b = 0; b < 16; b++) dark[b] = 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++) {
            at = (x[i * m + j] * 2654435 + i * j) & 15;
            if (at == 3) continue;
            if (x[i * m + j] > 0) light[at] += 1.0f; else dark[at] = dark[at] + 2.0f;
            all += 1.0f;
        }
    total[0] = all;
}
""",
    dims={"n": 130, "m": 41},
    odd={"n": 17, "m": 7},
    shapes={"x": ("n", "m"), "light": ("n",), "dark": ("n",), "total": ("one",)},
)

POINTER_WALK = Kernel(
    text="""
void solve(const float* x, float* y, int n) {
    const float* from = x;
    float* to = y;
    const float* const end = x + n;
    while (from < end) *to++ = 2.0f * *from++;
    to -= n;
    for (int left = n; left > 0; left--) *to++ += 0.5f;
    const float *last = y + n, *at = y;
    float most = 0.0f;
    for (; at != last; ++at) most = *at > most ? *at : most;
    for (unsigned left = n; left--;) *--to += most;
    do { *y++ -= 1.0f; } while (--n);
}
""",
    dims={"n": 1000},
    odd={"n": 77},
    shapes={"x": ("n",), "y": ("n",)},
)

THERE_AND_BACK = Kernel(
    text="""
/* recurrences down each column and back, with scalars of each loop's own that others use, too */
void solve(const float* x, float* y, float* z, int n, int m)
{
    int i, j;
    float before;
    for (i = 1; i < m - 1; i++) {
        before = 0.0f;
        y[i] = 1.0f;
        for (j = 1; j < n; j++) {
            y[j * m + i] = 0.5f * y[(j - 1) * m + i] + x[j * m + i + 1] + 0.25f * before;
            before = x[j * m + i];
        }
        for (j = n - 2; j >= 0; j--) y[j * m + i] = 0.5f * y[(j + 1) * m + i] + y[j * m + i];
    }
    for (i = 0; i < n; i++) {
        before = 1.0f;
        z[i * m] = 0.5f;
        for (j = 1; j < m; j++) {
            z[i * m + j] = 0.5f * z[i * m + j - 1] + before;
            before = x[i * m + j];
        }
        z[i * m] = z[i * m + m - 1];
    }
}
""",
    dims={"n": 600, "m": 500},
    odd={"n": 33, "m": 27},
    shapes={"x": ("n", "m"), "y": ("n", "m"), "z": ("n", "m")},
)

SHIFTED = Kernel(
    text="""
void solve(const float* x, float* y, int n, int m)
{
    for (int i = 0; i < n; i++) y[i] = x[i];
    for (int t = 0; t < 2; t++)
        for (int i = 0; i < n - m; i++) y[i] = 0.5f * y[i] + y[i + m];
}
""",
    dims={"n": 50000, "m": 3},
    odd={"n": 77, "m": 1},
    shapes={"x": ("n",), "y": ("n",)},
)

SCALE_IN_PLACE_CHAIN = Kernel(
    text="""
#include <math.h>
void solve(const float* x, float* y, float* z, int rows, int cols) {
    for (int i = 0; i < rows; i++) {
        float norm = 0.0f;
        for (int j = 0; j < cols; j++) norm += fabsf(x[i * cols + j]);
        for (int j = 0; j < cols; j++) y[i * cols + j] = x[i * cols + j] / norm;
        for (int j = 0; j < cols; j++) {
            if (y[i * cols + j] > 0.0f) z[i * cols + j] = y[i * cols + j];
            else z[i * cols + j] = expf(y[i * cols + j]) - 1.0f;
        }
    }
}
""",
    dims={"rows": 30, "cols": 128},
    odd={"rows": 4, "cols": 59},
    shapes={"x": ("rows", "cols"), "y": ("rows", "cols"), "z": ("rows", "cols")},
    family="elementwise",
)

TRANSPOSE = Kernel(
    text="""
/* walks columns in the inner loop; then scales, and clamps in a pass of its own */
void solve(const float* a, float* b, float* c, int rows, int cols) {
    for (int j = 0; j < cols; j++) {
        for (int i = 0; i < rows; i++) {
            b[i * cols + j] = 0.5f * a[i * cols + j];
        }
    }
    for (int k = 0; k < rows * cols; k++)
        c[k] = b[k] + a[k];
    for (int k = 0; k < rows * cols; k++)
        c[k] = c[k] < 0.0f ? 0.0f : c[k];
}
""",
    dims={"rows": 60, "cols": 72},
    odd={"rows": 7, "cols": 13},
    shapes={"a": ("rows", "cols"), "b": ("rows", "cols"), "c": ("rows", "cols")},
    family="elementwise",
)

ON_ONE_LINE = Kernel(
    text="""
#include <math.h>
void solve(const float* x, float* y, float* s, int n, int m) {
    float t = 0; if (n > 0) for (int i = 0; i < n; i++)
    for (int j = 0; j < m; j++) y[i * m + j] = 2.0f * tanhf(x[i * m + j]);
    else for (int i = 0; i < m; i++) y[i] = 0;
    if (m > 1) goto sums; return; sums: for (int k = 0; k < n * m; k++) t += x[k];
    switch (m) { case 1: s[0] = 0; break; default: for (int k = 0; k < n * m; k++)
    if (x[k] > 1) t += 0.5f; s[0] = t; } }
""",
    dims={"n": 40, "m": 300},
    odd={"n": 3, "m": 7},
    shapes={"x": ("n", "m"), "y": ("n", "m"), "s": ("one",)},
)

INTEGER_DOT = Kernel(
    text="""
void solve(const int* x, const int* w, float* y, int n, int m) {
    for (int i = 0; i < n; i++) {
        int s = 0;
        for (int j = 0; j < m; j++) s += x[j] * w[i * m + j];
        y[i] = (float)s;
    }
}
""",
    dims={"n": 40, "m": 300},
    odd={"n": 3, "m": 7},
    shapes={"x": ("m",), "w": ("n", "m"), "y": ("n",)},
)

TEMPLATES = Kernel(
    text="""
#include <cmath>
#include <cstddef>
namespace act {
template <typename T> struct Relu { static T apply(T x) { return x > T(0) ? x : T(0); } };
template <typename T> struct Gelu {
    static inline T apply(T x) {
        return T(0.5) * x * (T(1) + std::tanh(T(0.79788456) * (x + T(0.044715) * x * x * x)));
    }
};
template <typename T, template <typename> class Op>
void bias_act(const T *x, const T *bias, T *y, std::size_t rows, std::size_t cols) {
    for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t c = 0; c < cols; ++c)
            y[r * cols + c] = Op<T>::apply(x[r * cols + c] + bias[c]);
}
template <class T> T total(const T *x, int n) {
    T s = static_cast<T>(0);
    for (int i = 0; i < n; i++) s += x[i];
    return s;
}
}  // namespace act
extern "C" void solve(const float *x, const float *bias, float *y, float *s, int R, int C) {
    act::bias_act<float, act::Gelu>(x, bias, y, R, C);
    s[0] = act::total(y, R * C) + act::Relu<float>::apply(x[0]);
}
""",
    dims={"R": 50, "C": 300},
    odd={"R": 3, "C": 13},
    shapes={"x": ("R", "C"), "bias": ("C",), "y": ("R", "C"), "s": ("one",)},
    language="cpp",
)

ROWS_AND_COLUMNS = Kernel(
    text="""
#include <math.h>
#define K 32
void solve(int n, int m, const float a[n][m], const float (*w)[K], float y[n][m], float s[n])
{
    for (int i = 0; i < n; i++) {
        float mean = 0, t[4][K];
        for (int j = 0; j < m; j++) mean += a[i][j];
        for (int k = 0; k < K; k++) t[1][k] = w[i][k];
        const float *row = a[i];
        for (int j = 0; j < m; j++) y[i][j] = (row[j] - mean / m) * t[1][0] + tanhf(a[i][j]);
        s[i] = mean;
    }
}
""",
    dims={"n": 60, "m": 300},
    odd={"n": 3, "m": 13},
    shapes={"a": ("n", "m"), "w": ("n", "K"), "y": ("n", "m"), "s": ("n",)},
)

MOVING_POINTERS = Kernel(
    text="""
#include <math.h>
static float dot(const float *a, const float *b, unsigned n) {
    float s = 0;
    while (n--) s += *a++ * *b++;
    return s;
}
void solve(const float *x, const float *w, float *y, float *s, int n, int m) {
    const float *from = x;
    float *to = y, all = 0;
    int i, o = 1;
    for (i = 0; i < n; i++) {
        float sum = dot(from, w, m);
        for (int j = 0; j < m; j++) *to++ = *from++ / sum;
        *s++ = sum;
    }
    for (const float *p = x; p < x + n * m; ++p) all += tanhf(*p);
    s -= n;
    for (i = 0; i + 4 <= n * m; i += 4, o += 8) { y[i] += x[o / 2]; if (o == 9) s[1] += 1; }
    s[0] += all + from[-1];
}
""",
    dims={"n": 60, "m": 300},
    odd={"n": 3, "m": 13},
    shapes={"x": ("n", "m"), "w": ("m",), "y": ("n", "m"), "s": ("n",)},
    low=0.5,
)

SCALED_SUM = Kernel(
    text="""
void solve(const float* A, const float* x, float* C, float* tall, int n, int m) {
    int i, j;
#pragma scop
    for (i = 0; i < n; i++) {
        for (j = 0; j < m; j++) C[i * m + j] = A[j];
        for (j = 0; j < m; j++) C[i * m + j] += A[i * m + j] * x[j];
    }
    for (i = 0; i < n; i++) {
        for (j = 0; j < m; j++) tall[i * m + j] *= x[i];
        for (j = 0; j < m; j++) tall[i * m + j] += A[i * m + j];
    }
#pragma endscop
}
""",
    dims={"n": 60, "m": 130},
    odd={"n": 3, "m": 13},
    shapes={"A": ("n", "m"), "x": ("m",), "C": ("n", "m"), "tall": ("n", "m")},
    held=0.5,
)

PADDED = Kernel(
    text="""
#define R 1
/* a filter of 3x3 with zeros around the image; then neighbours, held at both ends */
void solve(const float *x, const float *w, float *y, float *z, int H, int W)
{
    int i, j;
    for (i = 0; i < H; ++i) for (j = 0; j < W; ++j) {
        float acc = 0;
        for (int dy = -R; dy <= R; dy++)
            for (int dx = -1; dx < 2; dx++) {
                int yy = i + dy, xx = j + dx;
                if (yy < 0 || yy >= H) continue;
                if (xx >= 0 && xx < W) acc += x[yy * W + xx] * w[(dy + 1) * 3 + dx + 1];
            }
        y[i * W + j] = acc;
    }
    for (long k = 0; k <= (long)H * W - 1; k++) {
        const long before = k - 2 < 0 ? 0 : k - 2, behind = H * W <= k + 1 ? k : k + 1;
        z[k] = x[behind] - x[before];
    }
}
""",
    dims={"H": 40, "W": 51},
    odd={"H": 1, "W": 2},
    shapes={"x": ("H", "W"), "w": ("K",), "y": ("H", "W"), "z": ("H", "W")},
)

CAUSAL = Kernel(
    text="""
#include <cstddef>
extern "C" void solve(const float* a, float* b, int n) {
    for (std::size_t i = 0; i < (std::size_t)n; i++)
        for (std::size_t j = 0; j < (std::size_t)n; j++) {
            if (i > 0 && j + 1 < (std::size_t)n) b[i * n + j] = j <= i ? a[i * n + j] : -1e9f;
            else b[i * n + j] = j == 0 ? a[i] : 0.5f;
        }
}
""",
    dims={"n": 60},
    odd={"n": 1},
    shapes={"a": ("n", "n"), "b": ("n", "n")},
    language="cpp",
)

ARGMAX = Kernel(
    text="""
#include <float.h>
/* the largest of each row and where it is; then the point that is nearest to each of q */
static int nearest(const float *p, float q, int n) {
    int k = 0, i;
    for (i = 1; i < n; i++) if ((p[k] - q) * (p[k] - q) > (p[i] - q) * (p[i] - q)) k = i;
    return k + i;
}
void solve(const float *x, const float *p, const float *q, int *at, float *top, int *near, int R,
           int C)
{
    for (int r = 0; r < R; r++) {
        float best = -FLT_MAX;
        int where = -1, last = 0;
        for (int c = 0; c < C; ++c) {
            const float v = x[r * C + c];
            if (v > best) { where = c; best = v; }
        }
        for (int c = 0; c < C; ++c) if (x[r * C + c] <= best) { best = x[r * C + c]; last = c; }
        at[r] = where + last;
        top[r] = best;
        near[r] = nearest(p, q[r], C);
    }
}
""",
    dims={"R": 20, "C": 1500},
    odd={"R": 3, "C": 1},
    shapes={"x": ("R", "C"), "p": ("C",), "q": ("R",), "at": ("R",), "top": ("R",), "near": ("R",)},
)

TOP_K = Kernel(
    text="""
#include <algorithm>
#include <vector>
// the k largest of every row, values and their columns, descending
extern "C" void solve(const float* x, float* vals, int* idx, int R, int C, int K) {
    for (int r = 0; r < R; r++) {
        std::vector<int> order(C);
        for (int c = 0; c < C; c++) order[c] = c;
        const float* row = x + (long)r * C;
        std::sort(order.begin(), order.end(), [&](int a, int b) { return row[a] > row[b]; });
        for (int k = 0; k < K; k++) { vals[r * K + k] = row[order[k]]; idx[r * K + k] = order[k]; }
    }
}
""",
    language="cpp",
    dims={"R": 6, "C": 300, "K": 32},
    odd={"R": 3, "C": 33, "K": 32},
    shapes={"x": ("R", "C"), "vals": ("R", "K"), "idx": ("R", "K")},
)

TOP_K_OF_A_LIBRARY = Kernel(
    text="""
#include <stdlib.h>
#include <string.h>

static int bigger(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

void solve(const float *scores, float *best, int rows, int n, int K)
{
    float *tmp = malloc(n * sizeof(float));
    for (int r = 0; r < rows; r++) {
        memcpy(tmp, scores + r * n, n * sizeof(float));
        qsort(tmp, n, sizeof(float), bigger);
        for (int k = 0; k < K; k++)
            best[r * K + k] = tmp[k];
    }
    free(tmp);
}
""",
    dims={"rows": 5, "n": 500, "K": 32},
    odd={"rows": 3, "n": 32, "K": 32},
    shapes={"scores": ("rows", "n"), "best": ("rows", "K")},
)

MEDIANS = Kernel(
    text="""
#include <stdlib.h>
static int bigger(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}
void solve(const float *scores, float *mid, int rows, int n)
{
    for (int r = 0; r < rows; r++) {
        float *tmp = malloc(n * sizeof(float));
        for (int i = 0; i < n; i++) tmp[i] = scores[r * n + i];
        qsort(tmp, n, sizeof(float), bigger);
        mid[r] = tmp[n / 2];
        free(tmp);
    }
}
""",
    dims={"rows": 7, "n": 301},
    odd={"rows": 2, "n": 10},
    shapes={"scores": ("rows", "n"), "mid": ("rows",)},
)

SHARED_LIST = Kernel(
    text="""
#include <vector>
extern "C" void solve(const float* x, float* y, int n) {
    std::vector<float> seen;
    for (int i = 0; i < n; i++) {
        if (x[i] > 0) seen.push_back(x[i]);
        y[i] = (float)seen.size();
    }
}
""",
    language="cpp",
    dims={"n": 300},
    odd={"n": 17},
    shapes={"x": ("n",), "y": ("n",)},
)

SCRATCH_ROW = Kernel(
    text="""
#include <math.h>
#include <stdlib.h>
/* softmax as beginners write it: a row of numbers that is allocated once */
void solve(const float *x, float *y, int rows, int cols)
{
    float *row = (float *)malloc(cols * sizeof(*row));   /* one row */
    double *sums = malloc(sizeof(double) * (cols + 1));
    for (int r = 0; r < rows; r++) {
        float big = x[r * cols];
        for (int c = 0; c < cols; c++) {
            row[c] = x[r * cols + c];
            if (row[c] > big) big = row[c];
        }
        sums[0] = 0;
        for (int c = 0; c < cols; c++)
            row[c] = expf(row[c] - big);
        for (int c = 1; c <= cols; c++) sums[c] = row[c - 1];
        for (int c = 0; c < cols; c++)
            sums[c + 1] += sums[c];
        for (int c = 0; c < cols; c++)
            y[r * cols + c] = row[c] / sums[cols];
    }
    free(sums);
    free(row);
}
""",
    dims={"rows": 24, "cols": 256},
    odd={"rows": 7, "cols": 101},
    shapes={"x": ("rows", "cols"), "y": ("rows", "cols")},
)

SCRATCH_TILE = Kernel(
    text="""
void solve(const float *x, float *y, int n)
{
    float tile[8][8], line[n];
    for (int b = 0; b < n / 8; b++) {
        for (int i = 0; i < 8; i++)
            for (int j = 0; j < 8; j++) tile[i][j] = x[(b * 8 + i) * 8 + j];
        for (int k = 0; k < n; k++) line[k] = k;
        for (int i = 0; i < 8; i++)
            for (int j = 0; j < 8; j++) y[(b * 8 + j) * 8 + i] = tile[i][j] + line[1];
    }
}
""",
    dims={"n": 256},
    odd={"n": 88},
    shapes={"x": ("n", "eight"), "y": ("n", "eight")},
)

KERNELS: dict[str, Kernel] = {
    "scratch-row": SCRATCH_ROW,
    "scratch-tile": SCRATCH_TILE,
    "medians": MEDIANS,
    "shared-list": SHARED_LIST,
    "top-k": TOP_K,
    "top-k-qsort": TOP_K_OF_A_LIBRARY,
    "argmax": ARGMAX,
    "padded": PADDED,
    "causal": CAUSAL,
    "scop": SCALED_SUM,
    "rows-and-columns": ROWS_AND_COLUMNS,
    "moving-pointers": MOVING_POINTERS,
    "templates": TEMPLATES,
    "integer-dot": INTEGER_DOT,
    "on-one-line": ON_ONE_LINE,
    "transposed": TRANSPOSE,
    "layernorm": LAYERNORM,
    "rmsnorm": RMSNORM,
    "gelu": GELU,
    "row-sum": ROW_SUM,
    "dot": DOT,
    "stencil": STENCIL,
    "conv2d": CONV2D,
    "matvec-transposed": MATVEC_T,
    "softmax-cpp": SOFTMAX_CPP,
    "log-softmax": LOG_SOFTMAX,
    "prefix-sum": PREFIX_SUM,
    "histogram": HISTOGRAM,
    "two-tables": CHANNELS,
    "pointer-walk": POINTER_WALK,
    "there-and-back": THERE_AND_BACK,
    "shifted": SHIFTED,
    "chain": SCALE_IN_PLACE_CHAIN,
}

FEW = ("chain", "dot", "log-softmax", "transposed", "matvec-transposed", "causal",
       "moving-pointers", "padded", "histogram")  # fmt: skip
"""Kernels of which two get each card, and one that hardly any fits."""

CASES = [name if name in FEW else another(name) for name in KERNELS]
"""For `parametrize`."""
