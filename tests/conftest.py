"""Tests run side by side, but what measures kernels has the machine to itself."""

from __future__ import annotations

import fcntl
import gc
import os
import shutil
import signal
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from typer import main, testing

os.environ.setdefault("ROOFSMITH_EXPERIENCE", "none")  # what tests learn is no experience
os.environ["ROOFSMITH_HOLD"] = "0"  # or every test that asks or tells would leave a process behind

# Nobody turns the power off here. Commands wait for the disk dozens of times, tests for commands.
os.fsync = lambda fd: None

# Who starts the suite in the background or under nohup has it ignore these, and all its children
# with it: they would never hear of the Ctrl-C and the hang-up that tests send them.
USUAL = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
for number, usual in USUAL.items():
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)

# How long an example takes says how busy the machine is, and nothing about what it shows. The rest
# is as it was: where there is a variable CI, Hypothesis has chosen a profile by itself.
settings.register_profile(
    "any machine", max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")

# The commands are the same for every test that calls one. To make them takes a twentieth of a
# second, which a process of a user's spends once.
vars(testing)["_get_command"] = cache(main.get_command)


class Machine:
    """The machine, shared with other test processes of this user or not, also those of other runs.

    Who waits to be alone holds the turnstile, so that no new test passes in front of it.

    Args:
        place: where the locks are. Tests give temporary files another folder: it must be found
            before the first of them runs, or there is a lock for each process.
    """

    def __init__(self, place: Path) -> None:
        place.mkdir(exist_ok=True)
        self._turnstile, self._machine = ((place / n).open("w") for n in ("turnstile", "machine"))
        self._held: int = fcntl.LOCK_UN

    @contextmanager
    def held(self, *, alone: bool) -> Iterator[None]:
        """Wait until it is free, or as quiet as a measurement needs it; then have it."""
        before = self._held
        wanted = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
        if before in (wanted, fcntl.LOCK_EX):
            yield
            return
        self._hold(wanted)
        try:
            yield
        finally:
            self._hold(before)

    def _hold(self, wanted: int) -> None:
        # Let go of first, and said, not left to closing: somebody may wait for this one to be
        # alone, and a process that a test forked may hold a copy.
        fcntl.flock(self._machine, fcntl.LOCK_UN)
        self._held = fcntl.LOCK_UN
        if wanted == fcntl.LOCK_UN:
            return
        fcntl.flock(self._turnstile, fcntl.LOCK_EX)
        try:
            fcntl.flock(self._machine, wanted)
            self._held = wanted
        finally:
            fcntl.flock(self._turnstile, fcntl.LOCK_UN)


MACHINE = Machine(Path(tempfile.gettempdir()) / f"roofsmith-tests-{os.getuid()}")


def pytest_itemcollected(item: pytest.Item) -> None:
    """The real judge again and again, or a browser: marked before `-m` chooses."""
    if item.path.parent.name in ("adversarial", "browser"):
        item.add_marker("slow")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files in the order in which two processes are done with them soonest.

    First those in which tests are alone: one process has to wait for them, whatever the other would
    do. Then those that take long, and the smallest last, so that both end at the same time.
    """
    files: dict[Path, list[pytest.Item]] = defaultdict(list)
    for item in items:
        files[item.path].append(item)
    items[:] = [item for tests in sorted(files.values(), key=_place) for item in tests]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays until the end: nobody looks for garbage in it, now or later.

    Products as small as those of tests take longer with a second thread of PyTorch's.
    """
    gc.disable()
    found = yield
    gc.collect()
    gc.freeze()
    gc.enable()
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)
    return found


def _place(tests: Sequence[pytest.Item]) -> tuple[bool, bool, int]:
    marks = {mark.name for test in tests for mark in test.iter_markers()}
    return "timing" not in marks, "slow" not in marks, -len(tests)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Have the machine while a test runs: alone if it is marked so."""
    with MACHINE.held(alone=item.get_closest_marker("timing") is not None):
        return (yield)


@pytest.fixture(scope="session")
def alone() -> Callable[[], AbstractContextManager[None]]:
    """For fixtures that measure kernels where the tests themselves don't: nothing runs beside."""
    return lambda: MACHINE.held(alone=True)


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all processes of this run see."""
    own = tmp_path_factory.getbasetemp()
    place = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "shared"
    place.mkdir(exist_ok=True)
    return place


@pytest.fixture(scope="session")
def cache(shared: Path) -> Path:
    """For `ROOFSMITH_CACHE`, so that ceilings are measured once in a run."""
    return shared / "cache"


@pytest.fixture(scope="session")
def once(
    shared: Path, alone: Callable[[], AbstractContextManager[None]]
) -> Callable[[str, Callable[[Path], object]], Path]:
    """A folder of this run, filled by the first of its processes that asks, alone; nobody changes
    it later."""

    def made(name: str, fill: Callable[[Path], object]) -> Path:
        place, done = shared / name, shared / f"{name}.done"
        if not done.exists():
            with alone():
                if not done.exists():
                    shutil.rmtree(place, ignore_errors=True)
                    place.mkdir()
                    fill(place)
                    done.touch()
        return place

    return made
