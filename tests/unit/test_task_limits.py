from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from campaign_builder import target

from kinds import another
from roofsmith import job_limits, task_limits
from roofsmith.domain.outcome import Crashed, Failure, Passed
from roofsmith.engine.records import baseline_error
from roofsmith.errors import MachineError
from roofsmith.job_limits import granted, job_processors, memory_limit
from roofsmith.judge.post_mortem import ended, for_lack_of_threads
from roofsmith.task_limits import TaskLimit, naming_limits, tasks_of_user, tightest_limit

OPENMP = "it printed: libgomp: Thread creation failed: Resource temporarily unavailable"


def printed(words: str) -> Failure:
    died = ended("run", 1)
    return died.model_copy(update={"detail": f"{died.detail}; {words}"})


def limit(left: int) -> TaskLimit:
    return TaskLimit("pids.max", 100, left, "a cure")


@pytest.mark.parametrize("left", [0, 1023])
def test_a_lower_limit_of_the_machine_is_no_fault_of_the_kernel(left: int) -> None:
    found = for_lack_of_threads(printed(OPENMP), 1024, limit(left))
    assert (found.reason, found.exit_code) == ("no_threads", 2)
    assert "pids.max is 100" in found.detail
    assert isinstance(baseline_error(found, target()), MachineError)


@pytest.mark.parametrize("machine", [None, limit(1024)])
def test_more_threads_than_any_kernel_gets_are_its_own_fault(machine: TaskLimit | None) -> None:
    found = for_lack_of_threads(printed(OPENMP), 1024, machine)
    assert (found.reason, found.exit_code) == ("exited", 1)
    assert "1024" in found.detail


def test_other_ends_stay_as_they_are() -> None:
    killed = Crashed(reason="signal_sigsegv", detail="killed")
    assert for_lack_of_threads(killed, 1024, limit(0)) == killed
    assert Passed().exit_code == 0


def test_the_limit_that_leaves_least_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_limits, "CGROUPS", tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_000_000)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (50, 70))
    found = tightest_limit()
    assert found is not None
    assert (found.name, found.value, found.left) == ("RLIMIT_NPROC", 50, 50)
    (tmp_path / "pids.max").write_text("max")
    (tmp_path / "pids.current").write_text("3")
    assert getattr(tightest_limit(raised=True), "value", None) == 70


def test_a_group_of_either_version_may_have_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_limits, "CGROUPS", tmp_path)
    listed = Path("/proc/self/cgroup").read_text().splitlines()
    names = {line.split(":", 2)[1] for line in listed} & {"", "pids"}
    if not names:
        pytest.skip("no control group that counts processes")
    root = tmp_path / names.pop()
    root.mkdir(exist_ok=True)
    (root / "pids.max").write_text("12")
    (root / "pids.current").write_text("5")
    found = tightest_limit()
    assert found is not None
    assert (found.name, found.value, found.left) == ("pids.max", 12, 7)


def test_own_tasks_are_counted() -> None:
    assert tasks_of_user() >= 1


def refuse(*_: object, **__: object) -> None:
    raise BlockingIOError(11, "Resource temporarily unavailable")


def test_python_without_threads_is_the_machines_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MachineError), naming_limits():
        raise RuntimeError("can't start new thread")
    monkeypatch.setattr(subprocess, "_fork_exec", refuse)
    with pytest.raises(MachineError), naming_limits():
        subprocess.run(["true"], check=False)


@pytest.mark.parametrize("error", [RuntimeError("something else"), BlockingIOError(11, "a lock")])
def test_other_errors_pass(error: Exception) -> None:
    with pytest.raises(type(error)), naming_limits():
        raise error


SUMS = """\
static const float shift[200000] = {[0 ... 199999] = 1.0f};
void solve(const float* x, float* y, int N) {
    for (int i = 0; i < N; i++) y[i] = x[i] + shift[i & 131071];
}
"""


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
@pytest.mark.parametrize(
    ("kind", "most", "cure"),
    [
        (resource.RLIMIT_FSIZE, 400 * 1024, "ulimit -f"),
        another(resource.RLIMIT_FSIZE, 2 * 1024**2, "ulimit -f"),
        (resource.RLIMIT_NOFILE, 12, "ulimit -n"),
    ],
    ids=["compiler", "arrays", "descriptors"],
)
def test_a_limit_on_files_is_named_and_nobody_else_is_blamed(
    tmp_path: Path, kind: int, most: int, cure: str
) -> None:
    (tmp_path / "k.c").write_text(SUMS)
    (tmp_path / "r.py").write_text("def reference(x, y, N):\n    y[:] = x + 1\n")
    hard = resource.getrlimit(kind)[1]
    words = "kernel judge k.c --against k.c --ref r.py --workload N=1048576 --threads 1"
    done = subprocess.run(
        [sys.executable, "-m", "roofsmith", *words.split()], cwd=tmp_path, text=True,
        env={**os.environ, "ROOFSMITH_CACHE": str(tmp_path / "cache")}, capture_output=True,
        preexec_fn=lambda: resource.setrlimit(kind, (most, hard)),
    )  # fmt: skip
    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
    assert cure in done.stderr


REFERENCE = """
import numpy as np

def reference(x, y, N):
    y[:] = 2 * x
"""
KERNEL = (
    "void solve(const float *x, float *y, int N) { for (int i = 0; i < N; i++) y[i] = x[i] * 2; }"
)


def test_a_limit_of_ones_own_is_never_exceeded(monkeypatch: pytest.MonkeyPatch) -> None:
    unlimited = resource.RLIM_INFINITY
    for limits, most in {
        (unlimited, unlimited): 100,
        (50, unlimited): 50,
        (unlimited, 70): 70,
    }.items():
        monkeypatch.setattr(job_limits.resource, "getrlimit", lambda _, limits=limits: limits)
        assert granted(resource.RLIMIT_AS, 100) == most


@pytest.mark.parametrize(
    ("environment", "limit_bytes", "processors"),
    [
        ({}, None, None),
        ({"SLURM_JOB_ID": "1", "SLURM_MEM_PER_NODE": "2", "SLURM_CPUS_PER_TASK": "3"}, 2 << 20, 3),
        ({"SLURM_MEM_PER_CPU": "2", "SLURM_CPUS_ON_NODE": "4"}, 8 << 20, None),
        ({"SLURM_MEM_PER_NODE": "0"}, None, None),
        ({"PBS_JOBID": "1", "PBS_RESC_TOTAL_MEM": "4096", "NCPUS": "2"}, 4096, 2),
        ({"NCPUS": "2"}, None, None),
    ],
)
def test_what_a_batch_system_grants_is_read(
    environment: dict[str, str],
    limit_bytes: int | None,
    processors: int | None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(job_limits, "CGROUPS", tmp_path)
    found = memory_limit(environment)
    assert (found and found.bytes) == limit_bytes
    assert job_processors(environment) == processors


@pytest.mark.slow
def test_a_kernel_is_checked_under_an_address_space_limit(tmp_path: Path) -> None:
    (tmp_path / "ref.py").write_text(REFERENCE)
    (tmp_path / "k.c").write_text(KERNEL)
    command = (
        f"ulimit -v 2000000; exec {sys.executable} -m roofsmith check k.c --ref ref.py -w N=500"
    )
    ran = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
