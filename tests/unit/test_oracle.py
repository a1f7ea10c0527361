"""The reference in its own process: what it says, and what is said about its mistakes."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

from kinds import another
from roofsmith.domain.kernel import SourceFile
from roofsmith.domain.target import Target
from roofsmith.domain.workload import Workload
from roofsmith.errors import BadReferenceError, TargetError
from roofsmith.judge.correctness.distributions import OWN
from roofsmith.judge.host import oracle as oracle_module
from roofsmith.judge.host.oracle import ReferenceOracle
from roofsmith.judge.host.shelf import Foreseen
from roofsmith.judge.sandbox.enclosure import is_stopped
from roofsmith.toolchains.signature import read_signature

pytestmark = pytest.mark.slow

MODULE = ReferenceOracle.module
KERNEL = "void solve(const float *x, float *y, int n) { }"
GOOD = """
import numpy as np

def setup(n, seed=0):
    x = np.random.default_rng(seed).standard_normal(n, dtype=np.float32)
    return {"inputs": {"x": x, "y": np.empty(n, np.float32), "n": n}, "outputs": ["y"]}

def reference(x, y, n):
    y[:] = 2 * x

def flops(n):
    return n
"""
WORKLOAD = Workload(dims={"n": 6})


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def oracle_of(reference: str, kernel: str = KERNEL, **more: object) -> ReferenceOracle:
    target = Target.model_validate(
        {
            "name": "sample",
            "language": "c",
            "kernel": SourceFile(path="kernel.c", text=kernel),
            "reference": SourceFile(path="numbers/reference.py", text=reference),
            "workloads": (WORKLOAD,),
            **more,
        }
    )
    return ReferenceOracle(target, read_signature(target.baseline))


def used(reference: str, kernel: str = KERNEL, workload: Workload = WORKLOAD) -> None:
    """Everything that the judge asks of a reference, once."""
    with oracle_of(reference, kernel) as oracle, oracle.draws(workload, 1) as draws:
        draws.draw(0, 1)
        draws.expect(0, exact=True, twice=True)
        draws.expect(0, exact=False)


def complaint(reference: str, kernel: str = KERNEL) -> str:
    with pytest.raises(BadReferenceError) as caught:
        used(reference, kernel)
    assert caught.value.hint
    assert str(caught.value).startswith("numbers/reference.py")
    return str(caught.value)


def test_describes_arrays_scalars_and_cost() -> None:
    with oracle_of(GOOD + "\natol = 1e-3\n") as oracle:
        found = oracle.describe(WORKLOAD)
    assert [(a.name, a.role, a.dtype, a.shape) for a in found.arrays] == [
        ("x", "input", "float32", (6,)),
        ("y", "output", "float32", (6,)),
    ]
    assert (found.scalars, found.flops, found.bytes) == ({"n": 6}, 6.0, None)
    assert (found.atol, found.rtol) == (1e-3, None)


def test_inputs_are_fresh_repeatable_and_in_order() -> None:
    with oracle_of(GOOD) as oracle:
        first, again, other = (oracle.inputs(WORKLOAD, seed) for seed in (1, 1, 2))
    assert list(first) == ["x", "y", "n"]
    assert np.array_equal(first["x"], again["x"])
    assert not np.array_equal(first["x"], other["x"])
    assert first["n"] == 6
    assert isinstance(first["y"], np.ndarray)
    assert not first["y"].any()


def test_expectations_come_in_float64_and_in_the_declared_precision() -> None:
    reference = GOOD.replace("2 * x", "x / 3")
    with oracle_of(reference) as oracle, oracle.draws(WORKLOAD, 2) as draws:
        x = draws.draw(1, 5)["x"]
        draws.expect(1, exact=True)
        draws.expect(1, exact=False)
        truth, declared = (draws.expected(1, "y", exact=exact) for exact in (True, False))
        assert truth.dtype == np.float64
        assert np.array_equal(truth, x.astype(np.float64) / 3)
        assert declared.dtype == np.float32
        assert np.array_equal(declared, truth.astype(np.float32))


@pytest.mark.parametrize("then", ["nothing", "declared", "honest"])
def test_draws_that_are_made_ahead_are_those_that_would_be_made(then: Foreseen) -> None:
    with oracle_of(GOOD) as oracle, oracle.draws(WORKLOAD, 2) as draws:
        draws.foresee([OWN] * 4, then)
        for turn in range(3):
            for slot in range(2):
                seed, made = draws.seed(slot) if turn else None, draws.draw(slot)["x"].copy()
                assert draws.seed(slot) != seed
                draws.expect(slot, exact=False)
                assert np.array_equal(draws.expected(slot, "y", exact=False), 2 * made)
                honest = draws.honest(slot)
                assert np.array_equal(draws.expected(slot, "y", exact=True), 2.0 * made)
                again = draws.draw(slot, draws.seed(slot))["x"]
                assert np.array_equal(made, again)
                assert draws.honest(slot).errors == honest.errors


def test_what_was_made_ahead_is_used_once_however_often_draws_are_opened() -> None:
    with oracle_of(GOOD) as oracle:
        seeds = []
        for _ in range(3):
            with oracle.draws(WORKLOAD, 1) as draws:
                draws.foresee([OWN, "normal", OWN])
                draws.draw(0)
                seeds.append(draws.seed(0))
        assert len(set(seeds)) == 3


def test_an_expectation_is_computed_anew_after_another_was_in_its_place() -> None:
    with oracle_of(GOOD) as oracle, oracle.draws(WORKLOAD, 1) as draws:
        x = draws.draw(0, 1)["x"].copy()
        draws.expect(0, exact=True)
        draws.expect(0, exact=True, change=["shortened", 2, "cut", None])
        assert not np.array_equal(draws.expected(0, "y", exact=True), 2.0 * x)
        draws.expect(0, exact=True)
        assert np.array_equal(draws.expected(0, "y", exact=True), 2.0 * x)


def test_who_works_ahead_stands_still_while_the_others_are_timed() -> None:
    reference = GOOD.replace("    y[:] = 2 * x", "    for _ in range(10**5): y[:] = 2 * x")
    with oracle_of(reference) as oracle, oracle.draws(WORKLOAD, 1) as draws:
        draws.foresee([OWN] * 4, "declared")
        with draws.asleep():
            first = _references()[0]
            held = [first, *first.children()]
            assert len(held) == oracle.hands
            assert all(is_stopped(process.pid) for process in held)


def test_what_goes_wrong_ahead_is_told_when_it_is_asked_for() -> None:
    reference = GOOD.replace("def setup(n, seed=0):", "def setup(n, seed=0):\n    assert seed < 2")
    with oracle_of(reference) as oracle, oracle.draws(WORKLOAD, 1) as draws:
        draws.foresee([OWN, OWN])
        with pytest.raises(BadReferenceError, match="setup"):
            draws.draw(0)
        draws.draw(0, 1)


@pytest.mark.parametrize(
    ("given", "reference"),
    [
        ("np.complex64", "assert x.dtype.kind == 'c'; y[:] = x * 1j"),
        ("[('re', 'f4'), ('im', 'f4')]", "y['re'], y['im'] = -x['im'], x['re']"),
    ],
)
def test_several_numbers_in_one_are_as_many_to_a_kernel(given: str, reference: str) -> None:
    reference = (
        GOOD.replace("standard_normal(n, dtype=np.float32)", "standard_normal(2 * n, 'f4')")
        .replace('"x": x', f'"x": x.view({given})')
        .replace("np.empty(n, np.float32)", f"np.empty(n, {given})")
        .replace("y[:] = 2 * x", reference)
    )
    with oracle_of(reference) as oracle, oracle.draws(WORKLOAD, 1) as draws:
        assert [(a.dtype, a.shape) for a in draws.arrays] == [("float32", (12,))] * 2
        x = draws.draw(0, 1)["x"].reshape(6, 2)
        draws.expect(0, exact=True, twice=True)
        y = draws.expected(0, "y", exact=True).reshape(6, 2)
        assert np.array_equal(y, np.stack([-x[:, 1], x[:, 0]], axis=1))
    text = complaint(GOOD.replace('"x": x', '"x": x.astype(np.complex128)'))
    assert "complex128 for 'x'" in text


def test_scratch_is_neither_given_nor_compared() -> None:
    kernel = "void solve(const float *x, float *y, float *t, int n) { }"
    reference = (
        GOOD.replace('"n": n}', '"t": np.empty(n, np.float32), "n": n}, "scratch": ["t"]')
        .replace("(x, y, n)", "(x, y, t, n)")
        .replace("y[:] = 2 * x", "t[:] = x; y[:] = t + x")
    )
    with oracle_of(reference, kernel) as oracle, oracle.draws(WORKLOAD, 1) as draws:
        assert [a.role for a in draws.arrays] == ["input", "output", "scratch"]
        assert list(draws.draw(0, 1)) == ["x"]
        assert [a.name for a in draws.outputs] == ["y"]
        draws.expect(0, exact=True, twice=True)
        assert oracle.tolerated().free == {"x": 0}
    with pytest.raises(BadReferenceError, match="as const"):
        used(reference, kernel.replace("float *t", "const float *t"))


def test_reference_cannot_spoil_the_drawn_inputs() -> None:
    reference = GOOD.replace("y[:] = 2 * x", "y[:] = 2 * x; x[:] = 0")
    with oracle_of(reference) as oracle, oracle.draws(WORKLOAD, 1) as draws:
        x = draws.draw(0, 5)["x"].copy()
        draws.expect(0, exact=True)
        draws.expect(0, exact=True)
        assert np.array_equal(draws.given(0)["x"], x)
        assert np.array_equal(draws.expected(0, "y", exact=True), 2 * x.astype(np.float64))


def test_without_setup_const_tells_inputs_from_outputs() -> None:
    reference = "def reference(x, y, n):\n    y[:] = x + n\n"
    with oracle_of(reference) as oracle:
        roles = {a.name: (a.role, a.shape) for a in oracle.describe(WORKLOAD).arrays}
    assert roles == {"x": ("input", (6,)), "y": ("output", (6,))}


def test_without_setup_and_const_the_reference_tells_what_is_what() -> None:
    kernel = "void solve(double *a, int *b, float *c, int m, int n) { }"
    reference = "def reference(a, b, c, m, n):\n    a += b\n    c[:] = b\n"
    workload = Workload(dims={"m": 3, "n": 4})
    with oracle_of(reference, kernel, workloads=(workload,)) as oracle:
        described = oracle.describe(workload)
        with oracle.draws(workload, 1) as draws:
            given = draws.draw(0, 1)
            assert given["a"].any()
            draws.expect(0, exact=True)
            total = draws.expected(0, "a", exact=True)
            assert np.array_equal(total, given["a"] + given["b"])
            assert "c" not in given
            assert np.array_equal(draws.expected(0, "c", exact=True), given["b"])
    assert [(a.role, a.dtype, a.shape) for a in described.arrays] == [
        ("inout", "float64", (12,)),
        ("input", "int32", (12,)),
        ("output", "float32", (12,)),
    ]
    assert described.written_bytes == 12 * (8 + 4)


def test_without_setup_the_reference_is_called_by_the_names_of_solve() -> None:
    text = complaint("def reference(**given):\n    given['out'][:] = given['x']\n")
    assert "for n=6: reference: KeyError (line 2): 'out'" in text
    assert "solve's names: x, y, n" in text


def test_a_reference_that_writes_nothing_is_told_so() -> None:
    kernel = "void solve(float *x, float *y, int n) { }"
    text = complaint("def reference(x, y, n):\n    y = 2 * x\n", kernel)
    assert "(x, y)" in text


def test_without_setup_the_length_may_be_given() -> None:
    with oracle_of("def reference(x, y, n):\n    y[:] = x\n", ptr_size=99) as oracle:
        assert {a.shape for a in oracle.describe(WORKLOAD).arrays} == {(99,)}


def test_an_exception_names_its_line_and_keeps_the_trace() -> None:
    broken = GOOD.replace("y[:] = 2 * x", "y[:] = x[:1] @ np.ones((3, 3))")
    line = 1 + broken.splitlines().index("    y[:] = x[:1] @ np.ones((3, 3))")
    with pytest.raises(BadReferenceError) as caught:
        used(broken)
    assert f"ValueError (line {line})" in caught.value.message
    assert "Traceback" in caught.value.log.read_text()


def test_words_that_have_no_encoding_are_told_all_the_same() -> None:
    raising = GOOD.replace("y[:] = 2 * x", r'raise ValueError("\udc80")')
    with pytest.raises(BadReferenceError) as caught:
        used(raising)
    assert r"ValueError: \udc80" in caught.value.log.read_text()


def test_a_line_of_setup_is_named_with_the_workload() -> None:
    text = complaint("def setup(n, seed=0):\n    return missing\n" + "def reference(**a): pass\n")
    assert "for n=6: setup: NameError (line 2)" in text


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("def reference", "def referense", "no function `reference"),
        ("import numpy as np", "import nothing_of_the_kind", "nothing_of_the_kind"),
        another("import numpy as np", "import numpy as np\ndef (", "SyntaxError"),
        ("def reference(x, y, n)", "def reference(a, b, n)", "unexpected keyword argument"),
        another("def setup(n, seed=0)", "def setup(length, seed=0)", "unexpected keyword argument"),
        another("def setup(n, seed=0)", "def setup(n)", "unexpected keyword argument 'seed'"),
        ("2 * x", "np.random.default_rng().random(n)", "not deterministic: 'y'"),
        another("2 * x", "np.nan", "unwritten, or NaN"),
        another("y[:] = 2 * x", "y = 2 * x", "unwritten, or NaN"),
        ("np.empty(n, np.float32)", "np.empty(n)", "float64 for 'y', but solve takes float32"),
        (', "n": n}', "}", "gives 2 arguments (x, y), but solve takes 3 (x, y, n)"),
        another('"n": n}', '"n": n, "m": n}', "gives 4 arguments"),
        another('"n": n}', '"n": float(n)}', "float for 'n', but solve takes an integer"),
        another('"n": n}', '"n": True}', "bool for 'n', but solve takes an integer"),
        another('"x": x', '"x": x.tolist()', "list for 'x', but solve takes an array"),
        ('["y"]', '["z"]', "not among its inputs: ['z']"),
        another('["y"]', '["x"]', "'x' an output, but solve takes it as const"),
        another('return {"inputs":', 'return {"inputz":', "setup must return"),
        ("standard_normal(n,", "standard_normal(n + seed,", "another shape for another seed"),
        another("return n\n", "return -1\n", "flops(n=6) returns -1"),
        another("return n\n", "return float('nan')\n", "flops(n=6) returns nan"),
        another("y[:] = 2 * x", "raise SystemExit(3)", "exit code 3"),
        another("y[:] = 2 * x", "import os; os._exit(3)", "exit code 3"),
        ("y[:] = 2 * x", "import os; os.abort()", "exit code -6"),
    ],
)  # fmt: skip
def test_mistakes_are_told_to_people(old: str, new: str, expected: str) -> None:
    broken = GOOD.replace(old, new)
    assert broken != GOOD
    assert expected in complaint(broken)


def test_a_cure_names_the_cause_and_not_the_signature() -> None:
    missing = complaint(GOOD.replace("import numpy as np", "import nothing_of_the_kind"))
    raising = complaint(GOOD.replace("y[:] = 2 * x", "y[:] = 2 * nobody"))
    assert not any("solve" in text.partition("try:")[2] for text in (missing, raising))
    assert "solve" in complaint(GOOD.replace("def reference(x, y, n)", "def reference(a, b, n)"))


def test_a_number_by_value_must_not_depend_on_the_seed() -> None:
    drawn = GOOD.replace('"n": n}', '"n": n + 1 + seed % 2}')
    assert drawn != GOOD
    assert "'n' another value for another seed: 7, 8" in complaint(drawn)


@pytest.mark.parametrize(
    ("element", "given", "got"),
    [
        ("float", "0.1", float(np.float32(0.1))), another("float", "3", 3.0),
        another("double", "np.float32(0.5)", 0.5), another("float", "np.array(0.25)", 0.25),
        ("bool", "n > 2", True), another("bool", "0", False),
        another("uint8_t", "np.int64(255)", 255),
    ],
)  # fmt: skip
def test_numbers_by_value_are_what_their_types_hold(element: str, given: str, got: float) -> None:
    """What the reference is told is what the kernel is given."""
    kernel = KERNEL.replace("int n", f"{element} n")
    reference = GOOD.replace('"n": n}', f'"n": {given}}}')
    reference = reference.replace("2 * x", f"2 * x if n == {got!r} else np.nan")
    with oracle_of(reference, kernel) as oracle:
        assert oracle.describe(WORKLOAD).scalars == {"n": got}
        assert type(oracle.inputs(WORKLOAD, 1)["n"]) is type(got)


@pytest.mark.parametrize(
    ("element", "given"),
    [
        ("uint8_t", "256"), ("float", "True"), another("bool", "0.5"), another("float", "1e39"),
        another("float", "'1'"),
    ],
)  # fmt: skip
def test_numbers_that_a_type_does_not_hold(element: str, given: str) -> None:
    reference = GOOD.replace('"n": n}', f'"n": {given}}}')
    assert "'n'" in complaint(reference, KERNEL.replace("int n", f"{element} n"))


def test_without_setup_sizes_must_be_dimensions() -> None:
    kernel = "void solve(const float *x, float *y, int rows) { }"
    text = complaint("def reference(x, y, rows):\n    y[:] = x\n", kernel)
    assert "the size 'rows', but the workload gives n" in text


def test_a_reference_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    reference = GOOD.replace("y[:] = 2 * x", "while y.dtype == np.float64: pass\n    y[:] = x")
    with oracle_of(reference) as oracle, oracle.draws(WORKLOAD, 1) as draws:
        draws.draw(0, 1)
        monkeypatch.setattr(oracle_module, "DEADLINE_S", 0.2)
        with pytest.raises(BadReferenceError, match="no answer to expect within"):
            draws.expect(0, exact=True)
    _nothing_is_running()


@pytest.mark.parametrize(
    "allocate", ["np.ones(n, np.float32)", "np.empty(n, np.float32)", "np.zeros(n, np.float32)"]
)
def test_a_workload_that_cannot_fit(allocate: str) -> None:
    reference = (
        "import numpy as np\ndef setup(n, seed=0):\n"
        f"    return {{'inputs': {{'x': {allocate}, 'y': {allocate}, 'n': n}}, 'outputs': ['y']}}\n"
        "def reference(x, y, n): y[:] = x\n"
    )
    with pytest.raises(TargetError) as caught:
        used(reference, workload=Workload(dims={"n": 10**12}))
    assert "n=1000000000000" in caught.value.message
    assert caught.value.hint == "choose a smaller workload"


def test_a_workload_whose_copies_cannot_fit() -> None:
    """Two arrays of 7%: the reference alone gets by with a few copies; a judgement takes eight."""
    length = int(psutil.virtual_memory().total * 0.07) // 4
    reference = GOOD.replace(
        "np.random.default_rng(seed).standard_normal(n, dtype=np.float32)",
        "np.empty(n, np.float32)",
    )
    with pytest.raises(TargetError, match="to be judged"):
        used(reference, workload=Workload(dims={"n": length}))


def test_what_the_reference_prints_does_not_disturb() -> None:
    used(GOOD.replace("y[:] = 2 * x", "print('hello' * 10000); y[:] = 2 * x"))


def test_nothing_is_left(scratch: Path) -> None:
    used(GOOD)
    assert list(scratch.iterdir()) == []


def test_nothing_is_left_but_the_log_of_what_failed(scratch: Path) -> None:
    with pytest.raises(BadReferenceError) as caught:
        used("raise ValueError\n")
    assert list(scratch.iterdir()) == [caught.value.log]


def _references(*, recursive: bool = False) -> list[psutil.Process]:
    """Processes of references that live."""
    return [
        process
        for process in psutil.Process().children(recursive=recursive)
        if process.status() != psutil.STATUS_ZOMBIE and MODULE in process.cmdline()
    ]


def _nothing_is_running() -> None:
    assert not _references(recursive=True)


@pytest.fixture(autouse=True)
def _ends_every_process() -> Iterator[None]:
    yield
    _nothing_is_running()


def test_draws_for_the_next_measurement_are_kept_within_the_memory_for_them() -> None:
    with oracle_of(GOOD) as oracle:
        oracle._room_bytes = 8 * 6 * 16  # eight places: 6 numbers of 4, 8 and 4 bytes
        with oracle.draws(WORKLOAD, 1) as draws:
            draws.foresee([OWN] * 30 + ["normal"], "declared")
        seeds = set()
        for _ in range(20):
            with oracle.draws(WORKLOAD, 1) as draws:
                x = draws.draw(0)["x"].copy()
                seeds.add(draws.seed(0))
                draws.expect(0, exact=False)
                assert np.array_equal(draws.expected(0, "y", exact=False), 2 * x)
                assert oracle._held_bytes <= oracle._room_bytes
        assert len(seeds) == 20


def test_who_measures_elsewhere_has_no_work_ahead_beside() -> None:
    reference = GOOD.replace("    y[:] = 2 * x", "    for _ in range(10**5): y[:] = 2 * x")
    with oracle_of(reference) as oracle:
        with oracle.draws(WORKLOAD, 1) as draws:
            draws.foresee([OWN] * 8, "declared")
        oracle.inputs(WORKLOAD, 1)
        first = _references()[0]
        held = [first, *first.children()]
        before = [sum(process.cpu_times()[:2]) for process in held]
        time.sleep(0.3)
        assert [sum(process.cpu_times()[:2]) for process in held] == before


def test_what_is_there_is_known_without_asking_until_something_else_is_put_there() -> None:
    with oracle_of(GOOD) as oracle, oracle.draws(WORKLOAD, 1) as draws:
        draws.foresee([OWN] * 2, "honest")
        [(seed, place), _] = (one for kinds in draws._shelf._ready.values() for one in kinds)
        at, drawn, until = (place.number, place.index), (seed, OWN), time.monotonic() + 60
        while oracle.made_ahead.answer(at, drawn, "truth") is None:
            assert time.monotonic() < until
            time.sleep(0.01)
        x = draws.draw(0)["x"].copy()
        assert (draws.seed(0), draws._places[0]) == (seed, place)
        draws.expect(0, exact=True)
        assert np.array_equal(draws.expected(0, "y", exact=True), 2.0 * x)
        draws.expect(0, exact=True, change=["shortened", 2, "cut", None])
        assert oracle.made_ahead.answer(at, drawn, "truth") is None
        assert not np.array_equal(draws.expected(0, "y", exact=True), 2.0 * x)
        draws.expect(0, exact=True)
        assert np.array_equal(draws.expected(0, "y", exact=True), 2.0 * x)


def test_who_rested_goes_on_with_what_was_foreseen() -> None:
    with oracle_of(GOOD) as oracle:
        with oracle.draws(WORKLOAD, 1) as draws:
            oracle.rest()
            draws.foresee([OWN] * 4, "declared")
        oracle.inputs(WORKLOAD, 1)
        with oracle.draws(WORKLOAD, 1) as draws:
            draws.foresee([OWN] * 4, "declared")
            shelf = draws._shelf
            lying = [one for kinds in shelf._ready.values() for one in kinds]
            until = time.monotonic() + 60
            made = oracle.made_ahead
            while time.monotonic() < until and not all(
                made.answer((place.number, place.index), (seed, OWN), "declared") is not None
                for seed, place in lying
            ):
                time.sleep(0.01)
            assert time.monotonic() < until
            assert len(lying) == 4


def test_draws_elsewhere_stay_if_they_will_be_asked_for_again() -> None:
    with oracle_of(GOOD) as oracle:
        here, there = Workload(dims={"n": 8}), Workload(dims={"n": 10})
        oracle.keep(here, [OWN, "normal"])
        for workload in (here, there):
            with oracle.draws(workload, 1) as draws:
                draws.foresee([OWN, "normal", "uniform"])
        assert set(oracle._shelves) == {here.label}
        lying = oracle._shelves[here.label]._ready
        assert {distribution for distribution, _ in lying} == {OWN, "normal"}
