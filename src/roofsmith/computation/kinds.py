"""What kind of operator a computation is, told by its form and by no name."""

from __future__ import annotations

from roofsmith.computation import graph as g

KINDS = (
    "attention", "log-softmax", "softmax", "cross-entropy", "normalisation", "convolution",
    "contraction", "scan", "sort", "scatter", "gather", "stencil", "reduction", "transpose", "copy",
    "map", "unknown",
)  # fmt: skip
"""What `kind` may say."""


def kind(graph: g.Graph) -> str:
    """One of `KINDS`: the most particular that fits."""
    form = Forms(graph)
    nodes = graph.nodes
    if any(isinstance(node, g.Opaque) for node in nodes):
        return "unknown"
    softmaxes = {at for at in range(len(nodes)) if form.is_softmax(at)}
    logs = [at for at in range(len(nodes)) if form.is_log_softmax(at)]
    contractions = [node for node in nodes if isinstance(node, g.Contract)]
    for node in contractions:
        for side in (node.left, node.right):
            if form.source(side) in softmaxes or form.is_late_softmax(node, side):
                return "attention"
    if logs:
        is_loss = any(isinstance(node, (g.Gather, g.Reduce)) and form.rests_on(at, set(logs))
                      for at, node in enumerate(nodes))  # fmt: skip
        return "cross-entropy" if is_loss else "log-softmax"
    if softmaxes:
        return "softmax"
    if contractions:
        windows = any(form.is_windowed(side) for one in contractions
                      for side in (one.left, one.right))  # fmt: skip
        return "convolution" if windows else "contraction"
    if any(form.is_normalised(at) for at in range(len(nodes))):
        return "normalisation"
    for kinds, name in (((g.Scan,), "scan"), ((g.Sort,), "sort"), ((g.Scatter,), "scatter")):
        if any(isinstance(node, kinds) for node in nodes):
            return name
    if any(isinstance(node, g.Reduce) for node in nodes):
        return "reduction"
    if any(isinstance(node, g.Gather) for node in nodes):
        return "gather"
    if form.has_shifts():
        return "stencil"
    if not any(isinstance(node, g.Elementwise) for node in nodes):
        moved = any(isinstance(node, g.View) and form.turns(node) for node in nodes)
        return "transpose" if moved else "copy"
    return "map"


class Forms:
    """Looks for forms in a graph; views, casts and reshapes are looked through."""

    def __init__(self, graph: g.Graph) -> None:
        self._graph = graph

    def source(self, place: g.Id) -> g.Id:
        """What is shown, without views, casts and reshapes."""
        node = self._graph[place]
        while isinstance(node, (g.View, g.Cast, g.Reshape)):
            place = node.arg
            node = self._graph[place]
        return place

    def _op(self, place: g.Id, op: str) -> tuple[g.Id, ...] | None:
        """Operands of an elementwise operation, looked through; None: it is another."""
        node = self._graph[self.source(place)]
        if isinstance(node, g.Elementwise) and node.op == op:
            return tuple(self.source(arg) for arg in node.args)
        return None

    def _reduced(self, place: g.Id, op: str) -> g.Id | None:
        """What is reduced, looked through; None: it is something else."""
        node = self._graph[self.source(place)]
        if isinstance(node, g.Reduce) and node.op == op:
            return self.source(node.arg)
        return None

    def _is_exponential(self, place: g.Id) -> bool:
        return self._op(place, "exp") is not None or self._op(place, "exp2") is not None

    def is_softmax(self, place: g.Id) -> bool:
        """An exponential by its sum, or times the sum's reciprocal."""
        if (parts := self._op(place, "div")) is not None:
            top, below = parts
            return self._is_exponential(top) and self._reduced(below, "sum") == top
        if (parts := self._op(place, "mul")) is not None:
            for top, factor in (parts, parts[::-1]):
                inverse = self._op(factor, "div")
                if inverse and self._is_exponential(top) and (
                    self._reduced(inverse[1], "sum") == top
                ):  # fmt: skip
                    return True
        return False

    def is_late_softmax(self, node: g.Contract, side: g.Id) -> bool:
        """Whether a contraction of exponentials is divided by their sum afterwards."""
        top = self.source(side)
        if not self._is_exponential(top):
            return False
        place = self._graph.nodes.index(node)
        return any(
            (parts := self._op(at, "div")) is not None
            and parts[0] == place and self._reduced(parts[1], "sum") == top
            for at in range(len(self._graph.nodes))
        )  # fmt: skip

    def is_log_softmax(self, place: g.Id) -> bool:
        """Something less the logarithm of a sum of exponentials of it."""
        if (parts := self._op(place, "sub")) is None:
            return False
        whole, log = parts
        inner = self._op(log, "log")
        if inner is None and (added := self._op(log, "add")) is not None:
            inner = next((found for one in added if (found := self._op(one, "log"))), None)
        if inner is None:
            return False
        top = self._reduced(inner[0], "sum")
        exponent = self._op(top, "exp") if top is not None else None
        if exponent is None:
            return False
        shifted = self._op(exponent[0], "sub")
        return exponent[0] == whole or (shifted is not None and shifted[0] == whole)

    def is_normalised(self, place: g.Id) -> bool:
        """A product with, or a quotient by, the root of a sum of squares."""
        if (parts := self._op(place, "mul")) is not None:
            return any(self._is_root(part, "rsqrt") or self._is_inverse_root(part)
                       for part in parts)  # fmt: skip
        parts = self._op(place, "div")
        return parts is not None and self._is_root(parts[1], "sqrt")

    def _is_inverse_root(self, place: g.Id) -> bool:
        parts = self._op(place, "div")
        return parts is not None and self._is_root(parts[1], "sqrt")

    def _is_root(self, place: g.Id, op: str) -> bool:
        parts = self._op(place, op)
        if parts is None:
            parts = self._op(place, "max")  # a norm with a least length
            parts = next((found for one in parts or () if (found := self._op(one, op))), None)
        if parts is None:
            return False
        waiting = [parts[0]]
        while waiting:
            one = waiting.pop()
            if (inner := self._reduced(one, "sum")) is not None:
                squared = self._op(inner, "mul")
                return squared is not None and squared[0] == squared[1]
            node = self._graph[one]
            if isinstance(node, g.Elementwise) and node.op in ("add", "div", "mul", "max", "sub"):
                waiting += [self.source(arg) for arg in node.args]
        return False

    def is_windowed(self, place: g.Id) -> bool:
        """Whether it is seen through a view that shows an element several times."""
        node = self._graph[place]
        while isinstance(node, (g.View, g.Cast, g.Reshape)):
            if isinstance(node, g.View) and any(
                sum(bool(stride.terms) for stride in part.strides) > 1 for part in node.index
            ):
                return True
            node = self._graph[node.arg]
        return False

    def has_shifts(self) -> bool:
        """Whether an array is seen at several offsets."""
        seen: dict[g.Id, set[tuple[object, ...]]] = {}
        for node in self._graph.nodes:
            if isinstance(node, g.View):
                offsets = tuple(part.offset for part in node.index)
                seen.setdefault(self.source(node.arg), set()).add(offsets)
        return any(len(offsets) > 2 for offsets in seen.values())

    def turns(self, node: g.View) -> bool:
        """Whether axes are in another order."""
        order = [
            at for part in node.index for at, stride in enumerate(part.strides) if stride.terms
        ]
        return order != sorted(order)

    def rests_on(self, place: g.Id, wanted: set[g.Id]) -> bool:
        waiting = list(self._graph[place].operands)
        while waiting:
            one = waiting.pop()
            if one in wanted:
                return True
            waiting += self._graph[one].operands
        return False
