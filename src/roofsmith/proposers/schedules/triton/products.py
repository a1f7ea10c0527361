"""Products on the matrix units: tiles of `tl.dot`, anything elementwise before and after."""

from __future__ import annotations

from collections import Counter

from roofsmith.computation.building import ONE
from roofsmith.computation.sizes import elements
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.groups import Group, Reduced
from roofsmith.proposers.schedules.matrix_products import TileProduct
from roofsmith.proposers.schedules.triton import operations as t
from roofsmith.proposers.schedules.triton.tiles import indices_of
from roofsmith.proposers.schedules.triton.values import (
    TileAxis,
    TileScope,
    TileValue,
    Values,
    size_text,
)
from roofsmith.proposers.schedules.triton.written import WrittenModule, described, is_wide

PLACE = '''@triton.jit
def place(tile, tiles_m, tiles_n, GROUP_M: tl.constexpr):
    """Row and column of a tile: those of a few rows of tiles after one another meet in L2."""
    group, within = tile // (GROUP_M * tiles_n), tile % (GROUP_M * tiles_n)
    height = tl.minimum(tiles_m - group * GROUP_M, GROUP_M)
    return group * GROUP_M + within % height, within // height'''
SIZES = ((128, 256, 8), (128, 128, 8), (128, 64, 4), (64, 64, 4), (32, 64, 4), (16, 64, 4))
"""Rows, columns and warps of tiles: what was best on an H100 where there are enough of them."""


def write_product(module: WrittenModule, group: Group, product: TileProduct) -> None:
    """The kernel and its launch."""
    name = module.kernel_name(group, "product")
    module.extra.setdefault("place", PLACE)
    constants = ["WHOLE_K", "BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_M"]
    arguments = module.add(name, described(group), _lines(module, group, product), constants)
    blocks = _blocks(module, product)
    counts = [
        f"triton.cdiv({size_text(product.m.size)}, {blocks['BLOCK_M']})",
        f"triton.cdiv({size_text(product.n.size)}, {blocks['BLOCK_N']})",
        *(f"({size_text(axis.size)})" if " " in size_text(axis.size) else size_text(axis.size)
          for axis in product.batch if axis.size != ONE),
    ]  # fmt: skip
    k = size_text(product.k.size)
    whole = f"{k if k.isidentifier() else f'({k})'} % {blocks['BLOCK_K']} == 0"
    options = [f"WHOLE_K={whole}", *(f"{one}={blocks[one]}" for one in constants[1:])]
    options += [f"num_warps={blocks['WARPS']}", f"num_stages={blocks['STAGES']}"]
    module.launch(name, f"({' * '.join(counts)},)", arguments, options)


def _blocks(module: WrittenModule, product: TileProduct) -> dict[str, str]:
    """Tunables: tiles as large as leave no SM idle."""
    m, n, warps = tile_size(module, product)
    wanted = module.wanted
    width = 4 if product.is_single else 2
    depth = 32 if product.is_single else 64 if m > 16 else 128
    stages = max(1, min(3 if m > 64 else 4, wanted.shared_bytes // ((m + n) * depth * width)))
    return {
        "BLOCK_M": module.tunable("BLOCK_M", m, (16, 32, 64, 128, 256)),
        "BLOCK_N": module.tunable("BLOCK_N", n, (16, 32, 64, 128, 256)),
        "BLOCK_K": module.tunable("BLOCK_K", depth, (16, 32, 64, 128)),
        "GROUP_M": module.tunable("GROUP_M", 8, (1, 4, 8, 16)),
        "STAGES": module.tunable("STAGES", stages, (1, 2, 3, 4, 5)),
        "WARPS": module.tunable("WARPS", warps, (2, 4, 8, 16)),
    }


def tile_size(module: WrittenModule, product: TileProduct) -> tuple[int, int, int]:
    """Rows, columns and warps."""
    wanted = module.wanted
    rows, columns = wanted.most(product.m.size, 4096), wanted.most(product.n.size, 4096)
    batch = wanted.most(elements(tuple(axis.size for axis in product.batch)), 1)
    enough = -(-3 * wanted.cores // 4)
    sizes = SIZES[(1 if wanted.tf32 else 2) if product.is_single else 0 :]
    for m, n, warps in sizes:
        tiles = -(-rows // m) * -(-columns // n) * batch
        if rows > m // 2 and columns > n // 2 and tiles >= enough:
            return m, n, warps
    return sizes[-1]


def _lines(module: WrittenModule, group: Group, product: TileProduct) -> list[str]:
    m, n = product.m, product.n
    lines = [
        f"tiles_{m.name} = tl.cdiv({size_text(m.size)}, BLOCK_M)",
        f"tiles_{n.name} = tl.cdiv({size_text(n.size)}, BLOCK_N)",
        "program = tl.program_id(0)",
    ]
    tiles = f"(tiles_{m.name} * tiles_{n.name})"
    if any(axis.size != ONE for axis in product.batch):
        lines += [
            f"at_{m.name}, at_{n.name} = "
            f"place(program % {tiles}, tiles_{m.name}, tiles_{n.name}, GROUP_M)",
            f"program = program // {tiles}",
        ]
        some = [axis for axis in product.batch if axis.size != ONE]
        for at, axis in enumerate(reversed(some)):
            size = size_text(axis.size)
            size = size if size.isidentifier() or size.isdigit() else f"({size})"
            if at == len(some) - 1:
                lines.append(f"{axis.name} = program.to(tl.int64)")
            else:
                lines += [
                    f"{axis.name} = (program % {size}).to(tl.int64)",
                    f"program = program // {size}",
                ]
    else:
        lines.append(
            f"at_{m.name}, at_{n.name} = place(program, tiles_{m.name}, tiles_{n.name}, GROUP_M)"
        )
    indices = indices_of(group, module.places)
    lines += [f"{axis.name} = 0" for axis in product.batch if axis.size == ONE]
    for axis, block, where in ((m, "BLOCK_M", "[:, None]"), (n, "BLOCK_N", "[None, :]")):
        wide = ".to(tl.int64)" if is_wide(axis, indices) else ""
        lines += [
            f"{axis.name} = (at_{axis.name} * {block} + tl.arange(0, {block})){wide}{where}",
            f"inside_{axis.name} = {axis.name} < {size_text(axis.size)}",
            f"{axis.name}_in = {axis.name} % {_factor(size_text(axis.size))}",
        ]
    held = f"{product.step.name}"
    lines.append(f"{held} = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)")
    lines += _sum(module, group, product)
    taken = _taken(module, group)
    tile = {axis.name: TileAxis(axis.name, axis.name, f"inside_{axis.name}") for axis in (m, n)}
    every = frozenset(axis.name for axis in (*group.outer, *group.inner))
    ending = Values(module.places, tile, module.helpers, taken, every, [TileScope(every)])
    ending.count(store.value for store in product.stores)
    ending.hold(held, TileValue(held, frozenset((m.name, n.name))))
    texts = [ending.write(store.value) for store in product.stores]
    stores = [
        ending.store(store.buffer, ending.index(e.flat(store.index, store.shape)), text)
        for store, text in zip(product.stores, texts, strict=True)
    ]
    return [*lines, *ending.scopes[0].lines, *stores]


def _taken(module: WrittenModule, group: Group) -> set[str]:
    taken = {"program", "start", "tl", "left", "right", *module.program.buffers, *module.helpers}
    taken |= {axis.name for axis in (*group.outer, *group.inner)}
    return taken | {step.name for step in group.steps if isinstance(step, Reduced)}


def _sum(module: WrittenModule, group: Group, product: TileProduct) -> list[str]:
    """The loop along what is summed."""
    m, n, k = product.m, product.n, product.k
    size = size_text(k.size)
    wide = ".to(tl.int64)" if is_wide(k, indices_of(group, module.places)) else ""
    body = [
        f"{k.name} = start + tl.arange(0, BLOCK_K){wide}",
        f"{k.name}_across = {k.name}[None, :]",
        f"{k.name}_down = {k.name}[:, None]",
        f"inside_across = ({k.name}_across < {size}) | WHOLE_K",
        f"inside_down = ({k.name}_down < {size}) | WHOLE_K",
    ]
    every = frozenset(axis.name for axis in (*group.outer, *group.inner))
    taken, texts = _taken(module, group), []
    for value, free, way in ((product.left, m, "across"), (product.right, n, "down")):
        tile = {
            free.name: TileAxis(free.name, f"{free.name}_in"),
            k.name: TileAxis(k.name, f"{k.name}_{way}", f"inside_{way}"),
        }
        scope = TileScope(every)
        values = Values(module.places, tile, module.helpers, taken, every, [scope], Counter())
        values.count([value])
        texts.append(operand(values, value, f"inside_{way}"))
        body += scope.lines
    body += [f"left = {texts[0]}", f"right = {texts[1]}"]
    precision = f', input_precision="{"tf32" if module.wanted.tf32 else "tf32x3"}"'
    held = product.step.name
    body.append(f"{held} = tl.dot(left, right, {held}{precision if product.is_single else ''})")
    lines = [f"for start in range(0, {size}, BLOCK_K):", *(f"    {line}" for line in body)]
    for axis in reversed(product.loops):
        lines = [
            f"for {axis.name} in range({size_text(axis.size)}):",
            *(f"    {line}" for line in lines),
        ]
    return lines


def operand(values: Values, value: e.Expression, inside: str) -> str:
    """An operand of `tl.dot`, with zeros where it is outside."""
    if isinstance(value, e.Read):
        return values.load(value, raw=True).text
    text = t.stripped(values.write(value).text)
    text = f"tl.where({inside}, {text}, 0.0)"
    return f"{text}.to(tl.{value.dtype})" if value.dtype in t.HALVES else text


def _factor(text: str) -> str:
    return text if text.isidentifier() or text.isdigit() else f"({text})"
