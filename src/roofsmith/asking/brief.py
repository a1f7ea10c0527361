"""What a proposer is given, as a document. Pure.

It is made of the `Brief` alone, and holds whole sources; `page` makes Markdown of it, in which
there is room for as much as matters.
"""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from roofsmith.analysis import kernel_table
from roofsmith.analysis.bases import bases, bundle
from roofsmith.analysis.bottleneck import decided_by
from roofsmith.analysis.compiled import candidates_for, described
from roofsmith.analysis.dispatch import dispatch_of, divergence
from roofsmith.analysis.evidence import both_measurements
from roofsmith.analysis.figures import one_line
from roofsmith.analysis.fractions import held_fraction
from roofsmith.analysis.heard import first_look
from roofsmith.analysis.isa_targets import isa_progress
from roofsmith.analysis.ladder import held_listing
from roofsmith.asking.contract import contract_of, exactness_of, timing_of
from roofsmith.asking.evidence import answerable, evidence_of, telling_counters
from roofsmith.asking.history import LONGEST, open_again, refused, tried
from roofsmith.asking.page import BYTES_PER_TOKEN, MAX_TOKENS, page
from roofsmith.asking.progress import directions, ended, from_library, limits_left, workload_rows
from roofsmith.asking.proposing import editable
from roofsmith.asking.sights import seen_dimensions
from roofsmith.domain.campaign import Round
from roofsmith.domain.command import EditableShare
from roofsmith.domain.comparison import ErrorReport
from roofsmith.domain.diagnosis import Disassembly, Reprofiled
from roofsmith.domain.facts import ArithmeticType
from roofsmith.domain.kernel import Candidate, default_build, with_openmp
from roofsmith.domain.proposal import Planned, RepairTask
from roofsmith.domain.target import Target
from roofsmith.ports import Brief

CHARACTERS_PER_TOKEN: Final = BYTES_PER_TOKEN
"""At the least, for whoever counts characters."""
MOST_KERNELS: Final = 8
"""Of a repository's run, the hottest."""
ANYWHERE: Final = "DIR"
"""Stands for the campaign's directory in commands, where nobody said which it is."""
_MOST_BASES: Final = 3
"""Undecided rounds that are offered, those that look best."""
_MOST_FACTS: Final = 10
_PARTS_OF_FLOAT32: Final[frozenset[ArithmeticType]] = frozenset({"tfloat32", "bfloat16"})
"""What products of float32 may be made of on matrix units."""
_MOST_WORKLOADS: Final = 4
"""That a command names; the slowest ones."""


def document(
    brief: Brief, directory: Path | None = None, draft: Path | None = None
) -> dict[str, Any]:
    """The brief as JSON: SI units; sections in the order in which they matter.

    Args:
        brief: all that may be known.
        directory: of the campaign, for the commands that are shown.
        draft: the folder with `sources/` and `reference/` that they look at, of somebody who
            doesn't answer by a command. None: that of the ask.
    """
    campaign = brief.campaign
    started, target = campaign.started, campaign.started.target
    rows, number = workload_rows(brief), len(campaign.rounds) + 2
    files = dict(editable(brief.incumbent, brief))
    return {
        "campaign": started.campaign,
        "round": number,
        "stopped": ended(campaign, directory or Path(ANYWHERE)),
        "total_speedup": campaign.total_speedup,
        "roofline_fraction": held_fraction(campaign),
        "goal": target.goal.model_dump(mode="json"),
        "measure": asdict(target.measure),
        "self_reported": target.command is not None,
        "editable_share": _share(started.editable),
        "device": {"name": brief.device.name, "threads": brief.threads, "of": _machine(brief)},
        "repair": None if brief.repair is None else _repair(brief, brief.repair),
        "planned": None if campaign.planned is None else _planned(campaign.planned),
        "bases": [_base(brief, round_) for round_ in bases(brief.campaign)[:_MOST_BASES]],
        "split": _split(brief),
        "contract": contract_of(target, brief.signature),
        "exactness": exactness_of(_errors(brief)),
        "timing": timing_of(target, brief.threads),
        "notes": target.notes,
        "noted": [
            {"round": one.round, "text": one.text}
            for one in campaign.noted
            if one.round not in campaign.masked
        ],
        "kernel": {
            "language": brief.incumbent.language,
            "entry": brief.incumbent.entry,
            "files": files,
            "flags": list(brief.incumbent.build.flags),
            "environment": dict(brief.incumbent.build.environment),
            "hot": _hot(brief),
        },
        "reference": references_of(target),
        "computed": None
        if started.computed is None
        else started.computed.model_dump(mode="json", exclude={"flops"}),
        "workloads": rows,
        "bottleneck": _bottleneck(brief),
        "listing": _listing(brief),
        "evidence": evidence_of(brief),
        "isa_targets": [
            f"{one.name}: {one.current}, target {one.target},"
            f" {one.shown(one.baseline)} at the baseline"
            for one in isa_progress(campaign)
        ],
        "resources": [described(kernel) for kernel in candidates_for(brief.profile)],
        "history": tried(brief),
        "refused": [refused(past) for past in campaign.refusals],
        "open_again": open_again(brief),
        "directions": directions(brief),
        "knowledge": from_library(brief),
        "calibration": [one.model_dump(mode="json") for one in brief.calibration],
        "diagnosis": _diagnosis(brief),
        **_facts(brief),
        "tips": [tip.model_dump(mode="json", exclude={"lesson"}) for tip in started.tips],
        "experience": [one.model_dump(mode="json") for one in started.learned],
        "limits": limits_left(brief),
        "commands": commands(brief, directory, [row["workload"] for row in rows], draft),
        "directory": str(directory) if directory is not None else ANYWHERE,
    }


def _errors(brief: Brief) -> tuple[ErrorReport, ...]:
    campaign = brief.campaign
    if campaign.kept:
        return campaign.kept[-1].judgement.errors
    return campaign.baseline.errors if campaign.baseline is not None else ()


def markdown(found: Mapping[str, Any], max_tokens: int = MAX_TOKENS) -> str:
    """A document as Markdown, of at most so many tokens whatever it holds."""
    return page(found, max_tokens)


def references_of(target: Target) -> dict[str, str]:
    """The reference's text by path; empty where a repository checks itself."""
    given = (target.reference, *target.reference_files)
    return {source.path: source.text for source in given if source is not None}


def ask_folder(brief: Brief, directory: Path) -> Path:
    """Of the campaign's directory, the folder that whoever proposes is given."""
    return directory / "asks" / f"round-{len(brief.campaign.rounds) + 2}"


def commands(
    brief: Brief, directory: Path | None, labels: list[str], draft: Path | None = None
) -> dict[str, str]:
    """What to type, by what it does, with the campaign's own paths."""
    target = brief.campaign.started.target
    place = directory or Path(ANYWHERE)
    quoted = shlex.quote(str(place))
    found = {} if draft else {"tell": f"roofsmith tell {quoted} --proposal proposal.json"}
    if draft is None:
        found["try"] = f"roofsmith try {quoted} proposal.json"
    if target.command is None and target.reference is not None:
        folder = draft or ask_folder(brief, place)
        kernel = shlex.quote(str(folder / "sources" / brief.incumbent.kernel.path))
        held = shlex.join(
            ["--ref", str(folder / "reference" / target.reference.path)]
            + [word for label in labels[:_MOST_WORKLOADS] for word in ("--workload", label)]
            + [word for option, value in _said(target) for word in (option, str(value))]
        )
        built = _flags(brief.incumbent)
        if draft is not None:
            found["try"] = f"roofsmith try {quoted} {kernel}{built}"
        looks = ("check", "bench", "profile", "listing")
        found |= {look: f"roofsmith kernel {look} {kernel} {held}{built}" for look in looks}
    return found | {"show": f"roofsmith campaign show {quoted} counters"}


def _said(target: Target) -> list[tuple[str, object]]:
    """Options that a kernel needs beside its reference, where it isn't as most are."""
    said = {
        "--entry": target.entry if target.entry != "solve" else None,
        "--threads": target.threads,
        "--ptr-size": target.ptr_size,
    }
    return [(option, value) for option, value in said.items() if value is not None]


def _flags(held: Candidate) -> str:
    """The option for a draft's flags; none where they are the usual ones, which heed OpenMP."""
    usual = with_openmp(default_build(held.language), held.language, held.kernel.text)
    same = not held.build.flags or held.build.flags == usual.flags
    return "" if same else f" --flags={shlex.quote(shlex.join(held.build.flags))}"


def _machine(brief: Brief) -> dict[str, Any]:
    device = brief.device
    return {
        "kind": device.kind,
        "cores": device.cores,
        "vector_bytes": device.vector_bytes if device.kind == "cpu" else None,
        "isa": list(device.isa),
        "arch": device.arch,
        "caches": [f"L{c.level} {c.kind} {c.size_bytes} byte" for c in device.caches],
    }


def _repair(brief: Brief, task: RepairTask) -> dict[str, Any]:
    return {
        "round": task.round,
        "change": one_line(task.hypothesis.statement, LONGEST),
        "attempt": task.attempt,
        "attempts_left": task.attempts_left,
        "reason": task.outcome.reason,
        "detail": task.outcome.detail,
        "diff": _diff(brief, task.candidate),
        "files": dict(editable(task.candidate, brief)),
    }


def _share(found: EditableShare | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {"part": found.part, "most_speedup": found.most_speedup, "sentence": found.sentence}


def _planned(lost: Planned) -> dict[str, Any]:
    proposal = lost.proposal
    return {
        "round": lost.round,
        "change": one_line(proposal.hypothesis.statement, LONGEST),
        "proposer": proposal.proposer,
        "candidate_id": proposal.proposed_id,
    }


def _base(brief: Brief, round_: Round) -> dict[str, Any]:
    comparison, candidate = round_.judgement.comparison, round_.candidate
    assert comparison is not None, "what was never compared is no base"
    return {
        "round": round_.round,
        "speedup": comparison.overall.speedup,
        "ci": list(comparison.overall.ci),
        "changes": {
            str(one.round): one_line(one.hypothesis.statement, LONGEST)
            for one in bundle(brief.campaign, round_.round)
        },
        "flags": list(candidate.build.flags),
        "diff": _diff(brief, candidate),
        "files": dict(editable(candidate, brief)),
    }


def _split(brief: Brief) -> dict[str, Any] | None:
    """The last round that gained on some classes and lost on others, where nothing merges both
    kernels: what the dispatch would be that somebody has to write."""
    campaign, workloads = brief.campaign, brief.campaign.started.target.workloads
    same = (r for r in reversed(brief.remembered) if r.incumbent_id == brief.incumbent.id)
    past = next((r for r in same if r.unsplit is not None and r.splits is None), None)
    if past is None:
        return None
    first = first_look(past.judgement, campaign.grounds(past.judgement.validation))
    found = divergence(*both_measurements(past.judgement, first))
    if found is None:
        return None
    dims = tuple(seen_dimensions(workloads, brief.signature, brief.descriptions))
    dispatch = dispatch_of(past.round, found, workloads, campaign.classes, dims)
    return {
        "round": past.round,
        "gains": list(found.winners),
        "loses": list(found.losers),
        "unsplit": past.unsplit,
        "where": None if dispatch is None else dispatch.rule.text,
        "diff": _diff(brief, past.candidate),
        "files": dict(editable(past.candidate, brief)),
    }


def _diff(brief: Brief, candidate: Candidate) -> str:
    before = editable(brief.incumbent, brief)
    return "\n".join(
        line
        for path, text in editable(candidate, brief).items()
        for line in difflib.unified_diff(
            before.get(path, "").split("\n"), text.split("\n"), path, path, lineterm=""
        )
    )


def _bottleneck(brief: Brief) -> dict[str, Any]:
    found, profile = brief.bottleneck, brief.profile
    counters = telling_counters(profile, found.kind)
    return {
        "kind": found.kind,
        "confidence": found.confidence,
        "decided": decided_by(found),
        "answers": list(answerable(brief)),
        "evidence": {f"E{n}": text for n, text in enumerate(found.evidence, start=1)},
        "workload": profile.workload,
        "tool": profile.tool,
        "kernel": profile.kernel,
        "counters": [
            {"id": id_, "name": one.name, "value": one.value, "unit": one.unit}
            for id_, one in counters.items()
        ],
        "counters_left_out": len(profile.counters) - len(counters),
        "hotspots": [
            spot.model_dump(mode="json") | {"waits": kernel_table.waits(spot)}
            for spot in profile.hotspots[:5]
        ],
        "kernels": [kernel_table.named(one) for one in profile.kernels[:MOST_KERNELS]],
        "notes": [one_line(note, LONGEST) for note in profile.notes],
    }


def _hot(brief: Brief) -> dict[str, Any]:
    loops = [loop.function for loop in _disassembly(brief).loops]
    kernels = [brief.profile.kernel] if brief.profile.kernel else []
    names = dict.fromkeys([*kernels, *loops, brief.incumbent.entry, "run_kernel"])
    lines: dict[str, list[int]] = {}
    for spot in brief.profile.hotspots:
        path, _, line = (spot.source or "").rpartition(":")
        if line.isdigit():
            lines.setdefault(path.rpartition("/")[2], []).append(int(line))
    plain = [name.split("(")[0].split("<")[0].split("::")[-1] for name in names]
    return {"names": list(dict.fromkeys(plain)), "lines": lines}


def _disassembly(brief: Brief) -> Disassembly:
    missing = ("nobody looked at its instructions yet",)
    return held_listing(brief.campaign) or Disassembly(tool=None, missing=missing)


def _listing(brief: Brief) -> dict[str, Any]:
    return _disassembly(brief).model_dump(mode="json", exclude={"mnemonics"})


def _diagnosis(brief: Brief) -> dict[str, Any] | None:
    if brief.diagnosis is None:
        return None
    material = brief.diagnosis.material
    review, known = material.review, material.best_known
    return {
        "level": brief.diagnosis.level,
        "rounds": [one.round for one in material.attempts],
        "dead_ends": [] if review is None else [one.model_dump() for one in review.dead_ends],
        "profiles": [
            _reprofiled(one)
            for one in material.profiles
            if one.workload != brief.profile.workload  # what limits it there is said already
        ],
        "missing": [] if known is None else list(known.missing),
    }


def _reprofiled(found: Reprofiled) -> dict[str, Any]:
    counters = telling_counters(found.profile, found.bottleneck.kind)
    return {
        "workload": found.workload,
        "class": found.config_class,
        "kind": found.bottleneck.kind,
        "confidence": found.bottleneck.confidence,
        "evidence": list(found.bottleneck.evidence),
        "counters": {one.name: one.value for one in counters.values()},
    }


def _facts(brief: Brief) -> dict[str, Any]:
    """Cited facts: what the bounds rest on, peaks of the types in use, processors and caches."""
    sheet = brief.campaign.started.facts
    types = {bound.cost.dtype for bound in brief.bounds}
    parted = any(b.cost.dtype == "float32" and b.cost.matrix_product for b in brief.bounds)
    products = types | _PARTS_OF_FLOAT32 if parted else types
    telling = [
        *(fact for bound in brief.bounds for fact in (bound.bandwidth, bound.peak)),
        *(
            ceiling.fact
            for ceiling in sheet.compute
            if ceiling.dtype in (products if ceiling.operation == "mma" else types)
        ),
        *(fact for fact in sheet.other if fact.unit == brief.device.core),
        *(fact for fact in sheet.other if "cache," in fact.metric or "shared" in fact.metric),
    ]
    shown = list(dict.fromkeys(map(str, telling)))[:_MOST_FACTS]
    left = {str(fact) for fact in sheet.facts()} - set(shown)
    return {"facts": shown, "facts_left_out": len(left)}
