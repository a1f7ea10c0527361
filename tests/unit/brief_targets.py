"""Targets that are measured briefly, where whatever is measured will do."""

from __future__ import annotations

from pathlib import Path

import yaml


def make_brief(target: Path, **changed: object) -> None:
    """Have a target file ask for little: one thread, no sizes held out, a second per judgement.

    Args:
        target: its `target.yaml`.
        changed: what else is changed in it.
    """
    little = {"held_out": 0, "threads": 1, "keep": {"judge_budget_s": 1, "error_rate": 0.1}}
    target.write_text(yaml.safe_dump(yaml.safe_load(target.read_text()) | little | changed))
