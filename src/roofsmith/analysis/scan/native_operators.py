"""PyTorch's operators in C++ of a module's own: methods of tensors, and functions found by them.

`a.mm(b)` names no namespace, and nor need `mm(a, b)`: the compiler looks where the class of its
arguments is. Neither can stand in code of the device, where no tensor is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from roofsmith.analysis.scan.operators import is_computing
from roofsmith.analysis.scan.syntax import line_of, nodes_of, text_of, without_arguments

_ON_DEVICE = re.compile(r"__(global|device)__\b")
_OF_NUMBERS = frozenset((
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "ceil", "clamp", "copysign",
    "cos", "cosh", "div", "erf", "erfc", "exp", "exp2", "expm1", "floor", "fmax", "fmin", "fmod",
    "frexp", "gcd", "greater", "greater_equal", "hypot", "inner_product", "lcm", "ldexp", "lerp",
    "less", "less_equal", "lgamma", "log10", "log1p", "log2", "logical_and", "logical_not",
    "logical_or", "nextafter", "norm", "not_equal", "pow", "remainder", "round", "rsqrt",
    "signbit", "sin", "sinh", "sqrt", "tan", "tanh", "trunc", "unique",
))  # fmt: skip
"""Functions of C and C++, which hosts work out sizes with."""


def tensor_calls(root: Node) -> Iterator[tuple[str, int]]:
    """Calls on the host that compute with tensors, as far as names tell, with their lines."""
    nodes = tuple(nodes_of(root))
    own = {name for node in nodes if (name := _defined(node)) is not None}
    for node in nodes:
        if node.type != "call_expression" or _is_on_device(node):
            continue
        function = node.child_by_field_name("function")
        if function is None:
            continue
        name = _plain(function.children[-1]) if function.type == "field_expression" else ""
        if name == "attr":  # of a Python object, by its name
            name = text_of(node).rpartition('"')[0].rpartition('"')[2]
        if is_computing(name) or name == "backward":
            yield f".{name}()", line_of(node)
        elif function.type in ("identifier", "template_function"):
            name = _plain(function)
            if name not in own | _OF_NUMBERS and is_computing(name.removesuffix("_out")):
                yield name, line_of(node)


def _plain(node: Node) -> str:
    """A name without `template` before it and what it is made for behind it."""
    return without_arguments(text_of(node)).strip()


def _defined(node: Node) -> str | None:
    """The function that is defined or declared here, in a namespace of the file's own."""
    if node.type != "function_declarator":
        return None
    name = node.child_by_field_name("declarator")
    return None if name is None else text_of(name)


def _is_on_device(node: Node) -> bool:
    around: Node | None = node
    while around is not None:
        if around.type in ("function_definition", "lambda_expression"):
            head = (part for part in around.children if part.type != "compound_statement")
            if any(_ON_DEVICE.search(text_of(part)) for part in head):
                return True
        around = around.parent
    return False
