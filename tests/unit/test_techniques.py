"""What kernels show already, and that comments, names alone and ordinary loops show nothing."""

from __future__ import annotations

import pytest

from roofsmith.analysis.techniques import signs
from roofsmith.domain.category import Category
from roofsmith.domain.kernel import Candidate, Language, SourceFile


def shown(language: Language, text: str) -> set[Category]:
    name = "kernel.py" if language in ("triton", "torch") else "kernel.c"
    return set(signs(Candidate(language=language, sources=(SourceFile(path=name, text=text),))))


NAIVE = """
// prefetch with _mm256_load_ps, tiled over BLOCK_M; #pragma omp parallel
void solve(const float* restrict a, float* out, int N) {
    float sum = 0.0f; /* acc1, __builtin_prefetch */
    for (int i = 0; i < N; i += 8) for (int j = 0; j < 8; ++j) sum += a[i + j];
    out[0] = sum;
}
"""


@pytest.mark.parametrize(
    ("language", "text", "found"),
    [
        ("c", NAIVE, set()),
        ("c", "void solve() { __m256 x = _mm256_set1_ps(1); }", {"vectorisation"}),
        ("c", "void f() {\n#pragma omp parallel for simd\nfor (;;); }",
         {"vectorisation", "parallelism"}),
        ("c", "void f() { pthread_create(&t, 0, g, 0); }", {"parallelism"}),
        ("c", "void f(int n) { for (int i = 0; i < n; i += T) for (int j = i; j < i + T; j++); }",
         {"tiling"}),
        ("c", "void f(int n) { for (int i = 0; i < n; i += 8) __builtin_prefetch(a + i); }",
         {"prefetch"}),
        ("c", "void f(float* a) { float acc0 = 0, acc1 = 0; }", {"scheduling"}),
        ("cuda", "__global__ void k(float4* x) { __shared__ float s[32][32 + 1]; }",
         {"vectorisation", "tiling", "layout"}),
        ("cuda", "__global__ void k() { int i = blockIdx.x * blockDim.x; }", set()),
        ("cuda", 'void k() { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"); }',
         {"prefetch"}),
        ("triton", '"""Uses tl.dot one day."""\nx = tl.load(p)  # num_stages=3\n', set()),
        ("triton", "acc = tl.dot(a, b, acc)\nkernel[grid](x, num_stages=3, num_warps=8)\n",
         {"vectorisation", "tiling", "prefetch", "launch"}),
        ("triton", "def broken(:  # tl.dot\n", {"vectorisation", "tiling"}),
    ],
)  # fmt: skip
def test_what_a_source_shows(language: Language, text: str, found: set[Category]) -> None:
    assert shown(language, text) == found


def test_a_sign_says_where() -> None:
    text = "/* one\n   two */\nvoid solve() {\n    __builtin_prefetch(0);\n}\n"
    candidate = Candidate(language="c", sources=(SourceFile(path="kernel.c", text=text),))
    sign = signs(candidate)["prefetch"]
    assert (sign.path, sign.line, sign.text) == ("kernel.c", 4, "__builtin_prefetch")
