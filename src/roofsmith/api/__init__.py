"""The composition root: the only place that knows which part implements which port.

A function per command; each returns plain values and prints nothing.
"""

from __future__ import annotations

import ast
import os
from dataclasses import replace
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from pkgutil import get_data
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from roofsmith.api import experience, knowledge, memory_documents, specs_documents
    from roofsmith.api.applying import Applied, apply_campaign
    from roofsmith.api.audit import CitationAudit, audit_campaign
    from roofsmith.api.benching import Benched, bench
    from roofsmith.api.campaigns import (
        demo,
        estimates,
        optimize,
        resume,
    )
    from roofsmith.api.defining import Defined, define, write_defined
    from roofsmith.api.demonstration import DemoChoice, choose_demo
    from roofsmith.api.doctor import Check, Examination, examine
    from roofsmith.api.events import announcing
    from roofsmith.api.explaining import Explained, explain
    from roofsmith.api.exporting import export_campaign
    from roofsmith.api.finished import FinishedCampaign, has_campaign, render_report
    from roofsmith.api.head_start import begin_ahead
    from roofsmith.api.init import initialize
    from roofsmith.api.init_pytorch import (
        ImportedModel,
        PyTorchFile,
        initialize_pytorch,
        pytorch_file,
    )
    from roofsmith.api.init_repository import Initialized, RepositoryInit, initialize_repository
    from roofsmith.api.judging import judge, judge_with, opened_against
    from roofsmith.api.listing import ListedKernel, listed
    from roofsmith.api.machine import ceilings
    from roofsmith.api.memory import (
        Planning,
        Restarted,
        add_note,
        mask,
        memory_note,
        memory_notes,
        partial_restart,
        update_note,
    )
    from roofsmith.api.named import incumbent_of, is_source, require_kernel, require_named
    from roofsmith.api.preferences import (
        DEFAULT_PROPOSERS,
        Consent,
        consent,
        default_proposers,
    )
    from roofsmith.api.problem_sets import ImportedProblem, ProblemSet, import_problems
    from roofsmith.api.programs import analyse_command, plan_program
    from roofsmith.api.reading import read_campaign, read_suite
    from roofsmith.api.references import (
        folders_of,
        index_references,
        search_references,
        show_reference,
    )
    from roofsmith.api.requests import answered_here, reminders
    from roofsmith.api.session import (
        Session,
        SessionState,
        open_session,
    )
    from roofsmith.api.showing import PARTS, Shown, show_part, unlooked
    from roofsmith.api.skill_pages import Skill, install_skills, skill, skill_folder, skills
    from roofsmith.api.steering import limit, stop
    from roofsmith.api.steps import Roofline, check, classify, profile, roofline
    from roofsmith.api.subjects import remarks
    from roofsmith.api.suites import SuiteRun, run_suite
    from roofsmith.api.verification import Verification, verify_campaign
    from roofsmith.api.wiki import CitedFact, Product, WikiListing, cite, list_specs, show_products
    from roofsmith.api.wiring import try_clocks
    from roofsmith.config import Settings
    from roofsmith.domain.isolation import IsolationMode
    from roofsmith.domain.options import (
        CampaignPlan,
        Judging,
        SessionLimits,
        Subject,
        SubmittedChange,
    )
    from roofsmith.ports import Measured, Observer
    from roofsmith.report.manifest import env_check
    from roofsmith.store.answers import parse_answer
    from roofsmith.store.campaign_dir import require_campaign, working

_SOURCE = ast.parse(get_data(__name__, "__init__.py") or b"")
_HOME_OF = {
    name.name: found.module
    for block in _SOURCE.body if isinstance(block, ast.If)
    for found in block.body if isinstance(found, ast.ImportFrom) and found.module != __name__
    for name in found.names
}  # fmt: skip
"""What commands need of other modules, as imported above for type checkers: each when it is first
asked for, since all take a second, and doctor and `specs` promise an answer in two."""


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
    gpu_wiki: Path | None = None,
    agent_deadline_s: float | None = None,
) -> Settings:
    """Of this user, from environment and working directory.

    Args:
        isolation: overrides the environment's.
        lock_clocks: hold the clocks of the GPU that is measured on.
        waits: for a GPU, where none is idle.
        wiki: folder of the user's own pages, in place of the environment's.
        gpu_wiki: folder of Markdown that has the word on hardware, in place of the environment's.
        agent_deadline_s: for one answer of a coding agent, in place of the environment's.
    """
    from roofsmith.config import Settings

    found = Settings.from_environment(os.environ, Path.cwd())
    found = replace(
        found, lock_clocks=lock_clocks, waits=waits,
        agent_deadline_s=agent_deadline_s or found.agent_deadline_s,
    )  # fmt: skip
    found = found if wiki is None else replace(found, wiki_dir=wiki.absolute(), wiki_named=True)
    found = found if gpu_wiki is None else replace(found, gpu_wiki=gpu_wiki.absolute())
    return found if isolation is None else replace(found, isolation=isolation)


def new_directory(subject: Subject) -> Path:
    """`campaigns/<target>-<date>`: where a campaign goes that nobody named a place for.

    Raises:
        TargetError: the target can't be read.
    """
    from roofsmith.api.subjects import target_of

    return settings().campaign_dir(target_of(subject).name, datetime.now(UTC))


def new_demo_directory() -> Path:
    """`campaigns/demo-<date>`."""
    return settings().campaign_dir("demo", datetime.now(UTC))
