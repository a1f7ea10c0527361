"""Writes the `target.yaml` of a repository, for people to read and correct."""

from __future__ import annotations

from dataclasses import dataclass, field

import yaml

from roofsmith.domain.command import CommandSection
from roofsmith.domain.target import Goal, StopPolicy, default_keep
from roofsmith.targets.init import commented_defaults, scalar

_HEAD = """\
# A repository as a target: what may change in it, what is run, and how the benchmark is read.
# Everything that git tracks but `editable` is frozen. Paths are relative to this file.

"""
_COMMENTS = {
    "editable": "globs; `**` crosses folders",
    "workspace": "what changes are tried with; what is kept is judged in the whole repository",
    "quick": "runs the rows in ROOFSMITH_ROWS alone; may reject a change, never keep one",
    "only": "whose rows count; the rest are of what it is compared with",
    "gate": "what every row of every run must meet",
    "metric": "a column, or an expression such as 6*M*N*K/((fwd_ms + bwd_ms)*1e9)",
    "rows": "columns that tell rows apart",
    "classes": "columns whose values make a config class",
    "path": "rows that share its value are a config class",
    "results": "the file that the benchmark writes",
}
_SHOWN = (
    "repo", "editable", "workspace", "carry", "build", "test", "benchmark", "quick", "results",
    "pattern", "only", "gate", "metric", "direction", "unit", "metrics", "rows", "classes", "path",
    "flops", "bytes", "device", "build_deadline_s", "test_deadline_s", "benchmark_deadline_s",
)  # fmt: skip
_ALWAYS = ("repo", "editable", "benchmark", "metric", "direction")
"""And `rows`, where no classes tell rows apart: none says that there is one."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A target as it will be written."""

    name: str
    section: CommandSection
    family: str | None = None
    guessed: dict[str, str] = field(default_factory=dict)
    """Keys of the section that nobody said, and from what they were guessed."""
    remarks: dict[str, str] = field(default_factory=dict)
    """What is left to the reader, by key."""
    threads: int | None = None


def repository_target(draft: Draft) -> str:
    lines = [_HEAD, f"name: {scalar(draft.name)}\n"]
    if draft.family is not None:
        lines.append(f"family: {scalar(draft.family)}\n")
    if draft.threads is not None:
        lines.append(f"threads: {draft.threads}\n")
    lines.append("\ncommand:\n")
    plain = draft.section.model_dump(exclude_defaults=True)
    for key in _SHOWN:
        value = getattr(draft.section, key)
        if key in plain or key in _ALWAYS or (key == "rows" and not draft.section.keys):
            lines.append(_line(key, value, draft.guessed.get(key)))
        if key in draft.remarks:
            lines.append(f"  # {_on_a_line(draft.remarks[key])}\n")
    lines.append("\n# Below are the defaults; remove a `#` to change one.\n\n")
    sections = {"goal": Goal(), "keep": default_keep("command"), "stop": StopPolicy()}
    return "".join((*lines, *commented_defaults(sections)))


def _line(key: str, value: object, guess: str | None) -> str:
    match value:
        case tuple() | list():
            text = "[" + ", ".join(scalar(str(item)) for item in value) + "]"
        case dict():
            text = yaml.safe_dump(value, default_flow_style=True, width=2**20).strip()
        case float():
            text = f"{value:g}"
        case _:
            text = scalar(str(value))
    said = f"a guess, from {guess}; correct it if wrong" if guess else _COMMENTS.get(key, "")
    comment = _on_a_line(said)
    line = f"  {key}: {text}"
    return f"{line:<40} # {comment}\n" if comment else f"{line}\n"


def _on_a_line(text: str) -> str:
    """Names of columns are a benchmark's, and might begin another one."""
    return " ".join(text.split())
