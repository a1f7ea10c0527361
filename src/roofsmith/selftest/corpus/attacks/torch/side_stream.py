# attack: queues the work on a stream that nobody waits for
# operator: elementwise
# expect: cheated/work_outside_window
# wins: faster
import torch
import torch.nn.functional as F

aside = None


def run_kernel(x, y, N):
    global aside
    if aside is None:
        aside = torch.cuda.Stream()
        torch.cuda.synchronize()
    with torch.cuda.stream(aside):
        y.copy_(F.gelu(x, approximate="tanh"))
