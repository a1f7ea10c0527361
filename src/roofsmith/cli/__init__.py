"""The command line. Knows `roofsmith.api`, and nothing below it but the domain's nouns."""

from __future__ import annotations

from roofsmith.cli import (  # noqa: F401 - they register their commands
    beginning,
    campaigns,
    experience,
    holding,
    knowledge,
    memory,
    problems,
    programs,
    references,
    selftest,
    serving,
    showing,
    skills,
    steps,
    this_machine,
    watching,
)
from roofsmith.cli.root import main

__all__ = ["main"]
