"""A Triton module: its kernels, their launches, and where in the file their parts are written.

Read with `ast`. A launch is `kernel[grid](...)` of a function that one of Triton's decorators
compiles; Numba's kernels, which are launched alike, are none.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from roofsmith.proposers.edits import SourceEdit, Span

_CLOSING = re.compile(rb"(?:(?:\s|#[^\n]*)*\))*")
TRITON = ("triton", "gluon")
"""Where the decorators and `constexpr` come from."""


@dataclass(frozen=True)
class TritonKernel:
    """A function that Triton compiles."""

    node: ast.FunctionDef
    language: str
    """What the module calls `triton.language`."""

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """In order; those that only go by name last."""
        given = self.node.args
        return tuple(one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs))

    @cached_property
    def constants(self) -> frozenset[str]:
        """Parameters that are annotated as `tl.constexpr`."""
        given = self.node.args
        every = (*given.posonlyargs, *given.args, *given.kwonlyargs)
        return frozenset(
            one.arg for one in every
            if one.annotation is not None and last_name(one.annotation) == "constexpr"
        )  # fmt: skip

    @cached_property
    def defaults(self) -> Mapping[str, ast.expr]:
        """What parameters are where a launch doesn't say."""
        given = self.node.args
        ordered = [one.arg for one in (*given.posonlyargs, *given.args)]
        late = zip(ordered[len(ordered) - len(given.defaults) :], given.defaults, strict=True)
        named = zip(given.kwonlyargs, given.kw_defaults, strict=True)
        return {**dict(late), **{one.arg: value for one, value in named if value is not None}}

    @property
    def autotune(self) -> ast.Call | None:
        """The decorator that chooses among configurations."""
        calls = [one for one in self.node.decorator_list if isinstance(one, ast.Call)]
        return next((one for one in calls if last_name(one.func) == "autotune"), None)

    @property
    def loops(self) -> bool:
        """Whether it holds a loop: only loops are pipelined."""
        return any(isinstance(one, (ast.For, ast.While)) for one in ast.walk(self.node))

    def decorators_name(self, option: str) -> bool:
        """Whether a decorator decides on a launch option, as `triton.heuristics` may."""
        return any(
            isinstance(one, ast.Constant) and one.value == option
            for decorator in self.node.decorator_list
            for one in ast.walk(decorator)
        )

    def calls(self, name: str) -> list[ast.Call]:
        """Calls of `tl.name` in the kernel, in the order of the file."""
        found = [
            node
            for node in ast.walk(self.node)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == name
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == self.language
        ]
        return sorted(found, key=lambda call: (call.lineno, call.col_offset))

    @cached_property
    def values(self) -> dict[str, list[ast.expr]]:
        """All that each local name is made of."""
        found: dict[str, list[ast.expr]] = {}
        for node in ast.walk(self.node):
            if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                value = node.iter if isinstance(node, ast.For) else node.value
                names = [n for target in targets for n in ast.walk(target)]
                for name in names:
                    if isinstance(name, ast.Name) and value is not None:
                        found.setdefault(name.id, []).append(value)
        return found

    def only_bounds(self, parameter: str) -> bool:
        """Whether all that is done with a parameter is to compare with it or to run up to it.

        Then it is a size of the problem: a size of tiles makes ranges or steps.
        """
        names, bounds = {parameter}, set[ast.AST]()
        for node in ast.walk(self.node):
            match node:
                case ast.Compare(left=left, comparators=others):
                    bounds |= {left, *others}
                case ast.Call(func=ast.Name(id="range"), args=[stop] | [_, stop, *_]):
                    bounds.add(stop)
                case (
                    ast.Assign(targets=[target], value=ast.Name(id=name) as value)
                    | ast.AnnAssign(target=target, value=ast.Name(id=name) as value)
                ) if name in names and isinstance(target, ast.Name):
                    names.add(target.id)
                    bounds.add(value)
        return all(
            node in bounds for node in ast.walk(self.node)
            if isinstance(node, ast.Name) and node.id in names and isinstance(node.ctx, ast.Load)
        ) and parameter in self.parameters  # fmt: skip


@dataclass(frozen=True)
class TritonLaunch:
    """`kernel[grid](arguments)`."""

    call: ast.Call
    kernel: TritonKernel
    scope: ast.FunctionDef | ast.Module
    """The outermost function around it."""

    @cached_property
    def arguments(self) -> Mapping[str, ast.expr]:
        """What it passes, by the names of parameters and of launch options."""
        plain = zip(self.kernel.parameters, self.call.args, strict=False)
        starred = any(isinstance(one, ast.Starred) for one in self.call.args)
        named = {one.arg: one.value for one in self.call.keywords if one.arg is not None}
        return {**({} if starred else dict(plain)), **named}

    @property
    def named(self) -> ast.expr:
        """Where it names the kernel."""
        return _subscript(self.call).value

    @property
    def grid(self) -> ast.expr | None:
        """Programs, where the grid is written in place and has one dimension."""
        grid = _subscript(self.call).slice
        sizes = grid.elts if isinstance(grid, ast.Tuple) else []
        return sizes[0] if len(sizes) == 1 else None

    @property
    def last(self) -> ast.expr | None:
        """The last argument; None where there is none, or `**` may hold any."""
        given = [*self.call.args, *(one.value for one in self.call.keywords)]
        if any(one.arg is None for one in self.call.keywords):
            return None
        return max(given, key=lambda one: (one.end_lineno, one.end_col_offset), default=None)


class TritonModule:
    """A module as a tree, with its kernels, its launches and the byte offsets of its lines.

    Raises:
        SyntaxError: the text isn't Python.
        ValueError: it can't even be parsed.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = ast.parse(text)
        self.starts = line_starts(text)

    @cached_property
    def kernels(self) -> dict[str, TritonKernel]:
        """By name."""
        triton, language = _names_of_triton(self.tree), _language(self.tree)
        found = (one for one in ast.walk(self.tree) if isinstance(one, ast.FunctionDef))
        return {
            one.name: TritonKernel(one, language) for one in found
            if any(_compiles(decorator, triton) for decorator in one.decorator_list)
        }  # fmt: skip

    @cached_property
    def launches(self) -> tuple[TritonLaunch, ...]:
        """Every launch of the module's kernels, in source order."""
        return tuple(self._launches())

    def _launches(self) -> Iterator[TritonLaunch]:
        for top in self.tree.body:
            functions = top.body if isinstance(top, ast.ClassDef) else [top]
            for one in functions:
                scope = one if isinstance(one, ast.FunctionDef) else self.tree
                for call in ast.walk(one):
                    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Subscript):
                        continue
                    name = call.func.value
                    if isinstance(name, ast.Name) and name.id in self.kernels:
                        yield TritonLaunch(call, self.kernels[name.id], scope)

    @cached_property
    def entered(self) -> tuple[TritonKernel, ...]:
        """Kernels of the top level that code outside of them names, in the order of the file."""
        own = {id(kernel.node) for kernel in self.kernels.values()}
        outside = (statement for statement in self.tree.body if id(statement) not in own)
        named = {node.id for one in outside for node in ast.walk(one) if isinstance(node, ast.Name)}
        return tuple(
            kernel for name, kernel in self.kernels.items()
            if name in named and kernel.node in self.tree.body
        )  # fmt: skip

    def helpers_ask_no_number(self, kernel: TritonKernel) -> bool:
        """Whether no function that a kernel calls asks for the program's number itself."""
        called, waiting = {kernel.node.name}, [kernel]
        while waiting:
            names = {n.id for n in ast.walk(waiting.pop().node) if isinstance(n, ast.Name)}
            found = [self.kernels[name] for name in names - called if name in self.kernels]
            if any(one.calls("program_id") or one.calls("num_programs") for one in found):
                return False
            called |= names
            waiting += found
        return True

    def launches_alone(self, kernel: TritonKernel) -> list[TritonLaunch]:
        """Where the module launches a kernel; empty if it names it for anything else."""
        name = kernel.node.name
        mentions = [n for n in ast.walk(self.tree) if isinstance(n, ast.Name) and n.id == name]
        found = [launch for launch in self.launches if launch.kernel is kernel]
        return found if len(mentions) == len(found) else []

    def replace(self, node: ast.expr, text: str) -> SourceEdit:
        """Put `text` in the place of an expression."""
        return SourceEdit(*span_of(node, self.starts), text)

    def after(self, node: ast.expr | ast.stmt | ast.arg, text: str) -> SourceEdit:
        """Insert behind a node."""
        _, end = span_of(node, self.starts)
        return SourceEdit(end, end, text)

    def text_of(self, node: ast.expr | ast.arg) -> str:
        """As it is written."""
        start, end = span_of(node, self.starts)
        return self.text.encode()[start:end].decode()

    def with_option(self, call: ast.Call, option: str) -> SourceEdit:
        """Give a call that has arguments one more keyword."""
        place = self.behind_arguments(call)
        return SourceEdit(place, place, f", {option}")

    def behind_arguments(self, call: ast.Call) -> int:
        """The byte behind a call's last argument, and behind the brackets around that."""
        given = [*call.args, *(one.value for one in call.keywords)]
        last = max(span_of(one, self.starts)[1] for one in given)
        rest = self.text.encode()[last : span_of(call, self.starts)[1] - 1]
        closing = _CLOSING.match(rest)
        return last + (closing.end() if closing else 0)

    def before_body(self, kernel: TritonKernel, line: str) -> SourceEdit | None:
        """One more line in front of a kernel's first statement; None if that shares its line."""
        first = kernel.node.body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            first = kernel.node.body[1]
        place = self.starts[first.lineno - 1]
        indent = self.text.encode()[place : place + first.col_offset].decode()
        return None if indent.strip() else SourceEdit(place, place, f"{indent}{line}\n")


def option_of(call: ast.Call, name: str) -> ast.expr | None:
    """The value of a keyword argument."""
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


def axis_of(call: ast.Call) -> object:
    """The axis that `program_id` asks for."""
    node = call.args[0] if call.args else option_of(call, "axis")
    return node.value if isinstance(node, ast.Constant) else None


def last_name(node: ast.expr) -> str:
    """`constexpr` of `tl.constexpr`; empty for what is no name."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def line_starts(text: str) -> list[int]:
    """Byte offset of every line."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line.encode()))
    return starts


def span_of(node: ast.expr | ast.stmt | ast.arg, starts: Sequence[int]) -> Span:
    """Bytes of an expression; columns of `ast` are bytes already."""
    end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or node.col_offset)
    return starts[node.lineno - 1] + node.col_offset, end


def _names_of_triton(tree: ast.Module) -> set[str]:
    """What the module calls Triton and what it takes from it."""
    names = set(TRITON)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {
                one.asname or one.name.split(".")[0] for one in node.names
                if one.name.split(".")[0] == "triton"
            }  # fmt: skip
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "triton":
            names |= {one.asname or one.name for one in node.names}
    return names


def _compiles(decorator: ast.expr, triton: set[str]) -> bool:
    node = decorator.func if isinstance(decorator, ast.Call) else decorator
    name, root = last_name(node), node
    while isinstance(root, ast.Attribute):
        root = root.value
    return name == "jit" and isinstance(root, ast.Name) and root.id in triton


def _language(tree: ast.Module) -> str:
    for node in ast.walk(tree):
        for alias in node.names if isinstance(node, (ast.Import, ast.ImportFrom)) else ():
            is_from = isinstance(node, ast.ImportFrom) and node.module == "triton"
            if alias.name == "triton.language" or (is_from and alias.name == "language"):
                return alias.asname or alias.name
    return "tl"


def _subscript(call: ast.Call) -> ast.Subscript:
    assert isinstance(call.func, ast.Subscript)  # that is what a launch is
    return call.func
