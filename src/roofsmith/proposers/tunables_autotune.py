"""What `triton.autotune` chooses from, as settings of a sweep.

A sweep measures as the judge does, on every workload; the decorator measures in each process anew,
once per key. Where a setting of it is chosen, the decorator goes and constants at the launches take
its place: those that were chosen, and for the others what its first configuration says.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from roofsmith.proposers.arithmetic import value_of
from roofsmith.proposers.edits import SourceEdit
from roofsmith.proposers.triton_module import (
    TritonKernel,
    TritonLaunch,
    TritonModule,
    last_name,
)
from roofsmith.proposers.tunables_choices import LAUNCH_OPTIONS
from roofsmith.proposers.tunables_sites import Site

AUTOTUNED = "autotuned"
"""Setting of what the decorator still chooses."""
MOST_CONFIGURATIONS = 512
"""Longer lists aren't read: their expansion is no list of choices any more."""

_DEEPEST = 5
"""Names, calls and sums inside one another that are followed to a list."""
_TRIED = 2
"""Assignments or returns of one name that are tried."""
_OPTIONS = {"num_warps": 4, "num_stages": 3, "num_ctas": 1, "maxnreg": None}
"""Of `triton.Config`, with its defaults."""

Configuration = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Autotuned:
    """A kernel with the decorator, its configurations and its launches."""

    kernel: TritonKernel
    decorator: ast.Call
    configurations: tuple[Configuration, ...]
    launches: tuple[TritonLaunch, ...]

    @property
    def sites(self) -> Iterator[Site]:
        """A setting for every key that configurations differ in, and every option that matters."""
        for key in self.configurations[0]:
            listed = {one[key] for one in self.configurations}
            useful = key in LAUNCH_OPTIONS and (key != "num_stages" or self.kernel.loops)
            choices = tuple(sorted(listed | set(LAUNCH_OPTIONS.get(key, ()))))
            if len(listed) > 1 or useful:
                yield Site(
                    self._name(key), "launch", AUTOTUNED, self.decorator.lineno, (),
                    choices=choices,
                )  # fmt: skip

    def edits(self, assignment: Mapping[str, int | str], module: TritonModule) -> list[SourceEdit]:
        """Constants in place of the decorator; none where nothing of it is assigned."""
        settings = {key: assignment.get(self._name(key)) for key in self.configurations[0]}
        chosen = {key: value for key, value in settings.items() if isinstance(value, int)}
        if not chosen:
            return []
        constants = {**self.configurations[0], **chosen}
        written = ", ".join(f"{key}={value}" for key, value in constants.items())
        first, last = self.decorator.lineno, self.decorator.end_lineno or self.decorator.lineno
        removed = SourceEdit(module.starts[first - 1], module.starts[last], "")
        return [removed, *(module.with_option(one.call, written) for one in self.launches)]

    def _name(self, key: str) -> str:
        return f"{key}:{self.kernel.node.name}"


def autotuned_of(
    kernel: TritonKernel, launches: Sequence[TritonLaunch], tree: ast.Module
) -> Autotuned | None:
    """None where there is no such decorator, or it can't be replaced by what is written there."""
    decorator = kernel.autotune
    own = tuple(one for one in launches if one.kernel is kernel)
    if decorator is None or not own or any(one.last is None for one in own):
        return None
    named = {one.arg: one.value for one in decorator.keywords}
    listed = decorator.args[0] if decorator.args else named.get("configs")
    read = None if listed is None else _configurations(listed, tree)
    if not read or any(set(one) != set(read[0]) for one in read):
        return None
    passed = {name for launch in own for name in launch.arguments}
    return None if passed & set(read[0]) else Autotuned(kernel, decorator, tuple(read), own)


def _configurations(
    node: ast.expr, tree: ast.Module, depth: int = _DEEPEST
) -> list[Configuration] | None:
    """Those of a list or of a comprehension over lists of numbers; None where one isn't read."""
    if depth == 0:
        return None
    match node:
        case ast.Call(func=ast.Name(id="list" | "filter"), args=[*_, listed]):
            return _configurations(listed, tree, depth - 1)
    if isinstance(node, (ast.Name, ast.Call)):
        first = itertools.islice(_written(node, tree), _TRIED)
        written = (_configurations(one, tree, depth - 1) for one in first)
        return next((one for one in written if one is not None), None)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts = [_configurations(one, tree, depth - 1) for one in (node.left, node.right)]
        return None if parts[0] is None or parts[1] is None else parts[0] + parts[1]
    read: list[Configuration | None] | None
    if isinstance(node, (ast.List, ast.Tuple)):
        read = [_configuration(one, {}) for one in node.elts]
    elif isinstance(node, (ast.ListComp, ast.GeneratorExp)):
        bindings = _bindings(node.generators)
        read = None if bindings is None else [_configuration(node.elt, one) for one in bindings]
    else:
        return None
    if not read or any(one is None for one in read):
        return None
    return [one for one in read if one is not None]


def _written(node: ast.Name | ast.Call, tree: ast.Module) -> Iterator[ast.expr]:
    """What a name is assigned, or what a function without arguments returns, in source order."""
    for one in tree.body:
        if isinstance(node, ast.Name):
            if isinstance(one, ast.Assign) and node.id in map(last_name, one.targets):
                yield one.value
        elif isinstance(one, ast.FunctionDef) and one.name == last_name(node.func):
            returns = (inner for inner in ast.walk(one) if isinstance(inner, ast.Return))
            yield from (inner.value for inner in returns if inner.value is not None)


def _bindings(generators: Sequence[ast.comprehension]) -> list[dict[str, int]] | None:
    """What the names of a comprehension run through."""
    runs: list[list[dict[str, int]]] = []
    for one in generators:
        names = one.target.elts if isinstance(one.target, ast.Tuple) else [one.target]
        if one.ifs or not isinstance(one.iter, (ast.List, ast.Tuple)):
            return None
        runs.append([])
        for element in one.iter.elts:
            paired = isinstance(one.target, ast.Tuple)
            parts = element.elts if paired and isinstance(element, ast.Tuple) else [element]
            values = [value_of(part, {}) for part in parts]
            read = {last_name(n): v for n, v in zip(names, values, strict=False) if v is not None}
            if len(read) < len(names):
                return None
            runs[-1].append(read)
    points = list(itertools.islice(itertools.product(*runs), MOST_CONFIGURATIONS + 1))
    if len(points) > MOST_CONFIGURATIONS:
        return None
    return [{name: v for one in point for name, v in one.items()} for point in points]


def _configuration(node: ast.expr, names: Mapping[str, int]) -> Configuration | None:
    """`triton.Config({"BLOCK": 128}, num_warps=4)`, with the defaults of what it doesn't name."""
    if not isinstance(node, ast.Call) or last_name(node.func) != "Config":
        return None
    given = {one.arg: one.value for one in node.keywords}
    given |= dict(zip(("kwargs", *_OPTIONS), node.args, strict=False))
    meta = given.pop("kwargs", None)
    if not isinstance(meta, ast.Dict) or not set(given) <= set(_OPTIONS):
        return None
    pairs: list[tuple[str, ast.expr]] = []
    for key, value in zip(meta.keys, meta.values, strict=True):
        if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
            return None
        pairs.append((key.value, value))
    pairs += [(name, value) for name, value in given.items() if name is not None]
    read = {name: value_of(value, names) for name, value in pairs}
    settings = {name: value for name, value in read.items() if value is not None}
    if len(settings) < len(read):
        return None
    for option in LAUNCH_OPTIONS:
        settings.setdefault(option, _OPTIONS[option] or 0)
    return settings
