"""Outputs in float16 and bfloat16: what honest kernels make of them, and what is something else."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from gpu_rehearsal import Kernel, Rehearsal  # noqa: E402

from kinds import another, one_of_each  # noqa: E402
from roofsmith.analysis.tolerance import (  # noqa: E402
    EPSILON,
    HALF_ELEMENT_EPS,
    HALF_NORM_EPS,
    MOST_ELEMENT,
    MOST_NORM,
    Errors,
    Roundings,
    budget_for,
)
from roofsmith.judge.correctness.budgets import Finding  # noqa: E402

HALVES = [torch.float16, torch.bfloat16]
DIMS = {"M": 64, "K": 512, "N": 96}
Product = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""Of matrices in half precision, as float32 numbers; rounded to half when it is stored."""


@pytest.fixture(params=[HALVES[0], *map(another, HALVES[1:])], ids=["float16", "bfloat16"])
def kind(request: pytest.FixtureRequest) -> torch.dtype:
    return request.param


def gemm_of(kind: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> Rehearsal:
    def setup(M: int, K: int, N: int, seed: int) -> dict[str, object]:
        generator = torch.Generator().manual_seed(seed)
        a = torch.randn(M, K, generator=generator).to(kind)
        b = (torch.randn(K, N, generator=generator) / K**0.5).to(kind)
        return {"inputs": {"a": a, "b": b, "c": torch.empty(M, N, dtype=kind)}, "outputs": ["c"]}

    def reference(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
        torch.matmul(a, b, out=c)

    return Rehearsal(monkeypatch, setup, reference, DIMS)


def attention_of(kind: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> Rehearsal:
    def setup(S: int, D: int, seed: int) -> dict[str, object]:
        generator = torch.Generator().manual_seed(seed)
        given = {n: torch.randn(S, D, generator=generator).to(kind) for n in ("q", "k", "v")}
        return {"inputs": {**given, "o": torch.empty(S, D, dtype=kind)}, "outputs": ["o"]}

    def reference(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor) -> None:
        whole = (x[None, None] for x in (q, k, v))
        o.copy_(torch.nn.functional.scaled_dot_product_attention(*whole)[0, 0])

    return Rehearsal(monkeypatch, setup, reference, {"S": 256, "D": 64})


def storing(product: Product) -> Kernel:
    def kernel(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
        c.copy_(product(a, b))

    return kernel


def reasons(found: list[Finding]) -> list[str | None]:
    return [f.failure.reason if f.failure is not None else None for f in found]


def exactly(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a.float() @ b.float()


def parts(a: torch.Tensor, b: torch.Tensor, count: int) -> list[torch.Tensor]:
    """Partial sums over K in half precision, as split-K leaves them."""
    return [exactly(a[:, i::count], b[i::count]).to(a.dtype) for i in range(count)]


def parts_in_float32(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return sum(exactly(a[:, i::8], b[i::8]) for i in range(8))  # type: ignore[return-value]


def half_parts(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return sum(part.float() for part in parts(a, b, 16))  # type: ignore[return-value]


def half_atomics(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return sum(parts(a, b, 16))  # type: ignore[return-value]


def quantised(x: torch.Tensor, dim: int) -> torch.Tensor:
    """Rounded to int8 with a scale per row or column."""
    scale = x.float().abs().amax(dim, keepdim=True).clamp_min(1e-30) / 127
    return (x.float() / scale).round() * scale


def eighth(x: torch.Tensor, dim: int) -> torch.Tensor:
    """Rounded to float8 with a scale per row or column."""
    scale = x.float().abs().amax(dim, keepdim=True).clamp_min(1e-30) / 448
    return (x.float() / scale).to(torch.float8_e4m3fn).float() * scale


def wide_eighth(x: torch.Tensor) -> torch.Tensor:
    """Rounded to the float8 that has float16's exponent, and two bits."""
    return x.float().to(torch.float8_e5m2).float()


HONEST: dict[str, Product] = {
    "one sum in float32": exactly,
    "PyTorch's": torch.matmul,
    "partial sums in float32": parts_in_float32,
    "partial sums in half": half_parts,
    "partial sums added up in half": half_atomics,
}
WRONG: dict[str, tuple[Product, str]] = {
    "zeros": (lambda a, b: torch.zeros(len(a), b.shape[1]), "wrong_output"),
    "half of K": (lambda a, b: exactly(a[:, ::2], b[::2]), "wrong_output"),
    "a part of K": (lambda a, b: exactly(a[:, 32:], b[32:]), "wrong_output"),
    "float8 inputs": (lambda a, b: eighth(a, 1) @ eighth(b, 0), "precision"),
    "float8 of two bits": (lambda a, b: wide_eighth(a) @ wide_eighth(b), "precision"),
    "float8 weights": (lambda a, b: a.float() @ eighth(b, 0), "precision"),
    "int8 inputs": (lambda a, b: quantised(a, 1) @ quantised(b, 0), "precision"),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["PyTorch's", "partial sums added up in half", *map(another, [*HONEST][2:4])]
)
def test_honest_products_pass_on_every_distribution(
    name: str, kind: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    gemm = gemm_of(kind, monkeypatch)
    kernel = storing(HONEST[name])
    assert reasons(gemm.turn(kernel)) == [None] * 3
    assert reasons(gemm.turn(kernel, exact=False)) == [None] * 3
    names = gemm.slots.tolerated
    assert {"normal", "sparse", "times 2^-4"} & set(names)
    for name in names:
        gemm.slots.use(name)
        assert reasons(gemm.turn(kernel)) == [None] * 3, name


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", one_of_each({name: name for name in WRONG}, lambda name: WRONG[name][1])
)
def test_other_products_are_refused_with_their_reason(
    name: str, kind: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    gemm = gemm_of(kind, monkeypatch)
    product, reason = WRONG[name]
    assert reasons(gemm.turn(storing(product))) == [reason] * 3
    assert reasons(gemm.turn(storing(product), exact=False)) == [reason] * 3


def test_bfloat16_in_place_of_float16_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    gemm = gemm_of(torch.float16, monkeypatch)
    kernel = storing(lambda a, b: exactly(a.bfloat16(), b.bfloat16()))
    assert reasons(gemm.turn(kernel)) == ["precision"] * 3


def test_sums_kept_in_half_are_refused(kind: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    def kernel(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
        c.zero_()
        for k in range(a.shape[1]):
            c += a[:, k, None] * b[None, k]

    assert reasons(gemm_of(kind, monkeypatch).turn(kernel)) == ["precision"] * 3


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, **how: bool) -> None:
    scores = q.float() @ k.float().T / q.shape[1] ** 0.5
    if how.get("scores"):
        scores = scores.to(q.dtype).float()
    weights = torch.exp(scores - scores.amax(1, keepdim=True))
    total = weights.sum(1, keepdim=True)
    if how.get("half"):
        weights = weights.to(q.dtype).float()
    if how.get("eighth"):
        weights = weights.to(torch.float8_e4m3fn).float()
    if how.get("less"):
        weights[:, -16:] = 0
    o.copy_(weights @ v.float() / total)


@pytest.mark.parametrize(
    ("how", "reason"),
    [("half", None), another("scores", None), another("", None), ("eighth", "precision")],
)
@pytest.mark.slow
def test_attention(
    how: str, reason: str | None, kind: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    attention = attention_of(kind, monkeypatch)
    found = attention.turn(lambda **arrays: attend(**arrays, **{how: True} if how else {}))
    assert reasons(found) == [reason] * 3


@pytest.mark.slow
def test_attention_to_less_is_refused(kind: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """On some draws, what is left out weighs no more than coarse rounding would."""
    found = attention_of(kind, monkeypatch).turn(lambda **arrays: attend(**arrays, less=True))
    assert set(reasons(found)) <= {"wrong_output", "precision"}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("terms", [1.0, 4096.0, 1e6, 1e12])
@pytest.mark.parametrize("roundings", get_args(Roundings))
def test_sums_are_taken_to_be_in_float32(dtype: str, terms: float, roundings: Roundings) -> None:
    found = budget_for(Errors(0, 0), dtype, factor=10, terms=terms, roundings=roundings)
    wide = budget_for(Errors(0, 0), "float32", factor=10, terms=terms, roundings=roundings)
    eps = EPSILON[dtype]
    assert found.norm <= HALF_NORM_EPS * eps + wide.norm
    assert found.element <= HALF_ELEMENT_EPS * eps + wide.element


@pytest.mark.parametrize("dtype", EPSILON)
@pytest.mark.parametrize("honest", [0.0, 0.01, 0.3, 1.0])
@pytest.mark.parametrize("factor", [1.0, 10.0, 1e6])
def test_nothing_is_never_within_a_budget(dtype: str, honest: float, factor: float) -> None:
    made = Errors(honest, honest)
    found = budget_for(made, dtype, factor=factor, terms=2.0**40, roundings="alike")
    assert (found.norm, found.element) <= (MOST_NORM, MOST_ELEMENT)
    assert max(found.norm, found.element) < 1
