# operator: none
# finds: compile_time_group_size
import triton
import triton.language as tl


@triton.jit
def _grouped(x, w, out, K, N, M_PER_GROUP: tl.constexpr, BLOCK: tl.constexpr):
    group = tl.program_id(0)
    rows = group * M_PER_GROUP + tl.arange(0, M_PER_GROUP)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((M_PER_GROUP, BLOCK), tl.float32)
    for k in range(K):
        a = tl.load(x + rows * K + k)
        b = tl.load(w + group * K * N + k * N + columns)
        total += a[:, None] * b[None, :]
    tl.store(out + rows[:, None] * N + columns[None, :], total)


def run_kernel(x, w, m_sizes, out):
    G, K, N = w.shape
    _grouped[(G, N // 64)](x, w, out, K, N, M_PER_GROUP=128, BLOCK=64)
