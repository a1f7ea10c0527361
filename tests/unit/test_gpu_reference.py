"""The reference on a GPU, as far as it can be seen without one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch._subclasses.fake_tensor import FakeTensor  # noqa: E402

from roofsmith.domain.kernel import Parameter, Signature, SourceFile  # noqa: E402
from roofsmith.domain.yardstick import pytorch_yardsticks  # noqa: E402
from roofsmith.judge.gpu import reference_process  # noqa: E402
from roofsmith.judge.gpu.reference import GpuReference  # noqa: E402
from roofsmith.judge.gpu.reference_process import GpuServer  # noqa: E402
from roofsmith.judge.gpu.tensors import set_tf32  # noqa: E402
from roofsmith.judge.user_module import Complaint  # noqa: E402
from roofsmith.testing.engine import fake_target  # noqa: E402

Switches = tuple[object, ...]

Wish = Callable[[], object]


def everywhere(precision: str) -> None:
    """As PyTorch 2.9 and later would have it."""
    torch.backends.fp32_precision = precision


def in_convolutions(precision: str) -> None:
    """Likewise, for one kind of operator."""
    torch.backends.cudnn.conv.fp32_precision = precision


def by_old_switches(allowed: bool) -> None:
    """As it was before."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = allowed


WISHES: Mapping[str, Wish] = {
    "on": lambda: by_old_switches(True),
    "off": lambda: by_old_switches(False),
    "products on": lambda: torch.set_float32_matmul_precision("medium"),
}
NEW_WISHES: Mapping[str, Wish] = {
    "on everywhere": lambda: everywhere("tf32"),
    "off everywhere": lambda: everywhere("ieee"),
    "convolutions on": lambda: in_convolutions("tf32"),
}
if hasattr(torch.backends, "fp32_precision"):
    WISHES = {**WISHES, **NEW_WISHES}


@pytest.fixture(autouse=True)
def _full_float32() -> Iterator[None]:
    yield
    set_tf32(allowed=False)


def switches() -> Switches:
    """Old and new ones; all must be readable, which PyTorch refuses where they disagree."""
    backends = torch.backends
    old = (backends.cuda.matmul.allow_tf32, backends.cudnn.allow_tf32)
    new = (backends.cuda.matmul, backends.cudnn.conv, backends.cudnn.rnn)
    said = (getattr(part, "fp32_precision", None) for part in new)
    return (*old, torch.get_float32_matmul_precision(), *said)


def seen_by_reference(*, tf32: bool, wish: Wish) -> tuple[Switches, Switches]:
    """What a reference finds switched on: while it makes the truth, and in declared precision."""
    module = ModuleType("reference")
    found: list[tuple[Any, Switches]] = []

    def reference(x: Any, y: Any) -> None:
        found.append((x.dtype, switches()))
        y.copy_(x)

    module.reference = reference  # type: ignore[attr-defined]
    module.setup = lambda **_: {}  # type: ignore[attr-defined]
    wish()
    held = GpuReference(module, None, Signature(parameters=()), None, tf32=tf32)
    values = {"x": torch.ones(4), "y": torch.ones(4)}
    held.expect(values, {"y"}, exact=False)  # whether it reads its output is known from here on
    found.clear()
    for exact in (True, False):
        held.expect(values, {"y"}, exact=exact)
    (truth, in_truth), (declared, in_declared) = found
    assert (truth, declared) == (torch.float64, torch.float32)
    return in_truth, in_declared


@pytest.mark.parametrize("name", WISHES)
def test_only_the_declared_precision_may_be_tf32(name: str) -> None:
    """Whatever a module wishes when it is imported."""
    new = 3 if hasattr(torch.backends, "fp32_precision") else 0
    off = (False, False, "highest", *["ieee"] * new, *[None] * (3 - new))
    on = (True, True, "high", *["tf32"] * new, *[None] * (3 - new))
    assert seen_by_reference(tf32=True, wish=WISHES[name]) == (off, on)
    assert seen_by_reference(tf32=False, wish=WISHES[name]) == (off, off)


@pytest.mark.parametrize("tf32", [False, True])
@pytest.mark.parametrize("name", WISHES)
def test_a_yardstick_computes_as_the_reference_does(name: str, tf32: bool) -> None:
    reference = SourceFile(path="reference.py", text="def reference(x, y):\n    y.copy_(x)\n")
    target = fake_target(language="torch", reference=reference, tf32=tf32)
    set_tf32(tf32)
    wanted = switches()
    WISHES[name]()
    eager, *_ = pytorch_yardsticks(target)
    exec(eager.candidate.kernel.text, {})
    assert switches() == wanted


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


def test_libraries_are_given_numbers_as_their_types_hold_them() -> None:
    y = Parameter(name="y", role="output", dtype="float32")
    alpha = Parameter(name="alpha", role="size", dtype="float32")

    def given(value: object) -> object:
        made = {"inputs": {"y": torch.zeros(2), "alpha": value}, "outputs": ["y"]}
        held = reference_of(lambda **_: made, Signature(parameters=(y, alpha)))
        return held.inputs({}, 0)[0]["alpha"]

    assert given(torch.tensor(0.5)) == given(0.5) == 0.5
    assert given(0.1) != 0.1
    with pytest.raises(Complaint, match="takes a float"):
        given("0.1")


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
    device = SimpleNamespace(plug=lambda: None)
    for part in ("Driver", "Probe"):
        monkeypatch.setattr(reference_process, part, lambda *_: device)
    message = {
        "path": str(reference), "kernel": str(kernel), "ptr_size": None, "tf32": False,
        "signature": {"parameters": []}, "environment": {},
        "extensions": str(tmp_path / "one"), "kernel_extensions": str(tmp_path / "two"),
    }  # fmt: skip
    reference.write_text("def setup(seed): pass\ndef reference(): pass\n")
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    GpuServer().load(message)
    assert "CUDA_LAUNCH_BLOCKING" not in os.environ, "a launch may have to wait for this process"
    reference.write_text("def reference(): pass\n")
    with pytest.raises(SystemError, match="candidate code"):
        GpuServer().load(message)


SEEDS = """
import traceback
from unittest.mock import patch

import torch
from roofsmith.judge.gpu.tensors import seed_present_devices_only

def stacks():
    with patch.object(traceback, "format_stack", return_value=[]) as asked:
        torch.manual_seed(1)
    return asked.call_count, torch.rand(3)

before, drawn = stacks()
seed_present_devices_only()
after, again = stacks()
present = sum(kind.is_available() for kind in (torch.xpu, torch.mtia))
assert after < before or present, (before, after)
assert torch.equal(drawn, again)
"""


@pytest.mark.slow
def test_seeding_asks_nothing_of_devices_that_are_not_there() -> None:
    subprocess.run([sys.executable, "-c", SEEDS], check=True)
