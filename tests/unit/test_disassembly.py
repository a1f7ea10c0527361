"""The instructions of hot loops: read, chosen, described; what can't be had is said."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from cuda_kernels import H100, cuda, needs_nvcc
from process_runner import ProcessRunner
from profiled_rows import WORKLOAD, BrokenOracle, DyingRunner, RowsOracle
from triton_kernels import module

from roofsmith.analysis.instructions import (
    counted,
    hot_loops,
    mnemonics,
    read_amd_objdump,
    read_gcn,
    read_objdump,
    read_sass,
)
from roofsmith.cuda_programs import find_program
from roofsmith.domain.diagnosis import Disassembly
from roofsmith.domain.kernel import BuildSpec, Built, Candidate, SourceFile
from roofsmith.domain.profile import Hotspot, Profile
from roofsmith.profilers.disassembly import HostDisassembler
from roofsmith.profilers.perf_output import Sighting, parse_sightings
from roofsmith.profilers.watching import UnwatchedError, Watcher
from roofsmith.toolchains import CudaToolchain
from roofsmith.toolchains.c import CToolchain
from roofsmith.toolchains.disassembly import GpuDisassembler

pytestmark = pytest.mark.slow

X86 = """\
0000000000001030 <expf@plt>:
    1030:	jmp    *0x2fca(%rip)        # 4000 <expf@GLIBC_2.27>

0000000000001110 <solve>:
    1110:	test   %edx,%edx
    1112:	jle    1150 <solve+0x40>
    1118:	vmovss (%r12),%xmm2
    1120:	vmovss (%rax),%xmm0
    1124:	vdivss -0x38(%rbp),%xmm0,%xmm0
    1128:	call   1030 <expf@plt>
    112c:	cmp    %rbx,%rax
    112f:	jne    1120 <solve+0x10>
    1131:	vmovups (%rax),%ymm7
    1135:	vfmadd132ps %ymm1,%ymm0,%ymm7
    1139:	jne    1131 <solve+0x21>
    113d:	jne    1118 <solve+0x8>
    1150:	ret
"""
SASS = """\
	code for sm_90
		Function : _Z5scalePfi
	.headerflags	@"EF_CUDA_SM90"
        /*0000*/                   LDC R1, c[0x0][0x28] ;                /* 0x00000a00ff017b82 */
                                                                         /* 0x000fe20000000800 */
        /*0010*/              @!P0 EXIT ;                                /* 0x000000000000894d */
        /*0020*/                   LDG.E.128 R4, desc[UR4][R2.64] ;      /* 0x0000000402047981 */
        /*0030*/                   FFMA R0, R4, R5, R0 ;                 /* 0x0000000504007223 */
        /*0040*/                   STL [R1], R0 ;                        /* 0x0000000001007387 */
        /*0050*/               @P0 BRA 0x20 ;                            /* 0xfffffffc00f08947 */
        /*0060*/                   EXIT ;                                /* 0x000000000000794d */
        /*0070*/                   BRA 0x70;                             /* 0xfffffffc00fc7947 */
"""
GCN = """\
	.text
	.globl	attention
attention:                              ; @attention
; %bb.0:
	s_load_dwordx2 s[0:1], s[4:5], 0x0
.LBB0_1:                                ; =>This Inner Loop Header: Depth=1
	global_load_dwordx4 v[0:3], v[4:5], off
	s_waitcnt vmcnt(0)
	v_mfma_f32_32x32x8_f16 a[0:15], v[0:1], v[2:3], a[0:15]
	s_cbranch_scc1 .LBB0_1
; %bb.2:
	s_endpgm
.Lfunc_end0:
other:
	s_endpgm
"""

AMD_OBJDUMP = """\
0000000000001c00 <_Z5scalePK15HIP_vector_typeIfLj4EEPS0_i>:
	s_load_dword s5, s[0:1], 0x4  // 000000001C00: C0020140 00000004
	s_load_dword s6, s[2:3], 0x10  // 000000001C08: C0020181 00000010
	s_waitcnt lgkmcnt(0)  // 000000001C10: BF8CC07F
	s_and_b32 s0, s5, 0xffff  // 000000001C14: 8600FF05 0000FFFF
	s_mul_i32 s4, s4, s0  // 000000001C1C: 92040004
	v_add_u32_e32 v0, s4, v0  // 000000001C20: 68000004
	v_cmp_gt_i32_e32 vcc, s6, v0  // 000000001C24: 7D880006
	s_and_saveexec_b64 s[0:1], vcc  // 000000001C28: BE80206A
	s_cbranch_execz 19  // 000000001C2C: BF880013 <_Z5scalePK15HIP_vector_typeIfLj4EEPS0_i+0x7c>
	s_load_dwordx4 s[0:3], s[2:3], 0x0  // 000000001C30: C00A0001 00000000
	v_ashrrev_i32_e32 v1, 31, v0  // 000000001C38: 2202009F
	v_lshlrev_b64 v[4:5], 4, v[0:1]  // 000000001C3C: D28F0004 00020084
	s_waitcnt lgkmcnt(0)  // 000000001C44: BF8CC07F
	v_lshl_add_u64 v[0:1], s[0:1], 0, v[4:5]  // 000000001C48: D2080000 04110000
	global_load_dwordx4 v[0:3], v[0:1], off  // 000000001C50: DC5C8000 007F0000
	v_lshl_add_u64 v[4:5], s[2:3], 0, v[4:5]  // 000000001C58: D2080004 04110002
	s_waitcnt vmcnt(0)  // 000000001C60: BF8C0F70
	v_pk_add_f32 v[0:1], v[0:1], v[0:1]  // 000000001C64: D3B24000 18020100
	v_pk_add_f32 v[2:3], v[2:3], v[2:3]  // 000000001C6C: D3B24002 18020502
	global_store_dwordx4 v[4:5], v[0:3], off  // 000000001C74: DC7C8000 007F0004
	s_endpgm  // 000000001C7C: BF810000
	s_nop 0  // 000000001C80: BF800000
	s_nop 0  // 000000001C84: BF800000

0000000000001e00 <_Z4dotpPKfS0_Pfi>:
	s_load_dword s8, s[0:1], 0x18  // 000000001E00: C0020200 00000018
	s_load_dwordx4 s[4:7], s[0:1], 0x0  // 000000001E08: C00A0100 00000000
	s_load_dwordx2 s[2:3], s[0:1], 0x10  // 000000001E10: C0060080 00000010
	s_waitcnt lgkmcnt(0)  // 000000001E18: BF8CC07F
	s_cmp_lt_i32 s8, 1  // 000000001E1C: BF048108
	s_cbranch_scc1 22  // 000000001E20: BF850016 <_Z4dotpPKfS0_Pfi+0x7c>
	v_mov_b32_e32 v3, 0  // 000000001E24: 7E060280
	v_mul_lo_u32 v2, v0, s8  // 000000001E28: D2850002 00001100
	v_mov_b32_e32 v1, v3  // 000000001E30: 7E020303
	v_lshl_add_u64 v[4:5], v[2:3], 2, s[4:5]  // 000000001E34: D2080004 00110502
	global_load_dword v4, v[4:5], off  // 000000001E3C: DC508000 047F0004
	s_load_dword s0, s[6:7], 0x0  // 000000001E44: C0020003 00000000
	s_add_i32 s8, s8, -1  // 000000001E4C: 8108C108
	s_add_u32 s6, s6, 4  // 000000001E50: 80068406
	s_addc_u32 s7, s7, 0  // 000000001E54: 82078007
	v_add_u32_e32 v2, 1, v2  // 000000001E58: 68040481
	s_cmp_eq_u32 s8, 0  // 000000001E5C: BF068008
	s_waitcnt vmcnt(0) lgkmcnt(0)  // 000000001E60: BF8C0070
	v_fmac_f32_e32 v1, s0, v4  // 000000001E64: 76020800
	s_cbranch_scc0 65522  // 000000001E68: BF84FFF2 <_Z4dotpPKfS0_Pfi+0x34>
	v_lshlrev_b32_e32 v0, 2, v0  // 000000001E6C: 24000082
	global_store_dword v0, v1, s[2:3]  // 000000001E70: DC708000 00020100
	s_endpgm  // 000000001E78: BF810000
	v_mov_b32_e32 v1, 0  // 000000001E7C: 7E020280
	v_lshlrev_b32_e32 v0, 2, v0  // 000000001E80: 24000082
	global_store_dword v0, v1, s[2:3]  // 000000001E84: DC708000 00020100
	s_endpgm  // 000000001E8C: BF810000
	s_nop 0  // 000000001E90: BF800000
	s_nop 0  // 000000001E94: BF800000
	s_nop 0  // 000000001E98: BF800000
"""
"""Of clang 19 and llvm-objdump 19, for gfx942; padding is cut short."""


class TestReading:
    def test_the_hosts_loops_are_what_a_jump_backwards_encloses(self) -> None:
        (solve,) = read_objdump(X86)
        found = [(loop.low, loop.high, loop.depth) for loop in solve.innermost()]
        assert found == [(0x1120, 0x112F, 2), (0x1131, 0x1139, 2)]

    def test_what_its_instructions_are(self) -> None:
        loops = hot_loops(read_objdump(X86), "host")
        (scalar,) = [loop for loop in loops if "calls expf" in loop.remarks]
        assert scalar.remarks == (
            "5 instructions",
            "1 compute on single values",
            "1 divide or take a square root",
            "1 use the stack: values that didn't fit into registers",
            "calls expf",
        )
        assert "vdivss -0x38(%rbp),%xmm0,%xmm0" in scalar.listing
        (packed,) = [loop for loop in loops if loop is not scalar]
        assert "1 compute on vectors" in packed.remarks

    def test_sass(self) -> None:
        (function,) = read_sass(SASS)
        assert function.name == "_Z5scalePfi"
        (loop,) = hot_loops([function], "sass")  # that a kernel ends by jumping in place is none
        assert loop.listing.splitlines()[0] == "/*0020*/ LDG.E.128 R4, desc[UR4][R2.64]"
        assert loop.remarks == (
            "4 instructions",
            "1 compute in floating point",
            "1 load from global memory",
            "1 load 16 bytes at once",
            "1 use local memory: spilled registers",
        )

    def test_amds_assembly(self) -> None:
        functions = read_gcn(GCN)
        assert [function.name for function in functions] == ["attention", "other"]
        (loop,) = hot_loops(functions, "gcn")
        assert loop.remarks == (
            "4 instructions",
            "1 are matrix instructions",
            "1 load from global memory",
            "1 wait for memory",
        )

    def test_amds_code_objects(self) -> None:
        functions = read_amd_objdump(AMD_OBJDUMP)
        assert [function.name for function in functions] == [
            "_Z5scalePK15HIP_vector_typeIfLj4EEPS0_i",
            "_Z4dotpPKfS0_Pfi",
        ]
        assert functions[0].instructions[-1].name == "s_endpgm"  # the padding is gone
        (loop,) = functions[1].innermost()
        assert (loop.low, loop.high) == (0x1E34, 0x1E68)
        (hot,) = hot_loops(functions, "gcn")
        assert hot.remarks == (
            "11 instructions",
            "3 compute on vectors",
            "1 load from global memory",
            "1 wait for memory",
        )
        assert counted("global_load_dwordx4", mnemonics(functions)) == 1

    def test_what_is_claimed_is_counted_by_its_name(self) -> None:
        host, nvidia, amd = (
            mnemonics(functions)
            for functions in (read_objdump(X86), read_sass(SASS), read_gcn(GCN))
        )
        assert counted("vdiv", host) == counted("HMMA or vdivss", host) == 1
        assert counted("LDG.128", nvidia) == 1
        assert not counted("LDG.CONSTANT", nvidia)
        assert not counted("LDGSTS", nvidia)
        assert counted("v_mfma", amd) == 1

    def test_assembly_without_a_kernel_has_no_functions(self) -> None:
        assert read_gcn("") == []
        assert read_gcn("  s_endpgm\n") == []

    def test_a_long_loop_is_cut_short(self) -> None:
        body = "".join(f"    {0x1000 + i:x}:\tnop\n" for i in range(500))
        text = f"{0x1000:016x} <solve>:\n{body}    2000:\tjne    1000 <solve>\n"
        (loop,) = hot_loops(read_objdump(text), "host")
        assert loop.listing.splitlines()[-1] == "... and 381 more"


class TestChoosing:
    def test_where_it_was_seen_most(self) -> None:
        seen = {("solve", 0x21): 70, ("solve", 0x10): 10, ("", 0): 20}
        first, second = hot_loops(read_objdump(X86), "host", seen)
        assert "vfmadd132ps" in first.listing
        assert first.chosen == "70% of 100 samples are in it"
        assert second.chosen.startswith("10%")

    def test_a_loop_that_nobody_saw_is_not_hot(self) -> None:
        (only,) = hot_loops(read_objdump(X86), "host", {("solve", 0x21): 1})
        assert "vfmadd132ps" in only.listing

    def test_unwatched_it_is_the_one_nested_deepest(self) -> None:
        flat = X86.replace("    113d:	jne    1118 <solve+0x8>\n", "")
        inner = "    1140:	vaddss %xmm0,%xmm0,%xmm0\n    1144:	jne    1140 <solve+0x30>\n"
        text = flat.replace("    1150:", f"{inner}    1148:	jne    113a <solve+0x2a>\n    1150:")
        first = hot_loops(read_objdump(text), "host")[0]
        assert "vaddss" in first.listing
        assert first.chosen.startswith("nobody watched it run")

    def test_perfs_lines(self) -> None:
        text = (
            "    7f2b1c1a11a0 solve+0x90 (/tmp/a b/k.so)\n"
            "    7f2b1c1a11a4 [unknown] (/usr/lib/libc.so.6)\n"
            "    7f2b1c1a11a8 solve._omp_fn.0+0x0 (/tmp/k.so)\n"
            "# a comment\n"
        )
        assert parse_sightings(text) == (
            Sighting("solve", 0x90, "/tmp/a b/k.so"),
            Sighting(None, 0, "/usr/lib/libc.so.6"),
            Sighting("solve._omp_fn.0", 0, "/tmp/k.so"),
        )


TWO_LOOPS = """
#include <math.h>
void solve(const float *x, float *y, int N, int D) {
    for (int i = 0; i < N * D; i++) y[i] = x[i];
    for (int i = 0; i < N * D; i++)
        for (int k = 0; k < 20; k++) y[i] = sqrtf(y[i] * y[i] + 1.0f);
}
"""
PROFILE = Profile(tool="none", workload=WORKLOAD.label)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    if shutil.which("gcc") is None or shutil.which("objdump") is None:
        pytest.skip("gcc or objdump is not installed")
    candidate = Candidate(
        language="c",
        sources=(SourceFile(path="kernel.c", text=TWO_LOOPS),),
        build=BuildSpec(flags=("-O2", "-ffast-math", "-fno-tree-vectorize"), link=("-lm",)),
    )
    made = CToolchain(tmp_path_factory.mktemp("builds")).build(candidate)
    assert isinstance(made, Built), made
    return made


def square_root(found: Disassembly) -> bool:
    return bool(found.loops) and "sqrt" in found.loops[0].listing


class TestOnTheHost:
    def test_perf_sees_the_hot_loop(self, built: Built) -> None:
        if shutil.which("perf") is None:
            pytest.skip("perf is not installed")
        found = HostDisassembler(Watcher(ProcessRunner(), RowsOracle(), 1)).disassemble(
            built, WORKLOAD, PROFILE
        )
        if any("perf saw" in reason for reason in found.missing):
            pytest.skip(f"perf may not watch here: {found.missing}")
        assert found.tool == "objdump"
        assert square_root(found)
        assert found.loops[0].function == "solve"
        assert "samples are in it" in found.loops[0].chosen
        assert found.notes[0].endswith("times while it ran N=256,D=64")

    def test_what_the_profiler_saw_is_not_watched_again(self, built: Built) -> None:
        looks: list[str | None] = []

        def find() -> str | None:
            looks.append(shutil.which("perf"))
            return looks[-1]

        watcher = Watcher(ProcessRunner(), RowsOracle(), 1, find)
        try:
            watcher.watch(built, WORKLOAD)
        except UnwatchedError as reason:
            pytest.skip(f"nobody can watch here: {reason}")
        HostDisassembler(watcher).disassemble(built, WORKLOAD, PROFILE)
        assert len(looks) == 1

    def test_without_perf_it_is_the_loop_nested_deepest(self, built: Built) -> None:
        blind = HostDisassembler(Watcher(ProcessRunner(), RowsOracle(), 1, find_perf=lambda: None))
        found = blind.disassemble(built, WORKLOAD, PROFILE)
        assert square_root(found)
        assert counted("sqrt", found.mnemonics) or counted("vsqrt", found.mnemonics)
        assert found.missing == ("perf is not installed, so nobody saw which loop is hot",)

    @pytest.mark.parametrize(
        ("oracle", "runner", "says"),
        [
            (BrokenOracle(), ProcessRunner(), "no inputs to watch it on: reference.py:3"),
            (RowsOracle(), DyingRunner(), "did not survive being watched: SIGSEGV"),
        ],
        ids=["no inputs", "a crash"],
    )
    def test_what_goes_wrong_is_said(
        self, built: Built, oracle: RowsOracle, runner: ProcessRunner, says: str
    ) -> None:
        host = HostDisassembler(Watcher(runner, oracle, 1, find_perf=lambda: "perf"))
        found = host.disassemble(built, WORKLOAD, PROFILE)
        assert square_root(found)
        assert any(says in reason for reason in found.missing)

    def test_a_perf_that_fails(self, built: Built) -> None:
        host = HostDisassembler(Watcher(ProcessRunner(), RowsOracle(), 1, lambda: "/bin/false"))
        found = host.disassemble(built, WORKLOAD, PROFILE)
        assert square_root(found)
        assert "perf saw nothing" in found.missing[0]

    def test_a_library_that_is_none(self, built: Built, tmp_path: Path) -> None:
        (tmp_path / "empty.so").write_bytes(b"")
        broken = built.model_copy(update={"library": tmp_path / "empty.so"})
        found = HostDisassembler(Watcher(ProcessRunner(), RowsOracle(), 1)).disassemble(
            broken, WORKLOAD, PROFILE
        )
        assert found == Disassembly(tool=None, missing=("objdump is not installed, or failed",))


LOOP = """
__global__ void total(const float *x, float *y, int n) {
    float sum = 0;
    for (int i = threadIdx.x; i < n; i += 32) sum += x[i] * x[i];
    y[threadIdx.x] = sum;
}
__global__ void other(float *y) { y[0] = 1; }
extern "C" void solve(const float *x, float *y, int N) {
    total<<<1, 32>>>(x, y, N);
    other<<<1, 1>>>(y);
}
"""


class TestOnAGpu:
    @needs_nvcc
    def test_the_profiled_kernels_sass(self, tmp_path: Path) -> None:
        if find_program("cuobjdump") is None:
            pytest.skip("cuobjdump is not installed")
        made = CudaToolchain(tmp_path / "builds", H100).build(cuda(LOOP))
        assert isinstance(made, Built), made
        profile = Profile(tool="ncu", workload="N=4096", kernel="total")
        found = GpuDisassembler(tmp_path).disassemble(made, WORKLOAD, profile)
        assert found.tool == "cuobjdump"
        assert found.missing == ()
        assert "total" in found.loops[0].function
        assert "LDG" in found.loops[0].listing
        assert any("load from global memory" in remark for remark in found.loops[0].remarks)
        wrong = profile.model_copy(update={"kernel": "elsewhere"})
        missing = GpuDisassembler(tmp_path).disassemble(made, WORKLOAD, wrong).missing
        assert "elsewhere" in missing[0]

    def test_tritons_assembly_for_amd(self, tmp_path: Path) -> None:
        made = module(tmp_path)
        folder = tmp_path / made.candidate_id / "triton" / "abc"
        folder.mkdir(parents=True)
        (folder / "attention.amdgcn").write_text(GCN, encoding="utf-8")
        stalls = Hotspot(
            source="k.py:12", instruction="s_waitcnt vmcnt(0)", stall_share=0.4, hits=9
        )
        profile = Profile(tool="rocprofv3", workload="N=1", kernel="attention", hotspots=(stalls,))
        found = GpuDisassembler(tmp_path).disassemble(made, WORKLOAD, profile)
        assert found.tool == "Triton"
        assert "v_mfma" in found.loops[0].listing
        assert found.notes == ("40% of all stalls at s_waitcnt vmcnt(0) (k.py:12)",)

    def test_a_module_whose_kernels_are_pytorchs(self, tmp_path: Path) -> None:
        found = GpuDisassembler(tmp_path).disassemble(module(tmp_path), WORKLOAD, PROFILE)
        assert found.loops == ()
        assert "no code was kept" in found.missing[0]
