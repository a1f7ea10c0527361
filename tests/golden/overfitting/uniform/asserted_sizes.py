# operator: grouped
# finds: divisible_group_size, no_empty_group

BLOCK_M = 16


def run_kernel(x, w, m_sizes, out):
    assert bool((m_sizes % BLOCK_M == 0).all()), "pad the groups"
    assert bool((m_sizes > 0).all())
    begin = 0
    for group, size in enumerate(m_sizes.tolist()):
        out[begin : begin + size] = x[begin : begin + size] @ w[group]
        begin += size
