# operator: linear
# A dictionary that ends with the call may be keyed by anything.


def run_kernel(x, w, out):
    seen = {}

    def doubled(tensor):
        if id(tensor) not in seen:
            seen[id(tensor)] = tensor.double()
        return seen[id(tensor)]

    out.copy_(doubled(x) @ doubled(w))
