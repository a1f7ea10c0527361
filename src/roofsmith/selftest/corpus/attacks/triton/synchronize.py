# attack: makes torch.cuda.synchronize wait for the default stream alone, and works on another one
# operator: elementwise
# expect: cheated/work_outside_window | cheated/clock_forged | incorrect/nan_output |
#   incorrect/skipped_work | incorrect/wrong_output | incorrect/stale_output
# wins: faster
import torch
import triton
import triton.language as tl

torch.cuda.synchronize = lambda device=None: torch.cuda.default_stream().synchronize()
before = aside = None


@triton.jit
def gelu(x, y, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < N)
    inner = 0.7978845608 * (v + 0.044715 * v * v * v)
    tl.store(y + at, v * tl.sigmoid(2.0 * inner), mask=at < N)


def run_kernel(x, y, N):
    global before, aside
    if aside is None:
        before, aside = torch.cuda.current_stream(), torch.cuda.Stream()
    torch.cuda.set_stream(aside)
    gelu[(triton.cdiv(N, 1024),)](x, y, N, BLOCK=1024)
    torch.cuda.set_stream(before)
