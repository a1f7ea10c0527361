"""What an H100's counters said of eight kernels, each of which was built to have one bottleneck.

`tests/device/bottlenecks` holds the kernels, and `test_bottlenecks.py` beside it writes the record.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from roofsmith.analysis.bottleneck import classify
from roofsmith.analysis.roofline import bound
from roofsmith.domain.bound import Cost
from roofsmith.domain.facts import FactSheet
from roofsmith.domain.profile import Bottleneck, Profile
from roofsmith.domain.workload import Workload
from roofsmith.report.memory import _evidence
from roofsmith.testing.machine import fake_device

RECORD = Path(__file__).parent.parent / "golden" / "gpu" / "bottlenecks_h100.json.gz"
RECORDED: dict[str, dict[str, Any]] = json.loads(gzip.decompress(RECORD.read_bytes()))


def classified(recorded: dict[str, Any]) -> tuple[Profile, Bottleneck]:
    profile = Profile.model_validate(recorded["profile"])
    cost = Cost(flops=None, read_bytes=None, written_bytes=None, dtype="float32", source="none")
    workload, no_facts = Workload(dims={"N": 1}), FactSheet(device_id="none")
    time_s = profile.get("kernel_time_s")
    assert time_s is not None
    return profile, classify(bound(workload, cost, no_facts, fake_device(), 1), time_s, profile)


def test_there_are_eight() -> None:
    assert len(RECORDED) == 8


@pytest.mark.parametrize("name", RECORDED)
def test_what_a_kernel_was_built_for_is_found(name: str) -> None:
    recorded = RECORDED[name]
    _, found = classified(recorded)
    built_for = recorded["built_for"]
    assert found.kind == built_for["kind"]
    assert any(line.startswith(f"{built_for['phrase']}: ") for line in found.evidence)


@pytest.mark.parametrize("name", RECORDED)
def test_what_is_remembered_of_a_kernel_is_more_than_its_evidence(name: str) -> None:
    profile, found = classified(RECORDED[name])
    step = SimpleNamespace(
        profile_before=None, profile_after=profile, bottleneck_before=None, bottleneck_after=found,
        hypothesis=None, bytes_only=False,
    )  # fmt: skip
    evidence = _evidence(cast(Any, step))
    assert evidence.tool_used == "ncu"
    said = (*evidence.evidence_summary, *evidence.evidence_chain)
    assert len(said) > len(found.evidence)
