"""The bundled examples: each kernel computes what its reference says."""

from __future__ import annotations

import ctypes
import re
import runpy
import shlex
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from recipe_bench import needs_gcc
from repository_bench import without_ceilings, without_profilers
from typer.testing import CliRunner

from kinds import another
from roofsmith.api import demonstration as demo
from roofsmith.api.reading import read_campaign
from roofsmith.api.subjects import bundled_example
from roofsmith.cli.root import cli
from roofsmith.errors import MachineError
from roofsmith.judge import patience
from roofsmith.machine.frameworks import TorchBuild
from roofsmith.proposers.source import Source
from roofsmith.targets.file import load_target

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = {
    "softmax": {"N": 5, "D": 37},
    "sgemm": {"M": 9, "N": 17, "K": 33},
    "attention": {"N": 12, "d": 24, "h": 3},
}


@needs_gcc
@pytest.mark.parametrize("name", SMALL)
def test_kernel_and_reference_agree(name: str, tmp_path: Path) -> None:
    library = tmp_path / "kernel.so"
    command = ["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    kernel = EXAMPLES / name / "kernel.c"
    subprocess.run([*command, str(kernel), "-o", str(library), "-lm"], check=True, timeout=600)
    module = runpy.run_path(str(EXAMPLES / name / "reference.py"))
    made = module["setup"](**SMALL[name], seed=3)
    inputs, outputs = made["inputs"], made["outputs"]
    with np.errstate(invalid="ignore"):  # outputs hold whatever lay in memory
        expected = {
            key: value.astype(np.float64) if isinstance(value, np.ndarray) else value
            for key, value in inputs.items()
        }
    module["reference"](**expected)
    passed = [
        ctypes.c_void_p(value.ctypes.data) if isinstance(value, np.ndarray) else ctypes.c_int(value)
        for value in inputs.values()
    ]
    ctypes.CDLL(str(library)).solve(*passed)
    for output in outputs:
        np.testing.assert_allclose(inputs[output], expected[output], rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", SMALL)
def test_setup_gives_the_arguments_in_the_order_of_solve(name: str) -> None:
    solve = Source((EXAMPLES / name / "kernel.c").read_text()).function("solve")
    module = runpy.run_path(str(EXAMPLES / name / "reference.py"))
    made = module["setup"](**SMALL[name], seed=0)
    assert list(made["inputs"]) == [parameter.name for parameter in solve.parameters]
    writable = [p.name for p in solve.parameters if p.pointer and not p.const]
    assert made["outputs"] == writable


@pytest.mark.parametrize("name", SMALL)
def test_seeds_change_inputs_and_repeat(name: str) -> None:
    setup = runpy.run_path(str(EXAMPLES / name / "reference.py"))["setup"]
    first, again, other = (setup(**SMALL[name], seed=seed)["inputs"] for seed in (1, 1, 2))
    array = next(key for key, value in first.items() if isinstance(value, np.ndarray))
    assert np.array_equal(first[array], again[array])
    assert not np.array_equal(first[array], other[array])


@pytest.mark.parametrize("name", SMALL)
def test_declared_bytes_are_those_of_the_arrays(name: str) -> None:
    module = runpy.run_path(str(EXAMPLES / name / "reference.py"))
    inputs = module["setup"](**SMALL[name])["inputs"]
    moved = sum(value.nbytes for value in inputs.values() if isinstance(value, np.ndarray))
    assert module["bytes"](**SMALL[name]) == moved
    assert module["flops"](**SMALL[name]) > 0


@pytest.mark.parametrize("name", SMALL)
def test_targets_name_their_files_and_dimensions(name: str) -> None:
    target = load_target(EXAMPLES / name)
    assert target.name == name
    assert target.kernel.text == (EXAMPLES / name / "kernel.c").read_text()
    for workload in target.workloads:
        assert list(workload.dims) == list(SMALL[name])


class Device:
    def __init__(self, error=None):
        self.error = error

    def device(self):
        if self.error is not None:
            raise self.error


@pytest.fixture
def gpu_machine(tmp_path, monkeypatch):
    """A machine with everything; what a test takes away is asked for by name."""
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidiactl").touch()
    parts = {
        "torch_build": lambda: TorchBuild("2.11", cuda="13.0"), "triton_version": lambda: "3.6",
        "find_program": lambda name: name, "source_for": lambda language, root: Device(),
    }  # fmt: skip

    def made(**changed):
        for name, part in (parts | changed).items():
            monkeypatch.setattr(demo, name, part)
        return tmp_path

    return made


def test_a_gpu_is_taken_with_triton_else_with_nvcc(gpu_machine):
    for changed, language in (({}, "triton"), ({"triton_version": lambda: None}, "cuda")):
        choice = demo.choose_demo(root=gpu_machine(**changed))
        with bundled_example(choice.example) as path:
            assert load_target(path).language == language
    assert demo.choose_demo(cpu=True, root=gpu_machine()).example == "softmax"


@pytest.mark.parametrize(
    "changed",
    [
        {"torch_build": lambda: None},
        {"torch_build": lambda: TorchBuild("2.11")},
        {"triton_version": lambda: None, "find_program": lambda name: None},
        {"source_for": lambda language, root: Device(MachineError("it hangs"))},
    ],
)
def test_without_what_a_gpu_needs_processors_are_taken(gpu_machine, changed):
    choice = demo.choose_demo(root=gpu_machine(**changed))
    assert choice.example == "softmax"
    assert "GPU" in choice.line


def test_without_a_driver_nothing_of_torch_is_looked_at(tmp_path):
    assert demo.choose_demo(root=tmp_path).example == "softmax"


PAGE = Path(__file__).parents[2] / "docs" / "kernels.md"
SECTIONS = {
    title: text
    for title, text in re.findall(r"^## (.*?)$(.*?)(?=^## |\Z)", PAGE.read_text(), re.M | re.S)
    if "First it tries" in text
}
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
LESS = {
    "n=4000000": "n=400000",
    "rows=20000": "rows=2000",
    "nnz=400000": "nnz=40000",
    "N=96": "N=48",
}


def without_numbers(text: str) -> str:
    return re.sub(r"\d+", "N", text)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
@pytest.mark.parametrize("title", [next(iter(SECTIONS)), *map(another, [*SECTIONS][1:])])
def test_the_page_s_kernels_come_to_a_judged_change(
    title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_ceilings(monkeypatch, tmp_path / "cache")
    without_profilers(monkeypatch, tmp_path)
    monkeypatch.setattr(patience, "LONGEST_S", 3.0)  # whatever the verdict is
    monkeypatch.chdir(tmp_path)
    text = SECTIONS[title]
    blocks = dict(FENCE.findall(text))
    kernel, reference = re.findall(r"^`(\S+)`:$", text, re.M)
    (tmp_path / kernel).write_text(blocks["c"])
    (tmp_path / reference).write_text(blocks["python"])
    for line in blocks["sh"].splitlines():
        for much, little in LESS.items():
            line = line.replace(much, little)
        done = CliRunner().invoke(cli, shlex.split(line)[1:])
        if "disturbed" in done.stderr:
            pytest.skip(f"this machine is too busy to measure: {done.stderr.strip()}")
        assert done.exit_code == 0, (line, done.stdout, done.stderr)
        if " init " in line:
            target = tmp_path / "target.yaml"
            keep = "keep: {judge_budget_s: 1, error_rate: 0.1}"
            target.write_text(f"{target.read_text()}\nheld_out: 0\n{keep}\n")
    first, *_ = read_campaign(tmp_path / "campaign").rounds
    (said,) = re.findall(r"First it tries: (.*)\.$", text, re.M)
    assert without_numbers(first.hypothesis.statement) == without_numbers(said)
    assert first.judgement.outcome.kind == "passed"
