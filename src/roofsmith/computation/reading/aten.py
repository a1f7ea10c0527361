"""A traced PyTorch program as nodes: values by name, and a table of what is read."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch

from roofsmith.computation.graph import Id
from roofsmith.computation.reading.numpy_arrays import lifted
from roofsmith.computation.reading.tape import Tape
from roofsmith.computation.sizes import Size

Handler = Callable[..., Any]
TABLE: dict[str, Handler] = {}
"""By an operation's name, without overload, `aten.` and `_copy`."""
RANDOM = re.compile(r"rand|bernoulli|multinomial|dropout|normal|uniform|exponential|poisson")


def reads(*names: str) -> Callable[[Handler], Handler]:
    def register(made: Handler) -> Handler:
        TABLE.update(dict.fromkeys(names, made))
        return made

    return register


def base_name(operation: Any) -> str:
    """An operation's name in `TABLE`: `slice` of `aten.slice_copy.Tensor`."""
    name = str(operation).removeprefix("aten.").removeprefix("prims.").split(".")[0]
    return name if name in ("_to_copy", "index_copy") else name.removesuffix("_copy")


def name_of(dtype: Any) -> str:
    """`float32` of `torch.float32`."""
    return str(dtype).removeprefix("torch.")


class NodePlace(int):
    """A node's place, told from numbers."""


def _placed(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [_placed(one) for one in value]
    return NodePlace(value) if isinstance(value, int) else value


class Converter:
    """Makes nodes of one traced program."""

    def __init__(self, tape: Tape, traced: Any) -> None:
        """Nothing is made yet."""
        self.tape, self.b = tape, tape.builder
        self._traced = traced
        self._values: dict[Any, Any] = {}
        self.inputs: dict[str, Id] = {}
        self.node: Any = None
        """The operation that is being read."""

    def converted(self, names: Sequence[str]) -> list[Id]:
        """Places of the results; arguments have these names."""
        remaining = iter(names)
        for node in self._traced.graph.nodes:
            self.node = node
            self.tape.at = self._line(node)
            if node.op == "placeholder":
                name, value = next(remaining), node.meta["val"]
                made = self.b.input(name, name_of(value.dtype), *value.shape)
                self.inputs[name] = made
                self._values[node] = NodePlace(made)
            elif node.op == "get_attr":
                self._values[node] = NodePlace(self._constant(getattr(self._traced, node.target)))
            elif node.op == "call_function":
                self._values[node] = _placed(self._called(node))
            elif node.op == "output":
                results = [self._values[one] for one in node.args[0]]
        return results

    def _constant(self, tensor: Any) -> Id:
        array = tensor.detach().cpu()
        if array.dtype == torch.bfloat16:
            return self.b.cast(lifted(self.tape, array.float().numpy()).node, "bfloat16")
        value = array.numpy()
        return (
            lifted(self.tape, value.item() if value.ndim == 0 else value).astype(value.dtype).node
        )

    def _called(self, node: Any) -> Any:
        args = torch.fx.map_arg(node.args, self._values.__getitem__)
        options = torch.fx.map_arg(node.kwargs, self._values.__getitem__)
        if node.target is operator.getitem:
            return args[0][args[1]]
        full = str(node.target)
        name = base_name(node.target)
        if name in TABLE:
            return TABLE[name](self, *args, **options)
        if RANDOM.search(name):
            raise self.tape.refuse(f"{full}: random numbers aren't read")
        return self._opaque(full, args, options)

    def _opaque(self, name: str, args: Any, options: Any) -> Any:
        """An operation that nobody reads."""
        seen: list[Id] = []
        torch.fx.map_arg((self.node.args, self.node.kwargs), lambda n: seen.append(self._values[n]))
        del args, options
        values = self.node.meta.get("val")
        if values is None:
            raise self.tape.refuse(f"torch.{name} isn't read")
        made = [
            self.b.opaque(f"torch.{name}", seen, self.tape.line(),
                          tuple(map(Size.of, one.shape)), name_of(one.dtype))
            for one in (values if isinstance(values, (tuple, list)) else [values])
        ]  # fmt: skip
        return made if isinstance(values, (tuple, list)) else made[0]

    def _line(self, node: Any) -> int:
        """The reference's line that asked for it; 0: nobody knows."""
        return int((node.meta.get("custom") or {}).get("line", 0))

    # What handlers ask.
    @property
    def dtype(self) -> str:
        value = self.node.meta["val"]
        return name_of((value[0] if isinstance(value, (tuple, list)) else value).dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        value = self.node.meta["val"]
        return tuple((value[0] if isinstance(value, (tuple, list)) else value).shape)

    def fake(self, place: int) -> Any:
        """An argument as PyTorch sees it: a tensor without numbers, or a number."""
        one = self.node.args[place]
        return one.meta["val"] if isinstance(one, torch.fx.Node) else one

    def of(self, value: Any, dtype: str) -> Id:
        """An operand in a type: a node's, or a number's."""
        if isinstance(value, NodePlace):
            return self.cast(value, dtype)
        return self.tape.number(value, dtype)

    def cast(self, place: Id, dtype: str) -> Id:
        """A node in another type; to bool whether it isn't 0."""
        if dtype == "bool" and self.b[place].dtype != "bool":
            return self.b.apply("ne", place, self.b.constant(0, self.b[place].dtype))
        return self.b.cast(place, dtype)

    def promoted(self, *places: int) -> str:
        """The type in which arguments are compared."""
        values = [self.fake(one) for one in places]
        return name_of(torch.result_type(*values))
