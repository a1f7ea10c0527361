"""Keys stay out of what is kept, whoever wrote it."""

from __future__ import annotations

import pytest

from roofsmith.redaction import KEY, Redaction


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
