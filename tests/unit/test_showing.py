"""What a brief has no room for is shown from the ledger alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from campaign_builder import softmax_events
from typer.testing import CliRunner

from roofsmith.api.showing import PARTS, show_part
from roofsmith.cli.root import cli
from roofsmith.domain.campaign import Masked
from roofsmith.errors import UsageError
from roofsmith.store.ledger import JsonlLedger


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("campaign")
    ledger = JsonlLedger(folder / "ledger.jsonl")
    for event in softmax_events():
        ledger.append(event)
    return folder


def run(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(cli, [str(word) for word in words])
    return result.exit_code, result.stdout


@pytest.mark.parametrize("part", [name for name in PARTS if name not in ("round", "diff")])
def test_every_part_is_text_and_json(directory: Path, part: str) -> None:
    code, text = run("show", directory, part)
    assert code == 0
    shown = show_part(directory, [part])
    assert text.split() == shown.text.split()
    code, text = run("show", directory, part, "--json")
    assert (code, json.loads(text)["document"]) == (0, json.loads(json.dumps(shown.document)))


def test_a_round_may_be_one_word_or_two(directory: Path) -> None:
    assert run("show", directory, "round 4") == run("show", directory, "round", "4")


def test_a_round_has_its_hypothesis_and_figures(directory: Path) -> None:
    shown = show_part(directory, ["round", "4"])
    document: Any = shown.document
    assert document["hypothesis"]["tactic"] == "recipe:online-softmax"
    assert document["hypothesis"]["rationale"] in shown.text
    assert document["decision"]["rule"] in shown.text
    assert "samples" not in document["judgement"]
    assert show_part(directory, ["round", "1"]).document["outcome"]["kind"] == "passed"


def test_a_diff_is_what_the_round_changed(directory: Path) -> None:
    text = show_part(directory, ["diff", "3"]).text
    added = [line for line in text.split("\n") if line.startswith("+") and line[1:2] != "+"]
    assert any("omp parallel" in line for line in added)
    assert "-fopenmp" in text


def test_counters_of_a_round_stand_beside_those_before(directory: Path) -> None:
    document = show_part(directory, ["counters", "3"]).document
    assert document["profile"] != document["before"]
    assert show_part(directory, ["counters"]).document["profile"] is not None
    assert show_part(directory, ["counters", "5"]).document is None


def test_the_kernel_of_a_round_is_what_was_judged(directory: Path) -> None:
    held = show_part(directory, ["kernel"]).document["files"]
    assert show_part(directory, ["kernel", "7"]).document["files"] == held
    assert show_part(directory, ["kernel", "1"]).document["files"] != held


@pytest.mark.parametrize(
    "words", [["nothing"], ["round"], ["round", "99"], ["diff"], ["diff", "1"], ["round", "1", "2"]]
)
def test_what_is_not_there_is_said(directory: Path, words: list[str]) -> None:
    with pytest.raises(UsageError) as said:
        show_part(directory, words)
    assert said.value.hint


def test_a_folder_without_a_campaign_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        show_part(tmp_path, ["history"])


def test_a_masked_round_is_not_shown(tmp_path: Path) -> None:
    ledger = JsonlLedger(tmp_path / "ledger.jsonl")
    for event in softmax_events():
        ledger.append(event)
    ledger.append(Masked(rounds=(4,), by="command", reason="secret", at="2026-04-12 11:00:00"))
    rounds = [row["round"] for row in show_part(tmp_path, ["history"]).document]
    assert 4 not in rounds
    assert 3 in rounds
    with pytest.raises(UsageError):
        show_part(tmp_path, ["round", "4"])
