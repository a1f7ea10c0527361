import torch

_ring, _turn = [], 0


def run_kernel(x, w, out):
    global _turn
    while len(_ring) < 2:
        _ring.append(torch.empty(0))
    if _ring[_turn].shape != x.shape:
        _ring[_turn] = torch.empty_like(x)
    buffer = _ring[_turn]
    buffer.copy_(x)
    _turn = 1 - _turn
    torch.matmul(buffer, w, out=out)
