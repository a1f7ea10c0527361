"""Builds that prove when and from what they were made."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from c_candidates import built, candidate
from cuda_kernels import H100, cuda, needs_nvcc
from repository_bench import without_ceilings

from roofsmith import api
from roofsmith.api.canary import canary_builds
from roofsmith.config import Settings
from roofsmith.domain.comparison import Judgement
from roofsmith.domain.kernel import Built, Language
from roofsmith.domain.outcome import Cheated
from roofsmith.domain.values import content_id
from roofsmith.errors import UsageError
from roofsmith.judge.booting import require_image
from roofsmith.judge.host.process import WorkerProcess
from roofsmith.ports import KernelDiedError
from roofsmith.testing.observer import SilentObserver
from roofsmith.testing.toolchain import SCALE
from roofsmith.toolchains import CToolchain, CudaToolchain

pytestmark = [pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc"), pytest.mark.slow]

WORD = "c0ffee" * 8
WRONG = SCALE.replace("2.0f", "3.0f")
REFERENCE = """\
import numpy as np

def setup(n, seed=0):
    x = np.random.default_rng(seed).standard_normal(n, dtype=np.float32)
    return {"inputs": {"x": x, "y": np.empty_like(x), "n": n}, "outputs": ["y"]}

def reference(x, y, n):
    np.multiply(x, 2, out=y)

def flops(n):
    return n
"""


def worker(made: Built, kind: type[WorkerProcess] = WorkerProcess) -> None:
    with contextlib.closing(kind(made, threads=1)) as process:
        process.wait_until_loaded()


def exchange(cache: Path, held: Built, for_: Built) -> None:
    """Put another library into a cache, and cover the traces."""
    record = held.library.with_name("build.json")
    for path in (held.library, record):
        path.chmod(0o644)
    shutil.copyfile(for_.library, held.library)
    kept = json.loads(record.read_text())
    kept["files"] = {"kernel.so": content_id(for_.library.read_bytes())}
    record.write_text(json.dumps(kept))


def test_a_canary_is_in_the_library_and_without_one_nothing_changes(tmp_path: Path) -> None:
    plain = built(CToolchain(tmp_path).build(candidate()))
    marked = built(CToolchain(tmp_path, canary=WORD).build(candidate()))
    other = built(CToolchain(tmp_path, canary=WORD[::-1]).build(candidate()))
    assert len({plain.library, marked.library, other.library}) == 3
    assert plain.canary is None
    assert marked.canary == WORD
    assert WORD.encode() in marked.library.read_bytes()
    assert WORD.encode() not in other.library.read_bytes()
    assert plain.candidate_id == marked.candidate_id
    worker(plain)
    worker(marked)


@pytest.mark.parametrize(
    "flags",
    [
        ("-O3", "-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections"),
        ("-O3", "-flto", "-fvisibility=hidden"),
        ("-O0", "-g", "-Wall", "-Wextra", "-Wpedantic", "-Werror"),
    ],
)
@pytest.mark.parametrize("language", ["c", "cpp"])
def test_no_flag_drops_it_and_several_files_agree(
    flags: tuple[str, ...], language: Language, tmp_path: Path
) -> None:
    if language == "cpp" and shutil.which("g++") is None:
        pytest.skip("needs g++")
    export = '__attribute__((visibility("default"))) '
    text = SCALE.replace("void solve", f"{export}void solve", 1)
    if language == "cpp":
        text = text.replace(f"{export}void", f'extern "C" {export}void', 1)
    helper = (f"helper.{language}", "int helper(int n);\nint helper(int n) { return n; }\n")
    made = built(
        CToolchain(tmp_path, canary=WORD).build(
            candidate(text, helper, language=language, flags=flags)
        )
    )
    worker(made)


@pytest.mark.whole
@needs_nvcc
def test_nvcc_puts_it_into_a_cuda_library(tmp_path: Path) -> None:
    made = built(CudaToolchain(tmp_path, H100, canary=WORD).build(cuda()))
    require_image(made)
    plain = built(CudaToolchain(tmp_path, H100).build(cuda()))
    assert made.resources == plain.resources


def refusal(made: Built, kind: type[WorkerProcess] = WorkerProcess) -> Cheated:
    with pytest.raises(KernelDiedError) as died:
        worker(made, kind)
    assert isinstance(died.value.outcome, Cheated)
    assert died.value.outcome.reason == "binary_mismatch"
    return died.value.outcome


def test_a_library_without_the_canary_is_not_loaded(tmp_path: Path) -> None:
    made = built(CToolchain(tmp_path).build(candidate()))
    found = refusal(made.model_copy(update={"canary": WORD}))
    assert "doesn't hold the canary" in found.detail


def test_a_canary_build_that_was_exchanged_is_not_loaded(tmp_path: Path) -> None:
    made = built(CToolchain(tmp_path, canary=WORD).build(candidate()))
    exchange(tmp_path, made, built(CToolchain(tmp_path).build(candidate(WRONG))))
    refusal(made)


def test_what_is_in_the_worker_s_memory_counts(tmp_path: Path) -> None:
    made = built(CToolchain(tmp_path, canary=WORD).build(candidate()))
    other = built(CToolchain(tmp_path).build(candidate(WRONG)))

    class Swapped(WorkerProcess):
        """Exchanges the file between the parent's look and the worker's."""

        def _kernel(self) -> dict[str, Any]:
            os.replace(other.library, made.library)  # noqa: PTH105
            return super()._kernel()

    assert "isn't what was compiled" in refusal(made, Swapped).detail


def test_whatever_else_a_worker_has_mapped_may_have_any_name(tmp_path: Path) -> None:
    maps = r"""
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
__attribute__((constructor)) static void map_one(void) {
    int fd = open("a\xff\xfe", O_CREAT | O_RDWR, 0600);
    if (fd < 0 || ftruncate(fd, 4096) || mmap(0, 4096, 3, MAP_SHARED, fd, 0) == MAP_FAILED)
        __builtin_trap();
}
"""
    worker(built(CToolchain(tmp_path, canary=WORD).build(candidate(maps + SCALE))))


def wrapped(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put a gcc of one's own before the real one."""
    wrapper = folder / "bin" / "gcc"
    wrapper.parent.mkdir()
    wrapper.write_text(f"#!/bin/sh\n{script}")
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")


def test_a_compiler_that_hands_out_an_old_object_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = built(CToolchain(tmp_path / "old").build(candidate(WRONG)))
    wrapped(
        tmp_path, monkeypatch,
        f'case "$*" in *-shared*) ;; *) exec {shutil.which("gcc")} "$@" ;; esac\n'
        'while [ "$1" != -o ]; do shift; done\n'
        f'cp "{old.library}" "$2"\n',
    )  # fmt: skip
    deceived = built(CToolchain(tmp_path / "new").build(candidate()))
    assert deceived.library_sha256 == old.library_sha256
    refusal(built(CToolchain(tmp_path / "new", canary=WORD).build(candidate())))


def test_a_cache_that_holds_something_else_is_seen(tmp_path: Path) -> None:
    toolchain = CToolchain(tmp_path)
    assert not toolchain.differs(candidate())
    held, other = (built(toolchain.build(candidate(text))) for text in (SCALE, WRONG))
    assert not toolchain.differs(candidate())
    exchange(tmp_path, held, other)
    assert built(toolchain.build(candidate())).library_sha256 == other.library_sha256
    assert toolchain.differs(candidate())
    assert not toolchain.differs(candidate(WRONG))


def test_a_build_that_never_comes_out_the_same_accuses_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stamp = '-DSTAMP="\\"$(cat /proc/sys/kernel/random/uuid)\\""'
    wrapped(tmp_path, monkeypatch, f'exec {shutil.which("gcc")} "$@" {stamp}\n')
    toolchain = CToolchain(tmp_path / "cache")
    stamped = candidate(f"const char *stamp(void) {{ return STAMP; }}\n{SCALE}")
    built(toolchain.build(stamped))
    assert not toolchain.differs(stamped)


class Workplace:
    """A folder with kernels, and a cache that may be tampered with."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = Settings(folder / "cache", folder / "campaigns")
        for name, text in (("base.c", SCALE), ("wrong.c", WRONG), ("reference.py", REFERENCE)):
            (folder / name).write_text(text)

    def judge(self, name: str, *, canary: bool) -> Judgement:
        against = api.Subject(
            path=self.folder / "base.c", reference=self.folder / "reference.py",
            workloads=("n=4096",), threads=1,
        )  # fmt: skip
        return api.judge(
            self.folder / name, against, api.Judging(budget=0.5, canary=canary), self.settings,
            SilentObserver(),
        )  # fmt: skip

    def builds(self) -> list[str]:
        return sorted(path.name for path in self.settings.builds_dir.iterdir() if path.is_dir())


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workplace]:
    place = Workplace(tmp_path_factory.mktemp("workplace"))
    with pytest.MonkeyPatch.context() as patch:
        without_ceilings(patch, place.settings.cache_dir)
        yield place


def test_a_judgement_is_of_the_source_whatever_the_cache_holds(workplace: Workplace) -> None:
    """The wrong kernel's library in the cache is exchanged for the right one's: a stale build."""
    toolchain = CToolchain(workplace.settings.builds_dir)
    wrong, right = (
        built(toolchain.build(api.subjects.candidate_from(workplace.folder / name, None)))
        for name in ("wrong.c", "base.c")
    )
    exchange(workplace.settings.builds_dir, wrong, right)
    assert workplace.judge("wrong.c", canary=False).outcome.kind == "passed"
    before = workplace.builds()
    found = workplace.judge("wrong.c", canary=True)
    assert found.outcome.kind == "incorrect"
    (accused,) = [note for note in found.notes if "THE BUILD CACHE" in note]
    assert "for the candidate" in accused
    assert workplace.builds() == before


def test_a_judgement_with_a_canary_says_what_it_ran(workplace: Workplace) -> None:
    found = workplace.judge("base.c", canary=True)
    assert found.outcome.kind == "passed"
    (proof,) = [note for note in found.notes if "canary" in note]
    assert proof.startswith("compiled anew for this judgement, with canary ")
    assert "candidate " in proof
    assert "incumbent " in proof


def test_two_judgements_have_two_canaries(workplace: Workplace) -> None:
    class Machine:
        gpu = None
        compiled_dir = workplace.folder

    words = set()
    for _ in range(2):
        with canary_builds(Machine, workplace.settings) as builds:  # type: ignore[arg-type]
            words.add(builds.canary)
            assert len(builds.canary) == 64
    assert len(words) == 2


def test_modules_are_told_that_they_need_none(workplace: Workplace) -> None:
    (workplace.folder / "kernel.py").write_text("import torch\n\ndef run_kernel(x, y): ...\n")
    with pytest.raises(UsageError, match="--canary is for kernels that are compiled"):
        workplace.judge("kernel.py", canary=True)
