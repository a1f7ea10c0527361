"""A problem of a set, as a Python file that `init --from-pytorch` takes."""

from __future__ import annotations

import ast
import io
import keyword
import tokenize
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import yaml

from roofsmith.domain.values import Value
from roofsmith.errors import StorageError, TargetError

GPUS = frozenset(("cuda", "cuda:0", "hip", "xpu"))
_NUMBERS = frozenset(("item", "tolist", "all", "any", "max", "min", "sum", "equal", "allclose"))
"""Methods and functions that look at a tensor's numbers."""
_MOST_YAML, _MOST_NESTED = 1 << 16, 20
"""Characters of a file, and its lists in lists. Chosen: sets have some thousands, and four."""
_LONGEST = 1000
"""Characters of a reason, which may quote a set's file. Chosen: a path and a sentence fit."""
_OPEN = (
    yaml.BlockSequenceStartToken, yaml.BlockMappingStartToken, yaml.FlowSequenceStartToken,
    yaml.FlowMappingStartToken,
)  # fmt: skip
_CLOSE = (yaml.BlockEndToken, yaml.FlowSequenceEndToken, yaml.FlowMappingEndToken)
WORKLOADS = """
class _Workloads(list):
    def __getitem__(self, number):
        return _given(super().__getitem__(number))

    def __iter__(self):
        return map({shapes}, super().__iter__())


def get_workloads():
    return _Workloads({cases})
"""
"""Ends a module whose inputs are drawn by `_given(case)`: the one that is asked for, alone."""


class KernelProblem(Value):
    """What is computed, on which sizes, and where that is from."""

    name: str
    files: dict[str, str]
    """Texts by name; `model.py` holds `entry`, `get_inputs` and, of several, `get_workloads`."""
    origins: dict[str, str]
    """The set's own files, by those names: messages are about them."""
    entry: str | None = None
    """The function or module in it; None: the only one, or `Model`."""
    source: str = ""
    """The set and the place in it."""
    tolerance: str = ""
    """The set's own, which is shown and not obeyed."""
    atol: float | None = None
    """What it allows where a result is zero."""
    weight: float = 1.0
    """How much the problem counts among those of its set."""
    weights: tuple[float, ...] = ()
    """Of each workload that `get_workloads` lists; empty: all count alike."""
    notes: tuple[str, ...] = ()


class CommandProblem(Value):
    """A task of files and commands, as a repository's are."""

    name: str
    folder: str
    editable: tuple[str, ...]
    commands: dict[str, str]
    """`build`, `test` and `benchmark`, those that there are."""
    source: str
    tolerance: str = ""
    weight: float = 1.0
    notes: tuple[str, ...] = ()


Problem = KernelProblem | CommandProblem
_Read = TypeVar("_Read", KernelProblem, CommandProblem)


class Unread(Value):
    """A problem that can't be had."""

    name: str
    reason: str


def tried(name: str, read: Callable[[], _Read | Unread]) -> _Read | Unread:
    """A problem, or why it can't be had: nothing in a set's files is sure to be what it should."""
    try:
        return read()
    except (TargetError, StorageError, OSError, ValueError, yaml.YAMLError) as why:
        said = str(why)
    except (
        ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError,
    ) as why:  # fmt: skip
        said = f"its files aren't of the form: {why}"
    said = said.partition("\n")[0]
    return Unread(name=name, reason=f"{said[:_LONGEST]} ..." if len(said) > _LONGEST else said)


def yaml_mapping(text: str) -> dict[str, Any]:
    """A mapping; of anything else nothing.

    Raises:
        ValueError: it has an alias, of which a few lines may stand for terabytes, is too long,
            or nested too deeply.
        yaml.YAMLError: it is no YAML.
    """
    if len(text) > _MOST_YAML:
        raise ValueError(f"its YAML has {len(text):,} characters; at most {_MOST_YAML:,} are read")
    loader, depth = getattr(yaml, "CSafeLoader", yaml.SafeLoader), 0
    for token in yaml.scan(text, loader):
        depth += isinstance(token, _OPEN) - isinstance(token, _CLOSE)
        if isinstance(token, yaml.AliasToken):
            raise ValueError(  # noqa: TRY004 - its text is wrong
                "its YAML has an alias (*name): write out what that stands for"
            )
        if depth > _MOST_NESTED:
            raise ValueError(f"its YAML is nested more than {_MOST_NESTED} levels deep")
    found = yaml.load(text, loader)
    return found if isinstance(found, dict) else {}


def hosted(text: str) -> str:
    """Python whose tensors are made where it runs, in place of on a GPU, and that asserts nothing
    of their numbers: a reference is read on tensors that have none.

    Args:
        text: a set's own file. What isn't Python stays: importing it will say so.
    """
    try:
        lines = [*io.StringIO(text, newline=None)]  # as Python counts them: a form feed ends none
        tokens = [*tokenize.generate_tokens(iter([*lines, ""]).__next__)]
        asserted = [one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.Assert)]
        changed = _hosted(lines, tokens, asserted)
        ast.parse(changed)
    except (tokenize.TokenError, SyntaxError, ValueError, RecursionError, MemoryError):
        return text
    return changed


def _hosted(
    lines: list[str], tokens: Sequence[tokenize.TokenInfo], asserted: Sequence[ast.Assert]
) -> str:
    for before, token in reversed([*pairwise(tokens)]):
        if token.type == tokenize.STRING and token.string.strip("'\"") in GPUS:
            new = '"cpu"'
        elif token.type == tokenize.NAME and token.string == "cuda" and before.string == ".":
            (row, column), line = token.end, lines[token.end[0] - 1]
            new = "cpu" if line[column:].startswith("()") else "cuda"
        else:
            continue
        (row, begin), (_, end) = token.start, token.end
        line = lines[row - 1]
        lines[row - 1] = line[:begin] + new + line[end:]
    for one in asserted:
        last = one.end_lineno or one.lineno
        is_alone = (
            ";" not in lines[last - 1] and not lines[one.lineno - 1][: one.col_offset].strip()
        )
        parts = [*ast.walk(one.test)]
        is_needed = any(isinstance(part, ast.NamedExpr) for part in parts)
        if is_alone and not is_needed and any(map(_looks_at_numbers, parts)):
            lines[one.lineno - 1] = lines[one.lineno - 1][: one.col_offset] + "pass\n"
            lines[one.lineno : last] = ["\n"] * (last - one.lineno)
    return "".join(lines)


def _looks_at_numbers(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in _NUMBERS
        case ast.Call(func=ast.Name(id="int" | "float" | "bool"), args=[ast.Subscript()]):
            return True
        case _:
            return False


def literal(values: object) -> str:
    """A value of a set's JSON or YAML as Python writes it.

    Raises:
        ValueError: there is a number in it that isn't finite, or a date.
    """
    text = repr(values)
    try:
        ast.literal_eval(text)
    except ValueError as error:
        raise ValueError(f"a size or number can't be taken over: {text}") from error
    return text


def is_argument(name: str) -> bool:
    """Whether a name of a set's may stand as an argument's name in Python."""
    return name.isidentifier() and not keyword.iskeyword(name)


def whole(expression: str, known: Mapping[str, int]) -> int:
    """The value of a size such as `2 * H + 1`.

    Raises:
        ValueError: it is more than sums, products and quotients of known sizes.
    """

    def value(node: ast.AST) -> int:
        match node:
            case ast.Constant(value=int(number)):
                return number
            case ast.Name(id=name) if name in known:
                return known[name]
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return -value(inner)
            case ast.BinOp(left=left, op=op, right=right):
                a, b = value(left), value(right)
                match op:
                    case ast.Add():
                        return a + b
                    case ast.Sub():
                        return a - b
                    case ast.Mult():
                        return a * b
                    case ast.FloorDiv() | ast.Div() if b and (
                        isinstance(op, ast.FloorDiv) or not a % b
                    ):
                        return a // b
                    case ast.Mod() if b:
                        return a % b
            case ast.Call(func=ast.Name(id="min" | "max" as chosen), args=args) if args:
                return (min if chosen == "min" else max)(map(value, args))
        raise ValueError(f"{expression!r} is no sum, product or quotient of sizes")

    try:
        return value(ast.parse(expression, mode="eval").body)
    except (SyntaxError, RecursionError) as error:
        raise ValueError(f"{expression!r} can't be read") from error
