"""2-D average pooling of planes, without padding: one program per row of the output."""

import triton
import triton.language as tl


@triton.jit
def avg_pool_kernel(x_ptr, y_ptr, H, W, OH, OW, K, S, BLOCK_W: tl.constexpr):
    plane = tl.program_id(0)
    oh = tl.program_id(1)
    for w0 in range(0, OW, BLOCK_W):
        ow = w0 + tl.arange(0, BLOCK_W)
        mask = ow < OW
        acc = tl.zeros((BLOCK_W,), dtype=tl.float32)
        for i in range(K):
            for j in range(K):
                h = oh * S + i
                w = ow * S + j
                acc += tl.load(x_ptr + plane * H * W + h * W + w, mask=mask, other=0.0)
        tl.store(y_ptr + plane * OH * OW + oh * OW + ow, acc / (K * K), mask=mask)


def run_kernel(x, y, P, H, W, OH, OW, K, S):
    avg_pool_kernel[(P, OH)](x, y, H, W, OH, OW, K, S, BLOCK_W=32)
