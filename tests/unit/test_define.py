"""A campaign from one sentence: what is read, what is looked up, what is said to be missing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from roofsmith.api.defining import Defined, define
from roofsmith.cli import beginning
from roofsmith.cli.root import cli
from roofsmith.config import Settings
from roofsmith.targets.file import load_target
from roofsmith.targets.sentence import read_sentence

EXAMPLES = Path(__file__).parents[2] / "examples"
assert beginning


def read(text: str) -> dict[str, object]:
    found = read_sentence(text)
    return {name: one.value for name in found.said if (one := found.get(name)) is not None}


SEED_003 = (
    "/kernel-opt-skill Please optimize this kernel <kernel.cu>, run 3 iterations, output to <d>"
)
SEED_004 = (
    "Please optimize the blockwise FP8 GEMM Triton implementation in Primus-Turbo, target GPU is"
    " MI300X."
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (SEED_003, {"kernel": "kernel.cu", "iterations": 3, "output": "d"}),
        (SEED_004, {"op": "gemm_fp8_blockwise", "framework": "TRITON", "project": "Primus-Turbo",
                    "platform": "MI300X"}),
        ("optimize on H20, write it in CuteDSL", {"platform": "H20", "framework": "CUTEDSL"}),
        ("k.cu, ten rounds, an hour and a half, > 500 TFLOPS",
         {"iterations": 10, "budget_s": 5400.0, "goal_flops": 5e14}),
        ("k.cu for 20 minutes until it's 2x faster, don't commit, on branch perf/k",
         {"budget_s": 1200.0, "goal_speedup": 2.0, "commit": False, "branch": "perf/k"}),
        ("k.cu, target 60% of peak, keep fp32 accuracy",
         {"goal_fraction": 0.6, "notes": "keep fp32 accuracy"}),
        ("'my kernels/a b.cu' against \"my ref.py\" with M=N=64, K=32 and M=1, N=2, K=3",
         {"kernel": "my kernels/a b.cu", "reference": "my ref.py",
          "workloads": ("M=64,N=64,K=32", "M=1,N=2,K=3")}),
        ("target_backend: CK, target_gpu: gfx942, git_branch: none, project_skill: turbo-develop",
         {"framework": "CK", "platform": "gfx942", "branch": "none", "skill": "turbo-develop"}),
        ("in the aiter repo, benchmark with 'python b.py --csv x', only edit kernels/pa.py",
         {"project": "aiter", "benchmark": "python b.py --csv x", "editable": "kernels/pa.py"}),
        ("triton/k.py, performance_target=null, primary metric: forward TFLOPS",
         {"kernel": "triton/k.py", "metric": "forward TFLOPS", "goal_none": True}),
        ("port x/cuda/k.py to HIP/CK", {"kernel": "x/cuda/k.py"}),
        ("port conv.py from PyTorch to Triton", {"framework": "TRITON", "kernel": "conv.py"}),
        ("k.cu: exactly five rounds, at least 1.5 TiB/s, target_shapes: n=64K",
         {"exactly": True, "iterations": 5, "goal_bytes": 1.5 * 2**40, "workloads": ("n=64K",)}),
        ("keep at k.cu until I stop you, no goal", {"iterations": "forever", "goal_none": True}),
        ("10 rounds of k.cu, no time limit", {"iterations": 10, "kernel": "k.cu"}),
        ("k.cu with no limit of rounds, below 40 us", {"iterations": "none", "goal_time": 4e-5}),
        ("k.cu, half a minute", {"budget_s": 30.0}),
        ("don't spend more than ninety seconds on k.cu", {"budget_s": 90.0, "kernel": "k.cu"}),
        ("give k.cu two and a half hours", {"budget_s": 9000.0}),
        ("k.cu within forty-five minutes, two dozen goes", {"budget_s": 2700.0, "iterations": 24}),
        ("k.cu: at most a couple of rounds and a quarter of an hour",
         {"budget_s": 900.0, "iterations": 2}),
        ("k.cu, a day at most, never touch git", {"budget_s": 86400.0, "commit": False}),
        ("leave whatever you find in runs/ln: k.cu", {"output": "runs/ln"}),
        ("k.cu, nothing outside of /tmp/t, with lock-clocks",
         {"output": "/tmp/t", "lock_clocks": True}),
        ("run `./bench --all` and run `pytest -q`",
         {"benchmark": "./bench --all", "test": "pytest -q"}),
        ("half a dozen tries at k.cu, measure with './t.sh'",
         {"iterations": 6, "benchmark": "./t.sh"}),
        ("k.cu at 40 GB a second", {"kernel": "k.cu"}),
        ("k.cu, do not make any commits", {"commit": False}),
        ("k.cu, don't push or commit to main", {"commit": False}),
        ("k.cu on\n| N | D |\n|---|---|\n| 1k | 64 |\n| 4K | 2^7 |\n3 rounds",
         {"workloads": ("N=1k,D=64", "N=4K,D=2^7"), "iterations": 3}),
        ("k.cu\nM N\n1k 2000\n", {"workloads": ("M=1k,N=2000",)}),
        ("max_iterations: null; k.cu or 3x faster", {"iterations": "none", "goal_speedup": 3.0}),
    ],
)  # fmt: skip
def test_what_is_said_is_read(text: str, said: dict[str, object]) -> None:
    assert said.items() <= read(text).items()


def test_what_no_rule_reads_is_said_and_not_guessed() -> None:
    found = read_sentence("optimize k.cu overnight with a shiny profiler, N=4q")
    assert found.not_understood == ("overnight", "shiny profiler", "N=4q")
    assert found.get("workloads") is None
    for text in ("k.cu with N=1,024", "k.cu\nN D\n1k 64 9\n", "run the kernel\n3 4 5\n"):
        assert read_sentence(text).get("workloads") is None


@pytest.mark.parametrize(
    "text", ["", "\0", "(" * 500, "N=" * 2000, "`$(rm -rf /)`; run", "a " * 5000, "{x} {path} %s"]
)
def test_hostile_text_is_data(text: str) -> None:
    read_sentence(text)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "softmax").mkdir()
    for source in (EXAMPLES / "softmax" / "kernel.c", EXAMPLES / "softmax" / "reference.py"):
        (tmp_path / "softmax" / source.name).write_text(source.read_text())
    (tmp_path / "triton_add.py").write_text(
        "import torch\nimport triton\ndef setup(n=1024, seed=42, **kwargs): ...\n"
        "def run_kernel(**kwargs): ...\n"
    )
    (tmp_path / "ref.py").write_text("def reference(**kwargs): ...\n")
    (tmp_path / "model.py").write_text("def norm(x): ...\n")
    return tmp_path


@pytest.fixture
def defined(here: Path) -> Callable[[str], Defined]:
    return lambda text: define(text, Settings.from_environment({"HOME": str(here)}, here))


def test_what_follows_is_looked_up(defined: Callable[[str], Defined]) -> None:
    found = defined("optimize this Triton kernel triton_add.py on MI300X, 5 iterations")
    assert not found.missing
    wanted = {
        "target_lang": "TRITON", "target_gpu": "gfx942", "arch": "CDNA 3", "reference": "ref.py",
        "target_shapes": ("n=1024",), "execution_mode": "workspace", "max_iterations": 5,
    }  # fmt: skip
    assert wanted.items() <= found.values.items()
    assert found.sources["target_shapes"] == "setup()'s own defaults"
    assert found.sources["target_gpu"] == "wiki/amd-mi300x.yaml"
    assert found.values["output"].startswith("campaigns/elementwise_triton_gfx942_")


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("make it fast", {"kernel", "framework", "platform", "reference", "workloads"}),
        ("optimize triton_add.py", {"platform"}),
        ("optimize triton_add.py on H100 and H20", {"platform"}),
        ("optimize triton_add.py on H100, target_gpu: gfx942", {"platform"}),
        ("optimize triton_add.py on H100 on this machine", {"platform"}),
        ("optimize triton_add.py on H999", {"platform"}),
        ("optimize triton_add.py on H100 in CuteDSL", {"framework"}),
        ("optimize triton_add.py on H100, 500 rounds", {"iterations"}),
        ("optimize the gemm in Primus-Turbo on MI300X", {"project", "editable", "benchmark"}),
    ],
)
def test_what_is_missing_is_named(
    defined: Callable[[str], Defined], text: str, missing: set[str]
) -> None:
    assert defined(text).missing.keys() == missing


@pytest.mark.parametrize(
    ("said", "platform", "arch"),
    [
        ("MI300X (gfx942)", "Instinct MI300X", "gfx942"),
        ("sm_90 and H100", "H100", "sm_90"),
        ("gfx942", "gfx942", "gfx942"),
    ],
)
def test_a_product_beside_its_architecture_is_one_thing(
    defined: Callable[[str], Defined], said: str, platform: str, arch: str
) -> None:
    found = defined(f"optimize triton_add.py on {said}")
    assert not found.missing
    assert (found.values["platform"], found.values["target_gpu"]) == (platform, arch)


@pytest.mark.parametrize(
    ("text", "skill"),
    [
        ("optimize softmax/kernel.c", "gpu-kernel-profile-optimizer"),
        ("why is softmax/kernel.c slow", "gpu-kernel-bottleneck-analysis"),
        ("optimize model.py on H100 in Triton", "gpu-kernel-baseline"),
        ("optimize the gemm in Primus-Turbo on MI300X", "kernel-optimize"),
    ],
)
def test_the_phase_names_its_page(defined: Callable[[str], Defined], text: str, skill: str) -> None:
    assert defined(text).values["skill"] == skill
    assert (EXAMPLES.parent / "skills" / skill / "SKILL.md").is_file()


def test_a_projects_skill_gives_its_commands(here: Path, defined: Callable[[str], Defined]) -> None:
    page = here / "proj" / "skills" / "proj-develop" / "SKILL.md"
    page.parent.mkdir(parents=True)
    (here / "proj" / ".git").mkdir()
    page.write_text(
        "---\nname: proj-develop\n---\n# How to work on it\n\n```yaml\n"
        "editable: src/*.py\ntest: pytest -q\nbenchmark: python bench.py\nrm: -rf\n```\n"
    )
    found = defined("project: proj; project skill: proj-develop; test with 'make test'; on H100")
    assert not found.missing
    wanted = {"editable": "src/*.py", "benchmark": "python bench.py", "test": "make test"}
    assert wanted.items() <= found.values.items()
    assert found.sources["benchmark"] == "proj/skills/proj-develop/SKILL.md"
    assert "rm" not in found.values
    assert defined("project: proj; project skill: other; on H100").missing.keys() == {
        "editable", "benchmark",
    }  # fmt: skip


def test_what_no_campaign_does_is_said(defined: Callable[[str], Defined]) -> None:
    found = defined("optimize triton_add.py on this machine, below 40 us, don't commit")
    assert not found.missing
    assert any("40 us" in one for one in found.unmet)
    assert any("branch of its own" in one for one in found.unmet)


@pytest.mark.parametrize(
    ("said", "goal", "stop", "options"),
    [
        ("target 500 TFLOPS or 3x, exactly 5 iterations", {"tflops": 500.0, "speedup": 3.0},
         {"fixed_iterations": True}, "--iterations 5"),
        ("at least 2 TB/s, run forever", {"gbs": 2000.0}, {}, "--forever"),
        ("60% of peak, run forever", {"roofline_fraction": 0.6}, {"max_iterations": None}, ""),
        ("no goal, no limit of rounds", {"roofline_fraction": None}, {"max_iterations": None}, ""),
    ],
)  # fmt: skip
def test_goals_and_limits_reach_the_target(
    here: Path, said: str, goal: dict[str, object], stop: dict[str, object], options: str
) -> None:
    text = f"optimize softmax/kernel.c, N=8,D=8, on branch perf/s, into out, {said}"
    result = CliRunner().invoke(cli, ["campaign", "define", text, "--yes"])
    assert result.exit_code == 0, result.output
    begins = f"softmax/target.yaml {options} --output out".replace("  ", " ")
    assert result.stdout.splitlines()[-1].endswith(f"roofsmith optimize {begins}")
    target = load_target(here / "softmax")
    assert target.branch == "perf/s"
    assert goal.items() <= target.goal.model_dump().items()
    assert stop.items() <= target.stop.model_dump().items()


def test_yes_writes_a_target_that_carries_the_sentence(here: Path) -> None:
    text = (
        "optimize softmax/kernel.c, N=8,D=8, 3 rounds, target 60% of peak, don't touch D, into out/"
    )
    result = CliRunner().invoke(cli, ["define", text, "--yes"])
    assert result.exit_code == 0, result.output
    command = "roofsmith optimize softmax/target.yaml --iterations 3 --output out/"
    assert result.stdout.splitlines()[-1] == f"start it with: {command}"
    target = load_target(here / "softmax")
    assert target.goal.roofline_fraction == 0.6
    assert target.notes == "don't touch D"
    assert target.definition is not None
    assert target.definition.sentence == text
    assert target.definition.target_backend == "C"


def test_without_yes_nothing_is_written(here: Path) -> None:
    result = CliRunner().invoke(cli, ["define", "--json", "optimize softmax/kernel.c, overnight"])
    document = json.loads(result.stdout)
    assert result.exit_code == 2
    assert document["missing"].keys() == {"workloads"}
    assert document["not_understood"] == ["overnight"]
    assert not (here / "softmax" / "target.yaml").exists()


def test_nobody_to_ask_is_an_error_that_says_what_to_do(here: Path) -> None:
    result = CliRunner().invoke(cli, ["define", "optimize softmax/kernel.c, N=8,D=8"])
    assert result.exit_code == 2
    assert "--yes" in result.stderr
    assert not (here / "softmax" / "target.yaml").exists()


def test_a_target_without_a_sentence_is_as_before(here: Path) -> None:
    (here / "t.yaml").write_text(
        yaml.safe_dump({
            "kernel": "softmax/kernel.c", "reference": "softmax/reference.py",
            "workloads": [{"N": 8, "D": 8}],
        })
    )  # fmt: skip
    assert "definition" not in load_target(here / "t.yaml").model_dump()


@pytest.mark.rule("env-check")
def test_a_campaign_on_another_machine_leaves_a_report(here: Path) -> None:
    text = "optimize softmax/kernel.c, N=8,D=8, platform: H100"
    assert CliRunner().invoke(cli, ["define", text, "--yes"]).exit_code == 0
    begin = ["optimize", "softmax/target.yaml", "--proposer", "none", "--output", "run"]
    result = CliRunner().invoke(cli, begin)
    assert result.exit_code == 2
    assert sorted(path.name for path in (here / "run").iterdir()) == [
        "env_check.md", "error_report.md",
    ]  # fmt: skip
    report = (here / "run" / "error_report.md").read_text()
    assert "is defined for H100" in report
    assert "**Fix**: start it there" in report
    assert "**Again**: `" in report
    path = here / "softmax" / "target.yaml"
    path.write_text(path.read_text().replace("platform: H100", "").replace("target_gpu: sm_90", ""))
    assert CliRunner().invoke(cli, begin).exit_code == 0
    manifest = yaml.safe_load((here / "run" / "manifest.yaml").read_text())
    assert manifest["target_op"] == "softmax"
    assert manifest["project_skill"] is None
    assert not (here / "run" / "error_report.md").exists()


def test_a_goal_of_a_benchmark_is_shown(here: Path, defined: Callable[[str], Defined]) -> None:
    (here / "rp" / ".git").mkdir(parents=True)
    said = "in the rp project, in C, edit 'src/*.c', benchmark with './bench', below 40 us"
    found = defined(f"optimize the gemm {said}")
    assert not found.missing
    assert found.kind == "repository"
    assert any("below 40 us" in line for line in found.lines)
