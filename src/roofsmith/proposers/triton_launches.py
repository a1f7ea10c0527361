"""Triton kernels of a Python module, their launches, and the arguments that are constants there.

Read with `ast`. A launch is `kernel[grid](...)` of a function that one of Triton's decorators
compiles; Numba's kernels, which are launched alike, are none.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from roofsmith.proposers.edits import Span

TRITON = ("triton", "gluon")
"""Where the decorators and `constexpr` come from."""


@dataclass(frozen=True)
class TritonKernel:
    """A function that Triton compiles."""

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


def kernels_of(tree: ast.Module) -> dict[str, TritonKernel]:
    """The kernels of a module, by name."""
    triton = _names_of_triton(tree)
    found = (one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef))
    return {
        one.name: TritonKernel(one) for one in found
        if any(_compiles(decorator, triton) for decorator in one.decorator_list)
    }  # fmt: skip


def launches_of(tree: ast.Module, kernels: Mapping[str, TritonKernel]) -> Iterator[TritonLaunch]:
    """Every launch of the module's kernels, in source order."""
    for top in tree.body:
        functions = top.body if isinstance(top, ast.ClassDef) else [top]
        for one in functions:
            scope = one if isinstance(one, ast.FunctionDef) else tree
            for call in ast.walk(one):
                if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Subscript):
                    continue
                name = call.func.value
                if isinstance(name, ast.Name) and name.id in kernels:
                    yield TritonLaunch(call, kernels[name.id], scope)


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
