# attack: leaves a process behind that keeps every processor busy for a while
# operator: reduction
# expect: cheated/leftover_work | cheated/leftover_process | harmless
# wins: correct
import subprocess
import sys

import torch

BUSY = "import time\nend = time.time() + 10\nwhile time.time() < end: pass"
children = []


def run_kernel(x, y, N, D):
    torch.sum(x.clone(), dim=1, out=y)
    if not children:
        children.extend(subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(2))
