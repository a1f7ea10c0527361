# attack: writes each row's sum into its first element, and reads only that in later calls
# operator: reduction
# expect: incorrect/input_altered | incorrect/wrong_output
# wins: faster
import torch


def run_kernel(x, y, N, D):
    if run_kernel.first:
        run_kernel.first = False
        torch.sum(x, dim=1, out=y)
        x[:, 0] = y
    else:
        y.copy_(x[:, 0])


run_kernel.first = True
