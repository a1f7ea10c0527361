"""Writes the `setup` of a reference that has none, and the rest of one that isn't there."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from roofsmith.domain.kernel import Parameter

EDIT = "# EDIT:"
"""In front of what somebody has to look at."""


@dataclass(frozen=True, slots=True)
class SeenArray:
    """What is known of an array."""

    size: str
    """Elements: an expression in the dimensions."""
    doubt: str = ""
    """Why somebody should look at that; empty: nobody need."""
    is_read_first: bool = False
    """Whether a kernel reads of it before it writes."""
    is_written: bool = False
    holds: str = ""
    """What its integers are: `below N`, indices of an array of that many; `up to N`, where the rows
    of one begin; empty: nothing that the kernel goes by."""
    fits: bool = False
    """Whether it has the length that arrays have without `setup`."""


def has_setup(text: str) -> bool:
    """Whether a reference says how its inputs are drawn; also one that can't be parsed."""
    try:
        body = ast.parse(text).body
    except SyntaxError:
        return True
    for node in body:
        match node:
            case ast.FunctionDef(name="setup"):
                return True
            case ast.ImportFrom(names=names) | ast.Import(names=names):
                if any((name.asname or name.name) in ("setup", "*") for name in names):
                    return True
            case ast.Assign(targets=[ast.Name(id="setup")]):
                return True
            case _:
                pass
    return False


def setup_text(
    parameters: Sequence[Parameter],
    seen: Mapping[str, SeenArray],
    dims: Sequence[str],
    *,
    tensors: bool = False,
) -> str:
    """A whole `setup(**dims, seed)`: flat arrays in the kernel's order, numbers by value."""
    lines = ["rng = np.random.default_rng(seed)"]
    outputs: list[str] = []
    inouts: list[str] = []
    for p in parameters:
        if p.role == "size":
            if p.name not in dims:
                value = "0.5" if p.dtype.startswith("float") else "1"
                lines.append(f"{p.name} = {value}  {EDIT} what the kernel is called with")
            continue
        found = seen[p.name]
        is_result = p.role == "output" and found.is_written
        is_drawn = not is_result or found.is_read_first
        if found.doubt:
            lines.append(f"{EDIT} {found.doubt}")
        lines.append(_array(p, found, drawn=is_drawn))
        if is_result:
            (inouts if is_drawn else outputs).append(p.name)
    arguments = ", ".join(f'"{p.name}": {p.name}' for p in parameters)
    returned = "".join(
        f', "{key}": [{", ".join(f"{chr(34)}{name}{chr(34)}" for name in names)}]'
        for key, names in (("outputs", outputs), ("inouts", inouts))
        if names
    )
    inputs = "\n".join(
        textwrap.wrap(f"inputs = {{{arguments}}}", 92, subsequent_indent="          ")
    )
    if tensors:
        arrays = ", ".join(p.name for p in parameters if p.role != "size")
        lines.append(f"{arrays} = map(torch.from_numpy, ({arrays},))")
    lines += [*inputs.split("\n"), f'return {{"inputs": inputs{returned}}}']
    body = textwrap.indent("\n".join(lines), "    ")
    return f"def setup({', '.join(dims)}, seed=0):\n{body}\n"


def _array(p: Parameter, found: SeenArray, *, drawn: bool) -> str:
    """What makes an array."""
    kind = {"bool": "np.bool_"}.get(p.dtype, f"np.{p.dtype}")
    if not drawn:
        return f"{p.name} = np.empty({found.size}, {kind})"
    if p.dtype in ("float32", "float64"):
        return f"{p.name} = rng.standard_normal({found.size}, dtype={kind})"
    if p.dtype == "float16":
        return f"{p.name} = rng.standard_normal({found.size}, dtype=np.float32).astype({kind})"
    how, _, most = found.holds.rpartition(" ")
    if how == "up to":
        middle = f"rng.integers(0, {most} + 1, {found.size} - 2)"
        return f"{p.name} = np.sort(np.r_[0, {middle}, {most}]).astype({kind})"
    below = most if how else {"bool": "2", "int8": "128"}.get(p.dtype, "256")
    type_ = "np.uint8" if p.dtype == "bool" else kind
    line = f"{p.name} = rng.integers(0, {below}, {found.size}, dtype={type_})"
    return f"{line}.astype({kind})" if type_ != kind else line


def reference_text(parameters: Sequence[Parameter], setup: str) -> str:
    """A whole reference but for what it computes."""
    names = ", ".join(p.name for p in parameters)
    results = ", ".join(f"{p.name}[:]" for p in parameters if p.role == "output")
    return (
        f"import numpy as np\n\n\ndef reference({names}):\n"
        f'    raise NotImplementedError("compute {results} here, in plain NumPy")'
        f"  {EDIT} what is right\n\n\n{setup}"
    )


def with_setup(text: str, setup: str) -> str:
    """A reference with a `setup` behind it."""
    numpy = (
        ""
        if any(line.strip() == "import numpy as np" for line in text.splitlines())
        else ("import numpy as np\n\n\n")
    )
    return f"{text.rstrip()}\n\n\n{numpy}{setup}"
