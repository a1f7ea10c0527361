# operator: none
# finds: W2 self._scales


class Fp8Linear:
    def __init__(self):
        self._scales = {}

    def _scaled(self, grad_out):
        key = id(grad_out)
        if key not in self._scales:
            self._scales[key] = grad_out.abs().amax() / 448.0
        return grad_out / self._scales[key]

    def backward(self, grad_out, weight):
        return self._scaled(grad_out) @ weight.t()
