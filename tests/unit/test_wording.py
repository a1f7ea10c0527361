"""What differs is told in words, down to where it does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from campaign_builder import estimate, softmax_campaign
from hypothesis import given
from hypothesis import strategies as st

from roofsmith.domain.campaign import Kept, RolledBack
from roofsmith.domain.outcome import Crashed, Incorrect
from roofsmith.domain.values import Value
from roofsmith.domain.workload import ConfigClass
from roofsmith.engine.wording import LONGEST, MOST_DIFFERENCES, contrasted, in_words
from roofsmith.judge.crash_log import with_last_words
from roofsmith.redaction import KEY, Redaction
from roofsmith.wording import printable

SMALL = ConfigClass(name="small", workloads=("N=1",), reason="few")
LARGE = ConfigClass(name="large", workloads=("N=9",), reason="many")
WORSE = RolledBack(rule="a", regression=True)
WRONG = Incorrect(reason="wrong_output", detail="y")


@pytest.mark.parametrize(
    ("recorded", "follows", "words"),
    [
        (Kept(rule="a; b"), RolledBack(rule="c"), ('"kept: a; b"', '"rolled back: c"')),
        (RolledBack(rule="a"), RolledBack(rule="b"), ('"rolled back: a"', '"rolled back: b"')),
        (RolledBack(rule="a"), WORSE, ("regression no", "regression yes")),
        (2, 3, ("2", "3")),
        (None, 1 / 3, ("nothing", "0.333333")),
        (1.5, 1.5 + 1e-9, ("1.5", "1.500000001")),
        (True, False, ("yes", "no")),
        ("0a1b", "0a1c", ("0a1b", "0a1c")),
        (("a", "b"), ("a",), ('"[a, b]"', "[a]")),
        (None, WRONG, ("nothing", '"incorrect: detail y, reason wrong_output"')),
        ((SMALL, LARGE), (SMALL,), ('"[small, large]"', "[small]")),
        ((SMALL, LARGE), (SMALL, LARGE.model_copy(update={"workloads": ("N=8",)})),
         ("large workloads [N=9]", "large workloads [N=8]")),
    ],
)  # fmt: skip
def test_words(recorded: object, follows: object, words: tuple[str, str]) -> None:
    assert contrasted(recorded, follows) == words


def test_a_comparison_is_told_where_it_differs() -> None:
    comparison = softmax_campaign().rounds[0].judgement.comparison
    other = comparison.model_copy(update={"overall": estimate(1.5)})
    old, new = contrasted(comparison, other)
    assert old.startswith(f'"overall speedup {comparison.overall.speedup:.6g}, overall ci [')
    assert new.startswith('"overall speedup 1.5, overall ci [')


values = st.sampled_from(
    [
        value
        for round_ in softmax_campaign().rounds
        for value in (round_.decision, round_.judgement, round_.judgement.outcome, round_.profile)
    ]
)


@given(values, values)
def test_any_two_values_are_told_apart_without_their_representation(
    recorded: Value | None, follows: Value | None
) -> None:
    for text in contrasted(recorded, follows):
        assert len(text) < (MOST_DIFFERENCES + 1) * (LONGEST + 100)
        assert not re.search(r"\w+\(\w+=|\bNone\b|\bTrue\b|\bFalse\b", text)
        assert (recorded == follows) == (not text)
        assert "\n" not in text
    assert len(in_words(recorded)) <= LONGEST


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_two_numbers_never_read_alike(recorded: float, follows: float) -> None:
    old, new = contrasted(recorded, follows)
    assert (old == new) == (recorded == follows)


@given(st.text(st.characters(codec=None, exclude_categories=())))
def test_nothing_steers_a_terminal_or_breaks_an_encoding(text: str) -> None:
    shown = printable(text)
    assert all(one.isprintable() or one in "\n\t" for one in shown)
    assert shown.encode().decode() == shown
    assert printable(shown) == shown


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("\x1b[2J\x1b]0;faster\x07", r"\x1b[2J\x1b]0;faster\x07"),
        ("passed\r", r"passed\r"),
        ("\ud800", r"\ud800"),
        ("«a»:\n\tc", "«a»:\n\tc"),
        ("\u202eevil", r"\u202eevil"),
    ],
)
def test_what_an_outcome_says(said: str, shown: str) -> None:
    assert Crashed(reason="load_failed", detail=said).detail == shown


def test_last_words_are_printable_and_their_log_is_as_it_was(tmp_path: Path) -> None:
    log = tmp_path / "output.txt"
    log.write_bytes(b"\x1b[31mverdict: faster\xff")
    told = with_last_words(Crashed(reason="exited", detail="ended"), log)
    assert told.detail == r"ended; it printed: \x1b[31mverdict: faster" + "\ufffd"
    assert told.log.read_bytes() == log.read_bytes()
    told.log.unlink()


def test_values_are_replaced_by_their_names_the_longest_first() -> None:
    redacted = Redaction(
        {"A_KEY": "1", "B_TOKEN": "12345678", "MY_SECRETS": "12345678-9", "TOKENIZERS": "parallel",
         "ROOFSMITH_AGENT_TOKENS": "20000000"},
        {"HELD": "abcdefgh"},
    )  # fmt: skip
    text = "1 12345678 12345678-9 parallel 20000000 abcdefgh"
    assert redacted(text) == "1 <B_TOKEN> <MY_SECRETS> parallel 20000000 <HELD>"
    assert redacted.document({"12345678": ("abcdefgh", 3)}) == {"<B_TOKEN>": ["<HELD>", 3]}
    assert redacted.named_in([{"x": "in 12345678"}]) == "B_TOKEN"
    assert redacted.named_in("nothing") is None


@pytest.mark.parametrize("key", [
    "sk-ant-0123456789abcdefghij", "ghp_0123456789abcdefghij012345678", "AKIA0123456789ABCDEF",
    "hf_abcdefghijklmnopqrstuvwxyz012345", "xoxb-0123456789-abc", "AIza" + "x" * 35,
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTYifQ.abc-_",
    "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----",
])  # fmt: skip
def test_what_looks_like_a_key_goes(key: str) -> None:
    assert Redaction({})(f"it is {key}, yes") == f"it is {KEY}, yes"


def test_code_stays_as_it_is() -> None:
    code = "#pragma omp parallel for\ntask-scheduler-of-the-kernel sk-0 key = tokens[hf_index];"
    assert Redaction({})(code) == code
