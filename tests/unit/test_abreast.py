"""Builds side by side: how many at once, in what order, and that none of them is left behind."""

from __future__ import annotations

import os
import select
import shutil
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from c_candidates import built, unrolled
from cuda_kernels import H100, cuda, needs_nvcc
from waiting import wait_until

from roofsmith.domain.kernel import BuildSpec, Candidate, SourceFile, default_build
from roofsmith.domain.outcome import BuildFailed
from roofsmith.errors import StorageError
from roofsmith.testing.toolchain import SCALE
from roofsmith.toolchains import CToolchain, CudaToolchain, Toolchains
from roofsmith.toolchains.builder import Work, side_by_side

pytestmark = pytest.mark.slow

LONG_S = 60.0
"""Whoever waits for so long was forgotten."""


class Recorder:
    """Work that notes how much of it runs at the same time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.running = self.most = 0
        self.stopped: list[int] = []

    def work(self, number: int, wait: Callable[[], object]) -> Work[int]:
        def run(stop: int | None) -> int:
            with self._lock:
                self.running += 1
                self.most = max(self.most, self.running)
            try:
                wait()
                return number
            finally:
                with self._lock:
                    self.running -= 1

        return run

    def endless(self, number: int) -> Work[int]:
        """Ends only when it is told to."""

        def run(stop: int | None) -> int:
            assert stop is not None
            with self._lock:
                self.running += 1
            assert select.select([stop], [], [], LONG_S)[0]
            self.stopped.append(number)
            return number

        return run


class TestSideBySide:
    def test_as_many_as_allowed_run_at_the_same_time(self) -> None:
        recorder, together = Recorder(), threading.Barrier(3, timeout=LONG_S)
        works = [recorder.work(number, together.wait) for number in range(6)]
        assert side_by_side(works, 3) == tuple(range(6))
        assert recorder.most == 3

    @pytest.mark.parametrize("at_once", [1, 2, 8])
    def test_results_come_in_the_order_of_the_works(self, at_once: int) -> None:
        recorder = Recorder()
        waits = [0.05, 0.0, 0.03, 0.01]
        works = [recorder.work(n, lambda s=s: time.sleep(s)) for n, s in enumerate(waits)]
        assert side_by_side(works, at_once) == (0, 1, 2, 3)
        assert recorder.most <= at_once

    def test_one_at_a_time_runs_in_the_calling_thread(self) -> None:
        def here(stop: int | None) -> int:
            assert stop is None  # Ctrl-C reaches it by itself
            return threading.get_ident()

        assert set(side_by_side([here, here], 1)) == {threading.get_ident()}
        assert side_by_side([here], 8) == (threading.get_ident(),)
        assert side_by_side([], 8) == ()

    def test_a_failure_ends_the_others(self) -> None:
        recorder, threads = Recorder(), threading.active_count()

        def fails(stop: int | None) -> int:
            while recorder.running < 2:
                time.sleep(0.001)
            raise StorageError("no room")

        works = [recorder.endless(0), recorder.endless(1), fails]
        works += [recorder.endless(number) for number in range(2, 20)]
        with pytest.raises(StorageError, match="no room"):
            side_by_side(works, 3)
        assert sorted(recorder.stopped)[:2] == [0, 1]
        assert len(recorder.stopped) <= 3
        assert threading.active_count() == threads

    def test_ctrl_c_ends_them_all(self) -> None:
        recorder, threads = Recorder(), threading.active_count()

        def press() -> None:
            while recorder.running < 3:
                time.sleep(0.001)
            os.kill(os.getpid(), signal.SIGINT)

        presser = threading.Thread(target=press)
        presser.start()
        with pytest.raises(KeyboardInterrupt):
            side_by_side([recorder.endless(n) for n in range(5)], 3)
        presser.join()
        assert sorted(recorder.stopped)[:3] == [0, 1, 2]
        assert threading.active_count() == threads

    def test_no_descriptor_is_left_open(self) -> None:
        before = _open_descriptors()
        for _ in range(5):
            side_by_side([lambda _: 1, lambda _: 2], 2)
        assert _open_descriptors() == before


def _open_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


# -- real compilers ------------------------------------------------------------------------------

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")

SLOW = unrolled(16)
"""Statements that take a compiler many seconds."""


def candidate(text: str = SCALE, *flags: str) -> Candidate:
    return Candidate(
        language="c",
        sources=(SourceFile(path="kernel.c", text=text),),
        build=BuildSpec(flags=("-O1", *flags)),
    )


def tiles(number: int) -> list[Candidate]:
    return [candidate(SCALE, f"-DTILE={size}") for size in range(number)]


def processes_in(folder: Path) -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            found.append(str((entry / "cwd").readlink()))
        except OSError:
            continue
    return [cwd for cwd in found if str(folder) in cwd]


def await_none_in(folder: Path) -> None:
    """No process works there any more; the last steps of one's death take a moment."""
    wait_until(lambda: not processes_in(folder))


@needs_gcc
class TestGcc:
    def test_compilers_run_side_by_side(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Each of these gccs waits until two others have been started."""
        cache, fake = tmp_path / "cache", tmp_path / "bin" / "gcc"
        fake.parent.mkdir()
        fake.write_text(  # every build has a folder there: its workspace, later what came out
            '#!/bin/sh\ncase "$*" in *-shared*)\ni=0\n'
            f'while [ "$(ls -d "{cache}"/*/ | wc -l)" -lt 3 ]; do\n'
            "  i=$((i + 1)); [ $i -lt 600 ] || exit 9; sleep 0.05\n"
            f'done;; esac\nexec {shutil.which("gcc")} "$@"\n'
        )
        fake.chmod(0o755)
        monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
        made = CToolchain(cache, at_once=3).build_all(tiles(3))
        assert len({built(one).library for one in made}) == 3

    def test_what_is_built_side_by_side_is_what_is_built_alone(self, tmp_path: Path) -> None:
        toolchain = CToolchain(tmp_path / "cache", at_once=4)
        asked = [*tiles(4), candidate("#error no\n"), candidate(SCALE.replace("solve", "salve"))]
        made = toolchain.build_all(asked)
        assert [one.reason for one in made if isinstance(one, BuildFailed)] == [
            "compile_error", "no_entry",
        ]  # fmt: skip
        assert not any(toolchain.differs(c) for c in asked[:4])
        assert {built(toolchain.build(c)).cached for c in asked[:4]} == {True}
        assert not [p for p in (tmp_path / "cache").iterdir() if p.name.startswith("work-")]

    def test_the_same_content_may_be_asked_for_twice_at_once(self, tmp_path: Path) -> None:
        toolchain = CToolchain(tmp_path, at_once=4)
        first, *others = map(built, toolchain.build_all([candidate()] * 4))
        assert {one.library_sha256 for one in others} == {first.library_sha256}
        assert {one.library for one in others} == {first.library}

    def test_each_has_the_deadline_to_itself(self, tmp_path: Path) -> None:
        toolchain = CToolchain(tmp_path, at_once=3, deadline_s=0.4)
        made = toolchain.build_all([candidate(SLOW, f"-DT={n}") for n in range(3)])
        assert {one.reason for one in made if isinstance(one, BuildFailed)} == {"compiler_timeout"}
        await_none_in(tmp_path)

    def test_a_cache_that_cannot_be_written_is_our_failure(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        toolchain = CToolchain(tmp_path / "cache", at_once=3)
        monkeypatch.setattr("roofsmith.toolchains.cache.tempfile.mkdtemp", _no_room)
        with pytest.raises(StorageError, match="can't keep builds"):
            toolchain.build_all(tiles(3))

    def test_ctrl_c_leaves_no_compiler_behind(self, tmp_path: Path) -> None:
        toolchain, threads = CToolchain(tmp_path, at_once=3), threading.active_count()

        def press() -> None:
            wait_until(lambda: len({*processes_in(tmp_path)}) == 3)
            os.kill(os.getpid(), signal.SIGINT)

        presser = threading.Thread(target=press)
        presser.start()
        with pytest.raises(KeyboardInterrupt):
            toolchain.build_all([candidate(SLOW, f"-DT={n}") for n in range(5)])
        presser.join()
        await_none_in(tmp_path)
        assert threading.active_count() == threads
        assert not [p for p in tmp_path.iterdir() if p.name.startswith("work-")]
        built(toolchain.build(candidate()))


def _no_room(*_: object, **__: object) -> str:
    raise OSError(28, "No space left on device")


@pytest.mark.whole
@needs_nvcc
class TestNvcc:
    def test_what_is_built_side_by_side_is_what_is_built_alone(self, tmp_path: Path) -> None:
        toolchain = CudaToolchain(tmp_path, H100, at_once=2)
        asked = [cuda(), cuda(cuda().kernel.text.replace("128", "256"))]
        made = [built(one) for one in toolchain.build_all(asked)]
        assert [one.resources[0].name for one in made] == ["scale<128>", "scale<256>"]
        assert not any(toolchain.differs(candidate) for candidate in asked)


def test_the_language_decides(tmp_path: Path) -> None:
    toolchains = Toolchains(tmp_path, H100, at_once=5)
    assert [toolchains.side_by_side(x) for x in ("c", "cpp", "cuda", "triton", "torch")] == [
        5, 5, 5, 1, 1,
    ]  # fmt: skip


@needs_gcc
def test_languages_may_be_mixed(tmp_path: Path) -> None:
    module = Candidate(
        language="torch",
        sources=(SourceFile(path="k.py", text="def run_kernel(x): ...\n"),),
        build=default_build("torch"),
    )
    asked = [candidate(), module, candidate(SCALE, "-DT=1"), module]
    made = [built(one) for one in Toolchains(tmp_path, at_once=2).build_all(asked)]
    assert [one.candidate_id for one in made] == [one.id for one in asked]
