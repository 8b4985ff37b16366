"""What a request may say, and that everything else is named when it is refused."""

import json
from typing import Any

import pytest

from serving.openai import (
    Call,
    ChatPrompt,
    Message,
    OpenAiRoute,
    RequestFault,
    TextPrompt,
    TokenPrompt,
    read_call,
    text_request,
)

HELLO = [{"role": "user", "content": "Hello"}]


def call(route: OpenAiRoute = OpenAiRoute.CHAT, **body: Any) -> Call:
    if route is OpenAiRoute.CHAT:
        body.setdefault("messages", HELLO)
    else:
        body.setdefault("prompt", "Hello")
    return read_call(route, json.dumps(body).encode(), served=("talk", "chat:v1"))


def test_a_call_without_a_model_means_the_service() -> None:
    assert call().model == "talk"
    assert call(model="chat:v1").model == "chat:v1"


def test_usage_is_asked_for_in_the_stream_options() -> None:
    asked = call(stream=True, stream_options={"include_usage": True})
    assert (asked.stream, asked.include_usage) == (True, True)


def test_content_parts_of_text_are_joined() -> None:
    parts = [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}]
    request = text_request(call(messages=[{"role": "user", "content": parts}]))
    assert request.prompt == ChatPrompt((Message("user", "Hello"),))


def test_a_completion_has_sixteen_tokens_unless_it_says_otherwise() -> None:
    assert text_request(call(OpenAiRoute.COMPLETIONS)).sampling.max_tokens == 16
    assert text_request(call(OpenAiRoute.COMPLETIONS, max_tokens=3)).sampling.max_tokens == 3
    assert text_request(call()).sampling.max_tokens is None


def test_the_newer_name_of_max_tokens_wins_in_a_chat() -> None:
    assert text_request(call(max_tokens=9, max_completion_tokens=4)).sampling.max_tokens == 4


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("Hi", TextPrompt("Hi")),
        (["Hi"], TextPrompt("Hi")),
        ([1, 2], TokenPrompt((1, 2))),
        ([[1, 2]], TokenPrompt((1, 2))),
    ],
)
def test_a_prompt_is_text_or_token_ids(prompt: Any, expected: Any) -> None:
    assert text_request(call(OpenAiRoute.COMPLETIONS, prompt=prompt)).prompt == expected


def test_harmless_and_neutral_parameters_pass() -> None:
    text_request(
        call(user="u", metadata={"a": "b"}, n=1, logprobs=False, presence_penalty=0.0, tools=[], store=True)
    )


@pytest.mark.parametrize(
    ("route", "body", "param"),
    [
        (OpenAiRoute.CHAT, {"n": 2}, "n"),
        (OpenAiRoute.CHAT, {"logprobs": True}, "logprobs"),
        (OpenAiRoute.CHAT, {"tools": [{"type": "function"}]}, "tools"),
        (OpenAiRoute.CHAT, {"response_format": {"type": "json_object"}}, "response_format"),
        (OpenAiRoute.CHAT, {"frequency_penalty": 0.5}, "frequency_penalty"),
        (OpenAiRoute.CHAT, {"temperature": -0.1}, "temperature"),
        (OpenAiRoute.CHAT, {"temperature": "hot"}, "temperature"),
        (OpenAiRoute.CHAT, {"temperature": True}, "temperature"),
        (OpenAiRoute.CHAT, {"top_p": 0}, "top_p"),
        (OpenAiRoute.CHAT, {"top_p": 1.1}, "top_p"),
        (OpenAiRoute.CHAT, {"max_tokens": 0}, "max_tokens"),
        (OpenAiRoute.CHAT, {"max_tokens": 1.5}, "max_tokens"),
        (OpenAiRoute.CHAT, {"seed": "x"}, "seed"),
        (OpenAiRoute.CHAT, {"stop": ""}, "stop"),
        (OpenAiRoute.CHAT, {"stop": [1]}, "stop"),
        (OpenAiRoute.CHAT, {"stop": ["a"] * 17}, "stop"),
        (OpenAiRoute.CHAT, {"messages": []}, "messages"),
        (OpenAiRoute.CHAT, {"messages": ["hi"]}, "messages[0]"),
        (OpenAiRoute.CHAT, {"messages": [{"role": "robot", "content": ""}]}, "messages[0].role"),
        (OpenAiRoute.CHAT, {"messages": [*HELLO, {"role": "user"}]}, "messages[1].content"),
        (
            OpenAiRoute.CHAT,
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "messages[0].content[0]",
        ),
        (OpenAiRoute.COMPLETIONS, {"prompt": ["a", "b"]}, "prompt"),
        (OpenAiRoute.COMPLETIONS, {"prompt": [-1]}, "prompt"),
        (OpenAiRoute.COMPLETIONS, {"prompt": None}, "prompt"),
        (OpenAiRoute.COMPLETIONS, {"echo": True}, "echo"),
        (OpenAiRoute.COMPLETIONS, {"suffix": "!"}, "suffix"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(route: OpenAiRoute, body: dict[str, Any], param: str) -> None:
    with pytest.raises(RequestFault) as refusal:
        text_request(call(route, **body))
    assert refusal.value.status == 400
    assert refusal.value.document["error"]["param"] == param
    assert refusal.value.document["error"]["message"]


def test_a_body_nested_beyond_measure_is_refused() -> None:
    with pytest.raises(RequestFault, match="not JSON"):
        read_call(OpenAiRoute.CHAT, b"[" * 200_000, served=("talk",))
