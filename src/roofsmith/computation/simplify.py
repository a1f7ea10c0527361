"""Small rewrites that change no result: what readers write twice, or round about, is gone."""

from __future__ import annotations

from dataclasses import replace

from roofsmith.computation import graph as g
from roofsmith.computation.building import ONE, ZERO, Builder
from roofsmith.computation.sizes import Shape, Size

NARROW = frozenset(("add", "sub", "mul", "div", "sqrt", "exp", "log", "tanh", "sin", "cos"))
"""One operation in float64 whose operands were float32 and whose result is: in float32 it is the
same number, or a neighbour of it, as with `math.exp` of an element."""


def simplified(graph: g.Graph) -> g.Graph:
    """The same results of fewer nodes."""
    for _ in range(4):  # chosen: one makes room for another
        smaller = _once(graph)
        if smaller == graph:
            break
        graph = smaller
    return graph


def _once(graph: g.Graph) -> g.Graph:
    builder = Builder()
    for note in graph.notes:
        builder.note(note)
    needed = set(graph.outputs.values())
    for place in range(len(graph.nodes) - 1, -1, -1):
        if place in needed:
            needed.update(graph[place].operands)
    places: dict[g.Id, g.Id] = {}
    for place, node in enumerate(graph.nodes):
        if place in needed:
            places[place] = _added(builder, node.moved(places))
    return _pruned(builder.graph(**{name: places[at] for name, at in graph.outputs.items()}))


def _pruned(graph: g.Graph) -> g.Graph:
    """Without what nothing needs; inputs stay in their order."""
    needed = set(graph.outputs.values())
    for place in range(len(graph.nodes) - 1, -1, -1):
        if place in needed:
            needed.update(graph[place].operands)
    places: dict[g.Id, g.Id] = {}
    nodes: list[g.Node] = []
    for place, node in enumerate(graph.nodes):
        if place in needed:
            places[place] = len(nodes)
            nodes.append(node.moved(places))
    outputs = {name: places[at] for name, at in graph.outputs.items()}
    return g.Graph(tuple(nodes), outputs, graph.notes)


def _added(b: Builder, node: g.Node) -> g.Id:
    match node:
        case g.Dimension() if (value := node.size.constant) is not None:
            return b.constant(value, node.dtype)
        case g.Cast():
            return _cast(b, node)
        case g.View():
            return _view(b, node)
        case g.Reshape():
            inner = b[node.arg]
            if node.shape == inner.shape:
                return node.arg
            if isinstance(inner, g.Reshape):
                return b.reshape(inner.arg, *node.shape)
        case g.Elementwise():
            return _elementwise(b, node)
        case g.Concat() if len(node.args) == 1:
            return node.args[0]
        case g.Pad() if node.shape == b.shape(node.arg):
            return node.arg
        case _:
            pass
    return b.add(node)


def _cast(b: Builder, node: g.Cast) -> g.Id:
    inner = b[node.arg]
    if inner.dtype == node.dtype:
        return node.arg
    if isinstance(inner, g.Constant):
        value = inner.value
        if node.dtype == "bool":
            return b.constant(bool(value), "bool")
        if node.dtype.startswith(("int", "uint")) and float(value).is_integer():
            return b.constant(int(value), node.dtype)
        if node.dtype in ("float32", "float64"):
            return b.constant(float(value), node.dtype)
    if isinstance(inner, g.Cast) and _holds(inner.dtype, b[inner.arg].dtype):
        return b.cast(inner.arg, node.dtype)
    if isinstance(inner, g.Arange) and node.dtype.startswith(("int", "uint")):
        return b.add(replace(inner, dtype=node.dtype))
    if isinstance(inner, g.Elementwise) and (inner.dtype, node.dtype) == ("float64", "float32"):
        wide = [b[one] for one in inner.args]
        given = [one.arg for one in wide if isinstance(one, g.Cast)]
        is_narrow = len(given) == len(wide) and all(b[one].dtype == "float32" for one in given)
        if is_narrow and inner.op in NARROW:
            return b.apply(inner.op, *given)
    return b.add(node)


def _holds(wide: str, narrow: str) -> bool:
    """Whether every number of one type is one of another."""
    order = {
        "float64": ("float32", "float16", "bfloat16", "int32", "int16", "int8", "uint8", "bool"),
        "float32": ("float16", "bfloat16", "int16", "int8", "uint8", "bool"),
        "int64": ("int32", "int16", "int8", "uint8", "bool"),
        "int32": ("int16", "int8", "uint8", "bool"),
    }
    return narrow in order.get(wide, ())


def _view(b: Builder, node: g.View) -> g.Id:
    inner = b[node.arg]
    if isinstance(inner, g.View):
        index = [through(part, node) for part in inner.index]
        return _view(b, replace(node, arg=inner.arg, index=tuple(index)))
    return node.arg if is_whole(node, inner.shape) else b.add(node)


def is_whole(view: g.View, shape: Shape) -> bool:
    """Whether it shows an array of that shape as it is."""
    return view.shape == shape and all(
        part.offset == ZERO
        and all(
            step == (ONE if at == axis else ZERO) or view.shape[at] == ONE
            for at, step in enumerate(part.strides)
        )
        for axis, part in enumerate(view.index)
    )


def through(part: g.Affine, outer: g.View) -> g.Affine:
    """An index of the innermost array, in the outer view's own."""
    offset: Size = part.offset
    strides = [ZERO] * len(outer.shape)
    for step, one in zip(part.strides, outer.index, strict=True):
        offset = offset + step * one.offset
        strides = [old + step * new for old, new in zip(strides, one.strides, strict=True)]
    return g.Affine(offset, tuple(strides))


def _elementwise(b: Builder, node: g.Elementwise) -> g.Id:
    """Without what changes nothing; operands that are broadcast in any case aren't before."""
    args = [_unspread(b, arg, node) for arg in node.args]
    if node.op == "where" and (rest := _other_part(b, args[0], args[2])) is not None:
        args[2] = rest
    if node.op == "where" and node.dtype == "bool" and b.shape(args[0]) == node.shape:
        chosen = _flag(b, args[1]), _flag(b, args[2])
        if chosen == (True, False):
            return args[0]
        if chosen == (False, True):
            return b.apply("not", args[0])
    made = replace(node, args=tuple(args))
    constants = [b[arg].value if isinstance(b[arg], g.Constant) else None for arg in args]  # type: ignore[attr-defined]
    same = [b.shape(arg) == node.shape and b[arg].dtype == node.dtype for arg in args]
    if node.op == "mul" and len(args) == 2 and 1 in constants:
        other = 1 - constants.index(1)
        if same[other] and constants[1 - other] is not True:
            return args[other]
    if node.op == "add" and 0 in constants and "int" in node.dtype:
        other = 1 - constants.index(0)
        if same[other]:
            return args[other]
    if node.op == "div" and constants[-1] == 1 and same[0]:
        return args[0]
    return b.add(made)


def _flag(b: Builder, place: g.Id) -> bool | None:
    """The one truth value that all elements are."""
    node = b[place]
    while isinstance(node, g.View):
        node = b[node.arg]
    return node.value if isinstance(node, g.Constant) and type(node.value) is bool else None


OPPOSITE = {"lt": "ge", "ge": "lt", "le": "gt", "gt": "le"}


def _other_part(b: Builder, test: g.Id, rest: g.Id) -> g.Id | None:
    """What is chosen where a test of places doesn't hold, of a choice by the opposite one: an array
    that is written in two parts keeps nothing of what it was."""
    outer, inner = b[test], b[rest]
    if not isinstance(inner, g.Elementwise) or inner.op != "where":
        return None
    other = b[inner.args[0]]
    if not isinstance(outer, g.Elementwise) or not isinstance(other, g.Elementwise):
        return None
    is_opposite = OPPOSITE.get(outer.op) == other.op and outer.args == other.args
    is_whole = b.shape(inner.args[1]) == inner.shape
    is_of_places = b[outer.args[0]].dtype == "int64"
    return inner.args[1] if is_opposite and is_whole and is_of_places else None


def _unspread(b: Builder, arg: g.Id, node: g.Elementwise) -> g.Id:
    """What a view only broadcasts from the right, if the shape is still what it was."""
    view = b[arg]
    if not isinstance(view, g.View):
        return arg
    inner = b.shape(view.arg)
    lead = len(view.shape) - len(inner)
    if lead < 0:
        return arg
    for axis, part in enumerate(view.index):
        wanted = tuple(
            ONE if at == lead + axis and inner[axis] != ONE else ZERO
            for at in range(len(view.shape))
        )
        if part.offset != ZERO or part.strides != wanted:
            return arg
        if inner[axis] not in (ONE, view.shape[lead + axis]):
            return arg
    others = [b.shape(one) for one in node.args if one != arg]
    return view.arg if _covers(others, inner, node) else arg


def _covers(others: list[tuple[Size, ...]], inner: tuple[Size, ...], node: g.Elementwise) -> bool:
    """Whether operands still give the shape."""
    for place in range(1, len(node.shape) + 1):
        wanted = node.shape[-place]
        if not any(
            len(one) >= place and one[-place] == wanted for one in (*others, inner)
        ) and wanted != ONE:  # fmt: skip
            return False
    rank = max(len(one) for one in (*others, inner))
    return rank == len(node.shape)
