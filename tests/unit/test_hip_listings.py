"""HIP libraries are taken apart: the code in them, and what LLVM makes of it."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from roofsmith.cuda_programs import find_rocm_program
from roofsmith.domain.device import Device
from roofsmith.domain.kernel import Built, Candidate, Signature, SourceFile
from roofsmith.domain.profile import Profile
from roofsmith.domain.workload import Workload
from roofsmith.errors import MachineError
from roofsmith.toolchains.disassembly import GpuDisassembler, listing
from roofsmith.toolchains.elf import code_objects
from roofsmith.toolchains.hip import HipToolchain

MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"
TARGETS = {"host-x86_64-unknown-linux--": b"", "hipv4-amdgcn-amd-amdhsa--gfx942": b"\x7fELF code"}
KERNEL = """
#include <hip/hip_runtime.h>
__global__ void scale(const float4 *a, float4 *b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { float4 v = a[i]; v.x *= 2; v.y *= 2; v.z *= 2; v.w *= 2; b[i] = v; }
}
extern "C" void solve(const float *a, float *b, int N) {
    scale<<<dim3(N / 1024), dim3(256)>>>((const float4 *)a, (float4 *)b, N / 4);
}
"""
CARD = Device(kind="amd", name="gfx942", cores=1, arch="gfx942")
needs_linker = pytest.mark.skipif(
    shutil.which("gcc") is None or shutil.which("objcopy") is None, reason="gcc isn't installed"
)


def bundle(objects: dict[str, bytes]) -> bytes:
    """As clang-offload-bundler writes it: code begins at the next 4096 bytes."""
    head, code = MAGIC + struct.pack("<Q", len(objects)), b""
    for target, data in objects.items():
        head += struct.pack("<QQQ", 4096 + len(code), len(data), len(target)) + target.encode()
        code += data
    return head.ljust(4096, b"\0") + code


def library(folder: Path, fat: bytes) -> Path:
    (folder / "fat").write_bytes(fat)
    (folder / "k.c").write_text("int solve(void) { return 0; }\n")
    made = folder / "k.so"
    subprocess.run(["gcc", "-shared", "-o", str(made), str(folder / "k.c")], check=True)
    add = ["objcopy", "--add-section", f".hip_fatbin={folder / 'fat'}", str(made)]
    subprocess.run(add, check=True)
    return made


@needs_linker
def test_every_targets_code_is_found(tmp_path: Path) -> None:
    two = TARGETS | {"hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-": b"\x7fELF other"}
    fat = bundle(two) + bundle({"hipv4-amdgcn-amd-amdhsa--gfx950": b"\x7fELF second"})
    assert code_objects(library(tmp_path, fat).read_bytes()) == {
        "gfx942": b"\x7fELF code",
        "gfx90a:xnack-": b"\x7fELF other",
        "gfx950": b"\x7fELF second",
    }


@needs_linker
@pytest.mark.parametrize(
    ("fat", "why"),
    [
        (b"CCOB" + bytes(64), "compressed"),
        (MAGIC + struct.pack("<Q", 1 << 60), "damaged"),
        (MAGIC + struct.pack("<QQQQ", 1, 0, 1, 1 << 50), "holds no code"),
        (b"nothing", "holds no code"),
    ],
)
def test_what_is_no_bundle_is_said(tmp_path: Path, fat: bytes, why: str) -> None:
    built = built_from(library(tmp_path, fat))
    with pytest.raises(MachineError) as said:
        listing(built, "asm", tmp_path)
    assert why in str(said.value) or "llvm-objdump" in str(said.value)
    found = GpuDisassembler(tmp_path).disassemble(built, WORKLOAD, PROFILE)
    assert found.tool is None
    assert len(found.missing) == 1


WORKLOAD = Workload(dims={"N": 4096})
PROFILE = Profile(tool="none", workload=WORKLOAD.label)


def built_from(path: Path) -> Built:
    return Built(
        candidate_id="0123456789ab",
        language="hip",
        library=path,
        library_sha256="0",
        signature=Signature(parameters=()),
        environment={},
        log=path,
        build_time_s=1.0,
        command="hipcc",
    )


@pytest.mark.slow
@pytest.mark.skipif(
    find_rocm_program("hipcc") is None or find_rocm_program("llvm-objdump", "llvm/bin") is None,
    reason="hipcc or llvm-objdump isn't installed",
)
def test_a_hip_kernel_needs_no_gpu_to_be_read(tmp_path: Path) -> None:
    source = SourceFile(path="k.hip", text=KERNEL)
    candidate = Candidate(language="hip", sources=(source,))
    built = HipToolchain(tmp_path, CARD).build(candidate)
    assert isinstance(built, Built), built
    assert "global_load_dwordx4" in listing(built, "asm", tmp_path)
    found = GpuDisassembler(tmp_path).disassemble(built, WORKLOAD, PROFILE)
    assert found.tool == "llvm-objdump"
    assert found.mnemonics["global_load_dwordx4"] == 1
