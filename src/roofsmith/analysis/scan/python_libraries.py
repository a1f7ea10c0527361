"""Where a Python module leaves its work to a library, outside of functions that Triton compiles.

What may be imported, and asked of PyTorch and NumPy, is a list of what is allowed: nobody can list
all libraries, nor all operators. Ways to look up names that are put together at run time count as
calls.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator

from roofsmith.analysis.scan.native_libraries import library_calls_native
from roofsmith.analysis.scan.python_names import Module, parsed, uses
from roofsmith.analysis.scan.rules import Remarks, matches, rules
from roofsmith.analysis.scan.runtimes import foreign_link

_REACHING = frozenset((
    "_ctypes", "_pickle", "builtins", "code", "codeop", "ctypes", "gc", "imp", "marshal", "pickle",
    "pkgutil", "runpy", "shelve", "zipimport",
))  # fmt: skip
"""Of the standard library: what opens libraries, or finds objects by names."""
_TOOLS = frozenset((
    "cuda", "cutlass", "helion", "numba", "numpy", "packaging", "pycuda", "tilelang", "torch",
    "triton", "typing_extensions",
))  # fmt: skip
"""Beside the standard library: what kernels are written with, and what counts for them."""
_READY_MADE = (
    "cutlass.op", "cutlass_library", "triton.ops", "cuda.cccl", "cuda.parallel",
    "cuda.cooperative", "operator.attrgetter", "operator.methodcaller", "operator.matmul",
    "operator.imatmul", "operator.__matmul__", "operator.__imatmul__", "sys.modules", "globals",
    "vars", "__builtins__", "__loader__", "__spec__", "inspect.getmodule",
)  # fmt: skip
"""Of the allowed modules and of builtins: finished operators, and ways to look up any."""
_LOOKING_UP = (
    "importlib.machinery",
    "importlib.metadata",
    "importlib.resources",
    "importlib.util.find_spec",
)
"""Of importlib: facts about what is installed."""
_COUNTING = frozenset((
    "array", "asarray", "bool_", "ceil", "dtype", "e", "finfo", "float16", "float32", "float64",
    "floor", "generic", "iinfo", "inf", "int16", "int32", "int64", "int8", "integer", "log2",
    "nan", "ndarray", "pi", "prod", "sqrt", "typing", "uint16", "uint32", "uint64", "uint8",
))  # fmt: skip
"""Of NumPy: types, constants, and what grids and block sizes are worked out with."""
_ALLOCATING = (
    "torch.empty", "torch.empty_like", "torch.empty_strided", "torch.zeros", "torch.zeros_like",
    "torch.full", "torch.full_like", "torch.ones", "torch.ones_like", "torch.arange",
    "torch.device", "torch.cuda", "torch.inference_mode", "torch.no_grad", "torch.Generator",
    "torch.finfo", "torch.iinfo", "torch.is_tensor", "torch.version", "torch.library",
    "torch.tensor", "torch.as_tensor", "torch.from_numpy", "torch.from_dlpack", "torch.Size",
    "torch.as_strided", "torch.reshape", "torch.squeeze", "torch.unsqueeze", "torch.promote_types",
    "torch.get_default_dtype", "torch.is_floating_point", "torch.is_grad_enabled",
    "torch.set_grad_enabled", "torch.manual_seed", "torch.compile", "torch.compiler",
    "torch.utils.cpp_extension", "torch.nn.Parameter", "torch.nn.Module", "torch.backends",
    "torch.enable_grad", "torch.is_inference_mode_enabled", "torch.is_complex", "torch.profiler",
    "torch.set_float32_matmul_precision", "torch.get_float32_matmul_precision", "torch.types",
    "torch.utils.dlpack", "torch.autograd.profiler", "torch.get_device_module", "torch._dynamo",
    "torch.rand", "torch.rand_like", "torch.randn", "torch.randn_like", "torch.randint",
    "torch.set_default_dtype", "torch.set_default_device",
)  # fmt: skip
"""What a kernel of its own may ask of PyTorch: memory, views, streams, facts, compilers. What
torch.compile is given and C++ in strings are read themselves."""
_FACTS = re.compile(
    r"torch\.(Tensor|nn\.Buffer|dtype|layout|memory_format|Stream|Event|strided|\w+_format"
    r"|channels_last(_3d)?|bool|half|float|double|short|int|long|(c|bf)?float\d*\w*|[cq]?u?int\d+"
    r"|cdouble|chalf|complex\d+|inf|nan|pi|e|__version__|autograd\.Function"
    r"|autograd\.function\.(Function|FunctionCtx|once_differentiable)"
    r"|_C\._cuda_getCurrentRawStream)"
)
"""Of PyTorch: types and constants, but nothing below them."""
_COMPUTING_METHODS = frozenset((
    "abs", "absolute", "acos", "acosh", "add_", "addbmm", "addbmm_", "addcdiv", "addcdiv_",
    "addcmul", "addcmul_", "addmm", "addmm_", "addmv", "addmv_", "addr", "addr_", "amax", "amin",
    "aminmax", "argmax", "argmin", "argsort", "asin", "asinh", "atan", "atan2", "atanh", "baddbmm",
    "baddbmm_", "bincount", "bmm", "bucketize", "cholesky", "clamp", "clamp_", "clip_", "cosh",
    "count_nonzero", "cross", "cummax", "cummin", "cumprod", "cumsum", "cumsum_", "det", "diff",
    "dist", "div", "div_", "dot", "einsum", "erf", "erfc", "erfinv", "exp", "exp2", "exp_",
    "expm1", "fmod", "gather", "ger", "heaviside", "histc", "hypot", "igamma", "index_add",
    "index_add_", "index_reduce_", "index_select", "inner", "inverse", "kron", "kthvalue", "lerp",
    "lerp_", "lgamma", "log1p", "log_", "log_softmax", "logaddexp", "logcumsumexp", "logdet",
    "logsumexp", "masked_fill", "masked_fill_", "masked_scatter", "masked_select", "matmul",
    "matrix_exp", "matrix_power", "mean", "median", "mm", "mode", "msort", "mul", "mul_",
    "multinomial", "mv", "nanmean", "nansum", "neg", "neg_", "nonzero", "norm", "outer", "pinverse",
    "pow_", "prod", "put_", "qr", "quantile", "reciprocal", "reciprocal_", "relu", "relu_",
    "renorm", "roll", "rsqrt", "rsqrt_", "scatter_", "scatter_add", "scatter_add_",
    "scatter_reduce", "scatter_reduce_", "sgn", "sigmoid", "sigmoid_", "sinc", "sinh", "slogdet",
    "softmax", "sqrt", "sqrt_", "square", "square_", "std", "sub", "sub_", "sum", "svd", "take",
    "tan", "tanh", "tanh_", "tensordot", "topk", "trace", "trapz", "tril", "triu", "trunc",
    "unique", "vdot",
))  # fmt: skip
"""Of tensors; names that Python's own containers share are left out."""
_PRODUCTS = frozenset((
    "__imatmul__", "__matmul__", "__rmatmul__", "addbmm", "addmm", "addmm_", "addmv", "baddbmm",
    "bmm", "einsum", "matmul", "mm", "mv", "tensordot",
))  # fmt: skip
"""Of these, what is no name of anybody's own: taken, and called elsewhere, they count as well."""
_DOORS = frozenset((
    "_C", "__builtins__", "__dict__", "__getattribute__", "__globals__", "__import__",
    "__loader__", "__subclasses__", "aten", "ctypes", "prims", "torch",
))  # fmt: skip
"""Attributes that lead from any object or module to all of a library."""
_VALUES = frozenset(("torch", "numpy", "operator", "sys"))
"""Modules that are used by their attributes alone: as values, they could be asked for anything."""
_COMPILERS = frozenset((
    "triton.jit", "triton.runtime.jit", "triton.runtime.jit.jit", "triton.experimental.gluon.jit",
    "numba.cuda.jit", "cutlass.cute.jit", "cutlass.cute.kernel", "helion.kernel",
))  # fmt: skip
"""Decorators of functions whose operators are instructions, not calls."""
_BINDING = re.compile(
    r"#include (torch|ATen|c10)/.*|c10::.*|at::cuda::(?!blas|sparse|solver|detail)\w+"
    r"|(at|torch)::(Tensor|TensorOptions|Scalar|Device|IntArrayRef|NoGradGuard|Half|BFloat16"
    r"|ScalarType|optional|nullopt|dtype|device|headeronly|stable|k[A-Z]|empty|zeros)\w*(::\w+)*"
)
"""What C++ of its own may ask of PyTorch: the same."""


def library_calls_python(
    path: str, text: str, own_modules: frozenset[str] = frozenset()
) -> Remarks:
    """Calls that do a kernel's work in a library, outside of functions that Triton compiles.

    Args:
        path: of the file, for the remarks.
        text: its content.
        own_modules: what the candidate's other files are imported as.
    """
    found = Remarks(path)
    module = parsed(text, found)
    if module is None:
        return found
    for name, line in _imports(module.tree, own_modules):
        found.add("library_call", line, name)
    for name, line in uses(module):
        if _computes(name):
            found.add("library_call", line, name)
    for name, line in _values(module):
        if _is_of_torch(name) or name in _VALUES:
            found.add("library_call", line, name)
    _strings(path, module, found)
    for node in _host_nodes(module):
        if isinstance(node, (ast.BinOp, ast.AugAssign)) and isinstance(node.op, ast.MatMult):
            found.add("library_call", node.lineno, "@")
        elif isinstance(node, ast.Attribute):
            _attribute(module, node, found)
        elif isinstance(node, ast.Call):
            _call(module, node, found)
    return found


def _imports(tree: ast.Module, own_modules: frozenset[str]) -> Iterator[tuple[str, int]]:
    """Modules that are neither the language's nor tools, and stars, behind which names hide."""
    allowed = (sys.stdlib_module_names | _TOOLS | own_modules) - _REACHING
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] not in allowed:
                    yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            head = node.module.partition(".")[0]
            is_hidden = head in _VALUES and any(alias.name == "*" for alias in node.names)
            if head not in allowed or is_hidden:
                yield node.module, node.lineno


def _computes(name: str) -> bool:
    """Whether an imported name does a kernel's work in a library, or may stand for any."""
    head, _, rest = name.partition(".")
    if head == "numpy":
        return bool(rest) and rest.partition(".")[0] not in _COUNTING
    if name in ("importlib", "importlib.util") or any(matches(name, own) for own in _LOOKING_UP):
        return False
    hidden = rules()["dynamic_names"].python
    return any(matches(name, pattern) for pattern in (*_READY_MADE, *hidden))


def _is_of_torch(name: str) -> bool:
    """Whether a full name is an operator of PyTorch, or a module that holds some."""
    if not matches(name, "torch") or _FACTS.fullmatch(name):
        return False
    return not any(matches(name, allowed) for allowed in _ALLOCATING)


def _values(module: Module) -> Iterator[tuple[str, int]]:
    """Full names of imported things wherever they are used, called or not."""
    passed = {id(n.value) for n in ast.walk(module.tree) if isinstance(n, ast.Attribute)}
    asked = {
        id(call.args[0])
        for call in ast.walk(module.tree)
        if isinstance(call, ast.Call) and call.args and _asks_for_attribute(call)
    }
    for node in ast.walk(module.tree):
        if not isinstance(node, (ast.Attribute, ast.Name)) or not isinstance(node.ctx, ast.Load):
            continue
        if id(node) in passed or id(node) in asked or not module.is_imported(node):
            continue
        for name in module.meanings_of(node):
            yield name, node.lineno


def _asks_for_attribute(call: ast.Call) -> bool:
    """Whether it is a getattr or hasattr whose name can be read."""
    return (
        isinstance(call.func, ast.Name)
        and call.func.id in ("getattr", "hasattr")
        and len(call.args) > 1
        and isinstance(call.args[1], ast.Constant)
    )


def _strings(path: str, module: Module, found: Remarks) -> None:
    """C++ and CUDA that a module has compiled, and what it is linked with."""
    documentation = {id(node.value) for node in ast.walk(module.tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        text = node.value
        if any(mark in text for mark in ("#include", "__global__")) or (
            ";" in text and id(node) not in documentation
        ):
            for remark in library_calls_native(path, text).in_order:
                if not _BINDING.fullmatch(remark.detail):
                    found.add("library_call", node.lineno, remark.detail)
        elif id(node) not in documentation and foreign_link(text):
            found.add("library_call", node.lineno, text)


def _host_nodes(module: Module) -> Iterator[ast.AST]:
    """All nodes but those of functions that Triton compiles."""
    replaced = module.own | {
        node.arg if isinstance(node, ast.arg) else node.id
        for node in ast.walk(module.tree)
        if isinstance(node, ast.arg)
        or (isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load))
    }
    waiting: list[ast.AST] = [module.tree]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += (
            child
            for child in ast.iter_child_nodes(node)
            if not (isinstance(child, ast.FunctionDef) and _is_compiled(module, child, replaced))
        )


def _is_compiled(module: Module, function: ast.FunctionDef, replaced: frozenset[str]) -> bool:
    """Whether a compiler's own decorator is on it, and not something else of that name."""
    for decorator in function.decorator_list:
        node = decorator.func if isinstance(decorator, ast.Call) else decorator
        if _root(node) not in replaced and _COMPILERS.issuperset(module.meanings_of(node) or {""}):
            return True
    return False


def _root(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _attribute(module: Module, node: ast.Attribute, found: Remarks) -> None:
    if not isinstance(node.ctx, ast.Load):
        return
    name = module.dotted(node) or ""
    if node.attr in _DOORS and name != "torch._C":  # whose parts are looked at one by one
        found.add("library_call", node.lineno, name or f".{node.attr}")
    elif node.attr in _PRODUCTS and not module.is_imported(node):
        found.add("library_call", node.lineno, f".{node.attr}()")


def _call(module: Module, call: ast.Call, found: Remarks) -> None:
    function = call.func
    if _is_uncompiled(function):
        found.add("library_call", call.lineno, ".fn() of a function that Triton compiles")
    for keyword in call.keywords:
        if keyword.arg == "extra_ldflags" and not _is_plain_list(keyword.value):
            found.add("library_call", call.lineno, "extra_ldflags put together at run time")
    if module.dotted(function) is not None and module.is_imported(function):
        return
    if isinstance(function, ast.Name) and function.id == "getattr":
        _looked_up(module, call, found)
    elif isinstance(function, ast.Attribute) and function.attr in _COMPUTING_METHODS:
        found.add("library_call", call.lineno, f".{function.attr}()")


def _is_uncompiled(function: ast.expr) -> bool:
    """Whether it is what Triton keeps of a function as Python: there, operators are PyTorch's."""
    if not isinstance(function, ast.Attribute) or function.attr != "fn":
        return False
    owner = function.value
    return not (isinstance(owner, ast.Name) and owner.id == "self")


def _is_plain_list(node: ast.expr) -> bool:
    plain = isinstance(node, (ast.List, ast.Tuple))
    return plain and all(isinstance(part, ast.Constant) for part in ast.iter_child_nodes(node)
                         if isinstance(part, ast.expr))  # fmt: skip


def _looked_up(module: Module, call: ast.Call, found: Remarks) -> None:
    """What getattr finds."""
    if not _asks_for_attribute(call):
        found.add("library_call", call.lineno, "getattr with a name put together at run time")
        return
    attribute = call.args[1]
    assert isinstance(attribute, ast.Constant)
    asked = str(attribute.value)
    if module.is_imported(call.args[0]):
        for owner in module.meanings_of(call.args[0]):
            name = f"{owner}.{asked}"
            if _is_of_torch(name) or _computes(name) or asked in _DOORS:
                found.add("library_call", call.lineno, name)
    elif asked in _DOORS or asked in _COMPUTING_METHODS or asked in _PRODUCTS:
        found.add("library_call", call.lineno, f".{asked}()")
