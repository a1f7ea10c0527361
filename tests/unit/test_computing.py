"""What a reference computes, as the survey keeps it."""

from __future__ import annotations

from pathlib import Path

import pytest

from roofsmith.analysis.cost import cost
from roofsmith.api.computing import computed, reading
from roofsmith.asking.sections import SECTIONS
from roofsmith.domain.computed import Computed
from roofsmith.domain.description import WorkloadDescription
from roofsmith.domain.kernel import SourceFile
from roofsmith.domain.target import Target
from roofsmith.domain.workload import Workload
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
    found = {"reference": {"r.py": "pass"}, "directory": "d", "round": 2, "computed": read_}
    assert "t1[N] = max(x, axis 1)" in write(found, 0, 9000)
    assert "max(x" not in write({**found, "computed": None}, 0, 9000)
