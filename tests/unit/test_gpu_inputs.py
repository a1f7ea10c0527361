"""Inputs and correctness on a GPU, rehearsed on the host: the same code, other memory."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from gpu_rehearsal import HostMemory, Kernel, Rehearsal, bytes_of_host  # noqa: E402

from roofsmith.domain.kernel import Parameter, Signature  # noqa: E402
from roofsmith.errors import BadReferenceError  # noqa: E402
from roofsmith.judge.correctness.budgets import Finding  # noqa: E402
from roofsmith.judge.correctness.distributions import INDICES  # noqa: E402
from roofsmith.judge.correctness.poison import UNWRITTEN  # noqa: E402
from roofsmith.judge.gpu import tensors  # noqa: E402
from roofsmith.judge.gpu.driver import DeviceError  # noqa: E402
from roofsmith.judge.gpu.oracle import DeviceFullError, GpuOracle  # noqa: E402
from roofsmith.judge.host.reference_process import answering  # noqa: E402

pytestmark = pytest.mark.slow

DIMS = {"M": 12, "K": 64, "N": 17}


def setup(M: int, K: int, N: int, seed: int) -> dict[str, object]:
    generator = torch.Generator().manual_seed(seed)
    a, b = torch.randn(M, K, generator=generator), torch.randn(K, N, generator=generator)
    return {"inputs": {"a": a, "b": b, "c": torch.empty(M, N)}, "outputs": ["c"]}


def reference(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
    torch.matmul(a, b, out=c)


@pytest.fixture
def gemm(monkeypatch: pytest.MonkeyPatch) -> Rehearsal:
    return Rehearsal(monkeypatch, setup, reference, DIMS)


def reasons(found: list[Finding]) -> list[str | None]:
    return [f.failure.reason if f.failure is not None else None for f in found]


def right(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
    c.copy_(a @ b)


def tf32(x: torch.Tensor) -> torch.Tensor:
    """The ten bits of a significand that tensor cores read."""
    return (x.view(torch.int32) + 0x1000 & ~0x1FFF).view(torch.float32)


def beyond(array: torch.Tensor, elements: int) -> torch.Tensor:
    """What lies behind an array."""
    start = array.storage_offset() + array.numel()
    return array.as_strided((elements,), (1,), start)


def test_a_right_kernel_passes_on_every_distribution(gemm: Rehearsal) -> None:
    assert reasons(gemm.turn(right)) == [None] * 3
    assert reasons(gemm.turn(right, exact=False)) == [None] * 3
    names = gemm.slots.tolerated
    assert {"normal", "sparse", "constant rows", "times 2^10"} <= set(names)
    for name in names:
        gemm.slots.use(name)
        found = gemm.turn(right)
        assert reasons(found) == [None] * 3, name
        assert any(f.counts for f in found), name


def test_another_order_of_summation_passes(gemm: Rehearsal) -> None:
    def backwards(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
        c.zero_()
        for k in reversed(range(a.shape[1])):
            c += a[:, k : k + 1] * b[k : k + 1]

    for name in (None, *gemm.slots.tolerated):
        gemm.slots.use(*([name] if name else []))
        assert reasons(gemm.turn(backwards)) == [None] * 3, name


def rounded(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
    c.copy_(tf32(a) @ tf32(b))


def in_half(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
    c.copy_((a.bfloat16() @ b.bfloat16()).float())


def nothing(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
    pass


def half(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
    c[:6] = (a @ b)[:6]


def accumulating(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
    c += a @ b


def altering(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
    a.zero_()
    c.zero_()


def overrunning(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
    right(a, b, c)
    beyond(c, 1)[0] = 1.0


def doubled(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
    c.copy_(2 * (a @ b))


CODES: dict[str, tuple[Kernel, str]] = {
    "tf32": (rounded, "precision"),
    "bfloat16": (in_half, "precision"),
    "nothing": (nothing, "skipped_work"),
    "half of the rows": (half, "skipped_work"),
    "reads what it should write": (accumulating, "nan_output"),
    "alters its input": (altering, "input_altered"),
    "writes behind": (overrunning, "out_of_bounds"),
    "twice the result": (doubled, "wrong_output"),
}


@pytest.mark.parametrize("name", CODES)
def test_wrong_results_have_their_names(name: str, gemm: Rehearsal) -> None:
    kernel, reason = CODES[name]
    found = gemm.turn(kernel)
    assert reasons(found) == [reason] * 3, found[0].failure


def test_an_answer_kept_by_address_is_memoised(gemm: Rehearsal) -> None:
    kept: dict[int, torch.Tensor] = {}

    def remembers(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
        c.copy_(kept.setdefault(a.data_ptr(), a @ b))

    assert reasons(gemm.turn(remembers)) == [None] * 3
    assert reasons(gemm.turn(remembers)) == ["memoised_result"] * 3
    assert reasons(gemm.turn(remembers, exact=False)) == ["memoised_result"] * 3


@pytest.mark.parametrize("which", ["a", "b"])
def test_an_input_kept_from_an_earlier_call_is_memoised(which: str, gemm: Rehearsal) -> None:
    kept: dict[str, torch.Tensor] = {}

    def packs(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
        given = {"a": a, "b": b}
        given[which] = kept.setdefault(which, given[which].clone())
        c.copy_(given["a"] @ given["b"])

    assert reasons(gemm.turn(packs)) == [None, "memoised_result", "memoised_result"]
    found = gemm.turn(packs)
    assert reasons(found) == ["memoised_result"] * 3
    assert f"these inputs with '{which}' of an earlier call" in str(found[1].failure)


def test_an_answer_one_call_late_is_stale(gemm: Rehearsal) -> None:
    last = [torch.zeros(DIMS["M"], DIMS["N"])]

    def lags(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
        c.copy_(last[0])
        last[0] = a @ b

    assert reasons(gemm.turn(lags))[1:] == ["stale_output"] * 2


def test_reading_beyond_an_array_shows(gemm: Rehearsal) -> None:
    def peeks(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
        right(a, b, c)
        c[0, 0] += 1e-3 * beyond(a, 1)[0]

    for _ in range(4):
        found = gemm.turn(peeks)
        assert None not in reasons(found), "whatever the guard bands hold"
    gemm.slots.use(guard=0)
    assert reasons(gemm.turn(peeks)) == [None] * 3, "an examiner runs it so to tell"


def test_right_for_what_it_made_of_its_inputs_is_no_excuse(gemm: Rehearsal) -> None:
    """The truth comes from inputs that no kernel can reach."""

    def cheats(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
        b.zero_()
        c.zero_()

    assert reasons(gemm.turn(cheats)) == ["input_altered"] * 3
    assert reasons(gemm.turn(right)) == [None] * 3


def test_inputs_that_are_always_the_same_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def with_table(n: int, seed: int) -> dict[str, object]:
        x = torch.randn(n, generator=torch.Generator().manual_seed(seed))
        values = {"x": x, "table": torch.linspace(0, 1, n), "y": torch.empty(n)}
        return {"inputs": values, "outputs": ["y"]}

    def times(x: torch.Tensor, table: torch.Tensor, y: torch.Tensor) -> None:
        y.copy_(x * table)

    made = Rehearsal(monkeypatch, with_table, times, {"n": 100})
    found = made.slots._oracle.tolerated()
    assert found.free == {"x": 0}
    assert found.bound == {"table": "it is the same in every draw"}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_narrow_types(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    def narrow(M: int, K: int, N: int, seed: int) -> dict[str, object]:
        made = setup(M, K, N, seed)
        values = {name: x.to(dtype) for name, x in made["inputs"].items()}  # type: ignore[attr-defined]
        return {**made, "inputs": values}

    made = Rehearsal(monkeypatch, narrow, reference, DIMS)
    assert made.slots.tolerated
    for name in (None, *made.slots.tolerated):
        made.slots.use(*([name] if name else []))
        assert reasons(made.turn(right)) == [None] * 3, name
    made.slots.use()
    assert reasons(made.turn(nothing)) == ["skipped_work"] * 3
    assert reasons(made.turn(doubled)) == ["wrong_output"] * 3


def test_integers_that_nobody_wrote_are_told_from_wrong_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def counts(n: int, seed: int) -> dict[str, object]:
        x = torch.randint(0, 9, (n,), generator=torch.Generator().manual_seed(seed))
        return {"inputs": {"x": x.int(), "y": torch.empty(n).int()}, "outputs": ["y"]}

    def total(x: torch.Tensor, y: torch.Tensor) -> None:
        y.copy_(x.cumsum(0))

    made = Rehearsal(monkeypatch, counts, total, {"n": 64})
    assert set(made.slots.tolerated) == set(INDICES)  # they stay below the arrays' size
    for name in ("as drawn by setup", *INDICES):
        made.slots.use(name)
        assert reasons(made.turn(total)) == [None] * 3
    made.slots.use()
    assert reasons(made.turn(lambda x, y: None)) == ["skipped_work"] * 3
    assert reasons(made.turn(lambda x, y: y.fill_(1))) == ["wrong_output"] * 3


def test_poison_is_a_nan_that_arithmetic_changes() -> None:
    for dtype, word in ((torch.float32, torch.int32), (torch.float64, torch.int64)):
        bits = torch.tensor([UNWRITTEN[str(dtype).removeprefix("torch.")]], dtype=word)
        poison = bits.view(dtype)
        assert torch.isnan(poison).all()
        assert int((poison + 1).view(word)) != int(bits)


class FullDevice(HostMemory):
    """Refuses memory so many times: torch holds what is free, or somebody else does."""

    def __init__(self, refusals: int) -> None:
        super().__init__()
        self.refusals = refusals

    def alloc(self, size: int) -> int:
        if self.refusals:
            self.refusals -= 1
            raise DeviceError("cuMemAlloc_v2", 2, "CUDA_ERROR_OUT_OF_MEMORY")
        return super().alloc(size)


def allocated(gemm: Rehearsal, refusals: int) -> dict[str, object]:
    """What the reference's process answers on a device that refuses memory so many times."""
    gemm.arenas._driver = FullDevice(refusals)  # type: ignore[assignment]
    arrays = [{"name": "c", "role": "output", "dtype": "float32", "shape": [8]}]
    message = {"op": "allocate", "arena": 1, "arrays": arrays, "slots": 2}
    return answering(gemm.server, message, [])


def test_what_torch_keeps_for_later_is_given_back_before_there_is_no_memory(
    gemm: Rehearsal, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_back: list[bool] = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: given_back.append(True))
    assert "handle" in allocated(gemm, refusals=1)
    assert given_back == [True]


def test_a_full_device_is_told_from_a_wrong_reference(gemm: Rehearsal) -> None:
    answer = allocated(gemm, refusals=2)
    assert answer["memory"] is True
    oracle = GpuOracle.__new__(GpuOracle)
    oracle.target = SimpleNamespace(truth=SimpleNamespace(path="reference.py"))  # type: ignore[assignment]
    oracle.signature = Signature(parameters=())
    assert isinstance(oracle._complaint("allocate", {}, answer), DeviceFullError)
    wrong = oracle._complaint("draw", {}, {"error": "ValueError: no"})
    assert isinstance(wrong, BadReferenceError)


def test_a_number_alone_is_an_output_and_an_input(monkeypatch: pytest.MonkeyPatch) -> None:
    def loss(n: int, seed: int) -> dict[str, object]:
        x, t, scale = torch.randn(n), torch.randn(n), torch.randn(())
        values = {"x": x, "t": t, "scale": scale, "y": torch.empty(())}
        return {"inputs": values, "outputs": ["y"]}

    def squares(x: torch.Tensor, t: torch.Tensor, scale: torch.Tensor, y: torch.Tensor) -> None:
        # A scale near 1 could be forgotten and look like rounding.
        y.copy_(((x - t) ** 2).mean() * (2 + scale.abs()))

    def forgets(x: torch.Tensor, t: torch.Tensor, scale: torch.Tensor, y: torch.Tensor) -> None:
        y.copy_(((x - t) ** 2).mean())

    made = Rehearsal(monkeypatch, loss, squares, {"n": 1000})
    assert {"normal", "sparse", "constant rows"} <= set(made.slots.tolerated)
    for name in (None, *made.slots.tolerated):
        made.slots.use(*([name] if name else []))
        assert reasons(made.turn(squares)) == [None] * 3, name
    made.slots.use()
    assert reasons(made.turn(forgets)) == ["wrong_output"] * 3
    assert reasons(made.turn(lambda x, t, scale, y: None)) == ["skipped_work"] * 3
    address = torch.tensor([2.5])
    monkeypatch.setattr(tensors, "bytes_at", bytes_of_host)
    assert tensors.tensor_at(address.data_ptr(), (), "float32") == torch.tensor(2.5)


def test_what_is_added_to_holds_what_setup_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    def residual(n: int, seed: int) -> dict[str, object]:
        x, h, w = torch.randn(4, n), torch.randn(4, n), torch.rand(n)
        values = {"x": x, "h": h, "w": w, "y": torch.empty(4, n)}
        return {"inputs": values, "outputs": ["h", "y"]}

    def normed(x: torch.Tensor, h: torch.Tensor, w: torch.Tensor, y: torch.Tensor) -> None:
        h += x
        y.copy_(h * torch.rsqrt(h.square().mean(-1, keepdim=True) + 1e-6) * w)

    def overwrites(x: torch.Tensor, h: torch.Tensor, w: torch.Tensor, y: torch.Tensor) -> None:
        normed(x, h.zero_(), w, y)

    made = Rehearsal(monkeypatch, residual, normed, {"n": 64})
    roles = {a.name: a.role for a in made.slots.description.arrays}
    assert roles == {"x": "input", "h": "inout", "w": "input", "y": "output"}
    for name in (None, *made.slots.tolerated):
        made.slots.use(*([name] if name else []))
        assert reasons(made.turn(normed)) == [None] * 3, name
    made.slots.use()
    assert reasons(made.turn(overwrites)) == ["wrong_output"] * 3


def test_setup_may_say_what_is_added_to(monkeypatch: pytest.MonkeyPatch) -> None:
    def clamped(n: int, seed: int) -> dict[str, object]:
        values = {"x": torch.randn(n), "y": torch.rand(n)}
        return {"inputs": values, "outputs": [], "inouts": ["y"]}

    def least(x: torch.Tensor, y: torch.Tensor) -> None:
        torch.fmax(y, torch.zeros(()), out=y)

    made = Rehearsal(monkeypatch, clamped, least, {"n": 64})
    assert {a.role for a in made.slots.description.arrays} == {"input", "inout"}
    assert reasons(made.turn(least)) == [None] * 3


def test_complex_numbers_are_two_each_to_a_library(monkeypatch: pytest.MonkeyPatch) -> None:
    def drawn(n: int, seed: int) -> dict[str, object]:
        x = torch.randn(n, dtype=torch.complex64)
        return {"inputs": {"x": x, "y": torch.empty_like(x)}, "outputs": ["y"]}

    def turned(x: torch.Tensor, y: torch.Tensor) -> None:
        y.copy_(x * 1j)

    def in_parts(x: torch.Tensor, y: torch.Tensor) -> None:
        y[0::2], y[1::2] = -x[1::2], x[0::2]

    made = Rehearsal(
        monkeypatch, drawn, turned, {"n": 64},
        signature=Signature(parameters=(
            Parameter(name="x", role="input", dtype="float32"),
            Parameter(name="y", role="output", dtype="float32"),
        )),
    )  # fmt: skip
    assert [a.shape for a in made.slots.description.arrays] == [(128,)] * 2
    assert reasons(made.turn(in_parts)) == [None] * 3
    assert reasons(made.turn(lambda x, y: y.copy_(x))) == ["wrong_output"] * 3


def test_scratch_may_hold_anything_and_is_nobodys_input(monkeypatch: pytest.MonkeyPatch) -> None:
    def summed(n: int, seed: int) -> dict[str, object]:
        values = {"x": torch.randn(n), "t": torch.empty(n), "y": torch.empty(n)}
        return {"inputs": values, "outputs": ["y"], "scratch": ["t"]}

    def in_two_steps(x: torch.Tensor, t: torch.Tensor, y: torch.Tensor) -> None:
        torch.mul(x, x, out=t)
        torch.add(t, x, out=y)

    def without(x: torch.Tensor, t: torch.Tensor, y: torch.Tensor) -> None:
        y.copy_(x * x + x)

    def from_call_to_call(x: torch.Tensor, t: torch.Tensor, y: torch.Tensor) -> None:
        y.copy_(x * x + x + 0 * t)

    made = Rehearsal(monkeypatch, summed, in_two_steps, {"n": 64})
    roles = {a.name: a.role for a in made.slots.description.arrays}
    assert roles == {"x": "input", "t": "scratch", "y": "output"}
    for kernel in (in_two_steps, without):
        assert reasons(made.turn(kernel)) == [None] * 3
    assert reasons(made.turn(from_call_to_call)) == ["nan_output"] * 3


def test_masks_are_given_and_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def masked(n: int, seed: int) -> dict[str, object]:
        x = torch.randn(n, n)
        values = {"x": x, "mask": torch.rand(n, n) < 0.5, "y": x.clone(), "kept": x > 9}
        return {"inputs": values, "outputs": ["y", "kept"]}

    def fills(x: torch.Tensor, mask: torch.Tensor, y: torch.Tensor, kept: torch.Tensor) -> None:
        y.copy_(x.masked_fill(mask, -1.0))
        kept.copy_(~mask & (x > 0))

    def inverts(x: torch.Tensor, mask: torch.Tensor, y: torch.Tensor, kept: torch.Tensor) -> None:
        fills(x, mask, y, kept)
        kept.logical_not_()

    made = Rehearsal(monkeypatch, masked, fills, {"n": 32})
    assert reasons(made.turn(fills)) == [None] * 3
    assert reasons(made.turn(inverts)) == ["wrong_output"] * 3
    assert reasons(made.turn(lambda x, mask, y, kept: y.copy_(x.masked_fill(mask, -1.0)))) == (
        ["skipped_work"] * 3
    )


def quantised(x: torch.Tensor, q: torch.Tensor, s: torch.Tensor) -> None:
    s.copy_(x.abs().amax(1) / 32767)
    q.copy_(torch.round(x / s[:, None]))


@pytest.fixture
def quantise(monkeypatch: pytest.MonkeyPatch) -> Rehearsal:
    """To 16 bits, where a rounding in the division often decides."""

    def rows(n: int, seed: int) -> dict[str, object]:
        values = {"x": torch.randn(n, 64), "q": torch.empty(n, 64).short(), "s": torch.empty(n)}
        return {"inputs": values, "outputs": ["q", "s"]}

    return Rehearsal(monkeypatch, rows, quantised, {"n": 64})


def test_integers_that_rounding_decides_are_held_against_nobody(quantise: Rehearsal) -> None:
    differed = []

    def by_reciprocal(x: torch.Tensor, q: torch.Tensor, s: torch.Tensor) -> None:
        quantised(x, q, s)
        usual = q.clone()
        q.copy_(torch.round(x * (32767 / x.abs().amax(1))[:, None]))
        differed.append(bool((q != usual).any()))

    for exact in (True, False):
        assert reasons(quantise.turn(by_reciprocal, exact=exact)) == [None] * 3
    assert any(differed)


def test_bits_of_float8_are_right_in_either_order_of_rounding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def rows(n: int, seed: int) -> dict[str, object]:
        bits = torch.empty(n, 256, dtype=torch.uint8)
        values = {"x": torch.randn(n, 256).bfloat16(), "q": bits, "s": torch.empty(n)}
        return {"inputs": values, "outputs": ["q", "s"]}

    def narrow(x: torch.Tensor, q: torch.Tensor, s: torch.Tensor, *, turned: bool = False) -> None:
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        s.copy_(wide.abs().amax(1) / 448)
        exact = wide * (1 / s)[:, None] if turned else wide / s[:, None]
        q.copy_(exact.clamp(-448, 448).to(torch.float8_e4m3fn).view(torch.uint8))

    def of_another_kind(x: torch.Tensor, q: torch.Tensor, s: torch.Tensor) -> None:
        narrow(x, q, s)
        q.copy_((x / s[:, None]).to(torch.float8_e5m2).view(torch.uint8))

    made = Rehearsal(monkeypatch, rows, narrow, {"n": 64})
    assert reasons(made.turn(partial(narrow, turned=True))) == [None] * 3
    assert reasons(made.turn(of_another_kind)) == ["wrong_output"] * 3


def test_integers_that_it_does_not_decide_are_wrong(quantise: Rehearsal) -> None:
    def off_by_one(x: torch.Tensor, q: torch.Tensor, s: torch.Tensor) -> None:
        quantised(x, q, s)
        whole = (x / s[:, None] - q).abs().argmin()  # far from where a rounding would decide
        q.view(-1)[whole] += 1

    def truncates(x: torch.Tensor, q: torch.Tensor, s: torch.Tensor) -> None:
        quantised(x, q, s)
        q.copy_(torch.trunc(x / s[:, None]))

    for wrong in (off_by_one, truncates):
        assert reasons(quantise.turn(wrong)) == ["wrong_output"] * 3
