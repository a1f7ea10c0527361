"""What is kept of an over-fitted candidate, and how much of a gain is real."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofsmith.analysis.evidence import Evidence
from roofsmith.domain.campaign import Campaign, Decision, Kept, RolledBack, Round
from roofsmith.domain.category import Bucket
from roofsmith.domain.comparison import Comparison, Estimate, Judgement, PairSample
from roofsmith.domain.kernel import Candidate, SourceFile
from roofsmith.domain.outcome import Incorrect
from roofsmith.domain.proposal import Hypothesis, Proposal
from roofsmith.domain.target import KeepPolicy
from roofsmith.domain.transfer import Assumption, CacheHits, KeptValue, Trace, TransferCheck
from roofsmith.engine.deciding import decide
from roofsmith.engine.loop import Engine
from roofsmith.engine.verify import verify
from roofsmith.overfitting.hints import Audit, audit, weights_of
from roofsmith.overfitting.hints.tokens import is_weight_name
from roofsmith.overfitting.rule import (
    bound_of,
    bucket_of,
    check_of,
    is_untried,
    real_speedup,
    refusal,
)
from roofsmith.report.campaign_files import render_campaign
from roofsmith.report.summarize import summarize
from roofsmith.testing.engine import FakeWorld, fake_idea, fake_target
from roofsmith.testing.judge import FakeKernels
from roofsmith.testing.toolchain import SCALE
from roofsmith.testing.tracer import FakeTracer

POLICY = KeepPolicy()
KEPT = Kept(rule="overall faster")
GROUPS = Assumption(
    code="uniform_group_size", path="k.py", line=2, detail="M // G", says="all groups are equal"
)
MEMO_C = f"""\
static const float *last;
static float kept[1 << 20];

{SCALE.replace("solve", "scale")}
void solve(const float *x, float *y, int n)
{{
    if (x != last) {{
        for (int i = 0; i < n; i++) kept[i] = 2.0f * x[i];
        last = x;
    }}
    for (int i = 0; i < n; i++) y[i] = kept[i];
}}
"""


def cache(bucket: Bucket = "W1", *, versioned: bool = True, inherited: bool = False) -> KeptValue:
    assert bucket in ("W1", "W2", "W3")
    return KeptValue(
        name="_c", path="k.py", line=3, bucket=bucket, key="key", versioned=versioned,
        says="keeps it", looked_up=(2,), stored=(3,), inherited=inherited,
    )  # fmt: skip


def traced(hits: int = 8, lookups: int = 16, *, fresh_s: float = 2.0, kept_s: float = 1.0) -> Trace:
    seen = CacheHits(name="_c", path="k.py", line=3, lookups=lookups, hits=hits)
    return Trace(
        workload="N=1", steps=8, weights=("w",), caches=(seen,), fresh_time_s=fresh_s,
        kept_time_s=kept_s,
    )  # fmt: skip


def checked(
    *kept: KeptValue,
    declared: Bucket = "K1",
    assumptions: tuple[Assumption, ...] = (),
    trace: Trace | None = None,
) -> TransferCheck:
    hypothesis = Hypothesis(statement="s", rationale="r", tactic="t", bucket=declared)
    return check_of(hypothesis, Audit(kept, assumptions), trace)


def judged(speedup: float) -> Judgement:
    estimate = Estimate(speedup=speedup, ci=(speedup, speedup), pairs=20, verdict="faster")
    comparison = Comparison(overall=estimate, classes=(), workloads=())
    sample = PairSample(
        workload="N=1", sweep=0, instance=1, first="incumbent",
        incumbent_time_s=(1.0,), candidate_time_s=(1 / speedup,),
    )  # fmt: skip
    return Judgement(
        verdict="faster", comparison=comparison, confirmation=(sample,), clock=(sample,), wall_s=1.0
    )


def audited(check: TransferCheck | None, judgement: Judgement) -> Decision:
    """The decision on a candidate that nothing but the check may speak against."""
    hypothesis = Hypothesis(statement="s", rationale="r", tactic="t")
    findings = () if check is None else (check,)
    first = judgement.comparison
    return decide(Evidence(judgement, first, hypothesis, POLICY, findings=findings))


# -- the rule -------------------------------------------------------------------------------


@pytest.mark.rule("w2-w3-rejected")
@pytest.mark.parametrize("bucket", ["W2", "W3"])
def test_what_is_keyed_on_activations_or_calls_is_rolled_back_whatever_it_gains(bucket):
    seldom = checked(cache(bucket), trace=traced(0, 16))
    older = checked(cache(bucket)).model_copy(update={"rules": 6, "bucket": bucket})
    for check in (seldom, checked(declared=bucket), older):
        decision = audited(check, judged(3.0))
        assert isinstance(decision, RolledBack)
        assert f"over-fitted ({bucket})" in decision.rule
        assert not decision.regression


@pytest.mark.rule("honest-workspaces")
@pytest.mark.parametrize("bucket", ["W2", "W3"])
def test_what_is_found_again_whatever_inputs_hold_is_no_cache_of_them(bucket):
    check = checked(cache(bucket), trace=traced(15, 16))
    assert check.bucket == "K1"
    assert isinstance(audited(check, judged(1.2)), Kept)


def test_an_identity_that_no_step_looked_up_is_rolled_back():
    decision = audited(checked(cache("W2"), trace=traced(0, 0)), judged(1.2))
    assert isinstance(decision, RolledBack)
    assert isinstance(audited(checked(cache("W3"), trace=traced(0, 0)), judged(1.2)), Kept)


@pytest.mark.rule("w1-bounded")
def test_a_weight_cache_without_a_version_is_rolled_back():
    decision = audited(checked(cache(versioned=False), trace=traced()), judged(2.0))
    assert isinstance(decision, RolledBack)
    assert "without a version" in decision.rule


@pytest.mark.rule("w1-bounded")
def test_a_weight_cache_is_kept_with_its_gain_bounded_and_an_asterisk():
    check = checked(cache(), trace=traced(fresh_s=2.0, kept_s=1.0))
    decision = audited(check, judged(2.0))
    assert isinstance(decision, Kept)
    assert "* of it a step of training gains 1.333x" in decision.rule  # 4 s over 3 s
    assert real_speedup(check, 2.0) == pytest.approx(4 / 3)
    assert real_speedup(check, 1.1) == 1.1


@pytest.mark.rule("hit-rate")
def test_a_weight_cache_that_is_found_too_seldom_is_rolled_back():
    decision = audited(checked(cache(), trace=traced(7, 16)), judged(2.0))
    assert isinstance(decision, RolledBack)
    assert "7 of 16 calls" in decision.rule


def test_a_weight_cache_that_saves_nothing_in_a_step_is_rolled_back():
    check = checked(cache(), trace=traced(fresh_s=1.0, kept_s=0.999))
    decision = audited(check, judged(2.0))
    assert isinstance(decision, RolledBack)
    assert "noise band" in decision.rule


@pytest.mark.parametrize(
    ("trace", "why"),
    [
        (None, "there is none"),
        (traced(0, 0), "no step looked"),
        (traced().model_copy(update={"weights": ()}), "no input is known to be a weight"),
        (traced().model_copy(update={"fresh_time_s": None}), "could not be timed"),
    ],
)
def test_a_weight_cache_that_nothing_proves_is_rolled_back(trace, why):
    decision = audited(checked(cache(), declared="W1", trace=trace), judged(2.0))
    assert isinstance(decision, RolledBack)
    assert why in decision.rule


def test_without_a_trace_that_could_be_had_nothing_is_kept():
    hypothesis = Hypothesis(statement="s", rationale="r", tactic="t")
    check = check_of(hypothesis, Audit((), ()), untraced="no setup", needs_trace=True)
    decision = audited(check, judged(1.2))
    assert isinstance(decision, RolledBack)
    assert decision.rule.endswith("though command.transfer is there: no setup")
    assert is_untried(check)
    traced_check = check.model_copy(update={"trace": Trace(workload="N=1", steps=2)})
    assert isinstance(audited(traced_check, judged(1.2)), Kept)


@pytest.mark.rule("uneven-groups-hint")
def test_what_hints_at_even_groups_needs_a_trace():
    check = checked(assumptions=(GROUPS,))
    untraced = check.model_copy(update={"needs_trace": True})
    assert isinstance(audited(untraced, judged(1.2)), RolledBack)
    traced_check = untraced.model_copy(update={"trace": Trace(workload="N=1", steps=4)})
    assert isinstance(audited(traced_check, judged(1.2)), Kept)
    older = audited(check.model_copy(update={"rules": 6}), judged(1.2))
    assert isinstance(older, RolledBack)
    assert "uniform groups" in older.rule


def test_what_the_incumbent_has_as_well_is_no_news():
    inherited = GROUPS.model_copy(update={"inherited": True})
    check = checked(cache("W2", inherited=True), assumptions=(inherited,))
    assert check.bucket == "K1"
    assert refusal(check) is None
    assert isinstance(audited(check, judged(1.2)), Kept)


def test_other_decisions_and_older_ledgers_stay_as_they_are():
    wrong = judged(1.2).model_copy(update={"outcome": Incorrect(reason="value", detail="off")})
    decision = audited(checked(cache("W2")), wrong)
    assert decision.rule == "incorrect: value"
    assert isinstance(audited(None, judged(1.2)), Kept)
    assert isinstance(audited(checked(), judged(1.2)), Kept)


@pytest.mark.rule("buckets")
@given(st.lists(st.sampled_from(["W1", "W2", "W3"])), st.sampled_from(["K1", "K4", "W1", "W3"]))
def test_the_worst_bucket_counts(found, declared):
    names = ["K1", "K4", "W1", "W2", "W3"]
    worst = max([declared, *found], key=names.index)
    seen = bucket_of(declared, [cache(bucket) for bucket in found], traced(0, 16))
    assert names.index(seen) == names.index(worst)


@given(st.floats(1e-6, 10), st.floats(0, 10), st.floats(0.5, 5))
def test_what_a_step_gains_is_between_nothing_and_a_half(fresh_s, kept_s, headline):
    bound = bound_of(traced(fresh_s=fresh_s, kept_s=kept_s))
    assert bound is not None
    assert 1 <= bound <= 2
    check = checked(cache(), trace=traced(fresh_s=fresh_s, kept_s=kept_s))
    assert real_speedup(check, headline) == min(headline, bound)


def test_without_a_check_the_hypothesis_is_believed():
    assert real_speedup(None, 1.5, "K2") == 1.5
    assert real_speedup(None, 1.5, "W1") == 1.0
    assert real_speedup(None, 1.5, "W3") == 1.0


# -- names ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["w", "weight", "W", "qweight_w", "w_gate", "bias", "gamma", "wq"])
def test_names_of_weights(name):
    assert is_weight_name(name)


@pytest.mark.parametrize(
    "name", ["x", "a", "b", "w_scale", "weight_scale", "grad_weight", "dw", "out", "act_weight"]
)
def test_names_of_no_weights(name):
    assert not is_weight_name(name)


def test_setup_names_weights():
    text = "def setup(N, seed):\n    return {'inputs': {}, 'outputs': ['y'], 'weights': ['b']}\n"
    reference = SourceFile(path="reference.py", text=text)
    body = "_c = {}\n\ndef run_kernel(a, b, y):\n    key = (id(b), b._version)\n"
    body += "    if key not in _c:\n        _c[key] = b.clone()\n    y.copy_(a @ _c[key])\n"
    kernel = SourceFile(path="kernel.py", text=body)
    candidate = Candidate(language="torch", sources=(kernel,))
    assert weights_of(candidate, reference) == {"b"}
    assert [v.bucket for v in audit(candidate, None, reference).kept_values] == ["W1"]
    assert [v.bucket for v in audit(candidate).kept_values] == ["W2"]


# -- campaigns ------------------------------------------------------------------------------


def world(*ideas: Proposal, tracer: FakeTracer | None = None) -> FakeWorld:
    """Every idea twice as fast as the one before."""
    kernels = FakeKernels()
    for number, idea in enumerate(ideas, start=1):
        kernels.add(idea.candidate, time_s=1e-3 / 2**number)
    return FakeWorld(target=fake_target(), kernels=kernels, ideas=ideas, tracer=tracer)


def memo() -> Proposal:
    idea = fake_idea(fake_target(), "remember")
    return idea.model_copy(update={"candidate": idea.candidate.with_kernel_text(MEMO_C)})


def seldom(idea: Proposal) -> FakeTracer:
    """Steps that never find what `MEMO_C` keeps."""
    hits = CacheHits(name="kept", path="kernel.c", line=13, lookups=16, hits=0)
    return FakeTracer({idea.candidate.id: Trace(workload="n=1", steps=8, caches=(hits,))})


def run(here: FakeWorld) -> Campaign:
    return Engine(here.parts(), "test").run()


def only(campaign: Campaign) -> Round:
    (round_,) = campaign.rounds
    return round_


@pytest.mark.rule("hints")
def test_a_hint_without_a_trace_is_rolled_back():
    here = world(memo())
    round_ = only(run(here))
    assert isinstance(round_.decision, RolledBack)
    assert "kernel.c:" in round_.decision.rule
    assert {v.name for v in round_.transfer.kept_values} == {"kept", "last"}
    assert round_.transfer.trace is None
    assert is_untried(round_.transfer)
    assert verify(here.records) == ()


@pytest.mark.rule("w2-w3-rejected")
@pytest.mark.parametrize("bucket", ["W2", "W3"])
def test_what_its_hypothesis_calls_over_fitted_is_refused_before_it_is_built(bucket: Bucket):
    idea = memo()
    said = idea.hypothesis.model_copy(update={"bucket": bucket})
    tracer = FakeTracer()
    here = world(idea.model_copy(update={"hypothesis": said}), tracer=tracer)
    campaign = run(here)
    assert (campaign.rounds, tracer.seen) == ((), [])
    [refusal] = campaign.refusals
    assert (refusal.reason, refusal.hypothesis) == ("over_fitted", said)
    assert verify(here.records) == ()


def test_what_steps_never_find_is_over_fitted():
    idea = memo()
    here = world(idea, tracer=seldom(idea))
    round_ = only(run(here))
    assert isinstance(round_.decision, RolledBack)
    assert "over-fitted (W2)" in round_.decision.rule
    assert verify(here.records) == ()


def test_what_would_be_kept_is_traced_and_what_would_not_isnt():
    target = fake_target()
    tracer = FakeTracer()
    faster, slower = fake_idea(target, "faster"), fake_idea(target, "slower")
    here = world(faster, slower, tracer=tracer)
    here.kernels.add(slower.candidate, time_s=2e-3)
    campaign = run(here)
    assert [r.decision.kind for r in campaign.rounds] == ["kept", "rolled_back"]
    assert tracer.seen == [faster.candidate.id]
    assert verify(here.records) == ()


def test_a_trace_that_fails_rolls_back():
    idea = fake_idea(fake_target(), "stale")
    failure = Incorrect(reason="memoised_result", detail="y is that of an earlier call")
    trace = Trace(workload="n=1", steps=0, failure=failure)
    here = world(idea, tracer=FakeTracer({idea.candidate.id: trace}))
    round_ = only(run(here))
    assert isinstance(round_.decision, RolledBack)
    assert "wrong in step 1 of a trace" in round_.decision.rule
    assert verify(here.records) == ()


def test_a_kernel_that_nothing_can_trace_is_kept_and_says_so():
    idea = fake_idea(fake_target(), "plain")
    here = world(idea, tracer=FakeTracer({idea.candidate.id: "no device"}))
    round_ = only(run(here))
    assert isinstance(round_.decision, Kept)
    assert round_.transfer.untraced == "no device"


@pytest.mark.rule("no-overfit-accepted")
def test_verify_reads_the_source_again():
    idea = memo()
    here = world(idea, tracer=seldom(idea))
    run(here)
    at = next(n for n, event in enumerate(here.records) if isinstance(event, Round))
    round_ = here.records[at]
    assert isinstance(round_, Round)
    forged = round_.transfer.model_copy(
        update={"kept_values": (), "bucket": "K1", "unread": ("k.pyx",)}
    )
    here.records[at] = round_.model_copy(update={"findings": (forged,)})
    found = " ".join(finding.what for finding in verify(here.records))
    assert "between calls" in found
    assert "over-fitting bucket" in found
    assert "what isn't audited" in found
    assert "decision" in found


def test_verify_leaves_what_another_version_of_the_audit_found():
    here = world(fake_idea(fake_target(), "plain"))
    run(here)
    at = next(n for n, event in enumerate(here.records) if isinstance(event, Round))
    round_ = here.records[at]
    assert isinstance(round_, Round)
    other = round_.transfer.model_copy(update={"rules": 0, "assumptions": (GROUPS,)})
    inherited = GROUPS.model_copy(update={"inherited": True})
    other = other.model_copy(update={"assumptions": (inherited,)})
    here.records[at] = round_.model_copy(update={"findings": (other,)})
    assert verify(here.records) == ()


# -- reports --------------------------------------------------------------------------------


def with_bucket(campaign: Campaign, check: TransferCheck) -> Campaign:
    round_ = only(campaign).model_copy(update={"findings": (check,)})
    return campaign.model_copy(update={"rounds": (round_,)})


@pytest.mark.rule("transfer-in-summary")
def test_a_rounds_summary_has_the_transfer_check():
    idea = memo()
    here = world(idea, tracer=seldom(idea))
    text = render_campaign(run(here)).files["rounds/round-2/summary.md"]
    section = text.partition("## Transfer check")[2].partition("\n## ")[0]
    for said in ("W2, a cache keyed on activations", "kernel.c:", "found by", "rejected as over-"):
        assert said in section
    assert "| gain in the benchmark | 2.00x |" in section
    assert "1.00x: none of it" in section


CYTHON = "_C = {}\ndef run_kernel(x, w, out):\n    out[:] = _C.setdefault(id(x), x @ w)\n"


def test_files_that_the_audit_cannot_read_are_named():
    paths = ["k.pyx", "k.cpp", "k.py", "data/sizes.json", "README.md", "LICENSE", ".gitignore"]
    sources = tuple(SourceFile(path=path, text=CYTHON) for path in paths)
    assert audit(Candidate(language="command", sources=sources)).unread == ("k.pyx",)


@pytest.mark.parametrize("text", ["def run_kernel(x:\n", "x = 1\0\n", "match x: case 1 if: 0\n"])
def test_python_of_a_repository_that_does_not_parse_is_not_audited(text: str) -> None:
    """Its own interpreter may be newer than the audit's; a kernel is run by this one."""
    files = {"ops/k.py": text, "ops/plain.py": "C = {}\n"}
    sources = tuple(SourceFile(path=path, text=text) for path, text in files.items())
    found = audit(Candidate(language="command", sources=sources))
    assert (found.unread, found.kept_values) == (("ops/k.py",), ())
    assert audit(Candidate(language="triton", sources=sources)).unread == ()


def test_python_that_is_nested_too_deeply_is_a_hint_and_no_gap() -> None:
    deep = SourceFile(path="k.py", text=f"y = {'-' * 100_000}1\n")
    found = audit(Candidate(language="command", sources=(deep,)))
    assert (found.unread, [value.bucket for value in found.kept_values]) == ((), ["W2"])


def test_a_rounds_summary_names_files_that_are_not_audited():
    campaign = run(world(fake_idea(fake_target(), "plain")))
    assert "not audited" not in render_campaign(campaign).files["rounds/round-2/summary.md"]
    more = tuple(f"src/k{n}.rs" for n in range(5))
    check = checked().model_copy(update={"unread": ("k.pyx", *more)})
    text = render_campaign(with_bucket(campaign, check)).files["rounds/round-2/summary.md"]
    assert "| not audited | k.pyx, src/k0.rs, src/k1.rs, src/k2.rs, src/k3.rs and 1 more: " in text


@pytest.mark.parametrize(
    ("trace", "said"),
    [
        (None, "| estimated gain in training | not tried: no step was run |"),
        (Trace(workload="N=1", steps=2), "2.00x: all of it, whatever the inputs are"),
        (
            Trace(
                workload="N=1", steps=1, failure=Incorrect(reason="wrong_output", detail="y is off")
            ),
            "",
        ),
    ],
)
def test_a_gain_that_no_step_showed_is_not_estimated(trace, said):
    campaign = run(world(fake_idea(fake_target(), "plain")))
    text = render_campaign(with_bucket(campaign, checked(trace=trace))).files[
        "rounds/round-2/summary.md"
    ]
    assert said in text
    assert ("estimated gain in training" in text) is bool(said)


@pytest.mark.rule("total-taken-apart")
def test_the_total_is_taken_apart():
    campaign = run(world(fake_idea(fake_target(), "plain")))
    whole = summarize(campaign).attribution
    assert (whole.structural, whole.weights) == (pytest.approx(2.0, rel=0.01), 1.0)
    assert whole.residual == pytest.approx(1.0)
    assert not whole.is_inflated
    bounded = with_bucket(campaign, checked(cache(), trace=traced(fresh_s=2.0, kept_s=1.0)))
    part = summarize(bounded).attribution
    assert part.structural == 1.0
    assert part.weights == pytest.approx(4 / 3)
    assert part.structural * part.weights * part.residual == pytest.approx(part.headline)
    assert part.gap == pytest.approx(part.headline - 4 / 3)
    assert part.is_inflated
    assert part.rounds == (2,)


@pytest.mark.rule("total-taken-apart")
def test_the_final_report_names_an_inflation_gap_above_one_percent():
    campaign = run(world(fake_idea(fake_target(), "plain")))
    assert "at most 1%" in render_campaign(campaign).files["final_report.md"]
    bounded = with_bucket(campaign, checked(cache(), trace=traced(fresh_s=2.0, kept_s=1.0)))
    text = render_campaign(bounded).files["final_report.md"]
    assert "**Inflation gap: 67%**" in text
    assert "in round 2: roll it back" in text
