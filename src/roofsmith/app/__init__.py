"""The composition root: the only place that knows which part implements which port.

A function per command; each returns plain values and prints nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofsmith.config import Settings
from roofsmith.domain.isolation import IsolationMode

if TYPE_CHECKING:
    from roofsmith.app.audit import CitationAudit, audit_campaign
    from roofsmith.app.benching import Benched, bench
    from roofsmith.app.bounds import Roofline, roofline
    from roofsmith.app.campaigns import (
        Finished,
        Plan,
        demo,
        estimates,
        has_campaign,
        optimize,
        render_report,
        resume,
    )
    from roofsmith.app.doctor import Check, Examination, examine
    from roofsmith.app.init import initialize
    from roofsmith.app.init_repository import Initialized, RepositoryInit, initialize_repository
    from roofsmith.app.judging import judge, judge_with, opened_against
    from roofsmith.app.listing import Listed, listed
    from roofsmith.app.machine import ceilings, measure_ceilings
    from roofsmith.app.memory import Restarted, mask, memory_note, memory_notes, partial_restart
    from roofsmith.app.preferences import Consent, consent
    from roofsmith.app.reading import diff_of, profile_of, read_campaign, remarks, round_of
    from roofsmith.app.session import (
        Limits,
        Session,
        Standing,
        ToldRounds,
        ask,
        open_session,
        submit,
        tell,
    )
    from roofsmith.app.showing import Shown, show_part
    from roofsmith.app.skill_pages import Skill, install_skills, skill, skill_folder, skills
    from roofsmith.app.steps import check, classify, profile
    from roofsmith.app.subjects import Subject
    from roofsmith.app.telling import Change, untold
    from roofsmith.app.verification import Verification, verify_campaign
    from roofsmith.app.wiki import Cited, Listing, Product, cite, list_specs, show_products
    from roofsmith.app.wiring import DEFAULT_PROPOSERS, default_proposers, try_clocks
    from roofsmith.specs.wiki_page import Entry
    from roofsmith.store.answers import parse_answer

__all__ = [
    "DEFAULT_PROPOSERS",
    "Benched",
    "Change",
    "Check",
    "CitationAudit",
    "Cited",
    "Consent",
    "Entry",
    "Examination",
    "Finished",
    "Initialized",
    "Limits",
    "Listed",
    "Listing",
    "Plan",
    "Product",
    "RepositoryInit",
    "Restarted",
    "Roofline",
    "Session",
    "Shown",
    "Skill",
    "Standing",
    "Subject",
    "ToldRounds",
    "Verification",
    "ask",
    "audit_campaign",
    "bench",
    "ceilings",
    "check",
    "cite",
    "classify",
    "consent",
    "default_proposers",
    "demo",
    "diff_of",
    "estimates",
    "examine",
    "has_campaign",
    "initialize",
    "initialize_repository",
    "install_skills",
    "judge",
    "judge_with",
    "list_specs",
    "listed",
    "mask",
    "measure_ceilings",
    "memory_note",
    "memory_notes",
    "new_demo_directory",
    "new_directory",
    "open_session",
    "opened_against",
    "optimize",
    "parse_answer",
    "partial_restart",
    "profile",
    "profile_of",
    "read_campaign",
    "remarks",
    "render_report",
    "resume",
    "roofline",
    "round_of",
    "settings",
    "show_part",
    "show_products",
    "skill",
    "skill_folder",
    "skills",
    "submit",
    "tell",
    "try_clocks",
    "untold",
    "verify_campaign",
]

_HOMES: Mapping[str, tuple[str, ...]] = {
    "roofsmith.app.audit": ("CitationAudit", "audit_campaign"),
    "roofsmith.app.benching": ("Benched", "bench"),
    "roofsmith.app.bounds": ("Roofline", "roofline"),
    "roofsmith.app.campaigns": (
        "Finished",
        "Plan",
        "demo",
        "estimates",
        "has_campaign",
        "optimize",
        "render_report",
        "resume",
    ),
    "roofsmith.app.doctor": ("Check", "Examination", "examine"),
    "roofsmith.app.init": ("initialize",),
    "roofsmith.app.init_repository": ("Initialized", "RepositoryInit", "initialize_repository"),
    "roofsmith.app.judging": ("judge", "judge_with", "opened_against"),
    "roofsmith.app.listing": ("Listed", "listed"),
    "roofsmith.app.machine": ("ceilings", "measure_ceilings"),
    "roofsmith.app.memory": ("Restarted", "mask", "memory_note", "memory_notes", "partial_restart"),
    "roofsmith.app.reading": ("diff_of", "profile_of", "read_campaign", "remarks", "round_of"),
    "roofsmith.app.session": (
        "Limits",
        "Session",
        "Standing",
        "ToldRounds",
        "ask",
        "open_session",
        "submit",
        "tell",
    ),
    "roofsmith.app.showing": ("Shown", "show_part"),
    "roofsmith.app.skill_pages": (
        "Skill",
        "install_skills",
        "skill",
        "skill_folder",
        "skills",
    ),
    "roofsmith.app.steps": ("check", "classify", "profile"),
    "roofsmith.app.subjects": ("Subject",),
    "roofsmith.app.telling": ("Change", "untold"),
    "roofsmith.app.verification": ("Verification", "verify_campaign"),
    "roofsmith.app.wiki": ("Cited", "Listing", "Product", "cite", "list_specs", "show_products"),
    "roofsmith.app.preferences": ("Consent", "consent"),
    "roofsmith.app.wiring": ("DEFAULT_PROPOSERS", "default_proposers", "try_clocks"),
    "roofsmith.specs.wiki_page": ("Entry",),
    "roofsmith.store.answers": ("parse_answer",),
}
"""What commands need of other modules, each imported when it is first asked for: all of them take a
second, and doctor and `specs` promise an answer in two."""
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


if not TYPE_CHECKING:  # or every name would be right

    def __getattr__(name: str) -> Any:
        """What is imported late, or a module of this package."""
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            home = import_module(_HOME_OF.get(name, f"{__name__}.{name}"))
        except ModuleNotFoundError as error:
            if error.name != f"{__name__}.{name}":
                raise
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from error
        value = getattr(home, name) if name in _HOME_OF else home
        globals()[name] = value
        return value


def settings(
    isolation: IsolationMode | None = None,
    *,
    lock_clocks: bool = False,
    waits: bool = True,
    wiki: Path | None = None,
) -> Settings:
    """Of this user, from environment and working directory.

    Args:
        isolation: overrides the environment's.
        lock_clocks: hold the clocks of the GPU that is measured on.
        waits: for a GPU, where none is idle.
        wiki: folder of the user's own pages, in place of the environment's.
    """
    found = Settings.from_environment(os.environ, Path.cwd())
    found = replace(found, lock_clocks=lock_clocks, waits=waits)
    found = found if wiki is None else replace(found, wiki_dir=wiki.absolute(), wiki_named=True)
    return found if isolation is None else replace(found, isolation=isolation)


def new_directory(subject: Subject) -> Path:
    """`campaigns/<target>-<date>`: where a campaign goes that nobody named a place for.

    Raises:
        TargetError: the target can't be read.
    """
    from roofsmith.app.subjects import target_of

    return settings().campaign_dir(target_of(subject).name, datetime.now(UTC))


def new_demo_directory() -> Path:
    """`campaigns/demo-<date>`."""
    return settings().campaign_dir("demo", datetime.now(UTC))
