"""What is read from the messages of ptxas, clang for AMD and the demanglers."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofsmith.toolchains import hip, ptxas
from roofsmith.toolchains.diagnostics import LESS_SHARED
from roofsmith.toolchains.disassembly import demangled, without_parameters

RECORDED = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z5plainPf' for 'sm_90a'
ptxas info    : Function properties for _Z5plainPf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers
ptxas info    : Compile time = 15.384 ms
ptxas info    : Function properties for _Z6helperf
    96 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads
ptxas info    : Compiling entry function '_Z5scaleILi128EEvPKfPfi' for 'sm_90a'
ptxas info    : Function properties for _Z5scaleILi128EEvPKfPfi
    32 bytes stack frame, 28 bytes spill stores, 36 bytes spill loads
ptxas info    : Used 24 registers, used 1 barriers, 32 bytes cumulative stack size, 512 bytes smem
"""
"""nvcc 13.0."""

OLDER = """\
ptxas info    : Compiling entry function '_Z5plainPf' for 'sm_80'
ptxas info    : Function properties for _Z5plainPf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 16 registers, 4096+16 bytes smem, 360 bytes cmem[0], 8 bytes cmem[2]
"""
"""The form of nvcc 11."""


def plain(names: Iterable[str]) -> Mapping[str, str]:
    return {name: name for name in names}


def test_resources_of_every_kernel() -> None:
    first, second = ptxas.read_resources(RECORDED, plain)
    assert (first.name, first.arch, first.registers, first.shared_bytes) == (
        "_Z5plainPf", "sm_90a", 8, 0,
    )  # fmt: skip
    assert first.stack_bytes == 0
    assert second.registers == 24
    assert second.shared_bytes == 512
    assert second.stack_bytes == 32
    assert (second.spill_store_bytes, second.spill_load_bytes) == (28, 36)


def test_an_older_form() -> None:
    (kernel,) = ptxas.read_resources(OLDER, plain)
    assert (kernel.registers, kernel.shared_bytes) == (16, 4112)


def test_what_is_not_printed_is_not_known() -> None:
    lines = RECORDED.splitlines()
    (kernel,) = ptxas.read_resources("\n".join(lines[:3]), plain)
    assert (kernel.registers, kernel.shared_bytes, kernel.spill_store_bytes) == (None, None, None)


@given(st.text(max_size=200), st.integers(0, 400), st.integers(0, 400))
def test_garbage_in_between_does_no_harm(noise: str, start: int, length: int) -> None:
    damaged = RECORDED[:start] + noise + RECORDED[start + length :]
    for kernel in ptxas.read_resources(damaged, plain):
        assert kernel.name
    ptxas.explain(damaged, Path("/nowhere"), plain)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "ptxas fatal   : Unresolved extern function '_Z5otherf'",
            "undefined reference to `_Z5otherf' in device code",
        ),
        (
            "nvlink error   : Undefined reference to '_Z5otherf' in '/tmp/x.o'",
            "undefined reference to `_Z5otherf' in device code",
        ),
        (
            "ptxas error   : Entry function '_Z1kPf' uses too much shared data "
            "(0x10000 bytes, 0xc000 max)",
            "ptxas: error: kernel _Z1kPf takes too much shared memory: 65,536 bytes; at most "
            f"49,152 may be declared ({LESS_SHARED}); more is there as dynamic memory (`extern "
            "__shared__` and cudaFuncAttributeMaxDynamicSharedMemorySize)",
        ),
        (
            "nvcc fatal   : Value 'c++99' is not defined for option 'std'",
            "nvcc: error: Value 'c++99' is not defined for option 'std'",
        ),
        (
            "ptxas /tmp/k.ptx, line 29; error   : Unknown modifier '.instr'",
            "ptxas, line 29 of the generated PTX: error: Unknown modifier '.instr' (in PTX)",
        ),
        ("kernel.cu(2): error: nothing of ours", "kernel.cu(2): error: nothing of ours"),
    ],
)
def test_messages_in_one_form(line: str, expected: str) -> None:
    assert ptxas.explain(line, Path("/nowhere"), plain) == expected


def test_a_line_of_ptx_leads_to_the_source(tmp_path: Path) -> None:
    ptx = [".version 9.0", "\t.loc\t1 2 3", "mov;", "\t.loc\t1 7 3", "bogus;"]
    ptx.append('\t.file\t1 "/cache/kernel.cu"')
    (tmp_path / "kernel.ptx").write_text("\n".join(ptx))
    line = "ptxas /elsewhere/kernel.ptx, line 5; error   : Not a name"
    assert ptxas.explain(line, tmp_path, plain) == "/cache/kernel.cu:7: error: Not a name (in PTX)"


REMARKS = """\
remark: scale.hip:15:0: Function Name: _Z5scalePKfPfi [-Rpass-analysis=kernel-resource-usage]
remark: scale.hip:15:0:     SGPRs: 16 [-Rpass-analysis=kernel-resource-usage]
remark: scale.hip:15:0:     VGPRs: 27 [-Rpass-analysis=kernel-resource-usage]
remark: scale.hip:15:0:     AGPRs: 4 [-Rpass-analysis=kernel-resource-usage]
remark: scale.hip:15:0:     ScratchSize [bytes/lane]: 96 [-Rpass-analysis=kernel-resource-usage]
remark: scale.hip:15:0:     Dynamic Stack: False [-Rpass-analysis=kernel-resource-usage]
remark: scale.hip:15:0:     Occupancy [waves/SIMD]: 8 [-Rpass-analysis=kernel-resource-usage]
remark: scale.hip:15:0:     SGPRs Spill: 0 [-Rpass-analysis=kernel-resource-usage]
remark: scale.hip:15:0:     VGPRs Spill: 12 [-Rpass-analysis=kernel-resource-usage]
remark: scale.hip:15:0:     LDS Size [bytes/block]: 4096 [-Rpass-analysis=kernel-resource-usage]
"""
"""In the form that LLVM's tests and AMD's guides show; the numbers are ours."""


def newer(remarks: str) -> str:
    """The place in front, each remark with the line of the source and a caret under it."""
    lines = remarks.replace("remark: scale.hip:15:0:", "scale.hip:15:1: remark:").splitlines()
    return "\n".join(f"{line}\n__global__ void scale(\n^" for line in lines)


@pytest.mark.parametrize("text", [REMARKS, newer(REMARKS)], ids=["older", "newer"])
def test_remarks_of_an_amd_kernel(text: str) -> None:
    (kernel,) = hip.read_resources(text, "gfx942", plain)
    assert (kernel.name, kernel.arch) == ("_Z5scalePKfPfi", "gfx942")
    assert (kernel.scalar_registers, kernel.registers, kernel.accumulation_registers) == (16, 27, 4)
    assert (kernel.stack_bytes, kernel.spilled_registers) == (96, 12)
    assert (kernel.shared_bytes, kernel.occupancy_warps) == (4096, 8)


def test_functions_that_are_no_kernels_are_left_out() -> None:
    helper = "\n".join(REMARKS.splitlines()[:5]).replace("scalePKfPfi", "helperf")
    (kernel,) = hip.read_resources(f"{helper}\n{REMARKS}", "gfx942", plain)
    assert kernel.name == "_Z5scalePKfPfi"


def test_expressions_for_the_linker_are_not_known() -> None:
    text = REMARKS.replace("VGPRs: 27", "VGPRs: max(totalnumvgprs(f.num_agpr, f.num_vgpr), 1, 0)")
    text = text.replace("    SGPRs: 16", "    TotalSGPRs: 22")
    (kernel,) = hip.read_resources(text, "gfx942", plain)
    assert kernel.registers is None
    assert kernel.scalar_registers == 22


@pytest.mark.parametrize(
    ("signature", "name"),
    [
        ("void scale<128>(float const*, float*, int)", "scale<128>"),
        ("scale(float*)", "scale"),
        ("(anonymous namespace)::plain(float*)", "(anonymous namespace)::plain"),
        ("void run<&(f(int))>(void (*)(int), float)", "run<&(f(int))>"),
        ("matmul_kernel", "matmul_kernel"),
        ("void", "void"),
        ("()", "()"),
    ],
)
def test_names_lose_their_parameters(signature: str, name: str) -> None:
    assert without_parameters(signature) == name


@pytest.mark.skipif(shutil.which("c++filt") is None, reason="c++filt is not installed")
def test_names_are_demangled() -> None:
    names = demangled(["_Z5scaleILi128EEvPKfPfi", "plain", "_Z5scaleILi128EEvPKfPfi"])
    assert names["plain"] == "plain"
    assert names["_Z5scaleILi128EEvPKfPfi"].startswith("scale<")
    assert demangled([]) == {}


def test_without_a_demangler_names_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert demangled(["_Z1kPf"]) == {"_Z1kPf": "_Z1kPf"}
