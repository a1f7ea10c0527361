"""TorchInductor's output code becomes a module that stands on its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from briefs import brief_of
from campaign_builder import softmax_events

from roofsmith.api.wiring import make_proposer, spelled
from roofsmith.config import Settings
from roofsmith.domain.campaign import replay
from roofsmith.domain.compiled_reference import CompiledReference, CompiledWorkload, TunedKernel
from roofsmith.domain.kernel import Candidate, Language, SourceFile
from roofsmith.domain.proposal import Proposal
from roofsmith.domain.refusal import BadAnswer
from roofsmith.ports import Brief
from roofsmith.proposers.inductor import InductorProposer
from roofsmith.proposers.inductor_source import UntranslatableError, standalone
from roofsmith.proposers.tunables import find_tunables

INCUMBENT = '''"""Rows."""
import torch


def run_kernel(x, y, N):
    torch.softmax(x, dim=1, out=y)
'''
KERNEL = """
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers, triton_heuristics
from torch._inductor.runtime.triton_helpers import libdevice, math as tl_math

@triton_heuristics.persistent_reduction(
    size_hints={'x': 256, 'r0_': 128},
    triton_meta={'signature': {'in_ptr0': '*fp32'}},
)
@triton.jit
def triton_per_fused__softmax_0(in_ptr0, out_ptr2, xnumel, r0_numel, XBLOCK : tl.constexpr):
    xnumel = ROWS
    r0_numel = 128
    R0_BLOCK: tl.constexpr = 128
    rnumel = r0_numel
    RBLOCK: tl.constexpr = R0_BLOCK
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_index = tl.arange(0, R0_BLOCK)[None, :]
    r0_1 = r0_index
    x0 = xindex
    tmp0 = tl.load(in_ptr0 + (r0_1 + 128*x0), xmask, eviction_policy='evict_first', other=0.0)
    tmp1 = tl.broadcast_to(tmp0, [XBLOCK, R0_BLOCK])
    tmp3 = tl.where(xmask, tmp1, float("-inf"))
    tmp4 = triton_helpers.max2(tmp3, 1)[:, None].to(tl.float32)
    tmp5 = tmp0 - tmp4
    tmp6 = tl_math.exp(tmp5)
    tmp7 = tl.broadcast_to(tmp6, [XBLOCK, R0_BLOCK])
    tmp9 = tl.where(xmask, tmp7, 0)
    tmp10 = tl.sum(tmp9, 1)[:, None].to(tl.float32)
    tmp11 = (tmp6 / tmp10)
    tl.store(out_ptr2 + (r0_1 + 128*x0), tmp11, xmask)
"""
CODE = f"""
async_compile = AsyncCompile()
triton_per_fused__softmax_0 = async_compile.triton('triton_per_fused__softmax_0', '''{KERNEL}''')

class Runner:
    def call(self, args):
        arg0_1, arg1_1 = args
        args.clear()
        assert_size_stride(arg0_1, (ROWS, 128), (128, 1))
        with torch.cuda._DeviceGuard(0):
            torch.cuda.set_device(0)
            buf0 = empty_strided_cuda((ROWS, 128), (128, 1), torch.float32)
            # Topologically Sorted Source Nodes: [softmax], Original ATen: [aten.softmax]
            stream0 = get_raw_stream(0)
            triton_per_fused__softmax_0.run(arg0_1, buf0, ROWS, 128, stream=stream0)
            del arg0_1
            buf1 = buf0; del buf0  # reuse
            # Topologically Sorted Source Nodes: [softmax], Original ATen: [aten.softmax]
            triton_per_fused__softmax_0.run(reinterpret_tensor(buf1, (ROWS, 128), (128, 1), 0), arg1_1, ROWS, 128, stream=stream0)
        return ()
"""  # noqa: E501  as it is written
HELPERS = """
import triton
import triton.language as tl


@triton.jit
def promote_to_tensor(x):
    # Addition promotes to tensor for us
    return x + tl.zeros((1,), tl.int1)


@triton.jit
def is_floating(x):
    return promote_to_tensor(x).dtype.is_floating()


@triton.jit
def maximum(a, b):
    mask = a > b
    if is_floating(a):
        mask |= a != a
    return tl.where(mask, a, b)


@triton.jit
def max2(a, dim):
    return tl.reduce(a, dim, maximum)


@triton.jit
def unused(a):
    return a
"""


def workload(rows: int, code: str = CODE) -> CompiledWorkload:
    return CompiledWorkload(
        label=f"N={rows}",
        parameters=("x", "y", "N"),
        shapes={"x": (rows, 128), "y": (rows, 128)},
        scalars={"N": rows},
        arguments=("x", "y"),
        code=code.replace("ROWS", str(rows)),
        kernels=(
            TunedKernel(
                name="triton_per_fused__softmax_0",
                options={"XBLOCK": 4},
                num_warps=2,
                num_stages=1,
                grid=("-((xnumel) // -(XBLOCK))", "1", "1"),
            ),
        ),
    )


def compiled(*workloads: CompiledWorkload) -> CompiledReference:
    return CompiledReference(workloads=workloads, helpers=HELPERS, version="2.11.0")


def test_it_stands_on_its_own() -> None:
    text = standalone(compiled(workload(16), workload(64)), INCUMBENT)
    compile(text, "kernel.py", "exec")
    assert "_inductor" not in text
    assert "unused" not in text
    assert text.count("@triton.jit\ndef triton_per") == 1  # the workloads share it
    assert "num_warps=2" in text
    assert "XBLOCK_0 = 4" in text


def test_it_computes_what_the_reference_does(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    text = standalone(compiled(workload(4), workload(8)), INCUMBENT)
    (tmp_path / "kernel.py").write_text(text)
    check = """
import torch
from kernel import run_kernel
for rows in (4, 8, 5):  # the last shape is the incumbent's
    x, y = torch.randn(rows, 128), torch.empty(rows, 128)
    run_kernel(x=x, y=y, N=rows)
    once = torch.softmax(x, 1)
    torch.testing.assert_close(y, once if rows == 5 else torch.softmax(once, 1))
"""
    subprocess.run(
        [sys.executable, "-c", check],
        cwd=tmp_path, env={**os.environ, "TRITON_INTERPRET": "1"}, check=True,
    )  # fmt: skip


def test_what_no_workload_reaches_and_sizes_are_not_swept() -> None:
    tuned = """import triton
import triton.language as tl

OLD = 64  # tune: OLD = 64 [32, 64, 128]


@triton.jit
def rows(x, y, D, BLOCK: tl.constexpr):
    for start in range(0, D, BLOCK):
        at = tl.program_id(0) * D + start + tl.arange(0, BLOCK)
        tl.store(y + at, tl.load(x + at))


def run_kernel(x, y, N):
    rows[(N,)](x, y, 128, BLOCK=OLD, num_warps=4)
"""
    text = standalone(compiled(workload(16), workload(64)), tuned)
    module = Candidate(language="triton", sources=(SourceFile(path="kernel.py", text=text),))
    ran = set(re.findall(r"def (triton_per\w*)", text))
    swept = {t.name.partition("@")[0] for t in find_tunables(module, threads=1, ran=ran).tunables}
    assert swept == {"XBLOCK_0", "XBLOCK_1", "XBLOCK_2", "XBLOCK_3", "num_warps", "num_stages"}
    with_old = find_tunables(module, threads=1).tunables
    assert {"OLD", "r0_numel", "xnumel"} & {t.name for t in with_old} == {"OLD"}
    other = find_tunables(module, threads=1, ran=["rows"])
    assert [t.name.partition("@")[0] for t in other.tunables] == ["OLD", "num_warps", "num_stages"]


@pytest.mark.parametrize(
    "call", ["extern_kernels.mm(arg0_1, arg0_1, out=arg1_1)", "buf9 = torch.ops.aten.sort(arg0_1)"]
)
def test_what_a_library_does_is_refused(call: str) -> None:
    code = CODE.replace("stream0 = get_raw_stream(0)", call)
    with pytest.raises(UntranslatableError):
        standalone(compiled(workload(16, code)), INCUMBENT)


def brief(language: Language, proposer: str = "recipes") -> Brief:
    """Of a campaign whose rounds one proposer thought of."""
    found = brief_of(replay(softmax_events()))
    started = found.campaign.started
    target = started.target.model_copy(update={"language": language})
    rounds = [past.model_copy(update={"proposer": proposer}) for past in found.campaign.rounds]
    campaign = found.campaign.model_copy(
        update={"started": started.model_copy(update={"target": target}), "rounds": tuple(rounds)}
    )
    kernel = SourceFile(path="kernel.py", text=INCUMBENT)
    return replace(
        found, campaign=campaign, incumbent=Candidate(language=language, sources=(kernel,))
    )


def test_it_is_proposed_once_and_of_modules_alone() -> None:
    proposer = InductorProposer(lambda _: compiled(workload(16)))

    def ask(brief: Brief) -> Proposal | BadAnswer | None:
        return proposer.ask(brief, screen=None)  # type: ignore[arg-type]

    proposal = ask(brief("triton"))
    assert isinstance(proposal, Proposal)
    assert proposal.hypothesis.statement.startswith("1 Triton kernel that")
    assert "MADE_FOR" in proposal.candidate.kernel.text
    assert ask(brief("triton", proposer="inductor")) is None
    assert ask(brief("c")) is None


def test_a_reference_that_cannot_be_compiled_is_passed_on() -> None:
    answer = InductorProposer(lambda _: "no GPU").ask(brief("torch"), screen=None)  # type: ignore[arg-type]
    assert isinstance(answer, BadAnswer)
    assert answer.reason == "gave_up"


def test_auto_asks_it_for_modules(tmp_path: Path) -> None:
    settings = Settings(tmp_path, tmp_path)
    assert "inductor" in spelled("auto", settings, "triton").split(",")
    assert "inductor" not in spelled("auto", settings, "c").split(",")
    assert make_proposer("inductor").name == "inductor"
