"""Commands in front of a GPU that others use, as NVML tells of it."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import pynvml
import pytest
import typer
from fleet_stand_ins import nvml_of
from repository_bench import (
    BENCHMARK,
    TARGET,
    make_repository,
    needs_git,
    run,
    without_ceilings,
)
from simulated_fleet import idle_gpu

from roofsmith import api
from roofsmith.api import first_runs
from roofsmith.api.repositories import noticing_gpu_use, open_target_repository
from roofsmith.cli import campaigns
from roofsmith.cli.screen import PlainScreen
from roofsmith.config import Settings
from roofsmith.domain.command import CommandSpec
from roofsmith.domain.fleet import GpuProcess, GpuStatus
from roofsmith.engine.loop import Engine
from roofsmith.errors import DeviceFailedError, NoIdleGpuError
from roofsmith.machine.lease import FileLeases
from roofsmith.machine.lock_files import lock_name
from roofsmith.selftest import examination
from roofsmith.selftest.samples import samples
from roofsmith.targets.file import load_target
from roofsmith.testing.clock import FakeClock
from roofsmith.testing.engine import FakeWorld, fake_target
from roofsmith.testing.judge import FakeKernels
from roofsmith.testing.observer import SilentObserver

UUID = "GPU-00000000-1111-2222-3333-444444444444"
H100 = idle_gpu().model_copy(update={"uuid": UUID})
KERNEL = """
extern "C" __global__ void twice(const float *x, float *y, int n) { }
extern "C" void solve(const float *x, float *y, int n) { }
"""
REFERENCE = "def reference(x, y, n): y.copy_(2 * x)\n"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        Path("/dev/nvidiactl").exists(), reason="a real driver would answer before the stand-in"
    ),
]


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Path]:
    """A kernel, and an H100 that NVML shows as gpus.json says."""
    (tmp_path / "twice.cu").write_text(KERNEL)
    (tmp_path / "reference.py").write_text(REFERENCE)
    shown(tmp_path, H100)
    leases = Path(tempfile.mkdtemp(prefix="leases-", dir="/tmp"))
    (tmp_path / "leases").symlink_to(leases)
    yield tmp_path
    shutil.rmtree(leases)


def shown(here: Path, gpu: GpuStatus) -> None:
    (here / "gpus.json").write_text(f"[{gpu.model_dump_json()}]")


def occupied_by(here: Path, pid: int, name: str) -> None:
    held = GpuProcess(pid=pid, name=name, memory_bytes=2 << 30)
    shown(here, H100.model_copy(update={"processes": (held,), "memory_used_bytes": 2 << 30}))


def environment_of(here: Path) -> dict[str, str]:
    return {
        "ROOFSMITH_CACHE": f"{here}/cache",
        "ROOFSMITH_LEASES": f"{here}/leases",
        "ROOFSMITH_GATE_WINDOW_S": "0.1",
    }


MAIN = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parent)!r})
import pynvml
from fleet_stand_ins import nvml_of
vars(pynvml).update(nvml_of(Path("gpus.json")))
from roofsmith.cli import main
main()
"""


def roofsmith(here: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    given = {**os.environ, **environment_of(here), **environment}
    return subprocess.run(
        [sys.executable, "-c", MAIN, *arguments],
        cwd=here, env=given, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip


@pytest.fixture
def surroundings(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where commands may run in this process: an error that isn't told is raised."""
    monkeypatch.chdir(here)
    for name, value in environment_of(here).items():
        monkeypatch.setenv(name, value)
    for name, function in nvml_of(here / "gpus.json").items():
        monkeypatch.setattr(pynvml, name, function)
    return here


CHECK = ("check", "twice.cu", "--ref", "reference.py", "--workload", "n=64")


def test_a_step_on_a_busy_gpu_says_who_is_there_and_exits_2(here: Path) -> None:
    occupied_by(here, os.getpid(), "python3")
    done = roofsmith(here, *CHECK, "--no-wait", "--json")
    assert done.returncode == 2
    said = json.loads(done.stdout)["error"]
    assert said["kind"] == "NoIdleGpuError"
    assert f"pid {os.getpid()}" in said["message"]
    assert f"pid {os.getpid()}" in done.stderr
    assert "no GPU was idle; nobody is preempted" in done.stderr
    assert "Traceback" not in done.stderr
    assert not FileLeases(FakeClock(), "x", here / "leases").held()


def test_the_wait_is_seen_on_stderr_and_ends(
    surroundings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    occupied_by(surroundings, os.getppid(), "python3")
    monkeypatch.setenv("ROOFSMITH_GATE_WAIT_S", "1")
    for give_up_s in ("2", "15", "90"):  # on a busy machine, the first look alone takes a while
        monkeypatch.setenv("ROOFSMITH_GATE_GIVE_UP_S", give_up_s)
        code, _, errors = run(*CHECK)
        assert code == 2
        assert re.search(r"no GPU was idle for \d:\d\d;", errors)
        if "gate: next look in 0:01" in errors:
            break
    assert "gate: next look in 0:01" in errors


def test_a_leased_gpu_is_left_to_its_holder_who_is_named(here: Path) -> None:
    lease = FileLeases(FakeClock(), "roofsmith optimize far.yaml", here / "leases").take(UUID)
    assert (here / "leases" / lock_name(UUID)).exists()
    done = roofsmith(here, *CHECK, "--no-wait")
    lease.release()  # type: ignore[union-attr]
    assert done.returncode == 2
    assert f"leased by pid {os.getpid()} (" in done.stderr
    assert "roofsmith optimize far.yaml, since" in done.stderr


def test_an_idle_gpu_whose_cuda_fails_is_an_error_of_cuda(surroundings: Path) -> None:
    """It passed the gate: NVML shows it, and then the driver has none."""
    code, _, errors = run(*CHECK, "--no-wait")
    assert code == 2
    assert "no NVIDIA GPU can be used here" in errors
    assert "Traceback" not in errors


INIT = ("--editable", "src/*.rows", "--test", "sh test.sh",
        "--benchmark", "sh bench.sh", "--results", "out/*.csv", "--force")  # fmt: skip


@needs_git
def test_the_commands_of_a_repository_on_a_gpu_wait_before_init_runs_any(
    surroundings: Path,
) -> None:
    here = surroundings
    make_repository(here / "repo", test_sh=f"touch {here}/ran\n")
    written = (here / "repo" / "target.yaml").read_text()
    occupied_by(here, os.getppid(), "python3")
    code, _, errors = run("init", "--repo", here / "repo", *INIT, "--device", "gpu", "--no-wait")
    assert code == 2
    assert f"pid {os.getppid()}" in errors
    assert "no GPU was idle; nobody is preempted" in errors
    assert not (here / "ran").exists()
    assert (here / "repo" / "target.yaml").read_text() == written


@dataclass
class Turnstile:
    """A gate that notes what has run by the time when it is passed."""

    log: Path
    uuid: str = UUID
    passed: list[str] = field(default_factory=list)

    def pass_through(self) -> None:
        self.passed.append(self.log.read_text() if self.log.exists() else "")


@needs_git
def test_before_each_run_of_a_repository_s_commands_the_gate_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By init, and by a campaign's first look at the repository."""
    log = tmp_path / "log"
    make_repository(
        tmp_path / "repo", test_sh=f"echo test >> {log}\n",
        bench_sh=f"echo bench >> {log}\n{BENCHMARK}", target_yaml=TARGET + "  device: gpu\n",
    )  # fmt: skip
    gate = Turnstile(log)

    @contextmanager
    def leased(settings: object, language: str, observer: object) -> Iterator[SimpleNamespace]:
        assert language == "triton"
        yield SimpleNamespace(gate=gate)

    settings = Settings(tmp_path / "cache", tmp_path)
    target = load_target(tmp_path / "repo")
    with open_target_repository(target, settings) as repository:
        repository.surveyed(target, SilentObserver(), gate)  # type: ignore[arg-type]
    assert gate.passed == ["", "test\n", "test\nbench\n"]  # the last with broken files

    log.unlink()
    gate.passed.clear()
    monkeypatch.setattr(first_runs, "leased_machine", leased)
    said = {"editable": ["src/*.rows"], "test": "sh test.sh", "benchmark": "sh bench.sh",
            "results": "out/*.csv", "device": "gpu"}  # fmt: skip
    wanted = api.RepositoryInit(tmp_path / "repo", said)
    found = api.initialize_repository(wanted, True, settings, SilentObserver())
    assert gate.passed == ["", "test\n", "test\nbench\n"]
    assert "device: gpu" in found.path.read_text()


def test_before_the_naive_harness_runs_a_kernel_the_gate_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Turnstile(tmp_path / "log")

    @contextmanager
    def leased(settings: object, language: str, observer: object) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(gate=gate, toolchain=SimpleNamespace(build_all=lambda _: ()))

    def opinion(*_: object) -> NoReturn:
        assert gate.passed == [""]
        raise NoIdleGpuError("that will do")

    monkeypatch.setattr(examination, "leased_machine", leased)
    monkeypatch.setattr(examination, "naive_opinion", opinion)
    sample = samples(("cuda",))[0]
    with (
        examination.SelftestExaminer(Settings(tmp_path, tmp_path)) as examiner,
        pytest.raises(NoIdleGpuError, match="will do"),
    ):
        examiner.examine(sample, SilentObserver())


def test_commands_for_the_processors_that_use_a_gpu_are_warned_of(tmp_path: Path) -> None:
    """A file stands in for the GPU's."""
    (tmp_path / "nvidia0").touch()
    files, told = (f"{tmp_path}/nvidia",), list[str]()
    spec = CommandSpec(repo=".", editable=("x",), benchmark="x", metric="x", rows=("n",))
    for seconds in (0.1, 1.0, 10.0, 60.0):
        user = subprocess.Popen(
            ["sh", "-c", f"exec 3<{tmp_path}/nvidia0; read _"], stdin=subprocess.PIPE
        )
        with noticing_gpu_use(spec, told.append, files, every_s=0.01):
            time.sleep(seconds)
        user.communicate()
        if told:
            break
    (warning,) = told
    assert "use a GPU (sh), but its target says `device: cpu`" in warning
    gpu, elsewhere = spec.model_copy(update={"device": "gpu"}), (f"{tmp_path}/kfd",)
    with noticing_gpu_use(spec, told.append, files), noticing_gpu_use(gpu, told.append, files):
        pass
    with noticing_gpu_use(spec, told.append, elsewhere):
        pass
    assert len(told) == 1


def test_the_hosts_languages_know_no_gate(
    surroundings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = surroundings
    without_ceilings(monkeypatch, here / "cache")
    occupied_by(here, os.getppid(), "python3")
    (here / "twice.c").write_text(
        "void solve(const float *x, float *y, int n)"
        "{ for (int i = 0; i < n; i++) y[i] = 2 * x[i]; }"
    )
    (here / "host.py").write_text("def reference(x, y, n): y[:] = 2 * x\n")
    code, out, errors = run(
        "check", "twice.c", "--ref", "host.py", "--workload", "n=64", "--no-wait", "--json"
    )
    assert code == 0, errors
    assert json.loads(out)["outcome"] == "passed"
    assert not list((here / "leases").iterdir())


def test_a_campaign_that_lost_its_gpu_shows_what_it_has_and_how_to_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = FakeWorld(target=fake_target(), kernels=FakeKernels(), ideas=())
    campaign = Engine(there.parts(), "test").run()
    stopped = campaign.stopped.model_copy(
        update={"code": "no_idle_gpu", "detail": "alice is there"}
    )
    campaign = campaign.model_copy(update={"stopped": stopped})
    finished = api.FinishedCampaign(campaign, tmp_path, None, wall_s=1.0, overhead_fraction=None)
    with pytest.raises(typer.Exit) as ended:
        campaigns._run(lambda _: finished, tmp_path / "my run", as_json=True)
    assert ended.value.exit_code == 2
    shown = capsys.readouterr()
    assert json.loads(shown.out)["stopped"]["code"] == "no_idle_gpu"
    assert f"go on with: roofsmith resume '{tmp_path}/my run'" in shown.err


def test_a_campaign_that_gets_no_gpu_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: object) -> NoReturn:
        raise NoIdleGpuError("no GPU was idle")

    for begun in (False, True):
        monkeypatch.setattr(api, "has_campaign", lambda _, begun=begun: begun)
        with pytest.raises(NoIdleGpuError) as error:
            campaigns._run(refused, tmp_path / "run", as_json=False)
        assert ("roofsmith resume" in str(error.value)) is begun


def test_a_campaign_whose_gpu_failed_says_what_to_do_about_it_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failed(_: object) -> NoReturn:
        raise DeviceFailedError("the GPU failed", hint="reset it")

    monkeypatch.setattr(api, "has_campaign", lambda _: True)
    with pytest.raises(NoIdleGpuError, match="the GPU failed") as error:
        campaigns._run(failed, tmp_path / "run", as_json=False)
    assert "reset it; then `roofsmith resume" in str(error.value)


def test_a_log_tells_what_is_in_the_way_each_time() -> None:
    log = io.StringIO()
    screen = PlainScreen(log)
    screen.stage("gate")
    screen.stage("gate", "next look in 10:00; GPU 0: pid 7")
    screen.progress(0.5, "next look in 5:00; GPU 0: pid 7")
    screen.stage("gate", "next look in 10:00; GPU 0: pid 8")
    assert log.getvalue() == (
        "gate: next look in 10:00; GPU 0: pid 7\ngate: next look in 10:00; GPU 0: pid 8\n"
    )
