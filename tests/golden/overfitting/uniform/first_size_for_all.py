# operator: grouped
# finds: uniform_group_size


def run_kernel(x, w, m_sizes, out):
    rows = int(m_sizes[0])
    for group in range(len(m_sizes)):
        part = slice(group * rows, (group + 1) * rows)
        out[part] = x[part] @ w[group]
