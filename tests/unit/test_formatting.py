"""Candidates are formatted before they are built, so that what is kept is what was measured."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from repository_bench import make_repository, needs_git

from roofsmith.domain.campaign import Kept
from roofsmith.domain.formatting import FormatSpec, Formatting
from roofsmith.domain.kernel import Candidate, SourceFile
from roofsmith.domain.refusal import Refusal
from roofsmith.engine.loop import Engine
from roofsmith.engine.verify import verify
from roofsmith.errors import TargetError
from roofsmith.ports import Formatted
from roofsmith.proposers.recipe_proposer import RecipeProposer
from roofsmith.report.campaign_files import render_campaign
from roofsmith.repository.checkouts import GitCheckouts
from roofsmith.targets.file import load_target, load_target_file
from roofsmith.targets.format_choice import chosen_format
from roofsmith.testing.engine import FakeWorld, fake_idea, fake_target
from roofsmith.testing.judge import FakeKernels
from roofsmith.toolchains.formatting import SourceFormatter

HAS_CLANG_FORMAT = (
    shutil.which("clang-format") or (Path(sys.executable).parent / "clang-format").is_file()
)
needs_clang_format = pytest.mark.skipif(not HAS_CLANG_FORMAT, reason="needs clang-format")
STYLE = "BasedOnStyle: LLVM\nIndentWidth: 3\n"
UGLY = "void solve(const float*x,float*y,int n){\nfor(int i=0;i<n;i++)y[i]=2*x[i];}\n"
NEAT = """\
void solve(const float *x, float *y, int n) {
   for (int i = 0; i < n; i++)
      y[i] = 2 * x[i];
}
"""


def candidate(text: str, *others: SourceFile, name: str = "kernel.c") -> Candidate:
    return Candidate(language="c", sources=(SourceFile(path=name, text=text), *others))


BEFORE = candidate("void solve(void) {}\n")


def formatted(spec: FormatSpec, text: str = UGLY, name: str = "kernel.c") -> Formatted:
    return SourceFormatter(spec).format(candidate(text, name=name), BEFORE)


# -- tools ----------------------------------------------------------------------------------------


@needs_clang_format
def test_clang_format_uses_the_configuration_that_was_frozen() -> None:
    config = SourceFile(path=".clang-format", text=STYLE)
    found = formatted(FormatSpec(tool="clang-format", config=config))
    assert found.candidate == candidate(NEAT)
    assert found.formatting == Formatting(
        tool="clang-format", proposed_id=candidate(UGLY).id, changed=("kernel.c",)
    )


@needs_clang_format
def test_without_a_configuration_clang_format_has_a_style_of_its_own() -> None:
    found = formatted(FormatSpec(tool="clang-format"))
    assert "\n  for (int i" in found.candidate.kernel.text


@needs_clang_format
def test_files_that_the_candidate_took_over_stay_as_they_are() -> None:
    header = SourceFile(path="sub/x.h", text="int  f ( void ) ;\n")
    incumbent = candidate("void solve(void) {}\n", header)
    found = SourceFormatter(FormatSpec(tool="clang-format")).format(
        candidate(UGLY, header), incumbent
    )
    assert found.candidate.sources[1] == header
    assert found.formatting.changed == ("kernel.c",)


@pytest.mark.parametrize("configured", [True, False])
def test_ruff_formats_modules(*, configured: bool) -> None:
    config = SourceFile(path="pyproject.toml", text="[tool.ruff.format]\nquote-style = 'single'\n")
    spec = FormatSpec(tool="ruff", config=config if configured else None)
    found = formatted(spec, 'x = {  "a":1 }\n', "kernel.py")
    assert found.candidate.kernel.text == ("x = {'a': 1}\n" if configured else 'x = {"a": 1}\n')


def test_a_command_gets_the_changed_files() -> None:
    spec = FormatSpec(tool="command", command="sed -i s/2/3/ {files} && test ! -e other.c")
    found = formatted(spec)
    assert "y[i]=3*x[i]" in found.candidate.kernel.text
    assert found.formatting.note is None


@pytest.mark.rule("formatting-fails")
@pytest.mark.parametrize(
    ("spec", "text", "why"),
    [
        (FormatSpec(tool="command", command="echo no such style; exit 3"), UGLY, "no such style"),
        (FormatSpec(tool="command", command="no-such-formatter {files}"), UGLY, "exited with 127"),
        (FormatSpec(tool="command", command="rm {files}"), UGLY, "can't be read"),
        (FormatSpec(tool="command", command="true"), UGLY, "found nothing to change"),
        (FormatSpec(tool="ruff"), UGLY, "nothing that ruff formats"),
    ],
)
def test_whatever_goes_wrong_is_a_note(spec: FormatSpec, text: str, why: str) -> None:
    found = formatted(spec, text)
    assert found.candidate == candidate(text)
    assert why in (found.formatting.note or "")
    assert not found.formatting.changed


def test_a_tool_that_is_missing_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    found = formatted(FormatSpec(tool="clang-format"))
    assert found.formatting.note == "clang-format is not installed"


# -- the choice -----------------------------------------------------------------------------------


def test_auto_goes_by_what_lies_beside_the_kernel_or_above_it_in_its_repository(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "repo" / "src" / "deep"
    folder.mkdir(parents=True)
    (tmp_path / ".clang-format").write_text("BasedOnStyle: Google\n")
    assert chosen_format("auto", folder, ["kernel.c"]) is None  # in no repository
    (tmp_path / "repo" / ".git").mkdir()
    assert chosen_format("auto", folder, ["kernel.c"]) is None  # that file is outside
    (tmp_path / "repo" / ".clang-format").write_text(STYLE)
    found = chosen_format("auto", folder, ["kernel.c"])
    assert found == FormatSpec(
        tool="clang-format", config=SourceFile(path=".clang-format", text=STYLE)
    )
    assert chosen_format("auto", folder, ["kernel.py"]) is None
    assert chosen_format("off", folder, ["kernel.c"]) is None


def test_a_project_file_counts_if_it_configures_ruff(tmp_path: Path) -> None:
    project = tmp_path / "pyproject.toml"
    project.write_text("[project]\nname = 'x'\n")
    assert chosen_format("auto", tmp_path, ["kernel.py"]) is None
    project.write_text("[tool.ruff]\nline-length = 100\n")
    found = chosen_format("auto", tmp_path, ["kernel.py"])
    assert found.tool == "ruff"
    project.write_text("[tool.ruff\n")
    with pytest.raises(TargetError, match="is not TOML"):
        chosen_format("auto", tmp_path, ["kernel.py"])


def test_anything_else_is_a_command(tmp_path: Path) -> None:
    found = chosen_format("make format", tmp_path, ["kernel.c"])
    assert found == FormatSpec(tool="command", command="make format")


def test_a_target_file_says_it(tmp_path: Path) -> None:
    (tmp_path / "kernel.c").write_text(NEAT)
    (tmp_path / "reference.py").write_text("def reference(x, y, n): ...\n")
    (tmp_path / ".clang-format").write_text(STYLE)
    target = tmp_path / "target.yaml"
    text = "kernel: kernel.c\nreference: reference.py\nworkloads: [n=8]\n"
    target.write_text(text)
    found = load_target(target).format
    assert found.tool == "clang-format"
    target.write_text(f"{text}format: off\n")
    assert load_target(target).format is None


# -- a repository ---------------------------------------------------------------------------------


@needs_git
def test_a_repositorys_own_command_runs_in_a_checkout(tmp_path: Path) -> None:
    folder = make_repository(
        tmp_path / "repo",
        fmt_sh="sed -i 's/[[:space:]]*$//' src/*.rows; echo '16 1 64 1.0 0' > src/other.rows\n",
        src__other_rows="1 1 64 9.0 0\n",
    )
    target_file = folder / "target.yaml"
    target_file.write_text(target_file.read_text() + "format: sh fmt.sh\n")
    target = load_target_file(target_file).target
    assert target.command is not None
    assert target.format is not None
    spec = FormatSpec.model_validate(target.format)
    checkouts = GitCheckouts(target.command, tmp_path / "formatted")
    formatter = SourceFormatter(spec, lambda one: checkouts.make(one)[0])
    edited = tuple(
        s.model_copy(update={"text": "16 1 64 20.0 0   \n"}) if s.path.endswith("pa.rows") else s
        for s in target.baseline.sources
    )
    proposed = target.baseline.model_copy(update={"sources": edited})
    found = formatter.format(proposed, target.baseline)
    texts = {source.path: source.text for source in found.candidate.sources}
    assert texts == {"src/pa.rows": "16 1 64 20.0 0\n", "src/other.rows": "1 1 64 9.0 0\n"}
    assert formatter.format(proposed, target.baseline) == found


# -- in a campaign --------------------------------------------------------------------------------


class Upper:
    """Formats by marking the kernel."""

    def __call__(self, candidate: Candidate, incumbent: Candidate) -> Formatted:
        head = "/* neat */\n"
        return Formatted(
            candidate.with_kernel_text(head + candidate.kernel.text.removeprefix(head)),
            Formatting(tool="command", proposed_id=candidate.id, changed=("kernel.c",)),
        )


def world_with(name: str = "better") -> tuple[FakeWorld, Candidate]:
    """A campaign whose only idea is faster once it is formatted, and not before."""
    target = fake_target(format=FormatSpec(tool="command", command="fmt"))
    idea = fake_idea(target, name)
    kernels = FakeKernels()
    neat = Upper()(idea.candidate, idea.candidate).candidate
    kernels.add(neat, time_s=5e-4)
    return FakeWorld(target, kernels, [idea], formatter=Upper()), neat


@pytest.mark.rule("formatted-candidate")
def test_what_is_built_judged_and_committed_is_the_formatted_candidate() -> None:
    world, neat = world_with()
    campaign = Engine(world.parts(), "fake").run()
    (round_,) = campaign.rounds
    assert isinstance(round_.decision, Kept)
    assert campaign.incumbent == neat
    assert world.lineage.commits[-1].candidate == neat
    assert round_.proposed_id == world.ideas[0].candidate.id
    assert not verify(world.records)
    assert world.observer.stages[world.observer.stages.index("format") + 1] == "build"


def test_a_change_of_form_alone_changes_nothing() -> None:
    world, _ = world_with()
    engine = Engine(world.parts(), "fake")
    engine.run()
    same_but_for_its_form = world.ideas[0]
    assert same_but_for_its_form.candidate != engine.campaign.incumbent
    refused = engine.submit(same_but_for_its_form)
    assert isinstance(refused, Refusal)
    assert refused.reason == "no_change"
    assert refused.candidate_id == same_but_for_its_form.candidate.id


def test_the_report_says_what_formatting_did() -> None:
    world, _ = world_with()
    campaign = Engine(world.parts(), "fake").run()
    text = render_campaign(campaign).files["rounds/round-2/summary.md"]
    assert "| formatted | by command, before it was built: kernel.c |" in text


def test_verification_sees_formatting_that_is_missing_or_made_up() -> None:
    world, _ = world_with()
    Engine(world.parts(), "fake").run()
    at = next(i for i, event in enumerate(world.records) if event.kind == "round")
    round_ = world.records[at]
    lies = [
        None,
        Formatting(tool="command", proposed_id="0" * 16),
        Formatting(tool="command", proposed_id=round_.candidate.id, changed=("kernel.c",)),
        Formatting(tool="command", proposed_id="0" * 16, changed=("other.c",)),
    ]
    for lie in lies:
        told = round_.model_copy(update={"formatting": lie})
        events = [*world.records[:at], told, *world.records[at + 1 :]]
        assert any("format" in finding.what for finding in verify(events)), lie


def test_a_recipe_knows_what_it_proposed_by_its_form_before_formatting() -> None:
    world, _ = world_with()
    engine = Engine(world.parts(), "fake")
    engine.run()
    brief, recipes = engine.brief(), RecipeProposer()
    mine = recipes.ideas(brief)[0]
    (round_,) = engine.campaign.rounds
    proposed = Formatting(
        tool="command", proposed_id=mine.change.candidate.id, changed=("kernel.c",)
    )
    told = round_.model_copy(update={"formatting": proposed})
    campaign = engine.campaign.model_copy(update={"rounds": (told,)})
    again = recipes.ideas(replace(brief, campaign=campaign))
    assert mine.card.id not in [idea.card.id for idea in again]
