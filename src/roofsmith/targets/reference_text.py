"""Writes the `setup` of a reference that has none, and the rest of one that isn't there."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from roofsmith.domain.kernel import Parameter
from roofsmith.domain.python_names import python_name

EDIT = "# EDIT:"
"""In front of what somebody has to look at."""


_OWN = frozenset(("rng", "np", "torch", "inputs", "seed", "map"))
"""Names that `setup` needs for itself."""


_NARROW = {"uint8": 1 << 8, "int8": 1 << 7, "uint16": 1 << 16, "int16": 1 << 15}
"""How many values there are from 0 on of a type that may not reach into the array it leads into."""


@dataclass(frozen=True, slots=True)
class SeenArray:
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


def parameters_of(text: str) -> list[str] | None:
    """Of its `reference`; None where that takes any, isn't a plain function, or can't be parsed."""
    try:
        body = ast.parse(text).body
    except SyntaxError:
        return None
    for node in body:
        if isinstance(node, ast.FunctionDef) and node.name == "reference":
            a = node.args
            if a.vararg or a.kwarg or a.defaults or a.posonlyargs or node.decorator_list:
                return None
            return [one.arg for one in (*a.args, *a.kwonlyargs)]
    return None


def guessed_numbers(
    parameters: Sequence[Parameter], dims: Collection[str]
) -> dict[str, float | int]:
    """Values for the numbers that no dimension gives, by name.

    Of floats none are equal, nor 1: a kernel that takes one for another is to be wrong.
    """
    values = (0.25 * n for n in count(2) if n != 4)
    return {
        p.name: next(values) if p.dtype.startswith("float") else 1
        for p in parameters
        if p.role == "size" and p.name not in dims
    }


def setup_text(
    parameters: Sequence[Parameter],
    seen: Mapping[str, SeenArray],
    dims: Sequence[str],
    *,
    tensors: bool = False,
) -> str:
    """A whole `setup(**dims, seed)`: flat arrays in the kernel's order, numbers by value.

    Args:
        parameters: of the kernel.
        seen: its arrays, by name.
        dims: of its workloads.
        tensors: whether the reference computes with PyTorch.
    """
    local = {p.name: python_name(p.name, _OWN) for p in parameters}
    guessed = guessed_numbers(parameters, dims)
    lines = ["rng = np.random.default_rng(seed)"]
    outputs: list[str] = []
    inouts: list[str] = []
    for p in parameters:
        if p.role == "size":
            if p.name in guessed:
                value = guessed[p.name]
                lines.append(
                    f"{local[p.name]} = {value}  {EDIT} a guess; say what the kernel is called with"
                )
            continue
        found = seen[p.name]
        is_result = p.role == "output" and found.is_written
        is_drawn = not is_result or found.is_read_first
        if found.doubt:
            lines.append(f"{EDIT} {found.doubt}")
        lines.append(f"{local[p.name]} = {_array(p, found, drawn=is_drawn)}")
        if is_result:
            (inouts if is_drawn else outputs).append(p.name)
    arguments = ", ".join(f'"{p.name}": {local[p.name]}' for p in parameters)
    returned = "".join(
        f', "{key}": [{", ".join(f"{chr(34)}{name}{chr(34)}" for name in names)}]'
        for key, names in (("outputs", outputs), ("inouts", inouts))
        if names
    )
    inputs = "\n".join(
        textwrap.wrap(f"inputs = {{{arguments}}}", 92, subsequent_indent="          ")
    )
    if tensors:
        arrays = ", ".join(local[p.name] for p in parameters if p.role != "size")
        lines.append(f"{arrays} = map(torch.from_numpy, ({arrays},))")
    lines += [*inputs.split("\n"), f'return {{"inputs": inputs{returned}}}']
    body = textwrap.indent("\n".join(lines), "    ")
    return f"def setup({', '.join(dims)}, seed=0):\n{body}\n"


def _array(p: Parameter, found: SeenArray, *, drawn: bool) -> str:
    kind = {"bool": "np.bool_"}.get(p.dtype, f"np.{p.dtype}")
    if not drawn:
        return f"np.empty({found.size}, {kind})"
    if p.dtype in ("float32", "float64"):
        return f"rng.standard_normal({found.size}, dtype={kind})"
    if p.dtype == "float16":
        return f"rng.standard_normal({found.size}, dtype=np.float32).astype({kind})"
    how, _, most = found.holds.rpartition(" ")
    if how == "up to":
        middle = f"rng.integers(0, {most} + 1, {found.size} - 2)"
        return f"np.sort(np.r_[0, {middle}, {most}]).astype({kind})"
    if how and p.dtype in _NARROW and not most.isdecimal():
        most = f"min({most}, {_NARROW[p.dtype]})"
    below = most if how else {"bool": "2", "int8": "128"}.get(p.dtype, "256")
    type_ = "np.uint8" if p.dtype == "bool" else kind
    line = f"rng.integers(0, {below}, {found.size}, dtype={type_})"
    return f"{line}.astype({kind})" if type_ != kind else line


def reference_text(parameters: Sequence[Parameter], setup: str) -> str:
    """A whole reference but for what it computes."""
    names = ", ".join(python_name(p.name) for p in parameters)
    results = ", ".join(f"{python_name(p.name)}[:]" for p in parameters if p.role == "output")
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
