"""Losses in narrow types through a GPU's reference process, on the host's memory."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from gpu_rehearsal import Kernel, Rehearsal  # noqa: E402

from roofsmith.judge.correctness.diagnosis import Diagnosis  # noqa: E402
from roofsmith.judge.correctness.low_precision_inputs import FIRST_LOOKS, Attempts, Ways, explained  # noqa: E402

Tensors = Any


def setup(M: int, K: int, N: int, scale: int, seed: int) -> dict[str, Any]:
    made = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, N, (M,), generator=made)
    a, b = (torch.randn(shape, generator=made) for shape in ((M, K), (K, N)))
    inputs = {"a": a, "b": b / scale, "labels": labels, "loss": torch.empty(())}
    return {"inputs": inputs, "outputs": ["loss"]}


def reference(a: Tensors, b: Tensors, labels: Tensors, loss: Tensors) -> None:
    loss.copy_(torch.nn.functional.cross_entropy(a @ b, labels))


def in_type(kind: torch.dtype) -> Kernel:
    """Operands in a type, products and the rest in float32, as a matrix unit's."""

    def kernel(a: Tensors, b: Tensors, labels: Tensors, loss: Tensors) -> None:
        logits = a.to(kind).float() @ b.to(kind).float()
        loss.copy_(torch.nn.functional.cross_entropy(logits, labels))

    return kernel


def backwards(a: Tensors, b: Tensors, labels: Tensors, loss: Tensors) -> None:
    logits = a.flip(1) @ b.flip(0)
    picked = logits.logsumexp(1) - logits.gather(1, labels[:, None])[:, 0]
    loss.copy_(picked.flip(0).cumsum(0)[-1] / len(labels))


def diagnosed(monkeypatch: pytest.MonkeyPatch, kernel: Kernel, scale: int) -> Diagnosis | None:
    dims = {"M": 2048, "K": 64, "N": 32, "scale": scale}
    made = Rehearsal(monkeypatch, setup, reference, dims, slots=1)

    def look(known: Ways | None) -> Attempts:
        (found,) = made.turn(kernel)
        assert found.failure is None, "within its budget"
        return made.slots.attempts(0, made.budgets, known)

    found = explained(look, FIRST_LOOKS)
    return None if found is None else found[1]


def test_a_reference_that_refuses_rounded_inputs_explains_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuses(a: Tensors, b: Tensors, labels: Tensors, loss: Tensors) -> None:
        if any(bool((torch.frexp(one)[0] * 2**11 % 1 == 0).all()) for one in (a, b)):
            raise torch.linalg.LinAlgError("singular")
        reference(a, b, labels, loss)

    dims = {"M": 2048, "K": 64, "N": 32, "scale": 1}
    made = Rehearsal(monkeypatch, setup, refuses, dims, slots=1)

    def look(known: Ways | None) -> Attempts:
        (found,) = made.turn(in_type(torch.float16))
        assert found.failure is None, "within its budget"
        return made.slots.attempts(0, made.budgets, known)

    assert explained(look, FIRST_LOOKS) is None


@pytest.mark.parametrize(
    ("kind", "scale", "said"),
    [(torch.bfloat16, 16, "bfloat16"), (torch.float16, 1, "TF32 or float16")],
)
def test_a_loss_of_narrow_operands_is_imprecise(
    monkeypatch: pytest.MonkeyPatch, kind: torch.dtype, scale: int, said: str
) -> None:
    # An error that is small by chance isn't looked at: one time in hundreds.
    found = diagnosed(monkeypatch, in_type(kind), scale) or diagnosed(
        monkeypatch, in_type(kind), scale
    )
    assert found.reason == "precision"
    assert f"as if in {said}, where float32 is declared" in found.detail


@pytest.mark.parametrize("kernel", [in_type(torch.float32), backwards])
def test_an_honest_loss_is_not(monkeypatch: pytest.MonkeyPatch, kernel: Kernel) -> None:
    assert diagnosed(monkeypatch, kernel, 1) is None
