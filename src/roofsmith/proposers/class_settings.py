"""Settings that differ between config classes: `run_kernel` chooses them by a size.

    WARPS = 4 if x.shape[1] <= 2896 else 8
    softmax(x, y, GROUP=1024 if x.shape[1] <= 2896 else 4096)

Bounds lie between the classes, at the geometric mean of the sizes next to them, so that what lies
in between runs what is nearer. A constant of the module becomes a parameter of the functions that
read it, whose default it stays.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from roofsmith.asking.sights import seen_dimensions
from roofsmith.domain.kernel import MODULE_LANGUAGES, Candidate
from roofsmith.domain.yardstick import ENTRY
from roofsmith.ports import Brief, DimensionSource
from roofsmith.proposers.edits import SourceEdit, apply_edits
from roofsmith.proposers.triton_module import TritonKernel, TritonModule, last_name, span_of
from roofsmith.proposers.tunables import Assignment, Setting
from roofsmith.proposers.tunables_python import read_python_sites
from roofsmith.proposers.tunables_sites import Site

MOST_CLASSES = 4
"""A search for each: with more, none gets far."""


@dataclass(frozen=True, slots=True)
class Ladder:
    """Config classes in the order of one size that `run_kernel` sees."""

    size: str
    """As it is written there, such as `x.shape[1]`."""
    bounds: tuple[int, ...]
    """The largest size that counts to each class but the last."""

    @property
    def ranges(self) -> tuple[str, ...]:
        """Of each class, for people: `N <= 181`, `181 < N <= 2048`, `N > 2048`."""
        first, last = f"{self.size} <= {self.bounds[0]}", f"{self.size} > {self.bounds[-1]}"
        inner = (f"{low} < {self.size} <= {high}" for low, high in pairwise(self.bounds))
        return (first, *inner, last)

    def chosen(self, settings: Sequence[Setting]) -> str:
        """`64 if N <= 181 else 256`; the setting alone where all have the same."""
        text = str(settings[-1])
        below = zip(self.bounds, pairwise(settings), strict=True)
        for bound, (setting, above) in reversed(list(below)):
            if setting != above:
                text = f"{setting} if {self.size} <= {bound} else {text}"
        return text


def ladder_of(brief: Brief) -> Ladder | None:
    """None where there is one class, or no size that tells the classes apart."""
    opened, workloads = _opened(brief.incumbent), brief.campaign.started.target.workloads
    described = all(w.label in brief.descriptions for w in workloads)
    if opened is None or not described or not 2 <= len(brief.classes) <= MOST_CLASSES:
        return None
    sights = seen_dimensions(workloads, brief.signature, brief.descriptions)
    found: list[tuple[float, Ladder]] = []
    for dim, sight in sights.items():
        if sight.argument not in _steady(opened[1]):
            continue
        sizes = {w.label: w.dims[dim] for w in workloads}
        ranges = sorted(
            (min(sizes[w] for w in c.workloads), max(sizes[w] for w in c.workloads), c.name)
            for c in brief.classes
        )
        gaps = [(large, small) for (_, large, _), (small, _, _) in pairwise(ranges)]
        if all(large < small for large, small in gaps):
            bounds = tuple(math.isqrt(large * small) for large, small in gaps)
            ladder = Ladder(_written(sight), bounds)
            found.append((min(small / large for large, small in gaps), ladder))
    return max(found, key=lambda one: one[0], default=(0.0, None))[1]


def choosable(candidate: Candidate) -> frozenset[str]:
    """Names of the tunables that `run_kernel` can choose."""
    opened = _opened(candidate)
    sites = read_python_sites(candidate.kernel.text) if opened else ()
    return frozenset(
        site.name
        for site in sites
        if isinstance(site.current, int)
        and opened is not None
        and _edits(*opened, {site.name: (site, "0")}) is not None
    )


def for_classes(candidate: Candidate, ladder: Ladder, settings: Sequence[Assignment]) -> Candidate:
    """The candidate with settings for each class, in the ladder's order, of `choosable` names."""
    opened = _opened(candidate)
    assert opened is not None, "only a candidate with an entry has a ladder"
    module, entry = opened
    sites = {site.name: site for site in read_python_sites(module.text)}
    edits: list[SourceEdit] = []
    varied: dict[str, tuple[Site, str]] = {}
    for name in settings[0]:
        values = [one[name] for one in settings]
        if len(set(values)) == 1:
            edits += sites[name].edits(values[0])
        else:
            varied[name] = sites[name], ladder.chosen(values)
    edits += _edits(module, entry, varied) or ()
    return candidate.with_kernel_text(apply_edits(module.text, edits))


def _edits(
    module: TritonModule, entry: ast.FunctionDef, varied: Mapping[str, tuple[Site, str]]
) -> list[SourceEdit] | None:
    """What puts expressions in place of settings; None where one of them isn't the entry's."""
    begin, end = span_of(entry, module.starts)
    edits: list[SourceEdit] = []
    passed: dict[str, list[str]] = {}
    """Arguments to add, by function."""
    for name, (site, text) in varied.items():
        if all(begin <= a and b <= end for a, b in site.spans) and not site.less_one:
            edits += site.edits(f"({text})" if site.written == "{}" else text)
            continue
        places = _places(module, entry, site)
        if places is None:
            return None
        is_read, functions = places
        if is_read:
            line = module.before_body(TritonKernel(entry), f"{name} = {text}")
            if line is None:
                return None
            edits.append(line)
        for function in functions:
            passed.setdefault(function, []).append(f"{name}={text}")
    for function, arguments in passed.items():
        added = list(_passing(module, entry, function, arguments))
        if not all(added):
            return None
        edits += [edit for edit in added if edit is not None]
    return edits


def _places(
    module: TritonModule, entry: ast.FunctionDef, site: Site
) -> tuple[bool, list[str]] | None:
    """Whether the entry reads a constant of the module, and the other functions that do.

    None where others read it, or the setting is no constant of the module.
    """
    assigned = [one for one in module.tree.body if isinstance(one, ast.Assign | ast.AnnAssign)
                and any(last_name(t) == site.name for t in _targets(one))]  # fmt: skip
    if len(assigned) != 1 or site.less_one:
        return None
    functions: list[str] = []
    for one in module.tree.body:
        names = [n for n in ast.walk(one) if isinstance(n, ast.Name) and n.id == site.name]
        if not names or one in assigned or site.name in _parameters(one):
            continue
        if not isinstance(one, ast.FunctionDef) or not _reads_only(one, site.name, names):
            return None
        functions.append(one.name)
    others = [name for name in functions if name != entry.name]
    return (len(others) < len(functions), others) if functions else None


def _reads_only(function: ast.FunctionDef, name: str, mentions: Sequence[ast.Name]) -> bool:
    """Whether a function reads a name in its body, and nothing else."""
    inside = {node for one in function.body for node in ast.walk(one)}
    declared = (node for node in inside if isinstance(node, ast.Global))
    return not any(name in one.names for one in declared) and all(
        one in inside and isinstance(one.ctx, ast.Load) for one in mentions
    )


def _passing(
    module: TritonModule, entry: ast.FunctionDef, function: str, arguments: Sequence[str]
) -> Iterator[SourceEdit | None]:
    """What passes arguments to a function that only the entry calls, and takes them there."""
    node = next(
        n for n in module.tree.body if isinstance(n, ast.FunctionDef) and n.name == function
    )
    calls = [
        n for n in ast.walk(entry) if isinstance(n, ast.Call) and last_name(n.func) == function
    ]
    mentions = [n for n in ast.walk(module.tree) if isinstance(n, ast.Name) and n.id == function]
    parameters, names = node.args.args, [one.partition("=")[0] for one in arguments]
    clear = parameters and not (node.args.vararg or node.args.kwarg or node.args.kwonlyargs)
    taken = _parameters(node) & set(names)
    plain = all(c.args and all(k.arg for k in c.keywords) for c in calls)
    if function in module.kernels or not clear or taken or not plain or len(mentions) != len(calls):
        yield None
        return
    last = (node.args.defaults or parameters)[-1]
    yield module.after(last, "".join(f", {name}={name}" for name in names))
    for call in calls:
        yield module.with_option(call, ", ".join(arguments))


def _opened(candidate: Candidate) -> tuple[TritonModule, ast.FunctionDef] | None:
    """The module and its entry; None of one that has none, or is no module."""
    if candidate.language not in MODULE_LANGUAGES:
        return None
    try:
        module = TritonModule(candidate.kernel.text)
    except (SyntaxError, ValueError):
        return None
    functions = (one for one in module.tree.body if isinstance(one, ast.FunctionDef))
    entry = next((one for one in functions if one.name == ENTRY), None)
    return None if entry is None else (module, entry)


def _steady(entry: ast.FunctionDef) -> set[str]:
    """Parameters that are never anything but what was passed."""
    stored = {n.id for n in ast.walk(entry) if isinstance(n, ast.Name)
              and not isinstance(n.ctx, ast.Load)}  # fmt: skip
    return _parameters(entry) - stored


def _parameters(node: ast.stmt) -> set[str]:
    given = node.args if isinstance(node, ast.FunctionDef) else None
    every = (*given.posonlyargs, *given.args, *given.kwonlyargs) if given else ()
    return {one.arg for one in every}


def _targets(node: ast.Assign | ast.AnnAssign) -> list[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else [node.target]


def _written(sight: DimensionSource) -> str:
    return sight.argument if sight.axis is None else f"{sight.argument}.shape[{sight.axis}]"
