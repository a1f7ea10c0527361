"""Eight kernels with a known bottleneck, on a real H100: `pytest -m device -rs tests/device`.

Needs ncu and the permission to count. At least seven of the eight must come out right; what was
seen of each is printed (`-s`), and written to the file that `ROOFSMITH_BOTTLENECKS` names.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from gpu_bench import RandomVector, build_all, environment_or_skip

from roofsmith.analysis.bottleneck import classify
from roofsmith.analysis.roofline import bound
from roofsmith.domain.bound import Bound, Cost
from roofsmith.domain.facts import FactSheet
from roofsmith.domain.kernel import Built
from roofsmith.domain.profile import Bottleneck, BottleneckKind, Profile
from roofsmith.domain.workload import Workload
from roofsmith.judge.gpu.runner import GpuRunner
from roofsmith.profilers.ncu import NcuProfiler

pytestmark = pytest.mark.device

MOST_WRONG = 1


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    size: int
    kind: BottleneckKind
    phrase: str


CASES = (
    Case("strided_loads", 1 << 27, "memory", "uncoalesced loads"),
    Case("bank_conflicts", 1 << 20, "memory", "bank conflicts"),
    Case("low_occupancy", 132 * 2 * 32 * 4, "occupancy", "occupancy limited by shared memory"),
    Case("register_spills", 1 << 20, "memory", "register spills"),
    Case("tensor_cores", 132 * 256 * 4, "compute", "tensor cores busy"),
    Case("many_launches", 1 << 14, "launch", "launch bound"),
    Case("tail_effect", 1 << 18, "tail", "badly filled last wave"),
    Case("divergence", 1 << 20, "compute", "divergence"),
)


def unknown_bound(workload: Workload) -> Bound:
    """No roofline: the counters have to do."""
    cost = Cost(flops=None, read_bytes=None, written_bytes=None, dtype="float32", source="none")
    return bound(workload, cost, FactSheet(device_id="none"), environment_or_skip().device, 1)


def classified(case: Case, built: Built, runner: GpuRunner) -> tuple[Profile, Bottleneck]:
    workload = Workload(dims={"N": case.size})
    profile = NcuProfiler(runner, RandomVector()).profile(built, workload)
    if profile.tool != "ncu":
        pytest.skip("; ".join(profile.notes))
    time_s = profile.get("kernel_time_s")
    assert time_s is not None
    return profile, classify(unknown_bound(workload), time_s, profile)


def is_right(case: Case, found: Bottleneck) -> bool:
    named = any(line.startswith(f"{case.phrase}: ") for line in found.evidence)
    return found.kind == case.kind and named


def test_known_bottlenecks_are_found(shared_cache: Path) -> None:
    every = build_all([case.name for case in CASES], shared_cache / "builds")
    runner = GpuRunner(cache_dir=shared_cache / "compiled")
    wrong, record = [], {}
    for case, built in zip(CASES, every, strict=True):
        profile, found = classified(case, built, runner)
        record[case.name] = {
            "built_for": {"kind": case.kind, "phrase": case.phrase},
            "profile": profile.model_dump(mode="json"), "found": found.model_dump(mode="json"),
        }  # fmt: skip
        verdict = "right" if is_right(case, found) else "WRONG"
        report = [f"{case.name}: {found.kind} ({found.confidence:.2f}): {verdict}"]
        report += [f"    {line}" for line in found.evidence]
        if verdict == "WRONG":
            report += [f"    {c.name} {c.value:.6g} {c.unit}" for c in profile.counters]
            wrong.append("\n".join(report))
        print("\n".join(report))
    if path := os.environ.get("ROOFSMITH_BOTTLENECKS"):
        Path(path).write_text(json.dumps(record, indent=1), encoding="utf-8")
    assert len(wrong) <= MOST_WRONG, "\n".join(wrong)
