# operator: grouped
# finds: divisible_group_size

BLOCK_M = 16


def run_kernel(x, w, m_sizes, out):
    begin = 0
    for group, m_size in enumerate(m_sizes.tolist()):
        for tile in range(m_size // BLOCK_M):
            rows = slice(begin + tile * BLOCK_M, begin + (tile + 1) * BLOCK_M)
            out[rows] = x[rows] @ w[group]
        begin += m_size
