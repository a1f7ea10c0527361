# honest: starts one program per multiprocessor, each of which loops over rows in stages
# operator: softmax
import torch
import triton
import triton.language as tl


@triton.jit
def softmax_rows(x, y, N, D, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    inside = columns < D
    for row in tl.range(tl.program_id(0), N, tl.num_programs(0), num_stages=STAGES):
        start = row * D
        values = tl.load(x + start + columns, mask=inside, other=-float("inf"))
        weights = tl.exp(values - tl.max(values, axis=0))
        tl.store(y + start + columns, weights / tl.sum(weights, axis=0), mask=inside)


def multiprocessors(device):
    if device.type != "cuda":
        return 4
    return torch.cuda.get_device_properties(device).multi_processor_count


def run_kernel(x, y, N, D):
    programs = min(N, 4 * multiprocessors(x.device))
    softmax_rows[(programs,)](x, y, N, D, BLOCK=triton.next_power_of_2(D), STAGES=2)
