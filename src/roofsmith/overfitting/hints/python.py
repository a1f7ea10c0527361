"""Hints that a Python kernel keeps something between calls, from its syntax tree."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from roofsmith.domain.transfer import KeptValue
from roofsmith.overfitting.hints.tokens import is_weight_name

MEMOISERS = frozenset(
    ("lru_cache", "cache", "cached", "memoize", "memoise", "memoized", "cachedmethod")
)
_ADDRESSES = frozenset(
    ("data_ptr", "untyped_storage", "storage", "const_data_ptr", "_cdata", "__hash__")
)
_DESCRIBING = frozenset(
    ("device", "dim", "dtype", "itemsize", "nbytes", "ndim", "numel", "shape", "size", "stride")
)
"""Of an array: nothing can be kept there, and a number taken from it isn't a place."""
_WHO = frozenset(("id", "hash", "ref", "proxy"))
"""Functions that say who an object is."""
_KEYED = frozenset(("get", "setdefault", "pop", "put", "__getitem__", "__setitem__", "tuple"))
"""Calls that take a key, or make one."""
_CHANGES = frozenset((
    "add", "append", "appendleft", "extend", "insert", "push", "put", "put_nowait",
    "register_buffer", "send", "set",
    "setdefault", "setitem", "update", "__setitem__", "copyto", "set_result",
))  # fmt: skip
_MOST_ALIGNED = 4096
"""Bytes; an address within a page says how it is aligned, and not whose it is."""
_GUARDS = (ast.If, ast.Try, ast.While, ast.Match)

Function = ast.FunctionDef | ast.AsyncFunctionDef


def cache_hints_python(
    path: str, text: str, weights: frozenset[str] = frozenset()
) -> tuple[KeptValue, ...]:
    """Whatever a module's functions write that outlives their call, and functions that remember.

    Args:
        path: of the file.
        text: of the file; in what can't be parsed, nothing is found.
        weights: arguments known to be weights, beside those that are named so.
    """
    try:
        tree = parsed(text)
        if tree is None:
            return ()
        found = [*_Module(tree).places(), *_memoised(tree)]
    except RecursionError:
        says = "is nested too deeply to be read"
        return (KeptValue(name="anything", path=path, line=1, bucket="W2", key="", says=says),)
    weights |= _declared_weights(tree)
    hints = (_hint(path, place, weights, versioned="._version" in text) for place in found)
    return tuple(sorted(hints, key=lambda hint: (hint.line, hint.name)))


@dataclass(slots=True)
class _Place:
    """Something that outlives a call, and what the functions do that write it."""

    name: str
    line: int
    looked_up: set[int] = field(default_factory=set)
    stored: set[int] = field(default_factory=set)
    """Only where nothing was found, so that work is skipped where something was."""
    keys: dict[str, frozenset[str]] = field(default_factory=dict)
    """What says who an argument is, as it is written, and the names in it."""
    entries: dict[str, frozenset[str]] = field(default_factory=dict)
    """Arguments that are keys themselves (numbers, mostly), and attributes set on one."""
    says: str = "outlives the call that writes it"


def _hint(path: str, place: _Place, weights: frozenset[str], *, versioned: bool) -> KeptValue:
    is_cache = bool(place.stored and place.looked_up)
    keys = {**place.keys, **(place.entries if is_cache else {})}
    names = frozenset[str]().union(*keys.values())
    is_of_weights = bool(names) and all(n in weights or is_weight_name(n) for n in names)
    return KeptValue(
        name=place.name, path=path, line=place.line,
        bucket="W1" if is_of_weights else "W2" if names else "W3",
        key=", ".join(keys), versioned=versioned,
        says="may be found by who an argument is" if names else place.says,
        looked_up=tuple(sorted(place.looked_up)) if is_cache else (),
        stored=tuple(sorted(place.stored)) if is_cache else (),
    )  # fmt: skip


class _Module:
    """A module's functions, and the names that outlive their calls."""

    def __init__(self, tree: ast.Module) -> None:
        self._classes = {n.name for n in ast.walk(tree) if isinstance(n, ast.ClassDef)}
        made = {f.name for f in tree.body if isinstance(f, Function)}
        self._names = self._classes | made | set(_bound(tree.body))
        self._functions = [_Body(f, self._names, self._classes) for f in functions(tree)]
        for outer in self._functions:  # what a closure holds on to is its maker's variable
            for inner in self._functions:
                if inner.function is not outer.function and outer.returns(inner.function):
                    inner.outliving |= set(_bound(outer.function.body)) - inner.local

    @property
    def _changing(self) -> set[str]:
        """Functions that change what they are given."""
        return {b.function.name for b in self._functions if b.changes_parameters}

    def places(self) -> Iterable[_Place]:
        """All that functions write, with every function that mentions it."""
        found: dict[str, _Place] = {}
        for body in self._functions:
            for name, line, is_guarded in body.writes():
                place = found.setdefault(name, _Place(name, line))
                place.stored |= {line} if is_guarded else set()
            for name, line in body.hands_to(self._changing):
                found.setdefault(name, _Place(name, line))
        for body in self._functions:
            keys = self._keys(body)
            for name, line in body.reads():
                if (seen := found.get(name)) is not None:
                    seen.looked_up |= {line} - seen.stored
                    seen.keys |= keys
                    seen.entries |= body.entries
        for place in found.values():
            if place.name.startswith("."):  # set on an argument: found by who that is
                place.entries.setdefault(place.name, frozenset({place.name}))
        return found.values()

    def _keys(self, body: _Body) -> dict[str, frozenset[str]]:
        """Of a function, of those that it calls, and of those that call it."""
        name = body.function.name
        others = (b for b in self._functions if b.function.name in body.calls or name in b.calls)
        return {key: names for b in (body, *others) for key, names in b.keys.items()}


class _Body:
    def __init__(self, function: Function, names: set[str], classes: set[str]) -> None:
        self.function = function
        declared = {n for s in ast.walk(function) if isinstance(s, ast.Global | ast.Nonlocal)
                    for n in s.names}  # fmt: skip
        arguments = function.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        self.parameters = {a.arg for a in every} - {"ctx"}
        self.local = (set(_bound(function.body)) | self.parameters) - declared
        kept = every[len(every) - len(arguments.defaults) - len(arguments.kwonlyargs) :]
        defaults = zip(kept, [*arguments.defaults, *arguments.kw_defaults], strict=False)
        lasting = {a.arg for a, d in defaults if isinstance(d, ast.Dict | ast.List | ast.Call)}
        self.outliving = (names - self.local) | declared | lasting
        self._classes, self._declared = classes, declared
        self._statements = list(_statements(function.body, is_guarded=False))
        nodes = [n for _, own, _ in self._statements for n in own]
        self.calls = {last_name(n.func) for n in nodes if isinstance(n, ast.Call)}
        self._aliases: dict[str, str] = {}
        for node in nodes:
            if isinstance(node, ast.Assign | ast.NamedExpr) and node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                place = self._place(node.value)
                if place and isinstance(targets[0], ast.Name) and targets[0].id not in declared:
                    self._aliases.setdefault(targets[0].id, place)
        self.keys: dict[str, frozenset[str]] = {}
        self.entries: dict[str, frozenset[str]] = {}
        self._find_keys()

    def returns(self, inner: Function) -> bool:
        """Whether it makes `inner`, and gives it away."""
        given = {n.id for s in ast.walk(self.function) if isinstance(s, ast.Return)
                 for n in ast.walk(s) if isinstance(n, ast.Name)}  # fmt: skip
        return inner.name in given and inner in ast.walk(self.function)

    @property
    def changes_parameters(self) -> bool:
        """Whether it stores into what it is given, under a key."""
        targets = (t for _, own, _ in self._statements for n in own for t in _written(n))
        return any(
            isinstance(t, ast.Subscript) and isinstance(t.value, ast.Name)
            and t.value.id in self.parameters and not isinstance(t.slice, ast.Slice)
            for t in targets
        )  # fmt: skip

    def hands_to(self, changing: set[str]) -> Iterator[tuple[str, int]]:
        """Places that are given to functions that change what they are given, and lines."""
        for statement, own, _ in self._statements:
            for node in own:
                if isinstance(node, ast.Call) and last_name(node.func) in changing:
                    given = (self._place(a) for a in node.args if isinstance(a, ast.Name))
                    yield from ((name, statement.lineno) for name in given if name)

    def writes(self) -> Iterator[tuple[str, int, bool]]:
        """Places, lines, and whether it is only there that nothing was found."""
        for statement, own, is_guarded in self._statements:
            for node in own:
                for target in _written(node):
                    if name := self._target(target):
                        yield name, statement.lineno, is_guarded

    def reads(self) -> Iterator[tuple[str, int]]:
        """Places that are looked at, and lines."""
        for statement, own, _ in self._statements:
            for node in own:
                if isinstance(node, ast.Call) and last_name(node.func) in ("getattr", "hasattr"):
                    if name := _attribute(node):
                        yield name, statement.lineno
                elif isinstance(node, ast.Name | ast.Attribute) and (name := self._place(node)):
                    yield name, statement.lineno

    def _find_keys(self) -> None:
        """What says who an argument is, where a key is made of it or compared with it."""
        parents = {id(c): n for n in ast.walk(self.function) for c in ast.iter_child_nodes(n)}
        for _, own, _ in self._statements:
            for node in own:
                if isinstance(node, ast.Name):
                    if node.id in self.parameters and self._is_entry(node, parents[id(node)]):
                        self.entries[node.id] = frozenset({node.id})
                elif names := self._who(node, parents):
                    self.keys[ast.unparse(node)] = names

    def _who(self, node: ast.AST, parents: dict[int, ast.AST]) -> frozenset[str]:
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Is | ast.IsNot):
            sides = (node.left, node.comparators[0])
            given = {n.id for n in sides if isinstance(n, ast.Name)} & self.parameters
            is_none = any(isinstance(side, ast.Constant) for side in sides)
            return frozenset() if is_none else frozenset(given)
        names = frozenset(n.id for n in ast.walk(node) if isinstance(n, ast.Name)) & self.local
        names -= self._aliases.keys()
        is_call = isinstance(node, ast.Call) and last_name(node.func) in _WHO
        is_address = isinstance(node, ast.Attribute) and node.attr in _ADDRESSES
        return names if (is_call or is_address) and _is_key(node, parents) else frozenset()

    def _is_entry(self, node: ast.Name, parent: ast.AST) -> bool:
        """`_kept[x]`, `x in _kept` and `_kept.get(x)`: an array is found by who it is."""
        if isinstance(parent, ast.Subscript):
            return parent.slice is node and self._place(parent.value) != ""
        if isinstance(parent, ast.Compare):
            return isinstance(parent.ops[0], ast.In | ast.NotIn) and parent.left is node
        is_call = isinstance(parent, ast.Call) and isinstance(parent.func, ast.Attribute)
        if not is_call or not isinstance(parent, ast.Call):
            return False
        return last_name(parent.func) in _KEYED and self._place(parent.func) != ""

    def _target(self, target: ast.expr) -> str:
        if isinstance(target, ast.Name) and isinstance(target.ctx, ast.Store):
            return target.id if target.id in self._declared else ""
        if isinstance(target, ast.Call):
            return _attribute(target)
        name = self._place(target)
        is_being_made = self.function.name in ("__init__", "__post_init__", "setup_context")
        return "" if is_being_made and name.startswith("self") else name

    def _place(self, node: ast.expr) -> str:
        """What outlives the call behind `_c`, `_c[k].x`, `self._c.get(k)`, `x._c`; else empty."""
        attribute = ""
        while not isinstance(node, ast.Name):
            if isinstance(node, ast.Attribute):
                attribute = node.attr
            if not isinstance(node, ast.Attribute | ast.Subscript | ast.Call | ast.Starred):
                return ""
            node = node.func if isinstance(node, ast.Call) else node.value
        root = node.id
        if (root, attribute) in (("sys", "modules"), ("globals", ""), ("globals", "get")):
            return "globals()"
        if root in self._aliases:
            return self._aliases[root]
        if root in ("self", "cls") or root in self._classes:
            return f"{root}.{attribute}" if attribute not in ("", *_KEYED) else root
        if root in self.outliving:
            return root
        is_kept = root in self.parameters and attribute and attribute not in _DESCRIBING
        return f".{attribute}" if is_kept else ""


def _memoised(tree: ast.Module) -> Iterator[_Place]:
    """Functions that keep their results, by any name of what does it."""
    names = {a.asname or a.name for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)
             for a in n.names if a.name in MEMOISERS}  # fmt: skip
    modules = {a.asname or a.name for n in ast.walk(tree) if isinstance(n, ast.Import)
               for a in n.names}  # fmt: skip
    made: set[str] = set()
    says = "may keep the results of calls"
    who = {"its arguments": frozenset({"its arguments"})}

    def is_one(node: ast.AST) -> bool:
        if isinstance(node, ast.Name):
            return node.id in names
        if not isinstance(node, ast.Attribute) or node.attr not in MEMOISERS:
            return False
        return isinstance(node.value, ast.Name) and node.value.id in modules

    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign) and any(map(is_one, ast.walk(node))):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            bound = [t.id for t in targets if isinstance(t, ast.Name)]
            made |= set(bound)
            yield from (_Place(n, node.lineno, keys=dict(who), says=says) for n in bound)
        elif isinstance(node, Function):
            within = [n for d in node.decorator_list for n in ast.walk(d)]
            by_name = any(isinstance(n, ast.Name) and n.id in made for n in within)
            if (by_name or any(map(is_one, within))) and (node.args.args or node.args.vararg):
                can_be_counted = node in tree.body and len(node.decorator_list) == 1
                keys = {} if can_be_counted else dict(who)
                yield _Place(node.name, node.lineno, keys=keys, says=says)
            elif any(is_one(n) for s in node.body for n in ast.walk(s)):
                made.add(node.name)
                yield _Place(node.name, node.lineno, keys=dict(who), says=says)


def _statements(
    body: Iterable[ast.stmt], *, is_guarded: bool
) -> Iterator[tuple[ast.stmt, Sequence[ast.AST], bool]]:
    """Statements below, without those of functions inside; their own nodes; whether a test,
    or a way out, stands before them."""
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        blocks = [c for c in ast.iter_child_nodes(statement)
                  if isinstance(c, ast.stmt | ast.ExceptHandler | ast.match_case)]  # fmt: skip
        own = [n for c in ast.iter_child_nodes(statement) if c not in blocks for n in ast.walk(c)]
        yield statement, [statement, *own], is_guarded
        inside = is_guarded or isinstance(statement, _GUARDS)
        for block in blocks:
            within = [block] if isinstance(block, ast.stmt) else block.body
            yield from _statements(within, is_guarded=inside)
        leaves = blocks and any(isinstance(n, ast.Return) for n in ast.walk(statement))
        is_guarded = is_guarded or bool(leaves)


def _written(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.Assign):
        yield from (t for target in node.targets for t in _flat(target))
    elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.NamedExpr):
        yield node.target
    elif isinstance(node, ast.Call):
        name = last_name(node.func)
        is_in_place = name.endswith("_") and not name.startswith("_")
        if name == "setattr":
            yield node
        elif isinstance(node.func, ast.Subscript) or name in ("setitem", "copyto"):  # a launch
            yield from (a for a in node.args if isinstance(a, ast.Name | ast.Subscript))
        elif isinstance(node.func, ast.Attribute) and (name in _CHANGES or is_in_place):
            yield node.func.value


def _flat(target: ast.expr) -> Iterator[ast.expr]:
    if isinstance(target, ast.Tuple | ast.List):
        yield from (t for inner in target.elts for t in _flat(inner))
    else:
        yield target


def _is_key(node: ast.AST, parents: dict[int, ast.AST]) -> bool:
    """Whether an address or an identity is compared or looked up, rather than given to a kernel."""
    while (parent := parents.get(id(node))) is not None:
        if isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Mod | ast.BitAnd):
            size = parent.right
            if isinstance(size, ast.Constant) and size.value in range(_MOST_ALIGNED + 1):
                return False
        if isinstance(parent, ast.Call) and parent.func is not node:
            return last_name(parent.func) in (_KEYED | _WHO) or isinstance(parent.func, ast.Name)
        if isinstance(parent, ast.stmt):
            return isinstance(parent, ast.Assign | ast.AnnAssign | ast.Return)
        if isinstance(parent, ast.Compare | ast.Subscript | ast.NamedExpr | ast.Dict | ast.Lambda):
            return True
        node = parent
    return False


def _attribute(call: ast.Call) -> str:
    """`._half` of `setattr(x, "_half", ...)`, and of `getattr` and `hasattr`."""
    name = call.args[1] if len(call.args) > 1 else None
    is_text = isinstance(name, ast.Constant) and isinstance(name.value, str)
    return f".{name.value!s}" if is_text and isinstance(name, ast.Constant) else ""


def functions(tree: ast.AST) -> Iterator[Function]:
    """All of them, methods and inner ones too."""
    yield from (node for node in ast.walk(tree) if isinstance(node, Function))


def last_name(node: ast.expr) -> str:
    """`gelu` of `F.gelu` and of `gelu`; empty for what isn't a name or an attribute."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _bound(body: Iterable[ast.stmt]) -> Iterator[str]:
    for _, own, _ in _statements(body, is_guarded=False):
        yield from (n.id for n in own if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))


def parsed(text: str) -> ast.Module | None:
    """The syntax tree; None where there is none.

    Raises:
        RecursionError: Python may run it, but it is nested too deeply to be looked at.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError):
        return None
    except MemoryError as error:
        raise RecursionError from error


def is_unparsable(text: str) -> bool:
    """Whether this interpreter has no syntax tree of it, whatever another one has."""
    try:
        return parsed(text) is None
    except RecursionError:  # a hint, not a gap
        return False


def weights_in(text: str) -> frozenset[str]:
    """Names that a module's `setup` lists as `"weights"`; none in what can't be read."""
    try:
        tree = parsed(text)
    except RecursionError:
        return frozenset()
    return _declared_weights(tree) if tree is not None else frozenset()


def _declared_weights(tree: ast.Module) -> frozenset[str]:
    """Names that a dictionary lists under `"weights"`."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Dict):
            continue
        for key, value in zip(node.keys, node.values, strict=True):
            is_key = isinstance(key, ast.Constant) and key.value == "weights"
            if is_key and isinstance(value, (ast.List, ast.Tuple, ast.Set)):
                names = (e.value for e in value.elts if isinstance(e, ast.Constant))
                found |= {name for name in names if isinstance(name, str)}
    return frozenset(found)
