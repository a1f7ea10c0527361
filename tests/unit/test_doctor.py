"""What doctor says of machines that are well, lack something, or answer with nonsense."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from campaign_builder import campaign_of, started
from simulated_machine import (
    GCC,
    IDLE,
    UUID,
    Machine,
    h100,
    host,
    look,
    named,
    raises,
    settings,
    settings_with,
    standing,
    write,
)

from roofsmith.analysis.own_facts import own_facts
from roofsmith.api import doctor
from roofsmith.api.doctor.snapshot import Inquiry, build_openmp, take
from roofsmith.citations.check import audit
from roofsmith.citations.sources import CitationSources
from roofsmith.cli.this_machine import examination_document, examined
from roofsmith.domain.clocks import ClockClaim, ClockSettings
from roofsmith.domain.device import Environment
from roofsmith.domain.outcome import BuildFailed
from roofsmith.domain.processor_time import ProcessorTime
from roofsmith.errors import MachineError, TargetError, ToolMissingError
from roofsmith.judge.sandbox.inside import LANDLOCK
from roofsmith.machine import permissions
from roofsmith.machine.frameworks import TorchBuild
from roofsmith.machine.plugged import vendors
from roofsmith.report.campaign_files import render_campaign
from roofsmith.report.manifest import env_check

GOLDEN = Path(__file__).parent.parent / "golden"
EXAMPLES = Path(__file__).parents[2] / "examples"
C = EXAMPLES / "softmax"
CUDA = EXAMPLES / "cuda" / "softmax"
TRITON = EXAMPLES / "triton" / "softmax"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


# -- what is required follows from the target -----------------------------------------------


def test_a_machine_without_a_gpu_is_well_for_c(root: Path) -> None:
    found = look(host(root))
    assert found.ready
    assert named(found, "GPU").level == "absent"
    assert found.problems == ()
    assert "nvcc" not in {check.name for check in found.checks}


def test_a_c_target_needs_gcc_alone(root: Path) -> None:
    found = look(host(root), C)
    assert found.ready
    assert found.summary == "C: ready"
    assert {check.area for check in found.checks} == {
        "processor", "compilers", "Python", "profilers", "isolation", "files"
    }  # fmt: skip
    required = {check.name for check in found.checks if check.required}
    assert required == {"C", "cache", "campaigns"}


@pytest.mark.rule("environment-examined")
def test_without_a_compiler_nothing_runs(root: Path) -> None:
    found = look(host(root, compilers=dict))
    assert not found.ready
    check = named(found, "C")
    assert (check.level, check.required) == ("missing", True)
    assert "apt-get install gcc" in (check.fix or "")
    assert "C/C++: not ready (no gcc, no g++)" in found.summary


def test_a_target_that_insists_on_clang(root: Path, tmp_path: Path) -> None:
    target = tmp_path / "target.yaml"
    target.write_text(
        f"kernel: {C / 'kernel.c'}\nreference: {C / 'reference.py'}\n"
        "workloads: [{N: 64, D: 64}]\nbuild: {compiler: clang}\n"
    )
    found = look(host(root), target)
    assert not found.ready
    assert named(found, "C").detail.startswith("no clang on PATH")
    both = host(root, compilers=lambda: {"gcc": GCC, "clang": "clang version 14"})
    assert look(both, target).ready


def test_a_cuda_target_on_a_machine_without_a_gpu(root: Path) -> None:
    found = look(host(root), CUDA)
    assert not found.ready
    lacking = {check.name for check in found.checks if check.level == "missing"}
    assert lacking == {"GPU", "nvcc", "PyTorch"}
    assert all(check.fix for check in found.problems)
    assert "perf" not in {check.name for check in found.checks}


@pytest.mark.parametrize("kernel", [CUDA / "kernel.cu", CUDA / "target.yaml", CUDA, TRITON])
def test_an_h100_is_ready_for_its_targets(root: Path, kernel: Path) -> None:
    found = look(h100(root), kernel)
    assert found.ready, found.summary
    assert [check.name for check in found.problems] == []


def test_an_h100_without_a_target(root: Path) -> None:
    found = look(h100(root))
    assert standing(found) == {
        "C/C++": True, "CUDA": True, "HIP": False, "Triton": True, "PyTorch": True
    }  # fmt: skip
    assert "HIP: not ready (no AMD GPU" in found.summary


def test_a_target_that_is_not_there(root: Path) -> None:
    with pytest.raises(TargetError, match="doesn't exist"):
        look(host(root), root / "missing.yaml")


# -- the host -------------------------------------------------------------------------------


@pytest.mark.parametrize(("average", "level"), [(0.0, "ok"), (999.0, "limited")])
def test_other_work(root: Path, average: float, level: str) -> None:
    check = named(look(host(root, load=lambda: average)), "load")
    assert check.level == level
    assert f"load average {average:.1f} on 2 processors" in check.detail


@pytest.mark.parametrize(
    ("stolen_s", "level", "share"), [(2.0, "ok", "2.0%"), (23.0, "limited", "23%")]
)
def test_a_host_that_takes_processors_away(
    root: Path, stolen_s: float, level: str, share: str
) -> None:
    times = ProcessorTime(wanted_s=100.0, stolen_s=stolen_s)
    check = named(look(host(root, processor_time=lambda: times)), "steal")
    assert check.level == level
    assert share in check.detail
    never = ProcessorTime(wanted_s=100.0, stolen_s=0.0)
    found = look(host(root, processor_time=lambda: never))
    assert "steal" not in [check.name for check in found.checks]


@pytest.mark.parametrize(
    ("free", "level"), [(10 << 30, "ok"), (512 << 20, "limited"), (1 << 20, "missing")]
)
def test_a_disk_that_fills(root: Path, free: int, level: str) -> None:
    found = look(host(root, room=lambda folder: free), C)
    assert named(found, "cache").level == level
    assert found.ready == (level != "missing")


def test_a_cache_that_cannot_be_written(root: Path) -> None:
    full = OSError(30, "Read-only file system")
    found = look(host(root, room=raises(full)), C)
    assert not found.ready
    assert "Read-only file system" in named(found, "cache").detail
    assert "ROOFSMITH_CACHE" in (named(found, "cache").fix or "")


def without(machine: Machine, *tools: str) -> Machine:
    known: Environment = machine.answers["environment"]()
    kept = {name: line for name, line in known.tools.items() if name not in tools}
    return machine.but(environment=lambda: known.model_copy(update={"tools": kept}))


def test_no_git_no_profilers(root: Path) -> None:
    found = look(without(host(root), "git", "perf", "valgrind"), C)
    assert found.ready
    for name in ("git", "perf", "valgrind"):
        assert named(found, name).level == "limited"
        assert "apt-get install" in (named(found, name).fix or "")


def test_counters_of_the_processor(root: Path) -> None:
    sources = host(root)
    write(root, {"proc/sys/kernel/perf_event_paranoid": "4\n", "proc/self/status": "CapEff:\t0\n"})
    check = named(look(sources), "perf")
    assert check.level == "limited"
    assert check.fix == "sudo sysctl kernel.perf_event_paranoid=2"
    (root / "sys/bus/event_source/devices/software").mkdir(parents=True)
    write(root, {"proc/sys/kernel/perf_event_paranoid": "1\n"})
    assert "no hardware counters" in named(look(sources), "perf").detail
    (root / "sys/bus/event_source/devices/cpu").mkdir()
    assert named(look(sources), "perf").level == "ok"


def test_walls_that_are_lacking(root: Path) -> None:
    found = look(host(root, isolation=lambda: {LANDLOCK: "the kernel is too old"}), C)
    assert named(found, LANDLOCK).detail == "lacking: the kernel is too old"
    assert "Linux 6.2" in (named(found, LANDLOCK).fix or "")


def test_openmp_that_does_not_build(root: Path) -> None:
    failed = BuildFailed(reason="compile_error", detail="cannot find -lgomp")
    check = named(look(host(root, openmp=lambda: failed), C), "OpenMP")
    assert check.level == "limited"
    assert "libgomp1" in (check.fix or "")


CLANG = """#!/bin/sh
case "$*" in
*--version*) echo "clang version 14.0.6" ;;
*) echo "probe.c:1:10: fatal error: 'omp.h' file not found" >&2; exit 1 ;;
esac
"""


@pytest.mark.parametrize(
    ("build", "level"),
    [("{compiler: clang, flags: [-O3, -fopenmp]}", "missing"), ("{compiler: clang}", "limited")],
)
def test_openmp_is_that_of_the_targets_compiler(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, build: str, level: str
) -> None:
    target = tmp_path / "target.yaml"
    target.write_text(
        f"kernel: {C / 'kernel.c'}\nreference: {C / 'reference.py'}\n"
        f"workloads: [{{N: 64, D: 64}}]\nbuild: {build}\n"
    )
    clang = tmp_path / "bin" / "clang"
    write(tmp_path, {"bin/clang": CLANG})
    clang.chmod(0o755)
    monkeypatch.setenv("PATH", f"{clang.parent}:{os.environ['PATH']}")
    asked = Inquiry(language="c", compiler="clang")
    there = host(
        root,
        compilers=lambda: {"gcc": GCC, "clang": "clang version 14"},
        openmp=lambda: build_openmp(tmp_path / "builds", asked),
    )
    found = look(there, target)
    check = named(found, "OpenMP")
    assert check.level == level
    assert found.ready == (level == "limited")
    assert "libomp-dev" in (check.fix or "")


def test_openmp_without_the_targets_compiler(root: Path) -> None:
    found = look(host(root, openmp=raises(ToolMissingError("no clang"))), C)
    assert "OpenMP" not in [check.name for check in found.checks]


# -- what was left behind -------------------------------------------------------------------


def test_clocks_that_a_killed_run_left_locked(root: Path) -> None:
    from roofsmith.machine.clocks import this_process

    sources = h100(root)
    folder = settings(root).clocks_dir
    owner = this_process()
    dead = owner.model_copy(update={"started_ticks": owner.started_ticks + 1})
    claim = ClockClaim(uuid=UUID, before=ClockSettings(), owner=dead)
    write(folder, {"gpu.json": claim.model_dump_json()})
    check = named(look(sources, CUDA), "locked clocks")
    assert check.level == "limited"
    assert f"of {UUID}, by a run that was killed" in check.detail
    assert f"nvidia-smi -i {UUID} -rgc" in (check.fix or "")
    alive = claim.model_copy(update={"owner": owner})
    write(folder, {"gpu.json": alive.model_dump_json()})
    assert "locked clocks" not in {check.name for check in look(sources, CUDA).checks}
    write(folder, {"gpu.json": "nonsense"})
    assert "can't be read" in named(look(sources, CUDA), "locked clocks").detail


def test_a_wiki_that_is_named_and_not_there(root: Path) -> None:
    lost = replace(settings(root), wiki_dir=root / "facts", wiki_named=True)
    check = named(look(host(root).but(wiki=lambda: lost.own_pages())), "wiki")
    assert check.level == "limited"
    assert check.detail == f"the wiki {root / 'facts'} is no folder"
    assert "ROOFSMITH_WIKI" in (check.fix or "")


# -- questions to the system ----------------------------------------------------------------


def test_a_tool_that_hangs_is_given_up_before_people_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "valgrind"
    tool.write_text("#!/bin/sh\nexec sleep 600\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    s = take(settings(tmp_path), Inquiry(device_language="c"), vendors(tmp_path), "nvidia", 0.3)
    while not s.environment.has_come:
        time.sleep(0.01)
    assert set(s.environment.value(None).tools) == {"python"}


def test_a_campaign_asks_only_what_it_depends_on(root: Path) -> None:
    names = {check.name for check in look(h100(root), CUDA, brief=True).checks}
    assert {"NVIDIA GPU", "in use", "nvcc", "PyTorch", "ncu", "load", "cache"} <= names
    assert not {"OpenMP", "packages", "wiki"} & names
    s = take(settings(root), Inquiry(device_language="c", brief=True), vendors(root), "amd", 60.0)
    for never in (s.openmp, s.wiki, s.cuda, s.fleet["nvidia"], s.tools["ncu"]):
        assert never.has_come
        with pytest.raises(MachineError, match="wasn't asked"):
            never.get()


def test_only_gpus_of_known_vendors_are_plugged_in(root: Path) -> None:
    write(
        root,
        {
            "sys/bus/pci/devices/a/vendor": "0x10de\n",  # NVIDIA's, but a sound card
            "sys/bus/pci/devices/a/class": "0x040300\n",
            "sys/bus/pci/devices/b/vendor": "0x8086\n",
            "sys/bus/pci/devices/b/class": "0x030000\n",
        },
    )
    assert vendors(root).present == frozenset()


@pytest.mark.parametrize(
    ("mapped", "capable"), [("0 0 4294967295\n", True), ("0 1000 1\n", False), ("", True)]
)
def test_a_capability_counts_on_the_host_only(root: Path, mapped: str, capable: bool) -> None:
    write(root, {"proc/self/status": f"CapEff:\t{1 << 38:016x}\n", "proc/self/uid_map": mapped})
    assert permissions.capable(permissions.CAP_PERFMON, root) is capable
    assert not permissions.capable(permissions.CAP_SYS_ADMIN, root)


def test_capabilities_and_the_gpus_counters(root: Path) -> None:
    assert permissions.gpu_counters_permitted(root) is None
    write(
        root,
        {
            "proc/driver/nvidia/params": "RmProfilingAdminOnly: 1\n",
            "proc/self/status": f"CapEff:\t{1 << 38:016x}\n",
        },
    )
    assert permissions.gpu_counters_permitted(root, "580.159.04") is True
    assert permissions.gpu_counters_permitted(root, "550.54") is False
    assert permissions.gpu_counters_permitted(root) is False


def test_frameworks_stay_out_of_our_own_process(tmp_path: Path) -> None:
    code = (
        "import sys; from roofsmith import api; api.doctor.DEADLINE_S = 300.0;"
        " api.examine(api.settings()); print({'torch', 'triton'} & sys.modules.keys() or 'none')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=True,
        env=os.environ | {"ROOFSMITH_CACHE": str(tmp_path)},
    )  # fmt: skip
    assert done.stdout == "none\n"


# -- how it is shown ------------------------------------------------------------------------


def troubled(root: Path) -> Machine:
    """Much is set up badly, and others work here."""
    bad = settings_with(power_limit_w=400.0, mig=True, application_clock_hz=1.2e9)
    busy = IDLE.model_copy(update={"memory_used_bytes": 20 << 30, "utilisation": 0.97})
    return h100(
        root, gpu_settings=bad, fleet=lambda vendor: (busy,), load=lambda: 7.5,
        room=lambda folder: 512 << 20, ncu=lambda: None, tools=lambda name: None,
        torch_build=lambda: TorchBuild("2.11.0+cpu"), torch_sees=None,
    )  # fmt: skip


MACHINES = {"h100": h100, "host": host, "troubled": troubled}


@pytest.mark.rule("env-check")
@pytest.mark.parametrize("name", MACHINES)
def test_env_check_is_as_recorded(root: Path, name: str) -> None:
    found = look(MACHINES[name](root))
    page = env_check(found).replace(str(root), "/home/me")
    place = GOLDEN / "doctor" / f"env_check_{name}.md"
    if os.environ.get("ROOFSMITH_UPDATE_GOLDEN"):
        place.write_text(page)
    assert page == place.read_text()


@pytest.mark.parametrize("name", MACHINES)
def test_the_page_of_a_campaign_passes_its_audit(root: Path, name: str) -> None:
    begun = started().model_copy(update={"examination": look(MACHINES[name](root))})
    campaign = campaign_of([begun])
    page = render_campaign(campaign).files["env_check.md"]
    found = audit({"env_check.md": page}, CitationSources(lambda place: (), own_facts(begun)))
    assert (found.citations, found.problems) == (1, ())


def test_a_campaign_that_nobody_examined_has_no_page() -> None:
    assert "env_check.md" not in render_campaign(campaign_of([started()])).files


def test_every_check_is_explained(root: Path) -> None:
    page = (EXAMPLES.parent / "docs" / "doctor.md").read_text()
    explained = set(re.findall(r"`([^`]+)`", "".join(re.findall(r"^\| (`.*?) \|", page, re.M))))
    names = set()
    for path in sorted(Path(doctor.__file__).parent.glob("*.py")):
        names |= set(re.findall(r'(?:Topic\("\w+", |topic\()"([^"]+)"', path.read_text()))
    assert names - {"walls"} <= explained
    assert explained <= names | {f"{vendor} GPU" for vendor in ("AMD", "NVIDIA")} | OTHERS


OTHERS = {
    "C", "C++", "cache", "campaigns", "clocks", "power", "heat", "modes", "driver", "MIG",
    "persistence",
}  # fmt: skip
"""Checks whose name is no keyword in the source."""


def test_every_problem_has_a_fix_in_one_line(root: Path) -> None:
    worst = without(
        host(root, compilers=dict, load=lambda: 99.0, room=lambda folder: 0), "git", "perf"
    )
    found = look(worst, CUDA)
    assert len(found.problems) >= 8
    for check in found.problems:
        assert check.fix, check.name
        assert "\n" not in check.fix
        assert "\n" not in check.detail


def test_a_fix_stands_below_its_problem(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    examined(look(troubled(root), CUDA))
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line != line.rstrip()] == []
    (torch,) = (number for number, line in enumerate(lines) if line.startswith("  PyTorch"))
    assert lines[torch].split()[:3] == ["PyTorch", "missing", "2.11.0+cpu"]
    assert lines[torch + 1].split()[:2] == ["fix", "install"]
    assert lines[-2:] == ["CUDA: not ready (torch without CUDA)", f"{CUDA} can't run here"]


def test_the_document_is_json(root: Path) -> None:
    shown = json.loads(json.dumps(examination_document(look(h100(root), CUDA))))
    assert shown["ready"] is True
    assert shown["language"] == "cuda"
    keys = {"area", "name", "level", "detail", "fix", "languages", "required", "below"}
    assert keys == set(shown["checks"][0])


CONFTEST = Path(__file__).parents[1] / "conftest.py"
TESTS = '''\
import subprocess, sys, tempfile
import pytest

PROGRAM = """
import fcntl, pathlib, os, sys, tempfile
place = pathlib.Path(tempfile.gettempdir(), f"roofsmith-tests-{os.getuid()}")
with (place / "machine").open("w") as machine:
    fcntl.flock(machine, getattr(fcntl, sys.argv[1]) | fcntl.LOCK_NB)
"""


def another_may_have_it(how):
    """Whether a test in another process would get the machine now."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, how], capture_output=True, text=True)
    assert done.returncode == 0 or "BlockingIOError" in done.stderr, done.stderr
    return done.returncode == 0


def test_who_measures_is_alone_wherever_temporary_files_go(tmp_path, monkeypatch, alone):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert another_may_have_it("LOCK_SH")
    with alone():
        assert not another_may_have_it("LOCK_SH")
        with alone():
            assert not another_may_have_it("LOCK_SH")
        assert not another_may_have_it("LOCK_SH")
    assert another_may_have_it("LOCK_SH")
    assert not another_may_have_it("LOCK_EX")
    assert not any(tmp_path.iterdir())


@pytest.mark.timing
def test_so_is_a_test_that_is_marked():
    assert not another_may_have_it("LOCK_SH")
'''


def test_who_measures_is_alone(tmp_path: Path) -> None:
    suite, locks = tmp_path / "suite", tmp_path / "locks"
    suite.mkdir()
    locks.mkdir()
    shutil.copy(CONFTEST, suite)
    (suite / "test_alone.py").write_text(TESTS)
    (suite / "pytest.ini").write_text("[pytest]\nmarkers =\n    timing\n    slow\n")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"],
        cwd=suite, env={**environment, "TMPDIR": str(locks)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
    assert [place.name for place in locks.glob("roofsmith-*")] == [f"roofsmith-tests-{os.getuid()}"]
