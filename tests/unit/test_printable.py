"""Words of compilers, loaders and kernels, before they reach people and files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofsmith.domain.outcome import Crashed
from roofsmith.domain.values import printable
from roofsmith.judge.crash_log import with_last_words


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
