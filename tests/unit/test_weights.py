"""Workloads count as the target says; those of no weight only have to be right."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from campaign_builder import CLASSES, WORKLOADS, compare, samples, softmax_campaign, target
from pydantic import ValidationError

from roofsmith.analysis.weights import by_weight, shares
from roofsmith.domain.target import Target
from roofsmith.report.headline import in_full
from roofsmith.report.summarize import summarize
from roofsmith.targets.file import load_target

LABELS = [one.label for one in WORKLOADS]
ALIKE = dict.fromkeys(LABELS, 1e-3)


def weighed(*weights: float) -> Target:
    given = dict(zip(LABELS, weights, strict=True))
    return Target.model_validate({**target().model_dump(), "weights": given})


def test_the_mean_is_that_of_the_weights() -> None:
    faster = {label: 1e-3 / (number + 1) for number, label in enumerate(LABELS)}
    found = compare(ALIKE, faster)
    weights = [float(3**number) for number in range(len(LABELS))]
    counted = by_weight(found, weighed(*weights), samples(ALIKE, faster, 1))
    assert counted is not None
    mean = sum(w * math.log(n + 1) for n, w in enumerate(weights)) / sum(weights)
    assert math.isclose(counted.overall.speedup, math.exp(mean), rel_tol=0.05)
    low, high = counted.overall.ci
    assert low < counted.overall.speedup < high
    assert by_weight(found, target()) == found
    assert by_weight(found, weighed(*[2.0] * len(LABELS))) == found


def test_who_counts_nothing_vetoes_nothing_and_helps_nobody() -> None:
    times = {**ALIKE, LABELS[0]: 1e-1}
    weights = [0.0, *[1.0] * (len(LABELS) - 1)]
    found = compare(ALIKE, times)
    assert found.overall.verdict == "slower"
    counted = by_weight(found, weighed(*weights), samples(ALIKE, times, 1))
    assert counted is not None
    assert LABELS[0] not in [one.workload for one in counted.workloads]
    assert math.isclose(counted.overall.speedup, 1, rel_tol=0.05)
    others = {**dict.fromkeys(LABELS, 1.1e-3), LABELS[0]: 1e-6}
    counted = by_weight(compare(ALIKE, others), weighed(*weights), samples(ALIKE, others, 1))
    assert counted is not None
    assert counted.overall.speedup < 0.95


def test_a_class_of_no_weight_is_none_to_decide_by() -> None:
    gone = CLASSES[0]
    weights = [0.0 if label in gone.workloads else 1.0 for label in LABELS]
    counted = by_weight(compare(ALIKE, ALIKE), weighed(*weights))
    assert counted is not None
    assert gone.name not in [one.config_class for one in counted.classes]


@pytest.mark.parametrize("weight", [-1.0, math.nan, math.inf, 1e300])
def test_strange_weights_are_refused(weight: float) -> None:
    with pytest.raises(ValidationError):
        weighed(weight, *[1.0] * (len(LABELS) - 1))
    with pytest.raises(ValidationError):
        weighed(*[0.0] * len(LABELS))


def test_where_nothing_that_counts_is_timed_all_count_alike() -> None:
    found = weighed(1.0, *[0.0] * (len(LABELS) - 1))
    moved = found.model_copy(
        update={"unscored": found.workloads[:1], "workloads": found.workloads[1:]}
    )
    assert shares(Target.model_validate(moved.model_dump())) == {}


def test_weights_are_read_from_a_target_and_say_nothing_of_older_ones(tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text("void solve(float *y, int N) { y[0] = N; }\n")
    (tmp_path / "r.py").write_text("def reference(y, N):\n    y[:] = N\n")
    text = "kernel: k.c\nreference: r.py\nworkloads: [{N: 4}, {N: 12}]\n"
    (tmp_path / "target.yaml").write_text(text)
    assert "weights" not in load_target(tmp_path).model_dump()
    (tmp_path / "target.yaml").write_text(text + 'weights: {"N=4": 3}\n')
    assert shares(load_target(tmp_path)) == {"N=4": 0.75, "N=12": 0.25}


def test_a_report_says_what_it_comes_to_by_weight() -> None:
    campaign = softmax_campaign()
    weights = {**dict.fromkeys(LABELS, 1.0), LABELS[0]: 5.0}
    started = campaign.started.model_copy(
        update={"target": campaign.started.target.model_copy(update={"weights": weights})}
    )
    campaign = campaign.model_copy(update={"started": started})
    assert "by weight it is" in in_full(campaign, summarize(campaign))
