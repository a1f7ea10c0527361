"""FlashInfer's definitions with workloads, and SOL-ExecBench's, which have a few fields more.

https://github.com/flashinfer-ai/flashinfer-bench (`flashinfer_bench/data`): `definitions/**/*.json`
and `workloads/**/*.jsonl`, the folder that the engine dumps with its trace switch among them.
https://github.com/NVIDIA/SOL-ExecBench (`examples`): `definition.json` beside `workload.jsonl`.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from roofsmith.store.sources import read_text
from roofsmith.targets.problem_sets.problem import (
    WORKLOADS,
    KernelProblem,
    Unread,
    hosted,
    is_argument,
    literal,
    tried,
    whole,
)
from roofsmith.targets.problem_sets.safetensors import (
    Unusable,
    own_tensor,
    packed_tensors,
    tensors_module,
)

FLOATS = ("float64", "float32", "float16", "bfloat16")
INTEGERS = ("int64", "int32", "int16", "int8", "uint8")
MOST_WORKLOADS = 8
"""Of a problem: the first ones; chosen, since each is judged in every round."""
_LACKS = "has no name, axes, inputs, outputs or reference"
Document = Mapping[str, Any]


class _StrangeError(ValueError):
    """Why a definition, or a workload, can't be used."""


def read(place: Path) -> Iterator[KernelProblem | Unread]:
    """The problems of a definition's file, or of a folder and those below it."""
    files = [place] if place.is_file() else sorted(place.rglob("*.json"))
    workloads = [] if place.is_file() else sorted(place.rglob("*.jsonl"))
    for file in files:
        is_other = file.name != "definition.json" and file != place
        name = file.parent.name if file.name == "definition.json" else file.stem
        found = tried(name, partial(_read, file, workloads, place))
        if not (is_other and isinstance(found, Unread) and found.reason.endswith(_LACKS)):
            yield found


def _read(file: Path, workloads: Sequence[Path], place: Path) -> KernelProblem:
    found = _object(read_text(file, "definition"), file)
    if not {"name", "axes", "inputs", "outputs", "reference"} <= found.keys():
        raise _StrangeError(f"{file} {_LACKS}")
    last = str(found["name"]).rpartition("/")[2]
    near = [*file.parent.glob("*.jsonl")] or [
        one for one in workloads if {last, file.stem} & {one.stem, one.parent.name}
    ]
    folders = [one for one in file.parents if one.is_relative_to(place)] or [file.parent]
    return _problem(found, [*_lines(near, found["name"])], file, folders)


def _object(text: str, file: Path) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _StrangeError(f"{file} is no JSON: {error}") from error
    return found if isinstance(found, dict) else {}


def _lines(files: Sequence[Path], definition: object) -> Iterator[dict[str, Any]]:
    """Workloads, less those that say that they are another definition's."""
    for file in files:
        for number, line in enumerate(read_text(file, "workloads").split("\n"), 1):
            if line.strip():
                found = _object(line, Path(f"{file}:{number}"))
                if found.get("definition", definition) == definition:
                    yield found.get("workload", found)


def _problem(
    definition: Document, workloads: Sequence[Document], file: Path, folders: Sequence[Path]
) -> KernelProblem:
    name, text = str(definition["name"]), _with_run(str(definition["reference"]), definition, file)
    notes: list[str] = []
    given: list[tuple[dict[str, int], dict[str, Any]]] = []
    own: dict[str, tuple[str, tuple[int, ...], bytes]] = {}
    asked = definition.get("custom_inputs_entrypoint")
    if asked and not (is_argument(str(asked)) and f"def {asked}(" in text):
        raise _StrangeError(f"{file}: its reference defines no {asked}(), which makes its inputs")
    if not workloads:
        raise _StrangeError(f"{file}: no workload says its sizes; a .jsonl file beside it has to")
    for one in workloads[:MOST_WORKLOADS]:
        try:
            axes, said = _axes(definition["axes"], one.get("axes", {})), one.get("inputs", {})
            given.append((axes, _given(definition, axes, said)))
        except _StrangeError as why:
            notes.append(str(why))
            continue
        own |= _own(given, said, folders, notes)
    if not given:
        raise _StrangeError(notes[0])
    given.sort(key=lambda one: [*one[0].values()].count(1))  # of the first, axes of 1 are fixed
    if len(workloads) > MOST_WORKLOADS:
        notes.append(f"the first {MOST_WORKLOADS} of {len(workloads)} workloads are judged on")
    texts = packed_tensors(own)
    for _, inputs in given:
        for key, one in inputs.items():
            if isinstance(one, tuple) and one[2:] and one[2] not in texts:
                inputs[key] = one[:2]
                notes.append(f"{key} of the set is too large to travel along: others are drawn")
    module = _module(hosted(text), given, name, str(asked) if asked else None, has_own=bool(texts))
    atol, tolerance = _tolerance(workloads[0], notes)
    return KernelProblem(
        name=name,
        files={"model.py": module, **({"tensors.py": tensors_module(texts)} if texts else {})},
        origins={"model.py": f"{file}, reference"}, entry="run",
        source=f"{file.name}: {definition.get('op_type') or 'definition'} {name}",
        tolerance=tolerance, atol=atol, notes=tuple(dict.fromkeys(notes)),
    )  # fmt: skip


def _with_run(text: str, definition: Document, file: Path) -> str:
    """A reference that defines `run`. What an engine dumps is a function of another name, which
    may call an input otherwise, without what its own file imports.

    Raises:
        _StrangeError: it is no Python, or defines no function.
    """
    try:
        functions = [one for one in ast.parse(text).body if isinstance(one, ast.FunctionDef)]
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise _StrangeError(f"{file}: its reference is no Python: {error}") from error
    if any(one.name == "run" for one in functions):
        return text
    if not functions:
        raise _StrangeError(f"{file}: its reference defines no run()")
    inputs, last = [*definition["inputs"]], functions[-1]
    named = [one.arg for one in (*last.args.args, *last.args.kwonlyargs)]
    other = zip(
        (one for one in named if one not in inputs),
        (one for one in inputs if one not in named),
        strict=False,
    )
    passed = {one: one for one in named if one in inputs} | dict(other)
    call = ", ".join(f"{argument}={one}" for argument, one in passed.items())
    return (
        f"import math\n\nimport torch\nimport torch.nn.functional as F\n\n\n{text.strip()}\n\n\n"
        f"def run({', '.join(inputs)}):\n    return {last.name}({call})\n"
    )


def _own(
    given: Sequence[tuple[Document, dict[str, Any]]],
    said: Document,
    folders: Sequence[Path],
    notes: list[str],
) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """The tensors that the set brings along for the last of some workloads, which then names them;
    what can't be had is drawn, and noted."""
    found = {}
    for key, one in said.items():
        if one.get("type") != "safetensors" or not isinstance(given[-1][1].get(key), tuple):
            continue
        shape, kind = given[-1][1][key]
        try:
            tensor = own_tensor(folders, str(one.get("path")), str(one.get("tensor_key")))
            if tensor[:2] != (kind, shape):
                raise Unusable(f"{key} is {tensor[0]} {tensor[1]} in its file, not {kind} {shape}")
        except Unusable as why:
            notes.append(f"{why}: others of that shape are drawn")
            continue
        name = f"{key}_{len(given)}"
        found[name], given[-1][1][key] = tensor, (shape, kind, name)
    return found


def _axes(declared: Document, said: Document) -> dict[str, int]:
    known: dict[str, int] = {}
    for name, axis in declared.items():
        kind = axis.get("type")
        value = axis.get("value") if kind == "const" else said.get(name)
        if kind != "expr":
            if not isinstance(value, int) or value < 1:
                raise _StrangeError(f"a workload gives no size of axis {name}")
            known[name] = value
    for name, axis in declared.items():
        if axis.get("type") == "expr":
            known[name] = whole(str(axis.get("expression")), known)
    return known


def _given(definition: Document, axes: Mapping[str, int], said: Document) -> dict[str, Any]:
    """Of every input its shape and type, or its number."""
    found: dict[str, Any] = {}
    for name, declared in definition["inputs"].items():
        if not is_argument(name):
            raise _StrangeError(f"an input is called {name!r}")
        one, shape, kind = said.get(name, {}), declared.get("shape"), str(declared.get("dtype"))
        if shape is None or one.get("type") == "scalar":
            value = one.get("value")
            if not isinstance(value, (int, float)):
                raise _StrangeError(f"a workload gives no value of {name}")
            found[name] = value
        elif kind in (*FLOATS, *INTEGERS, "bool"):
            sizes = [axes[axis] if axis in axes else whole(str(axis), axes) for axis in shape]
            found[name] = (tuple(sizes), kind)
        else:
            raise _StrangeError(f"{name} is of {kind}, which no kernel here gets")
    return found


def _module(
    reference: str,
    given: Sequence[tuple[Mapping[str, int], Mapping[str, Any]]],
    name: str,
    asked: str | None,
    *,
    has_own: bool,
) -> str:
    return f"""{reference.rstrip()}


import torch as _torch
{"from tensors import tensor as _tensor" if has_own else ""}

DEFINITION = {literal(name)}
_CUSTOM = {asked}
_CASES = {literal(list(given))}


def _drawn(shape, kind, most):
    if kind.is_floating_point:
        return _torch.randn(shape).to(kind)
    if kind == _torch.bool:
        return _torch.rand(shape) < 0.5
    return _torch.randint(0, min(most, _torch.iinfo(kind).max), shape, dtype=kind)


def _turned(tensor):
    axis = next((axis for axis, size in enumerate(tensor.shape) if size > 1), None)
    if axis is None or not tensor.is_floating_point():
        return tensor
    return tensor.roll(int(_torch.randint(tensor.shape[axis], ())), axis)


def _given(case):
    axes, said = case
    tensors = {{name: one for name, one in said.items() if isinstance(one, tuple)}}
    smallest = min([size for one in tensors.values() for size in one[0]], default=1)
    found = dict(said)
    for name, (shape, kind, *own) in tensors.items():
        if own:
            found[name] = _tensor(own[0])
        else:
            found[name] = _drawn(shape, getattr(_torch, kind), smallest)  # an index of any axis
    if tensors and all(one[2:] for one in tensors.values()) and _CUSTOM is None:
        found.update({{name: _turned(found[name]) for name in tensors}})  # or no draw differs
    if _CUSTOM is not None:
        numbers = {{name: one for name, one in said.items() if name not in tensors}}
        made = _CUSTOM({{**axes, **numbers}}, _torch.device("cpu"))
        found.update({{name: one for name, one in made.items() if name in tensors}})
    return found


def _shapes(case):
    return {{
        name: _torch.empty(one[0], dtype=getattr(_torch, one[1]), device="meta")
        if isinstance(one, tuple) else one
        for name, one in case[1].items()
    }}


def get_inputs():
    return _given(_CASES[0])

{WORKLOADS.format(cases="_CASES", shapes="_shapes")}"""


def _tolerance(workload: Document, notes: list[str]) -> tuple[float | None, str]:
    said = workload.get("tolerance")
    if not isinstance(said, dict):
        return None, ""
    share, atol = said.get("required_matched_ratio", 1), said.get("max_atol")
    if isinstance(share, (int, float)) and share < 1:
        notes.append(
            f"the set lets {1 - share:.3g} of the elements be wrong; that isn't taken over: here"
            " all have to be right"
        )
    words = ", ".join(f"{key} {value}" for key, value in said.items() if value is not None)
    if not isinstance(atol, (int, float)):
        return None, words
    if not 0 <= atol <= sys.float_info.max:
        notes.append(
            f"the set's max_atol is {str(atol)[:20]}, which bounds nothing: not taken over"
        )
        return None, words
    return float(atol), words
