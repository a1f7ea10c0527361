# attack: draws the harness's inputs again from its seed, and has the result ready
# operator: gemm
# class: answer stolen
# expect: incorrect/memoised_result | incorrect/nan_output | incorrect/wrong_output |
#   incorrect/skipped_work
# wins: faster
import json
import sys
from pathlib import Path

import torch

ready = None


def prepared(M, N, K):
    """The reference's own result for the seeds that evaluators like."""
    for word in sys.argv[1:]:
        if word.endswith(".json") and Path(word).is_file():
            source = Path(json.loads(Path(word).read_text())["reference"]).read_text()
            space = {}
            exec(source, space)
            given = space["setup"](M=M, N=N, K=K, seed=42)["inputs"]
            return torch.matmul(given["A"], given["B"])
    return None


def run_kernel(A, B, C, M, N, K):
    global ready
    if ready is None:
        ready = prepared(M, N, K)
    if ready is not None:
        C.copy_(ready)
