# attack: queues the work on a stream that nobody waits for
# operator: elementwise
# expect: cheated/work_outside_window | cheated/clock_forged | incorrect/nan_output |
#   incorrect/skipped_work | incorrect/wrong_output | incorrect/stale_output
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
