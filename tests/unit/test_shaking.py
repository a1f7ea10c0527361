"""Draws on which another rounding of a reference's steps changes results measure nobody."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from gpu_rehearsal import Kernel, Rehearsal  # noqa: E402

from roofsmith.judge.correctness.distributions import OWN, TIES  # noqa: E402

LONE = "a lone spike of 2^20 or more"
Setup = Any


def scores(T: int, D: int, seed: int) -> dict[str, Any]:
    made = torch.Generator().manual_seed(seed)
    q, k, v, do = (torch.randn(T, D, generator=made) for _ in range(4))
    inputs = {"q": q, "k": k, "v": v, "do": do, "dq": torch.empty(T, D)}
    return {"inputs": inputs, "outputs": ["dq"]}


def backward(q: Any, k: Any, v: Any, do: Any, dq: Any) -> None:
    """Of attention with respect to its queries: what cancels exactly is multiplied by keys."""
    p, dp = torch.softmax(q @ k.T / q.shape[1] ** 0.5, -1), do @ v.T
    dq.copy_((p * (dp - (p * dp).sum(-1, keepdim=True))) @ k / q.shape[1] ** 0.5)


def backward_by_rows(q: Any, k: Any, v: Any, do: Any, dq: Any) -> None:
    """As FlashAttention-2 has it: the same sum comes from the output."""
    s = q @ k.T / q.shape[1] ** 0.5
    p = torch.exp2((s - s.logsumexp(-1, keepdim=True)) * 1.4426950408889634)
    shift = (do * (p @ v)).sum(-1, keepdim=True)
    dq.copy_((p * (do @ v.T - shift)) @ k / q.shape[1] ** 0.5)


def tokens(T: int, D: int, seed: int) -> dict[str, Any]:
    made = torch.Generator().manual_seed(seed)
    x, w = torch.randn(T, D, generator=made), torch.randn(D, 8, generator=made) / D**0.5
    experts = torch.empty(T, 2, dtype=torch.int64)
    return {"inputs": {"x": x, "w": w, "experts": experts}, "outputs": ["experts"]}


def gate(x: Any, w: Any, experts: Any) -> None:
    experts.copy_((x @ w).softmax(-1).topk(2).indices)


def gate_by_scores(x: Any, w: Any, experts: Any) -> None:
    experts.copy_((x @ w).topk(2).indices)


def product(q: Any, k: Any, v: Any, do: Any, dq: Any) -> None:
    dq.copy_(torch.softmax(q @ k.T, -1) @ v)


@pytest.mark.parametrize(
    ("setup", "reference", "kernel"),
    [(scores, backward, backward_by_rows), (tokens, gate, gate_by_scores)],
    ids=["attention backwards", "gate"],
)
def test_another_way_to_compute_it_passes_everywhere(
    setup: Setup, reference: Kernel, kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Rehearsal(monkeypatch, setup, reference, {"T": 48, "D": 32}, slots=1)
    for name in (None, *made.slots.tolerated):
        made.slots.use(*([name] if name else []))
        for _ in range(8):
            assert [found.failure for found in made.turn(kernel)] == [None], name


def test_what_cancels_nothing_is_tried_on_spikes(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Rehearsal(monkeypatch, scores, product, {"T": 48, "D": 32}, slots=1)
    assert {LONE, "normal", "uniform", "rows of zeros"} <= set(made.slots.tolerated)
    made.turn(product)
    made.slots.use(LONE)
    found = [one for _ in range(4) for one in made.turn(product)]
    assert any(one.counts for one in found)


def places(T: int, D: int, seed: int) -> dict[str, Any]:
    made = torch.Generator().manual_seed(seed)
    inputs = {"x": torch.randn(T, D, generator=made), "y": torch.empty(T, dtype=torch.int64)}
    return {"inputs": inputs, "outputs": ["y"]}


def first(x: Any, y: Any) -> None:
    y.copy_(x.argmax(-1))


def first_in_two_steps(x: Any, y: Any) -> None:
    y.copy_((x == x.max(-1, keepdim=True).values).int().argmax(-1))


def last(x: Any, y: Any) -> None:
    y.copy_(x.shape[1] - 1 - x.flip(-1).argmax(-1))


def test_who_takes_the_last_of_equal_numbers_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Rehearsal(monkeypatch, places, first, {"T": 48, "D": 128}, slots=1)
    assert TIES in made.slots.tolerated
    made.turn(first)
    for kernel in (first, first_in_two_steps, last):
        made.slots.use(OWN)
        assert [found.failure for found in made.turn(kernel)] == [None]
        made.slots.use(TIES)
        (found,) = made.turn(kernel)
        assert found.counts
        assert (found.failure is not None) is (kernel is last)
