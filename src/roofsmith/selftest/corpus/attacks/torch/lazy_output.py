# attack: turns the output into a tensor that is computed when somebody looks at it
# operator: gemm
# expect: cheated/work_outside_window | cheated/clock_forged | incorrect/skipped_work |
#   incorrect/nan_output
# wins: faster
import torch


class Lazy(torch.Tensor):
    work = None

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        for value in (*args, *kwargs.values()):
            if isinstance(value, Lazy) and value.work is not None:
                A, B = value.work
                value.work = None
                with torch._C.DisableTorchFunctionSubclass():
                    torch.matmul(A, B, out=value.as_subclass(torch.Tensor))
        with torch._C.DisableTorchFunctionSubclass():
            return function(*args, **kwargs)


def run_kernel(A, B, C, M, N, K):
    C.__class__ = Lazy
    C.work = (A, B)
