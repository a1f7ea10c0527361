from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated_machine import write

from roofsmith.domain.device import Cache
from roofsmith.judge.sandbox.enclosure import is_stopped
from roofsmith.judge.timing.processor_time import _is_on_processor, await_stillness, ran_s, spent
from roofsmith.machine import cpuinfo, probes
from roofsmith.machine.cpu import COMPILER_BYTES, CpuSource, build_slots, usable_processors
from roofsmith.testing.machine import fake_device

ARM = """\
processor\t: 0
BogoMIPS\t: 243.75
Features\t: fp asimd evtstrm aes crc32 atomics fphp asimdhp sve i8mm bf16
CPU implementer\t: 0x41
CPU architecture: 8
CPU part\t: 0xd40

processor\t: 1
CPU part\t: 0xfff
"""
X86 = """\
processor\t: 0
model name\t: Some  CPU @ 3.00GHz
flags\t\t: fpu sse2 avx avx2 fma avx512f hypervisor
"""


def cache_files(processor: int, *caches: tuple[int, str, str, str]) -> dict[str, str]:
    folder = f"sys/devices/system/cpu/cpu{processor}/cache"
    return {
        f"{folder}/index{i}/{name}": f"{value}\n"
        for i, cache in enumerate(caches)
        for name, value in zip(("level", "type", "size", "shared_cpu_list"), cache, strict=True)
    }


def test_this_machine_is_identified() -> None:
    found = CpuSource().environment()
    assert found.device.kind == "cpu"
    assert found.device.name
    assert 1 <= found.device.cores <= len(os.sched_getaffinity(0))
    assert found.device.memory_bytes > 1 << 20
    assert found.tools["python"].startswith("Python 3.")
    assert "numpy" in found.packages


def test_the_device_is_the_same_every_time() -> None:
    assert CpuSource().environment().device.id == CpuSource().environment().device.id


def test_the_device_is_the_same_after_a_reboot_and_another_with_more_memory() -> None:
    device = fake_device(memory_bytes=25276514304)
    assert device.id == fake_device(memory_bytes=25276502016).id
    assert device.id != fake_device(memory_bytes=device.memory_bytes + (1 << 30)).id
    assert device.memory_bytes == 25276514304


def test_a_busy_machine_is_the_same_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    quiet = CpuSource().environment()
    monkeypatch.setattr(os, "getloadavg", lambda: (999.0, 999.0, 999.0))
    assert CpuSource().environment().fingerprint == quiet.fingerprint


def test_a_container_without_proc_and_sys_still_has_a_device(tmp_path: Path) -> None:
    found = CpuSource(tmp_path).environment()
    assert found.device.caches == ()
    assert found.device.isa == ()
    assert found.device.vector_bytes == 16
    assert "cache sizes are not known: sysfs doesn't tell" in found.notes


def test_arm_is_named_by_maker_and_part(tmp_path: Path) -> None:
    write(tmp_path, {"proc/cpuinfo": ARM, "proc/sys/abi/sve_default_vector_length": "32\n"})
    device = CpuSource(tmp_path).environment().device
    assert device.name.startswith("Arm ")
    assert device.name.endswith("part 0xd40")
    assert device.isa == ("asimd", "asimdhp", "bf16", "fphp", "i8mm", "sve")
    assert device.vector_bytes == 32


def test_x86_flags_and_the_hypervisor_note(tmp_path: Path) -> None:
    write(tmp_path, {"proc/cpuinfo": X86})
    found = CpuSource(tmp_path).environment()
    assert found.device.name == "Some CPU @ 3.00GHz"
    assert found.device.isa == ("avx", "avx2", "avx512f", "fma", "sse2")
    assert found.device.vector_bytes == 64
    assert any("steal" in note for note in found.notes)


def test_caches_come_with_their_sharing_and_bad_entries_are_left_out(tmp_path: Path) -> None:
    write(
        tmp_path,
        cache_files(
            3,
            (3, "Unified", "32M", "0-7"),
            (1, "Data", "48K", "3"),
            (2, "Unified", "many", "3"),
            (1, "Strange", "32K", "3"),
        ),
    )
    assert probes.caches(tmp_path, 3) == (
        Cache(level=1, kind="data", size_bytes=48 << 10, shared_by=1),
        Cache(level=3, kind="unified", size_bytes=32 << 20, shared_by=8),
    )


def test_the_tightest_quota_of_all_parent_groups_counts(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "proc/self/cgroup": "0::/pod/box\n",
            "sys/fs/cgroup/pod/box/cpu.max": "max 100000\n",
            "sys/fs/cgroup/pod/cpu.max": "150000 100000\n",
        },
    )
    assert probes.quota(tmp_path) == 1.5


def test_a_version_1_quota_is_read_too(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "proc/self/cgroup": "5:cpuset:/\n4:cpu,cpuacct:/box\n",
            "sys/fs/cgroup/cpu/box/cpu.cfs_quota_us": "50000\n",
            "sys/fs/cgroup/cpu/box/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        },
    )
    assert probes.quota(tmp_path) == 0.5


@pytest.mark.parametrize(
    ("allowed", "quota", "usable"),
    [(8, None, 8), (8, 1.5, 2), (8, 0.5, 1), (2, 4.0, 2), (0, None, 1)],
)
def test_usable_processors(allowed: int, quota: float | None, usable: int) -> None:
    assert usable_processors(allowed, quota) == usable


@given(st.sets(st.integers(0, 512), min_size=1))
def test_processor_lists_round_trip(processors: set[int]) -> None:
    ranges: list[list[int]] = []
    for processor in sorted(processors):
        if ranges and ranges[-1][1] == processor - 1:
            ranges[-1][1] = processor
        else:
            ranges.append([processor, processor])
    text = ",".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)
    assert cpuinfo.cpu_list(text) == processors


@pytest.mark.parametrize(("text", "size"), [("32K", 32768), ("1M\n", 1 << 20), ("512", 512)])
def test_sizes(text: str, size: int) -> None:
    assert cpuinfo.size_bytes(text) == size


@given(st.text())
def test_any_text_can_be_a_cpuinfo(text: str) -> None:
    fields = cpuinfo.first_processor(text)
    assert cpuinfo.processor_name(fields, "x86_64")
    assert set(cpuinfo.isa_flags(fields)) <= cpuinfo.X86_ISA | cpuinfo.ARM_ISA


def test_a_tool_that_hangs_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, script in (("gcc", "sleep 600"), ("git", "echo git version 9"), ("perf", "exit 1")):
        tool = tmp_path / name
        tool.write_text(f"#!/bin/sh\n{script}\n")
        tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for deadline_s in (0.5, 5.0, 60.0):  # a busy machine takes longer to say it
        monkeypatch.setattr(probes, "PROBE_DEADLINE_S", deadline_s)
        versions = probes.tool_versions()
        assert "gcc" not in versions
        assert "perf" not in versions
        if "git" in versions:
            break
    assert versions["git"] == "git version 9"


PATIENCE_S = 300.0


@pytest.fixture
def spinner() -> Iterator[subprocess.Popen[bytes]]:
    """A process that never waits for anything."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_who_has_left_its_processor_uses_no_more_of_it(spinner: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + PATIENCE_S
    task = Path(f"/proc/{spinner.pid}/task/{spinner.pid}")
    while not _is_on_processor(task):
        assert time.monotonic() < until, "it was never seen running"
    spinner.send_signal(signal.SIGSTOP)
    while not is_stopped(spinner.pid):
        assert time.monotonic() < until, "it never stopped"
    await_stillness(spinner.pid, until)
    assert not _is_on_processor(task)
    stopped = spent(spinner.pid)
    time.sleep(0.03)
    assert ran_s(spinner.pid) == stopped.ran_s
    assert stopped.stirred() is None


def test_who_is_gone_stands_still() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    await_stillness(process.pid, time.monotonic() + PATIENCE_S)
    assert not _is_on_processor(Path(f"/proc/{process.pid}"))


GIB = 1024**3


@pytest.fixture
def sixteen_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "allowed_processors", lambda: frozenset(range(16)))
    available(monkeypatch, 128 * GIB)


def available(monkeypatch: pytest.MonkeyPatch, size_bytes: int) -> None:
    memory = SimpleNamespace(available=size_bytes)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)


def group(root: Path, line: str, files: dict[str, str]) -> Path:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(f"{line}\n")
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return root


@pytest.mark.usefixtures("sixteen_processors")
def test_one_per_processor(tmp_path: Path) -> None:
    assert build_slots(tmp_path) == 16


@pytest.mark.usefixtures("sixteen_processors")
@pytest.mark.parametrize(("left_gib", "slots"), [(0, 1), (1, 1), (5, 2), (24, 12), (33, 16)])
def test_no_more_than_there_is_memory_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left_gib: int, slots: int
) -> None:
    assert COMPILER_BYTES == 2 * GIB
    available(monkeypatch, left_gib * GIB)
    assert build_slots(tmp_path) == slots


@pytest.mark.usefixtures("sixteen_processors")
@pytest.mark.parametrize(
    ("line", "files", "slots"),
    [
        ("0::/box", {"box/memory.max": str(6 * GIB), "memory.max": "max"}, 3),
        ("0::/box/inner", {"box/memory.max": str(8 * GIB), "box/inner/memory.max": "max"}, 4),
        ("0::/box", {"box/memory.max": "max", "box/cpu.max": "350000 100000"}, 4),
        ("4:memory:/box", {"memory/box/memory.limit_in_bytes": str(10 * GIB)}, 5),
        ("4:memory:/box", {"memory/box/memory.limit_in_bytes": "9223372036854771712"}, 16),
        ("3:cpu,cpuacct:/box", {"cpu/box/cpu.cfs_quota_us": "200000",
                                "cpu/box/cpu.cfs_period_us": "100000"}, 2),
    ],
)  # fmt: skip
def test_no_more_than_the_container_may_have(
    tmp_path: Path, line: str, files: dict[str, str], slots: int
) -> None:
    assert build_slots(group(tmp_path, line, files)) == slots
