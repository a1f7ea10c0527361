"""The roofline of a repository's rows: by the target's formulas, since there is no reference."""

from __future__ import annotations

from typing import Any

import pytest
from campaign_builder import crippled, events_for
from pydantic import ValidationError

from roofsmith.domain.bound import Bound
from roofsmith.domain.command import CommandSpec
from roofsmith.domain.target import Goal
from roofsmith.domain.workload import Workload
from roofsmith.engine.survey import bound_of
from roofsmith.report.arithmetic import limiter_words, roofline_lines
from roofsmith.report.summarize import summarize
from roofsmith.repository.judging.oracle import RowOracle
from roofsmith.testing.engine import fake_target
from roofsmith.testing.machine import fake_device, fake_facts

KIB, MIB = 1 << 10, 1 << 20


def spec_of(**formulas: Any) -> CommandSpec:
    values = {"editable": ("a.c",), "benchmark": "b", "metric": "us", "unit": "us"}
    return CommandSpec.model_validate(values | {"rows": ("n",)} | formulas)


def bound(n: int, **formulas: Any) -> Bound:
    """Of a row of n; two threads."""
    row = Workload(dims={"n": n})
    said = RowOracle(spec_of(**formulas)).describe(row)
    return bound_of(row, said, fake_target(), fake_facts(), fake_device(), threads=2)


@pytest.mark.parametrize(
    ("n", "level", "byte_per_s"),
    [(KIB, "L1", 2e11), (64 * KIB, "L2", 8e10), (64 * MIB, "memory", 2e10)],
)
def test_what_a_row_moves_says_where_its_data_is(n: int, level: str, byte_per_s: float) -> None:
    found = bound(n, bytes="8*n")
    assert found.working_set == level
    assert found.floor_time_s == pytest.approx(8 * n / byte_per_s)
    assert limiter_words(found) == f"bytes only (data in {level})"


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int8"])
def test_operations_are_of_the_type_that_the_target_says(dtype: str) -> None:
    assert bound(KIB, flops="n*n", bytes="8*n").cost.dtype == "float32"
    said = bound(KIB, flops="n*n", bytes="8*n", dtype=dtype)
    assert said.cost.dtype == dtype
    assert dtype in said.peak.metric


def test_a_type_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ValidationError, match="dtype"):
        spec_of(flops="n", dtype="half")


def test_figures_are_the_targets() -> None:
    lines = list(roofline_lines(bound(KIB, flops="n*n", bytes="8*n"), Goal()))
    text = "\n".join(lines)
    assert "(the target's command.flops)" in lines[0]
    assert "(the target's command.bytes)" in lines[1]
    assert "reference" not in text


@pytest.mark.parametrize(
    ("formulas", "missing"), [({"bytes": "8*n"}, "flops"), ({"flops": "n"}, "bytes"), ({}, "flops")]
)
def test_what_is_missing_is_wanted_of_the_target(formulas: dict[str, str], missing: str) -> None:
    reason = bound(KIB, **formulas).cost.reason
    assert reason is not None
    assert f"command.{missing}" in reason
    assert "reference" not in reason


def test_the_next_step_names_the_file_that_there_is() -> None:
    stop = events_for([], stop="out_of_ideas")[-1]
    campaign = crippled().model_copy(update={"stopped": stop})
    advice = "\n".join(step.why for step in summarize(campaign).next_steps)
    assert "flops(**dims) and bytes(**dims) in the reference" in advice
    target = campaign.started.target.model_copy(update={"command": spec_of()})
    started = campaign.started.model_copy(update={"target": target})
    summary = summarize(campaign.model_copy(update={"started": started}))
    advice = "\n".join(step.why for step in summary.next_steps)
    assert "under command" in advice
