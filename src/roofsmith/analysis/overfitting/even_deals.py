"""Calls that deal rows evenly to groups: `x.chunk(G)`, `x.view(G, -1, K)`, einops' `(g m) k`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from roofsmith.analysis.overfitting.group_numbers import Numbers, root_of
from roofsmith.analysis.overfitting.python_calls import TENSOR_LIBRARIES, imports, last_name
from roofsmith.analysis.overfitting.tokens import is_weight_name

_INTO = ("chunk", "tensor_split", "array_split", "unsafe_chunk")
"""Functions that are told how many pieces there are."""
_BY = ("split", "unsafe_split", "split_with_sizes")
"""Functions that are told how long a piece is, or each of them; NumPy's `split` is as `_INTO`."""
_SHAPES = ("view", "reshape", "unflatten", "Unflatten", "resize_", "reshape_as")
_EINOPS = ("rearrange", "Rearrange", "reduce", "Reduce")
_KEYWORDS = (
    "chunks", "split_size", "split_size_or_sections", "indices_or_sections", "sections", "sizes",
    "split_sizes", "size", "shape", "newshape", "unflattened_size", "pattern",
)  # fmt: skip
"""What the argument is called that says how an array is dealt."""
_MOST_NAMES = 6
"""Names of shapes within shapes that are followed."""
_AXES = ("dim", "axis")
_NAMED_LIKE_ROWS = re.compile(r"xs?|a|tokens|hidden(_states)?|acts?|activations?|inp(uts?)?|rows")


class Spellings:
    """What a module calls the functions of its libraries."""

    def __init__(self, tree: ast.Module) -> None:
        self._local = dict(imports(tree))
        plain = (n for n in ast.walk(tree) if isinstance(n, ast.Import))
        modules = {a.asname or a.name.partition(".")[0] for node in plain for a in node.names}
        self._libraries = {*TENSOR_LIBRARIES, *modules}
        self.constants = {
            target.id: node.value
            for node in tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        """What the module binds to its own names."""

    def taken(self, call: ast.Call) -> _Taken | None:
        """A call in one form, whether it is a method of its array or a function of it."""
        name = last_name(call.func)
        arguments = list(call.args)
        keywords = {k.arg: k.value for k in call.keywords if k.arg is not None}
        for packed in (k.value for k in call.keywords if k.arg is None):
            if isinstance(packed, ast.Dict):
                pairs = zip(packed.keys, packed.values, strict=True)
                keywords |= {str(k.value): v for k, v in pairs if isinstance(k, ast.Constant)}
        owner: ast.expr | None = None
        if isinstance(call.func, ast.Attribute):
            owner = call.func.value
        elif isinstance(call.func, ast.Name):
            name = self._local.get(name, name).rpartition(".")[2]
        elif isinstance(call.func, ast.Call):  # Rearrange("...")(x), Unflatten(0, ...)(x)
            made = self.taken(call.func)
            return replace(made, array=call.args[0]) if made and call.args else None
        else:
            return None
        root = ast.unparse(owner).partition(".")[0] if owner is not None else ""
        is_numpy = root in ("np", "numpy") or self._local.get(root) == "numpy"
        is_made = name in ("Rearrange", "Reduce", "Unflatten")
        array = owner
        if is_made:
            array = None
        elif owner is None or root in self._libraries or name in _EINOPS:
            given = [keywords.pop(k) for k in ("input", "tensor", "a", "ary") if k in keywords]
            array = given[0] if given else (arguments.pop(0) if arguments else None)
        return _Taken(name, array, arguments, keywords, is_numpy)


@dataclass(slots=True)
class _Taken:
    """What is done, to which array, and how."""

    name: str
    array: ast.expr | None
    arguments: list[ast.expr]
    keywords: Mapping[str, ast.expr]
    is_numpy: bool

    @property
    def how(self) -> ast.expr | None:
        """How many pieces, how long ones, what shape, by which pattern."""
        named = next((self.keywords[k] for k in _KEYWORDS if k in self.keywords), None)
        return named or (self.arguments[0] if self.arguments else None)

    def axis(self, place: int) -> ast.expr | None:
        """Along what; None: not said."""
        named = next((self.keywords[k] for k in _AXES if k in self.keywords), None)
        return named or (self.arguments[place] if len(self.arguments) > place else None)


class EvenDeals:
    """What one function deals evenly."""

    def __init__(self, numbers: Numbers, spellings: Spellings) -> None:
        self._numbers = numbers
        self._spellings = spellings

    def deals(self, call: ast.Call) -> bool:
        """Whether rows go to groups in equal parts, by the number of groups or their average."""
        taken = self._spellings.taken(call)
        if taken is None or self._numbers.is_per_group(taken.array):
            return self._is_paired(call)
        if taken.name in _SHAPES:
            return self._is_even_shape(taken)
        if taken.name in _EINOPS:
            return self._is_even_pattern(taken)
        how = taken.how
        if how is not None and self._is_first_axis(taken):
            is_into = taken.name in _INTO or (taken.name in _BY and taken.is_numpy)
            if is_into and self._numbers.is_groups(how):
                return True
            if taken.name in _BY and self._is_even_split(how):
                return True
        return self._is_paired(call)

    def _is_first_axis(self, taken: _Taken) -> bool:
        axis = taken.axis(1)
        if axis is None:
            return True
        text = ast.unparse(self._bound(axis))
        is_matrix = root_of(taken.array)[0] in self._numbers.matrices
        return text == "0" or (text == "-2" and is_matrix)

    def _is_even_split(self, how: ast.expr) -> bool:
        """One size for all: an average, or a list that repeats one."""
        how = self._bound(how)
        if self._numbers.is_average(how):
            return True
        if not isinstance(how, ast.BinOp) or not isinstance(how.op, ast.Mult):
            return False
        sides = (how.left, how.right)
        is_list = any(isinstance(s, (ast.List, ast.Tuple)) and len(s.elts) == 1 for s in sides)
        return is_list and any(self._numbers.is_groups(s) for s in sides)

    def _is_even_shape(self, taken: _Taken) -> bool:
        """`(G, -1, K)`, `(G, M // G, K)`, `(-1, M // G, K)`, from the first axis on."""
        arguments = taken.arguments
        if taken.name in ("unflatten", "Unflatten"):
            axis = taken.axis(0)
            if axis is None or ast.unparse(self._bound(axis)) != "0":
                return False
            arguments = arguments[1:]
        named = next((taken.keywords[k] for k in _KEYWORDS if k in taken.keywords), None)
        shape = self._shape([named] if named is not None else arguments)
        if len(shape) < 2:
            return False
        first, second = shape[:2]
        is_left = [ast.unparse(s) == "-1" for s in (first, second)]
        is_average = self._numbers.is_average(second)
        if not (self._numbers.is_groups(first) and (is_left[1] or is_average)):
            return is_left[0] and is_average
        # (G, -1) alone may be anything that has an entry per group
        certain = len(shape) > 2 or is_average or "flatten" in taken.name
        return certain or self._are_rows(taken.array)

    def _are_rows(self, array: ast.expr | None) -> bool:
        if array is None:
            return False
        named = _NAMED_LIKE_ROWS.fullmatch(root_of(array)[0]) is not None
        return named or self._numbers.is_of_rows(array)

    def _shape(self, given: Sequence[ast.expr], names: int = _MOST_NAMES) -> list[ast.expr]:
        """Its parts, from `view(G, -1)`, `view((G, -1))`, `view(*shape)` and `view(shape)`."""
        parts: list[ast.expr] = []
        for one in given:
            whole = one.value if isinstance(one, ast.Starred) else one
            bound = self._bound(whole) if names > 0 else whole
            is_all = isinstance(one, ast.Starred) or len(given) == 1
            if is_all and isinstance(bound, (ast.Tuple, ast.List)):
                parts += self._shape([*bound.elts, ast.Constant(0)], names - 1)[:-1]
            elif is_all and isinstance(bound, ast.Call) and last_name(bound.func) == "Size":
                parts += self._shape(bound.args, names - 1)
            elif isinstance(bound, ast.BinOp) and isinstance(bound.op, ast.Add) and is_all:
                for side in (bound.left, bound.right):
                    parts += self._shape([side], names - 1)
            else:
                parts.append(one)
        return parts

    def _is_even_pattern(self, taken: _Taken) -> bool:
        """`(g m) k -> g m k` where g is the number of groups: rows are the first axis."""
        how = self._bound(taken.how) if taken.how is not None else None
        if not isinstance(how, ast.Constant) or not isinstance(how.value, str):
            return False
        first = re.match(r"\s*\(([^)]*)\)", how.value.partition("->")[0])
        names = first[1].split() if first else []
        given = {name: taken.keywords[name] for name in names if name in taken.keywords}
        return any(self._numbers.is_groups(v) or self._is_average(v) for v in given.values())

    def _is_average(self, node: ast.expr) -> bool:
        return self._numbers.is_average(node) or ast.unparse(node) in self._numbers.averages

    def _is_paired(self, call: ast.Call) -> bool:
        """`zip(x.chunk(8), w)`: a piece of equal length for each group's weights."""
        function = last_name(call.func)
        if function == "enumerate" and call.args and self._is_even(call.args[0]):
            return any(name in self._indices_of_weights for name in self._counters_of(call))
        if function not in ("zip", "map"):
            return False
        weights = [a for a in call.args if is_weight_name(root_of(a)[0])]
        return any(self._is_even(a) for a in call.args if a not in weights) and bool(weights)

    def _is_even(self, node: ast.expr) -> bool:
        """Pieces of equal length, however many."""
        node = self._bound(node)
        taken = self._spellings.taken(node) if isinstance(node, ast.Call) else None
        if taken is None or taken.how is None or taken.name not in (*_INTO, *_BY):
            return False
        if self._numbers.is_per_group(taken.array) or not self._is_first_axis(taken):
            return False
        how = self._bound(taken.how)
        return _is_one_number(how) or self._numbers.is_groups(how)

    @property
    def _indices_of_weights(self) -> set[str]:
        return {
            node.slice.id
            for node in ast.walk(self._numbers.function)
            if isinstance(node, ast.Subscript)
            and isinstance(node.slice, ast.Name)
            and is_weight_name(root_of(node.value)[0])
        }

    def _counters_of(self, call: ast.Call) -> Iterator[str]:
        """`g` of `for g, part in enumerate(...)`."""
        for node in ast.walk(self._numbers.function):
            if isinstance(node, (ast.For, ast.comprehension)) and node.iter is call:
                target = node.target
                first = target.elts[0] if isinstance(target, ast.Tuple) else target
                yield getattr(first, "id", "")

    def _bound(self, node: ast.expr) -> ast.expr:
        """What a name was bound to, where that is seen."""
        if not isinstance(node, ast.Name):
            return node
        return self._numbers.values.get(node.id) or self._spellings.constants.get(node.id) or node


def _is_one_number(node: ast.expr) -> bool:
    """A number, rather than a list of them."""
    if isinstance(node, ast.Call):
        return last_name(node.func) in ("int", "cdiv")
    is_quotient = isinstance(node, ast.BinOp) and isinstance(node.op, (ast.FloorDiv, ast.Div))
    return is_quotient or (isinstance(node, ast.Constant) and isinstance(node.value, int))
