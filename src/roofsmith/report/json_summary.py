"""Parts of a campaign's summary as JSON: SI units, no samples, nothing rounded. Pure."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from roofsmith.analysis.spending import Spending
from roofsmith.domain.calibration import Calibration
from roofsmith.domain.measure import Measure
from roofsmith.report.summary import Ratio, Summary, Unseen, YardstickRow


def headline_fields(summary: Summary) -> dict[str, Any]:
    """The speedup to tell a user; beside it the product of the kept rounds, often the same."""
    return {**_ratio(summary.headline), "speedup_product": _ratio(summary.speedup)}


def metric_fields(measure: Measure) -> dict[str, Any]:
    """What the values of a document are, where they aren't times."""
    if measure.is_time:
        return {}
    way = "higher" if measure.is_inverse else "lower"
    return {"metric": {"name": measure.name, "unit": measure.unit, "direction": way}}


def value_fields(key: str, recorded: float | None, measure: Measure) -> dict[str, float | None]:
    """What was measured, under a key that ends in `time_s`.

    That is null for what is no time, whose value stands under the key with `value` at its end.
    """
    if measure.is_time:
        return {key: recorded}
    value = None if recorded is None else measure.value(recorded)
    return {key: None, f"{key.removesuffix('time_s')}value": value}


def held_out_document(found: Unseen | None) -> dict[str, Any] | None:
    """The final kernel on workloads that no proposer was shown, and how far it falls short."""
    if found is None:
        return None
    return {
        "workloads": list(found.workloads),
        **_ratio(found.speedup),
        "generalization_gap": found.gap,
        "failure": found.failure,
    }


def calibration_document(found: Calibration) -> dict[str, Any]:
    """How far one proposer's predictions of a kind of change can be trusted."""
    return {**found.model_dump(mode="json"), "hit_share": found.hit_share}


def spending_document(found: Spending) -> dict[str, Any]:
    """What one proposer took; `cost_usd` is null where nobody knows what it cost."""
    return {**asdict(found), "kept_share": found.kept_share}


def yardstick_document(row: YardstickRow) -> dict[str, Any]:
    """The kernel against a yardstick; `workload` is null for all of them together."""
    return {
        "name": row.name,
        "workload": row.workload,
        "time_s": row.time_s,
        "kernel_time_s": row.kernel_time_s,
        **_ratio(row.speedup),
        "failure": row.failure,
    }


def _ratio(ratio: Ratio | None) -> dict[str, Any]:
    if ratio is None:
        return {"speedup": None, "ci": None}
    return {"speedup": ratio.value, "ci": list(ratio.ci)}
