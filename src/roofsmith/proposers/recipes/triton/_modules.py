"""A Triton module: its kernels, and where in the file their parts are written."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property, lru_cache

from roofsmith.proposers.cards import CardChange, CardContext
from roofsmith.proposers.edits import SourceEdit, apply_edits
from roofsmith.proposers.triton_launches import line_starts, span_of


@dataclass(frozen=True)
class LaunchedKernel:
    """A function with `@triton.jit` that isn't only called by others."""

    node: ast.FunctionDef
    language: str
    """What the module calls `triton.language`."""

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
    def parameters(self) -> tuple[str, ...]:
        """Names of all parameters."""
        given = self.node.args
        return tuple(arg.arg for arg in (*given.posonlyargs, *given.args, *given.kwonlyargs))

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

    def origins(self, expression: ast.expr) -> frozenset[str]:
        """Every name that an expression is made of, directly or not, with `program_id`."""
        found: set[str] = set()
        waiting: list[ast.expr] = [expression]
        while waiting:
            for node in ast.walk(waiting.pop()):
                name = node.id if isinstance(node, ast.Name) else None
                if isinstance(node, ast.Attribute):
                    name = node.attr
                if name is not None and name not in found:
                    found.add(name)
                    waiting += self.values.get(name, [])
        return frozenset(found)


@dataclass(frozen=True)
class GridLaunch:
    """`kernel[grid](...)`."""

    call: ast.Call
    named: ast.Name
    """The kernel."""
    grid: ast.expr | None
    """Programs, where the grid is written in place and has one dimension."""


class TritonModule:
    """A kernel file, parsed; no kernels in what isn't Python."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts = line_starts(text)
        try:
            self._tree = ast.parse(text)
        except SyntaxError:
            self._tree = ast.Module([], [])

    @cached_property
    def kernels(self) -> tuple[LaunchedKernel, ...]:
        """Those that code outside of kernels names, in the order of the file."""
        functions = [
            node
            for node in self._tree.body
            if isinstance(node, ast.FunctionDef) and any(map(_is_jit, node.decorator_list))
        ]
        launched = {
            node.id
            for statement in self._tree.body
            if statement not in functions
            for node in ast.walk(statement)
            if isinstance(node, ast.Name)
        }
        return tuple(
            LaunchedKernel(node, self._language) for node in functions if node.name in launched
        )

    def launches(self, kernel: LaunchedKernel) -> list[GridLaunch]:
        """Where the module names a kernel to launch it; empty if it names it for anything else."""
        found, name = list[GridLaunch](), kernel.node.name
        for node in ast.walk(self._tree):
            subscript = node.func if isinstance(node, ast.Call) else None
            if not isinstance(node, ast.Call) or not isinstance(subscript, ast.Subscript):
                continue
            named, grid = subscript.value, subscript.slice
            if isinstance(named, ast.Name) and named.id == name:
                sizes = grid.elts if isinstance(grid, ast.Tuple) else []
                found.append(GridLaunch(node, named, sizes[0] if len(sizes) == 1 else None))
        mentions = [n for n in ast.walk(self._tree) if isinstance(n, ast.Name) and n.id == name]
        return found if len(mentions) == len(found) else []

    @cached_property
    def _language(self) -> str:
        for node in ast.walk(self._tree):
            for alias in node.names if isinstance(node, (ast.Import, ast.ImportFrom)) else ():
                is_from = isinstance(node, ast.ImportFrom) and node.module == "triton"
                if alias.name == "triton.language" or (is_from and alias.name == "language"):
                    return alias.asname or alias.name
        return "tl"

    def replace(self, node: ast.expr, text: str) -> SourceEdit:
        """Put `text` in the place of an expression."""
        return SourceEdit(*span_of(node, self._starts), text)

    def after(self, node: ast.expr | ast.stmt | ast.arg, text: str) -> SourceEdit:
        """Insert behind a node."""
        _, end = span_of(node, self._starts)
        return SourceEdit(end, end, text)

    def text_of(self, node: ast.expr | ast.arg) -> str:
        """As it is written."""
        start, end = span_of(node, self._starts)
        return self.text.encode()[start:end].decode()

    def with_option(self, call: ast.Call, option: str) -> SourceEdit | None:
        """Give a call one more keyword; None where a comment stands at its end."""
        start, end = span_of(call, self._starts)
        inside = self.text.encode()[start : end - 1].decode()
        if "#" in inside:
            return None
        kept = inside.rstrip().removesuffix(",")
        place = start + len(kept.encode())
        return SourceEdit(place, place, f", {option}")

    def before_body(self, kernel: LaunchedKernel, line: str) -> SourceEdit | None:
        """One more line in front of a kernel's first statement; None if that shares its line."""
        first = kernel.node.body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            first = kernel.node.body[1]
        place = self._starts[first.lineno - 1]
        indent = self.text.encode()[place : place + first.col_offset].decode()
        return None if indent.strip() else SourceEdit(place, place, f"{indent}{line}\n")

    def edited(self, context: CardContext, edits: list[SourceEdit], statement: str) -> CardChange:
        """The incumbent with this file edited."""
        return CardChange(context.with_text(apply_edits(self.text, edits)), statement)


def _is_jit(decorator: ast.expr) -> bool:
    node = decorator.func if isinstance(decorator, ast.Call) else decorator
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name == "jit"


def option_of(call: ast.Call, name: str) -> ast.expr | None:
    """The value of a keyword argument."""
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


def axis_of(call: ast.Call) -> object:
    """The axis that `program_id` asks for."""
    node = call.args[0] if call.args else option_of(call, "axis")
    return node.value if isinstance(node, ast.Constant) else None


@lru_cache(maxsize=4)
def _read(text: str) -> TritonModule:
    return TritonModule(text)


def triton_module(context: CardContext) -> TritonModule:
    """The incumbent's kernel file."""
    return _read(context.candidate.kernel.text)
