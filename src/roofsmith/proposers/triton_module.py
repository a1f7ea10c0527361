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
    node: ast.FunctionDef

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
        triton = _names_of_triton(self.tree)
        found = (one for one in ast.walk(self.tree) if isinstance(one, ast.FunctionDef))
        return {
            one.name: TritonKernel(one) for one in found
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

    def after(self, node: ast.expr | ast.stmt | ast.arg, text: str) -> SourceEdit:
        _, end = span_of(node, self.starts)
        return SourceEdit(end, end, text)

    def text_of(self, node: ast.expr | ast.arg) -> str:
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
