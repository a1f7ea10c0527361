"""What is begun for a GPU before there is one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from roofsmith.api import hardware
from roofsmith.api.head_start import NOTHING_BEGUN, begin_ahead
from roofsmith.config import Settings
from roofsmith.domain.kernel import Candidate, Language, SourceFile
from roofsmith.errors import MachineError
from roofsmith.testing.engine import fake_target
from roofsmith.testing.observer import SilentObserver

KERNEL = Candidate(language="cuda", sources=(SourceFile(path="kernel.cu", text=""),))
PROOFS = ["memcheck.cu", "racecheck.cu", "initcheck.cu"]


@pytest.mark.parametrize(
    ("language", "slots", "expected"),
    [
        ("cuda", 4, ["kernel.cu", *PROOFS]),
        ("cuda", 3, ["kernel.cu"]),
        ("hip", 4, ["kernel.cu"]),
        ("c", 4, []),
    ],
)
def test_kernels_are_built_where_they_run_on_a_gpu_and_proofs_where_there_is_room(
    language: Language,
    slots: int,
    expected: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    built: list[str] = []

    def build_all(candidates: Sequence[Candidate]) -> None:
        built.extend(one.kernel.path for one in candidates)

    toolchain = SimpleNamespace(build_all=build_all, side_by_side=lambda _: slots)
    monkeypatch.setattr(hardware, "_machine", lambda *_: SimpleNamespace(toolchain=toolchain))
    target, settings = fake_target(language=language), Settings(tmp_path, tmp_path)
    with hardware.working_ahead(target, settings, (KERNEL,)) as ahead:
        ahead.built()
        assert sorted(built) == sorted(expected)


def test_a_machine_without_a_gpu_is_no_error_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object) -> None:
        raise MachineError("there is none")

    monkeypatch.setattr(hardware, "_machine", none)
    target, settings = fake_target(language="cuda"), Settings(tmp_path, tmp_path)
    with hardware.working_ahead(target, settings, (KERNEL,)) as ahead:
        ahead.built()


def test_what_was_begun_for_a_gpu_ends_with_its_command(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    settings = Settings(tmp_path, tmp_path, lease_dir=tmp_path)
    with begin_ahead(Path("kernel.cu"), settings, SilentObserver()) as begun:
        begun.looked()
        assert begun.reference is not None
        assert begun.reference.process.poll() is None
    assert begun.reference.process.poll() is not None


def test_nothing_is_begun_for_the_processors(tmp_path: Path) -> None:
    with begin_ahead(Path("kernel.c"), Settings(tmp_path, tmp_path), SilentObserver()) as begun:
        assert begun is NOTHING_BEGUN
