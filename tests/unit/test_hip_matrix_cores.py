"""The matrix-core ceilings of AMD's GPUs, compiled by clang down to their assembly.

Clang is the compiler that hipcc calls. What a kernel is said to do is held against the instructions
that came out: none was optimised away, none waits for the one before it, and nothing else is in the
loop. None of it has run on such a GPU.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest
from test_hip_merging import AS_HIP

from roofsmith.specs.gpu_benches import MMA_TYPES, GpuArithmeticBench

CLANG = next(
    filter(None, map(shutil.which, ("clang", *(f"clang-{n}" for n in range(25, 14, -1))))), None
)
needs_clang = pytest.mark.skipif(CLANG is None, reason="clang is not installed")

RUNTIME = """
typedef void *hipEvent_t;
enum { hipSuccess };
enum Attribute { hipDeviceAttributeMultiprocessorCount, hipDeviceAttributeComputeCapabilityMajor };
enum Direction { hipMemcpyDefault };
hipError_t hipGetDevice(int *);
hipError_t hipDeviceGetAttribute(int *, Attribute, int);
hipError_t hipEventCreate(hipEvent_t *);
hipError_t hipEventDestroy(hipEvent_t);
hipError_t hipEventRecord(hipEvent_t, hipStream_t);
hipError_t hipEventSynchronize(hipEvent_t);
hipError_t hipEventElapsedTime(float *, hipEvent_t, hipEvent_t);
hipError_t hipGetLastError();
hipError_t hipMalloc(void **, size_t);
hipError_t hipFree(void *);
hipError_t hipMemcpy(void *, const void *, size_t, Direction);
template <class F>
hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessor(int *, F, int, size_t);
#define __forceinline__ inline __attribute__((always_inline))
"""

INSTRUCTIONS = {
    "gfx90a": {
        "float16": "v_mfma_f32_32x32x8f16",
        "bfloat16": "v_mfma_f32_32x32x8bf16_1k",
        "int8": "v_mfma_i32_32x32x8i8",
        "float64": "v_mfma_f64_16x16x4f64",
        "float32": "v_mfma_f32_32x32x2f32",
    },
    "gfx942": {
        "float16": "v_mfma_f32_32x32x8_f16",
        "bfloat16": "v_mfma_f32_32x32x8_bf16",
        "tfloat32": "v_mfma_f32_32x32x4_xf32",
        "int8": "v_mfma_i32_32x32x16_i8",
        "float8": "v_mfma_f32_32x32x16_fp8_fp8",
        "float64": "v_mfma_f64_16x16x4_f64",
        "float32": "v_mfma_f32_32x32x2_f32",
    },
    "gfx950": {
        "float16": "v_mfma_f32_32x32x16_f16",
        "bfloat16": "v_mfma_f32_32x32x16_bf16",
        "int8": "v_mfma_i32_32x32x32_i8",
        "float8": "v_mfma_f32_32x32x64_f8f6f4",
        "float64": "v_mfma_f64_16x16x4_f64",
        "float32": "v_mfma_f32_32x32x2_f32",
    },
    "gfx1100": {
        "float16": "v_wmma_f32_16x16x16_f16",
        "bfloat16": "v_wmma_f32_16x16x16_bf16",
        "int8": "v_wmma_i32_16x16x16_iu8",
    },
    "gfx1201": {
        "float16": "v_wmma_f32_16x16x16_f16",
        "bfloat16": "v_wmma_f32_16x16x16_bf16",
        "int8": "v_wmma_i32_16x16x16_iu8",
        "float8": "v_wmma_f32_16x16x16_fp8_fp8",
    },
    "gfx908": {},
}
"""Of every type that a target is measured with; gfx908 stands for those that aren't."""
WAVES = {"gfx90a": 4, "gfx942": 4, "gfx950": 4, "gfx1100": 8, "gfx1201": 8, "gfx908": 4}
"""Of a block: it has 256 threads."""
SUMS = 4


@cache
def known_targets() -> frozenset[str]:
    """What clang can compile for; nothing where it was built without AMD's back end."""
    command = [str(CLANG), "--target=amdgcn-amd-amdhsa", "-nogpulib", "--print-supported-cpus"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return frozenset(re.findall(r"\bgfx[0-9a-f]+\b", done.stdout + done.stderr))


def compiled(folder: Path, target: str, half: str) -> str:
    """Assembly of one half of the kernels' source, with the bench's own flags."""
    candidate = GpuArithmeticBench("hip", "mma").candidate
    (folder / "hip").mkdir()
    (folder / "hip" / "hip_runtime.h").write_text(AS_HIP + RUNTIME)
    for source in candidate.sources:
        (folder / source.path).write_text(source.text)
    command = [
        str(CLANG), "-x", "hip", f"--cuda-{half}-only", f"--offload-arch={target}", "-nogpulib",
        "-nogpuinc", *candidate.build.flags, "-Wall", "-Wextra", "-Werror", "-I.", "-S",
        "-o", "made.s", candidate.kernel.path,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=folder)
    assert done.returncode == 0, done.stderr
    return (folder / "made.s").read_text()


def loop_of(body: str, name: str) -> list[tuple[str, str]]:
    """Instructions and operands of the one block where an instruction is, up to its branch back."""
    blocks = [block for block in re.split(r"^\.L\w+:", body, flags=re.MULTILINE) if name in block]
    assert len(blocks) == 1
    lines = (line.partition(";")[0].split(None, 1) for line in blocks[0].splitlines())
    found = [(line[0], line[1] if len(line) > 1 else "") for line in lines if line]
    end = next(i for i, (word, _) in enumerate(found) if word.startswith("s_cbranch"))
    return found[: end + 1]


def operations(name: str) -> int:
    """Of one instruction, by the shape in its name."""
    shape = re.search(r"_(\d+)x(\d+)x(\d+)", name)
    m, n, k = map(int, shape.groups())
    return 2 * m * n * k


@needs_clang
@pytest.mark.parametrize("target", INSTRUCTIONS)
def test_every_type_is_a_stream_of_its_instruction(target: str, tmp_path: Path) -> None:
    if target not in known_targets():
        pytest.skip(f"{CLANG} doesn't know {target}")
    made = compiled(tmp_path, target, "device")
    for index, dtype in enumerate(MMA_TYPES["hip"]):
        body = re.search(rf"^_Z8productsILi{index}E\w+:(.*?)^\.Lfunc_end", made, re.M | re.S)
        assert body is not None, dtype
        name = INSTRUCTIONS[target].get(dtype)
        products = re.findall(r"^\s+(v_s?(?:mfma|wmma)c?_\w+)", body[1], re.M)
        assert set(products) == ({name} if name else set()), dtype
        if name is None:
            continue
        loop = loop_of(body[1], name)
        assert {word for word, _ in loop if not word.startswith("s_")} == {name}
        assert sum(word == "s_nop" for word, _ in loop) <= 1  # where the loop begins anew
        sums = [operands.split("],")[0] for word, operands in loop if word == name]
        assert len(products) == len(sums) == 64
        assert all(len(set(sums[i : i + SUMS])) == SUMS for i in range(len(sums) - SUMS + 1))
        counted = operations(name) * len(sums) * WAVES[target]  # a power of two: no low word
        assert f"0x{1022 + counted.bit_length() << 20:x}" in body[1], dtype
    assert set(re.findall(r"; ScratchSize: (\d+)", made)) == {"0"}


@needs_clang
def test_the_host_half_compiles(tmp_path: Path) -> None:
    if "gfx90a" not in known_targets():
        pytest.skip(f"{CLANG} doesn't know gfx90a")
    assert "solve" in compiled(tmp_path, "gfx90a", "host")
