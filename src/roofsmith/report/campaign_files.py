"""Every rendered file of a campaign directory, as a function of the campaign. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from roofsmith.analysis.experiments import experiments
from roofsmith.analysis.own_facts import REPORTED
from roofsmith.domain.campaign import Campaign
from roofsmith.domain.kernel import Candidate
from roofsmith.ports import Rendered, RenderFailure
from roofsmith.report import logs, markdown
from roofsmith.report.diagnoses import diagnosis_files
from roofsmith.report.ends import state
from roofsmith.report.html import render_html
from roofsmith.report.manifest import QUICK_SCRIPT, env_check, manifest, quick_script
from roofsmith.report.markdown import baseline_report
from roofsmith.report.memory import memory
from roofsmith.report.next_steps import DIFFERENCE, taken_home
from roofsmith.report.plans import plan, planned_round
from roofsmith.report.summarize import summarize
from roofsmith.report.summary import SummaryStep


def render_campaign(campaign: Campaign) -> Rendered:
    """Relative path to text, for everything beside the ledger.

    `logs/` only grow from one event to the next, and a round's files never change once the round
    is recorded; the README, the benchmark and the reports are rendered anew each time. A file that
    can't be rendered is a failure beside the others, so that it takes none of them with it.
    """
    files: dict[str, str] = {}
    failures: list[RenderFailure] = []
    for what, render in _renderers(campaign):
        try:
            files |= render()
        except Exception as error:  # noqa: BLE001 - a fault in one file is that file's alone
            failures.append(RenderFailure(what, error))
    return Rendered(files, tuple(failures))


_Renderer = tuple[str, Callable[[], Mapping[str, str]]]
"""What is rendered, for people, and the files that it gives."""


def _renderers(campaign: Campaign) -> Iterator[_Renderer]:
    try:
        summary, rows = summarize(campaign), experiments(campaign)
    except Exception as error:  # noqa: BLE001 - see render_campaign
        yield "every report", partial(_raise, error)
        return
    single: dict[str, Callable[[], str]] = {
        "manifest.yaml": lambda: manifest(campaign, summary),
        QUICK_SCRIPT: lambda: quick_script(campaign),
        "README.md": lambda: markdown.readme(campaign, summary),
        "logs/optimize.md": lambda: logs.optimize_log(campaign, summary),
        "performance.md": lambda: markdown.performance(campaign, summary),
        "state.md": lambda: state(campaign, summary.steps),
        "logs/performance_trend.md": lambda: logs.performance_trend(summary),
        "benchmark.md": lambda: markdown.benchmark(campaign, summary),
        "final_report.md": lambda: markdown.final_report(campaign, summary),
        "report.html": lambda: render_html(campaign, summary),
    }
    if (reference := campaign.started.target.reference) is not None:
        single["ref.py"] = lambda: reference.text
    if campaign.baseline is not None:
        single["baseline_report.md"] = lambda: baseline_report(campaign, summary)
    if (home := taken_home(campaign)) is not None and home.files:
        single[DIFFERENCE] = lambda: home.difference
    if (examination := campaign.started.examination) is not None:
        single["env_check.md"] = lambda: env_check(examination, REPORTED)
    yield from ((name, partial(_named, name, text)) for name, text in single.items())
    yield "diagnoses", lambda: diagnosis_files(campaign)
    each = zip(summary.steps, _candidates(campaign), rows, strict=True)
    for step, candidate, row in each:
        folder = f"rounds/round-{step.number}"
        yield folder, partial(_round_files, folder, step, candidate)
        note = f"memory/v{step.number - 1}.json"
        yield note, partial(_named, note, partial(memory, campaign, step, row))
        if step.hypothesis is not None:
            name = f"plans/v{step.number - 1}_plan.md"
            yield name, partial(_named, name, partial(plan, campaign, summary, step))

    if campaign.planned is not None:
        yield "the plan", lambda: _planned(campaign)


def render_plan(campaign: Campaign) -> Rendered:
    """The plan alone of what is about to be judged; as `render_campaign`."""
    try:
        return Rendered(_planned(campaign))
    except Exception as error:  # noqa: BLE001 - see render_campaign
        return Rendered({}, (RenderFailure("the plan", error),))


def _planned(campaign: Campaign) -> Mapping[str, str]:
    if campaign.planned is None or campaign.baseline is None:
        return {}
    rounds = (*campaign.rounds, planned_round(campaign, campaign.planned))
    campaign = campaign.model_copy(update={"rounds": rounds, "planned": None})
    summary = summarize(campaign)
    step = summary.steps[-1]
    return {f"plans/v{step.number - 1}_plan.md": plan(campaign, summary, step)}


def _raise(error: Exception) -> Mapping[str, str]:
    raise error


def _named(name: str, text: Callable[[], str]) -> Mapping[str, str]:
    return {name: text()}


def _candidates(campaign: Campaign) -> list[Candidate]:
    if campaign.baseline is None:
        return []
    return [campaign.baseline.candidate, *(round.candidate for round in campaign.rounds)]


def _round_files(folder: str, step: SummaryStep, candidate: Candidate) -> Mapping[str, str]:
    files = {f"{folder}/{name}": text for name, text in markdown.round_files(step).items()}
    for source in candidate.sources:
        files[f"{folder}/kernel_snapshot/{source.path}"] = source.text
    return files
