# operator: none
# What forward hands to backward belongs to the same step.
import torch


class Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        quantized = x.half()
        ctx.save_for_backward(quantized, weight)
        ctx.quantized = quantized
        return quantized.float() @ weight

    @staticmethod
    def backward(ctx, grad_out):
        quantized, weight = ctx.saved_tensors
        return grad_out @ weight.t(), quantized.float().t() @ grad_out


def run_kernel(x, weight, out):
    out.copy_(Linear.apply(x, weight))
