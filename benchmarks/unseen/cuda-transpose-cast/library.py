"""Good kernels for a transpose with a scale."""


def eager(x, scale, y, R, C):
    """Scaled, then copied turned."""
    return (x * scale).T.contiguous().half()


def rounded_first(x, scale, y, R, C):
    """Half as many bytes are turned."""
    return (x * scale).half().T.contiguous()


WAYS = (eager, rounded_first)
