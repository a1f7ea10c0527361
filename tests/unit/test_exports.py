"""A kernel that left is right in each form, and refuses what nobody judged."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import torch
from brief_targets import make_brief
from campaign_builder import campaign_of, events_for
from typer.testing import CliRunner

from roofsmith.analysis import figures as fmt
from roofsmith.analysis.compare import LARGEST_RATIO
from roofsmith.api.exporting import NOTHING_KEPT, how_fast
from roofsmith.cli.root import cli
from roofsmith.domain.arrays import ArraySpec
from roofsmith.domain.description import WorkloadDescription
from roofsmith.domain.kernel import Signature, SourceFile
from roofsmith.errors import UsageError
from roofsmith.report.summarize import summarize
from roofsmith.report.summary import Ratio
from roofsmith.targets.exports.forms import Winner, definition_of, kernelbench
from roofsmith.targets.file import load_target_file

EXAMPLES = Path(__file__).parents[2] / "examples"
MODEL = """import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, width, eps=1e-5):
        super().__init__()
        self.norm = nn.LayerNorm(width, eps)

    def forward(self, x, scale=1.0):
        return torch.softmax(self.norm(x) * scale, dim=1)


def get_inputs():
    return [torch.randn(32, 48)]


def get_init_inputs():
    return [48]
"""


TIMES = """import numpy as np


def setup(N, K, seed=0):
    x = np.random.default_rng(seed).standard_normal(N).astype(np.float32)
    return {"inputs": {"x": x, "y": np.empty_like(x), "N": N, "K": K}, "outputs": ["y"]}


def reference(x, y, N, K):
    y[:] = x * K
"""


def roofsmith(*words: object) -> str:
    ran = CliRunner().invoke(cli, [*map(str, words)])
    assert ran.exit_code == 0, ran.output + ran.stderr
    return ran.stdout


def loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("a campaign")
    (folder / "norm.py").write_text(MODEL)
    target = folder / "norm"
    roofsmith("init", "--from-pytorch", folder / "norm.py", "--output", target)
    make_brief(target / "target.yaml")
    return optimized(target, folder / "ended")


def optimized(target: Path, ended: Path) -> Path:
    """A campaign that keeps nothing."""
    roofsmith("optimize", target, "--proposer", "none", "--budget-s", "30", "--output", ended)
    return ended


def exported(campaign: Path, form: str, output: Path) -> Path:
    roofsmith("campaign", "export", campaign, "--format", form, "--output", output)
    return output


@pytest.fixture(scope="module")
def model_new(campaign: Path, tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    (file,) = exported(campaign, "kernelbench", tmp_path_factory.mktemp("k") / "k").glob("*.py")
    return loaded(file)


def require_own_tests_pass(folder: Path, source: str = "") -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"],
        cwd=folder, env={"PYTHONPATH": str(folder / source), "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout


def test_a_solution_is_run_by_name(campaign: Path, tmp_path: Path) -> None:
    found = json.loads((exported(campaign, "sol", tmp_path / "s") / "solution.json").read_text())
    assert found["spec"]["entry_point"] == "main.py::run"
    (source,) = found["sources"]
    (tmp_path / "main.py").write_text(source["content"])
    x, norm = torch.randn(32, 48), torch.nn.LayerNorm(48)
    weights = {"norm_weight": norm.weight.detach(), "norm_bias": norm.bias.detach()}
    torch.testing.assert_close(
        loaded(tmp_path / "main.py").run(x=x, **weights), torch.softmax(norm(x).detach(), 1)
    )


def test_a_module_stands_in_for_the_problems(campaign: Path, tmp_path: Path) -> None:
    (file,) = exported(campaign, "kernelbench", tmp_path / "k").glob("*.py")
    module = loaded(file)
    torch.manual_seed(0)
    right, found = module.Model(48), module.ModelNew(48)
    found.load_state_dict(right.state_dict())
    x = torch.randn(32, 48)
    with torch.no_grad():
        torch.testing.assert_close(found(x), right(x))
    for strange in ((torch.randn(31, 48),), (x.double(),), (x, 2.0), (x, x)):
        with pytest.raises(module.NotJudged):
            found(*strange)


@pytest.mark.parametrize(
    ("args", "named", "is_judged"),
    [
        ((48,), {}, True), ((48, 1e-5), {}, True), ((), {"eps": 1e-5, "width": 48}, True),
        ((48, 1.0), {}, False), ((48,), {"eps": 1.0}, False), (([48],), {}, False),
    ],
)  # fmt: skip
def test_a_module_of_other_numbers_isnt_made(
    args: tuple[object, ...], named: dict[str, object], is_judged: bool, model_new: ModuleType
) -> None:
    if is_judged:
        model_new.ModelNew(*args, **named)
        return
    with pytest.raises(model_new.NotJudged):
        model_new.ModelNew(*args, **named)


def test_a_module_doesnt_lose_gradients_in_silence(model_new: ModuleType) -> None:
    found, x = model_new.ModelNew(48), torch.randn(32, 48)
    result = found(x)  # KernelBench's clock calls it with gradients on
    assert result.requires_grad
    with pytest.raises(NotImplementedError):
        result.sum().backward()
    with torch.no_grad():
        assert not found(x).requires_grad


NORMS = """import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.BatchNorm1d(width)
        self.part = nn.Sequential(nn.ReLU(), nn.Dropout(0.5))
        {mode}

    def forward(self, x):
        return self.part(self.norm(x))


def get_inputs():
    return [torch.randn(32, 48)]


def get_init_inputs():
    return [48]
"""


@pytest.mark.parametrize(
    ("mode", "judged"),
    [
        pytest.param("self.eval()", False, marks=pytest.mark.whole, id="eval"),
        pytest.param("self.part.eval()", True, id="train"),
    ],
)
def test_a_module_computes_in_the_mode_that_was_judged_or_not_at_all(
    mode: str, judged: bool, tmp_path: Path
) -> None:
    (tmp_path / "norms.py").write_text(NORMS.replace("{mode}", mode))
    roofsmith("init", "--from-pytorch", tmp_path / "norms.py", "--output", tmp_path / "norms")
    ended = tmp_path / "ended"
    roofsmith(
        "optimize", tmp_path / "norms", "--proposer", "none", "--budget-s", "30", "--output", ended
    )
    (file,) = exported(ended, "kernelbench", tmp_path / "k").glob("*.py")
    module = loaded(file)
    net, x = module.ModelNew(48), torch.randn(32, 48)
    net.norm.running_mean.normal_()
    if judged:
        with pytest.warns(UserWarning, match="running_mean"):
            found = net(x)
    else:
        found = net(x)
    torch.testing.assert_close(found, module.Model.forward(net, x), rtol=1e-4, atol=1e-4)
    for part in (net, net.norm):
        part.train(not judged)
        with pytest.raises(module.NotJudged, match="mode"):
            net(x)
        net.train(judged)
        net.part.eval()
    net.modes_judged.clear()
    with pytest.raises(module.NotJudged, match="mode"):
        net(x)


def test_a_module_that_minds_no_mode_takes_any(model_new: ModuleType) -> None:
    net, x = model_new.ModelNew(48), torch.randn(32, 48)
    torch.testing.assert_close(net.eval()(x), net.train()(x))


def test_inputs_are_what_they_mean_or_refused(model_new: ModuleType) -> None:
    net, x = model_new.ModelNew(48).requires_grad_(requires_grad=False), torch.randn(48, 32)
    truth = model_new.Model.forward
    shifted = torch.randn(32 * 48 + 1)[1:].view(32, 48)
    for one in (x.t(), torch.randn(1, 48).expand(32, 48), shifted):
        torch.testing.assert_close(net(one), truth(net, one), rtol=1e-4, atol=1e-5)
    negated = torch.imag(torch.randn(32, 48, dtype=torch.complex64).conj())
    for strange in (x.t().double(), x.t().bfloat16(), torch.empty(32, 48, device="meta")):
        with pytest.raises((model_new.NotJudged, NotImplementedError)):
            net(strange)
    torch.testing.assert_close(net(negated), truth(net, negated), rtol=1e-4, atol=1e-5)
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(model_new.NotJudged):
        net(x.t())
    with pytest.raises(model_new.NotJudged):
        net.half()(x.t())


@pytest.mark.parametrize(
    "body",
    [
        "x.add_(1)\n    return x * 2",
        pytest.param("return {'a': x * 2}", marks=pytest.mark.whole),
        pytest.param("return (x * 2,)", marks=pytest.mark.whole),
    ],
)
def test_a_module_that_returns_otherwise_isnt_stood_in_for(body: str, tmp_path: Path) -> None:
    text = (
        "import torch\n\n\nclass Model(torch.nn.Module):\n  def forward(self, x):\n    "
        + body
        + "\n\n\ndef get_inputs():\n    return [torch.randn(64)]\n"
    )
    (tmp_path / "m.py").write_text(text)
    roofsmith("init", "--from-pytorch", tmp_path / "m.py", "--output", tmp_path / "m")
    target = load_target_file(tmp_path / "m").target
    role = "inout" if "add_" in body else "input"
    x = ArraySpec(name="x", role=role, dtype="float32", shape=(64,))
    described = WorkloadDescription((x,), {"N": 64}, None, None, None, None)
    winner = Winner(target, target.baseline, Signature(parameters=()), {"N=64": described}, "")
    with pytest.raises(UsageError):
        kernelbench(winner)


def test_a_campaign_that_kept_nothing_says_so(campaign: Path, tmp_path: Path) -> None:
    said = roofsmith("campaign", "export", campaign, "--output", tmp_path / "op")
    for text in (said, (tmp_path / "op" / "README.md").read_text()):
        assert NOTHING_KEPT in text


def test_a_speed_comes_with_what_is_sure_of_it() -> None:
    summary = summarize(campaign_of(events_for(["kept"], stop="budget")))
    open_ended = Ratio(32.64, (3.21, LARGEST_RATIO))
    said = how_fast(replace(summary, speedup=open_ended, is_direct=False))
    assert fmt.ratio(open_ended.value, open_ended.ci) in said
    assert "3.21" in said


def test_a_submission_takes_data(campaign: Path, tmp_path: Path) -> None:
    module = loaded(exported(campaign, "gpu-mode", tmp_path / "g") / "submission.py")
    x = torch.randn(32, 48)
    found = module.custom_kernel((x, torch.ones(48), torch.zeros(48)))
    torch.testing.assert_close(found, torch.softmax(torch.layer_norm(x, (48,)), 1))


def test_an_operator_is_guarded_and_compiles(campaign: Path, tmp_path: Path) -> None:
    folder = exported(campaign, "torch-op", tmp_path / "an operator")
    require_own_tests_pass(folder)
    sys.path.insert(0, str(folder / "src"))
    import norm_c  # type: ignore[import-not-found]

    given = (torch.randn(32, 48), torch.ones(48), torch.zeros(48))
    compiled = torch.compile(lambda *all_: torch.ops.roofsmith.norm_c(*all_) + 1, backend="eager")
    torch.testing.assert_close(compiled(*given), torch.ops.roofsmith.norm_c(*given) + 1)
    assert norm_c.counts == {"kernel": 2}
    other = (torch.randn(7, 48), *given[1:])
    found = torch.ops.roofsmith.norm_c(*other)
    torch.testing.assert_close(found, torch.softmax(torch.layer_norm(other[0], (48,)), 1))
    assert norm_c.counts["reference"] == 1


def test_a_kernel_of_the_hub_loads_from_anywhere(campaign: Path, tmp_path: Path) -> None:
    folder = exported(campaign, "hf-kernels", tmp_path / "hub")
    said = tomllib.loads((folder / "build.toml").read_text())
    assert said["general"]["name"] == "norm-c"
    assert said["torch-noarch"] == {}
    (folder / "torch-ext" / "norm_c" / "_ops.py").write_text(  # as a build makes it
        "def add_op_namespace_prefix(name):\n    return f'_norm_c_1::{name}'\n"
    )
    require_own_tests_pass(folder, "torch-ext")
    place = folder / "torch-ext" / "norm_c" / "__init__.py"
    spec = importlib.util.spec_from_file_location("norm_c_a1b2", place)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["norm_c_a1b2"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    x = torch.randn(7, 48)
    found = module.norm_c(x, torch.ones(48), torch.zeros(48))
    torch.testing.assert_close(found, torch.softmax(torch.layer_norm(x, (48,)), 1))


def test_a_definition_keeps_its_name(tmp_path: Path) -> None:
    file = SourceFile(path="model.py", text="x = 1\nDEFINITION = 'norms/rms'\n_CASES = []\n")
    target = load_target_file(EXAMPLES / "softmax" / "target.yaml").target
    named = target.model_copy(update={"reference_files": (file,)})
    winner = Winner(named, named.baseline, Signature(parameters=()), {}, "")
    assert definition_of(winner) == "norms/rms"


def test_a_reference_in_numpy_is_fallen_back_to(tmp_path: Path) -> None:
    own = tmp_path / "own"
    shutil.copytree(EXAMPLES / "softmax", own)  # a campaign makes a branch where its kernel lies
    make_brief(own / "target.yaml", workloads=[{"N": 8, "D": 32}])
    folder = exported(optimized(own, tmp_path / "ended"), "torch-op", tmp_path / "op")
    require_own_tests_pass(folder)


def test_two_operators_keep_their_own_references(campaign: Path, tmp_path: Path) -> None:
    source = exported(campaign, "torch-op", tmp_path / "op") / "src"
    for name, change in (("one_op", ""), ("other_op", " + 5")):
        shutil.copytree(source / "norm_c", source / name)
        for file in (source / name).glob("*.py"):
            text = file.read_text().replace("norm_c", name)
            file.write_text(text.replace("dim=1)", f"dim=1){change}"))
    code = (
        "import torch, one_op, other_op;"
        "given = torch.randn(7, 48), torch.ones(48), torch.zeros(48);"
        "torch.testing.assert_close(one_op.fallback(*given) + 5, other_op.fallback(*given))"
    )
    subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(source)}, check=True)


def test_shapes_that_say_too_little_arent_exported(tmp_path: Path) -> None:
    (tmp_path / "reference.py").write_text(TIMES)
    (tmp_path / "kernel.c").write_text(
        "void solve(const float* x, float* y, int N, int K) {"
        " for (int i = 0; i < N; i++) y[i] = x[i] * (float)K; }"
    )
    (tmp_path / "target.yaml").write_text("kernel: kernel.c\nreference: reference.py\n")
    sizes = [{"N": 64, "K": 2}, {"N": 64, "K": 3}]
    make_brief(tmp_path / "target.yaml", workloads=sizes)
    ended = optimized(tmp_path, tmp_path / "ended")
    ran = CliRunner().invoke(cli, ["campaign", "export", str(ended), "--output", str(tmp_path)])
    assert ran.exit_code == 2
    assert "of the same shapes" in ran.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--format", "nobodys"], "no format nobodys"),
        (["--format", "patch"], "nothing was kept"),
        (["--format", "sol", "--output", "{there}"], "exists already"),
    ],
)
def test_what_cant_be_exported_is_said(
    words: list[str], said: str, campaign: Path, tmp_path: Path
) -> None:
    (tmp_path / "solution.json").write_text("mine")
    given = [word.format(there=tmp_path) for word in words]
    ran = CliRunner().invoke(cli, ["campaign", "export", str(campaign), *given])
    assert ran.exit_code == 2
    assert said in ran.stderr
    assert (tmp_path / "solution.json").read_text() == "mine"
