"""How long everything takes that somebody waits for: rounds, commands, the demo; beside a version
before.

    python benchmarks/pace.py --out benchmarks/results/pace.json
    python benchmarks/pace.py --gpu --out benchmarks/results/pace-gpu.json
    python benchmarks/pace.py --before OTHER/src --only rounds tell --repeats 3 --out pace.json

Every repeat of a row is made by the present version and, if one is named, by the version before,
in turns. The same command goes on with a file that it finds. The rows:

rounds    seconds of a wrong, a slower and a kept change, told in an open campaign after a thought
tell      `roofsmith tell` of a wrong change by command, beside the kernels' time of its round
budget    rounds that `roofsmith optimize --budget-s 100` judges, its speedup, and its own overhead:
          the share of the command's seconds that aren't the kernels' time. That time is what
          records count as such: builds, and all of judging and profiling, references included
demo      `roofsmith demo`: seconds in all, speedup, seconds until a kept change is on the screen
judge     `roofsmith judge` of a wrong and of a faster kernel, on one size, nothing open before
light     seconds of commands that measure nothing
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from pace_kernels import CPU, GPU, KINDS, ROOT, Case, Kind
from result_file import Made, made_now, say, write
from roofsmith.domain.campaign import Round, replay
from roofsmith.domain.device import Environment
from roofsmith.domain.values import Value
from roofsmith.judge.version import judge_version
from roofsmith.machine.choice import source_for
from roofsmith.store.campaign_dir import LEDGER
from roofsmith.store.ledger import JsonlLedger

BUDGET_S = 100
REPEATS = 10
LIGHT = (
    ("--help",),
    ("schema",),
    ("show", "{dir}", "counters"),
    ("verify", "{dir}"),
    ("report", "{dir}"),
)
PRESENT, BEFORE = "present", "before"


class Sample(Value):
    """One repeat of a row by one version."""

    row: str
    version: str
    repeat: int
    values: dict[str, float]
    """Seconds, but where the name says otherwise."""


class Pace(Value):
    """A result file."""

    made: Made
    judge: str
    """The present judge's version."""
    kernel: str
    samples: tuple[Sample, ...] = ()
    figures: dict[str, dict[str, float]] = {}  # noqa: RUF012 - frozen
    """By version, then `row value`: medians over repeats."""


@dataclass(frozen=True, slots=True)
class Version:
    """A version to measure, with what it may keep between repeats."""

    name: str
    source: Path
    case: Case
    home: Path
    """Its caches, and a campaign that has a baseline and nothing else."""

    @property
    def environment(self) -> dict[str, str]:
        """Of its processes."""
        own = {"PYTHONPATH": str(self.source), "ROOFSMITH_CACHE": str(self.home / "cache")}
        return os.environ | own

    @property
    def campaign(self) -> Path:
        """Begun when a row first needs one."""
        directory = self.home / "campaign"
        if not (directory / LEDGER).exists():
            arguments = ["optimize", *self.case.subject, "--proposer", "none"]
            self.run([*arguments, "--output", str(directory)])
        return directory

    def run(self, arguments: list[str], codes: tuple[int, ...] = (0,)) -> tuple[float, str]:
        """A command of its own; seconds, and what it printed. A failure ends the benchmark."""
        begin = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "roofsmith", *arguments],
            cwd=self.home, env=self.environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        wall_s = time.perf_counter() - begin
        if done.returncode not in codes:
            raise SystemExit(
                f"{self.name}: {arguments} ended with {done.returncode}: {done.stderr}"
            )
        return wall_s, done.stdout

    def written(self, folder: Path, kind: Kind, number: int) -> Path:
        """A changed kernel in a file."""
        path = folder / f"{kind}{number}{self.case.kernel.suffix}"
        path.write_text(self.case.text(kind, number), encoding="utf-8")
        return path


Row = Callable[[Version, Path, int], dict[str, float]]
"""One repeat: of a version, in an empty folder, with a number that no other repeat has."""


def rounds(version: Version, folder: Path, number: int) -> dict[str, float]:
    """A wrong one first, whose seconds aren't counted: the campaign learns about itself in it."""
    directory = copied(version.campaign, folder / "campaign")
    told = [version.written(folder, "wrong", -1 - number)]
    told += [version.written(folder, kind, number) for kind in KINDS]
    script = str(Path(__file__).with_name("pace_rounds.py"))
    done = subprocess.run(
        [sys.executable, script, str(directory), *map(str, told)],
        cwd=version.home, env=version.environment, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    found = dict(zip(KINDS, map(json.loads, done.stdout.splitlines()), strict=True))
    values = {}
    for kind, seen in found.items():
        values[kind] = seen["wall_s"]
        values[f"{kind}, beside kernels"] = seen["wall_s"] - seen["kernel_s"]
    values["kept, kept it"] = float(found["kept"]["decision"] == "kept")
    return values


def tell(version: Version, folder: Path, number: int) -> dict[str, float]:
    """By command; a process that holds the campaign is there by the second."""
    directory = copied(version.campaign, folder / "campaign")
    values = {}
    for name, one in (("first", 0), ("wall", 1)):
        version.run(["ask", str(directory)])
        kernel = version.written(folder, "wrong", 2 * number + one)
        arguments = ["--kernel", str(kernel), "--hypothesis", kernel.stem]
        wall_s, _ = version.run(["tell", str(directory), *arguments], codes=(1,))
        last = [e for e in JsonlLedger(directory / LEDGER).events() if isinstance(e, Round)][-1]
        values[name] = wall_s
    values["beside its kernels' time"] = values["wall"] - last.kernel_s
    version.run(["close", str(directory)], codes=(0, 2))  # 2: none holds it, or none can
    return values


def budget(version: Version, folder: Path, number: int) -> dict[str, float]:
    """Of a whole campaign."""
    del number
    arguments = ["optimize", *version.case.subject, "--budget-s", str(BUDGET_S)]
    wall_s, _ = version.run([*arguments, "--output", str(folder / "campaign")])
    events = JsonlLedger(folder / "campaign" / LEDGER).events()
    campaign = replay(events)
    assert campaign is not None, "it has ended"
    kernel_s = sum(getattr(event, "kernel_s", 0.0) for event in events)
    return {
        "rounds": float(len(campaign.rounds)),
        "speedup": campaign.total_speedup,
        "wall": wall_s,
        "own overhead, share": 1 - kernel_s / wall_s,
    }


def demo(version: Version, folder: Path, number: int) -> dict[str, float]:
    """What a stranger sees, line by line."""
    del number
    where = [] if version.case is GPU else ["--cpu"]
    command = [sys.executable, "-m", "roofsmith", "demo", *where, "--output", str(folder / "demo")]
    begin, first_s = time.perf_counter(), None
    with subprocess.Popen(
        command, cwd=version.home, env=version.environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as running:  # fmt: skip
        assert running.stdout is not None
        for line in running.stdout:
            if first_s is None and line.rstrip().endswith("kept"):
                first_s = time.perf_counter() - begin
    wall_s = time.perf_counter() - begin
    campaign = replay(JsonlLedger(folder / "demo" / LEDGER).events())
    assert campaign is not None, "it has ended"
    seen = {} if first_s is None else {"first kept change": first_s}
    return {"wall": wall_s, "speedup": campaign.total_speedup, **seen}


def judge(version: Version, folder: Path, number: int) -> dict[str, float]:
    """Against the kernel as it is; only ceilings are known before."""
    size = ["--ref", str(version.case.reference), "--workload", version.case.workloads[0]]
    against = [*size, "--against", str(version.case.kernel)]
    kinds: tuple[tuple[str, Kind, int], ...] = (("reject", "wrong", 1), ("accept", "kept", 0))
    values = {}
    for name, kind, code in kinds:
        kernel = version.written(folder, kind, 1000 + number)
        values[name], _ = version.run(["judge", str(kernel), *against, "--json"], codes=(code,))
    return values


def light(version: Version, folder: Path, number: int) -> dict[str, float]:
    """Each once."""
    del folder, number
    directory = str(version.campaign)
    values = {}
    for words in LIGHT:
        arguments = [word.format(dir=directory) for word in words]
        values[words[0]], _ = version.run(arguments)
    return values


ROWS: Mapping[str, Row] = {row.__name__: row for row in (rounds, tell, budget, demo, judge, light)}


def copied(campaign: Path, to: Path) -> Path:
    """A copy of a campaign that knows where it is."""
    shutil.copytree(campaign, to, symlinks=True)
    lineage = to / "lineage.json"
    if lineage.exists():
        lineage.write_text(lineage.read_text().replace(str(campaign), str(to)))
    return to


def figures(samples: tuple[Sample, ...]) -> dict[str, dict[str, float]]:
    """Medians of every value, by version."""
    seen: dict[str, dict[str, list[float]]] = {}
    for sample in samples:
        for name, value in sample.values.items():
            of_version = seen.setdefault(sample.version, {})
            of_version.setdefault(f"{sample.row}: {name}", []).append(value)
    return {
        version: {name: median(values) for name, values in named.items()}
        for version, named in seen.items()
    }


def table(found: Pace) -> list[str]:
    """Markdown: a row per figure, a column per version."""
    versions = [name for name in (BEFORE, PRESENT) if name in found.figures]
    names = dict.fromkeys(name for version in versions for name in found.figures[version])
    lines = [f"| {found.kernel} | {' | '.join(versions)} |", "|---" * (1 + len(versions)) + "|"]
    for name in names:
        cells = (found.figures[version].get(name) for version in versions)
        shown = ("-" if value is None else f"{value:.3g}" for value in cells)
        lines.append(f"| {name} | {' | '.join(shown)} |")
    return lines


def environment_of(case: Case) -> Environment | None:
    """Of what its kernels run on; None: the host's processors."""
    return source_for("triton").environment() if case is GPU else None


def run(options: argparse.Namespace) -> Pace:
    """Every repeat that the file lacks, written as it comes."""
    case = GPU if options.gpu else CPU
    found = Pace(made=made_now(environment_of(case)), judge=judge_version(), kernel=case.name)
    if options.out.exists():
        old = Pace.model_validate_json(options.out.read_text(encoding="utf-8"))
        if (old.made.fingerprint, old.judge) != (found.made.fingerprint, found.judge):
            raise SystemExit(f"{options.out} is of another machine or judge: name another --out")
        found = old
    with versions(options, case) as compared:
        for number in range(options.repeats):
            for name in options.only or ROWS:
                for version in compared[:: -1 if number % 2 else 1]:
                    done = {(one.row, one.version, one.repeat) for one in found.samples}
                    if (name, version.name, number) in done:
                        continue
                    with tempfile.TemporaryDirectory(prefix="roofsmith-pace-") as folder:
                        values = ROWS[name](version, Path(folder), number)
                    shown = ", ".join(f"{key} {value:.2f}" for key, value in values.items())
                    say(f"{name} {number} {version.name}: {shown}")
                    sample = Sample(row=name, version=version.name, repeat=number, values=values)
                    samples = (*found.samples, sample)
                    update = {"samples": samples, "figures": figures(samples)}
                    found = found.model_copy(update=update)
                    write(found, options.out)
    return found


@contextmanager
def versions(options: argparse.Namespace, case: Case) -> Iterator[list[Version]]:
    """Those that are compared, each with a home; without a place it ends with the block."""
    sources = {PRESENT: ROOT / "src"}
    if options.before is not None:
        sources = {BEFORE: options.before.absolute(), **sources}
    with tempfile.TemporaryDirectory(prefix="roofsmith-pace-") as passing:
        place, found = options.place or Path(passing), []
        for name, source in sources.items():
            home = place.absolute() / name
            version = Version(name, source, case, home)
            found.append(version)
            if not home.exists():
                home.mkdir(parents=True)
                say(f"{name}: measuring ceilings")
                version.run(["specs", "measure"])
                say(f"{name}: {version.campaign} is begun")
        yield found


def main() -> None:
    """Measure, print, and write the record."""
    made = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    made.add_argument("--gpu", action="store_true", help="a Triton kernel's rows")
    made.add_argument("--before", type=Path, metavar="SRC", help="sources of another version")
    made.add_argument("--only", nargs="+", choices=ROWS, metavar="ROW")
    made.add_argument("--repeats", type=int, default=REPEATS)
    made.add_argument("--place", type=Path, help="keeps caches and campaigns for the next run")
    made.add_argument("--out", type=Path, required=True)
    for line in table(run(made.parse_args())):
        print(line)


if __name__ == "__main__":
    main()
