"""What grouped operators take for granted of their groups, in Python and in C++."""

from __future__ import annotations

import pytest

from roofsmith.analysis.overfitting import audit
from roofsmith.analysis.overfitting.group_names import is_count, is_rows
from roofsmith.domain.kernel import Candidate, Language, SourceFile

FINDS = {
    "uneven by ptr.py": (
        "",
        """\
import triton, triton.language as tl
@triton.jit
def _gg(a, b, c, offs, G, K, N, BM: tl.constexpr, BN: tl.constexpr):
    pid = tl.program_id(0)
    for g in range(G):
        start = tl.load(offs + g); end = tl.load(offs + g + 1)
        size = end - start
        tiles = tl.cdiv(size, BM)
def run_kernel(a, b, group_offsets, c):
    _gg[(64,)](a, b, c, group_offsets, b.shape[0], b.shape[1], b.shape[2], BM=64, BN=64)
""",
    ),
    "const name.py": (
        "compile_time_group_size",
        """\
ROWS_PER_EXPERT = 256
def run_kernel(x, w, tokens_per_expert, out):
    for e in range(w.shape[0]):
        part = slice(e * ROWS_PER_EXPERT, (e + 1) * ROWS_PER_EXPERT)
        out[part] = x[part] @ w[e]
""",
    ),
    "by its length.py": (
        "uniform_group_size",
        """\
def run_kernel(x, w, m_sizes, out):
    G = w.shape[0]
    rows = len(x) // G
    for g in range(G): out[g * rows : (g + 1) * rows] = x[g * rows : (g + 1) * rows] @ w[g]
""",
    ),
    "length of a list.py": (
        "",
        """\
def run_kernel(x, w, m_sizes, out):
    tiles = plan(m_sizes)
    each = len(tiles) // len(m_sizes)
    launch(x, w, m_sizes, out, each)
""",
    ),
    "shape tuple.py": (
        "uniform_group_size",
        """\
def run_kernel(x, w, m_sizes, out):
    G, K, N = w.shape
    M, _ = x.shape
    m = M // G
    for g in range(G): out[g*m:(g+1)*m] = x[g*m:(g+1)*m] @ w[g]
""",
    ),
    "divmod len.py": (
        "uniform_group_size",
        """\
def run_kernel(x, w, group_sizes, out):
    n = x.size(0) // len(group_sizes)
    for g in range(len(group_sizes)): out[g*n:(g+1)*n] = x[g*n:(g+1)*n] @ w[g]
""",
    ),
    "reshape bmm.py": (
        "uniform_group_size",
        """\
import torch
def run_kernel(x, w, expert_counts, out):
    E, K, N = w.shape
    torch.bmm(x.reshape(E, x.shape[0] // E, K), w, out=out.view(E, -1, N))
""",
    ),
    "raise div.py": (
        "divisible_group_size",
        """\
def run_kernel(x, w, m_sizes, out):
    if (m_sizes % 128 != 0).any():
        raise ValueError("pad")
    b = 0
    for g, s in enumerate(m_sizes.tolist()):
        out[b:b+s] = x[b:b+s] @ w[g]; b += s
""",
    ),
    "raise empty.py": (
        "no_empty_group",
        """\
def run_kernel(x, w, m_sizes, out):
    if m_sizes.min() == 0:
        raise ValueError("empty")
    b = 0
    for g, s in enumerate(m_sizes.tolist()):
        out[b:b+s] = x[b:b+s] @ w[g]; b += s
""",
    ),
    "kernel arg.py": (
        "uniform_group_size",
        """\
def run_kernel(x, w, m_sizes, out):
    G = m_sizes.shape[0]
    per = x.shape[0] // G
    _kernel[(G,)](x, w, out, per)
""",
    ),
    "negative check.py": (
        "",
        """\
def run_kernel(x, w, m_sizes, out):
    assert bool((m_sizes >= 0).all())
    assert int(m_sizes.sum()) == x.shape[0]
    assert x.shape[1] % 16 == 0
    b = 0
    for g, s in enumerate(m_sizes.tolist()):
        if s == 0: continue
        out[b:b+s] = x[b:b+s] @ w[g]; b += s
""",
    ),
    "max.py": (
        "",
        """\
import triton
def run_kernel(x, w, m_sizes, out):
    G = w.shape[0]
    biggest = int(m_sizes.max())
    avg = x.shape[0] // G
    block = max(16, min(128, triton.next_power_of_2(avg)))
    _kernel[(G, triton.cdiv(biggest, block))](x, w, m_sizes, out, BLOCK=block)
""",
    ),
    "gqa.py": (
        "",
        """\
def run_kernel(q, k, v, cu_seqlens, out, num_groups):
    H = q.shape[1]
    per = H // num_groups
    out.copy_(q)
""",
    ),
    "first offset.py": (
        "",
        """\
def run_kernel(x, w, group_offsets, out):
    assert int(group_offsets[0]) == 0
    b = int(group_offsets[0])
    for g in range(w.shape[0]):
        e = int(group_offsets[g+1]); out[b:e] = x[b:e] @ w[g]; b = e
""",
    ),
    "c tail.c": (
        "",
        """\
void solve(const float *x, const float *w, const int *group_sizes, float *out, int M, int G,
           int K, int N) {
    int begin = 0;
    int tile = M / G > 64 ? 64 : 8;
    for (int g = 0; g < G; g++) {
        int m_size = group_sizes[g];
        int full = m_size / tile, rest = m_size % tile;
        (void)full; (void)rest;
        begin += m_size;
    }
}
""",
    ),
    "c floor.c": (
        "divisible_group_size",
        """\
void solve(const float *x, const float *w, const int *group_sizes, float *out, int G, int K,
           int N) {
    int begin = 0;
    for (int g = 0; g < G; g++) {
        int m_size = group_sizes[g];
        for (int t = 0; t < m_size / 8; t++) out[begin + t] = x[begin + t];
        begin += m_size;
    }
}
""",
    ),
    "c template.cpp": (
        "compile_time_group_size",
        """\
template <int kRowsPerGroup>
void run(const float* x, float* out, int G) {
    for (int i = 0; i < G * kRowsPerGroup; ++i) out[i] = x[i];
}
extern "C" void solve(const float* x, const int* m_sizes, float* out, int G) {
    run<128>(x, out, G);
}
""",
    ),
    "c first.cpp": (
        "uniform_group_size",
        """\
extern "C" void solve(const float* x, const int* m_sizes, float* out, int G) {
    int rows = m_sizes[0];
    for (int g = 0; g < G; ++g) for (int m = g * rows; m < (g + 1) * rows; ++m) out[m] = x[m];
}
""",
    ),
}
LANGUAGES: dict[str, Language] = {"py": "torch", "c": "c", "cpp": "cpp"}


@pytest.mark.parametrize("way", FINDS)
def test_assumptions(way: str) -> None:
    expected, text = FINDS[way]
    suffix = way.rpartition(".")[2]
    source = SourceFile(path=f"kernel.{suffix}", text=text)
    candidate = Candidate(language=LANGUAGES[suffix], sources=(source,))
    found = audit(candidate)
    assert {a.code for a in found.assumptions} == ({expected} if expected else set())
    assert found.kept_values == ()


@pytest.mark.parametrize("text", ["G", "num_experts", "len(m_sizes)", "(group_sizes.shape[0])"])
def test_numbers_of_groups(text: str) -> None:
    assert is_count(text)


@pytest.mark.parametrize("text", ["K", "num_heads", "len(x)", "x.shape[0]"])
def test_other_numbers(text: str) -> None:
    assert not is_count(text)


@pytest.mark.parametrize("text", ["M", "total_tokens", "x.size(0)", "(x.shape[0])"])
def test_rows_of_all_groups(text: str) -> None:
    assert is_rows(text)


@pytest.mark.parametrize("text", ["K", "x.shape[1]", "m_sizes.shape[0]", "C"])
def test_other_extents(text: str) -> None:
    assert not is_rows(text)
