"""Every rendered file of a campaign directory, as a function of the campaign. Pure."""

from __future__ import annotations

from roofsmith.analysis.own_facts import REPORTED
from roofsmith.domain.campaign import Campaign
from roofsmith.domain.kernel import Candidate
from roofsmith.report import logs, markdown
from roofsmith.report.diagnoses import diagnosis_files
from roofsmith.report.documents import manifest
from roofsmith.report.environment import env_check
from roofsmith.report.html import render_html
from roofsmith.report.memory import memory
from roofsmith.report.plans import plan
from roofsmith.report.summarize import summarize
from roofsmith.report.summary import Step, Summary


def render_campaign(campaign: Campaign) -> dict[str, str]:
    """Relative path to text, for everything beside the ledger.

    `logs/` only grow from one event to the next, and a round's files never change once the round
    is recorded; the README, the benchmark and the reports are rendered anew each time.
    """
    summary = summarize(campaign)
    files = {
        "manifest.yaml": manifest(campaign, summary),
        "README.md": markdown.readme(campaign, summary),
        "logs/optimize.md": logs.optimize_log(campaign, summary),
        "performance.md": markdown.performance(campaign, summary),
        "logs/performance_trend.md": logs.performance_trend(summary),
        "benchmark.md": markdown.benchmark(campaign, summary),
        "final_report.md": markdown.final_report(summary),
        "report.html": render_html(campaign, summary),
    }
    if campaign.started.examination is not None:
        files["env_check.md"] = env_check(campaign.started.examination, REPORTED)
    files |= diagnosis_files(campaign)
    for step, candidate in zip(summary.steps, _candidates(campaign), strict=True):
        files |= _round_files(campaign, summary, step, candidate)
    return files


def _candidates(campaign: Campaign) -> list[Candidate]:
    """The candidate of every step, the baseline's first."""
    if campaign.baseline is None:
        return []
    return [campaign.baseline.candidate, *(round.candidate for round in campaign.rounds)]


def _round_files(
    campaign: Campaign, summary: Summary, step: Step, candidate: Candidate
) -> dict[str, str]:
    folder = f"rounds/round-{step.number}"
    files = {f"{folder}/{name}": text for name, text in markdown.round_files(step).items()}
    for source in candidate.sources:
        files[f"{folder}/kernel_snapshot/{source.path}"] = source.text
    files[f"memory/v{step.number - 1}.json"] = memory(campaign, step)
    if step.hypothesis is not None:
        files[f"plans/v{step.number - 1}_plan.md"] = plan(campaign, summary, step)
    return files
