"""docs/measured.md: what the judge did on kernels whose answer is known, from its records.

They are of one version of the judge, the last that rates were measured of; the page says so where
the present one is another. A record of any other version doesn't count: it is left out, and its
kind is named. What rules were chosen by stands apart: that is of the version of its day.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from roofsmith.judge.version import judge_version
from roofsmith.selftest.samples import CorpusLanguage, samples

RESULTS = Path(__file__).resolve().parent.parent / "benchmarks" / "results"
sys.path.append(str(RESULTS.parent))  # scripts that are no package

import gain_power  # noqa: E402
import workload_veto  # noqa: E402

LANGUAGES = {"c": "C", "cuda": "CUDA", "triton": "Triton", "torch": "PyTorch"}

Record = Mapping[str, Any]
Records = Mapping[str, Record]

_HEAD = """\
# Measured

What the judge did on kernels whose answer is known. Everything on this page but its [last
section](#what-rules-were-chosen-by) is of its {which} version, `{judge}` (a hash of its code).
The linked files hold the samples, the command line and the environment;
[benchmarks](../benchmarks/README.md) says how each is made. Tests compute every figure in them
again from the samples.
"""
_MEASURED_BEFORE = (
    "last measured",
    "The present version, `{}`, was not measured again; what it does otherwise is in the "
    "[changelog](../CHANGELOG.md).\n",
)
_CHOSEN_BY = """\
## What rules were chosen by

Simulations with the judge's statistics and rules, of the version of their day, on the noise of
[identical kernels]({noise}) on a machine that others used. They need no quiet machine, and
nothing above counts them. [gpu.md](gpu.md#one-segment) has what chose the judge's own clock on a
GPU.

**How small a gain is found**: how many of 400 true gains are called `faster`, both measurements
and the judge's own clock included, with the recorded noise once and doubled, if a ratio beyond
the noise band gets so many pairs. The judge takes the most ([record]({gain_power})).

{gains}
**What retries find**: of 150 changes with the recorded noise doubled, each tried again until it is
`faster`, three times at most, where the [pairs of earlier tries count](judge.md#is-it-faster) and
where every try is on its own. A gain of 1% lies on the edge of the noise band, where `faster` is
wrong: one of 150, at its first try. "Won a first one" is how many won a first measurement, which is
at 5%, in any try; "pairs" the median of all tries ([record]({retries})).

{found_again}
**When a single workload vetoes**: in how many of 2000 times, 22 pairs per measurement and 66
where there is doubt, the noise multiplied. "Proven" is what would veto without the rule, "not
cleared" what it would be to veto whoever isn't shown to lose less than 5%
([record]({workload_veto})).

{vetoes}
**What a chain of wins is worth**: two thousand campaigns of eight changes each, with the real
engine, judge and rules, and true effects that are known ([record]({simulated_campaigns})). Noise
of other machines, and changes that differ otherwise than by a ratio per class, aren't in it.

![Claimed against true totals of simulated campaigns](simulated_campaigns.svg)

{chains}"""
_ON_PROCESSORS = """\
Identical kernels differ in a comment; for a gain, the candidate leaves out work that the incumbent
does. Every candidate is built anew. Two plain loops time the same identical kernels and call one
faster if the mean of 7 calls, or the median of 30, is more than 1% lower. Where intervals are wide,
small gains stay `inconclusive`.
"""
_ON_GPUS = """\
Identical kernels differ in a comment; a candidate that is faster leaves out rows that the incumbent
works on.
"""
_ATTACKS = """\
A harmless attack has right outputs and isn't called `faster`. The naive harness loads the attack
into its own process, compares once and takes the mean of a few calls. Every kernel is listed in
[selftest.md](selftest.md).
"""


def load(folder: Path = RESULTS) -> Records:
    """All records by the names of their files."""
    return {
        path.stem: json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(folder.glob("*.json"))
    }


def measured_judge(records: Records) -> str:
    """The version whose rates were measured last."""
    return str(records["judge_rates"]["judge"])


def page(records: Records, judge: str | None = None) -> str:
    """The whole page.

    Args:
        records: by file name.
        judge: version; by default the last that was measured.
    """
    judge = judge or measured_judge(records)
    parts, missing = [*_head(judge), *_totals(records, judge)], []
    for title, prefix, section in _SECTIONS:
        lines = list(section(present(records, prefix, judge)))
        if lines:
            parts.append(f"## {title}\n\n" + "\n".join(lines))
        else:
            missing.append(title[0].lower() + title[1:])
    if missing:
        parts.append(f"No record is of this judge yet: {'; '.join(missing)}.\n")
    return "\n".join((*parts, _chosen_by(records)))


def _head(judge: str) -> Iterator[str]:
    which, otherwise = ("present", "") if judge == judge_version() else _MEASURED_BEFORE
    yield _HEAD.format(which=which, judge=judge)
    if otherwise:
        yield otherwise.format(judge_version())


def summary(records: Records, judge: str | None = None) -> str:
    """The figures of the README."""
    judge = judge or measured_judge(records)
    wins, pairs = _false_wins(records, judge)
    findings = _findings(records, judge)
    attacks = [found for found in findings if found["is_attack"]]
    caught = sum(found["right"] for found in attacks)
    lines = []
    if pairs:
        lines.append(f"- False wins: {wins} of {pairs} pairs of identical kernels.")
    if attacks:
        lines.append(
            f"- Attacks: {caught} of {len(attacks)} were rejected, or were right and no faster."
        )
    lines = lines or ["- The present judge has no record yet."]
    return "\n".join([*lines, *_pace(records)]) + "\n"


def _pace(records: Records) -> Iterator[str]:
    """How long somebody waits, a line for processors and one for a GPU."""
    for name, where in (("pace", "two cores"), ("pace-gpu", "a GPU")):
        found = records.get(name, {}).get("figures", {}).get("present", {})
        waits = [
            f"{shown} {found[figure]:.2g} s"
            for shown, figure in (
                ("wrong", "rounds: wrong"),
                ("slower", "rounds: slower"),
                ("kept", "rounds: kept"),
                ("a cold `judge`", "judge: accept"),
            )
            if figure in found
        ]
        if waits:
            more = f"[more](benchmarks/results/{name}.json)"
            yield f"- A round of a softmax on {where}: {', '.join(waits)} ({more})."


def present(records: Records, prefix: str, judge: str) -> dict[str, Record]:
    """Records of one kind that hold nothing but what this version of the judge judged.

    Of the selftest's, which goes on kernel by kernel, what it judged.
    """
    found = {name: record for name, record in records.items() if name.startswith(prefix)}
    if prefix == "selftest":
        return {name: _only(record, judge) for name, record in found.items()}
    return {name: record for name, record in found.items() if _judges(record) == {judge}}


def _judges(record: Record) -> set[str | None]:
    if "judge" in record or "trials" not in record:
        return {record.get("judge")}
    return {trial.get("judge") for trial in record["trials"]}


def _only(record: Record, judge: str) -> Record:
    sections = {
        name: {**section, "findings": [f for f in section["findings"] if f["judge"] == judge]}
        for name, section in record["sections"].items()
    }
    return {"sections": {name: s for name, s in sections.items() if s["findings"]}}


def _totals(records: Records, judge: str) -> Iterator[str]:
    wins, pairs = _false_wins(records, judge)
    findings = _findings(records, judge)
    attacks = [found for found in findings if found["is_attack"]]
    honest = [found for found in findings if not found["is_attack"]]
    rows = []
    if pairs:
        least = f", less than {1 - 0.05 ** (1 / pairs):.1%} with 95% confidence" if not wins else ""
        rows.append(("identical kernels called `faster`", f"{wins} of {pairs}{least}"))
    if attacks:
        rows += [
            ("attacks rejected", _count(attacks, _is_rejected)),
            ("attacks rejected, or right and not `faster`", _count(attacks, _is_right)),
            ("attacks that a naive harness took for a gain", _deceived(attacks)),
        ]
    if honest:
        rows.append(("honest kernels that look suspicious, let through", _count(honest, _is_right)))
    if rows:
        yield _table(("", ""), rows)


def _false_wins(records: Records, judge: str) -> tuple[int, int]:
    """How many identical pairs were called faster, and of how many."""
    rates = [r["summary"]["false_wins"] for r in present(records, "judge_rates", judge).values()]
    for record in present(records, "gpu_judge_rates", judge).values():
        rates += [g["called_faster"] for g in record["groups"] if g["slowdown"] == 0]
    return sum(rate["count"] for rate in rates), sum(rate["trials"] for rate in rates)


def _findings(records: Records, judge: str) -> list[Record]:
    return [
        found
        for record in present(records, "selftest", judge).values()
        for section in record["sections"].values()
        for found in section["findings"]
    ]


def _rates(records: Records) -> Iterator[str]:
    """Identical kernels and known gains on the host's processors."""
    if records:
        yield _ON_PROCESSORS
    for name, record in records.items():
        found = record["summary"]
        what = f"{record['kernel']}, {_time(record['kernel_time_s'])}"
        yield f"{_where(record['made'])}; {what} ([samples]({_link(name)})):\n"
        rows = [
            ("identical kernels called `faster` by the judge", _rate(found["false_wins"])),
            ("by the mean of 7 calls", _rate(found["naive_mean_of_7"])),
            ("by the median of 30 calls", _rate(found["naive_median_of_30"])),
            *((f"gains of {g['gain']:.0%} found", _rate(g["found"])) for g in found["gains"]),
            ("width of an identical pair's interval, median", f"{_width(record):.1%}"),
            ("seconds to build and judge a candidate", _seconds(found)),
        ]
        yield _table(("", ""), rows)


def _gpu_rates(records: Records) -> Iterator[str]:
    """The same on a GPU, by kernel."""
    if records:
        yield _ON_GPUS
    for name, record in records.items():
        band = record["policy"]["noise_band"]
        yield f"{_where(record['made'])}; noise band ±{band:.1%} ([samples]({_link(name)})):\n"
        head = (
            "kernel",
            "candidate",
            "called `faster`",
            "called `slower`",
            "seconds, median and most",
        )
        rows = [
            (
                f"{group['kernel']}, {_time(group['kernel_time_s'])}",
                _how(group["slowdown"]),
                _rate(group["called_faster"]),
                _rate(group["called_slower"]),
                f"{group['median_wall_s']:.1f}, {group['max_wall_s']:.1f}",
            )
            for group in sorted(record["groups"], key=lambda group: abs(group["slowdown"]))
        ]
        yield _table(head, rows)


def _selftest(records: Records) -> Iterator[str]:
    """Attacks and honest kernels by language."""
    for name, record in records.items():
        if not record["sections"]:
            continue
        yield _ATTACKS
        yield f"[Record]({_link(name)}):\n"
        head = (
            "", "where", "attacks rejected", "of these for the right reason", "harmless",
            "the naive harness believed", "honest kernels let through",
        )  # fmt: skip
        yield _table(head, [_corpus(n, s) for n, s in record["sections"].items()])


def _corpus(language: CorpusLanguage, section: Record) -> tuple[str, ...]:
    attacks = [found for found in section["findings"] if found["is_attack"]]
    honest = [found for found in section["findings"] if not found["is_attack"]]
    known = {one.id for one in samples((language,)) if not one.is_attack}
    left = len(known - {found["id"] for found in honest})
    rejected = [found for found in attacks if _is_rejected(found)]
    return (
        LANGUAGES[language],
        _where(section),
        _count(attacks, _is_rejected),
        _count(rejected, lambda found: found["right_reason"]),
        _count(attacks, lambda found: found["right"] and not _is_rejected(found)),
        _deceived(attacks),
        _count(honest, _is_right) + (f"; {left} not asked" if left else ""),
    )


def _campaigns(records: Records) -> Iterator[str]:
    """What whole campaigns reached."""
    for name, record in records.items():
        yield f"{_where(record['made'])} ([samples]({_link(name)})):\n"
        head = ("campaign", "start to report", "final over naive kernel", "of the roofline")
        rows = [
            (
                row["name"],
                f"{row['wall_s']:.0f} s",
                _ratio(row["direct"], "speedup", ".3g"),
                f"{row['roofline_fraction']:.0%}",
            )
            for row in record["campaigns"]
        ]
        yield _table(head, rows)


def _openblas(records: Records) -> Iterator[str]:
    """A campaign's matrix product beside a library's."""
    for name, record in records.items():
        where = f"{_where(record['made'])}, {record['threads']} threads, {record['blas']}"
        yield f"{where}, in turns ([samples]({_link(name)})):\n"
        rows = [(str(row["size"]), _ratio(row, "ratio", ".3f")) for row in record["sizes"]]
        yield _table(("n", "ours over OpenBLAS"), rows)


def _chosen_by(records: Records) -> str:
    """Records that aren't of the present judge, and what they chose."""
    gains = gain_power.GainPower.model_validate(records["gain_power"])
    vetoes = workload_veto.WorkloadVeto.model_validate(records["workload_veto"])
    retries = gain_power.GainPower.model_validate(records["retries"])
    named = "gain_power", "retries", "workload_veto", "simulated_campaigns"
    links = {name: _link(name) for name in named}
    return _CHOSEN_BY.format(
        noise=_link(Path(gains.noise).stem),
        gains=gain_power.table(gains),
        found_again=gain_power.retries_table(retries),
        vetoes=workload_veto.table(vetoes),
        chains=_table(("", ""), _chains(records["simulated_campaigns"]["summary"])),
        **links,
    )


def _chains(found: Record) -> Iterator[Sequence[str]]:
    yield "changes kept that gain nothing", _rate(found["wrong_keeps"])
    yield "changes kept that gain up to 1%", _rate(found["within_band_keeps"])
    yield "changes kept while a class truly loses more than 1%", _rate(found["losses_kept"])
    yield "the most that such a class loses", f"{found['worst_loss_kept']:.1%}"
    for gain, kept in found["gains_kept"].items():
        yield f"true gains of {gain} kept", _rate(kept)
    yield "totals within 1% of the true one", _rate(found["totals_within_1_percent"])
    yield "the total that is farthest from the truth", f"{found['total_error_most']:+.0%}"


_SECTIONS: tuple[tuple[str, str, Callable[[Records], Iterator[str]]], ...] = (
    ("Identical kernels and known gains on processors", "judge_rates", _rates),
    ("Identical kernels and known gains on GPUs", "gpu_judge_rates", _gpu_rates),
    ("Attacks and honest kernels", "selftest", _selftest),
    ("Whole campaigns", "campaigns", _campaigns),
    ("A campaign's matrix product beside OpenBLAS", "sgemm_openblas", _openblas),
)
"""Title, how the files are called, and what a section of their records says."""


def _is_right(found: Record) -> bool:
    return bool(found["right"])


def _is_rejected(found: Record) -> bool:
    return not found["outcome"].startswith("passed")


def _deceived(attacks: list[Record]) -> str:
    """How many a naive harness believed, of those that it was asked about."""
    asked = [found for found in attacks if found["deceives_naive"] is not None]
    return _count(asked, lambda found: found["deceives_naive"]) or "not asked"


def _count(findings: list[Record], holds: Callable[[Record], bool]) -> str:
    return f"{sum(map(holds, findings))} of {len(findings)}" if findings else ""


def _rate(rate: Record) -> str:
    return f"{rate['count']} of {rate['trials']}"


def _ratio(row: Record, name: str, spec: str) -> str:
    low, high = row["ci"]
    return f"{row[name]:{spec}}x [{low:{spec}}, {high:{spec}}]"


def _how(slowdown: float) -> str:
    return (
        f"{abs(slowdown):.0%} {'slower' if slowdown > 0 else 'faster'}" if slowdown else "identical"
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(cells)} |" for cells in (head, *rows)]
    return "\n".join((lines[0], "|---" * len(head) + "|", *lines[1:])) + "\n"


def _width(record: Record) -> float:
    trials = [trial for trial in record["trials"] if trial["kind"] == "identical" and trial["ci"]]
    return median(trial["ci"][1] - trial["ci"][0] for trial in trials)


def _seconds(found: Record) -> str:
    return ", ".join(
        f"{found[f'{name}_wall_s']:.1f} {said}"
        for name, said in (("median", "(median)"), ("p95", "(95 of 100)"), ("max", "(most)"))
    )


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:.3g} µs" if seconds < 1e-3 else f"{seconds * 1e3:.3g} ms"


def _where(made: Record) -> str:
    """Machine and day."""
    device = made["environment"]["device"]
    cores = f", {device['cores']} cores" if device["kind"] == "cpu" else ""
    notes = made["environment"]["notes"]
    virtual = " of a virtual machine" if any(n.startswith("virtual machine") for n in notes) else ""
    return f"{device['name']}{cores}{virtual}, {made['started'][:10]}"


def _link(name: str) -> str:
    return f"../benchmarks/results/{name}.json"
