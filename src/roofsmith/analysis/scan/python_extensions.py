"""C++ and CUDA of a Python module's own: what it may name, what it is built with, its operators."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from roofsmith.analysis.scan.native_libraries import (
    is_foreign,
    is_library_header,
    library_calls_native,
)
from roofsmith.analysis.scan.operators import is_computing
from roofsmith.analysis.scan.python_names import Module
from roofsmith.analysis.scan.python_objects import Followed
from roofsmith.analysis.scan.runtimes import foreign_link
from roofsmith.analysis.scan.syntax import without_arguments

_BINDING = re.compile(
    r"#include (torch|ATen|c10)/.*|using namespace (at|torch|c10)"
    r"|c10::(?!(Dispatcher|(Typed)?OperatorHandle|OperatorName|KernelFunction|BoxedKernel)\b"
    r"|impl::(?!ScalarType|VirtualGuardImpl|(In|Ex)clude)).*"
    r"|at::cuda::(?!blas|sparse|solver|detail)\w+(::\w+)*"
    r"|at::cuda::detail::(getDefaultCUDAGenerator|\w*TensorInfo|canUse32BitIndexMath|IndexToOffset"
    r"|GET_BLOCKS|CUDA_NUM_THREADS)"
    r"|at::native::(memory|cuda_utils)::\w+|at::native::fastAtomicAdd|at::vec::\w+(::\w+)*"
    r"|at::(detail::empty_cuda|internal::GRAIN_SIZE)"
    r"|(at|torch)::(((ScalarType|MemoryFormat|Layout|DeviceType|headeronly|stable::accelerator"
    r"|CppFunction|RecordFunction|RecordScope)(::\w+)*)|indexing::(Slice|None|Ellipsis|TensorIndex)"
    r"|autograd::(Function|AutogradContext|variable_list|tensor_list|Variable)"
    r"|stable::(Tensor|empty\w*|new_empty)|Tensor(Base|Options|List|Accessor|Ref|Arg)?|Scalar"
    r"|Device|DeviceGuard|(Optional)?IntArrayRef|ArrayRef|NoGradGuard|InferenceMode|AutoDispatch\w+"
    r"|Half|BFloat16|Float8_\w+|optional|nullopt|dtype|device(_of)?|requires_grad|k[A-Z]\w*"
    r"|(empty|zeros|ones|full)(_like|_strided|_symint)?|arange|tensor|scalar_tensor|rand|randn"
    r"|from_blob|(Restrict|Default)PtrTraits|(Generic)?PackedTensorAccessor(32|64)?|opmath_type"
    r"|OpMathType(::type)?|acc_type|Library|class_|init|CustomClassHolder|schema|dispatch"
    r"|RegisterOperators|Generator|get_generator_or_default|CUDAGeneratorImpl|PhiloxCudaState"
    r"|parallel_(for|reduce)|[gs]et_num_threads|get_thread_num|in_parallel_region|intraop_launch"
    r"|CheckedFrom|check[A-Z]\w*|ceil_div|round_up|divup|_isnan|DataPtr|DimVector|List|toString"
    r"|OptionalTensorRef|borrow_from_optional_tensor|elementSize"
    r"|is(Floating|Integral|Complex|Reduced\w*)Type)"
)
"""What it may ask of PyTorch: the same as in Python."""
_MACRO = re.compile(r"(?:-D|--define-macro[= ])\s*(\w+(?:\([^)]*\))?)=(.+)", re.DOTALL)
_INCLUDED = re.compile(r"-(?:include|imacros)\s*(\S+)")
_HEADERS = (".h", ".hh", ".hpp", ".cuh")
_REGISTERS = re.compile(r"TORCH_LIBRARY(?:_FRAGMENT)?\(\s*(\w+)")
_TAKEN = frozenset((
    "_C", "_c10d_functional", "_quantized", "aten", "c10d", "higher_order", "inductor", "mkl",
    "mkldnn", "mkldnn_prepacked", "onednn", "prepacked", "prim", "prims", "quantized",
    "quantized_decomposed", "rngprims", "sparse", "symm_mem", "xnnpack",
))  # fmt: skip
"""PyTorch's own."""
_LOADERS = frozenset(("torch.utils.cpp_extension.load", "torch.utils.cpp_extension.load_inline"))
_OTHERS = _LOADERS | {
    "collections.Counter", "collections.OrderedDict", "decimal.Decimal", "pathlib.Path",
    "pathlib.PurePath", "re.compile",
}  # fmt: skip
"""Functions that make no tensor, but have methods of the same names: extensions of the module's
own, whose C++ is read itself, patterns, paths, numbers."""


def is_binding(detail: str) -> bool:
    """Whether C++ that binds a kernel to Python may name this: tensors, types, memory, streams."""
    return _BINDING.fullmatch(without_arguments(detail)) is not None


def strings(path: str, module: Module) -> Iterator[tuple[str, int]]:
    """Library calls in C++ and CUDA that a module has compiled, and in what it is built with."""
    documentation = {id(node.value) for node in ast.walk(module.tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        text = node.value
        if any(mark in text for mark in ("#include", "__global__")) or (
            ";" in text and id(node) not in documentation
        ):
            for remark in library_calls_native(path, text, allowed=is_binding).in_order:
                yield remark.detail, node.lineno
        elif id(node) not in documentation and _brings_code(text):
            yield text, node.lineno


def _brings_code(flag: str) -> bool:
    """Whether a compiler's flag links, includes or names a library's code."""
    if any(map(foreign_link, flag.split(",") if flag.startswith("-W") else (flag,))):
        return True
    header = _INCLUDED.fullmatch(flag)
    if is_library_header(header[1] if header else flag) and (header or flag.endswith(_HEADERS)):
        return True
    macro = _MACRO.fullmatch(flag)
    words = re.findall(r"[A-Za-z_][\w:]*", macro[2]) if macro else []
    return any(is_foreign(word) or is_computing(word) for word in words)


def own_operators(module: Module) -> Iterator[str]:
    """Full names below `torch.ops` that the module itself defines, and nobody else may have."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _below(_REGISTERS.findall(node.value))
        elif isinstance(node, ast.Call) and module.stands_for_import(node.func):
            said = [part.value for part in node.args if isinstance(part, ast.Constant)]
            name = module.dotted(node.func)
            if name == "torch.library.Library" and said[1:2] in (["DEF"], ["FRAGMENT"]):
                yield from _below([str(said[0])])
            elif name in ("torch.library.custom_op", "torch.library.triton_op") and said:
                space, _, own = str(said[0]).partition("::")
                yield from (f"{below}.{own}" for below in _below([space]) if own)


def _below(spaces: list[str]) -> list[str]:
    return [f"torch.ops.{space}" for space in spaces if space not in _TAKEN]


def is_no_tensor(module: Followed, node: ast.expr) -> bool:
    """Whether an expression can only be something that is made by one of `_OTHERS`."""
    makers = module.makers_of(node)
    return bool(makers) and _OTHERS.issuperset(makers)
