"""Endpoints as they are: answers in odd places, refused forms, errors that no waiting cures."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from chat_server import Rule, Sent, Served, call, chat, chatting, error, text

from roofsmith.domain.proposal import Proposal
from roofsmith.domain.refusal import BadAnswer
from roofsmith.proposers.model.endpoint import Endpoint
from roofsmith.proposers.model.proposer import ModelOptions, ModelProposer
from roofsmith.proposers.model.refined import wait_in
from roofsmith.testing.engine import fake_target
from roofsmith.testing.proposer import FakeScreen, brief_for

pytestmark = pytest.mark.slow

BASE = fake_target().baseline
ANSWER: dict[str, Any] = {
    "statement": "Let the compiler know that the arrays do not overlap.",
    "rationale": "The loop can be vectorised without a check.",
    "evidence": ["B1"],
    "answers": "unknown",
    "files": {BASE.kernel.path: f"/* faster */\n{BASE.kernel.text}"},
}
SAID = json.dumps(ANSWER)
TAGGED = "".join(
    f"<parameter={name}>\n{value if isinstance(value, str) else json.dumps(value)}\n</parameter>\n"
    for name, value in ANSWER.items()
)
NAMED = ", ".join(f"{name}={value!r}" for name, value in ANSWER.items())


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def asked(rule: Rule, times: int = 1, **options: Any) -> tuple[Proposal | BadAnswer, Served]:
    with chatting(rule) as served:
        options = {"keys": lambda _: "key", "first_wait_s": 0.01} | options
        model = ModelProposer(Endpoint.parse("model:m", served.url), ModelOptions(**options))
        for _ in range(times):
            answer = model.ask(brief_for(BASE), FakeScreen())
        return answer, served


TEXTS = {
    "text-json": text(SAID),
    "fenced": text(f"Sure! Here is my proposal:\n\n```json\n{SAID}\n```\nLet me know."),
    "thinking": text(f"<think>\nThe loop {{x}} is simple.\n</think>\n{SAID}"),
    "empty": text("", SAID),
    "args-object": call(ANSWER),
    "fenced-args": call(f"```json\n{SAID}\n```"),
    "two-calls": {**call(SAID), "tool_calls": call(SAID)["tool_calls"] * 2},
    "other-tool": call(SAID, "final_result"),
    "between-tags": text(f"<tool_call>\n<function=propose>\n{TAGGED}</function>\n</tool_call>"),
    "as-python": text(f"```python\npropose({NAMED})\n```"),
    "python's-quotes": text(repr(ANSWER)),
    "commented": text(f"{SAID[:-1]}, // done\n}}"),
    "wrapped": call({"proposal": ANSWER}),
    "nulls": call({**ANSWER, "diff": None, "repair": None, "evidence": "B1"}),
    "a-field-too-many": call({**ANSWER, "confidence": 0.9}),
    "lists-as-text": call({**ANSWER, "files": json.dumps(ANSWER["files"])}),
    "spelt-out": text(f"```\n{json.dumps({'name': 'propose', 'arguments': ANSWER})}\n```"),
}


@pytest.mark.parametrize("message", TEXTS.values(), ids=TEXTS)
def test_an_answer_is_taken_wherever_it_stands(message: dict[str, Any]) -> None:
    answer, served = asked(lambda request, _: chat(request, message))
    assert isinstance(answer, Proposal), answer
    assert len(served.requests) == 1


FORMS = {
    "tools": ("tools", error(400, '`tool_choice` must be "auto", or "none"')),
    "streams": ("stream", error(400, "stream is not supported by this deployment")),
}


@pytest.mark.parametrize(("key", "refusal"), FORMS.values(), ids=FORMS)
def test_the_form_that_works_is_remembered(key: str, refusal: Sent) -> None:
    def rule(request: dict[str, Any], _: int) -> Sent:
        return refusal if request.get(key) else chat(request, text(SAID))

    answer, served = asked(rule, times=2)
    assert isinstance(answer, Proposal), answer
    assert len(served.requests) == 3


def test_a_server_without_a_json_mode_is_asked_for_plain_text() -> None:
    def rule(request: dict[str, Any], _: int) -> Sent:
        for field in ("tools", "response_format"):
            if request.get(field):
                return error(400, f"{field} is not supported")
        return chat(request, text(f"Here it is: {SAID}"))

    answer, served = asked(rule, times=2)
    assert isinstance(answer, Proposal), answer
    assert len(served.requests) <= 4


def test_a_stream_that_breaks_within_an_answer_is_asked_again() -> None:
    broken = {"error": {"message": "Upstream overloaded", "code": 502}}

    def rule(request: dict[str, Any], before: int) -> Sent:
        if before < 2:
            return chat(request, call(SAID[:60]), behind=broken)
        return chat(request, call(SAID))

    answer, served = asked(rule)
    assert isinstance(answer, Proposal), answer
    assert len(served.requests) == 3


def test_a_server_that_answers_a_stream_with_a_whole_is_asked_for_wholes() -> None:
    answer, served = asked(lambda _, __: chat({}, call(SAID)), times=2)
    assert isinstance(answer, Proposal), answer
    assert len(served.requests) == 3


def test_a_whole_answer_counts_though_its_stream_ends_in_an_error() -> None:
    broken = {"error": {"message": "worker died", "code": 500}}
    answer, served = asked(lambda request, _: chat(request, call(SAID), behind=broken))
    assert isinstance(answer, Proposal), answer
    assert len(served.requests) == 1


def test_a_cut_answer_is_called_cut_and_the_setting_named() -> None:
    answer, served = asked(lambda request, _: chat(request, text(SAID[:60]), "length"))
    assert isinstance(answer, BadAnswer)
    assert "cut off" in answer.detail
    assert "max_tokens" in answer.detail
    assert len(served.requests) == 1


def test_prose_names_the_servers_setting() -> None:
    answer, _ = asked(lambda request, _: chat(request, text("Use restrict.")))
    assert isinstance(answer, BadAnswer)
    assert "--enable-auto-tool-choice" in answer.detail
    assert "Use restrict." in answer.detail


HTML = Sent("<html><body><h1>502 Bad Gateway</h1></body></html>", 502, "text/html")
OVER = {"error": {"message": "Provider returned error", "code": 429}, "user_id": "u"}
PASSING = {
    "busy": error(429, "Slow down.", Retry_After="0"),
    "paid-later": error(402, "Balance is being reserved.", "payment", Retry_After="0"),
    "html": HTML,
    "error-in-200": Sent(json.dumps(OVER)),
    "error-finish": None,
    "error-in-stream": Sent(f"data: {json.dumps(OVER)}\n\n", kind="text/event-stream"),
}


@pytest.mark.parametrize("sent", PASSING.values(), ids=PASSING)
def test_what_passes_is_asked_again(sent: Sent | None) -> None:
    def rule(request: dict[str, Any], before: int) -> Sent:
        if before < 2:
            return sent or chat(request, text(""), "error")
        return chat(request, call(SAID))

    answer, served = asked(rule)
    assert isinstance(answer, Proposal), answer
    assert len(served.requests) == 3


def test_a_lasting_failure_is_told_in_the_providers_words() -> None:
    for sent, words in ((HTML, "502"), (Sent(json.dumps(OVER)), "Provider returned error")):
        answer, served = asked(lambda _, __, sent=sent: sent)
        assert isinstance(answer, BadAnswer)
        assert answer.reason == "failed"
        assert words in answer.detail
        assert "<" not in answer.detail
        assert len(served.requests) <= 10


LASTING = {
    "no-quota": (error(429, "You exceeded your current quota.", "insufficient_quota"), "credit"),
    "in words": (
        error(429, "You exceeded your current quota."),
        "credit",
    ),
    "unpaid": (error(402, "Insufficient credits.", "payment"), "credit"),
    "low credit": (error(400, "Your credit balance is too low to access the API."), "credit"),
    "key": (error(401, "The key expired.", "invalid_api_key"), "OPENAI_API_KEY"),
    "no-model": (error(404, "The model `m` does not exist.", "model_not_found"), "--base-url"),
    "long": (error(400, "This model's maximum context length is 2048 tokens."), "--max-model-len"),
    "day-quota": (error(429, "Daily limit reached.", Retry_After="32400"), "resume after"),
    "in the text": (error(429, "Limit of the day. Try again in 7h12m0s."), "7:12:00"),
    "in a header": (error(429, "Limit of the day.", X_RateLimit_Reset="9000"), "2:30:00"),
    "both": (error(429, "You exceeded your current quota. Please retry in 25200.5s."), "7:00:0"),
}


@pytest.mark.parametrize(("sent", "word"), LASTING.values(), ids=LASTING)
def test_what_no_waiting_cures_is_asked_once(sent: Sent, word: str) -> None:
    answer, served = asked(lambda _, __: sent)
    assert isinstance(answer, BadAnswer)
    assert answer.reason == "unavailable"
    assert word in answer.detail
    assert json.loads(sent.body)["error"]["message"] in answer.detail
    assert len(served.requests) == 1


NO_API = {
    "page": Sent("<html><body>Sign in</body></html>", kind="text/html"),
    "elsewhere": Sent("", 302, headers={"Location": "https://example.org/login"}),
}


@pytest.mark.parametrize("sent", NO_API.values(), ids=NO_API)
def test_what_is_no_endpoint_names_the_address(sent: Sent) -> None:
    answer, served = asked(lambda _, __: sent)
    assert isinstance(answer, BadAnswer)
    assert answer.reason == "unavailable"
    assert "--base-url" in answer.detail
    assert len(served.requests) == 1


@pytest.mark.parametrize(
    ("headers", "said", "wait_s"),
    [
        ({}, "Rate limit reached. Please try again in 2.5s.", 2.5),
        ({}, "resets in 9 h", 32400.0),
        ({}, "please wait 1 minute and 5 seconds", 65.0),
        ({}, '"retryDelay": "34s"', 34.0),
        ({"x-ratelimit-reset-requests": "6m0s", "x-ratelimit-reset-tokens": "20ms"}, "", 360.0),
        ({"x-ratelimit-reset": "12"}, "no more", 12.0),
        ({}, "Slow down.", None),
    ],
)
def test_a_wait_is_read_where_it_stands(
    headers: dict[str, str], said: str, wait_s: float | None
) -> None:
    assert wait_in(headers, said) == wait_s


def test_a_wait_may_be_a_time() -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    for value in (later.isoformat(), str(later.timestamp()), str(later.timestamp() * 1000)):
        assert wait_in({"anthropic-ratelimit-requests-reset": value}, "") == pytest.approx(
            3600, 0.1
        )
