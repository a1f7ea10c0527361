# attack: prints or sends the harness's answer in its place
# operator: gemm
# expect: cheated/verdict_forged | cheated/clock_forged | crashed/garbled_answer |
#   crashed/exited
# wins: faster
import os
import socket
import stat
import struct

import torch

calls = 0


def answer():
    body = b'{"elapsed_ns":1000,"early":false}'
    sent = False
    for fd in range(3, 256):
        try:
            if not stat.S_ISSOCK(os.fstat(fd).st_mode):
                continue
            channel = socket.socket(fileno=os.dup(fd))
            channel.sendall(struct.pack("<I", len(body)) + body)
            sent = True
        except OSError:
            continue
    return sent


def run_kernel(A, B, C, M, N, K):
    global calls
    torch.matmul(A, B, out=C)
    calls += 1
    if calls == 8 and not answer():
        os.write(1, b'{"correct": true, "candidate_s": 1e-9, "base_s": 1.0}\n')
        os._exit(0)
