"""Two kernels in one source, built by the real compilers and run: who runs what, and what can't be.

The old kernel doubles, the new one triples, so that results say which of them ran.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from cuda_kernels import needs_nvcc, nvcc
from dispatching import runs_new
from recipe_bench import needs_gcc
from triton_kernels import needs_triton

from roofsmith.domain.dispatch import Dispatch, Listed, Rule, Threshold
from roofsmith.domain.kernel import BuildSpec, Built, Candidate, Language, SourceFile
from roofsmith.ports import DimensionSource, Toolchain, Unmergeable
from roofsmith.toolchains import CToolchain, ModuleToolchain
from roofsmith.toolchains.merging.directives import (
    directives,
    includes_alone,
    inlined,
    touched_macros,
)
from roofsmith.toolchains.merging.merger import LONGEST_BYTES, merge_sources
from roofsmith.toolchains.merging.unit import JointBuild, joint_build
from roofsmith.toolchains.signature import read_signature

AT_LEAST_1000 = Threshold(dims=("n",), side="at_least", bound=1000)
SEES_N = {"n": DimensionSource("n")}
SUFFIX = {"c": "c", "cpp": "cpp", "cuda": "cu", "torch": "py", "triton": "py"}

FULL = """\
#include <math.h>
#include "scale.h"
#ifndef M_PI
#define M_PI 3
#endif
#define BY(x) ((x) * FACTOR)
#define LENGTH n
typedef float real;
enum { LANES = 4, SPARE };
struct chunk { real items[LANES]; int size; };
union bits { real f; unsigned u; };
extern int errno_of(void);
static const real unit = 1.0f;
static real table[LANES] = {1, 1, 1, 1};
static struct chunk spare;
static real once(real x, int n);
static real once(real x, int n) { (void)n; return BY(scale(x)) * unit * table[0]; }

void solve(const real *restrict x, real *y, int LENGTH)
{
    struct chunk chunk = {.size = 0, .items = {unit}};
    union bits none = {.u = SPARE - LANES - 1};
    spare = chunk;
    for (int i = 0; i < n; i++)
        y[i] = once(x[i], spare.size) + none.f + (real)(floor(M_PI) - 3);
}
"""
"""A C kernel with a name of every kind at file scope."""

HEADER = """\
#ifndef SCALE_H
#define SCALE_H
#define FACTOR {factor}
static inline float scale(float x) {{ return x; }}
#endif
"""


def candidate(
    text: str, *others: tuple[str, str], language: Language = "c", **build: object
) -> Candidate:
    files = [(f"kernel.{SUFFIX[language]}", text), *others]
    spec = BuildSpec.model_validate({"flags": ("-O1", "-Wall"), **build})
    if language in ("torch", "triton"):
        spec = BuildSpec(flags=(), link=())
    return Candidate(
        language=language,
        sources=tuple(SourceFile(path=path, text=body) for path, body in files),
        build=spec,
    )


def dispatch(rule: Rule = AT_LEAST_1000, splits: int = 5, **within: tuple[int, int]) -> Dispatch:
    return Dispatch(
        splits=splits, rule=rule, within=within or {"n": (1, 10_000)}, new=("l",), old=("s",)
    )


def merge(
    old: Candidate, new: Candidate, found: Dispatch | None = None, **sights: DimensionSource
) -> Candidate | Unmergeable:
    module = old.language in ("torch", "triton")
    signature = read_signature(candidate(SIMPLE) if module else old)
    return merge_sources(old, new, found or dispatch(), sights or SEES_N, signature)


def merged(
    old: Candidate, new: Candidate, found: Dispatch | None = None, **sights: DimensionSource
) -> Candidate:
    result = merge(old, new, found, **sights)
    assert isinstance(result, Candidate), result
    return result


def refused(old: Candidate, new: Candidate) -> str:
    result = merge(old, new)
    assert isinstance(result, Unmergeable)
    return result.reason


SIMPLE = (
    "void solve(const float *x, float *y, int n) { for (int i = 0; i < n; i++) y[i] = 2 * x[i]; }"
)
TRIPLE = SIMPLE.replace("2 * x", "3 * x")


@pytest.fixture(scope="module")
def toolchain(tmp_path_factory: pytest.TempPathFactory) -> CToolchain:
    return CToolchain(tmp_path_factory.mktemp("builds"))


def factor(toolchain: Toolchain, made: Candidate, n: int) -> float:
    """What a kernel multiplies by on `n` elements; it builds without a warning."""
    built = toolchain.build(made)
    assert isinstance(built, Built), built
    assert built.warnings == ()
    kind = ctypes.c_float * n
    x, y = kind(*([1.0] * n)), kind()
    ctypes.CDLL(str(built.library)).solve(x, y, n)
    assert len(set(y)) == 1
    return float(y[0])


# -- C --------------------------------------------------------------------------------------


@needs_gcc
def test_each_size_runs_its_kernel_and_whatever_is_beyond_runs_the_old_one(
    toolchain: CToolchain,
) -> None:
    made = merged(candidate(SIMPLE), candidate(TRIPLE))
    assert [factor(toolchain, made, n) for n in (1, 999, 1000, 10_000, 10_001)] == [2, 2, 3, 3, 2]


@needs_gcc
def test_every_kind_of_name_macro_and_header_may_be_in_both(toolchain: CToolchain) -> None:
    old, new = (candidate(FULL, ("scale.h", HEADER.format(factor=by))) for by in (2, 3))
    made = merged(old, new)
    assert read_signature(made) == read_signature(old)
    assert [factor(toolchain, made, n) for n in (10, 2000)] == [2, 3]


@needs_gcc
def test_variables_of_each_thread_are_renamed_and_their_types_are_not(
    toolchain: CToolchain,
) -> None:
    text = SIMPLE.replace("2 * x[i]", "(own = @) * x[i] * one")
    text = f"static _Thread_local float own;\nstatic __thread float one = 1;\n{text}"
    old, new = (candidate(text.replace("@", by)) for by in ("2", "3"))
    assert [factor(toolchain, merged(old, new), n) for n in (2, 2000)] == [2, 3]


@needs_gcc
def test_a_dispatch_of_a_dispatch(toolchain: CToolchain) -> None:
    first = merged(candidate(SIMPLE), candidate(TRIPLE))
    four = candidate(SIMPLE.replace("2 * x", "4 * x"))
    at_most = Threshold(dims=("n",), side="at_most", bound=10)
    second = merged(first, four, dispatch(at_most, splits=7))
    third = merged(second, candidate(SIMPLE), dispatch(at_most, splits=9))
    assert [factor(toolchain, second, n) for n in (5, 500, 1500)] == [4, 2, 3]
    assert [factor(toolchain, third, n) for n in (5, 500, 1500)] == [2, 2, 3]
    assert read_signature(third) == read_signature(candidate(SIMPLE))


@needs_gcc
def test_a_change_of_a_dispatch_may_be_split_again(toolchain: CToolchain) -> None:
    first = merged(candidate(SIMPLE), candidate(TRIPLE))
    changed = first.with_kernel_text(first.kernel.text.replace("3 * x", "5 * x"))
    at_least = Threshold(dims=("n",), side="at_least", bound=5000)
    second = merged(first, changed, dispatch(at_least, splits=8))
    assert [factor(toolchain, second, n) for n in (5, 1500, 6000)] == [2, 3, 5]


@needs_gcc
def test_parameters_count_by_position_whatever_a_kernel_calls_them(toolchain: CToolchain) -> None:
    renamed = SIMPLE.replace("int n", "int count").replace("i < n", "i < count")
    target = read_signature(candidate(SIMPLE))
    made = merge_sources(candidate(renamed), candidate(TRIPLE), dispatch(), SEES_N, target)
    assert isinstance(made, Candidate)
    assert [factor(toolchain, made, n) for n in (10, 2000)] == [2, 3]


@needs_gcc
@pytest.mark.parametrize(
    "rule",
    [
        Threshold(dims=("rows", "n"), side="at_least", bound=2**33),
        Threshold(dims=("rows",), side="at_most", bound=8),
        Listed(points=({"rows": 2, "n": 9}, {"rows": 3, "n": 7})),
    ],
)
def test_rules_mean_in_c_what_they_mean_here(rule: Rule, tmp_path: Path) -> None:
    text = "void solve(float *y, int rows, int n) { y[0] = @ + 0 * (rows + n); }"
    old, new = (candidate(text.replace("@", by)) for by in ("2", "3"))
    found = dispatch(rule, rows=(1, 2**17), n=(1, 2**16))
    made = merged(old, new, found, rows=DimensionSource("rows"), n=DimensionSource("n"))
    built = CToolchain(tmp_path).build(made)
    assert isinstance(built, Built)
    solve = ctypes.CDLL(str(built.library)).solve
    sizes = [(2**17, 2**16), (2**16, 2**16), (8, 3), (9, 3), (2, 9), (3, 7), (9, 2), (8, 2**17)]
    ran_new = []
    for rows, n in sizes:
        y = (ctypes.c_float * 1)()
        solve(y, rows, n)
        ran_new.append(y[0] == 3)
    assert ran_new == [runs_new(found, {"rows": rows, "n": n}) for rows, n in sizes]
    assert set(ran_new) == {True, False}


@needs_gcc
def test_macros_of_the_command_line_hold_over_their_own_kernel(toolchain: CToolchain) -> None:
    text = SIMPLE.replace("2 * x", "BY * x")
    old, new = (candidate(text, flags=("-O1", f"-DBY={by}", "-DSAME=1")) for by in (2, 3))
    made = merged(old, new)
    assert made.build.flags == ("-O1", "-DSAME=1")
    assert [factor(toolchain, made, n) for n in (10, 2000)] == [2, 3]


@needs_gcc
def test_headers_are_read_as_each_kernel_has_them_read(toolchain: CToolchain) -> None:
    old = "#include <string.h>\n" + SIMPLE
    new = (
        "#define _GNU_SOURCE\n#ifdef _GNU_SOURCE\n#include <string.h>\n#include <math.h>\n#endif\n"
        "static const void *use(const char *s) { return strchrnul(s, M_PI > 3 ? 'a' : 'b'); }\n"
        + TRIPLE.replace("y[i] =", 'y[i] = 0 * (use("a") == 0) +')
    )
    made = merged(candidate(old), candidate(new))
    assert [factor(toolchain, made, n) for n in (10, 2000)] == [2, 3]


@needs_gcc
def test_a_file_of_its_own_that_both_link_with_stays_as_it_is(toolchain: CToolchain) -> None:
    helper = ("helper.c", "float by(float x) { return x; }\n")
    call = "float by(float);\n"
    old, new = (candidate(call + t.replace("x[i];", "by(x[i]);"), helper) for t in (SIMPLE, TRIPLE))
    made = merged(old, new)
    assert [s.path for s in made.sources] == ["kernel.c", "helper.c"]
    assert [factor(toolchain, made, n) for n in (10, 2000)] == [2, 3]


@needs_gcc
def test_options_that_a_kernel_sets_end_with_it(toolchain: CToolchain) -> None:
    new = '#pragma GCC optimize("O0")\n' + TRIPLE
    text = merged(candidate(SIMPLE), candidate(new)).kernel.text
    assert text.index("push_options") < text.index("optimize") < text.index("pop_options")
    assert factor(toolchain, merged(candidate(SIMPLE), candidate(new)), 2000) == 3


# -- C++ and CUDA ---------------------------------------------------------------------------

CPP = """\
#include <cmath>
#include <vector>
#define LANES 4
using namespace std;
namespace detail { template <class T> T same(T v) { return v; } }
struct pair2 { float x, y; };
static pair2 operator+(pair2 a, pair2 b) { return {a.x + b.x, a.y + b.y}; }
template <int N> struct by { static constexpr float value = N; };
static float x = 1;
static float of(float v) { return v * x; }
static double of(double v) { return v; }
extern "C" float helper(float v) { return of(v) * by<@>::value; }
extern "C" void solve(const float *in, float *out, int n)
{
    vector<float> spare(LANES, 1.0f);
    for (int i = 0; i < n; i++) {
        pair2 both = pair2{in[i], 0} + pair2{0, 0};
        out[i] = detail::same(helper(both.x)) * sqrt(spare[0]) * float(of(1.0));
    }
}
"""


@needs_gcc
def test_overloads_templates_operators_and_members_in_cpp(toolchain: CToolchain) -> None:
    old, new = (candidate(CPP.replace("@", by), language="cpp") for by in ("2", "3"))
    made = merged(old, new)
    again = merged(made, old, dispatch(Threshold(dims=("n",), side="at_most", bound=4), splits=6))
    assert [factor(toolchain, made, n) for n in (2, 2000)] == [2, 3]
    assert [factor(toolchain, again, n) for n in (2, 2000)] == [2, 3]


IN_CPP = {
    "found from outside": """\
namespace k { constexpr float by = @; struct V { float v; }; }
static float counter;
extern "C" { void solve(const float *x, float *y, int n)
{
    ::counter = 0;
    for (int i = 0; i < n; i++) y[i] = ::k::V{x[i]}.v * ::k::by + ::counter;
} }
""",
    "variables with C linkage": """\
extern "C" {
static float table[4] = {@, @, @, @};
float visible = 1;
void solve(const float *x, float *y, int n)
{
    for (int i = 0; i < n; i++) y[i] = table[i & 3] * visible * x[i];
}
}
""",
}


@needs_gcc
@pytest.mark.parametrize("text", IN_CPP.values(), ids=IN_CPP)
def test_cpp_names_that_a_namespace_alone_would_not_keep_apart(
    text: str, toolchain: CToolchain
) -> None:
    old, new = (candidate(text.replace("@", by), language="cpp") for by in ("2", "3"))
    made = merged(old, new)
    again = merged(made, old, dispatch(splits=9))
    assert [factor(toolchain, made, n) for n in (2, 2000)] == [2, 3]
    assert [factor(toolchain, again, n) for n in (2, 2000)] == [2, 2]


CUDA = """\
#include <cuda_runtime.h>
#define THREADS 256
__constant__ float by[1] = {@};
static __device__ float4 operator*(float4 a, float s) { return make_float4(a.x * s, 0, 0, 0); }
template <int LANES>
__global__ void __launch_bounds__(THREADS) scale(const float *x, float *y, int n)
{
    __shared__ float tile[THREADS];
    int i = blockIdx.x * THREADS + threadIdx.x;
    tile[threadIdx.x] = i < n ? x[i] : 0;
    if (i < n) y[i] = (make_float4(tile[threadIdx.x], 0, 0, 0) * by[0]).x;
}
extern "C" void solve(const float *x, float *y, int n)
{
    scale<4><<<(n + THREADS - 1) / THREADS, THREADS>>>(x, y, n);
}
"""


@needs_nvcc
def test_cuda_kernels_compile_side_by_side(tmp_path: Path) -> None:
    old, new = (candidate(CUDA.replace("@", by), language="cuda") for by in ("2", "3"))
    made = merged(merged(old, new), new, dispatch(splits=8))
    assert read_signature(made) == read_signature(old)
    source = tmp_path / "kernel.cu"
    source.write_text(made.kernel.text)
    command = nvcc("-Werror=all-warnings", "-arch=sm_90", "-c", "-o", f"{source}.o", source)
    subprocess.run(command, check=True, capture_output=True)


# -- modules --------------------------------------------------------------------------------

MODULE = """\
import helper

def run_kernel(x, y, n):
    y[:] = [helper.by(value) * @ for value in x]
"""
HELPER = ("helper.py", "def by(value):\n    return value\n")


def loaded(made: Candidate, folder: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    for source in made.sources:
        (folder / source.path).write_text(source.text)
    monkeypatch.syspath_prepend(str(folder))
    for name in ("kernel", *(Path(s.path).stem for s in made.sources)):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module("kernel")


def test_modules_lie_beside_one_that_chooses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = (candidate(MODULE.replace("@", by), HELPER, language="torch") for by in "23")
    made = merged(old, new)
    assert [s.path for s in made.sources] == [
        "kernel.py", "helper.py", "split5_old.py", "split5_new.py",
    ]  # fmt: skip
    module = loaded(made, tmp_path, monkeypatch)
    for n, by in ((10, 2), (2000, 3), (10_001, 2)):
        y = [0.0]
        module.run_kernel(x=[1.0], y=y, n=n)
        assert y == [by]


def test_a_module_may_see_a_dimension_in_a_shape(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import numpy as np

    old, new = (
        candidate(f"def run_kernel(x, y):\n    y[:] = x * {by}\n", language="triton") for by in "23"
    )
    listed = Listed(points=({"rows": 4, "n": 8}, {"rows": 2, "n": 8}))
    found = dispatch(listed, rows=(1, 4), n=(8, 8))
    made = merged(old, new, found, rows=DimensionSource("x", 0), n=DimensionSource("x", 1))
    again = merged(made, old, dispatch(splits=6), n=DimensionSource("y", 1))
    module = loaded(again, tmp_path, monkeypatch)
    for rows, by in ((4, 3), (3, 2)):
        x = np.ones((rows, 8))
        y = np.zeros_like(x)
        module.run_kernel(x=x, y=y)
        assert (y == by).all()


TRITON = """\
import triton
import triton.language as tl

@triton.jit
def scale(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * BY, mask=at < n)

def run_kernel(x, y, n):
    scale[(triton.cdiv(n, 64),)](x, y, n, BLOCK=64)
"""
WORKER = """\
import sys
import torch
from roofsmith.judge.gpu import tensors
from roofsmith.judge.gpu.worker import ModuleKernel

tensors.open_device = lambda: None  # Triton's interpreter needs none
kernel = ModuleKernel({"library": sys.argv[1], "entry": "run_kernel"})
for n in (10, 2000):
    y = torch.zeros(n)
    kernel._run(x=torch.ones(n), y=y, n=n)
    print(*sorted(set(y.tolist())))
"""


@needs_triton
@pytest.mark.slow
def test_triton_kernels_of_one_name_run_in_the_judges_worker(tmp_path: Path) -> None:
    """In Triton's interpreter, on this machine's processors."""
    old, new = (candidate(TRITON.replace("BY", by), language="triton") for by in ("2", "3"))
    built = ModuleToolchain(tmp_path / "builds").build(merged(old, new))
    assert isinstance(built, Built), built
    done = subprocess.run(
        [sys.executable, "-c", WORKER, str(built.library)],
        env={**os.environ, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.split() == ["2.0", "3.0"], done.stderr


# -- what can't be --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "why"),
    [
        ({"compiler": "clang"}, "different compilers"),
        ({"flags": ("-O2", "-Wall")}, "the new one not with -O1"),
        ({"flags": ("-Wall",)}, "the new one not with -O1"),
        ({"environment": {"OMP_NUM_THREADS": "1"}}, "environment variables"),
    ],
)
def test_builds_that_cannot_be_one(build: dict[str, object], why: str) -> None:
    old, new = candidate(SIMPLE), candidate(TRIPLE, language="c", **build)
    assert why in refused(old, new)


def test_flags_that_the_new_kernel_adds_are_given_to_both() -> None:
    old = BuildSpec(flags=("-O3", "-march=native"))
    new = BuildSpec(flags=("-O3", "-fopenmp", "-march=native"), link=("-lm", "-lgomp"))
    joint = joint_build(old, new)
    assert isinstance(joint, JointBuild)
    assert (joint.build.flags, joint.build.link) == (new.flags, new.link)


def test_files_that_are_compiled_on_their_own_and_differ() -> None:
    call = "float by(float);\n" + SIMPLE
    old, new = (candidate(call, ("by.c", f"float by(float x) {{ return {n}; }}")) for n in (1, 2))
    assert refused(old, new) == "by.c differs, and by.c is compiled on its own"


def test_cpp_files_that_are_compiled_on_their_own_link_with_one_namespace_only() -> None:
    text = CPP.replace("@", "2")
    other = ("more.cpp", "float more() { return 1; }")
    assert "more.cpp is compiled on its own" in refused(
        candidate(text, other, language="cpp"), candidate(text + "\n", other, language="cpp")
    )


def test_what_is_added_to_namespace_std_stays_outside() -> None:
    reopened = "namespace std { inline int mine() { return 1; } }\n" + CPP.replace("@", "3")
    old, new = candidate(CPP.replace("@", "2"), language="cpp"), candidate(reopened, language="cpp")
    assert "namespace std" in refused(old, new)
    text = "#include <functional>\nstruct Key {};\ntemplate <> struct std::hash<Key> {};\n"
    hashed = candidate(text + f'extern "C" {SIMPLE}', language="cpp")
    assert "namespace std" in refused(hashed, hashed)


def test_modules_that_import_different_files_of_one_name() -> None:
    text = MODULE.replace("@", "2")
    old, new = (candidate(text, ("helper.py", f"by = {n}\n"), language="torch") for n in (1, 2))
    assert refused(old, new) == "both import helper.py, and it differs"


def test_dispatches_do_not_nest_without_end() -> None:
    long = candidate(f"{SIMPLE}\n/*{LONGEST_BYTES * ' '}*/\n")
    assert "longer than" in refused(long, candidate(TRIPLE))


# -- texts ----------------------------------------------------------------------------------


def test_own_files_are_inlined_as_the_compiler_would_read_them() -> None:
    files = {
        "k.c": '#include "a/one.h"\n#include "a/one.h"\n#include <math.h>\n// #include "no.h"\n',
        "a/one.h": '#pragma once\n#include "two.h"\nint one;\n',
        "a/two.h": '#ifndef TWO\n#define TWO\n#include "one.h"\nint two;\n#endif\n',
    }
    text = inlined("k.c", files, cpp=False)
    assert text.count("int one;") == text.count("int two;") == 1
    assert "#include <math.h>" in text
    assert '// #include "no.h"' in text


def test_directives_are_none_in_comments_strings_and_continued_lines() -> None:
    text = '/*\n#define A\n*/\n#define B \\\n  1\nchar *s = R"(\n#define C\n)";\n#  undef  D // E\n'
    assert [(d.name, d.word) for d in directives(text, cpp=True)] == [
        ("define", "B"),
        ("undef", "D"),
    ]


def test_the_includes_alone_keep_what_decides_about_them() -> None:
    text = "#define A 1\nint x;\n#if A\n#include <a.h>\n#else\n#include <b.h>\n#endif\n#define C\n"
    alone = "#define A 1\n#if A\n#include <a.h>\n#else\n#include <b.h>\n#endif"
    assert includes_alone(text, cpp=False) == alone
    assert includes_alone("#define A 1\nint x;\n", cpp=False) == ""


def test_macros_that_a_text_pushes_are_back_behind_it() -> None:
    text = '#pragma push_macro("A")\n#undef A\n#define A 1\n#pragma pop_macro("A")\n#define B\n'
    assert touched_macros(text, cpp=False) == ("B",)
