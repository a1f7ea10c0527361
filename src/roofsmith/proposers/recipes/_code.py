"""C code that cards add to kernels, from `templates/`."""

from __future__ import annotations

from functools import cache
from importlib import resources

from jinja2 import Environment, StrictUndefined, Template


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


@cache
def _template(name: str) -> Template:
    text = (resources.files(__package__) / "templates" / f"{name}.c.j2").read_text(encoding="utf-8")
    return Environment(undefined=StrictUndefined, autoescape=False).from_string(text)
