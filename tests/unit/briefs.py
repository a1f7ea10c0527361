"""Briefs of made-up campaigns."""

from __future__ import annotations

from roofsmith.analysis.calibration import calibrations
from roofsmith.analysis.ladder import diagnosis
from roofsmith.domain.campaign import Campaign
from roofsmith.domain.kernel import Parameter, Signature
from roofsmith.engine.records import held_profile
from roofsmith.engine.repairing import repair_task
from roofsmith.ports import Brief

SIGNATURE = Signature(
    parameters=(
        Parameter(name="input", role="input", dtype="float32"),
        Parameter(name="output", role="output", dtype="float32"),
        Parameter(name="N", role="size", dtype="int32"),
        Parameter(name="D", role="size", dtype="int32"),
    )
)


def brief_of(campaign: Campaign) -> Brief:
    """What a proposer would get after the last round of a campaign."""
    profile, bottleneck = held_profile(campaign)
    return Brief(
        campaign=campaign,
        incumbent=campaign.incumbent,
        signature=SIGNATURE,
        device=campaign.started.environment.device,
        threads=2,
        bounds=campaign.started.bounds,
        classes=campaign.classes,
        descriptions={},
        profile=profile,
        bottleneck=bottleneck,
        repair=repair_task(campaign),
        diagnosis=diagnosis(campaign),
        calibration=calibrations(campaign),
    )
