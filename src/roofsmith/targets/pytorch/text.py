"""The reference, and a kernel in PyTorch, of a program: Python that a person may go on with."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence

from roofsmith.domain.kernel import Language
from roofsmith.targets.pytorch.kernel_test import ALLOWED
from roofsmith.targets.pytorch.program import Axis, GivenInput, KernelArray, PyTorchProgram, Result

WIDTH = 96
_MADE = '''
def made():
    """The module, with weights of its own."""
{body}


@functools.cache
def module():
    """One that is called with the weights that are given."""
    return made()
'''
_SPREAD = '''
def spread(value):
    """A weight; one that is the same number throughout is moved by a tenth: nobody would notice a
    kernel that leaves out a bias of zeros."""
    if not value.is_floating_point() or value.numel() == 0 or value.min() != value.max():
        return value
    zero = 0.1 * torch.randn_like(value) if not value.any() else 0
    return value * (0.9 + 0.2 * torch.rand_like(value)) + zero
'''
_EXACT = '''
class Exact(TorchFunctionMode):
    """Casts and constants are of float64, too, where inputs are."""

    CASTS = (torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16)
    FLOATS = (torch.float32, torch.float16, torch.bfloat16)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in self.CASTS:
            return args[0].double()
        wide = lambda one: torch.float64 if one in self.FLOATS else one  # noqa: E731
        is_kind = lambda one: isinstance(one, torch.dtype)  # noqa: E731
        args = [wide(one) if is_kind(one) else one for one in args]
        kwargs = {key: wide(one) if is_kind(one) else one for key, one in (kwargs or {}).items()}
        return func(*args, **kwargs)


@contextlib.contextmanager
def precision(kind):
    """Compute in float64 if that is what is given."""
    before = torch.get_default_dtype()
    try:
        if kind == torch.float64:
            torch.set_default_dtype(kind)
        with Exact() if kind == torch.float64 else contextlib.nullcontext():
            yield
    finally:
        torch.set_default_dtype(before)
'''
_NARROW = '''
def narrow(value):
    """Arrays of float32 hold the module's 16-bit numbers: the kernel's language lacks the type."""
    return value if value.dtype == torch.float64 else value.to(torch.{kind})
'''

WRITTEN = frozenset((
    "WEIGHTS", "Exact", "TorchFunctionMode", "contextlib", "copy", "dims", "functional_call",
    "functools", "given", "held", "kind", "made", "module", "name", "narrow", "net", "precision",
    "result", "spread", "torch", "values", "weights",
))  # fmt: skip
"""Names that a written reference uses itself: no array is called so."""


def stored(dtype: str, language: Language) -> str:
    """The type of an array that a kernel gets: NumPy has no bfloat16, and C++ no float16 here."""
    lacks = {"c": ("bfloat16",), "cpp": ("bfloat16", "float16")}.get(language, ())
    return "float32" if dtype in lacks else dtype


def reference_text(program: PyTorchProgram, language: Language, origin: str) -> str:
    """A whole reference.py.

    Args:
        program: what it computes.
        language: of the kernel.
        origin: the user's file, as it is named beside it.
    """
    writer = _Writer(program, language)
    what = f"`{program.name}` of {origin}, as it is there"
    head = [f'"""What is right: {what}."""\n', writer.imports(), writer.helpers()]
    return "\n".join([*head, writer.setup(), "", writer.body("reference")])


def torch_kernel(program: PyTorchProgram, origin: str) -> str:
    """A module whose `run_kernel` is the program itself."""
    writer = _Writer(program, "torch")
    what = f'"""A kernel that is `{program.name}` of {origin} itself: to be replaced."""\n'
    return "\n".join(
        [what, writer.imports(), writer.helpers(exact=False), writer.body("run_kernel")]
    )


class _Writer:
    def __init__(self, program: PyTorchProgram, language: Language) -> None:
        self._program, self._language = program, language
        self._is_module = program.kind != "function"
        self._is_exact = program.is_narrow
        halves = {
            one.name: one.dtype for one in (*program.inputs, *program.weights)
            if stored(one.dtype, language) != one.dtype
        }  # fmt: skip
        self._narrowed = [*halves]
        self._half = next(iter(halves.values()), "")

    def imports(self) -> str:
        names = [
            "contextlib" if self._is_exact else "",
            "copy" if self._program.kind == "module" else "",
            "functools" if self._is_module else "",
        ]
        lines = [f"import {name}" for name in names if name]
        lines += ["", "import torch"] if lines else ["import torch"]
        if self._is_module:
            lines.append("from torch.func import functional_call")
        if self._is_exact:
            lines.append("from torch.overrides import TorchFunctionMode")
        return "\n".join([*lines, "", f"import {self._program.module}", ""])

    def helpers(self, *, exact: bool = True) -> str:
        program = self._program
        self._is_exact = program.is_narrow and exact
        parts = []
        if program.weights:
            pairs = "".join(f'    "{w.name}": "{w.weight}",\n' for w in program.weights)
            parts.append(f"WEIGHTS = {{\n{pairs}}}\n")
        if self._is_module:
            parts.append(_MADE.format(body=textwrap.indent("\n".join(self._making()), "    ")))
        if program.weights and exact:
            parts.append(_SPREAD)
        if self._is_exact:
            parts.append(_EXACT)
        if self._narrowed:
            parts.append(_NARROW.format(kind=self._half))
        return "\n".join(parts)

    def _making(self) -> Iterator[str]:
        program = self._program
        source = f"{program.module}.{program.name}"
        if program.kind == "module":
            make = f"copy.deepcopy({source})"
        else:
            stars = program.init_inputs
            given = f"{stars}{program.module}.get_init_inputs()" if stars else ""
            make = f"{source}({given})"
        if not program.held:
            yield f"return {make}"
            return
        yield f"net = {make}"
        for key in program.held:
            parent, _, name = key.rpartition(".")
            part = f'net.get_submodule("{parent}")' if parent else "net"
            yield f'value = {part}.__dict__.pop("{name}")'
            yield f'{part}.register_buffer("{name}", value)'
        yield "return net"

    def setup(self) -> str:
        program, dims = self._program, [*self._program.dims]
        lines = ["torch.manual_seed(seed)"]
        drawn = [f"{one.name} = {one.draw}" for one in program.inputs]
        given = [f"    {one.name} = given{one.path}" for one in program.inputs]
        if program.draws_itself:
            makes = [("if", program.dims, "get_inputs()")]
            makes += [("elif", at, f"get_workloads()[{number}]") for number, at in program.own]
            for word, at, make in makes:
                lines += [f"{word} {_is_at(at)}:", f"    given = {program.module}.{make}", *given]
            lines += ["else:", *(f"    {line}" for line in drawn)]
        else:
            lines += drawn
        entries = [f'"{one.name}": {self._given(one)}' for one in program.inputs]
        if program.weights:
            lines += [
                "net = made()",
                "weights = {**dict(net.named_parameters()), **dict(net.named_buffers())}",
            ]
            entries += ["**{name: " + self._weight() + " for name, key in WEIGHTS.items()}"]
        entries += [f'"{one.name}": {self._empty(one)}' for one in program.results]
        entries += [f'"{name}": {name}' for name in dims]
        lines.append("inputs = {\n" + "".join(f"    {one},\n" for one in entries) + "}")
        lines.append(f"return {{{', '.join(self._roles())}}}")
        body = textwrap.indent("\n".join(lines), "    ")
        return f"\ndef setup({', '.join(dims)}, seed=0):\n{body}\n"

    def _given(self, one: GivenInput) -> str:
        kind = stored(one.dtype, self._language)
        cast = f".to(torch.{kind})" if kind != one.dtype else ""
        return f"{one.name}.detach(){cast}.contiguous()" + (".reshape(1)" if one.is_number else "")

    def _weight(self) -> str:
        value = f"spread(weights[key].detach()){self._widened}.contiguous()"
        has_numbers = any(one.is_number for one in self._program.weights)
        return f"torch.atleast_1d({value})" if has_numbers else value

    @property
    def _widened(self) -> str:
        """What is put behind a weight, of which some are stored wider."""
        narrowed = [one.name for one in self._program.weights if one.name in self._narrowed]
        if not narrowed:
            return ""
        if len(narrowed) == len(self._program.weights):
            return ".float()"
        return f".to(torch.float32 if name in {listed(narrowed)} else weights[key].dtype)"

    def _empty(self, one: Result) -> str:
        return f"torch.empty({sized(one.shape)}, dtype=torch.{stored(one.dtype, self._language)})"

    def _roles(self) -> Iterator[str]:
        program = self._program
        yield '"inputs": inputs'
        if program.results:
            yield f'"outputs": {listed(one.name for one in program.results)}'
        if changed := [one.name for one in program.inputs if one.is_changed]:
            yield f'"inouts": {listed(changed)}'
        if program.weights:
            yield '"weights": [*WEIGHTS]'

    def body(self, entry: str) -> str:
        program = self._program
        arrays: list[KernelArray] = [*program.inputs, *program.results]
        names = [one.name for one in arrays]
        weights = "weights" if program.weights else "dims"
        lines = [*self._casts(), *self._call()]
        held = f"({', '.join([*names, f'**{weights}'])})"
        return f"\ndef {entry}{held}:\n" + textwrap.indent("\n".join(lines), "    ") + "\n"

    def _casts(self) -> Iterator[str]:
        changed = [one.name for one in self._program.inputs if one.is_changed]
        for one in self._program.inputs:
            if one.name in self._narrowed:
                if one.name in changed:
                    yield f"whole_{one.name} = {one.name}"
                yield f"{one.name} = narrow({one.name})"
            if one.is_number:
                yield f"{one.name} = {one.name}.reshape(())"

    def _call(self) -> Iterator[str]:
        program = self._program
        call = f"{program.module}.{program.name}({program.call})"
        if numbers := [one.name for one in program.weights if one.is_number]:
            yield f"for name in {listed(numbers)}:"
            yield "    weights[name] = weights[name].reshape(())"
        if self._is_module:
            yield "values = {" + self._values() + "}" if program.weights else "values = {}"
            if program.state:
                floats = [one.name for one in program.inputs if "float" in one.dtype]
                like = floats[0] if floats else "torch.zeros(())"
                yield "for name, held in module().named_buffers():"
                yield f"    if name in {listed(program.state)}:"
                yield f"        kind = {like}.dtype if held.is_floating_point() else held.dtype"
                yield "        values[name] = held.to(kind, copy=True)"
            positional, named = _split(program.call)
            call = f"functional_call(module(), values, ({positional}), {{{named}}})"
            call = call.replace(", {})", ")")
        assigned = f"result = {call}" if program.results else call
        if self._is_exact:
            arrays: list[KernelArray] = [*program.inputs, *program.results]
            floats = [one.name for one in arrays if "float" in one.dtype]
            yield f"with precision({floats[0]}.dtype):" if floats else "with precision(None):"
            yield f"    {assigned}"
        else:
            yield assigned
        for result in program.results:
            yield f"{result.name}.copy_(result{result.path})"
        for one in program.inputs:
            if one.is_changed and one.name in self._narrowed:
                yield f"whole_{one.name}.copy_({one.name})"

    def _values(self) -> str:
        narrowed = [one.name for one in self._program.weights if one.name in self._narrowed]
        value = "narrow(weights[name])" if narrowed else "weights[name]"
        if 0 < len(narrowed) < len(self._program.weights):
            value += f" if name in {listed(narrowed)} else weights[name]"
        return f"key: {value} for name, key in WEIGHTS.items()"


def _is_at(dims: Mapping[str, int]) -> str:
    names, sizes = ", ".join(dims), ", ".join(map(str, dims.values()))
    return f"({names}) == ({sizes})" if len(dims) > 1 else f"{names} == {sizes}"


def _split(call: str) -> tuple[str, str]:
    import ast

    node = ast.parse(f"f({call})", mode="eval").body
    assert isinstance(node, ast.Call)
    positional = [ast.unparse(one) for one in node.args]
    named = [f'"{one.arg}": {ast.unparse(one.value)}' for one in node.keywords]
    return ", ".join(positional) + ("," if len(positional) == 1 else ""), ", ".join(named)


def sized(shape: Sequence[Axis]) -> str:
    """A shape as Python writes a tuple."""
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


def listed(names: Sequence[str] | Iterator[str]) -> str:
    return "[" + ", ".join(f'"{name}"' for name in names) + "]"


def analysis_text(program: PyTorchProgram, origin: str, computation: Sequence[str]) -> str:
    """A page for people.

    Args:
        program: what was found.
        origin: the user's file.
        computation: what it computes, line by line, as `roofsmith explain` tells it.
    """
    rows: list[tuple[str, KernelArray]] = [
        *(("input" if not one.is_changed else "input, changed", one) for one in program.inputs),
        *((f"weight `{one.weight}`", one) for one in program.weights),
        *(("result", one) for one in program.results),
    ]
    lines = [
        f"# `{program.name}` of {origin}",
        "",
        "## Arrays, in the kernel's order",
        "",
        "| array | what | type | shape |",
        "|---|---|---|---|",
        *(f"| `{one.name}` | {what} | {one.dtype} | `{sized(one.shape)}` |" for what, one in rows),
        "",
        "## Sizes",
        "",
        "| dim | get_inputs() gives |",
        "|---|---|",
        *(f"| {name} | {size} |" for name, size in program.dims.items()),
        "",
        "Judged on " + "; ".join(
            ", ".join(f"{name}={size}" for name, size in dims.items()) for dims in program.workloads
        ) + ".",
        "",
        "## Accuracy",
        "",
        "`roofsmith kernel check` allows what honest arithmetic in these types makes;"
        " test_kernel.py a worst relative error of " + ", ".join(
            f"{ALLOWED.get(one.dtype, 0.0):g} in `{one.name}`"
            for one in (*program.results, *(i for i in program.inputs if i.is_changed))
        ) + ".",
        "",
        "## What is computed",
        "",
        "As `roofsmith explain` tells it: the kind, each operation with its shape, the counts.",
        "",
        "```",
        *computation,
        "```",
        *(["", "## Notes", "", *(f"- {note}" for note in program.notes)] if program.notes else []),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"
