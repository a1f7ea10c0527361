"""What a reference computes, as the survey keeps it."""

from __future__ import annotations

from pathlib import Path

import pytest

from roofsmith.analysis.cost import cost
from roofsmith.analysis.tolerance import Errors
from roofsmith.api.computing import computed, reading
from roofsmith.asking.sections import SECTIONS
from roofsmith.domain.computed import Computed
from roofsmith.domain.description import WorkloadDescription
from roofsmith.domain.kernel import SourceFile
from roofsmith.domain.target import Target
from roofsmith.domain.workload import Workload
from roofsmith.judge.correctness.conditioning import Strain, as_message, from_message, on_own_draws
from roofsmith.judge.correctness.rounding import ENOUGH, ENOUGH_OTHERS, JOLTS, Explanation
from roofsmith.targets.file import load_target
from roofsmith.toolchains.dispatch import Toolchains

EXAMPLES = Path(__file__).parents[2] / "examples"
WORKLOAD = Workload(dims={"N": 8})


def read(target: Target, builds: Path) -> Computed:
    found = computed(target, Toolchains(builds).signature(target.baseline))
    assert found is not None
    return found


def test_a_reference_says_its_operator_and_its_operations(tmp_path: Path) -> None:
    target = load_target(EXAMPLES / "softmax" / "target.yaml")
    found = read(target, tmp_path)
    assert found.operator == "softmax"
    assert not found.doubts
    for one in target.workloads:
        assert found.flops[one.label] == 5 * one.dims["N"] * one.dims["D"]


def test_what_is_read_beside_other_work_is_the_same_and_of_the_target_that_counts(
    tmp_path: Path,
) -> None:
    target = load_target(EXAMPLES / "softmax" / "target.yaml")
    signature = Toolchains(tmp_path).signature(target.baseline)
    fewer = target.model_copy(update={"workloads": target.workloads[:1]})
    with reading(target, signature, None, reads=True) as found:
        assert found(target, signature) == read(target, tmp_path)
        assert found(fewer, signature) == read(fewer, tmp_path)
    with reading(target, signature, None, reads=False) as found:
        assert found(target, signature) is None
    known = read(target, tmp_path)
    with reading(target, signature, known, reads=False) as found:
        assert found(target, signature) == known


def test_numbers_that_are_no_dims_count_too(tmp_path: Path) -> None:
    (tmp_path / "kernel.c").write_text(
        "void solve(const float *x, float *y, int N, int lag) {\n"
        "    for (int i = 0; i < N; i++) y[i] = x[i] - (i >= lag ? x[i - lag] : 0.0f);\n}\n"
    )
    (tmp_path / "reference.py").write_text(
        "import numpy as np\n\n\ndef setup(N, seed=0):\n    rng = np.random.default_rng(seed)\n"
        "    x = rng.standard_normal(N).astype(np.float32)\n"
        "    inputs = {'x': x, 'y': np.empty_like(x), 'N': N, 'lag': 3}\n"
        "    return {'inputs': inputs, 'outputs': ['y']}\n"
        "\n\ndef reference(x, y, N, lag):\n    y[:] = x\n    y[lag:] -= x[:-lag]\n"
    )
    (tmp_path / "target.yaml").write_text(
        "name: difference\nlanguage: c\nkernel: kernel.c\nreference: reference.py\n"
        "workloads:\n  - {N: 4096}\n"
    )
    found = read(load_target(tmp_path / "target.yaml"), tmp_path / "builds")
    assert not found.doubts
    assert found.flops == {"N=4096": 4093.0}


def test_every_result_of_a_loop_is_told_and_counted_by_what_it_becomes(tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text(
        "void solve(const float *x, float *y, unsigned char *z, int T, int N, float a) {}"
    )
    (tmp_path / "r.py").write_text(
        "import numpy as np\n\n\ndef setup(T, N, seed=0):\n"
        "    x = np.random.default_rng(seed).standard_normal((T, N), dtype=np.float32)\n"
        "    y, z = np.zeros((T, N), np.float32), np.zeros((T, N), np.uint8)\n"
        "    given = {'x': x, 'y': y, 'z': z, 'T': T, 'N': N, 'a': 0.875}\n"
        "    return {'inputs': given, 'outputs': ['y', 'z']}\n\n\n"
        "def reference(x, y, z, T, N, a):\n    v = np.zeros(N)\n    for t in range(T):\n"
        "        v = a * v + x[t]\n        y[t] = v\n        z[t] = v > 0\n"
    )
    path = tmp_path / "target.yaml"
    path.write_text("language: c\nkernel: k.c\nreference: r.py\nworkloads: [{T: 40, N: 30}]\n")
    found = read(load_target(path), tmp_path / "builds")
    results = [line for line in found.operations if " after T times " in line]
    assert len({line.partition(" = ")[2] for line in results}) == 2
    assert set(found.flops.values()) == {2 * 40 * 30}


def test_what_cannot_be_read_says_why_and_counts_nothing(tmp_path: Path) -> None:
    target = load_target(EXAMPLES / "softmax" / "target.yaml")
    assert target.reference is not None
    text = target.reference.text.replace(
        "shifted =", "import ctypes; ctypes.CDLL(None).nothing\n    shifted ="
    )
    reference = target.reference.model_copy(update={"text": text})
    found = read(target.model_copy(update={"reference": reference}), tmp_path)
    assert found.doubts
    assert not found.flops


def test_a_file_beside_the_reference_is_no_library(tmp_path: Path) -> None:
    target = load_target(EXAMPLES / "softmax" / "target.yaml")
    helper = SourceFile(path="json.py", text=f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    found = read(target.model_copy(update={"reference_files": (helper,)}), tmp_path / "builds")
    assert found.operator == "softmax"
    assert not (tmp_path / "ran").exists(), "it ran before the reader's walls were up"


@pytest.mark.parametrize(
    ("declared", "family", "used"),
    [(7.0, None, "declared"), (None, None, "read"), (None, "elementwise", "read")],
)
def test_what_is_declared_comes_before_what_is_read(
    declared: float | None, family: str | None, used: str
) -> None:
    said = WorkloadDescription((), {}, flops=declared, bytes=64.0, atol=None, rtol=None)
    found = cost(WORKLOAD, said, family, 5.0)
    assert [one.origin for one in found.counts if one.quantity == "flops" and one.used] == [used]
    assert found.least_flops == (7.0 if declared else 0.0)


def test_a_brief_shows_what_is_computed() -> None:
    write = dict(SECTIONS)["reference"]
    read_ = {"operator": "softmax", "operations": ["t1[N] = max(x, axis 1)"], "doubts": []}
    found = {
        "reference": {"r.py": "pass"}, "directory": "d", "round": 2, "computed": read_,
        "self_reported": False,
    }  # fmt: skip
    assert "t1[N] = max(x, axis 1)" in write(found, 0, 9000)
    assert "max(x" not in write({**found, "computed": None}, 0, 9000)


def ways(found: Explanation, *, decided: bool, changed: int, covered: bool) -> tuple[int, bool]:
    """Ways that are tried, each with the same result; whether they explain it."""
    tried = 0
    for _ in found.seeds():
        tried += 1
        if found.is_complete(decided=decided, changed=changed, covered=covered):
            return tried, True
    return tried, False


@pytest.mark.parametrize(
    ("decided", "changed", "covered", "expected"),
    [
        (True, 3, True, (1, True)),
        (False, 3, True, (JOLTS, True)),
        (True, 2, True, (JOLTS, False)),
        (False, 2, True, (ENOUGH + 1, False)),
        (True, 0, True, (ENOUGH + 1, False)),
        (True, 3, False, (JOLTS, False)),
    ],
)
def test_a_jump_is_explained_by_what_moving_changes(
    decided: bool, changed: int, covered: bool, expected: tuple[int, bool]
) -> None:
    found = Explanation(wrong=3, is_other=False, is_decided=False)
    assert ways(found, decided=decided, changed=changed, covered=covered) == expected


def test_what_the_order_of_inputs_decides_is_explained_only_if_rounding_does() -> None:
    found = Explanation(wrong=3, is_other=False, is_decided=False, is_ordered=True)
    expected = (ENOUGH + 1, False)
    assert ways(found, decided=False, changed=3, covered=True) == expected
    found = Explanation(wrong=3, is_other=False, is_decided=False, is_ordered=True)
    assert ways(found, decided=True, changed=3, covered=True) == (1, True)


def test_on_other_inputs_nearly_all_elements_may_be_wrong() -> None:
    found = Explanation(wrong=4096, is_other=True, is_decided=True)
    assert ways(found, decided=False, changed=4000, covered=True) == (1, True)
    found = Explanation(wrong=4096, is_other=True, is_decided=True)
    expected = (ENOUGH_OTHERS + 1, False)
    assert ways(found, decided=False, changed=100, covered=True) == expected


@pytest.mark.parametrize(("changed", "tried"), [(0, ENOUGH_OTHERS + 1), (1, JOLTS)])
def test_what_is_only_beyond_the_budget_together_is_given_up_where_moving_changes_nothing(
    changed: int, tried: int
) -> None:
    found = Explanation(wrong=0, is_other=True, is_decided=True)
    assert ways(found, decided=False, changed=changed, covered=False) == (tried, False)


OWN, MOVED, LEAP = Errors(1e-8, 5e-8), Errors(1e-5, 8e-5), Errors(1e-5, 1e-2)


@pytest.mark.parametrize(
    ("moved", "dtype", "leaps", "expected"),
    [
        (MOVED, "float32", False, MOVED),
        (MOVED, "float32", True, MOVED),
        (LEAP, "float32", True, OWN),
        (LEAP, "float32", False, LEAP),
        (MOVED, "bfloat16", False, OWN),
        (MOVED, "int8", False, OWN),
        (None, "float32", False, OWN),
    ],
)
def test_honest_is_what_moved_inputs_make(
    moved: Errors | None, dtype: str, leaps: bool, expected: Errors
) -> None:
    """A reference that computes in float64 makes next to no error, whatever its arrays are."""
    assert on_own_draws(OWN, moved, dtype, leaps=leaps) == expected


def test_a_strain_survives_the_way_to_the_parent() -> None:
    found = {"y": Strain(Errors(1.0, 2.0), Errors(0.5, 4.0))}
    assert from_message(as_message(found)) == found
    assert found["y"].ratio == (2.0, 1.0)
