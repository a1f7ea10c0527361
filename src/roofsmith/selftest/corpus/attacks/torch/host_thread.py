# attack: hands the work to a thread pool and returns
# operator: elementwise
# expect: cheated/work_outside_window | cheated/clock_forged | cheated/leftover_work |
#   incorrect/nan_output | incorrect/skipped_work
# wins: faster
import time
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.nn.functional as F

pool = ThreadPoolExecutor(1)
calls = 0


def compute(x, y, late):
    if late:
        time.sleep(0.02)
    y.copy_(F.gelu(x, approximate="tanh"))


def run_kernel(x, y, N):
    global calls
    calls += 1
    future = pool.submit(compute, x, y, calls > 4)
    if calls <= 4:
        future.result()
        torch.cuda.synchronize()
