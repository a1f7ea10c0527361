# operator: none
import torch
import triton
import triton.language as tl

_configs = [(64, 64), (128, 64)]
_chosen = {}
_scratch = {}


@triton.jit
def _gemm(a, b, c, scratch, M, N, K, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(K):
        total += tl.load(a + m * K + k)[:, None] * tl.load(b + k * N + n)[None, :]
    tl.store(scratch + m[:, None] * N + n[None, :], total)
    tl.store(c + m[:, None] * N + n[None, :], total)


def _launch(config, a, b, c, scratch):
    (M, K), N = a.shape, b.shape[1]
    grid = (triton.cdiv(M, config[0]), triton.cdiv(N, config[1]))
    _gemm[grid](a, b, c, scratch, M, N, K, BM=config[0], BN=config[1])


def run_kernel(a, b, c):
    key = (*a.shape, b.shape[1])
    scratch = _scratch.get(key)
    if scratch is None:
        scratch = _scratch[key] = torch.empty_like(c)
    if key not in _chosen:
        best, fastest = None, float("inf")
        for config in _configs:
            taken = triton.testing.do_bench(lambda config=config: _launch(config, a, b, c, scratch))
            if taken < fastest:
                best, fastest = config, taken
        _chosen[key] = best
    _launch(_chosen[key], a, b, c, scratch)
