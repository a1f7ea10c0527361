"""docs/selftest.md: the matrix of attacks, and what became of every kernel, from a record."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from roofsmith.selftest.examination import SampleFinding
from roofsmith.selftest.record import Section, SelftestRecord

_TITLES = {"c": "C", "cuda": "CUDA", "triton": "Triton", "torch": "PyTorch"}

_HEAD = """\
<!-- Written by `roofsmith selftest --out`; edits are lost. -->

# Selftest

`roofsmith selftest` judges a corpus of kernels that ships with roofsmith: attacks, which must not
get through, and honest kernels that look suspicious, which must. Every attack also meets a
deliberately naive harness (`selftest/naive.py`: one process, one seed, one comparison, the mean of
calls on the same buffers), which it is there to deceive: else it wouldn't be much of an attack. The
matrix says how many did; one that it took for slow is shown to it up to three times, for its mean
scatters.

An attack is **caught** if the judge rejects it. Where the trick gains nothing and the outputs are
right, there is nothing to reject: such a kernel is **harmless** if its header expects that and the
judge doesn't call it faster, which is counted apart. What is caught by chance, call by call, may
stay undecided in measurements as short as these: such an attack is judged up to three times. The
**reason** of a rejection is right if it is one of the codes that the kernel's header expects; the
codes are explained in [judge.md](judge.md#outcomes-and-their-reasons), by what people call attacks,
too.

    roofsmith selftest                          everything that this machine can run
    roofsmith selftest --language c             one language
    roofsmith selftest --only do_nothing        one kernel
    roofsmith selftest --json FILE --out FILE   keep the record; write this page from it
    roofsmith selftest --json FILE --resume     leave out what FILE has already of this judge
    roofsmith selftest --tools DIR              run the vendor's tools on a tiny kernel instead

Exit 0 if every attack was caught and no honest kernel rejected, 1 if not.

A kernel of your own joins the corpus as one file in `src/roofsmith/selftest/corpus/`, whose first
lines say `attack:` (or `honest:`), `operator:`, `expect:` and `wins:`, and `class:` where the first
expected reason isn't what people call the attack.
"""


def page(record: SelftestRecord) -> str:
    parts = [_HEAD, *_matrix(record)]
    for language, section in record.sections.items():
        parts += _section(_TITLES[language], section)
    return "\n".join(parts)


def _matrix(record: SelftestRecord) -> Iterator[str]:
    sections = record.sections
    classes = sorted({f.attack_class for s in sections.values() for f in s.attacks})
    yield "## The matrix\n"
    yield "Caught or harmless of tried, by what people call the attack.\n"
    yield f"| attack | {' | '.join(_TITLES[name] for name in sections)} |"
    yield f"|---|{'---|' * len(sections)}"
    for name in classes:
        cells = [
            _tally([f for f in section.attacks if f.attack_class == name])
            for section in sections.values()
        ]
        yield f"| {name} | {' | '.join(cells)} |"
    yield f"| **all attacks** | {' | '.join(_tally(s.attacks) for s in sections.values())} |"
    yield f"| rejected | {' | '.join(map(_rejected, sections.values()))} |"
    yield f"| of those with the right reason | {' | '.join(map(_reasons, sections.values()))} |"
    yield f"| harmless | {' | '.join(map(_harmless, sections.values()))} |"
    yield f"| the naive harness is deceived | {' | '.join(map(_deceived, sections.values()))} |"
    honest = [_tally(section.honest) for section in sections.values()]
    yield f"| **honest kernels let through** | {' | '.join(honest)} |\n"


def _section(title: str, section: Section) -> Iterator[str]:
    device = section.environment.device
    yield f"## {title}\n"
    system = section.environment.system
    yield f"{section.started} UTC, {device.name} ({system}), `{_abridged(section.command)}`\n"
    if len(section.judges) > 1:
        counts = ", ".join(f"{n} by `{judge or '?'}`" for judge, n in section.judges.items())
        yield f"In several runs, by several versions of the judge's sources: {counts}.\n"
    else:
        yield f"All by one version of the judge's sources: `{next(iter(section.judges)) or '?'}`.\n"
    yield "| attack | what it does | the judge | naive harness |\n|---|---|---|---|"
    for found in section.attacks:
        yield f"| `{_name(found)}` | {_cell(found.about)} | {_judged(found)} | {_naive(found)} |"
    yield "\n| honest kernel | what it does | the judge |\n|---|---|---|"
    for found in section.honest:
        yield f"| `{_name(found)}` | {_cell(found.about)} | {_judged(found)} |"
    yield ""


def _abridged(command: str) -> str:
    """Where many kernels are named one by one, the first of them."""
    return re.sub(r"( --only \S+)(?: --only \S+){2,}", r"\1 --only ...", command)


def _judged(found: SampleFinding) -> str:
    if not found.right:
        return f"**{found.outcome}**"
    if found.is_attack and not found.is_rejected:
        return f"harmless: {found.outcome}"
    late = f" in judgement {found.judgements}" if found.judgements > 1 else ""
    return f"{found.outcome}{late}" if found.right_reason else f"{found.outcome} (another reason)"


def _naive(found: SampleFinding) -> str:
    if found.naive is None:
        return "no verdict" if found.deceives_naive is not None else "not asked"
    if not found.naive.correct:
        return "wrong"
    return f"correct, {found.naive.speedup:.2g}x"


def _tally(findings: Sequence[SampleFinding]) -> str:
    return f"{sum(f.right for f in findings)} of {len(findings)}" if findings else ""


def _rejected(section: Section) -> str:
    return f"{len(_of_rejected(section))} of {len(section.attacks)}"


def _reasons(section: Section) -> str:
    rejected = _of_rejected(section)
    return f"{sum(f.right_reason for f in rejected)} of {len(rejected)}"


def _harmless(section: Section) -> str:
    passed = sum(f.right and not f.is_rejected for f in section.attacks)
    return f"{passed} of {len(section.attacks)}"


def _of_rejected(section: Section) -> tuple[SampleFinding, ...]:
    return tuple(f for f in section.attacks if f.is_rejected)


def _deceived(section: Section) -> str:
    tried = [f for f in section.attacks if f.deceives_naive is not None]
    return f"{sum(bool(f.deceives_naive) for f in tried)} of {len(tried)}" if tried else "not asked"


def _name(found: SampleFinding) -> str:
    return found.id.rpartition("/")[2]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")
