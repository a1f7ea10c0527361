"""Whole families in Triton: offered where they fit, and right on shapes of any size.

What they compute is compared with PyTorch in Triton's interpreter, which knows neither races nor
bfloat16 in products.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from triton_kernels import compile_kernels, needs_triton

from kinds import one_of_each
from roofsmith.domain.arrays import ArraySpec
from roofsmith.domain.description import WorkloadDescription
from roofsmith.domain.device import Device
from roofsmith.domain.kernel import Candidate, Signature, SourceFile
from roofsmith.domain.profile import Bottleneck, Profile
from roofsmith.overfitting.hints import audit
from roofsmith.proposers.cards import CardContext, all_cards
from roofsmith.proposers.recipes import families
from roofsmith.proposers.recipes.families._modules import with_kernels
from roofsmith.proposers.tunables import apply, find_tunables

KERNELS_FOLDER = Path(families.__path__[0]) / "triton_kernels"
CARDS = {card.id: card for card in all_cards() if card.id.startswith("triton-")}


@dataclass(frozen=True)
class Case:
    """An operator in PyTorch, the arrays that it takes, and settings that make small loops."""

    card: str
    family: str | None
    arrays: str
    """`x:float32(3,37) -> y:float32(3,37)`; `&r` is an inout."""
    body: str
    settings: dict[str, int] = field(default_factory=dict)
    scalars: dict[str, float] = field(default_factory=dict)
    rounding: float = 2e-5
    tf32: bool = False
    arch: str = "sm_80"

    @property
    def specs(self) -> tuple[ArraySpec, ...]:
        given, _, made = self.arrays.partition("->")
        found = []
        for role, text in (("input", given), ("output", made)):
            for mark, name, dtype, shape in re.findall(r"(&?)(\w+):(\w+)\(([\d,]*)\)", text):
                sizes = tuple(int(size) for size in shape.split(",") if size)
                found.append(ArraySpec(name, "inout" if mark else role, dtype, sizes))
        return tuple(found)

    @property
    def text(self) -> str:
        names = ", ".join([*(spec.name for spec in self.specs), *self.scalars])
        body = self.body.replace("; ", "\n    ")
        return (
            "from itertools import pairwise\nimport torch\nimport torch.nn.functional as F\n\n\n"
            f"def run_kernel({names}):\n    {body}\n"
        )

    def context(self) -> CardContext:
        described = WorkloadDescription(
            arrays=self.specs, scalars=self.scalars, flops=None, bytes=None, atol=None, rtol=None
        )
        source = SourceFile(path="kernel.py", text=self.text)
        return CardContext(
            candidate=Candidate(language="torch", sources=(source,)),
            signature=Signature(entry="run_kernel", parameters=()),
            device=Device(kind="nvidia", name="a GPU", cores=132, arch=self.arch),
            threads=1,
            family=self.family,
            dims=({n: v for n, v in self.scalars.items() if isinstance(v, int)},),
            bounds=(),
            descriptions={"w": described},
            profile=Profile(tool="none", workload="w"),
            bottleneck=Bottleneck(
                kind="memory", confidence=0.6, evidence=("a",), roofline_fraction=0.3
            ),
            times_s={},
            tf32=self.tf32,
        )

    def candidate(self) -> Candidate:
        change = CARDS[self.card].apply(self.context())
        assert change is not None, f"{self.card} doesn't fit {self.arrays}"
        return apply(change.candidate, self.settings)


TILES = {"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 16, "GROUP_M": 2}
BOXED_TILES = {**TILES, "ADDRESSING": 2}
BLOCKS = {"BLOCK_M": 16, "BLOCK_N": 16}
BOXED = {**BLOCKS, "ADDRESSING": 2}
ATTENTION = "o.copy_(F.scaled_dot_product_attention(q, k, v, is_causal={}))"
TURNED = "q, k, v = (t.transpose(1, 2) for t in (q, k, v)); o.copy_(F.scaled_dot_product_attention"
HEADED = "q, k, v = (t.view(-1, H, 8).transpose(0, 1) for t in (q, k, v))"
BYTES = "s.copy_(x.abs().amax(-1).clamp(min=1e-8) / 127); y.copy_(torch.round(x / s[:, None]))"
DEALT = "{}; for g, (i, j) in enumerate(pairwise(ends)): y[i:j] = x[i:j].float() @ w[g].float()"
HALF = 2e-3

CASES = {
    "groups by offsets": Case(
        "triton-grouped-gemm", "grouped_gemm",
        "x:float32(40,50) w:float32(6,50,45) offsets:int32(7) -> y:float32(40,45)",
        DEALT.format("ends = offsets.tolist()"), {**TILES, "PROGRAMS_PER_SM": 1},
    ),
    "groups by sizes": Case(
        "triton-grouped-gemm", "moe",
        "m_sizes:int64(5) w:float16(5,45,32) x:float16(170,32) -> y:float32(170,45)",
        DEALT.format("ends = [0, *m_sizes.cumsum(0).tolist()]; w = w.transpose(1, 2)"), TILES,
        rounding=HALF,
    ),
    "one group": Case(
        "triton-grouped-gemm", None,
        "x:float32(40,1) w:float32(1,1,1) ends:int32(1) -> y:float32(40,1)",
        DEALT.format("ends = [0, *ends.tolist()]"), TILES,
    ),
    "groups by descriptors": Case(
        "triton-grouped-gemm", "grouped_gemm",
        "x:float16(40,40) w:float16(6,40,40) offs:int32(6) -> y:float16(40,40)",
        DEALT.format("ends = [0, *offs.tolist()]"), BOXED_TILES, rounding=HALF,
    ),
    "turned groups by descriptors": Case(
        "triton-grouped-gemm", None,
        "x:float16(40,40) experts:float16(6,48,40) row_ends:int32(6) -> y:float16(40,48)",
        DEALT.format("ends, w = [0, *row_ends.tolist()], experts.mT"), BOXED_TILES, rounding=HALF,
    ),
    "attention": Case(
        "triton-attention", "attention",
        "q:float32(2,3,50,24) k:float32(2,3,33,24) v:float32(2,3,33,24) -> o:float32(2,3,50,24)",
        ATTENTION.format(False), BLOCKS,
    ),
    "causal attention": Case(
        "triton-attention", None,
        "q:float16(2,40,16) k:float16(2,40,16) v:float16(2,40,16) -> o:float16(2,40,16)",
        ATTENTION.format(True), BLOCKS, rounding=HALF,
    ),
    "heads behind": Case(
        "triton-attention", "attention",
        "q:float32(2,20,3,16) k:float32(2,20,3,16) v:float32(2,20,3,16) -> o:float32(2,20,3,16)",
        f"{TURNED}(q, k, v, scale=scale).transpose(1, 2))", BLOCKS, {"scale": 0.3},
    ),
    "heads in rows": Case(
        "triton-attention", "attention",
        "q:float32(20,24) k:float32(20,24) v:float32(20,24) -> o:float32(20,24)",
        f"{HEADED}; z = F.scaled_dot_product_attention(q, k, v)"
        "; o.copy_(z.transpose(0, 1).reshape(-1, 24))", BLOCKS, {"H": 3},
    ),
    "attention by descriptors": Case(
        "triton-attention", "attention",
        "q:float32(2,3,50,24) k:float32(2,3,33,24) v:float32(2,3,33,24) -> o:float32(2,3,50,24)",
        ATTENTION.format(False), BOXED,
    ),
    "causal attention by descriptors": Case(
        "triton-attention", "attention",
        "q:float16(2,40,16) k:float16(2,40,16) v:float16(2,40,16) -> o:float16(2,40,16)",
        ATTENTION.format(True), BOXED, rounding=HALF,
    ),
    "heads in rows by descriptors": Case(
        "triton-attention", "attention",
        "q:float32(20,24) k:float32(20,24) v:float32(20,24) -> o:float32(20,24)",
        f"{HEADED}; z = F.scaled_dot_product_attention(q, k, v)"
        "; o.copy_(z.transpose(0, 1).reshape(-1, 24))", BOXED, {"H": 3}, HALF,
        tf32=True, arch="sm_90",
    ),
    "bytes": Case(
        "triton-quantisation", None, "x:float32(5,100) -> y:int8(5,100) s:float32(5)", BYTES
    ),
}  # fmt: skip

RUNNER = """
import importlib.util, json, sys
import torch

def load(path):
    spec = importlib.util.spec_from_file_location("module", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

def random(dtype, shape):
    dtype = getattr(torch, dtype)
    if dtype.is_floating_point:
        return torch.randn(shape).to(dtype)
    return torch.randint(0, 33, shape).sort().values.to(dtype)

def mistake(job):
    torch.manual_seed(0)
    arrays = {name: random(dtype, shape) for name, _, dtype, shape in job["arrays"]}
    ours = {name: tensor.clone() for name, tensor in arrays.items()}
    load(job["reference"]).run_kernel(**arrays, **job["scalars"])
    load(job["kernel"]).run_kernel(**ours, **job["scalars"])
    for name, tensor in ours.items():
        try:
            close = {"rtol": job["rounding"], "atol": job["rounding"]}
            torch.testing.assert_close(tensor, arrays[name], **close)
        except AssertionError as error:
            return f"{name}: {error}"

print(json.dumps([mistake(job) for job in json.load(sys.stdin)]))
"""


@pytest.fixture(scope="module")
def mistakes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str | None]:
    """What is wrong with each case's candidate; computed by one process for all of them."""
    folder = tmp_path_factory.mktemp("families")
    jobs = []
    for number, case in enumerate(CASES.values()):
        kernel, reference = folder / f"kernel_{number}.py", folder / f"reference_{number}.py"
        kernel.write_text(case.candidate().kernel.text)
        reference.write_text(case.text)
        arrays = [(spec.name, spec.role, spec.dtype, spec.shape) for spec in case.specs]
        jobs.append({
            "kernel": str(kernel), "reference": str(reference), "arrays": arrays,
            "scalars": case.scalars, "rounding": case.rounding,
        })  # fmt: skip
    finished = subprocess.run(
        [sys.executable, "-c", RUNNER],
        input=json.dumps(jobs),
        env={**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert finished.returncode == 0, finished.stderr
    return dict(zip(CASES, json.loads(finished.stdout), strict=True))


@needs_triton
@pytest.mark.parametrize("name", CASES)
def test_it_computes_what_pytorch_does(name: str, mistakes: dict[str, str | None]) -> None:
    assert mistakes[name] is None


ONE_OF_A_FILE = one_of_each(CASES, lambda case: (case.card, case.arch))


@pytest.mark.parametrize("case", ONE_OF_A_FILE)
def test_nothing_of_it_looks_over_fitted(case: Case) -> None:
    seen = audit(case.candidate())
    assert (seen.kept_values, seen.assumptions) == ((), ())


@pytest.mark.parametrize("case", ONE_OF_A_FILE)
def test_a_sweep_can_tune_it_and_it_is_not_offered_twice(case: Case) -> None:
    candidate = case.candidate()
    assert find_tunables(candidate, threads=1).of("declared")
    again = replace(case.context(), candidate=candidate)
    assert CARDS[case.card].apply(again) is None


@pytest.mark.parametrize(
    ("arrays", "body"),
    [
        ("x:float32(3,37) -> y:float32(3,37)", "y.copy_(torch.relu(x))"),
        ("x:float32(9,8) w:float32(3,8,8) g:int32(9) -> y:float32(9,8)", "y.copy_(x @ w[g][:, 0])"),
        ("q:float32(9,8) k:float32(9,8) v:float32(9,8) -> o:float32(9,8)", "o.copy_(q * k * v)"),
    ],
)
def test_other_operators_are_left_alone(arrays: str, body: str) -> None:
    context = Case("", None, arrays, body).context()
    assert [card.id for card in CARDS.values() if card.apply(context) is not None] == []


def test_bits_of_float8_are_made_as_well() -> None:
    body = "q.copy_((x / 448).to(torch.float8_e4m3fn).view(torch.uint8))"
    arrays = "x:bfloat16(5,100) -> q:uint8(5,100) s:float32(5)"
    made = Case("triton-quantisation", None, arrays, body).candidate()
    assert "quantise(x, q, s, " in made.kernel.text


BUILDS = """
import runpy

def hopper(kernel, types, **chosen):
    types |= dict.fromkeys(chosen, "constexpr")
    source = ASTSource(kernel, {name: types[name] for name in kernel.arg_names}, chosen)
    listing = triton.compile(source, target=SM_90, options={"num_warps": 4}).asm["ptx"]
    assert "wgmma" in listing and "cp.async.bulk.tensor" in listing

TILE = {"PRECISION": "ieee", "BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "GROUP_M": 8}
BOX, SIZES = "tensordesc<bf16[64, 64]>", {"M": "i32", "N": "i32", "K": "i32", "G": "i32"}
"""
GROUPED = """
hopper(runpy.run_path("{0}/grouped_matmul.py")["grouped_tiles"],
       dict(SIZES, a=BOX, b="tensordesc<bf16[1, 64, 64]>", c="*bf16", groups="*i32", row_b="i32"),
       column_b=1, KIND="sizes", WIDTH=8, TURNED_B=True, DESCRIBED=True, STAYING=True, WHOLE_K=True,
       **TILE)
"""


@needs_triton
def test_boxes_feed_hopper_s_products_where_programs_stay_and_rows_are_dealt(
    tmp_path: Path,
) -> None:
    lines = (text.format(KERNELS_FOLDER) for text in (GROUPED,))
    compile_kernels(tmp_path / "cache", BUILDS, *lines)


@pytest.mark.parametrize(("arch", "addressing"), [("sm_80", 1), ("sm_90", 2), ("gfx942", 1)])
@pytest.mark.parametrize("name", ["groups by sizes", "causal attention"])
def test_descriptors_are_for_devices_that_have_them(name: str, arch: str, addressing: int) -> None:
    text = replace(CASES[name], arch=arch).candidate().kernel.text
    assert f"\nADDRESSING = {addressing} " in text


MODULE = '''
from __future__ import annotations
import math
import torch

SIZE = 4
OTHER = 5


@torch.no_grad()
def setup(N, seed=0):
    """Inputs."""
    return {"inputs": {"x": torch.empty(N * math.ceil(SIZE))}, "outputs": ["x"]}


def helper():
    return OTHER


def run_kernel(x: torch.Tensor, N: int = 4):
    helper()
'''
KERNELS = '"""Doc."""\n\nimport torch\nimport triton\n\nTILE = 4\n\n\ndef work(x):\n    pass\n'


def test_setup_and_what_it_needs_stay_and_the_rest_goes() -> None:
    text = with_kernels(MODULE, KERNELS, "work(x)")
    assert text is not None
    compile(text, "kernel.py", "exec")
    assert "@torch.no_grad()" in text
    assert "SIZE = 4" in text
    assert "OTHER" not in text
    assert "def run_kernel(x, N=4):\n    work(x)" in text


@pytest.mark.parametrize(
    ("module", "call"),
    [
        (MODULE.replace("SIZE", "TILE"), "work(x)"),
        (MODULE.replace("import math", "import os as triton").replace("math.", "triton."), ""),
        (MODULE, "work(y)"),
        (MODULE.replace("run_kernel", "other"), "work(x)"),
        ("def run_kernel(:", "work(x)"),
    ],
)  # fmt: skip
def test_a_module_that_they_do_not_fit_is_left_alone(module: str, call: str) -> None:
    assert with_kernels(module, KERNELS, call) is None


def test_every_file_of_kernels_is_launched_by_a_card() -> None:
    texts = [case.candidate().kernel.text for case in CASES.values()]
    for file in KERNELS_FOLDER.glob("*.py"):
        launcher = re.findall(r"^def (\w+)\(", file.read_text(), re.MULTILINE)[-1]
        assert any(f"\n    {launcher}(" in text for text in texts), file.name
