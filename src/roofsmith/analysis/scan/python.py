"""What a Python module does, read from its syntax tree; nothing is run."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator

from roofsmith.analysis.scan.native import library_calls_native
from roofsmith.analysis.scan.rules import Remarks, matches, rules

_SYNC_METHODS = ("wait_stream", "wait_event")
_STREAM_USES = ("torch.cuda.Stream", "torch.cuda.stream", "torch.cuda.ExternalStream")

_ALLOCATING = (
    "torch.empty", "torch.empty_like", "torch.empty_strided", "torch.zeros", "torch.zeros_like",
    "torch.full", "torch.full_like", "torch.ones", "torch.ones_like", "torch.arange",
    "torch.device", "torch.cuda", "torch.inference_mode", "torch.no_grad", "torch.Generator",
    "torch.finfo", "torch.iinfo", "torch.is_tensor", "torch.version", "torch.library",
    "torch.tensor", "torch.as_tensor", "torch.from_numpy", "torch.from_dlpack", "torch.Size",
    "torch.as_strided", "torch.reshape", "torch.squeeze", "torch.unsqueeze", "torch.promote_types",
    "torch.get_default_dtype", "torch.is_floating_point", "torch.is_grad_enabled",
    "torch.set_grad_enabled", "torch.manual_seed", "torch.compile", "torch.compiler",
    "torch.utils.cpp_extension", "torch.nn.Parameter", "torch.nn.Module",
)  # fmt: skip
"""What a kernel of its own may ask of PyTorch: memory, views, streams, facts, compilers. What
torch.compile is given and C++ in strings are read themselves."""
_COUNTING = frozenset((
    "array", "asarray", "bool_", "ceil", "dtype", "e", "finfo", "float16", "float32", "float64",
    "floor", "generic", "iinfo", "inf", "int16", "int32", "int64", "int8", "integer", "log2",
    "nan", "ndarray", "pi", "prod", "sqrt", "typing", "uint16", "uint32", "uint64", "uint8",
))  # fmt: skip
"""Of NumPy: types, constants, and what grids and block sizes are worked out with."""
_LOOKING_UP = (
    "importlib.machinery",
    "importlib.metadata",
    "importlib.resources",
    "importlib.util.find_spec",
)
"""Of importlib: facts about what is installed."""
_COMPUTING_METHODS = frozenset((
    "abs", "add_", "addmm", "addmm_", "amax", "amin", "argmax", "argmin", "baddbmm",
    "bincount", "bmm", "clamp", "cumsum", "div", "div_", "einsum", "erf", "exp", "exp_",
    "index_add_", "log_softmax", "logsumexp", "matmul", "mean", "mm", "mul", "mul_", "mv",
    "neg", "norm", "prod", "reciprocal", "relu", "rsqrt", "scatter_add_", "scatter_reduce_",
    "sigmoid", "softmax", "sqrt", "square", "sub", "sub_", "sum", "tanh", "topk",
))  # fmt: skip
"""Of tensors; names that Python's own containers share are left out."""
_BINDING = re.compile(
    r"#include (torch|ATen|c10)/.*|c10::.*|at::cuda::(?!blas|sparse|solver|detail)\w+"
    r"|(at|torch)::(Tensor|TensorOptions|Scalar|Device|IntArrayRef|NoGradGuard|Half|BFloat16"
    r"|ScalarType|optional|nullopt|dtype|device|headeronly|stable|k[A-Z]|empty|zeros)\w*(::\w+)*"
)
"""What C++ of its own may ask of PyTorch: the same."""
_LIBRARIES = ("cupy", "jax", "scipy", "xformers", "flash_attn", "liger_kernel", "cutlass")


class _Module:
    """A parsed module, with what its names stand for."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.names = dict(_imported(tree))

    def dotted(self, node: ast.AST) -> str | None:
        """The full dotted name of an expression, such as `torch.nn.functional.gelu` for `F.gelu`.

        None for what isn't a chain of attributes that begins with a name.
        """
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return None
        return ".".join([self.names.get(node.id, node.id), *reversed(parts)])

    def is_imported(self, node: ast.AST) -> bool:
        """Whether an expression begins with an imported name."""
        while isinstance(node, (ast.Attribute, ast.Subscript)):
            node = node.value
        return isinstance(node, ast.Name) and node.id in self.names


def scan_python(path: str, text: str) -> Remarks:
    """Remarks on a module; a text that isn't Python gets one that says so."""
    found = Remarks(path)
    module = _parsed(text, found)
    if module is None:
        return found
    for name, line in _uses(module):
        for remark, rule in rules().items():
            if any(matches(name, pattern) for pattern in rule.python):
                found.add(remark, line, name)
    for node in ast.walk(module.tree):
        _look(module, node, found)
    _streams(module, found)
    return found


def library_calls_python(path: str, text: str) -> Remarks:
    """Calls that do a kernel's work in a library, outside of functions that Triton compiles."""
    found = Remarks(path)
    module = _parsed(text, found)
    if module is None:
        return found
    for name, line in _uses(module):
        if _computes(name):
            found.add("library_call", line, name)
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            _native_calls(path, node.value, node.lineno, found)
    for node in _host_nodes(module.tree):
        if isinstance(node, (ast.BinOp, ast.AugAssign)) and isinstance(node.op, ast.MatMult):
            found.add("library_call", node.lineno, "@")
        elif isinstance(node, ast.Call):
            _library_call(module, node, found)
    return found


def _computes(name: str) -> bool:
    """Whether an imported name does a kernel's work in a library, or may stand for any."""
    head, _, rest = name.partition(".")
    if head == "numpy":
        return bool(rest) and rest.partition(".")[0] not in _COUNTING
    if name in ("importlib", "importlib.util") or any(matches(name, own) for own in _LOOKING_UP):
        return False
    hidden = rules()["dynamic_names"].python
    return any(matches(name, pattern) for pattern in (*_LIBRARIES, *hidden))


def _native_calls(path: str, text: str, line: int, found: Remarks) -> None:
    """C++ and CUDA that a module has compiled."""
    if "#include" in text or "__global__" in text:
        for remark in library_calls_native(path, text).in_order:
            if not _BINDING.fullmatch(remark.detail):
                found.add("library_call", line, remark.detail)


def _parsed(text: str, found: Remarks) -> _Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _Module(ast.parse(text))
    except SyntaxError as error:
        found.add("unreadable", error.lineno or 1, error.msg)
    except (ValueError, RecursionError, MemoryError) as error:
        found.add("unreadable", 1, type(error).__name__)
    return None


def _imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Local names and the dotted ones they stand for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                yield (alias.asname, alias.name) if alias.asname else (top, top)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _uses(module: _Module) -> Iterator[tuple[str, int]]:
    """Dotted names that are imported or used, with their lines."""
    own = {
        node.name
        for node in ast.walk(module.tree)
        if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef))
    }
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)
        elif isinstance(node, (ast.Attribute, ast.Name)) and not _is_stored_name(node):
            name = module.dotted(node)
            if name is not None and (module.is_imported(node) or _is_builtin(name, own)):
                yield name, node.lineno


def _is_stored_name(node: ast.Attribute | ast.Name) -> bool:
    return isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)


def _is_builtin(name: str, own: set[str]) -> bool:
    return "." not in name and name not in own


def _look(module: _Module, node: ast.AST, found: Remarks) -> None:
    if isinstance(node, ast.Attribute):
        _method(node, node.attr, found)
        if isinstance(node.ctx, ast.Store) and module.is_imported(node):
            name = module.dotted(node) or node.attr
            if not matches(name, "torch.backends"):
                found.add("patched_module", node.lineno, name)
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        _method(node, node.name, found)
        _count_calls(node, found)
    elif isinstance(node, ast.Call):
        if module.dotted(node.func) == "setattr":
            found.add("patched_module", node.lineno, "setattr")
        for keyword in node.keywords:
            _precision(keyword, node.lineno, found)


def _method(
    node: ast.Attribute | ast.FunctionDef | ast.AsyncFunctionDef, name: str, found: Remarks
) -> None:
    for remark, rule in rules().items():
        if name in rule.methods:
            found.add(remark, node.lineno, name)


def _precision(keyword: ast.keyword, line: int, found: Remarks) -> None:
    value = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
    if keyword.arg == "input_precision" and value not in ("ieee", "tf32x3", None):
        found.add("reduced_precision", line, f"input_precision={value!r}")
    if keyword.arg == "allow_tf32" and value is True:
        found.add("reduced_precision", line, "allow_tf32=True")


def _count_calls(function: ast.FunctionDef | ast.AsyncFunctionDef, found: Remarks) -> None:
    shared = {n for node in ast.walk(function) if isinstance(node, ast.Global) for n in node.names}
    for node in ast.walk(function):
        if (
            isinstance(node, ast.AugAssign)
            and isinstance(node.target, ast.Name)
            and node.target.id in shared
        ):
            found.add("counts_calls", node.lineno, node.target.id)


def _streams(module: _Module, found: Remarks) -> None:
    """Streams of its own without a wait, or with none behind the last use of them."""
    used, waits = [], []
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Call):
            continue
        name = module.dotted(node.func) or ""
        if name in _STREAM_USES:
            used.append((node.lineno, name))
        elif isinstance(node.func, ast.Attribute) and node.func.attr in _SYNC_METHODS:
            return
        elif name.rpartition(".")[2] == "synchronize":
            waits.append(node.lineno)
    if used and max(waits, default=0) < max(used)[0]:
        found.add("unjoined_stream", *min(used))


def _host_nodes(tree: ast.Module) -> Iterator[ast.AST]:
    """All nodes but those of functions that Triton compiles."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        children = ast.iter_child_nodes(node)
        waiting += (c for c in children if not (isinstance(c, ast.FunctionDef) and _is_compiled(c)))


def _is_compiled(function: ast.FunctionDef) -> bool:
    names = {
        part.attr if isinstance(part, ast.Attribute) else getattr(part, "id", "")
        for decorator in function.decorator_list
        for part in ast.walk(decorator)
    }
    return "jit" in names


def _library_call(module: _Module, call: ast.Call, found: Remarks) -> None:
    name = module.dotted(call.func)
    if name is not None and module.is_imported(call.func):
        is_torch = matches(name, "torch")
        if is_torch and not any(matches(name, allowed) for allowed in _ALLOCATING):
            found.add("library_call", call.lineno, name)
        return
    if name == "getattr" and not all(isinstance(a, ast.Constant) for a in call.args[1:2]):
        found.add("library_call", call.lineno, "getattr with a name put together at run time")
    elif isinstance(call.func, ast.Attribute) and call.func.attr in _COMPUTING_METHODS:
        found.add("library_call", call.lineno, f".{call.func.attr}()")
