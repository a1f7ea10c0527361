"""One reading of a PyTorch reference: traced on fake tensors, in ATen's few core operations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch._decomp import core_aten_decompositions, decomposition_table
from torch._subclasses.fake_tensor import DataDependentOutputException
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.traceback import annotate, preserve_node_meta

from roofsmith.computation.graph import Graph
from roofsmith.computation.reading import (  # noqa: F401 - they say what they read
    aten_elements,
    aten_indices,
    aten_reductions,
    aten_shapes,
    aten_windows,
)
from roofsmith.computation.reading.aten import TABLE as READ
from roofsmith.computation.reading.aten import Converter, base_name
from roofsmith.computation.reading.stand_ins import replaced
from roofsmith.computation.reading.tape import Tape, Unreadable
from roofsmith.computation.reading.torch_devices import HostTensors
from roofsmith.domain.python_names import as_arguments

_READ = READ.keys() - {"std", "rsub", "lift_fresh_number"}
TABLE = {
    **core_aten_decompositions(),
    **{op: made for op, made in decomposition_table.items() if base_name(op) not in _READ},
}
"""How operations that aren't read as they are come apart."""
for _op in list(TABLE):
    if base_name(_op) in _READ:
        del TABLE[_op]


class LineWatch(HostTensors):
    """Says of each operation which line of the reference asked for it."""

    def __init__(self, tape: Tape) -> None:
        super().__init__()
        self._tape = tape

    def __torch_function__(
        self, function: Any, kinds: Any, args: Any = (), options: dict[str, Any] | None = None
    ) -> Any:
        """One call of PyTorch's."""
        self._tape.at = None
        with annotate({"line": self._tape.number_of_line()}):
            return super().__torch_function__(function, kinds, args, options)


def read_torch(
    module: ModuleType, path: Path, values: Mapping[str, Any], outputs: frozenset[str] | None,
    free: frozenset[str],
) -> tuple[Graph, tuple[str, ...]]:  # fmt: skip
    """What the reference does to these arguments, and the line of each node.

    Raises:
        Unreadable: no graph says it.
        Exception: whatever the reference raises.
    """
    tape = Tape(path)
    tape.at = 0
    names = [name for name, value in values.items() if isinstance(value, torch.Tensor)]
    plain: dict[str, Any] = {}
    for name, value in values.items():
        if name not in names:
            plain[name] = tape.given(name, value) if name in free else value

    def called(*tensors: torch.Tensor) -> list[torch.Tensor]:
        arguments = dict(zip(names, tensors, strict=True))
        ordered = {name: arguments.get(name, plain.get(name)) for name in values}
        with LineWatch(tape), replaced(module, {}):
            module.reference(**as_arguments(ordered))
        return list(arguments.values())

    tensors = [torch.empty_like(values[name].detach()) for name in names]
    has_library, *_ = torch.backends.mkldnn.set_flags(False)  # its LSTM is one operation
    try:
        with preserve_node_meta():
            traced = _traced(called, tensors, TABLE)
            if _writes(traced.graph):  # operations that came apart may do so in place
                traced = _traced(torch.fx.Interpreter(traced).run, tensors, {})
        traced.graph.eliminate_dead_code()
    except (DataDependentOutputException, RuntimeError, NotImplementedError) as error:
        raise _refused(error, tape) from error
    finally:
        torch.backends.mkldnn.set_flags(has_library)
    converter = Converter(tape, traced)
    try:
        _drop_unread(traced.graph)
        places = converter.converted(names)
    except RuntimeError as error:
        raise tape.refuse("what PyTorch makes of it can't be read") from error
    results = {
        name: place
        for name, place in zip(names, places, strict=True)
        if (name in outputs if outputs is not None else place != converter.inputs[name])
    }
    return tape.builder.graph(**results), tape.lines


def _traced(called: Any, tensors: Any, table: Any) -> Any:
    """Every operation on these, none of which changes what there is."""
    return make_fx(
        functionalize(called, remove="mutations_and_views"), decomposition_table=table,
        tracing_mode="fake", _allow_non_fake_inputs=True,
    )(*tensors)  # fmt: skip


def _writes(graph: Any) -> bool:
    """Whether an operation changes what is no argument."""
    return any(
        node.op == "call_function" and getattr(node.target, "_schema", None) is not None
        and node.target._schema.is_mutable and node.args and node.args[0].op != "placeholder"
        for node in graph.nodes
    )  # fmt: skip


def _drop_unread(graph: Any) -> None:
    """Leave out what nobody reads, such as a module's own statistics, written in place."""
    later: set[Any] = set()
    for node in reversed([*graph.nodes]):
        is_copy = node.op == "call_function" and node.target is torch.ops.aten.copy_.default
        is_unread = is_copy and node.args[0].op != "placeholder" and node.args[0] not in later
        if is_unread and not node.users:
            graph.erase_node(node)
        else:
            later.update(node.all_input_nodes)
    graph.eliminate_dead_code()


def _refused(error: Exception, tape: Tape) -> Exception:
    """Data-dependent control flow as a refusal; everything else as it is."""
    text = str(error)
    if isinstance(error, DataDependentOutputException) or re.search(
        r"data.dependent|_local_scalar_dense|nonzero|tolist\(\)|unallocated storage|\.numpy\(\)",
        text,
    ):
        trace, line = error.__traceback__, 0
        while trace is not None:
            if tape.is_own(file := trace.tb_frame.f_code.co_filename):
                line = tape.number_of(file, trace.tb_lineno)
            trace = trace.tb_next
        tape.at = line
        return Unreadable(f"computed values decide what is computed ({tape.line()})")
    return error
