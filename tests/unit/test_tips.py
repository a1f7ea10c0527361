"""Tips: what a round taught, told once to later campaigns on the same device and operator."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from campaign_builder import campaign_of, events_for, softmax_campaign, softmax_events
from hypothesis import given
from hypothesis import strategies as st
from worlds import world

from roofsmith.analysis.experiments import backend_of, experiments, refused
from roofsmith.analysis.techniques import signs
from roofsmith.analysis.tips import MOST_READ, tips, tips_near
from roofsmith.config import Settings
from roofsmith.domain.campaign import Campaign, Masked, Round, Started
from roofsmith.domain.category import Bucket, Category
from roofsmith.domain.experiment import Experiment
from roofsmith.domain.kernel import Candidate, Language, SourceFile
from roofsmith.domain.target import Target
from roofsmith.domain.tip import Tip
from roofsmith.domain.transfer import TransferCheck
from roofsmith.engine.loop import Engine
from roofsmith.engine.parts import Parts
from roofsmith.errors import UsageError
from roofsmith.experience.database import Database
from roofsmith.experience.inbox import Inbox
from roofsmith.testing.engine import FakeWorld, fake_target
from roofsmith.testing.machine import fake_device
from roofsmith.testing.store import example_tip

# -- what is a lesson ---------------------------------------------------------------------------


@pytest.mark.rule("tips-left")
def test_a_campaign_teaches_what_paid_what_cost_and_what_broke() -> None:
    taught = tips(experiments(softmax_campaign()))
    assert [(tip.takeaway.partition(":")[0], tip.origin[-1]) for tip in taught] == [
        ("Try early", "2"),
        ("Try early", "3"),
        ("Leave", "4"),
        ("Don't, as it is", "6"),
        ("Try early", "7"),
    ]
    first = taught[0]
    assert first.context.startswith("softmax in c on AMD EPYC 7B13; the kernel before it was held")
    assert first.signal.startswith("4.69x [4.63, 4.75], measured twice. vector_fraction 0.08 ->")
    assert "N=4096,D=4096" in first.applicability
    assert "bucket K1" in first.applicability


def test_every_round_is_a_row_that_stands_on_its_own() -> None:
    masked = Masked(rounds=(2,), by="command", reason="stale", at="2026-04-12 11:00:00")
    campaign = campaign_of([*softmax_events(), masked])
    rows = experiments(campaign)
    assert [row.round for row in rows] == [1, *(r.round for r in campaign.rounds)]
    assert [row.decision for row in rows[:3]] == ["baseline", "kept", "kept"]
    assert [row.round for row in rows if row.masked] == [2]
    assert rows[1].counters_before != rows[1].counters_after == rows[2].counters_before
    assert all(Experiment.model_validate_json(row.model_dump_json()) == row for row in rows)


def lesson(campaign: Campaign, round_: Round) -> Tip | None:
    """What a round teaches in place of the campaign's own of its number."""
    rounds = tuple(round_ if r.round == round_.round else r for r in campaign.rounds)
    rows = experiments(campaign.model_copy(update={"rounds": rounds}))
    return next(iter(tips(rows[round_.round - 1 : round_.round])), None)


def round_of(campaign: Campaign, number: int, **hypothesis: object) -> Round:
    """A round of a campaign, with another hypothesis."""
    found = next(r for r in campaign.rounds if r.round == number)
    return found.model_copy(update={"hypothesis": found.hypothesis.model_copy(update=hypothesis)})


@pytest.mark.rule("tips-transferable")
@pytest.mark.parametrize("bucket", Bucket.__args__)
def test_what_depends_on_inputs_coming_again_is_not_told(bucket: Bucket) -> None:
    campaign = softmax_campaign()
    told = lesson(campaign, round_of(campaign, 2, bucket=bucket))
    assert (told is not None) == bucket.startswith("K")
    checked = round_of(campaign, 2).model_copy(update={"findings": (TransferCheck(bucket=bucket),)})
    assert (lesson(campaign, checked) is not None) == bucket.startswith("K")


@pytest.mark.rule("tips-transferable")
def test_words_decide_nothing() -> None:
    campaign = softmax_campaign()
    words = "Cache the quantized activation by id(x)"
    assert lesson(campaign, round_of(campaign, 2, statement=words)) is not None
    assert lesson(campaign, round_of(campaign, 2, statement=words, bucket="W2")) is None


@pytest.mark.rule("tips-left")
def test_a_lesson_is_told_once_and_a_masked_round_tells_none() -> None:
    events = softmax_events()
    again = round_of(softmax_campaign(), 3, tactic="recipe:vector-exp")
    taught = tips(experiments(campaign_of([*events[:3], again])))
    assert [tip.origin[-1] for tip in taught] == ["2"]
    masked = Masked(rounds=(2,), by="command", reason="", at="2026-04-12 11:00:00")
    taught = tips(experiments(campaign_of([*events, masked])))
    assert [tip.origin[-1] for tip in taught] == ["3", "4", "6", "7"]


def test_outside_of_recipes_the_words_make_the_lesson() -> None:
    campaign = softmax_campaign()
    one = lesson(campaign, round_of(campaign, 2, tactic="external", statement="Unroll by  8."))
    same = lesson(campaign, round_of(campaign, 2, tactic="external", statement="unroll by 8"))
    other = lesson(campaign, round_of(campaign, 2, tactic="external", statement="unroll by 4"))
    assert one.lesson == same.lesson != other.lesson


@pytest.mark.rule("tips-no-noise")
@given(st.lists(st.sampled_from(["tie", "inconclusive", "build_failed"]), max_size=6))
def test_nothing_is_learned_from_what_made_no_difference(kinds: list[str]) -> None:
    assert tips(experiments(campaign_of(events_for(kinds)))) == ()  # type: ignore[arg-type]


def test_a_neighbour_of_the_same_architecture_is_marked() -> None:
    rows = experiments(softmax_campaign())
    here = softmax_campaign().started.environment.device
    near = here.model_copy(update={"name": "its neighbour"})
    far = near.model_copy(update={"isa": ("avx512f",)})
    assert [tip.takeaway for tip in tips_near(rows, near)] == [t.takeaway for t in tips(rows)]
    assert all("neighbour" in tip.applicability for tip in tips_near(rows, near))
    assert tips_near(rows, here) == tips(rows)
    assert tips_near(rows, far) == ()


def test_only_the_newest_are_read() -> None:
    device = fake_device()
    told = [example_tip(f"{n:03}") for n in range(MOST_READ + 5)]
    rows = [Experiment(device=device.name, tip=tip) for tip in told]
    assert tips_near(rows, device) == tuple(told[5:])


def test_where_experiments_go_is_a_setting(tmp_path: Path) -> None:
    def chosen(**environment: str) -> str | None:
        return Settings.from_environment({"HOME": "/home/u", **environment}, tmp_path).experience

    assert chosen() == "sqlite:////home/u/.local/share/roofsmith/experience.db"
    assert chosen(XDG_DATA_HOME="/data") == "sqlite:////data/roofsmith/experience.db"
    assert chosen(ROOFSMITH_EXPERIENCE="/x.db", XDG_DATA_HOME="/data") == "sqlite:////x.db"
    assert chosen(ROOFSMITH_EXPERIENCE="postgresql://a@b/c") == "postgresql://a@b/c"
    assert chosen(ROOFSMITH_EXPERIENCE="none") is None
    with pytest.raises(UsageError, match="ROOFSMITH_EXPERIENCE=x is not an absolute path"):
        chosen(ROOFSMITH_EXPERIENCE="x")


# -- in a campaign ------------------------------------------------------------------------------


def started(world: FakeWorld) -> Started:
    first = world.records[0]
    assert isinstance(first, Started)
    return first


class Shelf:
    """A database that campaigns of fakes share."""

    def __init__(self, path: Path) -> None:
        self.inbox = Inbox(Database(f"sqlite:///{path}"), path.with_name("spool.jsonl"))

    def read(self) -> tuple[Tip, ...]:
        return tips_near(self.inbox.database.list(), fake_device())

    def leave(self, campaign: Campaign) -> None:
        self.inbox.leave((*experiments(campaign), *refused(campaign)))

    def parts(self, world: FakeWorld) -> Parts:
        return replace(world.parts(), read_tips=self.read, remember=self.leave)


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path / "experience.db")


@pytest.mark.rule("tips-read")
def test_a_campaign_begins_with_the_tips_that_the_last_one_left(shelf: Shelf) -> None:
    first, second = world(0.5e-3), world(0.5e-3)
    Engine(shelf.parts(first), "first").run()
    assert started(first).tips == ()
    Engine(shelf.parts(second), "second").run()  # the same lesson again
    assert [tip.origin for tip in started(second).tips] == ["first, round 2"]


@pytest.mark.rule("experiments-land")
def test_every_round_lands_once_and_what_a_crash_lost_with_the_resume(shelf: Shelf) -> None:
    here = world(0.5e-3)
    campaign = Engine(here.parts(), "test").run()
    for _ in range(2):
        Engine(shelf.parts(here), "test").repair()
        found = shelf.inbox.database.list()
        assert [row.round for row in found if row.round] == [1, *(r.round for r in campaign.rounds)]
        assert all(row.campaign == "test" for row in found)


@pytest.mark.rule("experiments-land")
def test_a_database_that_cannot_take_them_stops_no_campaign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roofsmith.experience.database._LOCKED_S", 0)
    shelf = Shelf(tmp_path / "experience.db")
    shelf.leave(softmax_campaign())
    before = len(shelf.inbox.database.list())
    here, holder = world(0.5e-3), sqlite3.connect(tmp_path / "experience.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    assert len(Engine(shelf.parts(here), "test").run().kept) == 1
    assert "experience" in here.observer.stages
    holder.execute("COMMIT")
    holder.close()
    with shelf.inbox.spool.open("a") as spool:
        spool.write('{"id":"torn')
    assert len(shelf.inbox.database.list()) == before
    shelf.inbox.leave([Experiment(id="later")])
    assert not shelf.inbox.spool.exists()
    assert len(shelf.inbox.database.list()) > before + 2


def test_where_nothing_can_be_written_a_campaign_goes_on(tmp_path: Path) -> None:
    (tmp_path / "d").write_text("a file in the place of the folder")
    here = world(0.5e-3)
    parts = replace(here.parts(), remember=Shelf(tmp_path / "d" / "x.db").leave)
    assert len(Engine(parts, "test").run().kept) == 1
    assert "experience" in here.observer.stages


@given(st.text(max_size=300))
def test_whatever_a_proposer_says_can_be_kept(words: str) -> None:
    campaign = softmax_campaign()
    said = round_of(campaign, 2, statement=words, rationale=words, tactic=words)
    rounds = tuple(said if r.round == 2 else r for r in campaign.rounds)
    for row in experiments(campaign.model_copy(update={"rounds": rounds})):
        assert Experiment.model_validate_json(row.model_dump_json()) == row
        assert len(row.change_summary) <= 80


@pytest.mark.parametrize(
    ("path", "text", "backend"),
    [
        ("a/k.cu", "", "cuda"),
        ("k.hip", "", "hip"),
        ("k.py", "import triton\nimport torch", "triton"),
        ("k.py", "import flydsl.expr\nimport torch", "flydsl"),
        ("k.py", "from cutlass import cute", "cutedsl"),
        ("k.py", "import tritonish\nimport torch", "torch"),
        ("k.hpp", "#include <hip/hip_runtime.h>", "hip"),
        ("k.hpp", "ck_tile::sequence<>", "hip"),
        ("k.h", "__global__ void f();", "cuda"),
        ("k.py", "", "python"),
        ("k.txt", "", "command"),
    ],
)
def test_a_repository_goes_by_what_its_kernel_is_written_in(
    path: str, text: str, backend: str
) -> None:
    repository = Target.model_construct(language="command", command=object())
    kernel = Candidate(language="command", sources=(SourceFile(path=path, text=text),))
    assert backend_of(repository, kernel) == backend
    beside = SourceFile(path="bind.py", text="import torch")
    wrapped = kernel.model_copy(update={"sources": (beside, *kernel.sources)})
    if backend not in ("python", "command", "torch"):
        assert backend_of(repository, wrapped) == backend
    assert backend_of(fake_target(), kernel) == "c"


def test_what_the_judge_could_not_verify_is_no_success() -> None:
    campaign = softmax_campaign()
    found = round_of(campaign, 2)
    doubted = found.judgement.model_copy(update={"verdict": "unverified"})
    rounds = (found.model_copy(update={"judgement": doubted}), *campaign.rounds[1:])
    rows = experiments(campaign.model_copy(update={"rounds": rounds}))
    assert [row.outcome for row in rows[1:3]] == ["neutral", "success"]


def shown(language: Language, text: str) -> set[Category]:
    name = "kernel.py" if language in ("triton", "torch") else "kernel.c"
    return set(signs(Candidate(language=language, sources=(SourceFile(path=name, text=text),))))


NAIVE = """
// prefetch with _mm256_load_ps, tiled over BLOCK_M; #pragma omp parallel
void solve(const float* restrict a, float* out, int N) {
    float sum = 0.0f; /* acc1, __builtin_prefetch */
    for (int i = 0; i < N; i += 8) for (int j = 0; j < 8; ++j) sum += a[i + j];
    out[0] = sum;
}
"""


@pytest.mark.parametrize(
    ("language", "text", "found"),
    [
        ("c", NAIVE, set()),
        ("c", "void solve() { __m256 x = _mm256_set1_ps(1); }", {"vectorisation"}),
        ("c", "void f() {\n#pragma omp parallel for simd\nfor (;;); }",
         {"vectorisation", "parallelism"}),
        ("c", "void f() { pthread_create(&t, 0, g, 0); }", {"parallelism"}),
        ("c", "void f(int n) { for (int i = 0; i < n; i += T) for (int j = i; j < i + T; j++); }",
         {"tiling"}),
        ("c", "void f(int n) { for (int i = 0; i < n; i += 8) __builtin_prefetch(a + i); }",
         {"prefetch"}),
        ("c", "void f(float* a) { float acc0 = 0, acc1 = 0; }", {"scheduling"}),
        ("cuda", "__global__ void k(float4* x) { __shared__ float s[32][32 + 1]; }",
         {"vectorisation", "tiling", "layout"}),
        ("cuda", "__global__ void k() { int i = blockIdx.x * blockDim.x; }", set()),
        ("cuda", 'void k() { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"); }',
         {"prefetch"}),
        ("triton", '"""Uses tl.dot one day."""\nx = tl.load(p)  # num_stages=3\n', set()),
        ("triton", "acc = tl.dot(a, b, acc)\nkernel[grid](x, num_stages=3, num_warps=8)\n",
         {"vectorisation", "tiling", "prefetch", "launch"}),
        ("triton", "def broken(:  # tl.dot\n", {"vectorisation", "tiling"}),
    ],
)  # fmt: skip
def test_what_a_source_shows(language: Language, text: str, found: set[Category]) -> None:
    assert shown(language, text) == found


def test_a_sign_says_where() -> None:
    text = "/* one\n   two */\nvoid solve() {\n    __builtin_prefetch(0);\n}\n"
    candidate = Candidate(language="c", sources=(SourceFile(path="kernel.c", text=text),))
    sign = signs(candidate)["prefetch"]
    assert (sign.path, sign.line, sign.text) == ("kernel.c", 4, "__builtin_prefetch")
