"""Where a Python module leaves its work to a library, outside of functions that Triton compiles.

What may be imported, and asked of PyTorch and NumPy, is a list of what is allowed: nobody can list
all libraries, nor all operators. Ways to look up names that are put together at run time count as
calls.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

from roofsmith.analysis.scan.operators import is_computing, is_product
from roofsmith.analysis.scan.python_allowed import is_of_numpy, is_of_torch
from roofsmith.analysis.scan.python_compiled import (
    PLAIN,
    host_nodes,
    in_device_loops,
    is_of_own_class,
    is_plain_function,
)
from roofsmith.analysis.scan.python_extensions import is_no_tensor, own_operators, strings
from roofsmith.analysis.scan.python_names import Module, parsed, root_of, uses
from roofsmith.analysis.scan.python_objects import Followed
from roofsmith.analysis.scan.rules import Remarks, matches

_SETTINGS = frozenset(("TRITON_INTERPRET", "HELION_INTERPRET", "ref_mode"))
"""Variables, and Helion's own option, that have Python run a kernel's operators."""
_ENVIRONMENTS = frozenset(("os.environ", "os.environb"))
_READS = frozenset(("copy", "get", "items", "keys", "values"))
_SETS = frozenset(("pop", "setdefault"))
_COPIES = frozenset(("dict", "len", "list", "print", "sorted", "str"))
_BELOW_IT = ("os.putenv", "os.unsetenv", "posix.putenv", "posix.environ")
"""What sets variables past `os.environ`."""


def interpreting(module: Module) -> Iterator[tuple[str, int]]:
    """Ways to have kernels interpreted, or to set a variable whose name can't be read."""
    for node in ast.walk(module.tree):
        if (setting := _setting(node)) is not None:
            yield setting
        elif isinstance(node, (ast.Attribute, ast.Name)):
            name = module.dotted(node)
            if name in _ENVIRONMENTS:
                if not _is_plain(module, node):
                    yield f"{name} with a name put together at run time", node.lineno
            elif name in _BELOW_IT or _is_switch(module, node):
                yield name or "interpret", node.lineno


def _setting(node: ast.AST) -> tuple[str, int] | None:
    """Which one a node names, and the line."""
    match node:
        case ast.keyword(arg=str(said)) | ast.Attribute(attr=said, ctx=ast.Store()):
            name = said
        case ast.Constant(value=str(said)):
            name = said
        case ast.Constant(value=bytes(coded)):
            name = coded.decode(errors="replace")
        case _:
            return None
    return (name, node.lineno) if name in _SETTINGS else None


def _is_switch(module: Module, node: ast.Attribute | ast.Name) -> bool:
    """Whether it is Triton's, of which reading is of no use to a kernel."""
    is_named_so = isinstance(node, ast.Attribute) and node.attr == "interpret"
    return is_named_so and any(full.startswith("triton") for full in module.meanings_of(node))


def _is_plain(module: Module, node: ast.AST) -> bool:
    """Whether the environment is read, or something is set in it whose name can be read."""
    parent = module.parents[id(node)]
    match parent, module.parents.get(id(parent)):
        case ast.Subscript(value=value, slice=key, ctx=use), _ if value is node:
            return isinstance(use, ast.Load) or isinstance(key, ast.Constant)
        case ast.Attribute(attr="update"), ast.Call(func=function) as call if function is parent:
            is_named = all(keyword.arg is not None for keyword in call.keywords)
            return is_named and all(map(_is_readable, call.args))
        case ast.Attribute(attr=method), ast.Call(func=function, args=given) if function is parent:
            is_said = bool(given) and isinstance(given[0], ast.Constant)
            return method in _READS or (method in _SETS and is_said)
        case ast.Call(func=ast.Name(id=function)), _:
            return function in _COPIES
    # In a comparison, as `"NAME" in os.environ`, or spread into a dictionary of its own.
    return isinstance(parent, (ast.Compare, ast.Dict, ast.comprehension, ast.For, ast.Expr))


def _is_readable(node: ast.expr) -> bool:
    return isinstance(node, ast.Dict) and all(isinstance(key, ast.Constant) for key in node.keys)


_REACHING = frozenset((
    "_ctypes", "_imp", "_pickle", "bdb", "builtins", "cProfile", "code", "codeop", "ctypes",
    "doctest", "gc", "imp", "marshal", "pdb", "pickle", "pkgutil", "profile", "pydoc",
    "rlcompleter", "runpy", "shelve", "trace", "zipimport",
))  # fmt: skip
"""Of the standard library: what opens libraries, finds objects by names, or runs text."""
_TOOLS = frozenset((
    "cuda", "cutlass", "einops", "helion", "numba", "numpy", "packaging", "pycuda", "tilelang",
    "torch", "triton", "typing_extensions",
))  # fmt: skip
"""Beside the standard library: what kernels are written with, and what counts for them."""
_READY_MADE = (
    "cutlass.op", "cutlass_library", "einops.einsum", "einops.layers", "einops.reduce",
    "triton.ops", "cuda.cccl", "cuda.compute", "cuda.coop", "cuda.cooperative", "cuda.parallel",
    "torch.library.get_kernel", "timeit.Timer", "timeit.main", "timeit.repeat", "timeit.timeit",
    "inspect.get_annotations", "operator.attrgetter", "operator.methodcaller", "operator.matmul",
    "operator.imatmul", "operator.__matmul__", "operator.__imatmul__", "sys.modules", "globals",
    "vars", "__builtins__", "__loader__", "__spec__", "inspect.getattr_static",
    "inspect.getclosurevars", "inspect.getmembers", "inspect.getmembers_static",
    "inspect.getmodule", "inspect.unwrap", "logging.config", "string.Formatter",
    "typing.ForwardRef", "typing.get_type_hints", "unittest.mock", "triton.runtime.interpreter",
    "numba.cuda.reduce", "numba.cuda.Reduce", "numba.cuda.kernels",
    "numba.extending.get_cython_function_address", "numba.types.ExternalFunction",
    "numba.core.types.ExternalFunction", "cuda.pathfinder", "cuda.bindings.path_finder",
    "tilelang.tvm",
)  # fmt: skip
"""Of the allowed modules and of builtins: finished operators, and ways to look up any."""
_RUNNING_TEXT = ("exec", "eval", "compile", "__import__", "importlib")
_LOOKING_UP = (
    "importlib.machinery",
    "importlib.metadata",
    "importlib.resources",
    "importlib.util.find_spec",
)
"""Of importlib: facts about what is installed."""
_DOORS = frozenset((
    "_C", "__builtins__", "__closure__", "__code__", "__dict__", "__getattribute__",
    "__getstate__", "__globals__", "__import__", "__loader__", "__reduce__", "__reduce_ex__",
    "__self__", "__subclasses__", "aten", "attrgetter", "call_extern", "call_packed",
    "exec_module", "f_builtins", "f_globals", "f_locals", "get_capture_scope", "import_module",
    "load_module", "methodcaller", "module_from_spec", "prims",
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
_OF_CONTAINERS = frozenset(("add", "sort"))
"""Sets and lists have them too, and return nothing."""
_OVER_DIMENSIONS = frozenset(("all", "any", "max", "min"))
"""What sizes are worked out with as well: counted with a dimension, or another operand."""
_AT_RUN_TIME = "getattr with a name put together at run time"


def library_calls_python(
    path: str,
    text: str,
    own_modules: frozenset[str] = frozenset(),
    dialect: frozenset[str] = frozenset(),
) -> Remarks:
    """Calls that do a kernel's work in a library, outside of functions that Triton compiles.

    Args:
        path: of the file, for the remarks.
        text: its content.
        own_modules: what the candidate's other files are imported as.
        dialect: packages of the language that it is in, beside those that any kernel may import.
    """
    found = Remarks(path)
    module = parsed(text, found, Followed)
    if module is not None:
        for name, line in (*_named(module, own_modules | dialect), *strings(path, module)):
            found.add("library_call", line, name)
        for node in host_nodes(module):
            for name in _done(module, node):
                found.add("library_call", getattr(node, "lineno", 1), name)
    return found


def _named(module: Followed, own_modules: frozenset[str]) -> Iterator[tuple[str, int]]:
    """What it imports and names, wherever that is."""
    own = tuple(own_operators(module))
    yield from _imports(module.tree, own_modules)
    yield from ((name, line) for name, line in uses(module) if _computes(name))
    yield from interpreting(module)
    for name, line in _values(module):
        is_own = any(matches(name, operator) for operator in own)
        if (is_of_torch(name) or name in _VALUES) and not is_own:
            yield name, line


def _done(module: Followed, node: ast.AST) -> Iterator[str]:
    """What a node on the host leaves to a library."""
    match node:
        case ast.BinOp(op=ast.MatMult()) | ast.AugAssign(op=ast.MatMult()):
            yield "@"
        case ast.Attribute(ctx=ast.Load()):
            yield from _attribute(module, node)
        case ast.Name(id="getattr", ctx=ast.Load()) if not _is_called(module, node):
            yield _AT_RUN_TIME
        case ast.MatchClass():
            yield from _pattern(node)
        case ast.Call():
            yield from _call(module, node)


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
    if matches(name, "numpy"):
        return is_of_numpy(name)
    if name in ("importlib", "importlib.util") or any(matches(name, own) for own in _LOOKING_UP):
        return False
    return any(matches(name, pattern) for pattern in (*_READY_MADE, *_RUNNING_TEXT))


def _values(module: Module) -> Iterator[tuple[str, int]]:
    """Full names of imported things wherever they are used, called or not, but as instructions."""
    passed = {id(n.value) for n in ast.walk(module.tree) if isinstance(n, ast.Attribute)}
    asked = {
        id(call.args[0])
        for call in ast.walk(module.tree)
        if isinstance(call, ast.Call) and call.args and _asks_for_attribute(call)
    }
    others = passed | asked | in_device_loops(module)
    for node in ast.walk(module.tree):
        if not isinstance(node, (ast.Attribute, ast.Name)) or not isinstance(node.ctx, ast.Load):
            continue
        if id(node) in others or not module.is_imported(node):
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


def _attribute(module: Followed, node: ast.Attribute) -> Iterator[str]:
    name = module.dotted(node) or f".{node.attr}"
    if is_plain_function(module, node):
        yield _plain(node.attr)
    elif _leads_on(node.attr, name, is_imported=module.is_imported(node)):
        is_anothers = _is_called(module, node) or is_of_own_class(module, node)
        is_address = isinstance(up := module.parents[id(node)], ast.Attribute) and up.attr == "data"
        if node.attr not in _MODULES or not (is_anothers or is_address):
            yield name
    elif is_product(node.attr) and not _is_of_others(module, node):
        yield f".{node.attr}()"


def _is_called(module: Module, node: ast.expr) -> bool:
    parent = module.parents[id(node)]
    return isinstance(parent, ast.Call) and parent.func is node


def _leads_on(attribute: str, name: str, *, is_imported: bool) -> bool:
    """Whether an attribute leads to all of a library; `name` is its full one."""
    if name in _OF_THEIR_OWN:
        return False
    return attribute in _DOORS | _MODULES or (is_imported and attribute in _SHORT)


def _plain(attribute: str) -> str:
    return f".{attribute} of a function that is compiled"


def _pattern(node: ast.MatchClass) -> Iterator[str]:
    """Attributes that a pattern takes out of an object."""
    for attribute in node.kwd_attrs:
        if attribute in PLAIN:
            yield _plain(attribute)
        elif _leads_on(attribute, "", is_imported=True) or is_computing(attribute):
            yield f".{attribute}"


def _call(module: Followed, call: ast.Call) -> Iterator[str]:
    function = call.func
    for keyword in call.keywords:
        if keyword.arg == "extra_ldflags" and not _is_plain_list(keyword.value):
            yield "extra_ldflags put together at run time"
        elif keyword.arg == "eval_str":  # of annotations, which may name anything
            yield "eval_str"
    if isinstance(function, ast.Name) and function.id == "getattr":
        yield from _looked_up(module, call)
    elif isinstance(function, ast.Name) and function.id == "setattr" and call.args:
        name = module.dotted(call.args[0]) or ""
        if module.is_imported(call.args[0]) and not matches(name, "torch.backends"):
            yield f"setattr on {name}"
    method = _method(module, function)
    is_of_others = isinstance(function, ast.Attribute) and _is_of_others(module, function)
    if method is not None and not is_of_others and _call_computes(module, call, method):
        yield f".{method}()"


def _method(module: Module, function: ast.expr) -> str | None:
    """The name of a method that is called, unless it is a function of an imported module."""
    if isinstance(function, ast.Attribute):
        return None if module.stands_for_import(function) else function.attr
    if isinstance(function, ast.Call) and _asks_for_attribute(function):
        owner, asked = function.args[:2]
        if isinstance(asked, ast.Constant) and not module.stands_for_import(owner):
            return str(asked.value)
    return None


def _is_of_others(module: Followed, method: ast.Attribute) -> bool:
    """Whether it is no tensor's: of an imported module, of a class here, or of what has no work."""
    return (
        module.stands_for_import(method)
        or is_no_tensor(module, method.value)
        or _is_own_method(module, method)
    )


def _is_own_method(module: Followed, method: ast.Attribute) -> bool:
    """Whether classes of the module define it, and the object is of one of these."""
    defining = module.classes_with(method.attr)
    owner = method.value
    if isinstance(owner, ast.Name) and (owner.id in defining or module.is_self(owner, defining)):
        return True
    makers = module.makers_of(owner)
    return bool(makers) and makers <= defining


def _is_plain_list(node: ast.expr) -> bool:
    plain = isinstance(node, (ast.List, ast.Tuple))
    return plain and all(isinstance(part, ast.Constant) for part in ast.iter_child_nodes(node)
                         if isinstance(part, ast.expr))  # fmt: skip


def _looked_up(module: Module, call: ast.Call) -> Iterator[str]:
    """What getattr finds; of Triton's language anything may be asked, which works in kernels."""
    if not _asks_for_attribute(call):
        owner = call.args[0] if call.args else call
        is_language = module.dotted(owner) == "triton.language" and module.stands_for_import(owner)
        if not is_language:
            yield _AT_RUN_TIME
        return
    owner, attribute = call.args[:2]
    assert isinstance(attribute, ast.Constant)
    asked = str(attribute.value)
    if module.is_imported(owner):
        for name in (f"{meant}.{asked}" for meant in module.meanings_of(owner)):
            if is_of_torch(name) or _computes(name) or _leads_on(asked, name, is_imported=True):
                yield name
    if asked in PLAIN:
        yield _plain(asked)
    elif not module.stands_for_import(owner) and (
        is_computing(asked) or _leads_on(asked, "", is_imported=False)
    ):
        yield f".{asked}()"


def _call_computes(module: Module, call: ast.Call, name: str) -> bool:
    """Whether a call of a method of this name computes, as far as the call itself tells."""
    if name in _OF_CONTAINERS:
        return _is_used(module, call)
    if name in _OVER_DIMENSIONS:
        return bool(call.args or call.keywords)
    if name == "log":  # a logger is told something, a tensor isn't
        return not call.args and not call.keywords
    if name == "backward":  # who differentiates an expansion adds up; autograd functions have one
        return not isinstance(call.func, ast.Attribute) or root_of(call.func) not in module.own
    return is_computing(name)


def _is_used(module: Module, call: ast.Call) -> bool:
    """Whether somebody wants the result. `x in seen or seen.add(x)` wants a set's None."""
    parent = module.parents[id(call)]
    is_negated = isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not)
    return not isinstance(parent, (ast.Expr, ast.BoolOp)) and not is_negated
