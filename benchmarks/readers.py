"""Whether a campaign's rounds take longer while eight people look at its page.

    python benchmarks/readers.py examples/softmax --pairs 16 --out benchmarks/results/readers.json

One open session judges changes that differ from the kernel in a comment, in pairs: one round while
nobody looks, one while eight readers hold the page's stream of events, load the page anew at each
event and every two seconds, and the list of campaigns as well; which of both is first takes turns.
`roofsmith serve` is the server all along, on the same machine as the campaign and the readers.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean, median
from urllib.request import urlopen

from result_file import Made, made_now, mean_interval, say, write
from roofsmith import api
from roofsmith.domain.campaign import Round
from roofsmith.domain.values import Value
from roofsmith.targets.file import load_target
from roofsmith.testing.observer import RecordingObserver
from session_overhead import change

READERS = 8
POLL_S = 2.0
WORKLOADS = ("N=512,D=512",)
"""Small: what readers cost is their own processor time, not the kernel's."""


class Watched(Value):
    """One round."""

    readers: int
    wall_s: float
    """Since the record before it."""
    judgement_s: float
    kernel_s: float
    """The incumbent's own time of a call, the median of its pairs."""
    pages: int
    """That were answered meanwhile."""
    load_average: float
    """Of the minute before its end."""


class Readers(Value):
    """A run of this script."""

    made: Made
    target: str
    rounds: tuple[Watched, ...]
    """Two after another are a pair."""
    ratios: dict[str, tuple[float, float, float]]
    """With readers over without, of pairs: geometric mean, and its 95% Student interval."""


@contextmanager
def serving(directory: Path) -> Iterator[str]:
    """The address of the page of a campaign."""
    command = [sys.executable, "-m", "roofsmith", "serve", str(directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        root = server.stdout.readline().strip()
        with urlopen(f"{root}json") as listed:
            (row,) = json.load(listed)["campaigns"]
        yield f"{root}campaign/{row['id']}"
        server.terminate()


def read(page: str) -> None:
    """Look at a page like so many browsers, until stdin is closed; prints how many were loaded."""
    loaded, began = list[str](), threading.Semaphore(0)

    def load(address: str) -> None:
        with urlopen(address) as answer:
            answer.read()
        loaded.append(address)

    def follow() -> None:
        with urlopen(f"{page}/events") as stream:
            for line in stream:
                if line.startswith(b"data: "):
                    load(page)
                    began.release()

    def poll() -> None:
        while True:
            load(page)
            load(page.rpartition("campaign/")[0])
            threading.Event().wait(POLL_S)

    for _ in range(READERS):
        for doing in (follow, poll):
            threading.Thread(target=doing, daemon=True).start()
    for _ in range(READERS):
        began.acquire()
    print("reading", flush=True)
    sys.stdin.read()
    print(len(loaded), flush=True)


def watched(session: api.session.Session, path: Path, page: str, readers: int) -> Watched:
    """Judge one change while so many look on."""
    looking = None
    if readers:
        looking = subprocess.Popen(
            [sys.executable, __file__, "--read", page],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert looking.stdout is not None
        assert looking.stdout.readline().strip() == "reading"
    told = session.tell(api.SubmittedChange(kernel=path, hypothesis="a comment"))
    said = looking.communicate("")[0] if looking is not None else "0"
    round_: Round = told.rounds[0]
    compared = round_.judgement.comparison
    assert compared is not None, round_.judgement.outcome
    made = made_now(told.campaign.started.environment)
    found = Watched(
        readers=readers, wall_s=round_.wall_s, judgement_s=round_.judgement.wall_s,
        kernel_s=median(one.incumbent_time_s for one in compared.workloads), pages=int(said),
        load_average=made.load_average,
    )  # fmt: skip
    say(f"{readers} readers: {found.wall_s:.1f} s, {found.pages} pages, load {made.load_average}")
    return found


def ratio(rounds: list[Watched], field: str) -> tuple[float, float, float]:
    """Of a field, with readers over without."""
    logs = []
    for pair in zip(rounds[::2], rounds[1::2], strict=True):
        without, with_ = sorted(pair, key=lambda one: one.readers)
        logs.append(math.log(getattr(with_, field) / getattr(without, field)))
    low, high = mean_interval(logs)
    return math.exp(fmean(logs)), math.exp(low), math.exp(high)


def summarize(made: Made, target: str, rounds: list[Watched]) -> Readers:
    """Of at least two pairs."""
    ratios = {name: ratio(rounds, name) for name in ("wall_s", "judgement_s", "kernel_s")}
    return Readers(made=made, target=target, rounds=tuple(rounds), ratios=ratios)


def main() -> None:
    """Measure, print, and write the record."""
    made = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    made.add_argument("target", type=Path, nargs="?")
    made.add_argument("--pairs", type=int, default=6)
    made.add_argument("--out", type=Path)
    made.add_argument("--read", help=argparse.SUPPRESS)
    options = made.parse_args()
    if options.read:
        return read(options.read)
    begin = made_now()
    target, rounds = load_target(options.target), list[Watched]()
    kernel = options.target / target.kernel.path
    with tempfile.TemporaryDirectory() as place:
        directory, limits = Path(place) / "campaign", api.SessionLimits(max_iterations=100)
        subject = api.Subject(
            path=kernel, reference=options.target / "reference.py", workloads=WORKLOADS
        )
        plan = api.CampaignPlan(subject, "none", limits)
        api.optimize(plan, directory, api.settings(), RecordingObserver())
        with (
            serving(directory) as page,
            api.open_session(directory, api.settings(), RecordingObserver()) as session,
        ):
            for number in range(options.pairs):
                for readers in ((0, READERS), (READERS, 0))[number % 2]:
                    path = change(kernel, Path(place), len(rounds), "//")
                    rounds.append(watched(session, path, page, readers))
                if number:
                    found = summarize(begin, target.name, rounds)
                    write(found, options.out)
    for name, (mean, low, high) in found.ratios.items():
        print(f"{name}: {mean:.3f} times as long beside {READERS} readers [{low:.3f}, {high:.3f}]")
    return None


if __name__ == "__main__":
    main()
