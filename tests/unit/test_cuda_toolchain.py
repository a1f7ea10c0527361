"""The CUDA toolchain with a real nvcc: what it builds, reads from it, and says of what it can't."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from c_candidates import built, failed
from cuda_kernels import (
    H100,
    MUCH_SHARED,
    SCALE,
    SPILLING,
    TOOLKIT,
    WARP_SPECIALIZED,
    cuda,
    needs_nvcc,
)
from cuda_machines import without_cuda

from kinds import another
from roofsmith.cuda_programs import find_program
from roofsmith.domain.inspection import SanitizerTool
from roofsmith.domain.kernel import BuildSpec, Candidate
from roofsmith.domain.values import content_id
from roofsmith.errors import MachineError, ToolMissingError, UsageError
from roofsmith.profilers.proof import defective
from roofsmith.profilers.sanitizer import TOOLS
from roofsmith.testing.toolchain import ToolchainConformance
from roofsmith.toolchains import CudaReadingToolchain, CudaToolchain, cuda_toolkit, listing
from roofsmith.toolchains import cuda as cuda_module
from roofsmith.toolchains.diagnostics import LESS_SHARED
from roofsmith.toolchains.elf import exported_functions

pytestmark = pytest.mark.slow

OTHER_ARCH = H100.model_copy(update={"arch": "sm_80"})


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "it's a cache"


@pytest.fixture(scope="module")
def toolchain(tmp_path_factory: pytest.TempPathFactory) -> CudaToolchain:
    """One cache for all, so that what several of them ask for is compiled once."""
    return CudaToolchain(tmp_path_factory.mktemp("builds") / "it's a cache", H100)


@needs_nvcc
class TestNvcc(ToolchainConformance):
    def candidate(self) -> Candidate:
        return cuda()


@needs_nvcc
class TestBuilds:
    def test_a_kernel_and_what_it_takes(self, toolchain: CudaToolchain) -> None:
        made = built(toolchain.build(cuda()))
        assert content_id(made.library.read_bytes()) == made.library_sha256
        assert "solve" in exported_functions(made.library.read_bytes())
        (kernel,) = made.resources
        assert (kernel.name, kernel.arch) == ("scale<128>", "sm_90a")
        assert kernel.registers is not None
        assert 4 <= kernel.registers <= 32
        assert (kernel.shared_bytes, kernel.stack_bytes) == (0, 0)
        assert (kernel.spill_store_bytes, kernel.spill_load_bytes) == (0, 0)
        assert built(toolchain.build(cuda())).resources == made.resources

    def test_the_same_content_gives_the_same_bytes(self, toolchain: CudaToolchain) -> None:
        first = built(toolchain.build(cuda()))
        first.library.unlink()
        second = built(toolchain.build(cuda()))
        assert not second.cached
        assert second.library_sha256 == first.library_sha256

    def test_the_command_can_be_typed_again(self, toolchain: CudaToolchain) -> None:
        made = built(toolchain.build(cuda()))
        made.library.unlink()
        assert os.system(f"{made.command} > /dev/null 2>&1") == 0
        assert "solve" in exported_functions(made.library.read_bytes())

    def test_line_information_names_sources_that_stay(self, toolchain: CudaToolchain) -> None:
        made = built(toolchain.build(cuda()))
        folder = Path(made.command.partition(" && ")[0].removeprefix("cd ").strip("'"))
        folder = made.library.parents[1] / "sources" / folder.name
        assert (folder / "kernel.cu").read_text() == SCALE

    def test_waits_can_be_deferred(self, toolchain: CudaToolchain) -> None:
        made = built(toolchain.build(cuda()))
        try:
            library = ctypes.CDLL(str(made.library))
        except OSError as error:
            pytest.skip(f"the CUDA runtime can't be loaded here: {error}")
        assert ctypes.c_int.in_dll(library, "roofsmith_defer_waits").value == 0
        assert ctypes.c_int.in_dll(library, "roofsmith_own_streams").value == 0

    def test_instructions_of_one_architecture_only(self, toolchain: CudaToolchain) -> None:
        (kernel,) = built(toolchain.build(cuda(WARP_SPECIALIZED))).resources
        assert kernel.name == "product"
        assert kernel.shared_bytes == 2 * 64 * 16 * 2

    def test_they_are_refused_for_another_one(self, cache: Path) -> None:
        failure = failed(CudaToolchain(cache, OTHER_ARCH).build(cuda(WARP_SPECIALIZED)))
        assert failure.reason == "compile_error"
        line = WARP_SPECIALIZED.splitlines().index(
            '        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");'
        )
        assert failure.detail.startswith(f"kernel.cu:{line + 1}: error: ")
        assert "setmaxnreg" in failure.detail

    @pytest.mark.whole
    def test_spills_are_counted(self, toolchain: CudaToolchain) -> None:
        (plenty,) = built(toolchain.build(cuda(SPILLING))).resources
        (few,) = built(toolchain.build(cuda(SPILLING, "-maxrregcount=16"))).resources
        assert plenty.registers is not None
        assert few.registers is not None
        assert (plenty.spill_store_bytes, plenty.stack_bytes) == (0, 0)
        assert few.registers < plenty.registers
        assert few.spill_store_bytes
        assert few.spill_load_bytes
        assert few.stack_bytes

    @pytest.mark.whole
    def test_several_files(self, toolchain: CudaToolchain) -> None:
        text = '#include "part.cuh"\nvoid launch(const float *, float *, int);\n'
        text += 'extern "C" void solve(const float *x, float *y, int n) { launch(x, y, n); }\n'
        other = SCALE.replace('extern "C" void solve', "void launch")
        made = built(toolchain.build(cuda(text, others=(("part.cuh", "\n"), ("launch.cu", other)))))
        assert [kernel.name for kernel in made.resources] == ["scale<128>"]

    @pytest.mark.whole
    def test_warnings_carry_file_and_line(self, toolchain: CudaToolchain) -> None:
        text = SCALE.replace("    int i", "    int unused;\n    int i")
        (warning,) = built(toolchain.build(cuda(text))).warnings
        assert warning.startswith('kernel.cu:3: variable "unused"')
        assert warning.endswith("[#177-D]")

    def test_cutlass_is_found_where_the_user_says(
        self, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        header = tmp_path / "cutlass" / "include" / "cutlass" / "cutlass.h"
        header.parent.mkdir(parents=True)
        header.write_text("#define FACTOR 2.0f\n")
        text = "#include <cutlass/cutlass.h>\n" + SCALE.replace("2.0f", "FACTOR")
        failure = failed(CudaToolchain(cache, H100).build(cuda(text)))
        assert "cutlass/cutlass.h: No such file" in failure.detail
        assert "set CUTLASS_PATH to a checkout" in failure.detail
        monkeypatch.setenv("CUTLASS_PATH", str(tmp_path / "cutlass"))
        built(CudaToolchain(cache, H100).build(cuda(text)))
        monkeypatch.setenv("CUTLASS_PATH", str(tmp_path))
        with pytest.raises(MachineError, match="holds no include/cutlass"):
            CudaToolchain(cache, H100).build(cuda(text))

    @pytest.mark.whole
    def test_another_cutlass_is_another_library(
        self, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        headers = tmp_path / "cutlass" / "include" / "cutlass"
        headers.mkdir(parents=True)
        (headers / "cutlass.h").write_text("")
        monkeypatch.setenv("CUTLASS_PATH", str(tmp_path / "cutlass"))
        kernel = cuda("#include <cutlass/factor.h>\n" + SCALE.replace("2.0f", "FACTOR"))
        assert "cutlass/factor.h" in failed(CudaToolchain(cache, H100).build(kernel)).detail
        (headers / "factor.h").write_text("#define FACTOR 2.0f\n")
        two = built(CudaToolchain(cache, H100).build(kernel))
        assert built(CudaToolchain(cache, H100).build(kernel)).cached
        (headers / "factor.h").write_text("#define FACTOR 3.0f\n")
        three = built(CudaToolchain(cache, H100).build(kernel))
        assert not three.cached
        assert three.library_sha256 != two.library_sha256


@pytest.mark.whole
@needs_nvcc
@pytest.mark.parametrize("tool", [TOOLS[0], *map(another, TOOLS[1:])])
def test_kernels_that_sanitizers_must_see_through_build(
    tool: SanitizerTool, toolchain: CudaToolchain
) -> None:
    assert built(toolchain.build(defective(tool))).resources


@needs_nvcc
class TestFailures:
    def test_errors_name_file_and_line(self, toolchain: CudaToolchain) -> None:
        text = SCALE.replace("2.0f * x[i]", "z[i]")
        failure = failed(toolchain.build(cuda(text)))
        assert failure.reason == "compile_error"
        assert failure.detail == 'kernel.cu:5: error: identifier "z" is undefined'
        assert 'kernel.cu(5): error: identifier "z"' in failure.log.read_text()

    @pytest.mark.whole
    def test_an_unknown_instruction(self, toolchain: CudaToolchain) -> None:
        text = SCALE.replace("    if (i", '    asm volatile("frobnicate.u32 1;");\n    if (i')
        failure = failed(toolchain.build(cuda(text)))
        assert failure.detail.startswith("kernel.cu:4: error: ")
        assert "frobnicate" in failure.detail

    def test_more_shared_memory_than_a_block_can_have(self, toolchain: CudaToolchain) -> None:
        failure = failed(toolchain.build(cuda(MUCH_SHARED, "-DFLOATS=70000")))
        assert failure.reason == "too_much_shared_memory"
        assert "280,000 bytes" in failure.detail
        assert LESS_SHARED in failure.detail

    @pytest.mark.whole
    def test_more_shared_memory_than_this_device_has(self, cache: Path) -> None:
        small = H100.model_copy(update={"limits": {"max_shared_bytes_per_block": 49_152}})
        failure = failed(CudaToolchain(cache, small).build(cuda(MUCH_SHARED, "-DFLOATS=20000")))
        assert failure.reason == "too_much_shared_memory"
        assert f"80,000 bytes; a block can have 49,152 ({LESS_SHARED})" in failure.detail

    @pytest.mark.whole
    def test_undefined_on_the_host_and_on_the_device(self, toolchain: CudaToolchain) -> None:
        host = "void helper();\n" + SCALE.replace("    cudaDev", "    helper();\n    cudaDev")
        failure = failed(toolchain.build(cuda(host)))
        assert failure.reason == "link_error"
        assert failure.detail.startswith("kernel.cu:10: undefined reference to `helper()`")
        device = "__device__ float twice(float);\n" + SCALE.replace("2.0f * x[i]", "twice(x[i])")
        failure = failed(toolchain.build(cuda(device)))
        assert failure.reason == "link_error"
        assert failure.detail.startswith("kernel.cu:6: undefined reference to `twice`")

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            (SCALE.replace('extern "C" ', ""), 'not extern "C"'),
            (SCALE.replace('extern "C" void', 'extern "C" __global__ void'), "__global__ function"),
            ("int helper(int n) { return n; }\n", "no function named solve"),
        ],
    )
    def test_an_entry_that_nobody_can_call(
        self, toolchain: CudaToolchain, text: str, why: str
    ) -> None:
        text = text.replace("    scale<128><<<(n + 127) / 128, 128>>>(x, y, n);\n", "")
        text = text.replace("    cudaDeviceSynchronize();\n", "")
        failure = failed(toolchain.build(cuda(text)))
        assert failure.reason in {"no_entry", "bad_signature"}
        assert why in failure.detail

    def test_a_compiler_past_its_deadline(self, cache: Path) -> None:
        failure = failed(CudaToolchain(cache, H100, deadline_s=0.2).build(cuda()))
        assert failure.reason == "compiler_timeout"

    def test_an_architecture_that_the_compiler_dropped(self, cache: Path) -> None:
        old = H100.model_copy(update={"arch": "sm_20"})
        with pytest.raises(MachineError, match="doesn't build for sm_20") as caught:
            CudaToolchain(cache, old).build(cuda())
        assert "sm_90" in str(caught.value)

    def test_an_architecture_that_the_compiler_does_not_know_yet(self, cache: Path) -> None:
        new = H100.model_copy(update={"arch": "sm_990"})
        made = built(CudaToolchain(cache, new).build(cuda()))
        (note,) = made.notes
        assert "sm_990: built as PTX" in note
        assert "are not known" in note
        assert made.resources == ()

    @pytest.mark.whole
    def test_a_build_from_the_cache_names_this_device(self, cache: Path) -> None:
        for arch in ("sm_990", "sm_980"):
            device = H100.model_copy(update={"arch": arch})
            made = built(CudaToolchain(cache, device).build(cuda()))
            assert f"doesn't know {arch}:" in " ".join((*made.notes, *made.warnings))
        assert made.cached
        assert "sm_990" not in " ".join((*made.notes, *made.warnings))

    def test_to_be_read_neither_a_gpu_nor_its_driver_is_needed(
        self, cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(cuda_toolkit, "driver_release", lambda: (10, 2))
        made = built(CudaReadingToolchain(cache, "sm_90").build(cuda()))
        assert made.resources[0].arch == "sm_90a"

    def test_no_device(self, cache: Path) -> None:
        toolchain = CudaToolchain(cache, None)
        assert toolchain.signature(cuda()).entry == "solve"
        with pytest.raises(MachineError, match="no GPU"):
            toolchain.build(cuda())

    def test_a_driver_that_is_older_than_the_toolkit(
        self, cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(cuda_toolkit, "driver_release", lambda: (10, 2))
        with pytest.raises(MachineError, match=r"driver supports CUDA 10\.2") as caught:
            CudaToolchain(cache, H100).build(cuda())
        assert "update the driver" in str(caught.value)


@needs_nvcc
class TestListing:
    def test_sass_and_ptx(self, toolchain: CudaToolchain, tmp_path: Path) -> None:
        made = built(toolchain.build(cuda()))
        if find_program("cuobjdump") is None:
            with pytest.raises(ToolMissingError, match="cuobjdump"):
                listing(made, "sass", tmp_path)
            pytest.skip("cuobjdump is not installed")
        assert "EXIT" in listing(made, "sass", tmp_path)
        assert ".visible .entry" in listing(made, "ptx", tmp_path)
        broken = made.model_copy(update={"library": tmp_path / "nothing"})
        with pytest.raises(MachineError, match="cuobjdump"):
            listing(broken, "sass", tmp_path)
        with pytest.raises(UsageError, match="a kernel in cuda has no asm"):
            listing(made, "asm", tmp_path)


def program(path: Path, *words: str) -> Path:
    """A script that runs a command with the arguments that it gets."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\nexec {" ".join(words)} "$@"\n')
    path.chmod(0o755)
    return path


@needs_nvcc
class TestHostCompiler:
    """What nvcc calls: where it won't do, that's nobody's kernel's fault."""

    @pytest.fixture(autouse=True)
    def _same_nvcc(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Whatever becomes of PATH."""
        monkeypatch.setenv("CUDA_HOME", str(TOOLKIT.root))
        monkeypatch.delenv("NVCC_CCBIN", raising=False)

    @pytest.mark.whole
    def test_there_is_none_and_then_there_is_one(
        self, cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as without:
            without.setenv("PATH", "/nowhere")
            with pytest.raises(ToolMissingError, match="needs a C\\+\\+ compiler") as caught:
                CudaToolchain(cache, H100).build(cuda())
        assert "gcc: No such file or directory" in caught.value.message
        assert "apt-get install g++" in str(caught.value)
        built(CudaToolchain(cache, H100).build(cuda()))

    def test_a_compiler_without_its_linker(
        self, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        program(tmp_path / "bin" / "gcc", str(shutil.which("gcc")))
        monkeypatch.setenv("PATH", str(tmp_path / "bin"))
        with pytest.raises(ToolMissingError, match=r"finds none: g\+\+: not found"):
            CudaToolchain(cache, H100).build(cuda())

    def test_the_one_that_was_chosen_is_not_there(
        self, cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("NVCC_CCBIN", "/nowhere/g++")
        with pytest.raises(ToolMissingError, match=r"NVCC_CCBIN=/nowhere/g\+\+ is no") as caught:
            CudaToolchain(cache, H100).build(cuda())
        assert "/nowhere/g++: No such file or directory" in caught.value.message
        assert "NVCC_CCBIN" in str(caught.value)

    def test_it_is_too_new(
        self, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        newer = ("-U__GNUC__", "-D__GNUC__=999", "-Wno-builtin-macro-redefined")
        chosen = program(tmp_path / "g++-999", "g++", *newer)
        monkeypatch.setenv("NVCC_CCBIN", str(chosen))
        with pytest.raises(MachineError, match="doesn't work with this host compiler") as caught:
            CudaToolchain(cache, H100).build(cuda())
        assert f"({chosen}): unsupported GNU version! gcc versions later than" in str(caught.value)
        assert "and set NVCC_CCBIN to it" in str(caught.value)

    def test_it_lacks_headers(
        self, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("NVCC_CCBIN", str(program(tmp_path / "g++", "g++", "-nostdinc")))
        with pytest.raises(MachineError, match=r"can't compile an empty file: .*\.h: No such file"):
            CudaToolchain(cache, H100).build(cuda())

    @pytest.mark.whole
    def test_another_version_builds_anew(
        self, toolchain: CudaToolchain, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        usual = built(toolchain.build(cuda()))
        find = cuda_module.find_host_compiler
        monkeypatch.setattr(
            cuda_module,
            "find_host_compiler",
            lambda toolkit: replace(find(toolkit), version="gcc 999"),
        )
        other = built(CudaToolchain(usual.library.parents[1], H100).build(cuda()))
        assert not other.cached
        assert other.library != usual.library


ENCODING = """\
#include <cuda.h>
__global__ void scale(const float *x, float *y, int n) { y[0] = 2.0f * x[0]; }
extern "C" void solve(const float *x, float *y, int n) {
    CUtensorMap map;
    cuuint64_t size[1] = {1};
    cuuint32_t box[1] = {1}, step[1] = {1};
    cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 1, y, size, size, box, step,
        CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
        CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    scale<<<1, 1>>>(x, y, n);
}
"""
"""It needs a descriptor of the driver's, as the bulk tensor copies of Hopper do."""


@needs_nvcc
class TestDriver:
    """Kernels that call the driver API, where there is nothing but the driver's own file."""

    @pytest.fixture(autouse=True)
    def _no_driver(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Also where there is one."""
        if any((folder / "stubs" / "libcuda.so").exists() for folder in TOOLKIT.libraries):
            pytest.skip("the toolkit has stubs")
        monkeypatch.setattr(cuda_toolkit, "_DRIVER_FOLDERS", ())
        monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)

    @pytest.fixture
    def driver(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A library of that name with one of its functions."""
        path = tmp_path / "driver" / "libcuda.so.1"
        path.parent.mkdir()
        (tmp_path / "driver.c").write_text("int cuTensorMapEncodeTiled(void) { return 0; }\n")
        command = ["gcc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", str(path)]
        subprocess.run([*command, str(tmp_path / "driver.c")], check=True, timeout=600)
        monkeypatch.setenv("LD_LIBRARY_PATH", str(path.parent))
        return path

    @pytest.mark.usefixtures("driver")
    def test_they_are_linked_with_it(self, cache: Path) -> None:
        made = built(CudaToolchain(cache, H100).build(cuda(ENCODING)))
        assert b"\0libcuda.so.1\0" in made.library.read_bytes()

    @pytest.mark.whole
    @pytest.mark.usefixtures("driver")
    @pytest.mark.parametrize("build", [{"flags": ("-lcuda",)}, another({"link": ("-l", "cuda")})])
    def test_who_asks_for_it_gets_it(self, cache: Path, build: dict[str, tuple[str, ...]]) -> None:
        unseen = ENCODING.replace("    cuTensorMapE", "    auto encode = cuTensorMapE")
        kernel = cuda(unseen.replace("Tiled(", "Tiled;\n    encode("))
        failed(CudaToolchain(cache, H100).build(kernel))
        asked = kernel.with_build(BuildSpec.model_validate({"flags": (), "link": ()} | build))
        assert (
            b"\0libcuda.so.1\0"
            in built(CudaToolchain(cache, H100).build(asked)).library.read_bytes()
        )

    @pytest.mark.whole
    @pytest.mark.usefixtures("driver")
    def test_others_are_not(self, cache: Path) -> None:
        assert (
            b"libcuda.so.1"
            not in built(CudaToolchain(cache, H100).build(cuda())).library.read_bytes()
        )

    def test_without_any_the_failure_says_what_to_install(self, cache: Path) -> None:
        toolchain = CudaToolchain(cache, H100)
        failure = failed(toolchain.build(cuda(ENCODING)))
        assert failure.reason == "link_error"
        assert failure.detail.startswith("kernel.cu:7: undefined reference to `cuTensorMapEnc")
        assert "`-lcuda` in `link` takes from the driver (libcuda.so.1)" in failure.detail
        failure = failed(toolchain.build(cuda(ENCODING, "-lcuda")))
        assert "cannot find -lcuda" in failure.detail
        assert "NVIDIA's driver" in failure.detail


class TestNoCompiler:
    def test_the_message_says_where_was_searched(
        self, cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        without_cuda(tmp_path, monkeypatch)
        with pytest.raises(ToolMissingError, match="nvcc") as caught:
            CudaToolchain(cache, H100).build(cuda())
        assert "pip install nvidia-cuda-nvcc" in str(caught.value)


STUB_RUNTIME = """\
typedef int cudaError_t;
typedef void *cudaStream_t;
#define cudaStreamLegacy ((cudaStream_t)1)
#define cudaStreamNonBlocking 1
extern "C" int device_waits, stream_waits;
int device_waits = 0, stream_waits = 0;
inline cudaError_t cudaDeviceSynchronize() { device_waits++; return 0; }
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { stream_waits++; return 0; }
inline cudaError_t cudaPeekAtLastError() { return 7; }
#define cudaSuccess 0
extern "C" int last_error;
int last_error = 0;
inline cudaError_t cudaGetLastError() { int error = last_error; last_error = 0; return error; }
inline const char *cudaGetErrorName(cudaError_t error) { return error == 1 ? "one" : "other"; }
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t *, unsigned) { return 0; }
inline cudaError_t cudaStreamCreateWithPriority(cudaStream_t *, unsigned, int) { return 0; }
"""
WAITING = """\
#include <cuda_runtime.h>
extern "C" int wait_device() { return ::cudaDeviceSynchronize(); }
extern "C" int wait_stream(long which) { return cudaStreamSynchronize((cudaStream_t)which); }
extern "C" void make_stream(unsigned flags) {
    cudaStream_t stream;
    cudaStreamCreateWithFlags(&stream, flags);
}
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
class TestDeferredWaits:
    """The header alone, over a runtime that counts."""

    @pytest.fixture
    def library(self, tmp_path: Path) -> ctypes.CDLL:
        (tmp_path / "cuda_runtime.h").write_text(f"#pragma once\n{STUB_RUNTIME}")
        (tmp_path / "kernel.cpp").write_text(WAITING)
        header = Path(cuda_toolkit.__file__).with_name("defer_waits.h")
        command = ["g++", "-Wall", "-Werror", "-shared", "-fPIC", "-fvisibility=hidden"]
        command += ["-fvisibility=default", f"-I{tmp_path}", "-include", str(header)]
        command += ["-o", str(tmp_path / "kernel.so"), str(tmp_path / "kernel.cpp")]
        subprocess.run(command, check=True, timeout=600)
        return ctypes.CDLL(str(tmp_path / "kernel.so"))

    def waits(self, library: ctypes.CDLL) -> tuple[int, int]:
        names = ("device_waits", "stream_waits")
        device, stream = (ctypes.c_int.in_dll(library, name).value for name in names)
        return device, stream

    def defer(self, library: ctypes.CDLL) -> None:
        ctypes.c_int.in_dll(library, "roofsmith_defer_waits").value = 1

    def test_what_the_runtime_refused_is_told_once(self, library: ctypes.CDLL) -> None:
        library.roofsmith_refused.restype = ctypes.c_char_p
        assert library.roofsmith_refused() is None
        ctypes.c_int.in_dll(library, "last_error").value = 1
        assert library.roofsmith_refused() == b"one"
        assert library.roofsmith_refused() is None

    def test_by_default_they_wait(self, library: ctypes.CDLL) -> None:
        assert library.wait_device() == 0
        assert library.wait_stream(0) == 0
        assert self.waits(library) == (1, 1)

    def test_deferred_they_return_the_last_error(self, library: ctypes.CDLL) -> None:
        self.defer(library)
        assert library.wait_device() == 7
        assert library.wait_stream(0) == 7
        assert library.wait_stream(1) == 7
        assert self.waits(library) == (0, 0)

    def test_other_streams_are_waited_for(self, library: ctypes.CDLL) -> None:
        self.defer(library)
        assert library.wait_stream(0x1000) == 0
        assert self.waits(library) == (0, 1)

    def test_whoever_makes_a_stream_that_nobody_waits_for_waits_itself(
        self, library: ctypes.CDLL
    ) -> None:
        self.defer(library)
        library.make_stream(0)
        assert library.wait_device() == 7
        library.make_stream(1)
        assert library.wait_device() == 0
        assert library.wait_stream(0) == 0
        assert self.waits(library) == (1, 1)
