"""Flags of nvcc: what a candidate may ask for, and what it may not."""

from __future__ import annotations

import pytest
from cuda_kernels import H100, SCALE, cuda, needs_nvcc
from hypothesis import given
from hypothesis import strategies as st

from roofsmith.domain.kernel import BuildSpec, Built
from roofsmith.toolchains import CudaToolchain
from roofsmith.toolchains.flags import is_shell_safe
from roofsmith.toolchains.nvcc_flags import RefusedFlagError, for_host, normalised, refusal


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("-O3", "-lineinfo"), ("--optimize=3", "--generate-line-info")),
        (("-maxrregcount", "64"), ("--maxrregcount=64",)),
        (("--maxrregcount=64",), ("--maxrregcount=64",)),
        (("-use_fast_math", "--use_fast_math"), ("--use_fast_math", "--use_fast_math")),
        (("-Xptxas", "-v,-dlcm=cg"), ("--ptxas-options=-v,-dlcm=cg",)),
        (("--ptxas-options=-O2",), ("--ptxas-options=-O2",)),
        (("-D", "N=4", "-DM=(1+2)"), ("--define-macro=N=4", "--define-macro=M=(1+2)")),
        (("-I.", "-I", "/usr/include"), ("--include-path=.", "--include-path=/usr/include")),
        (("-std=c++20",), ("--std=c++20",)),
        (("-Xcompiler", "-fopenmp,-O3"), ("--compiler-options=-fopenmp,-O3",)),
        (("-lcublas", "-l", "curand"), ("--library=cublas", "--library=curand")),
        (("-ftz=true", "-prec-div=false"), ("--ftz=true", "--prec-div=false")),
        (("-rdc=true", "-dlto"), ("--relocatable-device-code=true", "--dlink-time-opt")),
        (("-diag-suppress", "177,550"), ("--diag-suppress=177,550",)),
        (
            ("--expt-relaxed-constexpr", "--expt-extended-lambda"),
            ("--expt-relaxed-constexpr", "--extended-lambda"),
        ),
    ],
)
def test_what_chooses_code_is_spelled_in_one_way(
    flags: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    assert normalised(flags) == expected
    assert normalised(normalised(flags)) == expected


@pytest.mark.parametrize(
    "flags",
    [
        # Files written or read, programs run.
        ("-o", "x"), ("--output-file=x",), ("-MD",), ("-keep",), ("--keep-dir=/tmp",), ("-time=x",),
        ("-ccbin", "sh"), ("--compiler-bindir=/tmp",), ("-run",), ("--options-file", "x"),
        ("-optf=x",), ("-include", "/etc/passwd"), ("-x", "c"), ("-E",), ("-cubin",), ("-dryrun",),
        ("kernel.o",), ("/etc/passwd",), ("@args",), ("-I/tmp",), ("-I..",), ("-I.,/tmp",),
        ("-L/tmp",), ("-L/usr/lib,/tmp",), ("-l", "/tmp/x.so"), ("--ldir", "/tmp"),
        ("-Xptxas", "-o,/tmp/x"), ("-Xptxas", "-v,--options-file=/tmp/x"), ("-Xptxas=/tmp/x",),
        ("-Xcompiler", "-fplugin=x"), ("-Xcompiler", "-Wl,-rpath,/tmp"),
        ("-Xcompiler", "-o,/tmp/x"), ("-Xcompiler", "@x"), ("-Xcompiler=-march=native",),
        ("-Xlinker", "-rpath"),
        ("-Xnvlink", "x"), ("-Xarchive", "x"), ("-Xcudafe", "--output=x"),
        # What a shell would run.
        ("-DX=$(touch y)",), ("-DX=`touch y`",), ('-DX="',), ("-DX=\\",), ("-DX=a;b",),
        ("-DX=a\nb",),
        # The device decides.
        ("-arch=sm_80",), ("-arch", "native"), ("-gencode", "arch=compute_80,code=sm_80"),
        ("--gpu-architecture=sm_80",), ("-code=sm_80",), ("-march=native",),
        # Streams.
        ("-default-stream", "per-thread"), ("--default-stream=per-thread",),
        ("-DCUDA_API_PER_THREAD_DEFAULT_STREAM",), ("-D", "CUDA_API_PER_THREAD_DEFAULT_STREAM=1"),
        ("-DA,CUDA_API_PER_THREAD_DEFAULT_STREAM",),
        ("-Xcompiler", "-DCUDA_API_PER_THREAD_DEFAULT_STREAM"), ("-cudart", "static"),
        # No sense.
        ("",), ("-",), ("--",), ("-D",), ("-O",), ("-O9",), ("-maxrregcount",), ("-Xptxas",),
        ("-maxrregcount=many",), ("-use_fast_math=1",), ("-std=fortran",),
    ],
)  # fmt: skip
def test_what_could_do_more_is_refused(flags: tuple[str, ...]) -> None:
    with pytest.raises(RefusedFlagError):
        normalised(flags)
    refused = refusal(BuildSpec(flags=flags, link=()))
    assert refused[0] == "flag_not_allowed"
    assert flags[0] in refused[1]


@pytest.mark.parametrize(
    ("flag", "why"),
    [
        ("-arch=sm_80", "that of the device"),
        ("-default-stream", "legacy default stream"),
        ("-DCUDA_API_PER_THREAD_DEFAULT_STREAM", "legacy default stream"),
        ("-cudart", "runtime library"),
    ],
)
def test_the_reason_is_said(flag: str, why: str) -> None:
    with pytest.raises(RefusedFlagError, match=why):
        normalised((flag, "x"))


def test_the_environment_is_checked_too() -> None:
    refused = refusal(BuildSpec(flags=(), link=(), environment={"LD_PRELOAD": "x"}))
    assert refused[0] == "environment_not_allowed"


def test_macros_in_every_spelling() -> None:
    flags = ("-DA=1", "-D", "B=2", "--define-macro=C=3", "-UA", "-DD", "-Iinc")
    assert for_host(flags) == ("-DA=1", "-DB=2", "-DC=3", "-UA", "-DD", "-Iinc")
    assert for_host(("-o", "x", "-DA=1")) == ()


@given(st.lists(st.text(max_size=12), max_size=4))
def test_whatever_passes_is_harmless_to_a_shell(flags: list[str]) -> None:
    try:
        words = normalised(flags)
    except RefusedFlagError:
        return
    assert all(is_shell_safe(word) and word.startswith("--") for word in words)


@needs_nvcc
@pytest.mark.slow
def test_nvcc_knows_them_all(tmp_path_factory: pytest.TempPathFactory) -> None:
    toolchain = CudaToolchain(tmp_path_factory.mktemp("cache"), H100)
    flags = (
        "-std=c++17", "-use_fast_math", "-ftz=true", "-prec-div=false", "-prec-sqrt=false",
        "-fmad=false", "-extra-device-vectorization", "-restrict", "-rdc=true",
        "--expt-relaxed-constexpr", "--expt-extended-lambda", "-w", "-diag-suppress", "177",
        "-Xptxas", "-dlcm=cg,-dscm=cg", "-Xptxas", "-O3", "-Xcompiler", "-fopenmp,-O2",
        "-Xcudafe", "--diag_suppress=177", "-DN=4", "-I.", "-maxrregcount", "64", "-res-usage",
        "-split-compile", "1", "-Werror", "all-warnings",
    )  # fmt: skip
    made = toolchain.build(cuda(SCALE, *flags))
    assert isinstance(made, Built), made
