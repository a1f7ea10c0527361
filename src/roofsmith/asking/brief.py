"""What a proposer is given, as a document and as Markdown. Pure.

Both are made of the `Brief` alone. What doesn't fit is dropped in the order of `DROPPED`; all of it
is behind `roofsmith show`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from roofsmith.analysis.fractions import held_fraction
from roofsmith.asking.contract import contract_of
from roofsmith.asking.evidence import evidence_of
from roofsmith.asking.proposing import editable
from roofsmith.domain.campaign import Round
from roofsmith.domain.refusal import Refusal
from roofsmith.domain.target import Target
from roofsmith.ports import Brief

CHARACTERS_PER_TOKEN = 3.5
"""Of source code and English, by the tokenizers of the large models: 3 to 4."""
MAX_TOKENS = 12_000
DROPPED = ("tips", "facts", "history", "reference", "diagnosis")
"""Sections that go where the whole is too long, in this order; history keeps its last rounds."""


def document(brief: Brief) -> dict[str, Any]:
    """The brief as JSON: SI units; sections in the order in which they matter."""
    campaign = brief.campaign
    started, target = campaign.started, campaign.started.target
    return {
        "campaign": started.campaign,
        "round": len(campaign.rounds) + 2,
        "contract": contract_of(target),
        "kernel": {
            "language": brief.incumbent.language,
            "files": dict(editable(brief.incumbent, brief)),
            "flags": list(brief.incumbent.build.flags),
        },
        "device": {"name": brief.device.name, "threads": brief.threads},
        "total_speedup": campaign.total_speedup,
        "roofline_fraction": held_fraction(campaign),
        "workloads": _workloads(brief),
        "bottleneck": {
            "kind": brief.bottleneck.kind,
            "confidence": brief.bottleneck.confidence,
        },
        "evidence": evidence_of(brief),
        "repair": None if brief.repair is None else brief.repair.model_dump(mode="json"),
        "diagnosis": None if brief.diagnosis is None else brief.diagnosis.model_dump(mode="json"),
        "history": [_round(past) for past in brief.remembered],
        "refused": [_refusal(past) for past in campaign.refusals],
        "reference": references_of(target),
        "facts": [str(fact) for fact in started.facts.facts()],
        "tips": [tip.model_dump(mode="json") for tip in started.tips],
    }


def markdown(found: Mapping[str, Any], max_tokens: int = MAX_TOKENS) -> str:
    """A document as Markdown, of at most so many tokens where its sections allow."""
    sections = {name: _section(name, value) for name, value in found.items() if value}
    for name in DROPPED:
        if _tokens(sections.values()) <= max_tokens:
            break
        if name == "history":
            sections[name] = _section(name, found[name][-5:])
        else:
            sections[name] = f"## {name}\n\nLeft out: too long.\n"
    return "\n".join(sections.values())


def references_of(target: Target) -> dict[str, str]:
    """The reference's text by path; empty where a repository checks itself."""
    return {} if target.reference is None else {target.reference.path: target.reference.text}


def _tokens(sections: Any) -> float:
    return sum(map(len, sections)) / CHARACTERS_PER_TOKEN


def _section(name: str, value: Any) -> str:
    if isinstance(value, str):
        return f"## {name}\n\n{value}\n"
    if name == "reference":
        return f"## {name}\n\n" + "\n".join(map(_fenced, value, value.values()))
    if name == "kernel":
        files = "\n".join(map(_fenced, value["files"], value["files"].values()))
        return f"## {name} ({value['language']}, {' '.join(value['flags'])})\n\n{files}"
    if isinstance(value, Mapping):
        return f"## {name}\n\n" + "".join(f"- {key}: {_shown(one)}\n" for key, one in value.items())
    if isinstance(value, Sequence):
        return f"## {name}\n\n" + "".join(f"- {_shown(one)}\n" for one in value)
    return f"## {name}\n\n{_shown(value)}\n"


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _fenced(path: str, text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"`{path}`\n\n{fence}\n{text.rstrip()}\n{fence}\n"


def _workloads(brief: Brief) -> list[dict[str, Any]]:
    """Slowest first."""
    times = brief.campaign.times_s
    classes = {label: found.name for found in brief.classes for label in found.workloads}
    rows = [
        {
            "workload": bound.workload,
            "class": classes.get(bound.workload, ""),
            "time_s": times.get(bound.workload),
            "floor_s": bound.floor_time_s,
            "limiter": bound.limiter,
        }
        for bound in brief.bounds
    ]
    return sorted(rows, key=lambda row: -float(str(row["time_s"] or 0.0)))


def _round(past: Round) -> dict[str, Any]:
    comparison = past.judgement.comparison
    return {
        "round": past.round,
        "change": past.hypothesis.statement,
        "decision": past.decision.kind,
        "why": past.decision.rule,
        "speedup": None if comparison is None else comparison.overall.speedup,
        "predicted": past.hypothesis.predicted_speedup,
        "unsourced": list(past.unsourced),
    }


def _refusal(past: Refusal) -> dict[str, Any]:
    return {"after_round": past.after_round, "reason": past.reason, "why": past.detail}
