"""What every engine promises, seen through the worker's HTTP."""

import http.client
import json
import threading
from typing import Any

import pytest

from serving.protocol import CHOSEN_BY_HEADER
from tests.serving.workers import RunningWorker, wait_until

pytestmark = pytest.mark.stack

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
MESSAGES = [{"role": "user", "content": "Tell me a story about a fox and a dog."}]
PROMPT = "Once upon a time there was a fox"


def test_a_completion_is_whole(served: RunningWorker) -> None:
    answer = served.post(COMPLETIONS, prompt=PROMPT, max_tokens=5, temperature=0)
    assert answer.status_code == 200
    assert answer.headers["x-slipway-worker"] == "chat-1-0"
    assert ":" in answer.headers["x-slipway-version"]
    body = answer.json()
    assert body["object"] == "text_completion"
    assert body["model"] == "talk"
    assert body["choices"][0]["finish_reason"] == "length"
    assert body["choices"][0]["text"]
    assert body["usage"]["completion_tokens"] == 5
    assert body["usage"]["total_tokens"] == body["usage"]["prompt_tokens"] + 5


def test_a_chat_answer_is_whole(served: RunningWorker) -> None:
    body = served.post(CHAT, messages=MESSAGES, max_tokens=6, model="chat:v1").json()
    assert body["object"] == "chat.completion"
    assert body["model"] in ("chat:v1", "talk")  # vLLM says the first of its names
    assert body["choices"][0]["message"]["role"] == "assistant"
    assert body["choices"][0]["message"]["content"]
    assert body["usage"]["completion_tokens"] == 6


def test_a_stream_says_the_same_as_the_whole(served: RunningWorker) -> None:
    asked = {"prompt": PROMPT, "max_tokens": 12, "temperature": 0}
    whole = served.post(COMPLETIONS, **asked).json()["choices"][0]["text"]
    events = served.events(COMPLETIONS, **asked)
    assert len(events) > 3
    assert "".join(event["choices"][0]["text"] for event in events) == whole
    assert [event["choices"][0]["finish_reason"] for event in events][-1] == "length"


def test_a_chat_stream_names_the_role_once_and_says_the_same(served: RunningWorker) -> None:
    asked = {"messages": MESSAGES, "max_tokens": 12, "temperature": 0}
    whole = served.post(CHAT, **asked).json()["choices"][0]["message"]["content"]
    deltas = [event["choices"][0]["delta"] for event in served.events(CHAT, **asked)]
    assert [delta.get("role") for delta in deltas if "role" in delta] == ["assistant"]
    assert "".join(delta.get("content") or "" for delta in deltas) == whole


def test_usage_ends_a_stream_only_when_it_is_asked_for(served: RunningWorker) -> None:
    asked = {"prompt": PROMPT, "max_tokens": 4, "temperature": 0}
    *_, last = served.events(COMPLETIONS, **asked, stream_options={"include_usage": True})
    assert last["usage"]["completion_tokens"] == 4
    if served.engine != "llama.cpp":  # which tells it with the last piece, and always
        assert last["choices"] == []
        assert all(event["choices"] for event in served.events(COMPLETIONS, **asked))


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_ends_before_its_stop_string(served: RunningWorker, stream: bool) -> None:
    asked: dict[str, Any] = {"prompt": PROMPT, "max_tokens": 30, "temperature": 0}
    whole = served.post(COMPLETIONS, **asked).json()["choices"][0]["text"]
    stop = whole[len(whole) // 2 :][:3]
    before = whole[: whole.index(stop)]
    if stream:
        events = served.events(COMPLETIONS, **asked, stop=stop)
        text = "".join(event["choices"][0]["text"] for event in events)
        reason = events[-1]["choices"][0]["finish_reason"]
    else:
        choice = served.post(COMPLETIONS, **asked, stop=["never said", stop]).json()["choices"][0]
        text, reason = choice["text"], choice["finish_reason"]
    assert (text, reason) == (before, "stop")


def test_the_same_seed_says_the_same(served: RunningWorker) -> None:
    asked = {"prompt": PROMPT, "max_tokens": 20, "temperature": 1.0, "seed": 7}
    texts = {served.post(COMPLETIONS, **asked).json()["choices"][0]["text"] for _ in range(3)}
    assert len(texts) == 1


def test_the_models_it_answers_to_are_listed(served: RunningWorker) -> None:
    listed = served.client.get(f"{served.url}/v1/models").json()
    assert [model["id"] for model in listed["data"]] == ["talk", "chat", "chat:v1"]
    assert served.client.get(f"{served.url}/v1/models/chat:v1").json()["id"] == "chat:v1"
    assert served.client.get(f"{served.url}/v1/models/other").json()["error"]["code"] == "model_not_found"


@pytest.mark.parametrize(
    ("path", "content", "status", "message"),
    [
        (COMPLETIONS, b"{", 400, "not JSON"),
        (COMPLETIONS, b"[]", 400, "JSON object"),
        (COMPLETIONS, b'{"model": "gpt", "prompt": "x"}', 404, "'gpt' is not served here"),
        (CHAT, b'{"messages": [], "stream": 1}', 400, "stream must be true or false"),
        (CHAT, b'{"messages": [], "stream_options": {}}', 400, "stream_options needs stream"),
        ("/v1/images", b"{}", 404, "There is no /v1/images here"),
    ],
)
def test_a_faulty_request_is_refused_in_openais_shape(
    served: RunningWorker, path: str, content: bytes, status: int, message: str
) -> None:
    answer = served.client.post(f"{served.url}{path}", content=content)
    assert answer.status_code == status
    error = answer.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert message in error["message"]


def test_requests_tokens_and_latencies_are_counted(served: RunningWorker) -> None:
    before = served.metric("slipway_worker_tokens_total", direction="out")
    counted = served.metric("slipway_worker_requests_total", route=COMPLETIONS, code="200")
    first = served.metric("slipway_worker_time_to_first_token_seconds_count")
    between = served.metric("slipway_worker_time_per_output_token_seconds_count")
    served.events(COMPLETIONS, prompt=PROMPT, max_tokens=9, temperature=0)
    served.post(COMPLETIONS, prompt=PROMPT, max_tokens=2, temperature=0)
    assert served.metric("slipway_worker_tokens_total", direction="out") == before + 11
    assert served.metric("slipway_worker_requests_total", route=COMPLETIONS, code="200") == counted + 2
    assert served.metric("slipway_worker_time_to_first_token_seconds_count") >= first + 1
    assert served.metric("slipway_worker_time_per_output_token_seconds_count") >= between + 1
    assert served.metric("slipway_worker_ready") == 1
    assert served.metric("slipway_worker_slots") == 2


def test_answers_cut_off_at_their_limit_of_tokens_are_counted_where_the_gateway_chose(
    served: RunningWorker,
) -> None:
    def truncated() -> float:
        return served.metric("slipway_worker_indicator_requests_total", name="truncated", better="lower")

    before = truncated()
    asked: dict[str, Any] = {"prompt": PROMPT, "max_tokens": 30, "temperature": 0}
    text = served.post(COMPLETIONS, **asked).json()["choices"][0]["text"]
    assert truncated() == before + 1
    served.events(COMPLETIONS, **asked)
    assert truncated() == before + 2
    served.post(COMPLETIONS, **asked, stop=text[len(text) // 2 :][:3])
    served.client.post(f"{served.url}{COMPLETIONS}", json=asked, headers={CHOSEN_BY_HEADER: "client"})
    assert truncated() == before + 2


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_goes_away_frees_its_slot(served: RunningWorker, stream: bool) -> None:
    if served.engine == "llama.cpp" and not stream:
        pytest.skip("its tiny model answers before one could look")
    left = served.metric("slipway_worker_requests_total", route=COMPLETIONS, code="499")
    connection = http.client.HTTPConnection("127.0.0.1", served.port)
    body = {"prompt": PROMPT, "max_tokens": 400, "temperature": 0, "stream": stream}
    connection.request("POST", COMPLETIONS, json.dumps(body))
    if stream:
        assert connection.getresponse().read(20)
    else:
        wait_until(lambda: served.health()[1]["in_flight"] == 1)
    connection.close()
    wait_until(lambda: served.health()[1]["in_flight"] == 0, what="a free slot")
    counted = served.metric("slipway_worker_requests_total", route=COMPLETIONS, code="499")
    assert counted == left + 1


def test_more_than_slots_and_queue_hold_is_refused_with_a_time_to_come_back(served: RunningWorker) -> None:
    asked = {"prompt": PROMPT, "max_tokens": 200, "temperature": 0}
    statuses: list[int] = []
    threads = [
        threading.Thread(target=lambda: statuses.append(served.post(COMPLETIONS, **asked).status_code))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    wait_until(lambda: served.health()[1]["queue_depth"] == 1)
    refused = served.post(COMPLETIONS, **asked)
    assert refused.status_code == 429
    assert refused.json()["error"]["code"] == "queue_full"
    assert 1 <= int(refused.headers["retry-after"]) <= 30
    for thread in threads:
        thread.join()
    assert statuses == [200, 200, 200]
    health = served.health()[1]
    assert (health["in_flight"], health["queue_depth"]) == (0, 0)
    assert health["busy"] > 0
