"""Every module and every test that the page of rules names exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "roofsmith"
TESTS = ROOT / "tests"
PAGE = ROOT / "docs" / "rules.md"
NOT_ENFORCED = "What is not enforced"
TICKED = re.compile(r"`([^`]+)`")


def tables() -> Iterator[tuple[str, list[str]]]:
    """Topic and cells of every row."""
    topic = ""
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            topic = line.removeprefix("## ")
        elif line.startswith("| ") and not line.startswith("| rule |"):
            cells = re.split(r"(?<!\\) \| ", line.removeprefix("| ").removesuffix(" |"))
            yield topic, cells


ROWS = list(tables())
ENFORCED = [cells for topic, cells in ROWS if topic != NOT_ENFORCED]


@cache
def proofs_in(name: str) -> frozenset[str]:
    """Names of the tests in the module of that name, methods with their class."""
    (path,) = TESTS.glob(f"*/{name}")
    return frozenset(_proofs(ast.parse(path.read_text()).body))


def _proofs(body: list[ast.stmt], prefix: str = "") -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _proofs(node.body, f"{prefix}{node.name}::")
        elif isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield f"{prefix}{node.name}"


@pytest.mark.parametrize("cells", ENFORCED, ids=lambda cells: cells[0][:60])
def test_a_rule_has_modules_and_tests_that_exist(cells: list[str]) -> None:
    rule, modules, tests = cells
    assert rule
    named = TICKED.findall(modules)
    assert named
    assert [module for module in named if not (SOURCE / module).is_file()] == []
    proofs = [proof.partition("::") for proof in TICKED.findall(tests)]
    assert proofs
    assert [f"{file}::{name}" for file, _, name in proofs if name not in proofs_in(file)] == []


def test_what_is_not_enforced_has_a_reason() -> None:
    reasons = [cells for topic, cells in ROWS if topic == NOT_ENFORCED]
    assert len(reasons) > 10
    assert all(len(cells) == 2 and len(cells[1]) > 40 for cells in reasons)


def test_every_topic_is_there_and_no_rule_twice() -> None:
    topics = dict.fromkeys(topic for topic, _ in ROWS)
    assert list(topics) == [
        "Target", "Correctness", "Deciding", "Classes and split", "Repair", "Counters and stops",
        "Diagnosis and profiling", "Over-fitting", "Memory and tips", "Logs", "Commits",
        "Hardware facts", "GPU gate", "Environment", NOT_ENFORCED,
    ]  # fmt: skip
    rules = [cells[0] for _, cells in ROWS]
    assert len(rules) == len(set(rules)) > 130
