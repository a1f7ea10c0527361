"""C code that cards add to kernels, from `templates/`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib import resources

from jinja2 import Environment, StrictUndefined, Template

from roofsmith.proposers.edits import SourceEdit
from roofsmith.proposers.reading import INSERTED_PREFIX
from roofsmith.proposers.source import Source
from roofsmith.proposers.syntax import text_of

_HELPER = re.compile(rf"\b{INSERTED_PREFIX}\w+")


def rendered(name: str, **values: object) -> str:
    """The C code of `templates/NAME.c.j2`.

    Elementary functions have no calls or branches, so that loops over them can be vectorised:
    range reduction and polynomials after Moshier's Cephes library (expf.c, exp.c, logf.c, tanhf.c,
    netlib.org/cephes) and Cody & Waite, "Software Manual for the Elementary Functions" (1980).
    Errors measured against the float64 library: under 2 ulp for the exponentials and the
    logarithm, under 3 ulp for tanh, over their whole range. NaN stays NaN; exp gives infinity past
    the overflow point, and 0 for results under twice the smallest normal number.
    """
    return _template(name).render(values)


def with_helpers(
    source: Source, edits: Sequence[SourceEdit], codes: Sequence[str]
) -> list[SourceEdit]:
    """The edits, and one that inserts those parts of `codes` that are used then and missing."""
    text = source.edited(edits).text
    parts = {name: part for code in codes for name, part in _parts(code).items()}
    known = {name for name in parts if _defines(source, name)}
    wanted, used = _HELPER.findall(text), set[str]()
    while wanted:
        name = wanted.pop()
        if name in parts and name not in used | known:
            used.add(name)
            wanted += _HELPER.findall(parts[name])
    code = "\n".join(part for name, part in parts.items() if name in used)
    return [*edits, source.insert_helpers(code)] if code else list(edits)


def _defines(source: Source, name: str) -> bool:
    typedef = rf"^typedef .*\b{name}\b"
    return source.function(name) is not None or bool(re.search(typedef, source.text, re.MULTILINE))


def _parts(code: str) -> dict[str, str]:
    """Each type and function of helpers' code with the comment in front of it, by name."""
    source = Source(code)
    names = {function.node.start_byte: function.name for function in source.functions}
    found, comment = {}, ""
    for node in source.root.named_children:
        if node.type == "comment":
            comment = f"{text_of(node)}\n"
            continue
        name = names.get(node.start_byte) or _HELPER.findall(text_of(node))[0]
        found[name], comment = comment + text_of(node), ""
    return found


@cache
def _template(name: str) -> Template:
    text = (resources.files(__package__) / "templates" / f"{name}.c.j2").read_text(encoding="utf-8")
    return Environment(undefined=StrictUndefined, autoescape=False).from_string(text)
