"""What the pages say is so: commands run, generated pages are current, reason codes exist."""

from __future__ import annotations

import ast
import gzip
import json
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import get_args

import pytest
import yaml
from repository_bench import run, without_ceilings, without_profilers
from test_attainable import bound
from test_cuda_families import HOPPER
from typer.testing import CliRunner

from roofsmith import profilers
from roofsmith.analysis.calibration import landing
from roofsmith.api import read_campaign
from roofsmith.cli.arrangement import FORMER
from roofsmith.cli.root import cli
from roofsmith.domain.answer import Answer
from roofsmith.domain.campaign import Event, replay
from roofsmith.domain.inspection import SanitizerTool
from roofsmith.domain.outcome import Failure
from roofsmith.engine.verify import verify
from roofsmith.judge import patience
from roofsmith.judge.correctness.diagnosis import Code
from roofsmith.judge.gpu import lineup as gpu_lineup
from roofsmith.judge.gpu import reasons
from roofsmith.machine import nvml
from roofsmith.proposers import reach
from roofsmith.proposers.cards import CardContext, all_cards
from roofsmith.store.records import check_chain, unseal
from roofsmith.toolchains.diagnostics import Reason

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "roofsmith"
README = ROOT / "README.md"
JUDGE = ROOT / "docs" / "judge.md"
PAGES = sorted(
    path for folder in (ROOT, ROOT / "docs", ROOT / "benchmarks") for path in folder.glob("*.md")
)
FAILURES = frozenset(kind.__name__ for kind in get_args(Failure))
CODE = re.compile(r"[a-z]+(_[a-z]+)*")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def generate() -> Iterator[ModuleType]:
    """docs/generate.py, which is no part of the package."""
    sys.path.insert(0, str(ROOT / "docs"))
    import generate

    yield generate
    sys.path.remove(str(ROOT / "docs"))


def test_commands_are_current(generate: ModuleType) -> None:
    page = (ROOT / "docs" / "cli.md").read_text()
    assert page == generate.cli_page(), "run `make docs`"


def test_recipes_are_current(generate: ModuleType) -> None:
    page = (ROOT / "docs" / "recipes.md").read_text()
    assert page == generate.recipes_page(), "run `make docs`"


def test_demands_are_counted(generate: ModuleType) -> None:
    page = (ROOT / "docs" / "seeds.md").read_text()
    assert page == generate.with_counts(page), "run `make docs`"


def test_figures_are_those_of_the_judge_that_was_measured(generate: ModuleType) -> None:
    page = (ROOT / "docs" / "measured.md").read_text()
    assert page == generate.measured_page(), "run `make docs`"
    readme = README.read_text()
    assert readme == generate.with_figures(readme), "run `make docs`"


def test_results_are_those_of_the_records(generate: ModuleType) -> None:
    path = ROOT / "docs" / "results.md"
    page = path.read_text() if path.exists() else None
    assert page == generate.results.page(), "run `make docs`"
    for name, drawn in generate.results.plots():
        assert (ROOT / "docs" / name).read_text() == drawn, "run `make docs`"


def test_problem_sets_have_a_section(generate: ModuleType, tmp_path: Path) -> None:
    row = {"problem": "softmax", "verdict": "gained", "speedup": 2.5, "over_pytorch": 1.25}
    hung = {
        "problem": "scan",
        "verdict": "hung",
        "reason": "a | b\nc",
        "seconds": 9,
        "campaign": "b",
    }
    record = {
        "started": "2026-11-30T22:00", "device": "a GPU", "budget_s": 60,
        "problems": [
            {"set": "A", "name": "softmax", "right": True},
            {"set": "A", "name": "scan", "right": False, "reason": "far <off>"},
            {"set": "B", "name": "paged", "right": None, "reason": "reads numbers"},
        ],
        "campaigns": [{**row, "seconds": 61.4, "campaign": "a"}, hung],
        "operator": {"inside torch.compile": "yes"},
    }  # fmt: skip
    path = tmp_path / "problem-sets.json"
    path.write_text(json.dumps(record))
    lines = generate.results.problem_sets(path).splitlines()
    assert "| A | 2 | 1 | 1 | 0 |" in lines
    assert "| B | 1 | 0 | 0 | 1 |" in lines
    assert "- scan: far &lt;off>" in lines
    assert "| softmax | gained | 2.50x | 1.25x | UNKNOWN | 0 | 61 |" in lines
    assert r"| scan | hung: a \| b c | UNKNOWN | UNKNOWN | UNKNOWN | 0 | 9 |" in lines
    assert "- inside torch.compile: yes" in lines


@pytest.mark.parametrize(("optimized_us", "missed"), [(108.0, 0), (109.0, 1)])
def test_a_case_that_takes_longer_than_asked_says_what_it_waited_for(
    generate: ModuleType, optimized_us: float, missed: int
) -> None:
    results = generate.results
    given = {"duration_s": 3e-5, "sm_active_share": 0.9, "waves_per_sm": 2.5, "tail_share": 0.17,
             "dram_throughput": 0.77}  # fmt: skip
    ran = {"ledger": "l", "budget_s": 9, "wall_s": 9, "stopped": None, "claimed_speedup": None,
           "rounds": (), "kernel": "", "flags": (), "counters": given}  # fmt: skip
    timed = results.Timed(
        dims={"N": 1}, bytes=100_000_000, flops=0, copy_bytes_per_s=1e12, flops_per_s={},
        contenders=({"name": "optimized", "median_us": optimized_us},),
    )  # fmt: skip
    case = results.CaseResult(case="triton-softmax", floor=None, timed=(timed,), campaign=ran)
    told = list(results.misses([case]))
    assert len(told) == missed
    assert all("77%" in one for one in told)


def test_another_judge_has_no_figures(generate: ModuleType) -> None:
    """Records are of one version of the judge each, and those of others are left out."""
    records = generate.measured.load()
    page = generate.measured.page(records, "0" * 12)
    assert "judge_rates.json" not in page
    assert "selftest.json" not in page
    assert "No record is of this judge yet: identical kernels" in page
    assert "no record yet" in generate.measured.summary(records, "0" * 12)
    named = {name: {**records[name], "judge": "0" * 12} for name in ("campaigns", "sgemm_openblas")}
    page = generate.measured.page({**records, **named}, "0" * 12)
    assert "| sgemm | 86 s | 141x [118, 150] | 86% |" in page
    assert "| 768 | 1.018x [0.997, 1.046] |" in page


def test_readme_is_short() -> None:
    assert len(README.read_text().split()) <= 1000


def test_target_keys_are_current(generate: ModuleType) -> None:
    page = (ROOT / "docs" / "target.md").read_text()
    assert page == generate.with_keys(page), "run `make docs`"
    assert "| `keep.noise_band` | number | `0.01` |" in page


def test_the_brief_is_described_as_it_is(generate: ModuleType) -> None:
    page = (ROOT / "docs" / "brief.md").read_text()
    assert page == generate.with_brief(page), "run `make docs`"
    (answer,) = [text for kind, text in FENCE.findall(page) if kind == "json"]
    Answer.model_validate_json(answer)


def test_command_keys_are_current(generate: ModuleType) -> None:
    page = (ROOT / "docs" / "command.md").read_text()
    assert page == generate.with_command_keys(page), "run `make docs`"


def test_every_option_of_help_is_on_the_page(generate: ModuleType) -> None:
    """The page is made from annotations; `--help` is what people see."""
    options = _options(generate.cli_page())
    assert {"optimize", "kernel judge", "specs measure"} <= options.keys()
    for command, on_page in options.items():
        shown = CliRunner().invoke(cli, [*command.split(), "--help"], env={"COLUMNS": "200"}).stdout
        assert set(re.findall(r"--[a-z][a-z-]*", shown)) - {"--help"} == on_page, command


def _options(page: str) -> dict[str, set[str]]:
    """Long options by command, from the first cells of the tables."""
    sections = re.findall(r"^## roofsmith ([a-z ]+)$(.*?)(?=^## |\Z)", page, re.M | re.S)
    return {
        command: set(
            re.findall(r"--[a-z][a-z-]*", "".join(re.findall(r"^\| `-.*? \|", text, re.M)))
        )
        for command, text in sections
        if "COMMAND ..." not in text
    }


def test_pages_name_only_options_that_exist(generate: ModuleType) -> None:
    options = _options(generate.cli_page())
    for path in PAGES:
        for text in re.findall(r"roofsmith [a-z][^`\n]*", path.read_text()):
            words = text.split()[1:]
            words[:1] = FORMER.get(words[0], words[:1])
            named = [" ".join(words[:count]) for count in (3, 2, 1)]
            command = next((name for name in named if name in options), None)
            if command is None:
                continue  # prose
            unknown = (
                {w.rstrip(":;,.") for w in words if w.startswith("--")}
                - options[command]
                - {"--help"}
            )
            assert not unknown, f"{path.name}: {text}"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    text = path.read_text()
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if not target.startswith("http"):
            assert (path.parent / target).exists(), target
    for link, anchor in re.findall(r"\]\(([^)#\s]*)#([^)]*)\)", text):
        page = path.parent / link if link else path
        titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
        assert anchor in {re.sub(r"[^\w -]", "", t).lower().replace(" ", "-") for t in titles}


@pytest.mark.slow
def test_every_reason_code_is_explained() -> None:
    explained = set(re.findall(r"^\| `([a-z_]+)(?:<name>)?` \|", JUDGE.read_text(), re.MULTILINE))
    explained -= {"faster", "slower", "tie", "inconclusive", "unverified", "rejected"}
    assert explained == _codes_in_source()


def test_the_judge_s_numbers_are_current(generate: ModuleType) -> None:
    page = JUDGE.read_text(encoding="utf-8")
    assert page == generate.with_constants(page), "run `make docs`"


@pytest.mark.parametrize(
    ("page", "phrase", "is_so"),
    [
        ("gpu.md", "replaced after every second sweep", gpu_lineup.SWEEPS_PER_INSTANCE == 2),
        ("gpu.md", "asked four times a second at most", nvml.CENSUS_S == 0.25),
        ("gate.md", "asks four times a second at most", nvml.CENSUS_S == 0.25),
    ],
)
def test_pages_on_gpus_have_the_code_s_numbers(page: str, phrase: str, is_so: bool) -> None:
    assert is_so
    assert phrase in " ".join((ROOT / "docs" / page).read_text().split())


def _codes_in_source() -> set[str]:
    codes = {*get_args(Reason), *get_args(Code)}
    codes |= {*reasons.DEVICE_REASONS.values(), *reasons.REFUSED_LAUNCHES.values()}
    codes |= {reasons.OTHER_DEVICE_REASON, "raised", "load_failed"}  # chosen beside one another
    for path in SOURCE.rglob("*.py"):
        if "testing" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            codes |= set(_codes_at(node))
    by_tool = {f"sanitizer_{tool}" for tool in get_args(SanitizerTool)}
    return codes - {"sanitizer_"} | by_tool


def _codes_at(node: ast.AST) -> Iterator[str]:
    """Codes given to a failed outcome, directly, by a variable `reason`, or by a pair's first."""
    match node:
        case ast.Call(func=ast.Name(id=name), keywords=keywords) if name in FAILURES:
            for keyword in keywords:
                if keyword.arg == "reason":
                    yield from _constants(keyword.value)
        case ast.Assign(targets=[ast.Name(id="reason")], value=ast.IfExp() as value):
            yield from _constants(value)
        case ast.Return(value=ast.Tuple(elts=[ast.Constant(value=str(code)), _])):
            if CODE.fullmatch(code) and "_" in code:
                yield code
        case _:
            return


def _constants(value: ast.expr) -> Iterator[str]:
    match value:
        case ast.Constant(value=str(code)):
            if CODE.fullmatch(code):
                yield code
        case ast.IfExp(body=body, orelse=orelse):
            yield from _constants(body)
            yield from _constants(orelse)
        case ast.JoinedStr(values=[ast.Constant(value=str(prefix)), *_]) if prefix.endswith("_"):
            yield prefix
        case _:
            return


SMALLER = {
    "N=512,D=1024": "N=128,D=512",
    "--max-iterations 2": "--max-iterations 1 --threads 1",
    " --json": " --json --threads 1 --budget 1",
}
"""What the commands may be given less of, and show the same."""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
def test_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernel, reference and commands of "Your own kernel", as a reader would type them."""
    without_ceilings(monkeypatch, tmp_path / "cache")
    without_profilers(monkeypatch, tmp_path)
    monkeypatch.setattr(patience, "LONGEST_S", 3.0)  # whatever the verdicts are
    monkeypatch.chdir(tmp_path)
    section = README.read_text().partition("## Your own kernel")[2].partition("\n## ")[0]
    blocks = FENCE.findall(section)
    (kernel,) = [text for kind, text in blocks if kind == "c"]
    (reference,) = [text for kind, text in blocks if kind == "python"]
    (tmp_path / "kernel.c").write_text(kernel)
    (tmp_path / "reference.py").write_text(reference)
    typed = "".join(text for kind, text in blocks if kind == "sh")
    for much, little in SMALLER.items():
        assert much in typed
        typed = typed.replace(much, little)
    commands = [shlex.split(line) for line in typed.splitlines()]
    assert {program for program, *_ in commands} == {"roofsmith"}
    assert {line[2] if line[1] in ("kernel", "campaign") else line[1] for line in commands} == {
        "init",
        "optimize",
        "verify",
        "report",
        "judge",
        "ask",
    }
    for _, *arguments in commands:
        code, out, err = run(*arguments)
        if "disturbed" in err:
            pytest.skip(f"this machine is too busy to measure: {err.strip()}")
        judged = arguments[:2] == ["kernel", "judge"]
        assert code in ((0, 1) if judged else (0,)), f"{arguments}\n{err}"
        if judged:
            _has_the_shape_shown(json.loads(out))
        if arguments[0] == "init":
            target = tmp_path / "target.yaml"
            keep = "keep: {judge_budget_s: 1, error_rate: 0.1}"
            target.write_text(f"{target.read_text()}\nheld_out: 0\n{keep}\n")
    assert (tmp_path / "campaign" / "report.html").stat().st_size > 10_000
    assert "`roofsmith apply campaign`" in section
    assert (tmp_path / "kernel.c").read_text() == kernel
    kept = read_campaign(tmp_path / "campaign").kept
    assert run("apply", "campaign")[0] == (0 if kept else 2)
    assert ((tmp_path / "kernel.c").read_text() != kernel) == bool(kept)


def _has_the_shape_shown(document: dict[str, object]) -> None:
    (shown,) = [text for _, text in FENCE.findall(JUDGE.read_text()) if '"outcome"' in text]
    example = json.loads(shown)
    assert set(document) - {"log"} == set(example)
    for workload in document["workloads"]:  # type: ignore[attr-defined]
        assert set(workload) == set(example["workloads"][0])


CASES = Path(__file__).parents[2] / "docs" / "cases"
FOLDERS = sorted(path.parent for path in CASES.glob("*/ledger.jsonl.gz"))


def events_of(folder: Path) -> tuple[Event, ...]:
    lines = gzip.decompress((folder / "ledger.jsonl.gz").read_bytes()).splitlines()
    records = [unseal(line) for line in lines]
    check_chain(records)
    return tuple(record.event() for record in records)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_what_a_case_says_follows_from_its_ledger(folder: Path) -> None:
    events = events_of(folder)
    assert [one for one in verify(events) if one.rules is None] == []
    campaign = replay(events)
    page = (CASES / "README.md").read_text().splitlines()
    row = next(line for line in page if f"({folder.name})" in line)
    _, _, _, rounds, kept, *_ = row.split("|")
    assert (int(rounds), int(kept)) == (len(campaign.rounds), len(campaign.kept))


FAMILIES = {card.id: card for card in all_cards() if card.predict.__module__ == reach.__name__}


def measured(floor_us: float | None, time_us: float, family: str | None = None) -> CardContext:
    found = bound(None if floor_us is None else floor_us * 1e-6, None)
    times_s = {found.workload: time_us * 1e-6}
    return replace(HOPPER, family=family, bounds=(found,), times_s=times_s)


@pytest.mark.parametrize(
    ("card", "floor_us", "time_us", "gained"),
    [
        ("attention-3xtf32", 66.3, 4972.8, 45.1),
        ("triton-attention", 66.4, 2666.1, 40.0),
        ("triton-quantisation", 63.2, 381.8, 5.5),
        ("inductor", 26.3, 101.2, 3.2),
    ],
)
def test_promises_are_what_came_of_them(
    card: str, floor_us: float, time_us: float, gained: float
) -> None:
    promised = reach.reached_gain(measured(floor_us, time_us), card)
    assert landing(promised, gained, 0.02) == "hit"


@pytest.mark.parametrize("card", FAMILIES)
def test_whoever_is_near_the_limit_is_promised_nothing(card: str) -> None:
    promise = FAMILIES[card].predict
    assert promise(measured(84.0, 88.0)) == 1.0
    assert promise(measured(84.0, 8400.0)) > 20
    assert promise(measured(0.5, 6.0)) < 1.5  # a call takes that long, whatever it does
    assert promise(measured(None, 6.0)) > 1


def test_each_expects_a_counter_that_a_profiler_of_gpus_gives() -> None:
    vocabulary = Path(profilers.__file__).parent / "vocabulary" / "counters.yaml"
    known = {counter["name"] for counter in yaml.safe_load(vocabulary.read_text())["counters"]}
    cards = [card for card in all_cards() if not card.languages <= {"c", "cpp"}]
    assert {card.expected_counter for card in cards} <= known
    assert all(card.expected_change.startswith(("up", "down")) for card in cards)
