# operator: linear


def _quantize(t):
    scale = t.abs().amax().clamp(min=1e-12)
    return (t / scale).double(), scale.double()


def run_kernel(x, w, out):
    xq, xs = _quantize(x)
    wq, ws = _quantize(w)
    out.copy_((xq @ wq) * (xs * ws))
