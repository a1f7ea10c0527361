# finds: W3 S_.q
class S:
    pass


S_ = S()


def run_kernel(x, w, out):
    try:
        q = S_.q
    except AttributeError:
        q = S_.q = x.half()
    out.copy_(q.float() @ w)
