"""What compilers print, on machines that have other compilers than this one."""

from __future__ import annotations

import pytest

from roofsmith.toolchains.diagnostics import MAX_ERROR_CHARS, diagnose, warnings_of
from roofsmith.toolchains.elf import exported_functions

SOURCES = {"kernel.c": "float fast(float);\nvoid solve(float *y)\n{\n    y[0] = fast(1);\n}\n"}


@pytest.mark.parametrize(
    ("output", "reason", "detail"),
    [
        pytest.param(
            "kernel.c: In function 'solve':\n"
            "kernel.c:4:5: error: 'z' undeclared (first use in this function)\n"
            "    4 |     z = 1;\n      |     ^\n",
            "compile_error",
            "kernel.c:4:5: error: 'z' undeclared (first use in this function)",
            id="gcc",
        ),
        pytest.param(
            "In file included from kernel.c:1:\n./part.h:2:1: error: unknown type name 'flaot'\n"
            "flaot f(void);\n^\n1 error generated.\n",
            "compile_error",
            "./part.h:2:1: error: unknown type name 'flaot'",
            id="clang, in a header",
        ),
        pytest.param(
            "error: unknown target CPU 'nonsense'\nnote: valid target CPU values are: a, b\n",
            "compile_error",
            "error: unknown target CPU 'nonsense'",
            id="clang, about a flag",
        ),
        pytest.param(
            "/usr/bin/ld: k-66e38a.o: in function `solve':\n"
            "kernel.c:(.text+0x7): undefined reference to `fast'\n"
            "clang: error: linker command failed with exit code 1 (use -v to see invocation)\n",
            "link_error",
            "kernel.c:4: undefined reference to `fast`",
            id="clang with GNU ld",
        ),
        pytest.param(
            "ld.lld: error: undefined symbol: fast\n>>> referenced by kernel.c\n"
            ">>>               kernel-66e38a.o:(solve)\n"
            "clang: error: linker command failed with exit code 1 (use -v to see invocation)\n",
            "link_error",
            "kernel.c:4: undefined reference to `fast`",
            id="clang with lld",
        ),
        pytest.param(
            "a.c:(.text+0x0): multiple definition of `solve'; k-66e38a.o:k.c:(.text+0x0): "
            "first defined here\ncollect2: error: ld returned 1 exit status\n",
            "link_error",
            "a.c:(.text+0x0): multiple definition of `solve'; k.c:(.text+0x0): first defined here",
            id="twice",
        ),
        pytest.param(
            "cc1: out of memory allocating 65536 bytes after a total of 1 bytes\n",
            "compiler_memory",
            "the compiler ran into its memory limit",
            id="memory",
        ),
        pytest.param(
            "gcc: fatal error: Killed signal terminated program cc1\ncompilation terminated.\n",
            "compiler_memory",
            "the compiler ran into its memory limit",
            id="killed by the system",
        ),
        pytest.param(
            "gcc: fatal error: CPU time limit exceeded signal terminated program cc1\n",
            "compiler_timeout",
            "the compiler ran into its limit of CPU time",
            id="time",
        ),
        pytest.param(
            "kernel.c:4:5: internal compiler error: in expand_call, at calls.cc:1\n"
            "Please submit a full bug report\n",
            "compiler_crash",
            "kernel.c:4:5: internal compiler error: in expand_call, at calls.cc:1",
            id="crash",
        ),
        pytest.param(
            'kernel.cu(2): error: identifier "z" is undefined\n    y[0] = z;\n           ^\n\n'
            '1 error detected in the compilation of "kernel.cu".\n',
            "compile_error",
            'kernel.cu:2: error: identifier "z" is undefined',
            id="nvcc",
        ),
        pytest.param(
            'kernel.cu(7): catastrophic error: cannot open source file "x.h"\n',
            "compile_error",
            'kernel.cu:7: catastrophic error: cannot open source file "x.h"',
            id="nvcc, a header",
        ),
        pytest.param(
            "kernel.cu:4:10: fatal error: x.h: No such file or directory\n"
            "    4 | #include <x.h>\n      |          ^~~~~\ncompilation terminated.\n",
            "compile_error",
            "kernel.cu:4:10: fatal error: x.h: No such file or directory",
            id="gcc below nvcc",
        ),
        pytest.param(
            "ptxas: error: kernel k takes too much shared memory: 70,000 bytes; at most 49,152 "
            "may be declared\n",
            "too_much_shared_memory",
            "ptxas: error: kernel k takes too much shared memory: 70,000 bytes; at most 49,152 "
            "may be declared",
            id="shared memory",
        ),
        pytest.param("", "compile_error", "the compiler ended with status 3", id="silent"),
    ],
)
def test_failures_are_read(output: str, reason: str, detail: str) -> None:
    diagnosis = diagnose(output, SOURCES, 3)
    assert diagnosis.reason == reason
    assert diagnosis.detail.splitlines()[0] == detail


@pytest.mark.parametrize(
    ("output", "advice"),
    [
        (
            "k.cu:1:10: fatal error: cute/tensor.hpp: No such file or directory\n",
            "cute/tensor.hpp is of CUTLASS: set CUTLASS_PATH to a checkout of NVIDIA/cutlass",
        ),
        (
            'kernel.cu(1): catastrophic error: cannot open source file "cublas_v2.h"\n',
            "cublas_v2.h is of the CUDA toolkit's cublas: install its package libcublas-dev",
        ),
        (
            "kernel.hip:1:10: fatal error: 'cub/cub.cuh' file not found\n",
            "cub/cub.cuh is of the CUDA toolkit's C++ libraries: install its package cuda-cccl",
        ),
        (
            "kernel.c:1:10: fatal error: tiles.h: No such file or directory\n",
            "if tiles.h is the kernel's own, put it beside the kernel, or name it",
        ),
        (
            "ld: cannot find -lcuda: No such file or directory\n"
            "collect2: error: ld returned 1 exit status\n",
            "libcuda comes with NVIDIA's driver",
        ),
        (
            "a.c:(.text+0x0): undefined reference to `cuTensorMapEncodeTiled'\n"
            "collect2: error: ld returned 1 exit status\n",
            "of the CUDA driver API, which `-lcuda` in `link` takes from the driver",
        ),
        ("kernel.c:1:10: fatal error: 'omp.h' file not found\n", "libomp-dev"),
        ("kernel.c:1:10: fatal error: omp.h: No such file or directory\n", "libgomp1"),
        (
            "/usr/bin/ld: cannot find -lomp: No such file or directory\n"
            "clang: error: linker command failed with exit code 1 (use -v to see invocation)\n",
            "libomp-dev",
        ),
        (
            "/usr/bin/ld: cannot find -lgomp: No such file or directory\n"
            "collect2: error: ld returned 1 exit status\n",
            "libgomp1",
        ),
        (
            "a.c:(.text+0x0): undefined reference to `omp_get_wtime'\n"
            "collect2: error: ld returned 1 exit status\n",
            "-fopenmp",
        ),
    ],
)
def test_what_is_missing_comes_with_advice(output: str, advice: str) -> None:
    first, *further = diagnose(output, SOURCES, 1).detail.splitlines()
    assert len(further) == 1
    assert advice in further[0]
    assert advice not in first


def test_each_undefined_symbol_gets_its_own_advice() -> None:
    output = "".join(
        f"a.c:(.text+0x0): undefined reference to `{name}'\n" for name in ("fast", "cuInit")
    )
    assert diagnose(output, SOURCES, 1).detail.splitlines()[2:] == [
        "define it in the candidate's sources or name its library in `link` (-l...): fast",
        "of the CUDA driver API, which `-lcuda` in `link` takes from the driver (libcuda.so.1) or "
        "the toolkit's stub (package cuda-driver-dev), whichever is installed: cuInit",
    ]


@pytest.mark.parametrize("header", ["x.h", "cuda_helpers.h", "my/cutlass/x.h"])
def test_other_headers_are_the_users_own(header: str) -> None:
    first, told = diagnose(
        f"k.cu:1:10: fatal error: {header}: No such file or directory\n", SOURCES, 1
    ).detail.splitlines()
    assert header in first
    assert told.startswith(f"if {header} is the kernel's own")


def test_a_long_error_is_cut() -> None:
    output = f"kernel.cpp:1:1: error: no match for {'std::vector<float> ' * 200}\n"
    assert len(diagnose(output, SOURCES, 1).detail) <= MAX_ERROR_CHARS


def test_a_warning_is_listed_once() -> None:
    line = "kernel.c:4:5: warning: unused variable 'z' [-Wunused-variable]\n"
    assert warnings_of(line + "    4 | int z;\n" + line) == (
        "kernel.c:4:5: unused variable 'z' [-Wunused-variable]",
    )


def test_warnings_of_nvcc_carry_their_number() -> None:
    line = 'kernel.cu(2): warning #177-D: variable "unused" was declared but never referenced\n'
    assert warnings_of(f"{line}\nRemark: The warnings can be suppressed\n{line}") == (
        'kernel.cu:2: variable "unused" was declared but never referenced [#177-D]',
    )


@pytest.mark.parametrize("damage", [b"", b"not an ELF file", b"\x7fELF\x02\x01" + b"\xff" * 80])
def test_what_is_no_library_exports_nothing(damage: bytes) -> None:
    with pytest.raises(ValueError, match="ELF"):
        exported_functions(damage)
