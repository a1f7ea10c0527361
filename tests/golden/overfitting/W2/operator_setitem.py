# finds: W2 _c
import operator

_c = {}


def run_kernel(x, w, out):
    if id(x) not in _c:
        operator.setitem(_c, id(x), x.half())
    out.copy_(_c[id(x)].float() @ w)
