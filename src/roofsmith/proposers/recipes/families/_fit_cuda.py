"""What whole kernels in CUDA share: the user's `solve` around them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from roofsmith.domain.facts import DType
from roofsmith.domain.kernel import Signature
from roofsmith.proposers.cards import CardChange, CardContext
from roofsmith.proposers.recipes.families._fit import Call

TYPES: Mapping[DType, str] = {
    "float16": "__half", "bfloat16": "__nv_bfloat16", "float32": "float", "float64": "double",
    "int8": "int8_t", "int16": "int16_t", "int32": "int32_t", "int64": "int64_t",
    "uint8": "uint8_t", "uint16": "uint16_t", "uint32": "uint32_t", "uint64": "uint64_t",
    "bool": "bool",
}  # fmt: skip


def extents(call: Call, sizes: Mapping[str, tuple[int, ...]]) -> dict[str, str] | None:
    """Each size in C, by the names given, which are those that scalars for them often have.

    Where several scalars fit, as with square matrices, the one of that name is taken, else the
    first that stands for no other size. None where a size can't be told from scalars.
    """
    found: dict[str, str] = {}
    for name, values in sizes.items():
        fitting = [n for n, v in call.scalars.items() if v == values and type(v[0]) is int]
        named = [n for n in fitting if n.lower() == name]
        others = [n for n in fitting if n.lower() not in sizes and n not in found.values()]
        one = ["1"] if set(values) == {1} else []
        text = next(iter([*named, *one, *others, *fitting]), None) or call.extent(values)
        if text is None:
            return None
        found[name] = text
    return found


def with_kernel(
    context: CardContext, name: str, statement: str, **values: str
) -> CardChange | None:
    """The file `NAME.cu.j2` as the kernel, behind the user's `solve`; None where it is already."""
    declared = _parameters(context.signature)
    template = _environment().get_template(f"{name}.cu.j2")
    text = template.render(entry=context.signature.entry, parameters=declared, **values)
    if text.partition("\n")[0] in context.candidate.kernel.text:
        return None
    return CardChange(context.with_text(text), statement)


def _parameters(signature: Signature) -> str:
    return ", ".join(
        f"{'const ' if p.role == 'input' else ''}{TYPES[p.dtype]}{'' if p.role == 'size' else '*'} "
        f"{p.name}"
        for p in signature.parameters
    )


@cache
def _environment() -> Environment:
    loader = PackageLoader(__package__, "")
    return Environment(
        loader=loader, undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True
    )
