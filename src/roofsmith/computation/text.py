"""A graph for people: one line for each operation, with its shape in dims."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from roofsmith.computation import graph as g
from roofsmith.computation.sizes import Shape, Size

SIGNS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%", "eq": "==",
    "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "and": "&", "or": "|", "xor": "^",
    "bit_and": "&", "bit_or": "|", "bit_xor": "^", "shift_left": "<<", "shift_right": ">>",
}  # fmt: skip
AXES = "ijklmnopqrstuvw"


def lines(graph: g.Graph) -> list[str]:
    """`t3[N, D] float32 = exp(t2)`, in order; inputs first, numbers where they are used."""
    names: dict[g.Id, str] = {}
    told: list[str] = []
    for place, node in enumerate(graph.nodes):
        if isinstance(node, g.Constant | g.Dimension):
            names[place] = named(node)
        elif isinstance(node, g.Input):
            names[place] = node.name
            told.append(f"{node.name}{shape_text(node.shape)} {node.dtype}")
        else:
            names[place] = f"t{place}"
            does = " ".join(said(node, [names[one] for one in shown(node)]))
            told.append(f"t{place}{shape_text(node.shape)} {node.dtype} = {does}")
    told += [f"{name} = {names[place]}" for name, place in graph.outputs.items()]
    return told


def named(node: g.Node) -> str:
    """A number or an input where it is used."""
    match node:
        case g.Constant():
            return _number(node.value)
        case g.Dimension():
            return f"({node.size})" if len(node.size.terms) > 1 else str(node.size)
        case _:
            return str(getattr(node, "name", ""))


def _number(value: float | int | bool) -> str:
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def shape_text(shape: Shape) -> str:
    """As in `lines`."""
    return f"[{', '.join(map(str, shape))}]" if shape else ""


def shown(node: g.Node) -> Sequence[g.Id]:
    """The operands that its text names: of a loop's, what one result was and becomes."""
    return node.pairs[node.which] if isinstance(node, g.Repeated) else node.operands


def said(node: g.Node, args: Sequence[str]) -> Iterator[str]:
    """What a node does with the operands `shown`, by name."""
    match node:
        case g.Elementwise():
            sign = SIGNS.get(node.op)
            yield f" {sign} ".join(args) if sign else f"{node.op}({', '.join(args)})"
        case g.Cast():
            yield f"{node.dtype}({args[0]})"
        case g.Arange():
            yield "0, 1, 2, ..."
        case g.View():
            yield f"{args[0]}[{', '.join(map(_index, node.index))}]"
        case g.Reshape():
            yield f"reshape({args[0]})"
        case g.Pad():
            low = ", ".join(map(str, node.low))
            yield f"pad({args[0]}, from ({low}), with {_number(node.value)})"
        case g.Concat():
            yield f"concat({', '.join(args)}, axis {node.axis})"
        case g.Reduce():
            yield f"{node.op}({args[0]}, {_axes(node.axes)})"
        case g.Scan():
            yield f"running {node.op}({args[0]}, axis {node.axis})"
        case g.Contract():
            spec = f"{node.left_axes},{node.right_axes}->{node.result_axes}"
            yield f"contract({args[0]}, {args[1]}, {spec})"
        case g.Gather():
            yield f"{args[0]} at ({', '.join(args[1:])})"
        case g.Scatter():
            yield f"{args[0]} with {node.op} at ({', '.join(args[1:-1])}) of {args[-1]}"
        case g.Sort():
            what = "order" if node.order else "sort"
            yield f"{what}({args[0]}, axis {node.axis}{', descending' * node.descending})"
        case g.CarriedValue():
            yield f"{args[0]} at first, carried through loop {node.loop}"
        case g.Repeated():
            begin, end = args
            yield f"{begin} after {node.count} times {end}"
        case g.Opaque():
            yield f"{node.name}({', '.join(args)})"
        case _:
            yield type(node).__name__


def _axes(axes: Sequence[int]) -> str:
    return f"axis {axes[0]}" if len(axes) == 1 else f"axes {', '.join(map(str, axes))}"


def _index(part: g.Affine) -> str:
    """`2*i + k`, in the result's indices."""
    terms = []
    for letter, stride in zip(AXES, part.strides, strict=False):
        if stride == Size():
            continue
        times = stride.constant
        if times in (1, -1):
            terms.append(letter if times == 1 else f"-{letter}")
        else:
            terms.append(f"{stride}*{letter}" if len(stride.terms) == 1 else f"({stride})*{letter}")
    if part.offset != Size() or not terms:
        terms.append(str(part.offset))
    return " + ".join(terms).replace("+ -", "- ")
