"""Polynomials that indices are read as."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from roofsmith.proposers.affine import Atom, Polynomial

ATOMS = [Atom("n"), Atom("m"), Atom("i", 1), Atom("j", 2)]
POLYNOMIALS = st.lists(
    st.tuples(st.lists(st.sampled_from(ATOMS), max_size=2).map(tuple), st.integers(-3, 3)),
    max_size=4,
).map(Polynomial.of)


@given(POLYNOMIALS, POLYNOMIALS, POLYNOMIALS)
def test_polynomials_are_a_ring(x: Polynomial, y: Polynomial, z: Polynomial) -> None:
    assert x * (y + z) == x * y + x * z
    assert (x + y) + z == x + (y + z)
    assert x * y == y * x
    assert x - x == Polynomial()


@given(POLYNOMIALS)
def test_rendered_text_has_the_polynomials_value(x: Polynomial) -> None:
    values = {"n": 7, "m": 11, "i": 13, "j": 17}
    text = x.render().replace("(ptrdiff_t)", "")
    total = 0
    for monomial, factor in x.terms:
        for atom in monomial:
            factor *= values[atom.text]
        total += factor
    assert eval(text, {}, values) == total


@given(POLYNOMIALS)
def test_strides_and_offset_make_up_an_affine_index(x: Polynomial) -> None:
    if x.is_affine():
        i, j = Polynomial.symbol(ATOMS[2]), Polynomial.symbol(ATOMS[3])
        assert x == x.without([1, 2]) + x.stride(1) * i + x.stride(2) * j
