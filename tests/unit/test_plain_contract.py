"""Kernels with nothing but a `solve` and a `reference`: what their arrays are, and what they move.

With the GPU's own reference, on the host's memory: `const` or not, it must come out alike.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from gpu_rehearsal import Kernel, Rehearsal  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

from roofsmith.analysis.cost import cost  # noqa: E402
from roofsmith.analysis.roofline import below_floor, bound  # noqa: E402
from roofsmith.domain.bound import Cost  # noqa: E402
from roofsmith.domain.device import Cache, Device  # noqa: E402
from roofsmith.domain.facts import BandwidthCeiling, Citation, Fact, FactSheet  # noqa: E402
from roofsmith.domain.kernel import Candidate, Signature, SourceFile  # noqa: E402
from roofsmith.domain.workload import Workload  # noqa: E402
from roofsmith.judge.gpu.reference import GpuReference  # noqa: E402
from roofsmith.judge.gpu.tensors import DTYPES, differ  # noqa: E402
from roofsmith.judge.user_module import Complaint  # noqa: E402
from roofsmith.toolchains.signature import read_signature  # noqa: E402

N = 3000
DIMS = {"n": N}
OPEN = "float* a, float* b, float* c, int n"
CLOSED = "const float* a, const float* b, float* c, int n"


def signature(parameters: str) -> Signature:
    text = f'extern "C" void solve({parameters}) {{ }}\n'
    source = SourceFile(path="kernel.cu", text=text)
    return read_signature(Candidate(language="cuda", sources=(source,)))


def adds(**given: Any) -> None:
    given["c"].copy_(given["a"] + given["b"])


def accumulates(a: Any, b: Any, c: Any, n: int) -> None:
    c += a * b


def writes_a_tenth(a: Any, b: Any, c: Any, n: int) -> None:
    c[: n // 10] = a[: n // 10]


def rehearsal(patch: pytest.MonkeyPatch, parameters: str, reference: Any = adds) -> Rehearsal:
    return Rehearsal(patch, None, reference, DIMS, signature=signature(parameters))


def reasons(found: Rehearsal, kernel: Kernel) -> set[str | None]:
    return {one.failure.reason if one.failure else None for one in found.turn(kernel)}


def cost_of(found: Rehearsal) -> Cost:
    return cost(Workload(dims=DIMS), found.slots.description, None)


@pytest.mark.parametrize("parameters", [OPEN, CLOSED])
class TestAddition:
    def test_what_is_only_read_is_an_input(
        self, parameters: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made = rehearsal(monkeypatch, parameters)
        roles = {array.name: array.role for array in made.slots.description.arrays}
        assert roles == {"a": "input", "b": "input", "c": "output"}

    def test_bytes_are_those_that_it_moves(
        self, parameters: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        found = cost_of(rehearsal(monkeypatch, parameters))
        assert (found.read_bytes, found.written_bytes) == (8 * N, 4 * N)
        assert found.least_bytes is None  # all arrays were seen to be needed

    def test_other_inputs_are_tried(self, parameters: str, monkeypatch: pytest.MonkeyPatch) -> None:
        assert "normal" in rehearsal(monkeypatch, parameters).slots.tolerated

    @pytest.mark.parametrize(
        ("kernel", "reason"),
        [
            (lambda a, b, c: c.copy_(a + b), None),
            (lambda a, b, c: c[1:].copy_((a + b)[1:]), "skipped_work"),
            (lambda a, b, c: c.add_(a + b), "nan_output"),
            (lambda a, b, c: c.copy_(a.add_(b)), "input_altered"),
        ],
        ids=["right", "leaves one out", "adds to what was there", "scribbles in an input"],
    )
    def test_kernels_are_told_apart(
        self, parameters: str, kernel: Kernel, reason: str | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert reasons(rehearsal(monkeypatch, parameters), kernel) == {reason}


@pytest.mark.parametrize("parameters", [OPEN, CLOSED])
def test_an_output_may_begin_from_something(
    parameters: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = rehearsal(monkeypatch, parameters, accumulates)
    assert [a.role for a in made.slots.description.arrays] == ["input", "input", "inout"]
    assert cost_of(made).total_bytes == 4 * N * 4
    assert reasons(made, lambda a, b, c: c.add_(a * b)) == {None}
    assert reasons(made, lambda a, b, c: c.copy_(a * b)) == {"wrong_output"}


def test_what_isnt_written_stays_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    made = rehearsal(monkeypatch, OPEN, writes_a_tenth)
    tenth = N // 10
    assert reasons(made, lambda a, b, c: c[:tenth].copy_(a[:tenth])) == {None}
    assert reasons(made, lambda a, b, c: c.copy_(a)) == {"wrong_output"}
    found = cost_of(made)
    assert found.total_bytes == 4 * 2 * tenth
    assert found.least_bytes == 0
    assert "a guess without a setup" in (found.reason or "")


L2 = 50 << 20
H100 = Device(
    kind="nvidia", name="NVIDIA H100", cores=132,
    caches=(Cache(level=2, kind="unified", size_bytes=L2, shared_by=132),),
)  # fmt: skip
BANDWIDTH = 3e12


def impossible(made: Cost, time_s: float) -> bool:
    rate = Fact(
        metric="copy bandwidth", value=BANDWIDTH, unit="byte/s",
        citation=Citation(path="ceilings.json"),
    )  # fmt: skip
    ceiling = BandwidthCeiling(pattern="copy", threads=1, working_set_bytes=32 * L2, fact=rate)
    facts = FactSheet(device_id=H100.id, bandwidth=(ceiling,))
    return below_floor(bound(Workload(dims=DIMS), made, facts, H100, 1), time_s) is not None


@pytest.mark.parametrize("parameters", [OPEN, CLOSED])
def test_an_honest_addition_is_not_below_the_floor(
    parameters: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of large arrays, at the speed of memory; at three times that it didn't read them all."""
    small = cost_of(rehearsal(monkeypatch, parameters))
    assert small.read_bytes is not None
    assert small.written_bytes is not None
    many = 10**9 // N
    large = small.model_copy(
        update={"read_bytes": many * small.read_bytes, "written_bytes": many * small.written_bytes}
    )
    honest_s = 12e9 / BANDWIDTH
    assert not impossible(large, honest_s)
    assert impossible(large, honest_s / 3)
    assert not impossible(large.model_copy(update={"least_bytes": 0.0}), honest_s / 3)


def plain(reference: Any, parameters: str, **more: Any) -> GpuReference:
    module = ModuleType("reference")
    module.reference = reference  # type: ignore[attr-defined]
    for name, value in more.items():
        setattr(module, name, value)
    return GpuReference(module, None, signature(parameters), None, tf32=False, device="cpu")


def test_draws_are_repeatable_and_blank_where_they_must_be() -> None:
    held = plain(adds, OPEN)
    (first, outputs), (again, _), (other, _) = (held.inputs(DIMS, seed) for seed in (3, 3, 4))
    assert outputs == {"c"}
    assert torch.equal(first["a"], again["a"])
    assert not torch.equal(first["a"], other["a"])
    assert first["c"].isnan().all()
    assert first["n"] == N


def test_every_integer_type_can_be_a_buffer() -> None:
    for spelled, name in (("uint16_t", "uint16"), ("uint32_t", "uint32"), ("uint64_t", "uint64")):

        def copies(a: Any, b: Any, n: int) -> None:
            b.copy_(a)

        found = plain(copies, f"{spelled}* a, {spelled}* b, int n").describe(DIMS)
        assert [a["role"] for a in found["arrays"]] == ["input", "output"]
        assert found["arrays"][0]["dtype"] == name
        assert found["written_bytes"] == N * DTYPES[name].itemsize


def test_elements_differ_unless_both_are_nan() -> None:
    one = torch.tensor([1.0, torch.nan, torch.nan, 0.0])
    other = torch.tensor([1.0, torch.nan, 2.0, 1.0])
    assert differ(one, other).tolist() == [False, False, True, True]


def test_declared_bytes_count_whatever_the_lengths() -> None:
    found = plain(writes_a_tenth, OPEN, bytes=lambda n: 8 * (n // 10)).describe(DIMS)
    assert found["bytes"] == 8 * (N // 10)


def test_arrays_that_are_too_large_are_described_by_their_signature() -> None:
    with FakeTensorMode():
        found = plain(adds, OPEN.replace("int n", "long n")).describe({"n": 1 << 40})
    assert [a["shape"] for a in found["arrays"]] == [[1 << 40]] * 3


def test_a_module_of_a_gpu_that_writes_nothing_is_told_so() -> None:
    with pytest.raises(Complaint, match=r"without const \(a, b, c\)"):
        plain(lambda **given: None, OPEN).describe(DIMS)


def test_the_setup_of_a_module_serves_its_reference() -> None:
    """A module with `setup` and `run_kernel`, beside a file that has a `reference` alone."""
    kernel = ModuleType("kernel")

    def setup(n: int = 8, seed: int = 42, **_: Any) -> dict[str, Any]:
        torch.manual_seed(seed)
        given = {"a": torch.randn(n), "b": torch.randn(n), "c": torch.empty(n), "n": n}
        return {"inputs": given, "outputs": ["c"]}

    kernel.setup = setup  # type: ignore[attr-defined]
    module = ModuleType("reference")
    module.reference = adds  # type: ignore[attr-defined]
    nothing = Signature(parameters=())
    made = GpuReference(module, kernel, nothing, None, tf32=False, device="cpu")
    found = made.describe(DIMS)
    assert [a["role"] for a in found["arrays"]] == ["input", "input", "output"]
    assert found["scalars"] == DIMS
    assert found["written_bytes"] is None  # declared, and no guess
    values, outputs = made.inputs(DIMS, 5)
    truth = made.expect(values, outputs, exact=True)
    assert torch.equal(truth["c"], values["a"].double() + values["b"].double())
    with pytest.raises(Complaint, match="neither it nor the kernel has a function `setup"):
        GpuReference(module, ModuleType("kernel"), nothing, None, tf32=False, device="cpu")
