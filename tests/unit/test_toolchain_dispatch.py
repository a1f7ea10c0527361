"""One toolchain for every language."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from cuda_kernels import H100, cuda

from roofsmith.domain.kernel import BuildSpec, Candidate, Language, SourceFile
from roofsmith.domain.outcome import BuildFailed
from roofsmith.errors import MachineError
from roofsmith.ports import Toolchain
from roofsmith.testing.toolchain import SCALE, ToolchainConformance
from roofsmith.toolchains import Toolchains

HIP = 'extern "C" void solve(float *y, int n) {}'


def candidate(language: Language, text: str) -> Candidate:
    return Candidate(language=language, sources=(SourceFile(path="kernel.x", text=text),))


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
class TestC(ToolchainConformance):
    @pytest.fixture
    def toolchain(self, tmp_path: Path) -> Toolchain:
        return Toolchains(tmp_path)


def test_each_language_is_read_by_its_own(tmp_path: Path) -> None:
    toolchains = Toolchains(tmp_path)
    assert len(toolchains.signature(candidate("c", SCALE)).parameters) == 3
    assert len(toolchains.signature(cuda()).parameters) == 3
    assert len(toolchains.signature(candidate("hip", HIP)).parameters) == 2
    assert toolchains.signature(candidate("torch", "def run_kernel(x): ...")).entry == "run_kernel"


@pytest.mark.parametrize("language", ["cuda", "hip"])
def test_a_gpu_language_needs_its_own_device(tmp_path: Path, language: Language) -> None:
    other = H100 if language == "hip" else H100.model_copy(update={"kind": "amd"})
    for device in (None, other):
        with pytest.raises(MachineError, match=r"no (AMD )?GPU"):
            Toolchains(tmp_path, device).build(candidate(language, HIP))


@pytest.mark.parametrize("language", ["c", "cpp", "cuda", "hip"])
def test_a_compiler_of_another_language(tmp_path: Path, language: Language) -> None:
    compiler = "gcc" if language in {"cuda", "hip"} else "nvcc"
    build = BuildSpec.model_validate({"flags": (), "link": (), "compiler": compiler})
    failure = Toolchains(tmp_path, H100).build(candidate(language, HIP).with_build(build))
    assert isinstance(failure, BuildFailed)
    assert failure.reason == "wrong_compiler"
