"""The kernel of attention: blocks of queries walk along keys and values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from roofsmith.computation.building import ONE
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.groups import Axis, Group
from roofsmith.proposers.schedules.online_attention import SCORE, OnlineAttention, unmasked
from roofsmith.proposers.schedules.triton import operations as t
from roofsmith.proposers.schedules.triton.products import operand
from roofsmith.proposers.schedules.triton.tiles import indices_of
from roofsmith.proposers.schedules.triton.values import (
    TileAxis,
    TileScope,
    TileValue,
    Values,
    size_text,
)
from roofsmith.proposers.schedules.triton.written import WrittenModule, is_wide


def write_attention(module: WrittenModule, found: OnlineAttention, group: Group) -> None:
    """The kernel and its launch."""
    name = module.kernel_name(group, "attention")
    lines = _lines(module, found, group)
    constants = ["BLOCK_M", "BLOCK_N", "BLOCK_D", "BLOCK_E"]
    says = "A block of queries: scores, their softmax and the sum of values go along together."
    arguments = module.add(name, says, lines, constants)
    is_single = found.query.dtype == "float32"
    block = module.tunable("BLOCK_M", 64 if is_single else 128, (32, 64, 128, 256))
    step = module.tunable("BLOCK_N", 32 if is_single else 64, (32, 64, 128))
    stages = module.tunable("STAGES", 2 if is_single else 3, (1, 2, 3, 4))
    warps = module.tunable("WARPS", 4 if is_single else 8, (4, 8, 16))
    counts = [f"triton.cdiv({size_text(found.m.size)}, {block})"]
    counts += [_bracketed(size_text(axis.size)) for axis in found.batch if axis.size != ONE]
    options = [
        f"BLOCK_M={block}", f"BLOCK_N={step}",
        f"BLOCK_D=max(16, triton.next_power_of_2({size_text(found.d.size)}))",
        f"BLOCK_E=max(16, triton.next_power_of_2({size_text(found.depth.size)}))",
        f"num_warps={warps}", f"num_stages={stages}",
    ]  # fmt: skip
    module.launch(name, f"({' * '.join(counts)},)", arguments, options)


def _bracketed(text: str) -> str:
    return text if text.isidentifier() or text.isdigit() else f"({text})"


def _lines(module: WrittenModule, found: OnlineAttention, group: Group) -> list[str]:
    m, n, d, inner = found.m, found.n, found.d, found.depth
    indices = [*indices_of(group, module.places)]
    for value in (found.query, found.key, found.value, found.score):
        indices += [e.flat(r.index, r.shape) for r in e.walk(value) if isinstance(r, e.Read)]
    size = size_text(m.size)
    lines = [f"tiles = tl.cdiv({size}, BLOCK_M)", "program = tl.program_id(0)"]
    lines.append("first = (tiles - 1 - program % tiles) * BLOCK_M")
    lines.append("program = program // tiles")
    some = [axis for axis in found.batch if axis.size != ONE]
    for at, axis in enumerate(reversed(some)):
        count = _bracketed(size_text(axis.size))
        if at == len(some) - 1:
            lines.append(f"{axis.name} = program.to(tl.int64)")
        else:
            lines += [
                f"{axis.name} = (program % {count}).to(tl.int64)",
                f"program = program // {count}",
            ]
    lines += [f"{axis.name} = 0" for axis in found.batch if axis.size == ONE]

    def numbers(axis: Axis, block: str) -> str:
        return f"tl.arange(0, {block})" + (".to(tl.int64)" if is_wide(axis, indices) else "")

    lines += [
        f"{m.name} = (first + {numbers(m, 'BLOCK_M')})[:, None]",
        f"inside_{m.name} = {m.name} < {size}",
        f"{d.name} = tl.arange(0, BLOCK_D)[None, :]",
        f"inside_{d.name} = {d.name} < {size_text(d.size)}",
        f"{inner.name} = tl.arange(0, BLOCK_E)",
        f"{inner.name}_across = {inner.name}[None, :]",
        f"{inner.name}_down = {inner.name}[:, None]",
        f"inside_across = {inner.name}_across < {size_text(inner.size)}",
        f"inside_down = {inner.name}_down < {size_text(inner.size)}",
    ]
    across = TileAxis(inner.name, f"{inner.name}_across", "inside_across")
    down = TileAxis(inner.name, f"{inner.name}_down", "inside_down")
    rows = TileAxis(m.name, m.name, f"inside_{m.name}")
    taken = {
        "program", "first", "tiles", "query", "key", "value", "top", "weight", "total", "share",
        "higher", "finite", "faded", "start", "whole", "end", "tl", SCORE, found.result,
        *module.program.buffers, *module.helpers,
    }  # fmt: skip
    taken |= {axis.name for axis in (m, n, d, inner, *found.batch)}
    every = frozenset((m.name, d.name, inner.name, *(axis.name for axis in found.batch)))

    def writer(tile: Sequence[TileAxis], scopes: list[TileScope]) -> Values:
        named = {one.name: one for one in tile}
        return Values(
            module.places, named, module.helpers, taken, every | {n.name}, scopes, Counter()
        )

    outer = TileScope(every, lines)
    asked = writer((rows, across), [outer])
    asked.count([found.query])
    lines.append(f"query = {operand(asked, found.query, 'inside_across')}")
    lines += [
        'top = tl.full((BLOCK_M, 1), -float("inf"), tl.float32)',
        "weight = tl.zeros((BLOCK_M, 1), tl.float32)",
        "total = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)",
    ]
    plain, last = unmasked(found.score, m.name, n.name)
    keys = size_text(n.size)
    if last is not None:
        behind = size_text(last)
        more = f" + {behind}" if behind != "0" else ""
        lines += [
            f"end = tl.maximum(0, tl.minimum({keys}, first + BLOCK_M{more}))",
            f"whole = tl.maximum(0, tl.minimum({keys}, first + 1{more})) // BLOCK_N * BLOCK_N",
        ]
    else:
        lines += [f"end = {keys}", f"whole = {keys} // BLOCK_N * BLOCK_N"]
    precision = f', input_precision="{"tf32" if module.wanted.tf32 else "tf32x3"}"'
    precision = precision if found.query.dtype == "float32" else ""
    for is_masked in (False, True):
        score = found.score if is_masked else plain
        scope = TileScope(frozenset((n.name,)))
        body = scope.lines
        body += [f"{n.name} = start + {numbers(n, 'BLOCK_N')}"]
        body += [f"{n.name}_across = {n.name}[None, :]", f"{n.name}_down = {n.name}[:, None]"]
        mask = ("keys_across", "keys_down") if is_masked else ("", "")
        if is_masked:
            body += [
                f"keys_across = {n.name}_across < {keys}",
                f"keys_down = {n.name}_down < {keys}",
            ]
        n_across = TileAxis(n.name, f"{n.name}_across", mask[0])
        n_down = TileAxis(n.name, f"{n.name}_down", mask[1])
        values = writer((down, n_across), [outer, scope])
        values.count([found.key])
        body.append(f"key = {operand(values, found.key, 'inside_down')}")
        body.append(f"{SCORE} = tl.dot(query, key{precision})")
        values = writer((rows, n_across), [outer, scope])
        values.count([score])
        values.hold(SCORE, TileValue(SCORE, frozenset((m.name, n.name))))
        text = t.stripped(values.write(score).text)
        text = f'tl.where(keys_across, {text}, -float("inf"))' if is_masked else text
        body += [
            f"{SCORE} = {text}",
            f"higher = tl.maximum(top, tl.max({SCORE}, axis=1, keep_dims=True))",
            'finite = tl.where(higher == -float("inf"), 0.0, higher)',
            f"share = tl.exp({SCORE} - finite)",
            "faded = tl.exp(top - finite)",
            "weight = weight * faded + tl.sum(share, axis=1, keep_dims=True)",
            "top = higher",
        ]
        columns = TileAxis(d.name, d.name, f"inside_{d.name}")
        values = writer((n_down, columns), [outer, scope])
        values.count([found.value])
        body.append(f"value = {operand(values, found.value, mask[1] or 'True')}")
        body.append(f"total = tl.dot(share.to(value.dtype), value, total * faded{precision})")
        bounds = "whole, end" if is_masked else "0, whole"
        lines += [f"for start in range({bounds}, BLOCK_N):", *(f"    {line}" for line in body)]
    lines.append(f"{found.result} = total / weight")
    ending = writer(
        (rows, TileAxis(d.name, d.name, f"inside_{d.name}")), [TileScope(every | {n.name}, lines)]
    )
    ending.count(store.value for store in found.stores)
    ending.hold(found.result, TileValue(found.result, frozenset((m.name, d.name))))
    texts = [ending.write(store.value) for store in found.stores]
    for store, result in zip(found.stores, texts, strict=True):
        lines.append(
            ending.store(store.buffer, ending.index(e.flat(store.index, store.shape)), result)
        )
    return lines
