"""What calls in Python kernels give back: facts about tensors, new memory, views, or results."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

FACTS = frozenset((
    "shape", "dtype", "device", "ndim", "layout", "is_cuda", "requires_grad", "itemsize", "nbytes",
    "is_sparse", "is_leaf", "is_quantized", "element_size", "size", "dim", "numel", "nelement",
    "stride", "get_device", "is_contiguous", "storage_offset", "is_floating_point", "type",
    "stride_", "is_meta", "names",
))  # fmt: skip
"""Attributes and methods of a tensor that say nothing of its elements."""
VIEWS = frozenset((
    "view", "reshape", "t", "transpose", "permute", "detach", "flatten", "unflatten", "unsqueeze",
    "squeeze", "expand", "expand_as", "narrow", "view_as", "swapaxes", "movedim", "T", "mT", "H",
    "data", "requires_grad_",
))  # fmt: skip
"""The same memory, looked at in another way."""
SAME = (VIEWS - {"data"}) | {"as_tensor", "asarray", "from_numpy", "as_strided", "swapaxes"}
"""Functions of a tensor library whose result is their first argument, or a view of it."""
ARITHMETIC = frozenset((
    "abs", "amax", "amin", "argmax", "bmm", "clamp", "clone", "cos", "cumsum", "div", "exp", "log",
    "matmul", "max", "mean", "min", "mm", "mul", "neg", "norm", "pow", "relu", "round", "rsqrt",
    "sigmoid", "sin", "softmax", "sqrt", "square", "sub", "sum", "tanh",
))  # fmt: skip
"""Methods of a tensor whose result is new memory."""
ADDRESSES = frozenset((
    "data_ptr", "storage", "untyped_storage", "const_data_ptr", "mutable_data_ptr", "_cdata",
    "storage_data_ptr", "__hash__", "_typed_storage",
))  # fmt: skip
NEW = re.compile(
    r"(torch|np|numpy|cupy|cp|jnp)\.(empty|zeros|ones|arange|linspace|eye|rand|randn|randint"
    r"|empty_strided|empty_like|zeros_like|ones_like|rand_like|randn_like|device|Generator"
    r"|cuda\.(CUDAGraph|Stream|Event|current_stream|current_device|get_device_\w+|device_count)"
    r"|get_default_dtype|finfo|iinfo)"
    r"|(triton\.)?(cdiv|next_power_of_2)|isinstance|len|type|range|callable|print"
)
"""Calls whose result doesn't depend on what their arguments hold."""
NEW_METHODS = frozenset(("new_empty", "new_zeros", "new_ones", "new_empty_strided"))
FILLED = re.compile(r"(torch|np|numpy|cupy|cp|jnp)\.full(_like)?|\w+\.new_(full|tensor)")
"""Calls whose result holds what they are given, and nothing of what it is shaped like."""
LIKE = frozenset(("to", "type_as", "view_as", "expand_as", "reshape_as", "broadcast_to"))
"""Methods that take no more of their arguments than shape, type and device."""
IDENTITY = frozenset(("id", "hash", "weakref.ref", "weakref.proxy"))
WEAK = frozenset(("weakref.ref", "weakref.proxy", "weakref.finalize"))
READS = frozenset(("get", "setdefault", "pop", "__getitem__", "__contains__", "items", "values"))
"""Methods that look a container up."""
WRITES = {"setdefault": 1, "__setitem__": 1, "set": 1, "put": 1}
"""Methods that store under a key, and which argument is stored."""
ADDS = frozenset(("append", "appendleft", "add", "insert", "extend", "push", "send"))
"""Methods that store without one."""
GENERATORS = frozenset(("send",))
"""Methods of what goes on where the last call left it: it may do what it likes with what it has."""
TAKES_TENSORS = frozenset(("copy_", "mm", "matmul", "bmm", "addmm", "addmm_", "baddbmm_"))
"""Methods whose arguments are tensors."""

_ASKED_OF_TENSORS = frozenset((
    "_version", "abs", "amax", "amin", "argmax", "bfloat16", "bmm", "clamp", "clone", "contiguous",
    "copy_", "cpu", "cuda", "cumsum", "div", "double", "exp", "fill_", "float", "grad", "half",
    "int", "item", "log", "matmul", "max", "mean", "min", "mm", "mul", "mul_", "nonzero", "norm",
    "numpy", "pow", "relu", "round", "rsqrt", "sigmoid", "softmax", "sqrt", "square", "std", "sub",
    "sum", "tanh", "to", "tolist", "var", "zero_",
))  # fmt: skip
"""Beside facts, views, addresses and new memory."""
TENSOR_ATTRIBUTES = (
    (FACTS - {"type", "names", "layout", "stride_"})
    | (VIEWS - {"T", "H"})
    | ADDRESSES
    | NEW_METHODS
    | _ASKED_OF_TENSORS
)
"""What is asked of tensors, and seldom of anything else that a kernel is given."""

TENSOR_LIBRARIES = ("torch", "F", "np", "numpy", "cupy", "cp")


def last_name(node: ast.expr) -> str:
    """`gelu` of `F.gelu` and of `gelu`; empty for what isn't a name or an attribute."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Local names and the dotted ones they stand for, where the two differ."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((a.asname, a.name) for a in node.names if a.asname)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((a.asname or a.name, f"{node.module}.{a.name}") for a in node.names)


def is_launch(call: ast.Call) -> bool:
    """`kernel[grid](...)`."""
    return isinstance(call.func, ast.Subscript)


def writes_receiver(call: ast.Call) -> bool:
    """`x.copy_(...)` and the other methods that work in place."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    return name.endswith("_") and not name.startswith("_") and name != "requires_grad_"
