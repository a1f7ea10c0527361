"""Code of one's own is told from libraries' by its names: what is usual in the field passes."""

from __future__ import annotations

import pytest

from roofsmith.analysis.scan.sources import library_calls
from roofsmith.domain.kernel import MODULE_LANGUAGES, Candidate, Language, SourceFile


def named(language: Language, text: str) -> list[str]:
    path = "kernel.py" if language in MODULE_LANGUAGES else "kernel.cu"
    sources = (SourceFile(path=path, text=text),)
    return [
        remark.detail for remark in library_calls(Candidate(language=language, sources=sources))
    ]


EXTENSION = """
from torch.utils.cpp_extension import load_inline
CPP = '''{cpp}'''
ext = load_inline("k", cpp_sources=CPP, functions=["go"]{flags})
def run_kernel(x, y, N):
    ext.go(x, y)
"""


def extension(cpp: str, flags: str = "") -> str:
    return EXTENSION.format(cpp=cpp, flags=flags)


HONEST_PYTHON = {
    "types": """
import torch
from torch import bfloat16
NAMES = {torch.float16: "half", torch.bfloat16: "bfloat", torch.float8_e4m3fn: "e4m3",
         torch.cfloat: "c", torch.complex64: "c64", torch.uint16: "u16", torch.float32: "f"}
t = torch.cuda.FloatTensor(3)
""",
    "views, memory, facts and random numbers": """
import torch
def f(x):
    torch.transpose(x, 0, 1), torch.permute(x, (1, 0)), torch.flatten(x), torch.split(x, 2)
    torch.broadcast_to(x, (2, 3)), torch.unbind(x), torch.view_as_real(x), torch.numel(x)
    torch.clone(x), torch.linspace(0, 1, 8), torch.randperm(8), torch.get_num_threads()
    torch.nn.init.kaiming_uniform_(x), torch.broadcast_shapes((1, 2), (3, 1))
""",
    "modules that hold kernels": """
import torch
from torch import nn
class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.all = nn.ModuleList([nn.Identity()])
        self.weights = nn.ParameterList()
class Wrapped(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda")
    def forward(ctx, x): return x
    @staticmethod
    def backward(ctx, g): return g
g = Wrapped.backward(None, 1)
""",
    "what Inductor's wrappers ask for": """
import torch
assert_size_stride = torch._C._dynamo.guards.assert_size_stride
empty_strided_cuda = torch._C._dynamo.guards._empty_strided_cuda
reinterpret_tensor = torch.ops.inductor._reinterpret_tensor
""",
    "functions of an extension": """
from torch.utils.cpp_extension import load_inline
from functools import lru_cache
ext = load_inline("a", cpp_sources="", cuda_sources="", extra_cuda_cflags=["-O3", "-lineinfo"])
@lru_cache
def loaded():
    return load_inline("b", cpp_sources="")
class Model:
    def __init__(self):
        self.ops = load_inline("c", cpp_sources="")
    def forward(self, x, y):
        return self.ops.bmm(x, y)
def run_kernel(x, y):
    ext.softmax(x, y)
    ext.matmul(x, y)
    loaded().relu(x, y)
""",
    "operators of its own": """
import torch
@torch.library.custom_op("mine::scale", mutates_args=("y",))
def scale(x: torch.Tensor, y: torch.Tensor) -> None:
    pass
lib = torch.library.Library("whole", "DEF")
CPP = "TORCH_LIBRARY(native, m) { m.def(TORCH_SELECTIVE_SCHEMA); }"
def run_kernel(x, y):
    torch.ops.mine.scale(x, y)
    torch.ops.whole.anything.default(x, y)
    torch.ops.native.softmax(x, y)
""",
    "methods of its own classes": """
class Ops:
    def softmax(self, x, y): pass
    def mm(self, x, y): self.softmax(x, y)
    @staticmethod
    def matmul(x, y): pass
ops = Ops()
class Times(dict):
    def mean(self): return sum(self.values()) / len(self)
def run_kernel(x, y):
    ops.mm(x, y), Times().mean()
    Ops.matmul(x, y)
""",
    "methods of patterns and paths": """
import re
from pathlib import Path
NAME = re.compile(r"\\W")
def key(text): return NAME.sub("_", text)
HERE = Path(__file__).absolute()
""",
    "types of Triton's language": """
import triton.language as tl
def type_of(x): return getattr(tl, str(x.dtype).split(".")[-1])
""",
    "versions, devices and what runs around it": """
import numpy as np
import torch
import torch.distributed as dist
from torch._inductor.runtime import triton_helpers
from torch.nn.parameter import Parameter
MAJOR = torch.__version__.split(".")[0]
rank = dist.get_rank() if dist.is_initialized() and torch.xpu.is_available() else 0
torch._check_is_size(3), torch.jit.is_scripting(), torch.Tag.pt2_compliant_tag
t = torch.scalar_tensor(2), np.random.default_rng(0), np.zeros(3).ctypes.data
triton_helpers.set_driver_to_gpu()
""",
    "inputs that another file draws": """
import torch
def setup(N, seed=0):
    x = torch.softmax(torch.rand(N, 8), -1)
    return {"inputs": {"x": x.topk(2).values, "y": torch.empty(N)}, "outputs": ["y"]}
def reference(x, y): y.copy_(x.sum(-1))
def run_kernel(x, y): pass
if __name__ == "__main__":
    run_kernel(**setup(8)["inputs"])
""",
    "what it does as a program": """
import torch
def run_kernel(x, y): pass
if __name__ == "__main__":
    torch.testing.assert_close(torch.softmax(torch.rand(3), 0), torch.rand(3))
""",
}  # fmt: skip


@pytest.mark.parametrize("what", HONEST_PYTHON)
def test_modules_may_have(what: str) -> None:
    assert named("triton", HONEST_PYTHON[what]) == []


HONEST_EXTENSIONS = {
    "accessors": (
        "__global__ void k(torch::PackedTensorAccessor32<float, 2, torch::RestrictPtrTraits> a) {}"
        "template <typename T> struct S { using O = at::opmath_type<T>; at::acc_type<T, true> v; };"
    ),
    "memory": (
        "void go(torch::Tensor x, torch::Tensor y) { auto t = torch::full({4}, 1.0, x.options());"
        " auto u = torch::empty_like(x, x.options(), at::MemoryFormat::Contiguous); y.copy_(t); }"
    ),
    "threads": (
        "void go(at::Tensor x, at::Tensor y) { at::parallel_for(0, x.size(0), 1,"
        " [&](int64_t b, int64_t e) { for (auto i = b; i < e; i++) std::exp(1.0f * i); }); }"
    ),
    "guards": (
        "void go(at::Tensor x, at::Tensor y) { const c10::cuda::CUDAGuard guard(x.device());"
        " auto s = at::cuda::getCurrentCUDAStream();"
        " int n = std::max(1, (int)ceil(x.numel() / 2.0)); }"
    ),
    "code of the device": (
        "struct Row { float sum; }; __device__ float norm(Row r) { return r.sum; }"
        "__global__ void k(Tile tile, float* y) { y[0] = tile.sum() + tile.dot(tile); }"
    ),
    "checks, generators and vectors": (
        "void go(at::Tensor x) { at::TensorArg a{x, 0, 0}; at::checkDim(0, a, 2);"
        " auto g = at::get_generator_or_default<at::CUDAGeneratorImpl>(0,"
        " at::cuda::detail::getDefaultCUDAGenerator()); c10::OptionalDeviceGuard d(device_of(x));"
        " using V = at::vec::Vectorized<float>; auto n = at::ceil_div(x.numel(), 4); }"
    ),
    "functions with usual names": (
        "torch::Tensor softmax(torch::Tensor x) { return x; }"
        "void go(torch::Tensor x, torch::Tensor y) { y.copy_(softmax(x)); }"
    ),
    "blocks and warps of CUB": (
        "#include <cub/cub.cuh>\\n__global__ void k(float* x) {"
        " using R = cub::BlockReduce<float, 256>;"
        " __shared__ typename R::TempStorage t; x[0] = R(t).Reduce(x[threadIdx.x], cub::Max()); }"
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", HONEST_EXTENSIONS)
def test_extensions_may_have(what: str) -> None:
    assert named("torch", extension(HONEST_EXTENSIONS[what])) == []


def test_a_file_beside_a_module_is_read_in_its_own_language() -> None:
    sources = (
        SourceFile(path="kernel.py", text="def run_kernel(x, y): pass\n"),
        SourceFile(path="ops.cu", text="void go(torch::Tensor x) { x.zero_(); }\n"),
    )
    assert library_calls(Candidate(language="torch", sources=sources)) == ()
    calling = sources[1].model_copy(update={"text": "void go(at::Tensor x) { x.exp_(); }\n"})
    (found,) = library_calls(Candidate(language="torch", sources=(sources[0], calling)))
    assert (found.path, found.detail) == ("ops.cu", ".exp_()")


@pytest.mark.parametrize(
    "text",
    [
        "#include <curand_kernel.h>\n__global__ void k(float* x) {"
        " curandStatePhilox4_32_10_t s; curand_init(1, 2, 3, &s); *x = curand_uniform(&s); }",
        "#include <cub/warp/warp_reduce.cuh>\n__global__ void k(float* x) {"
        " typedef cub::WarpReduce<float> W; __shared__ W::TempStorage t; *x = W(t).Sum(*x); }",
        "__global__ void k(int* x) { cub::CTA_SYNC(); cub::LoadDirectStriped<32>(0, x, x); }",
        '#define TILES "tiles.h"\n#include TILES\n',
        "namespace cg = cooperative_groups;\nusing namespace nvcuda;\n",
    ],
)
def test_kernels_may_have(text: str) -> None:
    assert named("cuda", text) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import torch\ny = torch.float_power(x, 2)\n", ["torch.float_power"]),
        ("import torch\nf = torch.types.Tensor.mm\n", ["torch.types.Tensor.mm"]),
        ("from torch.types import Tensor\nf = Tensor.softmax\n", ["torch.types.Tensor.softmax"]),
        ("z.expand(3, 4).backward(x)\n", [".backward()"]),
        ("y.copy_(z._addmm_activation(a, b))\n", ["._addmm_activation()"]),
        ("import torch\nk = torch.library.get_kernel('aten::mm', 'CPU')\n",
         ["torch.library.get_kernel"]),
        ("import timeit\ntimeit.timeit('f()', setup='import torch')\n", ["timeit.timeit"]),
        ("from einops import rearrange, reduce\n", ["einops.reduce"]),
        ("from triton.runtime.interpreter import InterpretedFunction\n",
         ["triton.runtime.interpreter.InterpretedFunction"]),
        ("from cuda.pathfinder import load_nvidia_dynamic_lib\n",
         ["cuda.pathfinder.load_nvidia_dynamic_lib"]),
        ("T.call_packed('tvm.contrib.cublas.matmul', A)\n", ["T.call_packed"]),
        ("import torch\ndef setup(N): return torch.softmax(x, -1)\n"
         "def run_kernel(x, y): y.copy_(setup(3))\n", ["torch.softmax"]),
        ("import inspect\ninspect.signature(f, eval_str=True)\n", ["eval_str"]),
        ("import torch\ntorch.ops.mylib.go(1)\n", ["torch.ops.mylib.go"]),
        ("import torch\ntorch.library.Library('aten', 'DEF')\ntorch.ops.aten.mm(1)\n",
         ["torch.ops.aten", "torch.ops.aten.mm"]),
        ("import torch\ntorch.library.Library('theirs', 'IMPL')\ntorch.ops.theirs.mm(1)\n",
         ["torch.ops.theirs.mm"]),
        ("import torch\n@torch.library.custom_op('quantized::mine', mutates_args=())\n"
         "def f(): pass\ntorch.ops.quantized.matmul(1)\n", ["torch.ops.quantized.matmul"]),
    ],
)  # fmt: skip
def test_ways_to_operators_in_python(text: str, found: list[str]) -> None:
    assert set(found) <= set(named("torch", text))


CLASS = "class M:\n    def mm(self): pass\n"


@pytest.mark.parametrize(
    "text",
    [
        "ext = load_inline('k', cpp_sources='')\next = x\next.mm(y)\n",
        "def run_kernel(ext, y): ext.mm(y)\n",
        "for ext in (load_inline('k'), x): ext.mm(y)\n",
        "def loaded(): return x\nloaded().mm(y)\n",
        "class M:\n    def __init__(self):\n        self.e = load_inline('k')\n"
        "        setattr(self, 'e', x)\n    def go(self): self.e.mm(y)\n",
        f"{CLASS}m = M()\nm = x\nm.mm(y)\n",
        f"{CLASS}def go(self, y): self.mm(y)\n",
        f"{CLASS}    def go(self, y): self.mm(y)\nM.go(x, y)\n",
        f"{CLASS}    def go(self, y): self.mm(y)\ntype(M()).go(x, y)\n",
        f"{CLASS}    def go(self, y): self.mm(y)\nM().go.__func__(x, y)\n",
        f"{CLASS}    @staticmethod\n    def go(self, y): self.mm(y)\n",
        f"{CLASS}    def go(self, y):\n        self = y\n        self.mm(y)\n",
        f"{CLASS}    def __new__(cls, x): return x\nM(x).mm(y)\n",
        "class M(Base):\n    def mm(self): pass\nM(x).mm(y)\n",
        "class M(metaclass=Any):\n    def mm(self): pass\nM(x).mm(y)\n",
        f"@other\n{CLASS}M(x).mm(y)\n",
        "a.e = load_inline('k')\ndef go(self, y): self.e.mm(y)\ngo(SimpleNamespace(e=x), y)\n",
        "a.T = load_inline('k')\ndef go(self, y): self.T.mm(y)\ngo(x, y)\n",
        "__name__ = '__main__'\nif __name__ == '__main__':\n    x.mm(y)\n",
        "if __name__ != '__main__':\n    x.mm(y)\n",
    ],
)
def test_what_may_be_a_tensor_counts_as_one(text: str) -> None:
    found = named("torch", f"from torch.utils.cpp_extension import load_inline\n{text}")
    assert ".mm()" in found


@pytest.mark.parametrize(
    ("cpp", "flags", "found"),
    [
        ("void go(at::Tensor a, at::Tensor b) { a.copy_(a.matmul(b)); }", "", ".matmul()"),
        ("void go(at::Tensor a) { a.template sum<1>(0); }", "", ".sum()"),
        ("using namespace at; void go(Tensor a) { mm_out(a, a, a); }", "", "mm_out"),
        ("void go(at::Tensor a) { a.copy_(mm(a, a)); }", "", "mm"),
        ("namespace T = at; void go(T::Tensor a) {}", "", "namespace T = at"),
        ("auto op = c10::Dispatcher::singleton();", "", "c10::Dispatcher::singleton"),
        ('auto t = py::module_::import("torch");', "", "py::module_::import"),
        ('void go(py::object t) { t.attr("matmul")(t); }', "", ".matmul()"),
        ("void go(at::Tensor z) { z.expand({3}).backward(z); }", "", ".backward()"),
        ("void go(at::Tensor a) { a.FN(a); }", ', extra_cflags=["-DFN=mm"]', "-DFN=mm"),
        ("#define S(t) t.softmax(-1)\\nvoid go(at::Tensor a) { S(a); }", "", ".softmax()"),
        ("#define C(a, op, b) (a).op(b)\\nvoid go(at::Tensor a) { C(a, mm, a); }", "", "mm"),
        (
            "#define F(N, O, ...) N::O(__VA_ARGS__)\\nvoid go(at::Tensor a) { F(at, mm, a, a); }",
            "",
            "at::mm",
        ),
        (
            "void go(py::object a) { PyNumber_MatrixMultiply(a.ptr(), a.ptr()); }",
            "",
            "PyNumber_MatrixMultiply",
        ),
        (
            "void go(at::Tensor a) { aoti_torch_cpu_mm_out(&a, &a, &a); }",
            "",
            "aoti_torch_cpu_mm_out",
        ),
        ("#define FN mm\\nvoid go(at::Tensor a) { a.FN(a); }", "", "#define FN mm"),
        ("#define J(a, b) a##b\\nvoid go(at::Tensor a) { a.J(m, m)(a); }", "", "mm"),
        ("", ', extra_cuda_cflags=["-include", "cublas_v2.h"]', "cublas_v2.h"),
        ("", ', extra_cflags=["-include cublas_v2.h"]', "-include cublas_v2.h"),
        ("", ', extra_ldflags=["-Wl,--push-state,-lcublas"]', "-Wl,--push-state,-lcublas"),
        ("", ', extra_cflags=["-Dprod=cblas_sgemm"]', "-Dprod=cblas_sgemm"),
    ],
)
def test_ways_to_operators_in_an_extension(cpp: str, flags: str, found: str) -> None:
    assert found in named("torch", extension(cpp, flags))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("#define INC <thrust/sort.h>\n#include INC\n", "#include INC, which is <thrust/sort.h>"),
        ("#define S(x) <x/sort.h>\n#include S(thrust)\n", "#include S(thrust)"),
        ("#include GIVEN\n", "#include GIVEN"),
        ("#define L thrust\nvoid f() { L::sort(1, 2); }\n", "#define L thrust"),
        ("namespace q = thrust;\n", "namespace q = thrust"),
        ("#include <thru\\\nst/sort.h>\n", "#include thrust/sort.h"),
        ("void f() { thr\\\nust::sort(1, 2); }\n", "thrust::sort"),
        ("void f() { cub::DeviceReduce::Sum(1, 2); }\n", "cub::DeviceReduce::Sum"),
        ("#include <cub/device/device_reduce.cuh>\n", "#include cub/device/device_reduce.cuh"),
        (
            "#define C(n, a, b) n::a::b(1)\nvoid f() { C(cub, DeviceReduce, Sum); }\n",
            "cub::DeviceReduce::Sum",
        ),
        (
            "#include <cutlass/util/reference/device/gemm.h>\n",
            "#include cutlass/util/reference/device/gemm.h",
        ),
        ("int main() { PyRun_SimpleString(0); }\n", "PyRun_SimpleString"),
    ],
)
def test_ways_to_hide_a_library_in_a_source(text: str, found: str) -> None:
    assert found in named("cuda", text)
