"""Compression of prompts by a small model that has learnt to expect some sentences and not others."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from serving.openai import Call, OpenAiRoute
from serving.prompt_compression import CompressionSettings, PromptCompressor, protected
from tests.optimization.tiny import sentences, write_taught_model
from tests.serving.workers import RunningWorker, running

pytestmark = pytest.mark.process

EXPECTED = " ".join(sentences(12, seed=9))
SECRET = "Zanzibar quokka"
JSON = '{"unit": "kelvin", "limits": [20, 30]}'
TEXT = f"{EXPECTED} {SECRET} {JSON} {EXPECTED}"


@pytest.fixture(scope="module")
def version(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("version")
    write_taught_model(directory / "prompt-compressor")
    return directory


@pytest.fixture(scope="module")
def worker(version: Path) -> Iterator[RunningWorker]:
    """A worker whose engine repeats what it is given."""
    settings = {"prompt_share": 0.4}
    with running(version / "log", model_dir=version, settings=settings, slots=2) as found:
        yield found.until_ready()


def asked(worker: RunningWorker, *, switch: str = "on") -> Any:
    return worker.client.post(
        f"{worker.url}/v1/chat/completions",
        json={
            "messages": [{"role": "system", "content": EXPECTED}, {"role": "user", "content": TEXT}],
            "max_tokens": 100_000,
        },
        headers={"x-slipway-prompt-compression": switch},
    )


def test_a_prompt_loses_what_could_be_guessed_and_keeps_what_is_protected(worker: RunningWorker) -> None:
    answer = asked(worker)
    assert answer.status_code == 200
    said = answer.json()["choices"][0]["message"]["content"]
    counts = dict(one.split("=") for one in answer.headers["x-slipway-prompt-tokens"].split(", "))
    before, after = int(counts["before"]), int(counts["after"])
    assert 0.3 * before < after <= 0.41 * before
    assert float(answer.headers["x-slipway-prompt-compression-ms"]) > 0
    assert SECRET in said
    assert JSON in said
    whole = asked(worker, switch="off")
    assert TEXT in whole.json()["choices"][0]["message"]["content"]
    assert "x-slipway-prompt-tokens" not in whole.headers


def test_words_leave_by_what_they_say_and_never_those_with_digits(version: Path) -> None:
    stage = PromptCompressor(CompressionSettings(prompt_target=400), version)
    stage.load()
    found = stage.compress(f"{EXPECTED} {SECRET} order 4711 {EXPECTED}")
    assert found.after <= 400 < found.before
    assert SECRET in found.text
    assert "4711" in found.text
    messages = [{"role": "system", "content": EXPECTED}, {"role": "user", "content": EXPECTED}]
    call = Call(
        route=OpenAiRoute.CHAT, body={"messages": messages}, model="m", stream=False, include_usage=False
    )
    body, before, after = stage._shortened(call)
    assert body["messages"][0] == messages[0]
    assert len(body["messages"][1]["content"]) < len(EXPECTED)
    assert after < before
    short = "the cat sees it."
    assert stage.compress(short).text == short


def test_json_is_protected_as_a_whole_and_broken_json_is_text() -> None:
    from re import finditer

    text = 'see {"a": [1, {"b": "x y"}]} or {broken json'
    words = list(finditer(r"\S+\s*", text))
    assert [words[one][0].strip() for one in sorted(protected(text, words))] == [
        '{"a":',
        "[1,",
        '{"b":',
        '"x',
        'y"}]}',
    ]


def test_a_version_without_a_small_model_says_so(tmp_path: Path) -> None:
    with running(tmp_path / "log", model_dir=tmp_path, settings={"prompt_share": 0.5}) as worker:
        while (body := worker.health()[1])["state"] == "starting":
            pass
        assert body["state"] == "failed"
        assert "no small model in prompt-compressor/" in body["reason"]
