"""Puts the Triton kernels of `triton_kernels/` into a target's module, in the place of its own."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources

from roofsmith.domain.device import Device
from roofsmith.domain.kernel import TRITON_LANGUAGES
from roofsmith.domain.yardstick import ENTRY
from roofsmith.proposers import tunables
from roofsmith.proposers.cards import Card, CardChange, CardContext
from roofsmith.proposers.reach import reaching

SMALL_NUMBER = re.compile(r"\b(?:1(?:\.0)?e-0?\d+|0\.0+1)\b")
"""An epsilon as kernels have it in their text."""
_SHARED_BYTES = 99 * 1024
"""Of a block, where the device doesn't say: the least of today's."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """The call that does a target's work."""

    kernels: str
    """The file in `triton_kernels/`, without its suffix."""
    call: str
    """The statement that `run_kernel` consists of."""
    statement: str
    """Such as "Compute the softmax of whole rows in registers"."""
    settings: Mapping[str, int] = field(default_factory=dict)
    """Tunables of the file that start from something else here."""


def triton_card(
    launch: Callable[[CardContext], Replacement | None], *, id: str, **described: object
) -> Card:
    """A card for Triton and PyTorch modules.

    Args:
        launch: the call that fits; None where none does.
        id: the card's, also in `REACHED`.
        described: the other fields of the card.
    """

    def apply(context: CardContext) -> CardChange | None:
        found = launch(context)
        return None if found is None else _changed(context, found)

    return Card(
        id=id, apply=apply, predict=reaching(id), languages=frozenset(TRITON_LANGUAGES), **described  # type: ignore[arg-type]
    )  # fmt: skip


def precision(context: CardContext) -> str:
    """How `tl.dot` multiplies float32: as parts, whose error is float32's, unless TF32 may be."""
    return "tf32" if context.tf32 else "tf32x3"


def has_descriptors(device: Device) -> bool:
    """Whether its copy engine brings boxes of arrays to shared memory: NVIDIA's from sm_90 on."""
    number = (device.arch or "").removeprefix("sm_").rstrip("a")
    return number.isdigit() and int(number) >= 90


def stages(device: Device, step_bytes: int, most: int) -> int:
    """Steps of a sum whose operands a block's shared memory holds at a time: `most`, or fewer."""
    room = device.limits.get("max_shared_bytes_per_block", _SHARED_BYTES)
    return max(1, min(most, room // step_bytes))


def _changed(context: CardContext, launch: Replacement) -> CardChange | None:
    kernels = resources.files(__package__) / "triton_kernels" / f"{launch.kernels}.py"
    text = with_kernels(
        context.candidate.kernel.text, kernels.read_text(encoding="utf-8"), launch.call
    )
    if text is None:
        return None
    candidate = context.candidate.with_kernel_text(text)
    return CardChange(tunables.apply(candidate, launch.settings), launch.statement)


def with_kernels(module: str, kernels: str, call: str) -> str | None:
    """A module with other kernels, whose `run_kernel` is one call; `setup` stays as it is.

    None where that can't be: names of both meet, the call uses what `run_kernel` isn't given, or
    the module has these kernels already.
    """
    try:
        tree = ast.parse(module)
    except (SyntaxError, ValueError):
        return None
    entry = next((n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == ENTRY), None)
    if entry is None:
        return None
    added = ast.parse(kernels)
    kept = list(_needed(tree, "setup"))
    imports, ours = _parted(added.body[1:])
    given, theirs = _parted(kept)
    names = {name for node in ours for name in _bound(node)}
    imported = {name for node in imports for name in _bound(node)}
    header = dict.fromkeys(ast.unparse(node) for node in (*given, *imports))
    foreign = {n for node in given if ast.unparse(node) not in map(ast.unparse, imports)
               for n in _bound(node)}  # fmt: skip
    inner = {name for node in theirs for name in _bound(node)}
    arguments = _plain(entry.args)
    used = {n.id for n in ast.walk(ast.parse(call)) if isinstance(n, ast.Name)} - names
    passed = {a.arg for a in ast.walk(arguments) if isinstance(a, ast.arg)}
    defined = {name for node in tree.body for name in _bound(node)}
    met = (names | imported) & (inner | foreign | passed) or names <= defined
    if met or not used <= passed:
        return None
    parts = [
        "\n".join(header),
        *(_source(module, node) for node in theirs),
        _after_imports(kernels, imports),
        f"def {ENTRY}({ast.unparse(arguments)}):\n    {call}",
    ]
    return "\n\n\n".join(part for part in parts if part) + "\n"


def _parted(body: Sequence[ast.stmt]) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """Imports, those from the future first, and the rest."""
    imports: list[ast.stmt] = [n for n in body if isinstance(n, ast.Import | ast.ImportFrom)]
    imports.sort(key=lambda node: getattr(node, "module", None) != "__future__")
    return imports, [node for node in body if node not in imports]


def _plain(arguments: ast.arguments) -> ast.arguments:
    """The same names and defaults, without annotations, which may need imports."""
    plain = copy.deepcopy(arguments)
    for node in ast.walk(plain):
        if isinstance(node, ast.arg):
            node.annotation = None
    return plain


def _needed(tree: ast.Module, name: str) -> Iterator[ast.stmt]:
    """The statements of a module that a name needs, in their order."""
    binding = [(set(_bound(node)), node) for node in tree.body]
    wanted, done = [name], {name}
    while wanted:
        current = wanted.pop()
        for names, node in binding:
            if current in names:
                used = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} - done
                done |= used
                wanted += used
    for names, node in binding:
        future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        if future or names & done:
            yield node


def _bound(node: ast.stmt) -> Iterator[str]:
    """Names that a statement of a module's top level binds."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
        return
    for inner in ast.walk(node):
        match inner:
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.alias(name=name, asname=asname):
                yield asname or name.partition(".")[0]


def _source(text: str, node: ast.stmt) -> str:
    """A statement as it was written, with its decorators and what is beside it on its last line."""
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(d.lineno for d in decorators)])
    return "\n".join(text.splitlines()[first - 1 : node.end_lineno])


def _after_imports(text: str, imports: list[ast.stmt]) -> str:
    last = max(node.end_lineno or 0 for node in imports)
    return "\n".join(text.splitlines()[last:]).strip("\n")
