"""Top-k gating: one program per token takes the largest logit k times, then normalises."""

import triton
import triton.language as tl


@triton.jit
def topk_gating_kernel(
    logits_ptr, weights_ptr, experts_ptr, E, K, BLOCK_E: tl.constexpr, BLOCK_K: tl.constexpr
):
    token = tl.program_id(0)
    experts = tl.arange(0, BLOCK_E)
    slots = tl.arange(0, BLOCK_K)
    logits = tl.load(logits_ptr + token * E + experts, mask=experts < E, other=float("-inf"))
    best = tl.full((BLOCK_K,), float("-inf"), dtype=tl.float32)
    for k in range(K):
        top = tl.max(logits, axis=0)
        expert = tl.argmax(logits, axis=0)
        tl.store(experts_ptr + token * K + k, expert)
        best = tl.where(slots == k, top, best)
        logits = tl.where(experts == expert, float("-inf"), logits)
    gate = tl.exp(best - tl.max(best, axis=0))
    gate = gate / tl.sum(gate, axis=0)
    tl.store(weights_ptr + token * K + slots, gate, mask=slots < K)


def run_kernel(logits, weights, experts, T, E, K):
    topk_gating_kernel[(T,)](
        logits,
        weights,
        experts,
        E,
        K,
        BLOCK_E=triton.next_power_of_2(E),
        BLOCK_K=triton.next_power_of_2(K),
    )
