"""References whose operators hand on half precision only."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from gpu_rehearsal import Rehearsal  # noqa: E402

from roofsmith.judge.correctness.exploration import Errors, bears_storing  # noqa: E402
from roofsmith.judge.gpu.low_precision import ROOM, narrowed  # noqa: E402

HALVES = [torch.float16, torch.bfloat16]


@pytest.mark.parametrize("kind", HALVES)
def test_what_is_handed_on_is_rounded(kind: torch.dtype) -> None:
    x, y = torch.randn(8, 16, dtype=torch.float64), torch.empty(8, 16, dtype=torch.float64)
    narrowed(lambda: y.copy_(x.sin() * 3), kind)
    assert torch.equal(y, (x.sin().to(kind).double() * 3).to(kind).double())


def test_what_is_written_through_views_and_in_place_stays() -> None:
    x, y = torch.ones(4, 8, dtype=torch.float64) / 3, torch.zeros(4, 8, dtype=torch.float64)

    def reference() -> None:
        y[1:3].copy_(x[1:3])
        y[0].add_(1.0)
        y.view(-1)[-1] = 7.0

    narrowed(reference, torch.float16)
    assert y[0].eq(1).all()
    assert y[1:3].eq(1 / 3).all(), "nothing computed it"
    assert y[3].tolist() == [0.0] * 7 + [7.0]


@pytest.mark.parametrize("kind", HALVES)
def test_what_is_too_large_is_infinite_and_masks_stay(kind: torch.dtype) -> None:
    most = torch.finfo(kind).max / ROOM
    x = torch.tensor([most, 1.01 * most, -1.01 * most, -torch.inf], dtype=torch.float64)
    y = torch.empty_like(x)
    narrowed(lambda: y.copy_(x * 1.0), kind)
    assert y.isinf().tolist() == [False, True, True, True]
    assert y.sign().tolist() == [1, 1, -1, -1]


def test_scores_of_attention_are_handed_on() -> None:
    q = 1000 * torch.randn(1, 1, 16, 64, dtype=torch.float64)
    y = torch.empty_like(q)
    attend = torch.nn.functional.scaled_dot_product_attention
    narrowed(lambda: y.copy_(attend(q, q, q)), torch.float16)
    assert y.isnan().any()
    narrowed(lambda: y.copy_(attend(q / 1000, q / 1000, q / 1000)), torch.float16)
    assert y.isfinite().all()


def test_a_reference_that_cannot_be_watched_is_left_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def setup(n: int, seed: int) -> dict[str, object]:
        values = {"x": torch.randn(n).half(), "y": torch.empty(n).half()}
        return {"inputs": values, "outputs": ["y"]}

    def reference(x: torch.Tensor, y: torch.Tensor) -> None:
        if torch._C._len_torch_dispatch_stack():
            raise NotImplementedError("not under a dispatch mode")
        y.copy_(x.float().sin())

    made = Rehearsal(monkeypatch, setup, reference, {"n": 64})
    assert made.server.reference.narrowed(*made.server.reference.inputs({"n": 64}, 1)) is None
    assert "normal" in made.slots.tolerated
    assert [found.failure for found in made.turn(reference)] == [None] * 3


def test_who_bears_it() -> None:
    own = {"y": Errors(1e-3, 1e-2)}
    assert bears_storing({"y": Errors(1.4e-3, 1.9e-2)}, own)
    assert not bears_storing({"y": Errors(1.6e-3, 1e-2)}, own)
    assert not bears_storing({"y": Errors(1e-3, 2.1e-2)}, own)
    assert bears_storing({"y": Errors(1.0, 1.0)}, {"y": Errors(0.5, 0.9)}), "own draws lose it, too"
    assert bears_storing(None, own)
    assert bears_storing(own, None)
