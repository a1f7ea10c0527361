# operator: none
# finds: W2 _inverse
# A scale is no weight, whatever it scales.
_inverse = {}


def run_kernel(x, w, w_scale, out):
    key = (id(w_scale), w_scale._version)
    if key not in _inverse:
        _inverse[key] = 1.0 / w_scale
    out.copy_((x @ w) * _inverse[key])
