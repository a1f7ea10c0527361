"""Settings that are written in a Triton or PyTorch module.

Found with `ast`: integers of the module's top level in capitals (`BLOCK = 1024`), a `# tune:` line
with its choices, integers that a Triton kernel is launched with, directly, through a local variable
or as a default, and Triton's launch options (`num_warps=4`), also where a launch doesn't name them.

A sweep measures as the judge does, on every workload; `triton.autotune` measures in each process
anew, once per key. Where a setting of it is chosen, the decorator goes and constants at the
launches take its place: those that were chosen, and for the others what its first configuration
says.
"""

from __future__ import annotations

import ast
import io
import itertools
import re
import tokenize
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from roofsmith.proposers.edits import SourceEdit, Span
from roofsmith.proposers.triton_module import (
    TritonKernel,
    TritonLaunch,
    TritonModule,
    last_name,
    span_of,
)
from roofsmith.proposers.tunables_sites import (
    LAUNCH_OPTIONS,
    Site,
    around,
    launch_choices,
    named_apart,
    tied,
)

DEFAULTS = {"num_warps": 4, "num_stages": 3}
"""Of Triton where a launch doesn't name them: `CUDAOptions` in third_party/nvidia/backend."""

_TUNE = re.compile(r"#\s*tune:\s*([A-Za-z_]\w*)\s*=\s*(\d+)\s*\[\s*(\d+(?:\s*,\s*\d+)*)\s*,?\s*\]")
_CONSTANT = re.compile(r"[A-Z][A-Z0-9_]*")
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


def read_python_sites(text: str) -> tuple[Site, ...]:
    """Every setting of a module, in source order; none of a file that isn't Python."""
    try:
        module = _Module(text)
        comments = list(_comments(text))
    except (SyntaxError, ValueError, tokenize.TokenError):
        return ()
    named = {site.name: site for site in module.constants()}
    for line, column, match in comments:
        site = named.get(match.group(1))
        if site is None:
            continue
        begin = module.starts[line - 1] + len(text.splitlines()[line - 1][:column].encode())
        span = (begin + match.start(2), begin + match.end(2))
        listed = tuple(dict.fromkeys(int(choice) for choice in match.group(3).split(",")))
        spans = (site.spans[0], span)
        named[site.name] = replace(site, kind="declared", choices=listed, spans=spans)
    sites = [*named.values(), *module.launched(), *module.options()]
    sites = tied(sorted(sites, key=lambda site: site.spans))
    return tuple(named_apart([*sites, *module.autotuned_sites()]))


def autotuned_edits(text: str, assignment: Mapping[str, int | str]) -> list[SourceEdit]:
    """What puts constants in the place of `triton.autotune`, where its settings are assigned."""
    module = _Module(text)
    return [
        edit for one in module.autotuned
        for edit in one.edits(assignment, module)
    ]  # fmt: skip


def idle_spans(text: str, ran: Collection[str]) -> tuple[Span, ...]:
    """Bytes of kernels that none of the runs launched, of their launches, and of constants that
    only these name; none where no kernel of the module is among those that ran."""
    try:
        module = TritonModule(text)
    except (SyntaxError, ValueError):
        return ()
    names = {one.kernel.node.name for one in module.launches}
    idle = [one for one in module.launches if one.kernel.node.name not in ran]
    if not names & set(ran) or not idle:
        return ()
    nodes: list[ast.expr | ast.stmt] = [n for one in idle for n in (one.kernel.node, one.call)]
    inside = {id(inner) for node in nodes for inner in ast.walk(node)}
    read = {
        one.id for one in ast.walk(module.tree)
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load) and id(one) not in inside
    }  # fmt: skip
    nodes += [
        one for one in module.tree.body
        if isinstance(one, ast.Assign) and not read & {last_name(target) for target in one.targets}
    ]  # fmt: skip
    starts = module.starts  # up to that of the next line, for a comment behind it
    return tuple((span_of(one, starts)[0], starts[one.end_lineno or one.lineno]) for one in nodes)


class _Module(TritonModule):
    @cached_property
    def autotuned(self) -> tuple[Autotuned, ...]:
        """Kernels whose decorator chooses among what is written there."""
        return tuple(
            one for kernel in self.kernels.values()
            if (one := autotuned_of(kernel, self.launches, self.tree)) is not None
        )  # fmt: skip

    def constants(self) -> Iterator[Site]:
        """Integers of the top level."""
        for node in self.tree.body:
            if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
                continue
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            value = _integer(node.value)
            if isinstance(target, ast.Name) and _CONSTANT.fullmatch(target.id) and value:
                usual = launch_choices(target.id, value) if self.launches else ()
                yield self._site(target.id, node.value, usual or around(value, lowest=1))

    def launched(self) -> Iterator[Site]:
        """Integers that launches pass to kernels, as literals, local names or defaults."""
        for launch in self.launches:
            for name, given in launch.arguments.items():
                known = name in launch.kernel.constants or name in LAUNCH_OPTIONS
                if launch.kernel.only_bounds(name):
                    continue
                if isinstance(given, ast.Name):
                    yield from self._local(launch.scope, given.id, name)
                elif isinstance(given, ast.Attribute):
                    yield from self._attribute(given, name)
                elif known and name not in LAUNCH_OPTIONS:
                    yield from self._literal(name, given, [launch.scope])
        for kernel in self.kernels.values():
            yield from self._defaults(kernel)

    def options(self) -> Iterator[Site]:
        """Launch options that are named, and those that could be."""
        inside_decorators = {
            id(one) for kernel in self.kernels.values()
            for decorator in kernel.node.decorator_list for one in ast.walk(decorator)
        }  # fmt: skip
        for call in ast.walk(self.tree):
            if not isinstance(call, ast.Call) or id(call) in inside_decorators:
                continue
            for node in call.keywords if last_name(call.func) != "Config" else ():
                if node.arg in LAUNCH_OPTIONS and _integer(node.value):
                    name = f"{node.arg}@{node.value.lineno}"
                    choices = LAUNCH_OPTIONS[node.arg]
                    yield self._site(name, node.value, choices, kind="launch")
        for launch in self.launches:
            yield from self._computed(launch)
            yield from self._added(launch)

    def autotuned_sites(self) -> Iterator[Site]:
        """What the configurations of `triton.autotune` set."""
        for one in self.autotuned:
            yield from one.sites

    def _computed(self, launch: TritonLaunch) -> Iterator[Site]:
        """Options that the launch gives what the host computes, which a number may replace."""
        for keyword in launch.call.keywords:
            given, option = keyword.value, keyword.arg
            if option not in LAUNCH_OPTIONS or _integer(given):
                continue
            name = given.id if isinstance(given, ast.Name) else ""
            if any(self._local(launch.scope, name, option)) or _CONSTANT.fullmatch(name):
                continue
            if isinstance(given, ast.Attribute) and any(self._attribute(given, option)):
                continue
            yield Site(
                f"{option}@{given.lineno}", "launch", self.text_of(given), given.lineno,
                (span_of(given, self.starts),), choices=LAUNCH_OPTIONS[option],
            )  # fmt: skip

    def _added(self, launch: TritonLaunch) -> Iterator[Site]:
        last, kernel = launch.last, launch.kernel
        if last is None or kernel.autotune is not None:
            return
        end = self.behind_arguments(launch.call)
        line = last.end_lineno or last.lineno
        for option, choices in LAUNCH_OPTIONS.items():
            named = option in launch.arguments or kernel.decorators_name(option)
            if not named and (option != "num_stages" or kernel.loops):
                yield Site(
                    f"{option}@{line}", "launch", DEFAULTS[option], line, ((end, end),),
                    choices=choices, written=f", {option}={{}}",
                )  # fmt: skip

    def _defaults(self, kernel: TritonKernel) -> Iterator[Site]:
        launches = [one for one in self.launches if one.kernel is kernel]
        if kernel.autotune is not None:
            return
        for name, value in kernel.defaults.items():
            passed = any(name in one.arguments for one in launches)
            tunes = name in kernel.constants and not kernel.only_bounds(name)
            if tunes and launches and not passed:
                yield from self._literal(name, value, [one.scope for one in launches])

    def _local(self, scope: ast.FunctionDef | ast.Module, name: str, given: str) -> Iterator[Site]:
        """`BLOCK_M = 64` of the function that launches, where that is all that is assigned."""
        if isinstance(scope, ast.Module):
            return
        stores = [
            one for one in ast.walk(scope)
            if isinstance(one, ast.Name) and one.id == name and not isinstance(one.ctx, ast.Load)
        ]  # fmt: skip
        value = _assigned(scope, name)
        if len(stores) == 1 and value is not None and _integer(value):
            yield from self._literal(name, value, [scope], meaning=given)

    def _attribute(self, given: ast.Attribute, meaning: str) -> Iterator[Site]:
        """`self.block = 256`, where no other attribute of the name is ever set."""
        sets = [
            one for one in ast.walk(self.tree)
            if isinstance(one, ast.Attribute) and one.attr == given.attr
            and not isinstance(one.ctx, ast.Load)
        ]  # fmt: skip
        values = [
            one.value for one in ast.walk(self.tree)
            if isinstance(one, ast.Assign) and len(sets) == 1 and one.targets == sets
        ]  # fmt: skip
        for value in values:
            yield from self._literal(given.attr, value, [], meaning=meaning)

    def _literal(
        self,
        name: str,
        node: ast.expr,
        scopes: Sequence[ast.FunctionDef | ast.Module],
        meaning: str = "",
    ) -> Iterator[Site]:
        """A block size, with the grid's divisions by the same number."""
        value = _integer(node)
        choices = launch_choices(meaning or name, value) if value else ()
        if value is None or not choices:
            return
        found = [_divisions(scope, value) for scope in scopes]
        spans = dict.fromkeys(span_of(one, self.starts) for same, _ in found for one in same)
        less = dict.fromkeys(span_of(one, self.starts) for _, less in found for one in less)
        site = self._site(name, node, choices)
        spans.pop(site.spans[0], None)
        yield replace(site, spans=(*site.spans, *spans), less_one=tuple(less))

    def _site(
        self, name: str, node: ast.expr, choices: Sequence[int], kind: str = "constant"
    ) -> Site:
        value = _integer(node)
        assert value is not None
        span: Span = span_of(_bare(node), self.starts)
        return Site(
            name, "launch" if kind == "launch" else "constant", value, node.lineno, (span,),
            choices=tuple(choices),
        )  # fmt: skip


def _assigned(scope: ast.FunctionDef, name: str) -> ast.expr | None:
    """What is assigned to a local name, also as part of a tuple."""
    for node in ast.walk(scope):
        if isinstance(node, ast.AnnAssign) and last_name(node.target) == name:
            return node.value
        if not isinstance(node, ast.Assign):
            continue
        for target in node.targets:
            if isinstance(target, ast.Name) and target.id == name:
                return node.value
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = zip(target.elts, node.value.elts, strict=False)
                named = (value for one, value in pairs if last_name(one) == name)
                if (value := next(named, None)) is not None:
                    return value
    return None


def _divisions(scope: ast.AST, value: int) -> tuple[list[ast.expr], list[ast.expr]]:
    """Where a number is divided by, and where the number minus one is added in front of that."""
    same: list[ast.expr] = []
    less: list[ast.expr] = []
    for node in ast.walk(scope):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv):
            if _integer(node.right) == value:
                same.append(node.right)
                added = [one for one in ast.walk(node.left) if isinstance(one, ast.expr)]
                less += [one for one in added if _integer(one) == value - 1]
        elif isinstance(node, ast.Call) and last_name(node.func).endswith("cdiv"):
            same += [one for one in node.args[1:] if _integer(one) == value]
    return same, less


def _bare(node: ast.expr) -> ast.expr:
    """The number in `tl.constexpr(128)`."""
    if isinstance(node, ast.Call) and last_name(node.func) == "constexpr" and len(node.args) == 1:
        return node.args[0]
    return node


def _integer(node: ast.expr) -> int | None:
    """A positive integer that is written as one."""
    node = _bare(node)
    if isinstance(node, ast.Constant) and type(node.value) is int and node.value > 0:
        return node.value
    return None


def _comments(text: str) -> Iterator[tuple[int, int, re.Match[str]]]:
    """Line and column of every comment that is a `tune:` line."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        match = _TUNE.match(token.string) if token.type == tokenize.COMMENT else None
        if match is not None:
            yield *token.start, match


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
            values = [_value(part, {}) for part in parts]
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
    read = {name: _value(value, names) for name, value in pairs}
    settings = {name: value for name, value in read.items() if value is not None}
    if len(settings) < len(read):
        return None
    for option in LAUNCH_OPTIONS:
        settings.setdefault(option, _OPTIONS[option] or 0)
    return settings


def _value(node: ast.expr, names: Mapping[str, int]) -> int | None:
    match node:
        case ast.Constant(value=int(value)):
            return int(value)
        case ast.Name(id=name):
            return names.get(name)
    return None
