"""How many compilers there is room for."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from roofsmith.machine import build_slots as module
from roofsmith.machine.build_slots import COMPILER_BYTES, build_slots

GIB = 1024**3


@pytest.fixture(autouse=True)
def sixteen_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.probes, "allowed_processors", lambda: frozenset(range(16)))
    available(monkeypatch, 128 * GIB)


def available(monkeypatch: pytest.MonkeyPatch, size_bytes: int) -> None:
    memory = SimpleNamespace(available=size_bytes)
    monkeypatch.setattr(module.psutil, "virtual_memory", lambda: memory)


def group(root: Path, line: str, files: dict[str, str]) -> Path:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(f"{line}\n")
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return root


def test_one_per_processor(tmp_path: Path) -> None:
    assert build_slots(tmp_path) == 16


@pytest.mark.parametrize(("left_gib", "slots"), [(0, 1), (1, 1), (5, 2), (24, 12), (33, 16)])
def test_no_more_than_there_is_memory_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left_gib: int, slots: int
) -> None:
    assert COMPILER_BYTES == 2 * GIB
    available(monkeypatch, left_gib * GIB)
    assert build_slots(tmp_path) == slots


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
