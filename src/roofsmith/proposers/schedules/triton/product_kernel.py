"""The kernels of a product: by pointers, and by boxes that the copy engine brings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from roofsmith.computation.building import ONE
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.formulas import stripped
from roofsmith.proposers.schedules.groups import Axis, Group, Reduced, Stored
from roofsmith.proposers.schedules.matrix_products import HALVES, TileProduct
from roofsmith.proposers.schedules.triton.boxes import (
    BOX,
    WHETHER,
    Box,
    Starts,
    box_names,
    box_of,
    host_text,
    load_text,
    store_text,
    stored_boxes,
    without_unused,
)
from roofsmith.proposers.schedules.triton.parts import partial_sums, write_joined
from roofsmith.proposers.schedules.triton.products import ProductTile, enough, tile_count, tile_of
from roofsmith.proposers.schedules.triton.tiles import indices_of
from roofsmith.proposers.schedules.triton.values import (
    TileAxis,
    TileScope,
    TileValue,
    Values,
    bracketed,
    size_text,
)
from roofsmith.proposers.schedules.triton.written import WrittenModule, described, is_wide, wrapped

PLACE = '''@triton.jit
def place(tile, tiles_m, tiles_n, GROUP_M: tl.constexpr):
    """Row and column of a tile: those of a few rows of tiles after one another meet in L2."""
    group, within = tile // (GROUP_M * tiles_n), tile % (GROUP_M * tiles_n)
    height = tl.minimum(tiles_m - group * GROUP_M, GROUP_M)
    return group * GROUP_M + within % height, within // height'''
HOST_NAMES = frozenset(("box", "boxes", "tiles", "programs"))
"""That mean something where kernels by boxes are launched."""
STAYING = (
    "At most; fewer than tiles take one after another, and load for the next while they store."
)
PARTED = 128
"""Programs up to which a tile's sum is shared: about as many as there are SMs."""
TILE = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "WARPS", "STAGES")
BLOCKS = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_M")


@dataclass(frozen=True)
class ProductBoxes:
    """Which arrays of a product are brought, and taken, as boxes."""

    read: Mapping[e.Read, Box]
    stored: Mapping[str, Box]
    """By buffer."""
    names: Mapping[Box, str]
    is_exchanged: bool
    """Whether columns are summed as rows: products of TF32 need both operands in one piece along
    what is summed in shared memory, but a left one may be turned in registers."""


def write_product(module: WrittenModule, group: Group, product: TileProduct) -> None:
    name = module.kernel_name(group, "product")
    module.extra.setdefault("place", PLACE)
    boxes = _boxes_of(module, product)
    least = tile_of(module, product, module.wanted.least, by_boxes=boxes is not None)
    blocks = _blocks(module, product, least, by_boxes=boxes is not None)
    arguments = module.add(
        name, described(group), _Kernel(module, group, product).lines(), ["WHOLE_K", *BLOCKS]
    )
    tiles = " * ".join(_counts(product, blocks))
    options = [f"{one}={blocks[one]}" for one in BLOCKS]
    options += [f"num_warps={blocks['WARPS']}", f"num_stages={blocks['STAGES']}"]
    whole = f"WHOLE_K={bracketed(size_text(product.k.size))} % {blocks['BLOCK_K']} == 0"
    if boxes is not None:
        module.extra.setdefault("box", BOX)
        mine = {product.m.name: blocks["BLOCK_M"], product.n.name: blocks["BLOCK_N"]}
        mine[product.k.name] = blocks["BLOCK_K"]
        module.host += ["boxes = (", *(f"    {host_text(b, mine)}," for b in boxes.names), ")"]
    way = "if"
    if _is_shared(module, product, least):
        _write_parts(module, group, product, name, blocks, [whole, *options])
        way = "elif"
    if boxes is not None:
        by_boxes = module.tunable("BOXES", 1, (0, 1), WHETHER)
        programs = module.tunable("PROGRAMS_PER_SM", 64, (1, 2, 64), STAYING)
        module.host += [
            f"{way} {by_boxes} and all(boxes):",
            f"    tiles = {tiles}",
            f"    programs = min(tiles, {programs} * {module.wanted.cores})",
        ]
        boxed = _write_boxed(module, group, product, boxes, name)
        module.launch(f"{name}_of_boxes", "(programs,)", [*boxed, "*boxes"],
                      ["STAYING=programs < tiles", *options], 1)  # fmt: skip
        way = "elif"
    if way == "elif":
        module.host.append("else:")
    module.launch(name, f"({tiles},)", arguments, [whole, *options], int(way == "elif"))


def _blocks(
    module: WrittenModule, product: TileProduct, least: ProductTile, *, by_boxes: bool
) -> dict[str, str]:
    """What the host calls each constant: tunables, or what stands for them where tiles are few."""
    most = tile_of(module, product, module.wanted.most, by_boxes=by_boxes)
    blocks = {
        "BLOCK_M": module.tunable("BLOCK_M", most.m, (16, 32, 64, 128, 256)),
        "BLOCK_N": module.tunable("BLOCK_N", most.n, (16, 32, 64, 128, 256)),
        "BLOCK_K": module.tunable("BLOCK_K", most.k, (16, 32, 64, 128)),
        "GROUP_M": module.tunable("GROUP_M", 16 if by_boxes else 8, (1, 4, 8, 16)),
        "STAGES": module.tunable("STAGES", most.stages, (1, 2, 3, 4, 5)),
        "WARPS": module.tunable("WARPS", most.warps, (2, 4, 8, 16)),
    }
    names = dict(zip(TILE, ("rows", "columns", "step", "warps", "stages"), strict=True))
    if least == most or {"blocks", *names.values()} & module.program.places.taken:
        return blocks
    module.host += [
        f"blocks = {', '.join(blocks[one] for one in TILE)}",
        f"if {' * '.join(_counts(product, blocks))} < {enough(module)}:",
        f"    blocks = {least.text}  # smaller ones, for tiles that are few",
        f"{', '.join(names.values())} = blocks",
    ]
    return blocks | names


def _is_shared(module: WrittenModule, product: TileProduct, least: ProductTile) -> bool:
    """Whether tiles may be so few that several programs have to share one along what is summed."""
    wanted = module.wanted
    taken = {"parts", "depth"} & module.program.places.taken
    if taken or (wanted.boxes and wanted.tf32 and product.is_single) or not wanted.dims:
        return False
    tiles = tile_count(product, wanted.least, least.m, least.n)
    return 2 * tiles <= PARTED and wanted.most(product.k.size, 0) >= 8 * least.k


def _write_parts(
    module: WrittenModule, group: Group, product: TileProduct, name: str,
    blocks: Mapping[str, str], options: list[str],
) -> None:  # fmt: skip
    """Kernels for parts of sums and what joins them, as a branch of the host's."""
    most = module.tunable(
        "PROGRAMS", PARTED, (1, 128, 256, 512), "That several share a tile's sum, up to."
    )
    parts = partial_sums(module, group)
    (inner, stored) = parts.first
    assert isinstance(inner, Reduced)
    assert isinstance(stored, Stored)
    outer = (parts.part, *group.outer)
    part = replace(product, batch=(parts.part, *product.batch), step=inner, stores=(stored,))
    kernel = _Kernel(module, Group(outer, group.inner, parts.first), part, is_part=True)
    says = f"Part of a sum: {described(group)}"
    arguments = module.add(
        f"{name}_parts", says, kernel.lines(), ["WHOLE_K", *BLOCKS], given=["depth"]
    )
    before, module.host = module.host, []
    write_joined(module, group, parts)
    joined, module.host = module.host, before
    tiles, step = " * ".join(_counts(product, blocks)), blocks["BLOCK_K"]
    k = bracketed(size_text(product.k.size))
    module.host += [
        f"parts = max(1, min({most} // ({tiles}), {k} // (4 * {step})))",
        f"depth = triton.cdiv(triton.cdiv({k}, parts), {step}) * {step}",
        f"parts = triton.cdiv({k}, depth)",
        "if parts > 1:",
        *(f"    {line}" for line in parts.allocated(module)),
    ]
    module.launch(f"{name}_parts", f"({tiles} * parts,)", arguments, options, 1)
    module.host += [f"    {line}" for line in joined]


def _write_boxed(
    module: WrittenModule, group: Group, product: TileProduct, boxes: ProductBoxes, name: str
) -> list[str]:
    """A function for a tile, and the kernel that calls it; what that is given before boxes."""
    names = list(boxes.names.values())
    lines = _Kernel(module, group, product, boxes).lines()
    tile = f"{name}_tile"
    given = module.add(
        tile, described(group), without_unused(lines), BLOCKS, given=names, first=["tile"]
    )
    passed = wrapped([*given[1:], *BLOCKS])

    def called(of: str, depth: int) -> list[str]:
        lines = [f"{tile}(", f"    {of},", *(f"    {line}" for line in passed), ")  # fmt: skip"]
        return ["    " * depth + line for line in lines]

    staying = [
        f"tiles = {' * '.join(_counts(product, {b: b for b in BLOCKS}, 'tl'))}",
        "if STAYING:",
        "    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=True):",
        *called("tile", 2),
        "else:",
        *called("tl.program_id(0)", 1),
    ]
    says = "The tile of a program; or, where it stays, every one that it comes to."
    arguments = module.add(f"{name}_of_boxes", says, staying, ["STAYING", *BLOCKS], given=names)
    return arguments[: -len(names)]


def _counts(product: TileProduct, blocks: Mapping[str, str], way: str = "triton") -> list[str]:
    """Factors of the number of tiles."""
    return [
        f"{way}.cdiv({size_text(product.m.size)}, {blocks['BLOCK_M']})",
        f"{way}.cdiv({size_text(product.n.size)}, {blocks['BLOCK_N']})",
        *(bracketed(size_text(axis.size)) for axis in product.batch if axis.size != ONE),
    ]


def _boxes_of(module: WrittenModule, product: TileProduct) -> ProductBoxes | None:
    """None unless what both operands are computed from comes as boxes."""
    wanted = module.wanted
    if not wanted.boxes or (product.is_single and not wanted.tf32):
        return None
    if HOST_NAMES & {*module.program.places.taken, *module.program.buffers}:
        return None
    read: dict[e.Read, Box] = {}
    for value, tile in (
        (product.left, (product.m, product.k)), (product.right, (product.k, product.n)),
    ):  # fmt: skip
        whole = {axis.name for axis in tile}
        mine = [
            one for one in e.reads(value)
            if whole <= e.names_in(e.Position("int64", e.flat(one.index, one.shape)), module.places)
        ]  # fmt: skip
        found = [box_of(module.program, one, tile) for one in mine]
        if not found or any(isinstance(one, e.Within) for one in e.walk(value)):
            return None
        for one, box in zip(mine, found, strict=True):
            if box is None:
                return None
            read[one] = box
    stored = stored_boxes(module.program, product.stores, product.step.name, (product.m, product.n))
    names = box_names(module.program, [*read.values(), *stored.values()])
    right = [read[one] for one in e.reads(product.right) if one in read]
    is_exchanged = product.is_single and not any(one.is_turned for one in right)
    return ProductBoxes(read, stored, names, is_exchanged)


@dataclass
class _Kernel:
    module: WrittenModule
    group: Group
    product: TileProduct
    boxes: ProductBoxes | None = None
    is_part: bool = False
    """Whether it sums up no more than `depth` terms."""
    starts: Starts = field(init=False)

    def __post_init__(self) -> None:
        m, n, k = self.product.m.name, self.product.n.name, self.product.k.name
        self.starts = {
            m: (f"first_{m}", "BLOCK_M"), n: (f"first_{n}", "BLOCK_N"), k: ("start", "BLOCK_K"),
        }  # fmt: skip

    def lines(self) -> list[str]:
        product, held = self.product, self.product.step.name
        m, n = product.m, product.n
        is_exchanged = self.boxes is not None and self.boxes.is_exchanged
        shape = "(BLOCK_N, BLOCK_M)" if is_exchanged else "(BLOCK_M, BLOCK_N)"
        lines = [*self._where(), f"{held} = tl.zeros({shape}, tl.float32)", *self._sum()]
        if is_exchanged:
            lines.append(f"{held} = {held}.T")
        tile = {one.name: TileAxis(one.name, one.name, f"inside_{one.name}") for one in (m, n)}
        ending = self._values(tile)
        ending.count(store.value for store in product.stores)
        ending.hold(held, TileValue(held, frozenset((m.name, n.name))))
        texts = [ending.write(store.value) for store in product.stores]
        stores = [
            self._store(ending, store, text)
            for store, text in zip(product.stores, texts, strict=True)
        ]
        return [*lines, *ending.scopes[0].lines, *stores]

    def _store(self, ending: Values, store: Stored, value: TileValue) -> str:
        box = self.boxes.stored.get(store.buffer) if self.boxes is not None else None
        if box is None or self.boxes is None:
            at = ending.index(e.flat(store.index, store.shape))
            return ending.store(store.buffer, at, value)
        name = self.boxes.names[box]
        return store_text(ending, box, name, self.starts, stripped(value.text))

    def _values(self, tile: dict[str, TileAxis]) -> Values:
        every = frozenset(axis.name for axis in (*self.group.outer, *self.group.inner))
        return Values(
            self.module.places, tile, self.module.used, self._taken, every, [TileScope(every)]
        )

    @property
    def _taken(self) -> set[str]:
        module, group = self.module, self.group
        taken = {"program", "tile", "start", "begin", "end", "tl", "left", "right"}
        taken |= {*module.program.buffers, *module.used}
        taken |= {start for start, _ in self.starts.values()}
        taken |= {axis.name for axis in (*group.outer, *group.inner)}
        taken |= set(self.boxes.names.values()) if self.boxes is not None else set()
        return taken | {step.name for step in group.steps if isinstance(step, Reduced)}

    def _where(self) -> list[str]:
        """Which tile is a program's."""
        m, n = self.product.m, self.product.n
        batch = [axis for axis in self.product.batch if axis.size != ONE]
        lines = [
            f"tiles_{m.name} = tl.cdiv({size_text(m.size)}, BLOCK_M)",
            f"tiles_{n.name} = tl.cdiv({size_text(n.size)}, BLOCK_N)",
        ]
        program = "tile"
        if self.boxes is None:
            program = "program"
            lines.append("program = tl.program_id(0)")
        whole = f"(tiles_{m.name} * tiles_{n.name})"
        at = f"{program} % {whole}" if batch else program
        lines.append(
            f"at_{m.name}, at_{n.name} = place({at}, tiles_{m.name}, tiles_{n.name}, GROUP_M)"
        )
        if batch:
            lines += [f"program = {program} // {whole}", *batch_lines(batch)]
        if self.is_part:
            part, k = self.product.batch[0].name, size_text(self.product.k.size)
            lines += [
                f"begin = {part}.to(tl.int32) * depth",
                f"end = tl.minimum({k}, begin + depth)",
            ]
        lines += [f"{axis.name} = 0" for axis in self.product.batch if axis.size == ONE]
        indices = indices_of(self.group, self.module.places)
        for axis, block, where in ((m, "BLOCK_M", "[:, None]"), (n, "BLOCK_N", "[None, :]")):
            wide = ".to(tl.int64)" if is_wide(axis, indices) else ""
            lines += [
                f"first_{axis.name} = at_{axis.name} * {block}",
                f"{axis.name} = (first_{axis.name} + tl.arange(0, {block})){wide}{where}",
                f"inside_{axis.name} = {axis.name} < {size_text(axis.size)}",
                f"{axis.name}_in = {axis.name} % {bracketed(size_text(axis.size))}",
            ]
        return lines

    def _sum(self) -> list[str]:
        """The loop along what is summed."""
        product, k = self.product, self.product.k
        size = size_text(k.size)
        wide = is_wide(k, indices_of(self.group, self.module.places))
        body = [
            f"{k.name} = start + tl.arange(0, BLOCK_K){'.to(tl.int64)' if wide else ''}",
            f"{k.name}_across = {k.name}[None, :]",
            f"{k.name}_down = {k.name}[:, None]",
        ]
        for way in ("across", "down"):
            within = f"{k.name}_{way} < {size}"
            body.append(
                f"inside_{way} = ({within}) | WHOLE_K"
                if self.boxes is None
                else f"inside_{way} = {within}"
            )
        texts = []
        for value, free, way in (
            (product.left, product.m, "across"), (product.right, product.n, "down"),
        ):  # fmt: skip
            text, before = self._operand(value, free, way)
            texts.append(text)
            body += before
        body += [f"left = {texts[0]}", f"right = {texts[1]}"]
        precision = f', input_precision="{"tf32" if self.module.wanted.tf32 else "tf32x3"}"'
        sides = "left, right"
        if self.boxes is not None and self.boxes.is_exchanged:
            body += ["turned = right.T + 0.0  # computed, so in registers"]
            sides = "turned, left.T"
        held = product.step.name
        body.append(f"{held} = tl.dot({sides}, {held}{precision if product.is_single else ''})")
        bounds = "begin, end" if self.is_part else f"0, {size}"
        lines = [f"for start in range({bounds}, BLOCK_K):", *(f"    {line}" for line in body)]
        for axis in reversed(product.loops):
            lines = [
                f"for {axis.name} in range({size_text(axis.size)}):",
                *(f"    {line}" for line in lines),
            ]
        return lines

    def _operand(self, value: e.Expression, free: Axis, way: str) -> tuple[str, list[str]]:
        """An operand of a step, and the lines before it."""
        k = self.product.k
        tile = {
            free.name: TileAxis(free.name, f"{free.name}_in"),
            k.name: TileAxis(k.name, f"{k.name}_{way}", f"inside_{way}"),
        }
        values = self._values(tile)
        scope = values.scopes[0]
        values.uses = Counter()
        values.count([value])
        for one in e.reads(value) if self.boxes is not None else ():
            box = self.boxes.read.get(one) if self.boxes is not None else None
            if box is None or self.boxes is None:
                continue
            text = load_text(values, box, self.boxes.names[box], self.starts)
            if one == value:
                return text, scope.lines
            name = values.name(f"{one.buffer}_value")
            wide = ".to(tl.float32)" if one.dtype in HALVES else ""
            scope.lines.append(f"{name} = {text}{wide}")
            scope.known[(one, ())] = TileValue(name, frozenset(tile))
        return operand(values, value, f"inside_{way}"), scope.lines


def operand(values: Values, value: e.Expression, inside: str) -> str:
    """An operand of `tl.dot`, with zeros where it is outside."""
    if isinstance(value, e.Read):
        return values.load(value, raw=True).text
    text = stripped(values.write(value).text)
    text = f"tl.where({inside}, {text}, 0.0)"
    return f"{text}.to(tl.{value.dtype})" if value.dtype in HALVES else text


def batch_lines(batch: Sequence[Axis]) -> list[str]:
    """Outer variables of which a program has one value each, from its number."""
    lines = []
    for at, axis in enumerate(reversed(batch)):
        if at == len(batch) - 1:
            lines.append(f"{axis.name} = program.to(tl.int64)")
        else:
            size = bracketed(size_text(axis.size))
            lines += [
                f"{axis.name} = (program % {size}).to(tl.int64)",
                f"program = program // {size}",
            ]
    return lines
