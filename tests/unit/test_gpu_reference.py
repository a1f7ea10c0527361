"""The reference on a GPU, as far as it can be seen without one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch._subclasses.fake_tensor import FakeTensor  # noqa: E402

from roofsmith.domain.kernel import Parameter, Signature  # noqa: E402
from roofsmith.judge.gpu import reference_process  # noqa: E402
from roofsmith.judge.gpu.reference import GpuReference  # noqa: E402
from roofsmith.judge.gpu.reference_process import GpuServer  # noqa: E402
from roofsmith.judge.user_module import Complaint  # noqa: E402

Switches = tuple[bool, bool]


@pytest.fixture(autouse=True)
def _full_float32() -> Iterator[None]:
    before = switches()
    yield
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


def switches() -> Switches:
    return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32


def seen_by_reference(*, tf32: bool, module_wants: bool) -> tuple[Switches, Switches]:
    """What a reference finds switched on: while it makes the truth, and in declared precision."""
    module = ModuleType("reference")
    found: list[tuple[Any, Switches]] = []

    def reference(x: Any, y: Any) -> None:
        found.append((x.dtype, switches()))
        y.copy_(x)

    module.reference = reference  # type: ignore[attr-defined]
    module.setup = lambda **_: {}  # type: ignore[attr-defined]
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = module_wants
    held = GpuReference(module, None, Signature(parameters=()), None, tf32=tf32)
    values = {"x": torch.ones(4), "y": torch.ones(4)}
    held.expect(values, {"y"}, exact=False)  # whether it reads its output is known from here on
    found.clear()
    for exact in (True, False):
        held.expect(values, {"y"}, exact=exact)
    (truth, in_truth), (declared, in_declared) = found
    assert (truth, declared) == (torch.float64, torch.float32)
    return in_truth, in_declared


@pytest.mark.parametrize("module_wants", [False, True])
def test_only_the_declared_precision_may_be_tf32(module_wants: bool) -> None:
    off, on = (False, False), (True, True)
    assert seen_by_reference(tf32=True, module_wants=module_wants) == (off, on)
    assert seen_by_reference(tf32=False, module_wants=module_wants) == (off, off)


class Full:
    """A reference whose setup finds the device full, unless nothing is really made."""

    def __init__(self, *, looks: bool) -> None:
        self.looks = looks

    def describe(self, dims: dict[str, int]) -> dict[str, object]:
        x = torch.zeros(dims["N"])
        if not isinstance(x, FakeTensor):
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 64 GiB")
        if self.looks:
            x.sum().item()
        return {"shape": list(x.shape)}


def test_arrays_that_do_not_fit_are_described_all_the_same() -> None:
    server = GpuServer()
    server._reference = Full(looks=False)  # type: ignore[assignment]
    assert server.describe({"dims": {"N": 64}}) == {"shape": [64]}
    server._reference = Full(looks=True)  # type: ignore[assignment]
    with pytest.raises(torch.OutOfMemoryError, match="Tried to allocate"):
        server.describe({"dims": {"N": 64}})


def reference_of(setup: Any, signature: Signature | None = None) -> GpuReference:
    module = ModuleType("reference")
    module.setup, module.reference = setup, lambda **_: None  # type: ignore[attr-defined]
    plain = signature or Signature(parameters=())
    return GpuReference(module, None, plain, None, tf32=False, device="cpu")


def test_a_setup_may_draw_from_a_generator_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    made_on: list[str] = []

    def setup(n: int, seed: int) -> dict[str, object]:
        place = torch.empty(0).device.type
        made_on.append(place)
        if place == "meta":
            raise RuntimeError("Expected a 'cuda' device type for generator but found 'cpu'")
        x = torch.rand(n, generator=torch.Generator().manual_seed(seed))
        return {"inputs": {"x": x, "y": torch.empty(n)}, "outputs": ["y"]}

    held = reference_of(setup)
    held._device = "meta"  # stands for the device
    for _ in range(2):
        assert held.inputs({"n": 4}, 0)[1] == {"y"}
    assert made_on == ["meta", "cpu", "cpu"]


def test_modules_are_given_numbers_names_and_nothing() -> None:
    given = {"scale": 0.125, "mode": "causal", "bias": None, "causal": True}
    tensor = torch.zeros(2)
    values, _ = reference_of(
        lambda **_: {"inputs": {"y": tensor, **given}, "outputs": ["y"]}
    ).inputs({}, 0)
    assert {name: values[name] for name in given} == given


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (torch.zeros(2, dtype=torch.complex64), r"complex64.*view_as_real"),
        (torch.zeros(2).to(torch.float8_e4m3fn), r"float8_e4m3fn.*view\(torch.uint8\)"),
        ((1, 2), "setup gives tuple for 'x': no tensor, number, string or None"),
    ],
)
def test_what_kernels_can_not_be_given_is_said(value: object, told: str) -> None:
    held = reference_of(lambda **_: {"inputs": {"x": value}, "outputs": ["x"]})
    with pytest.raises(Complaint, match=told):
        held.inputs({}, 0)


@pytest.mark.parametrize("element", ["bool", "uint8"])
def test_a_mask_fits_either_type_that_kernels_write_for_it(element: str) -> None:
    mask = Parameter(name="m", role="input", dtype=element)
    y = Parameter(name="y", role="output", dtype="float32")

    def fit(given: object) -> None:
        held = reference_of(lambda **_: {}, Signature(parameters=(mask, y)))
        held._fit({"m": given, "y": torch.zeros(2)})  # type: ignore[dict-item]

    fit(torch.zeros(2, dtype=torch.bool))
    with pytest.raises(Complaint, match="setup gives NoneType for 'm'"):
        fit(None)


def test_candidate_code_is_imported_only_where_nobody_else_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, reference = tmp_path / "kernel.py", tmp_path / "reference.py"
    kernel.write_text("raise SystemError('candidate code')\n")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for name in ("zeros", "empty"):
        monkeypatch.setattr(torch, name, lambda *_, **__: None)
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda _: SimpleNamespace(L2_cache_size=1)
    )
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (1, 1))
    for part in ("Driver", "Probe"):
        monkeypatch.setattr(reference_process, part, lambda *_: None)
    message = {
        "path": str(reference), "kernel": str(kernel), "ptr_size": None, "tf32": False,
        "signature": {"parameters": []}, "environment": {},
    }  # fmt: skip
    reference.write_text("def setup(seed): pass\ndef reference(): pass\n")
    GpuServer().load(message)
    reference.write_text("def reference(): pass\n")
    with pytest.raises(SystemError, match="candidate code"):
        GpuServer().load(message)
