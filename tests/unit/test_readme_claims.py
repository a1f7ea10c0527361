"""What README.md claims at its top is what the records in the repository say."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from statistics import median
from typing import Any

from roofsmith.judge.version import judge_version

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"


def record(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return found


def claims() -> str:
    """The table before the first heading below the title."""
    return (ROOT / "README.md").read_text().partition("\n## ")[0]


def test_identical_kernels() -> None:
    names = ("1_thread", "2_threads", "noisy_host", "noisier_host")
    rates = [record(f"judge_rates_{name}")["summary"] for name in names]
    wins = [rate["false_wins"] for rate in rates]
    trials, naive = (
        sum(rate["trials"] for rate in wins),
        sum(rate["naive_mean_of_7"]["count"] for rate in rates),
    )
    assert sum(rate["count"] for rate in wins) == 0
    assert f"of {trials} pairs of identical kernels, none" in claims()
    assert f"The mean of 7 calls said so of {naive}." in claims()


def test_attacks() -> None:
    sections = record("selftest")["sections"]
    assert set(sections) == {"c", "cuda", "triton", "torch"}
    findings = [found for section in sections.values() for found in section["findings"]]
    attacks = [found for found in findings if found["is_attack"]]
    honest = [found for found in findings if not found["is_attack"]]
    caught = sum(found["right"] for found in attacks)
    rejected = sum(not found["outcome"].startswith("passed") for found in attacks)
    believed = sum(found["deceives_naive"] for found in attacks)
    assert f"{caught} of {len(attacks)} attacks in C, CUDA, Triton and PyTorch" in claims()
    assert f"{rejected} of them rejected and {caught - rejected} without a gain" in claims()
    assert all(found["outcome"] != "passed/faster" for found in attacks)
    assert all(found["right"] for found in honest)
    assert f"All of {len(honest)} honest kernels" in claims()
    assert f"believed {believed} of the attacks" in claims()


def test_which_judge_it_was_is_said() -> None:
    """Whoever changes the judge runs the corpus again, or says what wasn't this one's."""
    names = {"c": "C", "cuda": "CUDA", "triton": "Triton", "torch": "PyTorch"}
    stale = {
        (name, found["is_attack"])
        for name, section in record("selftest")["sections"].items()
        for found in section["findings"]
        if found["judge"] != judge_version()
    }
    (row,) = (line for line in claims().splitlines() if "Cheating is caught" in line)
    if not stale:
        assert "earlier version" not in row
        return
    of_honest = {name for name, is_attack in stale if not is_attack}
    if stale == {(name, False) for name in of_honest}:
        what, stale_names = "the honest ones in", of_honest
    else:
        what, stale_names = "those in", {name for name, _ in stale}
    which = {frozenset(names): "all", frozenset(names) - {"c"}: "those on GPUs"}
    some = f"{what} " + " and ".join(names[name] for name in names if name in stale_names)
    if what == "those in":
        some = which.get(frozenset(stale_names), some)
    assert f"{some} with an earlier version of the judge" in row


def test_attacks_by_kind_of_device() -> None:
    text = (ROOT / "README.md").read_text().replace("\n", " ")
    sections = record("selftest")["sections"]
    host, device = [sections["c"]], [sections[name] for name in ("cuda", "triton", "torch")]
    for kind in (host, device):
        findings = [found for section in kind for found in section["findings"]]
        attacks = [found for found in findings if found["is_attack"]]
        rejected = [found for found in attacks if not found["outcome"].startswith("passed")]
        harmless = sum(found["right"] for found in attacks) - len(rejected)
        honest = len(findings) - len(attacks)
        assert f"rejected {len(rejected)} of {len(attacks)} attacks" in text
        assert f"{harmless}, and let {honest} of {honest} honest kernels through" in text
        believed = sum(found["deceives_naive"] for found in attacks)
        assert f"the harness believed {believed} of {len(attacks)}" in text
    reasons = sum(found["right_reason"] for found in rejected)
    assert f"{reasons} of them for the right reason" in text


def figures_on_a_gpu() -> str:
    """What is between both marks, in one line."""
    text = (ROOT / "README.md").read_text()
    inside = text.partition("<!-- gpu-figures -->")[2].partition("<!-- /gpu-figures -->")[0]
    return inside.replace("\n", " ")


def width_of_intervals(name: str) -> float:
    """Of identical pairs, in the median."""
    trials = record(f"judge_rates_{name}")["trials"]
    return median(t["ci"][1] - t["ci"][0] for t in trials if t["kind"] == "identical" and t["ci"])


def test_rates_on_a_noisy_host() -> None:
    rates = record("judge_rates_noisy_host")
    text = (ROOT / "README.md").read_text().replace("\n", " ")
    is_present = rates["judge"] == judge_version()
    assert is_present == ("its trials are of the present judge" in text)
    found = rates["summary"]
    naive = (found["naive_mean_of_7"], found["naive_median_of_30"])
    cells = [f"{rate['count']} of {rate['trials']}" for rate in (found["false_wins"], *naive)]
    assert f"| 1, on a noisy host | {' | '.join(cells)} |" in text
    for gain in found["gains"]:
        shown = f"{gain['found']['count']} of {gain['found']['trials']}"
        assert f"gains of {gain['gain']:.0%} found | 1, on a noisy host | {shown} |" in text
    assert f"the kernel takes {rates['kernel_time_s'] * 1e3:.2f} ms" in text
    assert ("no pair was called a `tie`" in text) == ("tie" not in found["verdicts"])
    missed = Counter(trial["verdict"] for trial in rates["trials"] if trial["kind"] == "gain")
    open_, unverified = missed["inconclusive"], missed["unverified"]
    assert f"{open_} ended as `inconclusive` and {unverified} as `unverified`. One" in text
    width, usual = (width_of_intervals(name) for name in ("noisy_host", "1_thread"))
    assert f"{width / usual:.1f} times as wide ({width:.1%} from end to end, median)" in text
    median_s, p95_s, max_s = (found[f"{name}_wall_s"] for name in ("median", "p95", "max"))
    rare = f"{p95_s:.1f} s in 95 of 100 cases, {max_s:.1f} s at most"
    assert f"One candidate took {median_s:.1f} s (median; {rare})" in text


def test_rates_on_a_noisier_host() -> None:
    rates = record("judge_rates_noisier_host")
    text = (ROOT / "README.md").read_text().replace("\n", " ")
    is_present = rates["judge"] == judge_version()
    which = "the present judge" if is_present else "an earlier version of the judge"
    found = rates["summary"]
    wins, mean, middle = (
        found[name] for name in ("false_wins", "naive_mean_of_7", "naive_median_of_30")
    )
    called = f"called {wins['count']} of {wins['trials']} identical pairs `faster`."
    assert f"[{which}](benchmarks/results/judge_rates_noisier_host.json) {called}" in text
    assert f"7 calls said so of {mean['count']}, the median of 30 of {middle['count']}." in text
    assert f"the kernel takes {rates['kernel_time_s'] * 1e3:.2f} ms" in text
    assert f"intervals were {width_of_intervals('noisier_host'):.1%} from end to end" in text
    small, large = (
        f"{gain['found']['count']} of {gain['found']['trials']}" for gain in found["gains"]
    )
    assert f"It found {large} gains of 5% and {small} of 2%" in text
    verdicts = {trial["verdict"] for trial in rates["trials"] if trial["kind"] == "gain"}
    assert verdicts == {"faster", "inconclusive", "unverified"}
    median_s, p95_s, max_s = (found[f"{name}_wall_s"] for name in ("median", "p95", "max"))
    rare = f"{p95_s:.1f} s in 95 of 100 cases, {max_s:.1f} s at most"
    assert f"One candidate took {median_s:.1f} s (median; {rare})" in text


def test_rates_on_a_gpu() -> None:
    """The tables themselves: test_benchmarks.py."""
    trials, shown = record("gpu_judge_rates")["trials"], figures_on_a_gpu()
    present = {trial["judge"] for trial in trials} == {judge_version()}
    which = "the present judge" if present else "an earlier version of the judge"
    assert f"{len(trials)} judgements by {which}" in shown
    gains = [trial["verdict"] for trial in trials if trial["slowdown"] < 0]
    assert {*gains} == {"faster"}
    assert f"All {len(gains)} gains were found." in shown


def called(groups: list[dict[str, Any]], verdict: str) -> str:
    """How many of all trials of some groups were called so: `3 of 5`."""
    rates = [group[f"called_{verdict}"] for group in groups]
    return f"{sum(rate['count'] for rate in rates)} of {sum(rate['trials'] for rate in rates)}"


def test_newest_rates_on_a_gpu() -> None:
    found, shown = record("gpu_judge_rates_newest"), figures_on_a_gpu()
    (judge,) = {trial["judge"] for trial in found["trials"]}
    which = "the present judge" if judge == judge_version() else "an earlier version of the judge"
    assert f"[{len(found['trials'])} judgements by {which}]" in shown
    identical = [group for group in found["groups"] if group["slowdown"] == 0]
    gains = {group["slowdown"]: group for group in found["groups"] if group["slowdown"] < 0}
    none, _, pairs = called(identical, "faster").partition(" of ")
    assert (none, called(identical, "slower")) == ("0", f"0 of {pairs}")
    assert f"none of {pairs} identical pairs `faster`, none `slower`" in shown
    large, small = (called([gains[slowdown]], "faster") for slowdown in (-0.02, -0.01))
    assert all({*group["verdicts"]} == {"faster"} for group in gains.values())
    total, _, _ = called([*gains.values()], "faster").partition(" of ")
    of_each = f"{large.partition(' ')[0]} of 2% and {small.partition(' ')[0]} of 1%"
    assert f"all {total} gains were found, {of_each}." in shown
    (triton,) = (group for group in identical if group["kernel"] == "triton-softmax")
    in_all = f"{triton['median_wall_s']:.1f} s on the Triton kernel"
    assert f"{in_all} of {triton['kernel_time_s'] * 1e6:.1f} µs" in shown
    assert f"(median; {triton['max_wall_s']:.1f} s at most)" in shown
    seconds = [f"{gains[slowdown]['median_wall_s']:.1f} s for" for slowdown in (-0.02, -0.01)]
    assert f"{seconds[0]} a gain of 2% and {seconds[1]} one of 1%" in shown


def test_later_rates_on_a_gpu() -> None:
    found, shown = record("gpu_judge_rates_later"), figures_on_a_gpu()
    small, large = (
        next(group for group in found["groups"] if group["slowdown"] == slowdown)
        for slowdown in (-0.01, -0.02)
    )
    assert {*large["verdicts"], *small["verdicts"]} == {"faster"}
    gains = len(found["trials"])
    assert f"[found {gains} of {gains} gains]" in shown
    said = [
        f"{sum(g['verdicts'].values())} of {-g['slowdown']:.0%} ({g['median_wall_s']:.1f} s"
        for g in (large, small)
    ]
    assert f"{said[0]} in the median) and {said[1]})" in shown


def test_previous_rates_on_a_gpu() -> None:
    found, shown = record("gpu_judge_rates_previous"), figures_on_a_gpu()
    identical, gains, losses = (
        [group for group in found["groups"] if is_such(group["slowdown"])]
        for is_such in (lambda s: s == 0, lambda s: s < 0, lambda s: s > 0)
    )
    assert len({trial["judge"] for trial in found["trials"]}) == 2
    assert f"in {len(found['trials'])} judgements" in shown
    none, _, pairs = called(identical, "faster").partition(" of ")
    assert none == "0"
    assert f"none of {pairs} identical pairs `faster`" in shown
    unverified = sum(group["verdicts"]["unverified"] for group in gains)
    assert f"{called(gains, 'faster')} gains `faster`, the other {unverified} `unver" in shown
    assert f"{called(losses, 'slower')} candidates that did more `slower`" in shown


def test_rates_of_all_versions_on_a_gpu() -> None:
    records = [
        record(f"gpu_judge_rates{which}")
        for which in ("", "_newest", "_later", "_previous", "_earlier")
    ]
    verdicts = defaultdict[float, list[str]](list)
    for trial in (trial for found in records for trial in found["trials"]):
        verdicts[trial["slowdown"]].append(trial["verdict"])
    assert "faster" not in verdicts[0.0]
    large, small = (
        f"{found.count('faster')} of {len(found)}" for found in (verdicts[-0.02], verdicts[-0.01])
    )
    said = f"none of {len(verdicts[0.0])} identical pairs, {large} gains of 2%, and {small} of 1%."
    assert f"All versions together: {said}" in figures_on_a_gpu()


def test_earlier_rates_on_a_gpu() -> None:
    groups, shown = record("gpu_judge_rates_earlier")["groups"], figures_on_a_gpu()
    by_kind = {(group["kernel"], group["slowdown"]): group for group in groups}
    assert all(group["called_faster"]["count"] == 0 for group in groups)
    identical = sum(group["called_faster"]["trials"] for group in groups if not group["slowdown"])
    assert f"none of {identical} identical pairs" in shown
    for slowdown, said in ((0.01, "that did 1% more"), (0.02, "that did 2% more")):
        slower = by_kind["softmax", slowdown]["called_slower"]
        assert f"{slower['count']} of {slower['trials']}" in shown
        assert said in shown
    small = by_kind["small-softmax", 0.0]
    assert small["verdicts"] == {"inconclusive": 58}
    assert f"a kernel of {small['kernel_time_s'] * 1e6:.1f} µs all of their 58 verdicts" in shown


def test_openblas() -> None:
    ratios = [size["ratio"] for size in record("sgemm_openblas")["sizes"]]
    assert len(ratios) == 4
    assert f"at {min(ratios):.3f}x to {max(ratios):.3f}x of OpenBLAS on four sizes" in claims()
