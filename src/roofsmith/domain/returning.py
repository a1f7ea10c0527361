"""Kernels that return their results, called as those that fill them. Pure.

A module is called as `run_kernel(**inputs)`, which fills the outputs in place. Where a file's entry
returns, a few lines at its end call that one; they are left out when the file is taken home.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from roofsmith.domain.kernel import MODULE_LANGUAGES, Candidate, Language
from roofsmith.domain.yardstick import ENTRY
from roofsmith.errors import TargetError

USUAL = (ENTRY, "solve", "custom_kernel")
"""What entries are called in the field, where nobody names one."""
_MARK = "# roofsmith's own from here on: "
_COPIED = '''
def _copied(found, outputs):
    """Put what a kernel returned where its results belong."""
    found = found._asdict() if hasattr(found, "_asdict") else found
    if not isinstance(found, dict):
        ones = found if isinstance(found, (tuple, list)) else (found,)
        if len(ones) != len(outputs):
            raise TypeError(f"{len(ones)} results in place of {', '.join(outputs)}")
        found = dict(zip(outputs, ones))
    for name, output in outputs.items():
        one = found.get(name)
        if not hasattr(one, "data_ptr"):
            raise TypeError(f"it returns no tensor {name}, of {', '.join(map(str, found))}")
        if one.dtype != output.dtype or (one.shape or (1,)) != (output.shape or (1,)):
            raise TypeError(
                f"{name} is returned as {one.dtype} of {tuple(one.shape)}, in place of"
                f" {output.dtype} of {tuple(output.shape)}"
            )
        if one is not output:
            output.copy_(one.reshape(output.shape))

'''
_APPENDED = re.compile(
    "".join((
        rf"\n\n{re.escape(_MARK)}(.*)\n# fmt: off\n(?:\w+ = \w+\n)?",
        re.escape(_COPIED).replace("_copied", "_copied_*"),
        rf"\ndef {ENTRY}\(.*\*\*_others\):\n(?:    .*\n)+\Z",
    )).replace("\\\n", r"\n").replace(r"\n", r"\r?\n")
)  # fmt: skip
"""As the last lines of a file: what somebody changed, or went on from, is no longer ours."""


@dataclass(frozen=True, slots=True)
class _Reference:
    """What a reference's text says of its arguments."""

    names: tuple[str, ...]
    """All of them, sizes last."""
    sizes: frozenset[str]
    outputs: tuple[str, ...]
    """Where there are none, what is changed in place."""
    call: tuple[str, ...] | None
    """Of one that calls a function that returns: that call's arguments, as they stand there."""
    is_open: bool
    """Whether it takes any others, of unknown names."""
    numbers: frozenset[str]
    """Arrays of one element that it takes as having no axes."""

    @property
    def given(self) -> tuple[str, ...]:
        """Arrays that it gets."""
        return tuple(one for one in self.names if one not in {*self.sizes, *self.outputs})


def called_in_place(
    text: str, language: Language, reference: str, entry: str | None = None, before: str = ""
) -> str:
    """A module's text with a `run_kernel` that fills the outputs, where its entry doesn't.

    Args:
        text: of the kernel's file.
        language: of the kernel; what isn't a Python module stays.
        reference: the text of the reference.
        entry: the function that is called; None or `solve`: the usual names, in turn.
        before: text of the kernel that this one is made from; its entry is tried, too.

    Raises:
        TargetError: it returns results, and can't be called with what there is.
    """
    if language not in MODULE_LANGUAGES:
        return text
    was, plain = returning_entry(before), taken_out(text)
    wanted = (entry,) if entry not in (None, "solve") else (ENTRY, *([was] if was else []), *USUAL)
    try:
        functions = dict(_functions(ast.parse(plain)))
        truth = _read(ast.parse(reference), ast.parse(plain))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return text  # building it says what is wrong
    found = next((functions[one] for one in wanted if one in functions), None)
    if found is None or found.args.kwarg or found.args.vararg:
        return plain
    call = _call(found, truth)
    if call is None:
        return plain
    ending = "\r\n" if "\r\n" in plain else "\n"
    return plain + _appended(plain, found, truth, call).replace("\n", ending)


def taken_out(text: str) -> str:
    """A module's text as its author wrote it."""
    return _APPENDED.sub("", text)


def returning_entry(text: str) -> str | None:
    """The function that a text's own `run_kernel` calls; None: it has none of ours."""
    found = _APPENDED.search(text)
    return found[1].partition("(")[0] if found else None


def told_of(text: str) -> tuple[str, ...]:
    """What was done about a text's entry, for people."""
    found = _APPENDED.search(text)
    return () if found is None else (f"entry: {found[1].strip()}",)


def written_back(candidate: Candidate) -> Candidate:
    """A candidate as its files are taken home."""
    return candidate.with_kernel_text(taken_out(candidate.kernel.text))


def _functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    yield from ((one.name, one) for one in tree.body if isinstance(one, ast.FunctionDef))


def _read(reference: ast.Module, kernel: ast.Module) -> _Reference:
    functions, kernels = dict(_functions(reference)), dict(_functions(kernel))
    truth, setup = functions.get("reference"), functions.get("setup", kernels.get("setup"))
    taken = [] if truth is None else _parameters(truth)
    sizes = [] if setup is None else [one for one in _parameters(setup) if one != "seed"]
    weights = [name for one in reference.body for name in _weights(one)]
    roles = dict(_roles(setup)) if setup is not None else {}
    names = dict.fromkeys([*(one for one in taken if one not in sizes), *weights, *sizes])
    call, numbers = (None, []) if truth is None or weights else _inner_call(truth)
    if call is not None and not _names_in(", ".join(call)) <= {*names, "float"}:
        call = None
    outputs = roles.get("outputs") or roles.get("inouts") or ()
    is_open = truth is None or (truth.args.kwarg is not None and not taken)
    return _Reference(tuple(names), frozenset(sizes), outputs, call, is_open, frozenset(numbers))


def _parameters(function: ast.FunctionDef) -> list[str]:
    found = function.args
    return [one.arg for one in (*found.posonlyargs, *found.args, *found.kwonlyargs)]


def _weights(statement: ast.stmt) -> list[str]:
    match statement:
        case ast.Assign(targets=[ast.Name(id="WEIGHTS")], value=ast.Dict(keys=keys)):
            return [str(one.value) for one in keys if isinstance(one, ast.Constant)]
    return []


def _roles(setup: ast.FunctionDef) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What `setup` lists as outputs, and as changed in place, where that is written out."""
    for node in ast.walk(setup):
        match node:
            case ast.Dict(keys=keys, values=values):
                pairs = [
                    (key.value, value) for key, value in zip(keys, values, strict=True)
                    if isinstance(key, ast.Constant)
                ]  # fmt: skip
            case ast.Call(func=ast.Name(id="dict"), keywords=given):
                pairs = [(one.arg, one.value) for one in given]
            case _:
                continue
        for key, value in pairs:
            if key in ("outputs", "inouts") and isinstance(value, ast.List | ast.Tuple):
                names = [one.value for one in value.elts if isinstance(one, ast.Constant)]
                yield str(key), tuple(map(str, names))


def _inner_call(truth: ast.FunctionDef) -> tuple[tuple[str, ...] | None, list[str]]:
    """Arguments of the one call of another file's function that gives the result, and which of them
    lose their axis before."""
    numbers: list[str] = []
    inner = [one for w in truth.body if isinstance(w, ast.With) for one in w.body]
    for statement in (*truth.body, *inner):
        match statement:
            case ast.Assign(
                targets=[ast.Name(id="result")],
                value=ast.Call(func=ast.Attribute(value=ast.Name()), args=args, keywords=[]),
            ):
                return tuple(map(ast.unparse, args)), numbers
            case ast.Assign(
                targets=[ast.Name(id=name)], value=ast.Call(func=ast.Attribute(attr="reshape"))
            ):
                numbers.append(name)
    return None, numbers


def _names_in(call: str) -> set[str]:
    nodes = ast.walk(ast.parse(f"lambda _: _({call})"))
    return {one.id for one in nodes if isinstance(one, ast.Name)} - {"_"}


def _returns(function: ast.FunctionDef) -> bool:
    """Whether it returns anything itself."""
    waiting: list[ast.AST] = [*function.body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Return) and node.value is not None:
            return True
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)
    return False


def _call(function: ast.FunctionDef, truth: _Reference) -> str | None:
    """How it is called with the reference's arguments; None: as it is.

    Raises:
        TargetError: nobody knows.
    """
    taken, needed = _parameters(function), _needed(function)
    is_known = truth.is_open or {*needed} <= {*truth.names}
    if not _returns(function) or {*(truth.outputs or truth.given)} <= {*taken}:
        return None  # where it doesn't fit, it fails and says so
    shown = f"{function.name}({', '.join(taken)})"
    if not truth.outputs:
        raise TargetError(
            f"{shown} returns results, and what the outputs are isn't written out in `setup` of the"
            " reference",
            hint='have it end in: return {"inputs": inputs, "outputs": ["y"]}',
        )
    if is_known and needed:
        first = {one.arg for one in function.args.posonlyargs}
        named = [one for one in taken if one in (needed if truth.is_open else truth.names)]
        return ", ".join(one if one in first else f"{one}={one}" for one in named)
    if truth.call is not None and len(truth.call) == len(needed):
        return ", ".join(truth.call)
    sizes = [one for one in truth.names if one in truth.sizes]
    for names in ((*truth.given,), (*truth.given, *sizes)):
        if len(needed) == len(names):
            return ", ".join(names)
    if len(needed) == 1:
        return f"({', '.join(truth.given)})"
    raise TargetError(
        f"{shown} can't be called: the reference gives {', '.join(truth.names)}, and takes"
        f" {', '.join(truth.outputs)} back",
        hint="give its parameters those names, or take them in that order",
    )


def _needed(function: ast.FunctionDef) -> list[str]:
    """Parameters without a default."""
    found = function.args
    positional = [one.arg for one in (*found.posonlyargs, *found.args)]
    only = zip(found.kwonlyargs, found.kw_defaults, strict=True)
    return [
        *positional[: len(positional) - len(found.defaults)],
        *(one.arg for one, default in only if default is None),
    ]


def _appended(text: str, function: ast.FunctionDef, truth: _Reference, call: str) -> str:
    """The lines that call it."""
    name, used, outputs = function.name, _names_in(call) - {"float"}, truth.outputs
    own = _free("_returning", text) if name == ENTRY else name
    copied = _free("_copied", text)
    told = f"{name}({call}) returns {', '.join(outputs)}: {ENTRY} copies them, timed"
    pairs = ", ".join(f'"{one}": {one}' for one in outputs)
    body = f"{copied}({own}({call}), {{{pairs}}})"
    takes = [one for one in dict.fromkeys((*truth.names, *sorted(used), *outputs))
             if one in used or one in outputs]  # fmt: skip
    lines = [f"{one} = {one}.reshape(())" for one in takes if one in truth.numbers & used]
    head = f"\n\n{_MARK}{told}\n# fmt: off\n"
    alias = f"{own} = {name}\n" if own != name else ""
    begin = f"def {ENTRY}({', '.join([*takes, '**_others'])}):\n"
    body = "".join(f"    {line}\n" for line in (*lines, body))
    return head + alias + _COPIED.replace("_copied", copied) + "\n" + begin + body


def _free(name: str, text: str) -> str:
    while re.search(rf"\b{name}\b", text):
        name += "_"
    return name
