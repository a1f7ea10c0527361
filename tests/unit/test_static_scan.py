"""The static scan: what it sees in attacks, that it leaves honest kernels alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofsmith.analysis.scan.rules import rules
from roofsmith.analysis.scan.sources import (
    MOST_REMARKS,
    library_calls,
    remarks_on,
    scan,
    with_remarks,
)
from roofsmith.domain.comparison import Judgement
from roofsmith.domain.kernel import MODULE_LANGUAGES, Candidate, Language, SourceFile
from roofsmith.selftest.samples import CorpusSample, samples

GPU = samples(("cuda", "triton", "torch"))
SEEN = {
    "cuda/host_thread": "threads",
    "cuda/host_callback": "threads",
    "cuda/memo_pointer": "keyed_by_address",
    "cuda/skip_after_calls": "counts_calls",
    "cuda/early_exit_by_timer": "clocks",
    "cuda/packed_once": "state",
    "cuda/patched_driver": "judge",
    "cuda/preloaded_clock": "judge",
    "cuda/answers_itself": "sockets",
    "triton/elapsed_time": "judge",
    "triton/patched_judge": "judge",
    "triton/memo_version": "keyed_by_address",
    "triton/memo_shape": "state",
    "triton/poisoned_cache": "files",
    "torch/lazy_output": "judge",
    "torch/left_behind_process": "processes",
    "torch/stolen_from_frames": "judge",
    "torch/slowed_clocks": "clocks",
}
"""One remark that an attack must get, by language and name."""


def candidate(language: Language, text: str) -> Candidate:
    path = "kernel.py" if language in MODULE_LANGUAGES else "kernel.cu"
    return Candidate(language=language, sources=(SourceFile(path=path, text=text),))


def of(sample: CorpusSample) -> Candidate:
    return candidate(sample.language, sample.path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("sample", [s for s in GPU if not s.is_attack], ids=lambda s: s.id)
def test_of_honest_kernels_nothing_is_told_but_what_they_keep(sample: CorpusSample) -> None:
    assert {remark.name for remark in scan(of(sample))} <= {"state"}


@pytest.mark.parametrize("attack", sorted(SEEN))
def test_attacks_are_explained(attack: str) -> None:
    (sample,) = [s for s in GPU if s.is_attack and s.id == f"attacks/{attack}"]
    assert SEEN[attack] in {remark.name for remark in scan(of(sample))}


def test_a_remark_says_where_and_what() -> None:
    text = "import torch\n\ntorch.allclose = print\n"
    (remark,) = scan(candidate("torch", text))
    assert (remark.name, remark.line, remark.detail) == ("judge", 3, "torch.allclose")
    assert remark.text.startswith("kernel.py:3: ")


def test_a_judgement_keeps_its_notes_and_gets_those_on_the_source() -> None:
    judged = Judgement(verdict="tie", notes=("2 pairs were void",), wall_s=1.0)
    noted = with_remarks(judged, candidate("cuda", "int now() { return clock(); }"))
    assert noted.notes == ("2 pairs were void", "kernel.cu:1: reads a clock (clock)")
    assert with_remarks(judged, candidate("cuda", "int now();")) == judged


def test_every_remark_is_explained() -> None:
    page = (Path(__file__).parents[2] / "docs" / "source.md").read_text(encoding="utf-8")
    assert [name for name in rules() if f"`{name}`" not in page] == []


def test_very_many_remarks_are_counted() -> None:
    text = "import torch\n" + "".join(f"torch.a{i} = {i}\n" for i in range(MOST_REMARKS + 7))
    lines = remarks_on(candidate("torch", text))
    assert lines[-1] == "7 more remarks on the source"
    assert len(lines) == MOST_REMARKS + 1


def test_names_are_followed_through_aliases() -> None:
    text = "from os import path, _exit as leave\n\nleave(0)\n"
    assert [r.name for r in scan(candidate("torch", text))] == ["processes"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("static float kept[4];\nfloat also;\n", ["state", "state"]),
        ("void f() { static int n; n++; }", ["counts_calls", "state"]),
        ("static const float a = 1;\nstatic void f(float x);\nconst int n = 4;\n", []),
        ('void f() { asm("mma.sync.aligned %0;"); float x; }', []),
        ('void f() { asm("syscall"); }', ["assembly"]),
    ],
)
def test_what_is_kept_and_what_assembly_calls(text: str, found: list[str]) -> None:
    assert sorted(r.name for r in scan(candidate("cuda", text))) == found


def test_comments_and_strings_are_no_code() -> None:
    text = '// std::thread, fork(), dlopen\nconst char* a = "fork()";\nvoid half();\n'
    assert scan(candidate("cuda", text)) == ()
    assert scan(candidate("triton", '"""import socket; gc.get_objects()"""\n# os.fork()\n')) == ()


def test_definitions_of_other_peoples_functions_are_seen() -> None:
    text = 'extern "C" int clock_gettime(int, void*) { return 0; }\nstatic void free() {}\n'
    found = [(r.line, r.detail) for r in scan(candidate("cuda", text)) if r.name == "judge"]
    assert found == [(1, "clock_gettime")]


@pytest.mark.parametrize(
    "name", ["cuda/hidden_library", "triton/fallback_to_torch", "triton/hidden_library"]
)
def test_library_calls_are_found(name: str) -> None:
    (sample,) = [s for s in GPU if s.is_attack and s.id == f"attacks/{name}"]
    assert {remark.name for remark in library_calls(of(sample))} == {"library_call"}


@pytest.mark.parametrize(
    "sample",
    [s for s in GPU if not s.is_attack and s.language in ("cuda", "triton")],
    ids=lambda s: s.id,
)
def test_kernels_of_their_own_call_no_library(sample: CorpusSample) -> None:
    found = library_calls(of(sample))
    if sample.name == "library_beside_kernel":
        assert [remark.detail for remark in found] == ["torch.sum"]
    else:
        assert found == ()


INLINE = "from torch.utils.cpp_extension import load_inline\nload_inline('own', "


@pytest.mark.parametrize(
    ("language", "text", "found"),
    [
        ("triton", "def run_kernel(A, B, C):\n    C.copy_(A @ B)\n", ["@"]),
        ("triton", "import torch.nn.functional as F\nF.gelu(1)\n", ["torch.nn.functional.gelu"]),
        ("triton", "import torch\ny = torch.empty(3)\ntorch.cuda.current_stream()\n", []),
        ("triton", "import triton\n@triton.jit\ndef f(x):\n    return x.sum() @ x\n", []),
        ("triton", "import numpy as np\nn = np.prod((2, 3)) * np.float32(1).itemsize\n", []),
        (
            "triton",
            "import numpy as np\nnp.dot(1, 2)\nf = np.matmul\n",
            ["numpy.dot", "numpy.matmul"],
        ),
        ("triton", "import importlib.util\nimportlib.util.find_spec('triton')\n", []),
        ("triton", "import importlib\nimportlib.import_module(x)\n", ["importlib.import_module"]),
        ("torch", "import torch\nx = torch.tensor([1])\n@torch.compile\ndef f(): pass\n", []),
        (
            "torch",
            "import torch\n@torch.compile\ndef f(x): return torch.addmm(x, x, x)\n",
            ["torch.addmm"],
        ),
        ("torch", f"{INLINE}'#include <torch/extension.h>\\ntorch::Tensor f(at::Tensor);')\n", []),
        (
            "torch",
            f"{INLINE}'#include <torch/extension.h>\\nvoid f() {{ at::softmax(x); }}')\n",
            ["at::softmax"],
        ),
        ("cuda", "void f() { cublasSgemm(h); at::softmax(x); }", ["at::softmax", "cublasSgemm"]),
        ("cuda", "void f() { my_gemm(x); }", []),
        ("c", "void f() { cblas_sgemm(x); }", ["cblas_sgemm"]),
    ],
)
def test_what_counts_as_a_library_call(language: Language, text: str, found: list[str]) -> None:
    assert sorted(r.detail for r in library_calls(candidate(language, text))) == found


CAT = "#define CAT(a, b) a##b\n"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("void f(void) { vsExp(n, x, y); vmdLn(n, x, y, 1); }", ["vmdLn", "vsExp"]),
        ("void f(void) { sgesv_(&n); strsm_(&n); ssyrk_(&n); }", ["sgesv_", "ssyrk_", "strsm_"]),
        ("void f(void) { bli_sgemm(a); libxsmm_gemm(b); }", ["bli_sgemm", "libxsmm_gemm"]),
        ("void f(void) { cudnnConvolution(a); cublasLtMatmul(b); }",
         ["cublasLtMatmul", "cudnnConvolution"]),
        ("void f(void) { cuModuleLoadData(a); cudaLibraryLoadData(b); }",
         ["cuModuleLoadData", "cudaLibraryLoadData"]),
        (f"{CAT}void f(void) {{ CAT(cbl, as_sgemm)(a); }}", ["cblas_sgemm"]),
        (f"{CAT}#define D(a, b) CAT(a, b)\nvoid f(void) {{ CAT(CAT(cb, las), _sgemm)(a); }}",
         ["cblas_sgemm"]),
        ("#define V(a, ...) a##__VA_ARGS__\nvoid V(dlo, pen)(void);", ["dlopen"]),
        ("#define mm cblas_sgemm\nvoid f(void) { mm(a); }", ["cblas_sgemm"]),
        ('void mm(int) __asm__("cblas" "_sgemm");', ['asm "cblas_sgemm"']),
        ('void f(void) { __asm__("call dlopen@plt"); }', ['asm "dlopen"']),
        ('__asm__(".incbin \\"/usr/lib/libblas.a\\"");', [".incbin", 'asm ".incbin"']),
        ("void f(void) {}\n#pragma comment(lib, \"m\")\n", ["#pragma comment(lib"]),
        ("static char a[] = {\n#embed \"a.bin\"\n};", ["#embed"]),
        ("void f(void) { struct link_map *m; _DYNAMIC; }", ["_DYNAMIC", "link_map"]),
        ("#include <mkl_vml.h>\n#include <gsl/gsl_blas.h>\n#include <ipps.h>",
         ["#include gsl/gsl_blas.h", "#include ipps.h", "#include mkl_vml.h"]),
    ],
)  # fmt: skip
def test_names_of_libraries_and_ways_to_hide_them(text: str, found: list[str]) -> None:
    assert sorted(r.detail for r in library_calls(candidate("c", text))) == found


@pytest.mark.parametrize(
    "text",
    [
        "void f(float *vsum, float sAdd, float *ipps) { vsRow(vsum); sgemm(sAdd); }",
        f"{CAT}void CAT(my_, gemm)(void);\n#define TILE(i) t##i\nint TILE(0), TILE(1);",
        'void f(void) { __asm__ volatile("vfmadd231ps %0, %1, %2" : : ); }',
        "#include <cutlass/cutlass.h>\nusing G = cutlass::gemm::device::Gemm<float>;",
        "#include <cute/tensor.hpp>\nauto a = cute::make_tensor(p);",
        "void f() { cudaGetDriverEntryPoint(n, &p, 0, &q); gsl::span s; }",
        "#include <immintrin.h>\n#pragma omp parallel for\nvoid f() { _mm256_exp_ps(x); }",
    ],
)
def test_code_of_ones_own_has_other_names(text: str) -> None:
    assert library_calls(candidate("cuda", text)) == ()


TORCH = "import torch\n"
TRITON = "import triton\nimport triton.language as tl\n"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"{TORCH}f = torch.matmul\n", ["torch.matmul"]),
        (f"{TORCH}f = getattr(torch, 'matmul')\n", ["torch.matmul"]),
        (f"{TORCH}t = torch\nt.matmul(a, b)\n", [".matmul()", "torch"]),
        (f"{TORCH}F = torch.nn.functional\nF.gelu(a)\n", ["torch.nn.functional"]),
        (f"{TORCH}torch.ops.aten.mm(a, b)\n", ["torch.ops.aten", "torch.ops.aten.mm"]),
        (f"{TORCH}torch._C._nn.gelu(a)\n", ["torch._C._nn.gelu"]),
        (f"{TORCH}torch.cuda.torch.add(a, b)\n", ["torch.cuda.torch"]),
        (f"{TORCH}torch.Tensor.matmul(a, b)\n", ["torch.Tensor.matmul"]),
        (f"{TORCH}torch.__dict__['mm']\n", ["torch.__dict__"]),
        (f"{TORCH}import math as torch\ntorch.mm(a)\n", ["torch.mm"]),
        ("from torch import *\n", ["torch"]),
        ("from torch import matmul as m\nm(a, b)\n", ["torch.matmul"]),
        ("f = a.__matmul__\n", [".__matmul__()"]),
        ("getattr(a, 'softmax')(1)\n", [".softmax()"]),
        ("import operator\noperator.matmul(a, b)\n", ["operator.matmul"]),
        ("from operator import methodcaller\n", ["operator.methodcaller"]),
        ("import sys\nsys.modules['torch']\n", ["sys.modules"]),
        ("globals()['x']\n", ["globals"]),
        ("import ctypes\nctypes.CDLL('libcublas.so')\n", ["ctypes", "libcublas.so"]),
        ("import pickle\n", ["pickle"]),
        ("import nvmath\nimport tensorrt\n", ["nvmath", "tensorrt"]),
        ("from cutlass import op\nimport cutlass.cute as cute\n", ["cutlass.op"]),
        (f"{TORCH}@torch.jit.script\ndef f(a, b):\n    return a @ b\n", ["@", "torch.jit.script"]),
        ("def jit(f):\n    return f\n@jit\ndef g(a, b):\n    return a @ b\n", ["@"]),
        (f"{TRITON}def make(triton):\n    @triton.jit\n    def g(a, b):\n        return a @ b\n",
         ["@"]),
        (f"{TRITON}@triton.jit\ndef g(a, b):\n    return a @ b\ng.fn(a, b)\n",
         [".fn of a function that is compiled"]),
        (f"{INLINE}'', extra_ldflags=['-lcublas', '-lcuda'])\n", ["-lcublas"]),
        (f"{INLINE}'', extra_ldflags=flags)\n", ["extra_ldflags put together at run time"]),
        (f"{INLINE}'void f() {{ cublasSgemm(h); }}')\n", ["cublasSgemm"]),
    ],
)  # fmt: skip
def test_ways_to_reach_libraries_from_python(text: str, found: list[str]) -> None:
    assert sorted(r.detail for r in library_calls(candidate("triton", text))) == found


@pytest.mark.parametrize(
    "text",
    [
        f"{TORCH}def run(x: torch.Tensor) -> torch.dtype:\n    return torch.float8_e4m3fn\n",
        f"{TORCH}ok = hasattr(torch, 'float8_e4m3fn') and getattr(torch, 'float16')\n",
        f"{TORCH}s = torch._C._cuda_getCurrentRawStream(0)\ntorch.backends.cudnn.enabled = True\n",
        f"{TORCH}class F(torch.autograd.Function):\n    fn = None\n",
        f"{TRITON}@triton.autotune([], key=[])\n@triton.jit\ndef g(a):\n    return tl.sum(a @ a)\n"
        "g.fn[(1,)](a)\n",
        "from triton import jit\n@jit\ndef g(a):\n    return a.sum() @ a\n",
        "import cutlass.cute as cute\n@cute.kernel\ndef g(a):\n    return a @ a\n",
        "import math\nfrom dataclasses import dataclass\nmath.sqrt(2)\nmath.log2(3)\n",
        '"""Faster than cuBLAS; see libcublas.so and torch.matmul."""\n',
        f"{INLINE}'', extra_ldflags=['-lcuda'])\n",
    ],
)
def test_what_kernels_of_their_own_ask_for(text: str) -> None:
    assert library_calls(candidate("triton", text)) == ()


HELION = f"import helion\nimport helion.language as hl\n{TORCH}@helion.kernel()\ndef g(a, b):\n"
EACH = "    for at in hl.tile(a.size(0)):\n"


@pytest.mark.parametrize(
    ("language", "text", "found"),
    [
        ("helion", f"{HELION}{EACH}        b[at] = torch.exp(a[at]).sum(1) @ a[at]\n", []),
        ("helion", f"{HELION}    c = torch.mm(a, a)\n{EACH}        b[at] = c[at]\n", ["torch.mm"]),
        ("helion", f"{HELION}    c = a @ a\n    for at in [0]:\n        b[at] = a.exp()\n",
         [".exp()", "@"]),
        ("helion", f"{HELION}    def hl(): pass\n{EACH}        b[at] = torch.exp(a[at])\n",
         ["torch.exp"]),
        ("helion", "import helion\n@helion.kernel(ref_mode=mode)\ndef g(a): pass\n", ["ref_mode"]),
        ("helion", "import os\nos.environ['HELION_INTERPRET'] = '1'\n", ["HELION_INTERPRET"]),
        ("flydsl", "import flydsl.compiler as flyc\n@flyc.kernel\ndef g(a):\n    a @ a\n", []),
        ("triton", "import flydsl.compiler as flyc\n", ["flydsl.compiler"]),
        ("tilelang", "import tilelang.language as T\n@T.prim_func\ndef g(a):\n    a @ a\n", []),
        ("tilelang", "from tilelang import tvm\nimport tvm.contrib\n",
         ["tilelang.tvm", "tvm.contrib"]),
        ("cutedsl", "import cutlass.cute as cute\ncute.compile(g, a).launch(b)\n", []),
        ("gluon", "from triton.experimental import gluon\n@gluon.jit\ndef g(a):\n    a @ a\n", []),
    ],
)  # fmt: skip
def test_what_dialects_compile_is_no_librarys(
    language: Language, text: str, found: list[str]
) -> None:
    assert sorted(r.detail for r in library_calls(candidate(language, text))) == found


JITTED = f"{TRITON}@triton.jit\ndef g(a, b):\n    return a @ b\n"
KEPT = "of a function that is compiled"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import os\nt = os.sys.modules['torch']\n", ["os.sys", "os.sys.modules"]),
        ("import inspect\nm = inspect.sys\n", ["inspect.sys"]),
        ("m = x.y.sys.modules\n", ["x.y.sys", "x.y.sys.modules"]),
        ("m = f().import_module('torch')\n", [".import_module"]),
        ("from inspect import sys as s, importlib\n", ["inspect.importlib", "inspect.sys"]),
        ("from torch.library import torch as t\nt.conv2d(a)\n", ["torch.library.torch"]),
        ("from torch._dynamo.utils import np\n", ["torch._dynamo.utils.np"]),
        ("getattr(f(), 'sys')\n", [".sys()"]),
        ("import os\ngetattr(os, 'sys')\n", ["os.sys"]),
        ("look = getattr\n", ["getattr with a name put together at run time"]),
        ("list(map(getattr, [a], ['mm']))\n", ["getattr with a name put together at run time"]),
        ("match a:\n    case object(sys=s): pass\n", [".sys"]),
        ("import pydoc\nf = pydoc.locate('torch.mm')\n", ["pydoc"]),
        ("from unittest import mock\n", ["unittest.mock"]),
        ("t = f.__code__\n", ["f.__code__"]),
        ("import sys\nt = sys._getframe().f_globals\n", [".f_globals"]),
    ],
)  # fmt: skip
def test_ways_from_one_module_to_another(text: str, found: list[str]) -> None:
    assert sorted(r.detail for r in library_calls(candidate("triton", text))) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("mm = g.fn\nmm(a, b)\n", [f".fn {KEPT}"]),
        ("g.fn.__call__(a, b)\n", [f".fn {KEPT}"]),
        ("mm = g.fn.fn\n", [f".fn {KEPT}"]),
        ("getattr(g, 'fn')(a, b)\n", [f".fn {KEPT}"]),
        ("mm = g.__wrapped__\n", [f".__wrapped__ {KEPT}"]),
        ("def call(self, a, b):\n    return self.fn(a, b)\ncall(g, 1, 2)\n", [f".fn {KEPT}"]),
        ("class C:\n    def call(self, a):\n        return self.fn(a)\n", [f".fn {KEPT}"]),
        ("match g:\n    case object(fn=mm): pass\n", [f".fn {KEPT}"]),
        ("import inspect\nmm = inspect.unwrap(g)\n", ["inspect.unwrap"]),
        ("import inspect\ninspect.getattr_static(g, 'fn')(a, b)\n", ["inspect.getattr_static"]),
        ("t = g.get_capture_scope()\n", ["g.get_capture_scope"]),
    ],
)  # fmt: skip
def test_ways_back_from_a_compiled_function(text: str, found: list[str]) -> None:
    assert sorted(r.detail for r in library_calls(candidate("triton", JITTED + text))) == found


@pytest.mark.parametrize(
    "text",
    [
        "@triton.jit\n@mine\ndef g(a, b):\n    return a @ b\n",
        "@triton.autotune([], key=[])\n@triton.jit\n@mine\ndef g(a, b):\n    return a @ b\n",
        "triton.jit = mine\n@triton.jit\ndef g(a, b):\n    return a @ b\n",
        "@triton.heuristics({'X': lambda given: given['a'] @ given['b']})\n@triton.jit\n"
        "def g(a, b):\n    pass\n",
        "@triton.jit\ndef g(a=A @ B):\n    pass\n",
    ],
    ids=["below", "below a tuned one", "replaced", "of a heuristic", "of a default"],
)
def test_operators_that_no_compiler_gets(text: str) -> None:
    found = library_calls(candidate("triton", TRITON + text))
    assert [remark.detail for remark in found] == ["@"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("y = x.sort()\n", [".sort()"]),
        ("y.copy_(x.sort(dim=1)[0])\n", [".sort()"]),
        ("y = x.max(1)\n", [".max()"]),
        ("y = x.var(1) + x.std()\n", [".std()", ".var()"]),
        ("x.scatter(0, at, y)\nx.scatter_(0, at, y)\n", [".scatter()", ".scatter_()"]),
        ("y = x.log()\nx.log_()\n", [".log()", ".log_()"]),
        ("y = x.add(z, alpha=2)\nx.add_(z)\n", [".add()", ".add_()"]),
        ("x.pow(2)\nx.where(m, y)\nx.flip(0)\n", [".flip()", ".pow()", ".where()"]),
        ("y = getattr(x, 'max')(1)\n", [".max()"]),
        ("match x:\n    case object(softmax=f): pass\n", [".softmax"]),
        ("import math as x\ndef run_kernel(x, y):\n    y.copy_(x.mm(x))\n", [".mm()"]),
        ("import math\nmath.a = x\ny = math.a.softmax(1)\n", [".softmax()"]),
        ("import math\nsetattr(math, 'a', x)\n", ["setattr on math"]),
        ("import math\ndef f():\n    global math\n    math = x\nmath.cos()\n", [".cos()"]),
    ],
)  # fmt: skip
def test_methods_of_tensors_that_compute(text: str, found: list[str]) -> None:
    assert sorted(r.detail for r in library_calls(candidate("triton", text))) == found


@pytest.mark.parametrize(
    "text",
    [
        "sizes.sort()\nsizes.sort(key=len, reverse=True)\n",
        "seen.add(1)\nfresh = [x for x in xs if not (x in seen or seen.add(x))]\n",
        "import math\nn = max(a, b) + math.log(n) + math.cos(n) + math.gcd(2, 4)\n",
        "top = lengths.max().item() + sizes.min()\nrows = x.max_rows\n",
        "log.log(10, 'built')\nassert mask.any() and x.equal(y)\n",
        "waiting.put(x)\npath = cache.put(text, name)\n",
        f"{TORCH}y = torch.empty(4, device=x.device)\ny.zero_()\ny.fill_(1)\ny.copy_(x)\n"
        "z = y.view(2, 2).t().contiguous().to(torch.float16).as_strided((2,), (1,)).clone()\n"
        "z.reshape(-1).expand(4, 2).permute(1, 0).flatten().unsqueeze(0).narrow(0, 0, 1).split(1)\n"
        "z.uniform_()\nn = z.numel() * z.element_size() + z.stride(0) + z.data_ptr() % 16\n",
        "for part in model.modules(): pass\nrows = x.cpu().numpy()\n",
        "class C:\n    def __init__(self, modules):\n        self.modules = modules\n"
        "    def all(self):\n        return self.modules\n",
        "import importlib.util\nok = importlib.util.find_spec('triton') is not None\n",
        "import inspect\nn = len(inspect.signature(f).parameters)\n",
        "import cutlass.torch as ct\nfrom cutlass import torch\nd = ct.dtype(x)\n",
        "import tilelang.language as T\ndef f(T): return T.shape\ndef g(): return T.max(0, 1)\n",
        f"{JITTED}g[(1,)](a, b)\ng.run(a, b, grid=(1,), warmup=True)\n",
        f"{JITTED}tuned = triton.autotune([], key=[])(g)\ntuned[grid](a, b)\ntuned.fn[grid](a)\n"
        "tuned.fn.fn[grid](a)\ntuned.fn.run(a, grid=(1,), warmup=False)\n"
        "print(tuned.base_fn.__name__, g.fn.arg_names)\n",
        "class Launcher:\n    def __init__(self, fn):\n        self.fn = fn\n"
        "    def __call__(self, *given):\n        return self.fn(*given)\n",
        "from dataclasses import dataclass\n@dataclass\nclass C:\n    fn: object\n"
        "    def __call__(self, x):\n        return self.fn(x)\n",
        f"{TRITON}@triton.jit\ndef part(a):\n    return a.max(0) + tl.max(a, 0) + a.sort()\n"
        "@triton.autotune([triton.Config({'B': b}) for b in (1, 2)], key=['N'])\n"
        "@triton.heuristics({'EVEN': lambda given: given['N'] % given['B'] == 0})\n"
        "@triton.jit(do_not_specialize=['N'])\n"
        "def g(a, N, B: tl.constexpr = 4):\n    tl.store(a, part(a @ a).log())\n",
        "try:\n    import triton\n    import triton.language as tl\nexcept ImportError:\n"
        "    triton = tl = None\n@triton.jit\ndef g(a):\n    return tl.sum(a @ a)\n",
        f"{TRITON}class C:\n    @staticmethod\n    @triton.jit\n    def g(a):\n"
        "        return a @ a\n",
        f"{TRITON}triton.knobs.autotuning.print = True\n@triton.jit\ndef g(a):\n    return a @ a\n",
    ],
)
def test_honest_neighbours_of_these(text: str) -> None:
    assert library_calls(candidate("triton", text)) == ()


BY_ANY_NAME = "os.environ with a name put together at run time"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import os\nos.environ['TRITON_INTERPRET'] = '1'\n", ["TRITON_INTERPRET"]),
        ("import os\nos.environ.update(TRITON_INTERPRET='1')\n", ["TRITON_INTERPRET"]),
        ("import os\nos.environ['TRITON_' + 'INTERPRET'] = '1'\n", [BY_ANY_NAME]),
        ("import os\nos.environ.update({a: '1'})\n", [BY_ANY_NAME]),
        ("import os\nos.environ.update(**{a: '1'})\n", [BY_ANY_NAME]),
        ("import os\nos.environ |= {a: '1'}\n", [BY_ANY_NAME]),
        ("from os import environ as e\nf = e.__setitem__\n", [BY_ANY_NAME]),
        ("import os\nput(os.environ)\n", [BY_ANY_NAME]),
        ("import os\nos.putenv(a, '1')\n", ["os.putenv"]),
        ("import triton\ntriton.knobs.runtime.interpret = True\n",
         ["triton.knobs.runtime.interpret"]),
        ("from triton import knobs as k\nk.runtime.interpret = True\n",
         ["triton.knobs.runtime.interpret"]),
    ],
)  # fmt: skip
def test_ways_to_have_kernels_interpreted(text: str, found: list[str]) -> None:
    """Then their operators are PyTorch's."""
    remarks = library_calls(candidate("triton", text))
    assert sorted(remark.detail for remark in remarks) == found


@pytest.mark.parametrize(
    "text",
    [
        "import os\nos.environ['TORCH_CUDA_ARCH_LIST'] = '9.0a'\n",
        "import os\nos.environ.setdefault('TRITON_CACHE_DIR', '/tmp/a')\n",
        "import os\nos.environ.update({'OMP_NUM_THREADS': '4'})\n",
        "import os\nfast = os.environ.get(f'{a}_FAST', '0') == '1' or os.environ[a]\n",
        "import os\nif 'FAST' in os.environ: pass\n",
        "import os\nenvironment = {**os.environ, 'A': '1'}\nother = dict(os.environ)\n",
        "import os\ndel os.environ['A']\nos.environ.pop('B', None)\n",
    ],
)
def test_an_environment_may_be_read_and_set_by_plain_names(text: str) -> None:
    assert library_calls(candidate("triton", text)) == ()


def test_a_candidates_other_files_may_be_imported() -> None:
    kernel = "import tiles\nfrom parts import sums\n"
    texts = {"kernel.py": kernel, "tiles.py": "", "parts/sums.py": ""}
    sources = tuple(SourceFile(path=path, text=text) for path, text in texts.items())
    whole = Candidate(language="triton", sources=sources)
    assert library_calls(whole) == ()
    assert {r.detail for r in library_calls(candidate("triton", kernel))} == {
        "parts", "tiles",
    }  # fmt: skip


def test_what_cannot_be_read_is_said() -> None:
    (remark,) = scan(candidate("torch", "def run_kernel(:\n"))
    assert (remark.name, remark.line) == ("unreadable", 1)
    assert library_calls(candidate("triton", "\0"))[0].name == "unreadable"


PIECES = st.sampled_from(
    [
        "import os\n", "(", ")", "@", "def f(x):\n ", "__attribute__((", "asm(", '"', 'R"(',
        "static ",
        "const_cast<", "std::map<int*", "\0", "\ud800", "#include <", "wait_stream", ".set_", "\\u",
    ]
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(
    language=st.sampled_from(["c", "cpp", "cuda", "hip", "triton", "torch"]),
    text=st.one_of(st.text(), st.lists(st.one_of(PIECES, st.text(max_size=4))).map("".join)),
)
@pytest.mark.slow
def test_any_text_is_scanned(language: Language, text: str) -> None:
    read = candidate(language, text)
    for remark in (*scan(read), *library_calls(read)):
        assert 1 <= remark.line <= text.count("\n") + text.count("\r") + text.count("\f") + 1
        assert remark.text


@pytest.mark.parametrize(("language", "levels"), [("torch", 5000), ("cuda", 30_000)])
def test_deep_nesting_is_said(language: Language, levels: int) -> None:
    deep = candidate(language, f"x = {'(' * levels}y{')' * levels}")
    assert "unreadable" in {remark.name for remark in scan(deep)}
    assert "unreadable" in {remark.name for remark in library_calls(deep)}


def test_a_repositorys_files_are_read_by_their_names() -> None:
    files = {
        "ops/clock.py": "import time\ntime.perf_counter = lambda: 0.0\n",
        "src/clock.c": "int clock_gettime(int c, void *t) { return 0; }\n",
        "data/import.rows": "import time\nint clock_gettime(int c, void *t) { return 0; }\n",
    }
    sources = tuple(SourceFile(path=path, text=text) for path, text in files.items())
    found = Candidate(language="command", sources=sources)
    told = remarks_on(found)
    assert any("ops/clock.py:2: " in line for line in told)
    assert any("src/clock.c:1: " in line for line in told)
    assert not any("data/" in line for line in told)


def test_of_a_repository_only_what_is_new_is_remarked_on() -> None:
    old = SourceFile(path="ops/old.py", text="import socket\nsocket.socket()\n")
    new = SourceFile(path="ops/new.py", text="import time\ntime.time = lambda: 0.0\n")
    incumbent = Candidate(language="command", sources=(old,))
    found = Candidate(language="command", sources=(old, new))
    judged = with_remarks(Judgement(verdict="tie", wall_s=0.0), found, incumbent)
    assert judged.notes
    assert all("ops/new.py" in note for note in judged.notes)
    assert judged.remarks[0].name == "judge"
    same = new.model_copy(update={"text": f"{new.text}x = 1\n"})
    further = found.model_copy(update={"sources": (old, same)})
    judged = with_remarks(Judgement(verdict="tie", wall_s=0.0), further, found)
    assert (bool(judged.notes), judged.remarks) == (True, ())
