"""A PyTorch file becomes a target whose kernel the judge finds right."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from typer.testing import CliRunner

from kinds import another
from roofsmith import api
from roofsmith.cli.pytorch import told_of
from roofsmith.cli.root import cli
from roofsmith.domain.modes import FirstLanguage
from roofsmith.errors import RoofsmithError, StorageError, TargetError, UsageError
from roofsmith.targets.file import load_target
from roofsmith.targets.pytorch.backends import BACKENDS
from roofsmith.testing.observer import SilentObserver

FILES = Path(__file__).parent / "pytorch_files"


def made(
    name: str, language: FirstLanguage, output: Path, *, force: bool = False
) -> api.ImportedModel:
    path, function = api.pytorch_file(str(FILES / name))
    file = api.PyTorchFile(path, function, language, output)
    return api.initialize_pytorch(file, api.settings(), SilentObserver(), force=force)


def run_test(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """What the folder's own test says where there is no GPU."""
    hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, *words, "test_kernel.py"]
    return subprocess.run(command, cwd=folder, env=hidden, capture_output=True, text=True)


def require_right(folder: Path) -> None:
    tested = run_test(folder)
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert tested.stdout.count("PASS") >= len(load_target(folder).workloads)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "language"),
    [
        ("half.py", "c"), another("conv.py", "cpp"), another("gain.py", "c"),
        another("mlp.py", "c"),
        another("attention.py:CausalSelfAttention", "c"), another("embed.py", "c"),
        another("inplace.py", "c"), another("whole.py", "cpp"), another("nested.py", "c"),
        another("loss.py", "c"), another("batchnorm.py", "c"),
    ],
)  # fmt: skip
def test_the_first_kernel_is_right(name: str, language: FirstLanguage, tmp_path: Path) -> None:
    """Of the others test_pytorch_files proves the reference, and test_schedules what is written."""
    found = made(name, language, tmp_path / "it is new")
    assert found.is_tried
    assert found.wrong == ()
    assert {"reference.py", "test_kernel.py", "analysis.md", "target.yaml"} < set(found.files)
    require_right(found.directory)
    analysis = (found.directory / "analysis.md").read_text()
    assert "## Accuracy" in analysis
    assert "a worst relative error of " in analysis


@pytest.mark.slow
def test_its_own_test_finds_a_wrong_number_and_its_threads_are_told_once(tmp_path: Path) -> None:
    source, folder = str(FILES / "several.py"), tmp_path / "it is new"
    words = ["init", "--from-pytorch", source, "--output", str(folder), "--threads", "1"]
    done = CliRunner().invoke(cli, [*words, "--framework", "cpp"])
    assert done.exit_code == 0, done.output
    assert "the kernel is right on every workload" in done.output
    target = load_target(folder)
    assert (target.threads, target.language) == (1, "cpp")
    require_right(folder)
    kernel = folder / target.kernel.path
    kernel.write_text(kernel.read_text().replace("0.25", "0.26"))
    tested = run_test(folder)
    assert tested.returncode == 1
    assert "FAIL" in tested.stdout


@pytest.mark.slow
def test_a_first_kernel_in_cuda_keeps_16_bits_and_says_where_it_cannot_run(tmp_path: Path) -> None:
    folder = made("half.py", "cuda", tmp_path / "new").directory
    assert load_target(folder).language == "cuda"
    assert re.search(r"void solve\(const __\w+ \*", (folder / "kernel.cu").read_text())
    for words in ((), ("-m", "pytest", "-rs")):
        tested = run_test(folder, *words)
        assert tested.returncode == 0, tested.stdout + tested.stderr
        assert "not tried: PyTorch sees no GPU" in tested.stdout


@pytest.mark.slow
def test_a_kernel_in_pytorch_is_the_module_itself(tmp_path: Path) -> None:
    folder = made("mlp.py", "torch", tmp_path / "new").directory
    target = load_target(folder)
    assert target.language == "torch"
    assert [one.path for one in target.includes] == ["mlp.py"]
    assert [one.path for one in target.reference_files] == ["mlp.py"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import torch\n\n\ndef f(x):\n    return torch.linalg.svdvals(x)\n", "model.py:5"),
        ("import urllib.request\nurllib.request.urlopen('http://127.0.0.1:1')\n", "model.py:2"),
        another("open(__file__ + '.txt', 'w')\n", "model.py:1"),  # walls: test_compiler_walls.py
        another("import os\nos._exit(3)\n", "ended"),
        ("import os\nos.kill(os.getpid(), 9)\n", "out of memory"),
    ],
)
def test_what_a_worker_meets_is_one_message(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "model.py"
    path.write_text(text + "\n\ndef get_inputs():\n    return [torch.randn(3, 8, 8)]\n")
    file = api.PyTorchFile(path, None, "c", tmp_path / "new")
    with pytest.raises(TargetError, match=said):
        api.initialize_pytorch(file, api.settings(), SilentObserver())
    assert not (tmp_path / "new").exists()
    assert not (tmp_path / "model.py.txt").exists()


def test_what_a_command_takes_somebody_writes() -> None:
    assert set(get_args(FirstLanguage)) == BACKENDS.keys()


@pytest.mark.parametrize("is_tried", [True, False])
def test_the_next_command_is_one(is_tried: bool) -> None:
    told = told_of(api.ImportedModel(Path("new"), (), (), (), is_tried))[-1]
    words = told.removeprefix("next: roofsmith ").partition(" new")[0].split()
    assert CliRunner().invoke(cli, [*words, "--help"]).exit_code == 0


def test_what_needs_no_worker_is_said_at_once(tmp_path: Path) -> None:
    def refused(path: Path, kind: type[RoofsmithError], **said: object) -> str:
        file = api.PyTorchFile(path, None, **{"language": "c", "output": tmp_path / "new"} | said)  # type: ignore[arg-type]
        with pytest.raises(kind) as error:
            api.initialize_pytorch(file, api.settings(), SilentObserver())
        assert error.value.exit_code == 2
        return str(error.value)

    mlp, wrong, full = FILES / "mlp.py", tmp_path / "wrong.py", tmp_path / "full"
    wrong.write_text("def f(x:\n    return x\n")
    full.mkdir()
    (full / "notes.txt").write_text("mine")
    assert "doesn't exist" in refused(tmp_path / "none.py", TargetError)
    assert "wrong.py:1" in refused(wrong, TargetError)
    assert "no .py file" in refused(full / "notes.txt", TargetError)
    assert "exists already" in refused(mlp, TargetError, output=full)
    assert "exists already" in refused(mlp, TargetError, output=wrong)
    assert "nobody here writes" in refused(mlp, UsageError, language="hip")
    (tmp_path / "locked").write_text("")
    assert "can't make" in refused(mlp, StorageError, output=tmp_path / "locked" / "new")
    assert not (tmp_path / "new").exists()


def test_imports_beside_a_reference_come_along(tmp_path: Path) -> None:
    for name in ("several.py", "mlp.py"):
        shutil.copy(FILES / name, tmp_path)
    (tmp_path / "k.c").write_text("void solve(const float *x, float *y, int N) { y[0] = x[0]; }\n")
    (tmp_path / "ref.py").write_text("import several\n\n\ndef reference(x, y, N):\n    y[:] = x\n")
    (tmp_path / "several.py").write_text("import mlp\nimport json\n")
    (tmp_path / "target.yaml").write_text("kernel: k.c\nreference: ref.py\nworkloads: [{N: 4}]\n")
    target = load_target(tmp_path)
    assert [one.path for one in target.reference_files] == ["several.py", "mlp.py"]
    assert type(target).model_validate(target.model_dump(mode="json")) == target


def test_what_a_made_kernel_has_of_itself_is_not_dropped_in_silence() -> None:
    source = str(FILES / "several.py")
    done = CliRunner().invoke(cli, ["optimize", source, "--framework", "c", "--entry", "f"])
    assert done.exit_code == 2
    assert "--entry" in done.output
