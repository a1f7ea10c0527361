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
from roofsmith.analysis.scan.python_compiled import (
    PLAIN,
    host_nodes,
    is_of_own_class,
    is_plain_function,
)
from roofsmith.analysis.scan.python_interpreting import interpreting
from roofsmith.analysis.scan.python_names import Module, parsed, uses
from roofsmith.analysis.scan.python_tensors import call_computes, is_computing, is_product
from roofsmith.analysis.scan.rules import Remarks, matches, rules
from roofsmith.analysis.scan.runtimes import foreign_link

_REACHING = frozenset((
    "_ctypes", "_imp", "_pickle", "builtins", "code", "codeop", "ctypes", "doctest", "gc", "imp",
    "marshal", "pdb", "pickle", "pkgutil", "pydoc", "rlcompleter", "runpy", "shelve", "trace",
    "zipimport",
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
    "vars", "__builtins__", "__loader__", "__spec__", "inspect.getattr_static",
    "inspect.getclosurevars", "inspect.getmembers", "inspect.getmembers_static",
    "inspect.getmodule", "inspect.unwrap", "logging.config", "string.Formatter",
    "typing.ForwardRef", "typing.get_type_hints", "unittest.mock",
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
_DOORS = frozenset((
    "_C", "__builtins__", "__closure__", "__code__", "__dict__", "__getattribute__",
    "__getstate__", "__globals__", "__import__", "__loader__", "__reduce__", "__reduce_ex__",
    "__self__", "__subclasses__", "aten", "attrgetter", "exec_module", "f_builtins", "f_globals",
    "f_locals", "get_capture_scope", "import_module", "load_module", "methodcaller",
    "module_from_spec", "prims",
))  # fmt: skip
"""Attributes that lead from any object or module to all of a library."""
_MODULES = frozenset((
    "_imp", "_sys", "bltns", "builtins", "ctypes", "gc", "importlib", "inspect", "modules",
    "numpy", "pickle", "pkgutil", "sys", "torch",
))  # fmt: skip
"""The same, but for methods and a class's own attributes of such names: modules aren't called."""
_SHORT = frozenset(("np", "tnp"))
"""What modules call modules that they have imported; of other objects, names like any other."""
_OF_THEIR_OWN = frozenset(("cutlass.torch", "torch._C"))
"""Modules of such names that are looked at part by part."""
_VALUES = frozenset(("torch", "numpy", "operator", "sys"))
"""Modules that are used by their attributes alone: as values, they could be asked for anything."""
_BINDING = re.compile(
    r"#include (torch|ATen|c10)/.*|c10::.*|at::cuda::(?!blas|sparse|solver|detail)\w+"
    r"|(at|torch)::(Tensor|TensorOptions|Scalar|Device|IntArrayRef|NoGradGuard|Half|BFloat16"
    r"|ScalarType|optional|nullopt|dtype|device|headeronly|stable|k[A-Z]|empty|zeros)\w*(::\w+)*"
)
"""What C++ of its own may ask of PyTorch: the same."""
_AT_RUN_TIME = "getattr with a name put together at run time"


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
    for name, line in interpreting(module):
        found.add("library_call", line, name)
    _strings(path, module, found)
    for node in host_nodes(module):
        if isinstance(node, (ast.BinOp, ast.AugAssign)) and isinstance(node.op, ast.MatMult):
            found.add("library_call", node.lineno, "@")
        elif isinstance(node, ast.Attribute):
            _attribute(module, node, found)
        elif isinstance(node, ast.Name):
            _name(module, node, found)
        elif isinstance(node, ast.MatchClass):
            _pattern(node, found)
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
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                if _leads_on(alias.name, name, is_imported=True):
                    yield name, node.lineno


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


def _attribute(module: Module, node: ast.Attribute, found: Remarks) -> None:
    if not isinstance(node.ctx, ast.Load):
        return
    name = module.dotted(node) or f".{node.attr}"
    parent = module.parents[id(node)]
    is_called = isinstance(parent, ast.Call) and parent.func is node
    if is_plain_function(module, node):
        found.add("library_call", node.lineno, _plain(node.attr))
    elif _leads_on(node.attr, name, is_imported=module.is_imported(node)) and not (
        node.attr in _MODULES and (is_called or is_of_own_class(module, node))
    ):
        found.add("library_call", node.lineno, name)
    elif is_product(node.attr) and not module.stands_for_import(node):
        found.add("library_call", node.lineno, f".{node.attr}()")


def _leads_on(attribute: str, name: str, *, is_imported: bool) -> bool:
    """Whether an attribute leads to all of a library; `name` is its full one."""
    if name in _OF_THEIR_OWN:
        return False
    return attribute in _DOORS | _MODULES or (is_imported and attribute in _SHORT)


def _plain(attribute: str) -> str:
    return f".{attribute} of a function that is compiled"


def _name(module: Module, node: ast.Name, found: Remarks) -> None:
    """A getattr that isn't called here can be asked for anything elsewhere."""
    parent = module.parents[id(node)]
    is_called = isinstance(parent, ast.Call) and parent.func is node
    if node.id == "getattr" and isinstance(node.ctx, ast.Load) and not is_called:
        found.add("library_call", node.lineno, _AT_RUN_TIME)


def _pattern(node: ast.MatchClass, found: Remarks) -> None:
    """Attributes that a pattern takes out of an object."""
    for attribute in node.kwd_attrs:
        if attribute in PLAIN:
            found.add("library_call", node.lineno, _plain(attribute))
        elif _leads_on(attribute, "", is_imported=True) or is_computing(attribute):
            found.add("library_call", node.lineno, f".{attribute}")


def _call(module: Module, call: ast.Call, found: Remarks) -> None:
    function = call.func
    for keyword in call.keywords:
        if keyword.arg == "extra_ldflags" and not _is_plain_list(keyword.value):
            found.add("library_call", call.lineno, "extra_ldflags put together at run time")
    if isinstance(function, ast.Name) and function.id == "getattr":
        _looked_up(module, call, found)
    elif isinstance(function, ast.Name) and function.id == "setattr":
        _replaced(module, call, found)
    method = _method(module, function)
    if method is not None and call_computes(module, call, method):
        found.add("library_call", call.lineno, f".{method}()")


def _method(module: Module, function: ast.expr) -> str | None:
    """The name of a method that is called, unless it is a function of an imported module."""
    if isinstance(function, ast.Attribute):
        return None if module.stands_for_import(function) else function.attr
    if isinstance(function, ast.Call) and _asks_for_attribute(function):
        owner, asked = function.args[:2]
        if isinstance(asked, ast.Constant) and not module.stands_for_import(owner):
            return str(asked.value)
    return None


def _replaced(module: Module, call: ast.Call, found: Remarks) -> None:
    """What is put into an imported module has a name that isn't its own."""
    if call.args and module.is_imported(call.args[0]):
        name = module.dotted(call.args[0]) or ""
        if not matches(name, "torch.backends"):
            found.add("library_call", call.lineno, f"setattr on {name}")


def _is_plain_list(node: ast.expr) -> bool:
    plain = isinstance(node, (ast.List, ast.Tuple))
    return plain and all(isinstance(part, ast.Constant) for part in ast.iter_child_nodes(node)
                         if isinstance(part, ast.expr))  # fmt: skip


def _looked_up(module: Module, call: ast.Call, found: Remarks) -> None:
    """What getattr finds."""
    if not _asks_for_attribute(call):
        found.add("library_call", call.lineno, _AT_RUN_TIME)
        return
    owner, attribute = call.args[:2]
    assert isinstance(attribute, ast.Constant)
    asked = str(attribute.value)
    if module.is_imported(owner):
        for name in (f"{meant}.{asked}" for meant in module.meanings_of(owner)):
            if _is_of_torch(name) or _computes(name) or _leads_on(asked, name, is_imported=True):
                found.add("library_call", call.lineno, name)
    if asked in PLAIN:
        found.add("library_call", call.lineno, _plain(asked))
    elif not module.stands_for_import(owner) and (
        is_computing(asked) or _leads_on(asked, "", is_imported=False)
    ):
        found.add("library_call", call.lineno, f".{asked}()")
