"""The HIP toolchain over a program that stands in for hipcc: it compiles the host's half with g++
and prints the remarks that the real one prints. None of it has seen an AMD compiler."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from test_ptxas import REMARKS

from roofsmith import cuda_programs
from roofsmith.domain.device import Device
from roofsmith.domain.kernel import Built, Candidate, SourceFile, default_build
from roofsmith.domain.outcome import BuildFailed
from roofsmith.errors import MachineError, ToolMissingError
from roofsmith.ports import Toolchain
from roofsmith.testing.toolchain import ToolchainConformance
from roofsmith.toolchains import HipToolchain

MI300X = Device(kind="amd", name="AMD Instinct MI300X", cores=304, arch="gfx942")

SCALE = """\
__global__ void scale(const float *x, float *y, int n) {
    y[0] = 2.0f * x[0];
}
extern "C" void solve(const float *x, float *y, int n) {
    scale(x, y, n);
    hipDeviceSynchronize();
}
"""

RUNTIME = """\
#pragma once
#define __global__ static
typedef int hipError_t;
#define hipSuccess 0
typedef void *hipStream_t;
#define hipStreamNonBlocking 1
static inline hipError_t hipDeviceSynchronize() { return 0; }
static inline hipError_t hipGetLastError() { return 0; }
static inline const char *hipGetErrorName(hipError_t) { return "hipErrorUnknown"; }
static inline hipError_t hipStreamSynchronize(hipStream_t) { return 0; }
static inline hipError_t hipPeekAtLastError() { return 0; }
static inline hipError_t hipStreamCreateWithFlags(hipStream_t *, unsigned) { return 0; }
static inline hipError_t hipStreamCreateWithPriority(hipStream_t *, unsigned, int) { return 0; }
"""

STAND_IN = """\
#!/bin/bash
here=$(dirname "$(dirname "$0")")
[ "$1" = --version ] && {{ echo 'HIP version: 0.0 (stand-in)'; exit; }}
words=()
for word in "$@"; do
  case "$word" in
    --offload-arch=gfx942) known=1;;
    --offload-arch=*) echo "clang: error: unsupported HIP gpu architecture: ${{word#*=}}"; exit 1;;
    -Rpass-analysis=*|-fno-color-diagnostics|-ferror-limit=*) ;;
    hip) words+=(c++);;
    *) words+=("$word");;
  esac
done
[ -n "$known" ] || exit 3
g++ -D__HIP__ -I"$here/include" "${{words[@]}}" || exit $?
cat <<'REMARKS'
{remarks}REMARKS
"""

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")


@pytest.fixture
def hipcc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "rocm"
    (root / "include" / "hip").mkdir(parents=True)
    (root / "include" / "hip" / "hip_runtime.h").write_text(RUNTIME)
    (root / "bin").mkdir()
    path = root / "bin" / "hipcc"
    path.write_text(STAND_IN.format(remarks=REMARKS))
    path.chmod(0o755)
    monkeypatch.setenv("ROCM_PATH", str(root))
    return path


def candidate(text: str = SCALE, *flags: str) -> Candidate:
    build = default_build("hip")
    return Candidate(
        language="hip",
        sources=(SourceFile(path="kernel.hip", text=text),),
        build=build.model_copy(update={"flags": (*build.flags, *flags)}),
    )


@pytest.mark.usefixtures("hipcc")
class TestStandIn(ToolchainConformance):
    @pytest.fixture
    def toolchain(self, tmp_path: Path) -> Toolchain:
        return HipToolchain(tmp_path / "cache", MI300X)

    def candidate(self) -> Candidate:
        return candidate()


@pytest.mark.usefixtures("hipcc")
class TestBuilds:
    def test_the_remarks_become_resources(self, tmp_path: Path) -> None:
        made = HipToolchain(tmp_path / "cache", MI300X).build(candidate())
        assert isinstance(made, Built), made
        (kernel,) = made.resources
        assert kernel.name == "scale"
        assert (kernel.arch, kernel.registers, kernel.spilled_registers) == ("gfx942", 27, 12)
        assert "--offload-arch=gfx942" in made.command
        assert "-Rpass-analysis=kernel-resource-usage" in made.command

    def test_a_canary_is_in_the_library(self, tmp_path: Path) -> None:
        made = HipToolchain(tmp_path / "cache", MI300X, canary="c0ffee").build(candidate())
        assert isinstance(made, Built), made
        assert b"c0ffee" in made.library.read_bytes()

    def test_an_architecture_that_the_compiler_does_not_know(self, tmp_path: Path) -> None:
        other = MI300X.model_copy(update={"arch": "gfx9999"})
        failure = HipToolchain(tmp_path / "cache", other).build(candidate())
        assert isinstance(failure, BuildFailed)
        assert "unsupported HIP gpu architecture: gfx9999" in failure.detail

    @pytest.mark.parametrize("arch", [None, "sm_90", "gfx942; touch x"])
    def test_no_device(self, tmp_path: Path, arch: str | None) -> None:
        device = MI300X.model_copy(update={"arch": arch})
        with pytest.raises(MachineError, match="no AMD GPU to build for"):
            HipToolchain(tmp_path / "cache", device).build(candidate())

    @pytest.mark.parametrize(
        ("flag", "why"),
        [
            ("--offload-arch=gfx90a", "not allowed"),
            ("-fgpu-default-stream=per-thread", "not allowed"),
            ("-DHIP_API_PER_THREAD_DEFAULT_STREAM", "legacy default stream"),
            ("-march=native", "that of the device"),
            ("-DX=$(touch y)", "shell"),
            ("-save-temps", "not allowed"),
        ],
    )
    def test_flags_that_reach_outside(self, tmp_path: Path, flag: str, why: str) -> None:
        failure = HipToolchain(tmp_path / "cache", MI300X).build(candidate(SCALE, flag))
        assert isinstance(failure, BuildFailed)
        assert failure.reason == "flag_not_allowed"
        assert why in failure.detail


def test_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("ROCM_PATH", "HIP_PATH"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(cuda_programs, "ROCM", tmp_path)
    with pytest.raises(ToolMissingError, match="hipcc found neither"):
        HipToolchain(tmp_path / "cache", MI300X).build(candidate())
