"""What a reference's own draws show, before any kernel is held against them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from roofsmith.api.own_draws import beyond_notes, draw_notes, seed_notes
from roofsmith.domain.comparison import ErrorReport
from roofsmith.domain.kernel import Parameter, Signature, SourceFile
from roofsmith.domain.target import Target
from roofsmith.domain.workload import AS_DRAWN, Workload
from roofsmith.errors import BadReferenceError
from roofsmith.judge.correctness.own_draws import figures
from roofsmith.judge.host.oracle import ReferenceOracle
from roofsmith.toolchains.signature import read_signature

REFERENCE = """
import numpy as np

def setup(n, seed=0):
    rng = np.random.default_rng(seed)
    x = @X@
    return {"inputs": {"x": x, "y": np.empty((n, n), np.float32), "n": n}, "outputs": ["y"]}

def reference(x, y, n):
    y[:] = @Y@
"""
NORMAL = "rng.standard_normal((n, n), dtype=np.float32)"
BITS = "rng.integers(0, 65536, (n, n), dtype=np.uint16)"
WIDENED = "(x.astype(np.uint32) << 16).view(np.float32)"


def notes(x: str, y: str, kind: str = "float", seeds: bool = False, **tolerance: float) -> str:
    """All that is said of a reference whose `setup` gives `x` and whose result is `y`."""
    text = REFERENCE.replace("@X@", x).replace("@Y@", y)
    target = Target.model_validate(
        {
            "name": "sample",
            "language": "c",
            "kernel": SourceFile(
                path="kernel.c", text=f"void solve(const {kind} *x, float *y, int n) {{ }}"
            ),
            "reference": SourceFile(path="reference.py", text=text),
            "workloads": (Workload(dims={"n": 64}),),
            "tolerance": tolerance,
        }
    )
    with ReferenceOracle(target, read_signature(target.baseline)) as oracle:
        found = seed_notes(target, oracle) if seeds else draw_notes(target, oracle)
    return "\n".join(found)


@pytest.mark.parametrize(
    ("x", "strides"),
    [
        (f"{NORMAL}.T", "(1, 64)"),
        ("rng.standard_normal((n, 2 * n), dtype=np.float32)[:, ::2]", "(128, 2)"),
        ("np.broadcast_to(rng.standard_normal(n, dtype=np.float32), (n, n))", "(0, 1)"),
        (f"{NORMAL}[::-1]", "(-64, 1)"),
    ],
)
def test_an_array_that_is_copied_into_rows_is_named_with_its_strides(x: str, strides: str) -> None:
    told = notes(x, "x")
    assert "'x'" in told
    assert strides in told


def test_nothing_is_said_of_usual_draws() -> None:
    assert notes(NORMAL, "x", atol=1e-4, rtol=1e-4) == ""
    assert notes(NORMAL, "x", seeds=True) == ""
    assert notes(NORMAL, "1.0", atol=1e-2) == "", "a constant result isn't the tolerance's fault"


@pytest.mark.parametrize(
    ("x", "y", "kind", "words"),
    [
        (f"np.where({NORMAL} > 1, np.float32(np.nan), {NORMAL})", "x", "float", ("'x' holds NaN",)),
        (NORMAL, "np.sqrt(x)", "float", ("NaN", "no input")),
        (NORMAL, "np.exp(100 * x)", "float", ("'y'", "beyond the range of float32")),
        (NORMAL, "np.abs(x) + np.inf", "float", ("100% of it is infinite",)),
    ],
)
def test_a_reference_that_leaves_nothing_to_compare_is_refused(
    x: str, y: str, kind: str, words: tuple[str, ...]
) -> None:
    with pytest.raises(BadReferenceError) as caught:
        notes(x, y, kind)
    assert all(word in caught.value.message for word in words)


def test_masked_scores_and_a_few_nan_are_told_and_not_refused() -> None:
    assert "infinite" in notes(NORMAL, "np.where(np.tri(n), x, -np.inf)")
    assert "'x', read as bfloat16" in notes(BITS, WIDENED, "unsigned short")


def test_a_tolerance_that_a_kernel_without_eyes_meets_is_told() -> None:
    wide = notes(NORMAL, "1e-3 * x", atol=1e-2, rtol=1e-2)
    assert "zeros" in wide
    assert "only the norm" in wide
    near = notes(NORMAL, "1 + 1e-4 * x", rtol=1e-2)
    assert "zeros" not in near
    assert "1 throughout" in near
    assert "would pass" in near


@pytest.mark.parametrize(
    ("x", "word"),
    [
        ("(rng.standard_normal((n, n)) + seed).astype(np.float32)", "different values"),
        ("(rng.standard_normal((n, n)) * (seed + 1)).astype(np.float32)", "deviation"),
    ],
)
def test_a_seed_that_goes_into_the_values_is_told(x: str, word: str) -> None:
    assert word in notes(x, "x", seeds=True)


def test_what_a_baseline_is_wrong_on_is_told() -> None:
    def report(inputs: str, off: float) -> ErrorReport:
        return ErrorReport(
            workload="n=6", inputs=inputs, output="y", norm_error=off, norm_budget=0.01,
            element_error=0.0, element_budget=1.0, honest_norm_error=0.0, honest_element_error=0.0,
        )  # fmt: skip

    assert beyond_notes((report(AS_DRAWN, 0.001), report("flipped", 0.001))) == ()
    assert "spikes" in beyond_notes((report("flipped", 0.0), report("spikes", 1.0)))[0]


def test_tensors_are_looked_at_alike() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    from roofsmith.judge.gpu.arithmetic import TorchArithmetic
    from roofsmith.judge.gpu.reference import GpuReference

    def setup(n: int, seed: int) -> dict[str, Any]:
        drawn = torch.randn(n, 2 * n, generator=torch.Generator().manual_seed(seed))
        x = drawn.to(torch.bfloat16)[:, ::2]
        return {"inputs": {"x": x, "y": torch.empty(n, n), "n": n}, "outputs": ["y"]}

    def reference(x: Any, y: Any, n: int) -> None:
        y.copy_(torch.where(x > 2, torch.nan, 1e-3 * x) if n == 9 else 1e-3 * x)

    module = cast(Any, SimpleNamespace(setup=setup, reference=reference))
    kinds = (("x", "bfloat16", "input"), ("y", "float32", "output"), ("n", "int32", "size"))
    parameters = tuple(Parameter(name=n, dtype=d, role=cast(Any, r)) for n, d, r in kinds)
    on = GpuReference(
        module, None, Signature(parameters=parameters), None, tf32=False, device="cpu"
    )
    assert on.describe({"n": 64})["other_order"] == {"x": [128, 2]}
    message = {"dims": {"n": 64}, "seed": 1, "tolerances": (0.01, 0.01)}
    found = figures(on, message, TorchArithmetic())
    assert found.outputs["y"].zeros_pass
    assert found.inputs["x"].different > 100
    assert figures(on, {**message, "dims": {"n": 9}}, TorchArithmetic()).outputs["y"].nan > 0
