"""Endpoints as they are: answers in odd places, refused forms, errors that no waiting cures."""

from __future__ import annotations

import json
from typing import Any

import pytest
from chat_server import Rule, Sent, Served, call, chat, chatting, error, text

from roofsmith.domain.proposal import Proposal
from roofsmith.domain.refusal import BadAnswer
from roofsmith.proposers.model.endpoint import Endpoint
from roofsmith.proposers.model.proposer import ModelOptions, ModelProposer
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
}


@pytest.mark.parametrize(("sent", "word"), LASTING.values(), ids=LASTING)
def test_what_no_waiting_cures_is_asked_once(sent: Sent, word: str) -> None:
    answer, served = asked(lambda _, __: sent)
    assert isinstance(answer, BadAnswer)
    assert answer.reason == "unavailable"
    assert word in answer.detail
    assert json.loads(sent.body)["error"]["message"] in answer.detail
    assert len(served.requests) == 1
