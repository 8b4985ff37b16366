"""`slipway service ask`: the answers of two versions on a terminal and as a document."""

import json

import httpx2
import pytest

from slipway.cli import main
from slipway.cli.context import CliEnvironment

ANSWER = (
    'event: answer\ndata: {"status": 200, "milliseconds": 9}\n\n'
    'event: text\ndata: {"text": "Hel", "milliseconds": 12}\n\n'
    'event: text\ndata: {"text": "lo \\u001b[31m", "milliseconds": 30}\n\n'
    'event: end\ndata: {"problem": "", "completion_tokens": 2, "milliseconds": 31}\n\n'
)


def run(*arguments: str, asked: list[dict[str, object]], answer: httpx2.Response) -> int:
    def take(request: httpx2.Request) -> httpx2.Response:
        asked.append({"at": request.url.path, **json.loads(request.content)})
        return answer

    with pytest.raises(SystemExit) as ended:
        main(arguments, outside=CliEnvironment(transport=httpx2.MockTransport(take)))
    return int(ended.value.code or 0)


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLIPWAY_TOKEN", "slp_x")


def test_both_sides_answer_a_message(capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[dict[str, object]] = []
    sides = ("--side", "stable", "--side", "candidate")

    status = run(
        "service", "ask", "chat", "Hi", *sides, asked=asked, answer=httpx2.Response(200, text=ANSWER)
    )

    assert status == 0
    assert [(one["at"], one["side"]) for one in asked] == [
        ("/api/v1/services/chat/ask/", "stable"),
        ("/api/v1/services/chat/ask/", "candidate"),
    ]
    assert asked[0]["body"]["messages"] == [{"role": "user", "content": "Hi"}]  # type: ignore[index]
    shown = "Hello \N{REPLACEMENT CHARACTER}[31m"
    assert capsys.readouterr().out.splitlines() == ["stable:", shown, "candidate:", shown]


def test_a_program_gets_one_document_and_the_status_of_a_failed_answer(
    capsys: pytest.CaptureFixture[str],
) -> None:
    failed = ANSWER.replace("200", "500")

    status = run(
        "--output", "json", "service", "ask", "chat", "Hi", asked=[], answer=httpx2.Response(200, text=failed)
    )

    document = json.loads(capsys.readouterr().out)
    assert (status, document["status"], document["text"]) == (1, 500, "Hello \x1b[31m")
    assert document["first_milliseconds"] == 12


def test_a_refusal_is_told_in_the_servers_words(capsys: pytest.CaptureFixture[str]) -> None:
    refusal = httpx2.Response(409, json={"title": "Conflict", "detail": "No worker of chat:v2 is ready."})

    assert run("service", "ask", "chat", "Hi", asked=[], answer=refusal) == 1
    assert "No worker of chat:v2 is ready." in capsys.readouterr().err
