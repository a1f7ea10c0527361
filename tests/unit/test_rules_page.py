"""Every rule is proven by a test, every marker names a rule, and the page shows both."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def rules() -> Iterator[ModuleType]:
    """docs/rules.py, which is no part of the package."""
    sys.path.insert(0, str(DOCS))
    import rules

    yield rules
    sys.path.remove(str(DOCS))


def test_every_rule_has_a_test_and_every_marker_a_rule(rules: ModuleType) -> None:
    known, proven = rules.rules(), rules.proofs()
    assert [name for name in known if name not in proven] == [], "rules that no test is marked with"
    assert {name: tests for name, tests in proven.items() if name not in known} == {}


def test_every_rule_names_its_modules(rules: ModuleType) -> None:
    assert [name for name, rule in rules.rules().items() if not rule.modules] == []


@pytest.mark.slow
def test_the_page_is_current(rules: ModuleType) -> None:
    page = (DOCS / "rules.md").read_text(encoding="utf-8")
    assert page == rules.page(), "run `make docs`"


def test_a_module_is_found_by_the_end_of_its_path_alone(rules: ModuleType) -> None:
    assert rules.module("domain/campaign.py") == "domain/campaign.py"
    for ending in ("nobody.py", "__init__.py"):
        with pytest.raises(ValueError, match=ending):
            rules.module(ending)
