# operator: none
# Inputs are copied into the graph's own memory before every replay.
import torch

_graphs = {}


def _captured(x, w):
    xs, ws = torch.empty_like(x), torch.empty_like(w)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = xs @ ws
    return graph, xs, ws, result


def run_kernel(x, w, out):
    key = (tuple(x.shape), tuple(w.shape), x.dtype)
    if key not in _graphs:
        _graphs[key] = _captured(x, w)
    graph, xs, ws, result = _graphs[key]
    xs.copy_(x)
    ws.copy_(w)
    graph.replay()
    out.copy_(result)
