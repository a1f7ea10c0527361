"""What a model is sent: the rules of a file beside this one, and the brief as a page."""

from __future__ import annotations

from pathlib import Path

from roofsmith.asking.brief import document, markdown
from roofsmith.asking.proposing import editable
from roofsmith.domain.proposal import RepairTask
from roofsmith.ports import Brief


def system_prompt() -> str:
    """The rules that hold whatever the brief is about."""
    return Path(__file__).with_name("system.md").read_text(encoding="utf-8")


def user_prompt(brief: Brief) -> str:
    """The brief; behind it the idea that is to be repaired, if there is one."""
    if brief.repair is None:
        return markdown(document(brief))
    page = markdown({**document(brief), "repair": None})
    return f"{page}\n{_repair(brief.repair, brief)}"


def _repair(task: RepairTask, brief: Brief) -> str:
    """What the judge found, and the files that were wrong."""
    found = task.outcome.model_dump_json(exclude={"log"})
    lines = [
        "## repair",
        "",
        f"- idea of round {task.round}: {task.hypothesis.statement}",
        f"- why: {task.hypothesis.rationale}",
        f"- what the judge found: {found}",
        f"- attempt {task.attempt}; {task.attempts_left} left, this one included",
        "",
        "The files of the candidate that was wrong, which a repair changes:",
        "",
    ]
    for path, text in editable(task.candidate, brief).items():
        lines += [f"`{path}`", "", _fenced(text), ""]
    return "\n".join(lines)


def _fenced(text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text.rstrip()}\n{fence}"
