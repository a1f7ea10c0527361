"""`env_check.md`: what this machine has and lacks, and what to do about it. Pure."""

from __future__ import annotations

from itertools import groupby

from roofsmith.domain.examination import GROUPS, Check, Examination
from roofsmith.report.templating import markdown_environment


def env_check(found: Examination, recorded: str | None = None) -> str:
    """What needs attention first, then every check by area."""
    areas = [(area, list(checks)) for area, checks in groupby(found.checks, lambda c: c.area)]
    template = markdown_environment().get_template("env_check.md.j2")
    return template.render(found=found, areas=areas, required_by=_required_by, recorded=recorded)


def _required_by(check: Check) -> str:
    if not check.required:
        return ""
    names = [name for name, group in GROUPS.items() if set(group) & set(check.languages)]
    return "all" if len(names) == len(GROUPS) else ", ".join(names)
