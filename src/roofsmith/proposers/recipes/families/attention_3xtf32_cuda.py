"""Replace attention by one pass over the keys, in float32's accuracy on tensor cores."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from roofsmith.domain.facts import DType
from roofsmith.domain.kernel import Signature
from roofsmith.proposers.cards import Card, CardChange, CardContext
from roofsmith.proposers.reach import reaching
from roofsmith.proposers.recipes.families._fit import Attention, Call, attention


def apply(context: CardContext) -> CardChange | None:
    """Q, K, V and their output in float32, in any of the usual layouts."""
    fit = attention(context)
    if fit is None or {o.dtype for o in (fit.q, fit.k, fit.v, fit.o)} != {"float32"}:
        return None
    sizes = _sizes(fit)
    if sizes is None:
        return None
    causal = next((n for n in fit.call.scalars if "causal" in n.lower()), str(fit.causal).lower())
    return with_kernel(
        context,
        "attention_3xtf32",
        f"Compute {fit.o.name} in one pass over {fit.k.name} and {fit.v.name}, without the scores' "
        "matrix, on tensor cores as three TF32 products",
        q=fit.q.name,
        k=fit.k.name,
        v=fit.v.name,
        output=fit.o.name,
        heads_last=str(fit.heads_last).lower(),
        causal=causal,
        scale=fit.scale or "0",
        **sizes,
    )


def _sizes(fit: Attention) -> dict[str, str] | None:
    one = (1,) * len(fit.q.shapes)
    tokens = (1 if fit.heads_last else 2) if fit.q.rank == 4 else fit.q.rank - 2
    heads = fit.q.axis(3 - tokens) if fit.q.rank == 4 else fit.q.axis(0) if tokens else one
    found = extents(
        fit.call,
        {
            "b": fit.q.axis(0) if fit.q.rank == 4 else one,
            "h": heads,
            "m": fit.q.axis(tokens),
            "n": fit.k.axis(tokens),
            "d": fit.q.last,
        },
    )
    if found is None:
        return None
    return {
        "batch": found["b"],
        "heads": fit.heads or found["h"],
        "queries": found["m"],
        "keys": found["n"],
        "width": f"({found['d']}) / {fit.heads}" if fit.heads else found["d"],
    }


CARD = Card(
    id="attention-3xtf32",
    title="Attention in one pass, as TF32 products",
    category="fusion",
    answers=frozenset(("compute", "memory", "latency", "unknown")),
    rationale=(
        "Scores that stay in registers are neither written nor read again, and tensor cores do "
        "both products at a multiple of the float32 units' rate; operands split into a TF32 number "
        "and its rest lose no more than float32 does"
    ),
    expected_counter="tensor_pipe",
    expected_change="up from none",
    instruction="HMMA.TF32",
    source=(
        "Dao et al., FlashAttention, NeurIPS 2022, arXiv:2205.14135; Ootomo & Yokota, Recovering "
        "single precision accuracy from Tensor Cores, IJHPCA 36(4), 2022, arXiv:2203.03341"
    ),
    apply=apply,
    predict=reaching("attention-3xtf32"),
    families=frozenset(("attention",)),
    languages=frozenset(("cuda",)),
)


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
