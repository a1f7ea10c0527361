"""What a tool printed is its own; its numbers in other words are claims."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from roofsmith.analysis.audit_quotes import READ, is_quoted

POWER = "71 W now, limit 700 W"
MEMORY = "80 GB of HBM3, 79 GB free"
CRASH = (
    "CUDA out of memory. GPU 0 has a total capacity of 79.11 GiB of which 1 GiB is free"
    " and 700 W is the cap of the board"
)
QUOTES = (POWER, MEMORY, CRASH, "132 SMs")
sentences = st.lists(
    st.text(alphabet="abcdefgh", min_size=2, max_size=9), min_size=4, max_size=8
).map(" ".join)


def quoted(text: str, number: str, quotes: tuple[str, ...] = QUOTES) -> bool:
    """Whether the last such number of a text is a tool's."""
    start = text.rindex(number)
    return is_quoted(text, start, start + len(number), quotes)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("| power | 71 W now, limit 700 W |", "700 W"),
        ("power: 71 W now, limit 700 W", "71 W"),
        ("limit 700 W", "700 W"),
        ("GPU: 80 GB of HBM3, 79 GB free", "80 GB"),
        ("it said: a total capacity of 79.11 GiB of which", "79.11 GiB"),
        ("of 79.11 GiB of which", "79.11 GiB"),
    ],
)
def test_the_words_of_a_tool(text: str, number: str) -> None:
    assert quoted(text, number)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("a TDP of 700 W", "700 W"),
        ("a TDP limit 700 W", "700 W"),
        ("80 GB HBM3", "80 GB"),
        ("the GPU has 80 GB", "80 GB"),
        ("80 GB", "80 GB"),
        ("9 GB free", "9 GB"),
        ("of 79.11 GiB of memory", "79.11 GiB"),
        ("this GPU has 79.11 GiB", "79.11 GiB"),
        ("132 SMs", "132 SMs"),
        ("all 132 SMs", "132 SMs"),
    ],
)
def test_the_same_number_in_other_words(text: str, number: str) -> None:
    assert not quoted(text, number)


@given(sentences, sentences, sentences, sentences)
def test_a_whole_sentence_is_found_wherever_it_stands(
    before: str, after: str, left: str, right: str
) -> None:
    printed = f"{before} 700 W {after}"
    assert quoted(f"{left}: {printed}; {right}", "700 W", (printed,))


@given(sentences, sentences, sentences, sentences)
def test_a_number_among_other_words_never_is(
    before: str, after: str, left: str, right: str
) -> None:
    assume(before[-2:] != left[-2:])
    assume(after[:2] != right[:2])
    assert not quoted(f"{left} 700 W {right}", "700 W", (f"{before} 700 W {after}",))
    assert not quoted("700 W", "700 W", (f"{before} 700 W {after}",))
    assert not quoted(f"{left} 700 W", "700 W", (f"{before} 700 W",))


@given(sentences, st.integers(1, 9))
def test_the_end_of_another_number_is_none(words: str, digit: int) -> None:
    assert len(words) > READ // 2
    assert not quoted(f"{words} 79 GB {words}", "79 GB", (f"{words} {digit}79 GB {words}",))
