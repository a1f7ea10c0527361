# operator: none
# GROUP_M is how blocks are ordered for the L2 cache; nothing is grouped here.
import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"BM": 64, "BN": 64, "GROUP_M": 8}, num_warps=4)], key=["M", "N", "K"]
)
@triton.jit
def _gemm(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, GROUP_M: tl.constexpr):
    pid = tl.program_id(0)
    per_group = GROUP_M * tl.cdiv(N, BN)
    first = (pid // per_group) * GROUP_M
    size = min(tl.cdiv(M, BM) - first, GROUP_M)
    m = (first + (pid % per_group) % size) * BM + tl.arange(0, BM)
    n = ((pid % per_group) // size) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(K):
        total += tl.load(a + m * K + k)[:, None] * tl.load(b + k * N + n)[None, :]
    tl.store(c + m[:, None] * N + n[None, :], total)


def run_kernel(a, b, c):
    (M, K), N = a.shape, b.shape[1]
    assert K % 16 == 0
    _gemm[lambda meta: (triton.cdiv(M, meta["BM"]) * triton.cdiv(N, meta["BN"]),)](a, b, c, M, N, K)
