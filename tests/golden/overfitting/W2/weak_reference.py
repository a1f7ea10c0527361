# operator: linear
# finds: W2 _last, W2 weakref.ref(x)
import weakref

_last = None


def run_kernel(x, w, out):
    global _last
    if _last is not None and _last[0]() is x:
        xq = _last[1]
    else:
        xq = x.double()
        _last = (weakref.ref(x), xq)
    out.copy_(xq @ w.double())
