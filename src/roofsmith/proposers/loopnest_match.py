"""Recognises `C = alpha * A * B + beta * C` in the steps of a loop nest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tree_sitter import Node

from roofsmith.proposers.loopnest_affine import ONE, NotRecognisedError, Polynomial
from roofsmith.proposers.loopnest_body import Access, NestLoop, Product, Step
from roofsmith.proposers.syntax import identifiers, text_of, walk, within


@dataclass(frozen=True, slots=True)
class Found:
    """A product: its three loops, the loops around them, and its operands."""

    row: NestLoop
    column: NestLoop
    depth: NestLoop
    batch: tuple[NestLoop, ...]
    a: Access
    b: Access
    c: Access
    alpha: str
    beta: str
    clears: Step | None
    """The step that sets C to 0, or scales it, before the sums."""
    sum_loop: Node
    """The innermost loop of the product's update."""
    innermost: Literal["row", "column", "depth"]
    reload: tuple[Node, str] | None = None
    """For a nest that goes on with each sum: the sum's first value, and C's element as text."""


@dataclass(frozen=True, slots=True)
class _Result:
    """Where the sums go, and how they are combined with what was there."""

    c: Access
    alpha: str
    beta: str
    clears: Step | None = None
    reload: tuple[Node, str] | None = None


@dataclass(frozen=True, slots=True)
class Nest:
    """Loops, and what was read of them."""

    root: Node
    """The outermost loop; the last one where there are neighbours."""
    steps: list[Step]
    aliases: set[tuple[str, str]]
    """Pointers inside, and the array that each points into."""


def match_product(nest: Nest) -> Found:
    """The product that these loops compute, and nothing else.

    Raises:
        NotRecognisedError: they compute anything else; the first reason that was found.
    """
    update, factors = _find_update(nest.root, nest.steps)
    if isinstance(update.target, str):
        result = _result_of_sum(nest, update, factors)
    else:
        result = _result_in_place(nest.steps, update, factors)
    if result.c.base in {access.base for access in factors.accesses}:
        raise NotRecognisedError(update.node, f"`{result.c.base}` is read and written")
    return _with_roles(update, factors.accesses, result)


def _find_update(node: Node, steps: list[Step]) -> tuple[Step, Product]:
    """The one step that adds a product of two array elements to what is there."""
    updates = []
    for step in steps:
        product = _added_product(step)
        if product is not None and len(step.path) >= 2:
            updates.append((step, product))
    if not updates:
        for step in steps:
            if step.operator == "+=" and isinstance(step.value, NotRecognisedError):
                raise step.value
        raise NotRecognisedError(node, "no sum of products of two array elements")
    if len(updates) > 1:
        raise NotRecognisedError(node, f"{len(updates)} sums of products in one nest")
    return updates[0]


def _added_product(step: Step) -> Product | None:
    """What a step adds to its own target, if that is one product of two array elements."""
    if isinstance(step.value, NotRecognisedError):
        return None
    added = list(step.value)
    if step.operator == "=":
        own = [term for term in added if _is_target(term, step.target)]
        if len(own) != 1:
            return None
        added.remove(own[0])
    elif step.operator not in ("+=", "-="):
        return None
    if len(added) != 1 or len(added[0].accesses) != 2 or added[0].sums:
        return None
    return added[0] * Product(scale=("-1",)) if step.operator == "-=" else added[0]


def _is_target(term: Product, target: Access | str) -> bool:
    if isinstance(target, str):
        return term == Product(sums=(target,))
    return term == Product(accesses=(target,))


def _result_of_sum(nest: Nest, update: Step, factors: Product) -> _Result:
    """The form with a local: `s = 0; for (...) s += a * b; C = f(s);`."""
    steps = nest.steps
    place = steps.index(update)
    first, outside = steps[place - 1] if place else None, update.path[:-1]
    name = update.target
    assert isinstance(name, str)
    if first is None or first.target != name or first.path != outside:
        raise NotRecognisedError(update.node, f"`{name}` doesn't start anew for each element")
    start = next((s for s in steps[:place] if s.target == name and s.operator == "="), None)
    others = [step for step in steps[:place] if step.target != name]
    tail = steps[place + 1 :]
    if start is None or start.path != outside or len(steps[:place]) - len(others) > 2:
        raise NotRecognisedError(update.node, f"`{name}` doesn't start anew for each element")
    if others:
        raise NotRecognisedError(others[0].node, "another assignment in front of the sum")
    if not tail or any(step.path != outside for step in tail):
        raise NotRecognisedError(update.node, f"`{name}` is not stored right after its sum")
    initial = start.products
    if len(tail) == 1 and isinstance(tail[0].target, Access):
        linear = _linear_store(tail[0], tail[0].target, name)
        if linear is not None:
            alpha, beta = linear
            return _with_initial(start, initial, tail[0].target, factors * alpha, beta)
    return _with_epilogue(nest, start, initial, tail, factors)


def _with_initial(
    start: Step, initial: tuple[Product, ...], c: Access, alpha: Product, beta: str
) -> _Result:
    """A sum that starts at 0, or at C's own element."""
    if initial == ():
        return _Result(c, alpha.scale_text, beta)
    if initial == (Product(accesses=(c,)),) and beta == "0" and len(alpha.scale) == 0:
        return _Result(c, alpha.scale_text, "1")
    raise NotRecognisedError(start.node, "the sum doesn't start at 0")


def _linear_store(step: Step, c: Access, name: str) -> tuple[Product, str] | None:
    """Scale of the sum, and the factor of C's old value, where the store is linear in both."""
    if isinstance(step.value, NotRecognisedError) or step.operator not in ("=", "+=", "-="):
        return None
    sums = [term for term in step.value if term.sums == (name,) and not term.accesses]
    olds = [term for term in step.value if term.accesses == (c,) and not term.sums]
    if len(sums) != 1 or len(olds) > 1 or len(sums) + len(olds) != len(step.value):
        return None
    if step.operator != "=" and olds:
        return None
    beta = olds[0].scale_text if olds else ("0" if step.operator == "=" else "1")
    sign = Product(scale=("-1",)) if step.operator == "-=" else Product()
    return Product(scale=sums[0].scale) * sign, beta


def _with_epilogue(
    nest: Nest, start: Step, initial: tuple[Product, ...], tail: list[Step], factors: Product
) -> _Result:
    """More is done with each sum: keep those steps, fed from C, where the sums go first."""
    last = tail[-1]
    if not isinstance(last.target, Access) or last.operator != "=":
        raise NotRecognisedError(last.node, "what follows the sum doesn't end in a plain store")
    if initial != () or any(isinstance(step.target, Access) for step in tail[:-1]):
        raise NotRecognisedError(last.node, "what follows the sum is more than one store")
    store, value = last.node.child_by_field_name("left"), _first_value(start)
    if store is None or value is None:
        raise NotRecognisedError(last.node, "the sum's first value could not be read")
    if _is_used_elsewhere(nest, last.target.base, store):
        raise NotRecognisedError(last.node, f"`{last.target.base}` is read in the nest as well")
    later = [n for n in walk(nest.root, "declaration") if n.start_byte > start.node.start_byte]
    names = {text_of(d) for n in later for d in n.children_by_field_name("declarator")}
    if any(name.startswith(used) for name in names for used in identifiers(store)):
        raise NotRecognisedError(last.node, "the place of the result is computed after the sum")
    return _Result(last.target, factors.scale_text, "0", reload=(value, text_of(store)))


def _is_used_elsewhere(nest: Nest, base: str, store: Node) -> bool:
    """Whether the nest uses an array, under any name, but to store to it."""
    names = {base} | {name for name, array in nest.aliases if array == base}
    pointers = [
        declarator
        for node in walk(nest.root, "init_declarator")
        if (declarator := node.child_by_field_name("declarator")) is not None
        and declarator.type == "pointer_declarator"
    ]
    fine = [store, *(p.parent for p in pointers if p.parent is not None)]
    return any(
        text_of(node) in names and not any(within(node, place) for place in fine)
        for node in walk(nest.root, "identifier")
    )


def _first_value(start: Step) -> Node | None:
    """The node that holds a sum's first value, in a declaration or an assignment."""
    if start.node.type == "assignment_expression":
        return start.node.child_by_field_name("right")
    for declarator in start.node.children_by_field_name("declarator"):
        name = declarator.child_by_field_name("declarator")
        if name is not None and text_of(name) == start.target:
            return declarator.child_by_field_name("value")
    return None


def _result_in_place(steps: list[Step], update: Step, factors: Product) -> _Result:
    """The form without a local: `C += a * b`, perhaps after `C = 0` or `C *= beta`."""
    c = update.target
    assert isinstance(c, Access)
    place = steps.index(update)
    others = steps[:place]
    if steps[place + 1 :]:
        raise NotRecognisedError(steps[place + 1].node, "another assignment after the sums")
    if not others:
        return _Result(c, factors.scale_text, "1")
    if len(others) > 1:
        raise NotRecognisedError(others[0].node, "another assignment in front of the sums")
    clear = others[0]
    if not _covers(clear, update, c):
        raise NotRecognisedError(clear.node, "an assignment that doesn't prepare each element of C")
    if clear.operator == "=" and clear.products == ():
        return _Result(c, factors.scale_text, "0", clear)
    if clear.operator == "*=" and len(clear.products) == 1:
        scaled = clear.products[0]
        if not scaled.accesses and not scaled.sums:
            return _Result(c, factors.scale_text, scaled.scale_text, clear)
    raise NotRecognisedError(clear.node, "C is neither cleared nor scaled by a constant")


def _covers(clear: Step, update: Step, c: Access) -> bool:
    """Whether `clear` prepares exactly the elements of C that `update` adds to, each one once."""
    shared = [loop for loop in clear.path if loop in update.path]
    if clear.path[: len(shared)] != update.path[: len(shared)]:
        return False
    if not isinstance(clear.target, Access) or clear.target.base != c.base:
        return False
    if any(c.offset.stride(loop.id) == Polynomial() for loop in shared):
        return False
    needed = [
        loop for loop in update.path[len(shared) :] if c.offset.stride(loop.id) != Polynomial()
    ]
    own = clear.path[len(shared) :]
    if len(own) != len(needed):
        return False
    offset = clear.target.offset
    for loop in own:
        twin = next(
            (
                other
                for other in needed
                if (other.lower, other.extent) == (loop.lower, loop.extent)
                and c.offset.stride(other.id) == offset.stride(loop.id)
            ),
            None,
        )
        if twin is None:
            return False
        needed.remove(twin)
        offset = offset.with_loop(loop.id, twin.id, twin.name)
    return offset == c.offset


def _with_roles(update: Step, accesses: tuple[Access, ...], result: _Result) -> Found:
    """Which loop is which, from the operands that each one moves."""
    first, second = accesses
    c = result.c
    _check_affine(update, (first, second, c))
    rows: list[NestLoop] = []
    columns: list[NestLoop] = []
    depths: list[NestLoop] = []
    batch: list[NestLoop] = []
    for loop in update.path:
        moves = tuple(bool(x.offset.stride(loop.id).terms) for x in (c, first, second))
        match moves:
            case (True, True, False):
                rows.append(loop)
            case (True, False, True):
                columns.append(loop)
            case (False, True, True):
                depths.append(loop)
            case (True, True, True):
                batch.append(loop)
            case _:
                raise NotRecognisedError(
                    loop.node, f"the loop over `{loop.name}` doesn't move two of the three arrays"
                )
    batch += rows[:-1] + columns[:-1]
    if not rows or not columns or len(depths) != 1:
        raise NotRecognisedError(update.node, _shape_reason(rows, columns, depths))
    batch.sort(key=update.path.index)
    _check_bounds(update, batch)
    if c.offset.stride(rows[-1].id) == ONE:
        first, second, rows, columns = second, first, columns, rows
    return Found(
        row=rows[-1],
        column=columns[-1],
        depth=depths[0],
        batch=tuple(batch),
        a=first,
        b=second,
        c=c,
        alpha=result.alpha,
        beta=result.beta,
        clears=result.clears,
        sum_loop=update.path[-1].node,
        innermost=_innermost(update.path[-1], rows[-1], depths[0]),
        reload=result.reload,
    )


def _innermost(loop: NestLoop, row: NestLoop, depth: NestLoop) -> Literal["row", "column", "depth"]:
    if loop == depth:
        return "depth"
    return "row" if loop == row else "column"


def _shape_reason(rows: list[NestLoop], columns: list[NestLoop], depths: list[NestLoop]) -> str:
    if not depths:
        return "an outer product: no loop adds up"
    if len(depths) > 1:
        return f"{len(depths)} loops add up, such as a convolution's"
    if not rows and not columns:
        return "a product of vectors"
    return "a product of a matrix and a vector"


def _check_affine(update: Step, accesses: tuple[Access, ...]) -> None:
    for access in accesses:
        if not access.offset.is_affine():
            raise NotRecognisedError(
                update.node, f"the index into `{access.base}` is not linear in the loop variables"
            )


def _check_bounds(update: Step, batch: list[NestLoop]) -> None:
    """No bound may move with the product's own loops: triangles and tiles are something else."""
    free = {loop.id for loop in batch}
    for loop in update.path:
        if (loop.lower.loops | loop.extent.loops) - free:
            raise NotRecognisedError(
                loop.node, f"the bounds of the loop over `{loop.name}` move with another loop"
            )
